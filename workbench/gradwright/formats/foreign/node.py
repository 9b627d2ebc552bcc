"""Nodes of other worlds, and what reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...errors import ArchiveError, GradwrightError, Site, describe_site, raised_at
from ...graph import Tensor, active_graph
from ...op.declare import REQUIRED, Attr
from ...spec import TensorSpec
from ...spec import dtype as as_dtype
from .attributes import settled, shown

Outputs = Callable[..., Sequence[TensorSpec]]


@dataclass(frozen=True)
class Foreign:
    """One use of an operator of another world.

    ``attributes`` are plain values: tensors as arrays, strings as text. ``wanted`` says which
    outputs somebody reads.
    """

    op_type: str
    version: int
    attributes: Mapping[str, Any] = field(default_factory=dict)
    wanted: tuple[bool, ...] = (True,)
    domain: str = ""
    name: str = ""

    def __getitem__(self, key: str) -> Any:
        if key not in self.attributes:
            raise ArchiveError(f"{self.op_type} lacks its attribute {key!r}")
        return self.attributes[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Return an attribute, or the default that the operator's specification states."""
        return self.attributes.get(key, default)

    def flag(self, key: str, default: bool = False) -> bool:
        """Return an attribute that is 0 or 1."""
        return bool(self.attributes.get(key, default))

    def dtype_of(self, value: Any) -> np.dtype[Any]:
        """Return the dtype that a value of this world names."""
        return as_dtype(value)


@dataclass(frozen=True)
class Reader:
    """How an operator becomes ops from a version of its domain on.

    ``values`` are inputs that ``read`` is given as arrays, for they are attributes of our ops;
    where they are known only when run, ``outputs`` says what can be said before. So it does where
    sizes are open that decide a rank, which ``waits(node, *specs)`` tells. ``attributes``
    are checked if they are declared. ``how`` says what it is, ``site`` where a user has written it.
    """

    read: Callable[..., Any]
    since: int
    values: tuple[int, ...] = ()
    outputs: Outputs | None = None
    takes_dims: bool = False
    attributes: Mapping[str, Attr] | None = None
    how: str = ""
    site: Site | None = None
    waits: Callable[..., bool] | None = None

    def __call__(self, node: Foreign, *xs: Any) -> Any:
        """Return what the node becomes; raises ArchiveError where its attributes do not fit.

        A user's reader is told from ours: its errors name its line, and what it returns is checked.
        """
        node = self.settled(node)
        if self.site is None:
            return self.read(node, *xs)
        try:
            ys = self.read(node, *xs)
        except GradwrightError as error:
            error.facts.append(f"raised at {raised_at(error)}, read by {self.says}")
            raise
        except Exception as error:
            raise ArchiveError(
                f"its reader failed: {type(error).__name__}: {error}",
                facts=[f"raised at {raised_at(error)}", f"read by {self.says}"],
            ) from error
        return self._checked(node, ys, {x.graph for x in xs if isinstance(x, Tensor)})

    def settled(self, node: Foreign) -> Foreign:
        """Return the node with its attributes as they are declared."""
        if self.attributes is None:
            return node
        found = settled(node.op_type, node.attributes, self.attributes, node.dtype_of)
        return replace(node, attributes=found)

    @property
    def says(self) -> str:
        """What it is, and where it is written."""
        how = self.how or f"function {getattr(self.read, '__name__', 'reader')}"
        line = describe_site(self.site)
        if not line and not self.how:
            code = self.read.__code__
            line = describe_site((code, code.co_firstlineno))
        return f"{how} ({line})" if line else how

    def _checked(self, node: Foreign, ys: Any, graphs: set[Any]) -> tuple[Any, ...]:
        """Return outputs that a user's reader has returned, if they are some."""
        found = tuple(ys) if isinstance(ys, (tuple, list)) else (ys,)
        for i, y in enumerate(found[: len(node.wanted)]):
            if isinstance(y, Tensor):
                fits = y.graph in graphs | {active_graph()}
                what = "a tensor of another graph"
            else:
                fits = isinstance(y, np.ndarray) or (y is None and not node.wanted[i])
                what = shown(y) if y is not None else "None"
            if not fits:
                raise ArchiveError(
                    f"its reader returned {what} for output {i}",
                    facts=[f"read by {self.says}"],
                    need="a tensor of the graph that is built, or an array",
                )
        if any(node.wanted[len(found) :]):
            raise ArchiveError(
                f"its reader returned {len(found)} of {len(node.wanted)} outputs",
                facts=[f"read by {self.says}"],
            )
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return what it is as JSON has it."""
        return {
            "since": self.since,
            "how": self.says,
            "values": list(self.values),
            "attributes": None
            if self.attributes is None
            else {name: as_dict(attr) for name, attr in self.attributes.items()},
        }


def as_dict(attr: Attr) -> dict[str, Any]:
    """Return the description of an attribute as JSON has it, without what is not stated."""
    default = None if attr.default is REQUIRED else attr.default
    plain = isinstance(default, (str, int, float, tuple)) or default is None
    stated = {
        "type": attr.type,
        "required": attr.default is REQUIRED or None,
        "default": (list(default) if isinstance(default, tuple) else default)
        if plain
        else str(default),
        "least": attr.least,
        "most": attr.most,
        "choices": list(attr.choices) or None,
        "doc": attr.doc or None,
    }
    return {key: value for key, value in stated.items() if value is not None}


Readers = Mapping[tuple[str, str], Sequence[Reader]]
"""(domain, operator) -> readers, oldest version first."""

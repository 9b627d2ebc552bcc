"""What a reader is given, an ONNX node without its protobuf, and the table readers stand in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ...errors import ArchiveError
from ...op import Op, find_op
from ...spec import Dim, TensorSpec
from ...spec import dtype as as_dtype

if TYPE_CHECKING:
    from ...graph import Tensor
    from .importer import Scope

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class OnnxNode:
    """One use of an ONNX operator.

    ``attributes`` are plain values: tensors as arrays, strings as text, sub-graphs as protobufs
    that ``scope`` builds. ``wanted`` says which outputs somebody reads.
    """

    op_type: str
    version: int
    attributes: Mapping[str, Any] = field(default_factory=dict)
    wanted: tuple[bool, ...] = (True,)
    domain: str = ""
    name: str = ""
    scope: Scope | None = None

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


MAX_RANK = 64
"""Axes that numpy's arrays have at most."""
Outputs = Callable[..., Sequence[TensorSpec]]


@dataclass(frozen=True)
class Reader:
    """How an operator becomes ops from an opset on.

    ``values`` are inputs that ``read`` is given as arrays, for they are attributes of our ops;
    where they are known only when run, ``outputs`` says what can be said before.
    """

    read: Callable[..., Any]
    since: int
    values: tuple[int, ...] = ()
    outputs: Outputs | None = None
    takes_dims: bool = False


READERS: dict[tuple[str, str], list[Reader]] = {}
"""(domain, operator) -> readers, oldest opset first."""

Read = TypeVar("Read", bound=Callable[..., Any])


def reads(
    *op_types: str,
    since: int,
    values: Sequence[int] = (),
    outputs: Outputs | None = None,
    takes_dims: bool = False,
    domain: str = "",
) -> Callable[[Read], Read]:
    """Enter a function ``(node, *inputs) -> tensor or tensors`` as reader of operators.

    ``outputs(node, *specs)`` returns the output specs as far as they are known without the values;
    by default like the first input, with sizes that are not known. With ``takes_dims`` the values
    may hold symbolic sizes.
    """

    def enter(read: Read) -> Read:
        made = Reader(read, since, tuple(values), outputs, takes_dims)
        for op_type in op_types:
            held = READERS.setdefault((domain, op_type), [])
            held.append(made)
            held.sort(key=lambda r: r.since)
        return read

    return enter


def open_dims(rank: int, dtype: Any) -> TensorSpec:
    """Return a spec of a rank, its sizes known only when run."""
    if not 0 <= rank <= MAX_RANK:
        raise ArchiveError(f"a tensor of rank {rank}", need=f"{MAX_RANK} axes at most")
    return TensorSpec([Dim.fresh("onnx") for _ in range(rank)], dtype)


def like_first(node: OnnxNode, x: TensorSpec, *others: TensorSpec | None) -> list[TensorSpec]:
    """Return outputs of the rank and dtype of the first input."""
    return [open_dims(x.rank, x.dtype) for _ in node.wanted]


def known_value(spec: TensorSpec | None, takes_dims: bool = False) -> Array | None:
    """Return what is known of the value of an input: ints, or also dims if they are taken."""
    if spec is None or spec.value is None:
        return None
    array = np.asarray(spec.value)
    if any(isinstance(d, Dim) for d in array.flat):
        return array if takes_dims else None
    return array.astype(spec.dtype)


def op(name: str, **attrs: Any) -> Op:
    """Return an op by its registered name, wherever it is defined."""
    return find_op(name)(**attrs)


def cast(x: Tensor, dtype: Any) -> Tensor:
    """Return ``x`` in a dtype, unchanged if it has it."""
    wanted = as_dtype(dtype)
    return x if x.dtype == wanted else op("cast", dtype=wanted)(x)


def ints(value: Any) -> tuple[Any, ...] | None:
    """Return an array or attribute of integers (or dims) as a tuple, None as None."""
    return None if value is None else tuple(np.asarray(value).reshape(-1).tolist())


def one(value: Any) -> Any:
    """Return the number in an array of one element."""
    array = np.asarray(value)
    if array.size != 1:
        raise ArchiveError(f"an input has {array.size} elements", need="one")
    return array.reshape(-1)[0] if array.dtype == object else array.item()

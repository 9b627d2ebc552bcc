"""Ops that an archive names and this installation does not know: drawn and saved, never run."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from ...errors import UnsupportedOpError
from ...op import OPS, Op
from ...op.declare import Frozen, identity


class UnknownOp(Op):
    """Stands for an op that is not registered, or only in an older version; keeps all it was given.

    It has a name, a version and attributes like any op, so it can be drawn and saved again without
    loss. Whatever needs its meaning (shapes, numbers, gradients) raises UnsupportedOpError, which
    names all unknown ops of the archive at once.

    >>> import gradwright as gw, tempfile, pathlib
    >>> @gw.register("me/double")
    ... class Double(gw.Op):
    ...     '''Twice the input.'''
    ...     def expand(self, x): return x + x
    >>> g = gw.Graph()
    >>> y = Double()(g.placeholder("x", (2,)), name="y")
    >>> path = pathlib.Path(tempfile.mkdtemp(), "double.gw")
    >>> g.save(path)
    >>> del gw.op.OPS["me/double"]  # as if another notebook loaded it
    >>> g2 = gw.load(path)
    >>> g2["y"].op.reason, str(g2["y"].spec)
    ('is not registered', 'f32[2]')
    """

    version: int  # type: ignore[misc]
    n_public: int | None  # type: ignore[misc]
    reason: str

    def __init__(
        self,
        *,
        name: str,
        version: int,
        attributes: Mapping[str, Any],
        reason: str,
        n_public: int | None = None,
        peers: dict[str, str] | None = None,
    ) -> None:
        peers = {} if peers is None else peers
        peers[name] = reason
        self.__dict__.update(
            name=name, version=version, n_public=n_public, reason=reason,
            _attributes=MappingProxyType(dict(attributes)), _peers=peers,
        )  # fmt: skip

    @functools.cached_property
    def _key(self) -> tuple[Any, ...]:
        items = tuple((k, identity(v)) for k, v in self.__dict__["_attributes"].items())
        return type(self), self.name, self.version, self.n_public, items

    def attributes(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return dict(self.__dict__["_attributes"])

    def replace(self, **changes: Any) -> Op:
        """Return the op with some attributes changed."""
        self._refuse()

    def for_mode(self, training: bool) -> Op:
        """Return the op itself: what its attributes mean is not known."""
        return self

    def bind(self, sizes: Mapping[str, int]) -> Op:
        """Return the op itself."""
        return self

    def infer(self, *specs: Any) -> Any:
        """Raise: the archive states the specs."""
        self._refuse()

    def forward(self, *xs: Any) -> Any:
        """Raise: the archive holds no code."""
        self._refuse()

    def vjp(self, gs: Sequence[Any], ys: Sequence[Any], xs: Sequence[Any]) -> Sequence[Any]:
        """Raise: the gradient is not known either."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        peers: dict[str, str] = self.__dict__["_peers"]
        raise UnsupportedOpError(
            "this graph was loaded with ops that cannot be run here",
            facts=[f"{name!r} {reason}" for name, reason in sorted(peers.items())],
            hint="install or define them (@gw.register), or name the module that does: "
            'gw.load(path, ops=["my_module"])',
        )


OPS.pop(UnknownOp.name, None)  # it stands for names that are not in the registry


class UnknownMember(Frozen):
    """A member of an enum that only the unknown op knows, such as ``Reduction.MEAN``."""

    def __init__(self, enum: str, member: str) -> None:
        self.enum, self.member = enum, member

    def content(self) -> Any:
        """Return both names."""
        return self.enum, self.member

    def __repr__(self) -> str:
        return f"{self.enum}.{self.member}"

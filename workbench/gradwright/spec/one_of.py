"""Tensors whose rank only a run tells: one spec for each rank that there may be.

Branches of two ranks make such a tensor, a squeeze of sizes that are not known, a loop whose carry
grows an axis. An op on one is inferred for each rank; ranks that it refuses are none that the
tensor may have. A plan knows sizes, so there is none in it: what a run decides ends a segment.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import DTypeLike

from ..errors import DTypeError, ShapeError
from .containers import ContainerSpec, join
from .dims import AnyDim, Dim
from .tensor import Shape, TensorSpec


class OneOf(TensorSpec):
    """A tensor that has one of several specs of different rank; made by :func:`one_of`."""

    __slots__ = ("options",)

    def __init__(self, options: Sequence[TensorSpec]) -> None:
        self.options = tuple(options)
        self.dtype, self.value = options[0].dtype, None

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        """Refuse: nobody knows it before a run."""
        raise ShapeError(
            f"the rank of {self} is known only when it runs",
            hint="gw.reshape to a shape of known rank",
        )

    @property
    def is_concrete(self) -> bool:
        """False: which of them it is, is not known."""
        return False

    def of_rank(self, rank: int) -> TensorSpec:
        """Return the spec of a rank; the first one where it cannot have that."""
        return next((s for s in self.options if s.rank == rank), self.options[0])

    def with_shape(self, shape: Sequence[AnyDim]) -> TensorSpec:
        """Return the spec of a tensor of that shape."""
        return TensorSpec(shape, self.dtype)

    def with_dtype(self, dtype_: DTypeLike) -> TensorSpec:
        """Return the spec with another dtype."""
        return OneOf([s.with_dtype(dtype_) for s in self.options])

    def bare(self) -> TensorSpec:
        """Return it without values, of which it has none."""
        return self

    def substitute(self, sizes: Mapping[str, int]) -> TensorSpec:
        """Return the spec with known symbols replaced."""
        return OneOf([s.substitute(sizes) for s in self.options])

    def key(self) -> tuple[Any, ...]:
        """Return a hashable identity."""
        return ("one of", *(s.key() for s in self.options))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OneOf) and self.options == other.options

    def __hash__(self) -> int:
        return hash(self.options)

    def __repr__(self) -> str:
        first, *between, last = self.options
        return "|".join(map(str, (first, *(between if len(between) < 2 else ["..."]), last)))


def options(spec: TensorSpec) -> tuple[TensorSpec, ...]:
    """Return the specs that a tensor may have: mostly one."""
    return spec.options if isinstance(spec, OneOf) else (spec,)


def sizes_in(spec: TensorSpec) -> tuple[AnyDim, ...]:
    """Return the sizes of a spec, or of all that a tensor may have."""
    return tuple(d for s in options(spec) for d in s.shape)


def one_of(specs: Iterable[TensorSpec], kept: Iterable[AnyDim] = ()) -> TensorSpec:
    """Return the spec of a value that has one of several: of a tensor, for each rank one.

    Sizes that differ become new ones, but for those of the first that are ``kept``. Raises
    DTypeError where dtypes differ, ShapeError where containers do not fit together.

    >>> from gradwright.spec.one_of import one_of
    >>> one_of([TensorSpec((2, 3)), TensorSpec((3,)), TensorSpec((2, 3))])
    f32[3]|f32[2, 3]
    """
    each = [s for given in specs for s in options(given)]
    if any(isinstance(s, ContainerSpec) for s in each):
        return functools.reduce(join, each)
    held = set(kept)
    found: dict[int, TensorSpec] = {}
    for spec in each:
        first = found.setdefault(spec.rank, spec)
        if first.dtype != next(iter(found.values())).dtype or spec.dtype != first.dtype:
            raise DTypeError(f"{spec} and {first} cannot stand in one place", need="one dtype")
        dims = [
            p if p == q or p in held else Dim.fresh("either")
            for p, q in zip(first.shape, spec.shape, strict=True)
        ]
        if dims != list(first.shape):
            found[spec.rank] = TensorSpec(dims, spec.dtype)
    if len(found) == 1:
        return next(iter(found.values()))
    return OneOf([found[rank] for rank in sorted(found)])


def narrowed(given: TensorSpec, stated: TensorSpec) -> TensorSpec:
    """Return a spec, of those that a tensor may have the one of the rank that is stated."""
    return given if isinstance(stated, OneOf) else given.of_rank(stated.rank)


def may_be(given: TensorSpec, stated: TensorSpec) -> bool:
    """Tell whether a tensor of a spec may be one of another, as far as dtype and rank say.

    >>> from gradwright.spec.one_of import may_be, one_of
    >>> either = one_of([TensorSpec((3,)), TensorSpec((2, 3))])
    >>> may_be(either, TensorSpec((5,))), may_be(TensorSpec(()), either)
    (True, False)
    """
    ranks = {s.rank for s in options(given)} & {s.rank for s in options(stated)}
    return given.dtype == stated.dtype and bool(ranks)

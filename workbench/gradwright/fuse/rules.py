"""How ops become kernel terms: the table, and how the tensors of an op lie in its index space."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..op import Op
from ..spec import TensorSpec, dtype, kind, promote
from .builder import BOOL, FLOAT32, Axes, Term, call

Specs = Sequence[TensorSpec | None]
Build = Callable[..., Any]
"""``build(op, place, *terms)`` returns a term, or one per output, or raises DeclinedError."""

VALUES = frozenset(map(np.dtype, ("bool", "int32", "int64", "float32", "float64")))
"""The dtypes in which kernels compute."""
HALVES = frozenset(map(dtype, ("float16", "bfloat16")))
"""Dtypes of which kernels read and write arrays, while they compute in float32."""
NARROW = frozenset(map(np.dtype, ("int8", "uint8", "int16", "uint16")))
"""Dtypes that kernels only read, to cast them."""
OF_DTYPE = frozenset({"nan_to_num"})
"""Ops that are another function for each dtype, so that halves are not to be widened; so are those
that round each of their steps (``rounded``)."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the tensors of an op lie: for each of their axes the axis of ``space`` it runs along.

    An input of which only the shape is read has no place. Where indices name the places of an axis,
    it is −1, or below if there are several. The last ``n_columns`` axes are those over which the op
    reduces, 0 if it does not. ``sums`` are outputs that are added up over the axes they lack, or
    scattered; they are known only when the whole kernel has run.
    """

    space: tuple[int, ...]
    ins: tuple[Axes | None, ...]
    outs: tuple[Axes, ...]
    n_columns: int = 0
    sums: frozenset[int] = frozenset()

    @property
    def columns(self) -> int:
        """The number of elements that a row has."""
        return math.prod(self.space[len(self.space) - self.n_columns :])


Locate = Callable[[Any, Specs, Sequence[TensorSpec]], Place | None]


@dataclass(frozen=True, slots=True)
class Rule:
    """How one op is computed in a kernel: where its tensors lie, and what its outputs are."""

    build: Build
    locate: Locate


RULES: dict[str, Rule] = {}
"""The rules by name of op; all ops that are one function of elements have the rule `ELEMENT`."""


def rule(*names: str, locate: Locate) -> Callable[[Build], Build]:
    """Register how ops are built."""

    def decorate(build: Build) -> Build:
        for name in names:
            RULES[name] = Rule(build, locate)
        return build

    return decorate


def rule_of(op: Op) -> Rule | None:
    """Return how an op is computed in a kernel, if it may be.

    >>> from gradwright.ops.core.exponential import Exp
    >>> rule_of(Exp()) is ELEMENT
    True
    """
    return ELEMENT if op.element else RULES.get(op.name)


def has_rule(op: Op, ins: Specs, outs: Sequence[TensorSpec]) -> bool:
    """Tell whether an op becomes part of a kernel on these specs.

    >>> from gradwright.ops.core.activation import Relu
    >>> has_rule(Relu(), [TensorSpec((2, 3))], [TensorSpec((2, 3))])
    True
    """
    return find_place(op, ins, outs) is not None


def find_place(op: Op, ins: Specs, outs: Sequence[TensorSpec]) -> Place | None:
    """Return where the tensors of an op lie, or None if kernels do not take it on these specs."""
    found = rule_of(op)
    if found is None or not type(op).__module__.startswith("gradwright."):
        return None
    as_given = op.name in OF_DTYPE or getattr(op, "rounded", False)
    taken = VALUES if as_given else VALUES | HALVES
    read = taken | NARROW if op.name == "cast" else taken
    for i, s in enumerate(ins):
        if s is not None and i not in op.shape_only and s.dtype not in read:
            return None
    if any(s.dtype not in taken or not s.is_concrete for s in outs):
        return None
    place = found.locate(op, ins, outs)
    if place is not None and any(outs[i].dtype in HALVES for i in place.sums):
        return None  # sums add up in memory
    return place


# -- places ---------------------------------------------------------------------------------------


def broadcast(op: Op, ins: Specs, outs: Sequence[TensorSpec]) -> Place | None:
    """Place tensors as numpy broadcasts them; all outputs have one shape."""
    space: Any = outs[0].shape
    n = len(space)
    if any(s.shape != space for s in outs):
        return None
    return Place(
        space,
        tuple(
            None if s is None or i in op.shape_only else tuple(range(n - s.rank, n))
            for i, s in enumerate(ins)
        ),
        (tuple(range(n)),) * len(outs),
    )


def without(axes: Axes, rank: int) -> Axes:
    """Return the axes of a space that are not among ``axes``."""
    return tuple(i for i in range(rank) if i not in axes)


def reduced(x: TensorSpec, axes: Axes, y: TensorSpec) -> Axes:
    """Return where a reduction over ``axes`` lies, whether or not it keeps them."""
    return tuple(range(x.rank)) if y.rank == x.rank else without(axes, x.rank)


def trailing(axes: Axes, rank: int) -> bool:
    """Tell whether axes are the last ones, and not all."""
    return 0 < len(axes) < rank and axes == tuple(range(rank - len(axes), rank))


# -- ops that are one function of elements --------------------------------------------------------

OF_BOOLS = {"add": "or", "mul": "and", "maximum": "or", "minimum": "and"}


def _element(op: Any, at: Place, *xs: Term) -> Term:
    name, dtype = op.element, joint(*xs)
    if name == "div" and dtype.kind != "f":
        dtype = FLOAT32
    if dtype == BOOL:
        name = OF_BOOLS.get(name, name)
    return call(name, *(x.to(dtype) for x in xs))


ELEMENT = Rule(_element, broadcast)


# -- dtypes ---------------------------------------------------------------------------------------


def joint(*terms: Term) -> np.dtype[Any]:
    """Return the common dtype of terms, by the rules of specs."""
    found = terms[0].dtype
    for t in terms[1:]:
        found = promote(found, t.dtype)
    return found


def is_float(x: Any) -> bool:
    """Tell whether a term or spec is floating."""
    return bool(kind(x.dtype) == "f")

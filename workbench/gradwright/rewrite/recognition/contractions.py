"""The two products of attention, as matrices or by labels, in the order of axes that ops take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...graph import Tensor
from ...ops.core.movement import Transpose
from ...ops.matrices.einsum import Einsum, parse
from .heads import turned
from .view import Step, View

Axes = tuple[int, ...] | None
"""An order of axes; None where they stand as they are taken."""


class Scored(NamedTuple):
    """The product of queries and keys."""

    step: Step
    query: int
    key: int
    query_axes: Axes = None
    key_axes: Axes = None
    is_turned: bool = True
    """Whether the keys are ``[…, E, S]``."""


class Averaged(NamedTuple):
    """The product of weights and values."""

    step: Step
    value: int
    value_axes: Axes = None
    result_axes: Axes = None


def scored(at: View, step: Step) -> Scored | None:
    """Return queries and keys of a product that gives ``[…, T, S]``."""
    a, b = (*step.ins, None, None)[:2]
    if a is None or b is None:
        return None
    if step.op.name == "matmul":
        return Scored(step, a, b)
    if not isinstance(step.op, Einsum) or len(step.ins) != 2:
        return None
    (first, second), out = parse(step.op.equation, (at.spec(a).rank, at.spec(b).rank))
    *lead, t, s = out
    if t in second and s in first:  # keys come first
        a, b, first, second = b, a, second, first
    summed = {*first} & {*second} - {*out}
    if len(summed) != 1 or {*first} != {*lead, t, *summed} or {*second} != {*lead, s, *summed}:
        return None
    if len(first) != len(out) or len(second) != len(out):
        return None
    orders = _order(first, (*lead, t, *summed)), _order(second, (*lead, s, *summed))
    return Scored(step, a, b, *orders, is_turned=False)


def averaged(at: View, step: Step, weights: int | None) -> Averaged | None:
    """Return values of a product with weights ``[…, T, S]``."""
    a, b = (*step.ins, None, None)[:2]
    if a is None or b is None or weights not in (a, b) or a == b:
        return None
    if step.op.name == "matmul":
        return Averaged(step, b) if a == weights else None
    if not isinstance(step.op, Einsum) or len(step.ins) != 2:
        return None
    terms, out = parse(step.op.equation, (at.spec(a).rank, at.spec(b).rank))
    value = b if a == weights else a
    own, other = terms if a == weights else terms[::-1]
    *lead, t, s = own
    kept = {*other} - {*lead, s}
    if len(kept) != 1 or t in other or {*other} != {*lead, s, *kept}:
        return None
    natural = (*lead, t, *kept)
    if {*out} != {*natural} or len(other) != len(own) or len(out) != len(own):
        return None
    return Averaged(step, value, _order(other, (*lead, s, *kept)), _order(natural, out))


def _order(labels: Sequence[str], wanted: Sequence[str]) -> Axes:
    """Return the axes of some labels in another order; None if it is their own."""
    axes = tuple(labels.index(c) for c in wanted)
    return None if axes == tuple(range(len(axes))) else axes


def arranged(at: View, tensor: Tensor, axes: Axes) -> Tensor:
    """Return a tensor with its axes in an order."""
    return tensor if axes is None else at.build(Transpose(axes=axes), tensor)


def keys(at: View, value: int, product: Scored) -> Tensor:
    """Return keys as ``[…, S, E]``."""
    return (
        turned(at, value) if product.is_turned else arranged(at, at.tensor(value), product.key_axes)
    )

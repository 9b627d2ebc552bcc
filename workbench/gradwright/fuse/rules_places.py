"""Rules of ops that take elements from where indices say, or join them to what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..spec import TensorSpec, normalize_axis
from .builder import INT64, Axes, Scatter, Table, Term
from .ir import Beyond
from .rules import Locate, Place, Specs, rule

Lie = Callable[[Any, TensorSpec, TensorSpec], tuple[Axes, Axes] | None]
"""Where a table and indices lie in the space of what is named."""


def taking(lie: Lie) -> Locate:
    """Place ``op(table, indices)``, whose output is what is named."""

    def locate(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Place | None:
        table, indices = ins
        assert table is not None and indices is not None
        return _placed(op, outs[0], table, indices, lie)

    return locate


def giving(lie: Lie) -> Locate:
    """Place ``op(values, indices, …)``, whose output is the table that they go to."""

    def locate(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Place | None:
        values, indices = ins[:2]
        assert values is not None and indices is not None
        found = _placed(op, values, outs[0], indices, lie)
        if found is None:
            return None
        axes, at = found.ins
        rest = (None,) * (len(ins) - 2)
        return Place(found.space, (*found.outs, at, *rest), (axes or (),), sums=frozenset({0}))

    return locate


def writing(lie: Lie) -> Locate:
    """Place ``op(table, indices, values)``, whose output is the table with what they become."""

    def locate(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Place | None:
        table, indices, values = ins
        assert table is not None and indices is not None and values is not None
        if table.dtype != outs[0].dtype:
            return None
        found = giving(lie)(op, [values, indices], outs)
        if found is None:
            return None
        (of_values, of_indices), (axes,) = found.ins, found.outs
        return Place(found.space, (axes, of_indices, of_values), (axes,), sums=found.sums)

    return locate


def _placed(
    op: Any, values: TensorSpec, table: TensorSpec, indices: TensorSpec, lie: Lie
) -> Place | None:
    if not (table.is_concrete and values.is_concrete):
        return None
    found = lie(op, table, indices)
    if found is None or any(
        a < 0 and int(n) < 2 for a, n in zip(found[0], table.shape, strict=True)
    ):
        return None
    space: Any = values.shape
    return Place(space, found, (tuple(range(values.rank)),))


# -- slices along an axis -------------------------------------------------------------------------


def _slices(op: Any, table: TensorSpec, indices: TensorSpec) -> tuple[Axes, Axes]:
    axis, more = normalize_axis(op.axis, table.rank), indices.rank - 1
    axes = tuple(i if i < axis else -1 if i == axis else i + more for i in range(table.rank))
    return axes, tuple(range(axis, axis + indices.rank))


def _along(op: Any, table: TensorSpec, indices: TensorSpec) -> tuple[Axes, Axes] | None:
    if op.corner:
        return None
    axis, axes = normalize_axis(op.axis, table.rank), tuple(range(table.rank))
    return tuple(-1 if i == axis else i for i in axes), axes


@rule("gather", locate=taking(_slices))
@rule("take_along_axis", locate=taking(_along))
def _take(op: Any, at: Place, table: Table, indices: Term) -> Term:
    return table.at(indices)


@rule("gather_grad", locate=giving(_slices))
@rule("take_along_axis_grad", locate=giving(_along))
def _add_up(op: Any, at: Place, g: Term, indices: Term, like: None) -> Scatter:
    return Scatter(g, (indices,), "sum")


@rule("scatter_update", "scatter_max", "scatter_min", locate=writing(_along))
def _write(op: Any, at: Place, table: Table, indices: Term, x: Term) -> Scatter:
    return Scatter(x.to(table.dtype), (indices,), _how(op), onto=table)


def _how(op: Any) -> str:
    """Return how an op joins values to what is at their places: as the last word of its name."""
    word: str = op.name.rpartition("_")[2]
    return "set" if word == "update" else word


# -- coordinates ----------------------------------------------------------------------------------


def _coordinates(op: Any, table: TensorSpec, indices: TensorSpec) -> tuple[Axes, Axes] | None:
    n, lead = indices.shape[-1], indices.rank - 1
    if not isinstance(n, int):
        return None
    named = tuple(~k for k in range(n))
    rest = tuple(range(lead, lead + table.rank - n))
    return (*named, *rest), (*range(lead), -1)


def _each(at: Place, table: Axes, indices: Any) -> tuple[Term, ...]:
    """Return the indices of each coordinate."""
    if isinstance(indices, Term):  # of a single one
        return (indices,)
    n = sum(a < 0 for a in table)
    return tuple(indices.at(indices.builder.const(k, INT64)) for k in range(n))


@rule("gather_nd", locate=taking(_coordinates))
def _take_nd(op: Any, at: Place, table: Table, indices: Table | Term) -> Term:
    return table.at(*_each(at, at.ins[0] or (), indices))


@rule("gather_nd_grad", locate=giving(_coordinates))
def _add_up_nd(op: Any, at: Place, g: Term, indices: Table | Term, like: None) -> Scatter:
    return Scatter(g, _each(at, at.outs[0], indices), "sum")


@rule("scatter_nd_update", "scatter_nd_max", "scatter_nd_min", locate=writing(_coordinates))
def _write_nd(op: Any, at: Place, table: Table, indices: Table | Term, x: Term) -> Scatter:
    return Scatter(x.to(table.dtype), _each(at, at.outs[0], indices), _how(op), onto=table)


# -- segments -------------------------------------------------------------------------------------


def _segments(op: Any, table: TensorSpec, indices: TensorSpec) -> tuple[Axes, Axes]:
    r = indices.rank
    return (-1, *range(r, r + table.rank - 1)), tuple(range(r))


@rule(
    *(f"unsorted_segment_{how}" for how in ("sum", "prod", "max", "min")), locate=giving(_segments)
)
def _reduce(op: Any, at: Place, x: Term, indices: Term) -> Scatter:
    return Scatter(x, (indices,), _how(op), Beyond.LEFT_OUT)

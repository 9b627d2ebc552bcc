"""Rows of a table: what a batch adds to each that it names, and how they are written back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from ...errors import DTypeError
from ...graph import Tensor
from ...op import (
    AFFINE,
    ELEMENT,
    LINEAR,
    OPAQUE,
    ZERO,
    Cotangent,
    ErrorSample,
    Op,
    Sample,
    attr,
)
from ...spec import TensorSpec, kind
from ...spec.rows import INT64, RowsSpec
from ..core.choice import Where
from ..core.index import Gather, GatherGrad, add_rows, places
from ..core.like import IotaLike, ZerosLike
from ..core.movement import cast_to
from ..core.reduce import Sum
from ..core.reshape import Reshape
from .base import AdamUpdate, MomentumUpdate, SgdUpdate, _Update


class SumRows(Op):
    """The rows that are named, each once, and what all values add to each.

    rowsᵤ = the u-th number that occurs among ids, −1 beyond the last
    sumsᵤ = Σ₍ₖ: ids[k] = rowsᵤ₎ values[k], 0 beyond the last

    With ids: i64[K], values: f32[K, …] and table: f32[N, …], of which the shape alone is read;
    there are min(K, N) of both. Negative ids count from the end. The gradient of a look-up is such
    rows and sums: nothing has the size of the table.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> table = g.variable("table", (1000, 1))
    >>> ids, values = g.constant([7, 3, 7]), g.constant([[1.0], [2.0], [4.0]])
    >>> rows, sums = gw.training.sum_rows(ids, values, table, name="of_table")
    >>> [found.tolist() for found in g.output({}, rows, sums).values()]
    [[7, 3, -1], [[5.0], [2.0], [0.0]]]
    """

    namespace = "training"
    shape_only = (2,)
    dependence = OPAQUE, LINEAR, OPAQUE
    returns = ("rows", "sums")

    def infer(self, ids: TensorSpec, values: TensorSpec, table: TensorSpec) -> Any:
        stands_for = RowsSpec.of(ids, values, table)
        if kind(values.dtype) not in "fc":
            raise DTypeError(f"sum_rows does not take {values.dtype}", need="values: f32[K, ...]")
        once = stands_for.once
        return once.rows, once.values

    def forward(self, ids: Any, values: Any, table: Any) -> Any:
        n = table.shape[0]
        at = places((n,), (ids,))
        named, first, place = np.unique(at, return_index=True, return_inverse=True)
        order = np.argsort(first)
        number = np.empty_like(order)
        number[order] = np.arange(order.size)
        rows = np.full(min(ids.size, n), -1, np.int64)
        rows[: order.size] = named[order]
        flat = values.reshape(ids.size, math.prod(values.shape[1:]))
        sums = add_rows(rows.size, number[place.reshape(-1)], flat)
        return rows, sums.reshape(rows.size, *values.shape[1:])

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (ids, _, table), rows = xs, ys[0]

        def of_values() -> Any:  # each place has the gradient of its row's sum
            none = Sum(axis=tuple(range(1, table.rank)))(ZerosLike()(table))
            number = PutRows()(cast_to(INT64, none), rows, IotaLike()(rows))
            return Gather(axis=0)(gs[1], Gather(axis=0)(number, ids))

        return ZERO, ZERO if gs[1] is ZERO else of_values, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        table = rng.standard_normal((5, 3))
        for ids in (np.array([3, -5, 3, 1, 4, 3, 0, 3]), np.array([2, 2, 4], np.int32)):
            yield Sample((ids, rng.standard_normal((ids.size, 3)), table))
        many = rng.integers(0, 3, 300)
        yield Sample((many, rng.standard_normal((300, 2, 2)), np.zeros((40, 2, 2))))
        yield Sample((np.zeros(0, np.int64), np.zeros((0, 3)), table))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        ids, values, table = TensorSpec((2,), "int64"), TensorSpec((2, 3)), TensorSpec((5, 3))
        yield ErrorSample((ids, TensorSpec((3, 3)), table), {}, "do not fit")
        yield ErrorSample((TensorSpec((2,)), values, table), {}, "rows are named by")
        yield ErrorSample((ids, values.with_dtype("int32"), table), {}, "does not take int32")


class TakeRows(Op):
    """Rows of a table; negative numbers name none, and give zeros.

    yᵤ = table[rows[u]] where rows[u] ≥ 0, else 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> table = g.constant([[1.0], [2.0], [3.0]])
    >>> y = gw.training.take_rows(table, g.constant([2, -1]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[3.0], [0.0]]
    """

    namespace = "training"
    dependence = LINEAR, OPAQUE

    def infer(self, table: TensorSpec, rows: TensorSpec) -> TensorSpec:
        values = table.with_shape((*rows.shape, *table.shape[1:]))
        return RowsSpec.of(rows, values, table).values

    def forward(self, table: Any, rows: Any) -> Any:
        y = np.zeros((*rows.shape, *table.shape[1:]), table.dtype)
        y[rows >= 0] = table[rows[rows >= 0]]
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        table, rows = xs

        def of_table() -> Any:
            is_named = Reshape(shape=(-1, *(1 for _ in table.shape[1:])))(rows >= 0)
            return GatherGrad(axis=0)(Where()(is_named, gs[0], 0.0), rows, table)

        return of_table, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        table = rng.standard_normal((4, 3))
        yield Sample((table, np.array([3, -1, 0, 3])))
        yield Sample((table, np.zeros(0, np.int64)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((5, 3)), TensorSpec((2,))), {}, "rows are named by")
        yield ErrorSample((TensorSpec(()), TensorSpec((2,), "int64")), {}, "has no rows")


class PutRows(Op):
    """A table with some of its rows written; negative numbers name none.

    y = table,  y[rows[u]] = values[u] where rows[u] ≥ 0; each row is named once

    A step that nobody watches writes them where the table lies, and copies nothing.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> table, rows = g.constant([[0.0], [0.0], [0.0]]), g.constant([2, -1])
    >>> y = gw.training.put_rows(table, rows, g.constant([[5.0], [7.0]]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[0.0], [0.0], [5.0]]
    """

    namespace = "training"
    dependence = AFFINE, OPAQUE, LINEAR

    def infer(self, table: TensorSpec, rows: TensorSpec, values: TensorSpec) -> TensorSpec:
        RowsSpec.of(rows, values, table)
        if values.dtype != table.dtype:
            raise DTypeError(f"values are {values.dtype}, the table {table.dtype}", need="one")
        return table.bare()

    def forward(self, table: Any, rows: Any, values: Any) -> Any:
        y = np.array(table, order="C")
        is_named = rows >= 0
        y[rows[is_named]] = values[is_named]
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (_, rows, values) = gs, xs
        return (
            lambda: PutRows()(g, rows, ZerosLike()(values)),
            ZERO,
            lambda: TakeRows()(g, rows),
        )

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        table = rng.standard_normal((4, 3))
        yield Sample((table, np.array([3, -1, 0]), rng.standard_normal((3, 3))))
        yield Sample((table, np.zeros(0, np.int64), np.zeros((0, 3))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        rows, table = TensorSpec((2,), "int64"), TensorSpec((5, 3))
        yield ErrorSample((table, rows, TensorSpec((2, 4))), {}, "do not fit")
        yield ErrorSample((table, rows, TensorSpec((2, 3), "float64")), {}, "values are float64")


class UpdateRows(Op):
    """An update of the rows that are named; the others, and their state, stay as they are.

    put_rows(t, rows, ·) of what ``op`` makes of take_rows(t, rows), for the table and each state

    With rows: i64[K], −1 where there are no more, and grad: f32[K, …]. Then come the states and
    the numbers that ``op`` takes.

    >>> import gradwright as gw
    >>> from gradwright.op import find_op
    >>> from gradwright.ops.updates.rows import UpdateRows
    >>> g = gw.Graph()
    >>> table, rows = g.constant([[1.0], [2.0], [3.0]]), g.constant([2, -1])
    >>> step = UpdateRows(op=find_op("sgd_update")())
    >>> y = step(table, rows, g.constant([[4.0], [0.0]]), 0.25, 0.0, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[1.0], [2.0], [2.0]]
    """

    namespace = "gradient"
    op: Op = attr(doc="The update, whose inputs are a parameter, its gradient, states and numbers.")

    @property
    def n_tables(self) -> int:
        """How many tensors of the table's shape it moves: the table and its states."""
        return 1 + cast(_Update, self.op).n_state

    def infer(
        self, table: TensorSpec, rows: TensorSpec, grad: TensorSpec, *rest: TensorSpec
    ) -> Any:
        RowsSpec.of(rows, grad, table)
        n = self.n_tables - 1
        states = [x.with_shape((*grad.shape[:1], *x.shape[1:])) for x in rest[:n]]
        self.op.infer(table.with_shape(grad.shape), grad, *states, *rest[n:])
        found = tuple(x.with_shape(table.shape) for x in (table, *rest[:n]))
        return found if n else found[0]

    def expand(self, table: Any, rows: Any, grad: Any, *rest: Any) -> Any:
        n = self.n_tables - 1
        old = [table, *rest[:n]]
        param, *states = (TakeRows()(t, rows) for t in old)
        made = self.op(param, grad, *states, *rest[n:])
        new = made if n else (made,)
        found = tuple(PutRows()(t, rows, y) for t, y in zip(old, new, strict=True))
        return found if n else found[0]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        rows = np.array([3, 0, -1])
        for op in (SgdUpdate(), MomentumUpdate(nesterov=True), AdamUpdate()):
            n, numbers = op.n_state, [np.asarray(x) for x in op.scalars()]
            tables = [rng.uniform(0.5, 1.5, (5, 2, 3)) for _ in range(1 + n)]
            grad = rng.standard_normal((3, 2, 3))
            yield Sample((tables[0], rows, grad, *tables[1:], *numbers), {"op": op})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        rows, table, number = TensorSpec((2,), "int64"), TensorSpec((5, 3)), TensorSpec(())
        given: dict[str, Any] = {"op": SgdUpdate()}
        yield ErrorSample((table, rows, TensorSpec((2, 4)), number, number), given, "do not fit")
        yield ErrorSample((table, rows, TensorSpec((2, 3)), rows, number), given, "be a scalar")


def moves_each(op: Op) -> bool:
    """Tell whether an op is an update that moves each element for itself.

    >>> moves_each(SgdUpdate()), moves_each(SumRows())
    (True, False)
    """
    return isinstance(op, _Update) and op.dependence == ELEMENT


def stands_for(t: Tensor) -> RowsSpec | None:
    """Return what a tensor stands for if it is the sums of rows.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> table, ids = g.variable("table", (50, 8)), g.placeholder("ids", ("K",), "int64")
    >>> rows, sums = gw.training.sum_rows(ids, gw.nn.embedding(ids, table), table)
    >>> stands_for(sums), stands_for(rows)
    (f32[50, 8] in min(50, K) rows, None)
    """
    if not isinstance(t.node.op, SumRows) or t.index != 1:
        return None
    rows, sums = t.node.outputs
    table = t.node.inputs[2]
    assert table is not None
    return RowsSpec.of(rows.spec, sums.spec, table.spec)

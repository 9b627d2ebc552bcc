"""Gradients of rows and values: one goes through clipping, accumulation and optimizers as it is.

The functions here are sketches of what a vjp, a trainer's step and an optimizer would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.graph import Tensor
from gradwright.op import find_op
from gradwright.spec import Dim, TensorSpec
from gradwright.spec.rows import RowsSpec

N, D = 40, 3
LR = 0.1


@dataclass(frozen=True)
class Rows:
    """A gradient: which rows of ``table``, and what is added to each."""

    rows: Tensor
    values: Tensor
    table: Tensor

    @property
    def spec(self) -> RowsSpec:
        return RowsSpec.of(self.rows.spec, self.values.spec, self.table.spec)

    def __add__(self, other: Rows) -> Rows:
        """Accumulation: one after the other."""
        self.spec.joined(other.spec)
        joined = [
            gw.concat([a, b]) for a, b in ((self.rows, other.rows), (self.values, other.values))
        ]
        return Rows(joined[0], joined[1], self.table)

    def __mul__(self, factor: Any) -> Rows:
        """Clipping, loss scales, weights of batches."""
        return Rows(self.rows, self.values * factor, self.table)

    def added_up(self) -> tuple[Rows, Tensor]:
        """Return the rows in order, each place with its row's whole sum, and its share of the row.

        A row that is named twice has its sum twice: what is computed of it twice is the same, so no
        size depends on values.
        """
        order = gw.argsort(self.rows)
        rows, values = gw.gather(self.rows, order), gw.gather(self.values, order)
        first = gw.concat([gw.ones_like(rows[:1]), (rows[1:] != rows[:-1]).astype("int64")])
        segment = gw.cumsum(first, axis=0) - 1
        sums = gw.index_add(gw.zeros_like(values), segment, values)
        ones = gw.ones_like(values[:, 0])
        count = gw.gather(gw.index_add(gw.zeros_like(ones), segment, ones), segment)
        return Rows(rows, gw.gather(sums, segment), self.table), 1.0 / count

    def dense(self) -> Tensor:
        return gw.index_add(gw.zeros_like(self.table), self.rows, self.values)


def embedding_rows(y: Tensor, g: Tensor) -> Rows:
    """Return what the vjp of a lookup would."""
    ids, table = y.node.inputs
    assert ids is not None and table is not None
    return Rows(ids.reshape((-1,)), g.reshape((-1, *table.shape[1:])), table)


def norm(gradients: Sequence[Tensor | Rows]) -> Tensor:
    """Return the global norm; a repeated row counts once."""
    total: Any = 0.0
    for g in gradients:
        if isinstance(g, Rows):
            sums, share = g.added_up()
            total = total + ((sums.values**2.0).sum(axis=1) * share).sum()
        else:
            total = total + (g**2.0).sum()
    return gw.sqrt(total)


def updated(
    op: str, param: Tensor, g: Tensor | Rows, slots: Sequence[Tensor], scalars: Sequence[Any]
) -> list[Tensor]:
    """Return parameter and slots after an update: of all rows, or of those that are named."""
    update = find_op(op)()
    if isinstance(g, Tensor):
        found = update(param, g, *slots, *scalars)
        return list(found) if isinstance(found, tuple) else [found]
    sums, _ = g.added_up()
    held = [gw.gather(t, sums.rows) for t in (param, *slots)]
    found = update(held[0], sums.values, *held[1:], *scalars)
    new = found if isinstance(found, tuple) else (found,)
    at = gw.expand_dims(sums.rows, axis=-1)
    return [gw.scatter_nd_update(t, at, y) for t, y in zip((param, *slots), new, strict=True)]


def model() -> tuple[gw.Graph, Tensor, Tensor, Tensor, Tensor]:
    """Return a graph with a table and a matrix: looked up rows, loss, table, matrix."""
    g = gw.Graph()
    ids = g.placeholder("ids", ("B", "T"), dtype="int64")
    table = g.variable("table", (N, D), init=gw.init.normal(seed=1))
    w = g.variable("w", (D, 2), init=gw.init.normal(seed=2))
    y = gw.nn.embedding(ids, table)
    loss = ((y @ w - 1.0) ** 2.0).mean()
    return g, y, loss, table, w


IDS = np.array([[3, 7, 3], [7, 7, 20]])
MORE = np.array([[7, 39, 0], [0, 1, 3]])


def gradients(y: Tensor, loss: Tensor, table: Tensor, w: Tensor) -> tuple[Rows, Tensor, Tensor]:
    """Return the gradient of the table as rows and dense, and that of the matrix."""
    dy, dense, dw = gw.gradients(loss, [y, table, w])
    return embedding_rows(y, dy), dense, dw


def test_a_spec_says_what_two_tensors_stand_for() -> None:
    k = Dim.symbol("K")
    spec = RowsSpec.of(
        TensorSpec((k,), "int32"), TensorSpec((k, D), "bfloat16"), TensorSpec((N, D))
    )
    assert (spec.rows, spec.values) == (TensorSpec((k,), "int64"), TensorSpec((k, D), "bfloat16"))
    assert str(spec.joined(spec)) == "bf16[40, 3] in 2*K rows"
    assert spec.substitute({"K": 4}).nbytes == 4 * 8 + 4 * D * 2
    for rows, values, error in (
        (TensorSpec((4,)), TensorSpec((4, D)), gw.errors.DTypeError),
        (TensorSpec((4,), "int64"), TensorSpec((5, D)), gw.errors.ShapeError),
        (TensorSpec((4,), "int64"), TensorSpec((4, D, 1)), gw.errors.ShapeError),
        (TensorSpec((4, 1), "int64"), TensorSpec((4, D)), gw.errors.ShapeError),
    ):
        with pytest.raises(error):
            RowsSpec.of(rows, values, TensorSpec((N, D)))
    with pytest.raises(gw.errors.ShapeError, match="no rows"):
        RowsSpec(TensorSpec(()), 3)


def test_rows_stand_for_the_dense_gradient() -> None:
    g, y, loss, table, w = model()
    rows, dense, dw = gradients(y, loss, table, w)
    assert rows.spec.dense == table.spec
    fetched = [rows.dense(), dense, norm([rows, dw]), norm([dense, dw])]
    found = gw.Session(g).run(fetched, {"ids": IDS})
    assert np.allclose(found[0], found[1], rtol=1e-6) and np.allclose(found[2], found[3], rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "n_slots", "scalars"),
    [("sgd_update", 0, (LR, 0.0)), ("adam_update", 2, (1, LR, 0.9, 0.999, 1e-8, 0.0))],
)
def test_clipped_accumulated_and_applied(op: str, n_slots: int, scalars: tuple[Any, ...]) -> None:
    """The same as the dense gradient gives, where rows that are not named have no momentum."""
    g, y, loss, table, w = model()
    rows, dense, dw = gradients(y, loss, table, w)
    session = gw.Session(g, deterministic=True)
    more = [session.run([t, dense], {"ids": MORE}) for t in (rows.rows, rows.values)]
    before = Rows(g.constant(more[0][0]), g.constant(more[1][0]), table)
    total, wide = before + rows, g.constant(more[0][1]) + dense
    clip = gw.minimum(1.0, 0.05 / norm([total, dw]))
    slots = [g.variable(f"slot{i}", (N, D), trainable=False) for i in range(n_slots)]
    few = updated(op, table, total * clip, slots, scalars)
    all_ = updated(op, table, wide * gw.minimum(1.0, 0.05 / norm([wide, dw])), slots, scalars)
    found = session.run([few, all_], {"ids": IDS})
    for a, b in zip(*found, strict=True):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-7)
    held = np.array(g.values["table"])
    session.run([], {"ids": IDS}, dict(zip([table, *slots], few, strict=True)))
    now = g.values["table"]
    moved = sorted(np.flatnonzero((now != held).any(axis=1)).tolist())
    assert moved == sorted({*IDS.ravel().tolist(), *MORE.ravel().tolist()})


def test_other_batches_compile_nothing_that_depends_on_which_rows() -> None:
    g, y, loss, table, w = model()
    rows, _, _ = gradients(y, loss, table, w)
    (new,) = updated("sgd_update", table, rows, [], (LR, 0.0))
    with gw.Session(g) as session:
        for ids in (IDS, IDS[::-1], MORE, np.zeros((2, 3), np.int64)):
            session.run([], {"ids": ids}, {table: new})
        assert len(session.plan([new], {"ids": IDS.shape}).parts) == 1

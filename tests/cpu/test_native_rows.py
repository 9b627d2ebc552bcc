"""Machine code of rows that are named: random tables, ids and updates beside the ops' forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gradwright.cpu.llvm.chain import chain
from gradwright.cpu.llvm.compiler import available
from gradwright.op import find_op
from gradwright.ops.updates.rows import PutRows, SumRows, TakeRows, UpdateRows
from gradwright.program.lowering import find_launch
from gradwright.spec import spec_of

pytestmark = pytest.mark.skipif(not available(), reason="no llvmlite")
UPDATES = ("sgd_update", "momentum_update", "adagrad_update", "adam_update")


def run(op: Any, xs: Sequence[Any], over: Sequence[int | None] = ()) -> list[Any]:
    """Return outputs of machine code; ``over`` says which inputs they lie over."""
    found = op.infer(*map(spec_of, xs))
    specs = found if isinstance(found, tuple) else (found,)
    ys = [np.full(s.shape, 99, s.dtype) for s in specs]
    for k, i in enumerate(over):
        ys[k] = xs[i] if i is not None else ys[k]
    calls = find_launch(op, "cpu", [spec_of(x) for x in xs], specs).bind(xs, ys)
    chain([(call.address, call.block.ctypes.data) for call in calls])()
    return ys


@pytest.mark.parametrize("seed", range(24))
def test_random_rows_are_those_of_the_reference(seed: int) -> None:
    """Sums of up to 8 values to the bit; negative ids, more ids than rows, 1 to 400 columns."""
    rng = np.random.default_rng(seed)
    dtype = ("f4", "f8")[seed % 2]
    n, k, d = (int(rng.integers(1, most)) for most in (900, 2000, 1 + rng.choice([1, 70, 400])))
    ids = rng.integers(-n, n, k) if seed % 3 else rng.integers(0, 1 + n // 40, k)
    values, table = (rng.standard_normal((r, d)).astype(dtype) for r in (k, n))
    rows, sums = SumRows().forward(ids, values, table)
    mine, added = run(SumRows(), [ids, values, table])
    assert np.array_equal(rows, mine)
    counts = np.bincount(ids % n, minlength=n)[rows] * (rows >= 0)
    assert np.array_equal(sums[counts <= 8], added[counts <= 8])
    np.testing.assert_allclose(sums, added, 2e-6 if dtype == "f4" else 1e-14, 2e-5)
    assert np.array_equal(TakeRows().forward(table, rows), run(TakeRows(), [table, rows])[0])
    expected = PutRows().forward(table, rows, sums)
    assert np.array_equal(expected, run(PutRows(), [table, rows, sums])[0])
    assert np.array_equal(expected, run(PutRows(), [table.copy(), rows, sums], [0])[0])


@pytest.mark.parametrize("seed", range(12))
def test_random_updates_write_their_rows_alone(seed: int) -> None:
    """Where the tables lie, and elsewhere; rows of several blocks and of a part of one."""
    rng = np.random.default_rng(seed)
    dtype, op = ("f4", "f8")[seed % 2], find_op(UPDATES[seed % 4])()
    n, d = int(rng.integers(1, 700)), int(rng.integers(1, 90))
    rows = rng.permutation(n)[: int(rng.integers(1, n + 1))]
    rows[rng.random(rows.size) < 0.2] = -1
    grad = rng.standard_normal((rows.size, d)).astype(dtype)
    table, *states = (rng.uniform(0.5, 1.5, (n, d)).astype(dtype) for _ in range(1 + op.n_state))
    numbers = [np.asarray(x) for x in op.scalars()]
    update, xs = UpdateRows(op=op), [table, rows, grad, *states, *numbers]
    expected = update.forward(*xs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    places = [0, *range(3, 3 + op.n_state)]
    others = np.setdiff1d(np.arange(n), rows)
    for over in ([], places):
        given = [x.copy() for x in xs]
        for old, y, e in zip(places, run(update, given, over), expected, strict=True):
            np.testing.assert_allclose(y, e, 2e-6, 2e-6)
            assert np.array_equal(y[others], xs[old][others])

"""Sums in kernels: float32 that many rows add to is as good as sums by pairs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available
from gradwright.fuse.totals import BLOCK
from tests.cpu.sketches import Sketch, launch

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
EPS = 2.0**-23
SIZES = (BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 3)


def error(found: Any, terms: Any, axis: Any) -> float:
    """Return how far sums are off, relative to the sum of absolute terms, in eps of float32."""
    exact = np.sum(terms, axis, dtype="f8")
    return float(np.max(np.abs(found - exact) / np.sum(np.abs(terms), axis, dtype="f8"))) / EPS


@pytest.mark.parametrize("mode", ["default", "deterministic"])
@pytest.mark.parametrize(
    "axes", [a for n in (1, 2, 3) for a in itertools.combinations(range(3), n)]
)
def test_sums_over_any_axes_lose_no_digits(axes: tuple[int, ...], mode: str) -> None:
    g = gw.Graph()
    x = g.placeholder("x", (None, None, None))
    y, mean = gw.sum(x, axes), gw.mean(x, axes)
    how: Any = {"deterministic": True} if mode == "deterministic" else {"kernels": "wait"}
    with gw.Session(g, **how) as session:
        for shape in [(5000, 3, 2), (3, 5000, 4), (70, 4, 300), (2, 3, 9000), (700, 700, 1)]:
            terms = np.full(shape, 0.1, "f4")
            total, average = session.run([y, mean], {"x": terms})
            assert error(total, terms, axes) < 16
            n = np.prod([shape[a] for a in axes])
            assert error(average * n, terms, axes) < 16


@pytest.mark.parametrize("rows", SIZES)
def test_a_block_ends_where_it_should(rows: int) -> None:
    """Whole numbers add up exactly, whatever is left of the last block."""
    for moves, shape in [("01", (rows, 9)), ("101", (4, rows, 9)), ("010", (3, 5, 7))]:
        full = shape if len(shape) == 3 else (rows, 9)
        sketch = Sketch(len(full), len(full))
        one = sketch.load("f4:" + "1" * len(full))
        sketch.store(one, f"f4:{moves}", "sum")
        x = np.random.default_rng(rows).integers(-50, 50, full).astype("f4")
        axes = tuple(i for i, m in enumerate(moves) if m == "0")
        y = np.full(x.sum(axes, keepdims=True).shape, 77, "f4")
        launch(sketch.kernel(), [x, y])
        np.testing.assert_array_equal(y, x.sum(axes, keepdims=True))


def test_several_sums_of_one_kernel_have_totals_of_their_own() -> None:
    sketch = Sketch(3, 1)
    x = sketch.load("f4:111")
    row = sketch.reduce("sum", x)
    for moves in ("001", "101", "011"):
        sketch.store(x, f"f4:{moves}", "sum")
    for moves in ("010", "100", "000"):
        sketch.store(row, f"f4:{moves}", "sum_rows")
    terms = np.full((300, 200, 5), 0.1, "f4")
    shapes = [(1, 1, 5), (300, 1, 5), (1, 200, 5), (1, 200, 1), (300, 1, 1), (1, 1, 1)]
    outputs = [np.full(shape, 77, "f4") for shape in shapes]
    launch(sketch.kernel(), [terms, *outputs])
    for y in outputs:
        axes = tuple(i for i, n in enumerate(y.shape) if n == 1)
        assert error(y, terms.sum(axes, dtype="f8", keepdims=True), ()) < 16


def test_nothing_to_add_up_is_zero() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (None, None, 3))
    sums = [gw.sum(x * 2.0, axes) for axes in [0, 1, (0, 1), (0, 2)]]
    with gw.Session(g, kernels="wait") as session:
        for shape in [(0, 5, 3), (5, 0, 3)]:
            for y in session.run(sums, {"x": np.ones(shape, "f4")}):
                assert not y.any()


def test_gradients_of_what_is_broadcast_lose_no_digits() -> None:
    """Biases, and the weights of a layer norm: sums over all rows."""
    g = gw.Graph()
    x = g.placeholder("x", (None, 8))
    b = g.variable("b", (8,), init=np.full(8, 0.3, "f4"))
    scale = g.variable("scale", (8,), init=1.0)
    dbias, dscale, dshift = gw.gradients(
        gw.nn.sigmoid(x + b).sum() + gw.nn.layer_norm(x, scale, b).sum(), [b, scale, b]
    )
    rows = np.random.default_rng(0).standard_normal((200_000, 8)).astype("f4")
    with gw.Session(g, kernels="wait") as session:
        found, of_scale, _ = session.run([dbias, dscale, dshift], {"x": rows})
    wide = rows.astype("f8")
    q = 1 / (1 + np.exp(-(wide + np.float32(0.3))))
    want = (q * (1 - q)).sum(0) + len(rows)
    np.testing.assert_allclose(found, want, rtol=1e-6)
    normed = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(of_scale, normed.sum(0), atol=2e-6 * np.abs(normed).sum(0).max())


def test_pieces_on_threads_have_the_bits_of_the_whole() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (64, 500, 40))
    y = gw.sum(gw.tanh(x), 1)
    feeds = {"x": np.random.default_rng(1).standard_normal((64, 500, 40)).astype("f4")}
    found = []
    for threads in (1, 2):
        with gw.Session(g, deterministic=True, threads=threads) as session:
            found.append(session.run(y, feeds))
    assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.parametrize("columns", [1, 9, 70, 2500])
def test_a_reduction_for_rows_in_need(columns: int) -> None:
    """Beside one that all rows have, of a value that is kept for a later pass."""
    sketch = Sketch(2, 1)
    x = sketch.load("f4:11")
    e = sketch.exp(x)
    total = sketch.reduce("sum", e)
    is_odd = sketch.lt(total, sketch.const(float(columns)))
    again = sketch.reduce("sum", sketch.mul(e, total), is_odd)
    chosen = sketch.where(is_odd, again, total)
    sketch.store(sketch.div(e, chosen), "f4:11")
    sketch.store(chosen, "f4:10")
    given = np.random.default_rng(0).standard_normal((40, columns)).astype("f4")
    given[::3] -= 3
    y, sums = np.full_like(given, 77), np.full((40, 1), 77, "f4")
    launch(sketch.kernel(), [given, y, sums])
    wide = np.exp(given.astype("f8"))
    whole = wide.sum(1, keepdims=True)
    want = np.where(whole < columns, whole * whole, whole)
    assert 0 < np.count_nonzero(whole < columns) < 40
    np.testing.assert_allclose(sums, want, rtol=1e-5)
    np.testing.assert_allclose(y, wide / want, rtol=1e-5)


def test_gradients_of_what_two_columns_share_lose_no_digits() -> None:
    """Rows of two columns are walked down, where elements do not lie next to each other."""
    g = gw.Graph()
    x = g.placeholder("x", (None, 2))
    c = g.variable("c", (2,), init=np.full(2, 0.1, "f4"))
    (dc,) = gw.gradients((gw.maximum(x * 0.5, c) * x).sum(), [c])
    terms = np.full((300_000, 2), 0.1, "f4")
    with gw.Session(g, kernels="wait") as session:
        found = session.run(dc, {"x": terms})
    assert error(found, terms, 0) < 16

"""Some rows times a large matrix of floats as files have it: read row by row, not by BLAS."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.llvm.packed.bind import by_panel
from gradwright.cpu.llvm.packed.floats import FEW, LARGER, MOST, call
from gradwright.cpu.llvm.packed.machine import MACHINES, Machine, machine
from gradwright.cpu.llvm.products import bind_product
from gradwright.cpu.llvm.target import has
from gradwright.cpu.threads.tuning import pieces

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
HERE = [m for m in MACHINES if m.level and m.needs <= has()] if available() else []
Array = np.ndarray[Any, Any]


def run(*calls: Any) -> None:
    for each in calls:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(each.address)(each.block.ctypes.data)


def drawn(rng: Any, *shape: int) -> Array:
    x: Array = rng.standard_normal(shape).astype("f4")
    return x


def off(y: Array, x: Array, w: Array) -> float:
    exact = x.astype("f8") @ w.astype("f8").T
    return float(np.abs(y - exact).max() / (np.abs(x).astype("f8") @ np.abs(w).T).max())


@pytest.mark.parametrize("m", HERE, ids=lambda m: m.name)
def test_rows_are_multiplied_on_every_machine(m: Machine, rng: Any) -> None:
    """Odd numbers of rows, vectors that fill no turn of the loop, rows that lie apart."""
    for n_x in range(1, FEW + 1):
        for n_rows, k in ((1, m.lanes), (7, 7 * m.lanes), (4, 8 * m.lanes)):
            w, x = drawn(rng, n_rows, k + 3)[:, :k], drawn(rng, n_x, k)
            y = np.full((n_x + 1, n_rows), 7, "f4")
            run(call(m, n_x, x, w.T, y[:-1]))
            assert off(y[:-1], x, w) < 3e-7 and (y[-1] == 7).all()


@pytest.mark.parametrize(("n_x", "k"), [(9, 288), (17, 264), (64, 288)])
def test_more_rows_meet_panels(n_x: int, k: int, rng: Any) -> None:
    """The last panel begins earlier, tiles reach over the last row, pieces have the same bits."""
    if machine().lanes < 16:
        pytest.skip("this processor has no AVX-512")
    w, x, name = drawn(rng, 150, 300)[:, :k], drawn(rng, n_x, k), "f32_by_8" if k % 32 else "f32"
    y, parts = np.full((n_x + 1, 150), 7, "f4"), np.empty((n_x, 150), "f4")
    run(*by_panel(name, machine(), x, w, y[:-1], as_bytes=False))
    assert off(y[:-1], x, w) < 3e-7 and (y[-1] == 7).all()
    cut = pieces(by_panel(name, machine(), x, w, parts, as_bytes=False)[0], 4, alike=True)
    assert len(cut) == 4
    run(*cut[::-1])
    np.testing.assert_array_equal(y[:-1], parts)


@pytest.mark.parametrize("n_x", [1, 5])
def test_pieces_have_the_bits_of_the_whole(n_x: int, rng: Any) -> None:
    w, x = drawn(rng, 150, 64), drawn(rng, n_x, 64)
    y, parts = np.empty((n_x, 150), "f4"), np.empty((n_x, 150), "f4")
    whole = call(machine(), n_x, x, w.T, y)
    run(whole)
    cut = pieces(call(machine(), n_x, x, w.T, parts), 4, alike=True)
    assert len(cut) == 4
    run(*cut[::-1])
    np.testing.assert_array_equal(y, parts)


def test_no_byte_behind_a_matrix_is_read(rng: Any) -> None:
    """Its last row ends where a page does, behind which reading ends the process."""
    page, w = mmap.PAGESIZE, drawn(rng, 5, 208)
    room = mmap.mmap(-1, (-(-w.nbytes // page) + 1) * page)
    whole = np.frombuffer(room, np.uint8)
    end = len(whole) - page
    last = whole[end - w.nbytes : end].view("f4").reshape(w.shape)
    last[:] = w
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert libc.mprotect(whole.ctypes.data + end, page, 0) == 0
    for n_x in (1, 2):
        x, y = drawn(rng, n_x, 208), np.empty((n_x, 5), "f4")
        run(call(machine(), n_x, x, last.T, y))
        assert off(y, x, w) < 3e-7


@pytest.mark.skipif(not HERE or HERE[0] != machine(), reason="this processor has no AVX2")
def test_which_products_are_read_row_by_row(rng: Any) -> None:
    k = 256
    n_rows = LARGER // k // 4

    def label(x: Array, b: Array) -> str:
        calls = bind_product([x, b], [np.empty((*x.shape[:-1], b.shape[-1]), x.dtype)])
        return str(calls[0].label) if calls else ""

    w, x = drawn(rng, n_rows, k), drawn(rng, MOST + 1, k)
    assert label(x[:1], w.T).startswith("few rows 1 ")
    assert label(x[:FEW].reshape(2, 4, k), w.T).startswith("few rows 8 ")
    in_panels = "packed f32" if machine().lanes == 16 else "product"
    assert label(x[: FEW + 1], w.T).startswith(in_panels)
    assert label(x[:MOST], w.T).startswith(in_panels)
    for others in (
        (x, w.T),  # more rows
        (x[:1], w[1:].T),  # a smaller matrix
        (x[:1], np.ascontiguousarray(w.T)),  # [in, out]
        (x[:1].astype("f8"), w.T.astype("f8")),
        (x[:1, :250], w[:, :250].T),  # no whole vectors
    ):
        assert label(*others).startswith("product")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_plan_has_the_numbers_of_numpy(threads: int, rng: Any) -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 2, 1024))
    w = drawn(rng, 2048, 1024)
    y = x @ g.constant(w).mT
    with gw.Session(g, kernels="wait", threads=threads) as session:
        for n in (1, 3, 0, 11):
            feeds = {"x": drawn(rng, n, 2, 1024)}
            found = session.run(y, feeds)
            assert found.shape == (n, 2, 2048)
            np.testing.assert_allclose(found, feeds["x"] @ w.T, rtol=0, atol=3e-4)

"""Products with weights packed as NF4 as machine code: machines, sizes, pieces, what is left."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.blas import blas
from gradwright.cpu.llvm.compiler import available, compile_text
from gradwright.cpu.llvm.convolution.machine import numbers
from gradwright.cpu.llvm.packed import normal
from gradwright.cpu.llvm.packed.machine import MACHINES, Machine
from gradwright.cpu.llvm.target import has
from gradwright.ops.quantised.nf4 import packed_nf4, unpacked_nf4

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
HERE = [m for m in MACHINES if m.needs <= has()] if available() else []
PLAIN = Machine("without tables", frozenset(), 8)
Array = np.ndarray[Any, Any]


def weight(rng: Any, n: int, k: int) -> tuple[Array, Array, Array]:
    """Return codes, scales, and the numbers that they are."""
    codes, absmax = packed_nf4(rng.standard_normal((n, k)).astype("f4"), 64)
    return codes.reshape(n, -1), absmax, unpacked_nf4(codes, absmax, 0, n * k, 64).reshape(n, k)


def run(text: str, block: Array) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(compile_text(text))(block.ctypes.data)


@pytest.mark.parametrize("m", [*HERE, PLAIN], ids=lambda m: m.name)
def test_rows_are_the_numbers_to_the_bit_on_every_machine(m: Machine, rng: Any) -> None:
    codes, absmax, exact = weight(rng, 5, 192)
    y = np.full((6, 192), 7, "f4")
    run(
        normal.rows(m),
        numbers(
            normal.ROWS, w=codes.ctypes.data, absmax=absmax.ctypes.data, y=y.ctypes.data, blocks=15
        ),
    )
    assert np.array_equal(y[:5], exact) and (y[5] == 7).all()


@pytest.mark.parametrize("m", [*HERE, PLAIN], ids=lambda m: m.name)
def test_one_row_of_x_on_every_machine(m: Machine, rng: Any) -> None:
    codes, absmax, exact = weight(rng, 37, 320)
    x, y = rng.standard_normal(320).astype("f4"), np.full(38, 7, "f4")
    run(
        normal.product(m),
        numbers(
            normal.PRODUCT, w=codes.ctypes.data, absmax=absmax.ctypes.data, x=x.ctypes.data,
            y=y.ctypes.data, n_rows=37, blocks=5,
        ),
    )  # fmt: skip
    np.testing.assert_allclose(y[:37], exact.astype("f8") @ x, rtol=0, atol=2e-5)
    assert y[37] == 7


@pytest.mark.skipif(blas() is None, reason="no BLAS by address")
@pytest.mark.parametrize("shape", [(1, 96, 64), (3, 70, 128), (40, 300, 704)])
@pytest.mark.parametrize("double", [False, True])
def test_a_plan_and_its_gradient(shape: tuple[int, int, int], double: bool, rng: Any) -> None:
    """With scales as they are or quantised, and codes as rows or as bitsandbytes shapes them."""
    n_x, n, k = shape
    codes, absmax, exact = weight(rng, n, k)
    g = gw.Graph()
    x = g.placeholder("x", ("B", k))
    w = g.constant(codes.reshape(-1, 1) if double else codes)
    if double:
        q, outer = gw.quant.quantize_blockwise(g.constant(absmax))
        scales = gw.quant.dequantize_blockwise(q, outer)
        found = g.output({}, scales)[scales.name]
        exact = unpacked_nf4(codes, found, 0, n * k, 64).reshape(n, k)
    else:
        scales = g.constant(absmax)
    y = gw.nn.nf4_matmul(x, w, scales, out_features=n)
    seed = g.constant(rng.standard_normal(n).astype("f4"))
    (d,) = gw.gradients((y * seed).sum(), [x])
    feeds = {"x": rng.standard_normal((n_x, k)).astype("f4")}
    with gw.Session(g, kernels="wait") as session:
        for _ in range(4):
            product, slope = session.run([y, d], feeds)
    np.testing.assert_allclose(product, feeds["x"] @ exact.T, rtol=0, atol=3e-4)
    row = g.values[seed.name] @ exact
    np.testing.assert_allclose(slope, np.broadcast_to(row, slope.shape), rtol=0, atol=3e-4)


def test_what_kernels_do_not_take_numpy_does(rng: Any) -> None:
    """Rows of no whole blocks, other blocks, and x that lies otherwise."""
    for k, size, turned in ((96, 64, False), (128, 32, False), (64, 64, True)):
        codes, absmax = packed_nf4(rng.standard_normal((24, k)).astype("f4"), size)
        exact = unpacked_nf4(codes, absmax, 0, 24 * k, size).reshape(24, k)
        g = gw.Graph()
        x = g.placeholder("x", (k, 1) if turned else (1, k))
        y = gw.nn.nf4_matmul(
            x.mT if turned else x,
            *(g.constant(a) for a in (codes, absmax)),
            out_features=24,
            block_size=size,
        )
        feeds = {"x": rng.standard_normal((k, 1) if turned else (1, k)).astype("f4")}
        with gw.Session(g, kernels="wait") as session:
            for _ in range(4):
                found = session.run(y, feeds)
        given = feeds["x"].T if turned else feeds["x"]
        np.testing.assert_allclose(found, given @ exact.T, rtol=0, atol=1e-4)


def test_pieces_of_a_product_have_the_bits_of_the_whole(rng: Any) -> None:
    codes, absmax, _ = weight(rng, 4096, 512)
    x = rng.standard_normal((1, 512)).astype("f4")
    found = []
    for threads in (1, 2):
        g = gw.Graph()
        y = gw.nn.nf4_matmul(
            g.placeholder("x", (1, 512)), g.constant(codes), g.constant(absmax), out_features=4096
        )
        with gw.Session(g, kernels="wait", threads=threads) as session:
            for _ in range(6):
                out = session.run(y, {"x": x})
        found.append(out)
    assert np.array_equal(*found)

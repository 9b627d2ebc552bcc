"""Batches of small products as one function, against numpy; what it leaves to BLAS."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradwright.cpu.call import Cut
from gradwright.cpu.llvm.batched import bind_batched
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.llvm.convolution.machine import machine
from gradwright.cpu.llvm.gemm import bind_matmul
from gradwright.cpu.threads.tuning import pieces

pytestmark = pytest.mark.skipif(
    not (available() and machine("f").masks), reason="no vectors that are masked"
)
Array = np.ndarray[Any, Any]


def run(*calls: Any) -> None:
    for each in calls:
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(each.address)(each.block.ctypes.data)


def apart(rng: Any, char: str, *shape: int) -> Array:
    """Numbers whose matrices and rows lie apart, with NaN between them."""
    *batch, rows, columns = shape
    whole = np.full((*batch, rows + 1, columns + 3), np.nan, char)
    whole[..., :rows, :columns] = rng.standard_normal(shape)
    return whole[..., :rows, :columns]


@pytest.mark.parametrize("char", "fd")
@pytest.mark.parametrize("sizes", [(11, 24, 11), (13, 37, 17), (5, 128, 33)])
@pytest.mark.parametrize("turns", [False, True])
def test_products_are_those_of_numpy(
    sizes: tuple[int, int, int], char: str, turns: bool, rng: Any
) -> None:
    """Also where a is read down its columns, b stands still along an axis, and in pieces."""
    m, k, n = sizes
    b = apart(rng, char, 1, 2, n, k).swapaxes(2, 3) if turns else apart(rng, char, 1, 2, k, n)
    for a in (apart(rng, char, 3, 2, m, k), apart(rng, char, 3, 2, k, m).swapaxes(2, 3)):
        whole = np.full((3, 2, m + 1, n), 7, char)
        c = whole[:, :, :m]
        steps = [a.strides[:2], (0, b.strides[1]), c.strides[:2]]
        call = bind_batched(a, b, c, [1, 3, 2], [[0, *own] for own in steps])
        if call is None:
            assert (m * k * n > 6_144) and not turns
            return
        run(call)
        exact = a.astype("f8") @ b.astype("f8")
        assert np.abs(c - exact).max() < 40 * np.finfo(char).eps * np.abs(exact).max()
        assert (whole[:, :, m] == 7).all()
        once = c.copy()
        c[:] = 0
        assert isinstance(call.cut, Cut)
        run(*pieces(replace(call, cut=replace(call.cut, least=1)), 2))
        assert (c == once).all()


def test_what_is_large_or_alone_is_left_to_blas(rng: Any) -> None:
    a, b, c = (np.zeros((9, 64, 64), "f") for _ in range(3))
    cases = [(a, b, c), (a[0, :9], b[0], c[0, :9]), (a[:, :9, :9], b[:, :9, :9], c[:, :9, :9])]
    found = [bind_matmul([x, y], [z]) for x, y, z in cases]
    labels = [str(calls[0].label).split()[0] for calls in found if calls]
    assert labels in (["product", "product", "small"], ["small"])


def test_two_calls_of_one_layout_turn_keys_in_memory_of_their_own() -> None:
    a, keys, c = np.ones((3, 5, 24), "f"), np.ones((3, 7, 24), "f"), np.empty((3, 5, 7), "f")
    bound = [bind_matmul([a, keys.swapaxes(1, 2)], [c]) for _ in range(2)]
    calls = [call for found in bound if found for call in found]
    own = [call.block[call.scratch[0]] for call in calls if call.scratch]
    assert len({*own}) == 2

"""Joining as machine code: each part is copied to its place, along any axis, of any number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")


@pytest.mark.parametrize("join", [gw.stack, gw.concat])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_parts_stand_along_an_axis(join: Any, axis: int, rng: Any) -> None:
    g = gw.Graph()
    x = g.placeholder("x", (4, 3, 2))
    y = join([x, x * 2.0, x.swapaxes(0, 2).swapaxes(0, 2)], axis=axis)
    value = rng.standard_normal((4, 3, 2)).astype("f4")
    with gw.Session(g, kernels="wait") as session:
        found = session.run(y, {"x": value})
        assert "numpy" not in str(session.plan(y, {"x": value.shape}))
    numpy = np.stack if join is gw.stack else np.concatenate
    np.testing.assert_array_equal(found, numpy([value, value * 2, value], axis))


def test_numbers_and_nothing_at_all(rng: Any) -> None:
    g = gw.Graph()
    x, empty = g.placeholder("x", ()), g.placeholder("empty", (2, 0))
    ys = [gw.stack([x, x + 1.0]), gw.stack([empty, empty], axis=1)]
    with gw.Session(g, kernels="wait") as session:
        found = session.run(ys, {"x": 3.0, "empty": np.zeros((2, 0), "f4")})
    assert found[0].tolist() == [3, 4] and found[1].shape == (2, 2, 0)

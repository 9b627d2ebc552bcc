"""Products of rows in groups with packed matrices, as machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.llvm.packed import bind, bind_grouped
from gradwright.cpu.llvm.packed.machine import MACHINES, Machine
from gradwright.cpu.llvm.target import has
from gradwright.cpu.threads.tuning import pieces
from gradwright.errors import ShapeError
from gradwright.ops.quantised.activations import rounded
from gradwright.ops.quantised.blocks import packed_ggml, unpacked
from tests.cpu.test_native_packed import normal, run

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
HERE = [m for m in MACHINES if m.needs <= has()] if available() else []
SIZES = ([1, 0, 4, 2], [0, 0, 7, 0], [7, 0, 0, 0], [0, 0, 0, 7])


@pytest.mark.parametrize("m", HERE, ids=lambda m: m.name)
@pytest.mark.parametrize("name", ["q4_0", "q4_k", "q6_k"])
def test_rows_meet_the_matrix_of_their_group(
    m: Machine, name: str, monkeypatch: Any, rng: Any
) -> None:
    monkeypatch.setattr(bind, "machine", lambda: m)
    w = packed_ggml(normal(rng, 4, 70, 256), name)
    x = normal(rng, 7, 256)
    for as_bytes in (False, True):
        for given in SIZES:
            sizes, y = np.array(given), np.empty((7, 70), "f4")
            calls = bind_grouped(name, x, w, sizes, y, as_bytes=as_bytes)
            assert calls is not None
            run(calls)
            taken = rounded(x) if as_bytes else x
            exact = np.einsum("md,mfd->mf", taken, unpacked(w, name)[np.repeat(range(4), sizes)])
            np.testing.assert_allclose(y, exact, rtol=0, atol=1e-4)
            whole, (*ready, product) = y.copy(), calls
            y[:] = 7
            cut = pieces(product, 2, alike=True)
            assert len(cut) == 2
            run([*ready, *cut])
            np.testing.assert_array_equal(y, whole)


def test_sizes_are_read_at_each_run_and_must_be_those_of_the_rows(rng: Any) -> None:
    w = packed_ggml(normal(rng, 4, 40, 64), "q4_1")
    g = gw.Graph()
    x, sizes = g.placeholder("x", ("M", 64)), g.placeholder("sizes", (4,), "int64")
    y = gw.nn.ggml_grouped_matmul(x, g.constant(w), sizes, format="q4_1")
    given = normal(rng, 7, 64)
    with gw.Session(g, kernels="wait") as session:
        for of in SIZES:
            found = session.run(y, {"x": given, "sizes": of})
            exact = np.einsum("md,mfd->mf", given, unpacked(w, "q4_1")[np.repeat(range(4), of)])
            np.testing.assert_allclose(found, exact, rtol=0, atol=1e-4)
        plan = session.plan(y, {"x": (7, 64), "sizes": (4,)})
        assert "machine code" in str(plan) and "numpy" not in str(plan)
        for wrong in ([1, 0, 4, 1], [1, 0, 4, 3], [-1, 4, 4, 0], [9, 0, 0, -2]):
            with pytest.raises(ShapeError, match="7 rows in all"):
                session.run(y, {"x": given, "sizes": wrong})
        assert session.run(y, {"x": given[:0], "sizes": [0] * 4}).shape == (0, 40)

"""Heads, rows of tables and small products of a generated token: machine code beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.chain import chain
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.llvm.products import bind_product
from gradwright.cpu.lowerings.head import Kernels
from gradwright.errors import IdError
from gradwright.ops.losses.head import HeadLogProbs, HeadLogProbsGrad
from gradwright.ops.losses.passes import Passes

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")


class Counted(Kernels):
    """Kernels of which each has to run: numpy would take over in silence."""

    def told(self, x: Any, label: Any) -> Any:
        before = x.copy()
        found = super().told(x, label)
        np.testing.assert_array_equal(x, before)  # numpy writes over them
        return found


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("attrs", [{}, {"temperature": 0.7, "softcap": 9.0}], ids=["plain", "cap"])
def test_runs_of_logits_are_read_as_in_numpy(dtype: str, attrs: dict[str, Any], rng: Any) -> None:
    """Words that are ruled out, one label that is none of them, ties of the largest."""
    h, w = rng.standard_normal((300, 7)).astype(dtype), rng.standard_normal((513, 7)).astype(dtype)
    b, ids = rng.standard_normal(513).astype(dtype), rng.integers(1, 513, 300)
    w[5], b[5] = w[4], b[4]
    ids[::5], ids[1::5] = -100, (h[1::5] @ w.T + b).argmax(-1)
    if not attrs:
        b[0] = -np.inf
    ways, tolerance = (Passes(), Counted()), 3e-6 if dtype == "f4" else 1e-13
    for x, y in zip(*(HeadLogProbs(**attrs).read(p, h, w, ids, b) for p in ways), strict=True):
        np.testing.assert_allclose(y, x, rtol=tolerance, atol=tolerance)
    gs = rng.standard_normal((4, 300)).astype(dtype)
    for some in (gs, gs * [[1], [0], [0], [0]]):
        grad, xs = HeadLogProbsGrad(**attrs), (*some.astype(dtype), h, w, ids, b)
        for x, y in zip(*(grad.read(p, *xs) for p in ways), strict=True):
            np.testing.assert_allclose(y, x, rtol=tolerance, atol=20 * tolerance)


def test_a_row_that_is_not_there_is_told_of_by_its_place(rng: Any) -> None:
    """Of a table that is computed, too, whose memory is another's when the error is told."""
    g = gw.Graph()
    ids, w = g.placeholder("ids", ("B",), "int64"), g.placeholder("w", (40, 8))
    y = gw.exp(gw.nn.embedding(ids, w * 2.0 + w)).sum(-1)
    with gw.Session(g, kernels="wait") as session:
        w = rng.standard_normal((40, 8)).astype("f4")
        for at in (3, 39):
            found = session.run(y, {"ids": np.array([at, 1]), "w": w})
            np.testing.assert_allclose(found, np.exp(3 * w[[at, 1]]).sum(-1), rtol=1e-5)
        rows = session.plan(y, {"ids": (2,), "w": (40, 8)}).kernels.rows
        assert not [row for row in rows if row.what == "numpy"]
        for wrong in (40, -1):
            with pytest.raises(IdError, match=f"{wrong}"):
                session.run(y, {"ids": np.array([0, wrong]), "w": w})


def test_the_only_row_of_a_table_is_copied(rng: Any) -> None:
    g = gw.Graph()
    ids, x = g.placeholder("ids", ("B",), "int64"), g.placeholder("x", (3, 1, 4))
    y = gw.gather(gw.exp(x) @ np.eye(4, dtype="f4"), ids, axis=1)
    with gw.Session(g, kernels="wait") as session:
        x = rng.standard_normal((3, 1, 4)).astype("f4")
        for of in ([0, -1], [0]):
            found = session.run(y, {"ids": np.array(of), "x": x})
            np.testing.assert_allclose(found, np.exp(x).repeat(len(of), 1), rtol=1e-5)
            with pytest.raises(Exception, match=r"out of (range|bounds)"):
                session.run(y, {"ids": np.array(of) - 2, "x": x})
        rows = session.plan(y, {"ids": (1,), "x": (3, 1, 4)}).kernels.rows
        assert not [row for row in rows if row.what == "numpy"]


@pytest.mark.parametrize("shapes", [((6, 3, 1, 5), (6, 3, 5, 1)), ((6, 3, 1, 1), (6, 1, 1, 5))])
def test_products_of_one_number_each_are_kernels(shapes: Any, rng: Any) -> None:
    a, b = (rng.standard_normal(shape).astype("f4") for shape in shapes)
    y = np.full((a @ b).shape, 7, "f4")
    calls = bind_product([a, b], [y])
    assert calls is not None
    chain([(call.address, call.block.ctypes.data) for call in calls])()
    np.testing.assert_allclose(y, a @ b, rtol=1e-5, atol=1e-6)

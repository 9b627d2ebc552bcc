"""Attention as machine code: numbers of numpy, in pieces the same bits, and where it is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.call import Call
from gradwright.cpu.llvm.attention import bind_attention, bind_attention_grad, bind_mask_grad
from gradwright.cpu.llvm.chain import chain
from gradwright.cpu.llvm.compiler import available
from gradwright.op import find_op
from gradwright.ops.attention import tiled

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.skipif(not available(), reason="no llvmlite")

CASES = [  # heads of queries and keys, queries, keys, features of keys and values, settings
    ((4, 2, 37, 37, 8, 8), {"is_causal": True}),
    ((2, 2, 300, 1100, 8, 5), {}),
    ((6, 2, 150, 600, 16, 16), {"is_causal": True, "scale": 0.3}),
    ((2, 2, 330, 200, 8, 8), {"is_causal": True}),  # the first queries see nothing
    ((2, 1, 700, 700, 8, 8), {"is_causal": True, "left_window_size": 20}),
    ((2, 1, 300, 100, 8, 8), {"left_window_size": 20, "right_window_size": 10}),
]


def ran(calls: Sequence[Call] | None, made: Sequence[Array]) -> list[Array]:
    assert calls is not None
    chain([(call.address, call.block.ctypes.data) for call in calls])()
    return [x.copy() for x in made]


def bound(bind: Any, op: Any, given: Sequence[Array], like: Sequence[Array]) -> list[Array]:
    """Return what an op makes whole, which is to the bit what its pieces make."""
    made = [np.full_like(x, 7) for x in like]
    *before, whole = bind(op, given, made)
    found = ran([*before, whole], made)
    for x in made:
        x[...] = 7
    pieces = whole.cut(2) if whole.cut else [whole]
    for a, b in zip(ran([*before, *pieces], made), found, strict=True):
        np.testing.assert_array_equal(a, b)
    return found


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("sizes", "settings"), CASES)
def test_numbers_are_those_of_numpy(
    sizes: tuple[int, ...], settings: dict[str, Any], dtype: str
) -> None:
    """Tiles, borders and shared heads, forward and back; heads lie between positions."""
    n, m, t, s, e, d = sizes
    rng, near = np.random.default_rng(0), 2e-5 if dtype == "f4" else 1e-12
    q, k, v, g = (
        rng.standard_normal((2, length, heads, width)).astype(dtype).swapaxes(1, 2)
        for heads, length, width in ((n, t, e), (m, s, e), (m, s, d), (n, t, d))
    )
    op, back = (find_op(name)(**settings) for name in ("flash_attention", "flash_attention_grad"))
    y, lse = op.forward(q, k, v)
    for a, b in zip(bound(bind_attention, op, (q, k, v), (y, lse)), (y, lse), strict=True):
        np.testing.assert_allclose(a, b, near, near)
    given = (g, q, k, v, lse, (g * y).sum(-1))
    slopes = back.forward(*given)
    for a, b in zip(bound(bind_attention_grad, back, given, slopes), slopes, strict=True):
        np.testing.assert_allclose(a, b, 5 * near, 5 * near)


MASKS = [  # shape of a mask [2, 4, 150, 300], its dtype, settings
    ((2, 1, 150, 300), "?", {}),
    ((2, 1, 1, 300), "?", {"unseen": "average"}),
    ((2, 1, 150, 1), "?", {"unseen": "nan"}),
    ((4, 150, 300), "f4", {"is_causal": True, "left_window_size": 140}),
    ((2, 1, 1, 300), "f4", {"unseen": "average", "offset": 0, "is_causal": True}),
    ((150, 300), "f8", {"scale": 0.3}),
]


@pytest.mark.parametrize(("shape", "kind", "settings"), MASKS)
def test_masks_are_read_tile_by_tile(
    shape: tuple[int, ...], kind: str, settings: dict[str, Any]
) -> None:
    """Shown and added, along all axes and some, with rows that see nothing, or low scores alone."""
    rng, dtype = np.random.default_rng(2), np.dtype("f4" if kind == "?" else kind)
    near = 2e-5 if dtype == "f4" else 1e-12
    q, k, v, g = (
        rng.standard_normal((2, heads, length, 8)).astype(dtype)
        for heads, length in ((4, 150), (2, 300), (2, 300), (4, 150))
    )
    mask = rng.random(shape) < 0.7 if kind == "?" else rng.standard_normal(shape).astype(dtype)
    rows = mask.reshape(-1, shape[-1])
    rows[0], rows[-1, 1:] = (0, 0) if kind == "?" else (-np.inf, -1e38)
    names = "flash_attention", "flash_attention_grad", "flash_attention_mask_grad"
    op, back, of_mask = (find_op(name)(**settings) for name in names)
    made = op.forward(q, k, v, mask)
    for a, b in zip(bound(bind_attention, op, (q, k, v, mask), made), made, strict=True):
        np.testing.assert_allclose(a, b, near, near)
    given = (g, q, k, v, made[1], (g * made[0]).sum(-1), mask)
    slopes = back.forward(*given)
    for a, b in zip(bound(bind_attention_grad, back, given, slopes), slopes, strict=True):
        np.testing.assert_allclose(a, b, 9 * near, 9 * near)
    if mask.shape[-2:] == (150, 300) and kind != "?":
        slope = of_mask.forward(*given)
        (found,) = bound(bind_mask_grad, of_mask, given, [slope])
        np.testing.assert_allclose(found, slope, 9 * near, 9 * near)


@pytest.mark.parametrize("share", [1, 2])
def test_large_scores_without_a_mask_are_made_tile_by_tile(
    share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward runs once for value and gradient, no tensor has a place for each pair; small ones,
    and those with a mask, are made whole, with the same numbers."""
    rng, t = np.random.default_rng(1), 200
    shapes = [(2, 2, *((2,) * (share > 1)), t, 8)] + [(2, 2, *((1,) * (share > 1)), t, 8)] * 2
    arrays = [rng.standard_normal(shape).astype("f4") for shape in shapes]
    found = []
    for least in (tiled.TILED, 1 << 60):
        monkeypatch.setattr(tiled, "TILED", least)
        g = gw.Graph()
        xs = [g.placeholder(n, x.shape) for n, x in zip("qkv", arrays, strict=True)]
        # Another scale each time: what an op opens into is remembered for all graphs.
        scale = 0.3 + 1e-9 * (least > t * t)
        y = gw.nn.scaled_dot_product_attention(*xs, is_causal=True, scale=scale)
        targets = [y, *gw.gradients((y * y).sum(), xs)]
        with gw.Session(g) as session:
            plan = session.plan(targets, {x: x.shape for x in xs})
            ops = [instr.op.name for instr in plan.program.instrs]
            is_tiled = all(spec.shape[-2:] != (t, t) for spec in plan.program.specs)
            assert is_tiled == (least < t * t)
            assert ops.count("flash_attention") == is_tiled
            found.append(session.run(targets, dict(zip(xs, arrays, strict=True))))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)

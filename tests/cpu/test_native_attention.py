"""Attention as machine code: numbers of numpy, in pieces the same bits, and where it is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright import nn
from gradwright.cpu.call import Call, Cut
from gradwright.cpu.llvm.attention import bind_attention, bind_attention_grad, bind_mask_grad
from gradwright.cpu.llvm.attention import calls as tiles
from gradwright.cpu.llvm.attention.cached import bind_cached
from gradwright.cpu.llvm.chain import chain
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.threads.tuning import parts
from gradwright.op import find_op
from gradwright.ops.attention import tiled

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.skipif(not available(), reason="no llvmlite")

CASES = [  # heads of queries and keys, queries, keys, features of keys and values, settings
    ("f8", (4, 2, 37, 37, 8, 8), {"is_causal": True}),
    ("f4", (2, 2, 300, 1100, 8, 5), {}),
    ("f4", (6, 2, 150, 600, 16, 16), {"is_causal": True, "scale": 0.3}),
    ("f8", (2, 2, 330, 200, 8, 8), {"is_causal": True}),  # the first queries see nothing
    ("f4", (2, 1, 700, 700, 8, 8), {"is_causal": True, "left_window_size": 20}),
    ("f4", (2, 1, 300, 100, 8, 8), {"left_window_size": 20, "right_window_size": 10}),
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
    cut, pieces = whole.cut, [whole]
    if isinstance(cut, Cut):
        pieces = parts(whole, cut, [0, cut.length // 3, cut.length])
    elif cut is not None:
        pieces = cut(2)
    for a, b in zip(ran([*before, *pieces], made), found, strict=True):
        np.testing.assert_array_equal(a, b)
    return found


@pytest.mark.parametrize(("dtype", "sizes", "settings"), CASES)
def test_numbers_are_those_of_numpy(
    dtype: str, sizes: tuple[int, ...], settings: dict[str, Any]
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


def as_it_is(mask: Array) -> Array:
    return mask


def turned(mask: Array) -> Array:
    return mask.swapaxes(-1, -2).copy().swapaxes(-1, -2)


def backwards(mask: Array) -> Array:
    return mask[..., ::-1]


# Shape of a mask [2, 4, 150, 300], how it lies, whether it is added, settings.
MASKS = [
    ((2, 1, 150, 300), as_it_is, False, {}),
    ((2, 1, 150, 300), turned, False, {}),
    ((2, 1, 1, 300), as_it_is, False, {"unseen": "average"}),
    ((2, 1, 150, 1), as_it_is, False, {"unseen": "nan"}),
    ((2, 1, 150, 300), turned, True, {}),
    ((4, 150, 300), turned, True, {"is_causal": True, "left_window_size": 140}),
    ((2, 1, 1, 300), backwards, True, {"unseen": "average", "offset": 0, "is_causal": True}),
]


@pytest.mark.parametrize(("shape", "lie", "is_added", "settings"), MASKS)
def test_masks_are_read_tile_by_tile(
    shape: tuple[int, ...],
    lie: Callable[[Array], Array],
    is_added: bool,
    settings: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Shown and added, along all axes and some, with rows that see nothing, or low scores alone."""
    if not settings:  # as where there are so many keys that tiles have more than others
        monkeypatch.setattr(tiles, "LONG", 256)
        monkeypatch.setattr(tiles, "MANY", 64)
    rng = np.random.default_rng(2)
    q, k, v, g = (
        rng.standard_normal((2, heads, length, 8), "f4")
        for heads, length in ((4, 150), (2, 300), (2, 300), (4, 150))
    )
    mask: Array = rng.standard_normal(shape, "f4") if is_added else rng.random(shape) < 0.7
    rows = mask.reshape(-1, shape[-1])
    rows[0], rows[-1, 1:] = (-np.inf, -1e38) if is_added else (0, 0)
    mask = lie(mask)
    names = "flash_attention", "flash_attention_grad", "flash_attention_mask_grad"
    op, back, of_mask = (find_op(name)(**settings) for name in names)
    made = op.forward(q, k, v, mask)
    for a, b in zip(bound(bind_attention, op, (q, k, v, mask), made), made, strict=True):
        np.testing.assert_allclose(a, b, 2e-5, 2e-5)
    given = (g, q, k, v, made[1], (g * made[0]).sum(-1), mask)
    slopes = back.forward(*given)
    for a, b in zip(bound(bind_attention_grad, back, given, slopes), slopes, strict=True):
        np.testing.assert_allclose(a, b, 2e-4, 2e-4)
    if is_added and shape[-2:] == (150, 300):
        slope = of_mask.forward(*given)
        (found,) = bound(bind_mask_grad, of_mask, given, [slope])
        np.testing.assert_allclose(found, slope, 2e-4, 2e-4)


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


N = 20  # positions, of which half more lie before them


OPENED = {  # what is attended to, by scale, queries, keys, values, a mask and what else there is
    "shown": lambda s, q, k, v, m, _: nn.scaled_dot_product_attention(
        q, k[:, :, :N], v[:, :, :N], m > 0, scale=s, unseen="average"
    ),
    "added": lambda s, q, k, v, m, _: nn.scaled_dot_product_attention(
        q, k[:, :, :N], v[:, :, :N], m, scale=s, is_causal=True
    ),
    "window": lambda s, q, k, v, m, _: nn.sliding_window_attention(
        q, k, v, m[..., :1], scale=s, window_size=5
    ),
    "lengths": lambda s, q, k, v, m, n: nn.attention(
        q, k, v, m > 0, None, None, n, scale=s, is_causal=True
    )[0],
    "exist": lambda s, q, k, v, m, n: nn.attention(q, k, v, None, None, None, n, scale=s)[0],
    "past": lambda s, q, k, v, m, n: nn.attention(
        q, k[:, :, :N], v[:, :, :N], None, k[:, :, N:], v[:, :, N:], scale=s, is_causal=True
    )[0],
    "cache": lambda s, q, k, v, m, n: nn.cached_attention(
        q, k[:, :, :N], v[:, :, :N], k[:, :, N:], v[:, :, N:], n - N, scale=s
    )[0],
    "near": lambda s, q, k, v, m, n: nn.cached_attention(
        q, k[:, :, :N], v[:, :, :N], k[:, :, N:], v[:, :, N:], n - N, scale=s, window_size=7
    )[0],
}  # fmt: skip


@pytest.mark.parametrize("name", OPENED)
def test_what_opens_into_tiles_means_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    heads = [2 if name in ("shown", "added") else 4, 2, 2]
    arrays = [rng.standard_normal((2, n, t, 4)) for n, t in zip(heads, (N, 30, 30), strict=True)]
    arrays.append(rng.standard_normal((heads[0], N, N)))
    found = []
    for least in (1, 1 << 60):
        monkeypatch.setattr(tiled, "TILED", least)
        g = gw.Graph()
        xs = [g.placeholder(f"x{n}", x.shape, "float64") for n, x in enumerate(arrays)]
        y = OPENED[name](0.5 + 1e-12 * (least > 1), *xs, g.constant([30, 23]))
        targets = [y, *gw.gradients((y * y).sum(), xs, unreachable="zero")]
        with gw.Session(g) as session:
            plan = session.plan(targets, {x: x.shape for x in xs})
            ops = [instr.op.name for instr in plan.program.instrs]
            assert ("flash_attention" in ops) == (least == 1)
            found.append(session.run(targets, dict(zip(xs, arrays, strict=True))))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, 1e-8, 1e-9)


CACHED = [  # rows, heads of queries and keys, features of keys and values, places, settings
    ((70, 4, 2, 24, 24, 16), {}),
    ((33, 3, 1, 7, 5, 9), {"window_size": 3}),
    ((3, 2, 2, 47, 128, 40), {"scale": 0.3, "window_size": 30}),
    ((2, 1, 1, 1, 1, 0), {}),
]


@pytest.mark.parametrize(("sizes", "settings"), CACHED)
def test_a_new_position_meets_no_more_of_a_cache_than_is_taken(
    sizes: tuple[int, ...], settings: dict[str, Any]
) -> None:
    """Rows are filled as far as may be, and beyond; what stands in other places is not read."""
    b, n, m, e, d, s = sizes
    rng, op = np.random.default_rng(1), find_op("cached_attention")(**settings)
    shapes = (b, 1, n, e), (b, m, 1, e), (b, m, 1, d), (b, m, s, e), (b, m, s, d)
    q, k, v, keys, values = (rng.standard_normal(shape).astype("f4") for shape in shapes)
    filled, q = rng.integers(-1, s + 2, b), q.swapaxes(1, 2)
    wide = [x.astype("f8") for x in (q, k, v, keys, values)]
    wanted = op.forward(*wide, filled)
    free = np.arange(s) >= filled[:, None]
    keys[np.broadcast_to(free[:, None], keys.shape[:3])] = np.nan
    values[np.broadcast_to(free[:, None], values.shape[:3])] = np.nan
    given, like = [q, k, v, keys, values, filled], [x.astype("f4") for x in wanted]
    found = bound(bind_cached, op, given, like)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, 2e-5, 1e-6)


def test_a_step_of_a_cache_is_one_call_and_several_are_products() -> None:
    g = gw.Graph()
    q, old = g.placeholder("q", (2, 2, "T", 4)), g.placeholder("old", (2, 2, 6, 4))
    y, _ = nn.cached_attention(q, q, q, old, old, g.constant([1, 5]))
    feeds = {q: np.ones((2, 2, 1, 4), "f4"), old: np.ones((2, 2, 6, 4), "f4")}
    with gw.Session(g, kernels="wait", threads=2) as session:
        one, more = (session.plan(y, {q: (2, 2, t, 4), old: old.shape}) for t in (1, 3))
        assert [i.op.name for i in one.program.instrs] == ["cached_attention"]
        assert "matmul" in [i.op.name for i in more.program.instrs]
        np.testing.assert_allclose(session.run(y, feeds), 1.0)
        assert "machine code" in str(one.kernels)

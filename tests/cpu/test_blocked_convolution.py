"""Convolutions whose weights stand in blocks of channels: to the bit what they are in rows."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm import compiler
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.llvm.convolution import blocked, forward, lanes, rooms, tiles, turning
from gradwright.cpu.llvm.target import Target
from gradwright.ops.convolutions.cnn import ConvInputGrad
from tests.cpu.test_followed import conv

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")

CASES = [
    ((1, 64, 14, 14), (64, 64, 3, 3), {"padding": 1}),  # sums of more than 512
    ((3, 70, 31, 31), (80, 70, 1, 1), {}),  # rows lie behind each other; tiles overlap
    ((5, 70, 7, 7), (64, 70, 3, 3), {"padding": 1}),  # several small images at a time
    ((2, 16, 23, 17), (37, 16, 3, 3), {"padding": 1, "stride": 2}),  # blocks overlap
    ((1, 20, 150, 95), (32, 20, 1, 1), {}),  # some rows at a time
    ((1, 9, 5, 12, 13), (32, 9, 2, 3, 3), {"padding": (1, 0, 1), "dilation": (1, 2, 1)}),
    ((2, 30, 60), (48, 30, 5), {"padding": 2}),
]
TAILS = [
    lambda y, r, s: y,
    lambda y, r, s: gw.nn.relu(y * s + r),
    lambda y, r, s: gw.nn.relu(gw.flip(r, 0) - y),  # may be written over what it reads
    lambda y, r, s: [gw.nn.hard_swish(y), gw.minimum(gw.maximum(y - s, 0.0), 6.0) * r],
    lambda y, r, s: y * s + r * 2.0,  # which product is rounded is the compiler's choice
    lambda y, r, s: gw.nn.silu(y),
]


@pytest.fixture
def made(monkeypatch):
    """Return the numbers of weights in their jobs, of all that have been put in blocks."""
    found, init = [], blocked.Blocks.__post_init__
    monkeypatch.setattr(
        blocked.Blocks, "__post_init__", lambda self: found.append(self.number) or init(self)
    )
    monkeypatch.setattr(rooms, "_kept", type(rooms._kept)())
    return found


@pytest.fixture
def choose(monkeypatch, made):
    """Have weights stand in blocks of so many vectors, 0: in rows."""
    return lambda vectors: monkeypatch.setattr(forward, "vectors_for", lambda *_: vectors)


def applied(x, w, attrs, tail, kernels="wait", threads=1, dtype="float32"):
    """Return what a tail makes of a convolution by a constant weight."""
    rng = np.random.default_rng(3)
    g = gw.Graph()
    t = g.placeholder("x", x, dtype)
    weight, bias = (g.constant(rng.standard_normal(s).astype(dtype)) for s in (w, w[:1]))
    y = conv(t, weight, bias, **attrs)
    r = g.placeholder("r", y.shape, dtype)
    s = g.placeholder("s", (w[0], *(1,) * (len(x) - 2)), dtype)
    ys = tail(y, r, s)
    ys = ys if isinstance(ys, list) else [ys]
    feeds = {p.name: rng.standard_normal(p.shape).astype(dtype) for p in (t, r, s)}
    with gw.Session(g, kernels=kernels, threads=threads, deterministic=True) as session:
        return session.run(ys, feeds)


@pytest.mark.parametrize(
    ("case", "tails"),
    [(0, (1, 5)), (1, (2, 4)), (2, (3,)), (3, (0, 1)), (4, (1,)), (5, (2,)), (6, (3,))],
)
def test_as_in_rows_and_as_numpy(case, tails, choose, made):
    found = {}
    for vectors in (2, 0):
        choose(vectors)
        found[vectors] = [applied(*CASES[case], TAILS[n]) for n in tails]
        assert len(made) == len(tails)
    found["numpy"] = [applied(*CASES[case], TAILS[n], "off") for n in tails]
    for ours, in_rows, in_numpy in zip(*found.values(), strict=True):
        for a, b, c in zip(ours, in_rows, in_numpy, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_allclose(a, c, 0, 2e-5 * np.abs(c).max())


@pytest.mark.parametrize(
    ("n", "channels"), [(1, 96), (3, 32), (1, 32)], ids=["blocks", "images", "rows"]
)
def test_pieces_on_two_threads(n, channels, choose):
    choose(2)
    given = (n, 40, 39, 40), (channels, 40, 3, 3), {"padding": 1}, TAILS[2]
    np.testing.assert_array_equal(applied(*given), applied(*given, threads=2))


def test_weights_that_change_are_put_in_order_where_that_pays(rng, made, monkeypatch):
    x, w, y = (8, 32, 12, 13), (64, 32, 3, 3), (8, 64, 12, 7)
    arrays, attrs = [rng.standard_normal(s).astype("f") for s in (x, w, y)], {"padding": 1}

    def run(kernels="wait"):
        g = gw.Graph()
        t, k, dy = (g.variable(n, init=a) for n, a in zip("xkg", arrays, strict=True))
        at = {"stride": (1, 2), **attrs}
        with gw.Session(g, kernels=kernels) as session:
            return session.run([gw.cnn.conv2d(t, k, **at), ConvInputGrad(**at)(dy, k, t)])

    ours = run()
    assert made == [0, 0, 1]  # two phases go back to x
    monkeypatch.setattr(blocked, "PAYING", 1 << 20)
    for a, b, c in zip(ours, run(), run("off"), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, 0, 2e-5 * np.abs(c).max())
    assert len(made) == 3


def test_plans_share_what_was_made_of_a_constant(choose, rng):
    g = gw.Graph()
    x = g.placeholder("x", ("N", 32, 12, 12))
    y = gw.cnn.conv2d(x, g.constant(rng.standard_normal((32, 32, 3, 3)).astype("f")))
    feeds = [rng.standard_normal((n, 32, 12, 12)).astype("f") for n in (1, 2)]
    session = gw.Session(g, kernels="wait")
    one, two = (session.run(y, {"x": x}) for x in feeds)
    assert len(rooms._kept) == 1
    np.testing.assert_array_equal(session.run(y, {"x": feeds[1][:1]})[0], two[0])
    assert one.shape[0] == 1
    session.close()
    del session
    gc.collect()
    assert not rooms._kept


def test_others_that_read_a_constant_in_another_order(choose, rng):
    choose(2)
    w, x = (rng.standard_normal(s).astype("f") for s in ((32, 32, 4, 4), (1, 32, 9, 9)))
    found = []
    for kernels in ("wait", "off"):
        g = gw.Graph()
        t, k = g.placeholder("x", x.shape), g.constant(w)
        y = gw.cnn.conv2d(t, k)
        back = [gw.cnn.conv_transpose2d(t, k, stride=s, padding=p) for s in (1, 2) for p in (0, 1)]
        with gw.Session(g, kernels=kernels) as session:
            found.append(session.run([y, *back, *gw.gradients(y.sum(), [t])], {"x": x}))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, 0, 2e-5 * np.abs(b).max())


def test_machines_with_smaller_vectors(choose, monkeypatch):
    compiled = tiles.machine, tiles.compiled, lanes.compiled, turning._compiled
    monkeypatch.setattr(compiler, "identity", lambda: "as if avx2")
    choose(2)
    wide = applied(*CASES[3], TAILS[1])
    other = Target("native", "x86_64", frozenset({"avx2"}))
    monkeypatch.setattr("gradwright.cpu.llvm.convolution.machine.target", lambda: other)
    try:
        for function in compiled:
            function.cache_clear()
        np.testing.assert_array_equal(wide, applied(*CASES[3], TAILS[1]))
    finally:
        for function in compiled:
            function.cache_clear()

"""Convolutions with what follows them, and means of windows, as machine code: against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available
from gradwright.ops.convolutions.averages import AvgPooling
from gradwright.plan import kept

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")

TOLERANCE = {"float64": 1e-10, "float32": 2e-5}
SHAPES = [
    ((1, 130, 15, 14), (40, 130, 1, 1), {}),  # put in order, some rows at a time
    ((1, 600, 9, 11), (33, 600, 1, 1), {}),  # sums of more than 512
    ((5, 20, 7, 7), (34, 20, 1, 1), {}),  # several small images at a time
    ((7, 3, 5, 6), (6, 3, 3, 3), {"padding": 1}),
    ((2, 12, 17, 15), (5, 12, 1, 1), {"stride": 2}),
    ((2, 8, 30, 33), (24, 8, 3, 3), {}),
    ((3, 18, 9, 10), (18, 1, 3, 3), {"padding": 1, "groups": 18}),
    ((1, 12, 8, 9), (18, 4, 3, 2), {"groups": 3, "stride": (2, 1), "dilation": (1, 2)}),
    ((2, 6, 40), (7, 6, 3), {"padding": 2}),
    ((2, 3, 4, 5, 6), (5, 3, 2, 1, 3), {"padding": (1, 0, 1)}),
    ((1, 1, 6, 7), (1, 1, 3, 3), {"padding": 1}),
]
FUNCTIONS = [
    lambda y, r, s: gw.nn.relu(y * s + r),
    lambda y, r, s: gw.nn.silu(y + s) - r,
    lambda y, r, s: gw.minimum(gw.maximum(y, 0.0), 6.0),
    lambda y, r, s: gw.nn.hard_swish(r * y),
]


def in_turn(kinds):
    """Return the numbers of kinds, each with a dtype in turn, and the first with all."""
    dtypes = list(TOLERANCE)
    return [(0, dtypes[0]), *((n, dtypes[(n + 1) % 2]) for n in range(len(kinds)))]


def conv(x, *rest, **attrs):
    return {3: gw.cnn.conv1d, 4: gw.cnn.conv2d, 5: gw.cnn.conv3d}[x.rank](x, *rest, **attrs)


def run(make, feeds, kernels, threads=1):
    """Return what a function makes of placeholders, and which ops each step stands for."""
    g = gw.Graph()
    ys = make(*(g.placeholder(f"x{n}", a.shape, a.dtype) for n, a in enumerate(feeds)))
    given = {f"x{n}": a for n, a in enumerate(feeds)}
    with gw.Session(g, kernels=kernels, threads=threads) as session:
        found = session.run(ys, given)
        steps = session.plan(ys, {k: a.shape for k, a in given.items()}).kernels
        return found, [step.ops for step in steps if step.what != "view"]


def close(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, 0, TOLERANCE[a.dtype.name] * np.abs(b).max(initial=1.0))


@pytest.mark.parametrize(("n", "dtype"), in_turn(SHAPES))
def test_what_follows_is_part_of_the_step(n, dtype, rng):
    x, w, attrs = SHAPES[n]
    spec = gw.cnn.conv1d if len(x) == 3 else gw.cnn.conv2d if len(x) == 4 else gw.cnn.conv3d
    g = gw.Graph()
    size = tuple(map(int, spec(g.placeholder("x", x), g.placeholder("w", w), **attrs).shape))
    shapes = x, w, w[:1], size, (w[0], *(1,) * (len(x) - 2))
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    follow = FUNCTIONS[n % len(FUNCTIONS)]

    def make(x, w, b, r, s):
        return [follow(conv(x, w, b, **attrs), r, s)]

    expected, _ = run(make, arrays, "off")
    ours, steps = run(make, arrays, "wait")
    assert len(steps) == 1
    close(ours, expected)
    again, _ = run(make, arrays, "wait", threads=2)
    np.testing.assert_array_equal(again[0], ours[0])


def test_a_slope_follows_what_goes_back_to_images(rng):
    arrays = [rng.standard_normal(s).astype("f") for s in ((3, 4, 9, 8), (6, 4, 3, 3))]

    def make(x, w):
        h = gw.tanh(x)
        with x.graph:
            return gw.gradients((conv(h, w, padding=1) ** 2).sum(), [x])

    expected, _ = run(make, arrays, "off")
    ours, steps = run(make, arrays, "wait")
    assert any("conv_input_grad" in ops and len(ops) > 1 for ops in steps)
    close(ours, expected)


def test_what_others_read_is_written(rng):
    arrays = [rng.standard_normal(s).astype("f") for s in ((2, 4, 9, 8), (6, 4, 3, 3))]

    def fetched(x, w):
        y = conv(x, w)
        return [y, gw.nn.relu(y)]

    def summed(x, w):
        y = gw.nn.relu(conv(x, w))
        return [y, y.sum((0, 2, 3))]

    def read_twice(x, w):
        y = conv(x, w)
        return [gw.nn.relu(y) + conv(y, w[:, :1].reshape(1, 6, 3, 3))[:, :, :1, :1]]

    for make in (fetched, summed, read_twice):
        expected, _ = run(make, arrays, "off")
        ours, steps = run(make, arrays, "wait")
        assert ("conv2d",) in steps
        close(ours, expected)


@pytest.mark.parametrize("is_constant", [True, False])
def test_a_batch_norm_is_part_of_its_convolution(is_constant, rng):
    x, w = (rng.standard_normal(s).astype("f") for s in ((2, 4, 9, 8), (6, 4, 3, 3)))
    scale, shift, mean, variance = rng.uniform(0.5, 2.0, (4, 6)).astype("f")

    def make(x):
        g = x.graph
        held = g.constant if is_constant else lambda a, n: g.variable(n, init=a)
        weight, *norm = (
            held(a, n) for n, a in zip("wabcd", (w, scale, shift, mean, variance), strict=True)
        )
        return [gw.nn.relu(gw.nn.batch_norm(conv(x, weight), *norm))]

    expected, _ = run(make, [x], "off")
    ours, steps = run(make, [x], "wait")
    (ops,) = (ops for ops in steps if "conv2d" in ops)
    assert ops == ("conv2d", "relu") if is_constant else len(ops) > 2
    close(ours, expected)


def test_a_plan_from_disk_has_the_same_steps(rng, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(kept, "LEAST", 1)
    arrays = [rng.standard_normal(s).astype("f") for s in ((2, 4, 9, 8), (6, 4, 3, 3))]
    made, read = (run(lambda x, w: [gw.nn.relu(conv(x, w))], arrays, "wait") for _ in range(2))
    assert made[1] == read[1] == [("conv2d", "relu")]
    np.testing.assert_array_equal(made[0][0], read[0][0])


MEANS = [
    *AvgPooling.cases(),
    ((2, 3, 17, 19), {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False}),
    ((1, 70, 7, 7), {"kernel_size": 7}),
    ((3, 5, 30, 31), {"kernel_size": (3, 2), "stride": 1}),
]


@pytest.mark.parametrize(("n", "dtype"), in_turn(MEANS))
def test_means_of_windows(n, dtype, rng, monkeypatch):
    shape, attrs = MEANS[n]
    pool = {3: gw.cnn.avg_pool1d, 4: gw.cnn.avg_pool2d, 5: gw.cnn.avg_pool3d}[len(shape)]
    size = pool(gw.Graph().placeholder("x", shape), **attrs).shape
    arrays = [rng.standard_normal(s).astype(dtype) for s in (shape, tuple(map(int, size)))]

    def make(x, dy):
        y = pool(x, **attrs)
        with x.graph:
            return [y, *gw.gradients(y, [x], dy)]

    expected, _ = run(make, arrays, "off")
    if shape[0]:
        monkeypatch.setattr("gradwright.ops.convolutions.averages.chunks", None)  # numpy cannot
    ours, _ = run(make, arrays, "wait")
    close(ours, expected)


POOLS = [
    ((2, 3, 9, 37), {"kernel_size": 3, "stride": 2}),
    ((5, 4, 9, 7), {"kernel_size": 3, "stride": (1, 3), "padding": 1}),
]


@pytest.mark.parametrize(("shape", "attrs"), POOLS)
def test_taps_that_nobody_reads_are_not_told(shape, attrs, rng):
    x = np.round(rng.standard_normal(shape), 1).astype("f")
    x.flat[::31], x.flat[::17] = np.nan, -np.inf
    g = gw.Graph()
    y = gw.cnn.max_pool2d(g.placeholder("x", shape), **attrs)
    with g:
        both = [y, *gw.gradients(y.sum(), [g["x"]])]
    expected = gw.Session(g, kernels="off").run(y, {"x": x})
    for threads, fetches, told in ((1, [y], 1), (2, [y], 1), (1, both, 2)):
        with gw.Session(g, kernels="wait", threads=threads) as session:
            np.testing.assert_array_equal(session.run(fetches, {"x": x})[0], expected)
            plan = session.plan(fetches, {"x": shape})
            (step,) = (n for n, row in enumerate(plan.kernels) if row.ops == ("max_pool2d",))
            assert plan.kernels[step].what == "machine code"
            assert len(plan.kernels[step].outs) == told

"""Convolutions and poolings as machine code: against numpy and torch, with all attributes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm import compiler
from gradwright.cpu.llvm.bind import bind_copy
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.llvm.convolution import bind_untap, pooling, tiles, turning
from gradwright.cpu.llvm.repeat import Turn, repeated
from gradwright.cpu.llvm.target import Target
from gradwright.ops.convolutions.cnn import ConvInputGrad, Convolution, ConvWeightGrad
from gradwright.ops.convolutions.pooling import MaxPooling
from gradwright.ops.convolutions.windows import Windows
from tests.cpu.sketches import run_all

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")

TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
LARGER = [
    ((3, 5, 17, 19), (12, 5, 3, 3), {"padding": 1}),
    ((2, 3, 64, 64), (40, 3, 7, 7), {"stride": 2, "padding": 3}),
    ((2, 6, 33, 18), (20, 6, 5, 3), {"padding": (2, 1), "stride": 2}),
    ((2, 32, 30, 31), (32, 1, 3, 3), {"groups": 32}),
    ((2, 6, 11, 12), (12, 1, 3, 3), {"groups": 6, "stride": 2, "padding": "same"}),
    ((2, 8, 21), (8, 2, 5), {"groups": 4, "padding": 2, "dilation": 2}),
    ((2, 12, 40), (34, 6, 3), {"groups": 2, "dilation": 3, "stride": 2}),
    ((2, 4, 16, 16), (6, 4, 1, 1), {}),
    (
        (2, 4, 16, 16),
        (6, 4, 3, 3),
        {"stride": 3, "dilation": 2, "padding": ((1, 3), (4, 0))},
    ),
    ((1, 4, 9, 9), (4, 4, 2, 2), {"stride": 4}),
    ((2, 3, 9, 9), (4, 3, 2, 2), {"padding": ((1, -3), (-1, 2))}),
    ((2, 3, 7, 8, 9), (5, 3, 3, 2, 3), {"padding": 1}),
    (
        (2, 4, 8, 9, 7),
        (6, 2, 3, 2, 1),
        {"stride": (2, 1, 2), "groups": 2, "dilation": (1, 2, 1), "padding": (1, 0, 0)},
    ),
    ((2, 4, 50, 60), (12, 2, 2, 2), {"groups": 2}),  # many positions: rows, in parts
    ((1, 2, 140, 130), (2, 2, 2, 2), {"stride": (1, 2)}),
    ((1, 2, 2600), (9, 2, 3), {"padding": 1}),  # and parts of a row
    ((1, 2, 1, 17000), (3, 2, 1, 2), {}),
    ((600, 2, 3, 4), (7, 2, 2, 2), {}),  # many images
    ((513, 2, 5), (2, 2, 2), {"padding": 1}),
    ((1, 130, 5, 6), (9, 130, 3, 3), {}),  # many taps
]
CASES = [*Convolution.cases(), *LARGER]
POOLS = [
    *MaxPooling.cases(),
    ((2, 3, 64, 70), {"kernel_size": 2}),
    ((2, 3, 17, 19), {"kernel_size": 3, "stride": 2, "padding": 1}),
    ((2, 3, 9, 40), {"kernel_size": 3, "stride": 3}),
    ((2, 3, 9, 70), {"kernel_size": 3, "stride": 4, "padding": 1}),
    ((1, 2, 29, 37), {"kernel_size": (20, 17), "stride": 1}),
    ((2, 2, 5, 6, 7), {"kernel_size": 2, "stride": 1, "padding": 1}),
    ((2, 3, 50), {"kernel_size": 4, "stride": 3, "ceil_mode": True}),
    ((2, 3, 12), {"kernel_size": 2, "stride": 1, "padding": ((-2, 1),)}),
]


def conv(rank):
    return {3: gw.cnn.conv1d, 4: gw.cnn.conv2d, 5: gw.cnn.conv3d}[rank]


def max_pool(rank):
    return {3: gw.cnn.max_pool1d, 4: gw.cnn.max_pool2d, 5: gw.cnn.max_pool3d}[rank]


def drawn(rng, dtype, *shapes):
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def convolved(arrays, attrs, kernels):
    """Return the convolution of x with w and b, and what goes back to x and w from a cotangent."""
    g = gw.Graph()
    x, w, b, dy = (g.placeholder(n, a.shape, a.dtype) for n, a in zip("xwbg", arrays, strict=True))
    ys = [
        conv(x.rank)(x, w, b, **attrs),
        conv(x.rank)(x, w, **attrs),
        ConvInputGrad(**attrs)(dy, w, x),
        ConvWeightGrad(**attrs)(x, dy, w),
    ]
    with gw.Session(g, kernels=kernels) as session:
        return session.run(ys, dict(zip("xwbg", arrays, strict=True)))


def operands(rng, dtype, x, w, attrs):
    """Return random images, kernels, biases and cotangents."""
    spec = ConvInputGrad(**attrs).convolved(gw.TensorSpec(x), gw.TensorSpec(w))
    return drawn(rng, dtype, x, w, w[:1], tuple(map(int, spec.shape)))


def pooled(x, dy, attrs, kernels):
    """Return the largest elements, and what goes back."""
    g = gw.Graph()
    t, seed = g.placeholder("x", x.shape, x.dtype), g.placeholder("g", dy.shape, dy.dtype)
    with g:
        y = max_pool(x.ndim)(t, **attrs)
        back = gw.gradients(y, [t], seed)
    with gw.Session(g, kernels=kernels) as session:
        return session.run([y, *back], {"x": x, "g": dy})


def pool_operands(rng, dtype, shape, attrs):
    size = max_pool(len(shape))(gw.Graph().placeholder("x", shape), **attrs).shape
    return drawn(rng, dtype, shape, tuple(map(int, size)))


def same(ours, theirs, dtype):
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype == dtype
        size = float(np.abs(b, where=np.isfinite(b), out=np.zeros(b.shape)).max(initial=1.0))
        np.testing.assert_allclose(a, b, 0, TOLERANCE[dtype] * size)


@pytest.fixture
def no_numpy(monkeypatch):
    """Make convolutions and poolings fail in numpy: what still runs is machine code."""

    def refuse():
        def fail(*_):
            raise AssertionError("numpy computes it")

        for name in ("correlate", "correlate_back", "correlated"):
            monkeypatch.setattr(f"gradwright.ops.convolutions.cnn.{name}", fail)
        monkeypatch.setattr("gradwright.ops.convolutions.pooling.largest", fail)
        monkeypatch.setattr("gradwright.ops.convolutions.pooling.Untap.forward", fail)

    return refuse


# -- convolutions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("x", "w", "attrs"), CASES)
def test_convolutions_and_their_gradients(x, w, attrs, dtype, rng, no_numpy):
    arrays = operands(rng, dtype, x, w, attrs)
    expected = convolved(arrays, attrs, "off")
    if x[0]:
        no_numpy()
    same(convolved(arrays, attrs, "wait"), expected, dtype)


@pytest.mark.parametrize(
    ("x", "w", "attrs"),
    [
        ((2, 3, 9, 8), (4, 3, 3, 2), {"padding": 1, "stride": 2}),
        ((2, 4, 9), (4, 1, 3), {"groups": 4}),
    ],
)
def test_gradients_of_gradients(x, w, attrs, rng, no_numpy):
    def run(kernels):
        g = gw.Graph()
        with g:
            given = g.variable("x", init=arrays[0]), g.variable("w", init=arrays[1])
            y = gw.tanh(conv(len(x))(*given, **attrs))
            first = gw.gradients((y * y).sum(), given)
            second = gw.gradients(sum((d * d).sum() for d in first), given)
        with gw.Session(g, kernels=kernels) as session:
            return session.run([*first, *second])

    arrays = drawn(rng, "float64", x, w)
    expected = run("off")
    no_numpy()
    same(run("wait"), expected, "float64")


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("groups", [1, 3])
def test_as_in_torch(padding, groups, rng, torch):
    attrs = {"stride": (2, 1), "padding": padding, "dilation": (1, 2), "groups": groups}
    arrays = operands(rng, "float32", (2, 6, 20, 33), (9, 6 // groups, 3, 5), attrs)
    x, w, b, dy = map(torch.from_numpy, arrays)
    x.requires_grad_(), w.requires_grad_()
    y = torch.nn.functional.conv2d(x, w, **attrs)
    expected = [y + b[:, None, None], y, *torch.autograd.grad(y, [x, w], dy)]
    same(convolved(arrays, attrs, "wait"), [t.detach().numpy() for t in expected], "float32")


@pytest.mark.parametrize(
    "attrs",
    [{}, {"stride": 2, "output_padding": 1, "padding": 1}, {"groups": 2, "padding": "same"}],
)
def test_transposed_convolutions(attrs, rng, no_numpy, monkeypatch):
    def run(kernels):
        g = gw.Graph()
        given = [g.variable(n, init=a) for n, a in zip("xwb", arrays, strict=True)]
        with g:
            y = gw.cnn.conv_transpose2d(*given, **attrs)
            grads = gw.gradients(y * y, given)
        with gw.Session(g, kernels=kernels) as session:
            return session.run([y, *grads])

    groups = attrs.get("groups", 1)
    arrays = drawn(rng, "float64", (2, 4, 6, 7), (4, 3, 3, 2), (3 * groups,))
    expected = run("off")
    no_numpy()
    monkeypatch.setattr("gradwright.ops.convolutions.transposed.correlate_back", None)
    same(run("wait"), expected, "float64")


@pytest.mark.parametrize("spoiled", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("x", "w", "attrs"), LARGER[:5])
def test_what_is_not_finite_spreads_no_further(x, w, attrs, spoiled, rng):
    arrays = operands(rng, "float32", x, w, attrs)
    arrays[0][0, :, x[2] // 2, ..., 1] = spoiled
    arrays[3][-1, :2, 0, ..., -1] = spoiled
    same(convolved(arrays, attrs, "wait"), convolved(arrays, attrs, "off"), "float32")


def test_arrays_in_any_order(rng, no_numpy):
    def run(kernels):
        g = gw.Graph()
        x, w = g.constant(arrays[0]), g.variable("w", init=arrays[1])
        with g:
            y = gw.cnn.conv2d(x.transpose((0, 3, 1, 2)), w.transpose((3, 2, 0, 1)), padding=1)
            dw = gw.gradients(y.transpose((0, 2, 3, 1)), [w])
        with gw.Session(g, kernels=kernels) as session:
            return session.run([y, *dw])

    arrays = drawn(rng, "float64", (2, 9, 10, 4), (3, 3, 4, 6))
    expected = run("off")
    no_numpy()
    same(run("wait"), expected, "float64")


# -- poolings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("shape", "attrs"), POOLS)
def test_largest_elements(shape, attrs, dtype, rng, no_numpy):
    x, dy = pool_operands(rng, dtype, shape, attrs)
    expected = pooled(x, dy, attrs, "off")
    if shape[0] and attrs.get("padding") != ((-2, 1),):  # what crops goes back in numpy
        no_numpy()
    same(pooled(x, dy, attrs, "wait"), expected, dtype)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 0.0])
@pytest.mark.parametrize("share", [1, 3])
@pytest.mark.parametrize(("shape", "attrs"), POOLS[-7:-2])
def test_largest_of_special_numbers(shape, attrs, special, share, rng):
    x, dy = pool_operands(rng, "float32", shape, attrs)
    x[rng.integers(0, share, shape) == 0] = special
    ours, theirs = (pooled(x, dy, attrs, kernels) for kernels in ("wait", "off"))
    np.testing.assert_array_equal(ours[0], theirs[0])
    np.testing.assert_allclose(ours[1], theirs[1], 1e-6, 1e-6)


@pytest.mark.parametrize("padding", [0, 1])
def test_taps_of_no_window_write_nowhere_else(padding):
    x = np.zeros((3, 2, 2, 5, 8))
    tap = np.full((1, 2, 2, 4), 255, np.uint8)
    g = np.ones(tap.shape)
    windows = Windows.of((2, 2), 2, padding, 1)
    calls = bind_untap(
        windows, [g, tap, x[1:2, :, 0, :4]], [dx := x[1:2].reshape(1, 4, 5, 8)[:, :2, :4]]
    )
    assert calls is None  # not dense
    x = np.zeros((3, 2, 4 - 2 * padding, 8 - 2 * padding))
    dx = x[1:2]
    calls = bind_untap(windows, [g, tap, dx], [dx])
    run_all(calls)
    assert not x[0].any() and not x[2].any()
    assert dx.sum() <= g.sum()


# -- machine code ---------------------------------------------------------------------------------


def test_texts_are_the_same_in_every_process():
    """Object code is found on disk by its text: no order of a set, which a process draws, shows."""
    code = (
        "from gradwright.cpu.llvm.convolution.tiles import Machine, source\n"
        "print(source('taps', Machine('f', 64, 32), 8))"
    )
    one, other = (
        subprocess.check_output([sys.executable, "-c", code], env={**os.environ, **seed})
        for seed in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2"})
    )
    assert one == other


@pytest.mark.parametrize("flags", ["avx2", "aarch64", ""])
def test_machines_with_smaller_vectors(flags, rng, monkeypatch):
    compiled = tiles.machine, tiles.compiled, pooling._compiled, turning._compiled
    monkeypatch.setattr(compiler, "identity", lambda: f"as if {flags}")
    other = Target("native", "aarch64" if flags == "aarch64" else "x86_64", frozenset({flags}))
    monkeypatch.setattr("gradwright.cpu.llvm.convolution.machine.target", lambda: other)
    try:
        for function in compiled:
            function.cache_clear()
        for x, w, attrs in (LARGER[0], LARGER[3]):
            arrays = operands(rng, "float32", x, w, attrs)
            expected = convolved(arrays, attrs, "off")
            same(convolved(arrays, attrs, "wait"), expected, "float32")
        x, dy = pool_operands(rng, "float32", *POOLS[7])
        same(pooled(x, dy, POOLS[7][1], "wait"), pooled(x, dy, POOLS[7][1], "off"), "float32")
    finally:
        for function in compiled:
            function.cache_clear()


def test_another_size_compiles_nothing(rng, monkeypatch):
    attrs = {"padding": 1}
    convolved(operands(rng, "float32", (2, 3, 12, 20), (8, 3, 3, 3), attrs), attrs, "wait")
    arrays = operands(rng, "float32", (5, 3, 14, 23), (8, 3, 3, 3), attrs)
    expected = convolved(arrays, attrs, "off")

    def refuse(text):
        raise AssertionError("something is compiled")

    monkeypatch.setattr(compiler, "compile_text", refuse)
    same(convolved(arrays, attrs, "wait"), expected, "float32")


def test_a_steady_step_makes_no_arrays(rng):
    g = gw.Graph()
    x = g.placeholder("x", (4, 3, 16, 16))
    k = g.variable("k", init=drawn(rng, "float32", (8, 3, 3, 3))[0])
    with g:
        h = gw.cnn.max_pool2d(gw.nn.relu(gw.cnn.conv2d(x, k, padding=1)), 2)
        loss = (h * h).mean()
        dk = gw.gradients(loss, [k])
    feeds = {"x": drawn(rng, "float32", (4, 3, 16, 16))[0]}
    with gw.Session(g, kernels="wait") as session:
        for _ in range(3):
            session.run([loss, *dk], feeds)
        gc.collect()
        tracemalloc.start()
        try:
            session.run([loss, *dk], feeds)
            tracemalloc.reset_peak()
            base = tracemalloc.get_traced_memory()[0]
            for _ in range(3):
                session.run([loss, *dk], feeds)
            peak = tracemalloc.get_traced_memory()[1] - base
        finally:
            tracemalloc.stop()
    assert peak < 8_000  # the images alone have 12 kB, what the convolution makes 32


@pytest.mark.parametrize("groups", [1, 2])
def test_pieces_on_two_threads(groups, rng):
    x, w, dy = drawn(rng, "float32", (5, 16, 24, 25), (32, 16 // groups, 3, 3), (5, 32, 12, 12))
    g = gw.Graph()
    t, k, seed = (g.variable(n, init=a) for n, a in zip("xwg", (x, w, dy), strict=True))
    with g:
        y = gw.cnn.max_pool2d(gw.cnn.conv2d(t, k, padding=1, groups=groups), 2)
        ys = [y, *gw.gradients(y, [t, k], seed)]

    def run(**options):
        with gw.Session(g, deterministic=True, **options) as session:
            return session.run(ys), session.tuning["choices"]

    ours, choices = run(threads=2)
    kinds = {name.split()[0]: n for name, n in choices.items()}
    assert kinds["convolution"] == kinds["largest"] == kinds["scattered"] == 2
    assert kinds.get("weight") == (2 if groups == 1 else None)
    same(ours, run(kernels="off")[0], "float32")
    for a, b in zip(ours, run(threads=1)[0], strict=True):
        np.testing.assert_array_equal(a, b)


def test_repeated_calls_move_through_their_operands():
    x, y = np.arange(12.0).reshape(4, 3), np.zeros((4, 3))
    [copy] = bind_copy(x[0], y[0])
    run_all([repeated(3, [Turn(copy, {0: x.strides[0], 1: y.strides[0]})])])
    np.testing.assert_array_equal(y[:3], x[:3])
    assert not y[3].any()
    run_all([repeated(0, [Turn(copy, {0: 8, 1: 8})])])

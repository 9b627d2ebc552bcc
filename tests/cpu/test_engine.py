"""The engine: plans with kernels against plans on numpy, products, feeds and results."""

from __future__ import annotations

import gc
import sys
import tracemalloc
import weakref

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.call import Native
from gradwright.cpu.llvm.blas import blas
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.llvm.gemm import bind_matmul
from gradwright.program.lowering import find_launch
from gradwright.spec import TensorSpec
from tests.cpu.kernel_plans import Step, array, both, close

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")


# -- the same numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_training_with_kernels_gives_the_numbers_of_numpy(clip_norm):
    found = []
    for kernels in ("wait", "off"):
        step = Step(kernels, gw.optim.AdamW(1e-2, weight_decay=0.1), clip_norm=clip_norm)
        losses = [float(step.run()[step.step.loss]) for _ in range(8)]
        found.append((losses, step.state()))
    assert found[0][0][-1] < found[0][0][0]
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=2e-6, atol=1e-6)
    for name, value in found[0][1].items():
        np.testing.assert_allclose(value, found[1][1][name], rtol=1e-4, atol=2e-6)


def test_a_decoder_with_kernels_gives_the_numbers_of_numpy():
    g = gw.Graph()
    x, mask = g.placeholder("x", ("B", "T", 16)), g.constant(np.tril(np.ones((9, 9), bool)))
    ws = {k: g.variable(k, init=array(16, 16) / 4) for k in "qkvo"}
    h = gw.nn.layer_norm(x, g.variable("scale", (16,), init=1.0), g.variable("shift", (16,)))
    q, k, v = ((h @ ws[c]).reshape(2, 9, 4, 4).transpose(0, 2, 1, 3) for c in "qkv")
    scores = gw.where(mask, q @ k.mT * 0.5, -1e9)
    y = (gw.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(2, 9, 16) @ ws["o"]
    y = x + gw.nn.gelu(y)
    grads = gw.gradients((y * y).mean(), [*ws.values(), x])
    close(*both(g, [y, *grads], {"x": array(2, 9, 16)}), 2e-5)


def test_a_conv_net_with_kernels_gives_the_numbers_of_numpy():
    g = gw.Graph()
    x, w = g.placeholder("x", (2, 3, 8, 8)), g.variable("w", init=array(4, 3, 3, 3))
    y = gw.cnn.max_pool2d(gw.nn.relu(gw.cnn.conv2d(x, w)), kernel_size=2)
    loss = (y.reshape(2, -1) @ g.constant(array(36, 3))).mean()
    close(*both(g, [loss, *gw.gradients(loss, [w, x])], {"x": array(2, 3, 8, 8)}), 2e-5)


def test_every_shape_has_kernels_also_none_and_one_row():
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 6)), g.variable("w", init=array(6, 3))
    y = gw.nn.softmax(gw.tanh(x @ w))
    fetches = [y, y.sum(), *gw.gradients((y * y).sum(), [w])]
    for rows in (0, 1, 2, 7, 300):
        close(*both(g, fetches, {"x": array(rows, 6)}), 1e-5)


def test_loops_and_branches_run_with_kernels():
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 4)), g.variable("w", init=array(4, 4) / 2)
    carry, ys = gw.scan(
        lambda c, row: (gw.tanh(c @ w + row), c * 2.0), g.constant(np.zeros(4, "f")), x
    )
    y = gw.cond(carry.sum() > 0, lambda: carry * 2.0 + 1.0, lambda: carry - 1.0)
    close(*both(g, [y, ys, *gw.gradients(y.sum(), [w])], {"x": array(20, 4)}), 1e-5)


def test_what_follows_a_size_that_values_decide_has_kernels_too():
    g = gw.Graph()
    x, w = g.placeholder("x", (None,)), g.variable("w", init=2.0)
    places = gw.nonzero(x > 0.0)[0]
    y = gw.exp(gw.gather(x, places) * w).sum()
    for n in (5, 9):
        close(*both(g, [y, gw.gradients(y, [w])[0]], {"x": array(n)}), 1e-5)
    (dw,) = gw.gradients(y, [w])
    feeds, states = {"x": array(6)}, []
    for kernels in ("wait", "off"):
        values = g.values.snapshot()
        with gw.Session(g, kernels=kernels, values=values) as session:
            for _ in range(3):
                session.run([], feeds, updates={w: w - 0.01 * dw})
        states.append(values["w"])
    close([states[0]], [states[1]], 1e-5)


def test_text_and_sequences_pass_through():
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    pieces = gw.sequence.construct(x * 2.0, x + 1.0)
    with gw.Session(g, kernels="wait") as session:
        a, b = session.run(pieces, {"x": np.arange(3.0, dtype="f")})
    assert a.tolist() == [0, 2, 4] and b.tolist() == [1, 2, 3]


# -- products --------------------------------------------------------------------------------------


def turned(x):
    return x.swapaxes(-1, -2)


PRODUCTS = {
    "plain": lambda d: (array(5, 7, dtype=d), array(7, 3, dtype=d)),
    "both turned": lambda d: (turned(array(7, 5, dtype=d)), turned(array(3, 7, dtype=d))),
    "parts": lambda d: (array(9, 20, dtype=d)[2:7, 3:10], array(7, 9, dtype=d)[:, :3]),
    "every second row": lambda d: (array(10, 7, dtype=d)[::2], array(7, 3, dtype=d)),
    "row": lambda d: (array(1, 7, dtype=d), turned(array(3, 7, dtype=d))),
    "column": lambda d: (turned(array(7, 5, dtype=d)), array(7, 4, dtype=d)[:, 1:2]),
    "outer": lambda d: (array(5, 1, dtype=d), array(1, 3, dtype=d)),
    "batch": lambda d: (array(4, 5, 7, dtype=d), array(4, 7, 3, dtype=d)),
    "batch by matrix": lambda d: (array(2, 4, 5, 7, dtype=d), array(7, 3, dtype=d)),
    "matrix by batch": lambda d: (array(5, 7, dtype=d), array(4, 7, 3, dtype=d)),
    "broadcast": lambda d: (array(4, 1, 5, 7, dtype=d), array(1, 3, 7, 2, dtype=d)),
    "heads": lambda d: (
        array(2, 5, 3, 7, dtype=d).transpose(0, 2, 1, 3),
        array(2, 5, 3, 7, dtype=d).transpose(0, 2, 3, 1),
    ),
}


@pytest.mark.skipif(blas() is None, reason="numpy has another BLAS")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_those_of_numpy(name, dtype):
    from gradwright.cpu.llvm.chain import chain

    a, b = PRODUCTS[name](dtype)
    y = np.full((a @ b).shape, np.nan, dtype)
    (call,) = bind_matmul([a, b], [y])
    chain([(call.address, call.block.ctypes.data)])()
    np.testing.assert_array_equal(y, a @ b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (array(5, 14)[:, ::2], array(7, 3)),
        (array(5, 7)[::-1], array(7, 3)),
        (np.broadcast_to(array(1, 7), (5, 7)), array(7, 3)),
        (array(0, 7), array(7, 3)),
        (array(4, 0), array(0, 3)),
        (array(4, 2).astype("float16"), array(2, 3).astype("float16")),
    ],
)
def test_products_that_blas_cannot_read_stay_with_numpy(a, b):
    assert bind_matmul([a, b], [np.empty((len(a), 3), a.dtype)]) is None
    g = gw.Graph()
    x = g.placeholder("x", a.shape, a.dtype)
    y = g.placeholder("y", b.shape, a.dtype)
    with gw.Session(g, kernels="wait") as session:
        np.testing.assert_allclose(session.run(x @ y, {"x": a, "y": b}), a @ b, rtol=1e-3)


def test_a_matmul_is_machine_code_that_numpy_can_stand_in_for():
    op = gw.op.find_op("matmul")()
    x = TensorSpec((2, 2))
    found = find_launch(op, "cpu", [x, x], [x])
    assert isinstance(found, Native) and found.launch is not None


# -- feeds and results -----------------------------------------------------------------------------


def awkward(x):
    """Yield equal arrays that lie otherwise."""
    yield np.asfortranarray(x)
    yield np.repeat(x, 2, 1)[:, ::2]
    yield x[::-1].copy()[::-1]
    raw = np.empty(x.nbytes + 1, np.uint8)[1:]
    odd = np.ndarray(x.shape, x.dtype, raw)
    odd[...] = x
    yield odd
    locked = x.copy()
    locked.flags.writeable = False
    yield locked


@pytest.mark.parametrize("rows", [3, 3000])
def test_feeds_may_lie_anyhow(rows):
    g = gw.Graph()
    x, w = g.placeholder("x", (rows, 8)), g.variable("w", init=array(8, 4))
    y = gw.tanh(x.T[1:] * 2.0).sum() + (x @ w).mean()
    value = array(rows, 8)
    with gw.Session(g, kernels="wait") as session:
        expected = session.run(y, {"x": value})
        for fed in awkward(value):
            np.testing.assert_allclose(session.run(y, {"x": fed}), expected, rtol=1e-6)
        np.testing.assert_allclose(session.run(y, {"x": value * 0}), 0, atol=1e-6)


@pytest.mark.parametrize("n", [4, 5_000, 50_000])
def test_results_are_nobody_elses(n):
    g = gw.Graph()
    x = g.placeholder("x", (n,))
    y = gw.tanh(x) * 2.0
    fetches = [y, y.reshape(-1, 2), x * 1.0, gw.transpose(y)]
    with gw.Session(g, kernels="wait") as session:
        value = array(n)
        first = session.run(fetches, {"x": value})
        kept = [a.copy() for a in first]
        second = session.run(fetches, {"x": -value})
        for a, b, c in zip(first, kept, second, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_allclose(c, -b, rtol=1e-6)
        pool = [value, *first, *second]
        assert not any(np.may_share_memory(a, b) for i, a in enumerate(pool) for b in pool[:i])
        first[0][...] = 7.0
        np.testing.assert_array_equal(session.run(fetches, {"x": value})[0], kept[0])


def test_errors_name_the_node_and_leave_the_plan_usable():
    g = gw.Graph()
    x, i = g.placeholder("x", (None, 4)), g.placeholder("i", (None,), "int64")
    loss = gw.loss.sparse_softmax_cross_entropy(i, x * 2.0, name="loss")
    picked = gw.gather(x + 1.0, i, name="picked")
    feeds = {"x": array(3, 4), "i": np.array([0, 1, 2])}
    for kernels in ("wait", "off"):
        with gw.Session(g, kernels=kernels) as session:
            good = session.run([loss, picked], feeds)
            for wrong in (9, -7):
                with pytest.raises(gw.errors.GradwrightError, match=r"loss[\s\S]*class"):
                    session.run(loss, {**feeds, "i": np.array([0, wrong, 2])})
                with pytest.raises(gw.errors.GradwrightError, match="picked"):
                    session.run(picked, {**feeds, "i": np.array([0, wrong, 2])})
            close(session.run([loss, picked], feeds), good)


def test_plans_let_go_of_what_they_were_given():
    step = Step()
    big = np.zeros((16, 12), "float32")
    seen = weakref.ref(big)
    env = step.run({step.graph["x"]: big})
    del env, big
    gc.collect()
    assert seen() is None
    held = {name: sys.getrefcount(step.values.array(name)) for name in step.values}
    step.run()
    assert held == {name: sys.getrefcount(step.values.array(name)) for name in step.values}


def test_a_steady_step_allocates_no_array():
    """What it takes is a dict for the results, the results and some tuples."""
    peaks = {}
    for kernels in ("wait", "off"):
        step = Step(kernels)
        for _ in range(3):
            step.run()
        gc.collect()
        tracemalloc.start()
        try:
            step.run()
            tracemalloc.reset_peak()
            base = tracemalloc.get_traced_memory()[0]
            for _ in range(20):
                step.run()
            peaks[kernels] = tracemalloc.get_traced_memory()[1] - base
        finally:
            tracemalloc.stop()
    assert peaks["wait"] < 3_000 < peaks["off"], peaks


def test_a_copy_of_a_view_that_takes_a_shape_is_written_to_the_result():
    g = gw.Graph()
    x = g.placeholder("x", (300, 200))
    shape = g.constant(np.array([600, 100]), name="shape")
    y = gw.transpose(gw.tanh(x)).reshape(shape)
    with gw.Session(g, kernels="wait") as session:
        for scale in (1.0, -1.0, 2.0):
            a = array(300, 200) * np.float32(scale)
            np.testing.assert_allclose(
                session.run(y, {"x": a}), np.tanh(a).T.reshape(600, 100), 1e-5, 1e-6
            )

"""The engine: plans with kernels against plans on numpy, updates in place, and who may see them."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import gradwright as gw
from gradwright.fuse.fused import Fused
from gradwright.graph.values import atomically
from gradwright.lowering import Native, find_launch
from gradwright.native.blas import blas
from gradwright.native.compiler import available
from gradwright.native.gemm import bind_matmul
from gradwright.plan import Plan, part
from gradwright.plan.bound import Bound
from gradwright.plan.options import PlanOptions
from gradwright.plan.segment import Segment
from gradwright.spec import TensorSpec, spec_of

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
RNG = np.random.default_rng(0)


def array(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def mlp(optimizer=None, **how):
    """Return a trainer of a small classifier and a batch."""
    rng = np.random.default_rng(1)
    g = gw.Graph("mlp")
    h, labels = g.placeholder("x", (None, 12)), g.placeholder("t", (None,), "int64")
    for i, (n, m) in enumerate([(12, 24), (24, 5)]):
        w = g.variable(f"w{i}", init=rng.standard_normal((n, m)).astype("float32") / 4)
        h = h @ w + g.variable(f"b{i}", (m,))
        h = gw.nn.relu(h) if not i else h
    loss = gw.loss.sparse_softmax_cross_entropy(labels, h, name="loss")
    trainer = gw.Trainer(g, loss, optimizer=optimizer, **how)
    x = rng.standard_normal((16, 12)).astype("float32")
    return trainer, {"x": x, "t": rng.integers(0, 5, 16)}


class Step:
    """A training step as one plan, run by hand."""

    def __init__(self, kernels="wait", optimizer=None, **how):
        self.trainer, batch = mlp(optimizer, **how)
        self.graph, self.step = self.trainer.graph, self.trainer._current()
        self.values = self.trainer.values
        self.feeds = {self.graph[k]: v for k, v in batch.items()}
        self.feeds[self.step.rate] = np.array(0.1)
        self.plan = Plan(
            self.step.fetches,
            {t: spec_of(a) for t, a in self.feeds.items()},
            self.trainer.session.device,
            training=True,
            options=PlanOptions(kernels=kernels),
            updates=self.step.updates,
            commit_if=self.step.finite,
        )

    def run(self, feeds=None):
        env = {**self.feeds, **(feeds or {})}
        with np.errstate(all="ignore"):
            self.plan.run(env, self.values)
            self.committed = self.plan.commit(env, self.values)
        return env

    @property
    def bound(self):
        assert isinstance(self.plan.head.segment, Bound)
        return self.plan.head.segment

    def state(self):
        return {v.name: self.values[v.name].copy() for v in self.step.updates}


def both(graph, fetches, feeds, **how):
    """Return what a session computes with kernels and without, twice each."""
    found = []
    for kernels in ("wait", "off"):
        with gw.Session(graph, kernels=kernels) as session:
            session.run(fetches, feeds, **how)
            found.append(session.run(fetches, feeds, **how))
            kinds = {type(p.segment) for plan in session.plan_cache.values() for p in plan.parts}
            assert kinds == ({Bound} if kernels == "wait" else {Segment})
    return found


def close(a, b, tolerance=2e-6):
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


# -- the same numbers -----------------------------------------------------------------------------


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


# -- products -------------------------------------------------------------------------------------


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
    from gradwright.native.chain import chain

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


# -- feeds and results ----------------------------------------------------------------------------


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


# -- updates in place -----------------------------------------------------------------------------


def test_updates_are_written_over_their_variables():
    step = Step()
    step.run()  # the arrays of the start may be the user's own
    arrays = {v.name: step.values.array(v.name) for v in step.step.updates}
    places = {name: a.ctypes.data for name, a in arrays.items()}
    before = {name: a.copy() for name, a in arrays.items()}
    counts = {name: step.values.version(name) for name in arrays}
    del arrays
    step.run()
    assert step.committed and {v.name for v in step.step.updates} == step.bound.overwritten
    for name, value in before.items():
        assert step.values.array(name).ctypes.data == places[name]
        assert step.values.version(name) == counts[name] + 1
        assert not np.array_equal(step.values[name], value)


@pytest.mark.parametrize("hold", ["array", "view", "slice", "snapshot", "memoryview"])
def test_what_somebody_holds_is_not_written(hold):
    step, other = Step(), Step()
    for s in (step, other):
        s.run()
    name = "w0"
    held = {
        "array": lambda: step.values.array(name),
        "view": lambda: step.values[name],
        "slice": lambda: step.values[name][1:, ::2],
        "snapshot": lambda: step.values.snapshot(),
        "memoryview": lambda: memoryview(step.values[name]),
    }[hold]()
    copy = np.array(held[name] if hold == "snapshot" else held)
    for s in (step, other):
        s.run()
        s.run()
    np.testing.assert_array_equal(np.array(held[name] if hold == "snapshot" else held), copy)
    for key, value in step.state().items():  # and what is trained is trained
        np.testing.assert_array_equal(value, other.state()[key])
    del held
    step.run()
    place = step.values.array(name).ctypes.data
    step.run()
    assert step.values.array(name).ctypes.data == place


def test_a_restored_snapshot_is_not_written():
    step = Step()
    step.run()
    snapshot = step.values.snapshot()
    copies = {name: snapshot[name].copy() for name in snapshot}
    step.run()
    step.values.restore(snapshot)
    for _ in range(3):
        step.run()
    for name, value in copies.items():
        np.testing.assert_array_equal(snapshot[name], value)


def test_values_set_between_steps_are_what_the_next_step_reads():
    step, other = Step(), Step("off")
    for s in (step, other):
        s.run()
        s.run()
        s.values["w0"] = np.full((12, 24), 0.25, "float32")
        with s.values.edit("b1") as b:
            b += 1.0
        s.run()
        s.run()
    for name, value in step.state().items():
        np.testing.assert_allclose(value, other.state()[name], rtol=1e-4, atol=2e-6)


def test_a_step_that_is_not_committed_changes_no_byte():
    step = Step()
    step.run()
    before, counts = step.state(), {name: step.values.version(name) for name in step.values}
    places = {v.name: step.values.array(v.name).ctypes.data for v in step.step.updates}
    bad = array(16, 12)
    bad[3, 3] = np.nan
    env = step.run({step.graph["x"]: bad})
    assert not step.committed and not env[step.step.finite]
    for name, value in before.items():
        assert step.values[name].tobytes() == value.tobytes()
        assert step.values.array(name).ctypes.data == places[name]
    assert counts == {name: step.values.version(name) for name in step.values}
    step.run()
    assert step.committed


def test_updates_read_the_values_of_the_start():
    g = gw.Graph()
    a, b = g.variable("a", init=array(300)), g.variable("b", init=array(300))
    x, y = g.values["a"].copy(), g.values["b"].copy()
    with gw.Session(g, kernels="wait") as session:
        for _ in range(3):
            got = session.run([a * 1.0], {}, updates={a: b + a, b: a - b})
            np.testing.assert_allclose(got[0], x, rtol=1e-5)
            x, y = y + x, x - y
        close([g.values["a"], g.values["b"]], [x, y], 1e-5)
        session.run([], {}, updates={a: b, b: a})  # a swap
        close([g.values["a"], g.values["b"]], [y, x], 1e-5)
        fetched = session.run([a, b], {}, updates={a: b * 2.0, b: b * 2.0})
        close(fetched, [y, x], 1e-5)
        g.values["a"], g.values["b"] = np.zeros(300, "f"), np.ones(300, "f")
        session.run([], {}, updates={a: b * 2.0, b: b * 2.0})
        assert not np.may_share_memory(g.values["a"], g.values["b"])
        session.run([], {}, updates={a: a + 1.0})
        assert g.values["a"][0] == 3 and g.values["b"][0] == 2


def test_an_update_that_is_fetched_is_an_array_of_its_own():
    g = gw.Graph()
    w = g.variable("w", init=np.zeros(5000, "f"))
    more = w + 1.0
    with gw.Session(g, kernels="wait") as session:
        found = [session.run(more, {}, updates={w: more}) for _ in range(3)]
        assert [f[0] for f in found] == [1, 2, 3] and g.values["w"][0] == 3
        found[2][:] = 9
        assert g.values["w"][0] == 3


def test_ctrl_c_in_a_step_commits_all_or_nothing(monkeypatch):
    for kernels in ("wait", "off"):
        step = Step(kernels)
        step.run()
        before = step.state()

        def interrupted(*args):
            raise KeyboardInterrupt

        env = dict(step.feeds)
        step.plan.run(env, step.values)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(type(step.plan.head.segment), "finish", interrupted)
            step.plan.commit(env, step.values)
        for name, value in before.items():
            np.testing.assert_array_equal(step.values[name], value)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(part.Segment if kernels == "off" else Bound, "run", interrupted)
            step.plan.run(env, step.values)
        step.run()
        assert step.committed and step.values.version("w0") == 2


def test_ctrl_c_at_any_instruction_of_a_commit_leaves_whole_steps():
    step, other = Step(), Step()
    step.run(), other.run()
    states = [step.state()]
    for _ in range(40):
        other.run()
        states.append(other.state())
    names = list(states[0])
    done = 0
    for at in range(5, 1500, 37):
        env, seen = dict(step.feeds), 0
        step.plan.run(env, step.values)

        def tracer(frame, event, arg, at=at):
            nonlocal seen
            frame.f_trace_opcodes = True
            seen += event == "opcode"
            if seen == at:
                raise KeyboardInterrupt
            return tracer

        sys.settrace(tracer)
        try:
            step.plan.commit(env, step.values)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        now = step.state()
        done = next(n for n in (done, done + 1) if np.array_equal(now["w0"], states[n]["w0"]))
        for name in names:
            np.testing.assert_array_equal(now[name], states[done][name])
    assert done > 1


def test_calls_that_belong_together_are_not_parted():
    seen = []
    atomically([lambda: seen.append(1), lambda: seen.append(2)])
    assert seen == [1, 2]


# -- threads --------------------------------------------------------------------------------------


def test_readers_in_other_threads_see_whole_steps():
    g = gw.Graph()
    names = [f"w{i}" for i in range(4)]
    ws = [g.variable(n, init=np.zeros(20_000, "f")) for n in names]
    updates = {w: w + 1.0 for w in ws}
    stop, wrong = threading.Event(), []

    def read():
        while not stop.is_set():
            snapshot = g.values.snapshot()
            found = {float(v) for n in names for v in (snapshot[n].min(), snapshot[n].max())}
            one = g.values["w2"]
            found_one = {float(one.min()), float(one.max())}
            if len(found) != 1 or len(found_one) != 1:
                wrong.append((found, found_one))

    threads = [threading.Thread(target=read) for _ in range(2)]
    with gw.Session(g, kernels="wait") as session:
        for t in threads:
            t.start()
        for _ in range(150):
            session.run([], {}, updates=updates)
        stop.set()
        for t in threads:
            t.join()
    assert not wrong and g.values["w3"][7] == 150


def test_two_sessions_in_two_threads_share_values():
    g = gw.Graph()
    a, b = g.variable("a", init=np.zeros(3000, "f")), g.variable("b", init=np.zeros(3000, "f"))
    errors = []

    def work(variable, other):
        try:
            with gw.Session(g, kernels="wait") as session:
                for _ in range(100):
                    seen = session.run(other * 1.0, {}, updates={variable: variable + 1.0})
                    assert seen.min() == seen.max()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in ((a, b), (b, a))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert g.values["a"].tolist() == g.values["b"].tolist() == [100.0] * 3000


# -- when kernels come ----------------------------------------------------------------------------


def test_kernels_are_swapped_in_between_two_steps(monkeypatch):
    queued = []
    monkeypatch.setattr(part.BACKGROUND, "add", queued.append)
    step, other = Step("background"), Step("off")
    losses = []
    for n in range(part.RUNS + 4):
        losses.append([float(s.run()[s.step.loss]) for s in (step, other)])
        if n + 1 < part.RUNS:
            assert not queued
        if n == part.RUNS:
            assert isinstance(step.plan.head.segment, Segment) and len(queued) == 1
            queued[0]()
    assert isinstance(step.plan.head.segment, Bound)
    assert not step.plan.head.plain.registers  # its arrays are let go
    # The last unit of a first gradient, of losses of 1, goes on into losses of 0.01.
    np.testing.assert_allclose(*np.array(losses).T, rtol=2e-6, atol=1e-7)


def test_the_background_thread_binds_and_ends():
    step = Step("background")
    for _ in range(part.RUNS):
        step.run()
    part.BACKGROUND.wait(60)
    step.run()
    assert isinstance(step.plan.head.segment, Bound) and not part.BACKGROUND.is_busy


def test_a_kernel_that_cannot_be_compiled_leaves_numpy(monkeypatch):
    from gradwright.native import compiler

    monkeypatch.setattr(compiler.KERNELS, "compile", lambda key: None)
    step, other = Step(), Step("off")
    for s in (step, other):
        s.run()
        s.run()
    assert isinstance(step.plan.head.segment, Segment)
    for name, value in step.state().items():
        np.testing.assert_array_equal(value, other.state()[name])


@pytest.mark.parametrize("op", ["sqrt", "exp", "maximum", "pow"])
def test_a_kernel_that_cannot_be_compiled_leaves_its_own_ops_to_numpy(monkeypatch, op):
    from gradwright.native import compiler

    refused, compiled = [], compiler.KERNELS.compile

    def compile_others(key):
        if any(value.op == op for value in key[0].values):
            refused.append(key[0])
            return None
        return compiled(key)

    monkeypatch.setattr(compiler.KERNELS, "compile", compile_others)
    step, other = Step(), Step("off")
    for s in (step, other):
        for _ in range(4):
            s.run()
    bound = step.plan.head.segment
    assert refused and isinstance(bound, Bound)
    kernels = [instr.op.kernel for instr in bound.program.instrs if isinstance(instr.op, Fused)]
    assert kernels and not any(value.op == op for k in kernels for value in k.values)
    for name, value in step.state().items():
        np.testing.assert_allclose(value, other.state()[name], rtol=1e-4, atol=1e-6)


def test_released_plans_run_again():
    step, other = Step(), Step()
    for s in (step, other):
        s.run()
    step.plan.release()
    step.trainer.session.device.release()
    for s in (step, other):
        s.run()
        s.run()
    for name, value in step.state().items():
        np.testing.assert_array_equal(value, other.state()[name])


def test_replay_and_guard_run_beside_kernels():
    trainer, batch = mlp(session=None)
    g, step = trainer.graph, trainer._current()
    feeds = {**batch, step.rate: 0.1}
    for how in ({"check": "replay"}, {"device": "guard"}):
        with gw.Session(g, kernels="wait", **how) as session:
            before = g.values["w0"].copy()
            for n in range(3):
                session.run(
                    step.fetches, feeds, step.updates, training=True, commit_if=step.finite, step=n
                )
            assert not np.array_equal(before, g.values["w0"])

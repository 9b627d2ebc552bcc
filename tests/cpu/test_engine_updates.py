"""Updates in place: what is written over, what somebody holds, and who may see it."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.bound import Bound
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.plain import Plain
from gradwright.graph.values import atomically
from tests.cpu.kernel_plans import Step, array, close

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")


# -- updates in place ------------------------------------------------------------------------------


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


def test_what_is_read_turned_or_reversed_is_not_written_over():
    for turned in (lambda w: w.T * 2.0, lambda w: w[::-1] * 2.0):
        g = gw.Graph()
        w = g.variable("w", (9, 9), init=gw.init.normal(seed=1))
        expected = turned(turned(turned(g.values["w"])))
        with gw.Session(g, kernels="wait") as session:
            for _ in range(3):
                session.run([], {}, {w: turned(w)})
        np.testing.assert_allclose(g.values["w"], expected, 1e-6)


def test_what_is_made_of_nothing_goes_beside_kernels():
    """A row of numbers too long to be a constant, of which no machine code is made."""
    g = gw.Graph()
    with g:
        x = gw.linspace(0.0, 1.0, 300_000)
    w = g.variable("w", x.shape, 0.5)
    with gw.Session(g, kernels="wait") as session:
        assert session.run(gw.exp(w).sum(), {}, {w: x}) > 400_000
        assert [row.what for row in session.plans[-1].kernels.rows] == ["kernel", "numpy"]
    assert g.values["w"][-1] == 1


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
            patch.setattr(type(step.plan.head.executor.laid), "finish", interrupted)
            step.plan.commit(env, step.values)
        for name, value in before.items():
            np.testing.assert_array_equal(step.values[name], value)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Plain if kernels == "off" else Bound, "run", interrupted)
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


# -- threads ---------------------------------------------------------------------------------------


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

"""What ends a run or the making of a plan, Ctrl-C above all, leaves sessions that compute right."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.binder import Binder
from gradwright.cpu.bound import Bound
from gradwright.cpu.llvm.compiler import available

pytestmark = pytest.mark.skipif(not available(), reason="kernels need llvmlite")
X = np.linspace(-1, 1, 50, dtype=np.float32)


@pytest.fixture
def graph():
    g = gw.Graph()
    x, w = g.placeholder("x", (None,)), g.variable("w", (50,), init=np.arange(50))
    return g, x, w, gw.tanh(w * 0.01) + x


def expected(w):
    return np.tanh(np.asarray(w, np.float32) * np.float32(0.01)) + X


def test_releasing_twice(graph):
    g, x, _, y = graph
    session = gw.Session(g, kernels="wait")
    for _ in range(3):
        np.testing.assert_allclose(session.run(y, {x: X}), expected(np.arange(50)), rtol=1e-5)
        session.release()
        session.release()


@pytest.mark.parametrize("end", [KeyboardInterrupt, ValueError])
def test_what_ends_a_run_between_seeing_and_taking_a_variable(graph, monkeypatch, end):
    g, x, _, y = graph
    run = gw.Session(g, kernels="wait").prepare(y, [x])
    for _ in range(4):
        run(X)
    g.values["w"] = np.full(50, 70.0)

    def ended(*args):
        raise end

    with monkeypatch.context() as patched:
        patched.setattr(Bound, "_take_variables", ended)
        with pytest.raises(end):
            run(X)
    for _ in range(3):
        np.testing.assert_allclose(run(X), expected(np.full(50, 70.0)), rtol=1e-5)


def test_a_profile_on_other_values_leaves_the_runs_their_own(graph):
    g, x, _, y = graph
    session = gw.Session(g, kernels="wait")
    other = g.values.snapshot()
    other["w"] = np.full(50, 100.0)
    for _ in range(4):
        session.run(y, {x: X})
    session.plans[-1].profile({x: X}, values=other)
    del other
    for _ in range(3):
        np.testing.assert_allclose(session.run(y, {x: X}), expected(np.arange(50)), rtol=1e-5)


@pytest.mark.parametrize("end", [KeyboardInterrupt, MemoryError])
def test_what_ends_the_making_of_calls_is_made_good_by_the_next_run(graph, monkeypatch, end):
    g, x, w, y = graph
    session = gw.Session(g, kernels="wait")
    bind = Binder.bind

    def ended(binder, *args, **how):
        bind(binder, *args, **how)
        raise end

    with monkeypatch.context() as patched:
        patched.setattr(Binder, "bind", ended)
        if end is KeyboardInterrupt:
            with pytest.raises(end):
                session.run(y, {x: X})
    np.testing.assert_allclose(session.run(y, {x: X}), expected(np.arange(50)), rtol=1e-5)
    assert "kernel" in {row.what for row in session.plans[-1].kernels}
    session.release()
    with monkeypatch.context() as patched:
        patched.setattr(Binder, "bind", ended)
        with pytest.raises((KeyboardInterrupt, gw.errors.MemoryLimitError)):
            session.run(y, {x: X}, {w: w + 1.0})
            session.run(y, {x: X})
    for _ in range(3):
        before = g.values["w"]
        found = session.run(y, {x: X}, {w: w + 1.0})
        np.testing.assert_allclose(found, expected(before), rtol=1e-5)
        np.testing.assert_array_equal(g.values["w"], before + 1.0)


def test_what_compiles_is_imported_before_its_thread_begins():
    """A fork waits for the compiler's lock, and must not meet a thread that is importing it."""
    script = """
import sys
import gradwright as gw
from gradwright.cpu.threads.background import BACKGROUND
BACKGROUND.add = lambda work: print("gradwright.cpu.llvm.compiler" in sys.modules)
g = gw.Graph()
x = g.placeholder("x", (None,))
session, y = gw.Session(g), gw.tanh(x) * 2.0
for _ in range(5):
    session.run(y, {"x": [1.0]})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr

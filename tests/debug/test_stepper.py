"""The stepper: steps, steps back, into composites, branches and gradients, who hears of it."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GraphError
from tests.debug import steppers
from tests.debug.steppers import FEEDS, stepper

net = pytest.fixture(steppers.net)


# -- forwards and backwards ------------------------------------------------------------------------


@pytest.mark.parametrize("max_bytes", [1 << 30, 0])
def test_results_equal_the_sessions(net, max_bytes):
    g, loss, dw = net
    s = stepper(net, max_bytes=max_bytes)
    assert s.run().reason == "end" and s.done
    for a, b in zip(s.results(), gw.Session(g).run([loss, dw], FEEDS), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_a_stepper_shows_where_it_stands(net):
    s = stepper(net)
    assert "before '" in repr(s)
    s.run()
    assert "at the end" in repr(s)


def test_step_forward_and_back(net):
    s = stepper(net)
    names = [n.name for n in s.nodes()]
    assert names[:3] == ["hidden/matmul", "hidden/h", "centred"]
    assert s.step().name == "hidden/h" and s.position == 1
    assert s.value("hidden/matmul").shape == (2, 2)
    with pytest.raises(GraphError, match="not been computed yet"):
        s.value("hidden/h")
    s.step(2)
    assert s.back().name == "centred" and s.back().name == "hidden/h"
    with pytest.raises(GraphError, match="not been computed yet"):
        s.value("hidden/h")
    assert s.executed == 3
    s.step()
    assert s.executed == 3  # the value was kept
    with pytest.raises(ValueError, match="read-only"):
        s.value("hidden/h")[0] = 1


def test_the_graph_layer_comes_before_its_gradients(net):
    g, _, dw = net
    s = gw.Stepper(g, fetches=[dw], feeds=FEEDS)
    derived = [n.derived for n in s.nodes()]
    assert derived == sorted(derived) and any(derived)


def test_stepping_back_re_executes_at_most_sqrt_n_ops():
    g = gw.Graph()
    y = x = g.placeholder("x", (4,))
    for _ in range(400):
        y = gw.exp(y * 0.5) - 1.0
    s = gw.Stepper(g, fetches=[y], feeds={"x": np.full(4, 0.1)}, max_bytes=0)
    n = len(s.nodes())
    expected = {}
    while s.current is not None:
        node = s.current
        s.step()
        expected[s.position] = float(s.value(node.outputs[0])[0])
    assert s.executed == n == 1200
    bound = math.ceil(math.sqrt(n))
    worst = 0
    while s.position > 1:
        before = s.executed
        s.back()
        seen = float(s.value(s.nodes()[s.position - 1].outputs[0])[0])
        worst = max(worst, s.executed - before)
        assert seen == expected[s.position]
    assert 0 < worst <= bound
    assert x.kind == "placeholder"


def test_looking_back_leaves_checkpoints_whole():
    g = gw.Graph()
    x = g.placeholder("x", (3,), "float64")
    waves = [gw.sin(x * float(i + 1)) for i in range(30)]
    total = waves[0]
    for wave in waves[1:]:
        total = total + wave
    at = np.array([0.1, 0.2, 0.3])
    for position in range(0, 80, 3):
        s = gw.Stepper(g, [total], {"x": at}, max_bytes=0)
        s.step(1)
        s.step(position)
        for _ in range(3):  # each look at an early value replaces what is held
            s.value(s.nodes()[0].outputs[0])
            s.step()
        s.run()
        assert np.allclose(s.results()[0], sum(np.sin(at * (i + 1)) for i in range(30)))


# -- into composites, branches and gradients -------------------------------------------------------


def test_into_a_composite_and_out(net):
    s = stepper(net)
    s.run_to("centred")
    s.into()
    assert s.depth == 1 and s.path.startswith("centred::")
    inner = [n.op.name for n in s.nodes()]
    assert inner[-1] == "mul"
    s.step()
    first = s.nodes()[0]
    assert s.value(f"centred::{first.name}").shape == s.value(first.outputs[0]).shape
    s.back(2)
    assert s.depth == 0 and s.current.name == "centred"
    s.into()
    s.step(len(inner))
    assert s.depth == 0 and s.current.name == "mul"
    h = s.value("hidden/h")
    np.testing.assert_allclose(s.value("centred"), (h - h.mean(-1, keepdims=True)) / 2, rtol=1e-5)
    s.run_to("hidden/h")
    with pytest.raises(GraphError, match="is primitive"):
        s.into()


def test_going_through_a_composite_keeps_known_bits():
    g = gw.Graph()
    x = g.placeholder("x", (4, 33))
    w, b = g.variable("w", (33,), init=1.0), g.variable("b", (33,))
    y = (gw.nn.layer_norm(x, w, b, name="ln") * 3.0).sum(name="y")
    s = gw.Stepper(g, [y], {"x": np.random.default_rng(0).standard_normal((4, 33))})
    s.run()
    before = s.value("ln").tobytes(), s.value("y").tobytes()
    s.run_to("ln")
    s.into()
    s.out()
    s.run()
    assert (s.value("ln").tobytes(), s.value("y").tobytes()) == before


def test_into_the_branch_a_cond_takes():
    g = gw.Graph()
    x = g.placeholder("x", ())
    y = gw.cond(x > 0.0, lambda: gw.exp(x) * 2.0, lambda: -x, name="y")
    for value, op in ((1.0, "exp"), (-1.0, "neg")):
        s = gw.Stepper(g, fetches=[y], feeds={"x": value})
        s.run_to("y")
        s.into()
        assert s.current.op.name == op
        s.out()
        assert float(s.value("y")) == pytest.approx(2 * math.exp(1) if value > 0 else 1.0)


def test_into_the_gradient_of_a_node(net):
    s = stepper(net)
    stop = s.into_gradient("hidden/matmul")
    assert stop.node.derived and stop.node.origin.name == "hidden/matmul"
    stop = s.into_gradient("hidden/w")  # comes with that of the op it goes into
    assert stop.node.origin.name == "hidden/matmul"
    g, loss, _ = net
    aside = gw.exp(g["hidden/w"], name="aside")
    beside = gw.Stepper(g, fetches=[loss, aside, *gw.gradients(loss, [g["hidden/w"]])], feeds=FEEDS)
    with pytest.raises(GraphError, match="no gradient goes through 'aside'"):
        beside.into_gradient("aside")
    with pytest.raises(GraphError, match="fetches hold no gradient"):
        gw.Stepper(g, fetches=[loss], feeds=FEEDS).into_gradient()


# -- where a run ends, and who hears of it ---------------------------------------------------------


def test_an_op_that_fails_stops_the_run_where_it_stands(net):
    @gw.register("test/picky")
    class Picky(gw.Op):
        """Refuse large numbers."""

        def infer(self, x):
            return x

        def forward(self, x):
            if x.max() > 1:
                raise ValueError("too large")
            return x

    g = gw.Graph()
    x = g.placeholder("x", (2,))
    y = Picky()(x * 1.0, name="picky").sum()
    s = gw.Stepper(g, fetches=[y], feeds={"x": [1.0, 2.0]})
    stop = s.run()
    assert stop.reason == "error" and stop.node.name == "picky" and "too large" in str(stop.error)
    s.edit("mul", [0.0, 0.5])
    assert s.run().reason == "end" and float(s.value(y)) == 0.5


def test_a_run_can_be_stopped(net):
    s = stepper(net)
    polls = iter([False, False, True])
    stop = s.run(stop=lambda: next(polls))
    assert stop.reason == "stopped" and s.position == 2 and s.last_stop is stop
    assert s.find_nonfinite(stop=lambda: True) is None and s.last_stop.reason == "stopped"
    s.step()
    assert s.last_stop is None


def test_bad_requests(net):
    g, loss, _ = net
    with pytest.raises(FeedError, match="'x' is not fed"):
        gw.Stepper(g, fetches=[loss])
    with pytest.raises(FeedError, match="rank 1"):
        gw.Stepper(g, fetches=[loss], feeds={"x": np.ones(3)})
    other = gw.exp(g["x"], name="elsewhere")
    s = stepper(net)
    with pytest.raises(GraphError, match="does not run here"):
        s.run_to(other)
    with pytest.raises(GraphError, match="already at the graph"):
        s.out()
    assert s.run_to("loss").reason == "target"
    assert s.run_to("hidden/h").node.name == "hidden/h"  # backwards


def test_listeners_hear_every_change_once(net):
    s = stepper(net)
    heard = []
    end = s.listen(lambda: heard.append(s.position))
    s.step(3)
    s.run_to("hidden/h")  # goes back in steps, and says so once
    b = s.break_at(op="sum")
    s.clear(b)
    s.watch('t["x"]')
    s.edit("hidden/matmul", np.zeros((2, 2)))
    assert [n.name for n in s.pending] == [] and len(heard) == 6
    s.step(2)
    s.edit("hidden/matmul", np.ones((2, 2)))
    assert [n.name for n in s.pending] == ["hidden/h", "centred"]
    revision = s.revision
    s.rerun()
    assert s.pending == [] and s.revision == revision + 1 and len(heard) == 9
    with pytest.raises(GraphError):
        s.run_to("nothing")
    assert len(heard) == 10  # a failed move may have moved
    end()
    s.step()
    assert len(heard) == 10


def test_one_thread_moves_at_a_time(net, monkeypatch):
    monkeypatch.setattr("gradwright.debug.stepping.turns.PATIENCE", 0.01)
    s = stepper(net)
    errors = []

    def other():
        try:
            s.step()
        except GraphError as error:
            errors.append(str(error))

    def stop():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return True

    assert s.run(stop=stop).reason == "stopped"
    assert s.position == 0 and "another thread" in errors[0]

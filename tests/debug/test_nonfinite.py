"""Where the first NaN or infinity comes from: forward, backward, in the data, or meant."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw


def test_nan_origin_forward_backward_and_in_data():
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    r = gw.sqrt(x, name="root")
    loss = (r * 2.0).sum(name="loss")
    (dx,) = gw.gradients(loss, [x])

    def find(data):
        with np.errstate(all="ignore"):
            return gw.Stepper(g, fetches=[loss, dx], feeds={"x": data}).find_nonfinite()

    assert find([1.0, 4.0, 9.0]) is None
    origin = find([1.0, -4.0, 9.0])
    assert origin.node.name == "root" and origin.direction == "forward"
    assert origin.chain == ("root", "mul", "loss") and origin.outputs[0].n_nan == 1
    assert origin.inputs[0].low == -4.0
    origin = find([1.0, 0.0, 9.0])  # sqrt is finite at 0, its slope is not
    assert origin.direction == "backward" and origin.node.origin.name == "root"
    assert find([1.0, np.nan, 9.0]).direction == "source"
    assert "root" in str(find([1.0, -4.0, 9.0]))


def test_nans_injected_at_50_random_nodes_are_all_located():
    rng = np.random.default_rng(0)
    g = gw.Graph()
    y = g.placeholder("x", (4, 4))
    w = g.variable("w", (4, 4), init=rng.standard_normal((4, 4)) / 4)
    for i in range(40):
        y = gw.exp(y @ w * 0.1, name=f"e{i}") - 1.0
    loss = (y * y).sum()
    (dw,) = gw.gradients(loss, [w])
    feeds = {"x": rng.standard_normal((4, 4))}
    probe = gw.Stepper(g, fetches=[loss, dw], feeds=feeds)
    candidates = [n for n in probe.nodes() if n.outputs[0].spec.size > 1]
    for node in rng.choice(np.array(candidates, object), 50, replace=False):
        s = gw.Stepper(g, fetches=[loss, dw], feeds=feeds)
        s.run()
        bad = s.value(node.outputs[0]).copy()
        bad.ravel()[int(rng.integers(bad.size))] = np.nan
        s.edit(node.outputs[0], bad)
        origin = s.find_nonfinite()
        assert origin is not None and origin.node is node
        assert origin.direction == ("backward" if node.derived else "forward")


def test_an_infinity_that_is_meant_is_no_origin():
    def find(mask, data=0.0, of=gw.nn.softmax):
        g = gw.Graph()
        x = g.placeholder("x", (2, 3))
        y = of(x + g.constant(np.array(mask, np.float32), name="mask"), name="y")
        loss = (y * y).sum(name="loss")
        feeds = {"x": np.full((2, 3), data)}
        return gw.Stepper(g, [loss, *gw.gradients(loss, [x])], feeds).find_nonfinite()

    inf = np.inf
    assert find([0, -inf, 0]) is None
    origin = find([-inf, -inf, -inf])  # softmax of nothing
    assert origin.node.op.name == "softmax" and origin.outputs[0].n_nan == 6
    assert "softmax" in repr(origin) and len(repr(origin)) < 60
    origin = find([0, 0, 0], inf, gw.abs)  # infinite data that reaches the loss
    assert origin.direction == "source" and origin.node.name == "x"
    assert find([0, np.nan, 0]).direction == "source"


def test_looking_at_every_value_runs_each_op_once_more():
    g = gw.Graph()
    y = g.placeholder("x", ())
    for _ in range(400):
        y = gw.sin(y)
    s = gw.Stepper(g, [y], {"x": 0.5}, max_bytes=0)
    s.run()
    before = s.executed
    assert s.find_nonfinite() is None
    assert s.executed - before <= 400


def looped() -> gw.Stepper:
    """A loop in a loop, in which nothing is wrong."""
    g = gw.Graph()
    x = g.placeholder("x", (4, 2))

    def turn(c, v):
        deep, _ = gw.scan(
            lambda e, u: (gw.tanh(gw.mul(e, u, name="m")), None), c, gw.stack([v, v]), name="deep"
        )
        return gw.exp(deep, name="e") - 1.0, None

    end, _ = gw.scan(turn, np.ones(2, "f4"), x, name="walk")
    return gw.Stepper(g, [(end * 2.0).sum(name="y")], {"x": np.ones((4, 2))})


@pytest.mark.parametrize(("path", "after"), [("walk:2:e", "sub"), ("walk:1:deep:1:m", "tanh")])
@pytest.mark.parametrize("way", ["outside", "copied", "twice"])
def test_what_was_edited_in_a_loop_is_named_by_its_node_and_turn(path, after, way):
    s = looped()
    s.run_to(path)
    s.step()
    assert s.path.endswith(after)
    s.edit(path, [np.nan, 1.0])
    while s.depth:
        s.out()
    if way == "twice":  # what was edited first is so no longer
        s.run_to("walk:3:sub")
        s.edit("walk:3:e", [np.inf, 1.0])
        s.out()
        path = "walk:3:e"
    found = (s.copy() if way == "copied" else s).find_nonfinite()
    assert (str(found.address), found.chain[0]) == (path, path)
    assert found.outputs[0].n_nan + found.outputs[0].n_inf == 1
    assert looped().find_nonfinite() is None


def test_an_edit_in_a_loop_that_overflows_later_is_blamed_where_it_does():
    s = looped()
    s.run_to("walk:1:sub")
    s.edit("walk:1:e", [1e30, 1.0])
    s.out()
    assert s.find_nonfinite() is None  # a tanh follows
    s.run_to("walk:1:e")
    s.edit("walk:1:deep", [1e30, 1.0])
    s.out()
    assert str(s.find_nonfinite().address) == "walk:1:e"

"""The stepper: edits run exactly what depends on them, inside composites and out."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, GraphError, ShapeError
from tests.debug import steppers
from tests.debug.steppers import FEEDS, stepper

net = pytest.fixture(steppers.net)


@pytest.mark.parametrize("max_bytes", [1 << 30, 0])
def test_an_edit_re_executes_exactly_its_descendants(net, max_bytes):
    g, loss, dw = net
    s = stepper(net, max_bytes=max_bytes)
    s.run()
    done = s.executed
    new = np.array([[0.5, 1.0], [2.0, -1.0]])
    affected = s.edit("hidden/h", new)
    assert "hidden/matmul" not in affected and "centred" in affected
    count = s.rerun()
    ran = [n.name for n in s.nodes() if n.name in affected]
    if max_bytes:
        assert count == s.executed - done == len(ran) < len(s.nodes())
    expected = gw.Session(g).run([loss, dw], {**FEEDS, g["hidden/h"]: new})
    np.testing.assert_allclose(s.results()[0], expected[0], rtol=1e-5)
    # the gradient with respect to w takes the path through h's own gradient, with the edited value
    assert s.results()[1].shape == dw.shape
    assert g.values["hidden/w"][0, 1] == np.float32(0.1)  # a snapshot: the graph is as it was


def test_editing_a_variable_or_feed_reaches_everything(net):
    g, loss, dw = net
    s = stepper(net)
    s.run()
    w = np.full((3, 2), 0.25)
    s.edit("hidden/w", w)
    s.edit("x", FEEDS["x"] * 2)
    s.rerun()
    expected = gw.Session(g).run([loss, dw], {"x": FEEDS["x"] * 2, g["hidden/w"]: w})
    np.testing.assert_allclose(s.results()[1], expected[1], rtol=1e-5)
    with pytest.raises(ShapeError, match="another shape"):
        s.edit("x", np.ones(3))
    with pytest.raises(DTypeError):
        s.edit("x", np.ones((2, 3)) * 1j)


@pytest.mark.parametrize("max_bytes", [1 << 30, 0])
def test_an_edit_inside_a_composite_reaches_what_had_run_after_it(max_bytes):
    g = gw.Graph()
    x, w, b = g.placeholder("x", (2, 3)), g.variable("w", (3,), init=1.0), g.variable("b", (3,))
    z = (gw.nn.layer_norm(x, w, b, name="ln") * 2.0).sum()
    s = gw.Stepper(g, [z], {"x": np.arange(6.0).reshape(2, 3)}, max_bytes=max_bytes)
    s.run()
    s.run_to("ln")
    s.into()
    s.step(len(s.nodes()) - 1)
    last = s.nodes()[-2].outputs[0]
    s.edit(last, np.full(s.value(last).shape, 7.0))
    s.out()
    inside = s.value("ln")
    assert np.all(inside == 7.0)
    for _ in range(2):  # and stays, stepping back and forth
        s.run()
        assert float(s.results()[0]) == 2 * inside.sum()
        s.run_to("ln")


def test_edits_inside_go_with_the_level():
    g = gw.Graph()
    x, w, b = g.placeholder("x", (2, 3)), g.variable("w", (3,), init=1.0), g.variable("b", (3,))
    y = gw.nn.layer_norm(x, w, b, name="ln")
    (dx,) = gw.gradients((y * y).sum(), [x])
    s = gw.Stepper(g, [dx], {"x": np.arange(6.0).reshape(2, 3)})
    for leave in (s.into_gradient, s.find_nonfinite):
        s.reset()
        s.run_to("ln")
        s.into()
        s.step(2)
        first = s.nodes()[0].outputs[0]
        s.edit(first, s.value(first) + 1.0)
        leave()
        s.run()
        expected = gw.Session(g).run(dx, {"x": np.arange(6.0).reshape(2, 3)})
        assert np.array_equal(s.results()[0], expected)


@pytest.mark.parametrize("max_bytes", [1 << 30, 0])
def test_an_edit_may_move_shapes_that_depend_on_values(max_bytes):
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    kept = gw.boolean_mask(x, x > 0.0)
    y = (kept * kept).sum()
    (dx,) = gw.gradients(y, [x])
    s = gw.Stepper(g, [y, dx], {"x": [1.0, 2.0, -3.0]}, max_bytes=max_bytes)
    s.run()
    s.edit("x", [1.0, 2.0, 3.0])
    s.rerun()
    assert float(s.results()[0]) == 14.0 and s.results()[1].tolist() == [2.0, 4.0, 6.0]


def test_one_of_several_outputs_can_be_fed():
    g = gw.Graph()
    x = g.placeholder("x", (4,))
    a, b = gw.split(x, 2)
    z = a + 10.0 * b
    for fed, expected in ((a, [120.0, 130.0]), (b, [1000.0, 1001.0])):
        s = gw.Stepper(g, [z], {"x": np.arange(4.0), fed: [100.0, 100.0]})
        s.run()
        assert s.results()[0].tolist() == expected
        s.edit("x", np.arange(4.0) + 1.0)
        s.rerun()
        assert s.value(fed).tolist() == [100.0, 100.0]


@pytest.mark.parametrize("max_bytes", [1 << 30, 0])
def test_an_edit_that_makes_an_op_fail_leaves_us_before_it(max_bytes):
    @gw.register("test/modest")
    class Modest(gw.Op):
        """Refuse large numbers."""

        def infer(self, x):
            return x

        def forward(self, x):
            if x.max() > 10:
                raise ValueError("too large")
            return x + 0

    g = gw.Graph()
    x = g.placeholder("x", (2,))
    y = (Modest()(x * 2.0, name="modest") + x).sum(name="y")
    s = gw.Stepper(g, [y], {"x": [1.0, 2.0]}, max_bytes=max_bytes)
    s.run()
    s.edit("x", [1.0, 9.0])
    with pytest.raises(ValueError, match="too large"):
        s.rerun()
    assert s.current.name == "modest" and s.last_stop.reason == "error"
    with pytest.raises(GraphError, match="not been computed"):
        s.value("y")
    assert s.value("mul").tolist() == [2.0, 18.0]
    assert s.run().reason == "error" and s.current.name == "modest"
    s.edit("x", [1.0, 3.0])
    assert s.run().reason == "end" and float(s.value("y")) == 12.0
    s.edit("x", [1.0, 9.0])
    assert s.run().reason == "error" and s.current.name == "modest"


def test_a_copy_runs_by_itself_with_the_edits(net):
    s = stepper(net)
    s.run()
    s.edit("hidden/h", np.ones((2, 2)))
    s.edit("x", FEEDS["x"] + 1)
    s.rerun()
    copy = s.copy()
    assert copy.position == 0 and copy.run().reason == "end"
    assert [a.tobytes() for a in copy.results()] == [a.tobytes() for a in s.results()]
    copy.edit("hidden/h", np.zeros((2, 2)))
    copy.rerun()
    assert s.value("hidden/h").sum() == 4


@pytest.mark.parametrize("way", ["in the loop", "after it"])
def test_what_was_edited_in_a_turn_is_shown_as_it_was_edited(way):
    g = gw.Graph()
    x = g.placeholder("x", (4,))

    def turn(c, v):
        deep, _ = gw.scan(lambda e, u: (gw.mul(e, u, name="m") + 1.0, None), c, gw.stack([v, v]))
        return gw.add(deep, 1.0, name="sum") * 1.0, None

    end, _ = gw.scan(turn, 1.0, x, name="walk")
    s = gw.Stepper(g, [end], {"x": [1.0, 1.0, 1.0, 1.0]})
    s.run_to("walk:1:sum")
    s.step()
    s.edit("walk:1:sum", 10.0)
    s.run_to("walk:2:sum")
    s.edit("walk:2:scan", 100.0)
    s.run_to("walk:3:scan:1:m")
    if way == "after it":
        while s.depth:
            s.out()
        assert float(s.results()[0]) == 104.0
    told = {"walk:0:sum": 4.0, "walk:1:sum": 10.0, "walk:2:scan:0:m": 10.0, "walk:2:sum": 101.0}
    assert {path: float(s.value(path)) for path in told} == told

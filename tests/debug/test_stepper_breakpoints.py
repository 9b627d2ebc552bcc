"""The stepper: breakpoints, watches, and the expressions that both take."""

from __future__ import annotations

import numpy as np
import pytest

from gradwright.debug import Expression
from gradwright.errors import GraphError
from tests.debug import steppers
from tests.debug.steppers import stepper

net = pytest.fixture(steppers.net)


# -- breakpoints -----------------------------------------------------------------------------------


def test_breakpoints_by_place(net):
    s = stepper(net)
    s.break_at(op="matmul")
    s.break_at("hidden/*")
    s.break_at(scope="grad/loss/hidden")
    s.break_at(regex=r"^lo.s$")
    stops = []
    while (stop := s.run()).reason != "end":
        stops.append(stop.node.name)
    assert stops[:2] == ["hidden/h", "loss"]  # the first node is where we stand
    assert all(n.startswith("grad/loss/hidden") or "matmul" in n for n in stops[2:])
    s.reset()
    s.clear()
    assert s.run().reason == "end"


def test_breakpoints_by_value(net):
    s = stepper(net)
    b = s.break_at(above=3.0)
    stop = s.run()
    assert stop.node.name == "hidden/h" and stop.breakpoint is b and b.hits == 1
    s.clear(b)
    s.reset()
    b = s.break_at("mul", when='max(value) < max(t["hidden/h"])')
    assert s.run().node.name == "mul" and "when" in str(b)
    s.clear()
    s.edit("hidden/h", np.full((2, 2), np.nan))
    s.break_at(nan=True)
    assert s.run().node.name == "loss"


def test_breakpoints_that_cannot_hit_are_refused(net):
    s = stepper(net)
    for options, message in (
        ({}, "needs a place or a condition"),
        ({"op": "matmull"}, "no node has the op"),
        ({"name": "hiden/*"}, "no node is called"),
        ({"regex": "("}, "not a regular expression"),
        ({"when": "value >"}, "cannot read the expression"),
    ):
        with pytest.raises(GraphError, match=message):
            s.break_at(**options)


def test_a_misspelt_op_gets_near_names(net):
    with pytest.raises(GraphError, match="'matmul'"):
        stepper(net).break_at(op="matmull")


def test_a_run_stops_inside_composites(net):
    s = stepper(net)
    s.break_at(op="sub")
    stop = s.run()
    assert stop.reason == "breakpoint" and s.path == "centred::sub" and s.depth == 1
    assert s.value("centred::mean").shape == (2, 1)
    assert s.run().reason == "end" and s.depth == 0  # a run goes on after the composite
    s.clear()
    s.reset()
    s.break_at("centred::mul", above=0.0)
    assert s.run().node.name == "mul" and s.depth == 1  # conditions look at values inside, too
    s.clear()
    s.reset()
    s.break_at("centred*")  # what fits the composite itself stops there, and does not go inside
    assert s.run().node.name == "centred" and s.run().reason == "end"
    s.clear()
    s.reset()
    s.break_at(nan=True)
    s.break_at("centred", above=-1.0)
    assert s.run().node.name == "centred" and s.depth == 0


def test_a_breakpoint_has_a_short_repr(net):
    s = stepper(net)
    b = s.break_at(op="mul", above=1)
    b.enabled = False
    assert repr(b) == "<Breakpoint #1 op mul when |max| > 1: off, 0 hits>"


# -- watches and expressions -----------------------------------------------------------------------


def test_watches_follow(net):
    s = stepper(net)
    s.watch('norm(t["hidden/h"])')
    s.watch('t["x"][0, :].sum()')
    assert s.watches() == {'norm(t["hidden/h"])': None, 't["x"][0, :].sum()': 6.0}
    s.run_to("loss")
    h = s.value("hidden/h")
    assert s.watches()['norm(t["hidden/h"])'] == pytest.approx(np.linalg.norm(h))
    with pytest.raises(GraphError, match="no tensor 'hiden'"):
        s.watch('t["hiden"]')
    s.unwatch('t["x"][0, :].sum()')
    assert list(s.watches()) == ['norm(t["hidden/h"])']


def test_a_watch_on_a_name_without_t_is_refused_when_it_is_made(net):
    s = stepper(net)
    s.watch('norm(t["x"])')
    with pytest.raises(GraphError, match=r"t\["):
        s.watch("norm(x)")
    assert list(s.watches()) == ['norm(t["x"])']


@pytest.mark.parametrize(
    "text",
    ['__import__("os")', "value.__class__", "open('x')", "(lambda: 1)()", "[1 for _ in value]"],
)
def test_expressions_are_not_python(text):
    with pytest.raises(GraphError, match="cannot be used in an expression"):
        Expression(text).evaluate({}, np.ones(2))


def test_a_bare_name_in_an_expression_is_told_how_a_value_is_named():
    with pytest.raises(GraphError, match=r'try: +t\["loss"\]'):
        Expression("loss > 3").evaluate({}, np.ones(2))


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9", "value.shape + (1, 2, 3)", "abs(value, value)", "exp(value, value)",
        "value.max(value)", "1/0", "value[10]", "not value", "sum()", "~1.5", 't["nope"]',
        "value @ value @ 1",
    ],
)  # fmt: skip
def test_expressions_fail_in_words_and_write_nothing(text):
    value = np.full((2, 2), -1.0)
    with pytest.raises(GraphError):
        Expression(text).evaluate({}, value)
    assert np.all(value == -1.0)


def test_a_shape_in_an_expression_is_an_array():
    value = np.zeros((2, 3))
    assert Expression("value.shape * 1000000000").evaluate({}, value).tolist() == [2e9, 3e9]
    assert Expression("value.mean(0) + 2**3").evaluate({}, value).tolist() == [8.0] * 3

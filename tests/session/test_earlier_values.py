"""Values that were taken before a gradient was built serve all that run with them."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError


def test_constants_that_came_later_are_the_graphs_own() -> None:
    g = gw.Graph()
    x, w = g.placeholder("x", (None,)), g.variable("w", (), init=3.0)
    loss = ((x * w) ** 2.0).mean(name="loss")
    before = g.values.snapshot()
    g.values["w"] = 100.0
    (dw,) = gw.gradients(loss, [w])
    penalty = gw.identity(loss + dw * dw * 0.5, name="penalty")  # constants in the forward, too
    feeds = {"x": [1.0, 2.0]}
    for check in (None, "replay"):
        with gw.Session(g, values=before, check=check) as session:
            np.testing.assert_allclose(session.run([loss, dw, penalty], feeds), [22.5, 15.0, 135.0])
    stepper = gw.Stepper(g, [loss, dw, penalty], feeds, values=before)
    stepper.run()
    np.testing.assert_allclose(stepper.results(), [22.5, 15.0, 135.0])
    report = gw.gradient_check(g, penalty, feeds, values=before)
    assert report.passed and report.value == pytest.approx(135.0)


def test_a_variable_that_came_later_is_named() -> None:
    g = gw.Graph()
    before = g.values.snapshot()
    w = g.variable("late", (2,), init=1.0)
    loss = (w * w).sum()
    for run in (
        lambda: gw.Stepper(g, [loss], values=before),
        lambda: gw.gradient_check(g, loss, values=before),
    ):
        with pytest.raises(
            GraphError, match=r"no variable 'late'\n  made at test_earlier_values.py"
        ):
            run()

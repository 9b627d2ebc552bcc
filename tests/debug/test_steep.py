"""Infinite slopes: right where the op has one, as sqrt at 0, and wrong where it has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw

POINTS = np.array([[1.0, -1.0, 2.0], [-1.0, 2.0, 0.5]])
METHODS: pytest.MarkDecorator = pytest.mark.parametrize("method", ["auto", "differences"])


@METHODS
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: gw.sqrt(gw.nn.relu(x)),
        lambda x: gw.pow(gw.nn.relu(x), 0.3),
        lambda x: gw.arccos(gw.clip(1.1 * x, -1.0, 1.0)),
        lambda x: gw.map_fn(lambda row: gw.sqrt(gw.nn.relu(row)), x),
    ],
)
def test_what_a_mask_stops_is_no_mistake(fn: Callable[[gw.Tensor], gw.Tensor], method: Any) -> None:
    """The cotangent behind it is infinite, as the slope is, and no parameter gets it."""
    g = gw.Graph()
    x = g.placeholder("x", (None, 3))
    loss = fn(x * g.variable("w", (3,), init=1.0)).sum()
    report = gw.gradient_check(g, loss, {"x": POINTS}, method=method)
    assert report.passed and not report.blame
    assert (report.parameters["w"].verdicts == 1).sum() >= 2


@METHODS
def test_an_infinite_gradient_is_shown_and_not_blamed(method: Any) -> None:
    g = gw.Graph()
    w = g.variable("w", init=[0.0, 1.0, 2.0])
    report = gw.gradient_check(g, gw.sqrt(w).sum(), method=method)
    assert not report.blame
    assert np.isposinf(report.parameters["w"].analytic[0])
    assert "sqrt 'sqrt' are at the edge of a domain" in report.findings[0].text


@METHODS
@pytest.mark.parametrize(
    ("fn", "vjp", "at", "cause"),
    [
        (np.sin, lambda g, y, x: g / (x * 0.0), [0.5, 1.0, 2.0], "infinite"),
        (np.sqrt, lambda g, y, x: -0.5 * g / y, [0.0, 1.0, 2.0], "infinite"),
        (np.sqrt, lambda g, y, x: g / y, [0.0, 1.0, 2.0], "2 times what it should be"),
    ],
)
def test_a_wrong_rule_is_blamed_beside_an_infinite_slope(
    fn: Any, vjp: Any, at: list[float], cause: str, method: Any
) -> None:
    op = gw.define_op("test/steep", fn, vjp=vjp)
    g = gw.Graph()
    loss = op(g.variable("w", init=at), name="here").sum()
    report = gw.gradient_check(g, loss, method=method)
    (blamed,) = report.blame
    assert (blamed.name, blamed.inputs[0].cause) == ("here", cause)


def test_infinity_times_zero_is_called_that() -> None:
    g = gw.Graph()
    w = g.variable("w", init=[0.0, 1.0])
    report = gw.gradient_check(g, gw.square(gw.sqrt(w)).sum())
    assert not report.passed
    assert "'w' is not a number though every op's own vjp is right" in report.findings[0].text

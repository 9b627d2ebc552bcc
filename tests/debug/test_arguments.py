"""Arguments of the wrong kind: every tool refuses them in our words, before anything has moved."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.arguments import Kind
from gradwright.errors import FeedError, GradientError, GradwrightError, GraphError, TrainingError

FEEDS = {"x": np.ones((2, 4))}
WRONG: dict[str, Any] = {
    "number": 3, "below": -1, "broken": 1.5, "nan": float("nan"), "inf": float("inf"),
    "text": "zzz", "none": None, "object": object(), "list": [1], "nones": [None], "dict": {},
    "keys": {1: 2}, "bytes": b"q", "flag": True, "array": np.ones(3), "graph": gw.Graph("other"),
}  # fmt: skip


def model() -> dict[str, Any]:
    g = gw.Graph("misused")
    x = g.placeholder("x", (None, 4))
    y = gw.tanh(x @ g.variable("w", (4, 2), init=0.5), name="y")
    return {"graph": g, "loss": gw.mean(y, name="loss"), "feeds": FEEDS}


def stepper() -> gw.Stepper:
    made = model()
    return gw.Stepper(made["graph"], made["loss"], FEEDS)


TOOLS: dict[Callable[..., Any], dict[str, Any]] = {
    gw.gradient_check: {},
    gw.debug.loss_curve: {"tensor": "w", "index": (0, 0)},
    gw.debug.precision: {},
    gw.explain_gradient: {"parameter": "w"},
    gw.Stepper: {"fetches": "loss"},
    gw.GradientWatch: {},
}
"""Each with what it needs beside graph, loss and feeds."""
METHODS: dict[str, dict[str, Any]] = {
    name: {p: "loss" for p, v in parameters.items() if v.default is v.empty and p != "self"}
    for name, method in inspect.getmembers(gw.Stepper, inspect.isfunction)
    if not name.startswith("_") and (parameters := inspect.signature(method).parameters)
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.__name__)
def test_no_argument_of_a_tool_ends_in_an_error_of_numpy_or_python(tool, wrong, monkeypatch):
    monkeypatch.setattr("gradwright.debug.check.gradient_check.bar", lambda *a: _Quiet())
    for name in inspect.signature(tool).parameters:
        known = inspect.signature(tool).parameters
        given = {k: v for k, v in {**model(), **TOOLS[tool]}.items() if k in known}
        try:
            tool(**{**given, name: WRONG[wrong]})
        except GradwrightError as error:
            assert "need:" in str(error) or "try:" in str(error) or error.facts, name


class _Quiet:
    """No bar, which would be drawn."""

    def __enter__(self) -> Callable[..., None]:
        return lambda *a: None

    def __exit__(self, *a: object) -> None:
        pass


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", METHODS)
def test_no_argument_of_a_stepper_ends_in_an_error_of_numpy_or_python(name, wrong):
    for parameter in (*inspect.signature(getattr(gw.Stepper, name)).parameters,):
        if parameter == "self":
            continue
        s = stepper()
        s.step()
        try:
            getattr(s, name)(**{**METHODS[name], parameter: WRONG[wrong]})
        except GradwrightError:
            assert s.position == 1, parameter
            assert not (s.breakpoints or s.watched or s.pending)
        assert s.rerun() == 0 or name == "edit"


REFUSED: list[tuple[str, Callable[[], Any], type[GradwrightError], str]] = [
    ("op", lambda: stepper().break_at(op=3), GraphError, "op=3 .*\n.*a name or a pattern"),
    ("scope", lambda: stepper().break_at(scope=["y"]), GraphError, "scope="),
    ("regex", lambda: stepper().break_at(regex=b"y"), GraphError, "a regular expression"),
    ("above", lambda: stepper().break_at(above="3"), GraphError, "above='3' .*\n.*a number"),
    ("when", lambda: stepper().break_at(when=3), GraphError, "expression=3 .*\n.*text"),
    ("step", lambda: stepper().step("x"), GraphError, "n='x' .*\n.*a whole number >= 0"),
    ("back", lambda: stepper().back(-1), GraphError, "n=-1 "),
    ("stop", lambda: stepper().run(stop=True), GraphError, "stop=True .*\n.*a function"),
    ("listen", lambda: stepper().listen(None), GraphError, "listener=None"),
    ("clear", lambda: stepper().clear("#1"), GraphError, "breakpoint='#1'"),
    ("budget", lambda: gw.GradientWatch("x"), TrainingError, "budget='x' .*\n.*from 0 to 1"),
    ("every", lambda: gw.GradientWatch(every=1.5), TrainingError, "every=1.5 "),
    ("on_alarm", lambda: gw.GradientWatch(on_alarm="log"), TrainingError, "on_alarm='log' "),
    ("seed", lambda: gw.gradient_check(**model(), seed=-1), GradientError, "seed=-1 .*\n.*to 2"),
    ("wrt", lambda: gw.gradient_check(**model(), wrt="w"), GraphError, "wrt='w' .*\n.*a list of"),
    ("watch", lambda: gw.gradient_check(**model(), watch=[]), GradientError, "watch=\\[\\]"),
    ("feeds", lambda: gw.gradient_check(**{**model(), "feeds": {1: 2}}), FeedError, "1 is fed"),
    ("method", lambda: gw.gradient_check(**model(), method="x"), GradientError, "auto or differ"),
    (
        "points",
        lambda: gw.debug.loss_curve(**model(), tensor="w", index=(0, 0), points=1.5),
        GradientError,
        "points=1.5 .*\n.*whole number >= 1",
    ),
    (
        "index",
        lambda: gw.debug.loss_curve(**model(), tensor="w", index=["a", 0]),
        GradientError,
        "no element \\['a', 0\\]",
    ),
    ("session", lambda: gw.debug.precision(**model(), session=3), GradientError, "session=3 "),
    ("node", lambda: gw.debug.precision(**model())["z"], GraphError, "no node 'z' was looked at"),
    ("values", lambda: gw.debug.precision(**model(), values={}), GradientError, "values={} "),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_came_and_what_is_needed_is_said(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_long_value_is_shown_in_a_line():
    with pytest.raises(GraphError) as caught:
        Kind("a number", lambda value: False).check(x=np.arange(10_000.0).reshape(100, 100))
    assert len(caught.value.problem.splitlines()) == 1
    assert len(caught.value.problem) < 100


def test_numbers_of_numpy_are_numbers():
    s = stepper()
    s.step(np.int64(1))
    assert s.position == 1
    watch = gw.GradientWatch(np.float32(0.5), every=np.int32(2), seed=np.uint64(2**63))
    assert watch.budget == 0.5


def test_going_back_ends_at_the_start():
    s = stepper()
    s.step(2)
    s.back(10**30)
    assert s.position == 0

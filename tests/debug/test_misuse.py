"""What a user gets wrong when calling the tools: each error says what came and what was needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GradientError, GraphError

FEEDS = {"x": np.ones((2, 4))}
Call = Callable[[gw.Graph, gw.Tensor], Any]


def model() -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph("misused")
    x = g.placeholder("x", (None, 4))
    y = gw.tanh(x @ g.variable("w", (4, 2), init=0.5), name="y")
    return g, gw.mean(y, name="loss")


@pytest.mark.parametrize(
    "call",
    [
        lambda g, loss: gw.gradient_check(g, None, FEEDS),  # type: ignore[arg-type]
        lambda g, loss: gw.gradient_check(g, loss, FEEDS, wrt=[None]),  # type: ignore[list-item]
        lambda g, loss: gw.explain_gradient(g, loss, None, FEEDS),  # type: ignore[arg-type]
        lambda g, loss: gw.debug.precision(g, None, FEEDS),  # type: ignore[arg-type]
        lambda g, loss: gw.Stepper(g, None, FEEDS),
        lambda g, loss: gw.Stepper(g, loss, FEEDS).run_to(None),  # type: ignore[arg-type]
        lambda g, loss: gw.Stepper(g, loss, FEEDS).value(None),  # type: ignore[arg-type]
        lambda g, loss: gw.Stepper(g, loss, FEEDS).into_gradient(3),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_tensor_is_said_to_be_none(call: Call) -> None:
    with pytest.raises(GraphError, match=r"(None|3) is no tensor"):
        call(*model())


@pytest.mark.parametrize(
    "call",
    [
        lambda g, loss: gw.gradient_check(g, loss, FEEDS["x"]),  # type: ignore[arg-type]
        lambda g, loss: gw.explain_gradient(g, loss, "w", FEEDS["x"]),  # type: ignore[arg-type]
        lambda g, loss: gw.debug.precision(g, loss, FEEDS["x"]),  # type: ignore[arg-type]
        lambda g, loss: gw.Stepper(g, loss, FEEDS["x"]),  # type: ignore[arg-type]
    ],
)
def test_feeds_that_are_an_array_need_a_name(call: Call) -> None:
    with pytest.raises(FeedError, match="the feeds are a ndarray"):
        call(*model())


@pytest.mark.parametrize("setting", [{"max_per_param": -1}, {"rtol": -1.0}, {"rtol": np.nan}])
def test_settings_of_a_check_that_are_out_of_range(setting: dict[str, Any]) -> None:
    with pytest.raises(GradientError, match="makes no sense"):
        gw.gradient_check(*model(), FEEDS, **setting)


def test_vectors_of_a_hessian_are_named_by_their_tensor() -> None:
    g, loss = model()
    with pytest.raises(GradientError, match="vector for 'w' does not fit"):
        gw.hvp(loss, [g["w"]], [np.ones(3)])


@pytest.mark.parametrize("wrong", [3, None, "w", object(), [3], ["w"], {1: 2}, np.ones(2), len])
def test_what_is_differentiated_is_a_list_of_tensors(wrong: Any) -> None:
    g, loss = model()
    w, v = [g["w"]], [np.ones((4, 2))]
    losses = gw.sum(g["y"], axis=1)
    calls: list[Callable[[], Any]] = [
        lambda: gw.gradients(loss, wrong),
        lambda: gw.gradients(wrong, w),
        lambda: gw.gradients(loss, w, stop=wrong),
        lambda: gw.jacobian(loss, wrong),
        lambda: gw.hvp(loss, wrong, v),
        lambda: gw.per_example_gradients(losses, wrong),
    ]
    for call in calls:
        with pytest.raises(GradientError, match=r"no tensor|need: a list of tensors"):
            call()


@pytest.mark.parametrize("wrong", [3, None, len, "v"])
def test_vectors_are_a_list(wrong: Any) -> None:
    g, loss = model()
    with pytest.raises(GradientError, match=r"need: a list of them|1 tensors|does not fit"):
        gw.hvp(loss, [g["w"]], wrong)


@pytest.mark.parametrize("wrong", ["x", object(), {}, b"q"])
def test_a_cotangent_is_an_array(wrong: Any) -> None:
    g, loss = model()
    with pytest.raises(GradientError, match="grad_output of 'loss' is no array"):
        gw.gradients(loss, [g["w"]], wrong)


@pytest.mark.parametrize("ys", [None, "loss"])
def test_a_jacobian_of_what_is_no_tensor(ys: Any) -> None:
    g, _ = model()
    with pytest.raises(GradientError, match=f"{ys!r} has no Jacobian"):
        gw.jacobian(ys, [g["w"]])


def test_the_loss_of_an_empty_batch_begins_where_nothing_came_in() -> None:
    g, loss = model()
    with pytest.raises(GradientError, match="y: no element"):
        gw.gradient_check(g, loss, {"x": np.ones((0, 4))})

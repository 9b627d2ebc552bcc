"""gradient_check: what it finds, and what it forgives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.ops.layers.nn import Dropout
from tests.debug.wrong_gradients import Broken, Dead, Off, Right, X, linear

# -- verdicts --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_a_right_gradient_passes_whatever_the_graphs_dtype(dtype: str) -> None:
    g, loss = linear(Right(), dtype)
    report = gw.gradient_check(g, loss, {"x": X})
    assert report.passed and report.blame == [] and report.worst is not None
    assert report.worst.verdict == "ok"
    found = report.parameters["w"]
    np.testing.assert_allclose(found.numeric, found.analytic, rtol=1e-6)
    assert found.checked == 6 and (found.verdicts == 1).all()


@pytest.mark.parametrize("op", [Dead(), Off(), Broken()])
def test_a_wrong_gradient_fails_and_its_node_is_named(op: gw.Op) -> None:
    g, loss = linear(op)
    report = gw.gradient_check(g, loss, {"x": X})
    assert not report.passed
    assert [n.name for n in report.blame] == ["layer/scaled"]
    assert "wrong_gradients.py" in report.blame[0].where
    assert report.parameters["w"].verdict == "fail"
    assert report.parameters["w"].count("fail") == 6


def test_analytic_exactly_zero_beside_a_tiny_numeric_gradient_fails() -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.array(0.3))
    loss = (Dead()(w) * 1e-10 + 1.0).sum(name="loss")
    report = gw.gradient_check(g, loss)
    (element,) = report.parameters["w"].troubles
    assert element.comparison.analytic == 0 and element.verdict == "fail"
    assert element.comparison.numeric == pytest.approx(3e-10, rel=1e-3)


def test_zero_on_both_sides_passes() -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.array([0.3, 2.0]))
    report = gw.gradient_check(g, (w * 0.0 + 5.0).sum())
    assert report.passed and report.parameters["w"].numeric.tolist() == [0, 0]


def test_an_off_gradient_is_within_a_tolerance_that_admits_it() -> None:
    g, loss = linear(Off())
    assert not gw.gradient_check(g, loss, {"x": X}, rtol=1e-4).passed
    assert gw.gradient_check(g, loss, {"x": X}, rtol=1e-2).parameters["w"].verdict == "ok"


def test_parameters_of_very_different_size() -> None:
    g = gw.Graph()
    big, small = g.variable("big", init=np.array([1e6, -3e5])), g.variable("small", init=1e-7)
    loss = (gw.exp(big * 1e-6) * gw.exp(small * 1e6)).sum() + 1e4
    report = gw.gradient_check(g, loss)
    assert report.passed, report
    assert {p.verdict for p in report.parameters.values()} == {"ok"}


def test_complex_parameters_have_a_real_and_an_imaginary_part() -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.array([1 + 2j, -0.5j]))
    z = w * w * (0.3 + 0.1j)
    report = gw.gradient_check(g, gw.real(z * gw.conj(z)).sum())
    assert report.passed, report
    found = report.parameters["w"]
    np.testing.assert_allclose(found.numeric, found.analytic, rtol=1e-6)


# -- kinks -----------------------------------------------------------------------------------------


def test_kinks_are_told_from_mistakes() -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.array([0.0, 1.0, -1.0]))
    loss = (gw.nn.relu(w, name="corner") * 2.0 + w).sum(name="loss")
    report = gw.gradient_check(g, loss)
    found = report.parameters["w"]
    assert report.passed and [int(v) for v in found.verdicts] == [2, 1, 1]
    assert found.troubles[0].kinks == ("corner",)
    assert {n.name: n.verdict for n in report.nodes}["corner"] == "kink"


def test_kinks_that_meet_are_no_mistake() -> None:
    g = gw.Graph()  # relu(x) - relu(-x) is x, smooth; its gradient at 0 is 0 by relu's convention
    w = g.variable("w", init=np.array([0.0, 0.5]))
    loss = (gw.nn.relu(w, name="up") - gw.nn.relu(-w, name="down")).sum(name="loss")
    report = gw.gradient_check(g, loss)
    assert report.passed and report.blame == []
    assert report.parameters["w"].troubles[0].kinks == ("up", "down")


def test_a_slope_outside_the_kink_is_a_mistake() -> None:
    class Corner(gw.Op):
        """Absolute value with a gradient of 2 at 0."""

        def infer(self, x: Any) -> Any:
            return x.with_shape(x.shape)

        def forward(self, x: Any) -> Any:
            return np.abs(x)

        def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
            return (gs[0] * 2.0,)

    g = gw.Graph()
    w = g.variable("w", init=np.zeros(2))
    report = gw.gradient_check(g, Corner()(w, name="corner").sum())
    assert [n.name for n in report.blame] == ["corner"]


class KinkyOverride(gw.Op):
    """A composite with a kink inside and a wrong vjp of its own.

    y = max(x, 0)
    """

    def expand(self, x: Any) -> Any:
        return gw.nn.relu(x) - gw.nn.relu(-x) * 0.0

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * (xs[0] > 0.0).astype("float64") * 1.001,)


def test_a_kink_does_not_excuse_what_is_beside_it() -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.array([0.0, 0.0, 0.0]))
    report = gw.gradient_check(g, (KinkyOverride()(w, name="corner") * 2.0).sum())
    (blamed,) = report.blame
    assert blamed.name == "corner" and blamed.reason.startswith("beside its kink")


def test_pools_behind_pools_are_no_mistake(rng: np.random.Generator) -> None:
    g = gw.Graph()  # windows that share a maximum hold ties, beside which are others at all scales
    x = a = g.placeholder("x", (1, 64, 20, 20))
    for _ in range(3):
        a = gw.cnn.max_pool2d(a, kernel_size=5, stride=1, padding=2)
    feeds = {"x": rng.standard_normal((1, 64, 20, 20)).astype("float32")}
    loss = (gw.sin(a) * g.constant(rng.standard_normal(a.shape))).sum()
    for seed in range(3):
        report = gw.gradient_check(g, loss, feeds, wrt=[x], max_per_param=0, seed=seed)
        assert report.blame == [] and len([n for n in report.nodes if n.verdict == "kink"]) == 2


def test_a_mistake_is_found_among_kinks(rng: np.random.Generator) -> None:
    g = gw.Graph()
    data = rng.standard_normal(200)
    data[::2] = 0.0
    w = g.variable("w", init=data)
    loss = (Off()(gw.nn.relu(w, name="relu"), name="off") * 0.5).sum()
    report = gw.gradient_check(g, loss)
    assert [n.name for n in report.blame] == ["off"]
    assert {n.name: n.verdict for n in report.nodes}["relu"] == "kink"


# -- composites, conds, random ops, stopped gradients ----------------------------------------------


class Outer(gw.Op):
    """A composite that holds the mistake inside.

    y = 3·eˣ
    """

    def expand(self, x: Any) -> Any:
        return Off()(gw.exp(x))


class Override(gw.Op):
    """A composite whose own vjp is the mistake.

    y = 3·eˣ
    """

    def expand(self, x: Any) -> Any:
        return Right()(gw.exp(x))

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * 2.0,)


@pytest.mark.parametrize(("op", "inner"), [(Outer(), ["local/off"]), (Override(), [])])
def test_a_composite_is_blamed_as_itself_with_the_culprit_inside(
    op: gw.Op, inner: list[str]
) -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.array([0.1, 0.2]))
    report = gw.gradient_check(g, op(w, name="outer").sum())
    (blamed,) = report.blame
    assert blamed.name == "outer" and [n.op for n in blamed.inner] == inner


@pytest.mark.parametrize("positive", [True, False])
def test_a_cond_is_blamed_only_where_its_chosen_branch_is_wrong(positive: bool) -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.array(1.0 if positive else -1.0, np.float32))
    y = gw.cond(w > 0.0, lambda: Off()(w), lambda: gw.exp(w), name="choice")
    report = gw.gradient_check(g, y * 2.0)
    assert report.passed is not positive
    assert [n.name for n in report.blame] == (["choice"] if positive else [])
    if positive:
        assert [n.op for n in report.blame[0].inner] == ["local/off"]


@pytest.mark.parametrize("training", [True, False])
def test_random_ops_draw_the_same_in_all_evaluations(training: bool) -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.arange(1.0, 9.0))
    y = gw.nn.dropout(w, 0.5, name="dropout")
    report = gw.gradient_check(g, (y * y).sum(), training=training, seed=3)
    assert report.passed
    dropped = int((report.parameters["w"].analytic == 0).sum())
    assert (0 < dropped < 8) if training else dropped == 0


class Noisy(gw.Op):
    """A composite that drops half of its input in training.

    y = x·m
    """

    def expand(self, rng: Any, x: Any) -> Any:
        return Dropout(p=0.5, stream=7)(rng, x * x)


def test_composites_follow_the_mode() -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.arange(1.0, 9.0))
    loss = Noisy()(g.rng, w).sum()
    for training in (True, False):
        report = gw.gradient_check(g, loss, training=training)
        assert report.passed, report
        assert bool((report.parameters["w"].analytic == 0).any()) is training


def test_a_stopped_gradient_is_constant_on_both_sides() -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.array([0.5, 2.0]))
    loss = (w * gw.stop_gradient(gw.exp(w))).sum()
    report = gw.gradient_check(g, loss)
    assert report.passed, report
    np.testing.assert_allclose(report.parameters["w"].numeric, np.exp([0.5, 2.0]), rtol=1e-6)


def test_casts_to_narrow_dtypes_do_not_round() -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.array([0.1, 0.7], np.float32))
    loss = gw.exp(w.astype("bfloat16")).astype("float32").sum()
    report = gw.gradient_check(g, loss)
    assert report.passed, report
    exact = np.exp(np.array([0.1, 0.7], np.float32).astype(np.float64))
    np.testing.assert_allclose(report.parameters["w"].analytic, exact, rtol=1e-12)


def test_activations_and_placeholders_can_be_checked() -> None:
    g, loss = linear(Right())
    report = gw.gradient_check(g, loss, {"x": X}, wrt=["x", g["layer/scaled"]])
    assert report.passed
    assert [p.verdicts.shape for p in report.parameters.values()] == [(2, 3), (2, 2)]


def test_mistakes_in_a_gradient_penalty_are_found_at_second_order() -> None:
    g = gw.Graph()
    x, w = g.placeholder("x", (3,), "float64"), g.variable("w", init=np.array([0.4, -0.3, 0.9]))
    (dx,) = gw.gradients(gw.exp(x * w), [x])
    report = gw.gradient_check(g, (dx * dx).sum(), {"x": [1.0, 2.0, 3.0]})
    assert report.passed and any(n.name.startswith("grad/") for n in report.nodes)

"""Gradients that are deliberately not the derivative: declared, held to that, and shown as such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, GraphError, ShapeError

X = np.array([0.3, -1.2, 2.7, 0.02])
Build = Callable[[gw.Graph, gw.Tensor], gw.Tensor]


def spike(factor: float = 1.0) -> Any:
    """Return a step whose vjp is ``factor`` times the slope of the sigmoid that it declares."""
    return gw.define_op(
        "test/spike",
        lambda x: (x > 0) * 1.0,
        vjp=lambda g, y, x: g * factor * gw.nn.sigmoid(x) * gw.nn.sigmoid(-x),
        surrogate=lambda x: 1 / (1 + np.exp(-x)),
    )


def checked(build: Build, **options: Any) -> gw.debug.Report:
    g = gw.Graph()
    return gw.gradient_check(g, build(g, g.variable("w", init=X)), **options)


def test_a_surrogate_is_held_to_what_it_declares() -> None:
    report = checked(lambda g, w: gw.square(spike()(w * 2.0, name="here") + w).sum())
    assert report.passed
    verdicts = {n.name: n.verdict for n in report.nodes}
    assert verdicts["here"] == "surrogate" and set(verdicts.values()) == {"surrogate", "ok"}
    found = report.parameters["w"]
    assert (found.verdict, found.surrogates) == ("ok", ("here",))
    slope = np.exp(2 * X) / (1 + np.exp(2 * X)) ** 2
    np.testing.assert_allclose(found.numeric, 2 * ((X > 0) + X) * (1 + 2 * slope), rtol=1e-6)
    assert report.findings[0].verdict == "surrogate" and report.findings[0].text == (
        "test/spike 'here' has a declared gradient instead of the derivative, and is held to it; "
        "so is 'w' behind"
    )
    told = report.to_dict()
    assert told["nodes"]["here"] == "surrogate"
    assert told["parameters"][0]["surrogates"] == ["here"]


def test_a_surrogate_that_is_not_what_it_declares_is_blamed() -> None:
    report = checked(lambda g, w: gw.square(spike(1.01)(w, name="here") + w).sum())
    (blamed,) = report.blame
    assert (blamed.name, blamed.inputs[0].cause) == ("here", "1.01 times what it should be")
    assert report.parameters["w"].verdict == "fail"


def test_mistakes_in_front_of_a_surrogate_and_behind_it_are_found() -> None:
    off = gw.define_op("test/off", lambda x: x * 3.0, vjp=lambda g, y, x: g * 3.03)
    for build in (
        lambda g, w: spike()(off(w, name="off")).sum(),
        lambda g, w: off(spike()(w) * w, name="off").sum(),
    ):
        report = checked(build)
        assert [n.name for n in report.blame] == ["off"]
        assert report.parameters["w"].count("fail") == 4


def test_a_surrogate_in_a_composite_in_a_loop_is_no_mistake() -> None:
    op = spike()

    class Fires(gw.Op):
        """A composite, which stands for the surrogate."""

        name = "test/fires"

        def expand(self, x: gw.Tensor) -> gw.Tensor:
            return op(x) * 2.0  # type: ignore[no-any-return]

    def build(g: gw.Graph, w: gw.Tensor) -> gw.Tensor:
        turns = g.constant(np.ones((3, 4)))
        return gw.scan(lambda c, v: (c + Fires()(v * w), None), np.zeros(4), turns)[0].sum()

    report = checked(build)
    assert (report.outcome, report.blame) == ("unclear", [])
    assert not report.parameters["w"].count("fail")


def test_without_a_declaration_it_is_a_mistake() -> None:
    op = gw.define_op("test/silent", lambda x: np.round(x), vjp=lambda g, y, x: g)
    report = checked(lambda g, w: gw.square(op(w, name="here")).sum())
    assert [n.name for n in report.blame] == ["here"] and not report.parameters["w"].surrogates


def test_a_value_with_the_gradient_of_another() -> None:
    g = gw.Graph()
    w = g.variable("w", init=X)
    y = gw.surrogate(gw.round(w * 3.0) / 3.0, gw.tanh(w), name="held")
    (dw,) = gw.gradients(gw.square(y).sum(), [w])
    with gw.Session(g) as session:
        value, slope, rounded = session.run([y, dw, gw.round(w * 3.0) / 3.0])
    np.testing.assert_array_equal(value, rounded)
    np.testing.assert_allclose(slope, 2 * value * (1 - np.tanh(X.astype("f4")) ** 2), rtol=1e-5)
    report = gw.gradient_check(g, gw.square(y).sum())
    assert report.passed and report.parameters["w"].surrogates == ("held",)


@pytest.mark.parametrize(
    ("build", "op"),
    [
        (lambda g, w: gw.quant.fake_quantize(w, g.constant(0.25), low=-4, high=3), "fake_quantize"),
        (lambda g, w: gw.quant.fake_cast(w), "fake_cast"),
        (lambda g, w: gw.surrogate(gw.floor(w), w * w), "surrogate"),
        (lambda g, w: gw.cond(w.sum() > 0.0, lambda: spike()(w), lambda: w), "cond"),
    ],
)
def test_our_own_ops_declare_theirs(build: Build, op: str) -> None:
    report = checked(lambda g, w: gw.exp(build(g, w)).sum())
    assert report.passed, report
    assert [n.op for n in report.nodes if n.verdict == "surrogate"] == [op]


def test_a_learned_step_of_quantisation_is_held_to_its_paper() -> None:
    g = gw.Graph()
    w = g.variable("w", init=X)
    step = g.variable("step", init=0.3)
    y = gw.quant.fake_quantize(w, step, low=-2, high=3)
    report = gw.gradient_check(g, gw.exp(y * 0.5).sum())
    assert report.passed and not report.blame
    q = np.clip(np.rint(X / np.float32(0.3)), -2, 3)
    by_step = np.where((q > -2) & (q < 3), q - X.astype("f4") / np.float32(0.3), q)
    exact = np.sum(0.5 * np.exp(0.5 * q * np.float32(0.3)) * by_step)
    np.testing.assert_allclose(report.parameters["step"].numeric, exact, rtol=1e-5)


def test_a_told_gradient_is_a_declaration() -> None:
    report = checked(
        lambda g, w: gw.training.with_gradient(
            gw.abs(w).sum(), w * 3.0, g.constant([10.0, -1.0, 3.0, 0.0])
        )
    )
    assert report.passed
    np.testing.assert_allclose(report.parameters["w"].numeric, [30, -3, 9, 0], rtol=1e-6)


def test_what_is_declared_has_to_fit() -> None:
    with pytest.raises(GraphError, match="a surrogate without its gradient"):
        gw.define_op("test/half", lambda x: x, surrogate=lambda x: x)
    with pytest.raises(GraphError, match=r"test/half: surrogate takes \(x, z\)"):
        gw.define_op("test/half", lambda x: x, vjp=lambda g, y, x: g, surrogate=lambda x, z: x)
    g = gw.Graph()
    w = g.variable("w", init=X)
    with pytest.raises(ShapeError, match="different shapes"):
        gw.surrogate(w, w[:2])
    with pytest.raises(DTypeError, match="two floats alike"):
        gw.surrogate(w, w.astype("float32"))


# -- second order ----------------------------------------------------------------------------------


def cubed(stops: bool) -> Any:
    """Return x³, whose vjp takes x² as constant or not."""
    hold = gw.stop_gradient if stops else gw.identity
    return gw.define_op("test/cubed", lambda x: x**3, vjp=lambda g, y, x: g * 3 * hold(x * x))


def test_a_vjp_that_stops_gradients_is_wrong_at_second_order_only() -> None:
    for stops in (False, True):
        report = checked(lambda g, w, s=stops: gw.exp(cubed(s)(w, name="here") * 0.1).sum())
        assert report.passed
        report = checked(
            lambda g, w, s=stops: gw.exp(cubed(s)(w, name="here") * 0.1).sum(), order=2
        )
        assert [n.name for n in report.blame] == (["here"] if stops else [])
    assert "its vjp for x is right, but not its derivative: " in report.findings[0].text
    assert "instead of" in report.findings[0].text


@pytest.mark.parametrize("stops", [False, True])
def test_a_penalty_on_a_gradient_finds_what_its_vjp_stops(stops: bool) -> None:
    def penalty(g: gw.Graph, w: gw.Tensor) -> gw.Tensor:
        (dw,) = gw.gradients(cubed(stops)(w, name="here").sum(), [w])
        return gw.square(dw).sum()

    report = checked(penalty)
    assert report.passed is not stops
    if stops:
        assert report.parameters["w"].verdict == "fail"
        (blamed,) = report.blame
        assert blamed.op == "stop_gradient" and blamed.where.startswith("test_surrogates.py")
        assert "a vjp takes it as constant" in report.findings[0].text


def test_second_derivatives_of_healthy_networks_pass() -> None:
    rng = np.random.default_rng(0)
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 4)), g.placeholder("t", (None,), "int64")
    h = gw.nn.layer_norm(gw.nn.gelu(x @ g.variable("w", init=rng.standard_normal((4, 5)))))
    h = gw.nn.softmax(gw.nn.relu(h), axis=-1) + gw.maximum(h, gw.tanh(h)) * gw.sqrt(h * h + 1.0)
    loss = gw.loss.sparse_softmax_cross_entropy(
        t, h @ g.variable("v", init=rng.standard_normal((5, 3)))
    )
    feeds = {"x": rng.standard_normal((6, 4)), "t": rng.integers(0, 3, 6)}
    report = gw.gradient_check(g, loss, feeds, order=2)
    assert report.passed, report

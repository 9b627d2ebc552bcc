"""What a gradient check says in words, why an op is at fault, and the loss along one element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug import loss_curve
from gradwright.errors import GradientError

POINTS = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]])


class Scaled(gw.Op):
    """The input times three, with a vjp that is wrong by ``factor``.

    y = 3x
    """

    factor: float = gw.attr(1.0, doc="What the vjp is multiplied with.")

    def infer(self, x: Any) -> Any:
        return x.with_shape(x.shape)

    def forward(self, x: Any) -> Any:
        return 3 * x

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * (3.0 * self.factor),)


class NotANumber(Scaled):
    """A vjp that is not a number."""

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        zero = gs[0] * 0.0
        return (zero / zero,)


class Curved(Scaled):
    """A vjp whose factor depends on the element."""

    def forward(self, x: Any) -> Any:
        return x**3

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * (3.0 * xs[0]),)


class Constant(Scaled):
    """A vjp where the output does not depend on the input."""

    def forward(self, x: Any) -> Any:
        return 0 * x + 1


class Transposed(Scaled):
    """A vjp that forgets to transpose."""

    def forward(self, x: Any) -> Any:
        return x.T

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0],)


class Swapped(gw.Op):
    """A vjp that gives each input what belongs to the other.

    y = x·z
    """

    def infer(self, x: Any, z: Any) -> Any:
        return x.with_shape(x.shape)

    def forward(self, x: Any, z: Any) -> Any:
        return x * z

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return gs[0] * xs[0], gs[0] * xs[1]


class Conjugate(Scaled):
    """A vjp in the other convention of complex gradients."""

    def forward(self, x: Any) -> Any:
        return (2 + 1j) * x

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gw.conj(gs[0] * (2 - 1j)),)


class Noisy(Scaled):
    """A forward whose rounding errors are larger than what it computes."""

    def forward(self, x: Any) -> Any:
        return 1e-8 * x + 1e-6 * np.sin(1e17 * x)

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * 1e-8,)


def model(op: gw.Op, value: Any) -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph()
    w = g.variable("w", init=np.asarray(value))
    y = op(w, name="y")
    return g, gw.square(gw.abs(y) if np.iscomplexobj(value) else y).sum(name="loss")


# -- why an op is at fault -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "value", "cause"),
    [
        (Scaled(factor=0.5), POINTS, "0.5 times what it should be"),
        (Scaled(factor=1.001), POINTS, "1.001 times what it should be"),
        (Scaled(factor=-1.0), POINTS, "of the wrong sign"),
        (Scaled(factor=0.0), POINTS, "zero"),
        (NotANumber(), POINTS, "not a number"),
        (Constant(), POINTS, "not zero, as it should be"),
        (Transposed(), POINTS[:, :2], "transposed"),
        (Conjugate(), POINTS + 1j * POINTS[::-1], "the conjugate of what it should be"),
        (Curved(), POINTS, ""),
    ],
)
def test_the_cause_is_told_if_the_numbers_say_it(op: gw.Op, value: Any, cause: str) -> None:
    report = gw.gradient_check(*model(op, value))
    (node,) = report.blame
    assert (node.name, node.inputs[0].cause) == ("y", cause)
    assert node.seconds > 0


def test_cotangents_of_two_inputs_that_are_swapped_are_told() -> None:
    g = gw.Graph()
    a = g.variable("a", init=POINTS)
    b = g.variable("b", init=POINTS[::-1] + 1)
    (node,) = gw.gradient_check(g, Swapped()(a, b, name="y").sum()).blame
    assert [i.cause for i in node.inputs] == ["what z should get", "what x should get"]
    assert repr(node).startswith("<local/swapped 'y' fail: x: vjp ") and len(repr(node)) < 240


# -- in words --------------------------------------------------------------------------------------


def test_a_check_that_passes_says_what_it_covered() -> None:
    (only,) = gw.gradient_check(*model(Scaled(), POINTS)).findings
    assert only.verdict == "ok"
    assert only.text == (
        "All gradients agree with finite differences: 6 elements of 1 parameter, 3 ops"
    )
    (only,) = gw.gradient_check(*model(Scaled(), POINTS), max_per_param=0).findings
    assert only.text == "All gradients agree with finite differences: 3 ops"


def test_a_mistake_names_op_line_and_what_inherits_it() -> None:
    op, rest = gw.gradient_check(*model(Scaled(factor=0.5), POINTS)).findings
    assert (op.verdict, op.nodes, rest.nodes) == ("fail", ("y",), ("w",))
    assert op.text.startswith("local/scaled 'y' (test_findings.py:")
    assert op.text.endswith(") is wrong: its vjp for x is 0.5 times what it should be")
    assert rest.text == "1 parameter inherits the error: 'w'"
    op, _ = gw.gradient_check(*model(Curved(), POINTS)).findings
    assert op.text.endswith(" along a random direction") and " instead of " in op.text


def test_kinks_and_edges_are_no_mistakes() -> None:
    g = gw.Graph()
    w = g.variable("w", init=[0.0, 1.0, -2.0])
    v = g.variable("v", init=[0.0, 4.0])
    loss = gw.nn.relu(w).sum() + (v**1.5).sum()
    kink, edge, rest = gw.gradient_check(g, loss).findings
    assert kink.text == (
        "1 element sits on a kink (relu 'relu'): any value between the two slopes is right"
    )
    assert (edge.verdict, edge.nodes) == ("unclear", ("v", "pow"))
    assert edge.text == (
        "1 element of 'v' and pow 'pow' are at the edge of a domain, with a value on one side only"
    )
    assert rest.text.startswith("All else agrees")


def test_noise_is_said_to_be_noise() -> None:
    g = gw.Graph()
    w = g.variable("w", init=[1.0, 2.0])
    report = gw.gradient_check(g, Noisy()(w, name="y").sum())
    noise, proof = report.findings
    assert noise.text == "2 elements of 'w' and local/noisy 'y' are too noisy to tell"
    assert (report.passed, report.outcome, proof.verdict) == (False, "unclear", "unclear")
    assert proof.text == "This proves nothing: nothing could be told of 'w'"


def test_a_small_part_of_a_large_sum_is_noise_and_no_mistake() -> None:
    for size, verdict in ((1e2, "ok"), (1e8, "unclear")):
        g = gw.Graph()
        w = g.variable("w", init=[1.0, 2.0])
        large = g.constant(np.array(size))
        loss = ((w * 1e-8).sum() + large) - large
        report = gw.gradient_check(g, loss, method="differences")
        assert report.parameters["w"].verdict == verdict and not report.blame
        assert report.outcome == {"ok": "passed", "unclear": "unclear"}[verdict]
        chained = gw.gradient_check(g, loss)  # measures one call at a time, where nothing is hidden
        assert chained.parameters["w"].verdict == "ok" and chained.passed


def test_a_stopped_check_claims_nothing() -> None:
    g, loss = model(Scaled(), POINTS)
    grown: list[Any] = []
    report = gw.gradient_check(
        g, loss, watch=grown.append, should_stop=lambda: len(grown[0].nodes) == 2
    )
    assert grown == [report] and report.stopped
    (only,) = report.findings
    assert (only.verdict, only.text) == ("stopped", "Stopped early, after 2 ops")


def test_a_copy_stays_while_the_report_grows() -> None:
    g, loss = model(Scaled(), POINTS)
    copies: list[Any] = []
    grown: list[Any] = []
    gw.gradient_check(
        g, loss, watch=grown.append, progress=lambda *_: copies.append(grown[0].copy())
    )
    assert [len(c.nodes) for c in copies[:4]] == [0, 1, 2, 3]
    assert len(copies[0].parameters) == 0 and len(copies[-1].parameters) == 1


def test_errors_are_relative_and_forgive_rounding_of_zeros() -> None:
    g, loss = model(Scaled(factor=0.5), [1.0, 0.0, 2.0])
    found = gw.gradient_check(g, loss, max_per_param=2).parameters["w"]
    assert np.isnan(found.errors()).sum() == 1
    assert repr(found) == "<'w' [3] fail: 2 elements checked>"
    found = gw.gradient_check(g, loss).parameters["w"]
    np.testing.assert_allclose(found.errors(), [0.5, 0.0, 0.5], atol=1e-8)


# -- the loss along one element --------------------------------------------------------------------


def test_a_curve_is_the_function_it_was_asked_for() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 2), "float64")
    w = g.variable("w", init=np.array([0.5, -2.0]))
    loss = gw.exp(x @ w).sum(name="loss")
    curve = loss_curve(g, "loss", {"x": [[1.0, 0.25]]}, "w", 1, points=5)
    exact = 0.25 * math.exp(0.5 - 0.5)
    assert (curve.value, curve.check.index) == (-2.0, (1,))
    assert (curve.analytic, curve.loss) == (pytest.approx(exact), pytest.approx(1.0))
    np.testing.assert_allclose(curve.changes, np.expm1(0.25 * curve.offsets), rtol=1e-6, atol=1e-15)
    np.testing.assert_allclose(curve.offsets[0], np.linspace(-1, 1, 5) * curve.spans[0])
    # A V: truncation falls as h², then rounding grows as 1/h, about the measured floor.
    scale = 0.25 * curve.steps[:4]
    np.testing.assert_allclose(curve.errors[:4], np.sinh(scale) / scale - 1, rtol=1e-3)
    assert curve.errors.min() < 1e-9 < 1e-7 < curve.errors[-1]
    assert (curve.errors[-4:] < 20 * curve.floor[-4:]).all()
    assert loss.name == "loss" and g.values["w"][1] == -2.0


def test_a_wrong_gradient_has_no_v_but_a_plateau() -> None:
    g, loss = model(Scaled(factor=0.5), POINTS)
    curve = gw.gradient_check(g, loss).curve("w", (1, 0))
    assert curve.check.verdict == "fail"
    np.testing.assert_allclose(curve.errors[2:12], 0.5, rtol=1e-3)


def test_relu_at_zero_has_two_slopes() -> None:
    g = gw.Graph()
    w = g.variable("w", init=[[0.0, 1.0]])
    curve = loss_curve(g, (3.0 * gw.nn.relu(w)).sum(), {}, w, (0, 0))
    assert (curve.check.verdict, curve.check.kinks) == ("kink", ("relu",))
    assert (curve.left, curve.right) == (0.0, pytest.approx(3.0))
    np.testing.assert_allclose(curve.changes, 3 * np.maximum(curve.offsets, 0), atol=1e-12)


def test_a_curve_follows_the_values_of_the_check() -> None:
    g, loss = model(Scaled(), POINTS)
    report = gw.gradient_check(g, loss)
    g.values["w"] = 0 * POINTS
    assert report.curve("w", (0, 2)).value == 2.0
    assert loss_curve(g, loss, {}, "w", (0, 2)).value == 0.0
    assert gw.debug.Report("loss", 0.0).occasion is None
    with pytest.raises(GradientError, match="does not know what it ran on"):
        gw.debug.Report("loss", 0.0).curve("w")


def test_parts_of_complex_elements_and_scalars() -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.array(1.0 + 2.0j))
    loss = gw.square(gw.abs(w))
    assert loss_curve(g, loss, {}, w).analytic == pytest.approx(2.0)
    imag = loss_curve(g, loss, {}, w, part="imag")
    assert (imag.value, imag.analytic) == (2.0, pytest.approx(4.0))


@pytest.mark.parametrize(
    ("index", "part", "message"),
    [
        ((2, 0), "real", r"'w' has no element \[2, 0\]"),
        (0, "real", r"'w' has no element \[0\]"),
        ((0, 0), "imag", "'w' has no 'imag' part"),
    ],
)
def test_an_element_that_is_not_there_is_named(index: Any, part: str, message: str) -> None:
    g, loss = model(Scaled(), POINTS)
    with pytest.raises(GradientError, match=message):
        loss_curve(g, loss, {}, "w", index, part=part)


def test_what_has_no_gradient_has_no_curve() -> None:
    g = gw.Graph()
    n = g.variable("n", init=np.arange(3))
    w = g.variable("w", init=[1.0, 2.0])
    with pytest.raises(GradientError, match="is not a scalar"):
        loss_curve(g, w * 2.0, {}, w, 0)
    with pytest.raises(GradientError, match="is not floating"):
        loss_curve(g, w.sum(), {}, n, 0)


def test_gradients_that_are_zero_and_right_are_told() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (None, 3))
    dead = gw.nn.relu(x @ g.variable("w", (3, 4), init=-1.0))
    loss = gw.mean(dead @ g.variable("v", (4,), init=1.0) + g.variable("b", (), init=0.5))
    report = gw.gradient_check(g, loss, {"x": np.ones((2, 3))})
    assert report.passed
    (finding,) = report.findings
    assert finding.text.endswith(
        "; the gradient of 'w', 'v' is 0, and gw.explain_gradient says why"
    )

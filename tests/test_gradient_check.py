"""gradient_check: what it finds, what it forgives, and what it says."""

from __future__ import annotations

import json
import math
import threading
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.float64 import Float64Run
from gradwright.debug.numeric import STEPS, compare, measured_noise, slope
from gradwright.errors import FeedError, GradientError, GraphError
from gradwright.ops.nn import Dropout


class _Scale(gw.Op):
    """Triple the input; subclasses get the gradient wrong.

    y = 3x
    """

    def infer(self, x: Any) -> Any:
        return x.with_shape(x.shape)

    def forward(self, x: Any) -> Any:
        return 3 * x


class Right(_Scale):
    """The right gradient."""

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * 3.0,)


class Dead(_Scale):
    """A gradient of exactly zero."""

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * 0.0,)


class Off(_Scale):
    """A gradient that is 0.1 % too large."""

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (gs[0] * 3.003,)


class Broken(_Scale):
    """A gradient that is not a number."""

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        zero = gs[0] * 0.0
        return (zero / zero,)


def linear(op: gw.Op, dtype: str = "float32") -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph()
    x = g.placeholder("x", (None, 3), dtype)
    w = g.variable("w", init=np.array([[1.0, -2.0], [0.5, 3.0], [0.1, -0.4]], dtype))
    with g.scope("layer"):
        h = op(x @ w, name="scaled")
    return g, gw.exp(h * 0.1).sum(name="loss")


X = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.6]])


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
    assert "test_gradient_check.py" in report.blame[0].where
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


# -- how it runs -----------------------------------------------------------------------------------


def test_the_graph_and_its_values_stay_as_they_are() -> None:
    g, loss = linear(Right())
    nodes, version = g.all_nodes, g.values.version("w")
    before = g.values["w"].copy()
    gw.gradient_check(g, loss, {"x": X})
    assert g.all_nodes == nodes and g.values.version("w") == version
    assert g.values["w"].tobytes() == before.tobytes()


def test_it_works_on_the_values_of_its_start() -> None:
    g, loss = linear(Right())
    start = g.values["w"].copy()

    def change(done: int, total: int, name: str) -> None:
        g.values["w"] = np.full((3, 2), 100.0)

    report = gw.gradient_check(g, loss, {"x": X}, progress=change)
    assert report.passed
    g.values["w"] = start
    again = gw.gradient_check(g, loss, {"x": X})
    assert again.parameters["w"].analytic.tobytes() == report.parameters["w"].analytic.tobytes()


def test_a_sample_of_elements_depends_on_the_seed_alone() -> None:
    g, loss = linear(Right())

    def chosen(seed: int) -> list[list[int]]:
        report = gw.gradient_check(g, loss, {"x": X}, max_per_param=2, seed=seed)
        assert report.parameters["w"].checked == 2 and report.parameters["w"].direction is not None
        return np.argwhere(report.parameters["w"].verdicts).tolist()

    assert chosen(1) == chosen(1)
    assert len({str(chosen(s)) for s in range(6)}) > 1


def test_the_direction_finds_what_a_sample_misses() -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.linspace(0.1, 1.0, 50))
    loss = (w * w).sum() + Dead()(w[-1:]).sum()
    report = gw.gradient_check(g, loss, max_per_param=1)
    assert report.parameters["w"].checked == 1 and not report.passed
    assert report.worst is not None and report.worst.index is None


def test_nodes_alone() -> None:
    for op in (Right(), Dead()):
        g, loss = linear(op)
        report = gw.gradient_check(g, loss, {"x": X}, max_per_param=0)
        assert report.passed is isinstance(op, Right)
        assert report.parameters["w"].verdict == "unchecked" and report.worst is None


@pytest.mark.parametrize("kind", ["event", "function"])
def test_it_stops_when_told_to(kind: str) -> None:
    g, loss = linear(Right())
    event, calls = threading.Event(), []

    def progress(done: int, total: int, name: str) -> None:
        calls.append((done, total))
        if done == 4:
            event.set()

    stop = event if kind == "event" else event.is_set
    report = gw.gradient_check(g, loss, {"x": X}, progress=progress, should_stop=stop)
    assert report.stopped and not report.passed
    assert calls[-1][0] == 4 and calls[-1][1] > 4


def test_progress_counts_to_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    g, loss = linear(Right())
    calls: list[tuple[int, int, str]] = []
    gw.gradient_check(g, loss, {"x": X}, progress=lambda *args: calls.append(args))
    assert [c[0] for c in calls] == list(range(calls[0][1] + 1))
    gw.gradient_check(g, loss, {"x": X}, progress=True)
    assert "100%" in capsys.readouterr().err


def test_it_runs_beside_a_session_in_another_thread() -> None:
    g, loss = linear(Right())
    w, reports = g["w"], []
    thread = threading.Thread(
        target=lambda: reports.append(gw.gradient_check(g, loss, {"x": X}, seed=1))
    )
    with gw.Session(g) as session:
        thread.start()
        for _ in range(50):
            session.run(loss, {"x": X}, updates={w: w * 0.99})
        thread.join()
    assert reports[0].passed


# -- what it refuses -------------------------------------------------------------------------------


def test_the_loss_must_be_a_scalar() -> None:
    g, _ = linear(Right())
    with pytest.raises(GradientError, match="the loss 'layer/scaled' is not a scalar") as caught:
        gw.gradient_check(g, "layer/scaled", {"x": X})
    assert ".mean()" in str(caught.value)


def test_the_loss_must_be_real() -> None:
    g = gw.Graph()
    w = g.variable("w", init=np.array(1j))
    with pytest.raises(GradientError, match="is not a real number"):
        gw.gradient_check(g, w * w)


def test_there_must_be_something_to_check() -> None:
    g, loss = linear(Right())
    g.freeze()
    with pytest.raises(GradientError, match="no trainable parameter"):
        gw.gradient_check(g, loss, {"x": X})


def test_an_unreachable_parameter_is_named() -> None:
    g, loss = linear(Right())
    g.variable("lost", (2,))
    with pytest.raises(GradientError, match="does not depend on 'lost'"):
        gw.gradient_check(g, loss, {"x": X})


def test_a_loss_that_is_not_finite_is_traced_to_its_origin() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    w = g.variable("w", (3,), init=1.0)
    loss = gw.log(x * w, name="bits").sum(name="loss")
    with pytest.raises(GradientError, match="the loss 'loss' is nan") as caught:
        gw.gradient_check(g, loss, {"x": [1.0, -1.0, 2.0]})
    assert "it begins at log 'bits'" in str(caught.value)
    with pytest.raises(GradientError, match=r"x: \[1, 2\], 1 NaN of 3"):
        gw.gradient_check(g, loss, {"x": [1.0, np.nan, 2.0]})


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "placeholder 'x' is not fed"),
        ({"y": X}, "has no tensor 'y'"),
        ({"x": X[0]}, "is fed with rank 1"),
        ({"x": X[:, :2]}, "is fed with size 2 on axis 1"),
    ],
)
def test_feeds_are_checked(feeds: dict[str, Any], message: str) -> None:
    g, loss = linear(Right())
    with pytest.raises(FeedError, match=message):
        gw.gradient_check(g, loss, feeds)


def test_tensors_must_be_of_the_graph_and_floating() -> None:
    g, loss = linear(Right())
    n = g.variable("n", (2,), dtype="int64")
    with pytest.raises(GradientError, match="not floating"):
        gw.gradient_check(g, loss, {"x": X}, wrt=[n])
    with pytest.raises(GraphError, match="another graph"):
        gw.gradient_check(gw.Graph(), loss, {"x": X})


# -- what it says ----------------------------------------------------------------------------------


def test_the_table_names_the_op_and_the_line() -> None:
    g, loss = linear(Off())
    text = str(gw.gradient_check(g, loss, {"x": X}).table())
    assert "gradient check of 'loss' FAILED: 6 elements of 1 parameter," in text
    assert "at fault: local/off 'layer/scaled' (test_gradient_check.py:" in text
    assert "input" not in text and "vjp" in text


def test_the_table_is_text_never_html() -> None:
    g = gw.Graph()
    w = g.variable("<script>alert(1)<|script>", init=np.ones(2))
    report = gw.gradient_check(g, (w * w).sum())
    markup = report._repr_html_()
    assert "<script>" not in markup and "&lt;script&gt;" in markup


def test_the_report_survives_json() -> None:
    g, loss = linear(Broken())
    report = gw.gradient_check(g, loss, {"x": X})
    again = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert again["passed"] is False
    assert again["blame"][0]["name"] == "layer/scaled"
    assert again["worst"]["analytic"] == "nan"
    assert again["parameters"][0]["counts"] == {
        "unchecked": 0, "ok": 0, "kink": 0, "unclear": 0, "fail": 6,
    }  # fmt: skip


# -- the float64 run -------------------------------------------------------------------------------


def test_the_copy_computes_what_the_graph_computes(rng: np.random.Generator) -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 4), "float64")
    w = g.variable("w", init=rng.standard_normal((4, 3)))
    h = gw.nn.softmax(x @ w)
    masked = gw.boolean_mask(h, h > 0.3)
    y = gw.cond(masked.sum() > 0.0, lambda: h * 2.0, lambda: h)
    data = rng.standard_normal((5, 4))
    run = Float64Run([y, masked], {"x": data}, values=g.values)
    with gw.Session(g) as session:
        expected = session.run([y, masked], {"x": data})
    for t, array in zip((y, masked), expected, strict=True):
        np.testing.assert_allclose(run.env[run.copies[t]], array, rtol=1e-14)
        assert run.copies[t].spec.is_concrete and run.copies[t].name == t.name


# -- finite differences ----------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_smooth_slope_comes_with_an_honest_error(scale: float) -> None:
    for f, exact in ((math.exp, 1.0), (math.sin, 1.0), (lambda t: 1 / (1 - t), 1.0)):
        found = slope(lambda t, f=f: f(t / scale), scale=scale)
        assert abs(found.value * scale - exact) <= 3 * found.error * scale
        assert found.error * scale < 1e-9 and not found.kink


@pytest.mark.parametrize("gap", [1.0, 1e-3])
def test_both_slopes_of_a_kink(gap: float) -> None:
    found = slope(lambda t: max(2 * t, (2 + gap) * t) + t * t)
    assert found.kink
    assert (found.left, found.right) == (pytest.approx(2), pytest.approx(2 + gap))
    assert found.admits(2 + gap / 2, 0) and not found.admits(2 - gap, gap / 10)


@pytest.mark.parametrize("distance", [1e-3, 1e-5])
def test_a_kink_close_by_is_no_kink_here(distance: float) -> None:
    f = lambda t: abs(t - distance)  # noqa: E731
    assert compare(f, -1.0).verdict == "ok"
    assert compare(f, 1.0).verdict == "fail"


def test_noise_is_measured() -> None:
    values = iter(np.random.default_rng(0).standard_normal(1000))
    found = measured_noise(lambda t: math.exp(t) + 1e-9 * next(values), 1.0)
    assert 2e-10 < found < 5e-9


def test_too_much_noise_is_unclear_not_a_failure() -> None:
    draws = np.random.default_rng(0)
    noisy = lambda t: 1e-8 * t + 1e-6 * draws.standard_normal()  # noqa: E731
    assert compare(noisy, 5e-8).verdict in ("unclear", "ok")


def test_the_edge_of_a_domain_is_unclear() -> None:
    with np.errstate(invalid="ignore"):
        found = compare(lambda t: float(np.sqrt(t)), 3.0)
    assert found.verdict == "unclear"
    assert len(STEPS) == 13 and STEPS[0] == 1e-2 and STEPS[-1] == pytest.approx(1e-8)


def test_a_loop_that_starts_from_a_number_is_checked() -> None:
    g = gw.Graph()
    a = g.placeholder("a", ())
    root = gw.while_loop(
        lambda c: gw.abs(c * c - a) > 1e-6 * a, lambda c: (c + a / c) / 2.0, a, max_steps=50
    )
    report = gw.gradient_check(g, root, {"a": 2.0}, wrt=[a])
    assert report.passed and not report.blame

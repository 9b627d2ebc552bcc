"""gradient_check: how it runs, what it refuses and says, and the numbers it is made of."""

from __future__ import annotations

import json
import math
import signal
import threading
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.check.judging import compare
from gradwright.debug.check.numeric import STEPS, measured_noise, slope
from gradwright.debug.float64 import Float64Run
from gradwright.errors import FeedError, GradientError, GraphError
from tests.debug.wrong_gradients import Broken, Dead, Off, Right, X, linear

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


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("method", ["auto", "differences"])
def test_ctrl_c_ends_it_and_leaves_nothing_behind(method: Any, at: int) -> None:
    g, loss = linear(Right())
    known, version = gw.gradient_check(g, loss, {"x": X}, method=method), g.values.version("w")

    def progress(done: int, total: int, name: str) -> None:
        if done == at:
            signal.raise_signal(signal.SIGINT)

    nodes = g.all_nodes
    with pytest.raises(KeyboardInterrupt):
        gw.gradient_check(g, loss, {"x": X}, method=method, progress=progress)
    assert g.all_nodes == nodes and g.values.version("w") == version
    again = gw.gradient_check(g, loss, {"x": X}, method=method)
    assert again.passed and str(again) == str(known)


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
    assert "at fault: local/off 'layer/scaled' (wrong_gradients.py:" in text
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
    found, turns = measured_noise(lambda t: math.exp(t) + 1e-9 * next(values), 1.0)
    assert 2e-10 < found < 5e-9 and turns == math.inf
    found, turns = measured_noise(lambda t: math.sin(1e12 * t), 1.0)
    assert found < 1e-3 and turns == 1e-11  # ten radians


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


def test_a_loop_may_read_a_sequence_from_outside():
    g = gw.Graph()
    w = g.variable("w", init=[0.3, -0.2, 0.5])
    items = gw.sequence.construct(g.constant([1.0, 2.0, 3.0]), g.constant([4.0, 5.0, 6.0]))

    def turn(c, i):
        item = gw.stop_gradient(gw.sequence.at(items, i))
        return c + gw.sum(gw.sin(item * w)), c

    total, _ = gw.scan(turn, g.constant(0.0), g.constant([0, 1]))
    assert gw.gradient_check(g, total).passed

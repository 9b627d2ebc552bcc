"""Live curves: points on the wire, runs, thinning, axes, smoothing, what is chosen, files."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError
from gradwright_widgets import LivePlot
from gradwright_widgets.panels.plot.curves import MOST_POINTS, Curve, smoothed
from gradwright_widgets.panels.plot.panel import PlotPanel


def trainer(**options):
    g = gw.Graph("line")
    x, t = g.placeholder("x", (None,)), g.placeholder("t", (None,))
    w = g.variable("w", (), init=0.5)
    gw.mean((x * w - t) ** 2.0, name="loss")
    options.setdefault("metrics", {"error": gw.mean(gw.abs(x * w - t))})
    return gw.Trainer(g, "loss", optimizer=gw.optim.SGD(0.1), **options)


XS = np.linspace(-1, 1, 40).astype("f4")
DATA = {"x": XS, "t": 3 * XS}


def train(t, epochs=2, **options):
    return t.fit(DATA, epochs=epochs, batch_size=8, progress=False, **options)


class Page:
    """What a page knows: the messages of a plot, put together as the page does it."""

    def __init__(self, plot, monkeypatch):
        self.run, self.curves, self.messages, self.holes = None, {}, 0, 0
        monkeypatch.setattr(plot, "send", self.take)

    def take(self, content, buffers=None):
        if content["kind"] != "plot.points":
            return
        self.messages += 1
        if content["run"] != self.run:
            self.run, self.curves = content["run"], {}
        self.content, at = content, 0
        xs, ys = (np.frombuffer(b, "<f8") for b in buffers)
        for part in content["parts"]:
            key = tuple(content["series"][part["series"]].values())
            held = self.curves.get(key, np.zeros((2, 0)))
            stretch = slice(at, at + part["count"])
            self.holes += part["start"] != held.shape[1]
            self.curves[key] = np.hstack([held, np.stack([xs[stretch], ys[stretch]])])
            at += part["count"]

    def points(self, metric, name="step", age=0):
        return self.curves[metric, name, age]


def test_the_page_has_what_the_history_has(monkeypatch):
    t = trainer()
    plot = LivePlot(t)
    page = Page(plot, monkeypatch)
    history = train(t, 3, validation=DATA)
    for metric in ("loss", "error"):
        np.testing.assert_array_equal(page.points(metric)[1], history.steps[metric])
        np.testing.assert_array_equal(page.points(metric, "train")[1], history.epochs[metric])
        held_out = page.points(metric, "validation")
        np.testing.assert_array_equal(held_out[1], history.epochs[f"val_{metric}"])
        np.testing.assert_array_equal(held_out[0], [5, 10, 15])
    np.testing.assert_array_equal(page.points("seconds", "")[1], history.steps["seconds"])
    np.testing.assert_array_equal(page.points("epoch", ""), [[5, 10, 15], [1, 2, 3]])
    assert page.holes == 0
    assert (page.content["perEpoch"], page.content["status"]) == ([5], "epoch 3 · step 15")


def test_epochs_without_validation_have_no_points_of_it(monkeypatch):
    t = trainer()
    plot = LivePlot(t)
    train(t, 2)
    train(t, 2, validation=DATA)
    train(t, 1)
    steps, values = plot.points("loss", "validation")
    assert steps == [15, 20]
    assert np.isfinite(values).all()


def test_norm_and_learning_rate_are_there_on_demand(monkeypatch):
    t = trainer(callbacks=())
    plot = LivePlot(t)
    page = Page(plot, monkeypatch)
    history = train(t)
    assert plot.points("grad_norm", "step") == ([], [])
    assert page.content["onDemand"] == ["grad_norm", "learning_rate"]
    plot.metrics = ["loss", "grad_norm"]
    plot.part(PlotPanel)._pace.flush()
    np.testing.assert_array_equal(page.points("grad_norm")[1], history.steps["grad_norm"])
    assert plot.points("learning_rate", "step") == ([], [])
    assert page.holes == 0
    assert {row[1] for row in csv.reader(io.StringIO(plot.to_csv()))} == {
        "metric",
        "loss",
        "grad_norm",
    }


def test_a_reset_keeps_earlier_runs_as_far_as_asked(monkeypatch):
    plot = LivePlot(keep=2)
    page = Page(plot, monkeypatch)
    for run in range(4):
        plot.append(run, {"loss": float(run)})
        if run < 3:
            plot.reset()
    plot.part(PlotPanel)._pace.flush()
    found = {age: page.points("loss", "train", age).tolist() for _, _, age in page.curves}
    assert found == {0: [[3], [3]], 1: [[2], [2]], 2: [[1], [1]]}
    plot.keep = 0
    plot.part(PlotPanel)._pace.flush()
    assert {age for _, _, age in page.curves} == {0}
    assert plot.points("loss") == ([3.0], [3.0])


def test_another_history_begins_a_new_run():
    first, second = trainer(), trainer()
    train(first, 2)
    train(second, 3)
    plot = LivePlot()
    plot.show(first.history)
    plot.show(first.history)
    assert plot.points("loss", "step")[0] == list(range(1, 11))
    plot.show(second.history)
    assert plot.points("loss", "step")[0] == list(range(1, 16))
    ages = {row[0] for row in csv.reader(io.StringIO(plot.to_csv()))}
    assert ages == {"run", "0", "1"}


def test_loading_a_state_begins_a_new_run():
    t = trainer()
    plot = LivePlot(t)
    train(t, 1)
    state = t.state_dict()
    train(t, 2)
    t.load_state_dict(state)
    train(t, 1)
    assert plot.points("loss", "step")[0] == list(range(1, 11))


def test_a_reset_ends_what_was_shown():
    t = trainer()
    plot = LivePlot(t)
    train(t, 1)
    plot.reset()
    plot.append(1, {"mine": 2.0})
    assert plot.curves == [("mine", "train")]


def test_a_curve_of_a_million_points_stays_bounded_and_keeps_its_spikes():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(1_000_000)
    spikes = {123_456: 50.0, 700_001: -40.0, 999_999: 30.0, 0: 20.0}
    for at, value in spikes.items():
        values[at] = value
    curve = Curve("loss", "step")
    for start in range(0, 1_000_000, 70_000):
        stretch = values[start : start + 70_000]
        curve.extend(np.arange(start, start + len(stretch)), stretch)
        assert len(curve.x) <= MOST_POINTS
    x, y = np.array(curve.x), np.array(curve.y)
    assert (np.diff(x) > 0).all()
    np.testing.assert_array_equal(values[x.astype(int)], y)
    assert set(spikes) <= set(x.astype(int).tolist())
    ends = np.histogram(x, bins=5, range=(0, 1_000_000))[0]
    assert ends[:4].max() < 1.1 * ends[:4].min(), "what is old is as dense as the rest"


def test_a_thinned_curve_is_sent_anew(monkeypatch):
    plot = LivePlot()
    page = Page(plot, monkeypatch)
    xs = np.arange(MOST_POINTS + 10.0)
    plot.extend("loss", "train", xs[:-10], xs[:-10])
    plot.extend("loss", "train", xs[-10:], xs[-10:])
    plot.part(PlotPanel)._pace.flush()
    assert page.points("loss", "train").shape[1] == len(plot.points("loss")[0]) <= MOST_POINTS // 2
    assert page.holes == 0


def test_thinning_keeps_what_is_not_finite():
    curve = Curve("loss", "step")
    values = np.ones(MOST_POINTS + 4)
    values[[5, 6, 7]] = np.nan
    curve.extend(range(len(values)), values)
    assert np.isnan(np.array(curve.y)).sum() >= 1
    assert len(curve.x) <= MOST_POINTS // 2


def test_points_that_do_not_fit_together_are_refused():
    plot = LivePlot()
    with pytest.raises(GradwrightError, match="'loss' got 3 steps and 2 values"):
        plot.extend("loss", "train", [1, 2, 3], [1.0, 2.0])
    assert plot.points("loss") == ([], [])


def test_smoothing_is_the_debiased_average():
    values = np.random.default_rng(0).standard_normal(50)
    w = 0.9
    for n in (1, 2, 50):
        weights = w ** np.arange(n)[::-1]
        expected = (weights * values[:n]).sum() / weights.sum()
        np.testing.assert_allclose(smoothed(values, w)[n - 1], expected, rtol=1e-12)
    np.testing.assert_array_equal(smoothed(values, 0.0), values)
    held = smoothed([1.0, np.nan, 1.0, np.inf], 0.5)
    np.testing.assert_array_equal(held, [1.0, np.nan, 1.0, np.inf])


def test_steps_become_epochs_and_seconds():
    t = trainer()
    plot = LivePlot(t)
    train(t, 2)
    t.fit(DATA, batch_size=8, steps=2, progress=False)  # an epoch that has no end yet
    run = plot.part(PlotPanel)._run
    assert plot.points("loss", "step")[0] == list(range(1, 13))
    steps = np.arange(1.0, 13.0)
    np.testing.assert_allclose(run.on_axis("epoch", steps), steps / 5)
    np.testing.assert_allclose(run.on_axis("seconds", steps), t.history.steps["seconds"])
    np.testing.assert_array_equal(run.on_axis("step", steps), steps)


def test_csv_holds_every_point_that_is_shown(tmp_path):
    t = trainer()
    plot = LivePlot(t)
    history = train(t, 2, validation=DATA)
    text = plot.to_csv(tmp_path / "points.csv")
    assert (tmp_path / "points.csv").read_text("utf-8") == text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 2 * (10 + 2 + 2)
    losses = [float(r["value"]) for r in rows if (r["metric"], r["curve"]) == ("loss", "step")]
    np.testing.assert_array_equal(losses, history.steps["loss"])
    last = [r for r in rows if r["curve"] == "step"][9]
    assert (last["run"], last["step"], last["epoch"]) == ("0", "10", "2")
    by_hand = LivePlot()
    by_hand.append(1, {"a,b": 2.0})
    assert by_hand.to_csv().splitlines()[1] == '0,"a,b",train,1,,,2.0'


def test_the_figure_shows_what_the_plot_shows():
    pytest.importorskip("plotly")
    t = trainer()
    plot = LivePlot(t, smoothing=0.5, log_scale=True, x_axis="epoch", metrics=["loss"])
    history = train(t, 2, validation=DATA)
    figure = plot.to_plotly()
    raw, smooth, mean, held_out = figure.data
    np.testing.assert_array_equal(raw.y, history.steps["loss"])
    np.testing.assert_allclose(smooth.y, smoothed(history.steps["loss"], 0.5))
    np.testing.assert_allclose(smooth.x, np.arange(1, 11) / 5)
    np.testing.assert_array_equal(mean.y, history.epochs["loss"])
    assert (held_out.name, figure.layout.yaxis.type) == ("validation", "log")
    assert LivePlot().to_plotly().data == ()


def test_options_are_checked():
    import traitlets

    for wrong in ({"smoothing": 1.0}, {"x_axis": "minutes"}, {"keep": 9}):
        with pytest.raises(traitlets.TraitError):
            LivePlot(**wrong)


def test_a_step_sends_nothing_and_messages_are_few(monkeypatch):
    t = trainer()
    plot = LivePlot(t)
    page = Page(plot, monkeypatch)
    train(t, 200)
    assert t.steps_done == 1000
    assert page.messages <= 4 + 10 * t.history.seconds
    np.testing.assert_array_equal(page.points("loss")[1], t.history.steps["loss"])

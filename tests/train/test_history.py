"""Metrics of a training, and the history that keeps, shows and draws them."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ShapeError, TrainingError
from tests.support.lines import line, rows

# -- metrics ---------------------------------------------------------------------------------------


def classified(n=50, classes=4, seed=3):
    rng = np.random.default_rng(seed)
    return rng.integers(0, classes, n), rng.standard_normal((n, classes)).astype("float32")


def measured(build, labels, predictions, batch_size=None):
    g = gw.Graph()
    t = g.placeholder("t", (None, *labels.shape[1:]), labels.dtype)
    p = g.placeholder("p", (None, *predictions.shape[1:]))
    loss = gw.mean(p) * g.variable("w", ())
    trainer = gw.Trainer(g, loss, metrics={"m": build(t, p)})
    return trainer.evaluate({"t": labels, "p": predictions}, batch_size=batch_size)["m"]


def test_accuracies_agree_with_numpy():
    t, p = classified()
    hits = np.argsort(-p, 1) == t[:, None]
    assert measured(gw.metrics.accuracy, t, p, 7) == pytest.approx(hits[:, 0].mean(), rel=1e-6)
    one_hot = np.eye(4, dtype="float32")[t]
    assert measured(gw.metrics.accuracy, one_hot, p) == pytest.approx(hits[:, 0].mean(), rel=1e-6)
    top = measured(lambda t, p: gw.metrics.top_k_accuracy(t, p, k=2), t, p, 7)
    assert top == pytest.approx(hits[:, :2].any(1).mean(), rel=1e-6)
    binary = measured(lambda t, p: gw.metrics.binary_accuracy(t, p, 0.1), t % 2, p[:, 0])
    assert binary == pytest.approx(((p[:, 0] > 0.1) == (t % 2 > 0.5)).mean(), rel=1e-6)


def padded():
    """Return labels of sequences of different lengths, the rest −100, and scores."""
    rng = np.random.default_rng(4)
    lengths = np.array([7, 1, 0, 3, 7, 2, 0, 0, 5, 1])
    shown = np.arange(7) < lengths[:, None]
    t = np.where(shown, rng.integers(0, 4, (10, 7)), -100)
    return t, rng.standard_normal((10, 7, 4)).astype("float32"), shown


def test_padding_is_no_label():
    t, p, shown = padded()
    expected = (p.argmax(-1) == t)[shown].mean()
    accuracy, whole = gw.metrics.accuracy, gw.metrics.Accuracy
    assert measured(lambda t, p: accuracy(t, p, ignore_index=-100), t, p, 10) == pytest.approx(
        expected
    )
    for size in (1, 3, 10):
        assert measured(lambda t, p: whole(t, p, ignore_index=-100), t, p, size) == pytest.approx(
            expected
        )
    assert measured(whole, t[:1], p[:1]) == pytest.approx((p.argmax(-1) == t)[0].mean())
    assert np.isnan(measured(lambda t, p: whole(t, p, ignore_index=-100), t[2:3], p[2:3]))
    assert measured(lambda t, p: accuracy(t, p, ignore_index=-100), t[2:3], p[2:3]) == 0.0


@pytest.mark.parametrize("dtype", ["bool", "float32", "int64"])
@pytest.mark.parametrize("ignored", [None, 2])
def test_a_mask_says_what_counts_beside_the_label_that_does_not(dtype, ignored):
    t, p, shown = padded()
    t = np.abs(t) % 4
    counts = shown & (t != ignored) if ignored is not None else shown
    g = gw.Graph()
    labels, scores = g.placeholder("t", (None, 7), "int64"), g.placeholder("p", (None, 7, 4))
    mask = g.placeholder("m", (None, 7), dtype)
    given = {"ignore_index": ignored, "mask": mask}
    metrics = {
        "whole": gw.metrics.Accuracy(labels, scores, **given),
        "share": gw.metrics.accuracy(labels, scores, **given),
    }
    trainer = gw.Trainer(g, gw.mean(scores) * g.variable("w", ()), metrics=metrics)
    data = {"t": t, "p": p, "m": shown.astype(dtype)}
    expected = (p.argmax(-1) == t)[counts].mean()
    assert trainer.evaluate(data, batch_size=4)["whole"] == pytest.approx(expected)
    assert trainer.evaluate(data, batch_size=4)["share"] == pytest.approx(expected)
    with pytest.raises(ShapeError, match="the mask does not fit the labels"):
        gw.metrics.accuracy(labels, scores, mask=g.placeholder("n", (None,), "bool"))


def test_macro_f1_is_that_of_the_whole_and_not_the_mean_of_batches():
    metrics = pytest.importorskip(
        "sklearn.metrics", reason="no scikit-learn: pip install -e '.[lab]'"
    )
    t, p = classified()
    expected = metrics.f1_score(t, p.argmax(1), average="macro")
    assert measured(gw.metrics.MacroF1, t, p, 7) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("batch_size", [3, 10])
@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_all_metrics_leave_out_what_a_mask_does(dtype, batch_size):
    sk = pytest.importorskip("sklearn.metrics", reason="no scikit-learn: pip install -e '.[lab]'")
    t, p, shown = padded()
    t = np.abs(t) % 4
    g = gw.Graph()
    labels, scores = g.placeholder("t", (None, 7), "int64"), g.placeholder("p", (None, 7, 4))
    mask = g.placeholder("m", (None, 7), dtype)
    metrics = {
        "f1": gw.metrics.MacroF1(labels, scores, mask=mask),
        "f1_of_others": gw.metrics.MacroF1(labels, scores, mask=mask, ignore_index=2),
        "top": gw.metrics.top_k_accuracy(labels, scores, 2, mask=mask),
        "top_of_others": gw.metrics.top_k_accuracy(labels, scores, 2, mask=mask, ignore_index=2),
        "binary": gw.metrics.binary_accuracy(labels % 2, scores[:, :, 0], 0.1, mask=mask),
    }
    trainer = gw.Trainer(g, gw.mean(scores) * g.variable("w", ()), metrics=metrics)
    found = trainer.evaluate({"t": t, "p": p, "m": shown.astype(dtype)}, batch_size=batch_size)
    for name, counts in (("", shown), ("_of_others", shown & (t != 2))):
        best = p[counts].argmax(-1)
        f1 = sk.f1_score(t[counts], best, average="macro", labels=np.unique([*t[counts], *best]))
        assert found[f"f1{name}"] == pytest.approx(f1, rel=1e-9)
        top = sk.top_k_accuracy_score(t[counts], p[counts], k=2, labels=range(4))
        assert found[f"top{name}"] == pytest.approx(top, rel=1e-6)
    sides = (p[..., 0] > 0.1) == (t % 2 > 0.5)
    assert found["binary"] == pytest.approx(sides[shown].mean(), rel=1e-6)


@pytest.mark.parametrize("metric", ["MacroF1", "top_k_accuracy", "binary_accuracy"])
def test_a_mask_of_another_shape_is_refused(metric):
    g = gw.Graph()
    t, p = g.placeholder("t", (None,), "int64"), g.placeholder("p", (None, 8))
    t, p = (t % 2, p[:, 0]) if metric == "binary_accuracy" else (t, p)
    with pytest.raises(ShapeError, match="the mask does not fit the labels"):
        getattr(gw.metrics, metric)(t, p, mask=g.placeholder("m", (None, 8)))


def test_labels_that_do_not_fit_the_predictions_are_named():
    g = gw.Graph()
    p = g.placeholder("p", (None, 4))
    with pytest.raises(ShapeError, match=r"labels do not fit(.|\n)*f32\[t_0\]"):
        gw.metrics.accuracy(g.placeholder("t", (None,)), p)
    with pytest.raises(ShapeError, match="labels do not fit"):
        gw.metrics.top_k_accuracy(g.placeholder("u", (None, 4), "int64"), p)


# -- history ---------------------------------------------------------------------------------------


def test_history_survives_strict_json():
    history = gw.History()
    for step, loss in enumerate([1.5, np.nan, np.inf, -np.inf, 0.1], 1):
        history.add_step(gw.train.Record(step, 1, {"loss": loss}, 0.5 * step))
    history.add_step(gw.train.Record(6, 1, {"loss": 1.0, "late": 2.0}, 3.0))
    history.add_epoch(gw.train.Record(6, 1, {"loss": 0.25}, 3.0))
    text = json.dumps(history.to_dict(), allow_nan=False)
    again = gw.History.from_dict(json.loads(text))
    for name, column in history.arrays().items():
        np.testing.assert_array_equal(again.arrays()[name], column)
    assert again.steps.rows == 6
    assert again.seconds == 3.0
    assert np.isnan(again.steps["late"][:5]).all()
    with pytest.raises(KeyError, match="'accuracy'; there are step, epoch, loss"):
        history.steps["accuracy"]
    with pytest.raises(TrainingError, match="differ in length"):
        gw.History.from_dict({"steps/loss": [1.0], "steps/step": []})


def test_rows_that_wait_are_seen_by_who_looks(monkeypatch):
    """Columns come late, a look comes between, and many rows come at once."""
    monkeypatch.setattr("gradwright.train.columns.WAITING", 4)
    table, expected = gw.History().steps, []
    for n in range(23):
        expected.append({"step": float(n), **({"late": n * 0.5} if n % 7 == 5 else {})})
        table.append(dict(expected[-1]))
        if n in (2, 5, 6):
            assert (table.rows, table.last()["step"]) == (n + 1, n)
    assert list(table) == ["step", "late"]
    for name in table:
        column = [row.get(name, np.nan) for row in expected]
        np.testing.assert_array_equal(table[name], column)


def test_history_draws_one_panel_per_metric():
    trainer = line()
    assert trainer.history.plot().data == ()
    history = trainer.fit(rows(), epochs=3, batch_size=8, validation=rows(), progress=False)
    figure = history.plot()
    lines = {(s.name, s.yaxis): s for s in figure.data}
    assert set(lines) == {
        *(("step", "y"), ("train", "y"), ("validation", "y")),
        ("step", "y2"),
    }
    assert list(lines["validation", "y"].y) == history.epochs["val_loss"].tolist()
    assert list(lines["train", "y"].x) == [3, 6, 9]
    assert figure.layout.yaxis2.title.text == "grad_norm"
    trainer.optimizer.learning_rate = 0.01
    trainer.step(rows())
    assert history.plot().layout.yaxis3.title.text == "learning_rate"
    assert len({s.line.color for s in figure.data}) == 3
    assert len({s.line.dash for s in figure.data if s.name != "step"}) == 2  # not by colour alone


def test_history_shows_a_table():
    trainer = line()
    assert repr(trainer.history) == "History: 0 epochs, 0 steps, 0 s"
    history = trainer.fit(rows(), epochs=20, batch_size=20, progress=False)
    shown = repr(history).splitlines()
    assert shown[0].startswith("History: 20 epochs, 20 steps, ")
    assert shown[1].split() == ["epoch", "step", "loss", "seconds"]
    assert len(shown) == 2 + 4 + 1 + 6 + 1 and shown[-1] == "finished: 20 epochs are done"
    assert len({len(row) for row in shown[1:-1]}) == 1


def ragged():
    """Return a history whose epochs have not all measured the same."""
    history = gw.History()
    third = 1.0 / 3.0
    history.add_step(gw.train.Record(1, 1, {"loss": third}, 0.1))
    history.add_step(gw.train.Record(2, 1, {"loss": 1e-300, "late, or not": np.inf}, 0.2))
    history.add_epoch(gw.train.Record(2, 1, {"loss": third}, 0.25))
    history.add_epoch(gw.train.Record(4, 2, {"loss": 0.2, "val_loss": 0.7}, 0.5))
    history.add_epoch(gw.train.Record(6, 3, {"loss": np.nan, "val_loss": 0.4, "f1": 0.1}, 0.75))
    history.add_epoch(gw.train.Record(8, 4, {"loss": 0.3, "f1": 2.0}, 1.0))
    return history


@pytest.mark.parametrize("table", ["epochs", "steps"])
def test_tables_go_through_csv_and_pandas_to_the_bit(table, tmp_path):
    pytest.importorskip("pandas", reason="no pandas: pip install -e '.[data]'")
    history = ragged()
    columns = getattr(history, table).snapshot()
    written = history.to_csv(tmp_path / "history.csv", table)
    assert (tmp_path / "history.csv").read_text() == written
    frame, read = history.to_pandas(table), list(csv.DictReader(io.StringIO(written)))
    assert list(frame) == list(read[0]) == list(columns)
    assert frame["step"].dtype == frame["epoch"].dtype == np.int64
    for name, column in columns.items():
        np.testing.assert_array_equal(frame[name].to_numpy(np.float64), column)
        np.testing.assert_array_equal([float(row[name] or "nan") for row in read], column)


def test_what_an_epoch_has_not_measured_is_an_empty_field():
    rows = [line.split(",") for line in ragged().to_csv().splitlines()]
    assert rows[0] == ["step", "epoch", "loss", "seconds", "val_loss", "f1"]
    assert rows[1] == ["2", "1", repr(1 / 3), "0.25", "", ""]
    assert rows[2:4] == [["4", "2", "0.2", "0.5", "0.7", ""], ["6", "3", "", "0.75", "0.4", "0.1"]]
    assert gw.History().to_csv() == "\n"
    with pytest.raises(TrainingError, match="no table 'batches'"):
        gw.History().to_csv(table="batches")


def test_the_best_epoch_is_that_of_the_metric_that_was_asked_for():
    history = ragged()
    assert (history.best()["epoch"], history.best()["step"]) == (3, 6)
    assert history.best("loss")["epoch"] == 2
    assert history.best("f1")["epoch"] == 4
    assert history.best("f1", "min")["f1"] == 0.1
    with pytest.raises(TrainingError, match=r"no epoch has measured 'val_f1'(.|\n)*val_loss"):
        history.best("val_f1")
    with pytest.raises(TrainingError, match="does not tell whether less is better"):
        history.best("seconds")


# -- why a fit ended -------------------------------------------------------------------------------


def parabola(*callbacks):
    g = gw.Graph()
    w = g.variable("w", (), init=2.0)
    return gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25), callbacks=callbacks)


class Stops(gw.Callback):
    """Ends a training after its second step, as it is told."""

    def __init__(self, how):
        self.how = how

    def on_step_end(self, trainer, record):
        if record.step == 2:
            self.how(trainer)


def interrupted(trainer):
    raise KeyboardInterrupt


def failed(trainer):
    raise ValueError("no room\nat all")


@pytest.mark.parametrize(
    ("callback", "options", "outcome", "reason"),
    [
        (gw.Callback(), {"epochs": 3}, "finished", "3 epochs are done"),
        (gw.Callback(), {"epochs": 1}, "finished", "1 epoch is done"),
        (gw.Callback(), {"steps": 1000}, "finished", "1,000 steps are done"),
        (gw.Callback(), {"epochs": 9, "steps": 5}, "finished", "5 steps are done"),
        (gw.Callback(), {"epochs": 2, "steps": 5}, "finished", "2 epochs are done"),
        (gw.train.MaxSteps(2), {"epochs": 9}, "stopped", "2 steps are done"),
        (Stops(lambda trainer: trainer.stop()), {}, "stopped", "it was asked to"),
        (Stops(interrupted), {"epochs": 9}, "stopped", "Ctrl-C"),
        (Stops(failed), {"epochs": 9}, "failed", "ValueError: no room"),
    ],
)
def test_a_history_says_why_the_last_fit_ended(callback, options, outcome, reason):
    trainer = parabola(callback)
    assert trainer.history.end is None
    try:
        trainer.fit([{}, {}], progress=False, **options)
    except (KeyboardInterrupt, ValueError):
        assert isinstance(callback, Stops)
    end = trainer.history.end
    assert (end.outcome, end.reason) == (outcome, reason)
    assert (end.steps, end.epochs) == (trainer.steps_done, trainer.epochs_done)
    assert end.seconds == trainer.progress.seconds > 0 and trainer.progress.reason == reason
    assert repr(trainer.history).endswith(f"\n{outcome}: {reason}")


def test_an_end_is_that_of_the_last_fit_alone(tmp_path):
    stopping = gw.EarlyStopping("loss", patience=1, min_delta=0.3)
    trainer = parabola(stopping, gw.Checkpoints(tmp_path, keep_last=2))
    trainer.fit([{}], epochs=2, progress=False)
    end = trainer.fit([{}], epochs=9, progress=False).end
    assert end.reason == stopping.reason and end.outcome == "stopped"
    assert (end.steps, end.epochs) == (2, 2)
    assert [path.name for path in end.checkpoints] == ["step-000000003.gw", "step-000000004.gw"]
    assert all(path.exists() for path in end.checkpoints)
    assert "; 2 checkpoints" in repr(trainer.history)

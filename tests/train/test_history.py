"""Metrics of a training, and the history that keeps, shows and draws them."""

from __future__ import annotations

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
    assert trainer.evaluate(data, batch_size=10)["share"] == pytest.approx(expected)
    with pytest.raises(ShapeError, match="the mask does not fit the labels"):
        gw.metrics.accuracy(labels, scores, mask=g.placeholder("n", (None,), "bool"))


def test_macro_f1_is_that_of_the_whole_and_not_the_mean_of_batches():
    metrics = pytest.importorskip(
        "sklearn.metrics", reason="no scikit-learn: pip install -e '.[lab]'"
    )
    t, p = classified()
    expected = metrics.f1_score(t, p.argmax(1), average="macro")
    assert measured(gw.metrics.MacroF1, t, p, 7) == pytest.approx(expected, rel=1e-9)


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
    assert len(shown) == 2 + 4 + 1 + 6
    assert len({len(row) for row in shown[1:]}) == 1

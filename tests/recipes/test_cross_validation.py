"""Folds beside scikit-learn's, and trainings that are each measured on their own."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, TrainingError


@pytest.fixture
def sk():
    return pytest.importorskip(
        "sklearn.model_selection", reason="no scikit-learn: pip install -e '.[lab]'"
    )


def rows_of(folds):
    """Return which rows each fold trains on, and which it holds out."""
    return [
        tuple(next(part.batch(part.n).epoch(0))["x"].tolist() for part in pair) for pair in folds
    ]


@pytest.mark.parametrize(("n", "k"), [(10, 5), (11, 3), (7, 7), (23, 4), (2, 2)])
def test_folds_are_those_of_sklearn(n, k, sk):
    x = np.arange(n)
    expected = [(a.tolist(), b.tolist()) for a, b in sk.KFold(k).split(x)]
    assert rows_of(gw.data.k_folds({"x": x}, k)) == expected


def test_shuffled_folds_are_a_partition_and_a_function_of_the_seed():
    data = {"x": np.arange(23)}
    folds = rows_of(gw.data.k_folds(data, 4, shuffle=True, seed=3))
    assert folds == rows_of(gw.data.k_folds(data, 4, shuffle=True, seed=3))
    assert folds != rows_of(gw.data.k_folds(data, 4, shuffle=True, seed=4))
    assert [len(held) for _, held in folds] == [6, 6, 6, 5]
    assert sorted(row for _, held in folds for row in held) == list(range(23))
    for train, held in folds:
        assert train == sorted(set(range(23)) - set(held)) and held == sorted(held)


LABELS = np.array([2, 0, 2, 1, 1, 2, 0, 2, 2, 1, 0, 2, 2, 0, 1, 1, 2])


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("by", ["rows", "column"])
def test_stratified_folds_are_those_of_sklearn(k, by, sk):
    x = np.arange(len(LABELS))
    expected = [(a.tolist(), b.tolist()) for a, b in sk.StratifiedKFold(k).split(x, LABELS)]
    folds = gw.data.k_folds({"x": x, "t": LABELS}, k, stratify=LABELS if by == "rows" else "t")
    assert rows_of(folds) == expected


def test_shuffled_stratified_folds_keep_the_share_of_each_class(sk):
    x = np.arange(len(LABELS))
    folds = rows_of(gw.data.k_folds({"x": x}, 3, shuffle=True, stratify=LABELS))
    theirs = sk.StratifiedKFold(3).split(x, LABELS)
    assert sorted(row for _, held in folds for row in held) == x.tolist()
    for (_, held), (_, expected) in zip(folds, theirs, strict=True):
        assert np.bincount(LABELS[held]).tolist() == np.bincount(LABELS[expected]).tolist()
        assert held != expected.tolist()


def test_what_cannot_be_cut_is_refused():
    with pytest.raises(TrainingError, match="3 rows cannot be cut into k=4 folds"):
        gw.data.k_folds({"x": np.arange(3)}, 4)
    with pytest.raises(TrainingError, match="k=1 folds"):
        gw.data.k_folds({"x": np.arange(3)}, 1)
    with pytest.raises(FeedError, match="cannot be cut into folds"):
        gw.data.k_folds(gw.data.stream(lambda: iter([{"x": 1}])), 2)
    with pytest.raises(FeedError, match=r"labels of shape \(2,\) for 3 rows"):
        gw.data.k_folds({"x": np.arange(3)}, 2, stratify=[0, 1])


# -- trainings -------------------------------------------------------------------------------------


def data(n=23):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 3)).astype(np.float32)
    return {"x": x, "t": (x @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal(n)).astype(np.float32)}


def line(fold, **options):
    g = gw.Graph(f"fold {fold}")
    x, t = g.placeholder("x", (None, 3)), g.placeholder("t", (None,))
    error = x @ g.variable("w", (3,)) - t
    options.setdefault("optimizer", gw.optim.SGD(0.1))
    return gw.Trainer(g, gw.mean(error * error), metrics={"bias": gw.mean(error)}, **options)


def test_each_score_is_that_of_a_training_on_the_other_folds():
    whole = data()
    report = gw.train.cross_validate(line, whole, 4, shuffle=False, epochs=3, batch_size=5)
    expected = []
    for start, stop in ((0, 6), (6, 12), (12, 18), (18, 23)):
        held = np.arange(23)[start:stop]
        rest = np.delete(np.arange(23), held)
        trainer = line(0)
        trainer.fit({k: v[rest] for k, v in whole.items()}, epochs=3, batch_size=5, progress=False)
        expected.append(trainer.evaluate({k: v[held] for k, v in whole.items()}))
    for name in ("loss", "bias"):
        assert report.scores[name] == pytest.approx([e[name] for e in expected], rel=1e-5)
        assert report.mean[name] == pytest.approx(np.mean([e[name] for e in expected]), rel=1e-5)
        assert report.std[name] == pytest.approx(np.std([e[name] for e in expected]), rel=1e-4)
    assert report.sizes == (6, 6, 6, 5) and [h.epochs.rows for h in report.histories] == [3] * 4
    last = [h.epochs["val_loss"][-1] for h in report.histories]
    assert report.scores["loss"] == pytest.approx(last, rel=1e-6)
    shown = str(report).splitlines()
    assert shown[0].split() == ["fold", "rows", "epochs", "loss", "bias"]
    assert [row.split()[0] for row in shown[1:]] == ["1", "2", "3", "4", "mean", "std"]
    assert "<td" in report._repr_html_()


def test_tuples_stratified_labels_and_callbacks_that_watch_the_fold():
    whole = data()
    stoppings = []

    def make(fold):
        stoppings.append(gw.EarlyStopping("val_loss", patience=2))
        return line(
            fold, features="x", labels="t", callbacks=stoppings[-1:], optimizer=gw.optim.SGD(0.6)
        )

    sides = (whole["t"] > 0).astype(int)
    report = gw.train.cross_validate(
        make, (whole["x"], whole["t"]), 3, stratify=sides, epochs=20, progress=False
    )
    assert len(stoppings) == 3
    assert report.scores["loss"] == pytest.approx([s.best for s in stoppings], rel=1e-6)


def test_what_has_been_trained_before_is_refused():
    trainer = line(0)
    with pytest.raises(TrainingError, match=r"make\(1\) has returned a trainer of values that"):
        gw.train.cross_validate(lambda fold: trainer, data(), 3)
    graph = line(0).graph
    with pytest.raises(TrainingError, match="build the graph within the function"):
        gw.train.cross_validate(lambda fold: gw.Trainer(graph, graph["mean"]), data(), 3)
    with pytest.raises(TrainingError, match=r"make\(0\) has returned a NoneType"):
        gw.train.cross_validate(lambda fold: None, data(), 3)
    with pytest.raises(TrainingError, match="validation= is the fold"):
        gw.train.cross_validate(line, data(), 3, validation=0.1)

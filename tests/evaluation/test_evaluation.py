"""Evaluations of classes, yes and no, and numbers: scikit-learn's numbers, masks, odd batches."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradwright as gw
from gradwright import evaluation as ev
from gradwright.errors import ShapeError, TrainingError

NAN = float("nan")


@pytest.fixture(scope="module")
def sk():
    """Return scikit-learn's metrics, or skip."""
    return pytest.importorskip("sklearn.metrics", reason="no sklearn: pip install -e '.[lab]'")


def classes(rng, n=400, k=5, ties=True, absent=()):
    """Return class numbers and scores that are better than chance, with many equal scores."""
    labels = rng.integers(0, k, n)
    scores = rng.random((n, k)) + 0.7 * np.eye(k)[labels]
    for c in absent:
        labels[labels == c] = 1
        scores[:, c] = -1.0
    return labels, np.round(scores, 1) if ties else scores


# -- classification --------------------------------------------------------------------------------

AVERAGES = ("macro", "micro", "weighted")


@pytest.mark.parametrize("absent", [(), (2,), (0, 4)])
@pytest.mark.parametrize("average", AVERAGES)
def test_classification_is_sklearn_s(average, absent, rng, sk):
    labels, scores = classes(rng, absent=absent)
    labels[labels == 3] = 1  # 3 is predicted but never labelled
    seen, guess = ev.Classification().add(labels, scores), scores.argmax(1)
    both = {"average": average, "zero_division": 0.0}
    assert seen.accuracy() == pytest.approx(sk.accuracy_score(labels, guess))
    assert seen.precision(average) == pytest.approx(sk.precision_score(labels, guess, **both))
    assert seen.recall(average) == pytest.approx(sk.recall_score(labels, guess, **both))
    assert seen.f1(average) == pytest.approx(sk.f1_score(labels, guess, **both))
    for beta in (0.5, 2.0):
        expected = sk.fbeta_score(labels, guess, beta=beta, **both)
        assert seen.f_beta(beta, average) == pytest.approx(expected)
    assert seen.mcc() == pytest.approx(sk.matthews_corrcoef(labels, guess))
    expected = sk.confusion_matrix(labels, guess, labels=range(5))
    np.testing.assert_array_equal(seen.confusion(), expected)
    left = list(map(str, absent))
    assert seen.excluded() == left and all(name in str(seen) for name in left)


def test_classes_one_by_one_are_sklearn_s(rng, sk):
    labels, scores = classes(rng, absent=(2,))
    seen, guess = ev.Classification().add(labels, scores), scores.argmax(1)
    expected = sk.precision_recall_fscore_support(
        labels, guess, labels=range(5), zero_division=np.nan
    )
    for name, numbers in zip(("precision", "recall", "f1"), expected, strict=False):
        np.testing.assert_allclose(getattr(seen, name)(None), numbers)
    per = sk.multilabel_confusion_matrix(labels, guess, labels=range(5)).reshape(5, 4)
    here = np.array([0, 1, 3, 4])
    tn, fp, fn, tp = per[here].astype(float).T
    np.testing.assert_allclose(seen.false_positive_rate(None)[here], fp / (fp + tn))
    np.testing.assert_allclose(seen.false_negative_rate(None)[here], fn / (fn + tp))
    g = np.sqrt(tp / (tp + fp) * tp / (tp + fn))
    np.testing.assert_allclose(seen.g_measure(None)[here], g)
    assert seen.g_measure() == pytest.approx(g.mean())
    alarms = (fp / (fp + tn) + fn / (fn + tp)) / 2
    assert seen.false_alarm_rate() == pytest.approx(alarms.mean())
    for c in here:
        expected = sk.matthews_corrcoef(labels == c, guess == c)
        assert seen.mcc(None)[c] == pytest.approx(expected)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_top_n_is_sklearn_s_with_ties(k, rng, sk):
    labels, scores = classes(rng, k=6)
    seen = ev.Classification().add(labels, scores)
    expected = sk.top_k_accuracy_score(labels, scores, k=k, labels=range(6))
    assert seen.top_n_accuracy(k) == pytest.approx(expected)
    assert seen.top_n_accuracy(6) == 1.0


def test_undefined_ratios_count_as_asked(sk):
    labels, guess = [0, 0, 1, 1, 2], [0, 0, 0, 1, 1]  # 2 is never predicted
    for asked in (0.0, 1.0, NAN):
        seen = ev.Classification(3, zero_division=asked).add(labels, guess)
        expected = sk.precision_score(labels, guess, average="macro", zero_division=asked)
        assert seen.precision() == pytest.approx(expected)
    assert seen.excluded("precision") == ["2"] and seen.excluded("recall") == []
    assert "never predicted: 2" in str(seen)


def test_class_numbers_one_hot_and_sequences_are_the_same(rng):
    labels, scores = classes(rng, n=24, k=4, ties=False)
    expected = ev.Classification().add(labels, scores).to_json()
    one_hot, shape = np.eye(4)[labels], (4, 6)
    in_time = scores.reshape(*shape, 4)
    for given in (labels, one_hot, labels[:, None], labels.astype("float32")):
        assert ev.Classification().add(given, scores).to_json() == expected
    for given in (labels.reshape(shape), one_hot.reshape(*shape, 4)):
        assert ev.Classification().add(given, in_time).to_json() == expected
    numbers = ev.Classification(4).add(labels, scores.argmax(1))
    assert (
        numbers.confusion().tolist() == ev.Classification().add(labels, scores).confusion().tolist()
    )
    assert math.isnan(numbers.top_n_accuracy(2))
    assert numbers.reasons()["top_2_accuracy"] == "predictions were class numbers, not scores"


def test_what_a_mask_leaves_out_may_be_anything(rng):
    labels, scores = classes(rng, n=24, k=4)
    mask = (rng.random((4, 6)) < 0.6).astype("float32")
    held = mask.ravel() == 1
    expected = ev.Classification().add(labels[held], scores[held])
    padded, in_time = np.where(held, labels, -100).reshape(4, 6), scores.reshape(4, 6, 4).copy()
    in_time[mask == 0] = NAN
    seen = ev.Classification().add(padded, in_time, mask)
    assert seen.to_json() == expected.to_json()
    rows = ev.Classification().add(labels.reshape(4, 6), scores.reshape(4, 6, 4), [1, 0, 1, 0])
    assert rows.count == 12
    nothing = ev.Classification().add(labels, scores, np.zeros(24))
    assert math.isnan(nothing.accuracy()) and nothing.reasons()["f1"] == "nothing has been seen"


def test_many_classes_have_no_matrix_but_all_numbers(rng, sk):
    labels = rng.integers(0, 3000, 50)
    scores = rng.random((50, 3000)) + np.eye(3000)[labels] * (rng.random((50, 1)) < 0.6)
    seen = ev.Classification().add(labels, scores)
    guess = scores.argmax(1)
    assert seen.mcc() == pytest.approx(sk.matthews_corrcoef(labels, guess))
    assert seen.f1() == pytest.approx(sk.f1_score(labels, guess, average="macro"))
    with pytest.raises(TrainingError, match="no confusion matrix is kept of 3000 classes"):
        seen.confusion()


# -- binary ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("average", AVERAGES)
def test_binary_is_sklearn_s(average, rng, sk):
    labels = rng.integers(0, 2, (200, 4))
    labels[:, 3] = 0  # never there, and sometimes predicted
    scores = np.round(rng.random((200, 4)) * 0.6 + 0.4 * labels, 1)
    limits = [0.5, 0.3, 0.7, 0.5]
    seen, guess = ev.Binary(threshold=limits).add(labels, scores), scores > limits
    both = {"average": average, "zero_division": 0.0}
    assert seen.precision(average) == pytest.approx(sk.precision_score(labels, guess, **both))
    assert seen.recall(average) == pytest.approx(sk.recall_score(labels, guess, **both))
    assert seen.f1(average) == pytest.approx(sk.f1_score(labels, guess, **both))
    assert seen.accuracy() == pytest.approx((labels == guess).mean())
    for k in range(4):
        expected = sk.matthews_corrcoef(labels[:, k], guess[:, k])
        assert seen.mcc(None)[k] == pytest.approx(expected)


def test_binary_masks_leave_out_examples_or_outputs(rng):
    labels, scores = rng.integers(0, 2, (6, 5, 3)), rng.random((6, 5, 3))
    steps, each = rng.integers(0, 2, (6, 5)), rng.integers(0, 2, (6, 5, 3))
    expected = ev.Binary().add(labels[steps == 1], scores[steps == 1])
    assert ev.Binary().add(labels, scores, steps).to_json() == expected.to_json()
    seen = ev.Binary().add(np.where(each, labels, 9), scores, each)
    for k in range(3):
        held = each[..., k] == 1
        alone = ev.Binary().add(labels[..., k][held], scores[..., k][held])
        assert seen.f1(None)[k] == alone.f1(None)[0]


def test_an_output_is_above_its_threshold():
    seen = ev.Binary().add([1, 0], [0.5, 0.5])
    assert seen.accuracy() == 0.5 and seen.recall() == 0.0


# -- regression ------------------------------------------------------------------------------------


def test_regression_is_sklearn_s(rng, sk):
    t = rng.standard_normal((300, 3)) * [1.0, 100.0, 1e-3] + [0.0, 1e6, 5.0]
    p = t + rng.standard_normal((300, 3)) * [0.5, 20.0, 1e-3]
    seen = ev.Regression(columns=["a", "b", "c"])
    for part in np.array_split(np.arange(300), 7):
        seen.add(t[part], p[part])
    expected = {
        "mse": sk.mean_squared_error(t, p, multioutput="raw_values"),
        "mae": sk.mean_absolute_error(t, p, multioutput="raw_values"),
        "rmse": sk.root_mean_squared_error(t, p, multioutput="raw_values"),
        "r2": sk.r2_score(t, p, multioutput="raw_values"),
        "rse": 1 - sk.r2_score(t, p, multioutput="raw_values"),
        "pc": [np.corrcoef(t[:, k], p[:, k])[0, 1] for k in range(3)],
    }
    for name, numbers in expected.items():
        found = [getattr(seen, name)(k) for k in range(3)]
        np.testing.assert_allclose(found, numbers, rtol=1e-9)
        assert getattr(seen, name)() == pytest.approx(np.mean(numbers), rel=1e-9)
    counts, edges = seen.residuals(1)
    assert counts.sum() == 300 and counts.tolist() == np.histogram((p - t)[:, 1], edges)[0].tolist()


def test_regression_masks(rng):
    t, p = rng.standard_normal((4, 6, 2)), rng.standard_normal((4, 6, 2))
    mask = rng.integers(0, 2, (4, 6))
    held = mask == 1
    gone = np.where(held[..., None], t, NAN)
    seen, expected = ev.Regression().add(gone, p, mask), ev.Regression().add(t[held], p[held])
    for name, value in expected.metrics().items():
        assert seen.metrics()[name] == pytest.approx(value, rel=1e-12)


def test_columns_of_equal_labels_have_no_r2():
    seen = ev.Regression(columns=["flat", "fine"]).add([[1, 1], [1, 2]], [[1, 1], [2, 3]])
    assert math.isnan(seen.r2()) and seen.r2(1) == pytest.approx(-1.0) and seen.mse(0) == 0.5
    assert seen.reasons()["r2"] == "all labels are equal, or there are none, in column flat"
    assert "mse" not in seen.reasons()


# -- calibration -----------------------------------------------------------------------------------


def test_reliability_is_sklearn_s(rng):
    calibration = pytest.importorskip(
        "sklearn.calibration", reason="no sklearn: pip install -e '.[lab]'"
    )
    scores = np.concatenate([np.round(rng.random(500), 2), [0.0, 1.0, 0.1, 0.3]])
    labels = (rng.random(504) < scores**2).astype(int)
    for bins in (5, 10, 13):
        true, predicted = calibration.calibration_curve(labels, scores, n_bins=bins)
        found = ev.Calibration(bins=bins).add(labels, scores).reliability()
        np.testing.assert_allclose(found.observed, true)
        np.testing.assert_allclose(found.predicted, predicted)


def test_calibration_of_classes(rng, sk):
    labels = rng.integers(0, 3, 200)
    scores = rng.random((200, 3)) + np.eye(3)[labels]
    scores /= scores.sum(1, keepdims=True)
    seen = ev.Calibration().add(labels, scores)
    sure, right = scores.max(1), scores.argmax(1) == labels
    where = np.minimum(np.ceil(sure * 10).astype(int) - 1, 9)
    gaps = [abs(right[where == b].mean() - sure[where == b].mean()) for b in np.unique(where)]
    weights = [np.mean(where == b) for b in np.unique(where)]
    assert seen.ece() == pytest.approx(np.dot(gaps, weights))
    assert seen.mce() == pytest.approx(max(gaps))
    assert seen.brier() == pytest.approx(((scores - np.eye(3)[labels]) ** 2).sum(1).mean())
    one = ev.Calibration().add((labels == 1).astype(int), scores[:, 1])
    assert seen.ece(1) == pytest.approx(one.ece())
    assert one.brier() == pytest.approx(sk.brier_score_loss(labels == 1, scores[:, 1]))
    counts, edges = seen.probabilities(1, labelled=True)
    assert counts.tolist() == np.histogram(scores[labels == 1, 1], edges)[0].tolist()
    counts, edges = seen.residuals(2)
    residuals = np.abs((labels == 2) - scores[:, 2])
    assert counts.tolist() == np.histogram(residuals, edges)[0].tolist()
    assert ev.Calibration().add(np.eye(3)[labels], scores).to_json() == seen.to_json()


def test_calibration_masks(rng):
    labels, scores = rng.integers(0, 2, (4, 6)), rng.random((4, 6))
    mask = rng.integers(0, 2, (4, 6))
    seen = ev.Calibration().add(np.where(mask, labels, -1), np.where(mask, scores, NAN), mask)
    expected = ev.Calibration().add(labels[mask == 1], scores[mask == 1])
    assert seen.to_json() == expected.to_json()


# -- what is not usable ----------------------------------------------------------------------------

PAIRS = {
    "Classification": (ev.Classification, [0, 1], [[0.7, 0.3], [0.2, 0.8]]),
    "Binary": (ev.Binary, [[0, 1], [1, 0]], [[0.7, 0.3], [0.2, 0.8]]),
    "Calibration": (ev.Calibration, [0, 1], [[0.7, 0.3], [0.2, 0.8]]),
    "Regression": (ev.Regression, [[0.0, 1], [1, 2]], [[0.7, 0.3], [0.2, 0.8]]),
    "ROC": (ev.ROC, [0, 1], [0.7, 0.3]),
    "ROCBinary": (ev.ROCBinary, [[0, 1], [1, 0]], [[0.7, 0.3], [0.2, 0.8]]),
    "ROCMultiClass": (ev.ROCMultiClass, [0, 1], [[0.7, 0.3], [0.2, 0.8]]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_nan_among_predictions_gives_nan_and_says_so(name):
    make, labels, scores = PAIRS[name]
    seen = make().add(labels, scores)
    broken = np.array(scores)
    broken[0] = NAN
    seen.add(labels, broken)
    assert seen.unusable >= 1
    assert all(math.isnan(v) for v in seen.metrics().values())
    assert all("predictions are not" in why for why in seen.reasons().values())
    assert "predictions are not" in str(seen)


@pytest.mark.parametrize("name", PAIRS)
def test_nothing_seen_gives_nan_and_says_so(name):
    make, labels, scores = PAIRS[name]
    for seen in (make(), make().add(labels, scores, mask=[0, 0])):
        assert all(math.isnan(v) for v in seen.metrics().values())
        assert set(seen.reasons().values()) == {"nothing has been seen"}
        assert "nothing has been seen" in str(seen)
        seen.plot()


@pytest.mark.parametrize("name", ["Classification", "Binary", "Calibration", "ROCMultiClass"])
def test_a_batch_of_one_class_is_no_crash(name):
    make, _, scores = PAIRS[name]
    labels = [[1, 1], [1, 1]] if name == "Binary" else [1, 1]
    seen = make().add(labels, scores)
    assert str(seen) and seen.plot() is not None
    if name == "ROCMultiClass":
        assert math.isnan(seen.auroc()) and "no column has both labels" in str(seen)
        assert seen.auprc(None)[1] == 1.0 and seen.excluded() == ["0", "1"]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: ev.Classification().add([0, 2], [[1, 0], [0, 1]]), TrainingError, "label 2 of ex"),
        (lambda: ev.Classification().add([0, 0.5], [[1, 0], [0, 1]]), TrainingError, "label 0.5"),
        (lambda: ev.Classification().add([0], [[1, 0], [0, 1]]), ShapeError, "do not fit"),
        (lambda: ev.Classification().add([[0.5, 0.5]], [[1, 0]]), TrainingError, "not one-hot"),
        (lambda: ev.Classification().add([0], [[1, 0]], [[1, 1]]), ShapeError, "a mask of shape"),
        (lambda: ev.Classification(["a"]), TrainingError, "at least two classes"),
        (lambda: ev.Classification(3).add([0], [[1, 0]]), TrainingError, "3 classes, but scores"),
        (
            lambda: ev.Classification().add([0], [[1, 0]]).add([0], [[1, 0, 0]]),
            TrainingError,
            "2 classes, but scores of 3",
        ),
        (lambda: ev.Classification().f1("mean"), TrainingError, "average='mean' is not known"),
        (lambda: ev.Binary().add([0, 2], [0.1, 0.2]), TrainingError, "2.0 is no label of yes or"),
        (lambda: ev.Binary([0.1, 0.2]).add([0], [0.1]), TrainingError, "threshold are 2, but"),
        (lambda: ev.Binary().add([0, 1], [0.1]), ShapeError, "do not fit"),
        (lambda: ev.Regression(["a"]).add([[1, 2]], [[1, 2]]), TrainingError, "1 names for 2"),
        (lambda: ev.Regression().add([NAN], [1.0]), TrainingError, "a label is NaN"),
        (lambda: ev.Regression().add(["a"], [1.0]), TrainingError, "labels are <U1"),
        (
            lambda: ev.Regression().add([1.0], [1.0]).add([[1, 2]], [[1, 2]]),
            TrainingError,
            "has seen 1 columns and now 2",
        ),
        (lambda: ev.Calibration(bins=0), TrainingError, "bins=0"),
        (lambda: ev.ROC(steps=0), TrainingError, "steps=0"),
        (lambda: ev.ROCMultiClass(outputs=["a"]).add([0], [[1, 0]]), TrainingError, "1 names for"),
        (
            lambda: ev.ROCBinary().add([0], [1.0]).add([[0, 1]], [[1.0, 2.0]]),
            TrainingError,
            "has seen 1 columns of scores and now 2",
        ),
    ],
)
def test_what_does_not_fit_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_refused_batch_changes_nothing(rng):
    labels, scores = classes(rng)
    seen = ev.Classification().add(labels, scores)
    before = seen.to_json()
    with pytest.raises(TrainingError):
        seen.add([7], [[1, 2, 3, 4, 5]])
    assert seen.to_json() == before


def test_names_are_no_html():
    bad = "<img src=x onerror=alert(1)>"
    seen = ev.Classification([bad, "b"]).add([0, 1], [[1, 0], [0, 1]])
    assert bad not in seen.stats()._repr_html_() and "&lt;img" in seen.stats()._repr_html_()
    several = [
        seen,
        ev.Binary(outputs=[bad]).add([0, 1], [0.1, 0.9]),
        ev.Regression([bad]).add([0, 1], [0.1, 0.9]),
        ev.ROCBinary(outputs=[bad]).add([0, 1], [0.1, 0.9]),
        ev.Custom(lambda t, p, m: 1, lambda n: {bad: n}).add([0], [0]),
    ]
    for one in several:
        assert bad not in one._repr_html_()
        assert "<img" not in one.plot().to_json().replace("\\u003c", "<")


def test_bfloat16_predictions(rng):
    labels, scores = classes(rng, n=20)
    half = scores.astype(gw.spec.dtype("bfloat16"))
    exact = half.astype("float64")
    assert ev.Classification().add(labels, half).to_json() == (
        ev.Classification().add(labels, exact).to_json()
    )

"""ROC and precision-recall: scikit-learn's numbers and curves, exact and in fixed steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gradwright import evaluation as ev

NAN = float("nan")


@pytest.fixture(scope="module")
def sk():
    """Return scikit-learn's metrics, or skip."""
    return pytest.importorskip("sklearn.metrics", reason="no sklearn: pip install -e '.[lab]'")


def scored(rng, n=500, digits=2):
    """Return labels and scores of which many are equal."""
    labels = (rng.random(n) < 0.3).astype(int)
    return labels, np.round(np.clip(rng.random(n) * 0.7 + 0.3 * labels, 0, 1), digits)


@pytest.mark.parametrize("digits", [0, 1, 2, 12])
def test_areas_are_sklearn_s_with_ties(digits, rng, sk):
    labels, scores = scored(rng, digits=digits)
    seen = ev.ROC()
    for part in np.array_split(rng.permutation(500), 9):
        seen.add(labels[part], scores[part])
    assert seen.auroc() == pytest.approx(sk.roc_auc_score(labels, scores), rel=1e-12)
    assert seen.auprc() == pytest.approx(sk.average_precision_score(labels, scores), rel=1e-12)


@pytest.mark.parametrize("digits", [1, 12])
def test_curves_are_sklearn_s(digits, rng, sk):
    labels, scores = scored(rng, digits=digits)
    seen = ev.ROC().add(labels, scores)
    expected = sk.roc_curve(labels, scores, drop_intermediate=False)
    for ours, theirs in zip(seen.roc_curve(), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    expected = sk.precision_recall_curve(labels, scores)
    for ours, theirs in zip(seen.precision_recall_curve(), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("steps", [1, 7, 10, 200])
def test_fixed_steps_are_the_exact_curve_of_rounded_scores(steps, rng, sk):
    labels, scores = scored(rng, digits=3)
    levels = np.arange(steps + 1) / steps
    rounded = levels[np.searchsorted(levels, scores, "right") - 1]
    seen = ev.ROC(steps=steps)
    for part in np.array_split(np.arange(500), 5):
        seen.add(labels[part], scores[part])
    assert seen.auroc() == pytest.approx(sk.roc_auc_score(labels, rounded), rel=1e-12)
    assert seen.auprc() == pytest.approx(sk.average_precision_score(labels, rounded), rel=1e-12)
    said = [(scores[labels == 1] >= t).mean() for t in seen.roc_curve().thresholds[1:]]
    np.testing.assert_allclose(seen.roc_curve().true_positive_rate[1:], said)


def test_fixed_steps_bound_the_memory(rng):
    seen = ev.ROC(steps=50)
    for _ in range(30):
        seen.add(rng.integers(0, 2, 1000), rng.random(1000))
    parts = seen._state["columns"][0]
    assert sum(len(part.values) for part in parts) <= 2 * 51
    assert len(str(seen.to_json())) < 4000


def test_scores_outside_of_fixed_steps_are_no_use():
    seen = ev.ROC(steps=10).add([0, 1], [0.5, 3.0])
    assert math.isnan(seen.auroc())
    assert seen.reasons()["auroc"] == "1 predictions are not in [0, 1], which steps=10 divides"
    assert ev.ROC().add([0, 1], [-5.0, 3.0]).auroc() == 1.0  # exactly, any scores will do


@pytest.mark.parametrize(
    ("labels", "area", "average", "reason"),
    [
        ([1, 1, 1], NAN, 1.0, "every label is 1"),
        ([0, 0, 0], NAN, NAN, "every label is 0"),
        ([], NAN, NAN, "nothing has been seen"),
    ],
)
def test_one_class_alone_has_no_area(labels, area, average, reason):
    seen = ev.ROC().add(labels, np.linspace(0, 1, len(labels)))
    assert seen.auroc() == pytest.approx(area, nan_ok=True)
    assert seen.auprc() == pytest.approx(average, nan_ok=True)
    assert seen.reasons()["auroc"] == reason and reason in str(seen)
    seen.plot()


def test_scores_of_two_classes_count_as_those_of_the_second(rng):
    labels, scores = scored(rng)
    pairs = np.stack([1 - scores, scores], 1)
    expected = ev.ROC().add(labels, scores).to_json()
    assert ev.ROC().add(labels, pairs).to_json() == expected
    assert ev.ROC().add(labels, scores[:, None]).to_json() == expected
    assert ev.ROC().add(labels.reshape(20, 25), pairs.reshape(20, 25, 2)).to_json() == expected


def test_masks_leave_out_steps_of_sequences(rng):
    labels, scores = (a.reshape(20, 25) for a in scored(rng))
    mask = (rng.random((20, 25)) < 0.5).astype("float32")
    held = mask == 1
    expected = ev.ROC().add(labels[held], scores[held]).to_json()
    assert ev.ROC().add(np.where(held, labels, -1), scores, mask).to_json() == expected
    rows = (rng.random(20) < 0.5).astype("float32")
    expected = ev.ROC().add(labels[rows == 1], scores[rows == 1]).to_json()
    assert ev.ROC().add(labels, scores, rows).to_json() == expected


@pytest.mark.parametrize("average", ["macro", "micro", "weighted", None])
def test_several_outputs_are_sklearn_s(average, rng, sk):
    labels = rng.integers(0, 2, (300, 3))
    scores = np.round(rng.random((300, 3)) + [0.1, 0.5, 0.9] * labels, 1)
    seen = ev.ROCBinary(outputs=["a", "b", "c"]).add(labels, scores)
    expected = sk.roc_auc_score(labels, scores, average=average)
    np.testing.assert_allclose(seen.auroc(average), expected, rtol=1e-12)
    expected = sk.average_precision_score(labels, scores, average=average)
    np.testing.assert_allclose(seen.auprc(average), expected, rtol=1e-12)


@pytest.mark.parametrize("average", ["macro", "micro", "weighted", None])
def test_several_classes_are_sklearn_s(average, rng, sk):
    labels = rng.integers(0, 4, 300)
    scores = np.round(rng.random((300, 4)) + 0.5 * np.eye(4)[labels], 1) + 0.1
    scores /= scores.sum(1, keepdims=True)
    seen = ev.ROCMultiClass().add(labels, scores)
    expected = sk.roc_auc_score(labels, scores, multi_class="ovr", average=average)
    np.testing.assert_allclose(seen.auroc(average), expected, rtol=1e-12)
    expected = sk.average_precision_score(np.eye(4)[labels], scores, average=average)
    np.testing.assert_allclose(seen.auprc(average), expected, rtol=1e-12)
    assert seen.count == 300
    curve = sk.roc_curve(labels == 2, scores[:, 2], drop_intermediate=False)
    np.testing.assert_allclose(seen.roc_curve(2)[1], curve[1])


def test_absent_classes_are_left_out_of_means_and_named(rng, sk):
    labels = rng.choice([0, 2], 100)
    scores = rng.random((100, 3))
    seen = ev.ROCMultiClass(outputs=["a", "b", "c"]).add(labels, scores)
    each = [sk.roc_auc_score(labels == k, scores[:, k]) for k in (0, 2)]
    assert seen.auroc() == pytest.approx(np.mean(each)) and seen.excluded() == ["b"]
    assert "left out of means, without 0 or without 1: b" in str(seen)


def test_each_output_has_its_mask(rng, sk):
    labels, scores = rng.integers(0, 2, (200, 2)), rng.random((200, 2))
    mask = rng.integers(0, 2, (200, 2))
    seen = ev.ROCBinary().add(np.where(mask, labels, NAN), scores, mask)
    for k in range(2):
        held = mask[:, k] == 1
        expected = sk.roc_auc_score(labels[held, k], scores[held, k])
        assert seen.auroc(None)[k] == pytest.approx(expected)


def test_figures_hold_the_curves(rng):
    labels, scores = scored(rng, n=5000, digits=9)
    seen = ev.ROC().add(labels, scores)
    roc, pr, _ = seen.plot().data
    assert len(roc.x) == 2000 and roc.x[0] == 0 and roc.y[-1] == 1
    assert f"AUROC {seen.auroc():.4g}" in roc.name and "AUPRC" in pr.name
    assert len(ev.ROCBinary().add(labels, scores).plot().data) == 3

"""Losses beyond what their samples say: certainty, tails, reductions, labels that are wrong."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from tests.support.op_values import run, slope

# -- softmax and cross entropy ---------------------------------------------------------------------


def test_softmax_of_masked_logits() -> None:
    x = np.array([[0.0, -np.inf, 0.0], [1e30, 0.0, -1e30]])
    assert run(gw.nn.softmax, x).tolist() == [[0.5, 0, 0.5], [1, 0, 0]]
    np.testing.assert_array_equal(
        run(gw.nn.log_softmax, x)[0], [-math.log(2), -np.inf, -math.log(2)]
    )


def test_sparse_cross_entropy_is_that_of_one_hot_labels(rng: np.random.Generator) -> None:
    logits, labels = rng.standard_normal((6, 4)) * 5, rng.integers(0, 4, 6)
    for dtype in ("int8", "uint8", "int32", "int64"):
        sparse = run(gw.loss.sparse_softmax_cross_entropy, labels.astype(dtype), logits)
        dense = run(gw.loss.softmax_cross_entropy, np.eye(4)[labels], logits)
        np.testing.assert_allclose(sparse, dense, rtol=1e-14)


def test_sparse_cross_entropy_slope(rng: np.random.Generator) -> None:
    logits, labels = rng.standard_normal((6, 4)), rng.integers(0, 4, 6)
    found = slope(gw.loss.sparse_softmax_cross_entropy, labels, logits, wrt=1)
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    np.testing.assert_allclose(found, (p - np.eye(4)[labels]) / 6, rtol=1e-13)


def test_sparse_cross_entropy_of_certainty() -> None:
    """The loss of a confident right answer is tiny, not 0, and that of a wrong one not infinite."""
    logits = np.array([[30.0, 0.0], [1e4, 0.0]])
    found = run(gw.loss.sparse_softmax_cross_entropy, [0, 1], logits, reduction="none")
    np.testing.assert_allclose(found, [math.exp(-30), 1e4], rtol=3e-3)


@pytest.mark.parametrize("wrong", [4, -1, 255])
def test_label_out_of_range(wrong: int) -> None:
    labels, logits = np.array([[0, 3], [1, wrong]]), np.zeros((2, 2, 4))
    for call in (run, lambda *a: slope(*a, wrt=1)):
        with pytest.raises(GraphError, match=rf"{wrong} at \[1, 1\] is no class") as caught:
            call(gw.loss.sparse_softmax_cross_entropy, labels, logits)
        assert "0 <= id < 4" in str(caught.value) and "ignore_index" in str(caught.value)


def test_ignored_examples_count_for_nothing(rng: np.random.Generator) -> None:
    logits, labels = rng.standard_normal((4, 3)), np.array([0, -1, 2, -1])
    for attrs in ({}, {"reduction": "mean_by_weight"}, {"reduction": "sum"}):
        both = run(gw.loss.sparse_softmax_cross_entropy, labels, logits, ignore_index=-1, **attrs)
        kept = run(gw.loss.sparse_softmax_cross_entropy, labels[::2], logits[::2], **attrs)
        np.testing.assert_allclose(both, kept, rtol=1e-14)
    found = slope(gw.loss.sparse_softmax_cross_entropy, labels, logits, wrt=1, ignore_index=-1)
    assert not found[1::2].any() and found[::2].all()
    none = np.full(4, -1)
    assert run(gw.loss.sparse_softmax_cross_entropy, none, logits, ignore_index=-1) == 0


def test_sigmoid_cross_entropy_is_smooth_at_zero_and_exact_in_the_tails() -> None:
    y, x = np.array([0.0, 1.0, 0.3]), np.zeros(3)
    found = slope(gw.loss.sigmoid_cross_entropy, y, x, wrt=1, reduction="sum")
    np.testing.assert_allclose(found, 0.5 - y, rtol=1e-15)
    tails = run(gw.loss.sigmoid_cross_entropy, [1.0, 0.0], [500.0, -500.0], reduction="none")
    np.testing.assert_allclose(tails, math.exp(-500), rtol=1e-12)


def test_label_smoothing(rng: np.random.Generator) -> None:
    logits, labels = rng.standard_normal((3, 4)), np.eye(4)[[0, 2, 1]]
    smooth = run(gw.loss.softmax_cross_entropy, labels, logits, label_smoothing=0.2)
    by_hand = run(gw.loss.softmax_cross_entropy, labels * 0.8 + 0.05, logits)
    np.testing.assert_allclose(smooth, by_hand, rtol=1e-14)
    smooth = run(gw.loss.sigmoid_cross_entropy, labels, logits, label_smoothing=0.2)
    by_hand = run(gw.loss.sigmoid_cross_entropy, labels * 0.8 + 0.1, logits)
    np.testing.assert_allclose(smooth, by_hand, rtol=1e-14)


# -- losses ----------------------------------------------------------------------------------------

E2 = [[1.0, 4.0], [9.0, 16.0]]  # squared errors of the labels and predictions below
LABELS, PREDICTIONS = np.zeros((2, 2)), np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("weights", "reduction", "expected"),
    [
        (None, "none", E2),
        (None, "sum", 30),
        (None, "mean_by_weight", 7.5),
        (None, "mean_by_nonzero_weight_count", 7.5),
        ([[2.0], [0.0]], "none", [[2, 8], [0, 0]]),
        ([[2.0], [0.0]], "sum", 10),
        ([[2.0], [0.0]], "mean_by_weight", 10 / 4),
        ([[2.0], [0.0]], "mean_by_nonzero_weight_count", 10 / 2),
        ([1.0, 3.0], "mean_by_weight", 70 / 8),
        ([1.0, 3.0], "mean_by_nonzero_weight_count", 70 / 4),
        (0.5, "mean_by_weight", 7.5),
        (0.5, "mean_by_nonzero_weight_count", 3.75),
        (0.0, "mean_by_weight", 0),
        (0.0, "mean_by_nonzero_weight_count", 0),
    ],
)
def test_reductions(weights: Any, reduction: str, expected: Any) -> None:
    arrays = [LABELS, PREDICTIONS, *([] if weights is None else [np.array(weights)])]
    found = run(gw.loss.mean_squared_error, *arrays, reduction=reduction)
    np.testing.assert_allclose(found, expected)


def test_weights_are_per_example_where_classes_are_summed() -> None:
    labels, logits = np.array([0, 1]), np.log([[0.5, 0.5], [0.8, 0.2]])
    found = run(gw.loss.sparse_softmax_cross_entropy, labels, logits, np.array([1.0, 3.0]))
    np.testing.assert_allclose(found, (math.log(2) + 3 * math.log(5)) / 2)


@pytest.mark.parametrize(
    ("loss", "labels", "predictions", "expected"),
    [
        (gw.loss.absolute_difference, [1.0, -2.0], [3.0, 1.0], [2, 3]),
        (gw.loss.huber, [0.0, 0.0, 0.0], [0.5, 1.0, -3.0], [0.125, 0.5, 2.5]),
        (gw.loss.hinge, [1, 0, 1, 0], [0.5, 0.5, 2.0, -2.0], [0.5, 1.5, 0, 0]),
        (gw.loss.log_loss, [1.0, 0.0, 0.0], [1.0, 0.25, 1.0], [0, -math.log(0.75), 16.118]),
        (gw.loss.log_poisson, [2, 0], [math.log(2), 0.0], [2 - 2 * math.log(2), 1]),
        (gw.loss.cosine_distance, [[1.0, 0.0]], [[0.6, 0.8]], [0.4]),
        (gw.loss.kl_divergence, [[0.5, 0.5, 0.0]], [[0.25, 0.75, 0.0]], [0.1438410362]),
    ],
)
def test_losses_by_hand(loss: Any, labels: Any, predictions: Any, expected: Any) -> None:
    found = run(loss, np.array(labels), np.array(predictions), reduction="none")
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-7)


def test_kl_divergence_of_absent_classes_has_finite_slopes() -> None:
    labels, predictions = np.array([[0.5, 0.5, 0.0]]), np.array([[0.25, 0.75, 0.0]])
    found = slope(gw.loss.kl_divergence, labels, predictions, wrt=1)
    np.testing.assert_allclose(found, [[-2, -2 / 3, 0]])


def test_mean_pairwise_squared_error_is_over_all_pairs(rng: np.random.Generator) -> None:
    labels, predictions = rng.standard_normal((2, 3, 2)), rng.standard_normal((2, 3, 2))
    d = (predictions - labels).reshape(2, 6)
    pairs = list(itertools.combinations(range(6), 2))
    expected = [sum((row[i] - row[j]) ** 2 for i, j in pairs) / len(pairs) for row in d]
    found = run(gw.loss.mean_pairwise_squared_error, labels, predictions, reduction="none")
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    single = run(gw.loss.mean_pairwise_squared_error, np.zeros((3, 1)), np.ones((3, 1)))
    assert single == 0


def test_integer_labels_in_float64_lose_nothing() -> None:
    labels, logits = np.array([0, 1, 1]), np.array([0.3, -2.0, 5.0])
    for loss in (gw.loss.sigmoid_cross_entropy, gw.loss.hinge, gw.loss.log_loss):
        attrs = {"label_smoothing": 0.1} if loss is gw.loss.sigmoid_cross_entropy else {}
        x = logits if loss is not gw.loss.log_loss else np.array([0.3, 0.2, 0.9])
        assert run(loss, labels, x, **attrs) == run(loss, labels.astype(float), x, **attrs)


def test_loss_signatures() -> None:
    """Labels, predictions, whatever else a loss must have, weights=None; the rest by keyword."""
    import inspect

    for name in dir(gw.loss):
        parameters = list(inspect.signature(getattr(gw.loss, name)).parameters.values())
        names = [p.name for p in parameters]
        if "reduction" in names:
            assert names[0] == "labels" and names[1] in ("predictions", "a"), name
            tensors = names[: names.index("weights")]
            assert all(p.default is p.empty for p in parameters[: len(tensors)]), name
            assert parameters[names.index("reduction")].kind is inspect.Parameter.KEYWORD_ONLY

"""Losses: CTC against all paths, what does not fit, what is refused; reductions and weights."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError


def run(build: Any, *xs: Any) -> Any:
    """Return what a function of tensors gives for arrays."""
    g = gw.Graph()
    with g, gw.Session(g) as session:
        return session.run(build(*(g.constant(x) for x in xs)))


def collapse(path: tuple[int, ...], blank: int) -> list[int]:
    return [k for k, _ in itertools.groupby(path) if k != blank]


@pytest.mark.parametrize(
    ("label", "n_times", "blank"),
    [([1, 1], 4, 0), ([1, 2], 3, 0), ([0, 1, 0], 5, 2), ([], 3, 1), ([2, 2], 3, 0)],
)
def test_ctc_sums_over_all_paths(label: list[int], n_times: int, blank: int, rng: Any) -> None:
    x = rng.standard_normal((1, n_times, 3))
    p = np.exp(x[0]) / np.exp(x[0]).sum(-1, keepdims=True)
    total = sum(
        math.prod(p[t, k] for t, k in enumerate(path))
        for path in itertools.product(range(3), repeat=n_times)
        if collapse(path, blank) == label
    )
    found = run(lambda y, x: gw.loss.ctc(y, x, blank=blank), np.array([label], int), x)
    assert found == pytest.approx(-math.log(total), rel=1e-12)


def test_ctc_is_stable_over_thousands_of_times() -> None:
    x = np.zeros((1, 3000, 2))
    x[..., 0] = 50.0  # only the blank is likely
    loss = run(lambda y, x: gw.loss.ctc(y, x), np.array([[1]]), x)
    assert loss == pytest.approx(50.0 - math.log(3000), rel=1e-6)


@pytest.mark.parametrize(("zero_infinity", "expected"), [(False, math.inf), (True, 0.0)])
def test_ctc_of_what_does_not_fit(zero_infinity: bool, expected: float) -> None:
    g = gw.Graph()
    x = g.placeholder("x", (1, 2, 3), "float64")
    with g:
        loss = gw.loss.ctc(g.constant([[1, 1]]), x, zero_infinity=zero_infinity)
        (dx,) = gw.gradients(loss, [x])
        with gw.Session(g) as session:
            found, slope = session.run([loss, dx], {"x": np.zeros((1, 2, 3))})
    assert found == expected
    np.testing.assert_array_equal(slope, 0.0)


def test_ctc_ignores_what_lies_beyond_the_lengths(rng: Any) -> None:
    labels, x = np.array([[1, 2, -7]]), rng.standard_normal((1, 6, 4))
    lengths = np.array([2]), np.array([4])
    whole = run(lambda y, x, s, t: gw.loss.ctc(y, x, None, s, t), labels, x, *lengths)
    assert whole == run(gw.loss.ctc, labels[:, :2], x[:, :4])


@pytest.mark.parametrize(
    ("labels", "lengths", "message"),
    [
        ([[1, 0]], ([2], [4]), "0 at .0, 1. is no label"),
        ([[1, 3]], ([2], [4]), "3 at .0, 1. is no label"),
        ([[1, 2]], ([3], [4]), "label_lengths: 3 does not fit"),
        ([[1, 2]], ([2], [5]), "lengths: 5 does not fit"),
    ],
)
def test_ctc_refuses(labels: Any, lengths: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        run(
            lambda y, x, s, t: gw.loss.ctc(y, x, None, s, t),
            labels, np.zeros((1, 4, 3)), *map(np.array, lengths),
        )  # fmt: skip


def test_contrastive_loss_prefers_matching_rows(rng: Any) -> None:
    a = rng.standard_normal((8, 5))
    matched = run(lambda a, b: gw.loss.contrastive(a, b, temperature=0.1), a, a)
    shuffled = run(lambda a, b: gw.loss.contrastive(a, b, temperature=0.1), a, a[::-1].copy())
    assert matched < shuffled
    even = run(gw.loss.contrastive, np.ones((8, 5)), np.ones((8, 5)))
    assert even == pytest.approx(math.log(8))


def test_a_class_of_no_weight_does_not_count(rng: Any) -> None:
    labels, logits = np.array([0, 1, 2]), rng.standard_normal((3, 4))
    of_class = np.array([1.0, 0.0, 1.0, 1.0])
    kept = run(
        lambda y, x, c: gw.loss.sparse_softmax_cross_entropy(y, x, None, c),
        labels, logits, of_class,
    )  # fmt: skip
    assert kept == pytest.approx(
        run(gw.loss.sparse_softmax_cross_entropy, labels[::2], logits[::2].copy()), rel=1e-12
    )


def test_nll_refuses_an_unknown_class() -> None:
    with pytest.raises(GraphError, match=r"4 at \[1\] is no class"):
        run(gw.loss.nll, np.array([0, 4]), np.zeros((2, 4)))


def test_log_cosh_is_precise_near_0() -> None:
    e = np.array([1e-6, 1e-4, 1e-2, 0.99, 1.01, -3.0, 500.0])
    g = gw.Graph()
    x = g.placeholder("x", e.shape, "float32")
    loss = gw.loss.log_cosh(g.constant(np.zeros_like(e, "float32")), x, reduction="none")
    (slope,) = gw.gradients(loss, [x])
    with gw.Session(g) as session:
        found, slopes = session.run([loss, slope], {"x": e.astype("float32")})
    small = np.log1p(2 * np.sinh(np.minimum(np.abs(e), 9) / 2) ** 2)
    exact = np.where(np.abs(e) < 9, small, np.abs(e) - math.log(2))
    np.testing.assert_allclose(found, exact, rtol=5e-7)
    np.testing.assert_allclose(slopes, np.tanh(e), rtol=5e-7)


@pytest.mark.parametrize(
    "build",
    [
        lambda y, x: gw.loss.hinge_embedding(-y, x),
        lambda y, x: gw.loss.gaussian_nll(y, y, x),
        lambda y, x: gw.loss.log_cosh(y, x),
        lambda y, x: gw.loss.sigmoid_focal(y, x, gamma=0.5),
    ],
)
def test_nan_is_not_hidden(build: Any) -> None:
    assert np.isnan(run(build, np.ones(2), np.array([1.0, np.nan])))


@pytest.mark.parametrize("gamma", [0.5, 1.5])
def test_focal_loss_of_certain_examples_has_a_slope(gamma: float) -> None:
    g = gw.Graph()
    x = g.constant(np.array([200.0, -200.0, 0.0], "float32"))
    loss = gw.loss.sigmoid_focal(g.constant([1.0, 0.0, 1.0]), x, gamma=gamma, reduction="none")
    (first,) = gw.gradients(loss, [x])
    (second,) = gw.gradients(first, [x])
    with gw.Session(g) as session:
        slopes, bends = session.run([first, second])
    assert slopes[:2].tolist() == bends[:2].tolist() == [0.0, 0.0]
    assert slopes[2] < 0 and np.isfinite(bends[2])


@pytest.mark.parametrize(
    ("dtype", "size"), [("float16", 3e4), ("float16", 1e-5), ("float32", 1e35)]
)
def test_angles_do_not_depend_on_lengths(dtype: str, size: float) -> None:
    a, b = (np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[2.0, 0.0], [1.0, 1.0]]))
    a, b, labels = (a * size / 4).astype(dtype), b.astype(dtype), np.ones(2, dtype)
    found = run(lambda y, a, b: gw.loss.cosine_embedding(y, a, b, reduction="none"), labels, a, b)
    np.testing.assert_allclose(found, [0.4, 1.0], rtol=1e-2)  # 1e-5 has 7 bits in float16
    same = run(lambda a, b: gw.loss.contrastive(a, b, reduction="none"), a, b)
    wide = [[0.6, math.sqrt(0.5) * 1.4], [0.0, 0.0]]
    logs = [np.log(np.exp(m).sum(1)) - np.diag(m) for m in (np.array(wide), np.array(wide).T)]
    np.testing.assert_allclose(same, (logs[0] + logs[1]) / 2, rtol=1e-2)


@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin_with_a_margin_below_0(p: int) -> None:
    x = np.array([[1.0, 0.5, 1.5, 1.1]])  # only 1.5 is above 1 + 0.2
    found = run(lambda y, x: gw.loss.multi_margin(y, x, margin=-0.2, p=p), np.array([0]), x)
    assert found == pytest.approx(0.3**p / 4)


def test_complex_labels_are_refused() -> None:
    g = gw.Graph()
    with pytest.raises(GraphError, match="labels are real numbers, got complex64"):
        gw.loss.mean_squared_error(g.constant([1j]), g.constant([1.0]))

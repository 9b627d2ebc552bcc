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
    found = run(lambda y, x: gw.loss.ctc_loss(y, x, blank=blank), np.array([label], int), x)
    assert found == pytest.approx(-math.log(total), rel=1e-12)


def test_ctc_is_stable_over_thousands_of_times() -> None:
    x = np.zeros((1, 3000, 2))
    x[..., 0] = 50.0  # only the blank is likely
    loss = run(lambda y, x: gw.loss.ctc_loss(y, x), np.array([[1]]), x)
    assert loss == pytest.approx(50.0 - math.log(3000), rel=1e-6)


@pytest.mark.parametrize(("zero_infinity", "expected"), [(False, math.inf), (True, 0.0)])
def test_ctc_of_what_does_not_fit(zero_infinity: bool, expected: float) -> None:
    g = gw.Graph()
    x = g.placeholder("x", (1, 2, 3), "float64")
    with g:
        loss = gw.loss.ctc_loss(g.constant([[1, 1]]), x, zero_infinity=zero_infinity)
        (dx,) = gw.gradients(loss, [x])
        with gw.Session(g) as session:
            found, slope = session.run([loss, dx], {"x": np.zeros((1, 2, 3))})
    assert found == expected
    np.testing.assert_array_equal(slope, 0.0)


def test_ctc_ignores_what_lies_beyond_the_lengths(rng: Any) -> None:
    labels, x = np.array([[1, 2, -7]]), rng.standard_normal((1, 6, 4))
    lengths = np.array([2]), np.array([4])
    whole = run(lambda y, x, s, t: gw.loss.ctc_loss(y, x, None, s, t), labels, x, *lengths)
    assert whole == run(gw.loss.ctc_loss, labels[:, :2], x[:, :4])


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
            lambda y, x, s, t: gw.loss.ctc_loss(y, x, None, s, t),
            labels, np.zeros((1, 4, 3)), *map(np.array, lengths),
        )  # fmt: skip


def test_contrastive_loss_prefers_matching_rows(rng: Any) -> None:
    a = rng.standard_normal((8, 5))
    matched = run(lambda a, b: gw.loss.contrastive_loss(a, b, temperature=0.1), a, a)
    shuffled = run(lambda a, b: gw.loss.contrastive_loss(a, b, temperature=0.1), a, a[::-1].copy())
    assert matched < shuffled
    even = run(gw.loss.contrastive_loss, np.ones((8, 5)), np.ones((8, 5)))
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
        run(gw.loss.nll_loss, np.array([0, 4]), np.zeros((2, 4)))

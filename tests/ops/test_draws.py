"""Draws: known answers from Philox's words, and the right distributions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from gradwright.ops import namespace
from gradwright.ops.draws import philox
from tests.ops.distributions import CRITICAL, distance, gaussian

KEY = np.array([0x123456789ABCDEF0, 0xFEDCBA9876543210], np.uint64)
N = 40_000


def draw(name: str, count: int = N, /, **attrs: Any) -> Any:
    """Return numbers of an op of the namespace as it computes them."""
    cls = namespace("random")[name].op  # type: ignore[attr-defined]
    return cls(shape=(count,), stream=5, **attrs).forward(KEY)


def chi_square(drawn: Any, expected: Any) -> float:
    """Return χ² in standard deviations from its mean; classes with few expected are joined."""
    counts = np.bincount(drawn.astype(int), minlength=len(expected))
    assert len(counts) == len(expected), "a number beyond the last possible one"
    rare = expected < 10
    seen = np.append(counts[~rare], counts[rare].sum())
    wanted = np.append(expected[~rare], max(expected[rare].sum(), 1e-9))
    if wanted[-1] < 10:  # too few for a class of their own
        assert seen[-1] < wanted[-1] + 15
        seen, wanted = seen[:-1], wanted[:-1]
    free = len(wanted) - 1
    return float(((seen - wanted) ** 2 / wanted).sum() - free) / math.sqrt(2 * max(free, 1))


# -- known answers ---------------------------------------------------------------------------------


def test_exponentials_are_logarithms_of_the_words() -> None:
    words = philox.words(KEY, 5, 3)
    expected = [-math.log((int(w) + 0.5) / 2**32) / 4 for w in words]
    np.testing.assert_allclose(draw("exponential", 3, rate=4.0), expected, 1e-7)
    wide = philox.words64(KEY, 5, 3)
    expected = [-math.log(((int(w) >> 12) + 0.5) / 2**52) for w in wide]
    np.testing.assert_allclose(draw("exponential", 3, dtype="float64"), expected, 1e-14)


def test_log_normals_are_exponentials_of_normals() -> None:
    z = philox.normal(KEY, 5, 4, np.dtype("float64"))
    found = draw("log_normal", 4, mean=0.5, std=2.0, dtype="float64")
    np.testing.assert_allclose(found, np.exp(0.5 + 2 * z), 1e-14)


@pytest.mark.parametrize(("low", "high"), [(0, 10), (-(2**31), 2**31), (7, 8)])
def test_integers_are_the_upper_part_of_a_product(low: int, high: int) -> None:
    words = philox.words64(KEY, 5, 50)
    expected = [low + (int(w) * (high - low) >> 64) for w in words]
    assert draw("randint", 50, low=low, high=high).tolist() == expected


def test_permutations_sort_the_words() -> None:
    words = [int(w) for w in philox.words64(KEY, 5, 20)]
    assert [words[i] for i in draw("permutation", 20)] == sorted(words)


# -- distributions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "attrs", "cdf"),
    [
        ("exponential", {"rate": 2.0}, lambda x: -np.expm1(-2 * x)),
        ("gumbel", {"loc": 1.0, "scale": 3.0}, lambda x: np.exp(-np.exp(-(x - 1) / 3))),
        (
            "laplace",
            {"loc": -1.0, "scale": 0.5},
            lambda x: 0.5 + np.sign(x + 1) * -np.expm1(-np.abs(x + 1) / 0.5) / 2,
        ),
        ("log_normal", {"mean": 0.2, "std": 0.7}, lambda x: gaussian((np.log(x) - 0.2) / 0.7)),
    ],
)
def test_real_numbers(name: str, attrs: dict[str, Any], cdf: Any, dtype: str) -> None:
    drawn = draw(name, dtype=dtype, **attrs)
    assert drawn.dtype == dtype and np.isfinite(drawn).all()
    assert distance(drawn, cdf) < CRITICAL


def binomial(n: int, p: float) -> Any:
    logs = [
        math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        + k * math.log(p) + (n - k) * math.log1p(-p) for k in range(n + 1)
    ]  # fmt: skip
    return N * np.exp(logs)


@pytest.mark.parametrize(("n", "p"), [(1, 0.3), (10, 0.5), (40, 0.02), (3000, 0.97)])
def test_binomials(n: int, p: float) -> None:
    drawn = draw("binomial", n=n, p=p, dtype="int64")
    assert abs(chi_square(drawn, binomial(n, p))) < 4
    assert abs(drawn.mean() - n * p) < 4 * math.sqrt(n * p * (1 - p) / N)


@pytest.mark.parametrize(("n", "p", "value"), [(5, 0.0, 0), (5, 1.0, 5), (0, 0.4, 0)])
def test_binomials_without_chance(n: int, p: float, value: int) -> None:
    assert set(draw("binomial", 100, n=n, p=p, dtype="int64").tolist()) == {value}


def test_a_billion_trials_need_no_billion_numbers() -> None:
    n, p = 10**9, 0.25
    z = (draw("binomial", n=n, p=p, dtype="float64") - n * p) / math.sqrt(n * p * (1 - p))
    assert distance(z, gaussian) < CRITICAL


@pytest.mark.parametrize("rate", [0.1, 3.0, 250.0])
def test_poissons(rate: float) -> None:
    drawn = draw("poisson", rate=rate, dtype="int64")
    k = np.arange(drawn.max() + 1)
    logs = k * math.log(rate) - rate - np.array([math.lgamma(i + 1) for i in k])
    assert abs(chi_square(drawn, N * np.exp(logs))) < 4
    assert abs(drawn.mean() - rate) < 4 * math.sqrt(rate / N)


def test_integers_are_equally_likely() -> None:
    drawn = draw("randint", low=-3, high=4)
    assert abs(chi_square(drawn + 3, np.full(7, N / 7))) < 4


def test_all_orders_are_equally_likely() -> None:
    cls = namespace("random")["permutation"].op  # type: ignore[attr-defined]
    orders = np.array(
        [cls(shape=(4,)).forward(np.array([9, step], np.uint64)) for step in range(4800)]
    )
    number = (orders * [64, 16, 4, 1]).sum(1)
    seen, counts = np.unique(number, return_counts=True)
    assert len(seen) == 24
    assert abs(((counts - 200) ** 2 / 200).sum() - 23) < 4 * math.sqrt(46)


@pytest.mark.parametrize("replacement", [True, False])
def test_classes(replacement: bool) -> None:
    """The first of several draws follows softmax either way; without replacement they differ."""
    logits = np.log([[0.5, 0.3, 0.2, 0.0], [0.05, 0.05, 0.9, 0.0]], where=[[1, 1, 1, 0]] * 2,
                    out=np.full((2, 4), -np.inf))  # fmt: skip
    cls = namespace("random")["categorical"].op  # type: ignore[attr-defined]
    many = np.repeat(logits, N, 0)
    drawn = (
        cls(num_samples=2, replacement=replacement, stream=5).forward(KEY, many).reshape(2, N, 2)
    )
    for row, p in zip(drawn, np.exp(logits), strict=True):
        assert abs(chi_square(row[:, 0], N * p)) < 4
        assert (row < 3).all()
        if replacement:
            assert abs(np.corrcoef(row.T)[0, 1]) < 4.5 / math.sqrt(N)
        else:
            assert (row[:, 0] != row[:, 1]).all()
            # p(second = j | first = i) = p_j/(1 − p_i)
            second = sum(p[i] * np.where(np.arange(4) == i, 0, p) / (1 - p[i]) for i in range(3))
            assert abs(chi_square(row[:, 1], N * second)) < 4


# -- in graphs -------------------------------------------------------------------------------------


def test_a_rate_has_the_gradient_of_its_formula() -> None:
    g = gw.Graph()
    rate = g.placeholder("rate", (2, 1), "float64")
    with g:
        y = gw.random.exponential((2, 3), rate, "float64")
        (slope,) = gw.gradients(y.sum(), [rate])
    given = np.array([[2.0], [5.0]])
    with gw.Session(g, seed=3) as session:
        drawn, found = session.run([y, slope], {"rate": given})
    np.testing.assert_allclose(found, -(drawn / given).sum(1, keepdims=True))


@pytest.mark.parametrize("name", ["gumbel", "laplace"])
def test_place_and_width_may_be_tensors(name: str) -> None:
    g = gw.Graph()
    loc, scale = g.placeholder("loc", (), "float64"), g.placeholder("scale", (), "float64")
    with g:
        y = getattr(gw.random, name)((5,), loc, scale, "float64", name="y")
        slopes = gw.gradients(y.sum(), [loc, scale])
    with gw.Session(g, seed=3) as session:
        at = {"loc": 1.5, "scale": 0.5}
        drawn, place, width = session.run([y, *slopes], at)
    assert place == 5
    assert width == pytest.approx(((drawn - 1.5) / 0.5).sum())


def test_a_shuffle_keeps_rows_and_sends_gradients_back(rng: Any) -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 3), "float64")
    y = gw.random.shuffle(x, 0)
    weights = g.placeholder("w", ("B", 3), "float64")
    (dx,) = gw.gradients((y * weights).sum(), [x])
    given, w = rng.standard_normal((6, 3)), rng.standard_normal((6, 3))
    with gw.Session(g, seed=1) as session:
        moved, slope = session.run([y, dx], {"x": given, "w": w})
    order = [np.flatnonzero((given == row).all(1)).item() for row in moved]
    assert sorted(order) == list(range(6)) and order != list(range(6))
    np.testing.assert_array_equal(slope[order], w)


def test_like_takes_shape_and_dtype() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 3), "float64")
    ys = [gw.random.uniform_like(x, 2.0, 3.0), gw.random.normal_like(x, std=0.1)]
    with gw.Session(g) as session:
        u, z = session.run(ys, {"x": np.zeros((50, 3))})
    assert u.shape == z.shape == (50, 3) and u.dtype == z.dtype == np.float64
    assert u.min() >= 2 and u.max() < 3 and np.abs(z).max() < 0.6


def test_a_row_without_a_possible_class_is_named() -> None:
    with pytest.raises(GraphError, match=r"the logits of row \[1\] leave no class possible"):
        g = gw.Graph()
        y = gw.random.categorical(g.constant([[0.0, 1.0], [-np.inf, -np.inf]]), 2)
        gw.Session(g).run(y)


def test_classes_without_probability_are_never_drawn() -> None:
    g = gw.Graph()
    logits = g.constant([0.0, -np.inf, 0.0, -np.inf])
    two = gw.random.categorical(logits, 2, replacement=False)
    with gw.Session(g, seed=0) as session:
        assert all(sorted(session.run(two)) == [0, 2] for _ in range(20))
    three = gw.random.categorical(logits, 3, replacement=False)
    with pytest.raises(GraphError, match="the logits leave fewer than 3 classes possible"):
        gw.Session(g).run(three)


def test_a_tail_far_above_the_mean_is_the_mirror_of_the_one_below() -> None:
    for low, high in ((9.0, 10.0), (30.0, np.inf)):
        with gw.Graph() as g:
            y = gw.random.truncated_normal((2000,), lower=low, upper=high, dtype="float64")
        with gw.Session(g, seed=1) as session:
            drawn = session.run(y)
        assert drawn.min() >= low and drawn.max() <= high
        # Far out the excess is nearly exponential with the rate of the edge.
        assert (drawn - low).mean() == pytest.approx(1 / low, rel=0.1)


@pytest.mark.parametrize("name", ["gumbel", "laplace", "exponential"])
def test_parameters_larger_than_the_draw_are_refused(name: str) -> None:
    with gw.Graph() as g:
        wide = g.constant([[1.0, 2.0], [3.0, 4.0]])
        with pytest.raises(GraphError, match="the same numbers would come again"):
            getattr(gw.random, name)((2,), wide)
        assert getattr(gw.random, name)((2, 2), wide[0]).shape == (2, 2)


@pytest.mark.parametrize("shape", [2.5, None])
def test_what_is_no_shape_is_refused(shape: Any) -> None:
    with gw.Graph(), pytest.raises(GraphError, match="is no shape"):
        gw.random.normal(shape)


def test_a_size_of_numpy_is_a_size() -> None:
    with gw.Graph():
        assert gw.random.normal(np.int64(3)).shape == (3,)


def test_integers_of_the_upper_half_of_uint64() -> None:
    low = (1 << 64) - 5
    with gw.Graph() as g:
        y = gw.random.randint((100,), low, 1 << 64, dtype="uint64")
    drawn = gw.Session(g).run(y)
    assert sorted(set(drawn.tolist())) == list(range(low, 1 << 64))

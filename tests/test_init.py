"""Initializers: the field's formulas, three ways to use them, the same numbers everywhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, GraphError, ShapeError

MATRIX, KERNEL = (300, 200), (60, 50, 3, 3)
"""fan_in 300 and fan_out 200; fan_in 450 and fan_out 540."""


@pytest.mark.parametrize(
    ("shape", "fans"),
    [
        ((64, 32), (64, 32)),
        ((16, 3, 5, 7), (105, 560)),
        ((8, 4, 3), (12, 24)),
        ((7,), (7, 7)),
        ((), (1, 1)),
    ],
)
def test_fans(shape: tuple[int, ...], fans: tuple[int, int]) -> None:
    assert gw.init.fans(shape) == fans


@pytest.mark.parametrize(
    ("make", "variance_matrix", "variance_kernel"),
    [
        (gw.init.xavier_normal, 2 / 500, 2 / 990),
        (gw.init.he_normal, 2 / 300, 2 / 450),
        (gw.init.he_normal(mode="fan_out"), 2 / 200, 2 / 540),
        (gw.init.lecun_normal, 1 / 300, 1 / 450),
        (gw.init.xavier_normal(gain=2.0), 8 / 500, 8 / 990),
        (gw.init.variance_scaling, 1 / 300, 1 / 450),
        (gw.init.variance_scaling(scale=3.0, mode="fan_avg"), 3 / 250, 3 / 495),
        (gw.init.variance_scaling(distribution="normal", mode="fan_out"), 1 / 200, 1 / 540),
        (gw.init.normal(mean=0.0, std=0.3), 0.09, 0.09),
    ],
)
def test_variance_of_normals(make: object, variance_matrix: float, variance_kernel: float) -> None:
    for shape, variance in ((MATRIX, variance_matrix), (KERNEL, variance_kernel)):
        w = _seeded(make)(shape, "float64")
        n = w.size  # the sample variance of n normals deviates by √(2/n), their mean by √(v/n)
        assert abs(w.var() / variance - 1) < 4 * math.sqrt(2 / n)
        assert abs(w.mean()) < 4 * math.sqrt(variance / n)


@pytest.mark.parametrize(
    ("make", "limit_matrix", "limit_kernel"),
    [
        (gw.init.xavier_uniform, math.sqrt(6 / 500), math.sqrt(6 / 990)),
        (gw.init.he_uniform, math.sqrt(6 / 300), math.sqrt(6 / 450)),
        (gw.init.lecun_uniform, math.sqrt(3 / 300), math.sqrt(3 / 450)),
        (
            gw.init.variance_scaling(scale=2.0, mode="fan_out", distribution="uniform"),
            math.sqrt(6 / 200),
            math.sqrt(6 / 540),
        ),
        (gw.init.uniform(low=-0.2, high=0.2), 0.2, 0.2),
    ],
)
def test_limits_of_uniforms(make: object, limit_matrix: float, limit_kernel: float) -> None:
    for shape, limit in ((MATRIX, limit_matrix), (KERNEL, limit_kernel)):
        w = _seeded(make)(shape, "float64")
        assert np.abs(w).max() <= limit
        assert np.abs(w).max() > limit * (1 - 20 / w.size)
        assert abs(w.var() / (limit**2 / 3) - 1) < 4 / math.sqrt(w.size)


def _seeded(make: object) -> gw.init.Initializer:
    if isinstance(make, gw.init.Initializer):
        return gw.init.Initializer(make.rule, {**make.settings, "seed": 5})
    return make(seed=5)  # type: ignore[operator]


def test_truncation_keeps_variance_and_range() -> None:
    w = gw.init.variance_scaling((400, 500), "float64", seed=1)
    std = math.sqrt(1 / 400)
    assert abs(w.var() / std**2 - 1) < 4 * math.sqrt(2 / w.size)
    assert np.abs(w).max() <= 2 * std / 0.879
    shifted = gw.init.truncated_normal((1000,), mean=3.0, std=0.5, lower=-1.0, upper=0.0, seed=1)
    assert shifted.min() >= 2.5 and shifted.max() <= 3.0


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (4, 2, 3, 3), (40, 2, 3, 3)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    w = gw.init.orthogonal(shape, "float64", gain=2.0, seed=3).reshape(shape[0], -1) / 2
    short = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
    np.testing.assert_allclose(short, np.eye(len(short)), atol=1e-13)


def test_orthogonal_matrices_favour_no_sign() -> None:
    """QR alone returns a sign per column that depends on the algorithm."""
    drawn = [gw.init.orthogonal((3, 3), "float64", seed=i) for i in range(200)]
    assert abs(np.mean([np.diagonal(q) for q in drawn])) < 0.1
    assert 60 < sum(np.linalg.det(q) > 0 for q in drawn) < 140


def test_plain_values() -> None:
    assert gw.init.zeros((2,), "int32").dtype == np.int32
    assert gw.init.constant(2.5)((2, 1)).tolist() == [[2.5], [2.5]]
    assert gw.init.identity((2, 3), gain=3.0).tolist() == [[3, 0, 0], [0, 3, 0]]


def test_three_ways_to_use() -> None:
    g = gw.Graph()
    for number, init in enumerate((gw.init.ones, gw.init.ones(), gw.init.ones((2, 3)), 1.0)):
        w = g.variable(f"w{number}", (2, 3), init=init)
        assert g.values[w.name].tolist() == [[1.0] * 3] * 2
    direct = gw.init.he_normal((4, 5), "float64", seed=2)
    w = g.variable("w", (4, 5), init=gw.init.he_normal(seed=2), dtype="float64")
    assert np.array_equal(g.values["w"], direct)
    g.variable("unseeded", (4, 5), init=gw.init.xavier_uniform)
    assert repr(gw.init.he_normal(mode="fan_out", seed=2)) == "he_normal(mode='fan_out', seed=2)"


def test_aliases() -> None:
    assert gw.init.glorot_uniform is gw.init.xavier_uniform
    assert gw.init.glorot_normal is gw.init.xavier_normal
    assert gw.init.kaiming_uniform is gw.init.he_uniform
    assert gw.init.kaiming_normal is gw.init.he_normal


def test_seeds() -> None:
    first, again, other = (gw.init.normal((50,), seed=s) for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.any(first == other)
    assert not np.any(gw.init.normal((50,)) == gw.init.normal((50,)))


def test_numbers_are_fixed_forever() -> None:
    """Words of key 42, counter 0, turned into numbers by hand: users' first weights."""
    drawn = gw.init.uniform((3,), low=0.0, high=1.0, seed=42)
    assert [int(v) for v in drawn * 2**24] == [10283760, 7861577, 1228624]
    drawn = gw.init.normal((2,), "float64", std=1.0, seed=42)
    np.testing.assert_allclose(drawn, [-0.6653748678073486, 1.036023808655465], rtol=1e-13)


def test_halves_are_rounded_float32() -> None:
    half = gw.init.he_normal((20, 30), "bfloat16", seed=1)
    assert half.dtype == gw.spec.dtype("bfloat16")
    assert np.array_equal(half, gw.init.he_normal((20, 30), seed=1).astype(half.dtype))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: gw.init.he_normal(sead=1), TypeError, "sead"),
        (
            lambda: gw.init.uniform(-0.1, 0.1),
            TypeError,
            "takes a shape and the keywords low, high, seed; got -0.1",
        ),
        (lambda: gw.init.normal((2,), seed=-1), GraphError, "seed=-1 is out of range"),
        (lambda: gw.init.normal((2,), seed=2**64), GraphError, "seed="),
        (lambda: gw.init.normal((2,), "int64", seed=0), DTypeError, "no random numbers of int64"),
        (lambda: gw.init.orthogonal((2, 2), "int64"), DTypeError, "no random numbers of int64"),
        (lambda: gw.init.orthogonal((3,)), ShapeError, "at least two axes"),
        (lambda: gw.init.identity((3,)), ShapeError, "a matrix"),
        (lambda: gw.init.he_normal((2, 2), mode="fan"), GraphError, "'fan_in' or 'fan_out'"),
        (
            lambda: gw.init.variance_scaling((2, 2), distribution="cauchy"),
            GraphError,
            "distribution='cauchy' is not known",
        ),
        (
            lambda: gw.init.truncated_normal((2,), lower=1.0, upper=1.0),
            GraphError,
            "nothing is between",
        ),
    ],
)
def test_refusals(make: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()  # type: ignore[operator]

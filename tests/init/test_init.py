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


# -- against the formulas, jax and torch -----------------------------------------------------------

FANS = {MATRIX: (300, 200), KERNEL: (450, 540)}


@pytest.mark.parametrize("mode", ["fan_in", "fan_out", "fan_avg"])
@pytest.mark.parametrize("distribution", ["normal", "truncated_normal", "uniform"])
@pytest.mark.parametrize("shape", [MATRIX, KERNEL])
def test_variance_scaling_has_exactly_its_variance(
    shape: tuple[int, ...], distribution: str, mode: str
) -> None:
    fan_in, fan_out = FANS[shape]
    n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[mode]
    w = gw.init.variance_scaling(
        shape, "float64", scale=1.7, mode=mode, distribution=distribution, seed=3
    )
    std = math.sqrt(1.7 / n)
    assert abs(w.var() / std**2 - 1) < 4 * math.sqrt(2 / w.size)
    limit = {"normal": math.inf, "truncated_normal": 2 / 0.8796256610342398, "uniform": 3**0.5}
    largest = np.abs(w).max() / std
    assert largest <= limit[distribution]
    if distribution == "uniform":  # the largest of n numbers falls short of the limit by 1/n or so
        assert largest > limit[distribution] * (1 - 20 / w.size)


@pytest.mark.parametrize("shape", [MATRIX, KERNEL])
def test_variances_and_limits_are_jax_s(shape: tuple[int, ...]) -> None:
    jax = pytest.importorskip("jax", reason="no jax: pip install -e '.[oracle]'")
    theirs = jax.nn.initializers
    axes = {"in_axis": -2, "out_axis": -1} if len(shape) == 2 else {"in_axis": 1, "out_axis": 0}
    pairs = [
        (gw.init.xavier_uniform, theirs.glorot_uniform(**axes)),
        (gw.init.xavier_normal, theirs.variance_scaling(1.0, "fan_avg", "normal", **axes)),
        (gw.init.he_uniform, theirs.he_uniform(**axes)),
        (gw.init.he_normal, theirs.variance_scaling(2.0, "fan_in", "normal", **axes)),
        (gw.init.lecun_uniform, theirs.lecun_uniform(**axes)),
        (gw.init.lecun_normal, theirs.variance_scaling(1.0, "fan_in", "normal", **axes)),
        (gw.init.variance_scaling, theirs.lecun_normal(**axes)),
        (gw.init.sigmoid_uniform, theirs.variance_scaling(16.0, "fan_avg", "uniform", **axes)),
        (
            gw.init.variance_scaling(mode="fan_out", distribution="uniform"),
            theirs.variance_scaling(1.0, "fan_out", "uniform", **axes),
        ),
        (gw.init.truncated_normal(std=0.3), theirs.truncated_normal(0.3)),
    ]
    for ours, reference in pairs:
        a = np.abs(_seeded(ours)(shape, "float64"))
        b = np.abs(np.asarray(reference(jax.random.key(1), shape), "float64"))
        _same_distribution(a, b)


@pytest.mark.parametrize("shape", [(200, 300), KERNEL])
def test_variances_and_limits_are_torch_s(shape: tuple[int, ...], torch: object) -> None:
    theirs = torch.nn.init  # type: ignore[attr-defined]
    torch.manual_seed(0)  # type: ignore[attr-defined]
    own = shape[::-1] if len(shape) == 2 else shape  # torch has its matrices as [out, in]
    pairs = [
        (gw.init.xavier_uniform(gain=0.7), lambda w: theirs.xavier_uniform_(w, 0.7)),
        (gw.init.xavier_normal, theirs.xavier_normal_),
        (
            gw.init.he_uniform(slope=0.5),
            lambda w: theirs.kaiming_uniform_(w, 0.5, nonlinearity="leaky_relu"),
        ),
        (
            gw.init.he_normal(mode="fan_out"),
            lambda w: theirs.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"),
        ),
        (gw.init.fan_in_uniform, lambda w: theirs.kaiming_uniform_(w, math.sqrt(5))),
        (gw.init.truncated_normal(std=1.0), lambda w: theirs.trunc_normal_(w)),
    ]
    for ours, reference in pairs:
        a = np.abs(_seeded(ours)(own, "float64"))
        drawn = reference(torch.empty(shape, dtype=torch.float64))  # type: ignore[attr-defined]
        _same_distribution(a, np.abs(drawn.numpy()))


def _same_distribution(a: np.ndarray, b: np.ndarray) -> None:
    """Compare two samples of one size: their largest distance is that of Kolmogorov-Smirnov."""
    a, b = np.sort(a.ravel()), np.sort(b.ravel())
    both = np.concatenate([a, b])
    distance = np.abs(np.searchsorted(a, both, "right") - np.searchsorted(b, both, "right")).max()
    assert distance / a.size < 1.95 * math.sqrt(2 / a.size)  # exceeded once in a thousand


@pytest.mark.parametrize(
    ("make", "limit"),
    [
        (gw.init.sigmoid_uniform, 4 * math.sqrt(6 / 500)),
        (gw.init.fan_in_uniform, 1 / math.sqrt(300)),
        (gw.init.he_uniform(slope=2.0), math.sqrt(6 / 5 / 300)),
        (gw.init.lecun_uniform, math.sqrt(3 / 300)),
        (gw.init.variance_scaling(mode="fan_out", distribution="uniform"), math.sqrt(3 / 200)),
        (gw.init.variance_scaling(mode="fan_avg", distribution="uniform"), math.sqrt(3 / 250)),
    ],
)
def test_limits_are_those_of_the_formulas(make: object, limit: float) -> None:
    w = _seeded(make)(MATRIX, "float64")
    assert limit * (1 - 20 / w.size) < np.abs(w).max() <= limit


@pytest.mark.parametrize(
    ("shape", "groups"),
    [((6, 4, 3), 1), ((6, 3, 3, 3), 2), ((4, 6, 2, 4), 1), ((3, 3, 1, 3, 5), 1)],
)
def test_dirac_is_torch_s(shape: tuple[int, ...], groups: int, torch: object) -> None:
    empty = torch.empty(shape)  # type: ignore[attr-defined]
    reference = torch.nn.init.dirac_(empty, groups)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(gw.init.dirac(shape, groups=groups), reference.numpy())


def test_dirac_passes_its_input_on(rng: np.random.Generator) -> None:
    g = gw.Graph()
    x = g.placeholder("x", (2, 3, 5, 7))
    w = g.variable("w", (3, 3, 3, 3), init=gw.init.dirac)
    y = gw.cnn.conv2d(x, w, padding="same")
    fed = rng.standard_normal((2, 3, 5, 7)).astype("float32")
    np.testing.assert_allclose(g.output({"x": fed}, y)[y.name], fed, 1e-6)


def test_delta_orthogonal_keeps_norms() -> None:
    w = gw.init.delta_orthogonal((6, 4, 3, 5), "float64", gain=2.0, seed=1)
    middle = w[:, :, 1, 2] / 2
    np.testing.assert_allclose(middle.T @ middle, np.eye(4), atol=1e-13)
    w[:, :, 1, 2] = 0
    assert not w.any()


def test_distributions_by_their_quantiles() -> None:
    w = gw.init.distribution(lambda u: -np.log(u), seed=2)((400, 500), "float64")
    assert w.min() > 0 and abs(w.mean() - 1) < 4 / math.sqrt(w.size)
    assert abs(np.median(w) - math.log(2)) < 0.01
    again = gw.init.distribution(lambda u: -np.log(u), seed=2)((400, 500))
    np.testing.assert_array_equal(again, w.astype("float32"))


def test_given_arrays() -> None:
    given = np.arange(6.0).reshape(2, 3)
    init = gw.init.array(given)
    first = init((2, 3))
    first[:] = given[:] = -1.0  # neither is what the initializer holds
    assert init((2, 3), "int32").tolist() == [[0, 1, 2], [3, 4, 5]]


def test_further_aliases() -> None:
    assert gw.init.xavier_fan_in is gw.init.lecun_normal


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gw.init.array([1.0, 2.0])((3,)), r"an array of shape \(2,\) is given"),
        (lambda: gw.init.dirac((2, 2)), "dirac cannot fill"),
        (lambda: gw.init.dirac((3, 2, 3), groups=2), "groups=2 do not divide 3"),
        (lambda: gw.init.delta_orthogonal((2, 3, 3)), "3 inputs to 2 outputs"),
        (lambda: gw.init.distribution(lambda u: u[0])((2, 2)), "the quantile function gives"),
        (lambda: gw.init.distribution(lambda u: u / 0.0)((2, 2)), "no finite numbers"),
    ],
)
def test_further_refusals(make: object, message: str) -> None:
    with np.errstate(all="ignore"), pytest.raises((ShapeError, GraphError), match=message):
        make()  # type: ignore[operator]

"""Linear algebra at its edges: equal values, singular matrices, infinities, large norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw

Array = np.ndarray[Any, Any]
TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
WEIGHT = np.arange(9.0).reshape(3, 3)


def slopes(function: Callable[[Any], Any], x: Array) -> Array:
    g = gw.Graph()
    t = g.placeholder("x", x.shape, x.dtype)
    (slope,) = gw.gradients(function(t), [t])
    with gw.Session(g) as session:
        return np.asarray(session.run(slope, {t: x}))


def nearest_orthogonal(x: Any) -> Any:
    u, _, vh = gw.svd(x, full_matrices=False)
    return ((u @ vh) * WEIGHT[:, : x.shape[1]]).sum()


def spectral_exp(x: Any) -> Any:
    w, v = gw.eigh(x)
    return ((v * gw.exp(w)) @ v.mT * WEIGHT).sum()


@pytest.mark.parametrize("x", [np.eye(3), TURN, np.diag([1.0, 1, 2]), TURN[:, :2]])
def test_nearest_orthogonal_matrix_has_its_gradient(x: Array) -> None:
    """dq = u·(k/(sᵢ + sⱼ))·vᴴ for the antisymmetric k = uᴴ·dx·v − vᴴ·dxᴴ·u, and what is outside."""
    q = nearest_orthogonal
    wanted = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[at] = 1e-6
        ends = []
        for y in (x + step, x - step):
            u, _, vh = np.linalg.svd(y, full_matrices=False)
            ends.append(((u @ vh) * WEIGHT[:, : x.shape[1]]).sum())
        wanted[at] = (ends[0] - ends[1]) / 2e-6
    np.testing.assert_allclose(slopes(q, x), wanted, atol=1e-7)


@pytest.mark.parametrize("x", [np.eye(3), TURN @ np.diag([1.0, 1, 3]) @ TURN.T])
def test_functions_of_values_and_vectors_have_no_gradient_at_equal_values(x: Array) -> None:
    batch = np.stack([np.diag([1.0, 2, 3]), x])
    weight = np.linspace(0, 1, 9).reshape(3, 3)

    def spectral(t: Any) -> Any:
        w, v = gw.eigh(t)
        return ((v * gw.exp(w)[..., None, :]) @ v.mT * weight).sum()

    found = slopes(spectral, batch)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).any()


def test_functions_of_values_alone_keep_their_gradient() -> None:
    def cubes(x: Any) -> Any:
        w, _ = gw.eigh(x)
        return (w * w * w).sum()

    np.testing.assert_allclose(slopes(cubes, np.eye(3)), 3 * np.eye(3), atol=1e-12)


def test_second_derivatives_at_equal_eigenvalues_are_not_silently_wrong() -> None:
    def slope(x: Any) -> Any:
        (found,) = gw.gradients(gw.exp(gw.linalg.eigvalsh(x)).sum(), [x])
        return (found * WEIGHT).sum()

    assert np.isnan(slopes(slope, np.eye(3))).any()


def test_the_check_does_not_take_a_wrong_zero_for_a_kink() -> None:
    """Vectors jump where eigenvalues are equal; a loss that is smooth there has one gradient."""
    g = gw.Graph()
    x = g.variable("x", (3, 3), init=np.eye(3), dtype="float64")
    v = gw.eigh(x)[1]
    w = gw.linalg.eigvalsh(x)  # apart, so that the gradient takes v·f(w)·vᴴ for one of v alone
    loss = ((v * gw.exp(w)) @ v.mT * WEIGHT).sum()
    assert not gw.gradient_check(g, loss).passed


def test_the_check_passes_right_gradients_at_equal_values() -> None:
    for function in (nearest_orthogonal, lambda x: gw.exp(gw.eigh(x)[0]).sum()):
        g = gw.Graph()
        x = g.variable("x", (3, 3), init=np.eye(3), dtype="float64")
        assert gw.gradient_check(g, function(x)).passed


def laplace(x: Any) -> Any:
    """Return the determinant, written out."""
    n = x.shape[-1]
    if n == 1:
        return x[0, 0]
    rest = [[j for j in range(n) if j != k] for k in range(n)]
    return sum(
        (-1) ** k * x[0, k] * laplace(gw.stack([x[1:, j] for j in rest[k]], axis=1))
        for k in range(n)
    )


@pytest.mark.parametrize(("n", "rank"), [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (4, 2), (4, 4)])
def test_second_derivatives_of_det(n: int, rank: int) -> None:
    rng = np.random.default_rng(n + rank)
    x = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n))
    direction = rng.standard_normal((n, n))

    def along(det: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def slope(t: Any) -> Any:
            (found,) = gw.gradients(det(t) * (1.0 + 0.0 * t.sum()), [t])
            return (found * direction).sum() + 0.0 * (t * t).sum()

        return slope

    np.testing.assert_allclose(slopes(along(gw.det), x), slopes(along(laplace), x), atol=1e-10)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_det_of_matrices_that_are_not_finite_ends(bad: float, order: int) -> None:
    x = np.stack([np.eye(3) + 1, np.eye(3)])
    x[1, 0, 0] = bad

    def function(t: Any) -> Any:
        y = gw.det(t).sum()
        return y if order == 1 else (gw.gradients(y, [t])[0] * WEIGHT).sum()

    found = slopes(function, x)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()


def test_the_largest_numbers_have_a_spectrum() -> None:
    g = gw.Graph()
    w = gw.linalg.eigvalsh(g.constant(np.diag([1e308, 1.5e308])))
    np.testing.assert_allclose(g.output({}, w)[w.name], [1e308, 1.5e308])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("b", [1e3, 1e6, 1e10, 1e30])
def test_exponential_of_nilpotent_matrices(b: float, dtype: str) -> None:
    """exp([[0, b], [0, 0]]) = [[1, b], [0, 1]], whose slope of the sum is known, too."""
    x = np.array([[0, b], [0, 0]], dtype)
    g = gw.Graph()
    y = gw.matrix_exp(g.constant(x))
    np.testing.assert_allclose(
        g.output({}, y)[y.name], np.eye(2) + x, rtol=4 * float(np.finfo(dtype).eps)
    )


@pytest.mark.parametrize("b", [1.0, 1e3, 1e6])
def test_exponential_of_triangles_with_a_large_corner(b: float) -> None:
    """exp([[a, b], [0, c]]) has the corner b·(eᵃ − eᶜ)/(a − c)."""
    x = np.array([[1.0, b], [0, -2.0]])
    g = gw.Graph()
    y = gw.matrix_exp(g.constant(x))
    found = g.output({}, y)[y.name]
    corner = b * (np.exp(1.0) - np.exp(-2.0)) / 3
    np.testing.assert_allclose(
        found, [[np.exp(1.0), corner], [0, np.exp(-2.0)]], rtol=1e-11, atol=1e-12
    )


@pytest.mark.parametrize("shape", [(3, 3), (0, 0), (0, 2, 2)])
def test_exponential_of_zeros(shape: tuple[int, ...]) -> None:
    g = gw.Graph()
    y = gw.matrix_exp(g.constant(np.zeros(shape)))
    np.testing.assert_array_equal(g.output({}, y)[y.name], np.zeros(shape) + np.eye(shape[-1]))


@pytest.mark.parametrize("size", [1e-200, 1e-12, 1e12, 1e200])
def test_slopes_of_the_exponential_are_linear_in_cotangents(size: float) -> None:
    x = np.random.default_rng(0).standard_normal((4, 4))
    plain = slopes(lambda t: (gw.matrix_exp(t) * np.arange(16.0).reshape(4, 4)).sum(), x)
    found = slopes(lambda t: (gw.matrix_exp(t) * (size * np.arange(16.0).reshape(4, 4))).sum(), x)
    np.testing.assert_allclose(found, size * plain, rtol=1e-12)

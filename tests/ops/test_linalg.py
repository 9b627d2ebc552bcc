"""Matrices where libraries give no answer: bases that turn, equal values, singular matrices."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError, GraphError, ShapeError
from gradwright.op import find_op
from gradwright.ops.matrices.factors import PANEL
from gradwright.ops.matrices.patterns import cheapest
from gradwright.ops.matrices.solutions import BLOCK
from gradwright.testing import SAMPLE_CHECKS, samples

Array = np.ndarray[Any, Any]


def run(function: Callable[..., Any], *arrays: Array) -> list[Array]:
    g = gw.Graph()
    with g:
        ys = function(*(g.constant(a) for a in arrays))
    return list(g.output({}, *(ys if isinstance(ys, tuple) else (ys,))).values())


def slope_error(function: Callable[[Any], Any], x: Array, order: int = 1) -> float:
    """Return by how much the gradient along a direction differs from central differences."""
    rng = np.random.default_rng(5)
    direction = rng.standard_normal(x.shape)
    g = gw.Graph()
    t = g.placeholder("x", x.shape, x.dtype)
    with g:
        y = function(t)
    for _ in range(order - 1):
        (slope,) = gw.gradients(y, [t])
        y = (slope * g.constant(rng.standard_normal(x.shape))).sum()
    (slope,) = gw.gradients(y, [t])
    with gw.Session(g) as session:
        exact = float((session.run([slope], {t: x})[0] * direction).sum())
        h = 1e-5
        above, below = (session.run([y], {t: x + s * h * direction})[0] for s in (1, -1))
    numeric = float(above - below) / (2 * h)
    return abs(exact - numeric) / max(1.0, abs(exact))


def squared(x: Any) -> Any:
    return (x * x).sum()


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 3)])
def test_bases_beyond_the_rank_may_turn(
    rng: np.random.Generator, shape: tuple[int, ...], order: int
) -> None:
    """A function of the spaces that u and vh span has a gradient, although u and vh turn freely."""
    weight = rng.standard_normal((shape[-2], shape[-2]))
    other = rng.standard_normal((shape[-1], shape[-1]))

    def spaces(x: Any) -> Any:
        u, s, vh = gw.linalg.svd(x)
        k = min(shape[-2:])
        left, right = u[..., k:] @ u[..., k:].mT, vh[..., k:, :].mT @ vh[..., k:, :]
        return (left * weight).sum() + (right * other).sum() + squared(s * s)

    assert slope_error(spaces, rng.standard_normal(shape), order) < 1e-6


@pytest.mark.parametrize("order", [1, 2])
def test_complete_qr_passes_on_what_flows_to_the_rest(rng: np.random.Generator, order: int) -> None:
    weight = rng.standard_normal((5, 5))

    def rest(x: Any) -> Any:
        q, r = gw.linalg.qr(x, mode="complete")
        return (q[:, 2:] @ q[:, 2:].mT * weight).sum() + squared(r * q[:1, :1])

    assert slope_error(rest, rng.standard_normal((5, 2)), order) < 1e-6


def test_equal_eigenvalues_leave_gradients_of_their_space(rng: np.random.Generator) -> None:
    """x has the eigenvalue 1 twice, to the bit; its projector on 1 and 1 does not see the basis."""
    weight = rng.standard_normal((3, 3))

    def projector(x: Any) -> Any:
        _, v = gw.linalg.eigh(x)
        return ((v[:, :2] @ v[:, :2].mT) * weight).sum()

    assert slope_error(projector, np.diag([1.0, 1.0, 3.0])) < 1e-6


def test_equal_singular_values_leave_gradients_of_their_space(rng: np.random.Generator) -> None:
    weight = rng.standard_normal((3, 3))

    def polar(x: Any) -> Any:
        u, _, vh = gw.linalg.svd(x)
        return ((u[:, :2] @ u[:, :2].mT) * weight).sum() + (vh[2:].mT @ vh[2:]).sum()

    assert slope_error(polar, np.diag([2.0, 2.0, 1.0])) < 1e-6


def test_signs_of_vectors_are_the_same_everywhere(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 6, 6))
    u, s, vh = run(gw.linalg.svd, x)
    assert (np.take_along_axis(u, np.abs(u).argmax(-2)[:, None], -2) > 0).all()
    np.testing.assert_allclose(u * s[:, None] @ vh, x, atol=1e-12)
    w, v = run(gw.linalg.eigh, x)
    np.testing.assert_allclose(v * w[:, None] @ v.swapaxes(1, 2), (x + x.swapaxes(1, 2)) / 2)
    # of components equally large the first is positive, whatever rounding makes of them
    _, v = run(gw.linalg.eigh, np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert (v[0] > 0).all()


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_det_of_singular_matrices_has_a_gradient(rng: np.random.Generator, rank: int) -> None:
    """Cofactors, computed one by one."""
    x = rng.standard_normal((4, rank)) @ rng.standard_normal((rank, 4))
    g = gw.Graph()
    t = g.placeholder("x", (4, 4), "float64")
    (slope,) = gw.gradients(gw.linalg.det(t), [t])
    found = g.output({"x": x}, slope)[slope.name]
    minors = [
        [np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) * (-1) ** (i + j) for j in range(4)]
        for i in range(4)
    ]
    np.testing.assert_allclose(found, minors, atol=1e-13)


@pytest.mark.parametrize("n", [BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5])
@pytest.mark.parametrize("lower", [True, False])
def test_substitution_by_blocks(rng: np.random.Generator, n: int, lower: bool) -> None:
    a = rng.standard_normal((n, n)) / n + np.eye(n)
    b = rng.standard_normal((2, n, 3))
    (y,) = run(lambda a, b: gw.linalg.triangular_solve(a, b, lower=lower), a, b)
    np.testing.assert_allclose((np.tril(a) if lower else np.triu(a)) @ y, b, atol=1e-12)


@pytest.mark.parametrize("shape", [(3 * PANEL + 1, 2 * PANEL), (PANEL, 2 * PANEL), (2, 40, 40)])
def test_lu_by_panels(rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    x = rng.standard_normal(shape)
    p, lower, upper = run(gw.linalg.lu, x)
    np.testing.assert_allclose(p @ lower @ upper, x, atol=1e-12)
    assert np.abs(lower).max() == 1.0, "a pivot is not the largest of its column"
    assert (p.sum(-1) == 1).all()
    assert (p.sum(-2) == 1).all()


def test_lu_of_singular_matrices() -> None:
    x = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    p, lower, upper = run(gw.linalg.lu, x)
    np.testing.assert_array_equal(p @ lower @ upper, x)


def test_lstsq_of_dependent_columns_is_the_smallest_solution(rng: np.random.Generator) -> None:
    a = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 4))
    b = rng.standard_normal((6, 3))
    (y,) = run(gw.linalg.lstsq, a, b)
    np.testing.assert_allclose(y, np.linalg.lstsq(a, b)[0], atol=1e-12)


def test_pinv_leaves_out_small_singular_values(rng: np.random.Generator) -> None:
    x = np.diag([1.0, 1e-3])
    (y,) = run(lambda x: gw.linalg.pinv(x, rtol=1e-2), x)
    np.testing.assert_allclose(y, np.diag([1.0, 0.0]))


@pytest.mark.parametrize(
    "name",
    [
        *("inv", "solve", "triangular_solve", "pinv", "lstsq", "det", "slogdet", "logdet"),
        *("cholesky", "qr", "lu", "eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals"),
        *("matrix_exp", "matrix_power", "condition_number", "cross", "multi_dot"),
    ],
)
def test_second_gradients_of_complex_matrices(rng: np.random.Generator, name: str) -> None:
    cls = find_op(name)
    for sample in filter(lambda s: s.smooth, samples(cls)):
        xs = tuple(x + 0.3j * rng.standard_normal(x.shape) for x in sample.inputs)
        SAMPLE_CHECKS["second"](cls, gw.Sample(xs, sample.attrs))


def test_multi_dot_takes_the_cheapest_order() -> None:
    """The example of Cormen et al., Introduction to Algorithms, section 15.2: 15,125 products."""
    sizes = 30, 35, 15, 5, 10, 20, 25
    shapes = list(itertools.pairwise(sizes))
    cuts = cheapest(shapes)
    assert cuts[0, 5] == 2
    assert (cuts[0, 2], cuts[3, 5]) == (0, 4)
    assert cheapest([(gw.Dim.symbol("B"), 3), (3, 4), (4, 5)]) == {}


@pytest.mark.parametrize(
    "function",
    [gw.linalg.inv, lambda x: gw.linalg.solve(x, x), gw.linalg.cholesky],
)
def test_singular_matrices_are_named(function: Callable[..., Any]) -> None:
    with pytest.raises(GradwrightError, match=r"(?s)(singular|not positive def).*f64\[2, 2\]"):
        run(function, np.zeros((2, 2)))


def test_sizes_that_cannot_be_compared_are_asked_for() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("N", 3))
    for function in (gw.linalg.qr, gw.linalg.lu, gw.linalg.svd):
        with pytest.raises(ShapeError, match="cannot tell which of N and 3 is larger"):
            function(x)
    s = gw.linalg.svdvals(x)
    assert g.output({"x": np.ones((2, 3), np.float32)}, s)[s.name].shape == (2,)
    square = g.placeholder("square", ("B", "M", "M"))
    q, r = gw.linalg.qr(square)
    assert str(q.spec) == str(r.spec) == "f32[B, M, M]"


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3)])
def test_svd_of_sizes_known_when_run_has_the_same_gradient(
    rng: np.random.Generator, shape: tuple[int, int]
) -> None:
    x, found = rng.standard_normal(shape), []
    for sizes in (shape, ("M", "N")):
        g = gw.Graph()
        t = g.placeholder("x", sizes, "float64")
        with g:
            u, s, vh = gw.linalg.svd(t, full_matrices=False)
            y = squared(u[:1] * s) + (vh[:, 1] * s[0]).sum() + u[-1, 0]
        (slope,) = gw.gradients(y, [t])
        found.append(g.output({"x": x}, slope)[slope.name])
    np.testing.assert_allclose(*found, atol=1e-12)


@pytest.mark.parametrize(
    ("a", "b", "joint"),
    [("float16", "float32", "float32"), ("float32", "complex64", "complex64"),
     ("float16", "bfloat16", "float32"), ("float16", "float16", "float16")],
)  # fmt: skip
def test_matrices_of_two_dtypes_meet_in_their_common_one(a: str, b: str, joint: str) -> None:
    g = gw.Graph()
    x, y = g.placeholder("x", (2, 2), a), g.placeholder("y", (2, 2), b)
    feeds = {"x": np.eye(2).astype(x.dtype), "y": np.ones((2, 2)).astype(y.dtype)}
    for function in (gw.linalg.solve, gw.linalg.triangular_solve, gw.linalg.lstsq):
        z = function(x, y)
        found = g.output(feeds, z)[z.name]
        assert z.dtype == found.dtype == joint
        np.testing.assert_allclose(found.astype("complex128"), 1.0, rtol=1e-3)


@pytest.mark.parametrize(
    ("build", "bad", "problem", "hint"),
    [
        (gw.linalg.inv, 0.0, r"singular matrix, at \[1\]", "gw.linalg.pinv"),
        (lambda x: gw.linalg.solve(x, x), 0.0, r"singular matrix, at \[1\]", "lstsq"),
        (gw.linalg.cholesky, -1.0, r"not positive definite, at \[1\]", "eigvalsh"),
        (gw.linalg.svdvals, np.inf, r"the matrix at \[1\] holds NaN or infinity", ""),
        (gw.linalg.matrix_rank, np.inf, r"the matrix at \[1\] holds NaN or infinity", ""),
        (gw.linalg.eigvalsh, np.nan, r"the matrix at \[1\] holds NaN or infinity", ""),
        (gw.linalg.pinv, np.nan, r"the matrix at \[1\] holds NaN or infinity", ""),
    ],
)
def test_the_matrix_without_a_result_is_named(
    build: Any, bad: float, problem: str, hint: str
) -> None:
    g = gw.Graph()
    y = build(g.constant(np.stack([np.eye(2), np.full((2, 2), bad), np.eye(2)])))
    with pytest.raises(GraphError, match=problem) as caught:
        gw.Session(g).run(y)
    assert hint in caught.value.hint


def test_each_matrix_is_exponentiated_for_itself() -> None:
    turn = np.array([[0.0, 3e4], [-3e4, 0.0]])
    small = np.array([[0.1, 0.2], [0.0, 0.3]])
    g = gw.Graph()
    x = g.constant(np.stack([small, turn, np.full((2, 2), np.inf)]).astype("float32"))
    found = g.output({}, gw.linalg.matrix_exp(x, name="y"))["y"]
    upper = 0.2 * (np.exp(0.3) - np.exp(0.1)) / 0.2
    exact = [[np.exp(0.1), upper], [0.0, np.exp(0.3)]]
    np.testing.assert_allclose(found[0], exact, rtol=3e-7)  # not squared with the large one
    np.testing.assert_allclose(found[1] @ found[1].T, np.eye(2), atol=5e-2)
    assert np.isnan(found[2]).all()

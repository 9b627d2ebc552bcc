"""What rows beside torch cannot show of arrays and arithmetic: errors, branches,
gradients of higher order, and results whose size only a run tells."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError
from gradwright.ops.arrays.sets import Unique
from gradwright.ops.reference.samediff import SAMEDIFF


def run(y: Any, feeds: Any = None) -> Any:
    with gw.Session(y.graph) as session:
        return session.run(y, feeds or {})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: gw.segment_sum(x, [0, 1, 0]), "never fall"),
        (lambda x: gw.segment_max(x, [-1, 0, 0]), "never fall"),
        (lambda x: gw.unsorted_segment_sum(x, [0, 3, 1], 3), "3 is out of range for 3"),
        (lambda x: gw.dynamic_stitch([0, -2, 1], x), "-2 of dynamic_stitch is negative"),
        (lambda x: gw.bincount(gw.cast(x - 9.0, "int64")), "numbers >= 0"),
        (lambda x: gw.invert_permutation(gw.cast(x * 0.0, "int64")), "no permutation"),
        (lambda x: gw.confusion_matrix([0, 1, 5], [0, 0, 0], x, num_classes=3), "not all in 0..2"),
        (lambda x: gw.reverse_sequence(gw.reshape(x, (1, 3)), [4]), "not all in 0..3"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(build: Any, message: str) -> None:
    g = gw.Graph()
    with g:
        y = build(g.constant([1.0, 2.0, 3.0]))
    with pytest.raises((IndexError, GradwrightError), match=message):
        run(y)


def test_switch_leaves_the_other_way_without_rows_and_merge_takes_the_live_one() -> None:
    g = gw.Graph()
    x, pred = g.placeholder("x", ("B", 2)), g.placeholder("pred", (), "bool")
    w = g.variable("w", (2, 2), init=gw.init.ones)
    off, on = gw.switch(x, pred)
    y = gw.merge(off @ w, on * 3.0)
    dx, dw = gw.gradients(y.sum(), [x, w])
    rows = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    with gw.Session(g) as session:
        for value in (False, True):
            feeds = {"x": rows, "pred": value}
            found = session.run([off, on, y, dx, dw], feeds)
            assert found[0].shape == ((0, 2) if value else (3, 2))
            assert found[1].shape == ((3, 2) if value else (0, 2))
            np.testing.assert_array_equal(found[2], rows * 3 if value else rows @ np.ones((2, 2)))
            np.testing.assert_array_equal(found[3], np.full((3, 2), 3.0 if value else 2.0))
            assert np.any(found[4]) != value  # what was not taken has no gradient


def test_partition_and_stitch_undo_each_other() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 20)
    g = gw.Graph()
    x = g.placeholder("x", ("N", 4))
    parts = gw.dynamic_partition(x, labels, 3)
    places = gw.dynamic_partition(g.constant(np.arange(20)), labels, 3)
    y = gw.dynamic_stitch(*places, *parts)
    (dx,) = gw.gradients((y * y).sum(), [x])
    data = rng.standard_normal((20, 4)).astype(np.float32)
    found, slope = (run(t, {"x": data}) for t in (y, dx))
    np.testing.assert_array_equal(found, data)
    np.testing.assert_allclose(slope, 2 * data, 1e-6)


def test_derivatives_of_lgamma_go_on_as_polygamma() -> None:
    g = gw.Graph()
    x = g.constant(1.0, dtype="float64")
    y = gw.lgamma(x)
    for n in range(1, 7):
        (y,) = gw.gradients(y, [x])
        # ψ⁽ᵐ⁾(1) = (−1)ᵐ⁺¹·m!·ζ(m + 1)
        zeta = sum(k**-n for k in range(1, 200_000)) if n > 2 else math.pi**2 / 6
        expected = -np.euler_gamma if n == 1 else (-1.0) ** n * math.factorial(n - 1) * zeta
        assert float(run(y)) == pytest.approx(expected, rel=1e-9)


def test_sinc_has_the_right_slopes_near_zero() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ())
    (dx,) = gw.gradients(gw.sinc(x), [x])
    (ddx,) = gw.gradients(dx, [x])
    for at in (0.0, 1e-6, 1e-3, 4e-3, 1e-2):
        slope, bend = (float(run(t, {"x": np.float32(at)})) for t in (dx, ddx))
        assert slope == pytest.approx(-(math.pi**2) * at / 3, rel=1e-3, abs=1e-12)  # to x³
        assert bend == pytest.approx(-(math.pi**2) / 3, rel=1e-2)


def test_products_have_gradients_of_second_order_at_zeros() -> None:
    """∂²(x₀·x₁·x₂)/∂x₀∂x₁ = x₂, even where x₀ = x₁ = 0."""
    g = gw.Graph()
    x = g.constant([0.0, 0.0, 5.0], dtype="float64")
    products = {
        "cumprod": gw.cumprod(x, 0)[2],
        "segment_prod": gw.segment_prod(x, [0, 0, 0])[0],
        "scatter_mul": gw.scatter_mul(g.constant([1.0], dtype="float64"), [0, 0, 0], x)[0],
    }
    for name, y in products.items():
        (dx,) = gw.gradients(y, [x])
        (ddx,) = gw.gradients(dx[0], [x])
        assert run(ddx).tolist() == [0.0, 5.0, 0.0], name


def test_running_products_of_many_elements_are_fast_and_right() -> None:
    """Ten thousand factors take some thirty passes, not ten thousand steps."""
    rng = np.random.default_rng(1)
    g = gw.Graph()
    x = g.placeholder("x", ("N",), "float64")
    (dx,) = gw.gradients(gw.cumprod(x, 0).sum(), [x])
    data = rng.uniform(0.9, 1.1, 10_000)
    p = np.cumprod(data)
    expected = np.cumsum(p[::-1])[::-1] / data
    np.testing.assert_allclose(run(dx, {"x": data}), expected, 1e-8)


def test_a_histogram_counts_every_element_once() -> None:
    x = np.random.default_rng(2).standard_normal(1000)
    g = gw.Graph()
    counts, edges = gw.histogram(g.constant(x, dtype="float64"), bins=7)
    found = run(counts)
    expected, bounds = np.histogram(x, 7)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(run(edges), bounds)


@pytest.mark.parametrize("namespace", ["base", "math", "bitwise"])
def test_each_samediff_name_has_an_op(namespace: str) -> None:
    known = gw.ops.namespace("base", "math", "bitwise", "linalg", "nn")
    assert not set(SAMEDIFF[namespace].values()) - set(known)


# -- infinities, NaN and limits ------------------------------------------------------------------


def test_a_factor_of_zero_forgets_infinities_and_no_span_overflows() -> None:
    g = gw.Graph()
    b = np.zeros(40)
    b[-1] = 1.0
    y = gw.nn.linear_scan(g.constant(np.full(40, 1e200)), g.constant(b))
    assert run(y).tolist() == b.tolist()
    y = gw.nn.linear_scan(g.constant([1.0, 0.0, 2.0]), g.constant([math.inf, 1.0, 0.0]), 5.0)
    assert run(y).tolist() == [math.inf, 1.0, 2.0]


@pytest.mark.parametrize("odd", [math.inf, math.nan])
def test_what_is_not_finite_stays_in_its_segment(odd: float) -> None:
    g = gw.Graph()
    x = g.constant([3.0, 4.0, odd, 2.0, 5.0, 6.0])
    (dx,) = gw.gradients(gw.segment_prod(x, [0, 0, 1, 1, 2, 2]).sum(), [x])
    np.testing.assert_array_equal(run(dx), [4.0, 3.0, 2.0, odd, 6.0, 5.0])


def test_a_product_with_a_logarithm_is_zero_where_its_factor_is() -> None:
    g = gw.Graph()
    a = g.constant(np.zeros(4))
    y = gw.xlogy(a, [0.0, -1.0, math.inf, math.nan])
    np.testing.assert_array_equal(run(y), [0.0, 0.0, 0.0, math.nan])


@pytest.mark.parametrize("n", [2, 20, 50])
def test_high_derivatives_of_digamma_below_zero_keep_their_digits(n: int) -> None:
    g = gw.Graph()
    x = -1.25
    series = math.fsum((x + k) ** -(n + 1) for k in range(2000))
    wanted = -((-1) ** n) * math.factorial(n) * series
    np.testing.assert_allclose(run(gw.polygamma(g.constant(np.array(x)), n)), wanted, rtol=1e-6)


def test_slices_with_nan_are_equal_to_each_other() -> None:
    g = gw.Graph()
    x = g.constant([[math.nan, 1.0], [0.0, 2.0], [math.nan, 1.0], [math.nan, 0.0]])
    values, _, inverse, counts = gw.unique(x, axis=0)
    np.testing.assert_array_equal(run(values), [[0.0, 2.0], [math.nan, 0.0], [math.nan, 1.0]])
    assert run(inverse).tolist() == [2, 0, 2, 1]
    assert run(counts).tolist() == [1, 1, 2]


def test_sums_of_whole_weights_are_exact() -> None:
    g = gw.Graph()
    ones, large = g.constant([1, 1]), g.constant([2**53, 1])
    assert run(gw.bincount(ones, large)).tolist() == [0, 2**53 + 1]
    assert run(gw.confusion_matrix(ones, ones, large))[1, 1] == 2**53 + 1


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        ([math.inf, math.inf], math.inf),
        ([-math.inf, 5.0], -math.inf),
        ([-math.inf, -math.inf, 1.0, 2.0], -math.inf),
        ([-math.inf, math.inf], math.nan),
    ],
)
def test_the_middle_of_infinities(x: list[float], wanted: float) -> None:
    g = gw.Graph()
    np.testing.assert_array_equal(run(gw.median(g.constant(x))), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_beta_function_of_large_numbers_keeps_its_digits(dtype: str) -> None:
    g = gw.Graph()
    n = np.array([3.0, 9.9, 20.0, 1e4, 1e8, 1e20], dtype)
    wide = n.astype(np.float64)
    y = run(gw.betaln(g.constant(n), g.constant(np.array(1.0, dtype))))
    np.testing.assert_allclose(y, -np.log(wide), rtol=1e-6 if dtype == "float32" else 1e-13)
    y = run(gw.betaln(g.constant(np.array(2.0, dtype)), g.constant(n)))
    wanted = -np.log(wide) - np.log(wide + 1)
    np.testing.assert_allclose(y, wanted, rtol=1e-6 if dtype == "float32" else 1e-13)


def test_the_sign_of_zero_tells_the_side_of_the_pole() -> None:
    g = gw.Graph()
    y = run(gw.digamma(g.constant([0.0, -0.0, -1.0])))
    np.testing.assert_array_equal(y, [-math.inf, math.inf, math.nan])


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("n", [0, 1, 60])
def test_distinct_elements_are_those_of_numpy(dtype: str, n: int) -> None:
    x = np.rint(np.random.default_rng(0).standard_normal(n) * 3).astype(dtype)
    if dtype == "float32" and n > 1:
        x[[2, 7]], x[1] = np.nan, -0.0
    found = Unique().forward(x)
    for a, b in zip(found, np.unique(x, True, True, True), strict=True):
        np.testing.assert_array_equal(a, b)
    values, first, inverse, _ = Unique(sorted=False).forward(x)
    np.testing.assert_array_equal(np.sort(first), first)
    np.testing.assert_array_equal(values[inverse] if n else x, x)

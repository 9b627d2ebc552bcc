"""Rewrites: the value of a node is the same alone, beside what lies between, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.rewrite import RULES
from gradwright.rewrite.examples import example
from gradwright.session.plain import _difference
from tests.support.graph_programs import feeds_for

POOLS = {
    "ordinary": None,
    "large": [1e20, -1e20, 3e19, 5e19],
    "small": [1e-25, -1e-25, 3e-25, 1e-24],
    "far": [1e3, -1e3, 999.0, 50.0],
    "infinite": [np.inf, -np.inf, 1.0, 2.0, 0.0],
    "mixed": [1e30, -1e30, 1e-30, 1e-42, 3e38, 88.0, -104.0, 0.0, -0.0, 1.0, 2.5],
}
PRODUCTS = {"large": [1e17, -1e17, 3e16, 5e16], "mixed": [1e15, -1e15, 1e-30, 0.0, -0.0, 1.0]}
"""What products of matrices have instead: a number is taken into them below 1e34."""


def pools(name):
    """Return the numbers to feed to the example of a rule."""
    return POOLS | PRODUCTS if "matmul" in name or name == "sum_behind" else POOLS


def same(a, b):
    """Tell whether two arrays are equal up to the rounding of what their numbers were made of."""
    if a.dtype.kind not in "fV":
        return np.array_equal(a, b)
    eps = 2.0**-8 if a.dtype.kind == "V" else np.finfo(a.dtype).eps
    a, b = a.astype(np.float64), b.astype(np.float64)
    scale = np.abs(a[np.isfinite(a)]).max(initial=0.0)
    return np.allclose(a, b, rtol=40 * eps, atol=4 * eps * scale + 1e-45, equal_nan=True)


def sketch(name):
    """Return a rule's result on its example, what lies between, gradients, and what is fed."""
    y = example(RULES[name])
    g = y.graph
    fed = list(g.placeholders)
    inner = [t for n in g.nodes if n.kind == "array" for t in n.outputs if t is not y]
    smooth = [t for t in fed if t.spec.differentiable]
    slopes = []
    if smooth and y.spec.differentiable:
        with g:
            slopes = gw.gradients(y.sum(), smooth, unreachable="zero")
    return g, y, inner, slopes, fed


@pytest.mark.parametrize("name", RULES)
def test_values_do_not_depend_on_what_else_is_fetched(name):
    g, y, inner, slopes, fed = sketch(name)
    fetches = [[y], [y, *slopes], [y, *inner], [y, *inner, *slopes], [*inner, *slopes]]
    fetches += [[t] for t in (*inner, *slopes)] + [[y, t] for t in inner]
    fetches += [[d, t] for d in slopes for t in inner]
    with gw.Session(g, kernels="off") as s:
        for pool in pools(name).values():
            feeds, first = feeds_for(fed, 5, pool), {}
            for targets in filter(None, fetches):
                for t, value in zip(targets, s.run(targets, feeds), strict=True):
                    assert same(first.setdefault(t, value), value), (t.name, targets, pool)


@pytest.mark.parametrize("name", RULES)
def test_kernels_and_the_plain_run_agree_at_extremes(name):
    g, y, inner, slopes, fed = sketch(name)
    with gw.Session(g, kernels="wait", check="replay") as s:
        for targets in ([y], [y, *inner, *slopes]):
            for pool in pools(name).values():
                s.run(targets, feeds_for(fed, 5, pool))


@pytest.mark.parametrize(
    "build",
    [
        lambda x: (x * 3.0) / 5.0,
        lambda x: (x / 3.0) * 5.0,
        lambda x: (x * 1e-3) * 1e3,
        lambda x: (x / 1e30) / 1e-30,
        lambda x: (x + 1e8) + 1.0,
        lambda x: (x - 1.0) - 1e-9,
        lambda x: x * (1.0 / x),
        lambda x: x.sum(1).sum(),
    ],
)
def test_two_steps_stay_two_where_one_would_overflow_underflow_or_cancel_elsewhere(build):
    g = gw.Graph()
    y = build(g.placeholder("x", (2, 4)))
    inner = y.node.inputs[0] if y.node.inputs[0].node.kind == "array" else y.node.inputs[1]
    x = np.array([[3e38, 3e38, -1e8, 1.0], [-3e38, -3e38, 1e-40, 1e-44]], np.float32)
    with gw.Session(g, kernels="off") as s:
        alone, beside = s.run(y, {"x": x}), s.run([y, inner], {"x": x})[0]
    np.testing.assert_array_equal(alone, beside)


def test_a_difference_of_nothing_but_nan_is_told():
    nan, one = np.full(2, np.nan), np.ones(2)
    assert _difference(nan, one) == "largest difference at [0]: nan against 1.0"

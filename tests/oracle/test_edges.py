"""NaN, infinities, denormals and halves beside PyTorch: what comes out, and no warnings."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from tests.oracle.rows import Case, Row, hold, normal, our_side

NUMBERS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1e-45, 1.0, -1.0, 99, -99])
ROWS = np.array(
    [
        [1, np.nan, 2, 3],
        [np.inf, 1, 2, 0],
        [-np.inf, 1, 0, 2],
        [np.inf, np.inf, 1, 2],
        [np.inf, -np.inf, 0, 1],
        [np.nan, np.inf, -np.inf, 0],
        [5e-324, 0, -5e-324, 1e-45],
    ]
)
NOTHING = np.full((1, 4), -np.inf)
"""A row in which softmax and its like see only −∞."""

ALONG: Case = (ROWS, {"axis": 1})
QUIET = np.nan_to_num(ROWS, nan=0.5, posinf=3.0, neginf=-3.0)


def each(theirs: str | Callable[..., Any], ours: Callable[..., Any] | None = None) -> Row:
    return Row(theirs, [(NUMBERS,)], ours)


def with_zero(name: str) -> Row:
    return Row(name, [(NUMBERS, np.zeros(())), (np.zeros(()), NUMBERS), (NUMBERS, NUMBERS.copy())])


def dims(name: str) -> Callable[..., Any]:
    return lambda t, x, axis: getattr(t, name)(x, axis)


def labelled(name: str, **attrs: Any) -> Callable[..., Any]:
    return lambda t, y, p: getattr(t.nn.functional, name)(p, y, reduction="mean", **attrs)


IMAGES = ROWS.reshape(7, 1, 2, 2)
EDGES: dict[str, Row] = {
    **{n: each(n) for n in ("exp", "log", "sqrt", "square", "reciprocal", "sin", "arctan")},
    **{n: each(n) for n in ("erf", "erfc", "floor", "round", "tanh", "sigmoid", "relu", "log1p")},
    **{n: each(f"nn.functional.{n}") for n in ("leaky_relu", "silu", "softplus")},
    **{n: with_zero(n) for n in ("maximum", "minimum", "add", "mul", "less")},
    "pow": each(lambda t, x: x**3, lambda x: x**3),
    "where": each(
        lambda t, x: t.where(x.isnan(), 0.0, x), lambda x: gw.where(gw.is_nan(x), 0.0, x)
    ),
    "sum": Row(dims("sum"), [ALONG]),
    "mean": Row(dims("mean"), [ALONG]),
    "prod": Row(dims("prod"), [ALONG]),
    "max": Row(dims("amax"), [ALONG]),
    "min": Row(dims("amin"), [ALONG]),
    "argmax": Row(dims("argmax"), [ALONG]),
    "argmin": Row(dims("argmin"), [ALONG]),
    "cumsum": Row(dims("cumsum"), [ALONG]),
    "sort": Row(lambda t, x: t.sort(x, stable=True)[0], [(NUMBERS[:8],)]),
    "logsumexp": Row(dims("logsumexp"), [ALONG]),
    "softmax": Row(dims("softmax"), [ALONG]),
    "log_softmax": Row(dims("log_softmax"), [ALONG]),
    "layer_norm": Row(lambda t, x: t.nn.functional.layer_norm(x, (4,)), [(ROWS,)]),
    "rms_norm": Row(lambda t, x: t.nn.functional.rms_norm(x, (4,), None, 1e-5), [(ROWS,)]),
    "matmul": Row("matmul", [(ROWS, normal(4, 3))]),
    "scaled_dot_product_attention": Row(
        lambda t, q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v),
        [(QUIET, normal(5, 4), normal(5, 4)), (ROWS[:1], normal(5, 4), normal(5, 4))],
    ),
    "max_pool2d": Row(
        lambda t, x: t.nn.functional.max_pool2d(x, 2),
        [(IMAGES,)],
        lambda x: gw.cnn.max_pool2d(x, 2),
    ),
    "avg_pool2d": Row(
        lambda t, x: t.nn.functional.avg_pool2d(x, 2),
        [(IMAGES,)],
        lambda x: gw.cnn.avg_pool2d(x, 2),
    ),
    "mean_squared_error": Row(labelled("mse_loss"), [(np.zeros((7, 4)), ROWS)], fixed=(0,)),
    "huber": Row(labelled("huber_loss"), [(np.zeros((7, 4)), ROWS)], fixed=(0,)),
    "sparse_softmax_cross_entropy": Row(
        labelled("cross_entropy"), [(np.array([0, 1, 2]), ROWS[[0, 2, 6]])]
    ),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", EDGES)
def test_results_and_gradients_are_torchs(torch: ModuleType, name: str, dtype: str) -> None:
    for case in EDGES[name].cases:
        hold(name, EDGES[name], case, dtype, torch)


@pytest.mark.parametrize(
    ("function", "at", "result", "slope"),
    [
        # NaN stays NaN; torch calls the sign of NaN 0.
        (gw.sign, [np.nan], [np.nan], [0.0]),
        (gw.abs, [np.nan, -np.inf], [np.nan, np.inf], [np.nan, -1.0]),
        # The slope of what is cut off is 0, that of NaN is passed on; torch says 0.
        (lambda x: gw.clip(x, -1.0, 1.0), [np.nan, np.inf], [np.nan, 1.0], [1.0, 0.0]),
        (gw.nn.relu6, [np.nan, np.inf, -np.inf], [np.nan, 6.0, 0.0], [1.0, 0.0, 0.0]),
        # No probability anywhere has slope 0, so that masked rows do not poison; torch says NaN.
        (gw.logsumexp, [-np.inf, -np.inf], -np.inf, [0.0, 0.0]),
        # A certain and wrong prediction costs infinitely much; torch says NaN.
        (
            lambda x: gw.loss.sigmoid_cross_entropy(np.ones(2), x, reduction="none"),
            [-np.inf, 0.0],
            [np.inf, np.log(2)],
            [-1.0, -0.5],
        ),
        # In float32, torch says NaN.
        (gw.nn.gelu, [np.inf, -1e9, np.nan], [np.inf, 0.0, np.nan], [np.nan, 0.0, np.nan]),
    ],
)
def test_where_we_differ_from_torch_on_purpose(
    function: Any, at: list[float], result: Any, slope: list[float]
) -> None:
    g = gw.Graph()
    x = g.placeholder("x", (len(at),), "float64")
    y = function(x)
    dx = gw.gradients(y, [x], gw.ones_like(y), unreachable="zero")[0]
    with gw.Session(g) as session:
        found = session.run([y, dx], {x: np.array(at)})
    for f, w in zip(found, (result, slope), strict=True):
        np.testing.assert_array_equal(f, w)


HALF: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "var": lambda x: gw.var(x, axis=1),
    "std": lambda x: gw.std(x, axis=1),
    "norm": lambda x: gw.norm(x, axis=1),
    "prod": lambda x: gw.prod(x[:, :16], axis=1),
    "logsumexp": lambda x: gw.logsumexp(x, axis=1),
    "cumsum": lambda x: gw.cumsum(x, axis=1),
    "softmax": gw.nn.softmax,
    "log_softmax": gw.nn.log_softmax,
    "layer_norm": gw.nn.layer_norm,
    "rms_norm": gw.nn.rms_norm,
    "gelu": gw.nn.gelu,
    "sigmoid": gw.nn.sigmoid,
    "matmul": lambda x: x @ x.T,
    "einsum": lambda x: gw.einsum("ij,kj->ik", x, x),
    "global_avg_pool": lambda x: gw.cnn.global_avg_pool(x.reshape(1, 4, 16, 64)),
    "conv2d": lambda x: gw.cnn.conv2d(x.reshape(1, 4, 16, 64), x[:, :1024].reshape(4, 4, 8, 32)),
    "attention": lambda x: gw.nn.scaled_dot_product_attention(*(x.reshape(64, 64) / 4,) * 3),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", HALF)
def test_halves_are_computed_in_float32(name: str, dtype: str) -> None:
    """Long sums of halves are those of float64, rounded as often as the op has outputs."""
    half = gw.spec.dtype(dtype)
    x = np.random.default_rng(0).uniform(0.5, 1.0, (4, 1024)).astype(half)
    row = Row("", [], HALF[name])
    op = {"attention": "scaled_dot_product_attention"}.get(name, name)
    (found,), _ = our_side(op, row, [x], {}, [])
    (exact,), _ = our_side(op, row, [x.astype(np.float64)], {}, [])
    assert found.dtype == half
    unit = float(gw.ops.special.finfo(half).eps)
    scale = np.abs(exact).max()
    np.testing.assert_allclose(found.astype(np.float64), exact, unit, unit * scale)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_halves_are_as_near_as_torchs(torch: ModuleType, dtype: str) -> None:
    """Norms, softmax, products and sums of halves are as near to float64 as torch's own."""
    x = (normal(4, 64) * 3 + 2).astype(np.float32)
    half = gw.spec.dtype(dtype)
    functional = torch.nn.functional
    for name, theirs in (
        ("layer_norm", lambda x: functional.layer_norm(x, (64,))),
        ("rms_norm", lambda x: functional.rms_norm(x, (64,), None, 1e-5)),
        ("softmax", lambda x: functional.softmax(x, -1)),
        ("log_softmax", lambda x: functional.log_softmax(x, -1)),
        ("gelu", functional.gelu),
        ("sum", lambda x: x.sum(1)),
        ("matmul", lambda x: x @ x.T),
    ):
        (y,), _ = our_side(name, Row("", [], HALF[name]), [x.astype(half)], {}, [])
        rounded = torch.tensor(x.astype(half).astype(np.float64))
        exact = theirs(rounded).numpy()
        other = theirs(rounded.to(getattr(torch, dtype))).double().numpy()
        found = y.astype(np.float64)
        assert np.abs(found - exact).max() <= 2 * np.abs(other - exact).max() + 1e-6, name

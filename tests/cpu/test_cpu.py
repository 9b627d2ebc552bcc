"""What runs straight into outputs on the CPU is what the plain forwards give, block after block."""

import subprocess
import sys

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from gradwright.gradient import gradients
from gradwright.graph.expand import ancestors, run_nodes
from gradwright.ops.core import rows
from gradwright.ops.core.sorting import first_places, order
from gradwright.ops.numerics import summing

N, D = 700, 96  # more than one block of rows, the last one smaller


def both(build, *arrays):
    """Return results and gradients of a session and of the plain run, for one cotangent."""
    g = gw.Graph()
    xs = [g.placeholder(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
    with g:
        y = build(*xs)
        seed = g.constant(np.random.default_rng(1).standard_normal(y.shape).astype(y.dtype))
        wrt = [x for x in xs if x.dtype.kind == "f"]
        targets = [y, *gradients(y, wrt, seed, unreachable="zero")]
    given = dict(zip(xs, arrays, strict=True))
    with np.errstate(all="ignore"):
        plain = run_nodes(ancestors(targets, stop=set(given)), given, targets)
    with gw.Session(g) as session:
        return session.run(targets, given), plain


def draw(dtype, *shape, scale=1.0):
    return (np.random.default_rng(0).standard_normal(shape) * scale).astype(dtype)


LABELS = np.random.default_rng(2).integers(0, D, N)
CASES = {
    "softmax": lambda x: gw.nn.softmax(x),
    "log_softmax": lambda x: gw.nn.log_softmax(x),
    "logsumexp": lambda x: gw.logsumexp(x, -1),
    "logsumexp, kept": lambda x: gw.logsumexp(x, -1, keepdims=True),
    "cross entropy": lambda x: gw.loss.sparse_softmax_cross_entropy(
        LABELS, x, ignore_index=int(LABELS[0]), reduction="none"
    ),
    "layer_norm, plain": lambda x: gw.nn.layer_norm(x),
    "sum of rows": lambda x: gw.sum(x, -1),
    "sum of columns": lambda x: gw.sum(x, 0),
    "mean": lambda x: gw.mean(x, -1, keepdims=True),
    "cumsum": lambda x: gw.cumsum(x, -1),
    "cumsum, reverse": lambda x: gw.cumsum(x, -1, reverse=True, exclusive=True),
    "sigmoid": gw.nn.sigmoid,
    "silu": gw.nn.silu,
    "softplus": gw.nn.softplus,
    "gelu": gw.nn.gelu,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e3])
@pytest.mark.parametrize("name", CASES)
def test_blocks(name, scale, dtype, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK", 1 << 14)
    monkeypatch.setattr(summing, "SUMMED_BY_PRODUCT", 256)
    found, plain = both(CASES[name], draw(dtype, N, D, scale=scale))
    tolerance = 2e-5 if dtype == "float32" else 1e-10
    for y, r in zip(found, plain, strict=True):
        assert y.dtype == r.dtype and y.shape == r.shape
        np.testing.assert_allclose(y, r, rtol=tolerance, atol=tolerance * np.abs(r).max())


@pytest.mark.parametrize("given", ["w", "b", "wb"])
def test_blocks_of_a_layer_norm_with_parameters(given, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK", 1 << 14)
    parameters = {name: draw("float64", 8, D // 8) + i for i, name in enumerate(given)}

    def build(x, *p):
        named = dict(zip(parameters, p, strict=True))
        return gw.nn.layer_norm(x, named.get("w"), named.get("b"), axis=1)

    found, plain = both(build, draw("float64", N, 8, D // 8), *parameters.values())
    for y, r in zip(found, plain, strict=True):
        np.testing.assert_allclose(y, r, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "cumsum", "sum of rows"])
def test_infinities_and_nan_stay_in_their_rows(name):
    x = draw("float32", N, D)
    x[1, 3], x[2, 3], x[3, 3], x[4] = np.inf, -np.inf, np.nan, -np.inf
    x[5, 3], x[5, 60] = np.inf, -np.inf
    (y, *_), (r, *_) = both(CASES[name], x)
    np.testing.assert_allclose(y, r, rtol=1e-5, atol=1e-4)
    assert np.isfinite(y[6:]).all()


def test_labels_are_checked_where_the_loss_runs_at_once():
    g = gw.Graph()
    y, x = g.placeholder("y", (2,), "int64"), g.placeholder("x", (2, 3))
    loss = gw.loss.sparse_softmax_cross_entropy(y, x)
    with pytest.raises(GraphError, match=r"3 at \[1\] is no class"):
        gw.Session(g).run(loss, {y: [0, 3], x: np.zeros((2, 3))})


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_equal_elements_keep_their_order_when_sorted(dtype, descending):
    x = np.random.default_rng(0).integers(-3, 3, (50, 40)).astype(dtype)
    wide = x.astype(np.float64)
    if wide.dtype != x.dtype and x.dtype.kind == "f":
        x[3, 4], x[3, 9], x[5, 2], x[5, 7], x[6, :5] = np.nan, -np.nan, np.inf, -np.inf, -0.0
        wide = np.where(np.isnan(x), 1e300, x.astype(np.float64))
    expected = np.argsort(-wide if descending else wide, -1, kind="stable")
    np.testing.assert_array_equal(order(x, -1, descending), expected)
    np.testing.assert_array_equal(order(x.T, 0, descending), expected.T)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("what", ["distinct", "ties", "many ties", "nan", "infinite"])
def test_the_first_places_are_those_of_the_order(what, largest):
    x = np.random.default_rng(0).standard_normal((20, 7, 96)).astype(np.float32)
    if what == "ties":
        x = x.round(1)
    elif what == "many ties":
        x = np.sign(x)
    elif what == "nan":
        x[3, 4, 5] = np.nan
    elif what == "infinite":
        x[3, 4, :9], x[3, 4, 9:] = np.inf, -np.inf
    for k, axis in ((3, -1), (2, 0), (8, 2), (1, 1)):
        expected = np.take(order(x, axis, largest), np.arange(k), axis)
        np.testing.assert_array_equal(first_places(x, k, axis, largest), expected)


@pytest.mark.parametrize("shape", [(2, 3), (0, 2)])
def test_parts_of_complex_numbers_that_lie_transposed(shape):
    g = gw.Graph()
    x = g.placeholder("x", shape, "complex128")
    y, z = gw.signal.view_as_real(gw.transpose(x)), gw.signal.view_as_real(x)
    fed = np.arange(np.prod(shape)).reshape(shape) * (1 + 2j)
    with gw.Session(g, kernels="wait") as session:
        for _ in range(2):
            found = session.run([y, z * 2.0], {"x": fed})
    for array, expected in zip(found, (fed.T, 2 * fed), strict=True):
        np.testing.assert_array_equal(array, np.stack([expected.real, expected.imag], -1))


def test_a_lowering_of_the_user_stays_though_ours_load_later():
    code = """
import numpy as np, gradwright as gw
ran = []
@gw.lowering("matmul")
def mine(op, ins, outs):
    return lambda xs, ys: (ran.append(1), np.matmul(*xs, out=ys[0]))
g = gw.Graph()
x = g.placeholder("x", (2, 2))
for kernels in ("off", "wait"):
    gw.Session(g, kernels=kernels).run(x @ x, {"x": np.eye(2)})
assert len(ran) == 2, ran
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not done.returncode, done.stderr

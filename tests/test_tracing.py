"""Compiled functions and traces: results of plain numpy, one trace per signature, clear errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradientError, TraceError
from tests.numpy_functions import softmax, standardise

rng = np.random.default_rng(11)
X = rng.standard_normal((8, 5))
W = rng.standard_normal((5, 3))
LABELS = rng.integers(0, 3, 8)
SCALE = np.arange(1.0, 6.0)

# -- ordinary numpy code ---------------------------------------------------------------------------


def min_max(x):
    low, high = x.min(axis=0), x.max(axis=0)
    return (x - low) / (high - low)


def log_sum_exp(x):
    top = np.max(x, axis=1, keepdims=True)
    return np.squeeze(top + np.log(np.sum(np.exp(x - top), axis=1, keepdims=True)), axis=1)


def layer_norm(x, g, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return g * (x - mean) / np.sqrt(var + eps) + b


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def relu_in_place(x):
    y = x.copy()
    y[y < 0] = 0
    return y


def cross_entropy(logits, labels):
    z = logits - logits.max(axis=1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    return -logp[np.arange(len(labels)), labels].mean()


def one_hot(labels):
    y = np.zeros_like(labels, shape=(len(labels), 3), dtype=float)
    y[np.arange(len(labels)), labels] = 1
    return y


def distances(a, b):
    return np.sqrt(np.maximum(((a[:, None] - b[None]) ** 2).sum(-1), 0))


def distances_by_products(a, b):
    return (a**2).sum(1)[:, None] - 2 * a @ b.T + (b**2).sum(1)


def k_means_step(x, centres):
    nearest = np.argmin(((x[:, None] - centres) ** 2).sum(-1), axis=1)
    member = nearest[:, None] == np.arange(len(centres))
    counts = member.sum(axis=0)[:, None]
    return np.where(counts > 0, member.T.astype(x.dtype) @ x / np.maximum(counts, 1), centres)


def pca(x):
    centred = x - x.mean(axis=0)
    _, s, vt = np.linalg.svd(centred, full_matrices=False)
    vt = vt * np.sign(vt[:, :1])
    return centred @ vt[:2].T, s**2 / (len(x) - 1)


def whiten(x):
    c = np.cov(x, rowvar=False)
    values, vectors = np.linalg.eigh(c)
    return np.abs((x - x.mean(0)) @ vectors / np.sqrt(values + 1e-6))


def convolution(x, k):
    out = np.zeros_like(x, shape=(x.shape[0] - k.shape[0] + 1, x.shape[1] - k.shape[1] + 1))
    for i in range(k.shape[0]):
        for j in range(k.shape[1]):
            out += k[i, j] * x[i : i + out.shape[0], j : j + out.shape[1]]
    return out


def moving_average(x, n=3):
    c = np.cumsum(np.pad(x, ((1, 0), (0, 0))), axis=0)
    return (c[n:] - c[:-n]) / n


def mandelbrot_step(z, c, count):
    inside = np.abs(z) <= 2
    z = np.where(inside, z * z + c, z)
    return z, count + inside


def runge_kutta(y, h=0.1, steps=3):
    def slope(y):
        return np.stack([y[1], -np.sin(y[0])])

    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def heat_step(u):
    v = u.copy()
    v[1:-1, 1:-1] += 0.1 * (
        u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    )
    return v


def game_of_life(board):
    around = sum(
        np.roll(board, (i, j), axis=(0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j
    )
    return ((around == 3) | ((board == 1) & (around == 2))).astype(board.dtype)


def attention(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    mask = np.tril(np.ones(scores.shape[-2:], bool))
    scores = np.where(mask, scores, -np.inf)
    return softmax(scores) @ v


def heads(x, n=1):
    t, d = x.shape
    return x.reshape(t, n, d // n).transpose(1, 0, 2).reshape(n, -1)


def rotary(x):
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[0])[:, None] / 10.0 ** np.arange(half)
    a, b = x[:, :half], x[:, half : 2 * half]
    turned = np.concatenate(
        [a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=1
    )
    return turned


def adam(w, g, m, v, t=1):
    m *= 0.9
    m += 0.1 * g
    v *= 0.999
    v += 0.001 * g**2
    w -= 1e-3 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return w


def momentum(params, grads, velocity):
    for name in params:
        velocity[name] *= 0.9
        velocity[name] += grads[name]
        params[name] -= 0.1 * velocity[name]
    return {name: np.linalg.norm(w) for name, w in params.items()}


def logistic_regression(x, y):
    w, b = np.zeros_like(x[0]), 0.0
    for _ in range(5):
        p = 1 / (1 + np.exp(-(x @ w + b)))
        w -= 0.5 * x.T @ (p - y) / len(y)
        b -= 0.5 * (p - y).mean()
    return w, b


def ridge(x, y):
    return np.linalg.solve(x.T @ x + 0.1 * np.eye(x.shape[1]), x.T @ y)


def gram_schmidt(x):
    basis = []
    for row in x[:3]:
        for b in basis:
            row = row - (row @ b) * b
        basis.append(row / np.linalg.norm(row))
    return np.array(basis, like=x)


def power_iteration(a):
    v = np.ones_like(a[0])
    for _ in range(4):
        v = a @ v
        v /= np.linalg.norm(v)
    return v @ a @ v


def kalman(mean, cov, z):
    f = np.array([[1.0, 1.0], [0.0, 1.0]])
    mean, cov = f @ mean, f @ cov @ f.T + 0.01 * np.eye(2)
    gain = cov[:, 0] / (cov[0, 0] + 0.1)
    return mean + gain * (z - mean[0]), cov - np.outer(gain, cov[0])


def histogram_match(x):
    ranks = np.argsort(np.argsort(x, axis=0), axis=0)
    return ranks / (len(x) - 1)


def polynomial(x):
    y = np.zeros_like(x)
    for c in (2.0, -1.0, 0.5):
        y = y * x + c
    return y


def pairwise_cosine(x):
    n = x / np.linalg.norm(x, axis=1, keepdims=True)
    s = n @ n.T
    s[np.arange(len(x)), np.arange(len(x))] = 0
    return s


def trapezoid(x):
    return np.trapezoid(np.sort(x, axis=0), dx=0.1, axis=0)


def winsorise(x):
    low, high = np.quantile(x, [0.1, 0.9], axis=0)
    return np.clip(x, low, high)


def integer_code(x):
    q = np.round(x * 16).astype(np.int8)
    return q, q.astype(np.float32) / 16, (q ^ 3) & 7, q // 3, q % 3


def dropped_rows(x):
    return x[x[:, 0] > 0].sum(axis=0), x[x > 0]


def blur(x):
    p = np.pad(x, 1, mode="edge")
    return (p[:-2, 1:-1] + 2 * p[1:-1, 1:-1] + p[2:, 1:-1]) / 4


def lstm_cell(x, h, c, w):
    i, f, o, g = np.split(np.concatenate([x, h], axis=1) @ w, 4, axis=1)
    i, f, o = (1 / (1 + np.exp(-v)) for v in (i, f, o))
    c = f * c + i * np.tanh(g)
    return o * np.tanh(c), c


def batch_norm(x, running):
    mean, var = x.mean(0), x.var(0)
    running["mean"] *= 0.9
    running["mean"] += 0.1 * mean
    running["var"][...] = 0.9 * running["var"] + 0.1 * var
    return (x - mean) / np.sqrt(var + 1e-5)


def fourier(x):
    n = len(x)
    k = np.arange(n)
    return np.abs(np.exp(-2j * np.pi * k * k[:, None] / n) @ x)


def closest_pair(x):
    d = distances(x, x) + np.where(np.eye(len(x)), np.inf, 0)
    return np.unravel_index(0, (2, 2)), d.min(), d.argmin(axis=1)


def entropy(p):
    q = np.abs(p) / np.abs(p).sum()
    return -np.einsum("ij,ij->", q, np.log(q))


def labels_to_counts(labels):
    return np.bincount(labels), np.unique(labels, return_counts=True)


CORPUS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (standardise, (X,)),
    (min_max, (X,)),
    (softmax, (X,)),
    (log_sum_exp, (X,)),
    (layer_norm, (X, SCALE, np.ones(5))),
    (gelu, (X,)),
    (relu_in_place, (X,)),
    (cross_entropy, (X[:, :3], LABELS)),
    (one_hot, (LABELS,)),
    (distances, (X, W.T)),
    (distances_by_products, (X, W.T)),
    (k_means_step, (X, X[:3])),
    (pca, (X,)),
    (whiten, (X,)),
    (convolution, (X, W[:2, :2])),
    (moving_average, (X,)),
    (mandelbrot_step, (np.zeros(4, complex), X[:4, 0] + 1j * X[:4, 1], np.zeros(4, int))),
    (runge_kutta, (X[:2, 0],)),
    (heat_step, (X,)),
    (game_of_life, (rng.integers(0, 2, (6, 6)),)),
    (attention, (X, X + 1, X * 2)),
    (heads, (X,)),
    (rotary, (X,)),
    (adam, (X, X**2, np.zeros((8, 5)), np.zeros((8, 5)))),
    (momentum, ({"w": W, "b": SCALE}, {"w": W + 1, "b": SCALE}, {"w": W * 0, "b": SCALE * 0})),
    (logistic_regression, (X, (LABELS > 0).astype(float))),
    (ridge, (X, X[:, 0])),
    (gram_schmidt, (X,)),
    (power_iteration, (X.T @ X,)),
    (kalman, (np.array([0.0, 1.0]), np.eye(2), 1.5)),
    (histogram_match, (X,)),
    (polynomial, (X,)),
    (pairwise_cosine, (X,)),
    (trapezoid, (X,)),
    (winsorise, (X,)),
    (integer_code, (X,)),
    (dropped_rows, (X,)),
    (blur, (X,)),
    (lstm_cell, (X, X[:, :2], X[:, 2:4], rng.standard_normal((7, 8)))),
    (batch_norm, (X, {"mean": np.zeros(5), "var": np.ones(5)})),
    (fourier, (X,)),
    (closest_pair, (X,)),
    (entropy, (X,)),
    (labels_to_counts, (LABELS,)),
]


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: copied(v) for k, v in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def in_dtype(value: Any, dtype: Any) -> Any:
    if isinstance(value, dict):
        return {k: in_dtype(v, dtype) for k, v in value.items()}
    floating = isinstance(value, np.ndarray) and value.dtype == np.float64
    return value.astype(dtype) if floating else value


def assert_same(want: Any, got: Any, tolerance: float) -> None:
    if isinstance(want, dict):
        assert list(want) == list(got)
        for key in want:
            assert_same(want[key], got[key], tolerance)
    elif isinstance(want, (tuple, list)):
        assert len(want) == len(got)
        for a, b in zip(want, got, strict=True):
            assert_same(a, b, tolerance)
    else:
        a, b = np.asarray(want), np.asarray(got)
        assert (type(want), a.dtype, a.shape) == (type(got), b.dtype, b.shape)
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("fn", "args"), CORPUS, ids=[fn.__name__ for fn, _ in CORPUS])
def test_ordinary_numpy_code(fn: Any, args: Any, dtype: Any) -> None:
    tolerance = 1e-9 if dtype == np.float64 else 2e-3
    compiled = gw.compile(fn)
    plain, traced = (tuple(in_dtype(copied(a), dtype) for a in args) for _ in range(2))
    for _ in range(2):  # the second call is a replay, on what the first wrote in place
        want, got = fn(*plain), compiled(*traced)
        assert_same(want, got, tolerance)
        assert_same(plain, traced, tolerance)
    assert compiled.cache_info()[:2] == (1, 1)


# -- signatures ------------------------------------------------------------------------------------


def test_one_trace_per_shape_dtype_and_static_value() -> None:
    @gw.compile
    def f(x, axis, rate):
        return x.sum(axis=axis) * rate

    f(X, 0, 0.1), f(X + 1, 0, 0.2), f(X, 0, rate=0.3)
    assert f.cache_info().traces == 2  # positional, and by keyword
    f(X, 1, 0.1), f(X.astype(np.float32), 1, 0.1), f(X[:4], 1, 0.1)
    assert f.cache_info()[:2] == (1, 5)
    np.testing.assert_allclose(f(X, 1, 2.0), X.sum(1) * 2)
    assert f.cache_info().hits == 2
    f.cache_clear()
    assert f.cache_info().size == 0


def test_numbers_are_weak_and_do_not_trace_again() -> None:
    @gw.compile
    def step(w, lr, momentum=0.9):
        return w * (lr * 2 + 1) - momentum, lr * momentum, np.sqrt(lr) * w

    for lr in (0.1, 0.2, 0.3):
        w = X.astype(np.float32)
        want = step.__wrapped__(w, lr, momentum=0.5)
        got = step(w, lr, momentum=0.5)
        assert [np.asarray(v).dtype for v in want] == [np.asarray(v).dtype for v in got]
        assert type(got[1]) is float
        np.testing.assert_allclose(got[0], want[0], rtol=1e-6)
    assert step.cache_info().traces == 1


def test_static_and_dynamic_names() -> None:
    def f(x, p, t):
        return x if p > 0.5 else x * t

    with pytest.raises(TraceError, match=r"`if`(.|\n)*gw\.cond"):
        gw.compile(f)(X, 0.1, 3)
    g = gw.compile(f, static_argnames="p", dynamic_argnames="t")
    for t in (2, 3):
        np.testing.assert_allclose(g(X, 0.1, t), X * t)
    assert g.cache_info().traces == 1
    np.testing.assert_allclose(g(X, 0.9, 2), X)
    with pytest.raises(TraceError, match="no argument 'q'"):
        gw.compile(f, static_argnames=("q",))
    with pytest.raises(TraceError, match="cannot be static"):
        gw.compile(f, static_argnames="x")(X, 0.1, 2)


def test_dynamic_shapes_need_two_traces_for_all_sizes() -> None:
    @gw.compile(dynamic_shapes=True)
    def f(x, w):
        y = x @ w
        y -= y.mean(axis=0)
        return y.reshape(x.shape[0], -1) / x.shape[0], y[1:], y.sum(), len(w), x.shape, x.size

    for n in (4, 7, 8, 5, 8, 1):
        x = rng.standard_normal((n, 5))
        assert_same(f.__wrapped__(x, W), f(x, W), 1e-9)
    assert f.cache_info().traces == 3  # of 4 rows, of any number, of one
    assert f.static_reason == ""


def test_code_that_counts_rows_has_a_trace_per_size() -> None:
    f = gw.compile(histogram_match, dynamic_shapes=True)
    for n in (4, 7, 8, 7):
        x = rng.standard_normal((n, 5))
        assert_same(histogram_match(x), f(x), 1e-9)
    assert f.cache_info().traces == 3
    assert "has n0 rows" in f.static_reason


def test_stated_shapes_need_one() -> None:
    @gw.compile(dynamic_shapes={"x": ("B", None)})
    def f(x, w):
        return softmax(x @ w)

    for n in (4, 7, 8):
        x = rng.standard_normal((n, 5))
        assert_same(softmax(x @ W), f(x, W), 1e-9)
    assert f.cache_info().traces == 1
    with pytest.raises(TraceError, match="2 sizes for x"):
        f(np.ones(5), W)

    @gw.compile(dynamic_shapes={"x": ("B",)})
    def rows(x):
        return list(x)

    with pytest.raises(TraceError, match="B rows, a number known only when it runs"):
        rows(np.ones(3))


def test_views_of_arrays_whose_size_is_not_known() -> None:
    @gw.compile(dynamic_shapes={"x": ("B", None)})
    def f(x):
        y = x.copy()
        v = y[1:]
        v += 1
        y[0] = 5
        r = y.T
        r[1] = 7
        return y, v * 2, y.reshape(-1)[:3]

    for n in (3, 6):
        x = rng.standard_normal((n, 5))
        assert_same(f.__wrapped__(x), f(x), 1e-9)


class Pair(NamedTuple):
    left: Any
    right: Any


def test_structures_in_and_out() -> None:
    @gw.compile
    def f(tree, *rest, **named):
        pair = Pair(tree["a"][0] + 1, rest[0] * named["k"])
        return {"pair": pair, "list": [tree["a"][1], None, "text", 3], "none": None}

    for k in (2.0, 3.0):
        got = f({"a": (X, X[0]), "b": "static"}, W, k=k)
        assert isinstance(got["pair"], Pair)
        np.testing.assert_allclose(got["pair"].right, W * k)
        assert got["list"][1:] == [None, "text", 3]
        assert got["none"] is None


def test_methods_and_objects() -> None:
    class Model:
        def __init__(self) -> None:
            self.w, self.name = W.copy(), "m"

        @gw.compile
        def __call__(self, x):
            return x @ self.w

        @gw.compile
        def step(self, x):
            self.w -= 0.1 * x.T @ (x @ self.w)

    model = Model()
    np.testing.assert_allclose(model(X), X @ model.w)
    model.w[...] = 1  # the same array: read anew
    np.testing.assert_allclose(model(X), X @ np.ones((5, 3)))
    model.w = W * 2  # another one
    np.testing.assert_allclose(model(X), X @ W * 2)
    with pytest.raises(TraceError, match="would keep its old elements"):
        model.step(X)


# -- what is outside -------------------------------------------------------------------------------

TABLE = np.ones(3)


def test_globals_closures_and_defaults_are_read_anew() -> None:
    global TABLE
    local = np.ones(3)

    @gw.compile
    def f(x, default=SCALE[:3]):
        return x * TABLE + local + default

    x = np.arange(3.0)
    try:
        np.testing.assert_allclose(f(x), x + 1 + SCALE[:3])
        TABLE[1] = 5.0
        local[2] = 7.0
        np.testing.assert_allclose(f(x), x * TABLE + local + SCALE[:3])
        assert f.cache_info().traces == 1
        TABLE = np.full(3, 9.0)
        local = np.zeros(3)
        np.testing.assert_allclose(f(x), x * 9 + SCALE[:3])
        assert f.cache_info().traces == 2
    finally:
        TABLE = np.ones(3)


def test_plain_arrays_are_not_written_by_lazy_ones() -> None:
    state, rows = np.zeros(3), [np.zeros(3)]

    def by_out(x):
        np.add(state, x, out=state)
        return (state * 2).sum()

    def by_alias(x):
        total = other = np.zeros(3)
        total += x
        return total, other * 2

    def by_loop(x):
        for row in rows:
            row += x
        return rows[0] * 2

    def by_copy(x):
        y = np.zeros(3)
        np.copyto(y, x)
        return y

    def by_at(x):
        y = np.zeros(3)
        np.add.at(y, [0], x[0])
        return y

    for fn in (by_out, by_alias, by_loop, by_copy, by_at):
        with pytest.raises(TraceError, match=r"would keep its old elements(.|\n)*zeros_like"):
            gw.compile(fn)(np.ones(3))
    assert state.tolist() == rows[0].tolist() == [0.0] * 3


def test_what_a_dict_outside_holds_may_change() -> None:
    params = {"w": np.ones(3), "n": 2}

    @gw.compile
    def f(x):
        return x * params["w"] * params["n"]

    x = np.arange(3.0)
    assert f(x).tolist() == [0.0, 2.0, 4.0]
    params["w"] = np.full(3, 5.0)
    assert f(x).tolist() == [0.0, 10.0, 20.0]
    params["n"] = 1
    assert f(x).tolist() == [0.0, 5.0, 10.0]


def test_an_array_that_a_closed_object_holds() -> None:
    class Slots:
        __slots__ = ("w",)

        def __init__(self) -> None:
            self.w = np.ones(3)

    held = np.ones((2, 3))
    box, chain = Slots(), [[[[[[[held]]]]]]]  # too deep to be watched
    f = gw.compile(lambda x: (x * box.w, x + chain[0][0][0][0][0][0][0][1]))
    x = np.arange(3.0)
    assert [y.tolist() for y in f(x)] == [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]
    box.w[1] = 4.0
    held[1, 0] = 9.0
    assert [y.tolist() for y in f(x)] == [[0.0, 4.0, 2.0], [9.0, 2.0, 3.0]]
    box.w = np.zeros(3)
    assert f(x)[0].tolist() == [0.0, 0.0, 0.0]


class Settings:
    rate = 2.0


def test_classes_partials_and_compiled_functions_are_watched() -> None:
    offset = np.ones(3)

    @gw.compile
    def inner(x):
        return x + offset

    def scaled(x, by):
        return inner(x) * by * Settings.rate

    f = gw.compile(functools.partial(scaled, by=np.full(3, 2.0)))
    x = np.arange(3.0)
    try:
        assert f(x).tolist() == [4.0, 8.0, 12.0]
        offset[0] = 0.0
        assert f(x).tolist() == [0.0, 8.0, 12.0]
        Settings.rate = 1.0
        assert f(x).tolist() == [0.0, 4.0, 6.0]
        offset = np.zeros(3)
        assert f(x).tolist() == [0.0, 2.0, 4.0]
    finally:
        Settings.rate = 2.0
    with pytest.raises(TraceError, match="MaskedArray has rules of its own"):
        f(np.ma.ones(3))


def test_arrays_made_inside_are_constants() -> None:
    @gw.compile
    def f(x):
        scale = np.zeros(3)
        parts = []
        for i in range(3):
            scale[i] = i + 1
            parts.append(x * scale)
        return sum(parts), np.ones(2)

    for _ in range(2):
        got, ones = f(np.ones(3))
        assert got.tolist() == [3.0, 4.0, 3.0]
        ones += 1  # another array each time
        assert f(np.ones(3))[1].tolist() == [1.0, 1.0]


def test_a_local_array_becomes_lazy_when_it_is_written() -> None:
    @gw.compile
    def f(x):
        total, parts = np.zeros(3), [np.ones(3)]
        for i in range(3):
            total += x * i
            parts[0] *= x
        return total, parts

    for scale in (1.0, 2.0):
        x = np.ones(3) * scale
        assert_same(f.__wrapped__(x), f(x), 0)


def test_results_are_nobody_elses() -> None:
    f = gw.compile(lambda x: (x, x.copy(), x[1:], x.T, x.reshape(-1), np.asarray(SCALE)))
    x = X.copy()
    same, *others, outside = f(x)
    assert same is x
    assert outside is SCALE
    for i, a in enumerate(others):
        assert not np.may_share_memory(a, x)
        assert not any(np.may_share_memory(a, b) for b in others[:i])
        assert a.flags.writeable


def test_arguments_that_are_one_array() -> None:
    @gw.compile
    def f(a, b):
        a += 1
        return a + b

    x, y = np.ones(3), np.ones(3)
    assert f(x, x).tolist() == [4.0] * 3
    assert f(np.ones(3), y).tolist() == [3.0] * 3
    with pytest.raises(TraceError, match="overlaps"):
        f(x[:2], x[1:])
    z = np.ones(3)
    z.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        f(z, y)


def test_arguments_in_another_order_in_memory() -> None:
    @gw.compile
    def f(x):
        r = x.reshape(-1)
        r[0] = 100
        return x + 1

    def plain(x):
        r = x.reshape(-1)
        r[0] = 100
        return x + 1

    for order in ("C", "F"):
        x, y = np.array(X, order=order), np.array(X, order=order)
        assert_same(plain(x), f(y), 0)
        assert_same(x, y, 0)


# -- gradients -------------------------------------------------------------------------------------


def loss(params, x, labels):
    hidden = np.tanh(x @ params["w"] + params["b"])
    return cross_entropy(hidden, labels) + 0.1 * (params["w"] ** 2).sum()


def test_gradients_are_those_of_finite_differences() -> None:
    f = gw.compile(loss)
    params = {"w": W.copy(), "b": np.zeros(3)}
    value, grads = f.value_and_grad()(params, X, LABELS)
    assert value == pytest.approx(loss(params, X, LABELS))
    for name, g in grads.items():
        assert g.shape == params[name].shape
        for place in np.ndindex(g.shape):
            h = 1e-6
            up, down = ({k: v.copy() for k, v in params.items()} for _ in range(2))
            up[name][place] += h
            down[name][place] -= h
            numeric = (loss(up, X, LABELS) - loss(down, X, LABELS)) / (2 * h)
            assert g[place] == pytest.approx(numeric, abs=1e-7)


def test_gradients_through_writes_and_numbers() -> None:
    @gw.compile
    def f(x, scale, n):
        y = x.copy()
        y[1:] *= scale
        y[y > 2] = 2
        y[0] = y[1] * n
        return (y**2).sum(), y

    x = np.array([1.0, 0.5, 3.0])
    (value, y), (gx, gs) = f.value_and_grad((0, 1))(x, 2.0, 3)
    assert y.tolist() == [3.0, 1.0, 2.0]
    assert float(value) == 14.0
    assert gx.tolist() == [0.0, 40.0, 0.0]
    assert type(gs) is float
    assert gs == pytest.approx(10.0)
    assert f.gradient(0)(x, 2.0, 3).tolist() == [0.0, 40.0, 0.0]


def test_gradients_of_what_has_none() -> None:
    with pytest.raises(GradientError, match="one float"):
        gw.compile(lambda x: x * 2).value_and_grad()(X)
    with pytest.raises(GradientError, match="places of positional"):
        gw.compile(lambda x: x.sum()).value_and_grad(1)(X)
    _, g = gw.compile(lambda t: t["x"].sum()).value_and_grad()({"x": X, "n": LABELS})
    assert g["n"] is None
    assert g["x"].tolist() == np.ones((8, 5)).tolist()

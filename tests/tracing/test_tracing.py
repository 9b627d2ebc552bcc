"""Compiled functions: results of plain numpy, one trace per signature."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TraceError
from tests.tracing.numpy_functions import CORPUS, W, X, assert_same, histogram_match, softmax

rng = np.random.default_rng(11)


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: copied(v) for k, v in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def in_dtype(value: Any, dtype: Any) -> Any:
    if isinstance(value, dict):
        return {k: in_dtype(v, dtype) for k, v in value.items()}
    floating = isinstance(value, np.ndarray) and value.dtype == np.float64
    return value.astype(dtype) if floating else value


# -- ordinary numpy code ---------------------------------------------------------------------------


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

"""After a trace: its arrays are their values, and what it holds can be freed."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GraphError, TraceError

X = np.random.default_rng(0).standard_normal((4, 3))


def traced() -> tuple[Any, Any, Any]:
    """Return arrays of a trace that has ended: floats, their total, and complex ones."""
    with gw.trace() as t:
        x = t.array(X)
        y = np.tanh(x) * 2.0
        total = y.sum()
        z = y * 1j
    return y, total, z


Y = np.tanh(X) * 2.0
USES: dict[str, Any] = {
    "operators": lambda y: -(y + 1) * y / (1 + y) ** 2 // 3 % 2,
    "reflected": lambda y: X - y,
    "comparison": lambda y: (y > 0) & (y != X),
    "ufunc with out": lambda y: np.add(y, y, out=np.zeros((4, 3))),
    "reduction of a ufunc": lambda y: np.multiply.reduce(y, axis=1),
    "functions": lambda y: np.concatenate([y, X, y]),
    "nested": lambda y: np.block([[y, y], [X, y]]),
    "without an op": lambda y: np.apply_along_axis(np.max, 0, y),
    "index": lambda y: y[1:, ::2],
    "element": lambda y: y[2, 1],
    "as an index": lambda y: X[(y > 0)[:, 0]],
    "rows": lambda y: [row.tolist() for row in y],
    "matmul": lambda y: y.T @ y,
    "method": lambda y: y.std(axis=0, keepdims=True),
    "astype": lambda y: y.astype("float32"),
    "reshape": lambda y: y.reshape(-1, 2).transpose(1, 0),
    "copy that is written": lambda y: np.copyto(c := y.copy(), 1.0) or c,
    "compress": lambda y: y.compress([True, False, True], axis=1),
    "put away": lambda y: y.flatten().clip(0, 1),
    "attributes": lambda y: (y.strides, y.flags.c_contiguous, y.shape, y.dtype, len(y), y.size),
    "membership": lambda y: 5.0 in y,
}


@pytest.mark.parametrize("use", USES)
def test_an_array_whose_trace_has_ended_is_its_value(use: str) -> None:
    y, _, _ = traced()
    ours, numpys = USES[use](y), USES[use](Y)
    assert type(ours) is type(numpys)
    np.testing.assert_allclose(ours, numpys) if use != "attributes" else None
    assert use != "attributes" or ours == numpys


def test_totals_and_complex_parts() -> None:
    _, total, z = traced()
    assert total > Y.sum() - 1 and bool(total == pytest.approx(Y.sum()))
    assert [round(float(total), 9), f"{total + 0:.3f}"] == [round(Y.sum(), 9), f"{Y.sum():.3f}"]
    np.testing.assert_allclose(z.imag, Y)
    np.testing.assert_array_equal(z.real, 0 * Y)
    np.testing.assert_allclose(z.conj(), -1j * Y)


def test_it_is_computed_once_and_nobody_writes_into_it() -> None:
    y, _, _ = traced()
    assert np.asarray(y) is np.asarray(y)
    with pytest.raises(TraceError, match="a write after the end of trace"):
        y[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        y += 1.0
    with pytest.raises(TraceError, match="a write after"):
        y.sort()
    np.testing.assert_allclose(y, Y)


def test_it_is_a_constant_of_other_traces_functions_and_graphs() -> None:
    y, total, _ = traced()
    with gw.trace() as t:
        x = t.array(np.ones(3))
        found = [x + y, y * x, np.stack([x, y[0]]), x * total]
        before = y + 1  # nothing of this trace is in it
    assert type(before) is np.ndarray
    expected = [1 + Y, Y, np.stack([np.ones(3), Y[0]]), np.ones(3) * Y.sum()]
    for ours, numpys in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, numpys)
    double = gw.compile(lambda a: a * 2.0)
    np.testing.assert_allclose(double(y), 2 * Y)
    np.testing.assert_allclose(double(X), 2 * X)
    assert double.cache_info().traces == 2  # of a value that is not written, and of one that may be
    closed_over = gw.compile(lambda a: (a * y, y))
    for a in (X, 2 * X):
        product, itself = closed_over(a)
        np.testing.assert_allclose(product, a * Y)
        np.testing.assert_allclose(itself, Y)
    g = gw.Graph()
    p = g.placeholder("p", (4, 3), "float64")
    made = [p + y, y + p, gw.maximum(y, p), g.variable("v", init=y) * 1.0]
    values = g.output({"p": X}, *made).values()
    for ours, numpys in zip(values, [X + Y, Y + X, np.maximum(X, Y), Y], strict=True):
        np.testing.assert_allclose(ours, numpys, rtol=1e-6)
    np.testing.assert_allclose(g.output({"p": y}, p * 1.0).popitem()[1], Y)
    with pytest.raises(GraphError, match="no graph to go to"):
        gw.nn.relu(y)  # as of any array


def test_a_value_that_needs_a_feed_says_so() -> None:
    with gw.trace() as t:
        y = t.input("x", (2,)) * 2.0
    with pytest.raises(FeedError, match="'x' has no data"):
        y + 1
    assert t.run(y, {"x": [1, 2]}).tolist() == [2.0, 4.0]


def test_a_closed_function_holds_nothing() -> None:
    fn = gw.compile(lambda x: np.tanh(x) @ x.T)
    for n in (2, 3, 4):
        fn(np.ones((n, n)))
    kept = fn.lower(np.ones((2, 2)))
    held = [weakref.ref(fn.graph), weakref.ref(fn.plan), weakref.ref(kept.session)]
    fn.close()
    with pytest.raises(GraphError, match="closed"):
        kept.session.run(list(kept.outputs), {})  # what was handed out does not run either
    del kept
    gc.collect()
    assert [h() for h in held] == [None] * 3
    assert fn.cache_info().size == 0 and "closed" in repr(fn)
    with pytest.raises(TraceError, match="<lambda> is closed"):
        fn(np.ones((2, 2)))
    fn.close()


def test_a_function_whose_cache_is_cleared_goes_on() -> None:
    with gw.compile(lambda x: x + 1.0) as fn:
        assert fn(np.zeros(2)).tolist() == [1.0, 1.0]
        fn.cache_clear()
        with pytest.raises(TraceError, match="not been traced yet"):
            _ = fn.graph
        assert fn(np.zeros(2)).tolist() == [1.0, 1.0] and fn.cache_info().traces == 2
    with pytest.raises(TraceError, match="is closed"):
        fn.value_and_grad()(np.zeros(2))

"""Ops of the user that write where they are told, perhaps over an input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, LoweringError
from gradwright.op import OPS
from gradwright.testing import OpCheckError, check_op

N = 256
X = np.random.default_rng(0).standard_normal((N, N)).astype(np.float32)
BOTH: list[dict[str, Any]] = [{"kernels": "off"}, {"kernels": "wait"}]


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    known = set(OPS)
    yield
    for name in {n for n in OPS if "/" in n} - known:
        del OPS[name]


def shifted(seen: list[Any] | None = None, **options: Any) -> Any:
    """Return an op x + 1 that notes where it reads and writes."""

    def fn(x: Any, by: float = 1.0, out: Any = None) -> Any:
        if seen is not None and out is not None:
            seen.append((x.ctypes.data, out.ctypes.data, x.flags.writeable))
        return np.add(x, np.asarray(by, x.dtype), out=out)

    return gw.define_op("test/shifted", fn, vjp=lambda g, y, x, by: g, depends="affine", **options)


def runs(session: gw.Session, fetches: Any, n: int = 5) -> list[Any]:
    """Return the results of several runs, the last ones by kernels where there are any."""
    return [session.run(fetches, {"x": X}) for _ in range(n)]


@pytest.mark.parametrize("options", BOTH)
def test_an_output_takes_the_memory_of_an_input_that_dies(options: dict[str, Any]) -> None:
    seen: list[Any] = []
    op = shifted(seen, overwrites=0)
    check_op(op)
    seen.clear()
    g = gw.Graph()
    y = gw.sum(op(op(gw.matmul(g.placeholder("x", (N, N)), X))))
    with gw.Session(g, **options) as session:
        for found in runs(session, y):
            np.testing.assert_allclose(found, (X @ X + 2.0).sum(), rtol=1e-5)
        assert seen and all(a == b and not writable for a, b, writable in seen)
        memory = session.plan(y, {"x": (N, N)}).memory()
    assert memory.peak < 3.5 * X.nbytes  # the feed, the constant, and one buffer


@pytest.mark.parametrize("options", [*BOTH, {"device": "guard"}, {"check": "replay"}])
def test_what_is_needed_afterwards_keeps_its_memory(options: dict[str, Any]) -> None:
    """A later reader, a result, a feed, a variable, a view, the other input, a gradient."""
    op = shifted(overwrites=0)
    g = gw.Graph()
    x, w = g.placeholder("x", (N, N)), g.variable("w", init=X)
    made = x @ w
    h = gw.tanh(made)
    later = op(h).sum() + (h * h).sum()
    fetched = op(made)
    of_feed, of_variable = op(x), op(w)
    of_view = op(gw.exp(x).reshape(-1, 2)).sum() + gw.exp(x).sum()
    (dw,) = gw.gradients((op(h) * h).sum(), [w])
    fetches = [later, made, fetched, of_feed, of_variable, of_view, dw]
    m = X @ X
    t = np.tanh(m)
    expected = [
        *[(t + 1).sum() + (t * t).sum(), m, m + 1, X + 1, X + 1],
        *[2 * np.exp(X).sum() + X.size, X.T @ ((2 * t + 1) * (1 - t * t))],
    ]
    with gw.Session(g, **options) as session:
        for found in runs(session, fetches):
            for ours, numpys in zip(found, expected, strict=True):
                np.testing.assert_allclose(ours, numpys, rtol=2e-4, atol=2e-3)
    np.testing.assert_array_equal(g.values["w"], X)


def test_one_of_several_outputs_and_inputs() -> None:
    """Output 1 may lie over input 0; input 1 is read for both."""

    @gw.define_op("test/turned", overwrites=(None, 0), like=(0, 0), samples=[(X[:2], X[2:4])])
    def turned(a: Any, b: Any, out: Any = None) -> Any:
        """Sum and difference."""
        total, difference = (None, None) if out is None else out
        return np.add(a, b, out=total), np.subtract(a, b, out=difference)

    check_op(turned)
    g = gw.Graph()
    x = g.placeholder("x", (N, N))
    a, b = gw.matmul(x, X), gw.matmul(x, 2 * X)
    total, difference = turned(a, b)
    y = (total * difference).sum()  # a² − b² = −3a²
    for options in BOTH:
        with gw.Session(g, **options) as session:
            for found in runs(session, y):
                np.testing.assert_allclose(found, -3 * ((X @ X) ** 2).sum(), rtol=1e-4)
    assert "in place over matmul" in str(session_memory(g, y))


def session_memory(g: gw.Graph, y: Any) -> Any:
    with gw.Session(g, kernels="off") as session:
        return session.plan(y, {"x": (N, N)}).memory()


def test_in_loops_and_in_half_precision() -> None:
    op = shifted(overwrites=0)
    g = gw.Graph()
    x = g.placeholder("x", (8,))
    y, ys = gw.scan(lambda c, _: (op(c * 2.0), op(c)), x, length=3)
    half = op(g.constant(X[0, :4], dtype="float16") * 2.0)
    found = gw.Session(g).run([y, ys, half], {"x": X[0, :8]})
    c = X[0, :8]
    carries = []
    for _ in range(3):
        carries.append(c + 1)
        c = c * 2 + 1
    np.testing.assert_allclose(found[0], c, rtol=1e-6)
    np.testing.assert_allclose(found[1], carries, rtol=1e-6)
    assert found[2].dtype == np.float16
    np.testing.assert_allclose(found[2].astype(float), X[0, :4] * 2 + 1, rtol=2e-3)


def test_a_class_says_it_too() -> None:
    @gw.register("test/negated")
    class Negated(gw.Op):
        """The negative.

        y = −x
        """

        overwrites = ((0, 0),)

        def infer(self, x: Any) -> Any:
            return x.with_shape(x.shape)

        def forward(self, x: Any) -> Any:
            return -x

        def forward_into(self, xs: Any, ys: Any) -> None:
            np.negative(xs[0], out=ys[0])

        def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
            return (-gs[0],)

        @classmethod
        def samples(cls, rng: Any) -> Any:
            yield gw.Sample((rng.standard_normal((2, 3)),))

    check_op(Negated, skip=["complex"])
    g = gw.Graph()
    y = Negated()(g.placeholder("x", (N, N)) * 2.0).sum()
    assert "in place over mul" in str(session_memory(g, y))


def test_what_breaks_its_word_is_caught() -> None:
    late = gw.define_op(
        "test/late",
        lambda x, out=None: np.add(np.cumsum(x, -1, out=out), x, out=out),  # reads x again
        like=0,
        overwrites=0,
        samples=[(X[:2, :3],)],
    )
    with pytest.raises(OpCheckError, match="written over input 0, differs from forward"):
        check_op(late)
    with pytest.raises(GraphError, match="is not told where to write"):
        gw.define_op("test/deaf", lambda x: x + 1, overwrites=0)
    with pytest.raises(GraphError, match="overwrites=2"):
        gw.define_op("test/far", lambda x, out=None: np.add(x, 1, out=out), overwrites=2)
    short = gw.define_op("test/short", lambda x, out=None: x[:1] if out is not None else x.copy())
    g = gw.Graph()
    with pytest.raises(LoweringError, match=r"forward gave float32\[1, 256\]"):
        gw.Session(g).run(short(g.placeholder("x", (N, N))), {"x": X})
    lazy = gw.define_op("test/lazy", lambda x, out=None: x * 3.0)  # makes another array anyway
    check_op(lazy)

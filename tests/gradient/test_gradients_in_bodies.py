"""Gradients inside the function of a loop, a branch or a call, with respect to outer tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradientError, GraphError
from tests.support.op_values import value

X = np.array([0.3, -1.2, 0.7, 2.0])
W = np.array([0.5, -0.4])


def held() -> tuple[gw.Tensor, gw.Tensor]:
    g = gw.Graph()
    return g.placeholder("x", (4,), "float64"), g.variable("w", init=W)


def slope(v: Any, w: Any, lib: Any = gw) -> Any:
    """A function of one number whose gradient depends on it and on itself."""
    return lib.tanh(v * w) * w


def in_map(x: gw.Tensor, w: gw.Tensor) -> gw.Tensor:
    return gw.map_fn(lambda v: gw.gradients(slope(v, w), [w])[0], x).sum()


def in_scan(x: gw.Tensor, w: gw.Tensor) -> gw.Tensor:
    def step(c: gw.Tensor, v: gw.Tensor) -> Any:
        (d,) = gw.gradients(slope(v, w) * c, [w])
        return c + d, d

    last, _ = gw.scan(step, x.graph.constant(np.ones(2)), x)
    return last.sum()


def in_while(x: gw.Tensor, w: gw.Tensor) -> gw.Tensor:
    def step(c: gw.Tensor) -> gw.Tensor:
        return c * 1.5 + gw.gradients(slope(c.sum(), w), [w])[0] ** 2

    return gw.while_loop(lambda c: c.sum() < 20.0, step, x.graph.constant(np.ones(2))).sum()


def in_cond(x: gw.Tensor, w: gw.Tensor) -> gw.Tensor:
    return gw.cond(x.sum() > 0.0, lambda: gw.gradients(slope(x.sum(), w), [w])[0], lambda: w).sum()


def in_function(x: gw.Tensor, w: gw.Tensor) -> gw.Tensor:
    @gw.function("inner")
    def inner(v: gw.Tensor) -> Any:
        return gw.gradients(slope(v, w), [w])[0]

    return inner(x.sum()).sum()


def nested(x: gw.Tensor, w: gw.Tensor) -> gw.Tensor:
    """A cond in a scan in a map, three graphs deep; what is outside of w's own use, too."""
    h = gw.sin(w)

    def branch(v: gw.Tensor) -> Any:
        def step(c: gw.Tensor, u: gw.Tensor) -> Any:
            d = gw.cond(
                u > 0.0,
                lambda: gw.gradients(slope(u * c.sum(), w) * h, [w])[0],
                lambda: gw.gradients(slope(v, h), [w])[0],
            )
            return c + d, ()

        return gw.scan(step, x.graph.constant(np.ones(2)), x)[0]

    return gw.map_fn(branch, x).sum()


def jax_of(name: str, jax: ModuleType) -> Callable[[Any, Any], Any]:
    """Return the same function in JAX, whose bodies are Python's."""
    np_ = jax.numpy

    def grad(f: Callable[..., Any], w: Any, *given: Any) -> Any:
        return jax.grad(lambda w: f(w, *given).sum())(w)

    def inner(w: Any, v: Any) -> Any:
        return slope(v, w, np_)

    def map_(x: Any, w: Any) -> Any:
        return sum(grad(inner, w, v).sum() for v in x)

    def scan(x: Any, w: Any) -> Any:
        c = np_.ones(2)
        for v in x:
            c = c + grad(lambda w, v, c: inner(w, v) * c, w, v, c)
        return c.sum()

    def while_(x: Any, w: Any) -> Any:
        c = np_.ones(2)
        while c.sum() < 20.0:
            c = c * 1.5 + grad(inner, w, c.sum()) ** 2
        return c.sum()

    def once(x: Any, w: Any) -> Any:
        return grad(inner, w, x.sum()).sum()

    def nested_(x: Any, w: Any) -> Any:
        total = 0.0
        for v in x:
            c = np_.ones(2)
            for u in x:
                if u > 0:
                    d = grad(lambda w, s: inner(w, s) * np_.sin(w), w, u * c.sum())
                else:
                    d = grad(lambda w, v: inner(np_.sin(w), v), w, v)
                c = c + d
            total = total + c.sum()
        return total

    return {
        "in_map": map_, "in_scan": scan, "in_while": while_, "in_cond": once,
        "in_function": once, "nested": nested_,
    }[name]  # fmt: skip


@pytest.mark.parametrize("make", [in_map, in_scan, in_while, in_cond, in_function, nested])
def test_beside_jax(make: Callable[..., gw.Tensor], jax: ModuleType) -> None:
    """Values, and the gradient of what was made of gradients: through the loop, to w."""
    x, w = held()
    y = make(x, w)
    dw, dx = gw.gradients(y, [w, x], unreachable="zero")
    theirs = jax_of(make.__name__, jax)
    a, b = jax.numpy.asarray(X), jax.numpy.asarray(W)
    np.testing.assert_allclose(value(y, {"x": X}), theirs(a, b), rtol=1e-10)
    expected = jax.grad(theirs, 1)(a, b)
    np.testing.assert_allclose(value(dw, {"x": X}), expected, rtol=1e-9, atol=1e-12)
    if make is not in_while:  # where x is not read
        np.testing.assert_allclose(value(dx, {"x": X}), jax.grad(theirs)(a, b), rtol=1e-9)


def test_maml_matches_differences() -> None:
    """The meta-gradient: through a step of each task to the weights that all start from."""
    rng = np.random.default_rng(3)
    g = gw.Graph()
    xs = g.constant(rng.standard_normal((3, 5, 2)))
    ts = g.constant(rng.standard_normal((3, 5)))
    w = g.variable("w", init=rng.standard_normal(2))

    def task(pair: Any) -> Any:
        x, t = pair
        (d,) = gw.gradients(gw.square(gw.tanh(x @ w) - t).mean(), [w])
        return gw.square(gw.tanh(x @ (w - 0.1 * d)) - t).mean()

    loss = gw.map_fn(task, (xs, ts)).mean(name="loss")
    assert gw.gradient_check(g, loss).passed


def test_it_is_kept_in_an_archive(tmp_path: Path) -> None:
    x, w = held()
    y = in_scan(x, w).rename("y")
    y.graph.save(tmp_path / "g.gw")
    again = gw.load(tmp_path / "g.gw")
    np.testing.assert_array_equal(
        again.output({"x": X}, "y")["y"], y.graph.output({"x": X}, "y")["y"]
    )


def test_a_hessian_in_a_body() -> None:
    """∂²(Σ exp(v·w))/∂w² = diag(v²·exp(v·w)), for each v of a map."""
    x, w = held()

    def hessian(v: gw.Tensor) -> Any:
        return gw.jacobian(gw.gradients(gw.exp(v * w).sum(), [w]), [w])[0][0]

    expected = [np.diag(v * v * np.exp(v * W)) for v in X]
    np.testing.assert_allclose(value(gw.map_fn(hessian, x), {"x": X}), expected, rtol=1e-12)


def test_stop_and_what_lies_between() -> None:
    """h = w² is captured: the gradient goes on through it outside, unless it is stopped there."""
    x, w = held()
    h = w * w
    through = gw.map_fn(lambda v: gw.gradients(v * h, [w])[0], x)
    to_h = gw.map_fn(lambda v: gw.gradients(v * h, [h])[0], x)
    both = gw.map_fn(lambda v: gw.gradients(v * h * w, [w], stop=[h])[0], x)
    feeds = {"x": X}
    np.testing.assert_allclose(value(through, feeds), np.outer(X, 2 * W))
    np.testing.assert_allclose(value(to_h, feeds), np.outer(X, np.ones(2)))
    np.testing.assert_allclose(value(both, feeds), np.outer(X, W * W))


def test_an_argument_is_held() -> None:
    """A function that is given w as an argument is a function of that argument."""
    g = gw.Graph()
    w = g.variable("w", init=W)

    @gw.function("inner")
    def inner(a: gw.Tensor) -> Any:
        return gw.gradients(a * a, [a])[0]

    np.testing.assert_allclose(value(inner(w)), 2 * W)

    @gw.function("wrong")
    def wrong(a: gw.Tensor) -> Any:
        return gw.gradients(a * a, [w])[0]

    with pytest.raises(GradientError, match="the function's own argument"):
        wrong(w)


def test_another_graph_is_refused() -> None:
    x, _ = held()
    _, other = held()
    with pytest.raises(GraphError, match="of another graph"):
        gw.map_fn(lambda v: gw.gradients(v * v, [other])[0], x)

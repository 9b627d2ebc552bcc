"""Jacobians, Hessians, products with them and per-example gradients beside torch.func and JAX."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradientError
from tests.support.op_values import value

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
X, T = RNG.standard_normal((5, 3)), RNG.integers(0, 4, 5)
W1, B1, W2 = RNG.standard_normal((3, 4)), RNG.standard_normal(4), RNG.standard_normal((4, 4))
WEIGHTS = {"w1": W1, "b1": B1, "w2": W2}


def network(rows: int | None = None) -> tuple[gw.Tensor, gw.Tensor, list[gw.Tensor]]:
    """Return logits, the loss of each example, and the weights; the batch size is open."""
    g = gw.Graph()
    x, t = g.placeholder("x", (rows, 3), "float64"), g.placeholder("t", (rows,), "int64")
    w1, b1, w2 = (g.variable(name, init=array) for name, array in WEIGHTS.items())
    logits = gw.tanh(x @ w1 + b1) @ w2
    losses = gw.loss.sparse_softmax_cross_entropy(t, logits, reduction="none")
    return logits, losses, [w1, b1, w2]


def torch_network(torch: ModuleType, x: Any, w1: Any, b1: Any, w2: Any) -> Any:
    return torch.tanh(x @ w1 + b1) @ w2


def torch_losses(torch: ModuleType, x: Any, t: Any, *weights: Any) -> Any:
    logits = torch_network(torch, x, *weights)
    return torch.nn.functional.cross_entropy(logits, t, reduction="none")


FEEDS = {"x": X, "t": T}


@pytest.mark.parametrize("rows", [None, 5])
def test_jacobian_beside_torch(torch: ModuleType, rows: int | None) -> None:
    logits, _, weights = network(rows)
    x = logits.graph["x"]
    ours = gw.jacobian(logits, [*weights, x])
    given = [torch.tensor(a) for a in WEIGHTS.values()]
    theirs = torch.func.jacrev(lambda x, *w: torch_network(torch, x, *w), (1, 2, 3, 0))(
        torch.tensor(X), *given
    )
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(value(a, {"x": X}), b.numpy(), rtol=1e-10, atol=1e-13)


def test_hessian_is_the_jacobian_of_the_gradient(torch: ModuleType) -> None:
    _, losses, (w1, b1, _) = network()
    blocks = gw.jacobian(gw.gradients(losses.sum(), [w1, b1]), [w1, b1])
    w2 = torch.tensor(W2)

    def loss(w1: Any, b1: Any) -> Any:
        return torch_losses(torch, torch.tensor(X), torch.tensor(T), w1, b1, w2).sum()

    slopes = torch.func.jacrev(loss, (0, 1))
    theirs = torch.func.jacrev(slopes, (0, 1))(torch.tensor(W1), torch.tensor(B1))
    for row, expected in zip(blocks, theirs, strict=True):
        for a, b in zip(row, expected, strict=True):
            np.testing.assert_allclose(value(a, FEEDS), b.numpy(), rtol=1e-9, atol=1e-12)


def test_hvp_beside_torch_and_jax(torch: ModuleType, jax: ModuleType) -> None:
    """H·v of all weights at once, and the gradient of vᵀ·H·v for one: the third order."""
    _, losses, weights = network()
    loss = losses.mean()
    vs = [RNG.standard_normal(w.shape) for w in weights]
    ours = gw.hvp(loss, weights, vs)
    given = tuple(torch.tensor(a) for a in WEIGHTS.values())
    moved = tuple(map(torch.tensor, vs))

    def their_loss(*w: Any) -> Any:
        return torch_losses(torch, torch.tensor(X), torch.tensor(T), *w).mean()

    pulled = torch.func.grad(their_loss, (0, 1, 2))
    theirs = torch.func.vjp(pulled, *given)[1](moved)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(value(a, FEEDS), b.numpy(), rtol=1e-9, atol=1e-12)

    def jax_loss(w1: Any) -> Any:
        logits = jax.numpy.tanh(X @ w1 + B1) @ W2
        return -jax.nn.log_softmax(logits)[jax.numpy.arange(5), T].mean()

    def curvature(w1: Any) -> Any:
        return jax.jvp(jax.grad(jax_loss), (w1,), (vs[0],))[1]

    alone = gw.hvp(loss, weights[:1], vs[:1])[0]
    np.testing.assert_allclose(value(alone, FEEDS), curvature(jax.numpy.asarray(W1)), rtol=1e-9)
    (own,) = gw.gradients((alone * loss.graph.constant(vs[0])).sum(), weights[:1])
    expected = jax.grad(lambda w: (curvature(w) * vs[0]).sum())(jax.numpy.asarray(W1))
    np.testing.assert_allclose(value(own, FEEDS), expected, rtol=1e-8, atol=1e-11)


def test_vectors_are_held() -> None:
    """H·g with v the gradient itself: v is not differentiated."""
    g = gw.Graph()
    w = g.variable("w", init=np.array([1.0, 2.0]))
    loss = (w**3.0).sum()
    (dw,) = gw.gradients(loss, [w])
    (product,) = gw.hvp(loss, [w], [dw])
    np.testing.assert_allclose(value(product), 6 * np.array([1.0, 2.0]) * 3 * [1.0, 4.0])


@pytest.mark.parametrize("count", [5, 1])
def test_per_example_gradients_beside_torch(torch: ModuleType, count: int) -> None:
    _, losses, weights = network()
    ours = gw.per_example_gradients(losses, weights)
    given = tuple(torch.tensor(a) for a in WEIGHTS.values())

    def loss(w: Any, x: Any, t: Any) -> Any:
        return torch_losses(torch, x[None], t[None], *w)[0]

    x, t = torch.tensor(X[:count]), torch.tensor(T[:count])
    theirs = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(given, x, t)
    feeds = {"x": X[:count], "t": T[:count]}
    for a, b, whole in zip(ours, theirs, gw.gradients(losses, weights), strict=True):
        found = value(a, feeds)
        np.testing.assert_allclose(found, b.numpy(), rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(found.sum(0), value(whole, feeds), rtol=1e-10, atol=1e-13)


def test_examples_that_meet(jax: ModuleType) -> None:
    """Batch statistics couple the examples: each loss depends on all rows."""
    g = gw.Graph()
    x = g.placeholder("x", ("B", 3), "float64")
    w = g.variable("w", init=W1)
    h = x @ w
    losses = gw.square(gw.tanh((h - h.mean(0)) / (h.var(0) + 0.1))).sum(1)
    (ours,) = gw.per_example_gradients(losses, [w])

    def theirs(w: Any) -> Any:
        h = X @ w
        return (jax.numpy.tanh((h - h.mean(0)) / (h.var(0) + 0.1)) ** 2).sum(1)

    expected = jax.jacrev(theirs)(jax.numpy.asarray(W1))
    np.testing.assert_allclose(value(ours, {"x": X}), expected, rtol=1e-9, atol=1e-12)


def test_jacobians_of_loops_and_of_jacobians(jax: ModuleType) -> None:
    """A recurrence's Jacobian, and the gradient of that with respect to the weights."""
    g = gw.Graph()
    x, w = g.placeholder("x", ("T", 3), "float64"), g.variable("w", init=W1[:, :3])
    h0 = g.variable("h0", init=B1[:3])
    last, _ = gw.scan(lambda h, v: (gw.tanh(h @ w + v), ()), h0, x)
    (j,) = gw.jacobian(last, [h0])
    (dw,) = gw.gradients(gw.square(j).sum(), [w])

    def theirs(h0: Any, w: Any) -> Any:
        h = h0
        for v in X:
            h = jax.numpy.tanh(h @ w + v)
        return h

    a, b = jax.numpy.asarray(B1[:3]), jax.numpy.asarray(W1[:, :3])
    np.testing.assert_allclose(value(j, {"x": X}), jax.jacrev(theirs)(a, b), rtol=1e-9)
    expected = jax.grad(lambda w: (jax.jacrev(theirs)(a, w) ** 2).sum())(b)
    np.testing.assert_allclose(value(dw, {"x": X}), expected, rtol=1e-8, atol=1e-12)


def test_of_what_does_not_fit() -> None:
    logits, losses, (w1, *_) = network()
    g = logits.graph
    with pytest.raises(GradientError, match=r"is no list[\s\S]*a list of tensors as wrt"):
        gw.jacobian(logits, w1)  # type: ignore[arg-type]
    with pytest.raises(GradientError, match="has no Jacobian"):
        gw.jacobian(g["t"], [w1])
    with pytest.raises(GradientError, match="does not depend"):
        gw.jacobian(logits, [g["t"].astype("float64")])
    with pytest.raises(GradientError, match="does not fit"):
        gw.per_example_gradients(losses.mean(), [w1])
    with pytest.raises(GradientError, match="does not fit"):
        gw.hvp(losses, [w1], [W1])
    with pytest.raises(GradientError, match="1 vectors, got 2"):
        gw.hvp(losses.mean(), [w1], [W1, W1])
    with pytest.raises(GradientError, match="is no list"):
        gw.hvp(losses.mean(), w1, [W1])  # type: ignore[arg-type]
    (zero,) = gw.jacobian(logits, [g.placeholder("u", (2,), "float64")], unreachable="zero")
    assert value(zero, {"x": X, "u": [1.0, 2.0]}).shape == (5, 4, 2)


def test_scalars_and_derived() -> None:
    """A scalar's Jacobian is its gradient; what it adds is of the derived layer."""
    g = gw.Graph()
    w = g.variable("w", init=np.array([1.0, 2.0]))
    y = gw.exp(w).sum()
    n = len(g.nodes)
    (j,) = gw.jacobian(y, [w])
    np.testing.assert_allclose(value(j), np.exp([1.0, 2.0]))
    assert len(g.nodes) == n
    assert j.node.derived

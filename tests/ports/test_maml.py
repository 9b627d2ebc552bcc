"""MAML (Finn et al. 2017, arXiv:1703.03400) on sinusoids, second order, against its form in JAX."""

import itertools
from typing import Any

import numpy as np
import pytest

import gradwright as gw

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
optax = pytest.importorskip("optax")

TASKS, SHOTS, HIDDEN, INNER, ALPHA, STEPS = 4, 5, 10, 2, 0.05, 20
RNG = np.random.default_rng(0)
SIZES = (1, HIDDEN, HIDDEN, 1)
START = {}
for K, (N, M) in enumerate(itertools.pairwise(SIZES)):
    START[f"w{K}"] = RNG.normal(size=(N, M)) * (2 / N) ** 0.5
    START[f"b{K}"] = np.zeros(M)
X = RNG.uniform(-5, 5, (STEPS, 2, TASKS, SHOTS, 1))  # [.., support and query, ..]
AMPLITUDE = RNG.uniform(0.1, 5, (STEPS, 1, TASKS, 1, 1))
PHASE = RNG.uniform(0, np.pi, (STEPS, 1, TASKS, 1, 1))
Y = AMPLITUDE * np.sin(X - PHASE)


def reference(p: dict[str, Any], x: Any, y: Any) -> Any:
    def loss(p: dict[str, Any], x: Any, y: Any) -> Any:
        h = jax.nn.relu(x @ p["w0"] + p["b0"])
        h = jax.nn.relu(h @ p["w1"] + p["b1"])
        return jnp.mean((h @ p["w2"] + p["b2"] - y) ** 2)

    def task(x: Any, y: Any, x_query: Any, y_query: Any) -> Any:
        fast = p
        for _ in range(INNER):
            grads = jax.grad(loss)(fast, x, y)
            fast = jax.tree.map(lambda w, g: w - ALPHA * g, fast, grads)
        return loss(fast, x_query, y_query)

    return jnp.mean(jax.vmap(task)(x[0], y[0], x[1], y[1]))


def port() -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph("maml")
    p = {name: g.variable(name, init=value) for name, value in START.items()}
    x = g.placeholder("x", (2, TASKS, SHOTS, 1), dtype="float64")
    y = g.placeholder("y", (2, TASKS, SHOTS, 1), dtype="float64")

    def loss(p: dict[str, Any], x: Any, y: Any) -> Any:
        h = gw.nn.relu(x @ p["w0"] + p["b0"])
        h = gw.nn.relu(h @ p["w1"] + p["b1"])
        return gw.mean((h @ p["w2"] + p["b2"] - y) ** 2)

    def task(item: Any) -> Any:
        x, y, x_query, y_query = item
        fast = p
        for _ in range(INNER):
            grads = gw.gradients(loss(fast, x, y), list(fast.values()))
            fast = {k: w - ALPHA * d for (k, w), d in zip(fast.items(), grads, strict=True)}
        return loss(fast, x_query, y_query)

    return g, gw.mean(gw.map_fn(task, (x[0], y[0], x[1], y[1])))


def test_twenty_steps_of_nadam_are_those_of_optax() -> None:
    g, loss = port()
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Nadam(0.01))
    losses = [trainer.step({"x": X[k], "y": Y[k]}).metrics["loss"] for k in range(STEPS)]
    with jax.enable_x64(True):
        optimizer = optax.nadam(0.01)

        def step(held: Any, batch: Any) -> tuple[Any, Any]:
            p, state = held
            value, grads = jax.value_and_grad(reference)(p, *batch)
            moves, state = optimizer.update(grads, state, p)
            return (optax.apply_updates(p, moves), state), value

        train = jax.jit(lambda p: jax.lax.scan(step, (p, optimizer.init(p)), (X, Y)))
        (p, _), wanted = train({name: jnp.asarray(value) for name, value in START.items()})
        np.testing.assert_allclose(losses, wanted, rtol=1e-9)
        for name, value in p.items():
            np.testing.assert_allclose(g.values[name], value, 1e-7, 1e-9, err_msg=name)

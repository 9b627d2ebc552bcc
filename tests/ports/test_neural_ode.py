"""A neural ODE (Chen et al. 2018, arXiv:1806.07366), Runge-Kutta steps, against JAX."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
optax = pytest.importorskip("optax")

B, D, HIDDEN, POINTS, SUBSTEPS, STEPS = 4, 2, 16, 6, 2, 20
RNG = np.random.default_rng(0)
TIMES = np.linspace(0.0, 1.0, POINTS)
START = {
    "w1": RNG.normal(0, 0.3, (D + 1, HIDDEN)),
    "b1": np.zeros(HIDDEN),
    "w2": RNG.normal(0, 0.3, (HIDDEN, D)),
    "b2": np.zeros(D),
}
A = np.array([[-0.1, 2.0], [-2.0, -0.1]])  # the spiral: y' = y³ A


def rk4(f: Callable[[Any, Any], Any], y: Any, t: Any, dt: Any) -> Any:
    """One classical step; numpy, JAX and gradwright share the arithmetic."""
    k1 = f(t, y)
    k2 = f(t + dt / 2, y + dt / 2 * k1)
    k3 = f(t + dt / 2, y + dt / 2 * k2)
    k4 = f(t + dt, y + dt * k3)
    return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def spiral() -> tuple[np.ndarray, np.ndarray]:
    """Return beginnings [B, D] and the true path behind them [POINTS - 1, B, D]."""
    y = first = RNG.normal(size=(B, D))
    path = []
    for t, dt in zip(TIMES, np.diff(TIMES), strict=False):
        y = rk4(lambda _, y: y**3 @ A, y, t, dt)
        path.append(y)
    return first, np.stack(path)


FIRST, PATH = spiral()


def reference(p: dict[str, Any]) -> Any:
    def f(t: Any, y: Any) -> Any:
        inputs = jnp.concatenate([y, jnp.full_like(y[:, :1], t)], axis=-1)
        return jnp.tanh(inputs @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]

    def interval(y: Any, span: Any) -> tuple[Any, Any]:
        t, end = span
        dt = (end - t) / SUBSTEPS
        y = jax.lax.fori_loop(0, SUBSTEPS, lambda i, y: rk4(f, y, t + i * dt, dt), y)
        return y, y

    _, path = jax.lax.scan(interval, jnp.asarray(FIRST), (TIMES[:-1], TIMES[1:]))
    return jnp.mean(jnp.abs(path - PATH))


def port() -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph("neural_ode")
    p = {name: g.variable(name, init=value) for name, value in START.items()}
    first = g.placeholder("first", (None, D), dtype="float64")
    path = g.placeholder("path", (POINTS - 1, first.shape[0], D), dtype="float64")

    def f(t: Any, y: Any) -> Any:
        inputs = gw.concat(y, t + gw.zeros_like(y[:, :1]), axis=-1)
        return gw.tanh(inputs @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]

    def interval(y: Any, span: Any) -> tuple[Any, Any]:
        t, end = span
        dt = (end - t) / SUBSTEPS
        y, _ = gw.scan(lambda y, i: (rk4(f, y, t + i * dt, dt), None), y, np.arange(SUBSTEPS))
        return y, y

    _, found = gw.scan(interval, first, (TIMES[:-1], TIMES[1:]))
    return g, gw.mean(gw.abs(found - path))


def test_twenty_steps_of_adam_with_a_clipped_norm_are_those_of_optax() -> None:
    g, loss = port()
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(0.02), clip_norm=0.3)
    losses = [trainer.step({"first": FIRST, "path": PATH}).metrics["loss"] for _ in range(STEPS)]
    with jax.enable_x64(True):
        optimizer = optax.chain(optax.clip_by_global_norm(0.3), optax.adam(0.02))

        def step(held: Any, _: Any) -> tuple[Any, Any]:
            p, state = held
            value, grads = jax.value_and_grad(reference)(p)
            moves, state = optimizer.update(grads, state, p)
            return (optax.apply_updates(p, moves), state), (value, optax.tree.norm(grads))

        train = jax.jit(lambda p: jax.lax.scan(step, (p, optimizer.init(p)), length=STEPS))
        (p, _), (wanted, norms) = train({k: jnp.asarray(v) for k, v in START.items()})
        assert max(norms) > 0.3 > min(norms)
        np.testing.assert_allclose(losses, wanted, rtol=1e-10)
        for name, value in p.items():
            np.testing.assert_allclose(g.values[name], value, 1e-8, 1e-10, err_msg=name)

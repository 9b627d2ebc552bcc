"""S4D (Gu et al. 2022, arXiv:2206.11893), a diagonal state-space layer, against its JAX source."""

from typing import Any

import numpy as np
import pytest

import gradwright as gw

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
optax = pytest.importorskip("optax")

B, T, H, N, STEPS = 4, 12, 6, 4, 20
RNG = np.random.default_rng(0)
U, Y = RNG.normal(size=(B, T, H)), RNG.normal(size=(B, H))
START = {
    "ssm/log_dt": RNG.uniform(np.log(0.001), np.log(0.1), H),
    "ssm/log_a_real": np.full((H, N), np.log(0.5)),
    "ssm/a_imag": np.pi * np.tile(np.arange(N, dtype=float), (H, 1)),
    "ssm/c_real": RNG.normal(size=(H, N)) * 0.5**0.5,
    "ssm/c_imag": RNG.normal(size=(H, N)) * 0.5**0.5,
    "d": RNG.normal(size=H),
    "out/w": RNG.normal(size=(H, 2 * H)) / H**0.5,
    "out/b": np.zeros(2 * H),
}


def reference(p: dict[str, Any]) -> Any:
    """Zero-order hold, a scan over time, a skip, GELU, a gated linear unit, the mean over time."""
    a = -jnp.exp(p["ssm/log_a_real"]) + 1j * p["ssm/a_imag"]
    dta = a * jnp.exp(p["ssm/log_dt"])[:, None]
    c = (p["ssm/c_real"] + 1j * p["ssm/c_imag"]) * (jnp.exp(dta) - 1.0) / a

    def step(state: Any, u: Any) -> tuple[Any, Any]:
        state = jnp.exp(dta) * state + u[..., None]
        return state, 2 * jnp.einsum("hn,bhn->bh", c, state).real

    _, y = jax.lax.scan(step, jnp.zeros((B, H, N), complex), U.swapaxes(0, 1))
    y = jax.nn.gelu(y.swapaxes(0, 1) + U * p["d"], approximate=False)
    y = jax.nn.glu(y @ p["out/w"] + p["out/b"], axis=-1)
    return jnp.mean((y.mean(1) - Y) ** 2)


def port() -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph("s4d")
    p = {name: g.variable(name, init=value) for name, value in START.items()}
    x = g.placeholder("u", (None, T, H), dtype="float64")
    target = g.placeholder("y", (None, H), dtype="float64")
    a = gw.complex(-gw.exp(p["ssm/log_a_real"]), p["ssm/a_imag"])
    dta = a * gw.exp(p["ssm/log_dt"])[:, None]
    c = gw.complex(p["ssm/c_real"], p["ssm/c_imag"]) * (gw.exp(dta) - 1.0) / a

    def step(state: Any, u: Any) -> tuple[Any, Any]:
        state = gw.exp(dta) * state + u[..., None]
        return state, 2 * gw.real(gw.einsum("hn,bhn->bh", c, state))

    with g:
        rest = gw.full((x.shape[0], H, N), 0.0, dtype="complex128")
    _, y = gw.scan(step, rest, x, axis=1)
    y = gw.nn.gelu(y + x * p["d"])
    y = gw.nn.glu(y @ p["out/w"] + p["out/b"], axis=-1)
    return g, gw.loss.mean_squared_error(target, y.mean(1))


def test_twenty_steps_of_adamw_with_a_cosine_and_a_gentler_kernel_are_those_of_optax() -> None:
    """As the published training does: the kernel has a tenth of the rate and no decay."""
    g, loss = port()
    trainer = gw.Trainer(
        g,
        loss,
        optimizer=gw.optim.AdamW(gw.schedules.Cosine(1e-2, STEPS), weight_decay=0.05),
        groups=[gw.Group("ssm/*", lr_multiplier=0.1, weight_decay=0.0)],
    )
    losses = [trainer.step({"u": U, "y": Y}).metrics["loss"] for _ in range(STEPS)]
    with jax.enable_x64(True):
        p = {name: jnp.asarray(value) for name, value in START.items()}
        kinds = {name: "ssm" if name.startswith("ssm") else "rest" for name in p}
        optimizer = optax.multi_transform(
            {
                "ssm": optax.adam(optax.cosine_decay_schedule(1e-3, STEPS)),
                "rest": optax.adamw(optax.cosine_decay_schedule(1e-2, STEPS), weight_decay=0.05),
            },
            kinds,
        )

        def step(held: Any, _: Any) -> tuple[Any, Any]:
            p, state = held
            value, grads = jax.value_and_grad(reference)(p)
            moves, state = optimizer.update(grads, state, p)
            return (optax.apply_updates(p, moves), state), value

        train = jax.jit(lambda p: jax.lax.scan(step, (p, optimizer.init(p)), length=STEPS))
        (p, _), wanted = train(p)
        np.testing.assert_allclose(losses, wanted, rtol=1e-10)
        for name, value in p.items():
            np.testing.assert_allclose(g.values[name], value, 1e-8, 1e-10, err_msg=name)

"""Who runs the models: gradwright, torch eager, torch.compile and JAX; each import is inside.

A peer gives one or more variants of its training step, and the fastest one counts. A step returns
something that ``loss`` turns into a number, and which is not asked for while the clock runs.
"""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.engine.models import Model


@dataclass(frozen=True)
class Variant:
    """One way to run a model's training step."""

    name: str
    step: Callable[[], Any]
    set_rate: Callable[[float], None]
    """Sets the learning rate from the next step on."""
    loss: Callable[[Any], float] = float
    settle: Callable[[], None] = field(default=lambda: None)
    """Waits for what the peer still does in the background."""


@dataclass(frozen=True)
class Peer:
    """One side of the race."""

    title: str
    needs: Callable[[Model], tuple[str, ...]]
    """The packages without which it cannot run a model."""
    variants: Callable[[Model], Iterator[Variant]]

    def missing(self, model: Model) -> list[str]:
        """Return what would have to be installed."""
        return [name for name in self.needs(model) if importlib.util.find_spec(name) is None]


def ours(model: Model) -> Iterator[Variant]:
    """Yield the step of a trainer, and the same one prepared in a session without its checks."""
    trainer, batch = model.trainer(), model.batch()
    yield Variant(
        "Trainer.step",
        lambda: trainer.step(batch),
        lambda rate: setattr(trainer.optimizer, "learning_rate", rate),
        lambda record: record.metrics["loss"],
        lambda: settle(trainer.session),
    )
    yield prepared(model)


def prepared(model: Model) -> Variant:
    """Return loss, gradients and update as one prepared run: what the peers do, and no more."""
    loss, rate, updates = training_step(model)
    session, batch = gw.Session(loss.graph), model.batch()
    run = session.prepare(loss, [*batch, rate], updates, training=True)
    arrays = [*batch.values(), np.array(model.rate)]

    def set_rate(to: float) -> None:
        arrays[-1] = np.array(to)

    return Variant(
        "Session.prepare",
        lambda: run(*arrays),
        set_rate,
        settle=lambda: settle(session),
    )


def training_step(model: Model) -> tuple[gw.Tensor, gw.Tensor, dict[gw.Tensor, gw.Tensor]]:
    """Return a model's loss, the placeholder of the learning rate, and the updates of a step."""
    g, loss = model.graph()
    optimizer = getattr(gw.optim, model.optimizer)(model.rate)
    scalars = {k: g.constant(v, k, "float64") for k, v in optimizer.scalars().items()}
    rate = scalars["learning_rate"] = g.placeholder("rate", (), "float64")
    clock = g.variable("clock", (), dtype="int64", trainable=False)
    scalars["step"] = clock + 1
    updates = {clock: scalars["step"]}
    trained = [t for t in g.variables if t.trainable]
    for p, grad in zip(trained, gw.gradients(loss, trained), strict=True):
        slots = [g.variable(f"{p.name}/{k}", p.shape, trainable=False) for k in optimizer.slots]
        updates |= zip((p, *slots), optimizer.update(p, grad, slots, scalars), strict=True)
    return loss, rate, updates


def settle(session: gw.Session, seconds: float = 120.0) -> None:
    """Wait until all plans of a session have their kernels."""
    if not session.wait_for_kernels(seconds):
        raise TimeoutError(f"kernels are still being compiled after {seconds:.0f} s")


def torch_eager(
    model: Model, adams: Sequence[str] = ("default", "foreach", "fused")
) -> Iterator[Variant]:
    """Yield eager steps with each of torch's three implementations of Adam."""
    for name in adams:
        kind = {} if name == "default" else {name: True}
        loss, trained = model.torch_model()
        yield _torch_variant(f"{name} {model.optimizer}", loss, trained, model, kind)


def torch_compile(model: Model) -> Iterator[Variant]:
    """Yield the step with a compiled loss, and so a compiled backward pass."""
    import torch

    loss, trained = model.torch_model()
    name = f"compiled loss, fused {model.optimizer}"
    yield _torch_variant(name, torch.compile(loss), trained, model, {"fused": True})


def _torch_variant(
    name: str,
    loss_of: Callable[[], Any],
    trained: list[Any],
    model: Model,
    kind: dict[str, bool],
) -> Variant:
    import torch

    optimizer = getattr(torch.optim, model.optimizer)(trained, lr=model.rate, **kind)

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Variant(name, step, lambda rate: optimizer.param_groups[0].update(lr=rate))


def jax_jit(model: Model) -> Iterator[Variant]:
    """Yield the jitted step, whose weights and moments are donated."""
    import jax
    import jax.numpy as jnp

    weights = {k: jnp.asarray(a) for k, a in model.weights().items()}
    batch = {k: jnp.asarray(a) for k, a in model.batch().items()}
    trained = {k: a for k, a in weights.items() if model.is_trained(k)}
    frozen = {k: a for k, a in weights.items() if not model.is_trained(k)}
    decay = 0.01 if model.optimizer == "AdamW" else 0.0
    rate = jnp.float32(model.rate)

    @functools.partial(jax.jit, donate_argnums=0)
    def update(state: Any, rate: Any, frozen: Any, batch: Any) -> Any:
        p, m, v, t = state
        loss, g = jax.value_and_grad(lambda p: model.jax({**p, **frozen}, batch))(p)
        tree, t = jax.tree.map, t + 1
        m = tree(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = tree(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
        scale, size = jnp.sqrt(1 - 0.999**t), rate / (1 - 0.9**t)
        p = tree(
            lambda w, a, b: w * (1 - rate * decay) - size * a / (jnp.sqrt(b) / scale + 1e-8),
            p, m, v,
        )  # fmt: skip
        return (p, m, v, t), loss

    zeros = jax.tree.map(jnp.zeros_like, trained)
    state = (trained, zeros, jax.tree.map(jnp.copy, zeros), jnp.float32(0))

    def step() -> Any:
        nonlocal state
        state, loss = update(state, rate, frozen, batch)
        jax.block_until_ready(state)
        return loss

    def set_rate(to: float) -> None:
        nonlocal rate
        rate = jnp.float32(to)

    yield Variant("jit, donated", step, set_rate)


PEERS: dict[str, Peer] = {
    "ours": Peer("gradwright", lambda model: ("gradwright",), ours),
    "torch": Peer("torch eager", lambda model: model.torch_needs, torch_eager),
    "compile": Peer("torch.compile", lambda model: model.torch_needs, torch_compile),
    "jax": Peer("JAX jit", lambda model: ("jax",), jax_jit),
}


def fastest(variants: list[Variant], seconds: float = 0.2, turns: int = 3) -> Variant:
    """Return the variant whose best turn is shortest; they take turns of ``seconds``."""
    if len(variants) == 1:
        return variants[0]
    best = {v.name: float("inf") for v in variants}
    for _ in range(turns):
        for v in variants:
            steps, start = 0, time.perf_counter()
            while (taken := time.perf_counter() - start) < seconds or not steps:
                v.step()
                steps += 1
            best[v.name] = min(best[v.name], taken / steps)
    return min(variants, key=lambda v: best[v.name])

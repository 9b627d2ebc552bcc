"""DeepFM (Guo et al. 2017) with cross layers (Wang et al. 2017), as Keras's layers, in torch."""

from collections.abc import Iterator

import numpy as np
import pytest

import gradwright as gw

torch = pytest.importorskip("torch")

B, DENSE, DIM, WIDE, VOCABULARY, STEPS = 8, 3, 4, 8, (7, 5, 9), 20
RATE, EPSILON, CLIP, L2 = 0.02, 1e-7, 0.05, 1e-3  # l2 as keras.regularizers.l2: λ·Σw²
INPUTS = DENSE + DIM * len(VOCABULARY)
RNG = np.random.default_rng(0)


def start() -> Iterator[tuple[str, np.ndarray]]:
    for k, n in enumerate(VOCABULARY):
        yield f"embedding{k}/embeddings", RNG.uniform(-0.05, 0.05, (n, DIM))
        yield f"linear{k}/embeddings", RNG.uniform(-0.05, 0.05, (n, 1))
    for k in range(2):
        yield f"cross{k}/kernel", RNG.uniform(-0.5, 0.5, (INPUTS, 1))
        yield f"cross{k}/bias", np.zeros(INPUTS)
    sizes = {"dense": (INPUTS, WIDE), "top": (WIDE + INPUTS, 1)}
    for name, (n, m) in sizes.items():
        yield f"{name}/kernel", RNG.uniform(-1, 1, (n, m)) * (6 / (n + m)) ** 0.5
        yield f"{name}/bias", np.zeros(m)
    yield "bn/weight", np.ones(WIDE)
    yield "bn/bias", np.zeros(WIDE)


START = dict(start())
X, T = RNG.normal(size=(STEPS, B, DENSE)), RNG.integers(0, 2, (STEPS, B, 1)).astype(float)
IDS = np.stack([RNG.integers(0, n, (STEPS, B)) for n in VOCABULARY], -1)


def reference(p: dict[str, torch.Tensor], step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return binary_crossentropy and the penalties of a batch, which Keras adds to its loss."""
    ids, dense, t = torch.tensor(IDS[step]), torch.tensor(X[step]), torch.tensor(T[step])
    fields = range(len(VOCABULARY))
    e = torch.stack([p[f"embedding{k}/embeddings"][ids[:, k]] for k in fields], 1)
    linear = sum(p[f"linear{k}/embeddings"][ids[:, k]] for k in fields)
    fm = 0.5 * (e.sum(1) ** 2 - (e**2).sum(1)).sum(1, keepdim=True)
    x = first = torch.cat([dense, e.flatten(1)], 1)
    for k in range(2):
        x = first * (x @ p[f"cross{k}/kernel"]) + p[f"cross{k}/bias"] + x
    h = first @ p["dense/kernel"] + p["dense/bias"]
    mean, var = h.mean(0), h.var(0, unbiased=False)
    h = torch.relu((h - mean) / torch.sqrt(var + 1e-3) * p["bn/weight"] + p["bn/bias"])
    top = torch.cat([x, h], 1) @ p["top/kernel"] + p["top/bias"]
    y = torch.sigmoid(linear + fm + top).clip(EPSILON, 1 - EPSILON)
    loss = -(t * y.log() + (1 - t) * (1 - y).log()).mean()
    return loss, L2 * sum((w**2).sum() for name, w in p.items() if "embeddings" in name)


def port() -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph("deepfm")
    p = {k: g.variable(k, init=v) for k, v in START.items() if k[:3] != "bn/"}
    ids = g.placeholder("ids", (None, len(VOCABULARY)), dtype="int64")
    dense = g.placeholder("dense", (None, DENSE), dtype="float64")
    t = g.placeholder("t", (None, 1), dtype="float64")
    fields = range(len(VOCABULARY))
    e = gw.stack([gw.nn.embedding(ids[:, k], p[f"embedding{k}/embeddings"]) for k in fields], 1)
    linear = sum(gw.nn.embedding(ids[:, k], p[f"linear{k}/embeddings"]) for k in fields)
    fm = 0.5 * (e.sum(axis=1) ** 2 - (e**2).sum(axis=1)).sum(axis=1, keepdims=True)
    x = first = gw.concat(dense, gw.flatten(e, 1), axis=-1)
    for k in range(2):
        x = first * (x @ p[f"cross{k}/kernel"]) + p[f"cross{k}/bias"] + x
    h = gw.nn.linear(first, p["dense/kernel"], p["dense/bias"])
    h = gw.nn.relu(gw.nn.batch_norm(h, axis=-1, momentum=0.01, eps=1e-3, name="bn"))
    top = gw.nn.linear(gw.concat(x, h, axis=-1), p["top/kernel"], p["top/bias"])
    y = gw.clip(gw.nn.sigmoid(linear + fm + top), EPSILON, 1 - EPSILON)
    return g, gw.loss.log_loss(t, y, eps=0.0)


def test_twenty_steps_of_adam_with_regularisers_and_clipnorm_are_those_of_keras() -> None:
    """Keras's epsilon is Adam's ε̂, divided by √(1 − β₂ᵗ) in the form of the paper."""
    g, loss = port()
    adam = gw.optim.Adam(RATE, eps=lambda step: EPSILON / (1 - 0.999 ** (step + 1)) ** 0.5)
    decayed = gw.Group("*/embeddings", l2=2 * L2)
    trainer = gw.Trainer(g, loss, optimizer=adam, groups=[decayed], clip_tensor_norm=CLIP)
    p = {k: torch.tensor(v, requires_grad=True) for k, v in START.items()}
    m, v = ({k: torch.zeros_like(w) for k, w in p.items()} for _ in range(2))
    clipped = 0
    for step in range(STEPS):
        found = trainer.step({"ids": IDS[step], "dense": X[step], "t": T[step]}).metrics
        wanted, penalty = reference(p, step)
        np.testing.assert_allclose(found["loss"], wanted.item(), rtol=1e-9, err_msg=f"step {step}")
        np.testing.assert_allclose(found["l2_penalty"], penalty.item(), rtol=1e-9)
        grads = torch.autograd.grad(wanted + penalty, list(p.values()))
        alpha = RATE * (1 - 0.999 ** (step + 1)) ** 0.5 / (1 - 0.9 ** (step + 1))
        with torch.no_grad():
            for (name, w), grad in zip(p.items(), grads, strict=True):
                clipped += bool(grad.norm() > CLIP)
                grad = grad * min(1.0, CLIP / grad.norm())
                m[name] = 0.9 * m[name] + 0.1 * grad
                v[name] = 0.999 * v[name] + 0.001 * grad**2
                w -= alpha * m[name] / (torch.sqrt(v[name]) + EPSILON)
    assert 0 < clipped < STEPS * len(p)
    for name, w in p.items():
        np.testing.assert_allclose(g.values[name], w.detach(), 1e-7, 1e-9, err_msg=name)

"""The three models of the training benchmark, each built in gradwright, torch and JAX."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import gradwright as gw

Step = Callable[[], object]


def mlp_data(batch: int, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """Return inputs, labels and He-initialised weights."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, sizes[0])).astype(np.float32)
    t = rng.integers(0, sizes[-1], batch)
    pairs = list(itertools.pairwise(sizes))
    ws = [(rng.standard_normal(p) * np.sqrt(2 / p[0])).astype(np.float32) for p in pairs]
    return x, t, ws


def mlp_ours(batch: int, sizes: tuple[int, ...]) -> Step:
    """Return one Adam step of an MLP, driven as a user drives it."""
    x, t, ws = mlp_data(batch, sizes)
    g = gw.Graph("mlp")
    h, labels = g.placeholder("x", (None, sizes[0])), g.placeholder("t", (None,), "int64")
    for i, w in enumerate(ws):
        h = h @ g.variable(f"w{i}", init=w) + g.variable(f"b{i}", (w.shape[1],))
        h = gw.nn.relu(h) if i < len(ws) - 1 else h
    loss = gw.loss.sparse_softmax_cross_entropy(labels, h)
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(1e-3))
    batch_feeds = {"x": x, "t": t}
    return lambda: trainer.step(batch_feeds)


def mlp_torch(batch: int, sizes: tuple[int, ...], fused: bool = False) -> Step:
    """Return the same step in eager torch."""
    import torch

    x, t, ws = mlp_data(batch, sizes)
    layers: list[Any] = []
    for i, w in enumerate(ws):
        linear = torch.nn.Linear(*w.shape)
        with torch.no_grad():
            linear.weight.copy_(torch.from_numpy(w.T.copy()))
            linear.bias.zero_()
        layers += [linear] + [torch.nn.ReLU()] * (i < len(ws) - 1)
    model = torch.nn.Sequential(*layers)
    return torch_step(model, torch.from_numpy(x), torch.from_numpy(t), fused)


def torch_step(model: Any, x: Any, t: Any, fused: bool) -> Step:
    """Return one step of a torch model with Adam."""
    import torch

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)

    def step() -> float:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), t)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def mlp_jax(batch: int, sizes: tuple[int, ...]) -> Step:
    """Return the same step, jitted, with donated state."""
    import jax
    import jax.numpy as jnp

    x, t, ws = mlp_data(batch, sizes)
    params = [(jnp.array(w), jnp.zeros(w.shape[1])) for w in ws]

    def loss_of(params: Any, x: Any, t: Any) -> Any:
        for i, (w, b) in enumerate(params):
            x = x @ w + b
            x = jax.nn.relu(x) if i < len(params) - 1 else x
        return -jnp.take_along_axis(jax.nn.log_softmax(x), t[:, None], 1).mean()

    return jax_step(loss_of, params, jnp.array(x), jnp.array(t))


def jax_step(loss_of: Any, params: Any, x: Any, t: Any) -> Step:
    """Return one jitted Adam step."""
    import functools

    import jax
    import jax.numpy as jnp

    @functools.partial(jax.jit, donate_argnums=(0, 1, 2, 3))
    def update(params: Any, m: Any, v: Any, n: Any, x: Any, t: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, x, t)
        tree, n = jax.tree.map, n + 1
        m = tree(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
        v = tree(lambda a, g: 0.999 * a + 0.001 * g * g, v, grads)
        params = tree(
            lambda p, a, b: p
            - 1e-3 * (a / (1 - 0.9**n)) / (jnp.sqrt(b / (1 - 0.999**n)) + 1e-8),
            params, m, v,
        )  # fmt: skip
        return params, m, v, n, loss

    zeros = jax.tree.map(jnp.zeros_like, params)
    state = [params, zeros, jax.tree.map(jnp.copy, zeros), jnp.float32(0)]

    def step() -> float:
        *state[:], loss = update(*state, x, t)
        return float(loss)

    return step


def attention_weights(d: int, layers: int, vocabulary: int) -> dict[str, np.ndarray]:
    """Return the weights of a small decoder."""
    rng = np.random.default_rng(0)
    shapes = {"embed": (vocabulary, d), "head": (d, vocabulary)}
    for i in range(layers):
        shapes |= {
            f"{i}/qkv": (d, 3 * d),
            f"{i}/out": (d, d),
            f"{i}/up": (d, 4 * d),
            f"{i}/down": (4 * d, d),
        }
    return {k: (rng.standard_normal(s) * 0.02).astype(np.float32) for k, s in shapes.items()}


BATCH, LENGTH, WIDTH, HEADS, LAYERS, WORDS = 8, 64, 128, 4, 2, 256


def decoder_data() -> tuple[np.ndarray, np.ndarray]:
    """Return token ids and the ids that follow."""
    ids = np.random.default_rng(1).integers(0, WORDS, (BATCH, LENGTH + 1))
    return ids[:, :-1], ids[:, 1:]


def decoder_ours() -> Step:
    """Return one step of a 2-layer decoder: d=128, 4 heads, T=64, B=8."""
    ids, following = decoder_data()
    g = gw.Graph("decoder")
    x, t = (
        g.placeholder("ids", (BATCH, LENGTH), "int64"),
        g.placeholder("t", (BATCH, LENGTH), "int64"),
    )
    ws = {k: g.variable(k, init=w) for k, w in attention_weights(WIDTH, LAYERS, WORDS).items()}
    h = gw.nn.embedding(x, ws["embed"])
    for i in range(LAYERS):
        gains = [g.variable(f"{i}/norm{j}", (WIDTH,), init=1.0) for j in range(2)]
        qkv = (gw.nn.rms_norm(h, gains[0]) @ ws[f"{i}/qkv"]).reshape(BATCH, LENGTH, 3, HEADS, -1)
        q, k, v = (qkv[:, :, j].transpose(0, 2, 1, 3) for j in range(3))
        a = gw.nn.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + a.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH) @ ws[f"{i}/out"]
        up = gw.nn.gelu(gw.nn.rms_norm(h, gains[1]) @ ws[f"{i}/up"], approximate="tanh")
        h = h + up @ ws[f"{i}/down"]
    loss = gw.loss.sparse_softmax_cross_entropy(t, h @ ws["head"])
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(1e-3))
    feeds = {"ids": ids, "t": following}
    return lambda: trainer.step(feeds)


def decoder_torch(fused: bool = False) -> Step:
    """Return the same decoder in eager torch."""
    import torch
    from torch.nn import functional as f

    ids, following = map(torch.from_numpy, decoder_data())

    class Decoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            ws = attention_weights(WIDTH, LAYERS, WORDS)
            self.w = torch.nn.ParameterDict(
                {k.replace("/", "_"): torch.from_numpy(w) for k, w in ws.items()}
            )
            for i in range(2 * LAYERS):
                self.w[f"n{i}"] = torch.ones(WIDTH)

        def forward(self, ids: Any) -> Any:
            w, h = self.w, f.embedding(ids, self.w["embed"])
            for i in range(LAYERS):
                qkv = f.rms_norm(h, (WIDTH,), w[f"n{2 * i}"]) @ w[f"{i}_qkv"]
                q, k, v = qkv.view(BATCH, LENGTH, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
                a = f.scaled_dot_product_attention(q, k, v, is_causal=True)
                h = h + a.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH) @ w[f"{i}_out"]
                up = f.rms_norm(h, (WIDTH,), w[f"n{2 * i + 1}"]) @ w[f"{i}_up"]
                h = h + f.gelu(up, approximate="tanh") @ w[f"{i}_down"]
            return (h @ w["head"]).flatten(0, 1)

    return torch_step(Decoder(), ids, following.flatten(), fused)


def decoder_jax() -> Step:
    """Return the same decoder in JAX."""
    import jax
    import jax.numpy as jnp

    ids, following = map(jnp.array, decoder_data())
    params = {k: jnp.array(w) for k, w in attention_weights(WIDTH, LAYERS, WORDS).items()}
    params |= {f"n{i}": jnp.ones(WIDTH) for i in range(2 * LAYERS)}
    mask = jnp.tril(jnp.ones((LENGTH, LENGTH), bool))

    def norm(x: Any, gain: Any) -> Any:
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain

    def loss_of(w: Any, ids: Any, t: Any) -> Any:
        h = w["embed"][ids]
        for i in range(LAYERS):
            qkv = (norm(h, w[f"n{2 * i}"]) @ w[f"{i}/qkv"]).reshape(BATCH, LENGTH, 3, HEADS, -1)
            q, k, v = qkv.transpose(2, 0, 3, 1, 4)
            scores = q @ k.swapaxes(-1, -2) / np.sqrt(WIDTH // HEADS)
            a = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)) @ v
            h = h + a.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH) @ w[f"{i}/out"]
            h = h + jax.nn.gelu(norm(h, w[f"n{2 * i + 1}"]) @ w[f"{i}/up"]) @ w[f"{i}/down"]
        logp = jax.nn.log_softmax(h @ w["head"])
        return -jnp.take_along_axis(logp, t[..., None], -1).mean()

    return jax_step(loss_of, params, ids, following)

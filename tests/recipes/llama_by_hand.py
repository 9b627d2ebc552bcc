"""A Llama with adapters on the heads of its queries, forward and backward in plain numpy, float64.

Written from the formulas alone, one line after the other, as a reference of the trainer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def turned(x: Array, base: float, interleaved: bool, back: bool = False) -> Array:
    """Return x [T, H, E] with its pairs turned to their positions, or back."""
    t, _, e = x.shape
    angles = np.arange(t)[:, None, None] * base ** (-np.arange(0, e, 2) / e)
    cos, sin = np.cos(angles), np.sin(angles) * (-1 if back else 1)
    y = np.empty_like(x)
    one, two = (
        (slice(0, None, 2), slice(1, None, 2))
        if interleaved
        else (slice(0, e // 2), slice(e // 2, None))
    )
    a, b = x[..., one], x[..., two]
    y[..., one], y[..., two] = a * cos - b * sin, a * sin + b * cos
    return y


def normed(x: Array, w: Array, eps: float) -> tuple[Array, Array]:
    """Return RMS norm of rows, and 1/rms."""
    r = 1 / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
    return x * r * w, r


def norm_back(g: Array, x: Array, w: Array, r: Array) -> Array:
    gw = g * w
    return r * gw - x * r**3 * (gw * x).mean(-1, keepdims=True)


def loss_and_gradients(
    config: Any,
    w: dict[str, Array],
    adapters: list[tuple[Array, Array]],
    ids: Array,
    targets: Array,
) -> tuple[float, list[tuple[Array, Array]]]:
    """Return the mean cross-entropy of all positions, and its gradients of A and B by layers."""
    t, n, kv, e = len(ids), config.heads, config.shared, config.features
    hides = np.triu(np.full((t, t), -np.inf), 1)
    h, kept = w["embed"][ids], []
    for i, (a, b) in enumerate(adapters):
        p = {k.removeprefix(f"layer{i}/"): v for k, v in w.items() if k.startswith(f"layer{i}/")}
        y, r1 = normed(h, p["attention_norm"], config.eps)
        low = np.einsum("td,hrd->thr", y, a)
        bias = {k: p.get(f"{k}_bias", 0.0) for k in "qkv"}
        q = (y @ p["q"].T + bias["q"]).reshape(t, n, e) + np.einsum("thr,her->the", low, b)
        k = (y @ p["k"].T + bias["k"]).reshape(t, kv, e)
        v = (y @ p["v"].T + bias["v"]).reshape(t, kv, e)
        q, k = (turned(x, config.rope_base, config.interleaved) for x in (q, k))
        k, v = np.repeat(k, n // kv, 1), np.repeat(v, n // kv, 1)
        s = np.einsum("the,she->hts", q, k) / np.sqrt(e) + hides
        s = np.exp(s - s.max(-1, keepdims=True))
        s /= s.sum(-1, keepdims=True)
        mixed = np.einsum("hts,she->the", s, v)
        m = h + mixed.reshape(t, n * e) @ p["o"].T
        z, r2 = normed(m, p["mlp_norm"], config.eps)
        gate, up = z @ p["gate"].T, z @ p["up"].T
        sig = 1 / (1 + np.exp(-gate))
        kept.append((p, h, y, r1, low, q, k, v, s, m, r2, gate, up, sig))
        h = m + (gate * sig * up) @ p["down"].T
    y, r = normed(h, w["norm"], config.eps)
    head = w["embed"] if config.tied else w["head"]
    logits = y @ head.T
    logits -= logits.max(-1, keepdims=True)
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    loss = -logp[np.arange(t), targets].mean()
    g = np.exp(logp)
    g[np.arange(t), targets] -= 1
    g = norm_back((g / t) @ head, h, w["norm"], r)
    found: list[tuple[Array, Array]] = []
    for (a, b), held in zip(adapters[::-1], kept[::-1], strict=True):
        p, h, y, r1, low, q, k, v, s, m, r2, gate, up, sig = held
        gz = g @ p["down"]
        slope = sig * (1 + gate * (1 - sig))
        gz = (gz * up * slope) @ p["gate"] + (gz * gate * sig) @ p["up"]
        g = g + norm_back(gz, m, p["mlp_norm"], r2)
        gm = (g @ p["o"]).reshape(t, n, e)
        gs = np.einsum("the,she->hts", gm, v)
        gv = np.einsum("hts,the->she", s, gm)
        gs = s * (gs - (gs * s).sum(-1, keepdims=True)) / np.sqrt(e)
        gq, gk = np.einsum("hts,she->the", gs, k), np.einsum("hts,the->she", gs, q)
        gk, gv = (x.reshape(t, kv, n // kv, e).sum(2) for x in (gk, gv))
        gq, gk = (turned(x, config.rope_base, config.interleaved, back=True) for x in (gq, gk))
        glow = np.einsum("the,her->thr", gq, b)
        found.append((np.einsum("thr,td->hrd", glow, y), np.einsum("the,thr->her", gq, low)))
        gy = gq.reshape(t, n * e) @ p["q"] + np.einsum("thr,hrd->td", glow, a)
        gy = gy + gk.reshape(t, kv * e) @ p["k"] + gv.reshape(t, kv * e) @ p["v"]
        g = g + norm_back(gy, h, p["attention_norm"], r1)
    return float(loss), found[::-1]


def moved(
    p: Array, g: Array, m: Array, v: Array, hp: tuple[float, ...]
) -> tuple[Array, Array, Array]:
    """Return parameter and moments after AdamW by a row of seven numbers."""
    rate, b1, b2, eps, decay, s5, s6 = hp
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    return p * (1 - rate * decay) - rate * (m * s5) / (np.sqrt(v * s6) + eps), m, v


def first_a(config: Any, r: int, seed: int, scale: float) -> list[Array]:
    """Return A of each layer, drawn number by number as the original does."""
    state, layers = seed, []

    def uniform() -> float:
        nonlocal state
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        return (state + 1.0) / 2147483648.0

    for _ in range(config.layers):
        heads = np.empty((config.heads, r, config.width))
        for i in np.ndindex(heads.shape):
            u, v = uniform(), uniform()
            heads[i] = scale * np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)
        layers.append(heads)
    return layers

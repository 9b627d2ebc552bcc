"""Ordinary numpy code that several tests compile, with arguments to call it with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

rng = np.random.default_rng(11)
X, W, LABELS = rng.standard_normal((8, 5)), rng.standard_normal((5, 3)), rng.integers(0, 3, 8)
SCALE = np.arange(1.0, 6.0)


def standardise(x):
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-8)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    e /= e.sum(axis=-1, keepdims=True)
    return e


def min_max(x):
    low, high = x.min(axis=0), x.max(axis=0)
    return (x - low) / (high - low)


def log_sum_exp(x):
    top = np.max(x, axis=1, keepdims=True)
    return np.squeeze(top + np.log(np.sum(np.exp(x - top), axis=1, keepdims=True)), axis=1)


def layer_norm(x, g, b, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    return g * (x - mean) / np.sqrt(var + eps) + b


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def relu_in_place(x):
    y = x.copy()
    y[y < 0] = 0
    return y


def cross_entropy(logits, labels):
    z = logits - logits.max(axis=1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    return -logp[np.arange(len(labels)), labels].mean()


def one_hot(labels):
    y = np.zeros_like(labels, shape=(len(labels), 3), dtype=float)
    y[np.arange(len(labels)), labels] = 1
    return y


def distances(a, b):
    return np.sqrt(np.maximum(((a[:, None] - b[None]) ** 2).sum(-1), 0))


def distances_by_products(a, b):
    return (a**2).sum(1)[:, None] - 2 * a @ b.T + (b**2).sum(1)


def k_means_step(x, centres):
    nearest = np.argmin(((x[:, None] - centres) ** 2).sum(-1), axis=1)
    member = nearest[:, None] == np.arange(len(centres))
    counts = member.sum(axis=0)[:, None]
    return np.where(counts > 0, member.T.astype(x.dtype) @ x / np.maximum(counts, 1), centres)


def pca(x):
    centred = x - x.mean(axis=0)
    _, s, vt = np.linalg.svd(centred, full_matrices=False)
    vt = vt * np.sign(vt[:, :1])
    return centred @ vt[:2].T, s**2 / (len(x) - 1)


def whiten(x):
    c = np.cov(x, rowvar=False)
    values, vectors = np.linalg.eigh(c)
    return np.abs((x - x.mean(0)) @ vectors / np.sqrt(values + 1e-6))


def convolution(x, k):
    out = np.zeros_like(x, shape=(x.shape[0] - k.shape[0] + 1, x.shape[1] - k.shape[1] + 1))
    for i in range(k.shape[0]):
        for j in range(k.shape[1]):
            out += k[i, j] * x[i : i + out.shape[0], j : j + out.shape[1]]
    return out


def moving_average(x, n=3):
    c = np.cumsum(np.pad(x, ((1, 0), (0, 0))), axis=0)
    return (c[n:] - c[:-n]) / n


def mandelbrot_step(z, c, count):
    inside = np.abs(z) <= 2
    z = np.where(inside, z * z + c, z)
    return z, count + inside


def runge_kutta(y, h=0.1, steps=3):
    def slope(y):
        return np.stack([y[1], -np.sin(y[0])])

    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def heat_step(u):
    v = u.copy()
    v[1:-1, 1:-1] += 0.1 * (
        u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    )
    return v


def game_of_life(board):
    around = sum(
        np.roll(board, (i, j), axis=(0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j
    )
    return ((around == 3) | ((board == 1) & (around == 2))).astype(board.dtype)


def attention(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    mask = np.tril(np.ones(scores.shape[-2:], bool))
    scores = np.where(mask, scores, -np.inf)
    return softmax(scores) @ v


def heads(x, n=1):
    t, d = x.shape
    return x.reshape(t, n, d // n).transpose(1, 0, 2).reshape(n, -1)


def rotary(x):
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[0])[:, None] / 10.0 ** np.arange(half)
    a, b = x[:, :half], x[:, half : 2 * half]
    turned = np.concatenate(
        [a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=1
    )
    return turned


def adam(w, g, m, v, t=1):
    m *= 0.9
    m += 0.1 * g
    v *= 0.999
    v += 0.001 * g**2
    w -= 1e-3 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return w


def momentum(params, grads, velocity):
    for name in params:
        velocity[name] *= 0.9
        velocity[name] += grads[name]
        params[name] -= 0.1 * velocity[name]
    return {name: np.linalg.norm(w) for name, w in params.items()}


def logistic_regression(x, y):
    w, b = np.zeros_like(x[0]), 0.0
    for _ in range(5):
        p = 1 / (1 + np.exp(-(x @ w + b)))
        w -= 0.5 * x.T @ (p - y) / len(y)
        b -= 0.5 * (p - y).mean()
    return w, b


def ridge(x, y):
    return np.linalg.solve(x.T @ x + 0.1 * np.eye(x.shape[1]), x.T @ y)


def gram_schmidt(x):
    basis = []
    for row in x[:3]:
        for b in basis:
            row = row - (row @ b) * b
        basis.append(row / np.linalg.norm(row))
    return np.array(basis, like=x)


def power_iteration(a):
    v = np.ones_like(a[0])
    for _ in range(4):
        v = a @ v
        v /= np.linalg.norm(v)
    return v @ a @ v


def kalman(mean, cov, z):
    f = np.array([[1.0, 1.0], [0.0, 1.0]])
    mean, cov = f @ mean, f @ cov @ f.T + 0.01 * np.eye(2)
    gain = cov[:, 0] / (cov[0, 0] + 0.1)
    return mean + gain * (z - mean[0]), cov - np.outer(gain, cov[0])


def histogram_match(x):
    ranks = np.argsort(np.argsort(x, axis=0), axis=0)
    return ranks / (len(x) - 1)


def polynomial(x):
    y = np.zeros_like(x)
    for c in (2.0, -1.0, 0.5):
        y = y * x + c
    return y


def pairwise_cosine(x):
    n = x / np.linalg.norm(x, axis=1, keepdims=True)
    s = n @ n.T
    s[np.arange(len(x)), np.arange(len(x))] = 0
    return s


def trapezoid(x):
    return np.trapezoid(np.sort(x, axis=0), dx=0.1, axis=0)


def winsorise(x):
    low, high = np.quantile(x, [0.1, 0.9], axis=0)
    return np.clip(x, low, high)


def integer_code(x):
    q = np.round(x * 16).astype(np.int8)
    return q, q.astype(np.float32) / 16, (q ^ 3) & 7, q // 3, q % 3


def dropped_rows(x):
    return x[x[:, 0] > 0].sum(axis=0), x[x > 0]


def blur(x):
    p = np.pad(x, 1, mode="edge")
    return (p[:-2, 1:-1] + 2 * p[1:-1, 1:-1] + p[2:, 1:-1]) / 4


def lstm_cell(x, h, c, w):
    i, f, o, g = np.split(np.concatenate([x, h], axis=1) @ w, 4, axis=1)
    i, f, o = (1 / (1 + np.exp(-v)) for v in (i, f, o))
    c = f * c + i * np.tanh(g)
    return o * np.tanh(c), c


def batch_norm(x, running):
    mean, var = x.mean(0), x.var(0)
    running["mean"] *= 0.9
    running["mean"] += 0.1 * mean
    running["var"][...] = 0.9 * running["var"] + 0.1 * var
    return (x - mean) / np.sqrt(var + 1e-5)


def fourier(x):
    n = len(x)
    k = np.arange(n)
    return np.abs(np.exp(-2j * np.pi * k * k[:, None] / n) @ x)


def closest_pair(x):
    d = distances(x, x) + np.where(np.eye(len(x)), np.inf, 0)
    return np.unravel_index(0, (2, 2)), d.min(), d.argmin(axis=1)


def entropy(p):
    q = np.abs(p) / np.abs(p).sum()
    return -np.einsum("ij,ij->", q, np.log(q))


def labels_to_counts(labels):
    return np.bincount(labels), np.unique(labels, return_counts=True)


CORPUS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (standardise, (X,)),
    (min_max, (X,)),
    (softmax, (X,)),
    (log_sum_exp, (X,)),
    (layer_norm, (X, SCALE, np.ones(5))),
    (gelu, (X,)),
    (relu_in_place, (X,)),
    (cross_entropy, (X[:, :3], LABELS)),
    (one_hot, (LABELS,)),
    (distances, (X, W.T)),
    (distances_by_products, (X, W.T)),
    (k_means_step, (X, X[:3])),
    (pca, (X,)),
    (whiten, (X,)),
    (convolution, (X, W[:2, :2])),
    (moving_average, (X,)),
    (mandelbrot_step, (np.zeros(4, complex), X[:4, 0] + 1j * X[:4, 1], np.zeros(4, int))),
    (runge_kutta, (X[:2, 0],)),
    (heat_step, (X,)),
    (game_of_life, (rng.integers(0, 2, (6, 6)),)),
    (attention, (X, X + 1, X * 2)),
    (heads, (X,)),
    (rotary, (X,)),
    (adam, (X, X**2, np.zeros((8, 5)), np.zeros((8, 5)))),
    (momentum, ({"w": W, "b": SCALE}, {"w": W + 1, "b": SCALE}, {"w": W * 0, "b": SCALE * 0})),
    (logistic_regression, (X, (LABELS > 0).astype(float))),
    (ridge, (X, X[:, 0])),
    (gram_schmidt, (X,)),
    (power_iteration, (X.T @ X,)),
    (kalman, (np.array([0.0, 1.0]), np.eye(2), 1.5)),
    (histogram_match, (X,)),
    (polynomial, (X,)),
    (pairwise_cosine, (X,)),
    (trapezoid, (X,)),
    (winsorise, (X,)),
    (integer_code, (X,)),
    (dropped_rows, (X,)),
    (blur, (X,)),
    (lstm_cell, (X, X[:, :2], X[:, 2:4], rng.standard_normal((7, 8)))),
    (batch_norm, (X, {"mean": np.zeros(5), "var": np.ones(5)})),
    (fourier, (X,)),
    (closest_pair, (X,)),
    (entropy, (X,)),
    (labels_to_counts, (LABELS,)),
]


def assert_same(want: Any, got: Any, tolerance: float) -> None:
    if isinstance(want, dict):
        assert list(want) == list(got)
        for key in want:
            assert_same(want[key], got[key], tolerance)
    elif isinstance(want, (tuple, list)):
        assert len(want) == len(got)
        for a, b in zip(want, got, strict=True):
            assert_same(a, b, tolerance)
    else:
        a, b = np.asarray(want), np.asarray(got)
        assert (type(want), a.dtype, a.shape) == (type(got), b.dtype, b.shape)
        np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)

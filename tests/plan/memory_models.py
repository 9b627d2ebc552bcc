"""Networks with gradients whose memory several tests look at, and their feeds and plans."""

from __future__ import annotations

import numpy as np

import gradwright as gw


def mlp(layers, width=32, dropout=0.0):
    """Return a graph with a deep tanh network, its loss and gradients."""
    rng = np.random.default_rng(0)
    g = gw.Graph()
    x, t = g.placeholder("x", ("B", width)), g.placeholder("t", ("B", width))
    h, params = x, []
    for i in range(layers):
        w = g.variable(f"l{i}/w", init=rng.normal(0, width**-0.5, (width, width)).astype("f4"))
        b = g.variable(f"l{i}/b", init=np.zeros(width, "f4"))
        params += [w, b]
        with g.scope(f"l{i}"):
            h = gw.tanh(h @ w + b, name="out")
            if dropout:
                h = gw.nn.dropout(h, dropout)
    loss = gw.mean((h - t) ** 2.0, name="loss")
    return g, [loss, *gw.gradients(loss, params)]


def decoder(layers, width=32, heads=2, words=40):
    """Return a graph with a small decoder, its loss and gradients."""
    rng = np.random.default_rng(0)

    def weight(name, *shape):
        return g.variable(name, init=rng.normal(0, 0.1, shape).astype("f4"))

    g = gw.Graph()
    ids, t = (g.placeholder(n, ("B", "T"), "int64") for n in ("ids", "t"))
    params = [weight("embed", words, width)]
    h = gw.nn.embedding(ids, params[0])
    for i in range(layers):
        own = [weight(f"b{i}/{n}", width, m) for n, m in (("q", 3 * width), ("o", width))]
        own += [weight(f"b{i}/up", width, 4 * width), weight(f"b{i}/down", 4 * width, width)]
        own += [g.variable(f"b{i}/n{j}", init=np.ones(width, "f4")) for j in range(2)]
        with g.scope(f"block{i}"):
            qkv = gw.nn.rms_norm(h, own[4]) @ own[0]
            q, k, v = (
                p.reshape(p.shape[0], p.shape[1], heads, width // heads).transpose(0, 2, 1, 3)
                for p in gw.split(qkv, 3, axis=-1)
            )
            a = gw.nn.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + a.transpose(0, 2, 1, 3).reshape(h.shape[0], h.shape[1], width) @ own[1]
            h = h + gw.nn.gelu(gw.nn.rms_norm(h, own[5]) @ own[2]) @ own[3]
        params += own
    loss = gw.loss.sparse_softmax_cross_entropy(t, h @ weight("head", width, words))
    return g, [loss, *gw.gradients(loss, params)]


def convolutions():
    """Return a graph with a small convolutional network with statistics, and its gradients."""
    rng = np.random.default_rng(0)
    g = gw.Graph()
    x = g.placeholder("x", ("B", 3, 12, 12))
    h, params, channels = x, [], 3
    for i, n in enumerate((8, 8, 16, 16)):
        w = g.variable(f"w{i}", init=rng.normal(0, 0.2, (n, channels, 3, 3)).astype("f4"))
        h = gw.nn.relu(gw.cnn.conv2d(h, w, padding=1))
        h, channels = gw.nn.dropout(h, 0.2), n
        params.append(w)
    loss = (h * h).mean()
    return g, [loss, *gw.gradients(loss, params)]


def feeds_of(g, **sizes):
    rng = np.random.default_rng(1)
    feeds = {}
    for p in g.placeholders:
        shape = [d if isinstance(d, int) else sizes[str(d)] for d in p.shape]
        whole = p.dtype.kind in "iu"
        feeds[p.name] = rng.integers(0, 40, shape) if whole else rng.standard_normal(shape)
        feeds[p.name] = feeds[p.name].astype(p.dtype)
    return feeds


def plan_of(g, targets, feeds, training=True, **options):
    with gw.Session(g, kernels="off", **options) as session:
        return session.plan(targets, {k: v.shape for k, v in feeds.items()}, training=training)

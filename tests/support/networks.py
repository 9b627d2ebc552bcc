"""Small networks that several tests train, and the digits that some are trained on."""

from __future__ import annotations

import warnings

import numpy as np

import gradwright as gw


def regression(dtype="float64", seed=0):
    """Return the loss of two layers, a mean over rows, in a graph with a running mean."""
    rng = np.random.default_rng(seed)
    g = gw.Graph("net")
    x, t = g.placeholder("x", (None, 4), dtype), g.placeholder("t", (None,), dtype)
    w = g.variable("w", init=rng.standard_normal((4, 6)).astype(dtype))
    v = g.variable("v", init=rng.standard_normal(6).astype(dtype))
    mean = g.variable("mean", (4,), dtype=dtype, trainable=False)
    g.update(mean, mean * 0.5 + gw.mean(x, axis=0) * 0.5)
    return gw.mean((gw.tanh(x @ w) @ v - t) ** 2.0, name="loss")


def squares():
    """Return the graph of a line's squared error, a sum over rows, and its tensors."""
    g = gw.Graph("line")
    x = g.placeholder("x", ("B", 3))
    t = g.placeholder("t", ("B",))
    w = g.variable("w", (3,), init=[1.0, 2.0, 3.0])
    loss = ((x @ w - t) ** 2.0).sum(name="loss")
    return g, x, t, w, loss


def small():
    """Return the graph of one product, with a variable that nothing reads."""
    g = gw.Graph("small")
    x = g.placeholder("x", (None, 3))
    with g.scope("hidden"):
        w = g.variable("w", (3, 2), init=np.arange(6.0).reshape(3, 2))
        g.variable("b", (2,))
        x @ w
    return g


def digits():
    """Return scikit-learn's digits and their labels in a fixed order."""
    from sklearn.datasets import load_digits

    x, t = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    return (x[order] / 16).astype("float32"), t[order].astype("int64")


def classifier():
    """Return the graph of two layers for the digits, with tensors ``logits`` and ``loss``."""
    g = gw.Graph()
    h, t = g.placeholder("x", ("B", 64)), g.placeholder("t", ("B",), "int64")
    for i, (a, b) in enumerate([(64, 48), (48, 10)]):
        with g.scope(f"layer_{i}"):
            w, bias = g.variable("w", (a, b), init=gw.init.he_normal(seed=i)), g.variable("b", (b,))
            h = gw.nn.linear(h, w, bias)
        h = gw.nn.relu(h) if i == 0 else h
    gw.identity(h, name="logits")
    gw.loss.sparse_softmax_cross_entropy(t, h, name="loss")
    return g


def llama(config):
    """Return transformers' Llama of a decoder's sizes, with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=config.vocabulary,
                hidden_size=config.width,
                intermediate_size=config.hidden,
                num_hidden_layers=config.layers,
                num_attention_heads=config.heads,
                num_key_value_heads=config.shared,
                rms_norm_eps=config.eps,
                max_position_embeddings=config.context,
                tie_word_embeddings=config.tied,
                rope_theta=config.rope_base,
                attn_implementation="eager",
            )
        )
    return model.eval()

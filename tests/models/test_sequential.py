"""Stacks of layers: names, shapes, parameters, and the same numbers as built by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, ShapeError
from gradwright.models import Conv, Dense, Embedding

X = np.random.default_rng(0).standard_normal((6, 1, 8, 8)).astype(np.float32)


def network(seed: int = 3) -> tuple[gw.Graph, gw.Tensor, gw.Tensor, gw.Sequential]:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 1, 8, 8))
    init = gw.init.he_normal(seed=seed)
    net = gw.Sequential(
        Conv(4, 3, gw.nn.relu, padding="same", init=init),
        gw.nn.batch_norm,
        lambda h: gw.cnn.max_pool2d(h, 2),
        ("flat", lambda h: gw.flatten(h, 1)),
        Dense(16, gw.tanh, init=init),
        Dense(3, bias=False, init=init),
        name="net",
    )
    return g, x, net(x), net


def test_layers_have_scopes_and_the_table_says_what_they_are() -> None:
    g, _, y, net = network()
    names = ["conv", "batch_norm", "layer", "flat", "dense", "dense_1"]
    assert list(net.layers) == list(net.outputs) == names and net.outputs["dense_1"] is y
    assert {"net/conv/w", "net/conv/b", "net/dense/w", "net/dense_1/w"} <= {
        t.name for t in g.trainable
    }
    assert "net/dense_1/b" not in g
    text = str(net.summary()).splitlines()
    assert text[0] == "net" and text[-1] == "1,144 parameters"
    assert [line.split()[0] for line in text[2:-1]] == names
    assert text[2].split()[1:] == ["f32[B,", "4,", "8,", "8]", "40"]
    assert "<table" in net.summary()._repr_html_() and "dense_1" in repr(net)


def test_the_numbers_are_those_built_by_hand() -> None:
    g, x, y, _ = network()
    w = {t.name.removeprefix("net/"): t for t in g.trainable}
    h = gw.nn.relu(gw.cnn.conv2d(x, w["conv/w"], w["conv/b"], padding="same"))
    mean, var = h.mean((0, 2, 3), keepdims=True), h.var((0, 2, 3), keepdims=True)
    h = gw.cnn.max_pool2d((h - mean) / gw.sqrt(var + 1e-5), 2).reshape(-1, 64)
    hand = gw.tanh(h @ w["dense/w"] + w["dense/b"]) @ w["dense_1/w"]
    with gw.Session(g) as session:
        ours, theirs = session.run([y, hand], {"x": X}, training=True)
    np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


def test_it_is_trained_checked_and_cloned() -> None:
    g, x, y, net = network()
    t = g.placeholder("t", ("B",), "int64")
    loss = gw.loss.sparse_softmax_cross_entropy(t, y)
    feeds = {"x": X, "t": np.arange(6) % 3}
    trainer = gw.Trainer(g, loss, gw.optim.Adam(1e-2))
    losses = [trainer.step(feeds).metrics["loss"] for _ in range(30)]
    assert losses[-1] < 0.3 * losses[0]
    other = g.placeholder("other", ("B", 1, 8, 8))
    again = gw.clone(y, {x: other})
    found = g.output({"x": X, "other": X}, y, again).values()
    np.testing.assert_array_equal(*found)
    assert len(g.trainable) == 7
    with pytest.raises(GraphError, match=r"net is built already(.|\n)*gw\.clone"):
        net(other)


def test_stacks_nest_and_embeddings_start_them() -> None:
    g = gw.Graph()
    ids = g.placeholder("ids", ("B", 5), "int64")
    block = gw.Sequential(Dense(8, gw.nn.gelu), Dense(4), name="block")
    net = gw.Sequential(Embedding(11, 4), block, lambda h: h.mean(1), name="text")
    y = net(ids)
    assert str(y.spec) == "f32[B, 4]"
    assert "text/block/block/dense_1/w" in g and "text/embedding/table" in g
    assert str(net.summary()).splitlines()[-1] == f"{44 + 40 + 36} parameters"


def test_dtypes_follow_the_input() -> None:
    g = gw.Graph()
    y = gw.Sequential(Dense(2))(g.placeholder("x", ("B", 3), "float64"))
    assert y.dtype == np.float64 and g["sequential/dense/w"].dtype == np.float64


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "no layer": (lambda x: gw.Sequential(3), GraphError, "layer 0 is 3"),
    "triple": (lambda x: gw.Sequential(("a", gw.tanh, 3)), GraphError, r"layer 0 is \('a'"),
    "same name": (
        lambda x: gw.Sequential(("a", gw.tanh), ("a", gw.tanh)), GraphError, "called 'a'",
    ),
    "no tensor": (
        lambda x: gw.Sequential(lambda h: (h, h))(x), GraphError, "'layer' of .* returned tuple",
    ),
    "array": (lambda x: gw.Sequential(gw.tanh)(X), GraphError, "got ndarray"),
    "not built": (lambda x: gw.Sequential(gw.tanh).summary(), GraphError, "is not built"),
    "unknown": (lambda x: gw.Sequential(Dense(3))(x), GraphError, "no known number of features"),
    "rank": (lambda x: gw.Sequential(Conv(3, 3))(x[:, :, None]), GraphError, "no known number"),
    "no images": (lambda x: gw.Sequential(Conv(3, 3))(x), GraphError, "need: images of 1, 2 or 3"),
    "pooling": (
        lambda x: gw.Sequential(lambda h: gw.cnn.max_pool2d(h, 2))(x), ShapeError, "takes images",
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", WRONG)
def test_what_is_wrong_is_named(why: str) -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", None))
    make, error, says = WRONG[why]
    with pytest.raises(error, match=says):
        make(x)

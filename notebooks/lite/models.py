"""The files of the site: models of several formats, a run, and saved pages."""

from __future__ import annotations

from pathlib import Path

from sklearn.datasets import load_digits

import gradwright as gw
from gradwright.models import Decoder, DecoderConfig
from gradwright_widgets import GraphView, Workbench


def write(folder: Path) -> list[str]:
    """Write all files into a folder; return the paths of those that open as models."""
    return [*digits(folder), convolutions(folder), decoder(folder)]


def digits(folder: Path) -> list[str]:
    """A small network that has learnt to read digits, its run, and its workbench as a page."""
    images, labels = load_digits(return_X_y=True)
    data = {"x": (images / 16).astype("f"), "t": labels.astype("i8")}
    g = gw.Graph("digits")
    x = g.placeholder("x", ("batch", 64))
    t = g.placeholder("t", ("batch",), dtype="int64")
    with g.scope("hidden"):
        w, b = g.variable("w", (64, 32), init=gw.init.he_normal(seed=0)), g.variable("b", (32,))
        h = gw.nn.relu(x @ w + b)
    with g.scope("head"):
        w = g.variable("w", (32, 10), init=gw.init.xavier_uniform(seed=1))
        logits = h @ w + g.variable("b", (10,))
    loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(3e-3))
    bench = Workbench(g, trainer, data=data)
    trainer.add_callback(gw.Run(folder / "runs/digits", name="digits", store=None))
    trainer.fit(data, epochs=10, batch_size=64, progress=False)
    bench.to_html(folder / "workbench.html")
    gw.save(g, folder / "digits.gw", trainer=trainer)
    return ["digits.gw", "runs/digits"]


def convolutions(folder: Path) -> str:
    """A residual network as an ONNX model."""
    g = gw.Graph("residual")
    h = g.placeholder("image", ("batch", 3, 32, 32))
    channels = 3
    for k, width in enumerate((16, 16, 32, 32)):
        with g.scope(f"block{k}"):
            kernel = g.variable("w", (width, channels, 3, 3), init=gw.init.he_normal(seed=k))
            y = gw.nn.relu(gw.cnn.conv2d(h, kernel, padding="same"))
            h, channels = (y + h if width == channels else y), width
    with g.scope("head"):
        w = g.variable("w", (channels, 10), init=gw.init.xavier_uniform(seed=9))
        gw.nn.softmax(gw.mean(h, axis=(2, 3)) @ w, name="classes")
    gw.onnx.save(g, folder / "residual.onnx")
    return "residual.onnx"


def decoder(folder: Path) -> str:
    """A language model of four layers, and its drawing as a page."""
    settings = DecoderConfig(vocabulary=256, width=64, layers=4, heads=4, context=128)
    graph = Decoder(settings).graph
    graph.save(folder / "decoder.gw")
    GraphView(graph).to_html(folder / "decoder.html")
    return "decoder.gw"

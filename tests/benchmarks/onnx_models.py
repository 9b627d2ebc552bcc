"""ONNX models to be timed: those that come with the onnx package, and five that are written."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw

Array = np.ndarray[Any, Any]


def light(name: str) -> Any:
    """Return a model of the onnx package, its constant weights made random."""
    import onnx
    from onnx import numpy_helper

    folder = Path(onnx.__file__).parent / "backend/test/data/light"
    model = onnx.load(folder / f"light_{name}.onnx")
    graph, rng, kept = model.graph, np.random.default_rng(0), []
    shapes = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = shapes[node.input[0]]
        scale = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
        array = (rng.standard_normal(shape) * scale + (len(shape) == 1)).astype("f")
        graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
    del graph.node[:]
    graph.node.extend(kept)
    return model


LIGHT = (
    *("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50"),
    *("shufflenet", "squeezenet", "vgg19", "zfnet512"),
)


def _weight(g: gw.Graph, name: str, *shape: int) -> gw.Tensor:
    return g.variable(name, shape, init=gw.init.he_normal(seed=len(name)))


def mlp() -> gw.Graph:
    g = gw.Graph("mlp")
    h = g.placeholder("x", (64, 256))
    for k in range(3):
        h = gw.nn.relu(h @ _weight(g, f"w{k}", 256, 256) + _weight(g, f"b{k}", 256))
    gw.nn.softmax(h @ _weight(g, "out", 256, 10), name="y")
    return g


def residual() -> gw.Graph:
    g = gw.Graph("residual block")
    x = g.placeholder("x", (4, 32, 28, 28))
    h = x
    for k in range(2):
        h = gw.cnn.conv2d(h, _weight(g, f"k{k}", 32, 32, 3, 3), padding="same")
        h = gw.nn.relu(h + x if k else h)
    gw.mean(h, axis=(2, 3), name="y")
    return g


def lstm() -> gw.Graph:
    g = gw.Graph("LSTM")
    x = g.placeholder("x", (32, 8, 64))
    weights = _weight(g, "w", 1, 512, 64), _weight(g, "r", 1, 512, 128), _weight(g, "b", 1, 1024)
    gw.identity(gw.rnn.lstm(x, *weights)[0], name="y")
    return g


def transformer() -> gw.Graph:
    g = gw.Graph("transformer")
    h = g.placeholder("x", (4, 64, 128))
    for k in range(2):
        with g.scope(f"block{k}"):
            n = gw.nn.layer_norm(h)
            q, key, v = (gw.reshape(n @ _weight(g, w, 128, 128), (4, 64, 4, 32)) for w in "qkv")
            q, key, v = (gw.transpose(t, (0, 2, 1, 3)) for t in (q, key, v))
            scores = gw.nn.softmax(q @ gw.transpose(key, (0, 1, 3, 2)) * 32**-0.5)
            mixed = gw.reshape(gw.transpose(scores @ v, (0, 2, 1, 3)), (4, 64, 128))
            h = h + mixed @ _weight(g, "o", 128, 128)
            up = gw.nn.gelu(gw.nn.layer_norm(h) @ _weight(g, "up", 128, 512))
            h = h + up @ _weight(g, "down", 512, 128)
    gw.identity(h, name="y")
    return g


def depthwise() -> gw.Graph:
    g = gw.Graph("depthwise")
    h = g.placeholder("x", (4, 32, 28, 28))
    for k in range(2):
        h = gw.cnn.conv2d(h, _weight(g, f"d{k}", 32, 1, 3, 3), padding="same", groups=32)
        h = gw.nn.relu(gw.cnn.conv2d(gw.nn.relu(h), _weight(g, f"p{k}", 32, 32, 1, 1)))
    gw.mean(h, axis=(2, 3), name="y")
    return g


WRITTEN: dict[str, Callable[[], gw.Graph]] = {
    "MLP": mlp,
    "residual block": residual,
    "LSTM": lstm,
    "transformer": transformer,
    "depthwise": depthwise,
}


def by_torch(name: str) -> Any:
    """Return a network of the same kind as torch's exporter writes it."""
    import onnx
    import torch
    from torch import nn

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(64, 128)

        def forward(self, x: Any) -> Any:
            return self.lstm(x)[0]

    def conv(c: int, groups: int = 1, size: int = 3) -> Any:
        return nn.Conv2d(c, c, size, padding=size // 2, groups=groups)

    layer = nn.TransformerEncoderLayer(128, 4, 512, activation="gelu", batch_first=True)
    torch.manual_seed(0)
    pool = nn.AdaptiveAvgPool2d(1), nn.Flatten()
    made: dict[str, tuple[Any, tuple[int, ...]]] = {
        "MLP": (
            nn.Sequential(*[m for _ in range(3) for m in (nn.Linear(256, 256), nn.ReLU())],
                          nn.Linear(256, 10), nn.Softmax(-1)),
            (64, 256),
        ),
        "residual block": (
            nn.Sequential(conv(32), nn.BatchNorm2d(32), nn.ReLU(), conv(32), nn.ReLU(), *pool),
            (4, 32, 28, 28),
        ),
        "LSTM": (Last(), (32, 8, 64)),
        "transformer": (nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (4, 64, 128)),
        "depthwise": (
            nn.Sequential(conv(32, 32), nn.ReLU(), conv(32, 1, 1), nn.ReLU(), *pool),
            (4, 32, 28, 28),
        ),
    }  # fmt: skip
    module, shape = made[name]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder, "m.onnx")
        torch.onnx.export(module.eval(), (torch.randn(shape),), path, dynamo=True, verbose=False)
        return onnx.load(path)


def feeds_of(model: Any) -> dict[str, Array]:
    """Return random inputs; sizes that are open are 1."""
    stored, rng = {t.name for t in model.graph.initializer}, np.random.default_rng(1)
    shapes = {
        i.name: [d.dim_value or 1 for d in i.type.tensor_type.shape.dim]
        for i in model.graph.input
        if i.name not in stored
    }
    return {name: rng.standard_normal(shape).astype("f") for name, shape in shapes.items()}

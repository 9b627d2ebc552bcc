"""Large graphs of several kinds, as the drawing meets them; weights are small: nobody runs them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

import gradwright as gw
from gradwright.models import Decoder, DecoderConfig

LIGHT = ("densenet121", "resnet50", "inception_v2", "shufflenet", "squeezenet")
"""Models without weights that the onnx wheel carries."""


def light(name: str) -> gw.Graph:
    """Return a model of the onnx wheel, imported."""
    folder = files("onnx") / "backend/test/data/light"
    return gw.onnx.load(str(folder / f"light_{name}.onnx"))


def decoder(layers: int = 24) -> gw.Graph:
    """Return a language model with a loss, in scopes, as one that somebody has declared."""
    graph = Decoder(DecoderConfig(vocabulary=64, width=32, layers=layers, heads=4)).graph
    graph.classes.clear()
    return graph


def _conv(x: Any, name: str, channels: int, stride: int = 1) -> Any:
    w = x.graph.variable(f"{name}_w", (channels, x.shape[1], 3, 3))
    b = x.graph.variable(f"{name}_b", (channels,))
    return gw.nn.relu(gw.cnn.conv2d(x, w, b, stride=stride, padding=1))


def u_net(depth: int = 5) -> gw.Graph:
    """Return encoder and decoder joined by skips, no scopes."""
    g = gw.Graph("u_net")
    x = g.placeholder("image", ("B", 3, 256, 256))
    skips = []
    for k in range(depth):
        x = _conv(_conv(x, f"down{k}_1", 8 << k), f"down{k}_2", 8 << k)
        skips.append(x)
        x = gw.cnn.max_pool2d(x, 2)
    x = _conv(x, "bottom", 8 << depth)
    for k in reversed(range(depth)):
        x = gw.concat([gw.cnn.upsampling2d(x, 2), skips[k]], axis=1)
        x = _conv(_conv(x, f"up{k}_1", 8 << k), f"up{k}_2", 8 << k)
    gw.nn.sigmoid(x, name="mask")
    return g


def detector(levels: int = 4) -> gw.Graph:
    """Return a pyramid with heads on each level, and a loop over boxes."""
    g = gw.Graph("detector")
    x = g.placeholder("image", (1, 3, 256, 256))
    pyramid = []
    for k in range(levels):
        with g.scope(f"stage{k}"):
            x = _conv(_conv(x, "a", 16, stride=2), "b", 16)
        pyramid.append(x)
    top = pyramid[-1]
    found = []
    for k in reversed(range(levels)):
        with g.scope(f"lateral{k}"):
            above = gw.cnn.upsampling2d(top, 2) if k + 1 < levels else top
            top = _conv(pyramid[k] + above, "c", 16)
        with g.scope(f"head{k}"):
            scores = gw.nn.sigmoid(_conv(top, "score", 2))
            boxes = _conv(top, "box", 4)
            found.append((gw.reshape(boxes, (1, -1, 4)), gw.reshape(scores, (1, 2, -1))))
    boxes = gw.concat([b for b, _ in found], axis=1, name="boxes")
    scores = gw.concat([s for _, s in found], axis=2, name="scores")
    kept = gw.image.non_max_suppression(boxes, scores, max_output_boxes_per_class=20)
    total = gw.sum(boxes, axis=2)
    gw.while_loop(lambda s: gw.sum(s) > 1.0, lambda s: s * 0.5, total, name="refine")
    gw.cast(kept, "float32", name="detections")
    return g


def lstm(steps: int = 24) -> gw.Graph:
    """Return two layers of an LSTM, unrolled, no scopes."""
    g = gw.Graph("lstm")
    xs = [g.placeholder(f"x{t}", ("B", 8)) for t in range(steps)]
    for layer in range(2):
        w = g.variable(f"w{layer}", (16 if layer else 8, 64))
        r = g.variable(f"r{layer}", (16, 64))
        h = c = g.constant([[0.0] * 16])
        ys = []
        for x in xs:
            i, f, o, u = gw.split(x @ w + h @ r, 4, axis=1)
            c = gw.nn.sigmoid(f) * c + gw.nn.sigmoid(i) * gw.tanh(u)
            h = gw.nn.sigmoid(o) * gw.tanh(c)
            ys.append(h)
        xs = ys
    gw.mean(gw.stack(xs), name="loss")
    return g


def maml(tasks: int = 8) -> gw.Graph:
    """Return one inner step of each task, unrolled; its gradients are part of the model."""
    g = gw.Graph("maml")
    sizes = [(1, 10), (10, 10), (10, 1)]
    weights = [g.variable(f"w{k}", size) for k, size in enumerate(sizes)]

    def loss(ws: list[Any], x: Any, y: Any) -> Any:
        h = gw.nn.relu(gw.nn.relu(x @ ws[0]) @ ws[1])
        return gw.mean((h @ ws[2] - y) ** 2.0)

    data = [g.placeholder(name, (tasks, 5, 1)) for name in ("x", "y", "x_query", "y_query")]
    losses = []
    for k in range(tasks):
        x, y, xq, yq = (rows[k] for rows in data)
        grads = gw.gradients(loss(weights, x, y), weights)
        fast = [w - 0.01 * d for w, d in zip(weights, grads, strict=True)]
        losses.append(loss(fast, xq, yq))
    gw.mean(gw.stack(losses), name="loss")
    return g


def gan() -> gw.Graph:
    """Return a generator and a discriminator that reads its pictures and real ones."""
    g = gw.Graph("gan")
    z, real = g.placeholder("z", ("B", 16)), g.placeholder("real", ("B", 64))
    with g.scope("generator"):
        h = z
        for k in range(4):
            h = gw.nn.relu(h @ g.variable(f"w{k}", (16, 16)) + g.variable(f"b{k}", (16,)))
        fake = gw.tanh(h @ g.variable("w", (16, 64)), name="fake")
    ws = [g.variable(f"discriminator/w{k}", (64, 64)) for k in range(3)]
    scores = []
    for name, x in (("on_real", real), ("on_fake", fake)):
        with g.scope(name):
            for w in ws:
                x = gw.nn.relu(x @ w)
            scores.append(gw.mean(x, axis=1))
    gw.mean(gw.nn.softplus(-scores[0]) + gw.nn.softplus(scores[1]), name="d_loss")
    gw.mean(gw.nn.softplus(-scores[1]), name="g_loss")
    return g


def fan_out(readers: int = 10_000) -> gw.Graph:
    """Return one input that all read, and nothing else."""
    g = gw.Graph("fan_out")
    x = g.placeholder("x", ("B", 8))
    for _ in range(readers - 1):
        gw.exp(x)
    return g


def fan_in(inputs: int = 10_000) -> gw.Graph:
    """Return inputs that all meet in one op."""
    g = gw.Graph("fan_in")
    gw.mean(gw.stack([g.placeholder(f"x{k}", ("B", 8)) for k in range(inputs)]), name="loss")
    return g


def chain(length: int = 100_000) -> gw.Graph:
    """Return one op after the other, no scopes."""
    g = gw.Graph("chain")
    x = g.placeholder("x", ("B", 8))
    for _ in range(length - 1):
        x = gw.exp(x)
    return g


def tower(size: int = 50_000, stage: int = 1000) -> gw.Graph:
    """Return residual blocks of ten ops and weights, in scopes of a stage and a block."""
    g = gw.Graph("tower")
    x = g.placeholder("x", ("B", 8))
    for k in range(size // 12):
        with g.scope(f"stage{k * 12 // stage}"), g.scope(f"block{k}"):
            y = gw.nn.relu(x @ g.variable("w1", (8, 8)) + g.variable("b1", (8,)))
            y = gw.exp(gw.tanh(y @ g.variable("w2", (8, 8)) + g.variable("b2", (8,))))
            x = x + y
    return g


MODELS: dict[str, Callable[[], gw.Graph]] = {
    **{name: lambda name=name: light(name) for name in LIGHT},
    "decoder": decoder,
    "u_net": u_net,
    "detector": detector,
    "lstm": lstm,
    "maml": maml,
    "gan": gan,
    "fan_out": fan_out,
}
"""The twelve that every drawing is looked at with."""

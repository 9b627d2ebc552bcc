"""Small networks that gradient checks are timed on, each in gradwright and in torch.

Both hold the same values: all are rounded to float32 and computed with in float64. The activation
that comes first is an argument, so that a graph can be made wrong in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradwright as gw

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Any]
Activation = Callable[[Any], Any]


@dataclass(frozen=True)
class Model:
    """A network with a loss, as a function of parameters and data in both libraries."""

    parameters: dict[str, Array]
    data: dict[str, Array]
    ours: Callable[[Tensors, Tensors, Activation], gw.Tensor]
    theirs: Callable[[Tensors, Tensors], Any]
    activation: Activation
    eps: float = 1e-4
    """Step of torch's differences: 1e-6 where a kink lies within 1e-4, which would fail it."""

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(a.size for a in self.parameters.values())

    def graph(self, activation: Activation | None = None) -> tuple[gw.Graph, gw.Tensor]:
        """Return a new graph, and its loss."""
        g = gw.Graph()
        p = {k: g.variable(k, a.shape, init=a) for k, a in self.parameters.items()}
        d = {k: g.placeholder(k, a.shape, str(a.dtype)) for k, a in self.data.items()}
        return g, self.ours(p, d, activation or self.activation)

    def torch(self) -> tuple[Callable[..., Any], list[Any]]:
        """Return the loss as a function of parameters, and these."""
        import torch

        def tensor(a: Array) -> Any:
            return torch.tensor(a.astype("float64") if a.dtype.kind == "f" else a)

        data = {k: tensor(a) for k, a in self.data.items()}
        leaves = [tensor(a).requires_grad_() for a in self.parameters.values()]

        def loss(*leaves: Any) -> Any:
            return self.theirs(dict(zip(self.parameters, leaves, strict=True)), data)

        return loss, leaves


def drawn(seed: int, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Draw matrices and kernels of unit gain; biases near 0, scales near 1."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in shapes.items():
        fan = shape[0] if len(shape) == 2 else int(np.prod(shape[1:]))
        a = rng.standard_normal(shape) * (0.1 if len(shape) == 1 else fan**-0.5)
        found[name] = (a + name.startswith("scale")).astype(np.float32)
    return found


def normal(seed: int, *shape: int) -> Array:
    """Draw data."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def classes(seed: int, n: int, *shape: int) -> Array:
    """Draw labels."""
    return np.random.default_rng(seed).integers(0, n, shape)


def mlp(batch: int, inputs: int, hidden: int, outputs: int) -> Model:
    """Three layers with a scale of the inputs: relu, tanh, cross entropy."""

    def ours(p: Tensors, d: Tensors, activation: Activation) -> gw.Tensor:
        h = activation((d["x"] * p["scale"]) @ p["w1"] + p["b1"])
        h = gw.tanh(h @ p["w2"] + p["b2"])
        return gw.loss.sparse_softmax_cross_entropy(d["t"], h @ p["w3"] + p["b3"])

    def theirs(p: Tensors, d: Tensors) -> Any:
        import torch

        h = torch.relu((d["x"] * p["scale"]) @ p["w1"] + p["b1"])
        h = torch.tanh(h @ p["w2"] + p["b2"])
        return torch.nn.functional.cross_entropy(h @ p["w3"] + p["b3"], d["t"])

    shapes = {
        **{"scale": (inputs,), "w1": (inputs, hidden), "b1": (hidden,)},
        **{"w2": (hidden, hidden), "b2": (hidden,), "w3": (hidden, outputs), "b3": (outputs,)},
    }
    data = {"x": normal(1, batch, inputs), "t": classes(2, outputs, batch)}
    eps = 1e-4 if hidden < 64 else 1e-6
    return Model(drawn(3, shapes), data, ours, theirs, gw.nn.relu, eps)


def block(batch: int = 2, length: int = 6, width: int = 16, heads: int = 2) -> Model:
    """A pre-norm transformer block and a square error."""
    each = width // heads

    def ours(p: Tensors, d: Tensors, activation: Activation) -> gw.Tensor:
        def split(a: Any) -> Any:
            return gw.transpose(gw.reshape(a, (-1, length, heads, each)), (0, 2, 1, 3))

        h = gw.nn.layer_norm(d["x"], p["scale1"], p["shift1"])
        q, k, v = (split(h @ p[w]) for w in ("wq", "wk", "wv"))
        a = gw.nn.softmax(q @ gw.swapaxes(k, -1, -2) * each**-0.5) @ v
        y = d["x"] + gw.reshape(gw.transpose(a, (0, 2, 1, 3)), (-1, length, width)) @ p["wo"]
        h = gw.nn.layer_norm(y, p["scale2"], p["shift2"])
        y = y + activation(h @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
        return gw.mean(gw.square(y - d["t"]))

    def theirs(p: Tensors, d: Tensors) -> Any:
        import torch
        from torch.nn.functional import gelu, layer_norm

        def split(a: Any) -> Any:
            return a.reshape(-1, length, heads, each).transpose(1, 2)

        h = layer_norm(d["x"], (width,), p["scale1"], p["shift1"])
        q, k, v = (split(h @ p[w]) for w in ("wq", "wk", "wv"))
        a = torch.softmax(q @ k.transpose(-1, -2) * each**-0.5, -1) @ v
        y = d["x"] + a.transpose(1, 2).reshape(-1, length, width) @ p["wo"]
        h = layer_norm(y, (width,), p["scale2"], p["shift2"])
        y = y + gelu(h @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
        return ((y - d["t"]) ** 2).mean()

    shapes = {
        **dict.fromkeys(("scale1", "shift1", "scale2", "shift2", "b2"), (width,)),
        **dict.fromkeys(("wq", "wk", "wv", "wo"), (width, width)),
        **{"w1": (width, 2 * width), "b1": (2 * width,), "w2": (2 * width, width)},
    }
    shape = batch, length, width
    data = {"x": normal(4, *shape), "t": normal(5, *shape)}
    return Model(drawn(6, shapes), data, ours, theirs, gw.nn.gelu)


def ppo(batch: int = 16, inputs: int = 8, hidden: int = 24, actions: int = 4) -> Model:
    """Clipped policy and value losses with an entropy bonus (Schulman et al. 2017)."""

    def ours(p: Tensors, d: Tensors, activation: Activation) -> gw.Tensor:
        h = gw.tanh(activation(d["x"] @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"])
        logs = gw.nn.log_softmax(h @ p["w3"] + p["b3"])
        value = gw.squeeze(h @ p["w4"] + p["b4"], -1)
        chosen = gw.take_along_axis(logs, gw.expand_dims(d["action"], -1), -1)
        ratio = gw.exp(gw.squeeze(chosen, -1) - d["old"])
        gain = gw.minimum(ratio * d["gain"], gw.clip(ratio, 0.8, 1.2) * d["gain"])
        near = d["before"] + gw.clip(value - d["before"], -0.2, 0.2)
        away = gw.maximum(gw.square(value - d["return"]), gw.square(near - d["return"]))
        entropy = -gw.mean(gw.sum(gw.exp(logs) * logs, -1))
        return -gw.mean(gain) + 0.25 * gw.mean(away) - 0.01 * entropy

    def theirs(p: Tensors, d: Tensors) -> Any:
        import torch

        h = torch.tanh(torch.tanh(d["x"] @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"])
        logs = torch.log_softmax(h @ p["w3"] + p["b3"], -1)
        value = (h @ p["w4"] + p["b4"]).squeeze(-1)
        ratio = torch.exp(logs.gather(-1, d["action"][:, None]).squeeze(-1) - d["old"])
        gain = torch.minimum(ratio * d["gain"], torch.clamp(ratio, 0.8, 1.2) * d["gain"])
        near = d["before"] + torch.clamp(value - d["before"], -0.2, 0.2)
        away = torch.maximum((value - d["return"]) ** 2, (near - d["return"]) ** 2)
        entropy = -(logs.exp() * logs).sum(-1).mean()
        return -gain.mean() + 0.25 * away.mean() - 0.01 * entropy

    shapes = {
        **{"w1": (inputs, hidden), "b1": (hidden,), "w2": (hidden, hidden), "b2": (hidden,)},
        **{"w3": (hidden, actions), "b3": (actions,), "w4": (hidden, 1), "b4": (1,)},
    }
    data = {
        **{"x": normal(7, batch, inputs), "action": classes(8, actions, batch)},
        **{"old": normal(9, batch) * 0.2 - 1.4, "gain": normal(10, batch)},
        **{"before": normal(11, batch) * 0.3, "return": normal(12, batch)},
    }
    data = {k: a.astype(np.float32) if a.dtype.kind == "f" else a for k, a in data.items()}
    return Model(drawn(13, shapes), data, ours, theirs, gw.tanh)


def cnn(first: int, second: int, eps: float) -> Model:
    """Two 3 by 3 convolutions with a max pool between, a mean over places, cross entropy."""

    def ours(p: Tensors, d: Tensors, activation: Activation) -> gw.Tensor:
        h = gw.cnn.max_pool2d(activation(gw.cnn.conv2d(d["x"], p["k1"], p["b1"])), 2)
        h = gw.mean(gw.nn.relu(gw.cnn.conv2d(h, p["k2"], p["b2"])), (2, 3))
        return gw.loss.sparse_softmax_cross_entropy(d["t"], h @ p["w"] + p["b"])

    def theirs(p: Tensors, d: Tensors) -> Any:
        import torch
        from torch.nn.functional import conv2d, cross_entropy, max_pool2d

        h = max_pool2d(torch.relu(conv2d(d["x"], p["k1"], p["b1"])), 2)
        h = torch.relu(conv2d(h, p["k2"], p["b2"])).mean((2, 3))
        return cross_entropy(h @ p["w"] + p["b"], d["t"])

    shapes = {
        **{"k1": (first, 1, 3, 3), "b1": (first,), "k2": (second, first, 3, 3), "b2": (second,)},
        **{"w": (second, 4), "b": (4,)},
    }
    data = {"x": normal(14, 4, 1, 12, 12), "t": classes(15, 4, 4)}
    return Model(drawn(16, shapes), data, ours, theirs, gw.nn.relu, eps)


def unet() -> Model:
    """Two levels down and up, with what is passed across, and a class per pixel."""

    def ours(p: Tensors, d: Tensors, activation: Activation) -> gw.Tensor:
        def conv(x: Any, n: int) -> Any:
            return gw.cnn.conv2d(x, p[f"k{n}"], p[f"b{n}"], padding=1)

        fine = activation(conv(d["x"], 1))
        middle = gw.nn.relu(conv(gw.cnn.max_pool2d(fine, 2), 2))
        coarse = gw.nn.relu(conv(gw.cnn.max_pool2d(middle, 2), 3))
        middle = gw.nn.relu(conv(gw.concat([gw.cnn.upsampling2d(coarse), middle], 1), 4))
        fine = gw.nn.relu(conv(gw.concat([gw.cnn.upsampling2d(middle), fine], 1), 5))
        logits = gw.cnn.conv2d(fine, p["k6"], p["b6"])
        return gw.loss.sparse_softmax_cross_entropy(d["t"], logits, axis=1)

    def theirs(p: Tensors, d: Tensors) -> Any:
        import torch
        from torch.nn.functional import conv2d, cross_entropy, interpolate, max_pool2d

        def conv(x: Any, n: int) -> Any:
            return torch.relu(conv2d(x, p[f"k{n}"], p[f"b{n}"], padding=1))

        fine = conv(d["x"], 1)
        middle = conv(max_pool2d(fine, 2), 2)
        coarse = conv(max_pool2d(middle, 2), 3)
        middle = conv(torch.cat([interpolate(coarse, scale_factor=2), middle], 1), 4)
        fine = conv(torch.cat([interpolate(middle, scale_factor=2), fine], 1), 5)
        return cross_entropy(conv2d(fine, p["k6"], p["b6"]), d["t"])

    sizes = {1: (3, 1, 3), 2: (5, 3, 3), 3: (6, 5, 3), 4: (5, 11, 3), 5: (3, 8, 3), 6: (3, 3, 1)}
    shapes: dict[str, tuple[int, ...]] = {}
    for n, (out, inner, side) in sizes.items():
        shapes |= {f"k{n}": (out, inner, side, side), f"b{n}": (out,)}
    data = {"x": normal(17, 2, 1, 8, 8), "t": classes(18, 3, 2, 8, 8)}
    return Model(drawn(19, shapes), data, ours, theirs, gw.nn.relu, 1e-6)


MODELS: dict[str, Callable[[], Model]] = {
    "MLP, 3 layers": lambda: mlp(16, 12, 20, 5),
    "transformer block": block,
    "PPO loss": ppo,
    "CNN": lambda: cnn(4, 6, 1e-4),
    "CNN, wider": lambda: cnn(8, 12, 1e-6),
    "U-Net": unet,
    "MLP, wider": lambda: mlp(32, 64, 64, 10),
}

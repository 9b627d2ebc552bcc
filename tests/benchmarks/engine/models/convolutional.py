"""Convolutional networks on small images: a ResNet-18, and a MobileNetV2 of depthwise blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.engine.models.model import Arrays, Model, cross_entropy_in_jax, normal

CLASSES = 10


@dataclass(frozen=True)
class Conv:
    """A convolution with its batch norm; a depthwise one has a group for each channel."""

    name: str
    n_in: int
    n_out: int
    kernel: int = 3
    stride: int = 1
    is_depthwise: bool = False

    @property
    def groups(self) -> int:
        return self.n_in if self.is_depthwise else 1

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.n_out, self.n_in // self.groups, self.kernel, self.kernel


Convolve = Callable[[Any, Conv], Any]
"""What applies a convolution and its batch norm in one of the libraries."""


class Convolutional(Model):
    """x: f32[B, 3, side, side]; convolutions with batch norm; mean over positions; linear; Adam."""

    side: int

    def __init__(self, batch: int = 16) -> None:
        self.examples = batch
        self.title = f"{type(self).__name__}, {self.side}x{self.side}, B={batch}"

    def convolutions(self) -> Iterator[Conv]:
        """Yield all convolutions."""
        raise NotImplementedError

    def network(self, x: Any, conv: Convolve, relu: Callable[[Any], Any]) -> Any:
        """Return the last map, in the library of x."""
        raise NotImplementedError

    def weights(self) -> Arrays:
        rng = np.random.default_rng(0)
        made: Arrays = {}
        for c in self.convolutions():
            fan = int(np.prod(c.shape[1:]))
            made[c.name] = normal(rng, *c.shape, scale=(2 / fan) ** 0.5)
            made[f"{c.name}.scale"] = np.ones(c.n_out, np.float32)
            made[f"{c.name}.shift"] = np.zeros(c.n_out, np.float32)
            last = c.n_out
        made["w"] = normal(rng, last, CLASSES, scale=last**-0.5)
        made["b"] = np.zeros(CLASSES, np.float32)
        return made

    def batch(self) -> Arrays:
        rng = np.random.default_rng(1)
        x = normal(rng, self.examples, 3, self.side, self.side)
        return {"x": x, "t": rng.integers(0, CLASSES, self.examples)}

    def ours(self, w: Mapping[str, gw.Tensor], x: Mapping[str, gw.Tensor]) -> gw.Tensor:
        def conv(h: gw.Tensor, c: Conv) -> gw.Tensor:
            y = gw.cnn.conv2d(h, w[c.name], stride=c.stride, padding=c.kernel // 2, groups=c.groups)
            mean = y.mean((0, 2, 3), keepdims=True)
            varied = y - mean
            variance = (varied * varied).mean((0, 2, 3), keepdims=True)
            scale, shift = (w[f"{c.name}.{k}"].reshape(1, -1, 1, 1) for k in ("scale", "shift"))
            return varied * (scale * gw.rsqrt(variance + 1e-5)) + shift

        h = self.network(x["x"], conv, gw.nn.relu).mean((2, 3))
        return gw.loss.sparse_softmax_cross_entropy(x["t"], h @ w["w"] + w["b"])

    def torch(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import torch
        from torch.nn import functional as f

        def conv(h: Any, c: Conv) -> Any:
            y = f.conv2d(h, w[c.name], None, c.stride, c.kernel // 2, groups=c.groups)
            scale, shift = w[f"{c.name}.scale"], w[f"{c.name}.shift"]
            return f.batch_norm(y, None, None, scale, shift, training=True)

        h = self.network(x["x"], conv, torch.relu).mean((2, 3))
        return f.cross_entropy(torch.addmm(w["b"], h, w["w"]), x["t"])

    def jax(self, w: Mapping[str, Any], x: Mapping[str, Any]) -> Any:
        import jax
        from jax import lax

        def conv(h: Any, c: Conv) -> Any:
            half = c.kernel // 2
            y = lax.conv_general_dilated(
                h, w[c.name], (c.stride,) * 2, ((half, half),) * 2, feature_group_count=c.groups
            )
            mean, variance = y.mean((0, 2, 3), keepdims=True), y.var((0, 2, 3), keepdims=True)
            scale, shift = (w[f"{c.name}.{k}"][:, None, None] for k in ("scale", "shift"))
            return (y - mean) * (scale * lax.rsqrt(variance + 1e-5)) + shift

        h = self.network(x["x"], conv, jax.nn.relu).mean((2, 3))
        return cross_entropy_in_jax(h @ w["w"] + w["b"], x["t"])


class ResNet18(Convolutional):
    """Residual blocks of two 3x3 convolutions, 64 to 512 channels (He et al. 2016)."""

    side = 64
    stem = Conv("stem", 3, 64, 7, 2)

    def blocks(self) -> Iterator[tuple[Conv, Conv, Conv | None]]:
        n_in = 64
        for stage, n in enumerate((64, 128, 256, 512)):
            for block in range(2):
                name, stride = f"s{stage}b{block}", 2 if stage and not block else 1
                way = Conv(f"{name}.way", n_in, n, 1, stride) if n_in != n else None
                yield Conv(f"{name}.a", n_in, n, 3, stride), Conv(f"{name}.b", n, n), way
                n_in = n

    def convolutions(self) -> Iterator[Conv]:
        yield self.stem
        for a, b, way in self.blocks():
            if way is not None:
                yield way
            yield from (a, b)

    def network(self, x: Any, conv: Convolve, relu: Callable[[Any], Any]) -> Any:
        h = relu(conv(x, self.stem))
        for a, b, way in self.blocks():
            h = relu(conv(relu(conv(h, a)), b) + (h if way is None else conv(h, way)))
        return h


class MobileNet(Convolutional):
    """Inverted residuals: 1x1 up, depthwise 3x3, 1x1 down (Sandler et al. 2018, half as deep)."""

    side = 64
    stem, head = Conv("stem", 3, 16, 3, 2), Conv("head", 160, 640, 1)

    def blocks(self) -> Iterator[tuple[Conv, Conv, Conv]]:
        n_in = 16
        for number, (n, stride) in enumerate(
            [(24, 2), (24, 1), (32, 2), (32, 1), (64, 2), (64, 1), (96, 1), (160, 2), (160, 1)]
        ):
            wide = 6 * n_in
            yield (
                Conv(f"b{number}.up", n_in, wide, 1),
                Conv(f"b{number}.deep", wide, wide, 3, stride, is_depthwise=True),
                Conv(f"b{number}.down", wide, n, 1),
            )
            n_in = n

    def convolutions(self) -> Iterator[Conv]:
        yield self.stem
        for block in self.blocks():
            yield from block
        yield self.head

    def network(self, x: Any, conv: Convolve, relu: Callable[[Any], Any]) -> Any:
        h = relu(conv(x, self.stem))
        for up, deep, down in self.blocks():
            y = conv(relu(conv(relu(conv(h, up)), deep)), down)
            h = h + y if deep.stride == 1 and up.n_in == down.n_out else y
        return relu(conv(h, self.head))

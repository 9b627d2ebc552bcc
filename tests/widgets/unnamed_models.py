"""Models as exporters leave them: flat, with names that tell nothing, or with theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradwright as gw


class Flat:
    """A graph whose nodes are called n0, n1, ... and whose weights r0, r1, ..."""

    def __init__(self, name: str = "model") -> None:
        self.graph = gw.Graph(name)
        self._count = 0

    def weight(self, *shape: int) -> Any:
        self._count += 1
        return self.graph.constant(gw.init.he_normal(seed=0)(shape, "float32"), f"r{self._count}")

    def node(self, op: Callable[..., Any], *xs: Any, **attributes: Any) -> Any:
        self._count += 1
        return op(*xs, **attributes, name=f"n{self._count}")

    def conv(self, x: Any, outputs: int, size: int = 3, stride: int = 1) -> Any:
        w = self.weight(outputs, int(x.shape[1]), size, size)
        return self.node(gw.cnn.conv2d, x, w, stride=stride, padding=size // 2)

    def norm(self, x: Any) -> Any:
        """Return a batch norm as old exporters write it: statistics, then a scale and a shift."""
        n = int(x.shape[1])
        x = self.node(gw.nn.batch_norm, x, *(self.weight(n) for _ in range(4)))
        for op in (gw.mul, gw.add):
            x = self.node(op, x, self.node(gw.expand_dims, self.weight(n), axis=(1, 2)))
        return x

    def relu(self, x: Any) -> Any:
        return self.node(gw.nn.relu, x)

    def linear(self, x: Any, outputs: int) -> Any:
        x = self.node(gw.matmul, x, self.weight(int(x.shape[-1]), outputs))
        return self.node(gw.add, x, self.weight(outputs))


def densenet(blocks: tuple[int, ...] = (3, 6, 12), growth: int = 4) -> gw.Graph:
    """Return dense blocks of pre-activated layers, between them transitions."""
    m = Flat("densenet")
    x = m.graph.placeholder("data", (1, 3, 32, 32))
    x = m.relu(m.norm(m.conv(x, 8)))
    x = m.node(gw.cnn.max_pool2d, x, kernel_size=3, stride=2, padding=1)
    for k, layers in enumerate(blocks):
        for _ in range(layers):
            y = m.conv(m.relu(m.norm(x)), 2 * growth, 1)
            y = m.conv(m.relu(m.norm(y)), growth)
            x = m.node(gw.concat, [x, y], axis=1)
        if k + 1 < len(blocks):
            x = m.conv(m.relu(m.norm(x)), int(x.shape[1]) // 2, 1)
            x = m.node(gw.cnn.avg_pool2d, x, kernel_size=2, stride=2)
    x = m.node(gw.cnn.global_avg_pool, m.relu(m.norm(x)))
    m.conv(x, 10, 1)
    return m.graph


def resnet(stages: tuple[int, ...] = (3, 4, 5), width: int = 8) -> gw.Graph:
    """Return bottlenecks with skips; the first of each stage projects its skip."""
    m = Flat("resnet")
    x = m.graph.placeholder("data", (1, 3, 32, 32))
    x = m.relu(m.norm(m.conv(x, width)))
    for stage, layers in enumerate(stages):
        wide = width << stage
        for k in range(layers):
            stride = 1 + (stage > 0 and k == 0)
            y = m.relu(m.norm(m.conv(x, wide, 1)))
            y = m.relu(m.norm(m.conv(y, wide, 3, stride)))
            y = m.norm(m.conv(y, 4 * wide, 1))
            x = x if k else m.norm(m.conv(x, 4 * wide, 1, stride))
            x = m.relu(m.node(gw.add, y, x))
    m.node(gw.cnn.global_avg_pool, x)
    return m.graph


def decoder(layers: int = 12, width: int = 16, heads: int = 4, time: int = 8) -> gw.Graph:
    """Return layers of attention and a perceptron, sizes computed as TorchScript does it."""
    m = Flat("decoder")
    ids = m.graph.placeholder("ids", ("B", time), dtype="int64")
    x = m.node(gw.gather, m.weight(50, width), ids, axis=0)

    def apart(x: Any) -> Any:
        x = m.node(gw.reshape, x, (-1, time, heads, width // heads))
        return m.node(gw.transpose, x, axes=(0, 2, 1, 3))

    for _ in range(layers):
        y = m.node(gw.nn.layer_norm, x, m.weight(width), m.weight(width))
        q, k, v = (apart(m.linear(y, width)) for _ in range(3))
        a = m.node(gw.matmul, q, m.node(gw.transpose, k, axes=(0, 1, 3, 2)))
        size = m.node(gw.cast, m.node(gw.size_at, q, axis=-1), dtype="float32")
        a = m.node(gw.nn.softmax, m.node(gw.mul, a, m.node(gw.rsqrt, size)))
        a = m.node(gw.transpose, m.node(gw.matmul, a, v), axes=(0, 2, 1, 3))
        a = m.node(gw.reshape, a, (-1, time, width))
        x = m.node(gw.add, x, m.linear(a, width))
        y = m.node(gw.nn.layer_norm, x, m.weight(width), m.weight(width))
        x = m.node(gw.add, x, m.linear(m.node(gw.nn.gelu, m.linear(y, 4 * width)), width))
    m.linear(m.node(gw.nn.layer_norm, x, m.weight(width), m.weight(width)), 50)
    return m.graph

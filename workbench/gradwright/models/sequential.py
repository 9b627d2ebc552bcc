"""Stacks of layers, one after another: what is most often built, in the fewest lines."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import init, nn
from ..errors import GraphError
from ..graph import Tensor
from ..op import find_op
from ..words.tables import Table

Layer = Callable[[Tensor], Tensor]
SMALL = init.normal(std=0.02)
"""First values of an embedding: as those of GPT-2 (Radford et al. 2019)."""


@dataclass(frozen=True)
class Dense:
    """Affine map of the last axis, with parameters of its own.

    y = activation(x @ w + b), with w: f32[in, units], b: f32[units]
    """

    units: int
    activation: Layer | None = None
    bias: bool = True
    init: Any = init.he_normal

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the layer, in the scope that is open."""
        weight = x.graph.variable("w", (_known(x, -1), self.units), self.init, x.dtype)
        bias = x.graph.variable("b", (self.units,), dtype=x.dtype) if self.bias else None
        return _activated(nn.linear(x, weight, bias), self.activation)


@dataclass(frozen=True)
class Conv:
    """Convolution over all axes of f32[N, C, *size] but the first two, with parameters of its own.

    y = activation(conv(x, w) + b), with w: f32[channels, C/groups, *kernel], b: f32[channels]
    """

    channels: int
    kernel_size: int | tuple[int, ...]
    activation: Layer | None = None
    stride: int | tuple[int, ...] = 1
    padding: Any = 0
    groups: int = 1
    bias: bool = True
    init: Any = init.he_normal

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the layer, in the scope that is open."""
        n, size = x.rank - 2, self.kernel_size
        if not 1 <= n <= 3:
            raise GraphError(f"Conv got {x!r}", need="images of 1, 2 or 3 axes: f32[N, C, *size]")
        kernel = (size,) * n if isinstance(size, int) else size
        shape = (self.channels, _known(x, 1) // self.groups, *kernel)
        weight = x.graph.variable("w", shape, self.init, x.dtype)
        biases = [x.graph.variable("b", (self.channels,), dtype=x.dtype)] if self.bias else []
        conv = find_op(f"conv{n}d")(stride=self.stride, padding=self.padding, groups=self.groups)
        return _activated(conv(x, weight, *biases), self.activation)


@dataclass(frozen=True)
class Embedding:
    """Rows of a table of its own, one for each id.

    y[…, :] = table[ids[…], :], with table: f32[count, features]
    """

    count: int
    features: int
    init: Any = SMALL

    def __call__(self, ids: Tensor) -> Tensor:
        """Apply the layer, in the scope that is open."""
        table = ids.graph.variable("table", (self.count, self.features), self.init)
        return nn.embedding(ids, table)


class Sequential:
    """Layers that are applied one after another; each gets a scope of its name.

    y = layerₙ(… layer₁(x))

    A layer is any function of a tensor, such as ``gw.nn.relu``, one of ``Dense``, ``Conv`` and
    ``Embedding``, which make parameters, another Sequential, or a pair of a name and one of these.
    It is built where it is called, once; ``gw.clone(y, {x: other})`` applies it again with the same
    parameters. ``net.summary()`` is a table of what was built, which a notebook shows.

    Raises GraphError for what is no layer, and for a second call.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 1, 8, 8))
    >>> net = gw.Sequential(
    ...     gw.models.Conv(4, 3, gw.nn.relu, padding="same"),
    ...     lambda x: gw.cnn.max_pool2d(x, 2),
    ...     ("flat", lambda x: gw.flatten(x, 1)),
    ...     ("head", gw.models.Dense(10)),
    ...     name="net",
    ... )
    >>> y = net(x)
    >>> print(net.summary())
    net
    layer  output            parameters
    conv   f32[B, 4, 8, 8]           40
    layer  f32[B, 4, 4, 4]
    flat   f32[B, 64]
    head   f32[B, 10]               650
    690 parameters
    """

    def __init__(self, *layers: Layer | tuple[str, Layer], name: str = "sequential") -> None:
        self.name = name
        self.layers: dict[str, Layer] = {}
        """Layers by name, in order."""
        self.outputs: dict[str, Tensor] = {}
        """What each layer has made, once the stack is built."""
        self._counts: dict[str, int] = {}
        for i, given in enumerate(layers):
            named, layer = given if isinstance(given, tuple) and len(given) == 2 else ("", given)
            if not callable(layer) or not isinstance(named, str):
                raise GraphError(f"layer {i} is {given!r}", need="a function, or (name, function)")
            base = named or _name_of(layer)
            n, free = 0, base
            while free in self.layers:
                if named:
                    raise GraphError(f"two layers are called {named!r}", need="names that differ")
                n, free = n + 1, f"{base}_{n + 1}"
            self.layers[free] = layer

    def __call__(self, x: Tensor) -> Tensor:
        """Build the layers on a tensor, and return what the last one makes."""
        if not isinstance(x, Tensor):
            raise GraphError(f"{self.name} got {type(x).__name__}", need="a tensor")
        if self.outputs:
            raise GraphError(
                f"{self.name} is built already, on {len(self.outputs)} layers",
                hint="gw.clone(y, {x: other}) shares its parameters",
            )
        graph, made, counts = x.graph, {}, {}
        with graph.scope(self.name):
            for name, layer in self.layers.items():
                before = set(graph.variables)
                with graph.scope(name):
                    y = layer(x)
                if not isinstance(y, Tensor):
                    raise GraphError(
                        f"layer {name!r} of {self.name} returned {type(y).__name__}",
                        need="a tensor",
                        facts=[f"it was given {x!r}"],
                    )
                new = [t for t in graph.variables if t not in before]
                counts[name] = sum(math.prod(int(d) for d in t.shape) for t in new)
                made[name] = x = y
        self.outputs, self._counts = made, counts
        return x

    def summary(self) -> Table:
        """Return a table of the layers: what each makes, and how many parameters it has."""
        if not self.outputs:
            raise GraphError(f"{self.name} is not built", hint="net(x) builds it")
        rows = [
            [name, str(t.spec), f"{n:,}".rjust(10) if (n := self._counts[name]) else ""]
            for name, t in self.outputs.items()
        ]
        total = f"{sum(self._counts.values()):,} parameters"
        return Table(["layer", "output", "parameters"], rows, title=self.name, notes=[total])

    def __repr__(self) -> str:
        return f"<Sequential {self.name!r}: {', '.join(self.layers)}>"


def _name_of(layer: Any) -> str:
    """Return what a layer is called: its function, or its class."""
    given = layer.name if isinstance(layer, Sequential) else getattr(layer, "__name__", "")
    if given == "<lambda>":
        return "layer"
    return given or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(layer).__name__).lower()


def _known(x: Tensor, axis: int) -> int:
    if not x.rank or not isinstance(n := x.shape[axis], int):
        raise GraphError(
            f"{x!r} has no known number of features on axis {axis}",
            need="a number there: parameters have to know it",
            hint='g.placeholder("x", (None, 64))',
        )
    return n


def _activated(y: Tensor, activation: Layer | None) -> Tensor:
    return y if activation is None else activation(y)

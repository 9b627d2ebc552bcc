"""The weights of a model in a graph, and each kind of product with them in one place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from ... import nn
from ...errors import GraphError, ShapeError
from ...graph import Graph, Tensor
from ...spec import TensorSpec
from ...spec.buffer import Buffer, Zeros
from .packing import is_packable, lies_in, product

Array = np.ndarray[Any, Any]


class Given:
    """An array of somebody else as a value: read where it lies, a mapped file, and never written.

    >>> Given(np.ones((2, 3), np.float32)).spec
    f32[2, 3]
    """

    def __init__(self, array: Array) -> None:
        self._array = array
        self.spec = TensorSpec(array.shape, array.dtype)
        self.nbytes = array.nbytes

    def host(self) -> Array:
        """Return the array itself."""
        return self._array

    def load(self, array: Array) -> None:
        """Raise: it is not ours."""
        raise GraphError("a given array is not written", hint="graph.values[name] = array")


class Kind(Protocol):
    """What a config says of weights: which there are, and what norms do with theirs."""

    @property
    def norm(self) -> str:
        """As `DecoderConfig` has it."""

    @property
    def eps(self) -> float:
        """What norms add to what they divide by."""

    def weights(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield name and shape of each."""


class Weights:
    """Variables for all weights of a model, and what is computed with them.

    ``packed`` says which of them lie as blocks of a ggml format, u8[out, bytes of a row], or
    u8[E, out, bytes of a row] of experts, or as NF4, and ``activations`` what blocks are multiplied
    with, as of ``nn.ggml_matmul``.
    """

    def __init__(
        self,
        graph: Graph,
        config: Kind,
        packed: Mapping[str, str],
        first: Any = None,
        *,
        activations: str = "float32",
    ) -> None:
        self.config, self._packed, self._activations = config, packed, activations
        self._shapes = shapes = dict(config.weights())
        for name, kind in packed.items():
            if not is_packable(name, shapes.get(name, ()), kind):
                raise GraphError(f"{name!r} is no matrix that can lie in blocks", hint="packed={}")
        self._tensors: dict[str, Tensor] = {}
        self._held: dict[str, dict[str, Tensor]] = {}
        for name, shape in shapes.items():
            if name not in packed:
                start = _later(shape) if first is None else first(name, shape)
                self._tensors[name] = graph.variable(name, shape, init=start)
                continue
            self._held[name] = {
                part: graph.variable(part, sizes, _later(sizes, dtype), dtype, trainable=False)
                for part, (sizes, dtype) in lies_in(name, shape, packed[name]).items()
            }
            self._tensors[name] = self._held[name][name]

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def product(self, y: Tensor, name: str) -> Tensor:
        """Return y @ weightᵀ, plus the bias if there is one."""
        weight, bias = self[name], self.bias(name)
        kind, how = self._packed.get(name), self._activations
        if kind is None:
            z = y @ weight.mT
        else:
            z = product(y, self._held[name], self._shapes[name][0], kind, how)
        return z if bias is None else z + bias

    def bias(self, name: str) -> Tensor | None:
        """Return what is added to products with a weight, if there is anything."""
        return self._tensors.get(f"{name}_bias")

    def is_packed(self, name: str) -> bool:
        """Tell whether a weight lies in blocks."""
        return name in self._packed

    def grouped(self, rows: Tensor, sizes: Tensor, name: str) -> Tensor:
        """Return rows @ weightᵀ of the expert of each; those of expert 0 stand first."""
        kind = self._packed.get(name)
        if kind is None:
            return nn.grouped_matmul(rows, self[name].mT, sizes)
        how = self._activations
        return nn.ggml_grouped_matmul(rows, self[name], sizes, format=kind, activations=how)

    def rows(self, ids: Tensor) -> Tensor:
        """Return the embedding of tokens."""
        kind = self._packed.get("embed")
        if kind is None:
            return nn.embedding(ids, self["embed"], name="embedded")
        return nn.ggml_embedding(ids, self["embed"], format=kind, name="embedded")

    def norm(self, y: Tensor, name: str) -> Tensor:
        """Return y, normed."""
        config, weight = self.config, self[name]
        if config.norm == "layer":
            return nn.layer_norm(y, weight, self[f"{name}_bias"], eps=config.eps)
        return nn.rms_norm(
            y, weight + 1.0 if config.norm == "rms_plus_one" else weight, eps=config.eps
        )


def _later(shape: tuple[int, ...], dtype: str = "float32") -> Zeros:
    """Return what a weight begins as that is given afterwards."""
    return Zeros(TensorSpec(shape, dtype))


def fill(graph: Graph, values: Mapping[str, Array | Buffer]) -> None:
    """Let arrays be the values of variables as they are; all are checked before the first one."""
    buffers: dict[str, Buffer] = {
        name: Given(value) if isinstance(value, np.ndarray) else value
        for name, value in values.items()
    }
    wanted = {v.name: v.spec for v in graph.variables}
    if missing := sorted(wanted.keys() ^ buffers.keys()):
        raise GraphError(
            "the weights are not those of this model",
            facts=[f"{'missing' if n in wanted else 'left over'}: {n}" for n in missing[:8]],
        )
    for name, buffer in buffers.items():
        if buffer.spec != wanted[name]:
            raise ShapeError(f"{name} is {buffer.spec}", need=f"{wanted[name]}")
    for name, buffer in buffers.items():
        graph.values.pack(name, buffer)


def count(config: Kind) -> int:
    """Return how many numbers the weights of a model are."""
    return sum(math.prod(shape) for _, shape in config.weights())

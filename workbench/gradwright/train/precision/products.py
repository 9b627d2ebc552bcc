"""Matrix products in 8 bits inside a graph that is built again, and the scales they leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import TrainingError
from ...graph import Tensor
from ...op import Op
from ...ops.core.joining import Unstack
from ...ops.core.reshape import Flatten, Reshape
from ...ops.layers.nn import Linear
from ...ops.matrices.linalg import Matmul
from ...ops.quantised.float8 import Fp8Product, UpdateFp8Scale, top_of
from ...spec import TensorSpec, dtype
from .fp8 import FORMATS, FP8

if TYPE_CHECKING:
    from ..slots import Slots
    from .rebuild import Rebuild


@dataclass
class Layer:
    """The state of one product, and what this step says about it."""

    history: Tensor
    scale: Tensor
    g_scale: Tensor
    """The scale of cotangents as it stands in the graph: its users are the gradient's products."""
    maxima: tuple[Tensor, Tensor]
    """Of both factors."""


class Products:
    """Which products are quantised, and their scales."""

    reason = "a product of matrices, whose factors are quantised with one scale each"

    def __init__(self, fp8: FP8, state: Slots) -> None:
        self.fp8, self.state = fp8, state
        self.forward, self.backward = FORMATS[fp8.format]
        self.computes = self.forward
        self.layers: dict[str, Layer] = {}

    def opens(self, op: Op, name: str) -> bool:
        """Return whether a composite is opened so that its product is seen."""
        return isinstance(op, Linear) and self.fp8.takes(name)

    def takes(self, op: Op, xs: list[Tensor | None], name: str) -> bool:
        """Return whether a node is quantised: the product of rows with a matrix."""
        if not isinstance(op, Matmul) or not self.fp8.takes(name):
            return False
        a, b = xs
        assert a is not None and b is not None
        return a.rank >= 2 and b.rank == 2 and max(a.dtype.itemsize, b.dtype.itemsize) <= 4

    def build(
        self, build: Rebuild, xs: list[Tensor | None], name: str, low: Any
    ) -> tuple[Tensor, ...]:
        """Return the product in 8 bits, in the dtype ``low``."""
        a, b = xs
        assert a is not None and b is not None
        delayed = self.fp8.recipe == "delayed"
        if delayed and not build.prefix:
            raise TrainingError(
                f"the product {name!r} is inside a loop or a branch, which runs any number of times"
                " a step",
                need="scales of its own",
                hint='gw.FP8(recipe="current"), or layers=... without it',
            )
        shape = a.shape
        if a.rank > 2:
            a = build.put(Flatten(end_axis=-2), [a], f"{name}/rows")[0]
        scales: tuple[Tensor | None, ...] = (None, None, None)
        if delayed:
            n, scope = self.fp8.history, f"fp8/{name}"
            history = self.state.variable(f"{scope}/history", TensorSpec((n, 3), "float32"))
            scale = self.state.variable(f"{scope}/scale", TensorSpec((3,), "float32"), init=1.0)
            scales = build.put(Unstack(), [scale], f"{name}/scales")
        op = Fp8Product(
            dtype=low,
            a_dtype=self.forward,
            b_dtype=self.forward,
            g_dtype=self.backward,
            margin=self.fp8.margin,
        )
        y, *maxima = build.put(op, [a, b, *scales], name)
        if delayed:
            assert scales[2] is not None
            self.layers[name] = Layer(history, scale, scales[2], (maxima[0], maxima[1]))
        if len(shape) > 2:
            y = build.put(Reshape(shape=(*shape[:-1], y.shape[-1])), [y], f"{name}/shaped")[0]
        return (y,)

    def updates(self, build: Rebuild) -> dict[Tensor, Tensor]:
        """Return the histories and scales after a step, once its gradients are there.

        Where no gradient flows, as above frozen layers, the maximum of cotangents counts as 0.
        """
        found: dict[Tensor, Tensor] = {}
        tops = tuple(top_of(dtype(d)) for d in (self.forward, self.forward, self.backward))
        op = UpdateFp8Scale(tops=tops, margin=self.fp8.margin, algorithm=self.fp8.algorithm)
        with build.building():
            for name, layer in self.layers.items():
                flowed = _cotangent_maximum(layer.g_scale)
                if flowed is None:
                    flowed = build.graph.scalar(0.0, layer.scale.dtype)
                xs = [layer.history, layer.scale, *layer.maxima, flowed]
                history, scale = build.put(op, xs, f"{name}/rescaled")
                found[layer.history], found[layer.scale] = history, scale
        return found


def _cotangent_maximum(g_scale: Tensor) -> Tensor | None:
    """Return the maximum of the cotangent that a product of the gradient has quantised."""
    for node in g_scale.uses:
        for i in (0, 1):
            if isinstance(node.op, Fp8Product) and node.inputs[2 + i] is g_scale:
                return node.outputs[1 + i]
    return None

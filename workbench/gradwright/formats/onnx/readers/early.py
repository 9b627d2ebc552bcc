"""Operators as they were before opset 7, and those that ONNX had on trial: in terms of later ones.

They are read, not converted: the library's converter misplaces the axis of a broadcast, renames
what it touches, and is not made for files that nobody has checked. What stands here serves a
version that no other reader does.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ....errors import ArchiveError
from ...foreign import Dialect
from ..dtypes import ELEMENT_TYPES
from ..node import ONNX, OnnxNode, op

EARLY = Dialect()
reads = EARLY.reads
ONNX.declared.append(lambda: EARLY.readers)

_DROPPED = ("consumed_inputs", "broadcast", "is_test", "spatial", "output_sequence")
"""Attributes that no later version has."""


def later(node: OnnxNode, *xs: Any, version: int = 7, **attributes: Any) -> Any:
    """Return what a later version of the operator makes of the inputs."""
    kept = {k: v for k, v in node.attributes.items() if k not in _DROPPED}
    newer = dataclasses.replace(node, version=version, attributes={**kept, **attributes})
    reader = ONNX.find(newer)
    assert reader is not None
    return reader(newer, *xs)


@reads("Abs", "Ceil", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Tanh")
@reads("Clip", "Elu", "HardSigmoid", "LeakyRelu", "Selu", "InstanceNormalization")
@reads("Max", "Mean", "Min", "Sum", "Dropout", "RNN", "GRU", "LSTM")
def renewed(node: OnnxNode, *xs: Any) -> Any:
    """Read what only lost attributes: hints about memory, and about what is asked for."""
    return later(node, *xs)


# -- pairs that broadcast ------------------------------------------------------------------------


@reads("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Less", "Greater")
def broadcast_at(node: OnnxNode, a: Any, b: Any) -> Any:
    """Put the second among the axes of the first, from ``axis`` on or at their end."""
    axis, node = node.get("axis"), dataclasses.replace(node, attributes={})
    if axis is None or b.rank == 0:
        return later(node, a, b)
    behind = a.rank - axis % max(a.rank, 1) - b.rank
    if behind < 0 or not -a.rank <= axis < a.rank:
        raise ArchiveError(
            f"{b.rank} axes do not fit into {a.rank} from axis {axis} on",
            facts=[f"got {a.spec} and {b.spec}"],
        )
    return later(node, a, op("reshape", shape=(*b.shape, *(1,) * behind))(b) if behind else b)


@reads("PRelu")
def prelu(node: OnnxNode, x: Any, slope: Any) -> Any:
    """One slope, or one per channel, which is axis 1."""
    if slope.rank == 1 and slope.shape[0] != 1 and x.rank > 2:
        slope = op("reshape", shape=(-1, *(1,) * (x.rank - 2)))(slope)
    return later(node, x, slope)


@reads("Gemm")
def gemm(node: OnnxNode, a: Any, b: Any, c: Any) -> Any:
    return later(node, a, b, c)


# -- inputs that were attributes, and the other way round ----------------------------------------


@reads("Cast")
def cast(node: OnnxNode, x: Any) -> Any:
    """Cast to a dtype by its name in ONNX."""
    numbers = {_onnx_name(name): number for number, name in ELEMENT_TYPES.items()}
    to = node["to"]
    if to not in numbers:
        raise ArchiveError(f"to={to!r} is no element type", need=", ".join(numbers))
    return later(node, x, to=numbers[to])


def _onnx_name(name: str) -> str:
    return {"float32": "FLOAT", "float64": "DOUBLE", "str": "STRING"}.get(name, name.upper())


@reads("Concat")
def concat(node: OnnxNode, *xs: Any) -> Any:
    return later(node, *xs, axis=node.get("axis", 1))


@reads("Reshape")
def reshape(node: OnnxNode, x: Any) -> Any:
    return later(node, x, np.array(node["shape"], np.int64))


@reads("Pad")
def pad(node: OnnxNode, x: Any) -> Any:
    return later(node, x, pads=node["paddings"])


@reads("Split", values=(1,))
def split(node: OnnxNode, x: Any, sizes: Any = None) -> Any:
    return later(node, x) if sizes is None else later(node, x, split=tuple(np.ravel(sizes)))


@reads("Tile", values=(1, 2))
def tile(node: OnnxNode, x: Any, tiles: Any, axis: Any) -> Any:
    """Repeat along one axis."""
    repeats = np.ones(x.rank, np.int64)
    repeats[int(np.ravel(axis)[0])] = int(np.ravel(tiles)[0])
    return later(node, x, repeats)


@reads("Upsample")
def upsample(node: OnnxNode, x: Any) -> Any:
    mode = node.get("mode", "nearest").removeprefix("bi")
    scales = (1.0, 1.0, node["height_scale"], node["width_scale"])
    return later(node, x, scales=scales, mode=mode)


@reads("LpPool", "GlobalLpPool")
def lp_pool(node: OnnxNode, x: Any) -> Any:
    """Pool by a norm whose order is a float yet."""
    p = node.get("p", 2.0)
    if p != int(p):
        raise ArchiveError(f"p={p} is no whole number", need="1, 2, ...")
    return later(node, x, p=int(p))


@reads("BatchNormalization")
def batch_norm(node: OnnxNode, x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    """Normalise by stored statistics; by those of the batch where the model is one that trains."""
    if not node.flag("spatial", True):
        spread = op("sqrt")(var + node.get("epsilon", 1e-5))
        return (x - mean) / spread * scale + bias
    if node.flag("is_test"):
        return later(node, x, scale, bias, mean, var, version=9)
    return later(node, x, scale, bias, mean, var, version=14, training_mode=1)


# -- on trial until opset 10 ---------------------------------------------------------------------


@reads("Affine")
def affine(node: OnnxNode, x: Any) -> Any:
    return x * node.get("alpha", 1.0) + node.get("beta", 0.0)


@reads("Scale")
def scale(node: OnnxNode, x: Any) -> Any:
    return x * node.get("scale", 1.0)


@reads("ScaledTanh")
def scaled_tanh(node: OnnxNode, x: Any) -> Any:
    return op("tanh")(x * node["beta"]) * node["alpha"]


@reads("ParametricSoftplus")
def parametric_softplus(node: OnnxNode, x: Any) -> Any:
    return op("softplus")(x * node["beta"]) * node["alpha"]


@reads("ThresholdedRelu", "MeanVarianceNormalization")
def as_released(node: OnnxNode, x: Any) -> Any:
    """Read what became part of ONNX in opsets 9 and 10 as it was."""
    if node.op_type == "ThresholdedRelu":
        return later(node, x, version=10)
    axes = (0, 2, 3) if node.flag("across_channels") is False else (0, 1, 2, 3)
    if not node.flag("normalize_variance", True):
        return x - op("mean", axis=axes, keepdims=True)(x)
    return op("mean_variance_normalization", axis=axes)(x)


@reads("ImageScaler")
def image_scaler(node: OnnxNode, x: Any) -> Any:
    """Scale an image, and add a number per channel."""
    bias = np.array(node.get("bias", ()), x.dtype).reshape(-1, 1, 1)
    return x * node.get("scale", 1.0) + x.graph.constant(bias)


@reads("Crop")
def crop(node: OnnxNode, x: Any) -> Any:
    """Cut borders off the two last axes, or go on from the first corner to a size."""
    left, top, right, bottom = node["border"]
    rows, columns = slice(top, -bottom or None), slice(left, -right or None)
    if "scale" in node.attributes:
        height, width = node["scale"]
        rows, columns = slice(top, top + height), slice(left, left + width)
    return op("strided_slice", index=(slice(None), slice(None), rows, columns))(x)


@reads("DynamicSlice", values=(1, 2, 3))
def dynamic_slice(node: OnnxNode, x: Any, *bounds: Any) -> Any:
    return later(dataclasses.replace(node, op_type="Slice"), x, *bounds, version=10)

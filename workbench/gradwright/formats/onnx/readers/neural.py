"""Layers: normalisations, products with weights, dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....errors import UnsupportedOpError
from ..folding import fold
from ..node import OnnxNode, cast, maps, op, reads


def _over_rows(name: str, node: OnnxNode, x: Any) -> Any:
    """Apply along all axes from one on at once, as before opset 13."""
    axis = node.get("axis", 1) % max(x.rank, 1)
    if axis == x.rank - 1:  # rows are rows already
        return op(name, axis=-1)(x)
    flat = op("reshape", shape=(math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))(x)
    return op("reshape_like")(op(name, axis=1)(flat), x)


@reads("Softmax", since=1)
def softmax_rows(node: OnnxNode, x: Any) -> Any:
    return _over_rows("softmax", node, x)


@reads("LogSoftmax", since=1)
def log_softmax_rows(node: OnnxNode, x: Any) -> Any:
    return _over_rows("log_softmax", node, x)


@reads("Hardmax", since=1)
def hardmax_rows(node: OnnxNode, x: Any) -> Any:
    return _over_rows("hardmax", node, x)


maps("Softmax", "softmax", since=13, attributes={"axis": -1})
maps("LogSoftmax", "log_softmax", since=13, attributes={"axis": -1})
maps("Hardmax", "hardmax", since=13, attributes={"axis": -1})


@reads("Gemm", since=7)
def gemm(node: OnnxNode, a: Any, b: Any, c: Any = None) -> Any:
    turn = op("transpose", axes=(1, 0))
    a = turn(a) if node.flag("transA") else a
    b = turn(b) if node.flag("transB") else b
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    of_columns = c is None or (c.rank == 1 and c.shape[0] == b.shape[1])
    if alpha == beta == 1.0 and of_columns:
        return op("linear")(a, b, *([] if c is None else [c]))
    y = op("matmul")(a, b)
    y = y if alpha == 1.0 else y * alpha
    if c is None or beta == 0.0:
        return y
    return y + (c if beta == 1.0 else c * beta)


maps("MatMul", "matmul")


@reads("BatchNormalization", since=7)
def batch_norm_by_outputs(
    node: OnnxNode, x: Any, scale: Any, bias: Any, mean: Any, var: Any
) -> Any:
    """Train where the node has the outputs that only training makes, read or not."""
    if not node.flag("spatial", True):
        raise UnsupportedOpError("BatchNormalization with statistics per pixel (spatial = 0)")
    return _batch_norm(node, len(node.wanted) > 1, x, scale, bias, mean, var)


@reads("BatchNormalization", since=14)
def batch_norm(node: OnnxNode, x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    return _batch_norm(node, node.flag("training_mode"), x, scale, bias, mean, var)


def _batch_norm(
    node: OnnxNode, training: bool, x: Any, scale: Any, bias: Any, mean: Any, var: Any
) -> Any:
    """Normalise; in training also the next statistics, and those of the batch that y is made by.

    The last output is 1/√(σ² + ε), as in ONNX Runtime; the specification calls it a variance.
    """
    eps, momentum = node.get("epsilon", 1e-5), node.get("momentum", 0.9)
    for statistic in (mean, var):
        if statistic.kind == "variable":
            statistic.graph.set_trainable(statistic, False)
    norm = op("batch_norm", eps=eps, training=False)
    if not training:
        return norm(x, scale, bias, mean, var)[0]
    axes = (0, *range(2, x.rank))
    found, spread = op("mean", axis=axes)(x), op("var", axis=axes)(x)
    y = norm(x, scale, bias, found, spread)[0]
    if not any(node.wanted[1:]):
        return y
    inverse = op("reciprocal")(op("sqrt")(spread + eps)) if any(node.wanted[3:]) else None
    return (
        y,
        mean * momentum + cast(found, mean.dtype) * (1 - momentum),
        var * momentum + cast(spread, var.dtype) * (1 - momentum),
        found,
        inverse,
    )


@reads("LayerNormalization", since=17)
def layer_norm(node: OnnxNode, x: Any, scale: Any, bias: Any = None) -> Any:
    axis, eps = node.get("axis", -1), node.get("epsilon", 1e-5)
    if not any(node.wanted[1:]) and scale.rank == x.rank - axis % x.rank:
        return op("layer_norm", axis=axis, eps=eps)(x, scale, bias)
    axes = tuple(range(axis % x.rank, x.rank))
    wide = cast(x, "float32") if x.dtype.itemsize < 4 else x
    mean = op("mean", axis=axes, keepdims=True)(wide)
    inverse = op("reciprocal")(op("sqrt")(op("var", axis=axes, keepdims=True)(wide) + eps))
    y = cast((wide - mean) * inverse, x.dtype) * scale
    return (y if bias is None else y + bias), mean, inverse


@reads("RMSNormalization", since=23)
def rms_norm(node: OnnxNode, x: Any, scale: Any) -> Any:
    axis, eps = node.get("axis", -1), node.get("epsilon", 1e-5)
    if scale.rank == x.rank - axis % x.rank:
        return op("rms_norm", axis=axis, eps=eps)(x, scale)
    return op("rms_norm", axis=axis, eps=eps)(x) * scale


@reads("GroupNormalization", since=18)
def group_norm_of_groups(node: OnnxNode, x: Any, scale: Any, bias: Any) -> Any:
    """Normalise groups of channels; up to opset 20 each group has one weight and one bias."""
    groups = node["num_groups"]

    def of_channels(w: Any) -> Any:
        if w.shape[0] != groups:
            return w
        wide = op("broadcast_to", shape=(groups, x.shape[1] // groups))(w.reshape((groups, 1)))
        return op("reshape", shape=(x.shape[1],))(wide)

    return group_norm(node, x, of_channels(scale), of_channels(bias))


@reads("GroupNormalization", since=21)
def group_norm(node: OnnxNode, x: Any, scale: Any, bias: Any) -> Any:
    attrs = {"num_groups": node["num_groups"], "eps": node.get("epsilon", 1e-5)}
    return op("group_norm", **attrs)(x, scale, bias)


maps(
    "MeanVarianceNormalization", "mean_variance_normalization", since=9,
    attributes={"axes": (0, 2, 3)}, takes={"axis": "axes"},
)  # fmt: skip


@reads("Dropout", since=7)
def dropout_attribute(node: OnnxNode, x: Any) -> Any:
    if not any(node.wanted[1:]):
        return op("identity")(x)
    mask = "bool" if node.version >= 10 else x.dtype
    return op("identity")(x), op("full_like", fill_value=True, dtype=mask)(x)


@reads("Dropout", since=12)
def dropout(node: OnnxNode, x: Any, ratio: Any = None, training: Any = None) -> Any:
    """Leave out elements where the model says that it trains; the ratio may be computed."""
    kept = op("full_like", fill_value=True, dtype="bool")(x)
    trains = None if training is None else fold(training)
    p = np.asarray(0.5) if ratio is None else fold(ratio)
    if training is None or (trains is not None and not trains) or (p is not None and not p):
        return op("identity")(x), kept
    graph = x.graph
    if trains is not None and p is not None and not any(node.wanted[1:]):
        always = {"training": True, "stream": graph.next_stream()}
        return op("dropout", p=float(p), **always)(graph.rng, x)
    draw = op("uniform", shape=x.shape, stream=graph.next_stream())(graph.rng)
    limit = cast(ratio, "float32") if p is None else float(p)
    mask = draw >= limit
    if trains is None:
        mask = op("logical_or")(mask, op("logical_not")(training))
    scale = cast(x.graph.constant(1.0) / (1.0 - limit), x.dtype)
    scaled = x * scale
    if trains is None:
        scaled = op("where")(training, scaled, x)
    return op("where")(mask, scaled, 0), mask

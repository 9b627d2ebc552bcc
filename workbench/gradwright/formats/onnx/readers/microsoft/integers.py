"""Integers that stand for real numbers: products of them, and functions from code to code."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .....errors import ArchiveError
from ...node import OnnxNode, cast, maps, op
from ..images import average_pool, max_pool
from ..quantised import dequantize_linear, qlinear_conv, quantize_linear
from .contrib import DOMAIN, reads
from .norms import embed_layer_norm
from .products import channels_first, channels_last

reads("QuantizeLinear")(quantize_linear)  # with an axis, and for 16 and 4 bits
reads("DequantizeLinear")(dequantize_linear)


def real(x: Any, scale: Any, zero_point: Any, axis: int = -1) -> Any:
    """Return the numbers that codes stand for."""
    given = [] if zero_point is None else [shaped(zero_point, scale)]
    return op("dequantize_linear", axis=axis)(x, scale, *given)


def coded(y: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    """Return numbers as codes of a dtype, that of the zero point if there is one."""
    if zero_point is None:
        return op("quantize_linear", dtype=np.dtype(dtype))(y, scale)
    return op("quantize_linear")(y, scale, shaped(zero_point, scale))


def shaped(zero_point: Any, scale: Any) -> Any:
    """Return a zero point in the shape of its scale; one element may have rank 0 or 1."""
    same = zero_point.rank == scale.rank
    return zero_point if same else op("reshape_like")(zero_point, scale)


# -- products ------------------------------------------------------------------------------------


def integer_product(a: Any, b: Any, a_zero: Any, b_zero: Any) -> Any:
    """Return the product of codes less their zero points, exact, as int32."""
    return op("matmul_integer")(a, b, _one_or_row(a_zero), _one_or_row(b_zero))


def _one_or_row(zero_point: Any) -> Any:
    if zero_point is None or zero_point.rank != 1 or zero_point.shape[0] != 1:
        return zero_point
    return op("reshape", shape=())(zero_point)


@reads("MatMulIntegerToFloat")
def matmul_integer_to_float(
    node: OnnxNode,
    a: Any,
    b: Any,
    a_scale: Any,
    b_scale: Any,
    a_zero: Any = None,
    b_zero: Any = None,
    bias: Any = None,
) -> Any:
    """Multiply codes, and scale the whole numbers that come out."""
    y = cast(integer_product(a, b, a_zero, b_zero), a_scale.dtype) * (a_scale * b_scale)
    return y if bias is None else y + bias


@reads("DynamicQuantizeMatMul")
def dynamic_quantize_matmul(
    node: OnnxNode, a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None
) -> Any:
    """Multiply with codes, the left side coded by its own range."""
    codes, scale, zero = op("dynamic_quantize_linear")(a)
    return matmul_integer_to_float(node, codes, b, scale, b_scale, zero, b_zero, bias)


@reads("QGemm")
def qgemm(
    node: OnnxNode,
    a: Any,
    a_scale: Any,
    a_zero: Any,
    b: Any,
    b_scale: Any,
    b_zero: Any,
    c: Any = None,
    y_scale: Any = None,
    y_zero: Any = None,
) -> Any:
    """Multiply matrices of codes and add int32; the result is coded if it has a scale."""
    turn = op("transpose", axes=(1, 0))
    a = turn(a) if node.flag("transA") else a
    b = turn(b) if node.flag("transB") else b
    whole = integer_product(a, b, a_zero, b_zero)
    whole = whole if c is None else whole + c
    y = cast(whole, a_scale.dtype) * (a_scale * b_scale * node.get("alpha", 1.0))
    return y if y_scale is None else coded(y, y_scale, y_zero, a.dtype)


@reads("QLinearConv")
def qlinear_conv_last(node: OnnxNode, x: Any, *others: Any) -> Any:
    """Convolve codes, whose channels may come last."""
    if not node.flag("channels_last"):
        return qlinear_conv(node, x, *others)
    return channels_last(qlinear_conv(node, channels_first(x), *others))


maps("MatMulInteger16", "matmul_integer", domain=DOMAIN)


# -- from code to code ---------------------------------------------------------------------------


def _defaulted(xs: Sequence[Any], n: int) -> list[Any]:
    return [*xs, *[None] * (n - len(xs))]


@reads("QLinearAdd", "QLinearMul")
def pair(node: OnnxNode, *xs: Any) -> Any:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = _defaulted(xs, 8)
    a_real, b_real = real(a, a_scale, a_zero), real(b, b_scale, b_zero)
    y = a_real + b_real if node.op_type == "QLinearAdd" else a_real * b_real
    return coded(y, y_scale, y_zero, a.dtype)


def _leaky(node: OnnxNode, x: Any) -> Any:
    return op("leaky_relu", negative_slope=node.get("alpha", 0.01))(x)


def _softmax(node: OnnxNode, x: Any) -> Any:
    """Before opset 13 softmax ran along all axes from one on."""
    axis = node.get("axis", -1) % max(x.rank, 1)
    if node.get("opset", 13) >= 13 or axis == x.rank - 1:
        return op("softmax", axis=axis)(x)
    rows = op("reshape", shape=(*x.shape[:axis], -1))(x)
    return op("reshape_like")(op("softmax", axis=-1)(rows), x)


def _average(node: OnnxNode, x: Any) -> Any:
    if not node.flag("channels_last"):
        return average_pool(node, x)
    return channels_last(average_pool(node, channels_first(x)))


def _global_average(node: OnnxNode, x: Any) -> Any:
    first = 1 if node.flag("channels_last") else 2
    last = x.rank - 1 if node.flag("channels_last") else x.rank
    return op("mean", axis=tuple(range(first, last)), keepdims=True)(x)


def _reduce_mean(node: OnnxNode, x: Any) -> Any:
    axes = node.get("axes") or tuple(range(x.rank))
    return op("mean", axis=tuple(axes), keepdims=node.flag("keepdims", True))(x)


ALONE: dict[str, Callable[[OnnxNode, Any], Any]] = {
    "QLinearSigmoid": lambda node, x: op("sigmoid")(x),
    "QLinearLeakyRelu": _leaky,
    "QLinearSoftmax": _softmax,
    "QLinearAveragePool": _average,
    "QLinearGlobalAveragePool": _global_average,
    "QLinearReduceMean": _reduce_mean,
}
"""Operator of one coded tensor -> what is done with its real numbers."""


@reads(*ALONE)
def alone(node: OnnxNode, *xs: Any) -> Any:
    x, x_scale, x_zero, y_scale, y_zero = _defaulted(xs, 5)
    return coded(ALONE[node.op_type](node, real(x, x_scale, x_zero)), y_scale, y_zero, x.dtype)


@reads("QLinearConcat")
def concat(node: OnnxNode, y_scale: Any, y_zero: Any, *parts: Any) -> Any:
    if not parts or len(parts) % 3:
        raise ArchiveError(f"{len(parts)} inputs", need="codes, scale and zero point, each time")
    each = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    whole = op("concat", axis=node["axis"])(*(real(*part) for part in each))
    return coded(whole, y_scale, y_zero, parts[0].dtype)


@reads("QLinearWhere")
def where(node: OnnxNode, condition: Any, *xs: Any) -> Any:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = _defaulted(xs, 8)
    y = op("where")(condition, real(a, a_scale, a_zero), real(b, b_scale, b_zero))
    return coded(y, y_scale, y_zero, a.dtype)


@reads("NhwcMaxPool")
def max_pool_last(node: OnnxNode, x: Any) -> Any:
    """Pool codes whose channels come last: the order of codes is that of numbers."""
    first = channels_first(x)
    return channels_last(max_pool(dataclasses.replace(node, wanted=(True,)), first))


# -- embeddings of codes -------------------------------------------------------------------------


@reads("QEmbedLayerNormalization")
def qembed_layer_norm(node: OnnxNode, *xs: Any) -> Any:
    """Layer norm of the sum of embeddings whose tables, scale and shift are codes."""
    ids, segments, *codes = xs[:7]
    mask = xs[7] if len(xs) > 7 else None
    words, positions, kinds, scale, shift = (
        None if table is None else real(table, scale, zero)
        for table, scale, zero in zip(codes, xs[8:13], _defaulted(xs[13:], 5), strict=True)
    )
    return embed_layer_norm(node, ids, segments, words, positions, kinds, scale, shift, mask)

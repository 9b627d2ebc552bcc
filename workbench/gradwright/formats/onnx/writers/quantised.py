"""Rounding to few bits, in the dtype of what is rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....graph import Tensor
from ....op import seams
from ....ops.attention.turbo import levels
from ....ops.core.special import finfo
from ....ops.quantised.nf4 import NF4, dynamic_map
from ....spec import normalize_axis
from ..node import cast, op
from ..nodes import spelled
from ..versions import CannotExport


def _spread(scale: Tensor, x: Tensor, axis: int) -> Any:
    """Return numbers along an axis in a shape that broadcasts to the tensor's."""
    if scale.rank != 1 or x.rank == 0:
        return scale.reshape(()) if scale.rank == 1 else scale
    at = normalize_axis(axis, x.rank)
    if scale.shape[0] == 1:
        return scale
    return op("reshape", shape=tuple(-1 if i == at else 1 for i in range(x.rank)))(scale)


@spelled("fake_quantize")
def fake_quantize(of: Any, x: Tensor, scale: Tensor, zero_point: Tensor | None = None) -> Any:
    """Divide, round and clip step by step; QuantizeLinear has no integers of any other range."""
    wide = x.dtype if x.dtype.itemsize >= 4 else np.dtype("float32")
    s = cast(_spread(scale, x, of.axis), wide)
    q = op("round")(cast(x, wide) / s)
    zero = None if zero_point is None else cast(_spread(zero_point, x, of.axis), wide)
    q = q if zero is None else q + zero
    q = op("maximum")(op("minimum")(q, float(of.high)), float(of.low))
    return (q if zero is None else q - zero) * s


@spelled("fake_cast")
def fake_cast(of: Any, x: Tensor) -> Any:
    """Round by a cast there and back; what is too large becomes the largest."""
    top = float(finfo(of.dtype).max)
    inside = op("maximum")(op("minimum")(x, top), -top)
    y = cast(cast(inside, of.dtype), x.dtype)
    return op("where")(op("is_nan")(x), x, y)


@spelled("quantize_fp8")
def quantize_fp8(of: Any, x: Tensor, scale: Tensor | None = None) -> Any:
    x, top = cast(x, "float32"), float(finfo(of.dtype).max)
    flat = op("concat", axis=0)(
        op("full", shape=(1,), fill_value=0, dtype="float32")(), abs(x).reshape(-1)
    )
    amax = op("max")(flat)
    if scale is None:
        usable = (amax > 0.0) & op("is_finite")(amax)
        scale = op("where")(usable, 2.0**-of.margin * top / op("where")(usable, amax, 1.0), 1.0)
    scale = cast(scale, "float32").reshape(())
    y = op("maximum")(op("minimum")(x * scale, top), -top)
    y = op("where")(op("is_finite")(x), y, np.nan)
    return cast(y, of.dtype), 1.0 / scale, amax


@spelled("scaled_matmul")
def scaled_matmul(of: Any, a: Tensor, b: Tensor, a_inverse: Tensor, b_inverse: Tensor) -> Any:
    y = cast(a, "float32") @ cast(b, "float32")
    return op("cast", dtype=of.dtype)(y * (cast(a_inverse, "float32") * cast(b_inverse, "float32")))


@spelled("quantized_matmul")
def quantized_matmul(
    of: Any, x: Tensor, weight: Tensor, scale: Tensor, zero_point: Tensor | None = None
) -> Any:
    return x @ op("swapaxes", axis1=0, axis2=1)(
        cast(_floats(of, weight, scale, zero_point), x.dtype)
    )


def _floats(of: Any, weight: Tensor, scale: Tensor, zero_point: Tensor | None) -> Any:
    """Return a weight of scaled integers as numbers."""
    wide = scale.dtype if scale.dtype.itemsize >= 4 else "float32"

    def of_rows(t: Tensor) -> Any:
        t = cast(t, wide)
        if of.block_size:
            return op("repeat", repeats=of.block_size, axis=1)(t)[:, : weight.shape[1]]
        return op("expand_dims", axis=-1)(t) if t.rank == 1 and t.shape[0] != 1 else t

    y = cast(weight, wide)
    y = y if zero_point is None else y - of_rows(zero_point)
    return y * of_rows(scale)


def _nf4(packed: Tensor, absmax: Tensor, n: Any, block_size: int) -> Any:
    """Return n numbers of 4 bits each, the first of two in the high half of a byte."""
    codes = cast(packed, "int64").reshape(-1, 1)
    halves = op("concat", axis=1)(op("floor_div")(codes, 16), op("mod")(codes, 16))
    values = op("gather", axis=0)(NF4, halves.reshape(-1)[:n])
    scales = op("repeat", repeats=block_size, axis=0)(cast(absmax, "float32"))[:n]
    return values * scales


@spelled("dequantize_nf4")
def dequantize_nf4(of: Any, packed: Tensor, absmax: Tensor) -> Any:
    n = int(np.prod([int(d) for d in of.shape]))
    y = op("reshape", shape=of.shape)(_nf4(packed, absmax, n, of.block_size))
    return op("cast", dtype=of.dtype)(y)


@spelled("nf4_matmul")
def nf4_matmul(of: Any, x: Tensor, packed: Tensor, absmax: Tensor) -> Any:
    d = x.shape[-1]
    w = op("reshape", shape=(of.out_features, d))(
        _nf4(packed, absmax, of.out_features * d, of.block_size)
    )
    return x @ op("swapaxes", axis1=0, axis2=1)(cast(w, x.dtype))


@spelled("dequantize_blockwise")
def dequantize_blockwise(of: Any, code: Tensor, absmax: Tensor) -> Any:
    values = op("gather", axis=0)(dynamic_map(), cast(code, "int64").reshape(-1))
    scales = op("repeat", repeats=of.block_size, axis=0)(cast(absmax, "float32"))
    return op("reshape_like")(values * scales[: values.shape[0]], code)


@spelled("kv_cache_quantize")
def kv_cache_quantize(of: Any, x: Tensor) -> Any:
    d: Any = x.shape[-1]
    size = of.block_size or d
    parts = op("reshape", shape=(*x.shape[:-1], d // size, size))(x)
    top = 2 ** (of.bits - 1) - 1
    scale = op("max", axis=-1)(abs(parts)) / top
    dtype = of.infer(x.spec)[1].dtype
    scale = op("cast", dtype=dtype)(scale)
    divisor = op("expand_dims", axis=-1)(op("where")(scale == 0.0, 1.0, scale))
    codes = op("round")(parts / cast(divisor, parts.dtype))
    codes = op("maximum")(op("minimum")(codes, float(top)), float(-top))
    return cast(op("reshape", shape=x.shape)(codes), "int8"), scale


def _codes(x: Tensor, table: Any, block_size: int) -> tuple[Any, Any, Any]:
    """Return the place of the nearest number of a table for each element, scales, and how many."""
    flat = cast(x, "float32").reshape(-1)
    n = flat.shape[0]
    blocks = -(-n // block_size)
    zeros = op("full", shape=(blocks * block_size,), fill_value=0, dtype="float32")()
    whole = op("cut_or_pad_like", axis=0)(flat, zeros)
    absmax = op("max", axis=1)(abs(op("reshape", shape=(blocks, block_size))(whole)))
    safe = op("where")(absmax == 0.0, 1.0, absmax)
    part = flat / op("repeat", repeats=block_size, axis=0)(safe)[:n]
    middle = (table[1:] + table[:-1]) / 2
    return op("searchsorted")(middle, part), absmax, n


@spelled("quantize_nf4")
def quantize_nf4(of: Any, x: Tensor) -> Any:
    code, absmax, n = _codes(x, NF4, of.block_size)
    if n % 2:
        code = op("concat", axis=0)(code, op("full", shape=(1,), fill_value=7, dtype="int64")())
    pairs = op("reshape", shape=(-1, 2))(code)
    return cast(pairs[:, :1] * 16 + pairs[:, 1:], "uint8"), absmax


@spelled("quantize_blockwise")
def quantize_blockwise(of: Any, x: Tensor) -> Any:
    code, absmax, _ = _codes(x, dynamic_map(), of.block_size)
    return cast(op("reshape", shape=x.shape)(code), "uint8"), absmax


_AWQ = (0, 4, 1, 5, 2, 6, 3, 7)
"""Which 4 bits of an int32, from the lowest on, hold columns 0 to 7."""


def _unpacked_awq(q: Tensor) -> Any:
    parts = [op("mod")(op("floor_div")(cast(q, "int64"), 16**i), 16) for i in _AWQ]
    rows, columns = q.shape
    return op("reshape", shape=(rows, columns * 8))(op("stack", axis=-1)(*parts))


@spelled("awq_matmul")
def awq_matmul(of: Any, x: Tensor, weight: Tensor, zeros: Tensor, scales: Tensor) -> Any:
    rows: Any = weight.shape[0]
    size = rows // scales.shape[0]
    wide = cast(scales, "float32")
    apart = _unpacked_awq(weight) - op("repeat", repeats=size, axis=0)(_unpacked_awq(zeros))
    w = cast(apart, "float32") * op("repeat", repeats=size, axis=0)(wide)
    return x @ cast(w, x.dtype)


_PRODUCTS: dict[str, Callable[..., Tensor]] = {
    "quantized_matmul": quantized_matmul,
    "nf4_matmul": nf4_matmul,
    "awq_matmul": awq_matmul,
}


@spelled("packed_matmul_grad")
def packed_matmul_grad(of: Any, g: Tensor, x: Tensor, *packed: Tensor | None) -> Any:
    """Differentiate the product."""
    build = _PRODUCTS.get(of.op.name)
    if build is None:
        raise CannotExport
    (dx,) = seams.gradients([build(of.op, x, *packed)], [x], [g], unreachable="zero")
    return dx


@spelled("turbo_quantize")
def turbo_quantize(of: Any, x: Tensor, rotation: Tensor) -> Any:
    norm = op("sqrt")(op("sum", axis=-1)(x * x))
    unit = x / op("expand_dims", axis=-1)(op("where")(norm == 0.0, 1.0, norm))
    root = op("sqrt")(cast(op("full", shape=(), fill_value=x.shape[-1], dtype="int64")(), x.dtype))
    turned = unit @ op("swapaxes", axis1=0, axis2=1)(cast(rotation, x.dtype)) * root
    level = np.array(levels(of.bits))
    middle = ((level[1:] + level[:-1]) / 2).astype(x.dtype)
    return cast(op("searchsorted")(middle, turned), "int8"), norm

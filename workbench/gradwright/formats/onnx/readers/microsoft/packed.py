"""Weights of few bits, of which several share a byte."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....errors import ArchiveError
from .....spec import dtype as as_dtype
from ...node import OnnxNode, op
from .contrib import reads, refuse

Array = np.ndarray[Any, Any]


def unpacked(node: OnnxNode, data: Any, bits: int, width: Any = None) -> Array:
    """Return numbers of 2, 4 or 8 bits that lie in bytes, the lowest bits first.

    They are of uint4 or uint8 (opsets before 25 have no uint2); ``width`` is how many of a row
    count, all by default.
    """
    if bits not in (2, 4, 8):
        raise ArchiveError(f"{node.op_type} with {bits} bits is not read", need="2, 4 or 8")
    data = np.asarray(data).view(np.uint8)
    shifts = np.arange(0, 8, bits).astype(np.uint8)
    parts = (data[..., None] >> shifts) & np.uint8(2**bits - 1)
    rows = parts.reshape(*data.shape[:-1], -1)[..., :width]
    return np.ascontiguousarray(rows).astype(as_dtype("uint4" if bits <= 4 else "uint8"))


@reads("MatMulNBits", values=(1, 2, 3, 4))
def matmul_n_bits(
    node: OnnxNode,
    x: Any,
    data: Any,
    scales: Any,
    zeros: Any = None,
    groups: Any = None,
    bias: Any = None,
) -> Any:
    """Multiply with a weight whose blocks of a row share a scale and a zero point."""
    refuse(node, "weight_prepacked")
    n, k, size, bits = node["N"], node["K"], node["block_size"], node.get("bits", 4)
    if size < 1:
        raise ArchiveError(f"block_size is {size}", need="16 or more")
    blocks = -(-k // size)
    weight = unpacked(node, np.reshape(data, (n, -1)), bits, k)
    scales = np.reshape(scales, (n, blocks))
    if zeros is None:
        zeros = np.full((n, blocks), 2 ** (bits - 1), weight.dtype)
    elif zeros.dtype == np.uint8:
        zeros = unpacked(node, zeros.reshape(n, -1), bits, blocks)
    else:
        zeros = zeros.reshape(n, blocks)
    places = None if groups is None else np.ravel(groups)
    if places is None or (places == np.arange(k) // size).all():
        parts = (x.graph.constant(v) for v in (weight, scales, zeros))
        y = op("quantized_matmul", block_size=size)(x, *parts)
    else:  # each column names its block
        shifted = weight.astype(np.float32) - zeros.astype(np.float32)[:, places]
        known = (shifted * scales[:, places]).astype(x.dtype)
        y = op("matmul")(x, x.graph.constant(known.T))
    return y if bias is None else y + bias


FP4 = np.array([0, 0.005208333333, 0.6666667, 1, 0.3333333, 0.5, 0.1666667, 0.25], np.float32)
"""What the lower three bits of bitsandbytes' FP4 stand for; the fourth is the sign."""


@reads("MatMulBnb4", values=(1, 2))
def matmul_bnb4(node: OnnxNode, x: Any, data: Any, largest: Any) -> Any:
    """Multiply with a weight in one of the 4-bit types of bitsandbytes."""
    n, k, size = node["N"], node["K"], node["block_size"]
    data, largest = np.reshape(data, (-1, 1)), np.ravel(largest)
    if node["quant_type"] == 1:
        packed = x.graph.constant(data), x.graph.constant(largest)
        return op("nf4_matmul", out_features=n, block_size=size)(x, *packed)
    codes = np.stack([data >> 4, data & 15], -1).reshape(-1)[: n * k]
    weight = FP4[codes & 7] * np.where(codes & 8, np.float32(-1), np.float32(1))
    scaled = weight * np.repeat(largest.astype(np.float32), size)[: n * k]
    return op("matmul")(x, x.graph.constant(scaled.reshape(n, k).T.astype(x.dtype)))


@reads("GatherBlockQuantized", values=(0, 3))
def gather_block_quantized(
    node: OnnxNode, data: Any, indices: Any, scales: Any, zeros: Any = None
) -> Any:
    """Look up rows of a table whose blocks share a scale, as numbers."""
    bits, size = node.get("bits", 4), node.get("block_size", 128)
    rank = data.ndim
    if data.dtype == np.uint8:  # packed, and zero points in their own rows, too
        data = unpacked(node, data, bits)
        blocks = -(-data.shape[-1] // size)
        if zeros is None:
            zeros = np.full((*data.shape[:-1], blocks), 2 ** (bits - 1), data.dtype)
        else:
            zeros = unpacked(node, zeros, bits, blocks)
    along, across = node.get("gather_axis", 0) % rank, node.get("quantize_axis", 1) % rank
    if along == across:
        raise ArchiveError("gather_axis and quantize_axis are the same", need="two axes")
    look_up = op("gather", axis=along)
    graph = indices.graph
    parts = [look_up(graph.constant(data), indices), look_up(scales, indices)]
    if zeros is not None:
        parts.append(look_up(graph.constant(zeros), indices))
    axis = across if across < along else across + indices.rank - 1
    return op("dequantize_linear", axis=axis, block_size=size)(*parts)

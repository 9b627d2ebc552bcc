"""Products and convolutions with what was fused into them: turns, factors, activations."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ...node import OnnxNode, maps, op
from ..images import conv, conv_transpose
from ..neural import gemm
from .contrib import DOMAIN, activated, reads


@reads("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation")
def fused_matmul(node: OnnxNode, a: Any, b: Any) -> Any:
    """Multiply matrices that are turned first, and scale."""
    y = op("matmul")(_turned(node, a, "A"), _turned(node, b, "B"))
    alpha = node.get("alpha", 1.0)
    y = y if alpha == 1.0 else y * alpha
    return activated(node, y, node.get("activation_alpha"), node.get("activation_beta"))


def _turned(node: OnnxNode, x: Any, side: str) -> Any:
    """Return an operand with its axes as they are multiplied; a vector has no turn."""
    axes = [*range(x.rank)]
    if node.flag(f"transBatch{side}") and x.rank > 2:  # the first axis is that of rows
        axes = [*axes[1:-1], 0, axes[-1]]
    if node.flag(f"trans{side}") and x.rank > 1:
        axes[-2:] = axes[:-3:-1]
    return x if axes == [*range(x.rank)] else op("transpose", axes=tuple(axes))(x)


@reads("FusedGemm")
def fused_gemm(node: OnnxNode, a: Any, b: Any, c: Any = None) -> Any:
    y = gemm(node, a, b, c)
    return activated(node, y, node.get("activation_alpha"), node.get("activation_beta"))


@reads("FusedConv")
def fused_conv(node: OnnxNode, x: Any, weight: Any, bias: Any = None, more: Any = None) -> Any:
    """Convolve, add what comes by another way, and activate."""
    y = conv(node, x, weight, bias)
    y = y if more is None else y + more
    return activated(node, y, *node.get("activation_params", ()))


@reads("NhwcConv", "NhwcFusedConv")
def conv_channels_last(
    node: OnnxNode, x: Any, weight: Any, bias: Any = None, more: Any = None
) -> Any:
    """Convolve images whose channels come last, with weights that are as ever."""
    y = channels_last(conv(node, channels_first(x), weight, bias))
    y = y if more is None else y + more
    return activated(node, y, *node.get("activation_params", ()))


def channels_first(x: Any) -> Any:
    return op("transpose", axes=(0, x.rank - 1, *range(1, x.rank - 1)))(x)


def channels_last(x: Any) -> Any:
    return op("transpose", axes=(0, *range(2, x.rank), 1))(x)


@reads("ConvTransposeWithDynamicPads", values=(2,))
def conv_transpose_dynamic(
    node: OnnxNode, x: Any, weight: Any, pads: Any = None, bias: Any = None
) -> Any:
    """Convolve transposed, with padding that is an input."""
    if pads is not None:
        given = {**node.attributes, "pads": tuple(np.ravel(pads).tolist())}
        node = dataclasses.replace(node, attributes=given)
    return conv_transpose(node, x, weight, bias)


maps("Inverse", "inv", domain=DOMAIN)


@reads("CDist")
def distances(node: OnnxNode, a: Any, b: Any) -> Any:
    """Return the distance of each row of one matrix from each of another, squared or not."""
    apart = op("expand_dims", axis=1)(a) - b
    square = op("sum", axis=2)(apart * apart)
    return square if node.get("metric", "sqeuclidean") == "sqeuclidean" else op("sqrt")(square)

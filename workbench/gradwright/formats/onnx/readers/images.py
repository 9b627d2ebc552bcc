"""Convolutions and poolings: windows that slide over any number of spatial axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....errors import ArchiveError, ShapeError
from ..node import OnnxNode, ints, op, open_dims, reads


def geometry(node: OnnxNode, n: int) -> dict[str, Any]:
    """Return stride, padding and dilation of windows over ``n`` axes, as our ops have them."""
    return {
        "stride": tuple(node.get("strides", (1,) * n)),
        "dilation": tuple(node.get("dilations", (1,) * n)),
        "padding": padding(node, n),
    }


_AUTO = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": "valid"}


def padding(node: OnnxNode, n: int) -> Any:
    """Return the padding per axis; ONNX lists all befores, then all afters."""
    auto = node.get("auto_pad", "NOTSET")
    if auto in _AUTO:
        return _AUTO[auto]
    if auto != "NOTSET":
        raise ArchiveError(f"auto_pad is {auto!r}", need=f"NOTSET, {', '.join(_AUTO)}")
    pads = tuple(node.get("pads", (0,) * 2 * n))
    if len(pads) != 2 * n:
        raise ArchiveError(f"{len(pads)} numbers of padding", need=f"{2 * n}")
    return tuple(zip(pads[:n], pads[n:], strict=True))


def _check_kernel(node: OnnxNode, weight: Any) -> None:
    stated = node.get("kernel_shape")
    if stated is not None and any(
        isinstance(d, int) and d != k for d, k in zip(weight.shape[2:], stated, strict=True)
    ):
        raise ShapeError(f"the kernel is {weight.shape[2:]}", need=f"kernel_shape {stated}")


@reads("Conv", since=1)
def conv(node: OnnxNode, x: Any, weight: Any, bias: Any = None) -> Any:
    _check_kernel(node, weight)
    n = x.rank - 2
    attrs = {**geometry(node, n), "groups": node.get("group", 1)}
    return op(f"conv{n}d", **attrs)(x, weight, *([] if bias is None else [bias]))


@reads("ConvTranspose", since=1)
def conv_transpose(node: OnnxNode, x: Any, weight: Any, bias: Any = None) -> Any:
    _check_kernel(node, weight)
    n = x.rank - 2
    attrs: dict[str, Any] = {**geometry(node, n), "groups": node.get("group", 1)}
    if "output_padding" in node.attributes:
        attrs["output_padding"] = tuple(node["output_padding"])
    if "output_shape" in node.attributes:
        attrs["output_shape"] = tuple(node["output_shape"])[-n:]
        attrs["padding"] = "same" if attrs["padding"] == "same" else "same_lower"
    return op(f"conv_transpose{n}d", **attrs)(x, weight, *([] if bias is None else [bias]))


def _window(node: OnnxNode, n: int) -> dict[str, Any]:
    attrs = {**geometry(node, n), "kernel_size": tuple(node["kernel_shape"])}
    return {**attrs, "ceil_mode": node.flag("ceil_mode")}


@reads("AveragePool", since=1)
def average_pool(node: OnnxNode, x: Any) -> Any:
    n = x.rank - 2
    attrs = {**_window(node, n), "count_include_pad": node.flag("count_include_pad")}
    return op(f"avg_pool{n}d", **attrs)(x)


@reads("MaxPool", since=1)
def max_pool(node: OnnxNode, x: Any) -> Any:
    n = x.rank - 2
    attrs = _window(node, n)
    if not any(node.wanted[1:]):
        return op(f"max_pool{n}d", **attrs)(x)
    attrs["column_major"] = node.flag("storage_order")
    return op("max_pool_with_argmax", **attrs)(x)


@reads("LpPool", since=2)
def lp_pool(node: OnnxNode, x: Any) -> Any:
    n = x.rank - 2
    return op(f"lp_pool{n}d", **_window(node, n), p=int(node.get("p", 2)))(x)


@reads("MaxUnpool", since=9, values=(2,))
def max_unpool(node: OnnxNode, x: Any, places: Any, shape: Any = None) -> Any:
    """Put elements back; places count through the tensor as it is before it gets a shape."""
    n = x.rank - 2
    made = {"kernel_size": tuple(node["kernel_shape"]), "padding": padding(node, n)}
    made["stride"] = tuple(node.get("strides", (1,) * n))
    y = op("max_unpool", **made)(x, places)
    if shape is None:
        return y
    widths = tuple((0, b - a) for a, b in zip(y.shape, ints(shape) or (), strict=True))
    return op("pad", pad_width=widths)(y) if any(map(any, widths)) else y


@reads(
    "Col2Im",
    since=18,
    values=(1, 2),
    outputs=lambda node, x, size, block: [open_dims(2 + size.size, x.dtype)],
)
def col2im(node: OnnxNode, x: Any, size: Any, block: Any) -> Any:
    n = int(np.size(size))
    return op("col2im", image_size=ints(size), kernel_size=ints(block), **geometry(node, n))(x)


@reads("CenterCropPad", since=18, values=(1,))
def center_crop_pad(node: OnnxNode, x: Any, shape: Any) -> Any:
    axes = node.get("axes", tuple(range(x.rank)))
    index: list[Any] = [slice(None)] * x.rank
    widths = [(0, 0)] * x.rank
    for axis, want in zip(axes, ints(shape) or (), strict=True):
        have = x.shape[axis]
        extra = abs(want - have)
        if have > want:
            index[axis] = slice(extra // 2, extra // 2 + want)
        elif have < want:
            widths[axis % x.rank] = (extra // 2, extra - extra // 2)
    if any(i != slice(None) for i in index):
        x = op("strided_slice", index=tuple(index))(x)
    return op("pad", pad_width=tuple(widths))(x) if any(map(any, widths)) else op("identity")(x)


@reads("DeformConv", since=19)
def deform_conv(node: OnnxNode, x: Any, weight: Any, offset: Any, *rest: Any) -> Any:
    _check_kernel(node, weight)
    groups = {"groups": node.get("group", 1), "offset_groups": node.get("offset_group", 1)}
    return op("deform_conv2d", **geometry(node, x.rank - 2), **groups)(x, weight, offset, *rest)

"""Shapes and places: operators that ONNX took over later, and some that it has otherwise."""

from __future__ import annotations

from typing import Any

from .....errors import ArchiveError
from ...node import OnnxNode, ints, one, op, open_dims
from ..indexing import gather_nd
from ..shapes import pad, trilu
from ..shapes import range_ as count
from .contrib import reads

reads("GatherND")(gather_nd)
reads("Trilu", values=(1,))(trilu)
reads("Pad", values=(1, 2))(pad)


@reads("ExpandDims", values=(1,))
def expand_dims(node: OnnxNode, x: Any, axis: Any) -> Any:
    return op("expand_dims", axis=int(one(axis)))(x)


@reads(
    "Range",
    values=(0, 1, 2),
    takes_dims=True,
    outputs=lambda node, x, *rest: [open_dims(1, x.dtype)],
)
def range_(node: OnnxNode, start: Any, limit: Any, delta: Any = None) -> Any:
    return count(node, start, limit, 1 if delta is None else delta)


@reads("CropAndResize", values=(3,))
def crop_and_resize(node: OnnxNode, x: Any, boxes: Any, rows: Any, size: Any) -> Any:
    mode = {"bilinear": "linear", "nearest": "nearest"}.get(node.get("mode", "bilinear"))
    if mode is None:
        raise ArchiveError(f"mode {node['mode']!r} is not known", need="bilinear or nearest")
    fill = node.get("extrapolation_value", 0.0)
    crop = op("crop_and_resize", size=ints(size), mode=mode, extrapolation_value=fill)
    return crop(x, boxes, rows)


@reads("RelativePositionBias", values=(1, 2))
def relative_position_bias(node: OnnxNode, table: Any, n_queries: Any, n_keys: Any) -> Any:
    """Biases of scores by distance, many distances to a bucket."""
    sizes = op("full", shape=(int(one(n_queries)), int(one(n_keys))), dtype="bool")()
    attrs = {"max_distance": node["max_distance"], "bidirectional": node.flag("is_bidirectional")}
    return op("expand_dims", axis=0)(op("relative_position_bias", **attrs)(table, sizes))

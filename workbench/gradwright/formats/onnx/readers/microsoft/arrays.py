"""Shapes and places: operators that ONNX took over later, and some that it has otherwise."""

from __future__ import annotations

import dataclasses
from typing import Any

from .....errors import ArchiveError
from ...node import ONNX, OnnxNode, ints, one, op, open_dims
from .. import indexing, resizing  # noqa: F401 - enter what was taken over
from ..shapes import range_ as count
from .contrib import DOMAIN, reads

TAKEN_OVER = {"GatherND": 11, "GridSample": 16, "Pad": 11, "Trilu": 14}
"""Operator that ONNX has in the same words -> since when."""
for _name, _since in TAKEN_OVER.items():
    _theirs = next(reader for reader in ONNX.readers["", _name] if reader.since == _since)
    ONNX.readers[DOMAIN, _name] = [dataclasses.replace(_theirs, since=1)]


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

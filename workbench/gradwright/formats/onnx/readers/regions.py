"""Regions of images: cut out, or chosen among those that overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...foreign import Chosen, Fixed, Value, attribute
from ..node import OnnxNode, cast, maps, op, open_dims, reads

_ALIGN: dict[str, Any] = {
    "output_height": attribute(int, 1, least=1), "output_width": attribute(int, 1, least=1),
    "spatial_scale": 1.0, "sampling_ratio": attribute(int, 0, least=0), "mode": "avg",
}  # fmt: skip
_SIZE = {"size": ("output_height", "output_width")}
_HALF = {"half_pixel": True, "output_half_pixel": False}

maps(
    "RoiAlign", "roi_align", since=10, attributes=_ALIGN,
    takes={**_SIZE, "half_pixel_centers": Fixed(False)},
)  # fmt: skip
maps(
    "RoiAlign", "roi_align", since=16,
    attributes={**_ALIGN, "coordinate_transformation_mode": "half_pixel"},
    takes={**_SIZE, "half_pixel_centers": Chosen("coordinate_transformation_mode", _HALF)},
)  # fmt: skip
maps(
    "NonMaxSuppression", "non_max_suppression", since=10, attributes={"center_point_box": False},
    takes={
        "max_output_boxes_per_class": Value(2, default=0),
        "iou_threshold": Value(3), "score_threshold": Value(4),
    },
    outputs=lambda node, *xs: [open_dims(2, "int64")],
)  # fmt: skip


@reads("MaxRoiPool", since=1)
def max_roi_pool(node: OnnxNode, x: Any, rois: Any) -> Any:
    """Take the maxima over the cells of regions, along one axis after the other."""
    image = op("gather", axis=0)(x, cast(rois[:, 0], "int64"))
    scale = node.get("spatial_scale", 1.0)
    for axis, n_cells in zip((2, 3), node["pooled_shape"], strict=True):
        column = 4 - axis
        first = op("round")(rois[:, column] * scale)
        size = op("maximum")(op("round")(rois[:, column + 2] * scale) - first + 1.0, 1.0)
        image = _cell_maxima(image, axis, n_cells, first, size)
    return op("where")(op("is_inf")(image), 0.0, image)


def _cell_maxima(x: Any, axis: int, n_cells: int, first: Any, size: Any) -> Any:
    """Return per region the maxima over ``n_cells`` equal parts of an axis; −∞ for empty ones."""
    graph, rank = x.graph, x.rank
    cells = graph.constant(np.arange(n_cells, dtype=np.float32))
    size, first = op("expand_dims", axis=1)(size), op("expand_dims", axis=1)(first)
    starts = op("floor")(cells * size / float(n_cells)) + first
    ends = op("ceil")((cells + 1.0) * size / float(n_cells)) + first
    places = op("cast", dtype="float32")(op("arange", start=x.shape[axis])())
    inside = op("logical_and")(
        places >= op("expand_dims", axis=2)(starts), places < op("expand_dims", axis=2)(ends)
    )
    mask = op("expand_dims", axis=(1, 2) if axis == rank - 1 else (1, 4))(inside)
    wide = op("expand_dims", axis=axis)(x)
    return op("max", axis=axis + 1)(op("where")(mask, wide, -np.inf))

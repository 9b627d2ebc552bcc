"""Regions of images: cut out, or chosen among those that overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..node import OnnxNode, cast, one, op, open_dims, reads


@reads("RoiAlign", since=10)
def roi_align_corners(node: OnnxNode, x: Any, rois: Any, image: Any) -> Any:
    return _roi_align(node, x, rois, image, False)


@reads("RoiAlign", since=16)
def roi_align(node: OnnxNode, x: Any, rois: Any, image: Any) -> Any:
    mode = node.get("coordinate_transformation_mode", "half_pixel")
    return _roi_align(node, x, rois, image, mode == "half_pixel")


def _roi_align(node: OnnxNode, x: Any, rois: Any, image: Any, half_pixel: bool) -> Any:
    return op(
        "roi_align", size=(node.get("output_height", 1), node.get("output_width", 1)),
        spatial_scale=node.get("spatial_scale", 1.0), half_pixel_centers=half_pixel,
        sampling_ratio=node.get("sampling_ratio", 0), mode=node.get("mode", "avg"),
    )(x, rois, image)  # fmt: skip


@reads(
    "NonMaxSuppression", since=10, values=(2, 3, 4),
    outputs=lambda node, *xs: [open_dims(2, "int64")],
)  # fmt: skip
def non_max_suppression(
    node: OnnxNode, boxes: Any, scores: Any, most: Any = None, iou: Any = None, least: Any = None
) -> Any:
    return op(
        "non_max_suppression",
        max_output_boxes_per_class=0 if most is None else int(one(most)),
        iou_threshold=0.0 if iou is None else float(one(iou)),
        score_threshold=None if least is None else float(one(least)),
        center_point_box=node.flag("center_point_box"),
    )(boxes, scores)


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

"""Regions of images: cut out, or chosen among those that overlap."""

from __future__ import annotations

from typing import Any

from ..node import OnnxNode, one, op, open_dims, reads


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
        spatial_scale=node.get("spatial_scale", 1.0), half_pixel=half_pixel,
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

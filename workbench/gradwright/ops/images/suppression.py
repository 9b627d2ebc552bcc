"""Choosing boxes that do not overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import Dim, TensorSpec, differ, kind

Array = np.ndarray[Any, Any]


class NonMaxSuppression(Op):
    """Boxes by falling score, without those that overlap one of a higher score.

    y = rows (image, class, box): taken if score > score_threshold and the overlap with every box
    taken before, intersection/union, is at most iou_threshold

    boxes: f32[N, B, 4] of two opposite corners (y₁, x₁, y₂, x₂), or of (x, y, width, height) around
    centres; scores: f32[N, C, B]; y: i64[K, 3]. Of equal scores the first box is taken.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> boxes = g.constant([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.0], [0.0, 2.0, 1.0, 3.0]]])
    >>> y = gw.image.non_max_suppression(boxes, g.constant([[[0.9, 0.8, 0.7]]]), iou_threshold=0.5)
    >>> g.output({}, y)["non_max_suppression"].tolist()
    [[0, 0, 0], [0, 0, 2]]
    """

    namespace = "image"
    max_output_boxes_per_class: int | None = attr(None, doc="How many boxes at most; None: all.")
    iou_threshold: float = attr(0.0, doc="Largest overlap of two boxes that are taken.")
    score_threshold: float | None = attr(None, doc="Scores that are not higher are left out.")
    center_point_box: bool = attr(False, doc="Whether boxes are (x, y, width, height).")
    onnx = OnnxRule(
        "NonMaxSuppression",
        since=10,
        inputs=("max_output_boxes_per_class", "iou_threshold", "score_threshold"),
        defaults={"max_output_boxes_per_class": 0},
    )

    def infer(self, boxes: TensorSpec, scores: TensorSpec) -> TensorSpec:
        for name, spec in (("boxes", boxes), ("scores", scores)):
            if kind(spec.dtype) != "f":
                raise DTypeError(f"{name} are floats, not {spec.dtype}", need="f32")
        if boxes.rank != 3 or differ(boxes.shape[2], 4):
            raise ShapeError("boxes have four numbers", need=f"f32[N, B, 4], got {boxes}")
        fits = scores.rank == 3 and not differ(scores.shape[0], boxes.shape[0])
        if not fits or differ(scores.shape[2], boxes.shape[1]):
            wanted = f"f32[{boxes.shape[0]}, C, {boxes.shape[1]}]"
            raise ShapeError("scores do not fit the boxes", need=f"{wanted}, got {scores}")
        return TensorSpec((Dim.fresh("kept"), 3), "int64")

    def forward(self, boxes: Any, scores: Any) -> Any:
        n, c, b = scores.shape
        most = b if self.max_output_boxes_per_class is None else self.max_output_boxes_per_class
        low, high = self._corners(boxes.astype(np.float64))
        area = (high - low).prod(-1)
        low_score = -np.inf if self.score_threshold is None else self.score_threshold
        left: Array = scores.astype(np.float64)
        left = np.where(left > low_score, left, -np.inf)  # a score that is NaN is not higher
        taken: list[Array] = []
        row = np.arange(n)[:, None]
        for _ in range(min(most, b) if n * c else 0):
            best = left.argmax(-1)
            live = np.take_along_axis(left, best[..., None], -1)[..., 0] > -np.inf
            if not live.any():
                break
            taken.append(np.where(live, best, -1))
            sides = np.minimum(high[row, best][:, :, None], high[:, None]) - np.maximum(
                low[row, best][:, :, None], low[:, None]
            )
            shared = np.maximum(sides, 0).prod(-1)
            union = area[row, best][:, :, None] + area[:, None] - shared
            overlaps = shared > self.iou_threshold * union
            np.put_along_axis(overlaps, best[..., None], True, -1)
            left[overlaps] = -np.inf
        if not taken:
            return np.zeros((0, 3), np.int64)
        found = np.stack(taken, -1)
        image, label, step = np.nonzero(found >= 0)
        return np.stack([image, label, found[image, label, step]], -1)

    def _corners(self, boxes: Array) -> tuple[Array, Array]:
        a, b = boxes[..., :2], boxes[..., 2:]
        if self.center_point_box:
            return a - b / 2, a + b / 2
        return np.minimum(a, b), np.maximum(a, b)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        boxes, scores = rng.uniform(0, 2, (2, 5, 4)), rng.uniform(0, 1, (2, 2, 5))
        yield Sample((boxes, scores), {"iou_threshold": 0.3, "score_threshold": 0.2})
        centred = {"center_point_box": True, "max_output_boxes_per_class": 1}
        yield Sample((boxes, scores), centred)
        yield Sample((boxes[:, :0], scores[:, :, :0]))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        boxes, scores = TensorSpec((1, 5, 4)), TensorSpec((1, 2, 5))
        yield ErrorSample((TensorSpec((5, 4)), scores), {}, "boxes have four numbers")
        yield ErrorSample((boxes, TensorSpec((1, 2, 4))), {}, "scores do not fit")
        yield ErrorSample((boxes.with_dtype("int64"), scores), {}, "boxes are floats")

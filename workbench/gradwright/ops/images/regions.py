"""Regions of images, read at a size of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import (
    ZERO,
    Cotangent,
    ErrorSample,
    OnnxRule,
    Op,
    Sample,
    attr,
)
from ...spec import Dim, TensorSpec, differ, kind
from ..convolutions.sampling import (
    WeightedRows,
    length,
    pixel_rows,
    positions,
    product,
    sampled,
    taps,
)
from ..convolutions.windows import check_images
from ..core.choice import Where
from ..core.index import Gather, places
from ..core.movement import Cast
from ..core.reduce import Max

Array = np.ndarray[Any, Any]


def _check_boxes(boxes: TensorSpec, numbers: TensorSpec) -> None:
    if kind(boxes.dtype) != "f":
        raise DTypeError(f"corners are floats, not {boxes.dtype}", need="f32[R, 4]")
    if boxes.rank != 2 or differ(boxes.shape[1], 4):
        raise ShapeError("boxes have four corners", need=f"f32[R, 4], got {boxes}")
    if kind(numbers.dtype) not in "iu":
        raise DTypeError(f"images are numbered by integers, not {numbers.dtype}", need="i64[R]")
    if numbers.rank != 1 or differ(numbers.shape[0], boxes.shape[0]):
        raise ShapeError("each box needs the number of its image", need=f"i64[{boxes.shape[0]}]")


class CropAndResize(Op):
    """Boxes of images, each resized to one size (He et al. 2017 use it for regions).

    y[r, :, p, q] = x[n(r), :] at row y₁(H − 1) + p·(y₂ − y₁)(H − 1)/(crop − 1), columns alike

    x: f32[N, C, H, W], boxes: f32[R, 4] of (y₁, x₁, y₂, x₂) in fractions of the image,
    batch_indices: i64[R] of n(r), y: f32[R, C, *size]. Points outside get
    ``extrapolation_value``; boxes have gradients.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, box = g.constant([[[[1.0, 3.0]]]]), g.constant([[0.0, 0.0, 0.0, 1.0]])
    >>> y = gw.image.crop_and_resize(x, box, g.constant([0]), (1, 3))
    >>> g.output({}, y)["crop_and_resize"].tolist()
    [[[[1.0, 2.0, 3.0]]]]
    """

    namespace = "image"
    size: tuple[int, int] = attr(doc="Height and width of the result.")
    mode: str = attr("linear", doc="How to interpolate.", choices=("linear", "nearest"))
    extrapolation_value: float = attr(0.0, doc="What lies outside the image.")

    def infer(self, x: TensorSpec, boxes: TensorSpec, batch_indices: TensorSpec) -> TensorSpec:
        check_images(self, x, 2)
        _check_boxes(boxes, batch_indices)
        if len(self.size) != 2 or min(self.size) < 1:
            raise ShapeError(f"size={self.size} is no size", need="(height, width)")
        return x.with_shape((boxes.shape[0], x.shape[1], *self.size))

    def expand(self, x: Any, boxes: Any, batch_indices: Any) -> Any:
        if boxes.dtype.itemsize < 4:
            boxes = Cast(dtype="float32")(boxes)
        count, (h, w) = boxes.shape[0], self.size
        along, inside = [], []
        for axis, m in enumerate(self.size):
            n = length(x, axis + 2, boxes.dtype)
            start, end = boxes[:, axis, None] * (n - 1), boxes[:, axis + 2, None] * (n - 1)
            if m > 1:
                share = np.arange(m, dtype=boxes.dtype) / np.asarray(m - 1, boxes.dtype)
                u = start + (end - start) * share
            else:
                u = (start + end) / 2
            along.append(taps(u, n, self.mode, "border"))
            inside.append((u >= 0) & (u <= n - 1))
        (rows, down), (columns, right) = along
        rows, down = (t.expand_dims(2) for t in (rows, down))
        columns, right = (t.expand_dims(1) for t in (columns, right))
        index, weight = product([(rows, down), (columns, right)], [None, length(x, 3)])
        starts = positions(x.shape[0]) * (length(x, 2) * length(x, 3))
        first = Gather()(starts, batch_indices)
        seen = inside[0].expand_dims(2) & inside[1].expand_dims(1)
        weight = Where()(seen.expand_dims(3), weight, 0)
        y = sampled(pixel_rows(x), index + first.reshape(count, 1, 1, 1), weight)
        y = y.reshape(count, h, w, x.shape[1]).transpose(0, 3, 1, 2)
        if not self.extrapolation_value:
            return y
        return Where()(seen.expand_dims(1), y, self.extrapolation_value)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, boxes = rng.standard_normal((2, 1, 3, 2)), rng.uniform(-0.1, 1.1, (2, 4))
        numbers = np.array([1, 0])
        yield Sample((x, boxes, numbers), {"size": (1, 2), "extrapolation_value": 5.0})
        yield Sample((x, boxes[:0], numbers[:0]), {"size": (2, 1), "mode": "nearest"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, boxes, numbers = TensorSpec((1, 1, 4, 4)), TensorSpec((2, 4)), TensorSpec((2,), "int64")
        yield ErrorSample((boxes, boxes, numbers), {"size": (2, 2)}, "takes images")
        yield ErrorSample((x, x, numbers), {"size": (2, 2)}, "have four corners")
        yield ErrorSample((x, boxes, TensorSpec((2,))), {"size": (2, 2)}, "numbered by integers")
        yield ErrorSample((x, boxes, TensorSpec((3,), "int64")), {"size": (2, 2)}, "each box needs")
        yield ErrorSample((x, boxes, numbers), {"size": (2, 0)}, "is no size")


class RoiTaps(Op):
    """Numbers and weights of the elements that regions are made of; regions have no gradient.

    index[r·P + p, k], weight[r·P + p, k] of the k-th element that result p of region r takes

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> rois, x = g.constant([[0.0, 0.0, 2.0, 2.0]]), g.constant([[[[0.0] * 2] * 2]])
    >>> _, weight = RoiTaps(size=(1, 1), sampling_ratio=1)(rois, g.constant([0]), x)
    >>> g.output({}, weight)[weight.name].tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """

    namespace = "inner"
    returns = "index", "weight"
    shape_only = (2,)
    size: tuple[int, int] = attr(doc="Height and width of the result.")
    spatial_scale: float = attr(1.0, doc="Size of the image per unit of the regions.")
    sampling_ratio: int = attr(0, doc="Points per element and axis; 0 takes one per pixel.")
    half_pixel_centers: bool = attr(True, doc="Whether elements lie at the middle of their cell.")
    mean: bool = attr(True, doc="Whether weights are divided by the number of points.")

    def infer(
        self, rois: TensorSpec, batch_indices: TensorSpec, x: TensorSpec
    ) -> tuple[TensorSpec, TensorSpec]:
        _check_boxes(rois, batch_indices)
        k = 4 * self.sampling_ratio**2 if self.sampling_ratio else Dim.fresh("points")
        shape = (rois.shape[0] * math.prod(self.size), k)
        return TensorSpec(shape, "int64"), TensorSpec(shape, rois.dtype)

    def forward(self, rois: Any, batch_indices: Any, x: Any) -> Any:
        wide = rois.astype(np.float64) * self.spatial_scale - 0.5 * self.half_pixel_centers
        count: list[Array] = []
        along = []
        for axis, m, n in zip((1, 0), self.size, x.shape[2:], strict=True):
            start = wide[:, axis]
            extent = wide[:, axis + 2] - start
            if not self.half_pixel_centers:
                extent = np.maximum(extent, 1.0)  # a region covers one element at least
            cell = np.where(np.isfinite(extent), extent, 0) / m
            ratio = self.sampling_ratio
            points = np.full(len(rois), ratio) if ratio else np.ceil(cell).astype(np.int64)
            count.append(points)
            number = np.arange(points.max(initial=ratio or 1))
            real = number < points[:, None]
            shift = (np.where(real, number, 0) + 0.5) / np.maximum(points, 1)[:, None]
            u = (
                start[:, None, None]
                + (np.arange(m)[:, None] + shift[:, None]) * cell[:, None, None]
            )
            inside = (u >= -1) & (u <= n) & real[:, None]
            u = np.clip(np.where(inside, u, 0), 0, n - 1)
            low = np.minimum(np.floor(u), max(n - 2, 0)).astype(np.int64)
            high = np.minimum(low + 1, n - 1)
            part = u - low
            index = np.stack([low, high], -1)
            weight = np.stack([1 - part, part], -1) * inside[..., None]
            along.append((index, weight))
        (rows, down), (columns, right) = along  # [R, m, points, 2]
        index = rows[:, :, None, :, None, :, None] * x.shape[3] + columns[:, None, :, None, :, None]
        weight = down[:, :, None, :, None, :, None] * right[:, None, :, None, :, None]
        if self.mean:
            total = np.maximum(count[0] * count[1], 1)
            weight = weight / total.reshape(-1, *(1,) * 6)
        first = places(x.shape[:1], (batch_indices,)) * (x.shape[2] * x.shape[3])
        shape = (len(rois) * math.prod(self.size), math.prod(index.shape[3:]))
        index = (index + first.reshape(-1, *(1,) * 6)).reshape(shape)
        return index, weight.reshape(shape).astype(rois.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, ZERO, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, rois = np.zeros((2, 1, 5, 6)), np.array([[0.0, 0.5, 3.0, 4.0], [-2.0, 1.0, 9.0, 2.0]])
        yield Sample(
            (rois, np.array([1, 0]), x), {"size": (2, 1), "sampling_ratio": 2}, smooth=False
        )
        yield Sample(
            (rois, np.array([1, 0]), x), {"size": (1, 2), "half_pixel_centers": False}, smooth=False
        )
        yield Sample((rois[:0], np.zeros(0, np.int64), x), {"size": (1, 2)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, numbers = TensorSpec((1, 1, 4, 4)), TensorSpec((2,), "int64")
        yield ErrorSample((TensorSpec((2, 5)), numbers, x), {"size": (1, 1)}, "four corners")


class RoiAlign(Op):
    """Regions of images, each brought to one size by means of interpolated points (He et al. 2017).

    y[r, :, p, q] = mean of x[n(r), :] at points spread evenly over cell (p, q) of region r

    x: f32[N, C, H, W], rois: f32[R, 4] of (x₁, y₁, x₂, y₂) in units of 1/spatial_scale,
    batch_indices: i64[R] of n(r), y: f32[R, C, *size]. Mode "max" takes the largest weighted
    element, as in ONNX. Only the images have a gradient.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, roi = g.constant([[[[1.0, 3.0]]]]), g.constant([[0.0, 0.0, 2.0, 1.0]])
    >>> y = gw.image.roi_align(x, roi, g.constant([0]), (1, 1))
    >>> g.output({}, y)["roi_align"].tolist()
    [[[[2.0]]]]
    """

    namespace = "image"
    size: tuple[int, int] = attr(doc="Height and width of the result.")
    spatial_scale: float = attr(1.0, doc="Size of the image per unit of the regions.")
    sampling_ratio: int = attr(0, doc="Points per element and axis; 0 takes one per pixel.")
    half_pixel_centers: bool = attr(True, doc="Whether elements lie at the middle of their cell.")
    mode: str = attr("avg", doc="What becomes of the points.", choices=("avg", "max"))
    onnx = OnnxRule("RoiAlign", since=16)

    def infer(self, x: TensorSpec, rois: TensorSpec, batch_indices: TensorSpec) -> TensorSpec:
        check_images(self, x, 2)
        _check_boxes(rois, batch_indices)
        if len(self.size) != 2 or min(self.size) < 1 or self.sampling_ratio < 0:
            raise ShapeError(
                f"size={self.size}, sampling_ratio={self.sampling_ratio} is no size",
                need="(height, width), and 0 or more points",
            )
        return x.with_shape((rois.shape[0], x.shape[1], *self.size))

    def expand(self, x: Any, rois: Any, batch_indices: Any) -> Any:
        settings = self.attributes()
        mean = settings.pop("mode") == "avg"
        if rois.dtype.itemsize < 4:
            rois = Cast(dtype="float32")(rois)
        index, weight = RoiTaps(**settings, mean=mean)(rois, batch_indices, x)
        rows = pixel_rows(x)
        if mean:
            y = WeightedRows()(rows, index, Cast(dtype=x.dtype)(weight))
        else:
            parts = Gather()(rows, index) * Cast(dtype=x.dtype)(weight).expand_dims(2)
            y = Max(axis=1)(parts)
        return y.reshape(rois.shape[0], *self.size, x.shape[1]).transpose(0, 3, 1, 2)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        rois = np.array([[0.0, 0.5, 3.0, 4.0], [-2.0, 1.0, 9.0, 2.0]])
        x, numbers = rng.standard_normal((2, 2, 4, 5)), np.array([1, 0])
        for attrs in (
            {"size": (2, 1), "sampling_ratio": 1},
            {"size": (1, 2), "mode": "max", "spatial_scale": 0.5, "half_pixel_centers": False},
        ):
            yield Sample((x, rois, numbers), attrs, differentiate=(0,))
        yield Sample((x, rois[:0], numbers[:0]), {"size": (1, 2)}, differentiate=(0,))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, rois, numbers = TensorSpec((1, 1, 4, 4)), TensorSpec((2, 4)), TensorSpec((2,), "int64")
        yield ErrorSample((rois, rois, numbers), {"size": (2, 2)}, "takes images")
        yield ErrorSample((x, rois, TensorSpec((3,), "int64")), {"size": (2, 2)}, "each box needs")
        yield ErrorSample((x, rois, numbers), {"size": (2, 0)}, "is no size")

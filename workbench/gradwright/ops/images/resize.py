"""Resizing: each axis is multiplied by a banded matrix of weights (``filters.py``)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import LINEAR, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import AnyDim, Dim, TensorSpec, kind, normalize_axis
from ..convolutions.bands import AlongAxes, Bands, cached
from .filters import MODES, ROUNDINGS, TRANSFORMS, Axis

POLICIES = ("stretch", "not_larger", "not_smaller")


class Resize(AlongAxes):
    """Images of another size, interpolated along each axis (ONNX Resize-19).

    torch's default is ``mode="nearest", coordinate_transformation_mode="asymmetric",
    nearest_mode="floor"``; its bilinear is linear here, without ``align_corners``.

    y[…, i, …] = Σⱼ w(xᵢ − j)·x[…, j, …] along each axis, xᵢ the coordinate in x of element i

    x: f32[N, C, *size]. ``sizes`` or ``scales`` are one per spatial axis, or per axis of ``axes``,
    or per axis of x. The modes are nearest, linear, cubic (Keys 1981), mitchell (1988), gaussian
    (deviation 1/2), lanczos3 and lanczos5 (Duchon 1979) and area, the mean of what an element
    covers; ``antialias`` stretches filters where the image shrinks.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[1.0, 3.0]]])
    >>> g.output({}, gw.image.resize(x, sizes=(4,)))["resize"].tolist()
    [[[1.0, 1.5, 2.5, 3.0]]]
    """

    namespace = "image"
    dependence = LINEAR
    sizes: tuple[AnyDim, ...] | None = attr(None, doc="Size of the result along the axes.")
    scales: tuple[float, ...] | None = attr(None, doc="How much larger it is, if not by sizes.")
    mode: str = attr("linear", doc="How to interpolate.", choices=MODES)
    antialias: bool = attr(False, doc="Whether filters stretch where the image shrinks.")
    coordinate_transformation_mode: str = attr(
        "half_pixel", doc="How coordinates of the result map to the image.", choices=TRANSFORMS
    )
    nearest_mode: str = attr(
        "round_prefer_floor", doc="How nearest rounds.", choices=tuple(ROUNDINGS)
    )
    cubic_coeff_a: float = attr(-0.75, doc="Parameter of cubic.")
    exclude_outside: bool = attr(False, doc="Whether nothing counts beyond the edge.")
    extrapolation_value: float = attr(0.0, doc="What tf_crop_and_resize takes beyond the edge.")
    roi: tuple[float, ...] | None = attr(None, doc="Starts and ends that tf_crop_and_resize takes.")
    axes: tuple[int, ...] | None = attr(None, doc="Axes that sizes, scales and roi are about.")
    keep_aspect_ratio_policy: str = attr(
        "stretch", doc="Whether sizes are bounds of one common scale.", choices=POLICIES
    )
    onnx = OnnxRule(
        "Resize", since=19, inputs=("roi", "scales", "sizes"), defaults={"mode": "nearest"}
    )

    def resized_axes(self, shape: Sequence[AnyDim]) -> tuple[int, ...]:
        """Return the axes that sizes or scales are about; only an empty one may stay empty."""
        rank = len(shape)
        if (self.sizes is None) == (self.scales is None):
            raise ShapeError("resize needs sizes or scales, and not both", hint="sizes=(32, 32)")
        given = self.sizes if self.sizes is not None else self.scales
        n = len(given or ())
        if self.axes is not None:
            axes = tuple(normalize_axis(a, rank, "axes") for a in self.axes)
        else:
            axes = tuple(range(rank - n, rank)) if n in (rank, rank - 2) else ()
        if len(axes) != n or len(set(axes)) != n:
            raise ShapeError(
                f"{given} does not fit the axes",
                need=f"one for each of {axes or 'the spatial axes'}",
            )
        if self.roi is not None and len(self.roi) != 2 * n:
            raise ShapeError(f"roi={self.roi} does not fit", need=f"{n} starts and {n} ends")
        for axis, v in zip(axes, given or (), strict=True):
            empty = self.sizes is not None and v == shape[axis] == 0
            if isinstance(v, (int, float)) and not 0 < v < math.inf and not empty:
                raise ShapeError(f"{given} leaves nothing", need="finite numbers above 0")
        return axes

    def targets(self, shape: Sequence[AnyDim]) -> dict[int, tuple[AnyDim, float | None]]:
        """Return per axis the size of the result and the scale; None where a size is not known."""
        axes = self.resized_axes(shape)
        found: dict[int, tuple[AnyDim, float | None]] = {}
        if self.scales is not None:
            for i, (axis, scale) in enumerate(zip(axes, self.scales, strict=True)):
                n = shape[axis]
                start, end = self.part(i)
                if isinstance(n, Dim):
                    whole = (start, end) == (0.0, 1.0) and float(scale).is_integer()
                    found[axis] = (n * int(scale) if whole else Dim.fresh("resize"), None)
                else:
                    found[axis] = (math.floor(n * (end - start) * scale), scale)
            return found
        sizes: Any = self.sizes
        known = all(isinstance(v, int) for axis in axes for v in (shape[axis], *sizes))
        if self.keep_aspect_ratio_policy == "stretch":
            for axis, m in zip(axes, sizes, strict=True):
                n = shape[axis]
                exact = isinstance(n, int) and isinstance(m, int)
                found[axis] = m, m / n if exact and n else None
        elif not known:
            found = {axis: (Dim.fresh("resize"), None) for axis in axes}
        else:
            ratios = [m / int(shape[axis]) for axis, m in zip(axes, sizes, strict=True)]
            scale = (min if self.keep_aspect_ratio_policy == "not_larger" else max)(ratios)
            found = {a: (math.floor(scale * int(shape[a]) + 0.5), scale) for a in axes}
        return found

    def part(self, i: int) -> tuple[float, float]:
        """Return the part of the i-th axis, of 0 to 1, that is taken."""
        if self.roi is None or self.coordinate_transformation_mode != "tf_crop_and_resize":
            return 0.0, 1.0
        return self.roi[i], self.roi[i + len(self.roi) // 2]

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) != "f":
            raise DTypeError(f"resize does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        shape = list(x.shape)
        for axis, (m, _) in self.targets(x.shape).items():
            if (m == 0 or x.shape[axis] == 0) and m != x.shape[axis]:
                raise ShapeError(f"axis {axis} would be empty", need=f"a larger one than {x}")
            shape[axis] = m
        return x.with_shape(shape)

    def each_axis(self, shape: Sequence[int]) -> Mapping[int, Axis]:
        """Return how each axis that changes is resized."""
        found = {}
        for i, (axis, (m, scale)) in enumerate(self.targets(shape).items()):
            same = m == shape[axis] and scale == 1 and self.part(i) == (0.0, 1.0)
            if shape[axis] and (not same or self.mode in ("mitchell", "gaussian")):
                found[axis] = Axis(
                    shape[axis],
                    int(m),
                    float(scale or 1.0),
                    self.mode,
                    self.coordinate_transformation_mode,
                    self.nearest_mode,
                    self.cubic_coeff_a,
                    self.exclude_outside or self.mode.startswith(("lanczos", "gauss", "mitch")),
                    self.antialias,
                    self.part(i),
                )
        return found

    def bands(self, shape: Sequence[int]) -> Mapping[int, Bands]:
        return {i: cached(Axis.bands, axis) for i, axis in self.each_axis(shape).items()}

    def linear(self) -> Op:
        return self.replace(extrapolation_value=0.0)

    def forward(self, x: Any) -> Any:
        y = super().forward(x)
        if self.extrapolation_value:
            for i, axis in self.each_axis(x.shape).items():
                outside = (slice(None),) * i + (axis.outside(),)
                y[outside] = self.extrapolation_value
        return y

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((1, 2, 3, 2))
        yield Sample((x,), {"sizes": (5, 4), "mode": "cubic"})
        yield Sample((x,), {"scales": (0.7, 2.5), "antialias": True})
        yield Sample((x,), {"sizes": (2, 5), "mode": "nearest", "axes": (-1, 2)})
        crop = {
            "coordinate_transformation_mode": "tf_crop_and_resize",
            "roi": (0.2, -0.1, 1.3, 0.9),
            "extrapolation_value": 7.0,
        }
        yield Sample((x,), {"sizes": (3, 3), **crop})
        yield Sample((x[:0],), {"sizes": (3, 3), "mode": "area"})
        yield Sample((x[:0],), {"sizes": (0, 1, 3, 3), "mode": "linear"})
        yield Sample((x[:0],), {"scales": (1.0, 1.0, 2.0, 0.5), "mode": "gaussian"})
        ratio = {"sizes": (6, 3), "keep_aspect_ratio_policy": "not_larger", "mode": "lanczos3"}
        yield Sample((x,), ratio)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((1, 1, 4, 4))
        yield ErrorSample((x,), {}, "needs sizes or scales")
        yield ErrorSample((x,), {"sizes": (3,)}, "does not fit the axes")
        yield ErrorSample((x,), {"sizes": (3, 0)}, "leaves nothing")
        yield ErrorSample((x,), {"scales": (0.1, 1.0)}, "would be empty")
        yield ErrorSample((x,), {"scales": (math.nan, 1.0)}, "leaves nothing")
        yield ErrorSample((x,), {"sizes": (3, 3), "roi": (0.0, 1.0)}, "2 starts and 2 ends")
        yield ErrorSample((x.with_dtype("int64"),), {"sizes": (3, 3)}, "does not take int64")


class _ResizeTo(Op):
    """Resizing of images by one method."""

    namespace = "image"
    size: tuple[AnyDim, AnyDim] = attr(doc="Height and width of the result.")
    align_corners: bool = attr(False, doc="Whether corners keep their places.")
    half_pixel_centers: bool = attr(True, doc="Whether elements lie at the middle of their cell.")
    antialias: bool = attr(False, doc="Whether filters stretch where the image shrinks.")

    def resize(self, **settings: Any) -> Resize:
        """Return the resizing that this stands for."""
        return Resize(
            sizes=self.size,
            axes=(2, 3),
            antialias=self.antialias,
            exclude_outside=self.antialias,
            coordinate_transformation_mode="align_corners"
            if self.align_corners
            else "half_pixel"
            if self.half_pixel_centers
            else "asymmetric",
            **settings,
        )

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 1, 3, 4))
        yield Sample((x,), {"size": (5, 2)})
        yield Sample((x,), {"size": (2, 2), "antialias": True})
        yield Sample((x[:0],), {"size": (1, 3), "align_corners": True})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3, 4)),), {"size": (5, 2)}, "out of range")
        yield ErrorSample((TensorSpec((1, 1, 3, 4)),), {"size": (5, 0)}, "leaves nothing")


class ResizeBilinear(_ResizeTo):
    """Images of another size, linear between elements.

    y[n, c, p, q] = Σᵢⱼ max(0, 1 − |u − i|)·max(0, 1 − |v − j|)·x[n, c, i, j], at u(p), v(q)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.resize_bilinear(g.constant([[[[1.0, 3.0]]]]), (1, 3))
    >>> g.output({}, y)["resize_bilinear"].tolist()
    [[[[1.0, 2.0, 3.0]]]]
    """

    def expand(self, x: Any) -> Any:
        return self.resize(mode="linear")(x)


class ResizeBicubic(_ResizeTo):
    """Images of another size, by cubic convolution (Keys 1981).

    y[n, c, p, q] = Σᵢⱼ k(u − i)·k(v − j)·x[n, c, i, j], at u(p), v(q), k(2 > |t| > 1) negative

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.resize_bicubic(g.constant([[[[1.0, 1.0]]]]), (1, 3))
    >>> g.output({}, y)["resize_bicubic"].tolist()
    [[[[1.0, 1.0, 1.0]]]]
    """

    cubic_coeff_a: float = attr(-0.75, doc="Slope of the filter at 1; Keys has -0.5.")

    def expand(self, x: Any) -> Any:
        return self.resize(mode="cubic", cubic_coeff_a=self.cubic_coeff_a)(x)

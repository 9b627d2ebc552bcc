"""Pooling of images ``f32[N, C, H, W]``; how windows slide is in ``windows.py``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ..errors import DTypeError, ShapeError
from ..op import ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ..spec import TensorSpec, differ, kind
from .special import widened
from .windows import Windows, check_cotangent, check_images, pair

Array = np.ndarray[Any, Any]


class _Pool(Op):
    """Windows of each channel become one number."""

    namespace = "cnn"
    kernel_size: int | tuple[int, int] = attr(doc="Size of the windows.")
    stride: int | tuple[int, int] | None = attr(None, doc="Step; None is the kernel size.")
    padding: str | int | tuple[Any, ...] = attr(0, doc="Padding around the image.")

    def windows(self, dilation: Any = 1) -> Windows:
        """Return how windows slide."""
        kernel = pair(self.kernel_size, "kernel_size", 1)
        stride = kernel if self.stride is None else self.stride
        return Windows.of(kernel, stride, self.padding, dilation)

    def pooled(self, x: TensorSpec, dilation: Any = 1) -> TensorSpec:
        """Return the spec of the result; every window must see something of the image."""
        check_images(self, x)
        windows = self.windows(dilation)
        for i, (n, r, d) in enumerate(
            zip(x.shape[2:], windows.reach, windows.dilation, strict=True)
        ):
            most = max(windows.padding[i]) if windows.padding is not None else 0
            if 2 * most > int(r) or (most and isinstance(n, int) and d > n):
                raise ShapeError(
                    "a window may see padding only",
                    need=f"padding <= {int(r) // 2}, half of what the kernel reaches over",
                )
        return x.with_shape((*x.shape[:2], *windows.n_out(x.shape[2:])))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((1, 1, 4, 4))
        yield ErrorSample((TensorSpec((4, 4)),), {"kernel_size": 2}, "takes images")
        yield ErrorSample((x,), {"kernel_size": 5}, "beyond the padded image")
        yield ErrorSample((x,), {"kernel_size": 2, "padding": 2}, "see padding only")
        yield ErrorSample((x,), {"kernel_size": (2, 2, 2)}, "is not understood")


class MaxPool2d(_Pool):
    """Largest element of each window; of equal ones the first gets the gradient.

    y[n, c] = max x[n, c] over the window, padding counts as −∞. The residual is the winner's place
    in its channel, ``row·W + column``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.max_pool2d(x, 2))["max_pool2d"].tolist()
    [[[[4.0]]]]
    """

    n_public = 1
    dilation: int | tuple[int, int] = attr(1, doc="Distance of a window's elements.")
    onnx = OnnxRule(
        "MaxPool",
        since=12,
        rename={
            "kernel_size": "kernel_shape",
            "stride": "strides",
            "padding": "pads",
            "dilation": "dilations",
        },
    )

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        y = self.pooled(x, self.dilation)
        return y, y.with_dtype("int64")

    def forward(self, x: Any) -> Any:
        windows = self.windows(self.dilation)
        h, w = x.shape[2:]
        n_out = windows.n_out((h, w))
        slices = windows.slices(windows.padded(widened(x), -np.inf), n_out)
        best = next(slices).copy()
        winner = np.zeros(best.shape, np.int64)
        for number, seen in enumerate(slices, 1):
            np.copyto(winner, number, where=(seen > best) | np.isnan(seen))
            np.maximum(best, seen, out=best)
        (top, _), (left, _) = windows.pads((h, w))
        (s, t), (d, e) = windows.stride, windows.dilation
        row, column = np.divmod(winner, int(windows.kernel[1]))
        row = row * d + (np.arange(best.shape[2]) * s - top)[:, None]
        column = column * e + np.arange(best.shape[3]) * t - left
        if top or left:  # padding wins where all is −∞; the first element within stands for it
            row, column = np.where(row < 0, row % d, row), np.where(column < 0, column % e, column)
        return best.astype(x.dtype, copy=False), row * w + column

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO if gs[0] is ZERO else PlaceAdd()(gs[0], ys[1], xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.permutation(np.arange(120.0)).reshape(2, 2, 6, 5)
        yield Sample((x,), {"kernel_size": 2})
        yield Sample((x,), {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1})
        yield Sample((x[:1],), {"kernel_size": 2, "stride": 1, "dilation": (2, 3)})
        yield Sample((x[:1],), {"kernel_size": 3, "stride": 2, "padding": "same"})
        yield Sample((x[:0],), {"kernel_size": 2})
        yield Sample((np.zeros((1, 1, 4, 4)),), {"kernel_size": 2, "stride": 1}, smooth=False)


def _check_places(x: TensorSpec, place: TensorSpec) -> None:
    if kind(place.dtype) not in "iu":
        raise DTypeError(f"places are row·W + column, not {place.dtype}", need="integers")
    if x.rank != 4 or place.rank != 4 or any(map(differ, x.shape[:2], place.shape[:2])):
        raise ShapeError("places do not fit the images", need="equal N and C")


class Place(Op):
    """Elements at given places of each channel.

    y[n, c, …] = x[n, c] at place[n, c, …] = row·W + column

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, at = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]]), g.constant([[[[2]]]])
    >>> g.output({}, Place()(x, at))["place"].tolist()
    [[[[3.0]]]]
    """

    namespace = "gradient"

    def infer(self, x: TensorSpec, place: TensorSpec) -> TensorSpec:
        _check_places(x, place)
        return x.with_shape(place.shape)

    def forward(self, x: Any, place: Any) -> Any:
        n, c, h, w = x.shape
        found = (
            np.take_along_axis(x.reshape(n, c, h * w), place.reshape(n, c, -1), 2) if x.size else x
        )
        return found.reshape(place.shape)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return PlaceAdd()(gs[0], xs[1], xs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 2, 3, 2)), rng.integers(0, 6, (2, 2, 2, 2))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 3, 4, 4))
        yield ErrorSample((x, x), {}, "places are row·W + column")
        yield ErrorSample((x, TensorSpec((2, 4, 2, 2), "int64")), {}, "places do not fit")


class PlaceAdd(Op):
    """Add up elements at given places of each channel.

    y[n, c, p] = Σ g[n, c, …] over the elements whose place is p = row·W + column; x gives the shape

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> dy, at, x = g.constant([[[[5.0]]]]), g.constant([[[[2]]]]), g.constant([[[[0.0] * 2] * 2]])
    >>> g.output({}, PlaceAdd()(dy, at, x, name="y"))["y"].tolist()
    [[[[0.0, 0.0], [5.0, 0.0]]]]
    """

    namespace = "gradient"
    shape_only = (2,)

    def infer(self, g: TensorSpec, place: TensorSpec, x: TensorSpec) -> TensorSpec:
        _check_places(x, place)
        check_cotangent(g, place)
        return g.with_shape(x.shape)

    def forward(self, g: Any, place: Any, x: Any) -> Any:
        n, c, h, w = x.shape
        out = np.zeros(n * c * h * w, widened(g).dtype)
        start = (np.arange(n * c) * (h * w)).reshape(n, c, 1, 1)
        np.add.at(out, (place + start).ravel(), widened(g).ravel())
        return out.reshape(x.shape).astype(g.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return Place()(gs[0], xs[1]), ZERO, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        g, place = rng.standard_normal((2, 2, 2, 2)), rng.integers(0, 6, (2, 2, 2, 2))
        yield Sample((g, place, np.zeros((2, 2, 3, 2))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, place = TensorSpec((2, 3, 4, 4)), TensorSpec((2, 3, 2, 2), "int64")
        yield ErrorSample((x, place, x), {}, "the cotangent does not fit")


class AvgPool2d(_Pool):
    """Mean of each window.

    y[n, c] = Σ x[n, c] over the window / number of its elements

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.avg_pool2d(x, 2))["avg_pool2d"].tolist()
    [[[[2.5]]]]
    """

    count_include_pad: bool = attr(True, doc="Whether padding counts as elements that are 0.")
    onnx: ClassVar[OnnxRule | None] = OnnxRule(
        "AveragePool",
        since=11,
        rename={"kernel_size": "kernel_shape", "stride": "strides", "padding": "pads"},
    )

    def infer(self, x: TensorSpec) -> TensorSpec:
        return self.pooled(x)

    def forward(self, x: Any) -> Any:
        windows = self.windows()
        n_out = windows.n_out(x.shape[2:])
        total = sum(windows.slices(windows.padded(widened(x)), n_out))
        return (total / self.counts(x, windows)).astype(x.dtype, copy=False)

    def counts(self, x: Array, windows: Windows) -> Any:
        """Return how many elements the mean of each window divides by."""
        dtype = widened(x[:0]).dtype
        if self.count_include_pad:
            return dtype.type(int(windows.kernel[0]) * int(windows.kernel[1]))
        real = windows.padded(np.ones(x.shape[2:], dtype))
        return sum(windows.slices(real, windows.n_out(x.shape[2:])))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (AvgPool2dGrad(**self.attributes())(gs[0], xs[0]),)

    @classmethod
    def cases(cls) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
        """Yield shapes of images, and attributes, to test on."""
        yield (2, 2, 5, 4), {"kernel_size": 2}
        yield (1, 2, 5, 4), {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1}
        for counted in (True, False):
            attrs = {"kernel_size": 3, "stride": 2, "padding": "same", "count_include_pad": counted}
            yield (1, 1, 5, 4), attrs
        yield (0, 1, 4, 4), {"kernel_size": 2}

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, attrs in cls.cases():
            yield Sample((rng.standard_normal(shape),), attrs)


class AvgPool2dGrad(AvgPool2d):
    """Cotangent of a mean over windows: spread evenly over each window's elements.

    dx = Σ over windows that contain an element, of g / number of the window's elements

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> dy, x = g.constant([[[[4.0]]]]), g.constant([[[[0.0] * 2] * 2]])
    >>> g.output({}, AvgPool2dGrad(kernel_size=2)(dy, x, name="dx"))["dx"].tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]
    """

    namespace = "gradient"
    shape_only = (1,)
    onnx = None

    def infer(self, g: TensorSpec, x: TensorSpec) -> TensorSpec:  # type: ignore[override]
        check_cotangent(g, self.pooled(x))
        return g.with_shape(x.shape)

    def forward(self, g: Any, x: Any) -> Any:  # type: ignore[override]
        windows = self.windows()
        (top, bottom), (left, right) = windows.pads(x.shape[2:])
        h, w = x.shape[2:]
        part = widened(g) / self.counts(x, windows)
        padded = np.zeros((*x.shape[:2], top + h + bottom, left + w + right), part.dtype)
        for view in windows.slices(padded, g.shape[2:]):
            view += part
        return windows.cropped(padded, (h, w)).astype(g.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return AvgPool2d(**self.attributes())(gs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, attrs in cls.cases():
            g = AvgPool2d(**attrs).infer(TensorSpec(shape)).shape
            yield Sample((rng.standard_normal(g), np.zeros(shape)), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((1, 1, 4, 4))
        yield ErrorSample((x, x), {"kernel_size": 2}, "the cotangent does not fit")


class GlobalAvgPool2d(Op):
    """Mean of each channel (Lin, Chen and Yan 2013).

    y[n, c, 0, 0] = mean x[n, c]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.global_avg_pool2d(x))["global_avg_pool2d"].tolist()
    [[[[2.5]]]]
    """

    namespace = "cnn"
    onnx = OnnxRule("GlobalAveragePool", since=1)

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_images(self, x)
        return x.with_shape((*x.shape[:2], 1, 1))

    def expand(self, x: Any) -> Any:
        return x.mean((2, 3), keepdims=True)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 2, 4)),))
        yield Sample((rng.standard_normal((0, 3, 2, 1)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {}, "takes images")


class GlobalMaxPool2d(GlobalAvgPool2d):
    """Largest element of each channel.

    y[n, c, 0, 0] = max x[n, c]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.global_max_pool2d(x))["global_max_pool2d"].tolist()
    [[[[4.0]]]]
    """

    onnx = OnnxRule("GlobalMaxPool", since=1)

    def expand(self, x: Any) -> Any:
        return x.max((2, 3), keepdims=True)

"""Windows as columns, and back: what convolutions are matmuls of."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import LINEAR, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import AnyDim, Dim, TensorSpec, differ, kind
from ..core.special import widened
from .windows import Windows, check_images, per_axis


class _Columns(Op):
    """How windows slide over images of any number of spatial axes."""

    namespace = "cnn"
    kernel_size: Any
    stride: int | tuple[int, ...] = attr(1, doc="Step of the windows.")
    padding: str | int | tuple[Any, ...] = attr(0, doc="Padding around the image.")
    dilation: int | tuple[int, ...] = attr(1, doc="Distance of a window's elements.")

    def windows(self, n: int) -> Windows:
        """Return how windows slide over ``n`` axes."""
        kernel = per_axis(self.kernel_size, n, "kernel_size", 1)
        return Windows.of(kernel, self.stride, self.padding, self.dilation)


class Im2col(_Columns):
    """Windows of images as columns.

    y[n, c·k + i, p] = x[n, c] at element i of window p, both counted row by row

    x: f32[N, C, *size], y: f32[N, C·k, L] with k elements in a window and L windows.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[1.0, 2.0, 3.0]]])
    >>> g.output({}, gw.cnn.im2col(x, 2))["im2col"].tolist()
    [[[1.0, 2.0], [2.0, 3.0]]]
    """

    dependence = LINEAR
    kernel_size: int | tuple[int, ...] = attr(doc="Size of the windows.")
    value: float = attr(0.0, doc="Value of the padding.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_images(self, x, None, "fcbiu")
        windows = self.windows(x.rank - 2)
        n_out = math.prod(windows.n_out(x.shape[2:]))
        return x.with_shape((x.shape[0], x.shape[1] * windows.n_taps, n_out))

    def forward(self, x: Any) -> Any:
        windows = self.windows(x.ndim - 2)
        views = windows.views(windows.padded(x, self.value))
        n_out = math.prod(map(int, windows.n_out(x.shape[2:])))
        return views.reshape(len(x), x.shape[1] * windows.n_taps, n_out)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        settings = self.attributes()
        del settings["value"]
        return (Col2im(image_size=xs[0].shape[2:], **settings)(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        yield Sample((draw((2, 2, 4, 3)),), {"kernel_size": (2, 3), "padding": 1, "stride": 2})
        yield Sample((draw((1, 2, 5)),), {"kernel_size": 2, "dilation": 3, "padding": "same"})
        yield Sample((draw((0, 1, 2, 2, 2)),), {"kernel_size": 2, "value": 1.0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((1, 1, 4, 4))
        yield ErrorSample((TensorSpec((4, 4)),), {"kernel_size": 2}, "takes images")
        yield ErrorSample((x,), {"kernel_size": 5}, "beyond the padded image")


class Col2im(_Columns):
    """Images in which columns are added up at the windows that they stand for.

    y[n, c, i] = Σ x[n, c·k + e, p] over the windows p whose element e is i

    x: f32[N, C·k, L], y: f32[N, C, *image_size]: the transpose of :func:`im2col`.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[1.0, 2.0], [20.0, 30.0]]])
    >>> g.output({}, gw.cnn.col2im(x, (3,), 2))["col2im"].tolist()
    [[[1.0, 22.0, 30.0]]]
    """

    dependence = LINEAR
    image_size: tuple[AnyDim, ...] = attr(doc="Spatial size of the result.")
    kernel_size: int | tuple[int, ...] = attr(doc="Size of the windows.")
    onnx = OnnxRule(
        "Col2Im",
        since=18,
        rename={"stride": "strides", "padding": "pads", "dilation": "dilations"},
        inputs=("image_size", "kernel_size"),
    )

    def infer(self, x: TensorSpec) -> TensorSpec:
        windows = self.windows(len(self.image_size))
        if not self.image_size or not all(isinstance(n, Dim) or n > 0 for n in self.image_size):
            raise ShapeError(f"image_size={self.image_size} is no size", need="positive ints")
        if x.rank != 3 or kind(x.dtype) not in "fc":
            raise ShapeError("col2im takes columns", need="f32[N, C·k, L]")
        taps, n_out = windows.n_taps, math.prod(windows.n_out(self.image_size))
        if isinstance(x.shape[1], int) and (x.shape[1] % taps or not x.shape[1]):
            raise ShapeError(
                f"{x.shape[1]} rows are no whole windows", need=f"a multiple of {taps}"
            )
        if differ(x.shape[2], n_out):
            raise ShapeError(f"{x.shape[2]} columns do not fit", need=f"{n_out}, one per window")
        return x.with_shape((x.shape[0], x.shape[1] // taps, *self.image_size))

    def forward(self, x: Any) -> Any:
        windows = self.windows(len(self.image_size))
        size = tuple(map(int, self.image_size))
        n_out = tuple(map(int, windows.n_out(size)))
        n, channels = len(x), x.shape[1] // windows.n_taps
        parts = widened(x).reshape(n, channels, windows.n_taps, *n_out)
        padded = np.zeros((n, channels, *windows.padded_size(size)), parts.dtype)
        for number, view in enumerate(windows.slices(padded, n_out)):
            view += parts[:, :, number]
        return windows.cropped(padded, size).astype(x.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        settings = self.attributes()
        del settings["image_size"]
        return (Im2col(**settings)(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in Im2col.samples(rng):
            x, attrs = sample.inputs[0], {k: v for k, v in sample.attrs.items() if k != "value"}
            columns = Im2col(**attrs).infer(TensorSpec(x.shape)).shape
            yield Sample((rng.standard_normal(columns),), {"image_size": x.shape[2:], **attrs})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        settings = {"image_size": (4, 4), "kernel_size": 2}
        yield ErrorSample((TensorSpec((4, 9)),), settings, "takes columns")
        yield ErrorSample((TensorSpec((1, 5, 9)),), settings, "no whole windows")
        yield ErrorSample((TensorSpec((1, 4, 8)),), settings, "8 columns do not fit")
        yield ErrorSample(
            (TensorSpec((1, 4, 8)),), {"image_size": (0, 4), "kernel_size": 2}, "is no size"
        )


class ExtractImagePatches(_Columns):
    """Patches of images, laid out along the channels.

    y[n, e·C + c, p, q] = x[n, c] at element e of window (p, q), counted row by row

    x: f32[N, C, H, W], y: f32[N, kh·kw·C, H', W'].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0, 3.0]]]])
    >>> y = gw.image.extract_image_patches(x, (1, 2))
    >>> g.output({}, y)["extract_image_patches"].tolist()
    [[[[1.0, 2.0]], [[2.0, 3.0]]]]
    """

    namespace = "image"
    drawing = "math"
    kernel_size: int | tuple[int, ...] = attr(doc="Size of the windows.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_images(self, x, 2)
        windows = self.windows(2)
        channels = x.shape[1] * windows.n_taps
        return x.with_shape((x.shape[0], channels, *windows.n_out(x.shape[2:])))

    def expand(self, x: Any) -> Any:
        windows = self.windows(2)
        n, channels, *size = x.shape
        columns = Im2col(**self.attributes())(x)
        parts = columns.reshape(n, channels, windows.n_taps, columns.shape[2]).swapaxes(1, 2)
        return parts.reshape(n, channels * windows.n_taps, *windows.n_out(size))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 2, 4, 3))
        yield Sample((x,), {"kernel_size": (2, 3), "padding": 1, "stride": 2})
        yield Sample((x[:0],), {"kernel_size": 2, "padding": "same"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((1, 2, 4)),), {"kernel_size": 2}, "takes images")


class Dilation2d(_Columns):
    """Grey-scale dilation of images: the largest sum of a window and a structuring element.

    y[n, c, p, q] = max_ij x[n, c, p·stride + i·dilation, …] + weight[c, i, j], padding is −∞

    x: f32[N, C, H, W], weight: f32[C, kh, kw]; equal sums share the gradient (Serra 1982).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[[1.0, 5.0, 2.0]]]]), g.constant([[[0.0, 1.0]]])
    >>> g.output({}, gw.cnn.dilation2d(x, w))["dilation2d"].tolist()
    [[[[6.0, 5.0]]]]
    """

    def infer(self, x: TensorSpec, weight: TensorSpec) -> TensorSpec:
        check_images(self, x, 2)
        if weight.rank != 3 or 0 in weight.shape or differ(weight.shape[0], x.shape[1]):
            raise ShapeError("the weight does not fit", need=f"f32[{x.shape[1]}, kh, kw]")
        kernel = weight.shape[1:]
        if any(isinstance(k, Dim) for k in kernel):
            raise ShapeError("the weight has an unknown size", need="f32[C, 3, 3]")
        windows = Windows.of(kernel, self.stride, self.padding, self.dilation)
        return x.with_shape((*x.shape[:2], *windows.n_out(x.shape[2:])))

    def expand(self, x: Any, weight: Any) -> Any:
        n, channels, *size = x.shape
        kernel = tuple(map(int, weight.shape[1:]))
        columns = Im2col(**self.attributes(), kernel_size=kernel, value=-np.inf)(x)
        parts = columns.reshape(n, channels, math.prod(kernel), columns.shape[2])
        sums = parts + weight.reshape(channels, math.prod(kernel), 1)
        n_out = Windows.of(kernel, self.stride, self.padding, self.dilation).n_out(size)
        return sums.max(2).reshape(n, channels, *n_out)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        yield Sample((draw((2, 2, 3, 3)), draw((2, 2, 2))), {"padding": 1, "stride": 2})
        yield Sample((draw((1, 1, 4, 3)), draw((1, 2, 1))), {"dilation": 2, "padding": "same"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((1, 2, 4, 4))
        yield ErrorSample((x, TensorSpec((3, 2, 2))), {}, "the weight does not fit")
        yield ErrorSample((x, TensorSpec((2, 5, 2))), {}, "beyond the padded image")

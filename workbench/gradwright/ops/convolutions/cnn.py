"""Convolution of images in one, two and three dimensions; how windows slide: ``windows.py``.

A convolution is linear in the image x and in the weight w. With the cotangent g it makes the form
T(x, w, g) = Σ g·conv(x, w), of which conv, ``ConvInputGrad`` and ``ConvWeightGrad`` are the three
derivatives; each one's gradients are the other two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ...errors import ShapeError
from ...op import (
    LINEAR,
    ZERO,
    Autocast,
    Cotangent,
    ErrorSample,
    OnnxRule,
    Op,
    Sample,
    WeightSite,
    attr,
    elements,
    multiplied,
)
from ...spec import TensorSpec, differ, promote
from ..core.special import widened
from .correlation import correlate, correlate_back, correlated
from .formats import IMAGES, KERNELS, Formatted
from .windows import Windows, check_cotangent, check_images

Array = np.ndarray[Any, Any]
Case = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]


def slid(y: TensorSpec, weight: TensorSpec) -> Any:
    """Return the arithmetic of windows that make ``y``, or of the cotangent of one."""
    return multiplied(y, math.prod(weight.shape[1:]))


class Convolution(Op, abstract=True):
    """How windows slide and which channels they see: what all convolutions declare."""

    namespace = "cnn"
    dependence = LINEAR
    n_axes: ClassVar[int | None] = None
    """Number of spatial axes; None takes any."""
    stride: int | tuple[int, ...] = attr(1, doc="Step of the windows.")
    padding: str | int | tuple[Any, ...] = attr(0, doc="Zeros around the image, same or valid.")
    dilation: int | tuple[int, ...] = attr(1, doc="Distance of a window's elements.")
    groups: int = attr(1, doc="Parts of the channels that are convolved apart.")

    def windows(self, weight: Any) -> Windows:
        """Return how windows of the weight's size slide."""
        return Windows.of(weight.shape[2:], self.stride, self.padding, self.dilation)

    def check_weight(self, x: TensorSpec, weight: TensorSpec) -> None:
        """Refuse images or a weight that is none, or that do not split into the groups."""
        check_images(self, x, self.n_axes)
        if weight.rank != x.rank or 0 in weight.shape:
            axes = ", ".join(("k",) * (x.rank - 2))
            raise ShapeError("the weight is no set of kernels", need=f"f32[O, C/groups, {axes}]")
        n = weight.shape[0]
        if self.groups < 1 or (isinstance(n, int) and n % self.groups):
            raise ShapeError(f"{n} channels do not split into {self.groups} groups")

    def convolved(self, x: TensorSpec, weight: TensorSpec) -> TensorSpec:
        """Return the spec of the convolution of images with a weight."""
        self.check_weight(x, weight)
        n_out, n_in = weight.shape[:2]
        if differ(x.shape[1], n_in * self.groups):
            raise ShapeError(
                "channels differ",
                need="x.shape[1] == weight.shape[1]·groups, "
                f"got {x.shape[1]} and {n_in * self.groups}",
                hint="gw.transpose, or data_format= and weights_format=: channels come first here"
                if x.shape[-1] in (n_in * self.groups, weight.shape[-2])
                else "",
            )
        size = self.windows(weight).n_out(x.shape[2:])
        return TensorSpec((x.shape[0], n_out, *size), promote(x.dtype, weight.dtype))

    @classmethod
    def cases(cls) -> Iterator[Case]:
        """Yield shapes of images and kernels, and attributes, to test on."""
        n = cls.n_axes
        if n in (None, 2):
            yield (2, 3, 5, 4), (2, 3, 3, 2), {}
            yield (1, 2, 6, 5), (3, 2, 3, 2), {"stride": (2, 1), "padding": (1, 2)}
            yield (2, 4, 5, 5), (2, 2, 2, 2), {"groups": 2, "dilation": (2, 1)}
            yield (1, 1, 5, 4), (1, 1, 3, 2), {"padding": "same", "stride": 2}
            yield (1, 1, 3, 3), (2, 1, 2, 2), {"padding": ((1, 0), (0, 2)), "stride": 3}
            yield (0, 2, 3, 3), (1, 2, 1, 1), {"padding": "valid"}
        if n in (None, 1):
            yield (2, 2, 6), (4, 1, 3), {"groups": 2, "dilation": 2, "padding": ((3, -1),)}
            yield (1, 1, 5), (1, 1, 2), {"padding": "same_lower"}
        if n in (None, 3):
            yield (1, 2, 3, 2, 3), (1, 2, 2, 1, 2), {"stride": (1, 1, 2), "padding": (1, 0, 0)}


class _Conv(Convolution, Formatted):
    """Convolution with a weight of known rank."""

    autocast = Autocast.CONVOLUTION
    kernels = (1,)
    onnx: ClassVar[OnnxRule | None] = OnnxRule(
        "Conv",
        since=11,
        rename={
            "stride": "strides",
            "padding": "pads",
            "dilation": "dilations",
            "groups": "group",
        },
    )

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return tuple(replace(site, x=0, bias=2) for site in super().weight_sites())

    def infer(
        self, x: TensorSpec, weight: TensorSpec, bias: TensorSpec | None = None
    ) -> TensorSpec:
        return with_bias(self.convolved(x, weight), bias)

    def forward(self, x: Any, weight: Any, bias: Any = None) -> Any:
        (x, weight), dtype = joined(x, weight)
        return biased(correlate(self.windows(weight), x, weight, self.groups), bias, dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x, weight, *bias) = gs, xs
        settings = self.settings()
        return (
            lambda: ConvInputGrad(**settings)(g, weight, x),
            lambda: ConvWeightGrad(**settings)(x, g, weight),
            *(lambda: g.sum((0, *range(2, x.rank))) for _ in bias),
        )

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return slid(outs[0], ins[1]) + sum(elements(outs[0]) for _ in ins[2:])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for image, kernel, attrs in cls.cases():
            yield Sample((rng.standard_normal(image), rng.standard_normal(kernel)), attrs)
        size = (3,) * (cls.n_axes or 2)
        shapes = (2, 1, *size), (2, 1, *(k - 1 for k in size)), (2,)
        yield Sample(tuple(map(rng.standard_normal, shapes)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        n = cls.n_axes or 2
        x, w = TensorSpec((2, 4, *(5,) * n)), TensorSpec((6, 4, *(3,) * n))
        yield ErrorSample((TensorSpec(x.shape[1:]), w), {}, "takes images")
        yield ErrorSample((TensorSpec((2, 4, 0, 5, 5)[: n + 2]), w), {}, "takes images")
        yield ErrorSample((x, TensorSpec((6, 4))), {}, "no set of kernels")
        yield ErrorSample((x, TensorSpec((6, 3, *w.shape[2:]))), {}, "channels differ")
        yield ErrorSample((x, TensorSpec((6, 1, *w.shape[2:]))), {"groups": 4}, "split into 4")
        yield ErrorSample((x, TensorSpec((6, 4, *(7,) * n))), {}, "beyond the padded image")
        yield ErrorSample((x, w), {"padding": "full"}, "padding='full' is not known")
        yield ErrorSample((x, w), {"stride": 0}, "stride=0 is not understood")
        yield ErrorSample((x, w, TensorSpec((4,))), {}, "bias does not fit")


class Conv1d(_Conv):
    """Convolution (in fact cross-correlation) of signals (Waibel et al. 1989).

    y[n, o, p] = bias[o] + Σ_ci weight[o, c, i]·x[n, c, p·stride + i·dilation]

    x: f32[N, C, L], weight: f32[O, C/groups, k], bias: f32[O], as in :func:`conv2d`.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[1.0, 2.0, 3.0]]]), g.constant([[[1.0, 1.0]]])
    >>> g.output({}, gw.cnn.conv1d(x, w))["conv1d"].tolist()
    [[[3.0, 5.0]]]
    """

    n_axes = 1
    data_format: str = IMAGES[1]
    weights_format: str = KERNELS[1]


class Conv2d(_Conv):
    """Convolution (in fact cross-correlation) of images (LeCun et al. 1989).

    y[n, o, p, q] = bias[o] + Σ_cij weight[o, c, i, j]·x[n, c, p·stride + i·dilation, …]

    x: f32[N, C, H, W], weight: f32[O, C/groups, kh, kw], bias: f32[O]; with ``groups`` each of as
    many equal parts of the output channels sees its own part of the input channels.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", (None, 1, 3, 3)), g.variable("w", (1, 1, 2, 2), init=1.0)
    >>> y = gw.cnn.conv2d(x, w)
    >>> g.output({"x": np.ones((1, 1, 3, 3), np.float32)}, y)["conv2d"].tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]
    """

    n_axes = 2
    data_format: str = IMAGES[2]
    weights_format: str = KERNELS[2]


class Conv3d(_Conv):
    """Convolution (in fact cross-correlation) of volumes (Ji et al. 2013).

    y[n, o, p, q, r] = bias[o] + Σ_chij weight[o, c, h, i, j]·x[n, c, p·stride + h·dilation, …]

    x: f32[N, C, D, H, W], weight: f32[O, C/groups, kd, kh, kw], bias: f32[O], as in :func:`conv2d`.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[[[1.0, 2.0]]]]]), g.constant([[[[[1.0, 1.0]]]]])
    >>> g.output({}, gw.cnn.conv3d(x, w))["conv3d"].tolist()
    [[[[[3.0]]]]]
    """

    n_axes = 3
    data_format: str = IMAGES[3]
    weights_format: str = KERNELS[3]


class ConvInputGrad(Convolution):
    """Cotangent of a convolution's images: each window gives back what it read.

    dx = Σ over windows that contain an element, of weightᵀ·g; x gives the shape

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> dy, w, x = (g.constant([[[[v]]]]) for v in (3.0, 2.0, 0.0))
    >>> g.output({}, ConvInputGrad()(dy, w, x, name="dx"))["dx"].tolist()
    [[[[6.0]]]]
    """

    namespace = "gradient"
    drawing = "math"
    shape_only = (2,)

    def infer(self, g: TensorSpec, weight: TensorSpec, x: TensorSpec) -> TensorSpec:
        check_cotangent(g, self.convolved(x, weight))
        return TensorSpec(x.shape, promote(g.dtype, weight.dtype))

    def forward(self, g: Any, weight: Any, x: Any) -> Any:
        (g, weight), dtype = joined(g, weight)
        dx = correlate_back(self.windows(weight), g, weight, self.groups, x.shape[2:])
        return dx.astype(dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (h,), (g, weight, x), settings = gs, xs, self.attributes()
        conv = {3: Conv1d, 4: Conv2d, 5: Conv3d}[x.rank]
        return (
            lambda: conv(**settings)(h, weight),
            lambda: ConvWeightGrad(**settings)(h, g, weight),
            ZERO,
        )

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return slid(ins[0], ins[1])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for x, w, attrs in cls.cases():
            g = cls(**attrs).convolved(TensorSpec(x), TensorSpec(w)).shape
            yield Sample((rng.standard_normal(g), rng.standard_normal(w), np.zeros(x)), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((1, 1, 3, 3)), TensorSpec((1, 1, 2, 2))
        yield ErrorSample((x, w, x), {}, "the cotangent does not fit")


class ConvWeightGrad(Convolution):
    """Cotangent of a convolution's weight: how each window went with each output.

    dw = Σ over windows, of g·windowᵀ; weight gives the shape

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, dy, w = (g.constant([[[[v]]]]) for v in (5.0, 3.0, 0.0))
    >>> g.output({}, ConvWeightGrad()(x, dy, w, name="dw"))["dw"].tolist()
    [[[[15.0]]]]
    """

    namespace = "gradient"
    drawing = "math"
    shape_only = (2,)

    def infer(self, x: TensorSpec, g: TensorSpec, weight: TensorSpec) -> TensorSpec:
        check_cotangent(g, self.convolved(x, weight))
        return TensorSpec(weight.shape, promote(g.dtype, x.dtype))

    def forward(self, x: Any, g: Any, weight: Any) -> Any:
        (x, g), dtype = joined(x, g)
        dw = correlated(self.windows(weight), x, g, self.groups, weight.shape)
        return dw.astype(dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (h,), (x, g, _), settings = gs, xs, self.attributes()
        conv = {3: Conv1d, 4: Conv2d, 5: Conv3d}[x.rank]
        return (
            lambda: ConvInputGrad(**settings)(g, h, x),
            lambda: conv(**settings)(x, h),
            ZERO,
        )

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return slid(ins[1], ins[2])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for x, w, attrs in cls.cases():
            g = cls(**attrs).convolved(TensorSpec(x), TensorSpec(w)).shape
            yield Sample((rng.standard_normal(x), rng.standard_normal(g), np.zeros(w)), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((1, 1, 3, 3)), TensorSpec((1, 1, 2, 2))
        yield ErrorSample((x, x, w), {}, "the cotangent does not fit")


def joined(*xs: Any) -> tuple[list[Array], np.dtype[Any]]:
    """Return arrays in the dtype they are computed in, and the dtype of the result."""
    dtype = promote(xs[0].dtype, xs[1].dtype)
    return [widened(x.astype(dtype, copy=False)) for x in xs], dtype


def with_bias(y: TensorSpec, bias: TensorSpec | None) -> TensorSpec:
    """Return the spec of images with a bias added; it must have one element per channel."""
    if bias is None:
        return y
    if bias.rank != 1 or differ(bias.shape[0], y.shape[1]):
        raise ShapeError("bias does not fit", need=f"f32[{y.shape[1]}]")
    return y.with_dtype(promote(y.dtype, bias.dtype))


def biased(y: Array, bias: Array | None, dtype: np.dtype[Any]) -> Array:
    """Return images with a bias added, in the dtype of the result."""
    if bias is None:
        return y.astype(dtype, copy=False)
    y = y + widened(bias).reshape(-1, *(1,) * (y.ndim - 2))
    return y.astype(promote(dtype, bias.dtype), copy=False)

"""Convolution of images ``f32[N, C, H, W]``; how windows slide is in ``windows.py``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ..errors import ShapeError
from ..op import ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, WeightSite, attr
from ..spec import TensorSpec, differ, promote
from .special import widened
from .windows import Windows, check_cotangent, check_images

Array = np.ndarray[Any, Any]


class Conv2d(Op):
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

    namespace = "cnn"
    stride: int | tuple[int, int] = attr(1, doc="Step of the windows.")
    padding: str | int | tuple[Any, ...] = attr(0, doc="Zeros around the image, same or valid.")
    dilation: int | tuple[int, int] = attr(1, doc="Distance of a window's elements.")
    groups: int = attr(1, doc="Parts of the channels that are convolved apart.")
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

    def windows(self, weight: Any) -> Windows:
        """Return how windows of the weight's size slide."""
        return Windows.of(weight.shape[2:], self.stride, self.padding, self.dilation)

    def infer(
        self, x: TensorSpec, weight: TensorSpec, bias: TensorSpec | None = None
    ) -> TensorSpec:
        check_images(self, x)
        if weight.rank != 4 or 0 in weight.shape:
            raise ShapeError("the weight is no set of kernels", need="f32[O, C/groups, kh, kw]")
        n_out, n_in = weight.shape[:2]
        if self.groups < 1 or (isinstance(n_out, int) and n_out % self.groups):
            raise ShapeError(f"{n_out} channels do not split into {self.groups} groups")
        if differ(x.shape[1], n_in * self.groups):
            raise ShapeError(
                "channels differ",
                need="x.shape[1] == weight.shape[1]·groups, "
                f"got {x.shape[1]} and {n_in * self.groups}",
            )
        dtype = promote(x.dtype, weight.dtype)
        if bias is not None:
            if bias.rank != 1 or differ(bias.shape[0], n_out):
                raise ShapeError("bias does not fit", need=f"f32[{n_out}]")
            dtype = promote(dtype, bias.dtype)
        return TensorSpec((x.shape[0], n_out, *self.windows(weight).n_out(x.shape[2:])), dtype)

    def forward(self, x: Any, weight: Any, bias: Any = None) -> Any:
        (x, weight), dtype = _joined(x, weight)
        windows = self.windows(weight)
        n_out = windows.n_out(x.shape[2:])
        kernels = weight.reshape(self.groups, weight.shape[0] // self.groups, -1)
        y = kernels @ windows.columns(x, self.groups)
        y = y.reshape(weight.shape[0], x.shape[0], *n_out).transpose(1, 0, 2, 3)
        if bias is None:
            return y.astype(dtype, copy=False)
        return (y + widened(bias)[:, None, None]).astype(promote(dtype, bias.dtype), copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x, weight, *bias) = gs, xs
        settings = self.attributes()
        return (
            lambda: Conv2dInputGrad(**settings)(g, weight, x),
            lambda: Conv2dWeightGrad(**settings)(x, g, weight),
            *(lambda: g.sum((0, 2, 3)) for _ in bias),
        )

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return (WeightSite(1, "out,in,h,w", "conv2d"),)

    @classmethod
    def cases(cls) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]]:
        """Yield shapes of images and kernels, and attributes, to test on."""
        yield (2, 3, 5, 4), (2, 3, 3, 2), {}
        yield (1, 2, 6, 5), (3, 2, 3, 2), {"stride": (2, 1), "padding": (1, 2)}
        yield (2, 4, 5, 5), (2, 2, 2, 2), {"groups": 2, "dilation": (2, 1)}
        yield (1, 1, 5, 4), (1, 1, 3, 2), {"padding": "same", "stride": 2}
        yield (1, 1, 3, 3), (2, 1, 2, 2), {"padding": ((1, 0), (0, 2)), "stride": 3}
        yield (0, 2, 3, 3), (1, 2, 1, 1), {"padding": "valid"}

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for image, kernel, attrs in Conv2d.cases():
            yield Sample((rng.standard_normal(image), rng.standard_normal(kernel)), attrs)
        x, w, b = (rng.standard_normal(s) for s in ((2, 1, 3, 3), (2, 1, 2, 2), (2,)))
        yield Sample((x, w, b))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((2, 4, 5, 5)), TensorSpec((6, 4, 3, 3))
        yield ErrorSample((TensorSpec((4, 5, 5)), w), {}, "takes images")
        yield ErrorSample((TensorSpec((2, 4, 0, 5)), w), {}, "takes images")
        yield ErrorSample((x, TensorSpec((6, 4, 3))), {}, "no set of kernels")
        yield ErrorSample((x, TensorSpec((6, 3, 3, 3))), {}, "channels differ")
        yield ErrorSample((x, TensorSpec((6, 1, 3, 3))), {"groups": 4}, "do not split into 4")
        yield ErrorSample((x, TensorSpec((6, 4, 7, 3))), {}, "beyond the padded image")
        yield ErrorSample((x, w), {"padding": "full"}, "padding='full' is not known")
        yield ErrorSample((x, w), {"stride": 0}, "stride=0 is not understood")
        yield ErrorSample((x, w, TensorSpec((4,))), {}, "bias does not fit")


def _joined(*xs: Any) -> tuple[list[Array], np.dtype[Any]]:
    """Return arrays in the dtype they are computed in, and the dtype of the result."""
    dtype = promote(xs[0].dtype, xs[1].dtype)
    return [widened(x.astype(dtype, copy=False)) for x in xs], dtype


class Conv2dInputGrad(Conv2d):
    """Cotangent of a convolution's images: each window gives back what it read.

    dx = Σ over windows that contain an element, of weightᵀ·g; x gives the shape

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> dy, w, x = (g.constant([[[[v]]]]) for v in (3.0, 2.0, 0.0))
    >>> g.output({}, Conv2dInputGrad()(dy, w, x, name="dx"))["dx"].tolist()
    [[[[6.0]]]]
    """

    namespace = "gradient"
    shape_only = (2,)
    onnx = None

    def infer(self, g: TensorSpec, weight: TensorSpec, x: TensorSpec) -> TensorSpec:  # type: ignore[override]
        check_cotangent(g, super().infer(x, weight))
        return TensorSpec(x.shape, promote(g.dtype, weight.dtype))

    def forward(self, g: Any, weight: Any, x: Any) -> Any:  # type: ignore[override]
        (g, weight), dtype = _joined(g, weight)
        windows = self.windows(weight)
        n, c, h, w = x.shape
        (top, bottom), (left, right) = windows.pads((h, w))
        kernels = weight.reshape(self.groups, weight.shape[0] // self.groups, -1)
        columns = kernels.mT @ _by_group(g, self.groups)
        parts = columns.reshape(c, -1, n, *g.shape[2:]).swapaxes(0, 1) if n else columns[:0]
        padded = np.zeros((c, n, top + h + bottom, left + w + right), g.dtype)
        for view, part in zip(windows.slices(padded, g.shape[2:]), parts, strict=False):
            view += part
        return windows.cropped(padded, (h, w)).swapaxes(0, 1).astype(dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (h,), (g, weight, _), settings = gs, xs, self.attributes()
        return (
            lambda: Conv2d(**settings)(h, weight),
            lambda: Conv2dWeightGrad(**settings)(h, g, weight),
            ZERO,
        )

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return ()

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for x, w, attrs in Conv2d.cases():
            g = Conv2d(**attrs).infer(TensorSpec(x), TensorSpec(w)).shape
            yield Sample((rng.standard_normal(g), rng.standard_normal(w), np.zeros(x)), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((1, 1, 3, 3)), TensorSpec((1, 1, 2, 2))
        yield ErrorSample((x, w, x), {}, "the cotangent does not fit")


class Conv2dWeightGrad(Conv2d):
    """Cotangent of a convolution's weight: how each window went with each output.

    dw = Σ over windows, of g·windowᵀ; weight gives the shape

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, dy, w = (g.constant([[[[v]]]]) for v in (5.0, 3.0, 0.0))
    >>> g.output({}, Conv2dWeightGrad()(x, dy, w, name="dw"))["dw"].tolist()
    [[[[15.0]]]]
    """

    namespace = "gradient"
    shape_only = (2,)
    onnx = None

    def infer(self, x: TensorSpec, g: TensorSpec, weight: TensorSpec) -> TensorSpec:  # type: ignore[override]
        check_cotangent(g, super().infer(x, weight))
        return TensorSpec(weight.shape, promote(g.dtype, x.dtype))

    def forward(self, x: Any, g: Any, weight: Any) -> Any:  # type: ignore[override]
        (x, g), dtype = _joined(x, g)
        columns = self.windows(weight).columns(x, self.groups)
        dw = _by_group(g, self.groups) @ columns.mT
        return dw.reshape(weight.shape).astype(dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (h,), (x, g, _), settings = gs, xs, self.attributes()
        return (
            lambda: Conv2dInputGrad(**settings)(g, h, x),
            lambda: Conv2d(**settings)(x, h),
            ZERO,
        )

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return ()

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for x, w, attrs in Conv2d.cases():
            g = Conv2d(**attrs).infer(TensorSpec(x), TensorSpec(w)).shape
            yield Sample((rng.standard_normal(x), rng.standard_normal(g), np.zeros(w)), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((1, 1, 3, 3)), TensorSpec((1, 1, 2, 2))
        yield ErrorSample((x, x, w), {}, "the cotangent does not fit")


def _by_group(g: Array, groups: int) -> Array:
    """Return ``[N, O, H, W]`` as ``[G, O/G, N·H·W]``."""
    n, o, h, w = g.shape
    return g.swapaxes(0, 1).reshape(groups, o // groups, n * h * w)

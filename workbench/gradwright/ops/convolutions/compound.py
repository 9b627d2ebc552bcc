"""Convolutions put together from others: depthwise and separable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import Autocast, ErrorSample, Sample, attr
from ...spec import TensorSpec
from .cnn import Conv2d
from .formats import IMAGES, KERNELS, Formatted


class _Depthwise(Formatted):
    """Each channel is convolved on its own."""

    namespace = "cnn"
    autocast = Autocast.CONVOLUTION
    stride: int | tuple[int, ...] = attr(1, doc="Step of the windows.")
    padding: str | int | tuple[Any, ...] = attr(0, doc="Zeros around the image, same or valid.")
    dilation: int | tuple[int, ...] = attr(1, doc="Distance of a window's elements.")
    data_format: str = IMAGES[2]
    weights_format: str = KERNELS[2]

    def by_channel(self, x: TensorSpec) -> Conv2d:
        """Return the convolution with as many groups as channels."""
        if x.rank == 4 and not isinstance(x.shape[1], int):
            raise ShapeError(
                f"{self.name} needs a known number of channels", need="f32[N, 3, H, W]"
            )
        return Conv2d(**self.settings(), groups=x.shape[1] if x.rank == 4 else 1)


class DepthwiseConv2d(_Depthwise):
    """Convolution of each channel of images on its own (Sifre 2014).

    y[n, c·m + o, p, q] = bias[c·m + o] + Σ_ij weight[c·m + o, 0, i, j]·x[n, c, p·stride + i, …]

    x: f32[N, C, H, W], weight: f32[C·m, 1, kh, kw], bias: f32[C·m]: m results for each channel.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[[1.0, 2.0]], [[3.0, 4.0]]]]), g.constant([[[[1.0]]], [[[10.0]]]])
    >>> g.output({}, gw.cnn.depthwise_conv2d(x, w))["depthwise_conv2d"].tolist()
    [[[[1.0, 2.0]], [[30.0, 40.0]]]]
    """

    kernels = (1,)

    def infer(
        self, x: TensorSpec, weight: TensorSpec, bias: TensorSpec | None = None
    ) -> TensorSpec:
        return self.by_channel(x).infer(x, weight, bias)

    def expand(self, x: Any, weight: Any, bias: Any = None) -> Any:
        conv = self.by_channel(x.spec)
        return conv(x, weight) if bias is None else conv(x, weight, bias)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        yield Sample((draw((2, 2, 3, 4)), draw((4, 1, 2, 2)), draw(4)), {"padding": 1})
        yield Sample((draw((1, 3, 4, 4)), draw((3, 1, 2, 3))), {"stride": 2, "padding": "same"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 3, 4, 4))
        yield ErrorSample((TensorSpec((3, 4, 4)), x), {}, "takes images")
        yield ErrorSample((x, TensorSpec((4, 1, 2, 2))), {}, "do not split into 3")
        yield ErrorSample((x, TensorSpec((3, 2, 2, 2))), {}, "channels differ")


class SeparableConv2d(_Depthwise):
    """Depthwise convolution, and then one of single elements across channels (Chollet 2017).

    y = conv2d(depthwise_conv2d(x, depthwise), pointwise, bias)

    x: f32[N, C, H, W], depthwise: f32[C·m, 1, kh, kw], pointwise: f32[O, C·m, 1, 1], bias: f32[O].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, d = g.constant([[[[1.0]], [[3.0]]]]), g.constant([[[[1.0]]], [[[10.0]]]])
    >>> y = gw.cnn.separable_conv2d(x, d, g.constant([[[[1.0]], [[2.0]]]]))
    >>> g.output({}, y)["separable_conv2d"].tolist()
    [[[[61.0]]]]
    """

    kernels = (1, 2)

    def infer(
        self,
        x: TensorSpec,
        depthwise: TensorSpec,
        pointwise: TensorSpec,
        bias: TensorSpec | None = None,
    ) -> TensorSpec:
        if pointwise.rank != 4 or pointwise.shape[2:] != (1, 1):
            raise ShapeError("pointwise kernels have one element", need="f32[O, C·m, 1, 1]")
        return Conv2d().infer(self.by_channel(x).infer(x, depthwise), pointwise, bias)

    def expand(self, x: Any, depthwise: Any, pointwise: Any, bias: Any = None) -> Any:
        h = self.by_channel(x.spec)(x, depthwise)
        return Conv2d()(h, pointwise) if bias is None else Conv2d()(h, pointwise, bias)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        x, d, p = draw((2, 2, 3, 4)), draw((4, 1, 2, 2)), draw((1, 4, 1, 1))
        yield Sample((x, d, p, draw(1)), {"padding": 1, "stride": 2})
        yield Sample((x[:1], d[:2], p[:, :2]), {"dilation": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, d, p = TensorSpec((2, 3, 4, 4)), TensorSpec((3, 1, 2, 2)), TensorSpec((5, 3, 1, 1))
        yield ErrorSample((x, d, d), {}, "have one element")
        yield ErrorSample((x, d, TensorSpec((5, 4, 1, 1))), {}, "channels differ")
        yield ErrorSample((x, d, p, TensorSpec((4,))), {}, "bias does not fit")

"""Transposed convolution: what takes a convolution's results back to its images."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import Autocast, Cotangent, ErrorSample, OnnxRule, Sample, attr, elements
from ...spec import AnyDim, TensorSpec, differ, promote
from .cnn import (
    Conv1d,
    Conv2d,
    Conv3d,
    Convolution,
    ConvWeightGrad,
    biased,
    joined,
    slid,
    with_bias,
)
from .correlation import correlate_back
from .formats import IMAGES, TRANSPOSED, Formatted
from .windows import Pads, Windows, per_axis, read_padding


class _ConvTranspose(Convolution, Formatted):
    """The transpose of the convolution whose padding ``pads`` returns."""

    autocast = Autocast.CONVOLUTION
    kernels = (1,)
    padding: str | int | tuple[Any, ...] = attr(
        0, doc="What is cut off at the edges; same: the result is stride times as large."
    )
    output_padding: int | tuple[int, ...] = attr(0, doc="What is added at the end of each axis.")
    output_shape: tuple[AnyDim, ...] | None = attr(
        None, doc="Size of the result, in place of padding."
    )
    onnx = OnnxRule(
        "ConvTranspose",
        since=11,
        rename={
            "stride": "strides",
            "padding": "pads",
            "dilation": "dilations",
            "groups": "group",
        },
    )

    def pads(self, x: TensorSpec, weight: TensorSpec) -> tuple[Pads, tuple[AnyDim, ...]]:
        """Return the padding of the convolution that this transposes, and the size it makes."""
        n = x.rank - 2
        reach = Windows.of(weight.shape[2:], self.stride, 0, self.dilation).reach
        given = read_padding(self.padding, n)
        stride = per_axis(self.stride, n, "stride", 1)
        extra = per_axis(self.output_padding, n, "output_padding", 0)
        if self.output_shape is not None and len(self.output_shape) != n:
            raise ShapeError(
                f"output_shape={self.output_shape} is not understood", need=f"{n} sizes"
            )
        pads: list[tuple[AnyDim, AnyDim]] = []
        size: list[AnyDim] = []
        for i, (m, r, s, e) in enumerate(zip(x.shape[2:], reach, stride, extra, strict=True)):
            full = (m - 1) * s + r
            if isinstance(given, str) or self.output_shape is not None:
                out = m * s if self.output_shape is None else self.output_shape[i]
                total = full + e - out
                less = total // 2
                before, after = (less, total - less) if given == "same" else (total - less, less)
            else:
                before, after = given[i]
                out = full + e - before - after
            if isinstance(out, int) and out < 1:
                raise ShapeError(
                    "nothing is left of the result",
                    need=f"less padding on axis {i + 2}, which has {full} elements before it",
                )
            pads.append((before, after - e))
            size.append(out)
        return tuple(pads), tuple(size)

    def infer(
        self, x: TensorSpec, weight: TensorSpec, bias: TensorSpec | None = None
    ) -> TensorSpec:
        self.check_weight(x, weight)
        if differ(x.shape[1], weight.shape[0]):
            raise ShapeError(
                "channels differ",
                need=f"x.shape[1] == weight.shape[0], got {x.shape[1]} and {weight.shape[0]}",
            )
        _, size = self.pads(x, weight)
        channels = weight.shape[1] * self.groups
        y = TensorSpec((x.shape[0], channels, *size), promote(x.dtype, weight.dtype))
        return with_bias(y, bias)

    def forward(self, x: Any, weight: Any, bias: Any = None) -> Any:
        (x, weight), dtype = joined(x, weight)
        pads, size = self.pads(TensorSpec(x.shape), TensorSpec(weight.shape))
        windows = Windows.of(weight.shape[2:], self.stride, pads, self.dilation)
        y = correlate_back(windows, x, weight, self.groups, tuple(map(int, size)))
        return biased(y, bias, dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x, weight, *bias) = gs, xs
        pads, _ = self.pads(x.spec, weight.spec)
        settings: dict[str, Any] = {
            "stride": self.stride,
            "padding": pads,
            "dilation": self.dilation,
            "groups": self.groups,
        }
        conv = {3: Conv1d, 4: Conv2d, 5: Conv3d}[x.rank]
        return (
            lambda: conv(**settings)(g, weight),
            lambda: ConvWeightGrad(**settings)(g, x, weight),
            *(lambda: g.sum((0, *range(2, x.rank))) for _ in bias),
        )

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return slid(ins[0], ins[1]) + sum(elements(outs[0]) for _ in ins[2:])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        n = cls.n_axes or 2
        draw = rng.standard_normal
        x, w = (2, 2, 3, 2, 1)[: n + 2], (2, 1, 3, 2, 1)[: n + 2]
        yield Sample((draw(x), draw(w), draw(2)), {"groups": 2, "stride": 2, "output_padding": 1})
        yield Sample((draw(x), draw(w)), {"padding": ((1, 0), (0, 1), (0, 0))[:n], "dilation": 2})
        if n == 1:
            yield Sample((draw(x), draw(w)), {"stride": 3, "padding": "same"})
            yield Sample((draw((0, 2, 3)), draw(w)), {"padding": "valid"})
            yield Sample((draw(x), draw(w)), {"stride": 2, "output_shape": (8,)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        n = cls.n_axes or 2
        x, w = TensorSpec((2, 4, *(5,) * n)), TensorSpec((4, 6, *(3,) * n))
        yield ErrorSample((TensorSpec(x.shape[1:]), w), {}, "takes images")
        yield ErrorSample((x, TensorSpec((3, 6, *w.shape[2:]))), {}, "channels differ")
        yield ErrorSample((x, w), {"groups": 3}, "split into 3")
        yield ErrorSample((x, w), {"padding": 4}, "nothing is left")
        yield ErrorSample((x, w), {"output_shape": (1,) * 4}, "output_shape=(1, 1, 1, 1)")
        yield ErrorSample((x, w, TensorSpec((4,))), {}, "bias does not fit")


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution of signals, as :func:`conv_transpose2d`.

    y[n, o, p·stride + i·dilation] += weight[c, o, i]·x[n, c, p]

    x: f32[N, C, L], weight: f32[C, O/groups, k], bias: f32[O].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[1.0, 2.0]]]), g.constant([[[1.0, 10.0]]])
    >>> y = gw.cnn.conv_transpose1d(x, w, stride=2)
    >>> g.output({}, y)["conv_transpose1d"].tolist()
    [[[1.0, 10.0, 2.0, 20.0]]]
    """

    n_axes = 1
    data_format: str = IMAGES[1]
    weights_format: str = TRANSPOSED[1]


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution of images (Zeiler et al. 2010): each element sends out the kernel.

    y[n, o, p·stride + i·dilation, …] += weight[c, o, i, j]·x[n, c, p, q]

    x: f32[N, C, H, W], weight: f32[C, O/groups, kh, kw], bias: f32[O]. The result has along each
    axis (n − 1)·stride + dilation·(k − 1) + 1 + output_padding − padding elements; padding "same"
    makes it n·stride. ``output_shape`` states its size, and padding follows, as in ONNX.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[[1.0, 2.0]]]]), g.constant([[[[1.0], [10.0]]]])
    >>> g.output({}, gw.cnn.conv_transpose2d(x, w))["conv_transpose2d"].tolist()
    [[[[1.0, 2.0], [10.0, 20.0]]]]
    """

    n_axes = 2
    data_format: str = IMAGES[2]
    weights_format: str = TRANSPOSED[2]


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution of volumes, as :func:`conv_transpose2d`.

    y[n, o, p·stride + h·dilation, …] += weight[c, o, h, i, j]·x[n, c, p, q, r]

    x: f32[N, C, D, H, W], weight: f32[C, O/groups, kd, kh, kw], bias: f32[O].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[[[1.0, 2.0]]]]]), g.constant([[[[[1.0], [10.0]]]]])
    >>> g.output({}, gw.cnn.conv_transpose3d(x, w))["conv_transpose3d"].tolist()
    [[[[[1.0, 2.0], [10.0, 20.0]]]]]
    """

    n_axes = 3
    data_format: str = IMAGES[3]
    weights_format: str = TRANSPOSED[3]

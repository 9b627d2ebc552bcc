"""Deformable convolution: windows whose elements are moved by learned offsets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import Autocast, ErrorSample, OnnxRule, Op, Sample, WeightSite, attr
from ...spec import TensorSpec, differ, promote, shapes_differ
from ..core.movement import Cast
from .sampling import length, positions, product, sampled, taps
from .windows import Windows, check_images


class DeformConv2d(Op):
    """Convolution whose windows reach for elements at learned offsets (Dai et al. 2017).

    y[n, o, p] = bias[o] + Σ_ci weight[o, c, i]·mask[n, i, p]·x[n, c, p·stride + i·dilation + Δ]

    with Δ = offset[n, (i, axis), p], interpolated linearly, zeros outside. x: f32[N, C, H, W],
    weight: f32[O, C/groups, kh, kw], offset: f32[N, offset_groups·kh·kw·2, H', W'] with the row's
    offset first, bias: f32[O], mask: f32[N, offset_groups·kh·kw, H', W'] (Zhu et al. 2019). Any
    number r of spatial axes may take the place of the two; offsets then are r for each element.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[[1.0, 3.0]]]]), g.constant([[[[1.0]]]])
    >>> offset = g.constant([[[[0.0, 0.0]], [[0.5, 0.0]]]])
    >>> g.output({}, gw.cnn.deform_conv2d(x, w, offset))["deform_conv2d"].tolist()
    [[[[2.0, 3.0]]]]
    """

    namespace = "cnn"
    autocast = Autocast.CONVOLUTION
    stride: int | tuple[int, ...] = attr(1, doc="Step of the windows.")
    padding: int | tuple[Any, ...] = attr(0, doc="Zeros around the image.")
    dilation: int | tuple[int, ...] = attr(1, doc="Distance of a window's elements.")
    groups: int = attr(1, doc="Parts of the channels that are convolved apart.")
    offset_groups: int = attr(1, doc="Parts of the channels that have offsets of their own.")
    onnx = OnnxRule(
        "DeformConv",
        since=19,
        rename={
            "stride": "strides",
            "padding": "pads",
            "dilation": "dilations",
            "groups": "group",
            "offset_groups": "offset_group",
        },
    )

    def infer(
        self,
        x: TensorSpec,
        weight: TensorSpec,
        offset: TensorSpec,
        bias: TensorSpec | None = None,
        mask: TensorSpec | None = None,
    ) -> TensorSpec:
        check_images(self, x)
        channels = x.shape[1]
        if weight.rank != x.rank or 0 in weight.shape:
            raise ShapeError("the weight is no set of kernels", need="f32[O, C/groups, kh, kw]")
        if not all(isinstance(d, int) for d in (*weight.shape, channels)):
            raise ShapeError(
                f"{self.name} needs a weight and channels of known size", need="f32[8, 4, 3, 3]"
            )
        if differ(channels, weight.shape[1] * self.groups) or weight.shape[0] % self.groups:
            raise ShapeError(
                "channels differ",
                need=f"f32[n·{self.groups}, {channels}/{self.groups}, …], got {weight}",
            )
        if self.offset_groups < 1 or channels % self.offset_groups:
            raise ShapeError(f"{channels} channels do not split into {self.offset_groups} groups")
        windows = Windows.of(weight.shape[2:], self.stride, self.padding, self.dilation)
        n_out = windows.n_out(x.shape[2:])
        each = windows.n_taps * self.offset_groups
        wanted = {
            "offset": (offset, (x.shape[0], each * (x.rank - 2), *n_out)),
            "mask": (mask, (x.shape[0], each, *n_out)),
            "bias": (bias, weight.shape[:1]),
        }
        dtype = promote(x.dtype, weight.dtype)
        for name, (spec, shape) in wanted.items():
            if spec is not None and shapes_differ(spec.shape, shape):
                raise ShapeError(f"the {name} does not fit", need=f"f32{list(shape)}, got {spec}")
        if bias is not None:
            dtype = promote(dtype, bias.dtype)
        return TensorSpec((x.shape[0], weight.shape[0], *n_out), dtype)

    def expand(self, x: Any, weight: Any, offset: Any, bias: Any = None, mask: Any = None) -> Any:
        n, r, parts = x.shape[0], x.rank - 2, self.offset_groups
        windows = Windows.of(weight.shape[2:], self.stride, self.padding, self.dilation)
        pads: Any = windows.padding
        k, n_out, kernel = windows.n_taps, offset.shape[2:], tuple(map(int, windows.kernel))
        if offset.dtype.itemsize < 4:
            offset = Cast(dtype="float32")(offset)
        moved = offset.reshape(n, parts, k, r, *n_out)
        along, sizes = [], [length(x, axis + 2) for axis in range(r)]
        within = np.indices(kernel).reshape(r, k)
        for axis in range(r):
            start = within[axis] * windows.dilation[axis] - pads[axis][0]
            at = positions(n_out[axis]) * windows.stride[axis]
            at = at.reshape(n_out[axis], *(1,) * (r - 1 - axis))
            fixed = at + start.reshape(k, *(1,) * r)
            u = moved[:, :, :, axis] + Cast(dtype=offset.dtype)(fixed)
            along.append(taps(u, length(x, axis + 2, offset.dtype), "linear"))
        index, weights = product(along, sizes)  # [N, G, K, *n_out, taps]
        if mask is not None:
            weights = weights * mask.reshape(n, parts, k, *n_out, 1)
        first = positions(n * parts) * math.prod(sizes)
        index = index + first.reshape(n, parts, *(1,) * (r + 2))
        inner, places = x.shape[1] // parts, math.prod(n_out)
        rows = x.reshape(n, parts, inner, math.prod(x.shape[2:])).swapaxes(2, 3)
        rows = rows.reshape(n * parts * math.prod(x.shape[2:]), inner)
        columns = sampled(rows, index, weights).reshape(n, parts, k, places, inner)
        columns = columns.transpose(0, 1, 4, 2, 3)
        columns = columns.reshape(n, self.groups, x.shape[1] // self.groups * k, places)
        out = weight.shape[0]
        kernels = weight.reshape(self.groups, out // self.groups, columns.shape[2])
        y = (kernels @ columns).reshape(n, out, *n_out)
        return y if bias is None else y + bias.reshape(out, *(1,) * r)

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return (WeightSite(1, "out,in,h,w", self.name),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        x, w = draw((1, 4, 3, 3)), draw((2, 2, 2, 2))
        yield Sample(
            (x, w, draw((1, 16, 2, 4)), draw(2), draw((1, 8, 2, 4))),
            {"padding": ((1, 0), (1, 1)), "stride": (2, 1), "groups": 2, "offset_groups": 2},
        )
        yield Sample((draw((2, 1, 4)), draw((1, 1, 2)), draw((2, 2, 2))), {"dilation": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w, offset = TensorSpec((1, 4, 3, 3)), TensorSpec((2, 4, 2, 2)), TensorSpec((1, 8, 2, 2))
        yield ErrorSample((TensorSpec((4, 3)), w, offset), {}, "takes images")
        yield ErrorSample((x, TensorSpec((2, 4)), offset), {}, "no set of kernels")
        yield ErrorSample((x, TensorSpec((2, 3, 2, 2)), offset), {}, "channels differ")
        yield ErrorSample((x, w, offset), {"offset_groups": 3}, "split into 3")
        yield ErrorSample((x, w, TensorSpec((1, 4, 2, 2))), {}, "the offset does not fit")
        yield ErrorSample((x, w, offset, TensorSpec((3,))), {}, "the bias does not fit")

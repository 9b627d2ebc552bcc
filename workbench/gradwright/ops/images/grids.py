"""Sampling images at the points of a grid, and grids from affine maps (Jaderberg et al. 2015)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import AnyDim, TensorSpec, differ, kind
from ..convolutions.sampling import length, pixel_rows, positions, product, sampled, taps
from ..convolutions.windows import check_images
from ..core.choice import Maximum
from ..core.joining import Stack
from ..core.like import OnesLike
from ..core.movement import Cast
from ..core.reshape import BroadcastTo


class GridSample(Op):
    """Images read at the points of a grid.

    y[n, :, p, q] = x[n, :] at the point grid[n, p, q], interpolated

    x: f32[N, C, H, W], grid: f32[N, P, Q, 2] of (column, row) from −1 to 1, y: f32[N, C, P, Q]; or
    with any number r of spatial axes and grid f32[N, *size, r]. The ends −1 and 1 are the outer
    edges of the image, with ``align_corners`` the middles of the elements at its corners.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, grid = g.constant([[[[1.0, 3.0]]]]), g.constant([[[[0.0, 0.0]]]])
    >>> g.output({}, gw.image.grid_sample(x, grid))["grid_sample"].tolist()
    [[[[2.0]]]]
    """

    namespace = "image"
    mode: str = attr("linear", doc="How to interpolate.", choices=("linear", "nearest", "cubic"))
    padding_mode: str = attr(
        "zeros", doc="What lies beyond the edge.", choices=("zeros", "border", "reflection")
    )
    align_corners: bool = attr(False, doc="Whether ±1 are the middles of corner elements.")
    onnx = OnnxRule("GridSample", since=20)

    def infer(self, x: TensorSpec, grid: TensorSpec) -> TensorSpec:
        check_images(self, x)
        if kind(grid.dtype) != "f":
            raise DTypeError(f"a grid holds fractions, not {grid.dtype}", need="f32")
        n = x.rank - 2
        if grid.rank != x.rank or differ(grid.shape[-1], n) or differ(grid.shape[0], x.shape[0]):
            raise ShapeError("the grid does not fit", need=f"f32[{x.shape[0]}, *size, {n}]")
        return x.with_shape((*x.shape[:2], *grid.shape[1:-1]))

    def expand(self, x: Any, grid: Any) -> Any:
        n, out = x.rank - 2, grid.shape[1:-1]
        if grid.dtype.itemsize < 4:
            grid = Cast(dtype="float32")(grid)
        along = []
        for axis in range(n):
            size = length(x, axis + 2, grid.dtype)
            u = grid[..., n - 1 - axis]
            u = (u + 1) * ((size - 1) / 2) if self.align_corners else ((u + 1) * size - 1) / 2
            along.append(taps(u, size, self.mode, self.padding_mode, self.align_corners))
        index, weight = product(along, [length(x, axis + 2) for axis in range(n)])
        first = positions(x.shape[0]) * math.prod(length(x, axis + 2) for axis in range(n))
        index = index + first.reshape(x.shape[0], *(1,) * (n + 1))
        y = sampled(pixel_rows(x), index, weight)
        return y.reshape(x.shape[0], *out, x.shape[1]).transpose(0, n + 1, *range(1, n + 1))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, grid = rng.standard_normal((1, 2, 2, 3)), rng.uniform(-1.4, 1.4, (1, 1, 2, 2))
        yield Sample((x, grid), {"mode": "cubic", "padding_mode": "reflection"})
        signals, at = rng.standard_normal((2, 1, 3)), rng.uniform(-1.4, 1.4, (2, 1, 1))
        yield Sample((signals, at), {"align_corners": True, "padding_mode": "border"})
        yield Sample((x[:0], grid[:0]), {"mode": "nearest"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 3, 4, 5))
        yield ErrorSample((TensorSpec((2, 3)), x), {}, "takes images")
        yield ErrorSample((x, TensorSpec((2, 3, 4, 3))), {}, "the grid does not fit")
        yield ErrorSample((x, TensorSpec((2, 3, 4, 2), "int64")), {}, "holds fractions")


class AffineGrid(Op):
    """Grid of an affine map, at which :func:`grid_sample` reads an image.

    y[n, p, q] = theta[n]·(u_q, v_p, 1) for the points (u, v) of an even grid from −1 to 1

    theta: f32[N, 2, 3] and size (N, C, H, W) give y: f32[N, H, W, 2]; theta: f32[N, 3, 4] and size
    (N, C, D, H, W) give y: f32[N, D, H, W, 3].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> theta = g.constant([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]]])
    >>> g.output({}, gw.image.affine_grid(theta, (1, 1, 1, 2)))["affine_grid"].tolist()
    [[[[-0.5, 0.5], [0.5, 0.5]]]]
    """

    namespace = "image"
    size: tuple[AnyDim, ...] = attr(doc="Shape of the images to be read.")
    align_corners: bool = attr(False, doc="Whether ±1 are the middles of corner elements.")
    onnx = OnnxRule("AffineGrid", since=20, inputs=("size",))

    def infer(self, theta: TensorSpec) -> TensorSpec:
        n = len(self.size) - 2
        if n < 1 or any(isinstance(d, int) and d < 1 for d in self.size[2:]):
            raise ShapeError(f"size={self.size} is no shape of images", need="(N, C, H, W)")
        if kind(theta.dtype) != "f":
            raise DTypeError(f"an affine map holds fractions, not {theta.dtype}", need="f32")
        wanted = (self.size[0], n, n + 1)
        if theta.rank != 3 or any(map(differ, theta.shape, wanted)):
            raise ShapeError("theta does not fit the size", need=f"f32[{wanted}]")
        return theta.with_shape((theta.shape[0], *self.size[2:], n))

    def expand(self, theta: Any) -> Any:
        if theta.dtype.itemsize < 4:
            return Cast(dtype=theta.dtype)(self(Cast(dtype="float32")(theta)))
        size, n = self.size[2:], len(self.size) - 2
        axes = []
        for axis, m in enumerate(size):
            at = positions(m, theta.dtype)
            many = length(at, 0, theta.dtype)
            if self.align_corners:
                u = (2 * at - (many - 1)) / Maximum()(many - 1, 1)
            else:
                u = (2 * at + 1) / many - 1
            axes.append(BroadcastTo(shape=size)(u.reshape(m, *(1,) * (n - 1 - axis))))
        points = Stack(axis=-1)(*reversed(axes), OnesLike()(axes[0]))
        flat = points.reshape(math.prod(size), n + 1)
        return (flat @ theta.mT).reshape(theta.shape[0], *size, n)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 2, 3)),), {"size": (2, 1, 2, 3)})
        corners = {"size": (1, 1, 1, 2, 3), "align_corners": True}
        yield Sample((rng.standard_normal((1, 3, 4)),), corners)
        yield Sample((rng.standard_normal((0, 2, 3)),), {"size": (0, 3, 1, 1)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        theta = TensorSpec((1, 2, 3))
        yield ErrorSample((theta,), {"size": (1, 1)}, "no shape of images")
        yield ErrorSample((theta,), {"size": (1, 1, 2, 2, 2)}, "does not fit the size")
        yield ErrorSample((theta.with_dtype("int64"),), {"size": (1, 1, 2, 2)}, "fractions")

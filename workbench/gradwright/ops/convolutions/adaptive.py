"""Adaptive pooling: as many windows as the result has elements, whatever the image's size."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import ShapeError
from ...op import LINEAR, ZERO, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import AnyDim, TensorSpec
from ..core.scatter import TakeAlongAxis
from .bands import AlongAxes, AlongAxesGrad, Bands, cached
from .formats import IMAGES, Formatted
from .pooling import MaxPool1d, MaxPool2d, MaxPool3d
from .windows import check_images

Array = np.ndarray[Any, Any]


def _windows(n: int, m: int) -> tuple[Array, Array]:
    """Return the elements of ``m`` windows over ``n`` elements, and which of them count."""
    number = np.arange(m)
    start, stop = number * n // m, -(-(number + 1) * n // m)
    at = start[:, None] + np.arange((stop - start).max(initial=0))
    inside = at < stop[:, None]
    return np.where(inside, at, stop[:, None] - 1), inside


def _mean(n: int, m: int) -> Bands:
    at, inside = _windows(n, m)
    return Bands(at, inside / inside.sum(1, keepdims=True), n)


def places_of(size: Sequence[AnyDim], n_out: Sequence[AnyDim]) -> Array:
    """Return the places of the elements of each window in a flat image: i64[*n_out, k]."""
    place: Array = np.zeros((), np.int64)
    for i, (n, m) in enumerate(zip(size, n_out, strict=True)):
        at, _ = _windows(int(n), int(m))
        place = place[..., None, None] * int(n) + at[(None, None) * i]
    n_axes = len(size)
    order = (*range(0, 2 * n_axes, 2), *range(1, 2 * n_axes, 2))
    return place.transpose(order).reshape(*map(int, n_out), -1)


class _Adaptive(Op):
    """Windows from ⌊i·n/m⌋ to ⌈(i + 1)·n/m⌉, for m elements of the result."""

    namespace = "cnn"
    n_axes: ClassVar[int] = 2
    output_size: int | tuple[int | None, ...] = attr(doc="Size of the result; None keeps an axis.")

    def sizes(self, given: Sequence[AnyDim]) -> tuple[AnyDim, ...]:
        """Return the size of the result for an image of a size."""
        each = self.output_size
        each = (each,) * len(given) if isinstance(each, int) else each
        if len(each) != len(given) or not all(
            m is None or (isinstance(m, int) and m > 0) for m in each
        ):
            raise ShapeError(
                f"output_size={self.output_size!r} is not understood",
                need=f"an int > 0, or {len(given)} of them",
            )
        return tuple(n if m is None else m for n, m in zip(given, each, strict=True))

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_images(self, x, self.n_axes)
        return x.with_shape((*x.shape[:2], *self.sizes(x.shape[2:])))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        n = cls.n_axes
        x = rng.permutation(np.arange(240.0)).reshape(2, 2, 5, 4, 3)[..., 0]
        x = x[..., 0] if n == 1 else x if n == 2 else x[:1, :, :3, :, None]
        yield Sample((x,), {"output_size": (3, None, 2)[:n]})
        yield Sample((x[:, :1],), {"output_size": 1})
        yield Sample((x[:0],), {"output_size": 6})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((1, 2, *(4,) * cls.n_axes))
        yield ErrorSample((TensorSpec((1, 2)),), {"output_size": 2}, "takes images")
        yield ErrorSample((x,), {"output_size": 0}, "output_size=0")
        yield ErrorSample((x,), {"output_size": (2,) * 4}, "is not understood")


class _AdaptiveAvgPool(_Adaptive, AlongAxes, Formatted):
    dependence = LINEAR

    def bands(self, shape: Sequence[int]) -> Mapping[int, Bands]:
        pairs = zip(shape[2:], self.sizes(shape[2:]), strict=True)
        return {i: cached(_mean, n, m) for i, (n, m) in enumerate(pairs, 2) if n != m}


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of as many windows as are asked for.

    y[n, c, p] = mean x[n, c, ⌊p·L/m⌋ … ⌈(p + 1)·L/m⌉ − 1], for m = output_size

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.adaptive_avg_pool1d(g.constant([[[1.0, 2.0, 6.0]]]), 2)
    >>> g.output({}, y)["adaptive_avg_pool1d"].tolist()
    [[[1.5, 4.0]]]
    """

    n_axes = 1
    data_format: str = IMAGES[1]


AlongAxesGrad.example = AdaptiveAvgPool1d


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of as many windows as are asked for (He et al. 2014).

    y[n, c, p, q] = mean x[n, c, ⌊p·H/m⌋ … ⌈(p + 1)·H/m⌉ − 1, …], for m = output_size[0]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.adaptive_avg_pool2d(g.constant([[[[1.0, 2.0, 6.0]]]]), (1, 2))
    >>> g.output({}, y)["adaptive_avg_pool2d"].tolist()
    [[[[1.5, 4.0]]]]
    """

    n_axes = 2
    data_format: str = IMAGES[2]


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of as many windows as are asked for.

    y[n, c, p, q, r] = mean x[n, c, ⌊p·D/m⌋ … ⌈(p + 1)·D/m⌉ − 1, …], for m = output_size[0]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.adaptive_avg_pool3d(g.constant([[[[[1.0, 2.0, 6.0]]]]]), (1, 1, 2))
    >>> g.output({}, y)["adaptive_avg_pool3d"].tolist()
    [[[[[1.5, 4.0]]]]]
    """

    n_axes = 3
    data_format: str = IMAGES[3]


class _AdaptiveMaxPool(_Adaptive, Formatted):
    def expand(self, x: Any) -> Any:
        pairs = list(zip(x.shape[2:], self.sizes(x.shape[2:]), strict=True))
        if all(isinstance(n, int) and isinstance(m, int) and n % m == 0 for n, m in pairs):
            pool = {1: MaxPool1d, 2: MaxPool2d, 3: MaxPool3d}[self.n_axes]
            return pool(kernel_size=tuple(n // m for n, m in pairs))(x)
        at = AdaptivePlaces(output_size=self.output_size)(x)
        found = TakeAlongAxis(axis=2)(x.flatten(2), at.flatten(2))
        return found.reshape(at.shape)


class AdaptivePlaces(_Adaptive):
    """Place of the largest element of each window of an adaptive pooling, the first of equal ones.

    y[n, c, p, …] = row-major number, in its channel, of the element argmax x[n, c] of window p, …

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[1.0, 2.0, 6.0]]])
    >>> g.output({}, AdaptivePlaces(output_size=2)(x, name="y"))["y"].tolist()
    [[[1, 2]]]
    """

    namespace = "inner"
    drawing = "math"

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_images(self, x)
        return TensorSpec((*x.shape[:2], *self.sizes(x.shape[2:])), "int64")

    def forward(self, x: Any) -> Any:
        size = x.shape[2:]
        n_out = self.infer(TensorSpec(x.shape)).shape[2:]
        place = places_of(size, n_out)
        best = x.reshape(*x.shape[:2], math.prod(size))[..., place].argmax(-1)
        grid = np.indices(best.shape[2:], sparse=True)
        return place[(*grid, best)]

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((1, 2, 5)),), {"output_size": 3})
        yield Sample((np.zeros((1, 1, 5, 2)),), {"output_size": (2, None)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((1, 2)),), {"output_size": 2}, "takes images")
        yield ErrorSample((TensorSpec((1, 2, 3)),), {"output_size": (2, 2)}, "is not understood")
        yield ErrorSample((TensorSpec((1, 2, 3)),), {"output_size": -1}, "is not understood")


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Largest elements of as many windows as are asked for; the first of equal ones counts.

    y[n, c, p] = max x[n, c, ⌊p·L/m⌋ … ⌈(p + 1)·L/m⌉ − 1], for m = output_size

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.adaptive_max_pool1d(g.constant([[[1.0, 2.0, 6.0]]]), 2)
    >>> g.output({}, y)["adaptive_max_pool1d"].tolist()
    [[[2.0, 6.0]]]
    """

    n_axes = 1
    data_format: str = IMAGES[1]


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Largest elements of as many windows as are asked for; the first of equal ones counts.

    y[n, c, p, q] = max x[n, c, ⌊p·H/m⌋ … ⌈(p + 1)·H/m⌉ − 1, …], for m = output_size[0]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.adaptive_max_pool2d(g.constant([[[[1.0, 2.0, 6.0]]]]), (1, 2))
    >>> g.output({}, y)["adaptive_max_pool2d"].tolist()
    [[[[2.0, 6.0]]]]
    """

    n_axes = 2
    data_format: str = IMAGES[2]


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Largest elements of as many windows as are asked for; the first of equal ones counts.

    y[n, c, p, q, r] = max x[n, c, ⌊p·D/m⌋ … ⌈(p + 1)·D/m⌉ − 1, …], for m = output_size[0]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.adaptive_max_pool3d(g.constant([[[[[1.0, 2.0, 6.0]]]]]), (1, 1, 2))
    >>> g.output({}, y)["adaptive_max_pool3d"].tolist()
    [[[[[2.0, 6.0]]]]]
    """

    n_axes = 3
    data_format: str = IMAGES[3]

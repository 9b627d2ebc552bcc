"""Reading images between their elements, at coordinates that may themselves be learned.

A value at a coordinate is a weighted sum of the elements around it, its taps. Numbers and weights
of the taps are small graphs of the coordinates (``taps``), one axis at a time; what they take from
the image is one op, ``WeightedRows``, which makes the form T(x, w, g) = Σ g[p]·w[p, k]·x[i[p, k]].
Its three derivatives are each other's gradients, as those of a convolution are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import LINEAR, ZERO, Cotangent, ErrorSample, Op, Sample
from ...spec import AnyDim, TensorSpec, differ, kind, promote
from ..arithmetic.division import Mod
from ..core.choice import Clip, Where
from ..core.comparison import Floor, Round
from ..core.creation import Arange
from ..core.elementwise import Abs
from ..core.index import add_rows, places
from ..core.joining import Stack
from ..core.like import OnesLike, ShapeOf
from ..core.movement import Cast
from ..core.special import widened
from .windows import check_cotangent, chunks

Array = np.ndarray[Any, Any]

FEW = 64
"""Up to so many channels, counting places channel by channel is the faster sum: 3 times for 16."""


def _check_taps(index: TensorSpec, weight: TensorSpec, *floats: TensorSpec) -> None:
    if wrong := [s for s in floats if kind(s.dtype) != "f"]:
        raise DTypeError(f"rows hold floats, not {wrong[0].dtype}", need="f32")
    if kind(index.dtype) not in "iu":
        raise DTypeError(f"rows are numbered by integers, not {index.dtype}", need="i64[P, K]")
    if index.rank != 2 or weight.rank != 2 or any(map(differ, index.shape, weight.shape)):
        raise ShapeError("weights do not fit the taps", need=f"f32[P, K], {index.shape}")


class WeightedRows(Op):
    """Weighted sums of rows.

    y[p] = Σₖ weight[p, k]·x[index[p, k]]

    x: f32[R, C], index: i64[P, K], weight: f32[P, K], y: f32[P, C]. Raises IndexError for rows that
    x does not have; negative ones count from the end.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, i, w = (g.constant(v) for v in ([[1.0], [3.0]], [[0, 1]], [[0.5, 0.5]]))
    >>> g.output({}, WeightedRows()(x, i, w, name="y"))["y"].tolist()
    [[2.0]]
    """

    namespace = "inner"
    drawing = "math"
    dependence = LINEAR

    def infer(self, x: TensorSpec, index: TensorSpec, weight: TensorSpec) -> TensorSpec:
        _check_taps(index, weight, x, weight)
        if x.rank != 2:
            raise ShapeError("rows are those of a matrix", need="f32[R, C]")
        return TensorSpec((index.shape[0], x.shape[1]), promote(x.dtype, weight.dtype))

    def forward(self, x: Any, index: Any, weight: Any) -> Any:
        dtype = promote(x.dtype, weight.dtype)
        x, weight = widened(x.astype(dtype, copy=False)), widened(weight.astype(dtype, copy=False))
        index = places((len(x),), (index,))
        y = np.zeros((len(index), x.shape[1]), x.dtype)
        for part in chunks(len(index), 2 * x[:1].nbytes):
            for k in range(index.shape[1]):
                y[part] += weight[part, k, None] * x[index[part, k]]
        return y.astype(dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x, index, weight) = gs, xs
        return (
            lambda: WeightedRowsAdd()(g, index, weight, x),
            ZERO,
            lambda: RowProducts()(g, x, index),
        )

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        index = np.array([[0, 3], [2, 2], [1, 0]])
        yield Sample((rng.standard_normal((4, 2)), index, rng.standard_normal((3, 2))))
        none = np.zeros((0, 2), np.int64)
        yield Sample((rng.standard_normal((1, 2)), none, rng.standard_normal((0, 2))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, index = TensorSpec((4, 2)), TensorSpec((3, 2), "int64")
        yield ErrorSample((x, index, TensorSpec((3, 3))), {}, "weights do not fit")
        yield ErrorSample((x, TensorSpec((3, 2)), TensorSpec((3, 2))), {}, "numbered by integers")
        yield ErrorSample((TensorSpec((4,)), index, TensorSpec((3, 2))), {}, "of a matrix")


class WeightedRowsAdd(Op):
    """Rows to which weighted rows are added: what a row gave is given back to it.

    dx[r] = Σ weight[p, k]·g[p] over all p, k with index[p, k] = r; x gives the shape

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> dy, i, w, x = (g.constant(v) for v in ([[4.0]], [[0, 1]], [[0.5, 0.25]], [[0.0], [0.0]]))
    >>> g.output({}, WeightedRowsAdd()(dy, i, w, x, name="dx"))["dx"].tolist()
    [[2.0], [1.0]]
    """

    namespace = "gradient"
    drawing = "math"
    shape_only = (3,)
    dependence = LINEAR

    def infer(
        self, g: TensorSpec, index: TensorSpec, weight: TensorSpec, x: TensorSpec
    ) -> TensorSpec:
        check_cotangent(g, WeightedRows().infer(x, index, weight))
        return TensorSpec(x.shape, promote(g.dtype, weight.dtype))

    def forward(self, g: Any, index: Any, weight: Any, x: Any) -> Any:
        dtype = promote(g.dtype, weight.dtype)
        g, weight = widened(g.astype(dtype, copy=False)), widened(weight.astype(dtype, copy=False))
        n, channels = len(x), g.shape[1]
        at = places((n,), (index.reshape(-1),))
        if channels > FEW:
            rows = (weight[:, :, None] * g[:, None]).reshape(at.size, channels)
            return add_rows(n, at, rows).astype(dtype, copy=False)
        dx = np.empty((channels, n), dtype)
        for channel, column in enumerate(np.ascontiguousarray(g.T)):
            dx[channel] = np.bincount(at, (weight * column[:, None]).reshape(-1), n)
        return dx.T

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (h,), (g, index, weight, _) = gs, xs
        return (
            lambda: WeightedRows()(h, index, weight),
            ZERO,
            lambda: RowProducts()(g, h, index),
            ZERO,
        )

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in WeightedRows.samples(rng):
            x, index, weight = sample.inputs
            yield Sample((rng.standard_normal((len(index), x.shape[1])), index, weight, x))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, index = TensorSpec((4, 2)), TensorSpec((3, 2), "int64")
        yield ErrorSample((x, index, TensorSpec((3, 2)), x), {}, "the cotangent does not fit")


class RowProducts(Op):
    """Products of rows: how each tap's row goes with the row it helps to make.

    dw[p, k] = Σ_c g[p, c]·x[index[p, k], c]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> dy, x, i = (g.constant(v) for v in ([[4.0]], [[1.0], [3.0]], [[0, 1]]))
    >>> g.output({}, RowProducts()(dy, x, i, name="dw"))["dw"].tolist()
    [[4.0, 12.0]]
    """

    namespace = "gradient"
    drawing = "math"
    dependence = LINEAR

    def infer(self, g: TensorSpec, x: TensorSpec, index: TensorSpec) -> TensorSpec:
        _check_taps(index, index, g, x)
        y = TensorSpec((index.shape[0], x.shape[-1] if x.rank else 0))
        check_cotangent(g, y)
        return TensorSpec(index.shape, promote(g.dtype, x.dtype))

    def forward(self, g: Any, x: Any, index: Any) -> Any:
        dtype = promote(g.dtype, x.dtype)
        g, x = widened(g.astype(dtype, copy=False)), widened(x.astype(dtype, copy=False))
        index = places((len(x),), (index,))
        dw = np.zeros(index.shape, g.dtype)
        for part in chunks(len(index), 2 * x[:1].nbytes):
            for k in range(index.shape[1]):
                dw[part, k] = np.einsum("pc,pc->p", g[part], x[index[part, k]])
        return dw.astype(dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (h,), (g, x, index) = gs, xs
        return (
            lambda: WeightedRows()(x, index, h),
            lambda: WeightedRowsAdd()(g, index, h, x),
            ZERO,
        )

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in WeightedRows.samples(rng):
            x, index, _ = sample.inputs
            yield Sample((rng.standard_normal((len(index), x.shape[1])), x, index))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, index = TensorSpec((4, 2)), TensorSpec((3, 2), "int64")
        yield ErrorSample((x, x, index), {}, "the cotangent does not fit")


# -- taps of coordinates, as graphs ------------------------------------------------------------


def length(x: Any, axis: int, dtype: Any = "int64") -> Any:
    """Return the size of an axis as a tensor."""
    return Cast(dtype=dtype)(ShapeOf()(x)[axis])


def positions(n: AnyDim, dtype: Any = "int64") -> Any:
    """Return 0, 1, …, n − 1."""
    return Arange(start=0, stop=n, step=1, dtype=dtype)()


def reflected(u: Any, low: Any, high: Any) -> Any:
    """Return coordinates reflected at both ends until they lie between them."""
    span = high - low
    wide = Where()(span > 0, span, 1)
    return Where()(span > 0, low + wide - Abs()(Mod()(u - low, 2 * wide) - wide), low)


def edged(u: Any, n: Any, padding: str, corners: bool) -> Any:
    """Return coordinates brought into an image of ``n`` elements as its padding says."""
    if padding == "zeros":
        return u
    if padding == "reflection":
        u = reflected(u, 0 * n, n - 1) if corners else reflected(u, 0 * n - 0.5, n - 0.5)
    return Clip()(u, 0 * n, n - 1)


def taps(u: Any, n: Any, mode: str, padding: str = "zeros", corners: bool = False) -> Any:
    """Return numbers and weights of the elements around coordinates, along a new last axis.

    ``u`` is in elements, ``n`` the image's size, a tensor of its dtype; ``mode`` nearest, linear or
    cubic. Beyond the edge lie zeros, the edge, or the image reflected at corners or at edges.
    """
    if mode != "cubic":
        u = edged(u, n, padding, corners)
    if mode == "nearest":
        places = Round()(u)
        index, weight = Stack(axis=-1)(places), Stack(axis=-1)(OnesLike()(u))
    else:
        base = Floor()(u)
        f = u - base
        if mode == "linear":
            weights, first = [1 - f, f], 0
        else:
            weights, first = cubic_weights(f), -1
        index = Stack(axis=-1)(*(base + (first + k) for k in range(len(weights))))
        weight = Stack(axis=-1)(*weights)
    if mode == "cubic":
        index = edged(index, n, padding, corners)
    inside = (index >= 0) & (index < n)
    index = Cast(dtype="int64")(Where()(inside, index, 0))
    return index, Where()(inside, weight, 0)


def cubic_weights(f: Any) -> list[Any]:
    """Return the weights of four elements for a fraction: cubic convolution with a = −3/4."""
    a = -0.75
    far, near = 1 + f, 1 - f
    return [
        ((a * far - 5 * a) * far + 8 * a) * far - 4 * a,
        ((a + 2) * f - (a + 3)) * f * f + 1,
        ((a + 2) * near - (a + 3)) * near * near + 1,
        ((a * (1 + near) - 5 * a) * (1 + near) + 8 * a) * (1 + near) - 4 * a,
    ]


def product(along: Sequence[tuple[Any, Any]], lengths: Sequence[Any]) -> tuple[Any, Any]:
    """Return row-major numbers and weights of all combinations of the taps of several axes."""
    index, weight = along[0]
    for (i, w), n in zip(along[1:], lengths[1:], strict=True):
        index = _joined((index * n).expand_dims(-1) + i.expand_dims(-2))
        weight = _joined(weight.expand_dims(-1) * w.expand_dims(-2))
    return index, weight


def _joined(t: Any) -> Any:
    """Return a tensor with its last two axes made one."""
    return t.reshape(*t.shape[:-2], t.shape[-2] * t.shape[-1])


def pixel_rows(x: Any) -> Any:
    """Return images ``[N, C, *size]`` as rows of channels, ``[N·size, C]``."""
    rows = x.transpose(0, *range(2, x.rank), 1)
    return rows.reshape(x.shape[0] * math.prod(x.shape[2:]), x.shape[1])


def sampled(rows: Any, index: Any, weight: Any) -> Any:
    """Return weighted sums of rows, ``[*shape, C]`` for taps ``[*shape, K]``."""
    *shape, k = index.shape
    flat = (math.prod(shape), k)
    y = WeightedRows()(rows, index.reshape(flat), Cast(dtype=rows.dtype)(weight).reshape(flat))
    return y.reshape(*shape, rows.shape[1])

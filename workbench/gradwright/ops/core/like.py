"""Ops that take another tensor's shape, not its values: they keep no buffer alive."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import AFFINE, LINEAR, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, differ, dtype, kind, normalize_axes
from ...spec.rounding import rounded
from ..numerics.summing import add_up
from .special import widened


class _Like(Op):
    """A tensor of the input's shape, filled with one number."""

    namespace = "base"
    shape_only = (0,)
    fill = 0

    def infer(self, x: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    def forward(self, x: Any) -> Any:
        return np.full(x.shape, self.fill, x.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((2, 3), (), (0,)):
            yield Sample((rng.standard_normal(shape),))


class ZerosLike(_Like):
    """Zeros of the input's shape and dtype.

    yᵢ = 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.zeros_like(g.constant([3.0, 4.0]))
    >>> g.output({}, y)["zeros_like"].tolist()
    [0.0, 0.0]
    """

    drawing = "shape"


class OnesLike(_Like):
    """Ones of the input's shape and dtype.

    yᵢ = 1

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.ones_like(g.constant([3.0, 4.0]))
    >>> g.output({}, y)["ones_like"].tolist()
    [1.0, 1.0]
    """

    drawing = "shape"
    fill = 1


class IotaLike(_Like):
    """Numbers of the elements of the input, in row-major order.

    y.ravel()[i] = i : i64
    """

    namespace = "gradient"

    def infer(self, x: TensorSpec) -> TensorSpec:
        return x.with_dtype("int64")

    def forward(self, x: Any) -> Any:
        return np.arange(x.size).reshape(x.shape)


class SumLike(Op):
    """Sum ``x`` over the axes along which ``like`` was broadcast to it: broadcasting undone.

    yᵢ = Σ over the broadcast axes of x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sum_like(g.constant([[1.0, 2.0], [3.0, 4.0]]), g.constant([0.0, 0.0]))
    >>> g.output({}, y)["sum_like"].tolist()
    [4.0, 6.0]
    """

    namespace = "base"
    drawing = "reduce"
    shape_only = (1,)
    dependence = LINEAR

    def infer(self, x: TensorSpec, like: TensorSpec) -> TensorSpec:
        if like.rank > x.rank or any(
            d != 1 and differ(d, e)
            for d, e in zip(reversed(like.shape), reversed(x.shape), strict=False)
        ):
            raise ShapeError("sum_like cannot undo this broadcast", need="like broadcastable to x")
        return x.with_shape(like.shape)

    def alias_of(self, specs: Sequence[TensorSpec | None]) -> int | None:
        x, like = specs
        assert x is not None and like is not None
        return 0 if x.shape == like.shape else None

    def forward(self, x: Any, like: Any) -> Any:
        lead = x.ndim - like.ndim
        axes = tuple(range(lead)) + tuple(
            lead + i for i, d in enumerate(like.shape) if d == 1 and x.shape[lead + i] != 1
        )
        if not axes:
            return x.reshape(like.shape).copy()
        wide = widened(x) if kind(x.dtype) == "f" else x
        return np.asarray(add_up(wide, axes)).reshape(like.shape).astype(x.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return BroadcastLike()(gs[0], xs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, like in (
            ((2, 3), (3,)),
            ((2, 3), (2, 1)),
            ((2, 3), ()),
            ((2,), (2,)),
            ((0, 3), (1, 3)),
        ):
            yield Sample((rng.standard_normal(shape), np.zeros(like)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2,))), {}, "cannot undo this broadcast")


class BroadcastLike(Op):
    """Broadcast ``x`` to the shape of ``like``.

    y = x, repeated along the axes that ``x`` lacks

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.broadcast_like(g.constant([1, 2]), g.constant([[0, 0], [0, 0]]))
    >>> g.output({}, y)["broadcast_like"].tolist()
    [[1, 2], [1, 2]]
    """

    namespace = "base"
    drawing = "shape"
    never_fails = True
    shape_only = (1,)
    views = True
    dependence = AFFINE

    def infer(self, x: TensorSpec, like: TensorSpec) -> TensorSpec:
        SumLike().infer(like, x)
        return x.with_shape(like.shape)

    def alias_of(self, specs: Sequence[TensorSpec | None]) -> int | None:
        x, like = specs
        assert x is not None and like is not None
        return 0 if x.shape == like.shape else None

    def forward(self, x: Any, like: Any) -> Any:
        return np.broadcast_to(x, like.shape)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return SumLike()(gs[0], xs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, like in (((3,), (2, 3)), ((2, 1), (2, 3)), ((), (2,)), ((1,), (0,))):
            yield Sample((rng.standard_normal(shape), np.zeros(like)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2, 3))), {}, "cannot undo this broadcast")


class ReshapeLike(Op):
    """Give ``x`` the shape of ``like``; both have the same number of elements.

    y = x, read in row-major order

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.reshape_like(g.constant([1, 2, 3, 4]), g.constant([[0, 0], [0, 0]]))
    >>> g.output({}, y)["reshape_like"].tolist()
    [[1, 2], [3, 4]]
    """

    namespace = "base"
    drawing = "shape"
    shape_only = (1,)
    views = True
    dependence = LINEAR

    def infer(self, x: TensorSpec, like: TensorSpec) -> TensorSpec:
        if x.is_concrete and like.is_concrete and x.size != like.size:
            raise ShapeError(
                "reshape_like changes the number of elements", need=f"{x.size} elements"
            )
        return x.with_shape(like.shape)

    def alias_of(self, specs: Sequence[TensorSpec | None]) -> int | None:
        x, like = specs
        assert x is not None and like is not None
        return 0 if x.shape == like.shape else None

    def forward(self, x: Any, like: Any) -> Any:
        return x.reshape(like.shape)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ReshapeLike()(gs[0], xs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)), np.zeros((3, 2))))
        yield Sample((rng.standard_normal((1, 1)), np.zeros(())))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((4,))), {}, "number of elements")


class ShapeOf(Op):
    """Shape of a tensor as an integer vector.

    y = (d₀, …, dᵣ₋₁) : i64[r]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> gw.shape_of(x).spec.value.tolist(), x.reshape(gw.shape_of(x)[::-1]).shape
    ([B, 3], (3, B))
    """

    namespace = "base"
    drawing = "shape"
    by_reference = "s"
    shape_only = (0,)
    onnx = OnnxRule("Shape", since=1)

    def infer(self, x: TensorSpec) -> TensorSpec:
        return TensorSpec(
            (x.rank,), "int64", np.array(x.shape, object if not x.is_concrete else np.int64)
        )

    def forward(self, x: Any) -> Any:
        return np.array(x.shape, np.int64)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 0, 3)),))
        yield Sample((rng.standard_normal(()),))


class SizeOf(Op):
    """Number of elements, in all or along some axes, as a scalar.

    y = Π d over the axes

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.size_of(g.constant([[1, 2, 3]]))
    >>> g.output({}, y)["size_of"].tolist()
    3
    """

    namespace = "base"
    drawing = "shape"
    by_reference = "s"
    shape_only = (0,)
    axis: int | tuple[int, ...] | None = attr(None, doc="Axes that count; None counts all.")
    dtype: np.dtype[Any] = attr(dtype("int64"), doc="Dtype of the result.")
    onnx = OnnxRule("Size", since=1)

    def count(self, shape: Sequence[Any]) -> Any:
        """Return the number of elements that a shape has along the axes."""
        return math.prod(shape[a] for a in normalize_axes(self.axis, len(shape)))

    def infer(self, x: TensorSpec) -> TensorSpec:
        n = self.count(x.shape)
        return TensorSpec((), self.dtype, np.array(n) if self.dtype.kind in "iu" else None)

    def forward(self, x: Any) -> Any:
        return rounded(self.count(x.shape), self.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 4)),))
        yield Sample((rng.standard_normal((2, 0, 4)),), {"axis": (0, -1), "dtype": "float64"})
        yield Sample((rng.standard_normal(()),), {"axis": ()})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"axis": 2}, "out of range")

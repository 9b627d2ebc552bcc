"""Reductions over axes, and running sums."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import LINEAR, ROWS, Autocast, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, at_least_float32, dtype, kind, normalize_axes, normalize_axis
from ..numerics.standard import cast, dtype_of, library
from ..numerics.summing import add_up, running_sums
from .joining import Concat
from .like import BroadcastLike, OnesLike, SizeOf
from .movement import Cast, ExpandDims, Transpose
from .reshape import Reshape

Axis = int | tuple[int, ...] | None
"""One axis, several, or None for all."""


class _Reduction(Op):
    """A reduction over some or all axes."""

    namespace = "base"
    is_method = True
    accepts: ClassVar[str] = "fc"
    needs_elements: ClassVar[bool] = False
    axis: Axis = attr(None, doc="Axis or axes to reduce; None reduces all.")
    keepdims: bool = attr(False, doc="Keep reduced axes with size 1.")

    def axes(self, rank: int) -> tuple[int, ...]:
        """Return the reduced axes, counted from the front."""
        return normalize_axes(self.axis, rank)

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) not in self.accepts:
            raise DTypeError(f"{self.name} does not take {x.dtype}")
        axes = self.axes(x.rank)
        if self.needs_elements and any(x.shape[a] == 0 for a in axes):
            raise ShapeError(f"{self.name} of no elements", need="at least one along the axis")
        keep = self.keepdims
        return x.with_shape(
            [1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes]
        )

    def kept(self, t: Any, rank: int) -> Any:
        """Put the reduced axes of ``t`` back with size 1, so that it broadcasts to the input."""
        if self.keepdims:
            return t
        axes = self.axes(rank)
        return ExpandDims(axis=axes)(t) if axes else t

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((3, 4)),))
        yield Sample((rng.standard_normal((2, 3, 4)),), {"axis": (0, -1)})
        yield Sample((rng.standard_normal((2, 3)),), {"axis": 1, "keepdims": True})
        yield Sample((rng.standard_normal(()),))
        yield Sample((rng.standard_normal((3, 0, 2)),), {"axis": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3), cls._dtype()),), {"axis": 2}, "out of range")
        if cls.needs_elements:
            yield ErrorSample((TensorSpec((2, 0), cls._dtype()),), {}, "of no elements")

    @classmethod
    def _dtype(cls) -> str:
        return "float32" if "f" in cls.accepts else "bool"


def counted(d: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a sum: 64-bit ints for bools and ints."""
    k = kind(d)
    return d if k in "fc" else dtype("uint64" if k == "u" else "int64")


def summed(d: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which a sum is computed: float32 for halves and float8."""
    return counted(d) if d.itemsize >= 4 or kind(d) != "f" else dtype("float32")


def _total(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return the sum of an array of any library; numpy's as good as a pairwise one."""
    xp = library(x)
    return (
        add_up(x, axes, keepdims=keepdims) if xp is np else xp.sum(x, axis=axes, keepdims=keepdims)
    )


class Sum(_Reduction):
    """Sum over axes; halves accumulate in float32, bools and ints in 64-bit ints.

    y = Σ x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> x.sum(axis=1).shape, str((x > 0.0).sum().spec)
    ((B,), 'i64[]')
    """

    drawing = "reduce"
    never_fails = True
    autocast = Autocast.SUM
    accepts = "buifc"
    value_rule = True
    array_api = True
    dependence = LINEAR
    onnx = OnnxRule("ReduceSum", since=13)

    def infer(self, x: TensorSpec) -> TensorSpec:
        return super().infer(x).with_dtype(counted(x.dtype))

    def forward(self, x: Any) -> Any:
        axes, keep = self.axes(x.ndim), self.keepdims
        if x.dtype == object:
            return x.sum(axes, keepdims=keep)
        found = dtype_of(x)
        y = _total(cast(x, summed(found)), axes, keep)
        return cast(y, counted(found))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (BroadcastLike()(self.kept(gs[0], xs[0].rank), xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((rng.standard_normal((0, 3)),), {"axis": 0})
        yield Sample((np.array([True, False, True]),))


class Mean(_Reduction):
    """Mean over axes; of ints as float32, halves accumulate in float32.

    y = Σ x / n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", "T", 3))
    >>> x.mean(axis=(0, 1)).shape, x.mean(axis=-1, keepdims=True).shape
    ((3,), (B, T, 1))
    """

    drawing = "reduce"
    never_fails = True
    autocast = Autocast.SUM
    accepts = "buifc"
    array_api = True
    dependence = LINEAR
    onnx = OnnxRule("ReduceMean", since=18)

    def infer(self, x: TensorSpec) -> TensorSpec:
        y = super().infer(x)
        return y if kind(x.dtype) in "fc" else y.with_dtype("float32")

    def forward(self, x: Any) -> Any:
        found = dtype_of(x)
        work = cast(x, summed(found) if kind(found) in "fc" else dtype("float64"))
        axes = self.axes(x.ndim)
        n = math.prod(x.shape[a] for a in axes)
        y = _total(work, axes, self.keepdims)
        with np.errstate(invalid="ignore"):  # the mean of nothing is NaN
            y = y / n if n else y * math.nan
        return cast(y, found if kind(found) in "fc" else dtype("float32"))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x,) = gs, xs
        return (BroadcastLike()(self.kept(g / _size(self, g, x), x.rank), x),)

    def divisor(self, *xs: Any) -> Any:
        return SizeOf(axis=self.axis)(xs[0])


def _size(op: _Reduction, g: Any, x: Any) -> Any:
    """Return the number of elements reduced to one; float32 at least, since halves end at 65504."""
    wide = at_least_float32(g.dtype)
    return SizeOf(axis=op.axis, dtype=wide)(x)


class Prod(_Reduction):
    """Product over axes; its gradient is right at zeros, too.

    y = Π x,  ∂y/∂xᵢ = Πⱼ﹙ⱼ≠ᵢ﹚ xⱼ

    Halves of the axis are multiplied with each other until one element is left, so that
    gradients of every order follow without a division.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.prod(g.constant([2.0, 3.0]))
    >>> g.output({}, y)["prod"].tolist()
    6.0
    """

    drawing = "reduce"
    autocast = Autocast.SUM
    accepts = "buifc"
    value_rule = True
    dependence = ROWS
    onnx = OnnxRule("ReduceProd", since=18)

    def infer(self, x: TensorSpec) -> TensorSpec:
        return super().infer(x).with_dtype(counted(x.dtype))

    def forward(self, x: Any) -> Any:
        if x.dtype == object:
            return x.prod(self.axes(x.ndim), keepdims=self.keepdims)
        return super().forward(x)

    def expand(self, x: Any) -> Any:
        axes = self.axes(x.rank)
        rest = [a for a in range(x.rank) if a not in axes]
        y = Transpose(axes=(*rest, *axes))(Cast(dtype=summed(x.dtype))(x))
        y = Reshape(shape=(*(x.shape[a] for a in rest), math.prod(x.shape[a] for a in axes)))(y)
        while (n := int(y.shape[-1])) > 1:
            halves = y[..., : n // 2] * y[..., n // 2 : n - n % 2]
            y = Concat(axis=-1)(halves, y[..., n - 1 :]) if n % 2 else halves
        y = y[..., 0] if n else OnesLike()(Sum(axis=-1)(y))
        shape = [1 if a in axes else d for a, d in enumerate(x.shape)]
        return Cast(dtype=counted(x.dtype))(Reshape(shape=shape)(y) if self.keepdims else y)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 1.5]]),), {"axis": 1})
        yield Sample((rng.standard_normal((2, 0)),), {"axis": -1})
        yield Sample((np.array([3, 4], np.int32),))


class _Extreme(_Reduction):
    """The largest or smallest element; equal ones share the gradient."""

    drawing = "reduce"
    accepts = "buif"
    needs_elements = True
    dependence = ROWS

    def forward(self, x: Any) -> Any:
        chosen = getattr(library(x), self.name)
        return chosen(x, axis=self.axes(x.ndim), keepdims=self.keepdims)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x,) = gs, xs
        hits = Cast(dtype=g.dtype)(x == self.kept(ys[0], x.rank))
        return (self.kept(g, x.rank) / Sum(axis=self.axis, keepdims=True)(hits) * hits,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([[1.0, 1.0, 0.0], [2.0, 3.0, 3.0]]),), {"axis": 1}, smooth=False)


class Max(_Extreme):
    """Largest element over axes; equal ones share the gradient.

    y = max x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (3,))
    >>> dx, = gw.gradients(x.max(), [x])
    >>> g.output({"x": [1.0, 2.0, 2.0]}, dx)[dx.name].tolist()
    [0.0, 0.5, 0.5]
    """

    array_api = True
    onnx = OnnxRule("ReduceMax", since=18)


class Min(_Extreme):
    """Smallest element over axes; equal ones share the gradient.

    y = min x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.min(g.constant([3, 9, 5]))
    >>> g.output({}, y)["min"].tolist()
    3
    """

    array_api = True
    onnx = OnnxRule("ReduceMin", since=18)


class Cumsum(Op):
    """Running sum along an axis; halves accumulate in float32, bools and ints in 64-bit ints.

    yᵢ = Σⱼ₍ⱼ≤ᵢ₎ xⱼ;  exclusive: j < i;  reverse: from the end

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cumsum(g.constant([1, 2, 3]), 0, exclusive=True))["cumsum"].tolist()
    [0, 1, 3]
    """

    namespace = "base"
    drawing = "reduce"
    autocast = Autocast.SUM
    is_method = True
    dependence = LINEAR
    axis: int = attr(doc="Axis to sum along.")
    reverse: bool = attr(False, doc="Sum from the end.")
    exclusive: bool = attr(False, doc="Leave out the element itself.")
    onnx = OnnxRule("CumSum", since=14)

    def infer(self, x: TensorSpec) -> TensorSpec:
        normalize_axis(self.axis, x.rank)
        return x.with_dtype(counted(x.dtype))

    def forward(self, x: Any) -> Any:
        work = x.astype(summed(x.dtype), copy=False)
        y = np.empty(x.shape, work.dtype)
        line = (slice(None),) * normalize_axis(self.axis, x.ndim)
        way = slice(None, None, -1 if self.reverse else None)
        source, target = work[(*line, way)], y[(*line, way)]
        if self.exclusive:
            target[(*line, slice(1))] = 0
            source, target = source[(*line, slice(-1))], target[(*line, slice(1, None))]
        running_sums(source, self.axis, target)
        return y.astype(counted(x.dtype), copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (self.replace(reverse=not self.reverse)(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3))
        yield Sample((x,), {"axis": 0})
        yield Sample((x,), {"axis": -1, "reverse": True, "exclusive": True})
        yield Sample((x[:, :0],), {"axis": 1, "exclusive": True})
        yield Sample((np.array([3, 4], np.int8),), {"axis": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec(()),), {"axis": 0}, "out of range")

"""Running products, extremes and logarithms of sums along an axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError
from ...op import ROWS, ZERO, Autocast, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, kind, normalize_axis
from ..core.choice import Where
from ..core.elementwise import conj
from ..core.exponential import Exp
from ..core.reduce import counted, summed
from ..core.scatter import TakeAlongAxisGrad
from ..core.special import widened
from .recurrence import LinearScan, Shift


class Cumprod(Op):
    """Running product along an axis; its gradient is right at zeros, too.

    yᵢ = Πⱼ₍ⱼ≤ᵢ₎ xⱼ;  exclusive: j < i;  reverse: from the end

    The gradient is a product of two linear recurrences, without a division. Halves accumulate in
    float32, bools and ints in 64-bit ints.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cumprod(g.constant([2, 3, 4]), 0, exclusive=True, name="y"))["y"].tolist()
    [1, 2, 6]
    """

    namespace = "base"
    autocast = Autocast.SUM
    dependence = ROWS
    axis: int = attr(doc="Axis to multiply along.")
    reverse: bool = attr(False, doc="Multiply from the end.")
    exclusive: bool = attr(False, doc="Leave out the element itself.")
    onnx = OnnxRule("CumProd", since=26, inputs=("axis",))

    def infer(self, x: TensorSpec) -> TensorSpec:
        normalize_axis(self.axis, x.rank)
        return x.with_dtype(counted(x.dtype))

    def forward(self, x: Any) -> Any:
        work = np.moveaxis(x.astype(summed(x.dtype), copy=False), self.axis, 0)
        work = work[::-1] if self.reverse else work
        y = np.ones((len(work) + 1, *work.shape[1:]), work.dtype)
        np.cumprod(work, 0, out=y[1:])
        y = y[:-1] if self.exclusive else y[1:]
        y = y[::-1] if self.reverse else y
        return np.moveaxis(y, 0, self.axis).astype(counted(x.dtype))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x,) = gs, xs
        on = Shift(axis=self.axis, back=not self.reverse)
        before = self.replace(exclusive=True)(x)
        back = LinearScan(axis=self.axis, reverse=not self.reverse)
        after = back(on(conj(x)), on(g) if self.exclusive else g)
        return (conj(before) * after,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 4))
        yield Sample((x,), {"axis": -1})
        yield Sample((x,), {"axis": 1, "reverse": True, "exclusive": True})
        yield Sample((np.array([2.0, 0.0, 3.0, 0.0, -1.0]),), {"axis": 0})
        yield Sample((np.array([2.0, 0.0, 3.0]),), {"axis": 0, "exclusive": True})
        yield Sample((x[:, :0],), {"axis": 1, "reverse": True})
        yield Sample((np.array([3, 4], np.int8),), {"axis": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec(()),), {"axis": 0}, "out of range")


class _Running(Op):
    """The extreme element so far, and its place."""

    namespace = "base"
    dependence = ROWS
    axis: int = attr(doc="Axis to go along.")
    chosen: ClassVar[np.ufunc]
    reaches: ClassVar[np.ufunc]

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        if kind(x.dtype) not in "uif":
            raise DTypeError(f"{self.name} does not take {x.dtype}")
        normalize_axis(self.axis, x.rank)
        return x.with_shape(x.shape), x.with_dtype("int64")

    def forward(self, x: Any) -> Any:
        wide = widened(x) if kind(x.dtype) == "f" else x
        y = self.chosen.accumulate(wide, self.axis)
        shape = [1] * x.ndim
        shape[self.axis] = -1
        number = np.arange(x.shape[self.axis]).reshape(shape)
        hit = self.reaches(wide, y) | (wide != wide)
        place = np.maximum.accumulate(np.where(hit, number, 0), self.axis)
        return y.astype(x.dtype, copy=False), place

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        if gs[0] is ZERO:
            return (ZERO,)
        return (TakeAlongAxisGrad(axis=self.axis)(gs[0], ys[1], xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 4))
        yield Sample((x,), {"axis": 1})
        yield Sample((x[:, :0],), {"axis": -1})
        yield Sample((np.array([2, 1, 2, 3], np.uint8),), {"axis": 0})
        yield Sample((np.array([1.0, np.nan, 2.0, 0.0]),), {"axis": 0}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"axis": 1}, "out of range")
        yield ErrorSample((TensorSpec((2,), "bool"),), {"axis": 0}, "does not take bool")


class Cummax(_Running):
    """Largest element so far along an axis, and its place; of equal ones, the last.

    yᵢ = maxⱼ₍ⱼ≤ᵢ₎ xⱼ = x[indicesᵢ]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> values, places = gw.cummax(g.constant([1, 3, 2]), 0)
    >>> [y.tolist() for y in g.output({}, values, places).values()]
    [[1, 3, 3], [0, 1, 1]]
    """

    returns = "values", "indices"
    chosen = np.maximum
    reaches = np.greater_equal


class Cummin(_Running):
    """Smallest element so far along an axis, and its place; of equal ones, the last.

    yᵢ = minⱼ₍ⱼ≤ᵢ₎ xⱼ = x[indicesᵢ]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> values, places = gw.cummin(g.constant([2, 3, 1]), 0)
    >>> [y.tolist() for y in g.output({}, values, places).values()]
    [[2, 2, 1], [0, 0, 2]]
    """

    returns = "values", "indices"
    chosen = np.minimum
    reaches = np.less_equal


class Logcumsumexp(Op):
    """Logarithm of the running sum of exponentials, safe from overflow.

    yᵢ = ln Σⱼ₍ⱼ≤ᵢ₎ exp xⱼ

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.logcumsumexp(g.constant([1000.0, -1000.0, 1000.0]), 0, name="y")
    >>> g.output({}, y)["y"].round(2).tolist()
    [1000.0, 1000.0, 1000.6900024414062]
    """

    namespace = "base"
    autocast = Autocast.POWER
    dependence = ROWS
    axis: int = attr(doc="Axis to go along.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) != "f":
            raise DTypeError(f"logcumsumexp does not take {x.dtype}")
        normalize_axis(self.axis, x.rank)
        return x

    def forward(self, x: Any) -> Any:
        y = np.logaddexp.accumulate(x.astype(np.float64), self.axis)  # float32 loses digits
        return y.astype(x.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (y,), (x,) = gs, ys, xs
        nothing = y == -math.inf
        finite = Where()(nothing, 0.0, y)  # −∞ − (−∞) is NaN
        rise = Shift(axis=self.axis, back=True)(finite - Shift(axis=self.axis)(finite))
        fall = Exp()(-Where()(nothing, 0.0, rise))
        total = LinearScan(axis=self.axis, reverse=True)(fall, g)
        return (Exp()(x - finite) * total,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3))
        yield Sample((x,), {"axis": 1})
        yield Sample((x[:0],), {"axis": 0})
        yield Sample((np.array([-900.0, 800.0, 799.0]),), {"axis": 0})
        yield Sample((np.array([-np.inf, 1.0, -np.inf]),), {"axis": 0}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"axis": 1}, "out of range")
        yield ErrorSample((TensorSpec((2,), "int64"),), {"axis": 0}, "does not take int64")

"""Norms, sums of squares and of absolute values, and clipping by a norm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import Autocast, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, at_least_float32, kind, normalize_axes
from ..core.choice import Maximum
from ..core.comparison import LogicalNot
from ..core.elementwise import Abs
from ..core.functions import Square
from ..core.like import SizeOf
from ..core.movement import Cast
from ..core.quantifiers import Argmax, Argmin, _Place
from ..core.reduce import Axis, Max, Mean, Min, Sum, _Reduction
from ..core.statistics import Norm, _Composite


class _OfSize(_Composite):
    """A reduction of the sizes of elements."""

    namespace = "math"
    is_method = False


class Norm1(_OfSize):
    """Sum of absolute values.

    y = Σ |x|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.norm1(g.constant([3.0, -4.0]), name="y"))["y"])
    7.0
    """

    autocast = Autocast.SUM
    onnx = OnnxRule("ReduceL1", since=18)

    def reduced(self, x: Any) -> Any:
        return Sum(axis=self.axis, keepdims=self.keepdims)(Abs()(x))


class NormMax(_OfSize):
    """Largest absolute value; equal ones share the gradient.

    y = max |x|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.norm_max(g.constant([3.0, -4.0]), name="y"))["y"])
    4.0
    """

    needs_elements = True

    def reduced(self, x: Any) -> Any:
        return Max(axis=self.axis, keepdims=self.keepdims)(Abs()(x))


class AbsMin(_OfSize):
    """Smallest absolute value; equal ones share the gradient.

    y = min |x|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.abs_min(g.constant([3.0, -4.0]), name="y"))["y"])
    3.0
    """

    needs_elements = True

    def reduced(self, x: Any) -> Any:
        return Min(axis=self.axis, keepdims=self.keepdims)(Abs()(x))


class AbsMean(_OfSize):
    """Mean of absolute values.

    y = Σ |x| / n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.abs_mean(g.constant([3.0, -4.0]), name="y"))["y"])
    3.5
    """

    def reduced(self, x: Any) -> Any:
        return Mean(axis=self.axis, keepdims=self.keepdims)(Abs()(x))


class SquaredNorm(_OfSize):
    """Sum of squares.

    y = Σ x²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.squared_norm(g.constant([3.0, -4.0]), name="y"))["y"])
    25.0
    """

    autocast = Autocast.SUM
    onnx = OnnxRule("ReduceSumSquare", since=18)

    def reduced(self, x: Any) -> Any:
        return Sum(axis=self.axis, keepdims=self.keepdims)(Square()(x))


class CountZero(_Reduction):
    """Number of elements that are 0.

    y = Σ [x = 0] : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.count_zero(g.constant([0, 1, 0]), name="y"))["y"])
    2
    """

    namespace = "math"
    is_method = False
    accepts: ClassVar[str] = "buifc"

    def infer(self, x: TensorSpec) -> TensorSpec:
        return super().infer(x).with_dtype("int64")

    def expand(self, x: Any) -> Any:
        zero = LogicalNot()(Cast(dtype="bool")(x))
        return Sum(axis=self.axis, keepdims=self.keepdims)(zero)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[0.0, 1.0], [np.nan, -0.0]]),), {"axis": 0})
        yield Sample((np.array([True, False]),), {"keepdims": True})
        yield Sample((np.zeros((0, 2), np.uint8),))


class ZeroFraction(CountZero):
    """Share of the elements that are 0; NaN of no elements.

    y = Σ [x = 0] / n : f32

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.zero_fraction(g.constant([0, 1, 0, 2]), name="y"))["y"])
    0.5
    """

    def infer(self, x: TensorSpec) -> TensorSpec:
        return super().infer(x).with_dtype("float32")

    def expand(self, x: Any) -> Any:
        zero = LogicalNot()(Cast(dtype="bool")(x))
        return Mean(axis=self.axis, keepdims=self.keepdims)(Cast(dtype="float32")(zero))


class _AbsPlace(_Place):
    """The place of an extreme absolute value."""

    namespace = "math"
    is_method = False
    accepts: ClassVar[str] = "uif"
    place: ClassVar[type[Op]]

    def forward(self, x: Any) -> Any:
        return Op.forward(self, x)

    def expand(self, x: Any) -> Any:
        return self.place(**self.attributes())(Abs()(x))


class ArgAbsMax(_AbsPlace):
    """Place of the largest absolute value; the first of equal ones.

    y = argmax |x| : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.arg_abs_max(g.constant([1.0, -3.0, 2.0]), name="y"))["y"])
    1
    """

    place = Argmax


class ArgAbsMin(_AbsPlace):
    """Place of the smallest absolute value; the first of equal ones.

    y = argmin |x| : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.arg_abs_min(g.constant([1.0, -3.0, 2.0]), name="y"))["y"])
    0
    """

    place = Argmin


class ClipByNorm(Op):
    """Scale a tensor down so that its norm, over some axes or all, is at most ``clip_norm``.

    y = x·c / max(‖x‖₂, c)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.clip_by_norm(g.constant([3.0, 4.0]), 1.0, name="y"))["y"].round(3).tolist()
    [0.6000000238418579, 0.800000011920929]
    """

    namespace = "math"
    axis: Axis = attr(None, doc="Axis or axes of the norm; None: all.")

    def infer(self, x: TensorSpec, clip_norm: TensorSpec) -> TensorSpec:
        if kind(x.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {x.dtype}")
        if clip_norm.rank:
            raise ShapeError("clip_norm must be a scalar", need="a 0-d tensor")
        normalize_axes(self.axis, x.rank)
        return x.with_shape(x.shape)

    def expand(self, x: Any, clip_norm: Any) -> Any:
        wide = Cast(dtype=at_least_float32(x.dtype))(x)
        limit = Cast(dtype=wide.dtype)(clip_norm)
        return Cast(dtype=x.dtype)(wide * (limit / Maximum()(self.size(wide), limit)))

    def size(self, x: Any) -> Any:
        """Return what is to be at most ``clip_norm``."""
        return Norm(axis=self.axis, keepdims=True)(x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3))
        yield Sample((x, np.array(0.2)))
        yield Sample((x, np.array(9.0)), {"axis": 1})
        yield Sample((x[:0], np.array(1.0)), {"axis": (0, 1)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2,))), {}, "clip_norm must be a scalar")
        yield ErrorSample((TensorSpec((2,), "int64"), TensorSpec(())), {}, "does not take int64")
        yield ErrorSample((TensorSpec((2,)), TensorSpec(())), {"axis": 1}, "out of range")


class ClipByAvgNorm(ClipByNorm):
    """Scale a tensor down so that its norm per element is at most ``clip_norm``.

    y = x·c / max(‖x‖₂/n, c) for n elements

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.clip_by_avg_norm(g.constant([3.0, 4.0]), 0.5, name="y")
    >>> g.output({}, y)["y"].round(3).tolist()
    [0.6000000238418579, 0.800000011920929]
    """

    def size(self, x: Any) -> Any:
        return super().size(x) / Maximum()(SizeOf(axis=self.axis, dtype=x.dtype)(x), 1.0)

"""Comparison, logic and rounding: results that jump, so that no gradient flows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...op import ZERO, Cotangent, ErrorSample, OnnxRule, Sample
from ...spec import TensorSpec, kind
from ...spec.shapes import are_equal
from ..numerics.standard import cast
from .choice import Where
from .elementwise import Abs, Conj, Real, _Binary, _Unary, by_ufunc, promoted


class _Comparison(_Binary):
    """A comparison of two tensors, which broadcast and promote first."""

    accepts = "buif"

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        return super().infer(a, b).with_dtype("bool")

    @by_ufunc
    def forward(self, a: Any, b: Any) -> Any:
        joint = promoted(a, b)
        return self.computed(cast(a, joint), cast(b, joint))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([0, 1, 2]), np.array([1, 1, 1])))
        yield Sample((np.array([np.nan, -np.inf, 0.0]), np.array([np.nan, np.inf, -0.0])))


class Less(_Comparison):
    """Whether a is smaller than b.

    y = a < b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.less(g.constant([1, 3]), 2)
    >>> g.output({}, y)["less"].tolist()
    [True, False]
    """

    element = "lt"
    ufunc = np.less
    onnx = OnnxRule("Less", since=7)


class LessEqual(_Comparison):
    """Whether a is at most b.

    y = a ≤ b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.less_equal(g.constant([2, 3]), 2)
    >>> g.output({}, y)["less_equal"].tolist()
    [True, False]
    """

    element = "le"
    ufunc = np.less_equal
    onnx = OnnxRule("LessOrEqual", since=12)


class Greater(_Comparison):
    """Whether a is larger than b.

    y = a > b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.greater(g.constant([1, 3]), 2)
    >>> g.output({}, y)["greater"].tolist()
    [False, True]
    """

    element = "gt"
    ufunc = np.greater
    onnx = OnnxRule("Greater", since=7)


class GreaterEqual(_Comparison):
    """Whether a is at least b.

    y = a ≥ b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.greater_equal(g.constant([1, 2]), 2)
    >>> g.output({}, y)["greater_equal"].tolist()
    [False, True]
    """

    element = "ge"
    ufunc = np.greater_equal
    onnx = OnnxRule("GreaterOrEqual", since=12)


class Equal(_Comparison):
    """Whether a equals b.

    y = a = b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.equal(g.constant([1, 2]), g.constant([1, 3]))
    >>> g.output({}, y)["equal"].tolist()
    [True, False]
    """

    element = "eq"
    ufunc = np.equal
    accepts = "buifcs"
    by_reference = "s"
    value_rule = True
    onnx = OnnxRule("Equal", since=7)

    @by_ufunc
    def forward(self, a: Any, b: Any) -> Any:
        if object in (a.dtype, b.dtype):  # dims
            return np.asarray(_equal_dims(a, b), bool)
        return super().forward(a, b)


_equal_dims = np.frompyfunc(are_equal, 2, 1)


class NotEqual(_Comparison):
    """Whether a differs from b.

    y = a ≠ b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.not_equal(g.constant([1, 2]), g.constant([1, 3]))
    >>> g.output({}, y)["not_equal"].tolist()
    [False, True]
    """

    element = "ne"
    ufunc = np.not_equal
    accepts = "buifcs"
    by_reference = "s"


class _Logic(_Binary):
    """A logical operation on two bool tensors."""

    accepts = "b"

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[True], [False]]), np.array([True, False])))
        yield Sample((np.array(True), np.zeros((0, 2), bool)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2,), "bool")), {}, "does not take float32")


class LogicalAnd(_Logic):
    """Whether both hold.

    y = a ∧ b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.logical_and(g.constant([True, True]), g.constant([True, False]))
    >>> g.output({}, y)["logical_and"].tolist()
    [True, False]
    """

    element = "and"
    ufunc = np.logical_and
    onnx = OnnxRule("And", since=7)


class LogicalOr(_Logic):
    """Whether at least one holds.

    y = a ∨ b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.logical_or(g.constant([False, False]), g.constant([True, False]))
    >>> g.output({}, y)["logical_or"].tolist()
    [True, False]
    """

    element = "or"
    ufunc = np.logical_or
    onnx = OnnxRule("Or", since=7)


class LogicalXor(_Logic):
    """Whether exactly one holds.

    y = a ⊕ b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.logical_xor(g.constant([True, True]), g.constant([True, False]))
    >>> g.output({}, y)["logical_xor"].tolist()
    [False, True]
    """

    element = "xor"
    ufunc = np.logical_xor
    onnx = OnnxRule("Xor", since=7)


class LogicalNot(_Unary):
    """Whether it does not hold.

    y = ¬x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.logical_not(g.constant([True, False]))
    >>> g.output({}, y)["logical_not"].tolist()
    [False, True]
    """

    element = "not"
    ufunc = np.logical_not
    accepts = "b"
    is_method = False
    onnx = OnnxRule("Not", since=1)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([True, False]),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "does not take float32")


class _Test(_Unary):
    """A question to each element of a floating tensor."""

    def infer(self, x: TensorSpec) -> TensorSpec:
        return super().infer(x).with_dtype("bool")

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([1.0, np.nan, np.inf, -np.inf]),))
        yield Sample((np.zeros((0, 2)),))


class IsNan(_Test):
    """Whether an element is not a number.

    y = x ≠ x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.is_nan(g.constant([1.0, float('nan')]))
    >>> g.output({}, y)["is_nan"].tolist()
    [False, True]
    """

    element = "isnan"
    ufunc = np.isnan
    onnx = OnnxRule("IsNaN", since=9)


class IsInf(_Test):
    """Whether an element is infinite.

    y = |x| = ∞

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.is_inf(g.constant([1.0, float('inf')]))
    >>> g.output({}, y)["is_inf"].tolist()
    [False, True]
    """

    element = "isinf"
    ufunc = np.isinf
    onnx = OnnxRule("IsInf", since=10)


class IsFinite(_Test):
    """Whether an element is neither infinite nor NaN.

    y = |x| < ∞

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.is_finite(g.constant([1.0, float('inf')]))
    >>> g.output({}, y)["is_finite"].tolist()
    [True, False]
    """

    element = "isfinite"
    ufunc = np.isfinite


class _Step(_Unary):
    """A function that is constant between its jumps."""

    accepts = "f"

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)


class Floor(_Step):
    """Largest whole number that is not above.

    y = ⌊x⌋

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.floor(g.constant([-2.0, 0.5]))
    >>> g.output({}, y)["floor"].tolist()
    [-2.0, 0.0]
    """

    element = "floor"
    ufunc = np.floor
    onnx = OnnxRule("Floor", since=6)


class Ceil(_Step):
    """Smallest whole number that is not below.

    y = ⌈x⌉

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.ceil(g.constant([-2.0, 0.5]))
    >>> g.output({}, y)["ceil"].tolist()
    [-2.0, 1.0]
    """

    element = "ceil"
    ufunc = np.ceil
    onnx = OnnxRule("Ceil", since=6)


class Round(_Step):
    """Nearest whole number; halves go to the even one.

    y = ⌊x⌉

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.round(g.constant([0.5, 1.5, -0.7])))["round"].tolist()
    [0.0, 2.0, -1.0]
    """

    element = "round"
    ufunc = np.rint
    onnx = OnnxRule("Round", since=11)


class Sign(_Step):
    """Sign: −1, 0 or 1; of a complex tensor, the number of modulus 1 in its direction, or 0.

    y = x / |x|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sign(g.constant([-2.0, 0.0, 3.0]))
    >>> g.output({}, y)["sign"].tolist()
    [-1.0, 0.0, 1.0]
    """

    element = "sign"
    ufunc = np.sign
    accepts = "uifc"
    onnx = OnnxRule("Sign", since=9)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        if kind(xs[0].dtype) != "c":
            return (ZERO,)
        (g,), (y,), size = gs, ys, Abs()(xs[0])
        along = y * Real()(Conj()(y) * g)  # what changes the modulus only
        return ((g - along) / Where()(size == 0.0, size + 1.0, size),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((rng.standard_normal(3) + 1j * rng.standard_normal(3),))

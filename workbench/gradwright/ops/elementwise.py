"""Elementwise ops that broadcast: arithmetic, comparison, logic and the usual functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ..errors import DTypeError
from ..op import Cotangent, ErrorSample, OnnxRule, Op, Sample
from ..spec import TensorSpec, broadcast, dtype, kind, promote

# Shapes every binary op is tried on: broadcast both ways, scalar, empty.
_PAIRS = (((3, 4), (3, 4)), ((3, 1), (1, 4)), ((2, 3), ()), ((0, 3), (3,)))


class _Unary(Op):
    """An op on one tensor that keeps shape and dtype."""

    namespace = "math"
    is_method = True
    accepts: ClassVar[str] = "fc"
    domain: ClassVar[tuple[float, float]] = (-2.0, 2.0)

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) not in self.accepts:
            raise DTypeError(f"{self.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        return x

    def forward(self, x: Any) -> Any:
        assert self.ufunc is not None
        return self.ufunc(x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((3, 4), (), (0, 2)):
            yield Sample((rng.uniform(*cls.domain, shape),))


class _Binary(Op):
    """An op on two tensors that broadcasts and promotes."""

    namespace = "math"
    domain: ClassVar[tuple[float, float]] = (-2.0, 2.0)

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        return TensorSpec(broadcast(a.shape, b.shape), promote(a.dtype, b.dtype))

    def forward(self, a: Any, b: Any) -> Any:
        assert self.ufunc is not None
        return self.ufunc(a, b, dtype=promoted(a, b))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for left, right in _PAIRS:
            yield Sample((rng.uniform(*cls.domain, left), rng.uniform(*cls.domain, right)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2, 4))), {}, "do not broadcast")


def promoted(a: Any, b: Any) -> Any:
    """Return the common dtype of two arrays; None for arrays of dims, which have none."""
    return None if a.dtype == object or b.dtype == object else promote(a.dtype, b.dtype)


def conj(x: Any) -> Any:
    """Return the complex conjugate of a tensor; a real one is its own."""
    return Conj()(x) if kind(x.dtype) == "c" else x


class Add(_Binary):
    """Sum of two tensors.

    y = a + b
    """

    ufunc = np.add
    value_rule = True
    is_method = True
    onnx = OnnxRule("Add", since=14)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return gs[0], gs[0]


class Sub(_Binary):
    """Difference of two tensors.

    y = a − b
    """

    ufunc = np.subtract
    value_rule = True
    is_method = True
    onnx = OnnxRule("Sub", since=14)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return gs[0], -gs[0]


class Mul(_Binary):
    """Product of two tensors, element by element.

    y = a·b
    """

    ufunc = np.multiply
    value_rule = True
    is_method = True
    onnx = OnnxRule("Mul", since=14)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        a, b = xs
        return gs[0] * conj(b), gs[0] * conj(a)


class Div(_Binary):
    """True quotient of two tensors; integers are divided as float32.

    y = a / b
    """

    ufunc = np.true_divide
    is_method = True
    domain = (0.5, 2.0)
    onnx = OnnxRule("Div", since=14)

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        spec = super().infer(a, b)
        return spec if kind(spec.dtype) in "fc" else spec.with_dtype("float32")

    def forward(self, a: Any, b: Any) -> Any:
        joint = promote(a.dtype, b.dtype)
        target = joint if kind(joint) in "fc" else dtype("float32")
        return np.true_divide(a.astype(target, copy=False), b.astype(target, copy=False))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        b = conj(xs[1])
        return gs[0] / b, -(gs[0] * conj(ys[0])) / b


class Neg(_Unary):
    """Negative.

    y = −x
    """

    ufunc = np.negative
    value_rule = True
    accepts = "ifc"
    onnx = OnnxRule("Neg", since=13)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (-gs[0],)


class Conj(_Unary):
    """Complex conjugate.

    y = Re x − i·Im x
    """

    ufunc = np.conjugate
    accepts = "c"

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (conj(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3)),))


class Real(Op):
    """Real part of a complex tensor.

    y = Re x
    """

    namespace = "math"
    is_method = True

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) != "c":
            raise DTypeError("real needs a complex tensor", need="complex64 or complex128")
        return x.with_dtype("float32" if x.dtype.itemsize == 8 else "float64")

    def forward(self, x: Any) -> Any:
        return x.real.copy()

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        from .movement import Cast

        return (Cast(dtype=xs[0].dtype)(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3)),))


class Exp(_Unary):
    """Exponential.

    y = eˣ
    """

    ufunc = np.exp
    onnx = OnnxRule("Exp", since=13)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (gs[0] * conj(ys[0]),)


class AddN(Op):
    """Sum of several tensors of one shape, in order.

    y = x₀ + x₁ + … + xₙ₋₁
    """

    namespace = "math"
    onnx = OnnxRule("Sum", since=13)

    def infer(self, *xs: TensorSpec) -> TensorSpec:
        joint = xs[0].dtype
        for x in xs[1:]:
            joint = promote(joint, x.dtype)
        return TensorSpec(broadcast(*(x.shape for x in xs)), joint)

    def forward(self, *xs: Any) -> Any:
        total = xs[0].astype(self.infer(*map(_spec, xs)).dtype)
        for x in xs[1:]:
            total = total + x
        return total.astype(self.infer(*map(_spec, xs)).dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [gs[0]] * len(xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for n in (1, 3):
            yield Sample(tuple(rng.standard_normal((2, 3)) for _ in range(n)))


def _spec(x: Any) -> TensorSpec:
    return TensorSpec(x.shape, x.dtype)

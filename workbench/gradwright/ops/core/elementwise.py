"""Elementwise ops that broadcast and promote: arithmetic and the functions all others need."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError
from ...op import AFFINE, ELEMENT, Claims, Cotangent, ErrorSample, OnnxRule, Op, Sample, find_op
from ...spec import (
    TensorSpec,
    at_least_float32,
    broadcast,
    dtype,
    is_floating,
    kind,
    promote,
)
from ..numerics.standard import STANDARD, cast, dtype_of, library
from .movement import Cast

# Shapes every binary op is tried on: broadcast both ways, scalar, empty.
_PAIRS = (((3, 4), (3, 4)), ((3, 1), (1, 4)), ((2, 3), ()), ((0, 3), (3,)))


def rounded_once(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Let a forward see halves and float8 as float32, and round its result to their dtype."""

    @functools.wraps(forward)
    def computed(self: Any, *xs: Any) -> Any:
        given = [None if x is None else dtype_of(x) for x in xs]
        wide = [None if d is None or not is_floating(d) else at_least_float32(d) for d in given]
        if all(w is None or w == d for w, d in zip(wide, given, strict=True)):
            return forward(self, *xs)
        y = forward(self, *(x if w is None else cast(x, w) for x, w in zip(xs, wide, strict=True)))
        joint = promoted(*(x for x in xs if x is not None))
        return cast(y, joint) if is_floating(dtype_of(y)) else y

    return computed


class _Elementwise(Op):
    """An op on each element; one that is a ufunc of the Array API runs on all its libraries."""

    dependence: ClassVar[Claims] = ELEMENT

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        standard = cls.ufunc in STANDARD and getattr(cls.forward, "by_ufunc", False)
        cls.array_api = vars(cls).get("array_api", standard)
        own = vars(cls).get("forward")
        if own is not None and not getattr(own, "by_ufunc", False):
            cls.forward = rounded_once(own)  # type: ignore[method-assign]

    def computed(self, *xs: Any) -> Any:
        """Return what the ufunc makes of arrays of one dtype and library."""
        assert self.ufunc is not None
        if library(xs[0]) is np:
            return self.ufunc(*xs)
        return getattr(library(xs[0]), STANDARD[self.ufunc])(*xs)


def by_ufunc(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a forward that does what the op's ufunc does, by the name it has in the standard."""
    forward.by_ufunc = True  # type: ignore[attr-defined]
    return forward


class _Unary(_Elementwise):
    """An op on one tensor that keeps shape and dtype."""

    namespace = "math"
    is_method = True
    accepts: ClassVar[str] = "fc"
    domain: ClassVar[tuple[float, float]] = (-2.0, 2.0)

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) not in self.accepts:
            raise DTypeError(f"{self.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        return x

    @by_ufunc
    def forward(self, x: Any) -> Any:
        return self.computed(x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((3, 4), (), (0, 2)):
            yield Sample((rng.uniform(*cls.domain, shape),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,), "bool"),), {}, "does not take bool")


class Function(_Unary, abstract=True):
    """A differentiable function of each element, given by its derivative."""

    def slope(self, x: Any, y: Any) -> Any:
        """Return dy/dx as a tensor."""
        raise NotImplementedError

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (gs[0] * conj(self.slope(xs[0], ys[0])),)


class Inverse(_Unary, abstract=True):
    """A differentiable function of each element, given by what cotangents are divided by."""

    def divisor(self, x: Any) -> Any:
        """Return dx/dy as a tensor."""
        raise NotImplementedError

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (gs[0] / conj(self.divisor(xs[0])),)


class _Binary(_Elementwise):
    """An op on two tensors that broadcasts and promotes."""

    namespace = "math"
    accepts: ClassVar[str] = "buifc"
    domain: ClassVar[tuple[float, float]] = (-2.0, 2.0)

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        joint = promote(a.dtype, b.dtype)
        if kind(joint) not in self.accepts:
            raise DTypeError(f"{self.name} does not take {joint}")
        return TensorSpec(broadcast(a.shape, b.shape), joint)

    @by_ufunc
    def forward(self, a: Any, b: Any) -> Any:
        joint = promoted(a, b)
        return self.computed(cast(a, joint), cast(b, joint))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for left, right in _PAIRS:
            yield Sample((rng.uniform(*cls.domain, left), rng.uniform(*cls.domain, right)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2, 4))), {}, "do not broadcast")
        if "c" not in cls.accepts:
            complexes = TensorSpec((2,), "complex64")
            yield ErrorSample((complexes, complexes), {}, "does not take complex64")


def promoted(*xs: Any) -> np.dtype[Any]:
    """Return the common dtype of arrays; object where one holds dims."""
    joint = dtype_of(xs[0])
    for x in xs[1:]:
        both = object in (joint, x.dtype)
        joint = np.dtype(object) if both else promote(joint, dtype_of(x))
    return joint


def conj(x: Any) -> Any:
    """Return the complex conjugate of a tensor; a real one is its own."""
    return Conj()(x) if kind(x.dtype) == "c" else x


class Add(_Binary):
    """Sum of two tensors.

    y = a + b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 1))
    >>> (x + g.constant([1.0, 2.0])).shape
    (B, 2)
    """

    element = "add"
    ufunc = np.add
    value_rule = True
    is_method = True
    dependence = AFFINE
    onnx = OnnxRule("Add", since=7)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return gs[0], gs[0]


class Sub(_Binary):
    """Difference of two tensors.

    y = a − b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sub(g.constant([1.0, 2.0]), 10.0)
    >>> g.output({}, y)["sub"].tolist()
    [-9.0, -8.0]
    """

    element = "sub"
    ufunc = np.subtract
    accepts = "uifc"
    value_rule = True
    is_method = True
    dependence = AFFINE
    onnx = OnnxRule("Sub", since=7)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return gs[0], lambda: -gs[0]


class Mul(_Binary):
    """Product of two tensors, element by element.

    y = a·b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.mul(g.constant([1.0, 2.0]), 10.0)
    >>> g.output({}, y)["mul"].tolist()
    [10.0, 20.0]
    """

    element = "mul"
    ufunc = np.multiply
    value_rule = True
    is_method = True
    dependence = AFFINE
    onnx = OnnxRule("Mul", since=7)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        a, b = xs
        return lambda: gs[0] * conj(b), lambda: gs[0] * conj(a)


class Div(_Binary):
    """True quotient of two tensors; integers are divided as float32.

    y = a / b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.div(g.constant([1.0, 3.0]), 2.0)
    >>> g.output({}, y)["div"].tolist()
    [0.5, 1.5]
    """

    element = "div"
    ufunc = np.true_divide
    is_method = True
    domain = (0.5, 2.0)
    dependence = AFFINE, ELEMENT
    onnx = OnnxRule("Div", since=7)

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        spec = super().infer(a, b)
        return spec if kind(spec.dtype) in "fc" else spec.with_dtype("float32")

    @by_ufunc
    def forward(self, a: Any, b: Any) -> Any:
        joint = promoted(a, b)
        target = joint if kind(joint) in "fc" else dtype("float32")
        return self.computed(cast(a, target), cast(b, target))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        b = conj(xs[1])
        return lambda: gs[0] / b, lambda: -(gs[0] * conj(ys[0])) / b


class Neg(_Unary):
    """Negative.

    y = −x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.neg(g.constant([-2.0, 0.5]))
    >>> g.output({}, y)["neg"].tolist()
    [2.0, -0.5]
    """

    element = "neg"
    ufunc = np.negative
    value_rule = True
    accepts = "ifc"
    dependence = AFFINE
    onnx = OnnxRule("Neg", since=6)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (-gs[0],)


class Conj(_Unary):
    """Complex conjugate.

    y = Re x − i·Im x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.conj(gw.complex(g.constant([1.0]), g.constant([2.0])))
    >>> g.output({}, y)["conj"].tolist()
    [(1-2j)]
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

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.real(gw.complex(g.constant([1.0]), g.constant([2.0])))
    >>> g.output({}, y)["real"].tolist()
    [1.0]
    """

    namespace = "math"
    is_method = True

    def infer(self, x: TensorSpec) -> TensorSpec:
        return real_part(self, x)

    def forward(self, x: Any) -> Any:
        return x.real.copy()

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (Cast(dtype=xs[0].dtype)(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "needs a complex tensor")


def real_part(op: Op, x: TensorSpec) -> TensorSpec:
    """Return the spec of a part of a complex tensor."""
    if kind(x.dtype) != "c":
        raise DTypeError(f"{op.name} needs a complex tensor", need="complex64 or complex128")
    return x.with_dtype("float32" if x.dtype.itemsize == 8 else "float64")


class Abs(_Unary):
    """Absolute value; its gradient at 0 is 0. Of a complex tensor, the real modulus.

    y = |x|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.abs(g.constant([-2.0, 0.5]))
    >>> g.output({}, y)["abs"].tolist()
    [2.0, 0.5]
    """

    element = "abs"
    ufunc = np.absolute
    accepts = "uifc"
    onnx = OnnxRule("Abs", since=6)

    def infer(self, x: TensorSpec) -> TensorSpec:
        return real_part(self, x) if kind(x.dtype) == "c" else super().infer(x)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (gs[0] * find_op("sign")()(xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([-1.0, 0.0, 2.0]),), smooth=False)
        yield Sample((rng.standard_normal(3) + 1j * rng.standard_normal(3),))

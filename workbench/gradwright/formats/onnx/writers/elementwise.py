"""Elementwise ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....spec import kind
from ..by_rule import write_by_rule
from ..node import writes
from ..output import Call
from ..versions import CannotExport


@writes("div")
def div(call: Call) -> str:
    """Divide in the dtype of the result; ONNX's division of integers truncates."""
    xs = [
        call.cast(x, s.dtype, call.y.dtype)
        for x, s in zip(call.xs, call.specs, strict=True)
        if s is not None
    ]
    return call.add("Div", *xs)


@writes("floor_div")
def floor_div(call: Call) -> str:
    a, b = call.joined()
    if kind(call.y.dtype) == "u":
        return call.add("Div", a, b)
    if kind(call.y.dtype) == "f":
        return call.add("Floor", call.add("Div", a, b))
    rest = call.add("Mod", a, b)  # of integers it has the sign of the divisor
    return call.add("Div", call.add("Sub", a, rest), b)


@writes("mod")
def mod(call: Call) -> str:
    """Write the remainder that has the sign of the divisor; of floats since opset 28."""
    a, b = call.joined()
    if kind(call.y.dtype) in "iu" or call.out.opset >= 28:
        return call.add("Mod", a, b)
    whole = call.add("Floor", call.add("Div", a, b))
    return call.add("Sub", a, call.add("Mul", whole, b))


@writes("fmod")
def fmod(call: Call) -> str:
    return call.add("Mod", *call.joined(), fmod=1)


@writes("pow")
def power(call: Call) -> str:
    a, b = call.joined()
    return call.add("Pow", a, b)


@writes("where")
def where(call: Call) -> str:
    """Write a choice; of bools by And and Or, since ONNX Runtime's Where takes none."""
    condition, (a, b) = call.xs[0], call.joined(1)
    if call.y.dtype != np.dtype(bool):
        return call.add("Where", condition, a, b)
    other = call.add("And", call.add("Not", condition), b)
    return call.add("Or", call.add("And", condition, a), other)


@writes("not_equal")
def not_equal(call: Call) -> str:
    return call.add("Not", call.add("Equal", *call.joined()))


@writes("less_equal", "greater_equal")
def or_equal(call: Call) -> Any:
    if call.out.opset >= 12:
        return write_by_rule(call)
    xs = call.joined()
    strict = call.add("Less" if call.op.name == "less_equal" else "Greater", *xs)
    return call.add("Or", strict, call.add("Equal", *xs))


@writes("clip")
def clip(call: Call) -> str:
    """Clip; bounds that are no scalars are a Max and a Min, which broadcast."""
    specs = [*call.specs, None, None][:3]
    xs = [
        call.cast(x, s.dtype, call.y.dtype) if s is not None else ""
        for x, s in zip([*call.xs, "", ""], specs, strict=False)
    ]
    if all(s is None or not s.rank for s in specs[1:]):
        return call.add("Clip", *xs)
    y, *bounds = xs
    for bound, op_type in zip(bounds, ("Max", "Min"), strict=True):
        y = call.add(op_type, y, bound) if bound else y
    return y


@writes("identity", "stop_gradient", "copy", "surrogate", "with_gradient")
def identity(call: Call) -> str:
    return call.add("Identity", call.xs[0])


@writes("cast")
def cast(call: Call) -> Any:
    if call.x.dtype == call.y.dtype:
        return call.add("Identity", call.xs[0])
    return write_by_rule(call)


@writes("zeros_like", "ones_like", "full_like")
def filled_like(call: Call) -> str:
    fill = {"zeros_like": 0, "ones_like": 1}.get(call.op.name)
    value = call.fill_value if fill is None else fill
    one = np.asarray(value).astype(call.y.dtype)
    return call.add("Expand", call.out.constant(one), call.add("Shape", call.xs[0]))


def _float(call: Call) -> str:
    if kind(call.x.dtype) != "f":
        raise CannotExport
    return call.xs[0]


@writes("square", "cube")
def square(call: Call) -> str:
    x = call.xs[0]
    y = call.add("Mul", x, x)
    return call.add("Mul", y, x) if call.op.name == "cube" else y


@writes("squared_difference")
def squared_difference(call: Call) -> str:
    d = call.add("Sub", *call.joined())
    return call.add("Mul", d, d)


@writes("rsqrt")
def rsqrt(call: Call) -> str:
    return call.add("Reciprocal", call.add("Sqrt", _float(call)))


@writes("erfc")
def erfc(call: Call) -> str:
    return call.add("Sub", call.number(1), call.add("Erf", _float(call)))


@writes("expm1")
def expm1(call: Call) -> str:
    """Write 2·tanh(x/2)/(1 − tanh(x/2)), which keeps its digits near 0."""
    half = call.add("Tanh", call.add("Mul", _float(call), call.number(0.5)))
    top = call.add("Add", half, half)
    large = call.add("Sub", call.add("Exp", call.xs[0]), call.number(1))
    small = call.add("Div", top, call.add("Sub", call.number(1), half))
    near = call.add("Less", call.add("Abs", call.xs[0]), call.number(1))
    return call.add("Where", near, small, large)


@writes("log1p")
def log1p(call: Call) -> str:
    """Write log(u)·x/(u − 1) with u = 1 + x, whose errors cancel (Goldberg 1991)."""
    u = call.add("Add", _float(call), call.number(1))
    d = call.add("Sub", u, call.number(1))
    exact = call.add("Equal", d, call.number(0))
    safe = call.add("Where", exact, call.number(1), d)
    ratio = call.add("Div", call.add("Mul", call.add("Log", u), call.xs[0]), safe)
    infinite = call.add("IsInf", u)
    ratio = call.add("Where", infinite, call.add("Log", u), ratio)
    return call.add("Where", exact, call.xs[0], ratio)


@writes("log2", "log10")
def log_base(call: Call) -> str:
    scale = 1 / math.log(2 if call.op.name == "log2" else 10)
    return call.add("Mul", call.add("Log", _float(call)), call.number(scale))


@writes("exp2")
def exp2(call: Call) -> str:
    return call.add("Pow", call.number(2), _float(call))


@writes("is_finite")
def is_finite(call: Call) -> str:
    x = _float(call)
    return call.add("Not", call.add("Or", call.add("IsNaN", x), call.add("IsInf", x)))


@writes("is_nan", "is_inf")
def is_special(call: Call) -> str:
    return call.add("IsNaN" if call.op.name == "is_nan" else "IsInf", _float(call))


@writes("trunc")
def trunc(call: Call) -> str:
    size = call.add("Floor", call.add("Abs", _float(call)))
    return call.add("Mul", call.add("Sign", call.xs[0]), size)


@writes("hypot")
def hypot(call: Call) -> str:
    """Write the length of the hypotenuse, scaled by the longer side so that nothing overflows."""
    a, b = (call.add("Abs", x) for x in call.joined())
    long, short = call.add("Max", a, b), call.add("Min", a, b)
    zero = call.out.constant(np.zeros((), call.y.dtype))
    one = call.out.constant(np.ones((), call.y.dtype))
    ratio = call.add("Div", short, call.add("Where", call.add("Equal", long, zero), one, long))
    return call.add(
        "Mul", long, call.add("Sqrt", call.add("Add", call.add("Mul", ratio, ratio), one))
    )


@writes("relu6", "squared_relu", "hard_tanh")
def rectified(call: Call) -> str:
    if call.op.name == "squared_relu":
        y = call.add("Relu", _float(call))
        return call.add("Mul", y, y)
    if call.op.name == "hard_tanh":
        low, high = call.op.attributes().get("min", -1.0), call.op.attributes().get("max", 1.0)
        return call.add("Clip", _float(call), call.number(low), call.number(high))
    return call.add("Clip", _float(call), call.number(0), call.number(6))


@writes("log_sigmoid")
def log_sigmoid(call: Call) -> str:
    return call.add("Neg", call.add("Softplus", call.add("Neg", _float(call))))


@writes("step")
def step(call: Call) -> str:
    above = call.add("Greater", call.xs[0], call.number(call.cutoff))
    return call.cast(above, np.dtype(bool), call.y.dtype)


@writes("logaddexp")
def logaddexp(call: Call) -> str:
    """Write log(eᵃ + eᵇ) as max(a, b) + softplus(−|a − b|); of equal infinities it is these."""
    a, b = call.joined()
    top, zero = call.add("Max", a, b), call.out.constant(np.zeros((), call.y.dtype))
    apart = call.add("Where", call.add("Equal", a, b), zero, call.add("Sub", a, b))
    less = call.add("Neg", call.add("Abs", apart))
    if call.y.dtype.itemsize < 8:
        return call.add("Add", top, call.add("Softplus", less))
    one = call.out.constant(np.ones((), call.y.dtype))  # ONNX Runtime's Softplus is of float32
    return call.add("Add", top, call.add("Log", call.add("Add", call.add("Exp", less), one)))

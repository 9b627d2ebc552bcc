"""Rules of ops on elements that are more than one function: a formula each."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ..ops.core.special import finfo
from ..program.declined import DeclinedError
from .builder import BOOL, Term, call, where, working
from .rules import Place, broadcast, joint, rule


def formula(*names: str, kinds: str = "f") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the formula of an op, of terms that have one dtype of these kinds."""

    def decorate(build: Callable[..., Any]) -> Callable[..., Any]:
        def with_one_dtype(op: Any, at: Place, *xs: Term | None) -> Term:
            dtype = joint(*(x for x in xs if x is not None))
            if dtype.kind not in kinds:
                raise DeclinedError
            made: Term = build(op, *(None if x is None else x.to(dtype) for x in xs))
            return made

        rule(*names, locate=broadcast)(with_one_dtype)
        return build

    return decorate


maximum, minimum, exp, log, log1p, expm1, absolute = (
    functools.partial(call, name)
    for name in ("maximum", "minimum", "exp", "log", "log1p", "expm1", "abs")
)


@rule("where", locate=broadcast)
def _where(op: Any, at: Place, condition: Term, a: Term, b: Term) -> Term:
    dtype = joint(a, b)
    return where(condition, a.to(dtype), b.to(dtype))


@rule("cast", locate=broadcast)
def _cast(op: Any, at: Place, x: Term) -> Term:
    if op.dtype == BOOL:
        return call("ne", x, 0)
    return x.to(op.dtype).to(working(op.dtype))  # who asks for halves wants the rounding


@rule("add_n", locate=broadcast)
def _add_n(op: Any, at: Place, *xs: Term) -> Term:
    dtype = joint(*xs)
    return functools.reduce(lambda a, b: a + b, (x.to(dtype) for x in xs))


def at_least(x: Term, low: float) -> Term:
    """Return x where it is not below a number, else that: −0.0 stays, and NaN."""
    return where(x < low, low, x)


def at_most(x: Term, high: float) -> Term:
    """Return x where it is not above a number, else that."""
    return where(x > high, high, x)


@formula("clip", kinds="if")
def _clip(op: Any, x: Term, low: Term | None = None, high: Term | None = None) -> Term:
    if low is not None:  # of zeros x, and NaN of a bound that is
        x = where(call("eq", x, low), x, maximum(x, low))
    return x if high is None else where(call("eq", x, high), x, minimum(x, high))


@formula("pow")
def _pow(op: Any, a: Term, b: Term) -> Term:
    return call("square", a) if b.constant == 2 else call("pow", a, b)


@formula("logaddexp")
def _logaddexp(op: Any, a: Term, b: Term) -> Term:
    apart = maximum(a, b) + log1p(exp(-absolute(a - b)))
    return where(call("eq", a, b), a + math.log(2), apart)  # of infinities


@formula("heaviside")
def _heaviside(op: Any, x: Term, at_zero: Term) -> Term:
    return where(x < 0, 0.0, where(x > 0, 1.0, where(call("isnan", x), x, at_zero)))


@formula("nan_to_num")
def _nan_to_num(op: Any, x: Term) -> Term:
    limits = finfo(x.dtype)
    high, low = (
        float(limit if given is None else given)
        for limit, given in ((limits.max, op.posinf), (limits.min, op.neginf))
    )
    found = where(call("eq", x, math.inf), high, where(call("eq", x, -math.inf), low, x))
    return where(call("isnan", x), op.nan, found)


@formula("prelu")
def _prelu(op: Any, x: Term, slope: Term) -> Term:
    return where(x < 0, x * slope, x)


@formula("shrink")
def _shrink(op: Any, x: Term) -> Term:
    return where(x < -op.lambd, x + op.bias, where(x <= op.lambd, 0.0, x - op.bias))


def _celu(op: Any, x: Term) -> Term:
    below = at_most(x, 0)  # as in the gradient, whose exponential is half the work for this one
    return where(x >= 0, x, op.alpha * expm1(below if op.alpha == 1 else below / op.alpha))


FORMULAS: dict[str, Callable[..., Term]] = {
    "squared_difference": lambda op, a, b: call("square", a - b),
    "cube": lambda op, x: x * x * x,
    "step": lambda op, x: (x > op.cutoff).to(x.dtype),
    "relu": lambda op, x: at_least(x, 0),
    "relu6": lambda op, x: at_most(at_least(x, 0), 6),
    "squared_relu": lambda op, x: call("square", at_least(x, 0)),
    "thresholded_relu": lambda op, x: where(x <= op.alpha, 0, x),
    "leaky_relu": lambda op, x: where(x > 0, x, op.negative_slope * x),
    "elu": lambda op, x: where(x >= 0, x, op.alpha * expm1(at_most(x, 0))),
    "celu": _celu,
    "softplus": lambda op, x: maximum(x, 0) + log1p(exp(-absolute(x))),
    "log_sigmoid": lambda op, x: minimum(x, 0) - log1p(exp(-absolute(x))),
    "softsign": lambda op, x: x / (absolute(x) + 1),
    "hard_tanh": lambda op, x: at_most(at_least(x, op.min), op.max),
    "hard_swish": lambda op, x: minimum(maximum(x * (1 / 6) + 0.5, 0), 1) * x,
}
for _op, _build in FORMULAS.items():
    formula(_op)(_build)

"""Functions of elements that fusion leaves out: those of other dtypes, and formulas of others.

Ints of 8 and 16 bits and unsigned ones are computed in wider ones and wrap around when they are
stored, as numpy's do. Inverse and hyperbolic functions are formulas in float64, of which a float32
keeps every digit; float64 has about 15.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwright.fuse.builder import FLOAT64, INT64, Term, call, where
from gradwright.fuse.rules import Place, broadcast, rule_of
from gradwright.op import Op
from gradwright.ops.arithmetic.pairs import Hypot
from gradwright.ops.arithmetic.trigonometry import (
    Arccos,
    Arccosh,
    Arcsin,
    Arcsinh,
    Arctan,
    Arctan2,
    Arctanh,
    Cosh,
    Sinh,
)
from gradwright.spec import TensorSpec, promote

from ..fused.terms import Array, Work, lowered, written
from ..launch import KINDS, Strided

BITWISE = frozenset(("add", "sub", "mul", "and", "or", "xor", "not", "eq", "ne"))
"""Functions of which an int64 has the bits that a uint64 has."""


def of_elements(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Strided | None:
    """Return how an op runs that is a function of elements, if fusion has a rule for it."""
    rule = rule_of(op)
    is_one = rule is not None and rule.locate is broadcast
    return lowered(element)(op, ins, outs) if is_one else None


KINDS.append(of_elements)


def element(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Compute as the fusion's rule does, in dtypes that hold all numbers."""
    y = ys[0]
    unsigned = [x for x in (*xs, *ys) if x is not None and x.dtype == np.uint64]
    if unsigned and op.element not in BITWISE:
        work.decline("numbers that an int64 holds")
    with work.over(y.shape) as k:
        terms = [None if x is None else k.read(x) for x in xs]
        read = [t.to(INT64) if t is not None and t.dtype == np.uint64 else t for t in terms]
        rule = rule_of(op)
        assert rule is not None, "the names are those that have one"
        k.write(y, rule.build(op, Place(y.shape, (), ()), *read))


# -- formulas -------------------------------------------------------------------------------------

ROOTS = 3
"""How often an angle is halved before its series: to below a fifth."""
TERMS = 11


def arctan(x: Term) -> Term:
    """Return the angle of a slope: halves of halves of it have a short series."""
    size = call("abs", x)
    is_steep = size > 1
    t = where(is_steep, 1.0 / size, size)
    for _ in range(ROOTS):
        t = t / (call("sqrt", t * t + 1) + 1)
    z = t * t
    series = functools.reduce(
        lambda total, n: total * z + (-1) ** n / (2 * n + 1), range(TERMS - 1, -1, -1), z * 0
    )
    angle = series * t * 2.0**ROOTS
    return call("copysign", where(is_steep, math.pi / 2 - angle, angle), x)


def arctan2(y: Term, x: Term) -> Term:
    """Return the angle of a point, in all four quadrants."""
    both = call("isinf", x) & call("isinf", y)
    ax, ay = (where(both, 1.0, call("abs", t)) for t in (x, y))
    top, bottom = call("minimum", ax, ay), call("maximum", ax, ay)
    still = call("eq", bottom, 0)
    ratio = where(still, 0.0, top / where(still, 1.0, bottom))
    angle = arctan(ratio)
    angle = where(ay > ax, math.pi / 2 - angle, angle)
    behind = call("copysign", x * 0 + 1, x) < 0
    behind = behind & ~call("isnan", x) | (call("isinf", x) & (x < 0))
    return call("copysign", where(behind, math.pi - angle, angle), y)


def _sinh(x: Term) -> Term:
    e = call("expm1", call("abs", x) * 0.5)  # halves, whose squares do not overflow early
    half = where(call("isinf", e), e, (e + e / (e + 1)) * 0.5)
    return call("copysign", half * (e + 1 + 1 / (e + 1)), x)


def _cosh(x: Term) -> Term:
    e = call("exp", call("abs", x) * 0.5)
    return (e * 0.5) * e + 0.5 / e / e


def _arcsinh(x: Term) -> Term:
    a = call("abs", x)
    large = a > 2.0**28
    b = where(large, 1.0, a)
    small = call("log1p", b + b * b / (call("sqrt", b * b + 1) + 1))
    return call("copysign", where(large, call("log", a) + math.log(2), small), x)


def _arccosh(x: Term) -> Term:
    large = x > 2.0**28
    b = where(large, 1.0, x)
    small = call("log1p", b - 1 + call("sqrt", (b - 1) * (b + 1)))
    return where(large, call("log", x) + math.log(2), small)


def _arctanh(x: Term) -> Term:
    a = call("abs", x)
    return call("copysign", call("log1p", 2 * a / (1 - a)) * 0.5, x)


def _arcsin(x: Term) -> Term:
    return arctan2(x, call("sqrt", (1 - x) * (1 + x)))


def _arccos(x: Term) -> Term:
    return arctan2(call("sqrt", (1 - x) * (1 + x)), x)


def _hypot(a: Term, b: Term) -> Term:
    a, b = call("abs", a), call("abs", b)
    top, low = call("maximum", a, b), call("minimum", a, b)
    ratio = low / where(call("eq", top, 0) | call("isinf", top), 1.0, top)
    found = call("sqrt", ratio * ratio + 1) * top
    return where(call("isinf", a) | call("isinf", b), math.inf, found)


FORMULAS: dict[type[Op], Callable[..., Term]] = {
    **{Sinh: _sinh, Cosh: _cosh, Arcsinh: _arcsinh, Arccosh: _arccosh, Arctanh: _arctanh},
    **{Arcsin: _arcsin, Arccos: _arccos, Arctan: arctan, Arctan2: arctan2, Hypot: _hypot},
}


@written(*(op.name for op in FORMULAS))
def formula(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Compute in float64."""
    y, build = ys[0], FORMULAS[type(op)]
    with work.over(y.shape) as k:
        k.write(y, build(*(k.read(x).to(FLOAT64) for x in xs)))


@written("is_close")
def is_close(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Compare the difference with what is allowed; infinities are close to themselves."""
    a, b = xs
    joint = promote(a.dtype, b.dtype)
    with work.over(ys[0].shape) as k:
        x, y = (k.read(t).to(FLOAT64 if joint.kind in "iub" else k.wide(joint)) for t in (a, b))
        near = call("abs", x - y) <= call("abs", y) * op.rtol + op.atol
        found = (near & call("isfinite", y)) | call("eq", x, y)
        both = call("isnan", x) & call("isnan", y)
        k.write(ys[0], found | both if op.equal_nan else found)


@written("cross")
def cross(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Subtract products of the other two components."""
    y = ys[0]
    wide = work.wide(y.dtype)
    a, b, parts = (np.moveaxis(t, op.axis, 0) for t in (*xs, y))
    for i, j, m in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        with work.over(parts.shape[1:]) as k:
            given = (t[n, ...] for t in (a, b) for n in (j, m))
            aj, am, bj, bm = (k.read(t).to(wide) for t in given)
            k.write(parts[i, ...], aj * bm - am * bj)

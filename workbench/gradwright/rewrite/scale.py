"""Numbers meet numbers: chains of sums and products with constants, powers, and scaled products.

These change the last place: by 2 units of the largest number met at most. The inner result must be
needed nowhere else, so that a rule may not decide what overflows, underflows or cancels: values
would depend on what else is fetched. So two products join where both numbers make larger or both
make smaller, and two sums where the sum of the numbers is exact: (x + 1e8) + 1 is 1 at −1e8. Sums
of constants of opposite signs stay: (x + c) − c rounds x, and is meant to. A product of constants
that is no ordinary number is left in two steps, and so is x·(1/y), since 1/y may overflow alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ops.core.movement import ExpandDims
from ..program.program import Instr
from ..spec import TensorSpec, kind
from .algebra import is_float, is_positive, is_real, x
from .editor import Editor
from .table import formula, rule
from .terms import Any_, Binds, Call, Computed, Number

c, d = Number("c", sample=3.0), Number("d", sample=5.0)
_share = Number("d", sample=0.2)


def _is_whole(at: Editor, b: Binds) -> bool:
    return kind(at.specs[b["x"]].dtype) in "iu"  # whose sums and products wrap around alike


def _same_sign(at: Editor, b: Binds) -> bool:
    if _is_whole(at, b):
        return True
    if not is_real(at, b) or np.signbit(b["c"]) != np.signbit(b["d"]):
        return False
    both = b["c"] + b["d"]
    return bool(both - b["c"] == b["d"] and both - b["d"] == b["c"])


def _same_side(c: Any, d: Any) -> bool:
    """Tell whether two factors make numbers larger, or both smaller."""
    sizes = abs(float(c)), abs(float(d))
    return min(sizes) >= 1 or max(sizes) <= 1


def _both_factors(at: Editor, b: Binds) -> bool:
    return is_real(at, b) and (_is_whole(at, b) or _same_side(b["c"], b["d"]))


def _both_divisors(at: Editor, b: Binds) -> bool:
    return is_float(at, b) and _same_side(b["c"], b["d"])


def _factor_and_divisor(at: Editor, b: Binds) -> bool:
    return is_float(at, b) and bool(b["c"] and b["d"]) and _same_side(b["c"], 1 / float(b["d"]))


formula(
    "mul_mul",
    (x * c) * d,
    x * Computed("(c·d)", lambda b: b["c"] * b["d"]),
    "Two numbers are multiplied once; integers wrap around alike.",
    when=_both_factors,
    alone=True,
    exact=False,
)
formula(
    "mul_div",
    (x * c) / _share,
    x * Computed("(c/d)", lambda b: b["c"] / b["d"]),
    "A number and a divisor are one number.",
    when=_factor_and_divisor,
    alone=True,
    exact=False,
)
formula(
    "div_mul",
    (x / c) * _share,
    x * Computed("(d/c)", lambda b: b["d"] / b["c"]),
    "A divisor and a number are one number.",
    when=_factor_and_divisor,
    alone=True,
    exact=False,
)
formula(
    "div_div",
    (x / c) / d,
    x / Computed("(c·d)", lambda b: b["c"] * b["d"]),
    "Two divisors are one.",
    when=_both_divisors,
    alone=True,
    exact=False,
)
formula(
    "add_scaled",
    x * c + x * c,
    x * Computed("(2·c)", lambda b: b["c"] + b["c"]),
    "Twice a product with a number is one product.",
    when=is_real,
    alone=True,
    exact=False,
)
formula(
    "add_add",
    (x + c) + d,
    x + Computed("(c + d)", lambda b: b["c"] + b["d"]),
    "Two numbers of one sign whose sum is exact are added once; integers wrap around alike.",
    when=_same_sign,
    alone=True,
    exact=False,
)
formula(
    "sub_sub",
    (x - c) - d,
    x - Computed("(c + d)", lambda b: b["c"] + b["d"]),
    "Two numbers of one sign whose sum is exact are subtracted once, integers always.",
    when=_same_sign,
    alone=True,
    exact=False,
)

# -- powers ---------------------------------------------------------------------------------------

_square = Call("square", x)
formula(
    "pow_three",
    x**3.0,
    x * _square,
    "Two products take a twelfth of the time of a power, and differ from it by 2 units at most.",
    when=is_real,
    exact=False,
)
formula(
    "pow_four",
    x**4.0,
    Call("square", _square),
    "Two squares take a twelfth of the time of a power, and differ from it by 2 units at most.",
    when=is_real,
    exact=False,
)
formula(
    "pow_minus_one",
    x ** (-1.0),
    1.0 / x,
    "The inverse is a quotient, which is rounded correctly.",
    when=is_float,
    exact=False,
)


@rule(
    "pow_root",
    "pow",
    "x^±½, x ≥ 0",
    "√x or 1/√x",
    needs=("constant",),
    exact=False,
    example=lambda x: (x * x + 1.0) ** 0.5,
)
def _pow_root(at: Editor, instr: Instr) -> int | None:
    """The power ½ of what is never negative is the root; of −0.0 and −∞ they differ."""
    base, exponent = instr.ins
    power = at.number(exponent)
    if power is None or abs(power) != 0.5 or not is_positive(at, base):
        return None
    root = Call("sqrt", Any_("x"))
    return (root if power > 0 else 1.0 / root).build(at, {"x": base})


def _is_power_of_two(at: Editor, b: Binds) -> bool:
    return is_float(at, b) and abs(math.frexp(float(b["c"]))[0]) == 0.5


formula(
    "div_power_of_two",
    x / Number("c", sample=4.0),
    x * Computed("(1/c)", lambda b: 1 / b["c"]),
    "Division by a power of two is exact, and so is the product with its inverse, which is faster.",
    when=_is_power_of_two,
)

# -- products of matrices -------------------------------------------------------------------------


_TINY, _HUGE = 1e-4, 1e4
"""Between these a number brings no product near the limits of float32, if that is below 1e34."""


def _scale(at: Editor, instr: Instr, spec: TensorSpec) -> tuple[int, int] | None:
    """Return the tensor and the number of a product or quotient that only scales floats."""
    if len(instr.ins) != 2 or None in instr.ins or kind(spec.dtype) != "f":
        return None
    value, number = instr.ins
    if instr.op.name == "mul" and at.number(value) is not None:
        value, number = number, value
    factor = at.number(number)
    if factor is None or not factor or at.spec(number).rank or not spec.is_concrete:
        return None
    size = abs(float(factor) if instr.op.name == "mul" else 1 / float(factor))
    fits = _TINY <= size <= (_HUGE if spec.dtype.itemsize >= 4 else 1.0)
    return (value, number) if fits else None  # type: ignore[return-value]


@rule(
    "scale_matmul",
    "mul div",
    "(a @ b)·c",
    "(a·c) @ b",
    needs=("matmul",),
    exact=False,
    example=lambda x, wide: (x @ wide) * 0.125,
)
def _scale_matmul(at: Editor, instr: Instr) -> int | None:
    """A product of matrices is scaled where it is smallest: queries or adapters, not scores."""
    spec = at.spec(instr.outs[0])
    found = _scale(at, instr, spec)
    made = None if found is None else at.producer(found[0], "matmul")
    if found is None or made is None or not at.is_alone(made.outs[0]):
        return None
    sizes = [math.inf if i in at.constants else at.spec(i).size for i in made.ins]
    smaller = int(sizes[1] < sizes[0])
    if sizes[smaller] * 2 > spec.size or at.spec(made.ins[smaller]).dtype != spec.dtype:
        return None
    ins = list(made.ins)
    ins[smaller] = at.make(instr.op, ins[smaller], found[1])
    return at.make(made.op, *ins)


@rule(
    "matmul_of_scaled",
    "matmul",
    "(a·c) @ b",
    "a @ (b·c) or (a @ b)·c",
    needs=("mul", "div"),
    exact=False,
    example=lambda s, w: (s * 0.5) @ ExpandDims(axis=1)(w),
)
def _matmul_of_scaled(at: Editor, instr: Instr) -> int | None:
    """What is scaled for products of matrices alone is scaled where those are smaller."""
    out = at.spec(instr.outs[0])
    for place, value in enumerate(instr.ins):
        made, other = at.producer(value), instr.ins[1 - place]
        if value is None or made is None or made.op.name not in ("mul", "div"):
            continue
        if value in at.leaving or any(user.op.name != "matmul" for user in at.users[value]):
            continue
        spec, found = at.spec(value), _scale(at, made, at.spec(value))
        if found is None or at.spec(found[0]) != spec or at.spec(other).dtype != spec.dtype:
            continue
        size = math.inf if other in at.constants else at.spec(other).size
        if other == value or min(size, out.size) * 2 > spec.size:
            continue
        ins = list(instr.ins)
        ins[place] = found[0]
        if size <= out.size:
            ins[1 - place] = at.make(made.op, other, found[1])
            return at.make(instr.op, *ins)
        return at.make(made.op, at.make(instr.op, *ins), found[1])
    return None

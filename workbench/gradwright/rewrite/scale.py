"""Numbers meet numbers: chains of sums and products with constants, powers, and scaled products.

These change the last place: by 2 units of the largest number met at most. A product of constants
that overflows, underflows or is no number is left in two steps; where the first of two steps would
have overflowed and the joint one does not, the result is finite. Sums of constants of opposite
signs stay: (x + c) − c rounds x, and is meant to. The inner result must be needed nowhere else, so
that steps which share it give the same bits whether or not they are in one plan.
"""

from __future__ import annotations

import math

import numpy as np

from ..ops.movement import ExpandDims
from ..spec import TensorSpec, kind
from .algebra import is_float, is_positive, is_real, x, y
from .editor import Editor
from .program import Instr
from .table import formula, rule
from .terms import Any_, Binds, Call, Computed, Number

c, d = Number("c", sample=3.0), Number("d", sample=5.0)


def _same_sign(at: Editor, b: Binds) -> bool:
    if kind(at.specs[b["x"]].dtype) in "iu":
        return True  # they wrap around alike
    return is_real(at, b) and bool(np.signbit(b["c"]) == np.signbit(b["d"]))


formula(
    "mul_mul",
    (x * c) * d,
    x * Computed("(c·d)", lambda b: b["c"] * b["d"]),
    "Two numbers are multiplied once; integers wrap around alike.",
    when=is_real,
    alone=True,
    exact=False,
)
formula(
    "mul_div",
    (x * c) / d,
    x * Computed("(c/d)", lambda b: b["c"] / b["d"]),
    "A number and a divisor are one number.",
    when=is_float,
    alone=True,
    exact=False,
)
formula(
    "div_mul",
    (x / c) * d,
    x * Computed("(d/c)", lambda b: b["d"] / b["c"]),
    "A divisor and a number are one number.",
    when=is_float,
    alone=True,
    exact=False,
)
formula(
    "div_div",
    (x / c) / d,
    x / Computed("(c·d)", lambda b: b["c"] * b["d"]),
    "Two divisors are one.",
    when=is_float,
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
    "Two numbers of one sign are added once; integers wrap around alike.",
    when=_same_sign,
    alone=True,
    exact=False,
)
formula(
    "sub_sub",
    (x - c) - d,
    x - Computed("(c + d)", lambda b: b["c"] + b["d"]),
    "Two numbers of one sign are subtracted once; integers wrap around alike.",
    when=_same_sign,
    alone=True,
    exact=False,
)
formula(
    "mul_inverse",
    x * (1.0 / y),
    x / y,
    "A product with an inverse is a quotient, rounded once; a smaller inverse is left.",
    when=lambda at, b: is_float(at, b) and at.specs[b["x"]] == at.specs[b["y"]],
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
"""Between these a number brings no product near the limits of float32."""


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

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

from ..spec import kind
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
    """A product is scaled where it is smallest: queries rather than scores, by a number below 1."""
    product, number = instr.ins
    if instr.op.name == "mul" and at.number(product) is not None:
        product, number = number, product
    factor, made = at.number(number), at.producer(product, "matmul")
    spec = at.spec(instr.outs[0])
    if factor is None or made is None or kind(spec.dtype) != "f" or not spec.is_concrete:
        return None
    size = abs(float(factor) if instr.op.name == "mul" else 1 / float(factor))
    if not 1e-4 <= size <= 1 or not at.is_alone(made.outs[0]) or at.spec(number).rank:
        return None
    sizes = [math.inf if i in at.constants else at.spec(i).size for i in made.ins]
    smaller = int(sizes[1] < sizes[0])
    if sizes[smaller] * 2 > spec.size or at.spec(made.ins[smaller]).dtype != spec.dtype:
        return None
    ins = list(made.ins)
    ins[smaller] = at.make(instr.op, ins[smaller], number)
    return at.make(made.op, *ins)

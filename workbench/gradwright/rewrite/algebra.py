"""Identities of elements: exact in every value, NaN, infinities and the sign of zero included.

What is not here is not exact: x·0 = 0 fails for NaN and infinities, x + 0 = x for −0.0 (so only
−0.0 is dropped, and +0.0 where it is subtracted; of integers both), x − x = 0 and x/x = 1 for
infinities, exp(log x) = x for negatives. Numbers on either side of a term have the dtype of the
value; what a rule leaves has the spec that was there: x·1 stays where it broadcasts or promotes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.core.comparison import Ceil, Floor
from ..program.program import Instr
from ..spec import kind
from .editor import Editor
from .table import formula, rule
from .terms import Any_, Binds, Call, Computed, Number

x, y = Any_("x"), Any_("y")
c = Number("c")
LOGIC = {"x": "p", "y": "q"}
INTEGERS = {"x": "i", "y": "j"}


def is_real(at: Editor, b: Binds) -> bool:
    """Tell whether x is no complex tensor: of those, products of infinities differ."""
    return kind(at.specs[b["x"]].dtype) != "c"


def is_float(at: Editor, b: Binds) -> bool:
    """Tell whether x is a real floating tensor."""
    return kind(at.specs[b["x"]].dtype) == "f"


# -- neutral elements -----------------------------------------------------------------------------

formula("add_zero", x + (-0.0), x, "Adding −0.0, or an integer 0, changes nothing.")
formula("sub_zero", x - 0.0, x, "Subtracting +0.0, or an integer 0, changes nothing.")
formula("mul_one", x * 1.0, x, "A product with 1 changes nothing.")
formula("div_one", x / 1.0, x, "A quotient by 1 changes nothing.")
formula("pow_one", x**1.0, x, "The first power changes nothing.")
formula(
    "and_true",
    Call("logical_and", x, Number("true", True)),
    x,
    "What always holds adds no condition.",
    given=LOGIC,
)
formula(
    "or_false",
    Call("logical_or", x, Number("false", False)),
    x,
    "What never holds adds no case.",
    given=LOGIC,
)

# -- signs ----------------------------------------------------------------------------------------

negative = -x
formula("neg_neg", -negative, x, "Two signs cancel.")
formula("add_neg", x + (-y), x - y, "A negative is subtracted.")
formula("sub_neg", x - (-y), x + y, "A negative is added when it is subtracted.")
formula("neg_mul_neg", (-x) * (-y), x * y, "The signs of two factors cancel.", when=is_real)
formula("neg_div_neg", (-x) / (-y), x / y, "The signs of both parts cancel.", when=is_real)
formula("mul_minus_one", x * (-1.0), -x, "A product with −1 is the negative.", when=is_real)
formula("div_minus_one", x / (-1.0), -x, "A quotient by −1 is the negative.", when=is_real)
formula("minus_zero_sub", -0.0 - x, -x, "−0.0 less x, or an integer 0 less x, is the negative.")
_opposite = Computed("(−c)", lambda b: np.negative(b["c"]))
formula("neg_mul", (-x) * c, x * _opposite, "A number takes the sign.", when=is_real)
formula("neg_div", (-x) / c, x / _opposite, "A divisor takes the sign.", when=is_float)
formula("neg_of_mul", -(x * c), x * _opposite, "A number takes the sign.", when=is_real, alone=True)
formula(
    "neg_of_div", -(x / c), x / _opposite, "A divisor takes the sign.", when=is_float, alone=True
)
formula("abs_neg", Call("abs", -x), Call("abs", x), "Absolute values have no sign.", when=is_real)
formula("square_neg", Call("square", -x), Call("square", x), "Squares have no sign.", when=is_real)
formula(
    "square_abs",
    Call("square", Call("abs", x)),
    Call("square", x),
    "Squares have no sign.",
    when=is_real,
)
formula("cos_neg", Call("cos", -x), Call("cos", x), "The cosine is even.", when=is_real)
formula(
    "cosh_neg", Call("cosh", -x), Call("cosh", x), "The hyperbolic cosine is even.", when=is_real
)

# -- one op for another ---------------------------------------------------------------------------

formula("mul_self", x * x, Call("square", x), "A product with itself is a square.", when=is_real)
formula("pow_two", x**2.0, Call("square", x), "The second power is the square.", when=is_real)

# -- choice and logic -----------------------------------------------------------------------------

formula("max_same", Call("maximum", x, x), x, "The larger of equals is either.")
formula("min_same", Call("minimum", x, x), x, "The smaller of equals is either.")
formula("and_same", Call("logical_and", x, x), x, "A condition twice is one.", given=LOGIC)
formula("or_same", Call("logical_or", x, x), x, "A condition twice is one.", given=LOGIC)
_p = Any_("p")
_not = Call("logical_not", x)
formula("not_not", Call("logical_not", _not), x, "Two negations cancel.", given=LOGIC)
formula("where_same", Call("where", _p, x, x), x, "A choice between equals is none.")
formula(
    "where_true",
    Call("where", Number("true", True), x, y),
    x,
    "What always holds chooses the first.",
)
formula(
    "where_false",
    Call("where", Number("false", False), x, y),
    y,
    "What never holds chooses the second.",
)
formula(
    "where_not",
    Call("where", Call("logical_not", _p), x, y),
    Call("where", _p, y, x),
    "A negated condition chooses the other one.",
)
for _a, _b in (("equal", "not_equal"), ("not_equal", "equal")):
    formula(
        f"not_of_{_a}",
        Call("logical_not", Call(_a, x, y)),
        Call(_b, x, y),
        "The negation is a comparison; NaN differs from all.",
        alone=True,
    )
for _a, _b in (
    ("less", "greater_equal"),
    ("less_equal", "greater"),
    ("greater", "less_equal"),
    ("greater_equal", "less"),
):
    formula(
        f"not_of_{_a}",
        Call("logical_not", Call(_a, x, y)),
        Call(_b, x, y),
        "The negation is a comparison, of integers: NaN is neither less nor not less.",
        when=lambda at, b: (
            kind(at.specs[b["x"]].dtype) in "biu" and kind(at.specs[b["y"]].dtype) in "biu"
        ),
        alone=True,
        given=INTEGERS,
    )

IDEMPOTENT = "abs floor ceil round sign relu relu6"


@rule(
    "twice",
    IDEMPOTENT,
    "f(f(x))",
    "f(x)",
    needs=IDEMPOTENT.split(),
    example=lambda x: Floor()(Floor()(x)),
)
def _twice(at: Editor, instr: Instr) -> int | None:
    """Ops that leave alone what they have made, such as abs, floor and relu, are applied once."""
    inner = at.producer(instr.ins[0], instr.op.name)
    return instr.ins[0] if inner is not None and inner.op == instr.op else None


@rule(
    "already_whole",
    "floor ceil round",
    "f(g(x)), g(x) whole",
    "g(x)",
    needs=("floor", "ceil", "round"),
    example=lambda x: Floor()(Ceil()(x)),
)
def _already_whole(at: Editor, instr: Instr) -> int | None:
    """What is rounded is not rounded again; ops with attributes are left alone."""
    inner = at.producer(instr.ins[0])
    whole = inner is not None and inner.op.name in ("floor", "ceil", "round")
    plain = whole and not any(inner.op.attributes().values())  # type: ignore[union-attr]
    return instr.ins[0] if plain and not any(instr.op.attributes().values()) else None


_POSITIVE = frozenset(
    ("square", "exp", "abs", "sigmoid", "softmax", "softplus", "cosh", "root_sum_squares")
)
_OF_POSITIVE = frozenset(
    ("add", "mul", "div", "maximum", "sum", "mean", "max", "sqrt", "cast", "reshape", "expand_dims",
     "squeeze", "broadcast_to", "broadcast_like", "transpose", "sum_like", "relu")
)  # fmt: skip


def is_positive(at: Editor, value: int | None, depth: int = 6) -> bool:
    """Tell whether no element can be negative or −0.0, seen a few steps back; NaN may be."""
    number = at.number(value)
    if number is not None:
        return kind(number.dtype) in "uif" and bool(number >= 0) and not np.signbit(number)
    made: Any = None if value is None else at.producers.get(value)
    if made is None or not depth or kind(at.spec(value).dtype) != "f":
        return False
    name = made.op.name
    if name in _POSITIVE and kind(at.spec(made.ins[0]).dtype) == "f":
        return True
    if name == "mul" and made.ins[0] == made.ins[1]:
        return True
    if name not in _OF_POSITIVE:
        return False
    read = made.ins[:1] if name in ("sum_like", "broadcast_like", "broadcast_to") else made.ins
    return all(is_positive(at, i, depth - 1) for i in read)


@rule(
    "already_positive",
    "abs relu",
    "|f(x)|, f(x) ≥ 0",
    "f(x)",
    needs=_POSITIVE | _OF_POSITIVE,
    example=lambda x: (x * x + 1.0).abs(),
)
def _already_positive(at: Editor, instr: Instr) -> int | None:
    """What cannot be negative, nor −0.0, is its own absolute value and relu."""
    return instr.ins[0] if is_positive(at, instr.ins[0]) else None

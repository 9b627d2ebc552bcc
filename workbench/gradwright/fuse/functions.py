"""Element functions: the arithmetic of kernels, each with its meaning in numpy.

All arguments have one dtype (but for the condition of ``where``, a bool), which is bool, int32,
int64, float32 or float64; loads of other dtypes are cast first. The result has that dtype, or bool.

- ints wrap around; a quotient or remainder by 0 is 0, and the smallest int over −1 is itself
- NaN goes through everything but ``where``, comparisons (false, but for ``ne``) and tests;
  ``maximum`` and ``minimum`` of a NaN and a number are NaN
- the sign of a zero is kept by neg, abs, copysign, where, floor, ceil, round, trunc, mul and div;
  maximum and minimum of 0.0 and −0.0 may be either
- float to int truncates; what no int holds becomes any int; to bool is ``x != 0``
- ``reduce`` starts from 0, 1, and for max and min from the least and greatest of the dtype (∓∞)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ops.core import special

CHEAP, SLOW, EXP, POWER = 1, 4, 10, 25
"""What a function costs, in additions: arithmetic, division and roots, one series, two of them."""


@dataclass(frozen=True, slots=True)
class Function:
    """An element function; ``kinds`` are the dtype kinds it takes, of its last argument."""

    name: str
    n_args: int
    apply: Callable[..., Any]
    kinds: str = "f"
    cost: int = CHEAP
    is_test: bool = False

    def result(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the result for arguments of ``dtype``."""
        return np.dtype(bool) if self.is_test else dtype


def _rsqrt(x: Any) -> Any:
    return np.reciprocal(np.sqrt(x))


_ALL = (
    # arithmetic
    Function("add", 2, np.add, "if"),
    Function("sub", 2, np.subtract, "if"),
    Function("mul", 2, np.multiply, "if"),
    Function("div", 2, np.true_divide, "f", SLOW),
    Function("floordiv", 2, np.floor_divide, "if", EXP),  # towards −∞, as Python's //
    Function("mod", 2, np.remainder, "if", EXP),  # with the sign of the divisor, as Python's %
    Function("fmod", 2, np.fmod, "if", EXP),  # with the sign of the dividend, as C's
    Function("neg", 1, np.negative, "if"),
    Function("abs", 1, np.absolute, "if"),
    Function("square", 1, np.square, "if"),
    Function("sign", 1, np.sign, "if"),  # of −0.0 it is 0.0, of NaN NaN
    Function("copysign", 2, np.copysign),
    Function("reciprocal", 1, np.reciprocal, "f", SLOW),
    Function("sqrt", 1, np.sqrt, "f", SLOW),
    Function("rsqrt", 1, _rsqrt, "f", SLOW),  # 1/√x, exactly rounded twice
    Function("maximum", 2, np.maximum, "if"),
    Function("minimum", 2, np.minimum, "if"),
    # rounding
    Function("floor", 1, np.floor),
    Function("ceil", 1, np.ceil),
    Function("trunc", 1, np.trunc),
    Function("round", 1, np.rint),  # halves to even
    # series
    Function("exp", 1, np.exp, "f", EXP),
    Function("exp2", 1, np.exp2, "f", EXP),
    Function("expm1", 1, np.expm1, "f", EXP),
    Function("log", 1, np.log, "f", EXP),
    Function("log2", 1, np.log2, "f", EXP),
    Function("log10", 1, np.log10, "f", EXP),
    Function("log1p", 1, np.log1p, "f", EXP),
    Function("sin", 1, np.sin, "f", EXP),
    Function("cos", 1, np.cos, "f", EXP),
    Function("tan", 1, np.tan, "f", POWER),
    Function("tanh", 1, np.tanh, "f", EXP),
    Function("sigmoid", 1, special.sigmoid, "f", EXP),  # 1/(1 + e⁻ˣ)
    Function("erf", 1, special.erf, "f", POWER),
    Function("erfc", 1, special.erfc, "f", POWER),  # precise where it is tiny
    Function("pow", 2, np.power, "f", POWER),  # C's: pow(0, 0) = 1, NaN for −1 to a fraction
    # comparisons; false < true
    Function("eq", 2, np.equal, "bif", is_test=True),
    Function("ne", 2, np.not_equal, "bif", is_test=True),
    Function("lt", 2, np.less, "bif", is_test=True),
    Function("le", 2, np.less_equal, "bif", is_test=True),
    Function("gt", 2, np.greater, "bif", is_test=True),
    Function("ge", 2, np.greater_equal, "bif", is_test=True),
    Function("isnan", 1, np.isnan, is_test=True),
    Function("isinf", 1, np.isinf, is_test=True),
    Function("isfinite", 1, np.isfinite, is_test=True),
    # logic, on ints bit by bit
    Function("and", 2, np.bitwise_and, "bi"),
    Function("or", 2, np.bitwise_or, "bi"),
    Function("xor", 2, np.bitwise_xor, "bi"),
    Function("not", 1, np.invert, "bi"),
    Function("where", 3, np.where, "bif"),
)

FUNCTIONS: dict[str, Function] = {f.name: f for f in _ALL}
"""All element functions by name."""

KEEPING = frozenset(
    ("neg", "abs", "sign", "maximum", "minimum", "floor", "ceil", "trunc", "round", "where")
)
"""Functions whose results every float format holds that holds their arguments."""

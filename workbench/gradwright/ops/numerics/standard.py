"""The Array API standard (2024.12): forwards written to it also run on other libraries' arrays.

numpy is the reference and itself such a library; CuPy and all others that keep to the standard
offer the same functions under the same names.
"""

from __future__ import annotations

from typing import Any

import numpy as np

STANDARD: dict[Any, str] = {
    **{getattr(np, name): name for name in (
        "add", "ceil", "copysign", "cos", "cosh", "equal", "exp", "expm1", "floor", "floor_divide",
        "greater", "greater_equal", "hypot", "isfinite", "isinf", "isnan", "less", "less_equal",
        "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or",
        "logical_xor", "maximum", "minimum", "multiply", "negative", "not_equal", "reciprocal",
        "remainder", "sign", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc",
        "bitwise_and", "bitwise_or", "bitwise_xor",
    )},
    np.absolute: "abs", np.arccos: "acos", np.arccosh: "acosh", np.arcsin: "asin",
    np.arcsinh: "asinh", np.arctan: "atan", np.arctan2: "atan2", np.arctanh: "atanh",
    np.conjugate: "conj", np.invert: "bitwise_invert", np.power: "pow", np.rint: "round",
    np.true_divide: "divide",
}  # fmt: skip
"""What a ufunc is called in the standard; those that are missing there are missing here."""


def library(x: Any) -> Any:
    """Return the library of an array: numpy's own, or another that keeps to the standard."""
    return x.__array_namespace__() if hasattr(x, "__array_namespace__") else np


def dtype_of(x: Any) -> np.dtype[Any]:
    """Return the dtype of an array as numpy's."""
    found = x.dtype
    return found if isinstance(found, np.dtype) else np.dtype(str(found).rpartition(".")[2])


def cast(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return an array in another dtype, itself if it has that already."""
    if isinstance(x, (np.ndarray, np.generic)):  # a reduction of all axes gives a scalar
        return x.astype(dtype, copy=False)
    xp = library(x)
    return xp.astype(x, getattr(xp, dtype.name), copy=False)

"""Operators and methods of lazy arrays, and the numbers of Python among them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .lazy import LazyArray, call


def _method(function: Any) -> Any:
    def method(self: LazyArray, *args: Any, **kwargs: Any) -> Any:
        return call(function, self, *args, **kwargs)

    method.__name__ = function.__name__
    method.__doc__ = f"As ``np.{function.__name__}``."
    return method


_OPERATORS: dict[str, np.ufunc] = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "matmul": np.matmul},
    **{"truediv": np.true_divide, "floordiv": np.floor_divide, "mod": np.remainder},
    **{"divmod": np.divmod, "pow": np.power, "lshift": np.left_shift, "rshift": np.right_shift},
    **{"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
}
_COMPARISONS: dict[str, np.ufunc] = {
    **{"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal},
    **{"eq": np.equal, "ne": np.not_equal},
}
_UNARY: dict[str, np.ufunc] = {
    **{"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert},
}


def _foreign(other: Any) -> bool:
    """Tell whether the other operand wants to handle the operation itself."""
    return type(other).__array_ufunc__ is None if hasattr(other, "__array_ufunc__") else False


def _operator(ufunc: np.ufunc, kind: str) -> Any:
    """Return an operator: ``x + y``, its mirror image, or ``x += y``."""

    def operator(self: LazyArray, other: Any) -> Any:
        if _foreign(other):
            return NotImplemented
        inputs = (other, self) if kind == "reflected" else (self, other)
        options = {"out": (self,)} if kind == "in place" else {}
        return self.__array_ufunc__(ufunc, "__call__", *inputs, **options)

    return operator


for _name, _ufunc in {**_OPERATORS, **_COMPARISONS}.items():
    setattr(LazyArray, f"__{_name}__", _operator(_ufunc, "plain"))
for _name, _ufunc in _OPERATORS.items():
    setattr(LazyArray, f"__r{_name}__", _operator(_ufunc, "reflected"))
    setattr(LazyArray, f"__i{_name}__", _operator(_ufunc, "in place"))
for _name, _ufunc in _UNARY.items():
    setattr(
        LazyArray,
        f"__{_name}__",
        lambda self, u=_ufunc: self.__array_ufunc__(u, "__call__", self),
    )
_METHODS = (
    *("all", "any", "argmax", "argmin", "argsort", "choose", "clip", "cumprod", "cumsum"),
    *("diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "ravel", "repeat", "round"),
    *("searchsorted", "squeeze", "std", "sum", "swapaxes", "take", "trace", "var"),
)
for _name in _METHODS:
    setattr(LazyArray, _name, _method(getattr(np, _name)))
for _name in ("conj", "conjugate"):
    setattr(LazyArray, _name, lambda self: np.conjugate(self))


class LazyNumber(LazyArray):
    """A Python number that differs between calls: beside arrays it takes their dtype, as in numpy.

    What operators make of numbers alone is such a number again.
    """

    __slots__ = ()


def _numeric(name: str) -> Any:
    plain = getattr(LazyArray, name)

    def operator(self: LazyNumber, *others: Any) -> Any:
        made = plain(self, *others)
        alone = all(type(o) in (int, float, complex, LazyNumber) for o in others)
        return as_number(made) if alone and isinstance(made, LazyArray) else made

    return operator


def as_number(x: LazyArray) -> LazyNumber:
    """Return a scalar as what a Python number is."""
    if isinstance(x, LazyNumber):
        return x
    made = LazyNumber.of(x.owner, x.tensor)
    made.weak, made.name = True, x.name
    return made  # type: ignore[return-value]


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    for _prefix in ("", "r"):
        setattr(LazyNumber, f"__{_prefix}{_name}__", _numeric(f"__{_prefix}{_name}__"))
    setattr(LazyNumber, f"__i{_name}__", _numeric(f"__{_name}__"))
for _name in ("__neg__", "__pos__", "__abs__"):
    setattr(LazyNumber, _name, _numeric(_name))

"""ufuncs that are not one op for every dtype, as formulas of ops on converted inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..graph import Tensor
from ..op import find_op
from ..ops.core.movement import cast_to
from ..spec import kind


def _op(name: str, *xs: Any, **attrs: Any) -> Any:
    return find_op(name)(**attrs)(*xs)


def _number(like: Tensor, value: Any) -> Tensor:
    return like.graph.scalar(value, like.dtype)


def _unchanged_if(kinds: str) -> Callable[[Tensor], Any]:
    return lambda x: _op("identity", x) if kind(x.dtype) in kinds else NotImplemented


def _never_if(kinds: str, value: bool) -> Callable[[Tensor], Any]:
    """Return a predicate that has one answer for dtypes without NaN and infinities."""

    def formula(x: Tensor) -> Any:
        if kind(x.dtype) not in kinds:
            return NotImplemented
        filled = _op("ones_like" if value else "zeros_like", x)
        return cast_to("bool", filled)

    return formula


def _part_wise(name: str, any_of: bool) -> Callable[[Tensor], Any]:
    integers = _never_if("biu", not any_of)

    def formula(x: Tensor) -> Any:
        if kind(x.dtype) == "c":
            parts = _op(name, _op("real", x)), _op(name, _op("imag", x))
            return _op("logical_or" if any_of else "logical_and", *parts)
        return integers(x)

    return formula


def _logical(name: str) -> Callable[[Tensor, Tensor], Any]:
    """Return a formula for bools; other numbers are compared with 0."""

    def truth(x: Tensor) -> Any:
        return x if kind(x.dtype) == "b" else _op("not_equal", x, _number(x, 0))

    return lambda *xs: _op(name, *map(truth, xs))


def _of_bools(name: str) -> Callable[..., Any]:
    return lambda *xs: _op(name, *xs) if kind(xs[0].dtype) == "b" else NotImplemented


def _ordered(name: str) -> Callable[[Tensor, Tensor], Any]:
    """Return a comparison: complex numbers by real, then imaginary part; of int64 with uint64."""
    strict = {"less_equal": "less", "greater_equal": "greater"}.get(name, name)
    of_negative = name in ("less", "less_equal", "not_equal")

    def formula(a: Tensor, b: Tensor) -> Any:
        kinds = kind(a.dtype) + kind(b.dtype)
        if kinds == "cc" and name not in ("equal", "not_equal"):
            left, right = _op("real", a), _op("real", b)
            tied = _op("equal", left, right)
            inner = _op(name, _op("imag", a), _op("imag", b))
            return _op("logical_or", _op(strict, left, right), _op("logical_and", tied, inner))
        if kinds in ("iu", "ui"):
            signed = a if kinds == "iu" else b
            answer = of_negative if kinds == "iu" or name == "not_equal" else not of_negative
            answer = answer and name != "equal"
            negative = _op("less", signed, _number(signed, 0))
            plain = _op(name, cast_to("uint64", a), cast_to("uint64", b))
            return _op("where", negative, plain.graph.scalar(answer, plain.dtype), plain)
        return NotImplemented

    return formula


def _of_two(name: str, bools: str, prefers: str, beside_nan: bool) -> Callable[..., Any]:
    """Return the larger or smaller of two; ``beside_nan``: the other one rather than NaN."""
    compare = _ordered(prefers)

    def formula(a: Tensor, b: Tensor) -> Any:
        if kind(a.dtype) == "b":
            return _op(bools, a, b)
        if kind(a.dtype) == "c":
            missing = _part_wise("is_nan", True)(b if beside_nan else a)
            return _op("where", _op("logical_or", compare(a, b), missing), a, b)
        if beside_nan and kind(a.dtype) == "f":
            return _either(name)(a, b)
        return _op(name, a, b)

    return formula


def _either(name: str) -> Callable[[Tensor, Tensor], Any]:
    """Return the larger or smaller of two, the other one beside NaN."""

    def formula(a: Tensor, b: Tensor) -> Any:
        left = _op("where", _op("is_nan", b), a, _op(name, a, b))
        return _op("where", _op("is_nan", a), b, left)

    return formula


def _scaled(factor: float) -> Callable[[Tensor], Any]:
    return lambda x: _op("mul", x, _number(x, factor))


def _power(a: Tensor, b: Tensor) -> Any:
    return _op("pow", a, b)


def _reciprocal(x: Tensor) -> Any:
    if kind(x.dtype) in "fc":
        return NotImplemented
    sign = _op("sign", x)
    return _op("where", _op("equal", _op("abs", x), _number(x, 1)), sign, _number(x, 0))


def _sign(x: Tensor) -> Any:
    if kind(x.dtype) != "c":
        return NotImplemented
    size = cast_to(x.dtype, _op("abs", x))
    zero = _op("equal", x, _number(x, 0))
    return _op("where", zero, _number(x, 0), _op("div", x, _op("where", zero, _number(x, 1), size)))


def _negative(x: Tensor) -> Any:
    return _op("sub", _number(x, 0), x) if kind(x.dtype) == "u" else NotImplemented


def _modf(x: Tensor) -> Any:
    whole = _op("trunc", x)
    rest = _op("where", _op("is_inf", x), _number(x, 0), _op("sub", x, whole))
    return _op("copysign", rest, x), _op("copysign", whole, x)


def _logaddexp2(a: Tensor, b: Tensor) -> Any:
    ln2 = math.log(2)
    return _scaled(1 / ln2)(_op("logaddexp", _scaled(ln2)(a), _scaled(ln2)(b)))


def _cbrt(x: Tensor) -> Any:
    root = _op("pow", _op("abs", x), _number(x, 1 / 3))
    return _op("copysign", root, x)


def _signbit(x: Tensor) -> Any:
    return _op("less", _op("copysign", _number(x, 1), x), _number(x, 0))


def _vecdot(a: Tensor, b: Tensor) -> Any:
    if not a.rank or not b.rank:
        raise ValueError("vecdot: Input operand does not have enough dimensions")
    left = _op("conj", a) if kind(a.dtype) == "c" else a
    return cast_to(a.dtype, _op("sum", _op("mul", left, b), axis=-1))


def _matvec(a: Tensor, b: Tensor) -> Any:
    return _op("matmul", a, b[..., None])[..., 0]


def _vecmat(a: Tensor, b: Tensor) -> Any:
    left = _op("conj", a) if kind(a.dtype) == "c" else a
    return _op("matmul", left[..., None, :], b)[..., 0, :]


def _exp2(x: Tensor) -> Any:
    return _op("exp", _scaled(math.log(2))(x)) if kind(x.dtype) == "c" else NotImplemented


def _rint(x: Tensor) -> Any:
    if kind(x.dtype) != "c":
        return NotImplemented
    return _op("complex", _op("round", _op("real", x)), _op("round", _op("imag", x)))


def _ldexp(x: Tensor, n: Tensor) -> Any:
    return _op("mul", x, _op("exp2", cast_to(x.dtype, n)))


FORMULAS: dict[str, Callable[..., Any]] = {
    "positive": lambda x: _op("identity", x),
    "conjugate": _unchanged_if("biuf"),
    "absolute": _unchanged_if("bu"),
    "fabs": lambda x: _op("abs", x),
    "floor": _unchanged_if("biu"),
    "ceil": _unchanged_if("biu"),
    "trunc": _unchanged_if("biu"),
    "isnan": _part_wise("is_nan", True),
    "isinf": _part_wise("is_inf", True),
    "isfinite": _part_wise("is_finite", False),
    "logical_and": _logical("logical_and"),
    "logical_or": _logical("logical_or"),
    "logical_xor": _logical("logical_xor"),
    "logical_not": _logical("logical_not"),
    "invert": _of_bools("logical_not"),
    "bitwise_and": _of_bools("logical_and"),
    "bitwise_or": _of_bools("logical_or"),
    "bitwise_xor": _of_bools("logical_xor"),
    "maximum": _of_two("maximum", "logical_or", "greater_equal", False),
    "minimum": _of_two("minimum", "logical_and", "less_equal", False),
    "fmax": _of_two("maximum", "logical_or", "greater_equal", True),
    "fmin": _of_two("minimum", "logical_and", "less_equal", True),
    **{n: _ordered(n) for n in ("less", "less_equal", "greater", "greater_equal")},
    **{n: _ordered(n) for n in ("equal", "not_equal")},
    "add": _of_bools("logical_or"),
    "multiply": _of_bools("logical_and"),
    "negative": _negative,
    "fmod": lambda a, b: _op("fmod", a, b),
    "float_power": _power,
    "reciprocal": _reciprocal,
    "sign": _sign,
    "exp2": _exp2,
    "rint": _rint,
    "deg2rad": _scaled(math.pi / 180),
    "radians": _scaled(math.pi / 180),
    "rad2deg": _scaled(180 / math.pi),
    "degrees": _scaled(180 / math.pi),
    "divmod": lambda a, b: (_op("floor_div", a, b), _op("mod", a, b)),
    "modf": _modf,
    "logaddexp2": _logaddexp2,
    "cbrt": _cbrt,
    "heaviside": lambda x, h: _op("heaviside", x, h),
    "signbit": _signbit,
    "ldexp": _ldexp,
    "left_shift": lambda x, n: _op("left_shift", x, n),
    "right_shift": lambda x, n: _op("right_shift", x, n),
    "bitwise_count": lambda x: cast_to("uint8", _op("popcount", _op("abs", x))),
    "vecdot": _vecdot,
    "matvec": _matvec,
    "vecmat": _vecmat,
}
"""ufunc -> formula on inputs of the dtypes in which numpy computes; NotImplemented: the op does."""

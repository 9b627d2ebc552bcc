"""Element functions as LLVM instructions: what is one or a few of them; series are in mathlib.

Booleans are i1 in registers and bytes in memory; bfloat16 is its 16 bits. Results are those of
`fuse.functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....fuse.ir import Value
from ..text import REORDER, Code, Num
from . import mathlib

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_MEMORY = {
    **{"bool": "i8", "int8": "i8", "uint8": "i8", "int16": "i16", "uint16": "i16"},
    **{"int32": "i32", "uint32": "i32", "int64": "i64", "uint64": "i64"},
    **{"float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double"},
}


def memory_type(dtype: np.dtype[Any]) -> str:
    """Return the LLVM type of an array's items.

    >>> memory_type(np.dtype(bool)), memory_type(np.dtype("f4"))
    ('i8', 'float')
    """
    return _MEMORY[dtype.name]


def register_type(dtype: np.dtype[Any]) -> str:
    """Return the LLVM type that values of a dtype are computed in."""
    return "i1" if dtype.name == "bool" else _MEMORY[dtype.name]


def from_memory(item: Num, dtype: np.dtype[Any]) -> Num:
    """Return a loaded item as a value."""
    return item.compare("ne", 0) if dtype.name == "bool" else item


def to_memory(value: Num, dtype: np.dtype[Any]) -> Num:
    """Return a value as the item to store."""
    return value.to("zext", "i8") if dtype.name == "bool" else value


def cast(x: Num, before: np.dtype[Any], after: np.dtype[Any]) -> Num:
    """Convert as ``numpy.ndarray.astype``; what no int holds becomes any int."""
    if before == after:
        return x
    if before.name == "bfloat16":
        return cast((x.to("zext", "i32") << 16).to("bitcast", "float"), FLOAT32, after)
    if after.name == "bfloat16":
        return _to_bfloat16(_to_be_narrowed(x, before))
    if before.name == "float16":
        return cast(x.to("fpext", "float"), FLOAT32, after)
    if after.name == "float16":
        return _to_be_narrowed(x, before).to("fptrunc", "half")
    if after.name == "bool":
        return x.compare("une" if x.is_float else "ne", 0)
    type_ = register_type(after)
    if before.kind in "bui":
        if after.kind == "f":
            return x.to("sitofp" if before.kind == "i" else "uitofp", type_)
        if before.itemsize >= after.itemsize and before.name != "bool":
            return x if x.type == type_ else x.to("trunc", type_)
        return x.to("sext" if before.kind == "i" else "zext", type_)
    if after.kind == "f":
        return x.to("fpext" if after.itemsize > before.itemsize else "fptrunc", type_)
    number = x.to("fptosi", type_)
    return number.code.let(type_, f"freeze {type_} {number.name}")


def _to_be_narrowed(x: Num, before: np.dtype[Any]) -> Num:
    """Return a number as a float that rounds to a half as the number itself would.

    What a float does not hold becomes that one of its two neighbours whose last bit is 1, so that a
    half sees what was lost (round to odd: Boldo and Melquiond, IEEE Trans. Computers 57, 2008). A
    large 64-bit integer first leaves its last 11 bits, in the same way.
    """
    if (before.kind == "f" and before.itemsize <= 4) or (
        before.kind in "bui" and before.itemsize < 4
    ):
        return cast(x, before, FLOAT32)
    if before.kind in "ui" and before.itemsize == 8:
        lost = (x & 0x7FF).compare("ne", 0).to("zext", x.type)
        signed = before.kind == "i"
        is_large = (x + 2**53 * signed).compare("ugt", 2**53 << signed)
        x = is_large.where((x & -0x800) | (lost << 11), x)
    x = cast(x, before, FLOAT64)
    near = x.to("fptrunc", "float")
    back = near.to("fpext", "double")
    is_above = (back.call("fabs") > x.call("fabs")).to("zext", "i32")
    is_other = back.compare("one", x).to("zext", "i32")
    return ((near.to("bitcast", "i32") - is_above) | is_other).to("bitcast", "float")


def _to_bfloat16(x: Num) -> Num:
    """Round float32 to its upper half, ties to even; NaN stays one."""
    bits = x.to("bitcast", "i32")
    rounded = bits + (bits.op("lshr", 16) & 1) + 0x7FFF
    half = x.is_nan().where(bits | 0x400000, rounded).op("lshr", 16)
    return half.to("trunc", "i16")


@dataclass(frozen=True)
class Fold:
    """A running reduction of value number ``value``: ``kind`` is one of REDUCTIONS."""

    kind: str
    value: int
    dtype: np.dtype[Any]

    @property
    def is_wide(self) -> bool:
        """Tell whether parts in float32 add up in float64."""
        return self.kind == "sum" and self.dtype.name == "float32"

    def start(self, code: Code) -> Num:
        """Return what the reduction of nothing is."""
        if self.is_wide:
            return code.const("double", 0)
        if self.kind in ("sum", "prod"):
            return code.const(memory_type(self.dtype), self.kind == "prod")
        if self.dtype.kind == "f":
            return code.const(memory_type(self.dtype), -np.inf if self.kind == "max" else np.inf)
        least, most = (0, 1) if self.dtype.kind == "b" else _range(self.dtype)
        return code.const(memory_type(self.dtype), least if self.kind == "max" else most)

    def join(self, so_far: Num, x: Num) -> Num:
        """Return the reduction with one more element."""
        x = to_memory(x, self.dtype)
        if self.kind in ("sum", "prod"):
            with x.code.flagged(REORDER):
                return so_far + x if self.kind == "sum" else so_far * x
        return so_far.extremum("maximum" if self.kind == "max" else "minimum", x)

    def widen(self, part: Num) -> Num:
        """Return a part as what parts are added up in."""
        return part.to("fpext", "double") if self.is_wide else part

    def result(self, total: Num) -> Num:
        """Return the reduction as a value."""
        if self.is_wide:
            return total.to("fptrunc", "float")
        return from_memory(total, self.dtype)


def _range(dtype: np.dtype[Any]) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def apply(name: str, args: Sequence[Num], given: Sequence[Value]) -> Num:
    """Return the element function ``name`` of ``args``; ``given`` says where they come from."""
    x = args[0]
    if name == "pow" and given[1].op == "const":
        return mathlib.power(x, given[1].extra)
    if name in _TESTS:
        float_test, int_test = _TESTS[name]
        if x.is_float:
            return x.compare(float_test, args[1])
        return x.compare(int_test if x.type != "i1" else int_test.replace("s", "u"), args[1])
    if name in ("and", "or", "xor"):
        return x.op(name, args[1])
    if name in ("maximum", "minimum"):
        return x.extremum(name, args[1])
    function = (_FLOAT if x.is_float else _INT).get(name) or _ANY.get(name)
    if function is not None:
        return function(*args)
    with x.code.flagged(""):
        return mathlib.SERIES[name](*args)


def expm1_beside_exp(x: Num) -> Num:
    """Return eˣ − 1 of an x whose exponential the kernel computes, too."""
    with x.code.flagged(""):
        return mathlib.expm1(x, is_beside_exp=True)


def divide_by_fixed(x: Num, y: Num) -> Num:
    """Return x/y where y is the same for many x: times 1/y, with y's exponent out of the way.

    A reciprocal alone would overflow for subnormal y, and lose digits for the largest.
    """
    far = 2.0**64 if x.type == "float" else 2.0**512
    size = y.call("fabs")
    scale = (size < 1 / far).where(y.of(far), (size > far).where(y.of(1 / far), 1))
    return x * (y.of(1) / (y * scale)) * scale


_TESTS = {
    **{"eq": ("oeq", "eq"), "ne": ("une", "ne"), "lt": ("olt", "slt"), "le": ("ole", "sle")},
    **{"gt": ("ogt", "sgt"), "ge": ("oge", "sge")},
}


_WIDENED = {"float32": ("float16",), "float64": ("float16", "bfloat16", "float32")}
"""Dtypes from which LLVM widens to a dtype in one instruction, at least in the end."""


def is_clamp_at_zero(value: Value, values: Sequence[Value]) -> bool:
    """Tell whether a value is 0 where x < 0 (or x > 0), else x, of x that may be a narrower one."""
    if value.op != "where":
        return False
    test, yes, no = (values[a] for a in value.args)
    if test.op not in ("lt", "gt") or test.args != (value.args[2], value.args[1]):
        return False
    narrower = _WIDENED.get(no.dtype.name, ())
    return (
        yes.op == "const"
        and yes.extra == 0
        and any(
            v.op == "cast" and v.dtype == no.dtype and values[v.args[0]].dtype.name in narrower
            for v in values
        )
    )


def beyond_zero(test: str, x: Num) -> Num:
    """Return whether x < 0 (``lt``) or x > 0 (``gt``), by the number that is next to 0.

    LLVM narrows a test of a widened number against 0, and then takes ``x < 0 ? 0 : x`` for
    ``x <= 0 ? 0 : x``, which loses the sign of -0.0.
    """
    least = 2.0**-149 if x.type == "float" else 2.0**-1074
    return x.compare("ole", -least) if test == "lt" else x.compare("oge", least)


def _sign(x: Num) -> Num:
    one = x.of(1).call("copysign", x)
    return x.is_nan().where(x, x.equals(0).where(x.of(0), one))


def _divide(x: Num, y: Num) -> tuple[Num, Num]:
    """Return quotient and remainder of ints towards zero, where LLVM may stop the process."""
    least = -(2 ** (int(x.type[1:]) - 1))
    is_zero = y.equals(0)
    unsafe = is_zero | (y.equals(-1) & x.equals(least))
    safe = unsafe.where(y.of(1), y)
    return is_zero.where(x.of(0), x.op("sdiv", safe)), x.op("srem", safe)


def _int_floordiv(x: Num, y: Num) -> Num:
    quotient, rest = _divide(x, y)
    return (rest.compare("ne", 0) & ((rest ^ y) < 0)).where(quotient - 1, quotient)


def _int_mod(x: Num, y: Num) -> Num:
    rest = _divide(x, y)[1]
    return (rest.compare("ne", 0) & ((rest ^ y) < 0)).where(rest + y, rest)


def _fmod(x: Num, y: Num) -> Num:
    return x.code.call(x.type, "fmodf" if x.type == "float" else "fmod", x, y)


def _float_mod(x: Num, y: Num) -> Num:
    rest = _fmod(x, y)
    crosses = (rest < 0) ^ (y < 0)
    return rest.equals(0).where(rest.call("copysign", y), crosses.where(rest + y, rest))


def _float_floordiv(x: Num, y: Num) -> Num:
    """Python's: the quotient of what the remainder leaves, rounded to the nearest whole number."""
    with x.code.flagged(""):
        rest = _fmod(x, y)
        crosses = rest.compare("une", 0) & ((rest < 0) ^ (y < 0))
        quotient = (x - rest) / y
        quotient = crosses.where(quotient - 1, quotient)
        whole = quotient.call("floor")
        whole = (quotient - whole > 0.5).where(whole + 1, whole)
        ratio = x / y
        whole = quotient.equals(0).where(ratio.of(0).call("copysign", ratio), whole)
        return y.equals(0).where(ratio, whole)


def _is_finite(x: Num) -> Num:
    return x.call("fabs").compare("olt", np.inf)


_ANY: dict[str, Callable[..., Num]] = {
    "add": Num.__add__,
    "sub": Num.__sub__,
    "mul": Num.__mul__,
    "neg": Num.__neg__,
    "square": lambda x: x * x,
    "where": Num.where,
}
_FLOAT: dict[str, Callable[..., Num]] = {
    "div": Num.__truediv__,
    "floordiv": _float_floordiv,
    "mod": _float_mod,
    "fmod": _fmod,
    "abs": lambda x: x.call("fabs"),
    "sign": _sign,
    "copysign": lambda x, y: x.call("copysign", y),
    "reciprocal": lambda x: x.of(1) / x,
    "sqrt": lambda x: x.call("sqrt"),
    "rsqrt": lambda x: x.of(1) / x.call("sqrt"),
    "floor": lambda x: x.call("floor"),
    "ceil": lambda x: x.call("ceil"),
    "trunc": lambda x: x.call("trunc"),
    "round": lambda x: x.call("rint"),
    "isnan": Num.is_nan,
    "isinf": lambda x: x.call("fabs").equals(np.inf),
    "isfinite": _is_finite,
}
_INT: dict[str, Callable[..., Num]] = {
    "floordiv": _int_floordiv,
    "mod": _int_mod,
    "fmod": lambda x, y: _divide(x, y)[1],
    "abs": lambda x: (x < 0).where(-x, x),
    "sign": lambda x: (x > 0).to("zext", x.type) - (x < 0).to("zext", x.type),
    "not": lambda x: x ^ -1,
}

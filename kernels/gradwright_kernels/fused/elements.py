"""Element functions as Triton text: what is one expression; series are traced from the CPU's.

Bools are int1 in registers and bytes in memory. Results are those of `gradwright.fuse.functions`:
``tl.div_rn`` and ``tl.sqrt_rn`` are exact where ``/`` and ``tl.sqrt`` are not, and maximum and
minimum keep NaN. Series have at most 4 units in the last place, as on the CPU. In float64 sin, cos
and tan are libdevice's, and pow has at most 2 units, and one more for each 200 in |y·log₂ x|.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton.language as tl

from gradwright.cpu.llvm.kernels import elements as machine
from gradwright.cpu.llvm.kernels import mathlib
from gradwright.cpu.llvm.text import Num
from gradwright.fuse.ir import Level, Value
from gradwright.spec import is_half

from .double import IN_DOUBLE
from .number import NAN, traced

DTYPES = {
    **{"bool": "tl.int1", "float16": "tl.float16", "bfloat16": "tl.bfloat16"},
    **{"float32": "tl.float32", "float64": "tl.float64"},
    **{f"{u}int{n}": f"tl.{u}int{n}" for n in (8, 16, 32, 64) for u in ("", "u")},
}
"""Triton's name of each dtype."""


def triton_type(dtype: np.dtype[Any]) -> Any:
    """Return Triton's own dtype, for kernels that are written by hand."""
    return getattr(tl, DTYPES[dtype.name].removeprefix("tl."))


_LLVM = {"float32": "float", "float64": "double", "int32": "i32", "int64": "i64", "bool": "i1"}
SERIES = "?"
"""Stands for a call of the function that is traced under the same name."""

FUNCTIONS: dict[str, str | dict[str, str]] = {
    # arithmetic; by dtype where it has several forms: of float64, of ints, of bools
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": {"f": "tl.div_rn({0}, {1})", "float64": "{0} / {1}"},
    "floordiv": SERIES,
    "mod": SERIES,
    "fmod": SERIES,
    "neg": {"f": "{0} * -1.0", "i": "-{0}"},
    "abs": "tl.abs({0})",
    "square": "{0} * {0}",
    "sign": SERIES,
    "copysign": SERIES,
    "reciprocal": {"f": "tl.div_rn(1.0, {0})", "float64": "1.0 / {0}"},
    "sqrt": {"f": "tl.sqrt_rn({0})", "float64": "tl.sqrt({0})"},
    "rsqrt": {"f": "tl.div_rn(1.0, tl.sqrt_rn({0}))", "float64": "1.0 / tl.sqrt({0})"},
    "maximum": {"f": f"tl.maximum({{0}}, {{1}}{NAN})", "i": "tl.maximum({0}, {1})"},
    "minimum": {"f": f"tl.minimum({{0}}, {{1}}{NAN})", "i": "tl.minimum({0}, {1})"},
    # rounding
    "floor": "tl.floor({0})",
    "ceil": "tl.ceil({0})",
    "trunc": SERIES,
    "round": SERIES,
    # series
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log2", "log10", "log1p"), SERIES),
    **dict.fromkeys(("sin", "cos", "tan", "tanh", "sigmoid", "erf", "erfc", "pow"), SERIES),
    # comparisons
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": {"f": "{0} < {1}", "b": "({0} == 0) & {1}"},
    "le": {"f": "{0} <= {1}", "b": "({0} == 0) | {1}"},
    "gt": {"f": "{0} > {1}", "b": "{0} & ({1} == 0)"},
    "ge": {"f": "{0} >= {1}", "b": "{0} | ({1} == 0)"},
    "isnan": "{0} != {0}",
    "isinf": 'tl.abs({0}) == float("inf")',
    "isfinite": 'tl.abs({0}) < float("inf")',
    # logic
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "not": {"i": "~{0}", "b": "{0} == 0"},
    "where": "tl.where({0}, {1}, {2})",
}
"""The text of each function of `gradwright.fuse.functions`; arguments are ``{0}``, ``{1}``…"""
INLINE = frozenset({"add", "sub", "mul", "lt", "le", "gt", "ge", "eq", "ne", "where"})
"""Functions that take the text of a constant as an argument beside a tensor."""

FMOD = '''@triton.jit
def fmod(x, y):
    """Return the remainder of a division towards zero: powers of two times y go, largest first."""
    x, y = tl.broadcast(x, y)
    rest, d = tl.abs(x).to(tl.float64), tl.abs(y).to(tl.float64)
    sound = (d > 0) & (rest < float("inf"))
    d = tl.where(sound, d, 1.0)
    rest = tl.where(sound, rest, 0.0)
    while tl.max(tl.max((rest >= d).to(tl.int32), 1), 0) > 0:
        quotient = tl.minimum(rest / d, 1.07e301)
        bits = quotient.to(tl.int64, bitcast=True) & 0x7FF0000000000000
        power = bits.to(tl.float64, bitcast=True)
        power = tl.where(d * power > rest, power * 0.5, power)
        rest = tl.where(rest >= d, rest - d * power, rest)
    rest = tl.where(sound & (y == y), rest, float("nan")).to(x.dtype)
    return tl.where(x < 0, rest * -1.0, tl.where((x == 0) & sound, x, rest))
'''
ORDERED = '''@triton.jit
def ordered(x, nan):
    """Return ints in the order of floats, and one for NaN: `tl.max` drops it, of ints it cannot."""
    if x.dtype == tl.float64:
        bits = x.to(tl.int64, bitcast=True)
        bits = bits ^ ((bits >> 63) & 0x7FFFFFFFFFFFFFFF)
    else:
        bits = x.to(tl.int32, bitcast=True)
        bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return tl.where(x == x, bits, nan)


@triton.jit
def floats(i):
    """Return the floats of ordered ints; the largest and the smallest of these are NaN."""
    if i.dtype == tl.int64:
        x = (i ^ ((i >> 63) & 0x7FFFFFFFFFFFFFFF)).to(tl.float64, bitcast=True)
    else:
        x = (i ^ ((i >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
    return x


@triton.jit
def greatest(x):
    """Return the maximum of each row, NaN if one is."""
    nan = 0x7FFFFFFFFFFFFFFF if x.dtype == tl.float64 else 0x7FFFFFFF
    return floats(tl.max(ordered(x, nan), axis=1, keep_dims=True))


@triton.jit
def least(x):
    """Return the minimum of each row, NaN if one is."""
    nan = -0x8000000000000000 if x.dtype == tl.float64 else -0x80000000
    return floats(tl.min(ordered(x, nan), axis=1, keep_dims=True))
'''
PRODUCT = '''@triton.jit
def _times(a, b):
    return a * b


@triton.jit
def product(x):
    """Return the product of each row."""
    return tl.reduce(x, 1, _times, keep_dims=True)
'''
TO_HALF = '''@triton.jit
def to_float(x):
    """Return a float32 that rounds to a half as the float64 would: by rounding to odd.

    Its last bit is 1 if digits are lost. Boldo and Melquiond, IEEE Trans. Computers 57, 2008.
    """
    near = x.to(tl.float32)
    back = near.to(tl.float64)
    above = (tl.abs(back) > tl.abs(x)).to(tl.int32)
    lost = ((back < x) | (back > x)).to(tl.int32)
    return ((near.to(tl.int32, bitcast=True) - above) | lost).to(tl.float32, bitcast=True)
'''


@dataclass(frozen=True)
class Text:
    """An expression, and the functions that it needs, each with its text."""

    text: str
    needs: tuple[str, ...] = ()


def apply(name: str, args: Sequence[str], given: Sequence[Value]) -> Text:
    """Return the element function ``name`` of arguments that are ``given``.

    >>> f32 = np.dtype("float32")
    >>> x = Value("load", (), f32, Level.ELEMENT, 0)
    >>> apply("div", ["a", "b"], [x, x]).text, apply("tanh", ["a"], [x]).text
    ('tl.div_rn(a, b)', 'tanh_float32(a)')
    """
    dtype = given[-1].dtype
    found = FUNCTIONS[name]
    if isinstance(found, dict):
        found = found.get(dtype.name) or found.get(dtype.kind) or found["f"]
    if found != SERIES:
        return Text(found.format(*args))
    exponent = easy_exponent(name, given)
    called, needs = _series(name, dtype.name, len(args), exponent)
    used = args if exponent is None else args[:1]
    return Text(f"{called}({', '.join(used)})", needs)


def easy_exponent(name: str, given: Sequence[Value]) -> float | None:
    """Return the exponent of a power that is a product or a root, which is a function of its own.

    >>> f32 = np.dtype("float32")
    >>> x = Value("load", (), f32, Level.ELEMENT, 0)
    >>> [easy_exponent("pow", [x, Value("const", (), f32, Level.SCALAR, n)]) for n in (-3.0, 1.7)]
    [-3.0, None]
    """
    if name != "pow" or given[1].op != "const" or abs(given[1].extra) not in mathlib.EASY:
        return None
    return float(given[1].extra)


@functools.cache
def _series(
    name: str, dtype: str, n_args: int, exponent: float | None
) -> tuple[str, tuple[str, ...]]:
    """Return what a function is called by, and the texts that it needs."""
    type_ = _LLVM[dtype]
    called = f"{name}_{dtype}"
    given = [Value("load", (), np.dtype(dtype), Level.ELEMENT, 0)] * n_args

    def function(*args: Num) -> Num:
        if exponent is not None:
            return mathlib.power(args[0], exponent)
        if dtype == "float64" and name in IN_DOUBLE:
            return IN_DOUBLE[name](*args)
        return machine.apply(name, args, given)

    if exponent is not None:
        called = f"pow_{_spelled(exponent)}_{dtype}"
    source = mathlib.SERIES.get(name)
    if source is not None:
        function.__doc__ = (source.__doc__ or "").partition("\n")[0]
    text = traced(called, [type_] * (1 if exponent is not None else n_args), function)
    needs = (FMOD,) if "= fmod(" in text else ()
    return called, (*needs, text)


def _spelled(number: float) -> str:
    return repr(float(number)).replace("-", "minus_").replace("+", "").replace(".", "_")


def cast(x: str, before: np.dtype[Any], after: np.dtype[Any]) -> Text:
    """Return a number in another dtype, as ``astype`` does; what no int holds becomes any int."""
    if before == after:
        return Text(x)
    if after.name == "bool":
        return Text(f"{x} != 0")
    if is_half(before) and after.name != "float32":
        return cast(f"{x}.to(tl.float32)", np.dtype("float32"), after)
    if is_half(after) and before.name != "float32" and before.itemsize >= 4:
        wide = x if before.name == "float64" else f"{x}.to(tl.float64)"
        return Text(f"to_float({wide}).to({DTYPES[after.name]})", (TO_HALF,))
    if is_half(after) and before.name != "float32":
        x = f"{x}.to(tl.float32)"
    return Text(f"{x}.to({DTYPES[after.name]})")

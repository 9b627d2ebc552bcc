"""Series of the CPU's machine code as Triton: the same formulas, traced into another text.

`gradwright.cpu.llvm.kernels.mathlib` writes elementary functions as arithmetic on numbers, each of
which writes an instruction. Given numbers that write Triton instead, it writes a function of
``@triton.jit``: one set of formulas and of coefficients, on two backends.

Triton's own ``exp``, ``log`` and ``sin`` are approximations in float32, and its interpreter does
not show it; of what is traced here, a GPU computes the bits that the interpreter does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradwright.cpu.llvm.text import Code, Num

TYPES = {
    **{"float": "tl.float32", "double": "tl.float64", "i1": "tl.int1"},
    **{"i32": "tl.int32", "i64": "tl.int64"},
}
"""Triton's name of each type that a value has in LLVM's text."""
_OPERATORS = {
    **{"fadd": "+", "fsub": "-", "fmul": "*", "add": "+", "sub": "-", "mul": "*"},
    **{"and": "&", "or": "|", "xor": "^", "shl": "<<", "ashr": ">>", "sdiv": "//", "srem": "%"},
}
_TESTS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_SIGN = {"float": -(2**31), "double": -(2**63)}
_BITS = {"float": "i32", "double": "i64"}
_WHOLE = {"float": 2.0**23, "double": 2.0**52}
"""From here on every number is a whole one."""
NAN = ", propagate_nan=tl.PropagateNan.ALL"
"""Has maximum and minimum keep NaN."""


class Script(Code):
    """Lines of a Triton function."""

    def write(self, type_: str, text: str) -> Number:
        """Write ``new = text`` and return it as a value."""
        name = self.name("v")
        self.lines.append(f"    {name} = {text}")
        return Number(self, type_, name)

    def const(self, type_: str, value: Any) -> Number:
        """Return a constant."""
        return Number(self, type_, literal(type_, value), is_fixed=True)

    def call(self, type_: str, function: str, *args: Num) -> Number:
        """Call what LLVM has from the C library, float64 but for ``fmodf``."""
        names = ", ".join(a.name for a in args)
        return self.write(type_, f"{_LIBRARY[function]}({names})")


_LIBRARY = {"fmod": "fmod", "fmodf": "fmod", "sin": "tl.sin", "cos": "tl.cos"}


def literal(type_: str, value: Any) -> str:
    """Return a constant as Triton writes it, ints as signed ones; those of "u64" have no sign.

    >>> literal("float", 0.5), literal("double", float("-inf")), literal("i64", 2**63)
    ('0.5', 'float("-inf")', '-9223372036854775808')
    """
    if type_ in ("float", "double"):
        number = float(value)
        return repr(number) if math.isfinite(number) else f'float("{number}")'
    if type_ == "i1":
        return str(bool(value))
    if type_ == "u64":
        return str(int(value))
    bits = int(type_[1:])
    return str((int(value) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1))


@dataclass(frozen=True, eq=False)
class Number(Num):
    """A value of a Triton function; its type has LLVM's name."""

    code: Script
    is_fixed: bool = False

    def of(self, value: Any) -> Number:
        """Return ``value`` as a number of this one's type."""
        return value if isinstance(value, Number) else self.code.const(self.type, value)

    def held(self) -> Number:
        """Return a number that has a type in the text, too: a literal alone has none."""
        if not self.is_fixed:
            return self
        return self.code.write(self.type, f"tl.full([], {self.name}, {TYPES[self.type]})")

    def op(self, instruction: str, *others: Any) -> Number:
        """Write an instruction of LLVM's on values of this type."""
        code, a = self.code, self
        if instruction == "fneg":  # Triton's minus is 0 - x, which loses the sign of 0.0
            return code.write(self.type, f"{self.name} * -1.0")
        b = self.of(others[0])
        if a.is_fixed and b.is_fixed:
            a = a.held()
        if instruction == "fdiv":
            exact = self.type == "float"
            a = a.held() if exact else a
            text = f"tl.div_rn({a.name}, {b.name})" if exact else f"{a.name} / {b.name}"
            return code.write(self.type, text)
        if instruction == "lshr":
            wide = TYPES[self.type].replace("int", "uint")
            by = b.name if b.is_fixed else f"{b.name}.to({wide})"
            text = (
                f"({a.name}.to({wide}, bitcast=True) >> {by}).to({TYPES[self.type]}, bitcast=True)"
            )
            return code.write(self.type, text)
        return code.write(self.type, f"{a.name} {_OPERATORS[instruction]} {b.name}")

    def compare(self, test: str, other: Any) -> Number:
        """Return whether ``self test other`` holds, the test as LLVM calls it."""
        a, b = self.held().name, self.of(other).name
        if test == "uno":
            return self.code.write("i1", f"{a} != {a}")
        if test == "one":
            return self.code.write("i1", f"({a} < {b}) | ({a} > {b})")
        if test[0] == "u" and test != "une":  # of ints as unsigned ones
            wide = TYPES[self.type].replace("int", "uint")
            b = self.of(other).held().name
            a, b = (f"{x}.to({wide}, bitcast=True)" for x in (a, b))
        return self.code.write("i1", f"{a} {_TESTS[test[-2:]]} {b}")

    def where(self, yes: Num, no: Any) -> Number:
        """Return ``yes`` where this bool holds and ``no`` elsewhere."""
        assert isinstance(yes, Number)
        no = yes.of(no)
        if yes.is_fixed and no.is_fixed:
            yes = yes.held()
        return self.code.write(yes.type, f"tl.where({self.name}, {yes.name}, {no.name})")

    def to(self, instruction: str, type_: str) -> Number:
        """Convert with an instruction of LLVM's such as ``bitcast`` or ``sitofp``."""
        x, how = self.held().name, ""
        if instruction == "bitcast":
            how = ", bitcast=True"
        elif instruction == "zext" and self.type != "i1":
            x += f".to({TYPES[self.type].replace('int', 'uint')}, bitcast=True)"
        return self.code.write(type_, f"{x}.to({TYPES[type_]}{how})")

    def call(self, intrinsic: str, *others: Any) -> Number:
        """Call what ``llvm.intrinsic`` is in Triton."""
        args = (self.held(), *map(self.of, others))
        names = ", ".join(a.name for a in args)
        if intrinsic in _CALLS:
            return self.code.write(self.type, f"{_CALLS[intrinsic]}({names})")
        return _OWN[intrinsic](*args)


_CALLS = {
    **{"fabs": "tl.abs", "fma": "tl.fma", "fmuladd": "tl.fma"},
    **{"floor": "tl.floor", "ceil": "tl.ceil", "smax": "tl.maximum", "smin": "tl.minimum"},
}


def _copysign(x: Number, y: Number) -> Number:
    bits, sign = _BITS[x.type], _SIGN[x.type]
    size = x.to("bitcast", bits) & ~sign
    return (size | (y.held().to("bitcast", bits) & sign)).to("bitcast", x.type)  # type: ignore[return-value]


def _sqrt(x: Number) -> Number:
    exact = "tl.sqrt_rn" if x.type == "float" else "tl.sqrt"  # which is rounded, in float64
    return x.code.write(x.type, f"{exact}({x.name})")


def _rint(x: Number) -> Number:
    """Round halves to even: what 2²³ is added to keeps no fraction."""
    big = _WHOLE[x.type]
    size = x.call("fabs")
    whole = (size < big).where((size + big) - big, size)
    return _copysign(whole, x)  # type: ignore[arg-type]


def _trunc(x: Number) -> Number:
    return (x < 0).where(x.call("ceil"), x.call("floor"))  # type: ignore[return-value]


def _extremum(name: str) -> Callable[[Number, Number], Number]:
    def of(x: Number, y: Number) -> Number:
        return x.code.write(x.type, f"tl.{name}({x.name}, {y.name}{NAN})")

    return of


_OWN: dict[str, Callable[..., Number]] = {
    **{"copysign": _copysign, "sqrt": _sqrt, "rint": _rint, "trunc": _trunc},
    **{"maximum": _extremum("maximum"), "minimum": _extremum("minimum")},
}


def traced(name: str, types: Sequence[str], function: Callable[..., Num]) -> str:
    """Return the Triton function of a formula, of arguments that have LLVM's types.

    >>> print(traced("double_", ["float"], lambda x: x + x))
    @triton.jit
    def double_(x):
        v1 = x + x
        return v1
    <BLANKLINE>
    """
    code = Script(flags="")
    args = [Number(code, t, n) for t, n in zip(types, "xyz", strict=False)]
    found = function(*args)
    names = ", ".join(a.name for a in args)
    doc = [f'    """{function.__doc__.strip()}"""'] if function.__doc__ else []
    lines = [f"@triton.jit\ndef {name}({names}):", *doc, *code.lines, f"    return {found.name}"]
    return "\n".join(lines) + "\n"

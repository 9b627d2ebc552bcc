"""LLVM text, written top to bottom: `Code` collects lines, a `Num` is one typed value in them.

Arithmetic on Nums writes instructions, so that a series reads as its formula. A value may be a
vector, ``<16 x float>``, and is then computed with lane by lane. Floats carry the
code's current ``flags``; the elementary functions switch them off, since their error terms mean
what they say.
"""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

FUSE, REORDER = "contract", "contract reassoc"
"""What LLVM may do: everywhere fuse a product and a sum, in reductions also reorder them.

Never nnan or ninf, since infinities mask attention, nor nsz where the sign of a zero shows. Nor
arcp and afn: they take 1/√x from an estimate that makes NaN of 0, and x/y from a reciprocal that
overflows for subnormal y.
"""


def lanes(type_: str) -> tuple[int, str]:
    """Return how many lanes a vector has, and their type.

    >>> lanes("<16 x float>")
    (16, 'float')
    """
    n, _, of = type_[1:-1].partition(" x ")
    return int(n), of


def literal(type_: str, value: Any) -> str:
    """Return a constant as LLVM writes it: floats as the bits of the double they equal.

    That of a vector has the same number in all lanes, or those of a sequence.

    >>> literal("float", 0.5), literal("i64", True), literal("<2 x i8>", 7)
    ('0x3FE0000000000000', '1', '<i8 7, i8 7>')
    """
    if type_.startswith("<"):
        n, of = lanes(type_)
        values = value if isinstance(value, Sequence) else [value] * n
        return f"<{', '.join(f'{of} {literal(of, v)}' for v in values)}>"
    if type_ not in ("float", "double"):
        return str(int(value))
    number = float(value)
    if type_ == "float" and math.isfinite(number):
        with contextlib.suppress(OverflowError):
            number = struct.unpack("f", struct.pack("f", number))[0]
    if math.isnan(number):
        return "0x7FF8000000000000"
    return f"0x{struct.unpack('Q', struct.pack('d', number))[0]:016X}"


def suffix(type_: str) -> str:
    """Return a type as names of intrinsics end.

    >>> suffix("double"), suffix("<8 x i32>")
    ('f64', 'v8i32')
    """
    n, of = lanes(type_) if type_.startswith("<") else (0, type_)
    return f"v{n}" * bool(n) + {"float": "f32", "double": "f64"}.get(of, of)


@dataclass
class Code:
    """Lines of one function, what it declares outside of it, and nodes of metadata."""

    lines: list[str] = field(default_factory=list)
    declarations: dict[str, str] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)
    flags: str = FUSE
    _count: int = 0

    def __post_init__(self) -> None:
        self.constant = f"!invariant.load {self.node('!{}')}"
        group = self.node("distinct !{}")
        self.group = f"!llvm.access.group {group}"
        self.parallel = self.node(f'!{{!"llvm.loop.parallel_accesses", {group}}}')
        """Hint of a loop: no turn reads memory that another one writes."""
        self.in_pairs = self.node('!{!"llvm.loop.interleave.count", i32 2}')
        """Hint of a loop: two vectors at a time."""
        self.single = self.node('!{!"llvm.loop.interleave.count", i32 1}')
        """Hint of a loop: one vector at a time."""
        self.of_eight = self.node('!{!"llvm.loop.vectorize.width", i32 8}')
        """Hint of a loop: vectors of eight."""
        self.masked = self.node('!{!"llvm.loop.vectorize.predicate.enable", i1 true}')
        """Hint of a loop: what is left of the last vector is masked, not another loop."""

    def entry(self, slot: int, type_: str = "i64") -> Num:
        """Read an entry of the block."""
        at = self.let("ptr", f"getelementptr i64, ptr %block, i64 {slot}")
        return self.let(type_, f"load {type_}, ptr {at.name}, {self.constant}")

    def entries(self, names: Sequence[str], pointers: int) -> dict[str, Num]:
        """Read the block, whose first entries are addresses."""
        return {
            name: self.entry(slot, "ptr" if slot < pointers else "i64")
            for slot, name in enumerate(names)
        }

    def module(self, attributes: str = "") -> str:
        """Return what has been written, as a function ``k`` of a block that it only reads."""
        nodes = (f"!{number} = {node}" for number, node in enumerate(self.nodes))
        return "\n".join(
            [
                f"define void @k(ptr noalias nocapture readonly %block) nounwind {attributes} {{",
                "entry:",
                *self.lines,
                "  ret void",
                "}",
                *self.declarations.values(),
                *nodes,
                "",
            ]
        )

    def node(self, text: str) -> str:
        """Return the name of a new node of metadata, which ``self`` in its text refers to."""
        name = f"!{len(self.nodes)}"
        self.nodes.append(text.replace("self", name))
        return name

    def name(self, stem: str) -> str:
        """Return a name that is used nowhere else."""
        self._count += 1
        return f"{stem}{self._count}"

    def let(self, type_: str, text: str) -> Num:
        """Write ``%new = text`` and return it as a value of ``type_``."""
        name = self.name("%v")
        self.lines.append(f"  {name} = {text}")
        return Num(self, type_, name)

    def do(self, text: str) -> None:
        """Write an instruction that has no value."""
        self.lines.append(f"  {text}")

    def const(self, type_: str, value: Any) -> Num:
        """Return a constant."""
        return Num(self, type_, literal(type_, value))

    def call(self, type_: str, function: str, *args: Num) -> Num:
        """Call a function outside: an LLVM intrinsic or one of the C library."""
        types = ", ".join(a.type for a in args)
        self.declarations[function] = f"declare {type_} @{function}({types})"
        given = ", ".join(f"{a.type} {a.name}" for a in args)
        flags = f"{self.flags} " if type_ in ("float", "double") and self.flags else ""
        return self.let(type_, f"call {flags}{type_} @{function}({given})")

    @contextlib.contextmanager
    def flagged(self, flags: str) -> Iterator[None]:
        """Write floating-point instructions with other flags; with none, exactly as they stand."""
        before, self.flags = self.flags, flags
        yield
        self.flags = before

    @contextlib.contextmanager
    def loop(
        self,
        start: Num,
        stop: Num,
        step: int = 1,
        carried: Sequence[Num] = (),
        hints: Sequence[str] = (),
    ) -> Iterator[Loop]:
        """Write a loop over a range; ``carried`` values go from turn to turn."""
        label = self.name("loop")
        self.do(f"br label %{label}.enter")
        self.lines.append(f"{label}.enter:")
        self.do(f"br label %{label}")
        self.lines.append(f"{label}:")
        at = len(self.lines)
        index = Num(self, "i64", f"%{label}.i")
        turns = [Num(self, c.type, f"%{label}.c{n}") for n, c in enumerate(carried)]
        self.do(f"%{label}.more = icmp slt i64 {index.name}, {stop.name}")
        self.do(f"br i1 %{label}.more, label %{label}.body, label %{label}.done")
        self.lines.append(f"{label}.body:")
        loop = Loop(index, turns)
        yield loop
        self.do(f"br label %{label}.next")
        self.lines.append(f"{label}.next:")
        self.do(f"%{label}.i1 = add nuw nsw i64 {index.name}, {step}")
        hint = self.node(f"distinct !{{{', '.join(['self', *hints])}}}")
        self.do(f"br label %{label}, !llvm.loop {hint}")
        self.lines.append(f"{label}.done:")
        phis = [(index, start, f"%{label}.i1")]
        phis += [(t, c, n.name) for t, c, n in zip(turns, carried, loop.turned, strict=True)]
        self.lines[at:at] = [
            f"  {phi.name} = phi {phi.type} "
            f"[{first.name}, %{label}.enter], [{after}, %{label}.next]"
            for phi, first, after in phis
        ]


@dataclass
class Loop:
    """Inside a loop: its index, the carried values, and what they become (``turned``).

    After the loop ``carried`` holds the last values.
    """

    index: Num
    carried: list[Num]
    turned: list[Num] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Num:
    """A value of LLVM type ``type``: float, double, half, or an integer ``i...``."""

    code: Code
    type: str
    name: str

    @property
    def is_float(self) -> bool:
        """Tell whether it is a floating-point number, or a vector of them."""
        return self.type.removesuffix(">").endswith(("float", "double"))

    def of(self, value: Any) -> Num:
        """Return ``value`` as a Num of this one's type."""
        return value if isinstance(value, Num) else self.code.const(self.type, value)

    def op(self, instruction: str, *others: Any) -> Num:
        """Write an instruction on values of this type."""
        flags = f"{self.code.flags} " if instruction[0] == "f" and self.code.flags else ""
        names = ", ".join([self.name, *(self.of(o).name for o in others)])
        return self.code.let(self.type, f"{instruction} {flags}{self.type} {names}")

    def __add__(self, other: Any) -> Num:
        return self.op("fadd" if self.is_float else "add", other)

    def __sub__(self, other: Any) -> Num:
        return self.op("fsub" if self.is_float else "sub", other)

    def __mul__(self, other: Any) -> Num:
        return self.op("fmul" if self.is_float else "mul", other)

    def __truediv__(self, other: Any) -> Num:
        return self.op("fdiv", other)

    def __neg__(self) -> Num:
        return self.op("fneg") if self.is_float else self.of(0) - self

    def __and__(self, other: Any) -> Num:
        return self.op("and", other)

    def __or__(self, other: Any) -> Num:
        return self.op("or", other)

    def __xor__(self, other: Any) -> Num:
        return self.op("xor", other)

    def __lshift__(self, other: Any) -> Num:
        return self.op("shl", other)

    def __rshift__(self, other: Any) -> Num:
        return self.op("ashr", other)

    def compare(self, test: str, other: Any) -> Num:
        """Return whether ``self test other`` holds, the test as LLVM calls it."""
        kind = "fcmp" if self.is_float else "icmp"
        found = f"<{lanes(self.type)[0]} x i1>" if self.type.startswith("<") else "i1"
        return self.code.let(found, f"{kind} {test} {self.type} {self.name}, {self.of(other).name}")

    def __lt__(self, other: Any) -> Num:
        return self.compare("olt" if self.is_float else "slt", other)

    def __gt__(self, other: Any) -> Num:
        return self.compare("ogt" if self.is_float else "sgt", other)

    def equals(self, other: Any) -> Num:
        """Return whether both are the same number; NaN is not."""
        return self.compare("oeq" if self.is_float else "eq", other)

    def is_nan(self) -> Num:
        """Return whether it is NaN."""
        return self.compare("uno", self)

    def where(self, yes: Num, no: Any) -> Num:
        """Return ``yes`` where this i1 holds and ``no`` elsewhere."""
        no = yes.of(no)
        return self.code.let(
            yes.type, f"select {self.type} {self.name}, {yes.type} {yes.name}, {no.type} {no.name}"
        )

    def to(self, instruction: str, type_: str) -> Num:
        """Convert with an LLVM instruction such as ``bitcast`` or ``sitofp``."""
        return self.code.let(type_, f"{instruction} {self.type} {self.name} to {type_}")

    def call(self, intrinsic: str, *others: Any) -> Num:
        """Call ``llvm.intrinsic`` on values of this type."""
        others = tuple(self.of(o) for o in others)
        return self.code.call(self.type, f"llvm.{intrinsic}.{suffix(self.type)}", self, *others)

    def extremum(self, intrinsic: str, other: Any) -> Num:
        """Return the ``maximum`` or ``minimum``: NaN if one is, and of two zeros either."""
        with self.code.flagged("nsz" if self.is_float else ""):
            return self.call(intrinsic if self.is_float else f"s{intrinsic[:3]}", other)

    def madd(self, factor: Any, term: Any) -> Num:
        """Return ``self · factor + term``, rounded once where the machine can."""
        return self.call("fmuladd", factor, term)

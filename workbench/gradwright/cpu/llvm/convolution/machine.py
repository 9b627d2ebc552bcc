"""What functions of convolutions are written with: the vectors of a machine, addresses, masks."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..target import Target, target
from ..text import Code, Num, suffix

Array = np.ndarray[Any, Any]

WIDE = {8: (3, 2, 1), 6: (4, 3, 2, 1), 4: (6, 4, 3, 2, 1), 2: (8, 4, 2, 1), 1: (8, 4, 2, 1)}
NARROW = {6: (2, 1), 4: (3, 2, 1), 2: (4, 2, 1), 1: (6, 3, 1)}
"""For so many channels, how many vectors of positions a tile has, and smaller ones for the rest:
what fits 32 registers, and 16."""
WIDE_BLOCKS = {1: 16, 2: 14, 3: 9, 4: 6}
NARROW_BLOCKS = {1: 8, 2: 6, 3: 4}
"""For so many vectors of channels, how many positions a tile has at most: sums, weights and one
number of the image fit as many."""


def numbers(names: Sequence[str], **values: int) -> Array:
    """Return the block of a function whose entries have names."""
    return np.array([values[name] for name in names], np.int64)


class Machine:
    """Vectors of a machine: how many items one holds, and how many there are."""

    def __init__(self, char: str, size: int, registers: int) -> None:
        self.char, self.item = char, np.dtype(char).itemsize
        self.real = {"f": "float", "d": "double"}[char]
        self.width = size // self.item
        self.shapes = WIDE if registers >= 32 else NARROW
        self.blocks = WIDE_BLOCKS if registers >= 32 else NARROW_BLOCKS
        self.columns = 2 if registers >= 32 else 1
        """Vectors of channels that a tile of a weight's gradient has at most."""

    def rows(self, channels: int, length: int) -> int:
        """Return how many of these channels to take at a time, for so many positions."""
        vectors = -(-length // self.width)
        return min(self.shapes, key=lambda r: (-(-channels // r) * self._cost(r, vectors), -r))

    def _cost(self, rows: int, vectors: int) -> int:
        """Return what a row of tiles takes: products, or loads, or waiting for sums."""
        cost = 0
        for n in self.shapes[rows]:
            some, vectors = divmod(vectors, n)
            cost += some * max(rows * n, rows + n, 8)
        return cost

    def cycles(self, channels: int, length: int) -> float:
        """Return how many cycles one tap of all channels takes at least, for so many positions."""
        rows = self.rows(channels, length)
        return -(-channels // rows) * self._cost(rows, -(-length // self.width)) / 2

    @property
    def masks(self) -> bool:
        """Tell whether the last vector of a row may be part of one, where it lies."""
        return self.width * self.item >= 32

    @property
    def slack(self) -> int:
        """Return how many bytes behind a row the largest tile may read and write."""
        return self.width * self.item * max(max(v) for v in self.shapes.values())


@functools.cache
def machine(char: str) -> Machine:
    """Return what this machine has for floats of a dtype."""
    return machine_of(target(), char)


def machine_of(target: Target, char: str) -> Machine:
    """Return what a target has.

    >>> machine_of(Target("native", "aarch64", frozenset()), "f").width
    4
    """
    if "avx512f" in target.flags:
        return Machine(char, 64, 32)
    if "avx2" in target.flags:
        return Machine(char, 32, 16)
    return Machine(char, 16, 32 if target.is_arm else 16)


class Text:
    """What the functions are written with: vectors, addresses, masks."""

    def __init__(self, machine: Machine) -> None:
        self.code, self.machine = Code(), machine
        self.real, self.item, self.width = machine.real, machine.item, machine.width
        self.type = f"<{self.width} x {self.real}>"
        self.zero, self.none = self.number(0), Num(self.code, self.type, "zeroinitializer")

    def number(self, n: int) -> Num:
        """Return a constant integer."""
        return self.code.const("i64", n)

    def shift(self, pointer: Num, by: Num | int) -> Num:
        """Return an address some bytes further on."""
        offset = by if isinstance(by, int) else by.name
        return self.code.let("ptr", f"getelementptr i8, ptr {pointer.name}, i64 {offset}")

    def offset(self, table: Num, index: Num) -> Num:
        """Read a number of a table."""
        at = self.shift(table, index * 8)
        return self.code.let("i64", f"load i64, ptr {at.name}, {self.code.constant}")

    def load(self, pointer: Num, type_: str | None = None) -> Num:
        """Load a vector, or a number of another type."""
        type_ = type_ or self.type
        return self.code.let(type_, f"load {type_}, ptr {pointer.name}, align {self.item}")

    def store(self, value: Num, pointer: Num) -> None:
        """Store a vector or a number."""
        self.code.do(f"store {value.type} {value.name}, ptr {pointer.name}, align {self.item}")

    def prefetch(self, pointer: Num, writes: bool = False) -> None:
        """Have the memory at an address, if there is some, brought to the second cache."""
        self.code.declarations["prefetch"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        how = f"i32 {writes:d}, i32 2, i32 1"
        self.code.do(f"call void @llvm.prefetch.p0(ptr {pointer.name}, {how})")

    def vector(self, kind: str) -> str:
        """Return the type of vectors of a kind of scalars."""
        return f"<{self.width} x {kind}>"

    def fill(self, scalar: Num) -> Num:
        """Return a vector that has a scalar everywhere."""
        kind = self.vector(scalar.type)
        one = self.code.let(
            kind, f"insertelement {kind} poison, {scalar.type} {scalar.name}, i64 0"
        )
        return self.shuffle(one, Num(self.code, kind, "poison"), [0] * self.width)

    def shuffle(self, a: Num, b: Num, lanes: Sequence[int]) -> Num:
        """Return the vector of some lanes of two."""
        item = a.type.split(" x ")[1]
        chosen = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.code.let(
            f"<{len(lanes)} x {item}",
            f"shufflevector {a.type} {a.name}, {b.type} {b.name}, <{len(lanes)} x i32> <{chosen}>",
        )

    def lanes_below(self, n: Num, first: int = 0) -> Num:
        """Return which lanes have numbers less than n, those of the first lane being ``first``."""
        number = f"i{8 * self.item}"
        kind, most = self.vector(number), self.number(first + self.width)
        few = self.code.call("i64", "llvm.smin.i64", n, most)
        few = few if self.item == 8 else few.to("trunc", number)
        lanes = ", ".join(f"{number} {first + i}" for i in range(self.width))
        return self.code.let(self.vector("i1"), f"icmp sgt {kind} {self.fill(few).name}, <{lanes}>")

    def masked_load(self, pointer: Num, mask: Num) -> Num:
        """Load a vector whose lanes outside of the mask are not touched, and count as 0."""
        load = f"llvm.masked.load.{suffix(self.type)}.p0"
        align = self.code.const("i32", self.item)
        return self.code.call(self.type, load, pointer, align, mask, self.none)

    def masked_store(self, value: Num, pointer: Num, mask: Num, align: int) -> None:
        """Store the lanes of a mask."""
        store = f"@llvm.masked.store.{suffix(value.type)}.p0"
        types = f"{value.type}, ptr, i32, {mask.type}"
        self.code.declarations[store] = f"declare void {store}({types})"
        self.code.do(
            f"call void {store}({value.type} {value.name}, ptr {pointer.name}, i32 {align}, "
            f"{mask.type} {mask.name})"
        )

    def add(self, a: Num, b: Num) -> Num:
        """Return a + b."""
        return self.code.let(a.type, f"fadd contract {a.type} {a.name}, {b.name}")

    def madd(self, total: Num, a: Num, b: Num) -> Num:
        """Return total + a·b, rounded once where the machine can."""
        product = self.code.let(a.type, f"fmul contract {a.type} {a.name}, {b.name}")
        return self.add(total, product)

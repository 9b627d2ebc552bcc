"""Machine code of convolutions: products whose sums stay in registers, tile by tile.

    taps    y[o, l] = bias[o] + Σ_k w[k, o]·x[l + offset_k]         vectors along positions l
    outer   dw[k, o] += Σ_l x[l + offset_k]·g[l, o]                 vectors along channels o
    inner   dw[o, k] += Σ_l g[o, l]·x[l + offset_k]                 vectors along positions l

``offsets`` hold for each tap of each channel where it is in the padded image, in bytes. A tile of
8 channels by 3 vectors reaches 115 GF/s where OpenBLAS reaches 105 on large matrices (float32,
Zen 4).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..target import Target, target
from ..text import Code, Num

Array = np.ndarray[Any, Any]

TAPS = (
    "x", "weights", "bias", "y", "offsets", "taps", "groups", "planes", "tiles", "length",
    "x_group", "x_plane", "y_row", "y_plane",
)  # fmt: skip
"""Block of ``taps``: addresses, counts, and steps in bytes; a tile has ``rows`` channels."""
OUTER = (
    "x", "g", "dw", "offsets", "starts", "groups", "tiles", "columns", "rows", "length",
    "x_group", "g_step", "dw_step",
)  # fmt: skip
"""Block of ``outer``: ``starts`` are where rows of ``length`` positions begin in the image."""
INNER = (
    "x", "g", "dw", "offsets", "starts", "groups", "tiles", "channels", "rows", "length",
    "x_group", "g_row", "g_channel", "dw_step",
)  # fmt: skip
"""Block of ``inner``: as of ``outer``, with each channel's rows of g one after the other."""
WIDE = {8: (3, 2, 1), 4: (6, 3, 1), 2: (8, 4, 1), 1: (8, 4, 1)}
NARROW = {4: (3, 1), 2: (4, 2, 1), 1: (6, 3, 1)}
"""For so many channels, how many vectors of positions a tile has, and smaller ones for the rest:
what fits 32 registers, and 16."""
TAPS_AT_ONCE = 512
"""Products of float32 that are added up one by one, where there are more than twice as many."""
COUNTS = (9, 8)
"""How many taps of the image a tile of a weight's gradient may have."""


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
        self.columns = 2 if registers >= 32 else 1
        """Vectors of channels that a tile of a weight's gradient has at most."""

    def rows(self, channels: int) -> int:
        """Return how many output channels to take at a time: few in vain, and many."""
        most = max(self.shapes)
        return min(self.shapes, key=lambda r: -(-channels // r) * (4 * r + most))

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


def taps_in_tile(n: int) -> int:
    """Return how many of n taps to take at a time."""
    return min(COUNTS, key=lambda r: (-(-n // r) * r, -r))


@functools.cache
def compiled(kind: str, char: str, *sizes: int) -> int:
    """Return the address of ``taps`` (rows, long), ``outer`` (taps, vectors), ``inner`` (taps)."""
    from ..compiler import compile_text

    return compile_text(source(kind, machine(char), *sizes))


def source(kind: str, machine: Machine, *sizes: int) -> str:
    """Return the text of a function.

    >>> "fadd contract <4 x double>" in source("taps", Machine("d", 32, 16), 4)
    True
    """
    text = Text(machine)
    write: dict[str, Callable[..., None]] = {"taps": _taps, "outer": _outer, "inner": _inner}
    write[kind](text, *sizes)
    return text.module()


class Text:
    """What the functions are written with: vectors, addresses, entries of the block."""

    def __init__(self, machine: Machine) -> None:
        self.code, self.machine = Code(), machine
        self.real, self.item, self.width = machine.real, machine.item, machine.width
        self.type = f"<{self.width} x {self.real}>"
        self.zero, self.none = self.number(0), Num(self.code, self.type, "zeroinitializer")
        self.declared: set[str] = set()

    def module(self) -> str:
        """Return what has been written, as a function ``k``."""
        code = self.code
        return "\n".join(
            [
                "define void @k(ptr noalias nocapture readonly %block) nounwind {",
                "entry:",
                *code.lines,
                "  ret void",
                "}",
                *self.declared,
                *code.declarations.values(),
                *(f"!{number} = {node}" for number, node in enumerate(code.nodes)),
            ]
        )

    def number(self, n: int) -> Num:
        """Return a constant integer."""
        return self.code.const("i64", n)

    def entries(self, names: Sequence[str], pointers: int) -> dict[str, Num]:
        """Read the block, whose first entries are addresses."""
        found = {}
        for slot, name in enumerate(names):
            kind = "ptr" if slot < pointers else "i64"
            at = self.code.let("ptr", f"getelementptr i64, ptr %block, i64 {slot}")
            found[name] = self.code.let(kind, f"load {kind}, ptr {at.name}, {self.code.constant}")
        return found

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
        kind = self.vector("i64")
        lanes = ", ".join(f"i64 {first + i}" for i in range(self.width))
        return self.code.let(self.vector("i1"), f"icmp sgt {kind} {self.fill(n).name}, <{lanes}>")

    def masked_load(self, pointer: Num, mask: Num) -> Num:
        """Load a vector whose lanes outside of the mask are not touched, and count as 0."""
        load = f"@llvm.masked.load.v{self.width}f{8 * self.item}.p0"
        self.declared.add(f"declare {self.type} {load}(ptr, i32, {mask.type}, {self.type})")
        given = f"ptr {pointer.name}, i32 {self.item}, {mask.type} {mask.name}"
        return self.code.let(
            self.type, f"call {self.type} {load}({given}, {self.type} zeroinitializer)"
        )

    def masked_store(self, value: Num, pointer: Num, mask: Num, align: int) -> None:
        """Store the lanes of a mask."""
        kind = value.type.split(" x ")[1][:-1]
        short = {"float": "f32", "double": "f64"}.get(kind, kind)
        store = f"@llvm.masked.store.v{self.width}{short}.p0"
        self.declared.add(f"declare void {store}({value.type}, ptr, i32, {mask.type})")
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


def _taps(text: Text, rows: int, is_long: int = 0) -> None:
    """Write products of tiles of ``rows`` channels by a few vectors of positions.

    Vectors reach over the ends of rows, where what they compute is nobody's. Many taps are added
    up in blocks, and these then: 28 additions for each block of a tile.
    """
    code, item, width = text.code, text.item, text.width
    at = text.entries(TAPS, 5)
    vectors = (at["length"] + (width - 1)).op("sdiv", width)
    tile_weights, tile_rows = at["taps"] * (rows * item), at["y_row"] * rows
    with code.loop(text.zero, at["groups"]) as group:
        x_group = text.shift(at["x"], group.index * at["x_group"])
        tiles = group.index * at["tiles"]
        with code.loop(text.zero, at["planes"]) as plane:
            x_plane = text.shift(x_group, plane.index * at["x_plane"])
            y_plane = text.shift(at["y"], plane.index * at["y_plane"])
            begin = text.zero
            for n in text.machine.shapes[rows]:
                with code.loop(begin, vectors - (n - 1), step=n) as block:
                    place = block.index * (width * item)
                    x, y = text.shift(x_plane, place), text.shift(y_plane, place)
                    with code.loop(text.zero, at["tiles"]) as tile:
                        number = tiles + tile.index
                        weights = text.shift(at["weights"], number * tile_weights)
                        bias = text.shift(at["bias"], number * (rows * item))
                        y_tile = text.shift(y, number * tile_rows)
                        _taps_tile(text, rows, n, is_long, at, x, weights, bias, y_tile)
                begin = block.index


def _taps_tile(
    text: Text,
    rows: int,
    n: int,
    is_long: int,
    at: dict[str, Num],
    x: Num,
    weights: Num,
    bias: Num,
    y: Num,
) -> None:
    code, item, step = text.code, text.item, text.item * text.width
    nothing = [text.none] * (rows * n)

    def add_up(first: Num, stop: Num) -> list[Num]:
        with code.loop(first, stop, carried=nothing) as loop:
            seen = text.shift(x, text.offset(at["offsets"], loop.index))
            row = text.shift(weights, loop.index * (rows * item))
            xs = [text.load(text.shift(seen, v * step)) for v in range(n)]
            for r in range(rows):
                weight = text.fill(text.load(text.shift(row, r * item), text.real))
                for v in range(n):
                    loop.turned.append(text.madd(loop.carried[r * n + v], xs[v], weight))
        return loop.carried

    if is_long:
        with code.loop(text.zero, at["taps"], TAPS_AT_ONCE, nothing) as blocks:
            stop = (blocks.index + TAPS_AT_ONCE).call("smin", at["taps"])
            parts = add_up(blocks.index, stop)
            blocks.turned = [text.add(*two) for two in zip(blocks.carried, parts, strict=True)]
        sums = blocks.carried
    else:
        sums = add_up(text.zero, at["taps"])
    for r in range(rows):
        shift = text.fill(text.load(text.shift(bias, r * item), text.real))
        y_row = text.shift(y, at["y_row"] * r)
        for v in range(n):
            text.store(text.add(sums[r * n + v], shift), text.shift(y_row, v * step))


def _outer(text: Text, taps: int, n: int) -> None:
    """Write products of tiles of ``taps`` taps by ``n`` vectors of output channels."""
    code, item, step = text.code, text.item, text.item * text.width
    at = text.entries(OUTER, 5)
    columns = at["columns"] * (n * step)
    with code.loop(text.zero, at["groups"]) as group:
        x_group = text.shift(at["x"], group.index * at["x_group"])
        g_group = text.shift(at["g"], group.index * columns)
        with code.loop(text.zero, at["tiles"]) as tile:
            first = tile.index * taps
            xs = [text.shift(x_group, text.offset(at["offsets"], first + r)) for r in range(taps)]
            number = group.index * at["tiles"] + tile.index
            dw_tile = text.shift(at["dw"], number * (at["dw_step"] * taps))
            with code.loop(text.zero, at["columns"]) as column:
                g = text.shift(g_group, column.index * (n * step))
                dw = text.shift(dw_tile, column.index * (n * step))
                start = [text.none] * (taps * n)
                with code.loop(text.zero, at["rows"], carried=[g, *start]) as row:
                    begin = text.offset(at["starts"], row.index)
                    with code.loop(text.zero, at["length"], carried=row.carried) as loop:
                        place = begin + loop.index * item
                        here, *sums = loop.carried
                        gs = [text.load(text.shift(here, v * step)) for v in range(n)]
                        loop.turned.append(text.shift(here, at["g_step"]))
                        for r, x in enumerate(xs):
                            seen = text.fill(text.load(text.shift(x, place), text.real))
                            for v in range(n):
                                loop.turned.append(text.madd(sums[r * n + v], gs[v], seen))
                    row.turned += loop.carried
                for r in range(taps):
                    line = text.shift(dw, at["dw_step"] * r)
                    for v in range(n):
                        where = text.shift(line, v * step)
                        total = row.carried[1 + r * n + v]
                        text.store(text.add(text.load(where), total), where)


def _inner(text: Text, taps: int) -> None:
    """Write products of one output channel with ``taps`` taps, along rows.

    Behind the end of a row both factors count as 0, so that no infinity is there.
    """
    code, item, width, real = text.code, text.item, text.width, text.real
    at = text.entries(INNER, 5)
    reduce = f"@llvm.vector.reduce.fadd.v{width}f{8 * item}"
    text.declared.add(f"declare {real} {reduce}({real}, {text.type})")
    with code.loop(text.zero, at["groups"]) as group:
        x_group = text.shift(at["x"], group.index * at["x_group"])
        with code.loop(text.zero, at["channels"]) as channel:
            number = group.index * at["channels"] + channel.index
            g = text.shift(at["g"], number * at["g_channel"])
            with code.loop(text.zero, at["tiles"]) as tile:
                first = tile.index * taps
                xs = [
                    text.shift(x_group, text.offset(at["offsets"], first + r)) for r in range(taps)
                ]
                with code.loop(text.zero, at["rows"], carried=[text.none] * taps) as row:
                    begin = text.offset(at["starts"], row.index)
                    g_row = text.shift(g, row.index * at["g_row"])
                    with code.loop(
                        text.zero, at["length"], step=width, carried=row.carried
                    ) as loop:
                        left = at["length"] - loop.index
                        mask = text.lanes_below(left)
                        place = loop.index * item
                        seed = text.masked_load(text.shift(g_row, place), mask)
                        for total, x in zip(loop.carried, xs, strict=True):
                            seen = text.masked_load(text.shift(x, begin + place), mask)
                            loop.turned.append(text.madd(total, seed, seen))
                    row.turned += loop.carried
                line = text.shift(at["dw"], number * at["dw_step"])
                for r, total in enumerate(row.carried):
                    where = text.shift(line, (first + r) * item)
                    start = text.load(where, real)
                    given = f"{real} {start.name}, {text.type} {total.name}"
                    text.store(code.let(real, f"call reassoc {real} {reduce}({given})"), where)

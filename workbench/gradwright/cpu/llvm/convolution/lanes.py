"""Products of convolutions whose vectors run along output channels.

    lanes   y[o, l] = bias[o] + Σ_k w[k, o]·x[l + offset_k]        vectors along channels o

Weights stand in blocks of a few vectors of channels, a tap's numbers one after the other, so that
they come from memory as one stream; of an image single numbers are read, which cross no cache line.
So a map of 7 by 7 wastes nothing, and a tile of 14 positions by 2 vectors reaches 155 GF/s where
``taps`` reach 105 and OpenBLAS 140 on large matrices (float32, Sapphire Rapids). A tile is turned
in registers before it is written. Sums are added up as in ``taps``: with the same bits.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from ..text import Num
from .machine import Machine, Text, machine
from .turning import turned

LANES = (
    "x", "weights", "bias", "y", "offsets", "sums", "taps", "blocks", "planes", "rows", "tiles",
    "length", "channels", "x_plane", "x_row", "y_plane", "y_row", "y_channel", "bias_step",
    "at_once", "ahead",
)  # fmt: skip
"""Block of ``lanes``: addresses, counts, steps in bytes; ``sums`` has room for a tile, and by
``ahead`` bytes a tap what is prefetched of the next block's weights moves on."""
WIDE = {1: (14, 7, 4, 1), 2: (14, 13, 12, 10, 7, 4, 1), 3: (9, 8, 7, 4, 1)}
NARROW = {1: (8, 7, 4, 1), 2: (6, 5, 4, 1), 3: (4, 1)}
"""For so many vectors of channels, how many positions a tile may have: sums, weights and one number
of the image fit 32 registers, and 16."""
LATENCY = 8
"""Sums that must be on their way for a machine to add two of them a cycle."""


@dataclass(frozen=True)
class Tile:
    """A tile of ``positions`` by ``vectors`` of channels."""

    positions: int
    vectors: int


def tile_for(
    machine: Machine, channels: int, length: int, taps: int, vectors: int | None = None
) -> tuple[Tile, float] | None:
    """Return the best tile for rows of so many positions, and about how many cycles a row takes.

    ``vectors`` may be given. None: there are fewer channels than a vector has.

    >>> from ..target import Target
    >>> from .machine import machine_of
    >>> wide = machine_of(Target("native", "x86_64", frozenset({"avx512f"})), "f")
    >>> tile_for(wide, 64, 56, 576)[0], tile_for(wide, 512, 7, 4608)[0]
    (Tile(positions=14, vectors=2), Tile(positions=7, vectors=3))
    """
    width, found = machine.width, []
    for some, positions in (WIDE if machine.registers >= 32 else NARROW).items():
        if channels < some * width or vectors not in (None, some):
            continue
        for n in positions:
            if n <= min(length, width):
                a_tap = max(n * some, n + some + 2, LATENCY) / 2
                turning = some * width * (width.bit_length() + 1)
                times = -(-length // n) * -(-channels // (some * width))
                found.append((times * (taps * a_tap + turning), Tile(n, some)))
    cost, tile = min(found, key=lambda f: f[0], default=(math.inf, None))
    return None if tile is None else (tile, cost)


@functools.cache
def compiled(char: str, tile: Tile) -> int:
    """Return the address of ``lanes``."""
    from ..compiler import compile_text  # llvmlite, which no import of ours may load

    return compile_text(source(machine(char), tile))


def source(machine: Machine, tile: Tile) -> str:
    """Return the text of the function.

    Of positions and channels the last tile, or block, takes some of the one before again.

    >>> "fadd contract <8 x float>" in source(Machine("f", 32, 16), Tile(6, 2))
    True
    """
    text = Text(machine)
    code, item = text.code, text.item
    at = code.entries(LANES, 6)
    n, line = tile.vectors * text.width, tile.vectors * text.width * item
    per_plane = at["rows"] * at["tiles"]
    with code.loop(text.zero, at["blocks"]) as block:
        first = code.call("i64", "llvm.smin.i64", block.index * n, at["channels"] - n)
        weights = text.shift(at["weights"], block.index * (at["taps"] * line))
        bias = text.shift(at["bias"], first * at["bias_step"])
        y_block = text.shift(at["y"], first * at["y_channel"])
        with (
            code.loop(text.zero, at["planes"]) as plane,
            code.loop(text.zero, at["rows"]) as row,
            code.loop(text.zero, at["tiles"]) as turn,
        ):
            last = at["length"] - tile.positions
            start = code.call("i64", "llvm.smin.i64", turn.index * tile.positions, last) * item
            x = text.shift(at["x"], plane.index * at["x_plane"] + row.index * at["x_row"] + start)
            y = text.shift(y_block, plane.index * at["y_plane"] + row.index * at["y_row"] + start)
            number = plane.index * per_plane + row.index * at["tiles"] + turn.index
            ahead = at["taps"] * line + number * (at["taps"] * at["ahead"])
            _summed(text, tile, at, x, weights, text.shift(weights, ahead), bias)
            _given(text, tile, at, y)
    return code.module()


def _summed(
    text: Text, tile: Tile, at: dict[str, Num], x: Num, weights: Num, ahead: Num, bias: Num
) -> None:
    """Write a tile's sums to where they are kept: some taps, then the next ones."""
    code, step = text.code, text.width * text.item
    line = tile.vectors * step
    rounds = (at["taps"] + (at["at_once"] - 1)).op("sdiv", at["at_once"]).call("smax", 1)
    each = [(p, v) for p in range(tile.positions) for v in range(tile.vectors)]
    with code.loop(text.zero, rounds) as some:
        begin = some.index * at["at_once"]
        stop = (begin + at["at_once"]).call("smin", at["taps"])
        with code.loop(begin, stop, carried=[text.none] * len(each)) as loop:
            seen = text.shift(x, text.offset(at["offsets"], loop.index))
            text.prefetch(text.shift(ahead, loop.index * at["ahead"]))
            tap = text.shift(weights, loop.index * line)
            row = [text.load(text.shift(tap, v * step)) for v in range(tile.vectors)]
            for p in range(tile.positions):
                number = text.fill(text.load(text.shift(seen, p * text.item), text.real))
                for v in range(tile.vectors):
                    total = loop.carried[p * tile.vectors + v]
                    loop.turned.append(text.madd(total, row[v], number))
        is_first = begin.compare("eq", 0)
        starts = [text.load(text.shift(bias, v * step)) for v in range(tile.vectors)]
        for (p, v), total in zip(each, loop.carried, strict=True):
            where = text.shift(at["sums"], p * line + v * step)
            before = is_first.where(starts[v], text.load(where))
            text.store(text.add(before, total), where)


def _given(text: Text, tile: Tile, at: dict[str, Num], y: Num) -> None:
    """Write a tile from where its sums are kept to its channels."""
    code, width, n = text.code, text.width, tile.positions
    step = width * text.item
    poison = Num(code, text.type, "poison")
    lanes = ", ".join(f"i1 {int(lane < n)}" for lane in range(width))
    mask = Num(code, f"<{width} x i1>", f"<{lanes}>")
    for v in range(tile.vectors):
        rows = [
            text.load(text.shift(at["sums"], (p * tile.vectors + v) * step)) if p < n else poison
            for p in range(width)
        ]
        for lane, channel in enumerate(turned(text, rows)):
            where = text.shift(y, at["y_channel"] * (v * width + lane))
            if n < width:
                text.masked_store(channel, where, mask, text.item)
            else:
                text.store(channel, where)

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
from collections.abc import Mapping
from dataclasses import dataclass

from ..text import Num
from .machine import Machine, Text, machine
from .tails import Tail
from .turning import turned

LANES = (
    "x", "weights", "bias", "y", "offsets", "sums", "taps", "blocks", "planes", "rows", "tiles",
    "length", "channels", "x_plane", "x_row", "y_plane", "y_row", "y_channel", "bias_step",
    "at_once", "ahead",
)  # fmt: skip
"""Block of ``lanes``: addresses, counts, steps in bytes; ``sums`` has room for a tile, and by
``ahead`` bytes a tap what is prefetched of the next block's weights moves on. Behind it stand the
addresses of a tail's other operands."""
SOON = 256
"""Bytes from what a tile sees of a channel to what tiles will see soon: 1x1 of 256 channels reach
111 GF/s with it, 76 without, for each channel is on another page."""
LATENCY = 8
"""Sums that must be on their way for a machine to add two of them a cycle."""


@dataclass(frozen=True)
class Tile:
    """A tile of ``positions`` by ``vectors`` of channels."""

    positions: int
    vectors: int


def tile_for(
    machine: Machine, vectors: int, channels: int, length: int, taps: int
) -> tuple[Tile, float]:
    """Return the best tile for rows of so many positions, and about how many cycles a row takes.

    >>> from ..target import Target
    >>> from .machine import machine_of
    >>> wide = machine_of(Target("native", "x86_64", frozenset({"avx512f"})), "f")
    >>> tile_for(wide, 2, 64, 56, 576)[0], tile_for(wide, 3, 512, 7, 4608)[0]
    (Tile(positions=14, vectors=2), Tile(positions=7, vectors=3))
    """
    width, found = machine.width, []
    for n in range(1, min(machine.blocks[vectors], length, width) + 1):
        a_tap = max(n * vectors, n + vectors + 3, LATENCY) / 2 + 0.5
        turning = vectors * width * (width.bit_length() + 1)
        times = -(-length // n) * -(-channels // (vectors * width))
        found.append((times * (taps * a_tap + turning), n))
    cost, positions = min(found)
    return Tile(positions, vectors), cost


@functools.cache
def compiled(char: str, tile: Tile, tail: Tail | None = None) -> int:
    """Return the address of ``lanes``."""
    from ..compiler import compile_text  # llvmlite, which no import of ours may load

    return compile_text(source(machine(char), tile, tail))


def source(machine: Machine, tile: Tile, tail: Tail | None = None) -> str:
    """Return the text of the function.

    Of positions and channels the last tile, or block, takes some of the one before again. A tail,
    which may overwrite what it reads, does not: it writes new positions, and all blocks are whole.

    >>> "fadd contract <8 x float>" in source(Machine("f", 32, 16), Tile(6, 2))
    True
    """
    text = Text(machine)
    code, item = text.code, text.item
    at = code.entries(LANES, 6)
    others = {
        k: code.entry(len(LANES) + number, "ptr")
        for number, k in enumerate(tail.others if tail else ())
    }
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
            fresh = turn.index * tile.positions
            start = code.call("i64", "llvm.smin.i64", fresh, last)
            x_row = plane.index * at["x_plane"] + row.index * at["x_row"]
            x = text.shift(at["x"], x_row + start * item)
            y_row = plane.index * at["y_plane"] + row.index * at["y_row"] + start * item
            y = text.shift(y_block, y_row)
            number = plane.index * per_plane + row.index * at["tiles"] + turn.index
            ahead = at["taps"] * line + number * (at["taps"] * at["ahead"])
            _summed(text, tile, at, x, weights, text.shift(weights, ahead), bias)
            if tail is None:
                _given(text, tile, at, y)
            else:
                steps = {
                    True: y_row + first * at["y_channel"],
                    False: first * item,
                    None: text.zero,
                }
                places = {k: text.shift(p, steps[tail.moves[k]]) for k, p in others.items()}
                _given(text, tile, at, y, tail, places, fresh - start)
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
            text.prefetch(text.shift(seen, SOON))
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


def _given(
    text: Text,
    tile: Tile,
    at: dict[str, Num],
    y: Num,
    tail: Tail | None = None,
    places: Mapping[int, Num] | None = None,
    fresh: Num | None = None,
) -> None:
    """Write a tile from where its sums are kept to its channels, through a tail if there is one."""
    code, width, n = text.code, text.width, tile.positions
    step = width * text.item
    poison = Num(code, text.type, "poison")
    lanes = ", ".join(f"i1 {int(lane < n)}" for lane in range(width))
    mask = Num(code, f"<{width} x i1>", f"<{lanes}>")
    new = mask if fresh is None else text.lanes_below(fresh) ^ mask
    with code.loop(text.zero, text.number(tile.vectors)) as vector:
        sums = text.shift(at["sums"], vector.index * step)
        rows = [
            text.load(text.shift(sums, p * tile.vectors * step)) if p < n else poison
            for p in range(width)
        ]
        for lane, channel in enumerate(turned(text, rows)):
            number = vector.index * width + lane
            where = text.shift(y, at["y_channel"] * number)
            if tail is None or places is None:
                text.masked_store(channel, where, mask, text.item)
                continue
            steps = {True: at["y_channel"] * number, False: number * text.item, None: text.zero}
            here = {k: text.shift(p, steps[tail.moves[k]]) for k, p in places.items()}
            ends = [where, *(p for k, p in here.items() if k > tail.kernel.n_inputs)]
            made = tail.turned(text, channel, here, mask)
            for result, end in zip(made, ends, strict=True):
                text.masked_store(result, end, new, text.item)
                text.prefetch(text.shift(end, SOON), writes=True)
            for k, p in here.items():
                if tail.moves[k] and k < tail.kernel.n_inputs:
                    text.prefetch(text.shift(p, SOON))

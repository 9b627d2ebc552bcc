"""Machine code of convolutions: products whose sums stay in registers, tile by tile.

    taps    y[o, l] = bias[o] + Σ_k w[o, k]·x[l + offset_k]         vectors along positions l
    outer   dw[k, o] += Σ_l x[l + offset_k]·g[l, o]                 vectors along channels o
    inner   dw[o, k] += Σ_l g[o, l]·x[l + offset_k]                 vectors along positions l

``offsets`` hold for each tap of each channel where it is in the padded image, in bytes. A tile of
8 channels by 3 vectors reaches 115 GF/s where OpenBLAS reaches 105 on large matrices (float32,
Zen 4).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from ..text import Num, suffix
from .machine import Machine, Text, machine

TAPS = (
    "x", "weights", "bias", "y", "offsets", "taps", "groups", "planes", "channels", "length",
    "x_group", "x_plane", "y_row", "y_plane", "w_row", "bias_step",
    "at_once", "x_vector",
)  # fmt: skip
"""Block of ``taps``: addresses, counts, ``channels`` of a group, steps in bytes, and how many taps
are added up before their sum goes to the result."""
PANELS = ("x", "y", "channels", "length", "x_channel", "y_channel", "y_vector")
"""Block of ``panels``: steps in bytes from channel to channel, and of vectors of positions in y."""
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
COUNTS = (9, 8)
"""How many taps of the image a tile of a weight's gradient may have."""


def taps_in_tile(n: int) -> int:
    """Return how many of n taps to take at a time."""
    return min(COUNTS, key=lambda r: (-(-n // r) * r, -r))


@functools.cache
def compiled(kind: str, char: str, *sizes: int) -> int:
    """Return the address of ``taps`` (rows), ``outer`` (taps, vectors), ``inner`` (taps)."""
    from ..compiler import compile_text

    return compile_text(source(kind, machine(char), *sizes))


def source(kind: str, machine: Machine, *sizes: int) -> str:
    """Return the text of a function.

    >>> "fadd contract <4 x double>" in source("taps", Machine("d", 32, 16), 4)
    True
    """
    text = Text(machine)
    write: dict[str, Callable[..., None]] = {
        **{"taps": _taps, "panels": _panels, "outer": _outer, "inner": _inner},
    }
    write[kind](text, *sizes)
    return text.code.module()


def _taps(text: Text, rows: int) -> None:
    """Write products of tiles of ``rows`` channels by a few vectors of positions.

    All channels take some taps before the next ones, for what these see stays in the first cache.
    Of channels behind the last one a tile takes that one again, with the same result. Positions
    behind the last one are masked; where a machine has no masks, vectors reach over the end, and
    what they compute is nobody's.
    """
    code, item, width = text.code, text.item, text.width
    at = text.entries(TAPS, 5)
    vectors = (at["length"] + (width - 1)).op("sdiv", width)
    rounds = (at["taps"] + (at["at_once"] - 1)).op("sdiv", at["at_once"])
    rounds = rounds.call("smax", 1)  # one where there are no taps: there is the bias
    with code.loop(text.zero, at["groups"]) as group:
        x_group = text.shift(at["x"], group.index * at["x_group"])
        first = group.index * at["channels"]
        with code.loop(text.zero, at["planes"]) as plane:
            x_plane = text.shift(x_group, plane.index * at["x_plane"])
            y_plane = text.shift(at["y"], plane.index * at["y_plane"])
            begin = text.zero
            for n in text.machine.shapes[rows]:
                with code.loop(begin, vectors - (n - 1), step=n) as block:
                    x = text.shift(x_plane, block.index * at["x_vector"])
                    y = text.shift(y_plane, block.index * (width * item))
                    mask = None
                    if text.machine.masks:
                        mask = text.lanes_below(at["length"] - (block.index + (n - 1)) * width)
                    with (
                        code.loop(text.zero, rounds) as some,
                        code.loop(text.zero, at["channels"], step=rows) as tile,
                    ):
                        last = at["channels"] - 1
                        numbers = [
                            first + code.call("i64", "llvm.smin.i64", tile.index + r, last)
                            for r in range(rows)
                        ]
                        _taps_tile(text, numbers, n, at, some.index * at["at_once"], x, y, mask)
                begin = block.index


def _taps_tile(
    text: Text,
    rows: Sequence[Num],
    n: int,
    at: dict[str, Num],
    begin: Num,
    x: Num,
    y: Num,
    mask: Num | None,
) -> None:
    """Write a tile for some taps: their sums are added to the bias, or to those before."""
    code, item, step = text.code, text.item, text.item * text.width
    weights = [text.shift(at["weights"], row * at["w_row"]) for row in rows]
    ahead = text.shift(weights[-1], at["w_row"])
    nothing = [text.none] * (len(rows) * n)
    stop = (begin + at["at_once"]).call("smin", at["taps"])
    whole = range(n - (mask is not None))
    with code.loop(begin, stop, carried=nothing) as loop:
        seen = text.shift(x, text.offset(at["offsets"], loop.index))
        text.prefetch(text.shift(ahead, loop.index * (len(rows) * item)))
        xs = [text.load(text.shift(seen, at["x_vector"] * v)) for v in whole]
        if mask is not None:
            xs.append(text.masked_load(text.shift(seen, at["x_vector"] * (n - 1)), mask))
        for r, row in enumerate(weights):
            weight = text.fill(text.load(text.shift(row, loop.index * item), text.real))
            for v in range(n):
                loop.turned.append(text.madd(loop.carried[r * n + v], xs[v], weight))
    is_first = begin.compare("eq", 0)
    found = []
    for r, row in enumerate(rows):
        bias = text.fill(text.load(text.shift(at["bias"], row * at["bias_step"]), text.real))
        for v in range(n):
            where = text.shift(text.shift(y, row * at["y_row"]), v * step)
            before = text.masked_load(where, mask) if mask and v == n - 1 else text.load(where)
            total = text.add(is_first.where(bias, before), loop.carried[r * n + v])
            found.append((total, where, mask if v == n - 1 else None))
    for total, where, some in found:  # when all have been read: a channel may be there twice
        if some is None:
            text.store(total, where)
        else:
            text.masked_store(total, where, some, item)


def _panels(text: Text) -> None:
    """Write the copy of rows to panels, a channel after the other."""
    code, item, width = text.code, text.item, text.width
    at = text.entries(PANELS, 2)
    with code.loop(text.zero, at["channels"]) as channel:
        x = text.shift(at["x"], channel.index * at["x_channel"])
        y = text.shift(at["y"], channel.index * at["y_channel"])
        whole = at["length"] - (width - 1)
        with code.loop(text.zero, whole, width, [y]) as loop:
            (here,) = loop.carried
            text.store(text.load(text.shift(x, loop.index * item)), here)
            loop.turned.append(text.shift(here, at["y_vector"]))
        with code.loop(loop.index, at["length"], width):
            mask = text.lanes_below(at["length"] - loop.index)
            rest = text.masked_load(text.shift(x, loop.index * item), mask)
            text.masked_store(rest, loop.carried[0], mask, item)


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
    reduce = f"llvm.vector.reduce.fadd.{suffix(text.type)}"
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
                    with code.flagged("reassoc"):
                        start = text.load(where, real)
                        text.store(code.call(real, reduce, start, total), where)

"""Packed rows times several rows of x: panels of rows are taken apart once, for all rows of x.

A panel is as many rows as a vector has lanes, of floats twice as many. A piece of it goes to a
scratch that stays in a core's cache, and tiles of a few rows of x run over it with their sums in
registers. The last panel begins earlier and computes some rows again; tiles that reach over the
last row of x write to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..lanes import LINE, aligned, fetch, floats, load, near, spread, store
from ..text import Code, Num
from .activations import record
from .layouts import PART, PLAIN, Layout, is_signed, offset
from .machine import Machine, dot
from .turned import Part, byte, parts, sixteen

PRODUCT = (
    "w", "x", "y", "scratch", "n_rows", "w_row", "n_x", "x_row", "y_row", "blocks", "tiles",
)  # fmt: skip
"""Block of a product: addresses, counts, and steps in bytes; of bytes, x are records of tiles."""
BYTES, FLOATS = 1024, 256
"""Numbers of a row that a scratch holds: 20 and 32 KB with vectors of 16 lanes."""


def panel(m: Machine, *, as_bytes: bool) -> int:
    """Return how many rows a panel has."""
    return m.lanes if as_bytes else 2 * m.lanes


def most(m: Machine) -> int:
    """Return how many rows of x a tile has at most: what fits the registers."""
    return 8 if m.lanes == 16 else 4


def scratch_bytes(form: Layout, m: Machine, *, as_bytes: bool) -> int:
    """Return the bytes of a scratch: codes and scales, or floats, and where nobody reads.

    It lies from the first whole line of a cache on: else every second line would be read twice.
    """
    held = BYTES // PART * _held(form, m) if as_bytes else FLOATS * 8 * m.lanes
    return held + 8 * m.lanes + LINE


def _held(form: Layout, m: Machine) -> int:
    """Return the bytes of a part in the scratch."""
    return 4 * m.lanes * (8 + PART // form.per * (1 if form.minimum is None else 2))


def product(form: Layout, m: Machine, tile: int, *, as_bytes: bool) -> str:
    """Return the text of ``y = x @ Wᵀ`` for packed rows of W, in tiles of so many rows of x."""
    code = Code()
    at = code.entries(PRODUCT, 4)
    zero, rows = code.const("i64", 0), panel(m, as_bytes=as_bytes)
    chunk = (BYTES if as_bytes else FLOATS) // form.size
    at["scratch"] = aligned(at["scratch"])
    nobody = near(at["scratch"], scratch_bytes(form, m, as_bytes=as_bytes) - 8 * m.lanes - LINE)

    def least(a: Num, b: Num | int) -> Num:
        return code.call("i64", "llvm.smin.i64", a, a.of(b))

    with code.loop(zero, at["n_rows"], step=rows) as turn:
        first = least(at["n_rows"] - rows, turn.index)
        w = near(at["w"], first * at["w_row"])
        with code.loop(zero, at["blocks"], step=chunk) as piece:
            stop = least(at["blocks"], piece.index + chunk)
            with code.loop(piece.index, stop) as block:
                here = near(w, block.index * form.n_bytes)
                into = near(at["scratch"], (block.index - piece.index) * _step(form, m, as_bytes))
                _take_apart(form, m, here, at["w_row"], into, as_bytes=as_bytes)
            is_first = piece.index.equals(0)
            with code.loop(zero, at["tiles"]) as tiles:
                places = []
                for i in range(tile):
                    number = tiles.index * tile + i
                    own = near(near(at["y"], number * at["y_row"]), first << 2)
                    places.append((number < at["n_x"]).where(own, nobody))
                ns = range(rows // m.lanes)
                none = code.const(f"<{m.lanes} x float>", 0.0)
                sums: Sequence[Num] = [none] * (len(places) * len(ns))
                count = stop - piece.index
                if as_bytes:
                    per_block = form.size // PART
                    count, start = count * per_block, piece.index * per_block
                    records = near(at["x"], (tiles.index * (at["blocks"] * per_block)
                                             + start) * record(form, tile))  # fmt: skip
                    sums = _bytes(form, m, tile, at["scratch"], records, count, sums)
                else:
                    last = at["n_x"] - 1
                    xs = [
                        near(near(at["x"], least(last, tiles.index * tile + i) * at["x_row"]),
                             piece.index * (4 * form.size))
                        for i in range(tile)
                    ]  # fmt: skip
                    sums = _floats(m, at["scratch"], xs, count * form.size, sums)
                for i, p in enumerate(places):
                    for n in ns:
                        before = is_first.where(none, load(none.type, p, 4 * m.lanes * n))
                        store(before + sums[i * len(ns) + n], p, 4 * m.lanes * n)
    return code.module(m.attributes)


def _step(form: Layout, m: Machine, as_bytes: bool) -> int:
    """Return the bytes of a block in the scratch."""
    return _held(form, m) * (form.size // PART) if as_bytes else form.size * 8 * m.lanes


def _take_apart(form: Layout, m: Machine, w: Num, w_row: Num, into: Num, *, as_bytes: bool) -> None:
    """Write a block of a panel's rows to the scratch."""
    code, vector = w.code, 4 * m.lanes
    with code.loop(code.const("i64", 0), code.const("i64", 1 if as_bytes else 2)) as side:
        rows = [near(w, side.index * w_row * m.lanes)]
        while len(rows) < m.lanes:
            rows.append(near(rows[-1], w_row))
        for row in rows:  # what the next panel will need: by then it is near
            fetch(near(row, w_row * panel(m, as_bytes=as_bytes)), form.n_bytes)
        here = into if as_bytes else near(into, side.index * vector)
        if form in PLAIN.values():
            _hold_plain(form, rows, here, 2 * vector)
        else:
            for number, part in enumerate(parts(form, m, rows)):
                if as_bytes:
                    _hold(form, m, part, near(here, number * _held(form, m)))
                else:
                    _hold_floats(form, part, near(here, number * PART * 2 * vector), 2 * vector)


def _hold(form: Layout, m: Machine, part: Part, into: Num) -> None:
    """Write the codes of a part, four in a lane, its scales and minima."""
    is_moved = form.signed and m.has_dots
    codes = [x ^ -0x7F7F7F80 for x in part.codes] if is_moved else part.codes
    for i, x in enumerate([*codes, *part.scales, *part.minima]):
        store(x, into, 4 * m.lanes * i)


def _hold_plain(form: Layout, rows: Sequence[Num], into: Num, step: int) -> None:
    """Write numbers that are floats already."""
    for at in range(0, form.n_bytes, 16):
        for i, x in enumerate(sixteen(rows, at)):
            store(x, into, (at // 4 + i) * step)


def _hold_floats(form: Layout, part: Part, into: Num, step: int) -> None:
    """Write the numbers of a part."""
    added = None
    for j, four in enumerate(part.codes):
        unit = j * len(part.scales) // 8
        scale = part.scales[unit]
        if part.minima:
            added = part.minima[unit]
        elif form.offset:
            added = scale * -float(form.offset)
        for i in range(4):
            x = floats(byte(four, i, signed=form.signed))
            store(x * scale if added is None else x.madd(scale, added), into, (4 * j + i) * step)


def _bytes(
    form: Layout, m: Machine, tile: int, scratch: Num, x: Num, count: Num, sums: Sequence[Num]
) -> Sequence[Num]:
    """Return the sums of a tile with products of bytes added."""
    code, vector, units = x.code, 4 * m.lanes, PART // form.per
    of_ints, of_floats = f"<{m.lanes} x i32>", f"<{m.lanes} x float>"
    with code.loop(code.const("i64", 0), count, carried=sums) as loop:
        held = near(scratch, loop.index * _held(form, m))
        own = near(x, loop.index * record(form, tile))
        codes = [load(of_ints, held, vector * j) for j in range(8)]
        scales = [load(of_floats, held, vector * (8 + unit)) for unit in range(units)]
        for i in range(tile):
            d = spread(load("float", own, PART * tile + 4 * i), m.lanes)
            total = loop.carried[i]
            for unit in range(units):
                found = code.const(of_ints, 0)
                if offset(form, m):
                    at = (PART + 4 + 4 * unit) * tile + 4 * i
                    found = spread(load("i32", own, at), m.lanes)
                for j in range(unit * 8 // units, (unit + 1) * 8 // units):
                    y = spread(load("i32", own, PART * i + 4 * j), m.lanes)
                    given = (v.to("bitcast", f"<{vector} x i8>") for v in (codes[j], y))
                    found = dot(m, found, *given, signed=is_signed(form, m))
                total = (floats(found) * d).madd(scales[unit], total)
            for unit in range(units if form.minimum is not None else 0):
                least = load(of_floats, held, vector * (8 + units + unit))
                added = spread(load("float", own, (PART + 4 + 4 * unit) * tile + 4 * i), m.lanes)
                total = least.madd(added, total)
            loop.turned.append(total)
    return loop.carried


def _floats(
    m: Machine, scratch: Num, xs: Sequence[Num], count: Num, sums: Sequence[Num]
) -> Sequence[Num]:
    """Return the sums of a tile with products of floats added."""
    code, vector = scratch.code, 4 * m.lanes
    zero = code.const("i64", 0)
    with code.loop(zero, count, step=4, carried=sums) as loop:
        held = near(scratch, loop.index * (2 * vector))
        totals = list(loop.carried)
        at = loop.index << 2
        own = [near(x, at) for x in xs]
        for k in range(4):
            w = [load(f"<{m.lanes} x float>", held, (2 * k + n) * vector) for n in (0, 1)]
            for i, x in enumerate(own):
                y = spread(load("float", x, 4 * k), m.lanes)
                for n in (0, 1):
                    totals[2 * i + n] = w[n].madd(y, totals[2 * i + n])
        loop.turned = totals
    return loop.carried

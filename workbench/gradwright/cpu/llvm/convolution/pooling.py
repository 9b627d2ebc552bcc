"""Poolings of the largest element: windows are read where they lie, row by row.

Along the last axis every stride-th element of what is loaded is taken, so that code depends on
that stride; all other numbers stand in the block.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....ops.convolutions.pooling import first_inside
from ....ops.convolutions.windows import Windows
from ....program.declined import DeclinedError
from ...call import Call, Cut
from ..repeat import Turn, repeated
from ..text import Num
from .forward import fit
from .geometry import Padded, Slide, copied, image
from .machine import Text, machine, numbers
from .product import moving

Array = np.ndarray[Any, Any]
LARGEST = (
    "x", "y", "tap", "offsets", "firsts", "taps", "planes", "depth", "height", "width",
    "x_plane", "x_slab", "x_row",
)  # fmt: skip
"""Block of ``largest``: steps in bytes from window to window; results lie one after the other."""
SCATTERED = ("g", "tap", "dx", "offsets", "taps", *LARGEST[6:])
"""Block of ``scattered``, which adds g to where the taps say."""
STEEP = 4
"""The largest stride that code is made for."""


def bind_max_pool(
    windows: Windows, xs: Sequence[Array], ys: Sequence[Array]
) -> Sequence[Call] | None:
    """Return the calls that find the largest element of each window; None: numpy must.

    They tell its tap, too, where ``ys`` has a place for it.

    >>> x, y, tap = np.ones((1, 1, 4)), np.empty((1, 1, 2)), np.empty((1, 1, 2), np.uint8)
    >>> from gradwright.cpu.llvm.compiler import available
    >>> windows = Windows.of((2,), 2, 0, 1)
    >>> calls = bind_max_pool(windows, [x], [y, tap]) if available() else None
    >>> calls is None or [operand for _, operand in calls[0].slots] == [0, 1, 2]
    True
    """
    x, y, *taps = xs[0], *ys
    slide = Slide.of(windows, x.shape[2:])
    if not fit(x, y) or slide.stride[2] > STEEP or not _dense(*ys):
        return None
    if not _dense(x):
        return _put_in_order(windows, x, ys)
    seen = image(x)
    n = math.prod(x.shape[:2])
    size = math.prod(slide.n_out)
    firsts = np.zeros(size + machine(x.dtype.char).width, np.int32)  # read in whole vectors
    if taps:
        firsts[:size] = first_inside(windows, x.shape[2:]).reshape(-1)
    code = _compiled("largest", x.dtype.char, slide.stride[2], taps[0].itemsize if taps else 0)
    names, slots = ("x", "y", "tap")[: 2 + len(taps)], [(0, 0), (1, 1), (2, 2)][: 2 + len(taps)]
    steps = {k: size * a.itemsize for k, a in zip(names[1:], ys, strict=True)}

    def call(seen: Array, at: Sequence[int], planes: int, held: Any, first: int = 0) -> Call:
        offsets = np.array(at, np.int64)
        starts = {k: a.ctypes.data + first * steps[k] for k, a in zip(names[1:], ys, strict=True)}
        block = numbers(
            LARGEST,
            x=seen.ctypes.data,
            **{"tap": 0, **starts},
            offsets=offsets.ctypes.data,
            firsts=firsts.ctypes.data,
            taps=len(at),
            **_walk(slide, planes, seen.strides[-4:]),
        )
        cut = _cut(LARGEST, planes, {"x": seen.strides[-4], **steps})
        return Call(code, block, slots, (held, offsets, firsts), cut=cut)

    def padded(first: int, planes: int) -> Call:
        """Copy one plane after the other to where it has padding, and search it there."""
        around = slide.n_in, slide.before, slide.after, (1, 1, 1)
        place = Padded(1, *around, x.dtype, fill=-np.inf)
        flat = seen.reshape(n, 1, *seen.shape[2:])[first : first + 1]
        turns = moving(place.taking(flat), 0, seen.strides[1])
        own = call(place.array[:, 0, 0], [*map(place.offset, slide.taps())], 1, place, first)
        own = Call(own.address, own.block, slots[1:], own.held)
        moves = {slot: steps[k] for slot, k in enumerate(names[1:], 1)}
        return repeated(planes, [*turns, Turn(own, moves)])

    def pieces(parts: int) -> list[Call]:
        ends = [n * i // parts for i in range(parts + 1)]
        return [padded(a, b - a) for a, b in itertools.pairwise(ends) if a < b]

    label = f"largest {x.dtype.char} {x.shape} {slide}{'' if taps else ' alone'}"
    told: Any = {"cost": 0.25 * y.size * math.prod(slide.kernel), "label": label}
    if not any(slide.before) and not any(slide.after):
        return [replace(call(seen, _distances(slide, seen), n, None), **told)]
    try:
        return [replace(padded(0, n), cut=pieces, **told)]
    except DeclinedError:
        return None


def _put_in_order(windows: Windows, x: Array, ys: Sequence[Array]) -> Sequence[Call] | None:
    """Return the calls for images that lie otherwise, as permuted ones do: they are copied."""
    place = np.empty(x.shape, x.dtype)
    calls = bind_max_pool(windows, [place], ys)
    try:
        first = copied(x, place, 0)
    except DeclinedError:
        return None
    if calls is None:
        return None
    rest = [
        replace(c, slots=[s for s in c.slots if s[1] > 0], held=(place, c.held), cut=None)
        for c in calls
    ]
    return [*first, *rest]


def bind_untap(windows: Windows, xs: Sequence[Array], ys: Sequence[Array]) -> Sequence[Call] | None:
    """Return the calls that add up what goes to the chosen elements; None: numpy must."""
    (g, tap), dx = xs[:2], ys[0]
    slide = Slide.of(windows, dx.shape[2:])
    if not fit(g, dx) or not _dense(g, tap, dx) or tap.itemsize not in (1, 4):
        return None
    if min(*slide.before, *slide.after) < 0:
        return None
    code, end = _compiled("scattered", g.dtype.char, slide.stride[2], tap.itemsize), len(xs)

    def call(into: Array, taps: Sequence[int], planes: int, moved: Sequence[int]) -> Call:
        offsets = np.array(taps, np.int64)
        block = numbers(
            SCATTERED,
            g=g.ctypes.data,
            tap=tap.ctypes.data,
            dx=into.ctypes.data,
            offsets=offsets.ctypes.data,
            taps=len(taps),
            **_walk(slide, planes, into.strides[-4:]),
        )
        slots = [(n, (0, 1, end)[n]) for n in moved]
        size = math.prod(slide.n_out)
        steps = {"dx": into.strides[-4], "g": g.itemsize * size, "tap": tap.itemsize * size}
        return Call(
            code,
            block,
            slots,
            (offsets, into),
            cut=_cut(SCATTERED, planes, steps),
            cost=1.0 * g.size,
            label=f"scattered {g.dtype.char} {dx.shape} {slide}",
        )

    nothing = np.zeros((), dx.dtype)
    n, channels = dx.shape[:2]
    try:
        if not any(slide.before) and not any(slide.after):
            whole = image(dx)
            cleared = copied(dx, np.broadcast_to(nothing, dx.shape), end, back=True)
            return [*cleared, call(whole, _distances(slide, whole), n * channels, (0, 1, 2))]
        place = Padded(channels, slide.n_in, slide.before, slide.after, (1, 1, 1), dx.dtype)
        cleared = copied(np.broadcast_to(nothing, place.array.shape), place.array, None)
        own = call(place.array[:, 0, 0], [*map(place.offset, slide.taps())], channels, (0, 1))
        turns = [Turn(c, {}) for c in cleared]
        turns.append(Turn(own, {0: g.strides[0], 1: tap.strides[0]}))
        turns += moving(place.giving(image(dx)[0]), end, dx.strides[0])
    except DeclinedError:
        return None
    return [repeated(n, turns)]


def _distances(slide: Slide, x: Array) -> list[int]:
    """Return where taps are in images without padding, from a window's start in bytes."""
    steps = x.strides[2:]
    return [sum(u * s for u, s in zip(tap, steps, strict=True)) for tap in slide.taps()]


def _dense(*arrays: Array) -> bool:
    return all(a.flags.c_contiguous for a in arrays)


def _cut(names: Sequence[str], planes: int, steps: dict[str, int]) -> Cut:
    """Return how a call is cut: each plane is for itself."""
    return Cut(
        names.index("planes"), planes, [(names.index(k), step) for k, step in steps.items()], 1
    )


def _walk(slide: Slide, planes: int, steps: Sequence[int]) -> dict[str, int]:
    """Return the entries of a block that say how windows follow each other."""
    depth, height, width = slide.n_out
    return {
        **{"planes": planes, "depth": depth, "height": height, "width": width},
        **{"x_plane": steps[0], "x_slab": steps[1] * slide.stride[0]},
        **{"x_row": steps[2] * slide.stride[1]},
    }


@functools.cache
def _compiled(kind: str, char: str, stride: int, tap_size: int) -> int:
    """Return the address of a function for a stride along the last axis, and a size of taps."""
    from ..compiler import compile_text  # llvmlite, which no import of ours may load

    text = Text(machine(char))
    (_largest if kind == "largest" else _scattered)(text, stride, 8 * tap_size)
    return compile_text(text.code.module())


def _largest(text: Text, stride: int, bits: int) -> None:
    """Write the search: a vector of windows at a time, tap by tap; of equal ones the first wins.

    NaN wins over numbers, and the last of them over others. Taps of no bits are not told.
    """
    code, item, width = text.code, text.item, text.width
    at = text.entries(LARGEST, 5)
    many, number = text.vector("i32"), text.vector(f"i{bits}")
    low = text.fill(code.const(text.real, -np.inf))
    with (
        code.loop(text.zero, at["planes"]) as plane,
        code.loop(text.zero, at["depth"]) as slab,
        code.loop(text.zero, at["height"]) as row,
    ):
        x = text.shift(at["x"], plane.index * at["x_plane"])
        x = text.shift(x, slab.index * at["x_slab"] + row.index * at["x_row"])
        line = slab.index * at["height"] + row.index
        before = line * at["width"]
        done = plane.index * (at["depth"] * at["height"] * at["width"]) + before
        with code.loop(text.zero, at["width"], step=width) as column:
            left = at["width"] - column.index
            mask = text.lanes_below(left)
            reach = (left - 1) * stride + 1
            masks = [text.lanes_below(reach, part * width) for part in range(stride)]
            seen = text.shift(x, column.index * (stride * item))
            carried = [low]
            if bits:
                first = text.shift(at["firsts"], (before + column.index) * 4)
                carried.append(code.let(many, f"load {many}, ptr {first.name}, align 4"))
            with code.loop(text.zero, at["taps"], carried=carried) as loop:
                best = loop.carried[0]
                tap = text.shift(seen, text.offset(at["offsets"], loop.index))
                parts = [
                    text.masked_load(text.shift(tap, part * width * item), masks[part])
                    for part in range(stride)
                ]
                value = _every(text, parts, stride)
                larger = code.let(mask.type, f"fcmp ogt {text.type} {value.name}, {best.name}")
                nan = code.let(mask.type, f"fcmp uno {text.type} {value.name}, {value.name}")
                if bits:
                    wins = larger | nan
                    this = text.fill(loop.index.to("trunc", "i32"))
                    loop.turned.append(_select(text, wins, value, best))
                    loop.turned.append(_select(text, wins, this, loop.carried[1]))
                else:  # the first is one instruction
                    most = _select(text, larger, value, best)
                    loop.turned.append(_select(text, nan, value, most))
            place = done + column.index
            text.masked_store(loop.carried[0], text.shift(at["y"], place * item), mask, item)
            if bits:
                winner = loop.carried[1]
                taps = winner.to("trunc", number) if bits < 32 else winner
                where = text.shift(at["tap"], place * (bits // 8))
                text.masked_store(taps, where, mask, bits // 8)


def _scattered(text: Text, stride: int, bits: int) -> None:
    """Write the sums: windows that share an element add to it in their order.

    A tap that no window has counts as its last one: nothing else may be written.
    """
    code, item = text.code, text.item
    at = text.entries(SCATTERED, 4)
    with (
        code.loop(text.zero, at["planes"]) as plane,
        code.loop(text.zero, at["depth"]) as slab,
        code.loop(text.zero, at["height"]) as row,
    ):
        dx = text.shift(at["dx"], plane.index * at["x_plane"])
        dx = text.shift(dx, slab.index * at["x_slab"] + row.index * at["x_row"])
        lines = (plane.index * at["depth"] + slab.index) * at["height"] + row.index
        done = lines * at["width"]
        with code.loop(text.zero, at["width"]) as column:
            place = done + column.index
            g = text.load(text.shift(at["g"], place * item), text.real)
            tap = text.shift(at["tap"], place * (bits // 8))
            chosen = code.let(f"i{bits}", f"load i{bits}, ptr {tap.name}").to("zext", "i64")
            chosen = code.call("i64", "llvm.umin.i64", chosen, at["taps"] - 1)
            there = text.shift(dx, column.index * (stride * item))
            there = text.shift(there, text.offset(at["offsets"], chosen))
            text.store(text.add(text.load(there, text.real), g), there)


def _every(text: Text, parts: list[Num], stride: int) -> Num:
    """Return every stride-th element of vectors that follow each other."""
    while len(parts) > 1:
        parts = [
            _joined(text, a, parts[i + 1] if i + 1 < len(parts) else a)
            for i, a in enumerate(parts)
            if i % 2 == 0
        ]
    if stride == 1:
        return parts[0]
    poison = Num(text.code, parts[0].type, "poison")
    return text.shuffle(parts[0], poison, [i * stride for i in range(text.width)])


def _joined(text: Text, a: Num, b: Num) -> Num:
    n = int(a.type[1:].split(" ")[0])
    return text.shuffle(a, b, range(2 * n))


def _select(text: Text, mask: Num, yes: Num, no: Num) -> Num:
    return text.code.let(
        yes.type,
        f"select {mask.type} {mask.name}, {yes.type} {yes.name}, {no.type} {no.name}",
    )

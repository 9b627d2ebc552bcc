"""Weights of a tile of scores: largest scores, exponentials and their sums, some rows at a time.

    m′ = max(m, max x),  p = eˣ⁻ᵐ′,  l′ = l·eᵐ⁻ᵐ′ + Σp,  with x = s·scale, and what a mask adds

Written out, since a row of a tile is but eight vectors: four rows at a time wait for each other's
results, which one after the other took twice as long. NaN is no largest score, and makes its
weights NaN. Weights below the least normal number are 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....ops.attention.tiled import LOW
from ...call import Call
from ..convolution.machine import Machine, Text, machine, numbers
from ..formats import DOUBLE, SINGLE
from ..kernels.mathlib import polynomial
from ..lanes import total
from ..text import Num, suffix
from .kernels import Form

Array = np.ndarray[Any, Any]
NAMES = ("s", "scale", "mask", "low", "high", "top", "total", "shrink")
BLOCK = (*NAMES, "rows", "columns", "s_row", "mask_row")
"""Addresses, counts, and steps in bytes; ``low`` and ``high`` say for each row which columns are
seen, as integers."""
ROWS = 4


def bind_weights(form: Form, of: Mapping[str, Array]) -> tuple[Call, list[str]]:
    """Return the call on arrays by name, and the names of its operands.

    >>> from gradwright.cpu.llvm.compiler import available
    >>> of = {name: np.ones(2, "f4") for name in ("top", "total", "shrink")}
    >>> of |= {"s": np.ones((2, 3), "f4"), "scale": np.ones((), "f4")}
    >>> found = bind_weights(Form(np.dtype("f4")), of) if available() else None
    >>> found is None or found[1]
    ['s', 'scale', 'top', 'total', 'shrink']
    """
    s = of["s"]
    mask_row = of["mask"].strides[0] if 0 in form.axes else 0
    addresses = {n: of[n].ctypes.data if n in of else 0 for n in NAMES}
    (rows, columns), s_row = s.shape, s.strides[0]
    block = numbers(BLOCK, **addresses, rows=rows, columns=columns, s_row=s_row, mask_row=mask_row)
    key = form.mask, 1 in form.axes, form.low, form.high, form.unseen == "average"
    names = [n for n in NAMES if n in of]
    slots = [(BLOCK.index(n), i) for i, n in enumerate(names)]
    return Call(_compiled(s.dtype.char, *key), block, slots, dict(of)), names


@functools.cache
def _compiled(char: str, *key: Any) -> int:
    from ..compiler import compile_text  # llvmlite, which no import of ours may load

    return compile_text(source(machine(char), *key))


def source(machine: Machine, mask: str, moves: bool, low: bool, high: bool, averages: bool) -> str:
    """Return the text of the function.

    >>> "fcmp ogt <16 x float>" in source(Machine("f", 64, 32), "", False, False, True, False)
    True
    """
    return _Weights(machine, mask, moves, low, high, averages).module()


class _Weights:
    """Writes the function."""

    def __init__(
        self, machine: Machine, mask: str, moves: bool, low: bool, high: bool, averages: bool
    ) -> None:
        self.text = text = Text(machine)
        self.mask, self.moves, self.has = mask, moves, {"low": low, "high": high}
        self.shut = LOW if averages else -math.inf
        self.form = SINGLE if machine.char == "f" else DOUBLE
        self.at = text.code.entries(BLOCK, len(NAMES))
        self.scale = text.fill(text.load(self.at["scale"], text.real))
        self.floor = float(np.finfo(machine.char).min)

    def module(self) -> str:
        text = self.text
        code, rows = text.code, self.at["rows"]
        with code.loop(text.zero, rows - (ROWS - 1), step=ROWS) as some:
            self._rows([some.index + r for r in range(ROWS)])
        with code.loop(some.index, rows) as one:
            self._rows([one.index])
        return code.module()

    def _rows(self, rows: Sequence[Num]) -> None:
        """Write what becomes of some rows."""
        text, at, code = self.text, self.at, self.text.code
        places = [text.shift(at["s"], row * at["s_row"]) for row in rows]
        masks = [text.shift(at["mask"], row * at["mask_row"]) for row in rows]
        ends = {
            name: [text.load(text.shift(at[name], row * 8), "i64") for row in rows]
            for name, there in self.has.items()
            if there
        }
        many, end = len(rows), at["columns"]
        whole = end - (text.width - 1)
        fixed = None if self.moves or not self.mask else [self._mask(m, None) for m in masks]

        def scores(at_column: Num, some: Num | None) -> list[Num]:
            found = []
            for r, place in enumerate(places):
                here = text.shift(place, at_column * text.item)
                x = text.load(here) if some is None else text.masked_load(here, some)
                x = x * self.scale
                if self.mask:
                    size = 1 if self.mask == "?" else text.item
                    m = (
                        fixed[r]
                        if fixed
                        else self._mask(text.shift(masks[r], at_column * size), some)
                    )
                    x = m.where(x, self.shut) if self.mask == "?" else x + m
                for name, per_row in ends.items():
                    inside = text.lanes_below(per_row[r] - at_column)
                    none = x.of(-math.inf)
                    x = inside.where(x, none) if name == "high" else inside.where(none, x)
                found.append(x if some is None else some.where(x, x.of(-math.inf)))
            return found

        floor = code.const(text.type, self.floor)
        tops = [floor] * many
        with code.loop(text.zero, whole, text.width, tops) as loop:
            pairs = zip(scores(loop.index, None), loop.carried, strict=True)
            loop.turned += [(x > top).where(x, top) for x, top in pairs]
        with code.loop(loop.index, end, text.width, loop.carried) as rest:
            some = text.lanes_below(end - rest.index)
            pairs = zip(scores(rest.index, some), rest.carried, strict=True)
            rest.turned += [(x > top).where(x, top) for x, top in pairs]
        before = [text.load(text.shift(at["top"], row * text.item), text.real) for row in rows]
        tops = [
            (b > m).where(b, m)
            for b, m in zip(before, map(self._largest, rest.carried), strict=True)
        ]
        less = [text.fill(top) for top in tops]
        with code.loop(text.zero, whole, text.width, [text.none] * many) as loop:
            for r, x in enumerate(scores(loop.index, None)):
                p = self._exp(x - less[r])
                text.store(p, text.shift(places[r], loop.index * text.item))
                loop.turned.append(text.add(loop.carried[r], p))
        with code.loop(loop.index, end, text.width, loop.carried) as rest:
            some = text.lanes_below(end - rest.index)
            for r, x in enumerate(scores(rest.index, some)):
                p = self._exp(x - less[r])
                here = text.shift(places[r], rest.index * text.item)
                text.masked_store(p, here, some, text.item)
                rest.turned.append(text.add(rest.carried[r], p))
        shrinks = [self._exp(text.fill(b - top)) for b, top in zip(before, tops, strict=True)]
        for row, top, shrink, p in zip(rows, tops, shrinks, rest.carried, strict=True):
            one = code.let(text.real, f"extractelement {text.type} {shrink.name}, i64 0")
            where = text.shift(at["total"], row * text.item)
            text.store(text.load(where, text.real).madd(one, total(p)), where)
            text.store(top, text.shift(at["top"], row * text.item))
            text.store(one, text.shift(at["shrink"], row * text.item))

    def _mask(self, place: Num, some: Num | None) -> Num:
        """Read a mask: numbers, or which are shown."""
        text, code = self.text, self.text.code
        if not self.moves:
            one = text.load(place, text.real) if self.mask != "?" else text.load(place, "i8")
            found = text.fill(one)
        elif self.mask != "?":
            return text.load(place) if some is None else text.masked_load(place, some)
        else:
            kind = text.vector("i8")
            if some is None:
                found = code.let(kind, f"load {kind}, ptr {place.name}, align 1")
            else:
                load, none = f"llvm.masked.load.{suffix(kind)}.p0", code.const(kind, 0)
                found = code.call(kind, load, place, code.const("i32", 1), some, none)
        return found.compare("ne", 0) if self.mask == "?" else found

    def _largest(self, x: Num) -> Num:
        """Return the largest lane."""
        text, n = self.text, self.text.width
        while n > 1:
            n //= 2
            turned = text.shuffle(x, x, [(i + n) % text.width for i in range(text.width)])
            x = (x > turned).where(x, turned)
        return text.code.let(text.real, f"extractelement {text.type} {x.name}, i64 0")

    def _exp(self, d: Num) -> Num:
        """Return e to the power of numbers that are 0 at most, or NaN."""
        form, text = self.form, self.text
        shifted = d.madd(1 / math.log(2), form.magic)
        whole = shifted - form.magic
        r = (-whole).madd(math.log(2), d)
        power = (r * r).madd(polynomial(r, form.exp), r) + 1
        bits = shifted.to("bitcast", text.vector(form.ints)) + (form.bias - form.magic_bits)
        found = power * (bits << form.mantissa).to("bitcast", text.type)
        return (d < math.log(form.tiny)).where(d.of(0.0), found)

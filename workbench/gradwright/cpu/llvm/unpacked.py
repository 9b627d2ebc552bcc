"""Products of tiles whose operands lie in the cache: nothing is packed.

    c[i, j] = Σ_k a[i, k]·b[k, j], or added to what is there

Vectors run along j, and numbers of a are taken one by one. Rows of b and c are dense; a lies with
any steps, so that its transpose is read as it stands. For 256 by 512 by 64 OpenBLAS, which packs
what it reads, reaches 87 GF/s and MKL 121 where this reaches 148 (one core of a Sapphire Rapids).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...program.declined import DeclinedError
from ..call import Call
from .convolution.machine import Machine, Text, machine, numbers
from .text import Num

Array = np.ndarray[Any, Any]
BLOCK = ("a", "b", "c", "m", "n", "k", "a_row", "a_step", "b_row", "c_row")
"""Addresses, counts, and steps in bytes."""
AT_ONCE = 128
"""Terms of sums that are added up in registers: so many rows of b stay in the first cache."""


def bind_product(a: Array, b: Array, c: Array, *, adds: bool) -> list[Call]:
    """Return the calls of c = a @ b, or c += a @ b, for matrices that share a dtype.

    Raises DeclinedError where rows of b or c are not dense.

    >>> from gradwright.cpu.llvm.compiler import available
    >>> a, b, c = np.ones((3, 2), "f4").T, np.ones((3, 4), "f4"), np.empty((2, 4), "f4")
    >>> calls = bind_product(a, b, c, adds=False) if available() else None
    >>> calls is None or [operand for _, operand in calls[0].slots] == [0, 1, 2]
    True
    """
    if any(x.strides[1] != x.itemsize and x.shape[1] > 1 for x in (b, c)):
        raise DeclinedError
    parts = [slice(start, start + AT_ONCE) for start in range(0, len(b), AT_ONCE)]
    return [_bound(a[:, some], b[some], c, adds or some.start > 0) for some in parts]


def _bound(a: Array, b: Array, c: Array, adds: bool) -> Call:
    (m, n), at = c.shape, machine(c.dtype.char)
    block = numbers(
        BLOCK,
        a=a.ctypes.data,
        b=b.ctypes.data,
        c=c.ctypes.data,
        m=m,
        n=n,
        k=len(b),
        a_row=a.strides[0],
        a_step=a.strides[1],
        b_row=b.strides[0],
        c_row=c.strides[0],
    )
    code = _compiled(c.dtype.char, at.rows(m, n), adds)
    return Call(code, block, [(0, 0), (1, 1), (2, 2)], (a, b, c))


@functools.cache
def _compiled(char: str, rows: int, adds: bool) -> int:
    from .compiler import compile_text  # llvmlite, which no import of ours may load

    return compile_text(source(machine(char), rows, adds))


def source(machine: Machine, rows: int, adds: bool) -> str:
    """Return the text of the function for tiles of so many rows.

    >>> "fadd contract <4 x double>" in source(Machine("d", 32, 16), 4, False)
    True
    """
    text = Text(machine)
    write_product(text, text.code.entries(BLOCK, 3), rows, adds)
    return text.code.module()


def write_product(text: Text, at: dict[str, Num], rows: int, adds: bool) -> None:
    """Write the loops of a product, whose entries of the block have been read."""
    code, item, width, shapes = text.code, text.item, text.width, text.machine.shapes
    vectors = (at["n"] + (width - 1)).op("sdiv", width)
    last = at["m"] - 1
    begin = text.zero
    for n in shapes[rows]:
        with code.loop(begin, vectors - (n - 1), step=n) as block:
            shift = block.index * (width * item)
            b, c = text.shift(at["b"], shift), text.shift(at["c"], shift)
            mask = text.lanes_below(at["n"] - (block.index + (n - 1)) * width)
            with code.loop(text.zero, at["m"], step=rows) as tile:
                # Rows behind the last are that one again, with the same result.
                of = [code.call("i64", "llvm.smin.i64", tile.index + r, last) for r in range(rows)]
                _tile(text, of, n, at, b, c, mask, adds)
        begin = block.index


def _tile(
    text: Text,
    rows: Sequence[Num],
    n: int,
    at: dict[str, Num],
    b: Num,
    c: Num,
    mask: Num,
    adds: bool,
) -> None:
    """Write the sums of a tile; the last vector of columns is masked."""
    code, size = text.code, text.item * text.width
    of_a = [text.shift(at["a"], row * at["a_row"]) for row in rows]

    def along(pointer: Num) -> list[Num]:
        places = [text.shift(pointer, v * size) for v in range(n)]
        return [*map(text.load, places[:-1]), text.masked_load(places[-1], mask)]

    with code.loop(text.zero, at["k"], carried=[text.none] * (len(rows) * n)) as loop:
        bs = along(text.shift(b, loop.index * at["b_row"]))
        step = loop.index * at["a_step"]
        for r, row in enumerate(of_a):
            one = text.fill(text.load(text.shift(row, step), text.real))
            for v in range(n):
                loop.turned.append(text.madd(loop.carried[r * n + v], bs[v], one))
    found = []
    for r, row in enumerate(rows):
        place, sums = text.shift(c, row * at["c_row"]), loop.carried[r * n : r * n + n]
        if adds:
            sums = [text.add(*pair) for pair in zip(along(place), sums, strict=True)]
        found += [(total, text.shift(place, v * size)) for v, total in enumerate(sums)]
    for i, (total, place) in enumerate(found):  # when all have been read: a row may be there twice
        if i % n < n - 1:
            text.store(total, place)
        else:
            text.masked_store(total, place, mask, text.item)

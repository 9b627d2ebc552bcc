"""Batches of small products, for each of which BLAS would be called once, as one function.

    c[n] = a[n] @ b[n]

Right operands that lie the other way, as keys do, are turned into memory that stays in the cache.
For 2,048 of 11 by 24 by 11 with b turned BLAS takes 1.05 ms and this 0.55; as they lie 0.59 and
0.41 (one core of a Sapphire Rapids; with AVX2 1.3 times as fast as BLAS).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..call import Call, Cut
from .convolution.machine import Text, machine
from .convolution.turning import turned
from .text import Num
from .unpacked import AT_ONCE, BLOCK, write_product

Array = np.ndarray[Any, Any]
LOOPS = 3
BATCHED = (
    *BLOCK, "scratch", "b_column", *(f"n{i}" for i in range(LOOPS)),
    *(f"{x}{i}" for x in "abc" for i in range(LOOPS)),
)  # fmt: skip
"""The block: that of one product, memory for b turned, what its columns lie apart, sizes of the
batch, and steps along these."""
SMALL, MOST = 6_144, {16: 1 << 21, 8: 60_000}
"""Products with more terms BLAS computes as fast where b lies as it should, and where it is turned,
by how many float32 a vector has. What is left of rows has to be masked, which vectors of 4 do not.
"""
LARGEST = 1 << 13
"""Numbers of b that are turned: 32 KB, so that they stay in the first cache or near it."""
LEAST, PER_NS = 1 << 18, 15
"""Terms of the smallest piece, and how many of them take a ns."""


def bind_batched(
    a: Array, b: Array, c: Array, counts: Sequence[int], strides: Sequence[Sequence[int]]
) -> Call | None:
    """Return the call for sizes of a batch, and strides of a, b and c along these.

    None: BLAS computes it at least as fast, or numbers lie as this cannot read them.

    >>> from gradwright.cpu.llvm.compiler import available
    >>> a, b, c = np.ones((9, 3, 2), "f4"), np.ones((9, 2, 4), "f4"), np.empty((9, 3, 4), "f4")
    >>> steps = [[0, 0, x.strides[0]] for x in (a, b, c)]
    >>> call = bind_batched(a, b, c, [1, 1, 9], steps) if available() else None
    >>> call is None or [operand for _, operand in call.slots]
    [0, 1, 2]
    """
    (m, n), k, batch = c.shape[-2:], a.shape[-1], math.prod(counts)
    at, size, each = machine(c.dtype.char), c.itemsize, m * n * k
    turns = b.strides[-1] != size
    if batch < 2 or min(m, n, k) < 2 or k > AT_ONCE or c.strides[-1] != size or not at.masks:
        return None
    if each > (MOST[at.width * size // 4] if turns else SMALL):
        return None
    if turns and (b.strides[-2] != size or k < at.width or n * k > LARGEST):
        return None
    row = -(-n // at.width) * at.width * size
    scratch = np.empty(k * row if turns else 0, np.uint8)
    of = {
        "a": a.ctypes.data, "b": b.ctypes.data, "c": c.ctypes.data, "m": m, "n": n, "k": k,
        "a_row": a.strides[-2], "a_step": a.strides[-1], "c_row": c.strides[-2],
        "b_row": row if turns else b.strides[-2], "b_column": b.strides[-1],
        "scratch": scratch.ctypes.data,
        **{f"n{i}": count for i, count in enumerate(counts)},
        **{f"{x}{i}": s for x, own in zip("abc", strides, strict=True) for i, s in enumerate(own)},
    }  # fmt: skip
    loop = counts.index(max(counts))
    steps = [(operand, own[loop]) for operand, own in enumerate(strides)]
    least = -(-LEAST * counts[loop] // (batch * each))
    return Call(
        _compiled(c.dtype.char, at.rows(m, n), turns),
        np.array([of[name] for name in BATCHED], np.int64),
        [(i, i) for i in range(3)],
        scratch,
        cut=Cut(BATCHED.index(f"n{loop}"), counts[loop], steps, least),
        cost=batch * each / PER_NS,
        label=f"small products {c.dtype.char} {turns:d} {m}x{k}x{n}",
        scratch=(BATCHED.index("scratch"), scratch.nbytes) if turns else None,
    )


@functools.cache
def _compiled(char: str, rows: int, turns: bool) -> int:
    from .compiler import compile_text  # llvmlite, which no import of ours may load

    return compile_text(_source(Text(machine(char)), rows, turns))


def _source(text: Text, rows: int, turns: bool) -> str:
    """Return the text of the function for tiles of so many rows."""
    code = text.code
    at = code.entries(BATCHED, 3)
    scratch = at["scratch"].to("inttoptr", "ptr")
    with (
        code.loop(text.zero, at["n0"]) as outer,
        code.loop(text.zero, at["n1"]) as middle,
        code.loop(text.zero, at["n2"]) as inner,
    ):
        one = dict(at)
        for x in "abc":
            one[x] = at[x]
            for axis, loop in enumerate((outer, middle, inner)):
                one[x] = text.shift(one[x], loop.index * at[f"{x}{axis}"])
        if turns:
            _turn(text, one, scratch)
            one["b"] = scratch
        write_product(text, one, rows, adds=False)
    return code.module()


def _turn(text: Text, at: dict[str, Num], y: Num) -> None:
    """Write columns of b as rows; the last square of numbers may overlap the one before."""
    code, item, width = text.code, text.item, text.width
    last, end = at["n"] - 1, at["k"] - width
    with code.loop(text.zero, at["n"], step=width) as block:
        columns = []
        for lane in range(width):  # behind the last one are any
            column = (block.index + lane).call("smin", last)
            columns.append(text.shift(at["b"], column * at["b_column"]))
        to = text.shift(y, block.index * item)
        with code.loop(text.zero, at["k"], step=width) as place:
            start = place.index.call("smin", end)
            square = turned(text, [text.load(text.shift(p, start * item)) for p in columns])
            for lane, row in enumerate(square):
                text.store(row, text.shift(to, (start + lane) * at["b_row"]))

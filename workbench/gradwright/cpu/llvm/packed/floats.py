"""Rows of floats times some rows of x: large matrices as files have them, read at memory's speed.

BLAS asks for no line before it needs it, and copies a matrix for several rows of x: from memory it
takes 1.2 times as long for one row, 2 to 3 times for 2 to 8. More rows meet panels, which of
processors with 16 lanes use all: OpenBLAS takes 1.1 to 1.7 times as long where it uses 8.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...call import Call, Cut
from ..convolution.machine import numbers
from ..lanes import fetch, load, near, store, total
from ..text import Code, Num
from .bind import by_panel
from .layouts import PLAIN
from .machine import Machine, machine
from .vectors import AHEAD

Array = np.ndarray[Any, Any]
FEW, MOST = 8, 256
"""Rows of x that are multiplied with a row while it comes, and with panels of rows."""
LARGER = 1 << 17
"""Bytes of a matrix from which on few rows are; BLAS is as fast with smaller ones."""
PRODUCT = ("w", "x", "y", "n_rows", "w_row", "x_row", "y_row", "k")
"""Block of a product: addresses, rows of w, steps in bytes, and how many numbers a row has."""
VECTORS = 4
"""Of a row at a time."""
NUMBERS_PER_NS = 6
"""That a core reads from memory, about."""
GRAIN = 32
"""Rows of w at which a product is cut."""


def bind_few(a: Array, b: Array, c: Array) -> Sequence[Call] | None:
    """Return the call of ``c[..., F] = a[..., K] @ b``, ``b`` a large Wᵀ and ``a`` some rows.

    Operands are a, b and c. None: BLAS has to.

    >>> from gradwright.cpu.llvm.compiler import available
    >>> w, x = np.ones((4096, 256), "f4"), np.ones((1, 256), "f4")
    >>> calls = bind_few(x, w.T, np.empty((1, 4096), "f4")) if available() else None
    >>> calls is None or len(calls)
    1
    """
    m, k, step = machine(), len(b), b.strides[1]
    n_x = a.size // k
    if not m.level or not 0 < n_x <= MOST:
        return None
    if b.strides[0] != 4 or step < 4 * k or not (a.flags.c_contiguous and c.flags.c_contiguous):
        return None
    if n_x <= FEW:
        return None if k % m.lanes or b.nbytes < LARGER else [call(m, n_x, a, b, c)]
    names = (name for name, form in PLAIN.items() if k % form.size == 0)
    name = next(names, None)
    if m.lanes < 16 or name is None or c.shape[-1] < 2 * m.lanes:
        return None
    return by_panel(name, m, a.reshape(n_x, k), b.T, c.reshape(n_x, -1), as_bytes=False)


def call(m: Machine, n_x: int, a: Array, b: Array, c: Array) -> Call:
    """Return the call of a product for a machine."""
    (k, n_rows), step = b.shape, b.strides[1]
    block = numbers(
        PRODUCT,
        w=b.ctypes.data, x=a.ctypes.data, y=c.ctypes.data,
        n_rows=n_rows, w_row=step, x_row=4 * k, y_row=4 * n_rows, k=k,
    )  # fmt: skip
    cut = Cut(3, n_rows, [(0, step), (2, 4)], GRAIN, GRAIN)
    label = f"few rows {n_x} {b.size.bit_length()}"
    slots, cost = [(0, 1), (1, 0), (2, 2)], b.size / NUMBERS_PER_NS
    return Call(_compiled(m, n_x), block, slots, cut=cut, cost=cost, label=label)


@functools.cache
def _compiled(m: Machine, n_x: int) -> int:
    from ..compiler import compile_text  # llvmlite, which no import of ours may load

    return compile_text(product(m, n_x))


def product(m: Machine, n_x: int) -> str:
    """Return the text of ``y = x @ Wᵀ`` for so many rows of x.

    Several rows of x meet two of W at once, so that their numbers are loaded once for both; the
    last one may be computed twice.
    """
    code, n, count = Code(), m.lanes, min(n_x, 2)
    at = code.entries(PRODUCT, 3)
    zero, none = code.const("i64", 0), code.const(f"<{n} x float>", 0.0)
    xs = [near(at["x"], at["x_row"] * i) for i in range(n_x)]
    ys = [near(at["y"], at["y_row"] * i) for i in range(n_x)]
    sums = VECTORS if n_x == 1 else 1  # the next vector need not wait for what the last one adds
    last = at["n_rows"] - 1
    with code.loop(zero, at["n_rows"], step=count) as step:
        rows = [code.call("i64", "llvm.smin.i64", last, step.index + i) for i in range(count)]
        ws = [near(at["w"], row * at["w_row"]) for row in rows]

        def turn(vectors: int, first: Num, given: Sequence[Num]) -> list[Num]:
            """Return the totals with some vectors of the rows added."""
            totals = list(given)
            here = [near(w, first << 2) for w in ws]
            for p in here:
                fetch(near(p, AHEAD), 4 * n * vectors)
            for number in range(vectors):
                of_rows = [load(none.type, p, 4 * n * number) for p in here]
                for i, x in enumerate(xs):
                    y = load(none.type, near(x, first << 2), 4 * n * number)
                    for j, of_row in enumerate(of_rows):
                        k = sums * (count * i + j) + number % sums
                        totals[k] = of_row.madd(y, totals[k])
            return totals

        whole = at["k"].op("sdiv", n * VECTORS) * (n * VECTORS)
        starts = [none] * (sums * n_x * count)
        with code.loop(zero, whole, step=n * VECTORS, carried=starts) as loop:
            loop.turned = turn(VECTORS, loop.index, loop.carried)
        with code.loop(whole, at["k"], step=n, carried=loop.carried) as rest:
            rest.turned = turn(1, rest.index, rest.carried)
        for i, y in enumerate(ys):
            for j, row in enumerate(rows):
                own = rest.carried[sums * (count * i + j) :][:sums]
                store(total(functools.reduce(operator.add, own)), near(y, row << 2))
    return code.module(m.attributes)

"""Weights packed as NF4: rows as floats, and products with one row of x.

Codes are bytes of two numbers, the first in the high half; the scale of each 64 stands in an array
of its own, as bitsandbytes has it. One row of x meets the codes in registers; more of them meet
rows that are floats for a moment, in a scratch, by BLAS: what is multiplied often need not be
looked up as often.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.quantised.nf4 import NF4
from ....program.declined import DeclinedError
from ...call import Call, Cut
from ..convolution.machine import numbers
from ..steps import Steps
from ..text import Code, Num
from .bind import GRAIN, HELD, PER_NS
from .lanes import fetch, ints, load, near, pick, spread, store, total
from .machine import Machine, entries, machine, table
from .vectors import AHEAD

Array = np.ndarray[Any, Any]
LOG = logging.getLogger("gradwright.cpu")
BLOCK = 64
"""Numbers that share a scale, of 32 bytes."""
ROWS = ("w", "absmax", "y", "blocks")
PRODUCT = ("w", "absmax", "x", "y", "n_rows", "blocks")
NUMBERS = NF4.tolist()


def rows(m: Machine) -> str:
    """Return the text of blocks as floats."""
    code, n = Code(), m.lanes
    at = entries(code, ROWS, 3)
    with code.loop(code.const("i64", 0), at["blocks"]) as block:
        scale = spread(load("float", near(at["absmax"], block.index << 2)), n)
        w, y = near(at["w"], block.index << 5), near(at["y"], block.index << 8)
        with code.flagged(""):
            for start in range(0, BLOCK // 2, n):
                first, second = (q * scale for q in _pair(m, load(f"<{n} x i8>", w, start)))
                for half in (0, 1):  # they stand by turns
                    order = [half * n // 2 + i // 2 + i % 2 * n for i in range(n)]
                    store(pick(first, order, second), y, 8 * start + 4 * n * half)
    return code.module(m.attributes)


def product(m: Machine) -> str:
    """Return the text of ``y[F] = x[K] @ Wᵀ``, row by row of the weight."""
    code, n = Code(), m.lanes
    at = entries(code, PRODUCT, 4)
    zero, none = code.const("i64", 0), code.const(f"<{n} x float>", 0.0)
    with code.loop(zero, at["n_rows"]) as row:
        first = row.index * at["blocks"]
        w, absmax = near(at["w"], first << 5), near(at["absmax"], first << 2)
        with code.loop(zero, at["blocks"], carried=[none]) as block:
            scale = spread(load("float", near(absmax, block.index << 2)), n)
            here, x = near(w, block.index << 5), near(at["x"], block.index << 8)
            fetch(near(here, AHEAD), BLOCK // 2)
            found: Num | None = None
            for start in range(0, BLOCK // 2, n):
                given = [load(none.type, x, 8 * start + 4 * n * half) for half in (0, 1)]
                for turn, q in enumerate(_pair(m, load(f"<{n} x i8>", here, start))):
                    own = pick(given[0], range(turn, 2 * n, 2), given[1])
                    found = q * own if found is None else q.madd(own, found)
            assert found is not None
            block.turned = [found.madd(scale, block.carried[0])]
        store(total(block.carried[0]), near(at["y"], row.index << 2))
    return code.module(m.attributes)


def _pair(m: Machine, raw: Num) -> tuple[Num, Num]:
    """Return the numbers in the high and in the low halves of bytes."""
    z = ints(raw, "zext")
    return table(m, NUMBERS, z.op("lshr", 4)), table(m, NUMBERS, z)


# -- bound to arrays -------------------------------------------------------------------------------


def bind_normal(x: Array, w: Array, absmax: Array, y: Array, *, back: bool) -> list[Call] | None:
    """Return the calls of ``y = x @ Wᵀ``, or ``x @ W`` where it is ``back``; None: numpy has to.

    W, f32[F, K], lies in w, u8[F, K/2], and absmax, f32[F·K/64]. Operands are these four arrays.
    """
    n_rows, k = len(w), 2 * w.shape[1]
    fits = k % BLOCK == 0 and w.flags.c_contiguous and absmax.flags.c_contiguous
    if not fits or not x.size or not y.size:
        return None
    try:
        if x.size == k and not back and x.flags.c_contiguous:
            return [_of_one(x, w, absmax, y)]
        steps = Steps([x, w, absmax, y])
        flat, out = steps.dense(x).reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1])
        step = max(1, HELD // k)
        held = steps.scratch((min(step, n_rows), k), y.dtype)
        scales = absmax.reshape(n_rows, k // BLOCK)
        for start in range(0, n_rows, step):
            stop = min(start + step, n_rows)
            taken = [w[start:stop], scales[start:stop], held[: stop - start]]
            steps.add("rows", taken, functools.partial(_as_floats, *taken))
            if back:
                steps.product(flat[:, start:stop], taken[2], out, adds=start > 0)
            else:
                steps.product(flat, taken[2].T, out[:, start:stop])
        return steps.calls
    except (DeclinedError, RuntimeError, ValueError) as error:  # none is worth a failed run
        LOG.info("products with nf4 stay on numpy: %s", error)
        return None


def _of_one(x: Array, w: Array, absmax: Array, y: Array) -> Call:
    n_rows, blocks = len(w), w.shape[1] * 2 // BLOCK
    block = numbers(
        PRODUCT,
        w=w.ctypes.data, absmax=absmax.ctypes.data, x=x.ctypes.data, y=y.ctypes.data,
        n_rows=n_rows, blocks=blocks,
    )  # fmt: skip
    steps = [(0, w.strides[0]), (1, 4 * blocks), (3, 4)]
    return Call(
        _compiled("product", machine()),
        block,
        [(0, 1), (1, 2), (2, 0), (3, 3)],
        cut=Cut(4, n_rows, steps, GRAIN, GRAIN),
        cost=w.nbytes / PER_NS,
        label="packed nf4",
    )


def _as_floats(w: Array, absmax: Array, y: Array) -> Sequence[Call]:
    block = numbers(
        ROWS,
        w=w.ctypes.data, absmax=absmax.ctypes.data, y=y.ctypes.data,
        blocks=y.size // BLOCK,
    )  # fmt: skip
    return [Call(_compiled("rows", machine()), block, [(0, 0), (1, 1), (2, 2)])]


@functools.cache
def _compiled(kind: str, m: Machine) -> int:
    from ..compiler import compile_text  # llvmlite, which no import of ours may load

    return compile_text(rows(m) if kind == "rows" else product(m))

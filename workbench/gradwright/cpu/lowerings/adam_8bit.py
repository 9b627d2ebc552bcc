"""Adam with moments of 8 bits: on numpy in blocks that stay in cache, and as a kernel."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...op import Op
from ...spec import TensorSpec
from ..call import Native
from ..llvm.eight_bit import bind_adam8bit
from .common import runs

Array = np.ndarray[Any, Any]
BLOCK = 32_768
"""Elements. Two million float32 parameters take 17 ms (AMD EPYC, 1 MB L2), and 196 ms by the
formula, whose search among 255 middles is most of it."""

IN_PLACE = (0, 0), (1, 2), (2, 3), (3, 4), (4, 5)
"""Which outputs may lie over which inputs: parameter, codes, scales."""
LARGEST = np.finfo(np.float32).max


class Coding(NamedTuple):
    """A type of 256 numbers, and how the one nearest to a number of [-1, 1] is found."""

    numbers: Array
    first: Array
    """For the upper half of a float32's bits, the code of the least number that begins so."""
    middles: Array
    """The middle above each number. None of the types has two between neighbours of ``first``."""


@functools.cache
def coding(*, signed: bool) -> Coding:
    """Return the tables of the signed or the unsigned dynamic type."""
    from ...ops.quantised.nf4 import dynamic_map  # a family of ops that few need

    numbers = dynamic_map(signed=signed)
    middles = (numbers[:-1] + numbers[1:]) / 2
    upper = np.arange(65_536, dtype=np.uint32) << 16
    least = np.where(upper >> 31, upper | 0xFFFF, upper).astype(np.uint32).view(np.float32)
    np.copyto(least, 0, where=np.isnan(least))
    first = np.searchsorted(middles, least, side="left").astype(np.uint8)
    return Coding(numbers, first, np.append(middles, np.float32(np.inf)))


@runs("adam8bit_update")
def adam8bit_update(
    op: Op, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]
) -> Native | None:
    """Return launchers for parameters, gradients and scales that are all float32."""
    tensors = [s for s in (*ins[:6], *outs) if s is not None and s.dtype != np.dtype("uint8")]
    if any(s.dtype != np.dtype("float32") for s in tensors) or sys.byteorder != "little":
        return None
    size, per = outs[0].size, int(op.block_size)  # type: ignore[attr-defined]
    chunk = max(per, BLOCK)
    length = min(-(-size // per) * per, chunk)
    a, b, c, d = (np.empty(length, np.float32) for _ in range(4))
    above = np.empty(length, np.bool_)
    of_m, of_v = coding(signed=True), coding(signed=False)

    def read(code: Array, absmax: Array, kind: Coding, y: Array) -> None:
        """Write what codes stand for to ``y``, whose end beyond them becomes 0."""
        np.take(kind.numbers, code, out=y[: code.size], mode="clip")
        y[code.size :] = 0
        rows = y.reshape(-1, per)
        np.multiply(rows, absmax[:, None], rows)

    def write(y: Array, code: Array, absmax: Array, kind: Coding) -> None:
        """Write the codes of ``y``, which is lost; ``c`` and ``d`` are taken for it."""
        rows, n = y.reshape(-1, per), code.size
        size_of = c[: y.size].reshape(-1, per)
        np.abs(rows, size_of)
        np.max(size_of, 1, out=absmax)
        if np.isinf(absmax).any():  # a block of 0 and ∞ would be read as NaN
            np.clip(rows, -LARGEST, LARGEST, out=rows)
            np.minimum(absmax, LARGEST, out=absmax)
        np.multiply(rows, (1 / np.maximum(absmax, np.float32(1e-38)))[:, None], rows)
        np.clip(rows, -1, 1, rows)
        np.take(kind.first, y.view(np.uint16)[1 : 2 * n : 2], out=code, mode="clip")
        np.take(kind.middles, code, out=d[:n], mode="clip")
        np.greater(y[:n], d[:n], above[:n])
        np.add(code, above[:n], code, casting="unsafe")

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        lr, b1, b2 = float(xs[7]), float(xs[8]), float(xs[9])
        t, epsilon, keep = int(xs[6]), float(xs[10]), 1 - float(xs[7]) * float(xs[11])
        left1, left2 = 1 - np.float64(b1) ** t, 1 - np.float64(b2) ** t
        scale, rate = float(1 / left2**0.5), float(lr / left1)
        flat = [x.reshape(-1) for x in (*xs[:6], *ys)]
        for start in range(0, size, chunk):
            here, blocks = slice(start, start + chunk), slice(start // per, (start + chunk) // per)
            p, g, m, _, v, _, p1, m1, _, v1, _ = (x[here] for x in flat)
            m_max, v_max, m1_max, v1_max = (flat[i][blocks] for i in (3, 5, 8, 10))
            n = p.size
            whole = m_max.size * per
            moment, square = a[:whole], b[:whole]
            read(m, m_max, of_m, moment)
            read(v, v_max, of_v, square)
            x, y = c[:n], d[:n]
            np.multiply(moment, b1, moment)
            np.multiply(g, 1 - b1, x)
            np.add(moment[:n], x, moment[:n])
            np.multiply(square, b2, square)
            np.multiply(g, g, x)
            np.multiply(x, 1 - b2, x)
            np.add(square[:n], x, square[:n])
            np.sqrt(square[:n], x)
            np.multiply(x, scale, x)
            np.add(x, epsilon, x)
            np.divide(moment[:n], x, x)
            np.multiply(x, rate, x)
            np.multiply(p, keep, y)
            np.subtract(y, x, p1)
            write(moment, m1, m1_max, of_m)
            write(square, v1, v1_max, of_v)

    return Native(lambda xs, ys: bind_adam8bit(per, xs, ys), launch, IN_PLACE)

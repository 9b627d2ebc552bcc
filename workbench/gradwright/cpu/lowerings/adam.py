"""Adam on numpy, written in place and in blocks that stay in cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...op import Op
from ...program.lowering import Launch
from ...spec import TensorSpec
from .common import runs

BLOCK = 131_072
"""Elements. Two million float32 parameters take 4.2 ms (AMD EPYC, 1 MB L2), 5.0 ms in one block,
5.5 ms in blocks of 16,384, where numpy's calls begin to count, and 15 ms op by op."""


@runs("adam_update")
def adam_update(
    op: Op, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]
) -> Launch | None:
    """Return a launcher for parameters, gradients and moments that are all float32 or float64."""
    tensors = [*(s for s in ins[:4] if s is not None), *outs]
    dtype = outs[0].dtype
    if dtype.char not in "fd" or any(s.dtype != dtype for s in tensors):
        return None
    size = outs[0].size
    a, b = np.empty(min(size, BLOCK), dtype), np.empty(min(size, BLOCK), dtype)

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        lr, b1, b2 = float(xs[5]), float(xs[6]), float(xs[7])
        t, epsilon, keep = int(xs[4]), float(xs[8]), 1 - float(xs[5]) * float(xs[9])
        # Python's own numbers refuse 1/0, and have complex roots.
        left1, left2 = 1 - np.float64(b1) ** t, 1 - np.float64(b2) ** t
        scale, rate = float(1 / left2**0.5), float(lr / left1)
        flat = [x.reshape(-1) for x in (*xs[:4], *ys)]
        for start in range(0, size, BLOCK):
            p, g, m, v, p1, m1, v1 = (x[start : start + BLOCK] for x in flat)
            c, d = a[: p.size], b[: p.size]
            np.multiply(m, b1, m1)
            np.multiply(g, 1 - b1, c)
            np.add(m1, c, m1)
            np.multiply(g, g, c)
            np.multiply(c, 1 - b2, c)
            np.multiply(v, b2, v1)
            np.add(v1, c, v1)
            np.sqrt(v1, c)
            np.multiply(c, scale, c)
            np.add(c, epsilon, c)
            np.divide(m1, c, c)
            np.multiply(c, rate, c)
            np.multiply(p, keep, d)
            np.subtract(d, c, p1)

    return launch

"""Products with banded matrices along axes, as those of a resize, which an op knows beforehand.

    y[…, i, …] = Σⱼ W[i, j]·x[…, j, …]

W is told when the plan is made, and multiplied dense: 2·n·m flops for each line of n, of m results.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradwright.ops.convolutions.bands import Bands

from ..fused.terms import Array, Work, written
from .matmul import product


def banded(work: Work, x: Array, y: Array, bands: Mapping[int, Bands], *, back: bool) -> None:
    """Multiply along axes with matrices, those first that leave the least."""
    if not bands:
        return work.copy(y, x)
    wide = work.wide(y.dtype)
    x = work.cast(x, wide)
    sizes = {a: (m.n_out, m.n_in) if back else (m.n_in, m.n_out) for a, m in bands.items()}
    order = sorted(bands, key=lambda a: sizes[a][1] / max(sizes[a][0], 1))
    for axis in order:
        matrix = bands[axis].apply(np.eye(bands[axis].n_in, dtype=wide), 0)
        lead, rest = x.shape[:axis], x.shape[axis + 1 :]
        shape = (*lead, sizes[axis][1], *rest)
        made = y if axis == order[-1] and y.dtype == wide else work.room(shape, wide)
        table = work.constant(matrix.T if back else matrix)
        flat = math.prod(lead), -1, math.prod(rest)
        if made.size and x.size:
            lines, results = work.dense(x).reshape(flat), made.reshape(flat)
            run = product(table, lines, results)
            work.call(functools.partial(_multiply, run), [table, lines], [results])
        else:
            work.fill(made, 0)
        x = made
    if x is not y:
        work.copy(y, x)


def _multiply(run: Callable[..., None], xs: Sequence[Any], ys: Sequence[Any]) -> None:
    run(*xs, *ys)


@written(
    "resize",
    *(f"adaptive_avg_pool{n}d" for n in (1, 2, 3)),
    *(f"{a}_to_{b}" for x in ("yiq", "yuv") for a, b in (("rgb", x), (x, "rgb"))),
)
def along_axes(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Multiply along axes with the matrices of the op."""
    x, y = xs[0], ys[0]
    banded(work, x, y, op.bands(x.shape), back=False)
    if op.linear() != op:
        for axis, taps in op.each_axis(x.shape).items():
            for i in np.flatnonzero(taps.outside()):
                work.fill(np.moveaxis(y, axis, 0)[i : i + 1], op.extrapolation_value)


@written("along_axes_grad")
def along_axes_grad(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Multiply along axes with the transposed matrices."""
    banded(work, xs[0], ys[0], op.of.bands(ys[0].shape), back=True)

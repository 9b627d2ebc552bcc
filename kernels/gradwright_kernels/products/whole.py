"""Products that tensor cores do not take as they are: of integers, of two dtypes, along one axis.

    y[…, i, j] = Σₖ a[…, i, k]·b[…, k, j]

Integers wrap around as numpy's do; each element is a row of the generator, which is 2·M·N·K reads
from L2. Floats of two dtypes are cast to the joint one first. A banded matrix along an axis, as that
of a resize, is told when the plan is made, and multiplied dense.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwright.ops.convolutions.bands import Bands
from gradwright.ops.matrices.linalg import Matmul
from gradwright.program.lowering import find_launch
from gradwright.spec import spec_of

from ..fused.terms import Array, Work, written


def product(work: Work, y: Array, a: Array, b: Array) -> None:
    """Launch a product of matrices that have one floating dtype."""
    found = find_launch(Matmul(), "cuda", [spec_of(a), spec_of(b)], [spec_of(y)])
    work.call(found.bind([a, b], [y]), [a, b], [y])


def whole(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Multiply integers, element by element; cast floats."""
    a, b = xs[:2]
    y = ys[0]
    if not y.size:
        return
    if y.dtype.kind == "f" or y.dtype.name == "bfloat16":
        return product(work, y, *(work.cast(t, y.dtype) for t in (a, b)))
    if a.ndim == 1:
        a, y = a[None, :], y[..., None, :] if b.ndim > 1 else y[None]
    if b.ndim == 1:
        b, y = b[:, None], y[..., None]
    space = (*y.shape, a.shape[-1])
    with work.over(space, 1) as k:
        wide = k.wide(y.dtype)
        left, right = (k.read(t).to(wide) for t in (a[..., None, :], b.swapaxes(-1, -2)[..., None, :, :]))
        k.write(y[..., None], (left * right).reduce("sum"))


def banded(work: Work, x: Array, y: Array, bands: dict[int, Bands], *, back: bool) -> None:
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
            product(work, made.reshape(flat), table, work.dense(x).reshape(flat))
        else:
            work.fill(made, 0)
        x = made
    if x is not y:
        work.copy(y, x)


@written(
    "resize",
    *(f"adaptive_avg_pool{n}d" for n in (1, 2, 3)),
    *(f"{a}_to_{b}" for x in ("yiq", "yuv") for a, b in (("rgb", x), (x, "rgb"))),
)
def along_axes(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Multiply along axes with the matrices of the op."""
    x, y = xs[0], ys[0]
    banded(work, x, y, dict(op.bands(x.shape)), back=False)
    if op.linear() != op:
        for axis, taps in op.each_axis(x.shape).items():
            for i in np.flatnonzero(taps.outside()):
                work.fill(np.moveaxis(y, axis, 0)[i : i + 1], op.extrapolation_value)


@written("along_axes_grad")
def along_axes_grad(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Multiply along axes with the transposed matrices."""
    banded(work, xs[0], ys[0], dict(op.of.bands(ys[0].shape)), back=True)

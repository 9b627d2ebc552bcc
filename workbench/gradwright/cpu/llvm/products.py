"""Products whose inner axis is long, as pieces of it, whose results are added up; dots as kernels.

A dot of any length is one kernel, which reads both vectors once and adds up in several vectors; so
are many short ones, and products over an inner axis of one, for which BLAS is called once each.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...fuse.builder import Builder
from ...fuse.ir import Kernel
from ...ops.numerics.products import LONG
from ...program.declined import DeclinedError
from ..call import Call
from .bind import bind_kernel
from .gemm import bind_matmul
from .steps import Steps

Array = np.ndarray[Any, Any]
LARGE = 1 << 15
"""Bytes of a matrix that BLAS copies for some rows at a price: 384 x 384 take 2 to 3.6 times as
long for 4 to 8 rows, 128 x 128 1.8 times for 32 and 1.3 times for 128."""


def bind_product(xs: Sequence[Array], ys: Sequence[Array]) -> Sequence[Call] | None:
    """Return the calls of ``ys[0] = xs[0] @ xs[1]`` for these arrays; None: numpy must do it.

    >>> a, b, y = np.ones((1, 9000), "f4"), np.ones((9000, 2), "f4"), np.empty((1, 2), "f4")
    >>> from gradwright.cpu.llvm.compiler import available
    >>> calls = bind_product([a, b], [y]) if available() else None
    >>> calls is None or len(calls)
    3
    """
    (a, b), c = xs, ys[0]
    if few := _bind_few(a, b, c):
        return few
    if a.dtype.char != "f" or a.dtype != b.dtype or not c.size:
        return bind_matmul(xs, ys)
    if c.shape[-2:] == (1, 1) and (a.shape[-1] > LONG or (c.size > 1 and a.shape[-1])):
        return _bind_dots(a[..., 0, :], b[..., 0], c[..., 0])
    if a.shape[-1] == 1 and c.ndim > 2:
        return _bind_outer(a, b, c)
    if a.shape[-1] <= LONG:
        return bind_matmul(xs, ys)
    if b.ndim == 2 and a.flags.c_contiguous and c.flags.c_contiguous:
        a, c = a.reshape(-1, a.shape[-1]), c.reshape(-1, c.shape[-1])
    steps = Steps([*xs, *ys])
    try:
        steps.product(a, b, c)
    except DeclinedError:
        return None
    return steps.calls


def _bind_few(a: Array, b: Array, c: Array) -> Sequence[Call] | None:
    """Return the call of some rows times a large Wᵀ, W as files have it; None: BLAS has to."""
    if (
        b.ndim != 2
        or b.nbytes < LARGE
        or b.strides[0] != 4
        or {a.dtype.char, b.dtype.char} != {"f"}
    ):
        return None
    from .packed.floats import bind_few  # which writes machine code, as for packed rows

    return bind_few(a, b, c)


def _bind_dots(a: Array, b: Array, c: Array) -> Sequence[Call] | None:
    """Return the calls of products of vectors along the last axis."""
    shape = (*c.shape[:-1], a.shape[-1])
    arrays = [x.reshape(*(1,) * (len(shape) - x.ndim), *x.shape) for x in (a, b)]
    moves = [tuple(n for n, size in enumerate(x.shape) if size != 1) for x in (*arrays, c)]
    return bind_kernel(_dots(len(shape), a.dtype, *moves), shape, [*arrays, c])


def _bind_outer(a: Array, b: Array, c: Array) -> Sequence[Call] | None:
    """Return the calls of products over an inner axis of one: 2,048 of [1, 24] in 7 µs, not 60."""
    arrays = [x.reshape(*(1,) * (c.ndim - x.ndim), *x.shape) for x in (a, b)]
    moves = [tuple(n for n, size in enumerate(x.shape) if size != 1) for x in (*arrays, c)]
    return bind_kernel(_outer(c.ndim, a.dtype, *moves), c.shape, [*arrays, c])


@functools.cache
def _outer(rank: int, dtype: np.dtype[Any], *axes: tuple[int, ...]) -> Kernel:
    """Return the kernel that stores the products of two operands in a third."""
    b = Builder(rank, rank)
    x, y = (b.load(name, at, dtype) for name, at in zip("xy", axes, strict=False))
    return b.kernel([(x * y, axes[2], "set", dtype)])[0]


@functools.cache
def _dots(rank: int, dtype: np.dtype[Any], *axes: tuple[int, ...]) -> Kernel:
    """Return the kernel that adds up the products of two operands into a third."""
    b = Builder(rank, rank)
    x, y = (b.load(name, at, dtype) for name, at in zip("xy", axes, strict=False))
    return b.kernel([(x * y, axes[2], "sum", dtype)])[0]

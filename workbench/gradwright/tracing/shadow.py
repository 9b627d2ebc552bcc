"""Shadows: numpy arrays with the shape, dtype and strides of what is not computed yet.

A shadow is never read or written. It asks numpy itself which indices are out of range, what is a
view and what a copy, and how a result lies in memory: so traced code knows what plain code does.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..spec import AnyDim, Dim

Array = np.ndarray[Any, Any]

STAND_IN = 7
"""What a size that is not known yet counts as, where numpy is asked for an order in memory."""

_space = mmap.mmap(-1, 1 << 20)


def shadow(shape: Sequence[AnyDim], dtype: np.dtype[Any], sizes: dict[str, int]) -> Array:
    """Return an array that stands for one of this shape; its memory is reserved, never touched.

    All shadows lie in one anonymous mapping, of which the system gives no page before it is used.
    """
    global _space
    known = tuple(_size(d, sizes) for d in shape)
    needed = math.prod(known) * dtype.itemsize
    if needed > len(_space):
        _space = mmap.mmap(-1, 2 * needed)
    return np.ndarray(known, dtype, buffer=_space)


def _size(d: AnyDim, sizes: dict[str, int]) -> int:
    if not isinstance(d, Dim):
        return d
    found = d.substitute({s: sizes.get(s, STAND_IN) for s in d.symbols})
    return max(int(found), 0)


def laid_out_like(shape: tuple[int, ...], dtype: np.dtype[Any], inputs: Sequence[Array]) -> Array:
    """Return the shadow of a ufunc's result: numpy keeps the order in memory of the inputs.

    >>> x = shadow((2, 3), np.dtype("float32"), {})
    >>> laid_out_like((3, 2), x.dtype, [x.T]).flags.f_contiguous
    True
    """
    plain = shadow(shape, dtype, {})
    if all(x.flags.c_contiguous for x in inputs) or len(shape) < 2:
        return plain
    flags: Any = ["zerosize_ok", "refs_ok"]
    modes: Any = [*[["readonly"]] * len(inputs), ["writeonly", "allocate"]]
    found = np.nditer([*inputs, None], flags, modes).operands[-1]
    if found.shape != shape:
        return plain
    order = sorted(range(len(shape)), key=lambda axis: -found.strides[axis])
    back = [order.index(axis) for axis in range(len(shape))]
    return shadow([shape[a] for a in order], dtype, {}).transpose(back)


def reshaped(x: Array, shape: tuple[int, ...]) -> Array | None:
    """Return the view that numpy's reshape gives, None where it has to copy.

    >>> x = shadow((2, 3), np.dtype("float32"), {})
    >>> reshaped(x, (6,)) is not None, reshaped(x.T, (6,)) is None
    (True, True)
    """
    view = x.view()
    try:
        if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
            return x.reshape(shape, copy=False)
        view.shape = shape
    except (ValueError, AttributeError):
        return None
    return view

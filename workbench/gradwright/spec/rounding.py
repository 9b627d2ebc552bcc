"""Rounding to fewer digits once, from every dtype: ml_dtypes goes through float32 and rounds twice.

So does ``astype`` of float64 and of 64-bit ints to bfloat16, float8 and what is narrower; to
float16 numpy itself rounds once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .tensor import dtype, is_floating

Array = np.ndarray[Any, Any]


def rounded(x: Any, dtype_: DTypeLike) -> Array:
    """Return numbers in a dtype, as ``astype`` does, but rounded once; x itself if it has it.

    >>> import numpy as np
    >>> from gradwright.spec.rounding import rounded
    >>> x = np.array(1 + 2.0**-8 + 2.0**-40)  # right above the middle of two bfloat16
    >>> float(rounded(x, "bfloat16")), float(x.astype(dtype("bfloat16")))
    (1.0078125, 1.0)
    """
    array, target = np.asarray(x), dtype(dtype_)
    if is_floating(target) and target.isbuiltin != 1:
        array = to_odd(array)
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(target, copy=False)


def to_odd(x: Array) -> Array:
    """Return wide numbers as float32 that rounds to fewer digits as the numbers themselves would.

    What float32 does not hold becomes that one of its two neighbours whose last bit is 1, so that
    fewer digits see what was lost (round to odd). 64-bit ints first leave 11 bits, in the same way.
    """
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        odd = (x & ~x.dtype.type(0x7FF)) | x.dtype.type(0x800)
        is_large = (x > 2**53) | (x < -(2**53)) if x.dtype.kind == "i" else x > 2**53
        x = np.where(is_large & (x & 0x7FF != 0), odd, x)
    if x.dtype.kind not in "iuf" or (x.dtype.kind == "f" and x.dtype.itemsize < 8):
        return x
    wide = x.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        near = wide.astype(np.float32)
    back = near.astype(np.float64)
    is_other = (back != wide) & (wide == wide)
    bits = near.view(np.int32) - (np.abs(back) > np.abs(wide))
    return np.where(is_other, bits | 1, bits).astype(np.int32).view(np.float32)

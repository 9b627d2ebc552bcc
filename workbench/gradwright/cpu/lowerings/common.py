"""What lowerings of the CPU share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.numerics.summing import add_up, column_sums, matrix, row_sums
from ...program.lowering import MakeT, lowering
from ...spec import TensorSpec

Array = np.ndarray[Any, Any]
Specs = Sequence[TensorSpec | None]


def runs(name: str) -> Callable[[MakeT], MakeT]:
    """Register how an op runs on both devices of the host."""
    return lambda make: lowering(name, "guard")(lowering(name, "cpu")(make))


def floats(*specs: TensorSpec | None, kinds: str = "fd") -> bool:
    """Tell whether all specs have one dtype, and it is float32 or float64."""
    first = specs[0]
    return (
        first is not None
        and first.dtype.char in kinds
        and all(s is not None and s.dtype == first.dtype for s in specs)
    )


def adder(shape: Sequence[Any], axes: Sequence[int]) -> Callable[[Array, Array], Any]:
    """Return what writes the sums over some axes of an array into another, of any such shape."""
    n = len(shape)
    is_part = 0 < len(axes) < n and 0 not in shape
    if is_part and tuple(axes) == tuple(range(n - len(axes), n)):
        columns = math.prod(map(int, shape[n - len(axes) :]))
        return lambda x, y: row_sums(matrix(x, columns), y.reshape(-1))
    if is_part and tuple(axes) == tuple(range(len(axes))):
        columns = math.prod(map(int, shape[len(axes) :]))
        return lambda x, y: column_sums(matrix(x, columns), y.reshape(-1))
    return lambda x, y: np.copyto(y, add_up(x, axes).reshape(y.shape))

"""What the functions share: lifting their arguments, and dtypes as numpy decides them."""

from __future__ import annotations

import contextvars
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph import Tensor
from ..op import find_op
from ..ops.core.movement import cast_to
from .refusals import refusal

if TYPE_CHECKING:
    from .lazy import LazyArray
    from .state import Recording

current: contextvars.ContextVar[Recording | None] = contextvars.ContextVar("trace", default=None)
"""The trace that this thread, or this task, is recording."""


def recording() -> Recording:
    """Return the trace that is being recorded here."""
    found = current.get()
    if found is None:
        raise refusal(
            "a lazy array is used where nothing is traced",
            hint="in the thread that traces; a thread started meanwhile has a trace of its own",
        )
    return found


def lift(value: Any) -> Any:
    """Return any value that numpy's functions take as a lazy array.

    The functions below use it as they would an array of numpy, and are typed so.
    """
    return recording().lift(value)


def op(op_name: str, *xs: Any, name: str | None = None, **attrs: Any) -> Any:
    """Apply an op to tensors."""
    return find_op(op_name)(**attrs)(*xs, name=name)


def fresh(tensor: Tensor) -> Any:
    """Return a tensor as a new array."""
    return recording().fresh(tensor)


def joint_dtype(xs: Iterable[LazyArray]) -> np.dtype[Any]:
    """Return numpy's common dtype; numbers of Python take that of the arrays."""
    samples = {"i": 0, "f": 0.0, "c": 0j}
    return np.result_type(*(samples[x.dtype.kind] if x.weak else x.dtype for x in xs))


def joined(values: Iterable[Any], dtype: Any = None) -> list[Tensor]:
    """Return values as tensors of their common dtype."""
    xs = [lift(v) for v in values]
    target = joint_dtype(xs) if dtype is None else np.dtype(dtype)
    return [cast_to(target, x.tensor) for x in xs]


def floating(x: LazyArray) -> Tensor:
    """Return a tensor of floats: numpy computes means and roots of integers as float64."""
    t: Tensor = x.tensor
    return t if x.dtype.kind in "fcV" else cast_to(np.float64, t)


def axes_of(axis: Any) -> Any:
    """Return one axis or several as plain ints; None for all."""
    if axis is None:
        return None
    if isinstance(axis, (tuple, list)):
        return tuple(int(a) for a in axis)
    return axis.__index__()


def checked_axis(axis: Any, ndim: int) -> int:
    """Return an axis counted from the front, or raise what numpy raises."""
    place = int(axis.__index__())
    if not -ndim <= place < ndim:
        raise np.exceptions.AxisError(place, ndim)
    return place % ndim

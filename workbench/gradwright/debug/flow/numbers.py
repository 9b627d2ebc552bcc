"""Numbers of a reason as people say them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
ROUNDING = 1e-12
"""What is left of terms that cancel exactly, relative to them: float64 and some sums."""


def about(x: float) -> str:
    """Return a number with three digits.

    >>> about(1.23456e-7), about(2.0)
    ('1.23e-7', '2')
    """
    return f"{x:.3g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def near(x: float) -> str:
    """Return a place on the grid; what is next to zero is zero."""
    return "0" if abs(x) <= 2e-4 else f"{x:.2g}"


def span(x: Array) -> str:
    """Say where values lie.

    >>> span(np.array([1.0, -2.0])), span(np.array([3.0]))
    ('between -2 and 1', 'at 3')
    """
    values = np.abs(x) if np.iscomplexobj(x) else x
    values = values[np.isfinite(values)]
    if not values.size:
        return "nowhere finite"
    low, high = float(values.min()) + 0.0, float(values.max()) + 0.0  # no -0
    return f"at {about(low)}" if low == high else f"between {about(low)} and {about(high)}"


def at_share(some: Array, among: Array) -> str:
    """Say at how many elements.

    >>> at_share(np.array([True, False]), np.array([True, True]))
    'at 50% of 2 elements'
    """
    n, of = int(some.sum()), int(among.sum())
    if n == of:
        return "at its one element" if of == 1 else f"at all {of:,} elements"
    return f"at {n / of:.0%} of {of:,} elements"


def where(values: Sequence[str]) -> str:
    """Return values as a clause."""
    return " where " + " and ".join(values) if values else ""


def cancelled(left: float) -> tuple[str, str]:
    """Return the kind of a cancellation, and what is left of the terms, in words.

    >>> cancelled(1e-17), cancelled(0.03)
    (('cancels exactly', 'exactly, but for rounding'), ('cancels', 'to 0.03 of what they are'))
    """
    if left < ROUNDING:
        return "cancels exactly", "exactly, but for rounding"
    return "cancels", f"to {about(left)} of what they are"


def fits(x: Array, shape: tuple[int, ...]) -> bool:
    """Tell whether an array broadcasts to a shape."""
    try:
        return np.broadcast_shapes(x.shape, shape) == shape
    except ValueError:
        return False

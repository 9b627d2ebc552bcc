"""Where a slope is infinite, as that of sqrt at 0: an analytic one that says so is not wrong."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

_STEPS = (1e-4, 1e-6, 1e-8)
_GROWTH = 1.2
"""How much steeper each step is, at least; x**0.95 grows by 1.26 where steps shrink to 1/100."""


def is_steep(f: Callable[[float], float], analytic: float, scale: float = 1.0) -> bool:
    """Tell whether the slope of ``f`` grows towards 0 without end, and to the side of ``analytic``.

    One side is enough: the other may be outside of f's domain.

    >>> is_steep(lambda t: math.sqrt(t) if t >= 0 else math.nan, math.inf)
    True
    >>> is_steep(lambda t: math.sqrt(1 + t), math.inf), is_steep(abs, math.inf)
    (False, False)
    """
    if not math.isinf(analytic):
        return False
    zero = f(0.0)
    for side in (1.0, -1.0):
        rises = [(f(side * h * scale) - zero) / (side * h * scale) for h in _STEPS]
        towards = [r if analytic > 0 else -r for r in rises]
        grown = all(b > _GROWTH * a for a, b in itertools.pairwise(towards))
        if towards[0] > 0 and grown and math.isfinite(towards[-1]):
            return True
    return False

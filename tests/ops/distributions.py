"""How near drawn numbers are to a distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

CRITICAL = 1.95
"""Kolmogorov-Smirnov distance times √n that one sample in a thousand exceeds."""


def distance(drawn: np.ndarray[Any, Any], cdf: Callable[[Any], Any]) -> float:
    """Return the Kolmogorov-Smirnov distance times √n."""
    at = cdf(np.sort(drawn.astype(np.float64)))
    steps = np.arange(len(at) + 1) / len(at)
    return float(max((steps[1:] - at).max(), (at - steps[:-1]).max()) * math.sqrt(len(at)))


def gaussian(x: Any) -> Any:
    """Return the share of standard normals below x."""
    return np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x])

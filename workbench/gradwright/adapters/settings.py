"""What settings and first values of several methods have in common."""

from __future__ import annotations

import math

from ..errors import GraphError
from ..init import Initializer, uniform


def as_kaiming(shape: tuple[int, ...]) -> Initializer:
    """Return first values as torch draws them for a matrix: uniform in ±1/√n, n what goes in.

    >>> as_kaiming((8, 4))
    uniform(low=-0.5, high=0.5)
    """
    limit = 1 / math.sqrt(max(1, math.prod(shape[1:])))
    found: Initializer = uniform(low=-limit, high=limit)
    return found


def check_rank(r: int) -> None:
    """Raise GraphError for what is no rank."""
    if not isinstance(r, int) or isinstance(r, bool) or r < 1:
        raise GraphError(f"a rank of {r!r} makes no sense", need="1, 2, ...")


def check_share(name: str, p: float) -> None:
    """Raise GraphError for what is no probability below 1."""
    if not 0 <= p < 1:
        raise GraphError(f"{name}={p!r} makes no sense", need=f"0 <= {name} < 1")

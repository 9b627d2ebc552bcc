"""What settings and first values of several methods have in common."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Protocol

from ..errors import GraphError
from ..init import Initializer, uniform
from .site import Place
from .targeting import of_pattern


def as_kaiming(shape: tuple[int, ...]) -> Initializer:
    """Return first values as torch draws them for a matrix: uniform in ±1/√n, n what goes in.

    >>> as_kaiming((8, 4))
    uniform(low=-0.5, high=0.5)
    """
    limit = 1 / math.sqrt(max(1, math.prod(shape[1:])))
    found: Initializer = uniform(low=-limit, high=limit)
    return found


def check_count(name: str, n: int) -> None:
    """Raise GraphError for what is no number of things."""
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise GraphError(f"{name}={n!r} makes no sense", need="1, 2, ...")


def check_number(name: str, x: float) -> None:
    """Raise GraphError for what is no finite number."""
    if not isinstance(x, numbers.Real) or not math.isfinite(x):
        raise GraphError(f"{name}={x!r} makes no sense", need="a finite number")


class Patterned(Protocol):
    """A method whose ranks and alphas may be others at some places."""

    @property
    def r(self) -> int:
        """The rank of all other places."""

    @property
    def alpha(self) -> float:
        """Their alpha."""

    @property
    def rank_pattern(self) -> Mapping[str, int]:
        """Ranks by pattern."""

    @property
    def alpha_pattern(self) -> Mapping[str, float]:
        """Alphas by pattern."""


def check_ranks(method: Patterned) -> None:
    """Raise GraphError for ranks and alphas that are none."""
    for r in (method.r, *method.rank_pattern.values()):
        check_count("r", r)
    for alpha in (method.alpha, *method.alpha_pattern.values()):
        check_number("alpha", alpha)


def rank_at(method: Patterned, place: Place) -> int:
    """Return the rank at a place."""
    return of_pattern(method.rank_pattern, place.name, method.r)


def scale_at(method: Patterned, place: Place) -> float:
    """Return alpha/r at a place."""
    return of_pattern(method.alpha_pattern, place.name, method.alpha) / rank_at(method, place)


def check_share(name: str, p: float) -> None:
    """Raise GraphError for what is no probability below 1."""
    if not isinstance(p, numbers.Real) or not 0 <= p < 1:
        raise GraphError(f"{name}={p!r} makes no sense", need=f"0 <= {name} < 1")

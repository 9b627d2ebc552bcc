"""x"""

from __future__ import annotations

from collections.abc import Callable

from .text import Num


def power(x: Num, n: float) -> Num:
    raise NotImplementedError


def _exp(x: Num) -> Num:
    lo, hi = (-104.0, 89.0) if x.type == "float" else (-746.0, 710.0)
    return x


SERIES: dict[str, Callable[..., Num]] = {"exp": _exp}

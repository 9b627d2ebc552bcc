"""How many references an array has that only the statement ``array += lazy`` holds.

Interpreters differ in what they keep while an operator runs, so it is counted once, here.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


class _Probe:
    """An operand that counts the references to the array it is added to."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> int:
        return holders(options)


def holders(options: dict[str, Any]) -> int:
    """Return how many references there are to what a ufunc writes into."""
    out = options.get("out")
    return sys.getrefcount(out[0]) if out else 0


def _count() -> int:
    total: Any = np.zeros(1)
    total += _Probe()
    return int(total)


SOLE = _count()
"""The number of references to an array that one variable holds, seen by ``holders``."""

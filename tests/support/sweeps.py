"""How much of a sweep the suite runs: a telling share, or all of it where that is asked for.

GRADWRIGHT_TEST_SWEEPS=whole python -m pytest tests/debug/test_blame.py tests/fuse
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

IS_WHOLE = os.environ.get("GRADWRIGHT_TEST_SWEEPS") == "whole"
Item = TypeVar("Item")


def spread(items: Sequence[Item], n: int) -> list[Item]:
    """Return n items from the first to the last; all of a whole sweep, or of fewer."""
    if IS_WHOLE or len(items) <= n:
        return list(items)
    return [items[round(i * (len(items) - 1) / max(n - 1, 1))] for i in range(n)]

"""How much of a sweep the suite runs: a telling share, or all of it where that is asked for.

GRADWRIGHT_TEST_SWEEPS=whole python -m pytest tests/debug/test_blame.py tests/fuse
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

from gradwright.op import Sample

IS_WHOLE = os.environ.get("GRADWRIGHT_TEST_SWEEPS") == "whole"
Item = TypeVar("Item")


def spread(items: Sequence[Item], n: int) -> list[Item]:
    """Return n items from the first to the last; all of a whole sweep, or of fewer."""
    if IS_WHOLE or len(items) <= n:
        return list(items)
    return [items[round(i * (len(items) - 1) / max(n - 1, 1))] for i in range(n)]


def telling(samples: Sequence[Sample], n: int) -> list[int]:
    """Return the numbers of n samples; all of a whole sweep, or of fewer.

    Before others come those whose arrays have elements, with settings that none before has: the
    last ones are often empty.
    """
    if IS_WHOLE or len(samples) <= n:
        return [*range(len(samples))]
    seen, ranks = set[str](), list[tuple[bool, bool]]()
    for sample in samples:
        is_empty = any(getattr(x, "size", 1) == 0 for x in sample.inputs)
        settings = repr(sorted(sample.attrs.items()))
        ranks.append((is_empty, settings in seen))
        if not is_empty:
            seen.add(settings)
    order = sorted(range(len(samples)), key=ranks.__getitem__)
    best = [i for i in order if not any(ranks[i])]
    return spread(best, n) if len(best) >= n else order[:n]

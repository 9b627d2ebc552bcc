"""Values of a ``config.json`` that nobody vouches for, each of the kind that it has to be."""

from __future__ import annotations

import math
from typing import Any

from ...errors import ArchiveError

MOST = 1 << 40
"""What no size of a model reaches."""


def whole(value: Any, key: str) -> int:
    """Return an integer from 0 on; raises ArchiveError for anything else.

    >>> whole(8, "num_hidden_layers")
    8
    """
    if type(value) is not int or not 0 <= value < MOST:
        raise ArchiveError(f"{key} is {str(value)[:40]!r}", need="an integer from 0 on")
    return value


def number(value: Any, key: str) -> float:
    """Return a finite number; raises ArchiveError for anything else.

    >>> number(1, "rms_norm_eps")
    1.0
    """
    if type(value) not in (int, float) or not math.isfinite(value) or abs(value) > 1e300:
        raise ArchiveError(f"{key} is {str(value)[:40]!r}", need="a number")
    return float(value)


def flag(value: Any, key: str) -> bool:
    """Return a bool; raises ArchiveError for anything else.

    >>> flag(True, "attention_bias")
    True
    """
    if type(value) is not bool:
        raise ArchiveError(f"{key} is {str(value)[:40]!r}", need="true or false")
    return value

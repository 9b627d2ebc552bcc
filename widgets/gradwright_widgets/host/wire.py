"""What travels between the kernel and a page: messages, and numbers that JSON has words for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import traitlets

Buffers = Sequence[Any]
Message = tuple[dict[str, Any], list[Any]]
"""Content, ``{"kind": "panel.data", ...}``, and the buffers that belong to it."""


def finite(number: float | None) -> float | None:
    """Return a number, or None for one that JSON has no word for.

    >>> finite(0.5), finite(math.nan)
    (0.5, None)
    """
    return number if number is not None and math.isfinite(number) else None


class Finite(traitlets.Float[float, Any]):
    """A number that is neither NaN nor infinite, for which JSON has no word."""

    def validate(self, obj: Any, value: Any) -> float:
        """Return the number; raises TraitError for another."""
        number = super().validate(obj, value)
        if not math.isfinite(number):
            raise traitlets.TraitError(f"{self.name or 'a number'} cannot be {number}")
        return number

"""The punishment of long completions that DAPO adds to rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Overlong:
    """A reward of length: 0 up to L − c tokens, then down to −1 at L (Yu et al. 2025, eq. 13).

    >>> from gradwright.align.methods.overlong import Overlong
    >>> Overlong(10, 4)([], [], completion_ids=[[0] * n for n in (6, 8, 10)])
    [0.0, -0.5, -1.0]
    """

    longest: int
    cache: int
    name: str = "overlong"

    def __call__(
        self, prompts: Sequence[str], completions: Sequence[str], **columns: Sequence[Any]
    ) -> list[float]:
        """Return the punishment of each completion."""
        room, lengths = self.longest - self.cache, map(len, columns["completion_ids"])
        return [max(-1.0, min(0.0, (room - n) / self.cache)) for n in lengths]

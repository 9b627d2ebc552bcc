"""What an adapter does at a weight, where that is a product of thin matrices and factors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LowRank:
    """A change of a layer by arrays: what rows of a batch can have each of their own.

    y' = gain ⊙ (y + (x ⊙ (input_gain − 1))·Wᵀ + scale·(x·Aᵀ)·Bᵀ) + offset, y with its bias

    A: f32[r, in], B: f32[out, r]; of an embedding x is one-hot. Gains and offset are f32[out], and
    f32[in] of what goes in; None are ones and zeros.
    """

    a: Array
    b: Array
    scale: float = 1.0
    gain: Array | None = None
    offset: Array | None = None
    input_gain: Array | None = None

    @property
    def rank(self) -> int:
        """How many rows A has."""
        return len(self.a)

    @property
    def multiplies(self) -> bool:
        """Whether it is more than a sum, so that two of them, or half of one, are none."""
        return self.gain is not None or self.input_gain is not None

    def within(self, most: int) -> LowRank:
        """Return the same with a rank of ``most`` at most, if the weight has not more.

        >>> wide = LowRank(np.ones((4, 3)), np.ones((2, 4)))
        >>> wide.within(2).a.shape, (wide.within(2).b @ wide.within(2).a).tolist()
        ((2, 3), [[4.0, 4.0, 4.0], [4.0, 4.0, 4.0]])
        """
        n_out, n_in = len(self.b), self.a.shape[1]
        if self.rank <= most or most < min(n_out, n_in):
            return self
        whole = self.b @ self.a
        eye = np.eye(min(n_out, n_in), dtype=whole.dtype)
        a, b = (eye, whole) if n_in <= n_out else (whole, eye)
        return LowRank(a, b, self.scale, self.gain, self.offset, self.input_gain)

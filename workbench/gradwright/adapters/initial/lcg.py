"""Numbers of a linear congruential generator, which any language draws alike to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_FACTOR, _TERM, _MASK = 1103515245, 12345, (1 << 31) - 1


class Lcg:
    """A stream of numbers: s ← (1103515245·s + 12345) mod 2³¹, u = (s + 1)/2³¹ in (0, 1].

    Normals are those of Box and Muller (1958). The low bits of s have short periods: it is for
    first values that have to be the same elsewhere, not for statistics.

    >>> Lcg(42).uniform(2).round(6).tolist()
    [0.582308, 0.519819]
    """

    def __init__(self, state: int) -> None:
        self._state = state & _MASK

    @classmethod
    def hashed(cls, seed: int) -> Lcg:
        """Return the stream of a seed, 0 included: its state is a hash, eight draws are left out.

        >>> Lcg.hashed(0).uniform(1).round(6).tolist()
        [0.767804]
        """
        state = (seed + 104729) * 2654435761 % _MASK
        found = cls(state or seed + 104729)
        found.uniform(8)
        return found

    def uniform(self, n: int) -> Array:
        """Return the next ``n`` numbers of (0, 1], f64[n]."""
        factors, terms = np.array([_FACTOR], np.uint64), np.array([_TERM], np.uint64)
        mask = np.uint64(_MASK)
        while len(factors) < n:  # k steps at once are such a step, too: twice as many from k
            f, t = factors[-1], terms[-1]
            terms = np.concatenate([terms, (factors * t + terms) & mask])
            factors = np.concatenate([factors, (factors * f) & mask])
        states = (factors[:n] * np.uint64(self._state) + terms[:n]) & mask
        if n:
            self._state = int(states[-1])
        return (states.astype(np.float64) + 1) / (1 << 31)

    def cosines(self, n: int) -> Array:
        """Return ``n`` normals, f64[n], each of two numbers of its own."""
        u, v = self.uniform(2 * n).reshape(n, 2).T
        found: Array = np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)
        return found

    def normals(self, n: int) -> Array:
        """Return ``n`` normals, f64[n], two of each two numbers; of an odd count one is left."""
        u, v = self.uniform(n + n % 2).reshape(-1, 2).T
        radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1)[:n]

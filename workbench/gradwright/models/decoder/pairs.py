"""The order of the rows of queries and keys: pairs that turn lie half a head apart, or together.

Attention is the same for both, as long as queries and keys agree; files differ in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def by_neighbours(w: Array, heads: int) -> Array:
    """Return rows [heads·E, …] in the order of pairs side by side, from pairs half a head apart.

    >>> by_neighbours(np.arange(8), 2).tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    return w.reshape(heads, 2, len(w) // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def by_halves(w: Array, heads: int) -> Array:
    """Return rows in the order of pairs half a head apart: the inverse.

    >>> by_halves(by_neighbours(np.arange(8), 2), 2).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7]
    """
    return w.reshape(heads, len(w) // heads // 2, 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)

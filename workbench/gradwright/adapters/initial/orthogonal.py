"""Factors that both move from the first step on, though their product begins as zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import ShapeError
from .first import First

Array = np.ndarray[Any, Any]


def orthogonal(out: int, in_: int, r: int, *, seed: int = 0) -> First:
    """Return factors whose rows and columns are mixed of orthogonal halves, so that B·A = 0.

    Q of a random r×r matrix; A = (N₁·Q[0::2])ᵀ/10, B = N₂·Q[1::2]/10, with normal N₁ [in, r/2] and
    N₂ [out, r/2] (Datta 2024, "Rethink LoRA initialisations"). Raises ShapeError for an odd rank.

    >>> import numpy as np
    >>> a, b, base = orthogonal(5, 6, 4)
    >>> a.shape, b.shape, float(np.abs(b @ a).max()) < 1e-8, base
    ((4, 6), (5, 4), True, None)
    """
    if r < 2 or r % 2:
        raise ShapeError(f"a rank of {r} has no two halves", need="an even rank")
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.standard_normal((r, r)))[0]
    a = (rng.standard_normal((in_, r // 2)) @ q[0::2]).T / 10
    b = rng.standard_normal((out, r // 2)) @ q[1::2] / 10
    return First(a, b, None)

"""PiSSA: adapters begin as the leading directions of the weight (Meng, Wang and Zhang 2024)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .first import First, as_floats, leading, taken_off

Array = np.ndarray[Any, Any]


def pissa(w: Array, r: int, scale: float, *, n_iter: int | None = None, seed: int = 0) -> First:
    """Return the leading singular directions as factors, and the weight without them.

    W = U·S·Vᵀ; A = √(S_r/scale)·V_rᵀ, B = U_r·√(S_r/scale); base = W − scale·B·A

    So the first output is that of W. With ``n_iter`` the directions are found by as many iterations
    of a subspace that begins at random, which is faster for large weights. Raises ShapeError for a
    rank that the weight has not.

    >>> import numpy as np
    >>> a, b, base = pissa(np.diag([4.0, 2.0, 1.0]), 2, 0.5)
    >>> np.abs(base + 0.5 * b @ a).round(6).tolist()
    [[4.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]]
    """
    x = as_floats(w, r)
    if n_iter is None:
        u, s, vt = np.linalg.svd(x, full_matrices=False)
    else:
        u, s, vt = leading(x, r, n_iter, np.random.default_rng(seed))
    root = np.sqrt(s[:r] / x.dtype.type(scale))
    a, b = root[:, None] * vt[:r], u[:, :r] * root
    return First(a, b, taken_off(w, x.dtype.type(scale) * (b @ a)))

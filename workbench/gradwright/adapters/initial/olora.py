"""OLoRA: adapters begin as an orthonormal basis of the weight (Büyükakyüz 2024)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .first import First, as_floats, taken_off

Array = np.ndarray[Any, Any]


def olora(w: Array, r: int, scale: float) -> First:
    """Return the first columns and rows of a QR decomposition, and the weight without them.

    W = Q·R; A = R[:r], B = Q[:, :r]; base = W − scale·B·A

    So the first output is that of W. Raises ShapeError for a rank that the weight has not.

    >>> import numpy as np
    >>> a, b, base = olora(np.array([[3.0, 1.0], [4.0, 2.0]]), 1, 1.0)
    >>> np.abs(a).round(2).tolist(), np.abs(b).round(2).tolist(), base[:, 1].round(2).tolist()
    ([[5.0, 2.2]], [[0.6], [0.8]], [-0.32, 0.24])
    """
    x = as_floats(w, r)
    q, triangle = np.linalg.qr(x)
    a, b = triangle[:r].copy(), q[:, :r].copy()
    return First(a, b, taken_off(w, x.dtype.type(scale) * (b @ a)))

"""LoftQ: adapters begin as what quantising the weight has lost (Li et al. 2023)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import GraphError, ShapeError
from ...ops.quantised.blocks import FORMATS, WRITTEN, packed_ggml, unpacked
from ...ops.quantised.nf4 import packed_nf4, unpacked_nf4
from .first import First, as_floats

Array = np.ndarray[Any, Any]
KINDS = ("nf4", "int8", *WRITTEN)


def rounded(x: Array, kind: str) -> Array:
    """Return the numbers that are left of a matrix when it is quantised.

    ``"nf4"`` is in blocks of 64, and quantising it once more changes nothing; ``"int8"`` is in
    multiples of each row's largest size/127, of numbers in half precision, as of bitsandbytes;
    others are formats of ggml.

    >>> (127 * rounded(np.array([[1.0, 0.5, -0.99]]), "int8")).round(2).tolist()
    [[127.0, 64.0, -126.0]]
    """
    if kind not in KINDS:
        raise GraphError(f"no format {kind!r} to quantise to", need=", ".join(KINDS))
    if kind == "nf4":
        return unpacked_nf4(*packed_nf4(x, 64), 0, x.size, 64).reshape(x.shape)
    if kind == "int8":
        halves = x.astype(np.float16).astype(np.float32)
        largest = np.abs(halves).max(-1, keepdims=True, initial=0)
        codes = np.rint(halves * (np.float32(127) / np.maximum(largest, np.float32(1e-38))))
        found: Array = codes * largest * np.float32(1 / 127)
        return found
    size = FORMATS[kind].size
    if x.shape[-1] % size:
        raise ShapeError(f"rows of {x.shape[-1]} are no blocks of {kind}", need=f"n·{size}")
    return unpacked(packed_ggml(x, kind), kind)


def loftq(w: Array, r: int, scale: float, *, kind: str = "nf4", iterations: int = 1) -> First:
    """Return a quantised weight, as floats, and the factors nearest to what it has lost.

    base = dq(q(W − scale·B·A)); U·S·Vᵀ = W − base; A = √(S_r/scale)·V_rᵀ, B = U_r·√(S_r/scale);
    ``iterations`` times from B·A = 0

    peft leaves the scale out of A and B, which is the same where alpha = r. Raises ShapeError for a
    rank that the weight has not, and GraphError for a format or a number of iterations that is
    none.

    >>> import numpy as np
    >>> w = np.random.default_rng(0).standard_normal((64, 64)).astype("f4")
    >>> a, b, base = loftq(w, 8, 1.0, iterations=5)
    >>> lost = [float(np.linalg.norm(w - x)) for x in (rounded(w, "nf4"), base + b @ a)]
    >>> lost[1] < 0.8 * lost[0]
    True
    """
    if iterations < 1:
        raise GraphError(f"LoftQ of {iterations} iterations gives nothing", need="1 or more")
    x = as_floats(w, r).astype(np.float32, copy=False)
    part: Any = np.float32(0)
    for _ in range(iterations):
        base = rounded(x - part, kind)
        a, b, _ = made_up(x - base, r, scale)
        part = np.float32(scale) * (b @ a)
    return First(a, b, base.astype(w.dtype))


def made_up(lost: Array, r: int, scale: float) -> First:
    """Return the factors nearest to what a weight has lost, for a base that is quantised already.

    >>> import numpy as np
    >>> a, b, _ = made_up(np.array([[0.0, 2.0], [0.0, 0.0]]), 1, 0.5)
    >>> (0.5 * b @ a).tolist()
    [[0.0, 2.0], [0.0, 0.0]]
    """
    u, s, vt = np.linalg.svd(as_floats(lost, r), full_matrices=False)
    root = np.sqrt(s[:r] / s.dtype.type(scale))
    return First(root[:, None] * vt[:r], u[:, :r] * root, None)

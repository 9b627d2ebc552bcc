"""Products of integers, which wrap around as numpy's do.

    y[…, i, j] = Σₖ a[…, i, k]·b[…, k, j]

Each element is a row that is added up: 2·M·N·K reads, most of them from L2. No tensor core adds
64 bits; those that add 32 are the quantised products'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..fused.terms import Array, Work


def integer_matmul(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Add up products over an axis of their own."""
    (a, b), y = xs, ys[0]
    if a.ndim == 1:
        a, y = a[None, :], y[..., None, :] if b.ndim > 1 else y[None]
    if b.ndim == 1:
        b, y = b[:, None], y[..., None]
    with work.over((*y.shape, a.shape[-1]), 1) as k:
        pair = a[..., None, :], b.swapaxes(-1, -2)[..., None, :, :]
        left, right = (k.read(t).to(k.wide(y.dtype)) for t in pair)
        k.write(y[..., None], (left * right).reduce("sum"))

"""Rotary embeddings: pairs of features that turn by an angle of their position.

    y₁ = x₁·cos − x₂·sin,  y₂ = x₁·sin + x₂·cos

Bytes moved for N features of s bytes: 2·s·N, and the table of angles. Su et al. 2021, "RoFormer".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwright.fuse.builder import FLOAT64
from gradwright.ops.attention.rotary import frequencies

from ..fused.terms import Array, Work, written


@written("rotate_pairs")
def rotate_pairs(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Turn all pairs at once; halves are rounded at the end."""
    x, cos, sin = xs
    (x1, x2), (y1, y2) = op.pairs(x), op.pairs(ys[0])
    with work.over(y1.shape) as k:
        a, b, c, s = (k.read(t).to(k.wide(ys[0].dtype)) for t in (x1, x2, cos, sin))
        k.write(y1, a * c - b * s)
        k.write(y2, a * s + b * c)


@written("rope_cos_sin")
def rope_cos_sin(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Take cosines and sines of position times frequency, in float64."""
    cos, sin = ys
    table = work.constant(frequencies(op, op.dim, op.base))
    with work.over(cos.shape) as k:
        angle = k.read(xs[0][..., None]).to(FLOAT64) * k.read(table)
        for y, name in ((cos, "cos"), (sin, "sin")):
            k.write(y, k.call(name, angle) * op.size)

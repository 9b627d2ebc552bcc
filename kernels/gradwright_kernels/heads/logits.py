"""What kernels of a head share: logits from products, sums of a row that grow with each tile."""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from gradwright.ops.losses.passes import LOWEST

BELOW = tl.constexpr(LOWEST)
"""What logits less their maximum are at the least."""


@triton.jit
def logits(x, CAP: tl.constexpr, TEMPERATURE: tl.constexpr):
    """Return logits of products, and their slope in these."""
    slope = tl.full(x.shape, 1.0, x.dtype)  # for −∞, too, which a bias may be
    if CAP is not None:
        # tanh |z| = (1 − e)/(1 + e), e = exp(−2·|z|), to 1e-7: no less than logits up to CAP have.
        e = tl.exp(-2.0 * tl.abs(x / CAP))
        bent = (1.0 - e) / (1.0 + e)
        slope = 1.0 - bent * bent
        x = CAP * tl.where(x < 0.0, -bent, bent)
    if TEMPERATURE != 1.0:
        x /= TEMPERATURE
        slope /= TEMPERATURE
    return x, slope


@triton.jit
def grown(x, inside, top, size, tilt, squares):
    """Return maximum, Σ e, Σ e·(x − maximum) and Σ e² of rows, with a tile of logits more."""
    x = tl.where(inside, x, -float("inf"))
    higher = tl.maximum(top, tl.max(x, axis=1))
    back = tl.maximum(x - higher[:, None], BELOW)
    e = tl.where(inside, tl.exp(x - higher[:, None]), 0.0)
    less = tl.maximum(top - higher, BELOW)
    shrink = tl.exp(top - higher)
    tilt = (tilt + size * less) * shrink + tl.sum(e * back, axis=1)
    size = size * shrink + tl.sum(e, axis=1)
    squares = squares * shrink * shrink + tl.sum(e * e, axis=1)
    return higher, size, tilt, squares

"""Tokens drawn from logits: temperature, the likeliest, the mass they have, and the draw.

    p = softmax(x/T)        kept: p ≥ the k-th largest; what stands before has less than the mass;
                            p ≥ min_p·max p        y = #{i : Σ_{j ≤ i} p_j ≤ u·Σ p}, u uniform

All in float64, as on the CPU, and with its words: a token differs only where u falls between sums
that differ in their last digits. Order is a count of what is likelier, V² comparisons for each row
of V tokens (see ``rows.order``); without top_k or top_p a row is read a few times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwright.fuse.builder import BOOL, FLOAT64, INT64, Term
from gradwright.op import find_op
from gradwright.ops.attention.sampling import TopKSample, TopPSample
from gradwright.program.lowering import find_launch
from gradwright.spec import spec_of

from ..fused.terms import Array, Terms, Work, written
from ..rows.along import first_of
from ..rows.order import first, ranks
from ..rows.scan import scan

TINY = float(np.finfo(np.float64).tiny)


def drawn(work: Work, name: str, key: Array, shape: Sequence[int], dtype: str, **how: Any) -> Array:
    """Return random numbers of a stream, as the op of that name draws them."""
    y = work.room(shape, dtype)
    op = find_op(name)(shape=tuple(shape), dtype=dtype, **how)
    launch = find_launch(op, "cuda", [spec_of(key)], [spec_of(y)])
    work.call(launch, [work.dense(key)], [y])
    return y


def probabilities(work: Work, x: Array, temperature: float, bad: Array | None = None) -> Array:
    """Return the softmax of rows in float64; the alarm tells of rows without a finite maximum."""
    p = work.room(x.shape, np.float64)
    with work.over(x.shape, 1) as k:
        wide = k.read(x).to(FLOAT64)
        top = wide.reduce("max")
        fine = k.call("isfinite", top)
        if bad is not None:
            k.write(bad[..., None], ~fine)
        e = k.call("exp", (wide - k.call("where", fine, top, 0.0)) / temperature)
        k.write(p, e / k.call("maximum", e.reduce("sum"), TINY))
    return p


def among_top_p(work: Work, p: Array, mass: float) -> Array:
    """Return where the fewest stand that together have the mass, the largest first."""
    found = ranks(work, p, descending=True)
    ranked, total = work.room(p.shape, np.float64), work.room(p.shape, np.float64)
    first(work, p, found, ranked, None)
    scan(work, ranked, total, -1, "sum", FLOAT64)
    enough, seen = work.room(p.shape[:-1], INT64), work.room(p.shape, BOOL)
    with work.over(p.shape, 1) as k:
        before = k.read(total) - k.read(ranked)
        short = k.call("lt", before, mass * (1 - 1e-12)) | k.call("eq", k.column(), 0)
        k.write(enough[..., None], short.to(INT64).reduce("sum"))
    with work.over(p.shape, 1) as k:
        k.write(seen, k.call("lt", k.read(found), k.read(enough[..., None])))
    return seen


def kept(work: Work, op: Any, p: Array) -> list[Array]:
    """Return masks of the tokens that may be drawn, all of which must hold."""
    masks = []
    top_k, mass, least = 0, 1.0, 0.0
    if isinstance(op, TopKSample):
        top_k = op.k
    elif isinstance(op, TopPSample):
        mass = op.p
    else:
        top_k, mass, least = op.top_k, op.top_p, op.min_p
    if top_k:
        masks.append(among_top_k(work, p, min(top_k, p.shape[-1])))
    if mass < 1 or isinstance(op, TopPSample):
        left = p
        if masks:
            left = work.room(p.shape, np.float64)
            with work.over(p.shape, 1) as k:
                some = k.call("where", k.read(masks[0]), k.read(p), 0.0)
                k.write(left, some / some.reduce("sum"))
        masks.append(among_top_p(work, left, mass))
    if least > 0:
        masks.append(work.room(p.shape, BOOL))
        with work.over(p.shape, 1) as k:
            x = k.read(p)
            k.write(masks[-1], k.call("ge", x, x.reduce("max") * least))
    return masks


def among_top_k(work: Work, p: Array, n: int) -> Array:
    """Return where the k largest stand; equal ones at the border all count."""
    found, seen = ranks(work, p, descending=True), work.room(p.shape, BOOL)
    with work.over(p.shape, 1) as k:
        x = k.read(p)
        is_border = k.call("eq", k.read(found), n - 1)
        border = k.call("where", is_border, x, 0.0).reduce("sum")
        k.write(seen, k.call("ge", x, border))
    return seen


@written("token_sample", "top_k_sample", "top_p_sample")
def sample(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Draw a token of what the filters leave of each row."""
    key, logits = xs
    y = ys[0]
    if not y.size:
        return
    bad = work.alarm(y.shape)
    if op.temperature == 0:
        with work.over(logits.shape, 1) as k:
            x = k.read(logits)
            k.write(bad[..., None], ~k.call("isfinite", x.reduce("max")))
            k.write(y[..., None], first_of(k, x, "max"))
        return
    p = probabilities(work, logits, op.temperature, bad)
    masks, total = kept(work, op, p), work.room(p.shape, np.float64)
    left = p
    if masks:
        left = work.room(p.shape, np.float64)
        with work.over(p.shape) as k:
            k.write(left, k.call("where", _all(k, masks), k.read(p), 0.0))
    scan(work, left, total, -1, "sum", FLOAT64)
    u = drawn(work, "uniform", key, (max(1, math.prod(y.shape)),), "float64", stream=op.stream)
    with work.over(p.shape, 1) as k:
        sums = k.read(total)
        whole = sums.reduce("max")
        below = k.call("le", sums, k.read(u.reshape(*y.shape, 1)) * whole)
        at = below.to(INT64).reduce("sum")
        k.write(y[..., None], k.call("minimum", at, p.shape[-1] - 1))


def _all(k: Terms, masks: Sequence[Array]) -> Term:
    seen = k.read(masks[0])
    for mask in masks[1:]:
        seen = seen & k.read(mask)
    return seen


@written("typical_p_filter")
def typical(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Keep the tokens whose surprise is nearest to the expected one, until they have the mass."""
    logits, y = xs[0], ys[0]
    if not y.size:
        return
    p, away = probabilities(work, logits, 1.0), work.room(logits.shape, np.float64)
    with work.over(p.shape, 1) as k:
        x = k.read(p)
        possible = k.call("gt", x, 0.0)
        surprise = -k.call("log", k.call("where", possible, x, 1.0))
        off = k.call("abs", surprise - (x * surprise).reduce("sum"))
        k.write(away, k.call("where", possible, off, np.inf))
    found = ranks(work, away, descending=False)
    ranked, total, near = (work.room(p.shape, np.float64) for _ in range(3))
    first(work, p, found, ranked, None)
    first(work, away, found, near, None)
    scan(work, ranked, total, -1, "sum", FLOAT64)
    with work.over(p.shape, 1) as k:
        last = k.call("lt", k.read(total), op.p).to(INT64).reduce("sum")
        last = k.call("minimum", last, p.shape[-1] - 1)
        here = k.call("eq", k.column(), last)
        border = k.call("where", here, k.read(near), -np.inf).reduce("max")
        x = k.read(logits)
        k.write(y, k.call("where", k.call("le", k.read(away), border), x, -np.inf))


@written("xtc_filter")
def xtc(work: Work, op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> None:
    """Strike likely tokens but the least likely of them, in rows that are drawn."""
    key, logits = xs
    y = ys[0]
    if not y.size:
        return
    p, lead = probabilities(work, logits, 1.0), logits.shape[:-1]
    coins = (max(1, math.prod(lead)),)
    struck = drawn(work, "bernoulli", key, coins, "bool", p=op.probability, stream=op.stream)
    with work.over(p.shape, 1) as k:
        x = k.read(p)
        likely = k.call("ge", x, op.threshold)
        least = first_of(k, k.call("where", likely, x, np.inf), "min", last=True)
        hit = likely & k.read(struck.reshape(*lead, 1)) & k.call("ne", k.column(), least)
        kept_ = k.read(logits)
        k.write(y, k.call("where", hit, -np.inf, kept_))

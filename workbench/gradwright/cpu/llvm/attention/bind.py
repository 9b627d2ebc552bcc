"""Calls of attention: products and kernels on tiles of scores that never leave the cache.

    forward    s = q kᵀ,  m′ = max(m, max s·scale),  p = e^(s·scale − m′),
               y = y·e^(m − m′) + p v,  l = l·e^(m − m′) + Σp;  at the end  y/l,  lse = m + ln l
    backward   s = q kᵀ,  dp = g vᵀ,  p = e^(s·scale − lse),  ds = p·(dp − delta)·scale,
               dv += pᵀ g,  dq += ds k,  dk += dsᵀ q;  of a mask  dmask += p·(dp − delta)

Tiles that nobody sees are left out; a mask is read with its tile. The calls of one head stand in a
table, those of tiles that are alike once, and loops over tiles and heads move their addresses.
Keys, and values on the way back, are turned once for a head, so that vectors run along keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ....ops.attention.weights import scale_of
from ....program.declined import DeclinedError
from ...call import Call
from ..repeat import Turn, repeated, split
from . import kernels
from .calls import QUERIES, Calls, Tile, Turned, keys_at_once, runs

Array = np.ndarray[Any, Any]
FORWARD = "q", "k", "v", "mask", "y", "lse"
BACKWARD = "g", "q", "k", "v", "lse", "delta", "mask", "dq", "dk", "dv"
OF_MASK = "g", "q", "k", "v", "lse", "delta", "mask", "dmask"
SHARED = frozenset(("k", "v", "dk", "dv"))
"""Operands that all heads of queries of a group share."""
Write = Callable[[Any, Mapping[str, Array], Calls], None]


def bind_attention(op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> Sequence[Call] | None:
    """Return the call of flash attention on these arrays; None: numpy has to.

    >>> from gradwright.cpu.llvm.compiler import available
    >>> from gradwright.ops.attention.flash import FlashAttention
    >>> x, (y, lse) = np.ones((1, 2, 4, 3), "f4"), np.empty((2, 1, 2, 4, 3), "f4")
    >>> results = [y, lse[..., 0].copy()]
    >>> calls = bind_attention(FlashAttention(), [x, x, x], results) if available() else None
    >>> calls is None or sorted({operand for _, operand in calls[0].slots}) == [0, 1, 2, 3, 4]
    True
    """
    return _bound(op, xs, ys, FORWARD, _forward, 2)


def bind_attention_grad(op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> Sequence[Call] | None:
    """Return the call of the gradient of flash attention; None: numpy has to."""
    return _bound(op, xs, ys, BACKWARD, _backward, 5)


def bind_mask_grad(op: Any, xs: Sequence[Any], ys: Sequence[Array]) -> Sequence[Call] | None:
    """Return the calls of what goes back to a mask of queries by keys; None: numpy has to."""
    (y,) = ys
    if xs[6].shape[-2:] != (xs[1].shape[2], xs[2].shape[2]) or not y.flags.c_contiguous:
        return None
    calls = _bound(op, xs, ys, OF_MASK, _to_mask, 2)
    if calls is None:
        return None
    nothing = Calls({"x": len(xs)}, 0)
    nothing.run(kernels.zeros(y.dtype), {"x": y.reshape(-1, y.shape[-1])})
    return [*nothing.made, *calls]


@dataclass(frozen=True)
class _Heads:
    """The heads of all samples, and what writes the calls of one of them."""

    op: Any
    arrays: Mapping[str, Array]
    numbers: Mapping[str, int]
    write: Write
    cuts: Sequence[int]
    """Axes of samples and heads along which pieces have nothing in common."""

    def pieces(self, parts: int) -> list[Call]:
        """Return loops over some of the samples each, or over some of the heads of keys."""
        sizes = self.arrays["k"].shape[:2]
        axis = next((a for a in self.cuts if sizes[a] >= parts), self.cuts[-1])
        some, rest = split(range(sizes[axis]), parts), range(sizes[1 - axis])
        pairs = [(r, rest) if axis == 0 else (rest, r) for r in some]
        return [self.loop(*pair, piece=n) for n, pair in enumerate(pairs)] if len(some) > 1 else []

    def loop(self, samples: range, heads: range, piece: int = 0) -> Call:
        """Return the loop over samples, heads of keys, and heads of queries that share one."""
        arrays = self.arrays
        share = arrays["q"].shape[1] // arrays["k"].shape[1]
        per_head = {n: 1 if n in SHARED else share for n in arrays}
        head = {n: x[samples.start, heads.start * per_head[n]] for n, x in arrays.items()}
        calls = Calls(self.numbers, piece, keys_at_once(self.op, arrays["k"].shape[2]))
        self.write(self.op, head, calls)
        steps = {n: x.strides for n, x in arrays.items()}
        sharing = calls.steps({n: step[1] for n, step in steps.items() if n not in SHARED})
        over_heads = calls.steps({n: step[1] * per_head[n] for n, step in steps.items()})
        group = repeated(share, [Turn(c, sharing) for c in calls.made])
        of_sample = repeated(len(heads), [Turn(c, over_heads) for c in (*calls.first, group)])
        over_samples = calls.steps({n: step[0] for n, step in steps.items()})
        whole = repeated(len(samples), [Turn(of_sample, over_samples)])
        own = set(self.numbers.values())
        return replace(whole, slots=[slot for slot in whole.slots if slot[1] in own])


def _bound(
    op: Any,
    xs: Sequence[Any],
    ys: Sequence[Array],
    names: Sequence[str],
    write: Write,
    products: int,
) -> list[Call] | None:
    """Return the call on arrays of these names; a mask may be missing."""
    n_inputs = len(names) - len(ys)
    given = [*xs, *[None] * (n_inputs - len(xs)), *ys]
    places = [*range(len(xs)), *[-1] * (n_inputs - len(xs)), *range(len(xs), len(xs) + len(ys))]
    arrays = {n: x for n, x in zip(names, given, strict=True) if x is not None}
    numbers = {n: i for n, i in zip(names, places, strict=True) if n in arrays}
    q, k = arrays["q"], arrays["k"]
    scores = (*q.shape[:3], k.shape[2])
    cuts = [0, 1]
    for name in arrays.keys() & {"mask", "dmask"}:
        x = arrays[name]
        lead = (1,) * (4 - x.ndim) + x.shape
        if name == "dmask":
            cuts = [axis for axis in (0, 1) if lead[axis] > 1]
        x = x.reshape(lead) if x.ndim < 4 else x
        arrays[name] = np.lib.stride_tricks.as_strided(
            x, scores, [s if n > 1 else 0 for s, n in zip(x.strides, lead, strict=True)]
        )
    floats = [x for x in arrays.values() if x.dtype != bool]
    if any(x.dtype != q.dtype or not x.size or not x.flags.aligned for x in floats):
        return None
    heads = _Heads(op, arrays, numbers, write, cuts)
    try:
        whole = heads.loop(range(len(k)), range(k.shape[1]))
    except DeclinedError:
        return None
    pairs = math.prod(scores) / (2 if op.is_causal else 1)
    cost = pairs * (products * q.shape[3] / 50 + 0.2)
    shapes = f"{q.dtype.char} {q.shape} {k.shape}"
    label = f"attention {products} {shapes} {op.is_causal} {'mask' in arrays}"
    return [replace(whole, cut=heads.pieces if cuts else None, cost=cost, label=label)]


# -- one head --------------------------------------------------------------------------------------


def _form(op: Any, head: Mapping[str, Array], tile: Tile) -> kernels.Form:
    """Return which kernels a tile has."""
    mask, dtype = head.get("mask"), head["q"].dtype
    borders = tile.first is not None, tile.last is not None
    if mask is None:
        return kernels.Form(dtype, *borders)
    axes = tuple(axis for axis in (0, 1) if mask.strides[axis])
    n_blind = len(head["k"]) if op.may_be_blind(mask) else 0
    return kernels.Form(dtype, *borders, mask.dtype.char, axes, op.unseen, n_blind)


def _given(op: Any, head: Mapping[str, Array], tile: Tile, rows: slice) -> dict[str, Array]:
    """Return what the kernels of a tile read beside scores."""
    given = {"scale": np.array(scale_of(op.scale, head["q"].shape[1]), head["q"].dtype)}
    if "mask" in head:
        mask = head["mask"][rows, tile.keys]
        given["mask"] = mask[tuple(slice(None) if step else 0 for step in mask.strides)]
    return given


def _forward(op: Any, head: Mapping[str, Array], calls: Calls) -> None:
    """Write the calls of a head's result."""
    q, k, v, y, lse = (head[name] for name in FORWARD if name != "mask")
    dtype, nothing = q.dtype, op.of_nothing(head.get("mask"))
    kt, sums = calls.turned("k", k), np.empty((3, QUERIES), dtype)
    for rows, groups in runs(op, q, k):
        top, total, shrink = sums[:, : rows.stop - rows.start]
        so_far = {"top": top, "total": total}
        calls.run(kernels.begun(dtype), {"y": y[rows], **so_far})
        for n, tile in groups:
            with calls.repeated(n, head):
                s = calls.room("s", tile, dtype)
                calls.product(q=q[rows], kt=kt.of(tile), s=s)
                more = _given(op, head, tile, rows) | tile.ends()
                calls.weights(_form(op, head, tile), tile, s=s, shrink=shrink, **so_far, **more)
                calls.run(kernels.shrunk(dtype), {"y": y[rows], "shrink": shrink})
                calls.product(s=s, v=v[tile.keys], y=y[rows], adds=True)
        calls.run(kernels.ended(dtype, nothing), {"y": y[rows], "lse": lse[rows], **so_far})


def _backward(op: Any, head: Mapping[str, Array], calls: Calls) -> None:
    """Write the calls of what goes back to a head."""
    g, q, k, v, dq, dk, dv = (head[name] for name in ("g", "q", "k", "v", "dq", "dk", "dv"))
    dtype = q.dtype
    for name in ("dk", "dv"):
        calls.run(kernels.zeros(dtype), {"x": head[name]}, {"x": name}, once=True)
    kt, vt = calls.turned("k", k), calls.turned("v", v)
    for rows, groups in runs(op, q, k):
        of_g, of_q = g[rows], q[rows]
        calls.run(kernels.zeros(dtype), {"x": dq[rows]}, {"x": "dq"})
        for n, tile in groups:
            with calls.repeated(n, head):
                given = _again(op, head, calls, tile, rows, (kt, vt))
                calls.run(kernels.slopes(_form(op, head, tile)), given)
                p, ds = given["s"], given["dp"]
                calls.product(p=p.T, g=of_g, dv=dv[tile.keys], adds=True)
                calls.product(ds=ds, k=k[tile.keys], dq=dq[rows], adds=True)
                calls.product(ds=ds.T, q=of_q, dk=dk[tile.keys], adds=True)


def _to_mask(op: Any, head: Mapping[str, Array], calls: Calls) -> None:
    """Write the calls of what goes back to what was added to the scores of a head."""
    turned = calls.turned("k", head["k"]), calls.turned("v", head["v"])
    for rows, groups in runs(op, head["q"], head["k"]):
        for n, tile in groups:
            with calls.repeated(n, head):
                given = _again(op, head, calls, tile, rows, turned)
                given["dmask"] = head["dmask"][rows, tile.keys]
                calls.run(kernels.added(_form(op, head, tile)), given)


def _again(
    op: Any,
    head: Mapping[str, Array],
    calls: Calls,
    tile: Tile,
    rows: slice,
    turned: tuple[Turned, Turned],
) -> dict[str, Array]:
    """Write a tile's scores and slopes of weights; return what its kernels on the way back read."""
    kt, vt = turned
    p, ds = (calls.room(name, tile, head["q"].dtype) for name in ("p", "ds"))
    calls.product(q=head["q"][rows], kt=kt.of(tile), p=p)
    calls.product(g=head["g"][rows], vt=vt.of(tile), ds=ds)
    given = _given(op, head, tile, rows) | tile.borders(p.dtype)
    return given | {"lse": head["lse"][rows], "delta": head["delta"][rows], "s": p, "dp": ds}

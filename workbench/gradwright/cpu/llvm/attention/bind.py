"""Attention as machine code: tiles of scores that never leave the cache.

    forward    s = q kᵀ,  m′ = max(m, max s·scale),  p = e^(s·scale − m′),
               y = y·e^(m − m′) + p v,  l = l·e^(m − m′) + Σp;  at the end  y/l,  lse = m + ln l
    backward   s = q kᵀ,  dp = g vᵀ,  p = e^(s·scale − lse),  ds = p·(dp − delta)·scale,
               dv += pᵀ g,  dq += ds k,  dk += dsᵀ q

Tiles that nobody sees are left out. The calls of one head stand in a table, and loops over heads
move their addresses. Products are OpenBLAS's, which packs what it reads: tiles of 32 queries run at
53 GF/s, of 128 at 100, of 256 at 106 (one core of a Sapphire Rapids).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ....fuse.builder import Builder, Term, call, where
from ....fuse.ir import Kernel
from ....ops.attention.weights import scale_of
from ....program.declined import DeclinedError
from ...blocks import aligned
from ...call import Call
from ..bind import bind_kernel
from ..gemm import bind_matmul
from ..repeat import Turn, repeated, split

Array = np.ndarray[Any, Any]
QUERIES, KEYS = 256, 512
"""Of a tile: 0.5 MB of scores in float32, twice that on the way back."""
CAUSAL = 128
"""Queries of a tile where they see no keys behind them: half of the last tiles is in vain."""
LOW = -1e38
"""Stands for scores of keys that are not seen; −∞ would make NaN of rows of it."""
FORWARD = "q", "k", "v", "y", "lse"
BACKWARD = "g", "q", "k", "v", "lse", "delta", "dq", "dk", "dv"
SHARED = frozenset(("k", "v", "dk", "dv"))
"""Operands that all heads of queries of a group share."""


def bind_attention(op: Any, xs: Sequence[Array], ys: Sequence[Array]) -> Sequence[Call] | None:
    """Return the call of flash attention on these arrays; None: numpy has to.

    >>> from gradwright.cpu.llvm.compiler import available
    >>> from gradwright.ops.attention.flash import FlashAttention
    >>> x, (y, lse) = np.ones((1, 2, 4, 3), "f4"), np.empty((2, 1, 2, 4, 3), "f4")
    >>> results = [y, lse[..., 0].copy()]
    >>> calls = bind_attention(FlashAttention(), [x, x, x], results) if available() else None
    >>> calls is None or sorted({operand for _, operand in calls[0].slots}) == [0, 1, 2, 3, 4]
    True
    """
    return _bound(op, dict(zip(FORWARD, (*xs, *ys), strict=True)), _forward, 2)


def bind_attention_grad(op: Any, xs: Sequence[Array], ys: Sequence[Array]) -> Sequence[Call] | None:
    """Return the call of the gradient of flash attention; None: numpy has to."""
    return _bound(op, dict(zip(BACKWARD, (*xs, *ys), strict=True)), _backward, 5)


@dataclass
class _Calls:
    """Calls on one head, whose operands have the numbers of the op's; the rest is scratch."""

    numbers: Mapping[str, int]
    first: list[Call] = field(default_factory=list)
    """Made once for a head of keys."""
    each: list[Call] = field(default_factory=list)
    """Made for each head of queries that shares it."""

    def run(
        self, kernel: Kernel, shape: tuple[int, int], *given: tuple[str, Array], first: bool = False
    ) -> None:
        """Add a kernel on arrays with their names, inputs before results."""
        names, arrays = zip(*given, strict=True)
        self._add(names, bind_kernel(kernel, shape, arrays), self.first if first else self.each)

    def product(
        self, a: tuple[str, Array], b: tuple[str, Array], c: tuple[str, Array], adds: bool = False
    ) -> None:
        """Add c = a @ b, or c += a @ b."""
        made = bind_matmul([a[1], b[1]], [c[1]], adds=adds)
        self._add((a[0], b[0], c[0]), made, self.each)

    def _add(self, names: Sequence[str], made: Sequence[Call] | None, into: list[Call]) -> None:
        if made is None:
            raise DeclinedError
        numbers = [self.numbers.get(name) for name in names]
        for one in made:
            slots = [(slot, n) for slot, k in one.slots if (n := numbers[k]) is not None]
            into.append(replace(one, slots=slots))


@dataclass(frozen=True)
class _Heads:
    """The heads of all samples, and what writes the calls of one of them."""

    op: Any
    arrays: Mapping[str, Array]
    write: Callable[[Any, Mapping[str, Array], _Calls], None]

    def pieces(self, parts: int) -> list[Call]:
        """Return loops over some of the samples each, or over some of the heads of keys."""
        sizes = self.arrays["k"].shape[:2]
        axis = 0 if sizes[0] >= min(parts, sizes[1]) else 1
        some = split(range(sizes[axis]), parts)
        rest = range(sizes[1 - axis])
        pairs = [(r, rest) if axis == 0 else (rest, r) for r in some]
        return [self.loop(*pair) for pair in pairs] if len(some) > 1 else []

    def loop(self, samples: range, heads: range) -> Call:
        """Return the loop over samples, heads of keys, and heads of queries that share one."""
        arrays = self.arrays
        share = arrays["q"].shape[1] // arrays["k"].shape[1]
        per_head = {n: 1 if n in SHARED else share for n in arrays}
        head = {n: x[samples.start, heads.start * per_head[n]] for n, x in arrays.items()}
        calls = _Calls({n: i for i, n in enumerate(arrays)})
        self.write(self.op, head, calls)
        strides = {n: (i, x.strides) for i, (n, x) in enumerate(arrays.items())}
        sharing = {i: 0 if n in SHARED else step[1] for n, (i, step) in strides.items()}
        over_heads = {i: step[1] * per_head[n] for n, (i, step) in strides.items()}
        group = repeated(share, [Turn(c, sharing) for c in calls.each])
        of_sample = repeated(len(heads), [Turn(c, over_heads) for c in (*calls.first, group)])
        over_samples = {i: step[0] for i, step in strides.values()}
        return repeated(len(samples), [Turn(of_sample, over_samples)])


def _bound(op: Any, arrays: Mapping[str, Array], write: Any, products: int) -> list[Call] | None:
    q, k = arrays["q"], arrays["k"]
    if any(x.dtype != q.dtype or not x.size or not x.flags.aligned for x in arrays.values()):
        return None
    heads = _Heads(op, arrays, write)
    try:
        whole = heads.loop(range(len(k)), range(k.shape[1]))
    except DeclinedError:
        return None
    pairs = math.prod(q.shape[:3]) * k.shape[2] / (2 if op.is_causal else 1)
    cost = pairs * (products * q.shape[3] / 50 + 0.2)
    label = f"attention {products} {q.dtype.char} {q.shape} {k.shape} {op.is_causal}"
    return [replace(whole, cut=heads.pieces, cost=cost, label=label)]


# -- one head --------------------------------------------------------------------------------------


def _forward(op: Any, head: Mapping[str, Array], calls: _Calls) -> None:
    """Write the calls of a head's result."""
    q, k, v, y, lse = (head[name] for name in FORWARD)
    dtype, scale = q.dtype, np.array(scale_of(op.scale, q.shape[1]), q.dtype)
    room = _room(dtype)
    for rows, tiles in _runs(op, q, k):
        top, total, shrink = (("", x) for x in np.empty((3, rows.stop - rows.start), dtype))
        of_q, of_y = ("q", q[rows]), ("y", y[rows])
        for n, tile in enumerate(tiles):
            s = ("", tile.room(room))
            calls.product(of_q, ("k", k[tile.keys].T), s)
            given = [s, ("", scale), *tile.borders, *((top, total) if n else ())]
            kernel = _weights(dtype, *tile.kinds, n == 0)
            calls.run(kernel, s[1].shape, *given, s, top, total, *((shrink,) if n else ()))
            if n:
                calls.run(_shrunk(dtype), of_y[1].shape, of_y, shrink, of_y)
            calls.product(s, ("v", v[tile.keys]), of_y, adds=n > 0)
        calls.run(_ended(dtype), of_y[1].shape, of_y, top, total, of_y, ("lse", lse[rows]))


def _backward(op: Any, head: Mapping[str, Array], calls: _Calls) -> None:
    """Write the calls of what goes back to a head."""
    g, q, k, v, lse, delta, dq, dk, dv = (head[name] for name in BACKWARD)
    dtype, scale = q.dtype, np.array(scale_of(op.scale, q.shape[1]), q.dtype)
    for name, x in (("dk", dk), ("dv", dv)):
        calls.run(_zero(dtype), x.shape, (name, x), first=True)
    rooms = _room(dtype), _room(dtype)
    for rows, tiles in _runs(op, q, k):
        of_g, of_q = ("g", g[rows]), ("q", q[rows])
        for n, tile in enumerate(tiles):
            p, ds = (tile.room(room) for room in rooms)
            of_k = ("k", k[tile.keys])
            calls.product(of_q, ("k", of_k[1].T), ("", p))
            calls.product(of_g, ("v", v[tile.keys].T), ("", ds))
            given = [("", p), ("", ds), ("lse", lse[rows]), ("delta", delta[rows]), ("", scale)]
            kernel = _slopes(dtype, *tile.kinds)
            calls.run(kernel, p.shape, *given, *tile.borders, ("", p), ("", ds))
            calls.product(("", p.T), of_g, ("dv", dv[tile.keys]), adds=True)
            calls.product(("", ds), of_k, ("dq", dq[rows]), adds=n > 0)
            calls.product(("", ds.T), of_q, ("dk", dk[tile.keys]), adds=True)


@dataclass(frozen=True)
class _Tile:
    """Some queries by some keys, and which of these each query sees."""

    queries: int
    keys: slice
    first: Array | None
    """[queries], the first key that each sees, counted from that of the tile; None is all."""
    last: Array | None

    def room(self, memory: Array) -> Array:
        """Return memory for its scores."""
        shape = self.queries, self.keys.stop - self.keys.start
        return memory[: math.prod(shape)].reshape(shape)

    @property
    def kinds(self) -> tuple[bool, bool]:
        """Tell whether there is a first and a last key."""
        return self.first is not None, self.last is not None

    @property
    def borders(self) -> list[tuple[str, Array]]:
        """Return what tells who sees whom: numbers of keys, and the borders that there are."""
        found = [x for x in (self.first, self.last) if x is not None]
        if not found:
            return []
        numbers = np.arange(self.keys.stop - self.keys.start, dtype=found[0].dtype)
        return [("", x) for x in (numbers, *found)]


def _room(dtype: np.dtype[Any]) -> Array:
    """Return memory for the scores of a tile; vectors across two lines would take twice as long."""
    return aligned(QUERIES * KEYS * dtype.itemsize).view(dtype)


def _runs(op: Any, q: Array, k: Array) -> Iterator[tuple[slice, list[_Tile]]]:
    """Yield runs of queries and the tiles that any of them sees, one at the least."""
    n_queries, n_keys = len(q), len(k)
    offset, left = n_keys - n_queries, op.left_window_size
    right = 0 if op.is_causal else op.right_window_size
    size = QUERIES if left < 0 and right < 0 else CAUSAL
    for start in range(0, n_queries, size):
        rows = slice(start, min(start + size, n_queries))
        at = np.arange(rows.start, rows.stop) + offset
        low = min(max(int(at[0]) - left, 0), n_keys - 1) if left >= 0 else 0
        high = min(int(at[-1]) + right + 1, n_keys) if right >= 0 else n_keys
        tiles = []
        for begin in range(low, max(high, low + 1), KEYS):
            keys = slice(begin, max(min(begin + KEYS, high), begin + 1))
            first = at - left - begin if left >= 0 and at[-1] - left > begin else None
            last = at + right - begin if right >= 0 and at[0] + right + 1 < keys.stop else None
            borders = (None if x is None else x.astype(q.dtype) for x in (first, last))
            tiles.append(_Tile(len(at), keys, *borders))
        yield rows, tiles


# -- kernels ---------------------------------------------------------------------------------------


def _seen(b: Builder, x: Term, low: bool, high: bool) -> tuple[Term, Callable[[Term], Term]]:
    """Return scores, low where a key is not seen, and what makes 0 of weights there."""
    seen: list[Term] = []
    if low or high:
        column = b.load("column", (1,), x.dtype)  # integers would fill half as many lanes
    if low:
        seen.append(column >= b.load("first", (0,), x.dtype))
    if high:
        seen.append(column <= b.load("last", (0,), x.dtype))
    if not seen:
        return x, lambda p: p
    both = seen[0] if len(seen) == 1 else seen[0] & seen[1]
    return where(both, x, LOW), lambda p: where(both, p, 0.0)


def _made(b: Builder, terms: Sequence[tuple[Term, tuple[int, ...]]], *in_place: int) -> Kernel:
    """Return the kernel that stores terms; those of results that lie over inputs, pair by pair."""
    dtype = terms[0][0].dtype
    kernel, _ = b.kernel([(term, axes, "set", dtype) for term, axes in terms])
    pairs = tuple((kernel.n_inputs + i, n) for i, n in enumerate(in_place) if n >= 0)
    return replace(kernel, in_place=pairs)


@functools.cache
def _weights(dtype: np.dtype[Any], low: bool, high: bool, is_first: bool) -> Kernel:
    """Return the kernel that makes weights of the scores of a tile, and goes on with m and l."""
    b = Builder(2, 1)
    x = b.load("s", (0, 1), dtype) * b.load("scale", (), dtype)
    x, kept = _seen(b, x, low, high)
    top = x.reduce("max")
    if is_first:
        p = kept(call("exp", x - top))
        return _made(b, [(p, (0, 1)), (top, (0,)), (p.reduce("sum"), (0,))], 0)
    before, total = b.load("top", (0,), dtype), b.load("total", (0,), dtype)
    top = call("maximum", before, top)
    p, shrink = kept(call("exp", x - top)), call("exp", before - top)
    total = total * shrink + p.reduce("sum")
    n = 2 + low + high + (low or high)
    rows = [(term, (0,)) for term in (top, total, shrink)]
    return _made(b, [(p, (0, 1)), *rows], 0, n, n + 1)


@functools.cache
def _shrunk(dtype: np.dtype[Any]) -> Kernel:
    """Return the kernel that multiplies rows by numbers."""
    b = Builder(2, 1)
    return _made(b, [(b.load("y", (0, 1), dtype) * b.load("by", (0,), dtype), (0, 1))], 0)


@functools.cache
def _ended(dtype: np.dtype[Any]) -> Kernel:
    """Return the kernel that divides by l, and makes lse; rows that saw nothing are 0, and ∞."""
    b = Builder(2, 1)
    y = b.load("y", (0, 1), dtype)
    top, total = (b.load(name, (0,), dtype) for name in ("top", "total"))
    some = total > 0
    size = where(some, total, 1.0)
    lse = where(some, top + call("log", size), math.inf)
    return _made(b, [(y * (1 / size), (0, 1)), (lse, (0,))], 0)


@functools.cache
def _slopes(dtype: np.dtype[Any], low: bool, high: bool) -> Kernel:
    """Return the kernel that makes weights of scores, and slopes of scores of those of weights."""
    b = Builder(2, 1)
    x, dp = b.load("s", (0, 1), dtype), b.load("dp", (0, 1), dtype)
    less, minus = b.load("lse", (0,), dtype), b.load("delta", (0,), dtype)
    scale = b.load("scale", (), dtype)
    x, kept = _seen(b, x * scale, low, high)
    p = kept(call("exp", x - less))
    return _made(b, [(p, (0, 1)), (p * (dp - minus) * scale, (0, 1))], 0, 1)


@functools.cache
def _zero(dtype: np.dtype[Any]) -> Kernel:
    """Return the kernel that stores zeros."""
    b = Builder(2, 2)
    return b.kernel([(b.const(0.0, dtype), (0, 1), "set", dtype)])[0]

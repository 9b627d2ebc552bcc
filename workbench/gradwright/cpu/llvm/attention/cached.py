"""Attention of one new position to a cache: a kernel that reads the places alone that are taken.

Rows of a cache are as long as the longest will be, and batched products read them whole; of rows of
unequal lengths that grow, half is not there yet. For each head: the scores of the places that are
taken and of the new one, in a row of memory of its own; e to their powers, 16 at a time; the
average of values. Sums are added in an order that depends on sizes alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.attention.weights import scale_of
from ...call import Call, Cut
from ..irregular.items import get, item, put
from ..kernels.mathlib import exp
from ..lanes import gathered, joined, load, near, pick, spread, store
from ..text import Code, Num, lanes

Array = np.ndarray[Any, Any]
GIVEN = "q", "k", "v", "keys", "values", "filled", "y", "weights"
"""The operands; ``filled`` has one number for each row, the others have heads."""
OF_QUERY = {"q", "y", "weights"}
"""Operands that have each head of the queries; others may have fewer."""
BLOCK = (
    *GIVEN, "scores", *(f"{name}_row" for name in GIVEN), *(f"{name}_head" for name in GIVEN),
    "key_place", "value_place", "rows", "heads", "share", "room", "reach", "scale",
)  # fmt: skip
"""The block: addresses, bytes from row to row, from head to head and from place to place; how many
queries share a head of the cache; ``reach``, which is any number where all is seen."""
LANES = 16
"""Scores that are looked at together, and features of a vector."""
FOLDED = 4
"""Keys whose products are added up together: folding one takes as long as its product."""
WIDEST = 256
"""Features of a head whose query stays in registers."""
LEAST = 1 << 14
"""Numbers of a cache that the smallest piece reads."""


def bind_cached(op: Any, xs: Sequence[Array], ys: Sequence[Array]) -> Sequence[Call] | None:
    """Return the call for one new position in each row; None: numpy has to.

    >>> from gradwright.cpu.llvm.compiler import available
    >>> from gradwright.ops.attention.cached import CachedAttention
    >>> x, old, n = np.ones((1, 2, 1, 3), "f4"), np.ones((1, 2, 5, 3), "f4"), np.array([2])
    >>> made = [np.empty((1, 2, 1, 3), "f4"), np.empty((1, 2, 1, 6), "f4")]
    >>> given = [x, x, x, old, old, n]
    >>> calls = bind_cached(CachedAttention(), given, made) if available() else None
    >>> calls is None or len(calls[0].block) == len(BLOCK)
    True
    """
    arrays = dict(zip(GIVEN, [*xs, *ys], strict=True))
    if any(a.shape[-1] > 1 and a.strides[-1] != a.itemsize for a in arrays.values() if a.ndim > 1):
        return None
    (rows, heads, _, features), (_, shared, room, width) = xs[0].shape, xs[4].shape
    scores = np.empty(room + 1 + LANES, np.float32)
    scale = np.array([scale_of(op.scale, features), 0], np.float32).view(np.int64)
    block = np.array(
        [
            *(a.ctypes.data for a in arrays.values()),
            scores.ctypes.data,
            *(a.strides[0] for a in arrays.values()),
            *(a.strides[1] if a.ndim > 1 else 0 for a in arrays.values()),
            *(arrays[name].strides[2] for name in ("keys", "values")),
            *(rows, shared, heads // shared, room, op.window_size or 1 << 62),
            *scale,
        ],
        np.int64,
    )
    numbers = heads * (room + 1) * (features + width)
    cut = Cut(
        BLOCK.index("rows"),
        rows,
        [(n, a.strides[0]) for n, a in enumerate(arrays.values())],
        -(-LEAST // numbers),
    )
    return [
        Call(
            _compiled(features, width, xs[5].dtype.itemsize),
            block,
            [(n, n) for n in range(len(GIVEN))],
            (scores, arrays),
            cut=cut if rows > 1 else None,
            cost=0.1 * rows * numbers,
            label=f"cached {xs[0].shape} of {xs[4].shape}",
            scratch=(BLOCK.index("scores"), scores.nbytes),
        )
    ]


@functools.cache
def _compiled(features: int, width: int, counts: int) -> int:
    from ..compiler import compile_text  # llvmlite, which no import of ours may load

    code = Code(flags="")  # what is fused is said, or bits would be those of a processor
    at = code.entries(BLOCK, len(GIVEN) + 1)
    at["scale"] = at["scale"].to("trunc", "i32").to("bitcast", "float")
    zero, whole = code.const("i64", 0), f"i{8 * counts}"
    with code.loop(zero, at["rows"]) as row:
        of_row = {name: near(at[name], row.index * at[f"{name}_row"]) for name in GIVEN}
        filled = get(of_row["filled"], whole, zero)
        filled = filled if whole == "i64" else filled.to("sext", "i64")
        first = (filled - at["reach"] + 1).call("smax", 0).call("smin", at["room"])
        n = filled.call("smin", at["room"]).call("smax", first) - first
        with code.loop(zero, at["heads"]) as head, code.loop(zero, at["share"]) as turn:
            number = head.index * at["share"] + turn.index
            p = {
                name: near(of_row[name], (number if name in OF_QUERY else head.index) * step)
                for name, step in ((name, at[f"{name}_head"]) for name in GIVEN)
                if name != "filled"
            }
            for name, step in (("keys", at["key_place"]), ("values", at["value_place"])):
                p[name] = near(p[name], first * step)
            top = _scores(code, at, p, n, features)
            total = _powers(code, at, n, top)
            _average(code, at, p, n, total, width)
            _weights(code, at, p["weights"], first, n, total)
    return compile_text(code.module())


def _scores(code: Code, at: dict[str, Num], p: dict[str, Num], n: Num, features: int) -> Num:
    """Write scores of n places and the new one, and −∞ behind them; return the largest."""
    parts = _parts(features)
    query = [load(_vector(size), p["q"], 4 * first) for first, size in parts]

    def score(keys: Sequence[Num], top: Num, place: Num) -> Num:
        """Write the scores of one key, or of four that are folded together."""
        of_keys = [
            _lanes_of_dot(query, [load(_vector(size), key, 4 * first) for first, size in parts])
            for key in keys
        ]
        x = _folded(of_keys)
        x = x * _all(at["scale"], len(keys))
        store(x, item(at["scores"], "float", place))
        return (x > top).where(x, top)

    zero, some, least = code.const("i64", 0), n & -FOLDED, code.const("float", -math.inf)
    with code.loop(zero, some, FOLDED, carried=[spread(least, FOLDED)]) as turn:
        first = near(p["keys"], turn.index * at["key_place"])
        keys = [near(first, at["key_place"] * i) for i in range(FOLDED)]
        turn.turned = [score(keys, turn.carried[0], turn.index)]
    top = least
    for lane in range(FOLDED):
        one = _lane(turn.carried[0], lane)
        top = (one > top).where(one, top)
    with code.loop(some, n, carried=[top]) as turn:
        key = near(p["keys"], turn.index * at["key_place"])
        turn.turned = [score([key], turn.carried[0], turn.index)]
    top = score([p["k"]], turn.carried[0], n)
    store(code.const(_vector(LANES), -math.inf), item(at["scores"], "float", n + 1))
    return top


def _powers(code: Code, at: dict[str, Num], n: Num, top: Num) -> Num:
    """Write e to the power of scores less the largest in their place; return the sum."""
    wide, zero, hints = _vector(LANES), code.const("i64", 0), [code.parallel, code.single]
    with code.loop(zero, n + 1, LANES, carried=[code.const(wide, 0.0)]) as turn:
        some = item(at["scores"], "float", turn.index)
        with code.loop(zero, code.const("i64", LANES), hints=hints) as lane:
            x = get(some, "float", lane.index, group=True)
            put(some, lane.index, exp(x - top), group=True)
        turn.turned = [turn.carried[0] + load(wide, some)]
    return _folded([turn.carried])


def _average(
    code: Code, at: dict[str, Num], p: dict[str, Num], n: Num, total: Num, width: int
) -> None:
    """Write the average of values."""
    parts = _parts(width)

    def added(so_far: Sequence[Num], value: Num, place: Num) -> list[Num]:
        weight = get(at["scores"], "float", place)
        return [
            _all(weight, size).madd(load(_vector(size), value, 4 * first), x)
            for x, (first, size) in zip(so_far, parts, strict=True)
        ]

    start = [code.const(_vector(size), 0.0) for _, size in parts]
    with code.loop(code.const("i64", 0), n, carried=start) as turn:
        value = near(p["values"], turn.index * at["value_place"])
        turn.turned = added(turn.carried, value, turn.index)
    for x, (first, size) in zip(added(turn.carried, p["v"], n), parts, strict=True):
        store(x / _all(total, size), p["y"], 4 * first)


def _weights(code: Code, at: dict[str, Num], w: Num, first: Num, n: Num, total: Num) -> None:
    """Write the weights of all places, of which most may be 0, and of the new one."""
    zero, nothing, hints = code.const("i64", 0), code.const("float", 0.0), [code.parallel]
    for begin, end in ((zero, first), (first + n, at["room"])):
        with code.loop(begin, end, hints=hints) as turn:
            put(w, turn.index, nothing, group=True)
    seen = item(w, "float", first)
    with code.loop(zero, n, hints=hints) as turn:
        e = get(at["scores"], "float", turn.index, group=True)
        put(seen, turn.index, e / total, group=True)
    put(w, at["room"], get(at["scores"], "float", n) / total)


def _parts(n: int) -> list[tuple[int, int]]:
    """Return where the vectors of a row begin, and how many lanes they have.

    >>> _parts(28)
    [(0, 16), (16, 8), (24, 4)]
    """
    found, first = list[tuple[int, int]](), 0
    for size in (LANES, 8, 4, 2, 1):
        while n - first >= size:
            found.append((first, size))
            first += size
    return found


def _vector(size: int) -> str:
    return "float" if size == 1 else f"<{size} x float>"


def _all(x: Num, size: int) -> Num:
    return x if size == 1 else spread(x, size)


def _lane(x: Num, lane: int) -> Num:
    return x.code.let("float", f"extractelement {x.type} {x.name}, i64 {lane}")


def _lanes_of_dot(a: Sequence[Num], b: Sequence[Num]) -> list[Num]:
    """Return vectors whose lanes are the sum of products, the wider ones first."""
    found: list[Num] = []
    for x, y in zip(a, b, strict=True):
        if found and found[-1].type == x.type:
            found[-1] = x.madd(y, found[-1])
        else:
            found.append(x * y)
    return found


def _folded(each: Sequence[Sequence[Num]]) -> Num:
    """Return the sums of the lanes of some vectors, those of one or of four together.

    Halves are added, and what is narrower, until one lane is left: that is the same order for one
    and for four, which share vectors as soon as they fit into one.
    """
    parts, now = [list(xs) for xs in each], list[Num]()
    size = _count(parts[0][0])
    while True:
        if now:
            now = _halved(now, size)
            size //= 2
            if now[0].type == "<1 x float>":
                now = [_lane(now[0], 0)]
        if parts[0] and _count(parts[0][0]) == size:
            own = _together([xs.pop(0) for xs in parts], size)
            now = [x + y for x, y in zip(now, own, strict=True)] if now else own
        if size == 1:
            break
    return now[0]


def _together(xs: Sequence[Num], size: int) -> list[Num]:
    """Return vectors of some lanes as few of `LANES`, or as one."""
    if size == 1:
        return [xs[0] if len(xs) == 1 else gathered(xs)]
    each = max(min(LANES // size, len(xs)), 1)
    return [joined(xs[i : i + each]) for i in range(0, len(xs), each)]


def _halved(xs: Sequence[Num], size: int) -> list[Num]:
    """Return vectors whose runs of ``size`` lanes are added up by halves."""
    half, found = size // 2, list[Num]()
    pairs: list[tuple[Num, Num | None]] = [(x, None) for x in xs]
    if len(xs) > 1:
        pairs = list(zip(xs[::2], xs[1::2], strict=True))
    for x, y in pairs:
        n = _count(x) * (1 if y is None else 2)
        low = [lane for start in range(0, n, size) for lane in range(start, start + half)]
        found.append(pick(x, low, y) + pick(x, [lane + half for lane in low], y))
    return found


def _count(x: Num) -> int:
    return lanes(x.type)[0] if x.type.startswith("<") else 1

"""Ops on arrays beside PyTorch: segments, scatter, matching, running products."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwright as gw
from tests.oracle.rows import SHAPES, Case, Row, bools, ints, normal, uniform

SOME = [normal(*s) for s in SHAPES]
IDS = np.array([0, 0, 2, 2, 2, 3])
MIXED = np.array([2, 0, -1, 2, 1, 2])
ROW_PLACES = np.array([[2, 0, 2, 1], [1, 1, 0, 0]])
COORDINATES = np.array([[0, 1], [2, 3], [1, 0], [0, 1]])
ZEROS = np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 1.0], [0.0, 4.0], [5.0, 6.0], [7.0, 0.0]])


def reduced(how: str) -> Any:
    """Return a segment op as torch's reduction of each segment by itself."""

    def theirs(t: Any, x: Any, ids: Any, num_segments: int | None = None) -> Any:
        n = num_segments if num_segments is not None else int(ids.max()) + 1 if len(ids) else 0
        rest = x.shape[ids.ndim :]
        rows, ids = x.reshape(-1, *rest), ids.reshape(-1)
        return t.stack([one(t, rows[ids == k], how) for k in range(n)])

    return theirs


def one(t: Any, rows: Any, how: str) -> Any:
    n = len(rows)
    match how:
        case "sum":
            return rows.sum(0).to(rows.dtype)
        case "prod":
            return rows.prod(0).to(rows.dtype)
        case "mean":
            return rows.sum(0) / max(n, 1)
        case "sqrt_n":
            return rows.sum(0) / max(n, 1) ** 0.5
        case "max":
            return rows.amax(0) if n else t.full(rows.shape[1:], -t.inf, dtype=rows.dtype)
        case _:
            return rows.amin(0) if n else t.full(rows.shape[1:], t.inf, dtype=rows.dtype)


def segments(how: str) -> Row:
    cases: list[Case] = [(normal(6, 2), IDS), (normal(6), IDS.astype("int32")), (ZEROS, IDS)]
    return Row(reduced(how), [*cases, (normal(6, 1, 2, 1), np.zeros(6, int))])


def unsorted(how: str) -> Row:
    return Row(
        reduced(how),
        [
            (normal(6, 2), MIXED, {"num_segments": 4}),
            (ZEROS, MIXED, {"num_segments": 3}),
            (normal(3, 2, 2), np.array([[1, 0], [0, 1], [-1, 1]]), {"num_segments": 2}),
            (normal(0, 2), np.zeros(0, int), {"num_segments": 2}),
        ],
    )


def along(how: str) -> Row:
    """Return a scatter op along an axis, which torch reduces with the elements of x."""

    def theirs(t: Any, x: Any, i: Any, u: Any, axis: int = -1) -> Any:
        return x.scatter_reduce(axis, i, u, how)

    return Row(
        theirs,
        [
            (normal(2, 3), ROW_PLACES, normal(2, 4)),
            (normal(3, 2), ROW_PLACES.T.copy(), normal(4, 2), {"axis": 0}),
            (np.array([[0.0, 2.0, 3.0]]), np.array([[0, 1, 1]]), np.array([[2.0, 0.0, 0.0]])),
            (np.array([1.0, 2.0]), np.array([0, 0, 1]), np.array([1.0, 1.0, 4.0])),
        ],
    )


def at_coordinates(how: str) -> Row:
    """Return a scatter op at coordinates, as torch's along the flattened leading axes."""

    def theirs(t: Any, x: Any, i: Any, u: Any) -> Any:
        k = i.shape[-1]
        sizes, rest = x.shape[:k], x.shape[k:]
        number = sum(i[..., a] * int(np.prod(sizes[a + 1 :])) for a in range(k)).reshape(-1)
        flat = x.reshape(int(np.prod(sizes)), -1)
        rows = u.reshape(len(number), -1)
        found = flat.scatter_reduce(0, number[:, None].expand_as(rows), rows, how)
        return found.reshape(*sizes, *rest)

    return Row(
        theirs,
        [
            (normal(3, 4, 2), COORDINATES, normal(4, 2)),
            (normal(3, 4), COORDINATES, normal(4)),
            (normal(3, 2), np.array([[[1], [1]], [[0], [1]]]), normal(2, 2, 2)),
        ],
    )


def cumulative(t: Any, x: Any, axis: int, reverse: bool = False, exclusive: bool = False) -> Any:
    x = x.flip(axis) if reverse else x
    if exclusive:
        head = t.ones_like(x.narrow(axis, 0, min(1, x.shape[axis])))
        x = t.cat([head, x.narrow(axis, 0, max(x.shape[axis] - 1, 0))], axis)
    y = x.cumprod(axis)
    return y.flip(axis) if reverse else y


CONDITIONS = {
    "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt",
    "greater_equal": "ge",
}  # fmt: skip


def holds(t: Any, x: Any, condition: str, value: float = 0.0) -> Any:
    match condition:
        case "is_nan" | "is_inf" | "is_finite":
            return getattr(t, condition.replace("_", ""))(x)
        case "not_finite":
            return ~t.isfinite(x)
    name = condition.removeprefix("abs_")
    return getattr(t, CONDITIONS[name])(x.abs() if name != condition else x, value)


STEPS = np.array([[-2.0, 0.0, 1.0, 2.0], [0.5, np.nan, np.inf, -1.0]])
ASKED: list[Case] = [
    *((STEPS, {"condition": c, "value": 1.0}) for c in CONDITIONS),
    *((STEPS, {"condition": f"abs_{c}", "value": 2.0}) for c in CONDITIONS),
    *((STEPS, {"condition": c}) for c in ("is_nan", "is_inf", "is_finite", "not_finite")),
    (ints(-3, 3, 4), {"condition": "greater", "value": 1}),
]


def ends(t: Any, x: Any, last: bool, axis: int | None = None, **k: Any) -> Any:
    """Return the first or last place by going through numbers of places."""
    keepdims = k.pop("keepdims", False)
    found = holds(t, x, **k)
    found, axis = (found.reshape(-1), 0) if axis is None else (found, axis)
    shape = [1] * found.ndim
    shape[axis] = -1
    number = t.arange(found.shape[axis]).reshape(shape)
    far = -1 if last else found.shape[axis]
    y = t.where(found, number, far)
    y = y.amax(axis, keepdims) if last else y.amin(axis, keepdims)
    return t.where(y == found.shape[axis], -1, y)


def ended(last: bool) -> Row:
    return Row(
        lambda t, x, **k: ends(t, x, last, **k),
        [
            (STEPS, {"condition": "greater", "value": 0.6}),
            (STEPS, {"condition": "less", "value": 0.7, "axis": 1, "keepdims": True}),
            (STEPS, {"condition": "abs_equal", "value": 2.0, "axis": 0}),
            (STEPS, {"condition": "less", "value": -9.0}),
        ],
    )


def labelled(t: Any, x: Any, labels: Any, num_partitions: int) -> Any:
    return tuple(x[labels == k] for k in range(num_partitions))


def stitched(t: Any, *parts: Any) -> Any:
    n = len(parts) // 2
    at = t.cat([i.reshape(-1) for i in parts[:n]])
    rest = parts[n].shape[parts[0].ndim :]
    rows = t.cat([x.reshape(i.numel(), *rest) for i, x in zip(parts[:n], parts[n:], strict=True)])
    last = {int(k): i for i, k in enumerate(at)}
    zero = t.zeros(rest, dtype=rows.dtype)
    return t.stack([rows[last[k]] if k in last else zero for k in range(int(at.max()) + 1)])


def reversed_rows(t: Any, x: Any, n: Any, seq_axis: int = 1, batch_axis: int = 0) -> Any:
    moved = x.movedim((batch_axis, seq_axis), (0, 1))
    rows = [t.cat([r[: int(k)].flip(0), r[int(k) :]]) for r, k in zip(moved, n, strict=True)]
    return t.stack(rows).movedim((0, 1), (batch_axis, seq_axis))


def distinct(t: Any, x: Any, sorted: bool = True, axis: int | None = None) -> Any:
    """Return torch's distinct elements, with the first places that torch does not tell."""
    _, inverse, counts = t.unique(x.detach(), True, True, True, axis)
    number = inverse.reshape(-1)
    first = t.stack([(number == k).nonzero()[0, 0] for k in range(len(counts))])
    if not sorted:
        order = first.argsort()
        first, counts = first[order], counts[order]
        inverse = order.argsort()[inverse]
    return (
        (x.reshape(-1)[first] if axis is None else x.index_select(axis, first)),
        first, inverse, counts,
    )  # fmt: skip


def confusion(t: Any, a: Any, b: Any, weights: Any = None, num_classes: int | None = None) -> Any:
    n = num_classes or int(max(a.max(), b.max())) + 1
    w = t.ones(len(a), dtype=t.int64) if weights is None else weights
    return t.zeros(n, n, dtype=w.dtype).index_put((a, b), w, accumulate=True)


def dense(t: Any, i: Any, v: Any, shape: Any, default_value: float = 0.0) -> Any:
    i = i if i.ndim == 2 else i[:, None]
    base = t.full(shape, default_value, dtype=v.dtype)
    return base.index_put(tuple(i.unbind(-1)), v)


SEGMENTS: dict[str, Row] = {
    **{f"segment_{how}": segments(how) for how in ("sum", "mean", "max", "min", "prod")},
    **{
        f"unsorted_segment_{how}": unsorted(how)
        for how in ("sum", "mean", "sqrt_n", "max", "min", "prod")
    },
    "segment_sum, integers": Row(reduced("sum"), [(ints(-9, 9, 6, 2, dtype="int32"), IDS)]),
}

SCATTER: dict[str, Row] = {
    "scatter_sub": Row(lambda t, x, i, u, axis=-1: x.scatter_add(axis, i, -u), along("sum").cases),
    "scatter_mul": along("prod"),
    "scatter_div": Row(
        lambda t, x, i, u, axis=-1: x.scatter_reduce(axis, i, 1 / u, "prod"),
        [
            (normal(2, 3), ROW_PLACES, uniform(0.5, 2, 2, 4)),
            (normal(3, 2), ROW_PLACES.T.copy(), uniform(0.5, 2, 4, 2), {"axis": 0}),
        ],
    ),
    "scatter_max": along("amax"),
    "scatter_min": along("amin"),
    "scatter_nd_sub": Row(
        lambda t, x, i, u: x.index_put(tuple(i.unbind(-1)), -u, accumulate=True),
        at_coordinates("sum").cases,
    ),
    "scatter_nd_mul": at_coordinates("prod"),
    "scatter_nd_max": at_coordinates("amax"),
    "scatter_nd_min": at_coordinates("amin"),
}

MATCHING: dict[str, Row] = {
    "match_condition": Row(holds, ASKED),
    "match_condition_count": Row(
        lambda t, x, condition, value=0.0, **k: holds(t, x, condition, value).sum(
            k.get("axis"), k.get("keepdims", False)
        ),
        [*ASKED[:6], (STEPS, {"condition": "less", "axis": (0, 1), "keepdims": True})],
    ),
    "first_index": ended(last=False),
    "last_index": ended(last=True),
    "replace_where": Row(
        lambda t, x, r, condition, value=0.0: t.where(holds(t, x, condition, value), r, x),
        [
            (normal(3, 4), normal(4), {"condition": "abs_less", "value": 0.5}),
            (np.array([1.0, np.nan]), normal(), {"condition": "is_nan"}),
            (normal(0, 2), normal(2), {"condition": "greater"}),
        ],
    ),
    "is_max": Row(
        lambda t, x, axis=None: (
            (t.arange(x.numel()) == x.argmax()).reshape(x.shape)
            if axis is None
            else t.zeros(x.shape, dtype=t.bool).scatter(axis, x.argmax(axis, True), True)
        ),
        [(normal(3, 4), {}), (normal(3, 4), {"axis": 0}), (ints(0, 99, 2, 3), {"axis": -1})],
    ),
    "is_non_decreasing": Row(
        lambda t, x: (x.reshape(-1).diff() >= 0).all(),
        [(np.array([1.0, 1.0, 2.0]),), (normal(3, 4),), (normal(),), (np.zeros((0, 2)),)],
    ),
    "is_strictly_increasing": Row(
        lambda t, x: (x.reshape(-1).diff() > 0).all(),
        [(np.array([1.0, 1.0, 2.0]),), (np.arange(6).reshape(2, 3),), (normal(),)],
    ),
    "is_numeric_tensor": Row(
        lambda t, x: t.tensor(x.dtype != t.bool), [(normal(2),), (bools(2),), (ints(0, 9),)]
    ),
}

RUNNING: dict[str, Row] = {
    "cumprod": Row(
        cumulative,
        [
            (normal(2, 5), {"axis": 1}),
            (normal(4, 2), {"axis": 0, "reverse": True}),
            (normal(2, 4, 1, 2), {"axis": -3, "reverse": True, "exclusive": True}),
            (np.array([2.0, 0.0, 3.0, 0.0, 4.0]), {"axis": 0}),
            (np.array([2.0, 0.0, 3.0, 4.0]), {"axis": 0, "exclusive": True}),
            (normal(2, 0), {"axis": 1}),
            (ints(1, 4, 5, dtype="int8"), {"axis": 0}),
        ],
    ),
    "cummax": Row(
        lambda t, x, axis: tuple(t.cummax(x, axis)),
        [
            (normal(3, 4), {"axis": 1}),
            (normal(3, 4), {"axis": 0}),
            (np.array([1.0, 2.0, 2.0, 0.0, np.nan, 5.0]), {"axis": 0}),
            (ints(0, 5, 2, 6), {"axis": -1}),
        ],
    ),
    "cummin": Row(
        lambda t, x, axis: tuple(t.cummin(x, axis)),
        [
            (normal(3, 4), {"axis": 1}),
            (np.array([3.0, 2.0, 2.0, 4.0]), {"axis": 0}),
            (normal(2, 3, 2), {"axis": 1}),
        ],
    ),
    "logcumsumexp": Row(
        lambda t, x, axis: t.logcumsumexp(x, axis),
        [
            (normal(3, 4), {"axis": 1}),
            (normal(3, 4), {"axis": 0}),
            (np.array([-90.0, 80.0, 79.0, -3.0]), {"axis": 0}),
            (normal(2, 0), {"axis": 1}),
        ],
    ),
}

PARTS: dict[str, Row] = {
    "dynamic_partition": Row(
        labelled,
        [
            (normal(4, 2), np.array([2, 0, 2, 1]), {"num_partitions": 3}),
            (normal(2, 2, 3), np.array([[0, 1], [1, 1]]), {"num_partitions": 2}),
        ],
    ),
    "dynamic_stitch": Row(
        stitched,
        [
            (np.array([4, 0]), np.array([[1, 2], [4, 2]]), normal(2, 3), normal(2, 2, 3)),
            (np.array(1), np.array([3]), normal(), normal(1)),
        ],
    ),
    "switch": Row(
        lambda t, x, p: (x[~p.expand(len(x))], x[p.expand(len(x))]),
        [(normal(3, 2), np.array(True)), (normal(4), bools(4)), (normal(2, 1), np.array(False))],
    ),
    "merge": Row(
        lambda t, *xs: t.cat(xs), [(normal(0, 2), normal(3, 2)), (normal(1), normal(2), normal(0))]
    ),
    "sequence_mask": Row(
        lambda t, n, maxlen=None, dtype="bool": (
            t.arange(int(n.max()) if maxlen is None else maxlen) < n[..., None]
        ).to(getattr(t, dtype)),
        [
            (ints(0, 5, 3), {}),
            (ints(0, 5, 2, 3), {"maxlen": 3, "dtype": "float32"}),
            (np.array(2), {"maxlen": 4}),
        ],
    ),
    "reverse_sequence": Row(
        reversed_rows,
        [
            (normal(3, 4, 2), np.array([0, 3, 4])),
            (normal(4, 2, 3), np.array([3, 1]), {"seq_axis": 0, "batch_axis": 1}),
            (normal(2, 3, 4), np.array([1, 2, 4]), {"seq_axis": -1, "batch_axis": 1}),
        ],
    ),
    "rank": Row(lambda t, x: t.tensor(x.ndim), [(x,) for x in SOME]),
    "size_at": Row(lambda t, x, axis: t.tensor(x.shape[axis]), [(normal(2, 0), {"axis": -1})]),
    "slice": Row(
        lambda t, x, begin, size: x[
            tuple(np.s_[b : None if n == -1 else b + n] for b, n in zip(begin, size, strict=True))
        ],
        [
            (normal(3, 4), {"begin": (1, 0), "size": (2, 3)}),
            (normal(3, 4), {"begin": (3, 1), "size": (-1, -1)}),
            (normal(), {"begin": (), "size": ()}),
        ],
    ),
    "repeat": Row(
        lambda t, x, repeats, axis=None: x.repeat_interleave(
            t.tensor(repeats) if isinstance(repeats, tuple) else repeats, axis
        ),
        [
            (normal(2, 3), {"repeats": 2}),
            (normal(2, 3), {"repeats": (0, 2, 1), "axis": -1}),
            (normal(2, 3), {"repeats": 3, "axis": 0}),
            (normal(0, 3), {"repeats": 2, "axis": 0}),
        ],
    ),
    "repeat, by a tensor": Row(
        lambda t, x, n: x.repeat_interleave(n, 0),
        [(normal(3, 2), np.array([2, 0, 1]))],
        lambda x, n: gw.repeat(x, n, axis=0),
    ),
    "full_like": Row(
        lambda t, x, fill_value, dtype=None: t.full_like(
            x, fill_value, dtype=getattr(t, dtype) if dtype else None
        ),
        [(x, {"fill_value": 1.5}) for x in SOME] + [(bools(2), {"fill_value": 3, "dtype": "int8"})],
    ),
    "assign": Row(
        lambda t, x, v: v.expand_as(x).clone(),
        [(normal(2, 3), normal(3)), (normal(0, 2), normal()), (normal(3), normal(3))],
        fixed=(0,),
    ),
    "sparse_to_dense": Row(
        dense,
        [
            (np.array([[0, 1], [1, 2]]), normal(2), {"shape": (2, 3), "default_value": -1.0}),
            (np.array([3, 0]), normal(2), {"shape": (5,)}),
        ],
    ),
    "invert_permutation": Row("argsort", [(np.array([2, 0, 3, 1]),), (np.zeros(0, int),)]),
    "unique": Row(
        distinct,
        [
            (normal(3, 2), {}),
            (np.array([3, 1, 3, 2, 1]), {}),
            (np.array([3, 1, 3, 2, 1]), {"sorted": False}),
            (ints(0, 2, 6, 2), {"axis": 0}),
            (ints(0, 2, 2, 5), {"axis": 1, "sorted": False}),
        ],
    ),
    "list_diff": Row(
        lambda t, x, y: (x[~t.isin(x, y)], (~t.isin(x, y)).nonzero()[:, 0]),
        [(ints(0, 5, 9), ints(0, 5, 2)), (normal(4), np.array([9.0]))],
        fixed=(1,),
    ),
    "compress": Row(
        lambda t, x, c, axis=None: (x.reshape(-1) if axis is None else x).index_select(
            axis or 0, c.nonzero()[:, 0]
        ),
        [
            (normal(3, 4), np.array([True, False, True]), {"axis": 0}),
            (normal(3, 4), np.array([False, True]), {"axis": -1}),
            (normal(3, 4), bools(7), {}),
        ],
    ),
    "searchsorted": Row(
        lambda t, a, v, side="left": t.searchsorted(a.detach(), v.detach(), side=side),
        [
            (np.array([-1.0, 0.5, 0.5, 2.0]), normal(3, 4), {}),
            (np.array([1, 3, 3, 5]), ints(0, 7, 5), {"side": "right"}),
            (np.array([1, 3, 3, 5]), ints(0, 7), {}),
        ],
    ),
    "bincount": Row(
        lambda t, x, w=None, minlength=0: (
            t.bincount(x, minlength=minlength)
            if w is None
            else t.zeros(max(int(x.max()) + 1, minlength), dtype=w.dtype).index_add(0, x, w)
        ),
        [
            (ints(0, 5, 9), {}),
            (ints(0, 5, 9), {"minlength": 8}),
            (ints(0, 5, 9), normal(9), {}),
        ],
    ),
    "histogram": Row(
        lambda t, x, bins=10, range=None: (lambda h: (h.hist.long(), h.bin_edges))(
            t.histogram(x.detach(), bins, range=range)
        ),
        [(normal(9), {}), (normal(3, 4), {"bins": 4, "range": (-1.0, 1.0)})],
    ),
    "confusion_matrix": Row(
        confusion,
        [
            (ints(0, 3, 9), ints(0, 3, 9), {"num_classes": 3}),
            (np.array([0, 2, 2]), np.array([1, 0, 0]), {}),
            (ints(0, 3, 9), ints(0, 3, 9), normal(9), {"num_classes": 4}),
        ],
    ),
    "unravel_index": Row(
        lambda t, i, shape: t.unravel_index(i, shape),
        [(ints(0, 6, 2, 2), {"shape": (2, 3)}), (np.array(7), {"shape": (2, 2, 2)})],
    ),
}

ROWS = {**SEGMENTS, **SCATTER, **MATCHING, **RUNNING, **PARTS}

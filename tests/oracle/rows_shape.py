"""Reductions, shapes, indexing and order beside PyTorch; padding and slicing beside JAX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.oracle.rows import (
    SHAPES,
    Array,
    Case,
    Row,
    bools,
    complexes,
    ints,
    normal,
    over_axes,
)

TIED = np.array([[1.0, 1.0, 0.0], [2.0, 3.0, 3.0]])
SOME: list[Case] = [(normal(*s),) for s in SHAPES]
WHOLE: list[Case] = [(ints(-9, 9, 3, 4, dtype=d), {}) for d in ("int64", "int32", "int8")]
BOOLS: list[Case] = [(bools(3, 4), {"axis": 1}), (bools(0), {})]
ROW_PLACES = np.array([[2, 0, 2, 1], [1, 1, 0, 0]])
COORDINATES = np.array([[0, 1], [2, 3], [1, 0]])


def distinct(*shape: int) -> Array:
    """Return numbers of which no two are equal, in no order."""
    n = math.prod(shape)
    return np.asarray(np.random.default_rng(n).permutation(n) - n / 3).reshape(shape)


def place(t: Any, which: str, x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    return getattr(t, which)(x, dim=axis, keepdim=keepdims and axis is not None)


def like_split(t: Any, x: Any, parts: Any, axis: int = 0, uneven: str = "spread") -> Any:
    if uneven == "last":
        return t.chunk(x, parts, axis)
    if isinstance(parts, int):
        return t.tensor_split(x, parts, axis)
    rest = x.shape[axis] - sum(p for p in parts if p >= 0)
    return t.split(x, [rest if p < 0 else p for p in parts], axis)


def cumsum(t: Any, x: Any, axis: int, reverse: bool = False, exclusive: bool = False) -> Any:
    x = x.flip(axis) if reverse else x
    y = x.cumsum(axis) - x if exclusive else x.cumsum(axis)
    return y.flip(axis) if reverse else y


def ordered(t: Any, x: Any, axis: int = -1, descending: bool = False) -> Any:
    return t.sort(x, dim=axis, descending=descending, stable=True)


def at_coordinates(t: Any, x: Any, indices: Any, updates: Any, add: bool) -> Any:
    return x.index_put(tuple(indices.unbind(-1)), updates, accumulate=add)


def spread(t: Any, x: Any, correction: str, **attrs: Any) -> Any:
    return getattr(t, correction)(
        x,
        dim=attrs.get("axis"),
        keepdim=attrs.get("keepdims", False),
        correction=attrs.get("ddof", 0),
    )


def product(t: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    for a in sorted((a % x.ndim for a in axes), reverse=True):
        x = x.prod(a, keepdim=keepdims)
    return x.prod() if not x.ndim and not x.requires_grad else x


def full_axes(t: Any, x: Any, axis: Any) -> Any:
    return tuple(range(x.ndim)) if axis is None else axis


REDUCTIONS: dict[str, Row] = {
    "sum": Row(
        lambda t, x, axis=None, keepdims=False: x.sum(full_axes(t, x, axis), keepdims),
        [*over_axes(normal), (complexes(2, 3), {"axis": 0}), *WHOLE, *BOOLS],
    ),
    "mean": Row(
        lambda t, x, axis=None, keepdims=False: x.mean(full_axes(t, x, axis), keepdims),
        [*over_axes(normal, empty=False), (complexes(2, 3), {"axis": 0})],
    ),
    "prod": Row(
        product,
        [
            *over_axes(normal),
            (np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 1.5]]), {"axis": 1}),
            *WHOLE,
        ],
    ),
    "max": Row("amax", [*over_axes(normal, empty=False), (TIED, {"axis": 1}), *WHOLE]),
    "min": Row("amin", [*over_axes(normal, empty=False), (TIED, {"axis": 1}), *WHOLE]),
    "argmax": Row(
        lambda t, x, **k: place(t, "argmax", x, **k),
        [(normal(3, 4),), *over_axes(normal, empty=False, several=False)[3:], (TIED, {"axis": 1})],
    ),
    "argmin": Row(
        lambda t, x, **k: place(t, "argmin", x, **k),
        [(normal(3, 4),), *over_axes(normal, empty=False, several=False)[3:], (TIED, {"axis": 1})],
    ),
    "any": Row("any", over_axes(bools)),
    "all": Row("all", over_axes(bools)),
    "count_nonzero": Row(
        lambda t, x, axis=None, keepdims=False: (x != 0).sum(axis, keepdims),
        [*over_axes(bools), (np.array([0.0, -0.0, np.nan, 2.0]), {}), *WHOLE],
    ),
    "cumsum": Row(
        cumsum,
        [
            (normal(2, 3), {"axis": 0}),
            (normal(2, 3), {"axis": -1, "reverse": True}),
            (normal(2, 3, 1, 2, 2), {"axis": 1, "reverse": True, "exclusive": True}),
            (normal(2, 0), {"axis": 1}),
            (ints(0, 9, 5, dtype="int8"), {"axis": 0, "exclusive": True}),
        ],
    ),
    "var": Row(
        lambda t, x, **k: spread(t, x, "var", **k),
        [*over_axes(normal, empty=False), (normal(3, 4), {"axis": 0, "ddof": 1})],
    ),
    "std": Row(
        lambda t, x, **k: spread(t, x, "std", **k),
        [(normal(3, 4), {}), (normal(2, 3, 4), {"axis": (0, -1), "ddof": 1})],
    ),
    "logsumexp": Row(
        lambda t, x, axis=None, keepdims=False: t.logsumexp(x, full_axes(t, x, axis), keepdims),
        [
            *over_axes(normal, empty=False),
            (np.array([[1000.0, 1000.5], [-1000.0, -999.0]]), {"axis": 1}),
        ],
    ),
}

SHAPES_AND_VALUES: dict[str, Row] = {
    "zeros_like": Row("zeros_like", [*SOME, (ints(0, 9, 3),)]),
    "ones_like": Row("ones_like", [*SOME, (bools(3),)]),
    "sum_like": Row(
        lambda t, x, like: x.sum_to_size(like.shape),
        [
            (normal(2, 3, 4), normal(3, 1)),
            (normal(3, 4), normal()),
            (normal(2, 0), normal(2, 1)),
            (normal(3), normal(3)),
        ],
    ),
    "broadcast_like": Row(
        lambda t, x, like: x.expand_as(like),
        [(normal(3, 1), normal(2, 3, 4)), (normal(), normal(0, 2)), (normal(3), normal(3))],
    ),
    "reshape_like": Row(
        lambda t, x, like: x.reshape(like.shape),
        [(normal(2, 6), normal(3, 4)), (normal(1), normal()), (normal(0, 3), normal(5, 0))],
    ),
    "shape_of": Row(lambda t, x: t.tensor(x.shape, dtype=t.int64), SOME),
    "size_of": Row(
        lambda t, x, axis=None, dtype="int64": t.tensor(
            math.prod(x.shape[a] for a in ([axis] if isinstance(axis, int) else axis))
            if axis is not None
            else x.numel(),
            dtype=getattr(t, dtype),
        ),
        [
            *SOME,
            (normal(2, 3, 4), {"axis": (0, -1)}),
            (normal(2, 3), {"axis": 1, "dtype": "float32"}),
        ],
    ),
    "cast": Row(
        lambda t, x, dtype: x.to(getattr(t, dtype)),
        [
            (normal(3, 4) * 9, {"dtype": "int32"}),
            (normal(3, 4), {"dtype": "float32"}),
            (normal(3, 4), {"dtype": "complex128"}),
            (np.array([0.0, -0.0, np.nan, 0.5]), {"dtype": "bool"}),
            (ints(-300, 300, 9), {"dtype": "int8"}),
            (bools(4), {"dtype": "float64"}),
        ],
    ),
    "transpose": Row(
        lambda t, x, axes=None: x.permute(axes or tuple(reversed(range(x.ndim)))),
        [*SOME, (normal(2, 3, 1, 0, 4), {"axes": (3, -5, 1, -1, 2)})],
    ),
    "swapaxes": Row(
        lambda t, x, axis1, axis2: x.swapaxes(axis1, axis2),
        [(normal(2, 3, 4), {"axis1": 0, "axis2": -1}), (normal(2, 3), {"axis1": 1, "axis2": 1})],
    ),
    "expand_dims": Row(
        lambda t, x, axis: x.unsqueeze(axis),
        [(normal(2, 3), {"axis": a}) for a in (0, 1, 2, -1, -3)] + [(normal(), {"axis": 0})],
    ),
    "squeeze": Row(
        lambda t, x, axis=None: x.squeeze() if axis is None else x.squeeze(axis),
        [
            (normal(1, 3, 1), {}),
            (normal(1, 3, 1), {"axis": -1}),
            (normal(1, 3, 1), {"axis": (0, 2)}),
            (normal(1), {}),
        ],
    ),
    "reshape": Row(
        "reshape",
        [
            (normal(2, 6), {"shape": (3, -1)}),
            (normal(1, 1), {"shape": ()}),
            (normal(0, 3), {"shape": (5, 0, 2)}),
            (normal(2, 3, 4, 1, 2), {"shape": (-1,)}),
        ],
    ),
    "flatten": Row(
        lambda t, x, start_axis=0, end_axis=-1: x.flatten(start_axis, end_axis),
        [
            *SOME,
            (normal(2, 3, 4), {"start_axis": 1}),
            (normal(2, 3, 4, 5), {"start_axis": -3, "end_axis": -2}),
        ],
    ),
    "broadcast_to": Row(
        lambda t, x, shape: x.broadcast_to(shape),
        [
            (normal(3, 1), {"shape": (2, 3, 4)}),
            (normal(), {"shape": (0, 2)}),
            (normal(2), {"shape": (2,)}),
        ],
    ),
    "flip": Row(
        lambda t, x, axis=None: x.flip(
            tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        ),
        [*SOME, (normal(2, 3, 4), {"axis": (0, -1)}), (normal(2, 3), {"axis": 1})],
    ),
    "roll": Row(
        lambda t, x, shift, axis=None: x.roll(shift, axis),
        [
            (normal(3, 4), {"shift": 2}),
            (normal(3, 4), {"shift": -5, "axis": -1}),
            (normal(2, 3, 4), {"shift": (1, 2), "axis": (0, 2)}),
            (normal(2, 3), {"shift": (1, 1), "axis": (1, 1)}),
            (normal(0, 3), {"shift": 1, "axis": 0}),
        ],
    ),
    "identity": Row("clone", SOME),
    "stop_gradient": Row(lambda t, x: x.detach() + 0, SOME),
    "surrogate": Row(
        lambda t, x, b: x.detach() + (b - b.detach()), [(normal(*s), normal(*s)) for s in SHAPES]
    ),
    "concat": Row(
        lambda t, *xs, axis=0: t.cat(xs, axis),
        [
            (normal(2, 3), normal(1, 3)),
            (normal(2, 3), normal(2, 0), normal(2, 1), {"axis": -1}),
            (normal(2), ints(0, 9, 3)),
            (normal(2),),
        ],
    ),
    "stack": Row(
        lambda t, *xs, axis=0: t.stack(xs, axis),
        [(normal(2, 3), normal(2, 3)), (normal(2), normal(2), {"axis": -1}), (normal(), normal())],
    ),
    "split": Row(
        like_split,
        [
            (normal(4, 3), {"parts": 2}),
            (normal(2, 5), {"parts": (1, 0, -1), "axis": -1}),
            (normal(0, 2), {"parts": 3}),
            (normal(2, 3), {"parts": 1}),
            (normal(7, 2), {"parts": 3, "uneven": "last"}),
            (normal(2, 7), {"parts": 4, "axis": 1, "uneven": "spread"}),
        ],
    ),
    "unstack": Row(
        lambda t, x, axis=0: x.unbind(axis),
        [(normal(2, 3), {}), (normal(2, 3, 1), {"axis": -2}), (normal(1), {})],
    ),
    "tile": Row(
        lambda t, x, reps: x.tile(reps),
        [
            (normal(2, 3), {"reps": (2,)}),
            (normal(2, 1), {"reps": (2, 1, 3)}),
            (normal(), {"reps": (2,)}),
            (normal(0, 2), {"reps": (2, 0)}),
        ],
    ),
    "pad": Row(
        lambda j, x, pad_width, mode="constant", **k: j.numpy.pad(
            x, pad_width, mode, **({"constant_values": k["value"]} if k else {})
        ),
        [
            (normal(3, 4), {"pad_width": ((1, 0), (0, 2)), "value": 0.5}),
            (normal(3, 4), {"pad_width": ((2, 2), (3, 1)), "mode": "reflect"}),
            (normal(3, 4), {"pad_width": ((2, 1), (0, 7)), "mode": "edge"}),
            (normal(3, 4), {"pad_width": ((2, 7), (0, 1)), "mode": "wrap"}),
            (normal(3, 4), {"pad_width": ((2, 7), (0, 1)), "mode": "symmetric"}),
            (normal(0, 2), {"pad_width": 1}),
        ],
        library="jax",
    ),
    "full": Row(
        lambda t, shape, fill_value=0.0, dtype="float32": t.full(
            shape, fill_value, dtype=getattr(t, dtype)
        ),
        [
            ({"shape": (2, 3), "fill_value": 1.5},),
            ({"shape": (), "fill_value": True, "dtype": "bool"},),
            ({"shape": (0, 2), "dtype": "int64"},),
        ],
    ),
    "arange": Row(
        lambda t, start, stop=None, step=1, dtype=None: t.arange(
            *((0, start) if stop is None else (start, stop)),
            step,
            dtype=getattr(t, dtype) if dtype else None,
        ),
        [
            ({"start": 5},),
            ({"start": 5, "stop": 0, "step": -2},),
            ({"start": 0.0, "stop": 1.0, "step": 0.1},),
            ({"start": 0, "stop": 9, "dtype": "float64"},),
            ({"start": 3, "stop": 3},),
        ],
    ),
    "linspace": Row(
        lambda t, start, stop, num=50, dtype="float32": t.linspace(
            start, stop, num, dtype=getattr(t, dtype)
        ),
        [
            ({"start": -1.0, "stop": 1.0, "num": 5},),
            ({"start": 0, "stop": 3, "dtype": "float64"},),
            ({"start": 1.0, "stop": 0.0, "num": 1},),
        ],
    ),
    "eye": Row(
        lambda t, n, m=None, k=0: (
            t.eye(*((n, n) if m is None else (n, m))) if not k else t.ones(n, m).triu(k).tril(k)
        ),
        [({"n": 3},), ({"n": 2, "m": 4},), ({"n": 3, "m": 4, "k": -1},), ({"n": 0},)],
    ),
    "diag": Row(
        lambda t, x, k=0: t.diag(x, k) if x.ndim < 3 else x.diagonal(k, -2, -1),
        [(normal(3), {}), (normal(3), {"k": -1}), (normal(3, 4), {"k": 1}), (normal(2, 3, 3), {})],
    ),
    "tril": Row(
        lambda t, x, k=0: x.tril(k),
        [(normal(3, 3), {}), (normal(2, 1, 2, 3, 4), {"k": 1}), (normal(0, 3), {"k": -1})],
    ),
    "triu": Row(
        lambda t, x, k=0: x.triu(k),
        [(normal(3, 3), {}), (normal(2, 3, 4), {"k": -1}), (ints(0, 9, 3, 4), {"k": 2})],
    ),
}

PLACES: dict[str, Row] = {
    "gather": Row(
        lambda t, x, i, axis=0: x.index_select(axis, i.reshape(-1)).reshape(
            x.shape[:axis] + i.shape + x.shape[axis:][1:]
        ),
        [
            (normal(4, 3, 2), np.array([[3, 0, 3], [1, 0, 2]])),
            (normal(4, 3), np.array([0, 2, 0, 0]), {"axis": 1}),
            (normal(4, 3), np.zeros((0, 2), int)),
            (normal(4, 3), np.array(1)),
        ],
    ),
    "gather, from the end": Row(
        lambda t, x, i: x[i], [(normal(4, 3), np.array([-1, -4, 2])), (normal(4), np.array(-2))]
    ),
    "index_add": Row(
        lambda t, x, i, u, axis=0: x.index_add(axis, i, u),
        [
            (normal(4, 3), np.array([1, 1, 0]), normal(3, 3)),
            (normal(4, 3), np.array([2]), normal(4, 1), {"axis": -1}),
            (normal(4, 3), np.zeros(0, int), normal(0, 3)),
        ],
    ),
    "take_along_axis": Row(
        lambda t, x, i, axis=-1: t.take_along_dim(x, i, axis),
        [
            (normal(2, 3), ROW_PLACES),
            (normal(3, 4), np.array([[2, 0, 1, 2]]), {"axis": 0}),
            (normal(1, 3), np.array([[1], [2]])),
            (normal(3, 4), np.zeros((3, 0), int)),
        ],
    ),
    "scatter_add": Row(
        lambda t, x, i, u, axis=-1: x.scatter_add(axis, i, u),
        [
            (normal(2, 3), ROW_PLACES, normal(2, 4)),
            (normal(3, 2), ROW_PLACES.T, normal(4, 2), {"axis": 0}),
        ],
    ),
    "scatter_update": Row(
        lambda t, x, i, u, axis=-1: x.scatter(axis, i, u),
        [(normal(2, 5), np.array([[4, 0, 2], [1, 3, 0]]), normal(2, 3))],
    ),
    "gather_nd": Row(
        lambda t, x, i: x[tuple(i.unbind(-1))],
        [
            (normal(3, 4, 2), COORDINATES),
            (normal(3, 4), COORDINATES),
            (normal(3, 4), -COORDINATES[:, :1]),
        ],
    ),
    "scatter_nd_add": Row(
        lambda t, x, i, u: at_coordinates(t, x, i, u, True),
        [
            (normal(3, 4, 2), COORDINATES, normal(3, 2)),
            (normal(3, 4), COORDINATES[[0, 0, 1]], normal(3)),
        ],
    ),
    "scatter_nd_update": Row(
        lambda t, x, i, u: at_coordinates(t, x, i, u, False),
        [(normal(3, 4, 2), COORDINATES, normal(3, 2)), (normal(3, 4), COORDINATES, normal(3))],
    ),
    "boolean_mask": Row(
        lambda t, x, m, axis=0: x[(slice(None),) * axis + (m,)],
        [
            (normal(4, 3), bools(4)),
            (normal(4, 3), bools(4, 3)),
            (normal(4, 3), bools(3), {"axis": 1}),
            (normal(3), np.zeros(3, bool)),
        ],
    ),
    "nonzero": Row(
        lambda t, x: t.nonzero(x, as_tuple=True),
        [(bools(3, 4),), (np.zeros((2, 0)),), (np.array([0.0, np.nan, -0.0, 2.0]),)],
    ),
    "one_hot": Row(
        lambda t, i, depth, axis=-1, dtype="float32": (
            t.nn.functional.one_hot(i, depth).movedim(-1, axis).to(getattr(t, dtype))
        ),
        [
            (ints(0, 3, 2, 4), {"depth": 3}),
            (ints(0, 3, 2, 4), {"depth": 5, "axis": 0, "dtype": "bool"}),
            (np.array(1), {"depth": 2, "axis": -1, "dtype": "int64"}),
        ],
    ),
    "strided_slice": Row(
        lambda j, x, index: j.numpy.asarray(x)[index],
        [
            (normal(4, 5), {"index": (slice(1, 3), slice(None, None, -2))}),
            (normal(4, 5), {"index": (None, -1, ...)}),
            (normal(4, 5), {"index": (slice(-1, 0, -1),)}),
            (normal(4, 5, 2), {"index": (..., slice(9, 2), 1)}),
        ],
        lambda x, index: x[index],
        library="jax",
    ),
    "argsort": Row(
        lambda t, x, **k: ordered(t, x, **k)[1],
        [
            (distinct(3, 4), {}),
            (distinct(3, 4), {"axis": 0, "descending": True}),
            (np.array([2, 1, 2, 0, 1]), {"descending": True}),
            (np.array([1.0, np.nan, 0.0, np.inf]), {}),
        ],
    ),
    "sort": Row(
        lambda t, x, **k: ordered(t, x, **k)[0],
        [
            (distinct(3, 4), {}),
            (distinct(2, 3, 2), {"axis": 1, "descending": True}),
            (np.zeros((2, 0)), {}),
            (np.array([1.0, np.nan, 0.0, -np.inf]), {"descending": True}),
            (ints(0, 9, 8, dtype="uint8"), {}),
        ],
    ),
    "top_k": Row(
        lambda t, x, k, axis=-1, largest=True: t.topk(x, k, axis, largest),
        [
            (distinct(3, 4), {"k": 2}),
            (distinct(3, 4), {"k": 3, "axis": 0, "largest": False}),
            (distinct(3, 4), {"k": 0}),
            (np.array([1.0, np.nan, 2.0]), {"k": 2}),
        ],
    ),
}

ROWS = {**REDUCTIONS, **SHAPES_AND_VALUES, **PLACES}

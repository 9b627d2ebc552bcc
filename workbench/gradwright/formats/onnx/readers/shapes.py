"""Operators that move, cut and join elements without computing any."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....errors import ArchiveError
from ....spec import Dim, TensorSpec, joined, larger, normalize_axis
from ....spec.one_of import one_of
from ...foreign import Chosen, Value, attribute
from ..node import OnnxNode, cast, ints, maps, one, op, open_dims, open_ranks, reads

MAX_OPEN = 6
"""Sizes that are not known of which each may be 1, for which each outcome is told."""


def _of_rank(rank: Callable[[int, int], int]) -> Any:
    """Return what tells an output whose rank follows from that of x and the number of values."""
    return lambda node, x, values: [open_ranks(values, lambda n: rank(x.rank, n), x.dtype)]


@reads("Reshape", since=5, values=(1,), takes_dims=True, outputs=_of_rank(lambda rank, n: n))
def reshape(node: OnnxNode, x: Any, shape: Any) -> Any:
    dims = ints(shape) or ()
    if not node.flag("allowzero"):
        dims = tuple(x.shape[i] if d == 0 else d for i, d in enumerate(dims))
    return op("reshape", shape=dims)(x)


@reads("Flatten", since=1)
def flatten(node: OnnxNode, x: Any) -> Any:
    """Make a matrix; our flatten makes one of all axes but the first, or but the last."""
    axis = node.get("axis", 1)
    axis = axis + x.rank if axis < 0 else axis
    if x.rank > 1 and axis in (1, x.rank - 1):
        return op("flatten", **({"start_axis": 1} if axis == 1 else {"end_axis": axis - 1}))(x)
    rows, columns = math.prod(x.shape[:axis]), math.prod(x.shape[axis:])
    return op("reshape", shape=(rows, columns))(x)


maps("Unsqueeze", "expand_dims", attributes={"axes": tuple[int, ...]}, takes={"axis": "axes"})
maps(
    "Unsqueeze", "expand_dims", since=13, takes={"axis": Value(1)},
    outputs=_of_rank(lambda rank, n: rank + n),
)  # fmt: skip


def _takes_all(node: OnnxNode, x: TensorSpec, axes: Any = None) -> bool:
    """Tell whether all axes of size 1 go, and only a run tells which these are."""
    return axes is None and "axes" not in node.attributes and not x.is_concrete


def _squeezed(node: OnnxNode, x: TensorSpec, axes: Any = None) -> list[TensorSpec]:
    """Return what is left, with each size that is not known or without it."""
    if axes is not None:
        return [open_ranks(axes, lambda n: x.rank - n, x.dtype)]
    rest = [d for d in x.shape if d != 1]
    open_axes = [i for i, d in enumerate(rest) if isinstance(d, Dim)]
    if len(open_axes) > MAX_OPEN:
        ranks = range(len(rest) - len(open_axes), len(rest) + 1)
        return [one_of([open_dims(rank, x.dtype) for rank in ranks])]
    found = []
    for gone in itertools.chain.from_iterable(
        itertools.combinations(open_axes, n) for n in range(len(open_axes) + 1)
    ):
        found.append(TensorSpec([d for i, d in enumerate(rest) if i not in gone], x.dtype))
    return [one_of(found)]


@reads("Squeeze", since=1, waits=_takes_all, outputs=_squeezed)
def squeeze_attribute(node: OnnxNode, x: Any) -> Any:
    return op("squeeze", axis=node.get("axes"))(x)


@reads("Squeeze", since=13, values=(1,), waits=_takes_all, outputs=_squeezed)
def squeeze(node: OnnxNode, x: Any, axes: Any = None) -> Any:
    return op("squeeze", axis=ints(axes))(x)


maps(
    "Transpose", "transpose", takes={"axes": "perm"},
    attributes={"perm": attribute(tuple[int, ...], None)},
)  # fmt: skip


@reads(
    "Expand",
    since=8,
    values=(1,),
    takes_dims=True,
    outputs=_of_rank(max),
)
def expand(node: OnnxNode, x: Any, shape: Any) -> Any:
    want = list(ints(shape) or ())
    have = [1] * (len(want) - x.rank) + list(x.shape)
    want = [1] * (len(have) - len(want)) + want
    return op("broadcast_to", shape=tuple(joined(h, w) for h, w in zip(have, want, strict=True)))(x)


maps("Tile", "tile", since=6, takes={"reps": Value(1)})
maps("Concat", "concat", since=4, attributes={"axis": int})


@reads("Split", since=2)
def split_attribute(node: OnnxNode, x: Any) -> Any:
    return split(node, x, node.get("split"))


@reads("Split", since=13, values=(1,))
def split(node: OnnxNode, x: Any, sizes: Any = None) -> Any:
    axis = node.get("axis", 0)
    parts: Any = ints(sizes)
    if parts is None:
        n = len(node.wanted)
        if node.get("num_outputs", n) != n:
            raise ArchiveError(f"num_outputs is {node['num_outputs']}", need=f"{n}")
        d = x.shape[axis]
        if not isinstance(d, int):
            return op("split", parts=n, axis=axis, uneven="last")(x)
        size = -(-d // n)
        parts = n if d % n == 0 else tuple(max(0, min(size, d - k * size)) for k in range(n))
    return op("split", parts=parts, axis=axis)(x)


@reads("Slice", since=1)
def slice_attributes(node: OnnxNode, x: Any) -> Any:
    return slice_(node, x, node["starts"], node["ends"], node.get("axes"))


@reads("Slice", since=10, values=(1, 2, 3, 4), takes_dims=True)
def slice_(
    node: OnnxNode, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None
) -> Any:
    first, last = ints(starts) or (), ints(ends) or ()
    along = ints(axes) or range(len(first))
    strides = ints(steps) or (1,) * len(first)
    index: list[Any] = [slice(None)] * x.rank
    for axis, a, b, step in zip(along, first, last, strides, strict=True):
        index[normalize_axis(axis, x.rank)] = _part(x.shape[axis], a, b, step)
    return op("strided_slice", index=tuple(index))(x)


def _part(d: Any, start: Any, end: Any, step: int) -> slice:
    """Return a slice that takes what ONNX's does; ends far outside stand for no end.

    Backwards, ONNX Runtime takes the largest integers for no end too, and a start before the first
    element is the first element, where Python would take none.
    """
    far = 1 << 31
    if step > 0:
        start = None if start == 0 else start
        if end == d or (isinstance(end, int) and end >= far - 1):
            end = None
        return slice(start, end, step)
    if isinstance(end, int) and (
        end in (far - 1, (1 << 63) - 1) or end <= -far or (isinstance(d, int) and end < -d)
    ):
        end = None
    if isinstance(start, int) and start >= far - 1:
        start = None
    elif start < 0 if isinstance(start, int) else all(c < 0 for _, c in start.terms):
        start = larger(0, d + start)
    return slice(start, end, step)


@reads("Pad", since=2)
def pad_attributes(node: OnnxNode, x: Any) -> Any:
    return _pad(node, x, node["pads"], node.get("value", 0.0), None)


@reads("Pad", since=11, values=(1, 2, 3))
def pad(node: OnnxNode, x: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
    return _pad(
        node,
        x,
        ints(pads) or (),
        0 if value is None or not np.size(value) else one(value),
        ints(axes),
    )


def _pad(node: OnnxNode, x: Any, pads: Any, value: Any, axes: Any) -> Any:
    """Pad; negative widths cut off."""
    along = range(x.rank) if axes is None else [normalize_axis(a, x.rank) for a in axes]
    n = len(pads) // 2
    widths, cuts = [[0, 0] for _ in range(x.rank)], [[0, 0] for _ in range(x.rank)]
    for i, axis in enumerate(along):
        for side, w in enumerate((pads[i], pads[n + i])):
            (widths if w > 0 else cuts)[axis][side] = abs(int(w))
    if any(map(any, cuts)):
        index = tuple(slice(a or None, -b or None) for a, b in cuts)
        x = op("strided_slice", index=index)(x)
    if not any(map(any, widths)):
        return op("identity")(x)
    mode = node.get("mode", "constant")
    if isinstance(value, (bool, str)) or not isinstance(value, (int, float)):
        value = bool(value)
    return op("pad", pad_width=tuple(map(tuple, widths)), mode=mode, value=value)(x)


@reads("Shape", since=1)
def shape(node: OnnxNode, x: Any) -> Any:
    found = op("shape_of")(x)
    start, end = node.get("start", 0), node.get("end")
    if start == 0 and end is None:
        return found
    return op("strided_slice", index=(slice(start, end),))(found)


maps("Size", "size_of")


@reads(
    "ConstantOfShape",
    since=9,
    waits=lambda node, shape: not shape.is_concrete,
    outputs=lambda node, shape: [open_ranks(shape, lambda n: n, _fill(node).dtype)],
)
def constant_of_shape(node: OnnxNode, shape: Any) -> Any:
    fill = _fill(node)
    return op("full", fill_value=fill.item(), dtype=fill.dtype)(shape)


def _fill(node: OnnxNode) -> np.ndarray[Any, Any]:
    """Return the number that a tensor is filled with."""
    value = node.get("value")
    return np.zeros(1, np.float32) if value is None else np.asarray(value).reshape(-1)[:1]


@reads(
    "Range",
    since=11,
    values=(0, 1, 2),
    takes_dims=True,
    outputs=lambda node, x, *rest: [open_dims(1, x.dtype)],
)
def range_(node: OnnxNode, start: Any, limit: Any, delta: Any) -> Any:
    arrays = [np.asarray(v) for v in (start, limit, delta)]
    d = next((a.dtype for a in arrays if a.dtype != object), np.dtype("int64"))
    first, last, step = (one(a) for a in arrays)
    if not isinstance(step, (int, float)) or not step:
        raise ArchiveError(f"a range cannot go in steps of {step}")
    return op("arange", start=first, stop=last, step=step, dtype=d)()


maps("EyeLike", "eye_like", since=9, attributes={"k": 0, "dtype": attribute(np.dtype, None)})


maps(
    "Trilu", Chosen("upper", {True: "triu", False: "tril"}), since=14,
    attributes={"upper": True}, takes={"k": Value(1)},
)  # fmt: skip


@reads(
    "OneHot", since=9, values=(1,), outputs=lambda node, x, d, v: [open_dims(x.rank + 1, v.dtype)]
)
def one_hot(node: OnnxNode, indices: Any, depth: Any, values: Any) -> Any:
    n = int(one(depth))
    ids = cast(indices, "int64")
    ids = op("where")(ids < 0, ids + n, ids)
    hot = op("one_hot", depth=n, axis=node.get("axis", -1), dtype="bool")(ids)
    off, on = op("split", parts=2, axis=0)(values)
    squeeze = op("squeeze", axis=0)
    return op("where")(hot, squeeze(on), squeeze(off))


@reads("NonZero", since=9)
def nonzero(node: OnnxNode, x: Any) -> Any:
    found = op("nonzero")(x if x.rank else op("reshape", shape=(1,))(x))
    if isinstance(found, tuple):
        return op("stack", axis=0)(*found)
    return op("transpose", axes=(1, 0))(found)


@reads("Compress", since=9)
def compress(node: OnnxNode, x: Any, condition: Any) -> Any:
    axis = node.get("axis")
    if axis is None:
        x, axis = op("reshape", shape=(-1,))(x), 0
    n, m = x.shape[axis], condition.shape[0]
    if n != m:
        x = op("strided_slice", index=(*[slice(None)] * (axis % x.rank), slice(0, m)))(x)
    return op("boolean_mask", axis=axis % x.rank)(x, condition)


def _two(node: OnnxNode, x: TensorSpec, *rest: Any) -> list[TensorSpec]:
    return [open_dims(x.rank, x.dtype), open_dims(x.rank, "int64")]


maps("TopK", "top_k", attributes={"k": attribute(int, least=0), "axis": -1})
maps(
    "TopK", "top_k", since=10, takes={"k": Value(1)}, outputs=_two, leaves=["sorted"],
    attributes={"axis": -1, "largest": True, "sorted": True},
)  # fmt: skip
for _op_type, _op in (("DepthToSpace", "depth_to_space"), ("SpaceToDepth", "space_to_depth")):
    maps(
        _op_type, _op, attributes={"blocksize": attribute(int, least=1), "mode": "DCR"},
        takes={"block_size": "blocksize", "mode": Chosen("mode", {"DCR": "dcr", "CRD": "crd"})},
    )  # fmt: skip

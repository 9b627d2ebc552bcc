"""Ops that move, cut and join elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....graph import Tensor
from ....spec import AnyDim, Dim, normalize_axis
from ..node import op, writes
from ..nodes import spell
from ..output import Call, to_tensor
from ..versions import CannotExport

FAR = (1 << 63) - 1
INT64 = np.dtype("int64")


@writes("reshape")
def reshape(call: Call) -> str:
    given = len(call.xs) > 1 and bool(call.xs[1])
    return call.add("Reshape", call.xs[0], call.xs[1] if given else _target(call), allowzero=1)


@writes("flatten")
def flatten(call: Call) -> str:
    """Write a Flatten, whose result is a matrix, where it is one here."""
    rank = call.x.rank
    ends = [a % rank if rank else a for a in (call.start_axis, call.end_axis)]
    if rank > 1 and ends == [1, rank - 1]:
        return call.add("Flatten", call.xs[0], axis=1)
    if rank > 1 and ends == [0, rank - 2]:
        return call.add("Flatten", call.xs[0], axis=rank - 1)
    return call.add("Reshape", call.xs[0], _target(call), allowzero=1)


def _target(call: Call) -> str:
    """Return the shape of the result, with -1 for the only size that is a symbol."""
    dims: list[AnyDim] = list(call.y.shape)
    free = [i for i, d in enumerate(dims) if isinstance(d, Dim)]
    if len(free) == 1 and 0 not in dims:
        dims[free[0]] = -1
    return call.out.shape(dims)


@writes("reshape_like")
def reshape_like(call: Call) -> str:
    return call.add("Reshape", call.xs[0], call.add("Shape", call.xs[1]), allowzero=1)


@writes("broadcast_to")
def broadcast_to(call: Call) -> str:
    given = len(call.xs) > 1 and bool(call.xs[1])
    return call.add("Expand", call.xs[0], call.xs[1] if given else call.out.shape(call.y.shape))


@writes("broadcast_like")
def broadcast_like(call: Call) -> str:
    return call.add("Expand", call.xs[0], call.add("Shape", call.xs[1]))


@writes("sum_like")
def sum_like(call: Call) -> str:
    x, like = call.x, call.specs[1]
    assert like is not None
    lead = x.rank - like.rank
    if any(a != b and b != 1 for a, b in zip(x.shape[lead:], like.shape, strict=True)):
        return _summed_at_run(call, lead)
    axes = [i for i, d in enumerate(x.shape) if i < lead or (like.shape[i - lead] == 1 and d != 1)]
    y = call.add("ReduceSum", call.xs[0], call.out.ints(axes)) if axes else call.xs[0]
    return call.add("Reshape", y, call.add("Shape", call.xs[1]), allowzero=1)


def _summed_at_run(call: Call, lead: int) -> str:
    """Sum over the axes that turn out to have one element in what is summed to."""
    add, one = call.add, call.out.ints([1])
    shape = add("Shape", call.xs[1])
    found = add("Squeeze", add("NonZero", add("Equal", shape, one)), call.out.ints([0]))
    axes = add("Add", found, call.out.ints([lead]))
    axes = add("Concat", call.out.ints(range(lead)), axes, axis=0) if lead else axes
    y = add("ReduceSum", call.xs[0], axes, noop_with_empty_axes=1)
    return add("Reshape", y, shape, allowzero=1)


@writes("expand_dims")
def expand_dims(call: Call) -> str:
    axes = (call.axis,) if isinstance(call.axis, int) else call.axis
    return call.add("Unsqueeze", call.xs[0], call.out.ints(axes))


@writes("squeeze")
def squeeze(call: Call) -> str:
    if call.axis is None:
        axes = [i for i, d in enumerate(call.x.shape) if d == 1]
    else:
        axes = [call.axis] if isinstance(call.axis, int) else list(call.axis)
    if not axes:
        return call.add("Identity", call.xs[0])
    return call.add("Squeeze", call.xs[0], call.out.ints(axes))


@writes("swapaxes")
def swapaxes(call: Call) -> str:
    order = list(range(call.x.rank))
    a, b = call.axis1 % call.x.rank, call.axis2 % call.x.rank
    order[a], order[b] = b, a
    return call.add("Transpose", call.xs[0], perm=order)


@writes("transpose")
def transpose(call: Call) -> str:
    axes = call.axes
    return call.add("Transpose", call.xs[0], perm=[a % call.x.rank for a in axes] if axes else None)


@writes("shape_of")
def shape_of(call: Call) -> str:
    return call.add("Shape", call.xs[0])


@writes("size_of")
def size_of(call: Call) -> str:
    if call.axis is None:
        n = call.add("Size", call.xs[0])
    else:
        axes = (call.axis,) if isinstance(call.axis, int) else call.axis
        shape = call.add("Shape", call.xs[0])
        parts = call.add("Gather", shape, call.out.ints([a % call.x.rank for a in axes]))
        n = call.add("ReduceProd", parts, keepdims=0)
    return call.cast(n, np.dtype("int64"), call.y.dtype)


@writes("flip")
def flip(call: Call) -> str:
    rank = call.x.rank
    axes = (
        range(rank)
        if call.axis is None
        else [call.axis]
        if isinstance(call.axis, int)
        else call.axis
    )
    axes = [a % rank for a in axes]
    if not axes:
        return call.add("Identity", call.xs[0])
    n = len(axes)
    ints = call.out.ints
    return call.add(
        "Slice", call.xs[0], ints([-1] * n), ints([-FAR] * n), ints(axes), ints([-1] * n)
    )


@writes("strided_slice")
def strided_slice(call: Call) -> str:
    """Slice, then drop the axes of places, then add new ones."""
    starts, ends, axes, steps, dropped, added = [], [], [], [], [], []
    axis = out_axis = 0
    y = call.xs[0]
    for item in call.index:
        if item is None:
            added.append(out_axis)
            out_axis += 1
            continue
        if not isinstance(item, tuple):
            starts.append(item)
            ends.append(item + 1 if item != -1 else FAR)
            axes.append(axis)
            steps.append(1)
            dropped.append(axis)
        else:
            _, start, stop, step = item
            step = 1 if step is None else step
            if step < 0 and _may_begin_before(start, call.x.shape[axis]):
                if isinstance(stop, Dim):
                    raise CannotExport
                # ONNX would begin with the first element; so first cut off what lies behind.
                y = call.add("Slice", y, *(call.out.ints([v]) for v in (0, start + 1, axis)))
                stop = stop if stop is None or stop >= 0 else min(-1, stop - start - 1)
                start = -1
            if (start, stop, step) != (None, None, 1):
                starts.append((0 if step > 0 else FAR) if start is None else start)
                ends.append((FAR if step > 0 else -FAR) if stop is None else stop)
                axes.append(axis)
                steps.append(step)
            out_axis += 1
        axis += 1
    if axes:
        limits = [_vector(call, starts), _vector(call, ends)]
        y = call.add("Slice", y, *limits, call.out.ints(axes), call.out.ints(steps))
    if dropped:
        y = call.add("Squeeze", y, call.out.ints(dropped))
    if added:
        y = call.add("Unsqueeze", y, call.out.ints(added))
    return y if y != call.xs[0] else call.add("Identity", y)


def _may_begin_before(start: Any, d: Any) -> bool:
    """Tell whether a start counted from the end may lie before the first element."""
    return isinstance(start, int) and start < -1 and not (isinstance(d, int) and start >= -d)


def _vector(call: Call, values: list[Any]) -> str:
    if any(isinstance(v, Dim) for v in values):
        return call.out.shape(values)
    return call.out.ints(values)


@writes("concat")
def concat(call: Call) -> str:
    return call.add("Concat", *call.joined(), axis=call.axis)


@writes("stack")
def stack(call: Call) -> str:
    axis = normalize_axis(call.axis, call.y.rank)
    parts = [call.add("Unsqueeze", x, call.out.ints([axis])) for x in call.joined()]
    return call.add("Concat", *parts, axis=axis)


@writes("split", "unstack")
def split(call: Call) -> list[str]:
    axis = normalize_axis(call.axis, call.x.rank)
    alone = call.op.name == "unstack"
    n = len(call.results)
    sizes = [1] * n if alone else [r.shape[axis] for r in call.results]
    if n == 0:
        return []
    names = call.out.add(
        "Split",
        [call.xs[0], call.out.shape(sizes)],
        n=n,
        base=f"{call.name}/split" if alone else call.name,
        axis=axis,
    )
    if alone:
        return [call.add("Squeeze", name, call.out.ints([axis])) for name in names]
    return names


@writes("tile")
def tile(call: Call) -> str:
    reps = (call.reps,) if isinstance(call.reps, int) else call.reps
    x, rank = call.xs[0], max(call.x.rank, len(reps))
    if rank > call.x.rank:
        x = call.add("Unsqueeze", x, call.out.ints(range(rank - call.x.rank)))
    return call.add("Tile", x, call.out.ints([*[1] * (rank - len(reps)), *reps]))


@writes("pad")
def pad(call: Call) -> str:
    widths = call.op.widths(call.x.rank)  # type: ignore[attr-defined]
    if not widths:
        return call.add("Identity", call.xs[0])
    if call.mode == "symmetric" or (call.mode == "wrap" and call.out.opset < 19):
        return spell(call, _gathered_pad)[0]
    pads = call.out.ints([*(a for a, _ in widths), *(b for _, b in widths)])
    value = call.number(call.value) if call.mode == "constant" else ""
    return call.add("Pad", call.xs[0], pads, value, mode=call.mode)


def _gathered_pad(of: Any, x: Tensor) -> Any:
    """Pad with what lies on the other side of an edge, or comes from the other end."""
    for axis, (before, after) in enumerate(of.widths(x.rank)):
        if not before and not after:
            continue
        n = x.shape[axis]
        places = op("arange", start=-before, stop=n + after, step=1, dtype="int64")()
        size = op("full", shape=(), fill_value=n, dtype="int64")()
        if of.mode == "wrap":
            places = op("mod")(places, size)
        else:
            there = op("mod")(places, size * 2)
            places = op("where")(there < size, there, size * 2 - 1 - there)
        x = op("gather", axis=axis)(x, places)
    return x


@writes("roll")
def roll(call: Call) -> str:
    x, rank = call.xs[0], call.x.rank
    if call.axis is None:
        return spell(call, _rolled_flat)[0]
    axes = (call.axis,) if isinstance(call.axis, int) else call.axis
    shifts = (call.shift,) * len(axes) if isinstance(call.shift, int) else call.shift
    if any(isinstance(call.x.shape[axis], Dim) for axis in axes):
        return spell(call, _rolled_by_places)[0]
    ints = call.out.ints
    for axis, shift in zip(axes, shifts, strict=True):
        d = int(call.x.shape[axis])
        if not d or not shift % d:
            continue
        cut, along = ints([d - shift % d]), ints([axis % rank])
        tail = call.add("Slice", x, cut, ints([FAR]), along)
        x = call.add("Concat", tail, call.add("Slice", x, ints([0]), cut, along), axis=axis)
    return x if x != call.xs[0] else call.add("Identity", x)


def _rolled_flat(of: Any, x: Tensor) -> Any:
    return op("reshape_like")(of.replace(axis=0)(x.reshape(-1)), x)


def _rolled_by_places(of: Any, x: Tensor) -> Any:
    axes = (of.axis,) if isinstance(of.axis, int) else of.axis
    shifts = (of.shift,) * len(axes) if isinstance(of.shift, int) else of.shift
    for axis, shift in zip(axes, shifts, strict=True):
        n = x.shape[axis]
        numbers = op("arange", start=0, stop=n, step=1, dtype="int64")()
        size = op("full", shape=(), fill_value=n, dtype="int64")()
        x = op("gather", axis=axis)(x, op("mod")(numbers - shift, size))
    return x


@writes("full")
def full(call: Call) -> str:
    """Fill a shape that is an input, or copy the value into one that is known."""
    if isinstance(call.fill_value, Dim):
        size = call.add("Squeeze", call.out.dim(call.fill_value))
        size = call.cast(size, np.dtype("int64"), call.y.dtype)
        shape = call.xs[0] if call.xs and call.xs[0] else call.out.shape(call.y.shape)
        return call.add("Expand", size, shape)
    fill = np.asarray(call.fill_value).astype(call.y.dtype)
    if call.xs and call.xs[0]:
        value = to_tensor(fill.reshape(1), "value")
        return call.add("ConstantOfShape", call.xs[0], value=value)
    return call.add("Expand", call.out.constant(fill), call.out.shape(call.y.shape))


@writes(
    "arange",
    "linspace",
    "eye",
    "tri",
    "hann_window",
    "hamming_window",
    "blackman_window",
    "mel_weight_matrix",
    "mel_filterbank",
    "chroma_filterbank",
    "dct_matrix",
    "lanczos_kernel",
)
def constant(call: Call) -> str:
    """Store what depends on nothing; a range up to a symbol is counted when run."""
    if call.y.is_concrete and math.prod(map(int, call.y.shape)) <= 1 << 20:
        return call.out.store(np.asarray(call.op.forward()), call.name)
    if call.op.name != "arange":
        raise CannotExport
    given = (*call.op.bounds(), call.step)  # type: ignore[attr-defined]
    whole = not any(isinstance(v, float) for v in given)
    d = INT64 if whole else np.dtype("float64" if call.y.dtype.itemsize > 4 else "float32")

    def number(v: Any) -> str:
        if isinstance(v, Dim):
            return call.cast(call.add("Squeeze", call.out.dim(v)), INT64, d)
        return call.out.constant(v, d)

    return call.cast(call.add("Range", *map(number, given)), d, call.y.dtype)


@writes("tril", "triu")
def triangle(call: Call) -> str:
    if call.out.opset < 14:
        return spell(call, _masked_triangle)[0]
    k = call.out.constant(np.int64(call.k))
    return call.add("Trilu", call.xs[0], k, upper=int(call.op.name == "triu"))


def _masked_triangle(of: Any, x: Tensor) -> Any:
    rows, columns = (op("arange", start=n, dtype="int64")() for n in x.shape[-2:])
    right = columns - op("expand_dims", axis=-1)(rows)
    kept = right >= of.k if of.name == "triu" else right <= of.k
    return op("where")(kept, x, op("zeros_like")(x))


@writes("rank")
def rank(call: Call) -> str:
    return call.out.constant(np.int64(call.x.rank))


@writes("size_at")
def size_at(call: Call) -> str:
    axis = call.out.constant(np.int64(call.axis % call.x.rank))
    return call.add("Gather", call.add("Shape", call.xs[0]), axis)

"""What attention is made of: turned features, and masks of what is seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.attention.rotary import frequencies
from ..node import writes
from ..output import Call
from ..versions import CannotExport

INT64 = np.dtype("int64")


@writes("rotate_pairs")
def rotate_pairs(call: Call) -> str:
    """Write x₁·cos − x₂·sin and x₁·sin + x₂·cos, put together as they were."""
    rank, features = call.x.rank, call.x.shape[-1]
    if not isinstance(features, int) or call.y.dtype.itemsize < 4:
        raise CannotExport
    x, cos, sin = call.joined()
    add, ints, last = call.add, call.out.ints, rank - 1
    if call.interleaved:
        cut: list[Any] = [([i], [features], [2]) for i in (0, 1)]
    else:
        cut = [([i * features // 2], [(i + 1) * features // 2], [1]) for i in (0, 1)]
    a, b = (add("Slice", x, ints(i), ints(j), ints([last]), ints(k)) for i, j, k in cut)
    first = add("Sub", add("Mul", a, cos), add("Mul", b, sin))
    second = add("Add", add("Mul", a, sin), add("Mul", b, cos))
    if not call.interleaved:
        return add("Concat", first, second, axis=last)
    parts = [add("Unsqueeze", part, ints([rank])) for part in (first, second)]
    return add("Reshape", add("Concat", *parts, axis=rank), add("Shape", x), allowzero=1)


@writes("visible_keys")
def visible_keys(call: Call) -> str:
    """Compare positions of queries and keys, which are ranges of the sizes of the scores."""
    add, ints, constant = call.add, call.out.ints, call.out.constant
    sizes = [add("Squeeze", call.out.dim(d)) for d in call.x.shape[-2:]]
    zero, one = constant(np.int64(0)), constant(np.int64(1))
    i = add("Unsqueeze", add("Range", zero, sizes[0], one), ints([1]))
    j = add("Range", zero, sizes[1], one)
    length = call.specs[1] if len(call.specs) > 1 else None
    ends, offset = "", add("Squeeze", call.out.dim(call.offset))
    if length is not None:
        ends = call.cast(call.xs[1], length.dtype, INT64)
        ends = add("Reshape", ends, ints([-1, 1, 1, 1])) if length.rank else ends
        offset = add("Sub", ends, sizes[0])
    back = add("Sub", add("Add", i, offset), j)
    seen = add("Less", j, ends) if ends else add("Equal", back, back)
    right = 0 if call.is_causal else call.right_window_size
    if right >= 0:
        seen = add("And", seen, add("GreaterOrEqual", back, constant(np.int64(-right))))
    if call.left_window_size >= 0:
        limit = constant(np.int64(call.left_window_size))
        seen = add("And", seen, add("LessOrEqual", back, limit))
    return add("And", seen, add("Equal", back, back))  # in the shape of both


@writes("masked_softmax")
def masked_softmax(call: Call) -> str:
    """Write a softmax over what is seen, which is 0 where nothing is."""
    add, given = call.add, call.x.dtype
    work = given if given.itemsize >= 4 or call.rounded else np.dtype("float32")
    zero, one, lowest = (call.out.constant(np.asarray(v).astype(work)) for v in (0, 1, -np.inf))
    last = call.out.ints([-1])
    x = call.cast(call.xs[0], given, work)
    if len(call.xs) > 1 and call.xs[1]:
        x = add("Where", call.xs[1], x, lowest)
    top = add("ReduceMax", x, last, keepdims=1)
    top = add("Where", add("Equal", top, lowest), zero, top)
    weights = add("Exp", add("Sub", x, top))
    total = add("ReduceSum", weights, last, keepdims=1)
    total = add("Where", add("Equal", total, zero), one, total)
    return call.cast(add("Div", weights, total), work, given)


@writes("rope_cos_sin")
def rope_cos_sin(call: Call) -> list[str]:
    """Write the angles in float64, as they are computed here, then cosine and sine."""
    add, wide, ids = call.add, np.dtype("float64"), call.x
    speeds = call.out.constant(frequencies(call.op, call.dim, call.base), wide)
    size, _ = call.op.table(np.zeros((), np.int64), call.dim, call.base)  # type: ignore[attr-defined]
    places = add("Unsqueeze", call.cast(call.xs[0], ids.dtype, wide), call.out.ints([ids.rank]))
    angles = add("Mul", places, speeds)
    made = [add("Mul", add(name, angles), call.out.constant(size, wide)) for name in ("Cos", "Sin")]
    return [call.cast(part, wide, call.y.dtype) for part in made]

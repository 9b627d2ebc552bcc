"""Gradients of ops that move, cut and gather elements: what was taken is put back into zeros."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....graph import Tensor
from ....ops.core.slicing import ALL
from ....spec import AnyDim, Dim, normalize_axis
from ..node import op, writes
from ..nodes import spelled
from ..output import Call, to_tensor


@writes("iota_like")
def iota_like(call: Call) -> str:
    """Count ones up: unlike a Range, that has an input whose size decides."""
    size = call.add("Unsqueeze", call.add("Size", call.xs[0]), call.out.ints([0]))
    ones = call.add("ConstantOfShape", size, value=to_tensor(np.ones(1, np.int64), "value"))
    numbers = call.add("CumSum", ones, call.out.constant(np.int64(0)), exclusive=1)
    return call.add("Reshape", numbers, call.add("Shape", call.xs[0]), allowzero=1)


@spelled("strided_slice_grad")
def strided_slice_grad(of: Any, g: Tensor, x: Tensor) -> Any:
    """Pad what a slice without steps has taken; put anything else into zeros."""
    widths = _cut_away(of.index, x.shape)
    if widths is None:
        return _put(op("cast", dtype=g.dtype)(op("zeros_like")(x)), of.index, g)
    kept = [item for item in of.index if item is None or isinstance(item, tuple)]
    places = [axis for axis, item in enumerate(kept) if item is None]
    y = op("squeeze", axis=tuple(places))(g) if places else g
    dropped = [i for i in of.index if i is not None]
    axes = tuple(axis for axis, item in enumerate(dropped) if not isinstance(item, tuple))
    y = op("expand_dims", axis=axes)(y) if axes else y
    return op("pad", pad_width=tuple(widths))(y) if any(map(any, widths)) else y


def _cut_away(index: Sequence[Any], shape: Sequence[AnyDim]) -> list[tuple[int, int]] | None:
    """Return how much lies before and after a slice on each axis; None where a run decides."""
    widths = []
    items = [i for i in index if i is not None]
    for item, d in zip([*items, *[ALL] * (len(shape) - len(items))], shape, strict=True):
        if item == ALL:
            widths.append((0, 0))
            continue
        bounds = item[1:] if isinstance(item, tuple) else (item, None, None)
        if isinstance(d, Dim) or any(isinstance(b, Dim) for b in bounds):
            return None
        if not isinstance(item, tuple):
            at = item % d
            widths.append((at, d - at - 1))
            continue
        start, stop, step = slice(*bounds).indices(d)
        if step != 1:
            return None
        widths.append((start, d - max(start, stop)))
    return widths


@spelled("put_slice")
def put_slice(of: Any, x: Tensor, value: Tensor) -> Any:
    return _put(x, of.index, value)


def _put(x: Tensor, index: Any, value: Tensor) -> Any:
    """Write a value at the places of a slice."""
    at = op("strided_slice", index=index)(op("iota_like")(x)).reshape(-1, 1)
    flat = op("scatter_nd_update")(x.reshape(-1), at, value.reshape(-1))
    return op("reshape_like")(flat, x)


def zeros_of(g: Tensor, x: Tensor) -> Any:
    """Return zeros of the shape of ``x`` and the dtype of ``g``."""
    zeros = op("zeros_like")(x)
    return zeros if x.dtype == g.dtype else op("cast", dtype=g.dtype)(zeros)


@spelled("gather_grad")
def gather_grad(of: Any, g: Tensor, indices: Tensor, x: Tensor) -> Any:
    axis, n = normalize_axis(of.axis, x.rank), indices.rank
    order = (*range(axis, axis + n), *range(axis), *range(axis + n, g.rank))
    first = (axis, *(i for i in range(x.rank) if i != axis))
    rows = op("transpose", axes=order)(g) if g.rank else g
    zeros = op("transpose", axes=first)(zeros_of(g, x))
    at = op("expand_dims", axis=-1)(indices)
    summed = op("scatter_nd_add")(zeros, at, rows)
    return op("transpose", axes=(*range(1, axis + 1), 0, *range(axis + 1, x.rank)))(summed)


@spelled("gather_nd_grad")
def gather_nd_grad(of: Any, g: Tensor, indices: Tensor, x: Tensor) -> Any:
    return op("scatter_nd_add")(zeros_of(g, x), indices, g)


@spelled("take_along_axis_grad")
def take_along_axis_grad(of: Any, g: Tensor, indices: Tensor, x: Tensor) -> Any:
    """Add up in zeros as wide as what was taken, then over the axes that were broadcast."""
    axis = normalize_axis(of.axis, x.rank)
    if of.corner:
        return op("scatter_add", axis=axis, corner=True)(zeros_of(g, x), indices, g)
    wide = [1 if a == 1 and i != axis else None for i, a in enumerate(x.shape)]
    zeros = zeros_of(g, x)
    if 1 in wide:
        shape = [b if one else a for one, a, b in zip(wide, x.shape, g.shape, strict=True)]
        zeros = op("broadcast_to", shape=tuple(shape))(zeros)
    summed = op("scatter_add", axis=axis)(zeros, as_wide(indices, g.shape), g)
    return op("sum_like")(summed, x) if 1 in wide else summed


def as_wide(indices: Tensor, shape: Sequence[AnyDim]) -> Any:
    """Return indices repeated along the axes on which they have one place for all."""
    same = not any(a == 1 != b for a, b in zip(indices.shape, shape, strict=True))
    return indices if same else op("broadcast_to", shape=tuple(shape))(indices)


@spelled("boolean_mask_grad")
def boolean_mask_grad(of: Any, g: Tensor, mask: Tensor, x: Tensor) -> Any:
    """Write at the places where the mask holds; its axes go first."""
    start, n = normalize_axis(of.axis, x.rank), mask.rank
    order = (*range(start, start + n), *range(start), *range(start + n, x.rank))
    back = tuple(order.index(i) for i in range(x.rank))
    rows = (start, *(i for i in range(g.rank) if i != start))
    found = op("nonzero")(mask)
    at = op("stack", axis=-1)(*(found if isinstance(found, tuple) else (found,)))
    zeros = op("transpose", axes=order)(zeros_of(g, x))
    y = op("scatter_nd_update")(zeros, at, op("transpose", axes=rows)(g))
    return op("transpose", axes=back)(y)


@spelled("pad_grad")
def pad_grad(of: Any, g: Tensor) -> Any:
    """Cut constant padding off; what was copied into other padding is added up at its source."""
    for axis, (before, after) in enumerate(of.pad_width):
        if not before and not after:
            continue
        kept = ("slice", before or None, -after or None, None)
        inner = op("strided_slice", index=(*[ALL] * axis, kept))(g)
        if of.mode != "constant":
            numbers = op("arange", start=0, stop=inner.shape[axis], step=1, dtype="int64")()
            source = op("pad", pad_width=((before, after),), mode=of.mode)(numbers)
            inner = op("gather_grad", axis=axis)(g, source, inner)
        g = inner
    return g


@spelled("tile_grad")
def tile_grad(of: Any, g: Tensor, x: Tensor) -> Any:
    sizes = (*(1,) * (g.rank - x.rank), *x.shape)
    pairs = tuple(d for pair in zip(of.reps, sizes, strict=True) for d in pair)
    repeats = op("reshape", shape=pairs)(g)
    return op("reshape_like")(op("sum", axis=tuple(range(0, 2 * g.rank, 2)))(repeats), x)


@writes("split_like")
def split_like(call: Call) -> list[str]:
    axis = normalize_axis(call.axis, call.x.rank)
    sizes = call.out.shape([r.shape[axis] for r in call.results])
    return call.out.add("Split", [call.xs[0], sizes], n=call.n, base=call.name, axis=axis)


@spelled("shift")
def shift(of: Any, x: Tensor) -> Any:
    axis = normalize_axis(of.axis, x.rank)
    if x.shape[axis] == 0:
        return op("identity")(x)
    kept = ("slice", 1, None, None) if of.back else ("slice", None, -1, None)
    inner = op("strided_slice", index=(*[ALL] * axis, kept))(x)
    widths = [(0, 0)] * x.rank
    widths[axis] = (0, 1) if of.back else (1, 0)
    return op("pad", pad_width=tuple(widths))(inner)


@spelled("cut_or_pad_like")
def cut_or_pad_like(of: Any, x: Tensor, like: Tensor) -> Any:
    axis = normalize_axis(of.axis, x.rank)
    n, m = x.shape[axis], like.shape[axis]
    if n == m:
        return op("identity")(x)
    if isinstance(n, Dim) or isinstance(m, Dim) or n < m:
        shape = (*x.shape[:axis], m, *x.shape[axis + 1 :])
        x = op("concat", axis=axis)(x, op("full", shape=shape, fill_value=0, dtype=x.dtype)())
    return op("strided_slice", index=(*[ALL] * axis, ("slice", None, m, None)))(x)


@spelled("diag")
def diag(of: Any, x: Tensor) -> Any:
    """Take a diagonal of flat matrices, or put a vector on one."""
    if x.rank == 1:
        n = x.shape[0] + abs(of.k)
        zeros = op("full", shape=(n, n), fill_value=0, dtype=x.dtype)()
        return op("diag_grad", k=of.k)(x, zeros)
    rows, columns = x.shape[-2:]
    flat = op("reshape", shape=(*x.shape[:-2], rows * columns))(x)
    places = _diagonal(of.k, columns, of.infer(x.spec).shape[-1])
    return op("gather", axis=-1)(flat, places)


@spelled("diag_grad")
def diag_grad(of: Any, g: Tensor, x: Tensor) -> Any:
    rows, columns = x.shape[-2:]
    flat = op("reshape", shape=(*x.shape[:-2], rows * columns))(zeros_of(g, x))
    return op("reshape_like")(
        op("gather_grad", axis=-1)(g, _diagonal(of.k, columns, g.shape[-1]), flat), x
    )


@spelled("set_diag")
def set_diag(of: Any, x: Tensor, diagonal: Tensor) -> Any:
    """Choose between the matrix and the diagonal in its place."""
    y = op("cast", dtype=of.infer(x.spec, diagonal.spec).dtype)(x)
    there = op("ones_like")(op("cast", dtype="int32")(op("zeros_like")(diagonal)))
    put, chosen = op("diag_grad", k=of.k), op("cast", dtype="bool")
    return op("where")(chosen(put(there, x)), put(diagonal, x), y)


def _diagonal(k: int, columns: AnyDim, n: AnyDim) -> Any:
    """Return where the elements of a diagonal are in a flat matrix."""
    numbers = op("arange", start=0, stop=n, step=1, dtype="int64")()
    size = columns if isinstance(columns, int) else op("full", shape=(), fill_value=columns)()
    first = max(-k, 0)
    return (numbers + first) * size + (numbers + max(k, 0))


@spelled("softmax_minus_one_hot")
def softmax_minus_one_hot(of: Any, labels: Tensor, logits: Tensor) -> Any:
    index = op("class_numbers", ignore_index=of.ignore_index)(labels, logits)
    depth = logits.shape[-1]
    y = op("softmax")(logits) - op("one_hot", depth=depth, dtype=logits.dtype)(index)
    if of.ignore_index is None:
        return y
    kept = op("expand_dims", axis=-1)(op("not_equal")(labels, of.ignore_index))
    return op("where")(kept, y, 0.0)

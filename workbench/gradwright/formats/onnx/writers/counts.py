"""Counts, sets and places whose number only a run knows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import Tensor
from ....ops.core.slicing import ALL
from ....spec import AnyDim, normalize_axis
from ..by_rule import write_by_rule
from ..node import cast, op, writes
from ..nodes import spell, spelled
from ..output import Call
from ..versions import CannotExport


def size_of(d: AnyDim) -> Any:
    """Return a size as a number: i64[]."""
    return op("full", shape=(), fill_value=d, dtype="int64")()


def numbers(n: Any) -> Any:
    """Return 0, 1, … n − 1 for a number that may be a tensor."""
    if not isinstance(n, Tensor):
        return op("arange", start=n, dtype="int64")()
    return op("iota_like")(_filled_with(0, "int64", n))


def _filled_with(value: Any, dtype: Any, *sizes: Any) -> Any:
    """Return a tensor of one number whose sizes are tensors."""
    parts = [op("expand_dims", axis=0)(s if isinstance(s, Tensor) else size_of(s)) for s in sizes]
    shape = op("concat", axis=0)(*parts) if len(parts) > 1 else parts[0]
    return op("full", fill_value=value, dtype=dtype)(shape)


def _largest(x: Tensor, least: int = -1) -> Any:
    """Return the largest of some integers, ``least`` where there are none."""
    first = op("full", shape=(1,), fill_value=least, dtype="int64")()
    return op("max")(op("concat", axis=0)(first, cast(x, "int64").reshape(-1)))


def _summed(places: Tensor, weights: Tensor | None, n: Any) -> Any:
    """Return what is added up at each of n places."""
    ones = op("ones_like")(places)
    weights = ones if weights is None else weights
    zeros = _filled_with(0, weights.dtype, n)
    return op("scatter_nd_add")(zeros, op("expand_dims", axis=-1)(places), weights)


@spelled("bincount")
def bincount(of: Any, x: Tensor, weights: Tensor | None = None) -> Any:
    return _summed(cast(x, "int64"), weights, _largest(x, of.minlength - 1) + 1)


@spelled("histogram")
def histogram(of: Any, x: Tensor) -> Any:
    """Count in float64, as numpy does; what lies outside goes to one more bin, which is cut off."""
    flat = cast(x, "float64").reshape(-1)
    if of.range is None:
        if 0 in x.shape:
            raise CannotExport
        low, high = op("min")(flat), op("max")(flat)
        same = low == high
        low, high = op("where")(same, low - 0.5, low), op("where")(same, high + 0.5, high)
    else:
        low, high = (op("full", shape=(), fill_value=v, dtype="float64")() for v in of.range)
    number = cast(numbers(of.bins + 1), "float64")
    edges = op("where")(number == of.bins, high, low + number * ((high - low) / of.bins))
    bins = op("searchsorted", side="right")(edges, flat) - 1
    bins = op("where")(flat == high, of.bins - 1, bins)
    bins = op("where")((flat < low) | (flat > high), of.bins, bins)
    return _summed(bins, None, of.bins + 1)[: of.bins], cast(edges, x.dtype)


@spelled("confusion_matrix")
def confusion_matrix(
    of: Any, labels: Tensor, predictions: Tensor, weights: Tensor | None = None
) -> Any:
    a, b = cast(labels, "int64"), cast(predictions, "int64")
    if of.num_classes is None:
        n = _largest(op("concat", axis=0)(a, b)) + 1
    else:
        n = size_of(of.num_classes)
    counts = _summed(a * n + b, weights, n * n)
    shape = op("stack", axis=0)(n, n)
    dtype = of.dtype or (np.dtype("int64") if weights is None else weights.dtype)
    return op("cast", dtype=dtype)(op("reshape", shape=None)(counts, shape))


@spelled("sequence_mask")
def sequence_mask(of: Any, lengths: Tensor) -> Any:
    n = _largest(lengths, 0) if of.maxlen is None else of.maxlen
    ends = op("expand_dims", axis=-1)(cast(lengths, "int64"))
    return cast(numbers(n) < ends, of.dtype)


@writes("reverse_sequence")
def reverse_sequence(call: Call) -> list[str]:
    """Write by rule for the first two axes, which are ONNX's; others go there and back."""
    axes = [normalize_axis(a, call.x.rank) for a in (call.seq_axis, call.batch_axis)]
    lengths = call.specs[1]
    assert lengths is not None
    if set(axes) == {0, 1} and lengths.dtype == np.dtype("int64"):
        return write_by_rule(call.with_op(call.op.replace(seq_axis=axes[0], batch_axis=axes[1])))
    return spell(call, _reversed)


def _reversed(of: Any, x: Tensor, lengths: Tensor) -> Any:
    axes = [normalize_axis(a, x.rank) for a in (of.batch_axis, of.seq_axis)]
    order = (*axes, *(i for i in range(x.rank) if i not in axes))
    y = of.replace(seq_axis=1, batch_axis=0)(op("transpose", axes=order)(x), cast(lengths, "int64"))
    return op("transpose", axes=tuple(order.index(i) for i in range(x.rank)))(y)


@writes("is_numeric_tensor")
def is_numeric_tensor(call: Call) -> str:
    return call.out.constant(np.bool_(call.x.dtype != np.dtype(bool)))


@spelled("dynamic_stitch")
def dynamic_stitch(of: Any, *parts: Tensor) -> Any:
    """Write one part after the other into zeros."""
    n = len(parts) // 2
    places = [cast(i, "int64").reshape(-1, 1) for i in parts[:n]]
    rest = parts[n].shape[parts[0].rank :]
    joint = of.infer(*(p.spec for p in parts)).dtype
    size = _largest(op("concat", axis=0)(*places)) + 1
    y = _filled_with(0, joint, size, *rest)
    for at, i, x in zip(places, parts[:n], parts[n:], strict=True):
        rows = op("reshape", shape=(_product(i.shape), *rest))(op("cast", dtype=joint)(x))
        y = op("scatter_nd_update")(y, at, rows)
    return y


def _product(shape: Any) -> Any:
    total: Any = 1
    for d in shape:
        total = total * d
    return total


@spelled("list_diff")
def list_diff(of: Any, x: Tensor, other: Tensor) -> Any:
    same = cast(x[:, None] == other, "int64")
    kept = op("sum", axis=1)(same) == 0
    places = op("boolean_mask", axis=0)(numbers(x.shape[0]), kept)
    return op("gather", axis=0)(x, places), places


@spelled("searchsorted")
def searchsorted(of: Any, a: Tensor, values: Tensor) -> Any:
    """Count the elements below each value."""
    wide = op("expand_dims", axis=-1)(values)
    below = a < wide if of.side == "left" else a <= wide
    return op("sum", axis=-1)(cast(below, "int64"))


@spelled("unravel_index")
def unravel_index(of: Any, indices: Tensor) -> Any:
    rest, found = cast(indices, "int64"), []
    for d in reversed(of.shape):
        n = d if isinstance(d, int) else size_of(d)
        if d == 0:
            raise CannotExport
        found.append(op("mod")(rest, n))
        rest = op("floor_div")(rest, n)
    return tuple(reversed(found))


@spelled("repeat")
def repeat(of: Any, x: Tensor, repeats: Tensor | None = None) -> Any:
    """Repeat all equally by tiles; each as often as stated by its places."""
    x = x.reshape(-1) if of.axis is None else x
    axis = normalize_axis(of.axis or 0, x.rank)
    n = x.shape[axis]
    if repeats is None and isinstance(of.repeats, int):
        lead, rest = x.shape[: axis + 1], x.shape[axis + 1 :]
        tall = op("expand_dims", axis=axis + 1)(x)
        wide = op("broadcast_to", shape=(*lead, of.repeats, *rest))(tall)
        return op("reshape", shape=(*lead[:-1], n * of.repeats, *rest))(wide)
    if repeats is None:
        places: Any = np.repeat(np.arange(len(of.repeats)), of.repeats)
        return op("gather", axis=axis)(x, places)
    each = op("broadcast_to", shape=(n,))(cast(repeats, "int64"))
    ends = op("cumsum", axis=0)(each)
    at = op("searchsorted", side="right")(ends, numbers(op("sum")(each)))
    return op("gather", axis=axis)(x, at)


@spelled("invert_permutation")
def invert_permutation(of: Any, x: Tensor) -> Any:
    numbers_ = op("iota_like")(x)
    zeros = op("zeros_like")(numbers_)
    at = op("expand_dims", axis=-1)(cast(x, "int64"))
    return cast(op("scatter_nd_update")(zeros, at, numbers_), x.dtype)


@writes("unique")
def unique(call: Call) -> list[str]:
    """Write by rule where ONNX's inverse, a vector, is ours, in the shape of the input."""
    if call.axis is None and call.x.rank != 1:
        return spell(call, _unique_of_flat)
    return write_by_rule(call)


def _unique_of_flat(of: Any, x: Tensor) -> Any:
    values, places, inverse, counts = of(x.reshape(-1))
    return values, places, op("reshape", shape=x.shape)(inverse), counts


@spelled("meshgrid")
def meshgrid(of: Any, *xs: Tensor) -> Any:
    n, order = len(xs), of.order(len(xs))
    found: list[Any] = [None] * n
    shape: list[Any] = [1] * n
    for x, axis in zip(xs, order, strict=True):
        shape[axis] = x.shape[0] if x.rank else 1
    for i, (x, axis) in enumerate(zip(xs, order, strict=True)):
        wide = op("reshape", shape=tuple(-1 if j == axis else 1 for j in range(n)))(x)
        found[i] = op("broadcast_to", shape=tuple(shape))(wide)
    return tuple(found)


@spelled("cross")
def cross(of: Any, a: Tensor, b: Tensor) -> Any:
    def component(x: Tensor, i: int) -> Any:
        axis = normalize_axis(of.axis, x.rank)
        return op("strided_slice", index=(*[ALL] * axis, i))(x)

    pairs = ((1, 2), (2, 0), (0, 1))
    parts = [
        component(a, j) * component(b, k) - component(a, k) * component(b, j) for j, k in pairs
    ]
    return op("stack", axis=of.axis)(*parts)


@spelled("band_part")
def band_part(of: Any, x: Tensor) -> Any:
    y = x if of.lower < 0 else op("triu", k=-of.lower)(x)
    y = y if of.upper < 0 else op("tril", k=of.upper)(y)
    return op("identity")(y)

"""Windows by their places: chosen elements, columns, and what gradients give back to images.

A table of places says which elements of a flat, padded image each window sees. Where sizes are
known it is stored, else it is counted when run.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....graph import Tensor
from ....ops.convolutions.pooling import first_inside
from ....ops.convolutions.windows import Windows, per_axis
from ....ops.core.slicing import ALL
from ....spec import AnyDim, Dim, kind
from ..by_rule import padding, write_by_rule
from ..node import cast, op, writes
from ..nodes import spell, spelled
from ..output import Call
from ..versions import CannotExport

Pads = Sequence[tuple[int, int]]


def pads_of(windows: Windows, size: Sequence[AnyDim]) -> Pads:
    """Return the padding before and after; CannotExport where only a run tells it."""
    known = [d for d in size if isinstance(d, int)]
    if len(known) == len(size):
        return windows.pads(known)
    if windows.ceil or not all(isinstance(r, int) for r in windows.reach):
        raise CannotExport
    if isinstance(windows.padding, str):
        if set(windows.stride) != {1}:
            raise CannotExport
        lower = windows.padding == "same_lower"
        wide = [int(r) - 1 for r in windows.reach]
        return [(w - w // 2, w // 2) if lower else (w // 2, w - w // 2) for w in wide]
    if any(isinstance(p, Dim) for pair in windows.padding for p in pair):
        raise CannotExport
    return [(int(a), int(b)) for a, b in windows.padding]


def edged(x: Tensor, pads: Pads, fill: float = 0) -> Any:
    """Return images with their padding; what is below zero is cut off."""
    cuts = [("slice", max(-a, 0) or None, -max(-b, 0) or None, None) for a, b in pads]
    if any(cut != ALL for cut in cuts):
        x = op("strided_slice", index=(ALL, ALL, *cuts))(x)
    widths = ((0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in pads))
    return op("pad", pad_width=widths, value=fill)(x) if any(map(any, widths)) else x


def _numbers(n: AnyDim) -> Any:
    """Return 0, 1, … n − 1, as an array where n is known."""
    return np.arange(n) if isinstance(n, int) else op("arange", start=n, dtype="int64")()


def _size(n: AnyDim) -> Any:
    if isinstance(n, int):
        return n
    return op("full", shape=(), fill_value=n, dtype="int64")()


def table(windows: Windows, size: Sequence[AnyDim], n_out: Sequence[AnyDim]) -> Any:
    """Return the places of the elements of each window in flat images of a size: i64[*n_out, k]."""
    n, place = len(size), None
    for i, (m, k, s, d) in enumerate(
        zip(n_out, windows.kernel, windows.stride, windows.dilation, strict=True)
    ):
        at = _numbers(m)[:, None] * s + np.arange(int(k)) * d
        if place is None:
            place = at
            continue
        place, at = place[..., None, None], at[(None, None) * i]
        known = isinstance(place, np.ndarray) and isinstance(size[i], int)
        place = place * size[i] if known else op("mul")(place, _size(size[i]))
        both = isinstance(place, np.ndarray) and isinstance(at, np.ndarray)
        place = place + at if both else op("add")(place, at)
    order = (*range(0, 2 * n, 2), *range(1, 2 * n, 2))
    shape = (*n_out, windows.n_taps)
    if isinstance(place, Tensor):
        return op("reshape", shape=shape)(op("transpose", axes=order)(place))
    return np.asarray(place).transpose(order).reshape(shape)


class _Seen:
    """Windows over images ``f[N, C, *size]``, and what they see."""

    def __init__(self, windows: Windows, size: Sequence[AnyDim], n_out: Sequence[AnyDim]) -> None:
        self.windows, self.size, self.n_out = windows, tuple(size), tuple(n_out)
        self.pads = pads_of(windows, size)
        self.padded = tuple(n + a + b for n, (a, b) in zip(size, self.pads, strict=True))
        self.table = table(windows, self.padded, n_out)

    def flat(self, x: Tensor, fill: float = 0) -> Any:
        """Return images with their padding, as vectors."""
        shape = (*x.shape[:2], math.prod(self.padded))
        return op("reshape", shape=shape)(edged(x, self.pads, fill))

    def views(self, x: Tensor, fill: float = 0) -> Any:
        """Return what each window sees: f[N, C, *n_out, k]."""
        return op("gather", axis=2)(self.flat(x, fill), self.table)

    def places(self, tap: Tensor) -> Any:
        """Return where the chosen element of each window is in a flat image: i64[N, C, windows]."""
        n, k = math.prod(self.n_out), self.windows.n_taps
        first = op("mul")(_numbers(n), k)
        chosen = op("reshape", shape=(*tap.shape[:2], n))(cast(tap, "int64")) + first
        return op("gather", axis=0)(_reshaped(self.table, (n * k,)), chosen)

    def back(self, flat: Tensor, lead: Sequence[AnyDim]) -> Any:
        """Return flat images in their shape, without padding."""
        wide = op("reshape", shape=(*lead, *self.padded))(flat)
        return edged(wide, [(-a, -b) for a, b in self.pads])

    def add_up(self, places: Any, g: Tensor, lead: Sequence[AnyDim]) -> Any:
        """Return images in which ``g``, f[N, C, n], is added up at places."""
        shape = (*lead, math.prod(self.padded))
        zeros = op("full", shape=shape, fill_value=0, dtype=g.dtype)()
        return self.back(op("scatter_add", axis=2)(zeros, places, g), lead)


def _reshaped(table: Any, shape: Sequence[AnyDim]) -> Any:
    if isinstance(table, Tensor):
        return op("reshape", shape=tuple(shape))(table)
    return table.reshape(tuple(map(int, shape)))


def seen_by(of: Any, x: Tensor) -> _Seen:
    """Return how the windows of a pooling see images."""
    windows = of.windows(x.rank - 2)
    return _Seen(windows, x.shape[2:], windows.n_out(x.shape[2:]))


# -- largest elements ------------------------------------------------------------------------------


def _largest(of: Any, x: Tensor) -> tuple[Any, Any, _Seen]:
    """Return the largest element of each window, its number there, and the windows."""
    seen = seen_by(of, x)
    low = -np.inf if kind(x.dtype) == "f" else np.iinfo(x.dtype).min
    views = seen.views(x, low)
    top = op("max", axis=-1, keepdims=True)(views)
    wins = op("equal")(views, top)
    size = [n for n in seen.size if isinstance(n, int)]
    if len(size) == len(seen.size):  # padding would win where all is −∞
        inside = np.arange(seen.windows.n_taps) >= first_inside(seen.windows, size)[..., None]
        wins = op("logical_and")(wins, inside)
    tap = op("argmax", axis=-1)(cast(wins, "int32"))
    return op("squeeze", axis=-1)(top), tap, seen


def largest_only(of: Any, x: Tensor) -> Any:
    return _largest(of, x)[0]


def _taps(of: Any, x: Tensor) -> Any:
    return cast(_largest(of, x)[1], of.infer(x.spec)[-1].dtype)


def with_taps(call: Call, made: list[str]) -> list[str]:
    """Add the numbers of the largest elements to what a pooling gives, if a gradient reads them."""
    n = len(call.results) - 1
    if not call.wanted[n]:
        return made
    only = dataclasses.replace(call, results=call.results[n:], name=f"{call.name}/taps")
    return [*made[:n], *spell(only, _taps)]


@spelled("tap")
def tap(of: Any, x: Tensor, taps: Tensor) -> Any:
    seen = seen_by(of, x)
    found = op("take_along_axis", axis=2)(seen.flat(x), seen.places(taps))
    return op("reshape_like")(found, taps)


@spelled("untap")
def untap(of: Any, g: Tensor, taps: Tensor, x: Tensor) -> Any:
    seen = seen_by(of, x)
    flat = op("reshape", shape=(*g.shape[:2], math.prod(seen.n_out)))(g)
    return seen.add_up(seen.places(taps), flat, x.shape[:2])


def max_pool_places(of: Any, x: Tensor) -> Any:
    """Return largest elements, and where they are in the whole tensor."""
    top, tap, seen = _largest(of, x)
    place = op("reshape_like")(seen.places(tap), tap)
    coordinates, steps = [], seen.size
    for n, (before, _) in zip(reversed(seen.padded), reversed(seen.pads), strict=True):
        coordinates.append(op("mod")(place, _size(n)) - before)
        place = op("floor_div")(place, _size(n))
    if of.column_major:
        steps = steps[::-1]
    else:
        coordinates.reverse()
    images = op("reshape", shape=(*x.shape[:2], *(1,) * len(steps)))(
        op("arange", start=x.shape[0] * x.shape[1], dtype="int64")()
    )
    for m, at in zip(steps, coordinates, strict=True):
        images = images * _size(m) + at
    return top, images, cast(tap, of.infer(x.spec)[-1].dtype)


@spelled("max_unpool")
def max_unpool(of: Any, x: Tensor, indices: Tensor) -> Any:
    """Put elements at their places; which of several stays there, only gradients ask."""
    lead, size = x.shape[:2], of.size(x.shape[2:])
    n, m = math.prod(size), math.prod(x.shape[2:])
    within = op("mod")(cast(indices, "int64"), _size(n))
    at, flat = (op("reshape", shape=(*lead, m))(t) for t in (within, x))
    zeros = op("full", shape=(*lead, n), fill_value=0, dtype=x.dtype)()
    y = op("scatter_update", axis=2)(zeros, at, flat)
    number = op("broadcast_to", shape=(*lead, m))(op("arange", start=m, dtype="int64")())
    none = op("full", shape=(*lead, n), fill_value=-1, dtype="int64")()
    last = op("scatter_max", axis=2)(none, at, number)
    stays = op("equal")(op("take_along_axis", axis=2)(last, at), number)
    places = op("reshape_like")(op("where")(stays, at, -1), indices)
    return op("reshape", shape=(*lead, *size))(y), places


# -- means and columns -----------------------------------------------------------------------------


@spelled("avg_pool_grad")
def avg_pool_grad(of: Any, g: Tensor, x: Tensor) -> Any:
    """Share each cotangent among the elements of its window."""
    seen = seen_by(of, x)
    part, n, k = g / _counts(of, seen, g), math.prod(seen.n_out), seen.windows.n_taps
    each = op("reshape", shape=(*g.shape[:2], n, 1))(part)
    each = op("broadcast_to", shape=(*g.shape[:2], n, k))(each)
    flat = op("reshape", shape=(*g.shape[:2], n * k))(each)
    places = op("broadcast_to", shape=flat.shape)(_reshaped(seen.table, (n * k,)))
    return seen.add_up(places, flat, x.shape[:2])


def _counts(of: Any, seen: _Seen, g: Tensor) -> Any:
    """Return how many elements count in each window."""
    if all(isinstance(n, int) for n in seen.size):
        return of.counts(seen.windows, seen.size, g.dtype)
    if of.count_include_pad:
        return float(seen.windows.n_taps)
    ones = op("full", shape=(1, 1, *seen.size), fill_value=1, dtype=g.dtype)()
    return op("sum", axis=-1)(seen.views(ones))


@spelled("im2col")
def im2col(of: Any, x: Tensor) -> Any:
    seen = seen_by(of, x)
    n, k = math.prod(seen.n_out), seen.windows.n_taps
    views = op("reshape", shape=(*x.shape[:2], n, k))(seen.views(x, of.value))
    columns = op("swapaxes", axis1=2, axis2=3)(views)
    return op("reshape", shape=(x.shape[0], x.shape[1] * k, n))(columns)


@writes("col2im")
def col2im(call: Call) -> list[str]:
    """Write by rule, with a kernel that has a size per axis; other padding by places."""
    n = len(call.image_size)
    per = per_axis(call.kernel_size, n, "kernel_size", 1)
    try:
        if "auto_pad" in padding(call.padding, n):
            raise CannotExport
        return write_by_rule(call.with_op(call.op.replace(kernel_size=per)))
    except CannotExport:
        return spell(call, _added_columns)


def _added_columns(of: Any, x: Tensor) -> Any:
    windows = of.windows(len(of.image_size))
    seen = _Seen(windows, of.image_size, windows.n_out(of.image_size))
    n, k = math.prod(seen.n_out), windows.n_taps
    channels = x.shape[1] // k
    parts = op("reshape", shape=(x.shape[0], channels, k * n))(x)
    places = op("swapaxes", axis1=0, axis2=1)(_reshaped(seen.table, (n, k)))
    places = op("broadcast_to", shape=parts.shape)(op("reshape", shape=(k * n,))(places))
    return seen.add_up(places, parts, (x.shape[0], channels))

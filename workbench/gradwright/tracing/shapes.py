"""Shapes: reshaping, permuting, repeating and padding; views where numpy gives views."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..spec import Dim
from . import indexing
from .arguments import axes_of, checked_axis, fresh, lift, op
from .lazy import LazyArray
from .refusals import refusal
from .registry import call, implements
from .shadow import reshaped, shadow
from .views import Broadcast, Permuted, Reshaped


def _row_major(order: Any, what: str) -> None:
    if order not in ("C", "K", "A", None):
        raise refusal(f"{what} with order={order!r} has no op", hint="x.T.reshape(...).T, in rows")


def _sizes(shape: Any) -> tuple[Any, ...]:
    """Return a shape as ints and symbols."""
    many = isinstance(shape, (tuple, list, np.ndarray))
    return tuple(d if isinstance(d, Dim) else d.__index__() for d in (shape if many else (shape,)))


@implements(np.reshape)
def reshape(a: Any, /, shape: Any = None, order: Any = "C", *, copy: bool | None = None) -> Any:
    """Give another shape: a view where strides allow it, else a copy."""
    x, sizes = lift(a), _sizes(shape)
    _row_major(order, "np.reshape")
    if x.owner.dynamic:
        target = op("reshape", x.tensor, shape=sizes)
        stand_in = shadow(target.shape, target.dtype, x.owner.sizes)
        if not x.shadow.flags.c_contiguous or copy:
            return _array(target)
        return x.view_of(Reshaped(sizes), stand_in)
    known = _with_rest(sizes, x)
    view = reshaped(x.shadow, known)
    if view is None or copy:
        return _array(op("reshape", x.tensor, shape=known))
    return x.view_of(Reshaped(known), view)


def _array(tensor: Any) -> Any:
    """Return a new array that is no scalar, also where it has no axes."""
    made = fresh(tensor)
    made.scalar = False
    return made


def _with_rest(sizes: tuple[int, ...], x: LazyArray) -> tuple[int, ...]:
    """Return a shape with -1 replaced by what is left."""
    given = 1
    for d in sizes:
        given *= d if d >= 0 else 1
    unknown = sum(d < 0 for d in sizes)
    if unknown > 1:
        raise ValueError("can only specify one unknown dimension")
    fits = given and x.size % given == 0 if unknown else given == x.size
    if not fits:
        raise ValueError(
            f"cannot reshape array of size {x.size} into shape {str(sizes).replace(' ', '')}"
        )
    return tuple(x.size // given if d < 0 else d for d in sizes)


@implements(np.ravel)
def ravel(a: Any, order: Any = "C") -> Any:
    """Return the elements along one axis."""
    _row_major(order if order == "C" else "F", "np.ravel")
    return reshape(a, -1)


@implements(np.copy)
def copy(a: Any, order: Any = "K", subok: bool = False) -> Any:
    """Return an array with the same elements that shares none."""
    return _array(op("identity", lift(a).tensor))


@implements(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Any:
    """Permute the axes, a view."""
    x = lift(a)
    order = range(x.ndim)[::-1] if axes is None else axes
    places = tuple(checked_axis(i, x.ndim) for i in order)
    return x.view_of(Permuted(places), x.shadow.transpose(places))


implements(np.matrix_transpose)(lambda x, /: call(np.swapaxes, x, -1, -2))


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    """Swap two axes, a view."""
    x = lift(a)
    order = list(range(x.ndim))
    i, j = checked_axis(axis1, x.ndim), checked_axis(axis2, x.ndim)
    order[i], order[j] = order[j], order[i]
    return transpose(x, order)


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Move axes to other places, a view."""
    x = lift(a)
    many = isinstance(source, (tuple, list))
    start = [checked_axis(s, x.ndim) for s in (source if many else (source,))]
    end = [checked_axis(d, x.ndim) for d in (destination if many else (destination,))]
    order = [i for i in range(x.ndim) if i not in start]
    for d, s in sorted(zip(end, start, strict=True)):
        order.insert(d, s)
    return transpose(x, order)


@implements(np.rollaxis)
def rollaxis(a: Any, axis: Any, start: Any = 0) -> Any:
    """Move an axis back until it lies before another one."""
    x = lift(a)
    place, to = checked_axis(axis, x.ndim), start + x.ndim if start < 0 else start
    return moveaxis(x, place, to - 1 if place < to else to)


@implements(np.expand_dims)
def expand_dims(a: Any, axis: Any) -> Any:
    """Insert axes of size 1, a view."""
    x = lift(a)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    ndim = x.ndim + len(axes)
    new = {checked_axis(i, ndim) for i in axes}
    parts = (None if i in new else slice(None) for i in range(ndim))
    return indexing.get(x, (*parts, ...))


@implements(np.squeeze)
def squeeze(a: Any, axis: Any = None) -> Any:
    """Leave out axes of size 1, a view."""
    x = lift(a)
    if axis is None:
        axes = {i for i, d in enumerate(x.shape) if isinstance(d, int) and d == 1}
    else:
        given = axis if isinstance(axis, (tuple, list)) else (axis,)
        axes = {checked_axis(i, x.ndim) for i in given}
        if any(isinstance(x.shape[i], int) and x.shape[i] != 1 for i in axes):
            raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    parts = (0 if i in axes else slice(None) for i in range(x.ndim))
    return indexing.get(x, (*parts, ...))


@implements(np.atleast_1d)
def atleast_1d(*arrays: Any) -> Any:
    """At least one axis."""
    found = [x if x.ndim else reshape(x, 1) for x in map(lift, arrays)]
    return found[0] if len(found) == 1 else tuple(found)


@implements(np.atleast_2d)
def atleast_2d(*arrays: Any) -> Any:
    """At least two axes."""
    found = [x if x.ndim > 1 else atleast_1d(x)[None] for x in map(lift, arrays)]
    return found[0] if len(found) == 1 else tuple(found)


@implements(np.atleast_3d)
def atleast_3d(*arrays: Any) -> Any:
    """At least three axes."""
    found = []
    for x in map(lift, arrays):
        wide = x if x.ndim > 2 else atleast_2d(x)[..., None]
        found.append(wide)
    return found[0] if len(found) == 1 else tuple(found)


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """Repeat along axes, a view that cannot be written."""
    x, sizes = lift(array), _sizes(shape)
    if x.owner.dynamic:
        target = op("broadcast_to", x.tensor, shape=sizes)
        stand_in = shadow(target.shape, target.dtype, x.owner.sizes)
        stand_in.flags.writeable = False
        return x.view_of(Broadcast(sizes), stand_in)
    return x.view_of(Broadcast(sizes), np.broadcast_to(x.shadow, sizes))


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    """Repeat all to their common shape."""
    xs = [lift(a) for a in args]
    shape = np.broadcast_shapes(*(x.shape for x in xs))
    return tuple(broadcast_to(x, shape) for x in xs)


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Any:
    """Reverse the order along axes, a view."""
    x = lift(m)
    given = range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = {checked_axis(i, x.ndim) for i in given}
    back = slice(None, None, -1)
    parts = (back if i in axes else slice(None) for i in range(x.ndim))
    return indexing.get(x, (*parts, ...))


implements(np.flipud)(lambda m: flip(m, 0))
implements(np.fliplr)(lambda m: flip(m, 1))


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    """Rotate by quarter turns."""
    x = lift(m)
    turns = k % 4
    if turns == 0:
        return x[...]
    if turns == 2:
        return flip(flip(x, axes[0]), axes[1])
    if turns == 1:
        return swapaxes(flip(x, axes[1]), *axes)
    return flip(swapaxes(x, *axes), axes[1])


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Shift elements along axes; what falls out comes in at the other end."""
    x = lift(a)
    many = isinstance(shift, (tuple, list))
    moves = tuple(map(int, shift)) if many else shift.__index__()
    axes = axes_of(axis)
    if isinstance(moves, tuple) != isinstance(axes, tuple) and axes is not None:
        n = len(moves) if isinstance(moves, tuple) else len(axes)
        moves = moves if isinstance(moves, tuple) else (moves,) * n
        axes = axes if isinstance(axes, tuple) else (axes,) * n
    return fresh(op("roll", x.tensor, shift=moves, axis=axes))


@implements(np.tile)
def tile(A: Any, reps: Any) -> Any:
    """Repeat the whole array."""
    x, counts = lift(A), _sizes(reps)
    x = reshape(x, (*[1] * (len(counts) - x.ndim), *x.shape)) if len(counts) > x.ndim else x
    counts = (1,) * (x.ndim - len(counts)) + counts
    return _array(op("tile", x.tensor, reps=counts)) if counts else copy(x)


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Repeat each element."""
    x = lift(a)
    if axis is None:
        x, axis = ravel(x), 0
    axis = checked_axis(axis, x.ndim)
    if isinstance(repeats, LazyArray):
        return fresh(op("repeat", x.tensor, repeats.tensor, axis=axis))
    counts = _sizes(repeats)
    return fresh(
        op("repeat", x.tensor, repeats=counts[0] if len(counts) == 1 else counts, axis=axis)
    )


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    """Add elements at the ends of axes."""
    x = lift(array)
    widths = [tuple(map(int, w)) for w in np.broadcast_to(_widths(pad_width, x), (x.ndim, 2))]
    values = options.pop("constant_values", 0)
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap") or options:
        said = ", ".join(options) or repr(mode)
        raise refusal(f"np.pad with {said} has no op", need="constant, edge, reflect or wrap")
    if mode == "constant":
        if isinstance(values, (int, float, np.integer, np.floating)):
            n: Any = x.dtype.type(values)
            return fresh(op("pad", x.tensor, pad_width=tuple(widths), value=n.item()))
        raise refusal("np.pad with several constant_values has no op", hint="np.concatenate")
    y = x
    for axis, (before, after) in enumerate(widths):
        if before or after:
            n = x.shape[axis]
            places = np.pad(np.arange(n), (before, after), mode)
            y = call(np.take, y, places, axis)
    return y if y is not x else copy(x)


def _widths(pad_width: Any, x: LazyArray) -> Any:
    if isinstance(pad_width, dict):
        return [pad_width.get(i, pad_width.get(i - x.ndim, (0, 0))) for i in range(x.ndim)]
    return np.asarray(pad_width)


@implements(np.shape)
def shape_of(a: Any) -> Any:
    """Return the shape."""
    return lift(a).shape


@implements(np.ndim)
def ndim(a: Any) -> Any:
    """Return the number of axes."""
    return lift(a).ndim


@implements(np.size)
def size(a: Any, axis: int | None = None) -> Any:
    """Return the number of elements, or that along an axis."""
    x = lift(a)
    return x.size if axis is None else x.shape[axis]


@implements(np.shares_memory, np.may_share_memory)
def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Tell whether one array is a view of the other."""
    return lift(a).storage is lift(b).storage


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> Any:
    """Return the elements again and again in another shape."""
    x, sizes = ravel(a), _sizes(new_shape)
    n = int(np.prod(sizes))
    return reshape(call(np.take, x, np.arange(n) % x.size), sizes)


@implements(np.real)
def real(val: Any) -> Any:
    """Return the real part."""
    return lift(val).real


@implements(np.imag)
def imag(val: Any) -> Any:
    """Return the imaginary part."""
    return lift(val).imag

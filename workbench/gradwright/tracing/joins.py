"""Joining, splitting, choosing and taking."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.core.movement import cast_to
from . import indexing
from .arguments import checked_axis, floating, fresh, joined, lift, op, recording
from .lazy import LazyArray
from .refusals import refusal
from .registry import UNSAID, call, implements
from .shapes import atleast_1d, atleast_2d, copy, ravel, reshape
from .ufuncs import MANY, into


@implements(np.concatenate, np.concat)
def concatenate(
    arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Join along an axis."""
    xs = [lift(a) for a in arrays]
    if not xs:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    if not xs[0].ndim:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    place = checked_axis(axis, xs[0].ndim)
    return into(out, fresh(op("concat", *joined(xs, dtype), axis=place)))


@implements(np.stack)
def stack(
    arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    """Join along a new axis."""
    xs = [lift(a) for a in arrays]
    if not xs:
        raise ValueError("need at least one array to stack")
    if len({x.ndim for x in xs}) != 1 or (
        not xs[0].owner.dynamic and len({x.shape for x in xs}) > 1
    ):
        raise ValueError("all input arrays must have the same shape")
    place = checked_axis(axis, xs[0].ndim + 1)
    return into(out, fresh(op("stack", *joined(xs, dtype), axis=place)))


@implements(np.vstack)
def vstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Join as rows."""
    return concatenate([atleast_2d(x) for x in tup], 0, dtype=dtype)


@implements(np.hstack)
def hstack(tup: Any, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Join as columns."""
    xs = [atleast_1d(x) for x in tup]
    return concatenate(xs, 0 if xs[0].ndim == 1 else 1, dtype=dtype)


@implements(np.column_stack)
def column_stack(tup: Any) -> Any:
    """Join one-dimensional arrays as columns."""
    xs = [lift(x) for x in tup]
    return concatenate([x if x.ndim > 1 else reshape(x, (-1, 1)) for x in xs], 1)


@implements(np.dstack)
def dstack(tup: Any) -> Any:
    """Join along the third axis."""
    return concatenate([call(np.atleast_3d, x) for x in tup], 2)


@implements(np.append)
def append(arr: Any, values: Any, axis: Any = None) -> Any:
    """Join at the end."""
    if axis is None:
        return concatenate([ravel(arr), ravel(values)])
    return concatenate([arr, values], axis)


def _split(uneven: bool) -> Any:
    def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
        x = lift(ary)
        place = checked_axis(axis, x.ndim)
        n = x.shape[place]
        if isinstance(indices_or_sections, (int, np.integer)):
            k = int(indices_or_sections)
            if not uneven and n % k:
                raise ValueError("array split does not result in an equal division")
            sizes = [n // k + (i < n % k) for i in range(k)]
            ends: list[Any] = np.cumsum(sizes)[:-1].tolist()
        else:
            ends = list(indices_or_sections)
        bounds = zip([0, *ends], [*ends, None], strict=True)
        lead = (slice(None),) * place
        return [indexing.get(x, (*lead, slice(a, b))) for a, b in bounds]

    return split


split = _split(False)
implements(np.split)(split)
implements(np.array_split)(_split(True))
implements(np.vsplit)(lambda ary, parts: split(ary, parts, 0))
implements(np.hsplit)(lambda ary, parts: split(ary, parts, 0 if lift(ary).ndim == 1 else 1))
implements(np.dsplit)(lambda ary, parts: split(ary, parts, 2))


def unstack(x: Any, /, *, axis: int = 0) -> Any:
    """Take an array apart along an axis."""
    return tuple(call(np.moveaxis, x, axis, 0))


if hasattr(np, "unstack"):  # since numpy 2.1
    implements(np.unstack)(unstack)


@implements(np.where)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """Choose element by element; with a condition alone, where it holds."""
    mask = lift(condition)
    if x is None and y is None:
        return nonzero(mask)
    if mask.dtype.kind != "b":
        mask = mask != 0
    made = fresh(op("where", mask.tensor, *joined([x, y])))
    made.scalar = False
    return made


@implements(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Choose from several arrays by the first condition that holds."""
    found: Any = default
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        found = where(condition, choice, found)
    return found


@implements(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """Choose from several arrays by number."""
    found: Any = choices[0]
    for number, choice in enumerate(choices):
        found = where(lift(a) == number, choice, found)
    return into(out, found)


@implements(np.clip)
def clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None,
    max: Any = None,
) -> Any:  # fmt: skip
    """Bring elements into a range."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    given = [v for v in (a, low, high) if v is not None]
    if len(given) == 1:
        return into(out, copy(a))
    tensors = joined(given)
    if tensors[0].dtype.kind in "cb":
        y: Any = a
        y = y if low is None else np.maximum(lift(y), low)
        return into(out, y if high is None else np.minimum(lift(y), high))
    bounds = tensors[1:]
    lower = None if low is None else bounds[0]
    upper = None if high is None else bounds[-1]
    return into(out, fresh(op("clip", tensors[0], lower, upper)))


@implements(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """Take elements along an axis."""
    x, at = lift(a), lift(indices)
    if axis is None:
        x, axis = ravel(x), 0
    place = checked_axis(axis, x.ndim)
    if mode != "raise":
        n = x.shape[place]
        at = at % n if mode == "wrap" else call(np.clip, at, 0, n - 1)
    return into(out, fresh(op("gather", x.tensor, _index(at), axis=place)))


def _index(x: LazyArray) -> Any:
    return x.tensor if x.dtype.kind in "iu" else cast_to(np.int64, x.tensor)


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Take elements along an axis, for each place another one."""
    x, at = lift(arr), lift(indices)
    if axis is None:
        x, axis = ravel(x), 0
    return fresh(op("take_along_axis", x.tensor, at.tensor, axis=checked_axis(axis, x.ndim)))


@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """Write elements along an axis, for each place another one."""
    x, at = lift(arr), lift(indices)
    if axis is None:
        call(np.put, x, at, values)
        return
    new = indexing.fitted(x, values, at.tensor)
    x.write(op("scatter_update", x.tensor, at.tensor, new, axis=checked_axis(axis, x.ndim)))


@implements(np.put)
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """Write elements of the flat array."""
    x, at = lift(a), ravel(ind)
    new = indexing.fitted(x, v, at.tensor)
    flat = op("reshape", x.tensor, shape=(-1,))
    written = op("scatter_update", flat, at.tensor, new, axis=0)
    x.write(op("reshape_like", written, x.tensor))


@implements(np.putmask)
def putmask(a: Any, mask: Any, values: Any) -> None:
    """Write where a mask holds; values of the array's shape are taken from the same places."""
    x, new = lift(a), lift(values)
    if new.ndim and new.shape != x.shape:
        raise refusal("np.putmask with values of another shape has no op", hint="x[mask] = values")
    x[...] = where(mask, new, x)


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write all elements, or those where a mask holds."""
    x = recording().written(dst, MANY) if isinstance(dst, np.ndarray) else lift(dst)
    new = lift(src)
    if not new.weak and not np.can_cast(new.dtype, x.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast array data from {new.dtype!r} to {x.dtype!r}")
    if where is True:
        x[...] = new
    else:
        wide = indexing.fitted(x, new, x.tensor)
        x.write(op("where", op("broadcast_like", lift(where).tensor, x.tensor), wide, x.tensor))


@implements(np.compress)
def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """Take the slices where a condition holds."""
    x = lift(a)
    if axis is None:
        x, axis = ravel(x), 0
    mask = lift(condition)
    mask = mask if mask.dtype.kind == "b" else mask != 0
    return into(out, fresh(op("compress", x.tensor, mask.tensor, axis=checked_axis(axis, x.ndim))))


@implements(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """Take the elements where a condition holds."""
    return compress(ravel(condition), ravel(arr))


@implements(np.nonzero)
def nonzero(a: Any) -> Any:
    """Coordinates of the elements that are not 0; their number is known only when run."""
    x = lift(a)
    if not x.ndim:
        raise ValueError("Calling nonzero on 0d arrays is not allowed.")
    found = op("nonzero", x.tensor)
    return tuple(map(fresh, found if isinstance(found, tuple) else (found,)))


implements(np.flatnonzero)(lambda a: nonzero(ravel(a))[0])
implements(np.argwhere)(lambda a: call(np.stack, nonzero(a), axis=-1))


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """Leave out elements along an axis."""
    x = lift(arr)
    if isinstance(obj, LazyArray):
        raise refusal("np.delete of lazy places has no op", hint="x[mask]")
    if axis is None:
        x, axis = ravel(x), 0
    place = checked_axis(axis, x.ndim)
    kept = np.delete(np.arange(x.shape[place]), obj)
    return take(x, kept, place)


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """Put elements in along an axis, before one place."""
    x = lift(arr)
    if isinstance(obj, LazyArray) or np.ndim(obj):
        raise refusal("np.insert at several places has no op", hint="np.concatenate")
    if axis is None:
        x, axis = ravel(x), 0
    place = checked_axis(axis, x.ndim)
    at = int(obj) + (x.shape[place] if obj < 0 else 0)
    new = lift(values)
    row = indexing.get(x, (*[slice(None)] * place, slice(0, 1)))
    wide = (
        new
        if new.ndim == x.ndim
        else np.broadcast_to(
            call(np.expand_dims, new, place) if new.ndim == x.ndim - 1 and new.ndim else new,
            row.shape,
        )
    )
    before, after = split(x, [at], place)
    return concatenate([before, wide.astype(x.dtype), after], place)


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """Coordinates of a grid."""
    xs = [ravel(x) for x in xi]
    n = len(xs)
    views = [reshape(x, (*[1] * i, -1, *[1] * (n - 1 - i))) for i, x in enumerate(xs)]
    if indexing == "xy" and n > 1:
        views = [call(np.swapaxes, v, 0, 1) for v in views]
    if sparse:
        return tuple(views)
    shape = np.broadcast_shapes(*(v.shape for v in views))
    return tuple(call(np.copy, call(np.broadcast_to, v, shape)) for v in views)


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: Any = -1, prepend: Any = UNSAID, append: Any = UNSAID) -> Any:
    """Differences of neighbours."""
    x = lift(a)
    place = checked_axis(axis, x.ndim)
    said = [v for v in (prepend, append) if v is not None and v is not UNSAID]
    if said:
        raise refusal("np.diff with prepend or append has no op", hint="np.concatenate first")
    lead = (slice(None),) * place
    for _ in range(n):
        late, early = x[(*lead, slice(1, None))], x[(*lead, slice(None, -1))]
        x = late != early if x.dtype.kind == "b" else late - early
    return x


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Whether numbers are close to each other."""
    x, y = lift(a), lift(b)
    left, right = floating(x), floating(y)
    u, v = fresh(left), fresh(right)
    near = np.abs(u - v) <= atol + rtol * np.abs(v)
    close = (near & np.isfinite(v)) | (u == v)
    return close | (np.isnan(u) & np.isnan(v)) if equal_nan else close


implements(np.allclose)(lambda a, b, **options: call(np.all, isclose(a, b, **options)))


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether arrays have the same shape and elements."""
    x, y = lift(a1), lift(a2)
    if x.shape != y.shape:
        return False
    same = x == y
    if equal_nan:
        same = same | (np.isnan(x) & np.isnan(y))
    return call(np.all, same)


implements(np.isneginf)(lambda x: lift(x) == -np.inf)
implements(np.isposinf)(lambda x: lift(x) == np.inf)
implements(np.iscomplexobj)(lambda x: lift(x).dtype.kind == "c")
implements(np.isrealobj)(lambda x: lift(x).dtype.kind != "c")
implements(np.result_type)(
    lambda *xs: np.result_type(*(x.dtype if isinstance(x, LazyArray) else x for x in xs))
)
implements(np.can_cast)(lambda x, to, casting="safe": np.can_cast(lift(x).dtype, to, casting))
implements(np.common_type)(
    lambda *xs: np.common_type(*(np.empty(0, x.dtype) for x in map(lift, xs)))
)
implements(np.min_scalar_type)(lambda x: lift(x).dtype)

"""Making arrays, rounding, sorting, counting and searching."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import Tensor
from ..ops.core.movement import cast_to
from .arguments import checked_axis, floating, fresh, joined, joint_dtype, lift, op
from .lazy import LazyArray
from .refusals import refusal
from .registry import call, implements
from .shapes import ravel
from .ufuncs import into

# -- made like another array -----------------------------------------------------------------------


def _like(prototype: Any, value: Any, dtype: Any, shape: Any) -> Any:
    """Return an array of one value, with the shape and dtype of another unless they are said."""
    x = lift(prototype)
    target = x.dtype if dtype is None else np.dtype(dtype)
    filler = lift(value)
    t: Tensor = cast_to(target, filler.tensor)
    if shape is None:
        made = fresh(op("broadcast_like", t, x.tensor))
    else:
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        made = fresh(op("broadcast_to", t, shape=sizes))
    made.scalar = False
    return made


@implements(np.zeros_like)
def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """Zeros in the shape of an array."""
    return _like(a, 0, dtype, shape)


@implements(np.ones_like)
def ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
    device: Any = None,
) -> Any:  # fmt: skip
    """Ones in the shape of an array."""
    return _like(a, 1, dtype, shape)


implements(np.empty_like)(zeros_like)


@implements(np.full_like)
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
    shape: Any = None, *, device: Any = None,
) -> Any:  # fmt: skip
    """One value in the shape of an array."""
    return _like(a, fill_value, dtype, shape)


def _made(function: Any) -> Any:
    """Return what makes a lazy array of a plain one: ``np.zeros(3, like=x)``."""

    def make(*args: Any, **options: Any) -> Any:
        made = lift(function(*args, **options))
        made.scalar = False
        return made

    return make


for _function in (np.zeros, np.ones, np.empty, np.full, np.eye, np.identity, np.arange, np.tri):
    implements(_function)(_made(_function))


@implements(np.array, np.asarray, np.asanyarray, np.ascontiguousarray)
def array(a: Any, dtype: Any = None, *, copy: Any = True, **options: Any) -> Any:
    """Return nested lists of lazy arrays as one: ``np.array([x, y], like=x)``."""
    made = lift(a)
    return call(np.astype, made, made.dtype if dtype is None else dtype)


@implements(np.linspace)
def linspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: Any = None, axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """Numbers at equal distances."""
    first, last = lift(start), lift(stop)
    joint = np.result_type(joint_dtype([first, last]), 0.0)
    first, last = call(np.astype, first, joint), call(np.astype, last, joint)
    parts = num - 1 if endpoint else num
    step = (last - first) / parts
    places = np.arange(num, dtype=joint).reshape(-1, *[1] * max(first.ndim, last.ndim))
    made = lift(places) * step + first
    if endpoint and num > 1:
        made[-1] = last
    made = call(np.moveaxis, call(np.astype, made, dtype or joint), 0, axis)
    return (made, step) if retstep else made


@implements(np.astype)
def astype(x: Any, dtype: Any, /, *, copy: bool = True, **options: Any) -> Any:
    """Convert the elements to another dtype."""
    a, target = lift(x), np.dtype(dtype)
    a.owner.supported(target, x)
    if a.dtype == target:
        return call(np.copy, a) if copy else a
    if target.kind == "b":
        return a != 0
    made = fresh(op("cast", a.tensor, dtype=target, saturate=False))
    made.scalar = a.scalar
    return made


# -- rounding --------------------------------------------------------------------------------------


@implements(np.round, np.around)
def round_(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Round to decimals, halves to even."""
    x = lift(a)
    if x.dtype.kind in "iu" and decimals >= 0:
        return into(out, call(np.copy, x)[()])
    if x.dtype.kind not in "fc":
        raise refusal("np.round of this dtype has no op", hint="x.astype(float)")
    if not decimals:
        return into(out, np.rint(x))
    scale = 10.0 ** abs(decimals)
    up = x * scale if decimals > 0 else x / scale
    whole = np.rint(up)
    return into(out, whole / scale if decimals > 0 else whole * scale)


@implements(np.fix)
def fix(x: Any, out: Any = None) -> Any:
    """Round toward zero."""
    return into(out, np.trunc(lift(x)))


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """Replace NaN and infinities."""
    a = lift(x)
    if a.dtype.kind != "f":
        return call(np.copy, a)
    info = np.finfo(a.dtype)
    y = call(np.where, np.isnan(a), a.dtype.type(nan), a)
    y = call(np.where, a == np.inf, a.dtype.type(info.max if posinf is None else posinf), y)
    y = call(np.where, a == -np.inf, a.dtype.type(info.min if neginf is None else neginf), y)
    if not copy:
        a[...] = y
        return a
    return y if a.ndim else y[()]


@implements(np.sinc)
def sinc(x: Any) -> Any:
    """Sine of πx over πx."""
    return fresh(op("sinc", floating(lift(x))))


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """Angle of complex numbers."""
    x = lift(z)
    found = np.arctan2(x.imag, x.real)
    return found * (180 / np.pi) if deg else found


# -- order -----------------------------------------------------------------------------------------


def _sorted(name: str) -> Any:
    def function(
        a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None
    ) -> Any:
        x = lift(a)
        if axis is None:
            x, axis = ravel(x), 0
        t = cast_to(np.uint8, x.tensor) if x.dtype.kind == "b" else x.tensor
        y = op(name, t, axis=checked_axis(axis, x.ndim))
        return fresh(cast_to(x.dtype if name == "sort" else np.int64, y))

    return function


implements(np.sort)(_sorted("sort"))
implements(np.argsort)(_sorted("argsort"))


@implements(np.median)
def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """Middle of the sorted elements."""
    return into(out, fresh(op("median", floating(lift(a)), axis=axis, keepdims=bool(keepdims))))


@implements(np.quantile)
def quantile(
    a: Any, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False,
) -> Any:  # fmt: skip
    """Quantiles of the sorted elements."""
    if isinstance(q, LazyArray):
        raise refusal("np.quantile at lazy places has no op", hint="static_argnames for q")
    places = tuple(np.asarray(q, float).tolist()) if np.ndim(q) else float(q)
    options = {"axis": axis, "keepdims": bool(keepdims), "method": method}
    t = cast_to(np.float64, lift(a).tensor) if np.ndim(q) else floating(lift(a))
    return into(out, fresh(op("quantile", t, q=places, **options)))


@implements(np.percentile)
def percentile(a: Any, q: Any, *args: Any, **options: Any) -> Any:
    """Quantiles in percent."""
    return quantile(a, q if isinstance(q, LazyArray) else np.asarray(q) / 100, *args, **options)


@implements(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Places where elements keep an array sorted."""
    x = lift(a) if sorter is None else call(np.take, lift(a), sorter)
    left, right = joined([x, v])
    return fresh(op("searchsorted", left, right, side=side))


@implements(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """Numbers of the bins, which must increase."""
    return searchsorted(bins, x, side="left" if right else "right")


@implements(np.unique)
def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False, axis: Any = None, *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """Different elements, sorted; their number is known only when run."""
    if axis is not None:
        raise refusal("np.unique with axis= has no op", hint="np.unique(x) of one axis")
    x = lift(ar)
    values, index, inverse, counts = map(fresh, op("unique", ravel(x).tensor))
    found = [values]
    if return_index:
        found.append(index)
    if return_inverse:
        found.append(call(np.reshape, inverse, x.shape))
    if return_counts:
        found.append(counts)
    return tuple(found) if len(found) > 1 else values


@implements(np.bincount)
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number comes; how many there are is known only when run."""
    if weights is None:
        return fresh(op("bincount", lift(x).tensor, minlength=int(minlength)))
    heavy = cast_to(np.float64, lift(weights).tensor)
    return fresh(op("bincount", lift(x).tensor, heavy, minlength=int(minlength)))


@implements(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
    kind: Any = None,
) -> Any:  # fmt: skip
    """Whether elements are among others."""
    x, others = lift(element), ravel(test_elements)
    found = call(np.any, x[..., None] == others, axis=-1)
    return ~found if invert else found


@implements(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integral by trapezoids."""
    values = call(np.moveaxis, y, axis, -1)
    if x is None:
        steps: Any = dx
    else:
        places = lift(x)
        steps = call(np.diff, places if places.ndim == 1 else call(np.moveaxis, places, axis, -1))
    return call(np.sum, (values[..., 1:] + values[..., :-1]) * steps / 2.0, axis=-1)


@implements(np.gradient)
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Slopes by differences of neighbours."""
    x = lift(f)
    axes = range(x.ndim) if axis is None else (axis if isinstance(axis, (tuple, list)) else (axis,))
    gaps = varargs or (1.0,)
    gaps = gaps * len(axes) if len(gaps) == 1 else gaps
    if edge_order != 1 or any(isinstance(g, (LazyArray, np.ndarray, list)) for g in gaps):
        raise refusal("np.gradient with these options has no op", need="one distance per axis")
    found = []
    for place, h in zip(axes, gaps, strict=True):
        y = call(np.moveaxis, x if x.dtype.kind == "f" else x.astype(float), place, -1)
        inner = (y[..., 2:] - y[..., :-2]) / (2.0 * h)
        first, last = (y[..., 1:2] - y[..., :1]) / h, (y[..., -1:] - y[..., -2:-1]) / h
        joined_up = call(np.concatenate, [first, inner, last], axis=-1)
        found.append(call(np.moveaxis, joined_up, -1, place))
    return found[0] if len(found) == 1 else tuple(found)


@implements(np.histogram)
def histogram(a: Any, bins: Any = 10, *args: Any, **options: Any) -> Any:
    """Counts in bins whose edges are known."""
    if isinstance(bins, (int, str, LazyArray)) or args or options:
        raise refusal("np.histogram finds its edges from values", hint="bins=np.linspace(...)")
    edges = np.asarray(bins)
    x = ravel(a)
    inside = (x[:, None] >= edges[:-1]) & (x[:, None] < edges[1:])
    last = x == edges[-1]
    counts = call(np.sum, inside, axis=0)
    counts[-1] += call(np.sum, last)
    return counts, edges

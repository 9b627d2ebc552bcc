"""Reductions: sums, means, extremes, places of extremes, and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph import Tensor
from ..ops.core.movement import cast_to
from ..spec.rounding import rounded
from .arguments import axes_of, checked_axis, floating, fresh, lift, op
from .lazy import LazyArray
from .registry import UNSAID, call, implements
from .ufuncs import into


def _checked(axis: Any, x: LazyArray) -> Any:
    """Return the axes, refused as numpy refuses them."""
    axes = axes_of(axis)
    if isinstance(axes, tuple):
        return tuple(checked_axis(a, x.ndim) for a in axes)
    if axes is None or (not x.ndim and axes in (0, -1)):
        return None
    return checked_axis(axes, x.ndim)


def _keeps(keepdims: Any) -> bool:
    return keepdims is not UNSAID and bool(keepdims)


def _only(x: Tensor, where: Any, neutral: Any) -> Tensor:
    """Return the elements that count, and the neutral one for the others."""
    if _everywhere(where):
        return x
    return op("where", lift(where).tensor, x, x.graph.scalar(neutral, x.dtype))  # type: ignore[no-any-return]


def _everywhere(where: Any) -> bool:
    return where is UNSAID or where is True


def _is_said(value: Any) -> bool:
    return value is not UNSAID and value is not None


def _sum_like(name: str, neutral: int, combine: Any) -> Callable[..., Any]:
    def reduction(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = UNSAID,
        initial: Any = UNSAID, where: Any = UNSAID,
    ) -> Any:  # fmt: skip
        x = lift(a)
        t = x.tensor if dtype is None else cast_to(np.dtype(dtype), x.tensor)
        t = _only(t, where, neutral)
        target = np.dtype(dtype) if dtype is not None else _accumulator(x.dtype)
        y = op(name, t, axis=_checked(axis, x), keepdims=_keeps(keepdims))
        found = fresh(cast_to(target, y))
        return into(out, combine(found, initial) if _is_said(initial) else found)

    return reduction


def _accumulator(d: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a sum: 64 bits for smaller integers."""
    if d.kind in "bi":
        return np.dtype(np.int64)
    return np.dtype(np.uint64) if d.kind == "u" else d


implements(np.sum)(_sum_like("sum", 0, np.add))
implements(np.prod)(_sum_like("prod", 1, np.multiply))


def _extreme(name: str, combine: Any, lowest: bool) -> Callable[..., Any]:
    def reduction(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = UNSAID,
        initial: Any = UNSAID, where: Any = UNSAID,
    ) -> Any:  # fmt: skip
        x = lift(a)
        axes, keep = _checked(axis, x), _keeps(keepdims)
        if not _everywhere(where) and not _is_said(initial):
            raise ValueError(
                f"reduction operation '{name}imum' does not have an identity, so to use a where "
                "mask one has to specify 'initial'"
            )
        t = x.tensor
        if not _everywhere(where):
            start = cast_to(t.dtype, lift(initial).tensor)
            t = op("where", lift(where).tensor, t, start)
        covered = range(x.ndim) if axes is None else axes if isinstance(axes, tuple) else (axes,)
        if any(x.shape[i] == 0 for i in covered):
            if not _is_said(initial):
                raise ValueError(
                    f"zero-size array to reduction operation {name}imum which has no identity"
                )
            empty = op("sum", t, axis=axes, keepdims=keep)
            return into(out, call(np.full_like, fresh(cast_to(t.dtype, empty)), initial)[()])
        if x.dtype.kind == "b":
            y = fresh(op("all" if lowest else "any", t, axis=axes, keepdims=keep))
        else:
            y = fresh(op(name, t, axis=axes, keepdims=keep))
        return into(out, combine(y, initial) if _is_said(initial) else y)

    return reduction


implements(np.max, np.amax)(_extreme("max", np.maximum, False))
implements(np.min, np.amin)(_extreme("min", np.minimum, True))


@implements(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = UNSAID) -> Any:
    """Largest less smallest."""
    options = {"axis": axis, "keepdims": keepdims}
    return into(out, call(np.max, a, **options) - call(np.min, a, **options))


def _truth(name: str) -> Callable[..., Any]:
    def reduction(
        a: Any, axis: Any = None, out: Any = None, keepdims: Any = UNSAID, *, where: Any = UNSAID
    ) -> Any:
        x = lift(a)
        t = x.tensor if x.dtype.kind == "b" else (x != 0).tensor
        t = _only(t, where, name == "all")
        return into(out, fresh(op(name, t, axis=_checked(axis, x), keepdims=_keeps(keepdims))))

    return reduction


implements(np.all)(_truth("all"))
implements(np.any)(_truth("any"))


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """How many are not 0."""
    return call(np.sum, lift(a) != 0, axis=axis, keepdims=keepdims)


@implements(np.mean)
def mean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = UNSAID, *,
    where: Any = UNSAID,
) -> Any:  # fmt: skip
    """Mean, of integers as float64."""
    x = lift(a)
    target = floating(x) if dtype is None else cast_to(np.dtype(dtype), x.tensor)
    axes, keep = _checked(axis, x), _keeps(keepdims)
    if not _everywhere(where):
        mask = np.broadcast_to(lift(where), x.shape)
        total = call(np.sum, fresh(_only(target, mask, 0)), axis=axes, keepdims=keep)
        counted = call(np.sum, mask, axis=axes, keepdims=keep)
        return into(out, fresh(cast_to(target.dtype, (total / counted).tensor)))
    return into(out, fresh(op("mean", target, axis=axes, keepdims=keep)))


@implements(np.average)
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *,
    keepdims: Any = UNSAID,
) -> Any:  # fmt: skip
    """Mean with weights."""
    x = lift(a)
    if weights is None:
        found = call(np.mean, x, axis=axis, keepdims=keepdims)
        n = x.size / found.size
        return (found, call(np.full_like, found, n)) if returned else found
    w = lift(weights)
    if w.ndim != x.ndim:
        w = (
            call(np.swapaxes, call(np.broadcast_to, w, (*x.shape[:0], *w.shape)), -1, axis)
            if (x.ndim == 1)
            else w.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
        )
    options = {"axis": axis, "keepdims": keepdims}
    full = call(np.broadcast_to, w, x.shape)
    scale = call(np.sum, full, **options)
    found = call(np.sum, x * w, **options) / scale
    return (found, scale) if returned else found


def _spread(root: bool) -> Callable[..., Any]:
    def reduction(
        a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
        keepdims: Any = UNSAID, *, where: Any = UNSAID, mean: Any = UNSAID,
        correction: Any = UNSAID,
    ) -> Any:  # fmt: skip
        x = lift(a)
        off = correction if correction is not UNSAID else ddof
        t = floating(x) if dtype is None else cast_to(np.dtype(dtype), x.tensor)
        axes, keep = _checked(axis, x), _keeps(keepdims)
        plain = _everywhere(where) and mean is UNSAID and isinstance(off, int)
        if plain and t.dtype.kind == "f":
            return into(
                out, fresh(op("std" if root else "var", t, axis=axes, keepdims=keep, ddof=off))
            )
        values = fresh(t)
        if _everywhere(where):
            where = call(np.ones_like, values, dtype=bool)
        mask = call(np.broadcast_to, lift(where), x.shape)
        n = call(np.sum, mask, axis=axes, keepdims=True)
        if mean is UNSAID:
            total = call(np.sum, fresh(_only(t, mask, 0)), axis=axes, keepdims=True)
            mean = fresh(cast_to(t.dtype, (total / n).tensor))
        d = values - mean
        squares = (d * np.conjugate(d)).real if t.dtype.kind == "c" else d * d
        total = call(np.sum, fresh(_only(squares.tensor, mask, 0)), axis=axes, keepdims=keep)
        y = total / np.maximum(call(np.sum, mask, axis=axes, keepdims=keep) - off, 0)
        y = fresh(cast_to(squares.dtype, y.tensor))
        return into(out, np.sqrt(y) if root else y)

    return reduction


implements(np.var)(_spread(False))
implements(np.std)(_spread(True))


def _place(name: str) -> Callable[..., Any]:
    def reduction(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = UNSAID) -> Any:
        x = lift(a)
        t = x.tensor if x.dtype.kind != "b" else cast_to(np.uint8, x.tensor)
        axes = _checked(axis, x)
        covered = range(x.ndim) if axes is None else (axes,)
        if any(x.shape[i] == 0 for i in covered):
            raise ValueError(f"attempt to get {name} of an empty sequence")
        return into(out, fresh(op(name, t, axis=axes, keepdims=_keeps(keepdims))))

    return reduction


implements(np.argmax)(_place("argmax"))
implements(np.argmin)(_place("argmin"))


def _running(name: str) -> Callable[..., Any]:
    def reduction(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        x = lift(a)
        if axis is None or not x.ndim:
            x, axis = call(np.ravel, x), 0
        target = _accumulator(x.dtype) if dtype is None else np.dtype(dtype)
        y = op(name, cast_to(target, x.tensor), axis=checked_axis(axis, x.ndim))
        return into(out, fresh(cast_to(target, y)))

    return reduction


implements(np.cumsum)(_running("cumsum"))
implements(np.cumprod)(_running("cumprod"))


def _without_nan(plain: Any, filler: Any) -> Callable[..., Any]:
    def reduction(a: Any, axis: Any = None, dtype: Any = None, **options: Any) -> Any:
        x = lift(a)
        clean = call(np.where, np.isnan(x), rounded(filler, x.dtype), x)
        given = {} if dtype is None else {"dtype": dtype}
        return call(plain, clean, axis=axis, **given, **options)

    return reduction


implements(np.nansum)(_without_nan(np.sum, 0))
implements(np.nanprod)(_without_nan(np.prod, 1))
implements(np.nancumsum)(_without_nan(np.cumsum, 0))
implements(np.nancumprod)(_without_nan(np.cumprod, 1))


def _nan_extreme(plain: Any, worst: float) -> Callable[..., Any]:
    def reduction(a: Any, axis: Any = None, **options: Any) -> Any:
        x = lift(a)
        if x.dtype.kind != "f":
            return call(plain, x, axis=axis, **options)
        missing = np.isnan(x)
        kept = {k: v for k, v in options.items() if k == "keepdims"}
        found = call(plain, call(np.where, missing, x.dtype.type(worst), x), axis=axis, **options)
        nothing = call(np.all, missing, axis=axis, **kept)
        return call(np.where, nothing, x.dtype.type(np.nan), found)[()]

    return reduction


implements(np.nanmax)(_nan_extreme(np.max, -np.inf))
implements(np.nanmin)(_nan_extreme(np.min, np.inf))


def _nan_place(plain: Any, worst: float) -> Callable[..., Any]:
    def reduction(a: Any, axis: Any = None, **options: Any) -> Any:
        x = lift(a)
        if x.dtype.kind == "f":
            x = call(np.where, np.isnan(x), x.dtype.type(worst), x)
        return call(plain, x, axis=axis, **options)

    return reduction


implements(np.nanargmax)(_nan_place(np.argmax, -np.inf))
implements(np.nanargmin)(_nan_place(np.argmin, np.inf))


def _nan_mean(plain: Any) -> Callable[..., Any]:
    def reduction(a: Any, axis: Any = None, **options: Any) -> Any:
        x = lift(a)
        present = ~np.isnan(x)
        return call(
            plain, call(np.where, present, x, x.dtype.type(0)), axis=axis, where=present, **options
        )

    return reduction


implements(np.nanmean)(_nan_mean(np.mean))
implements(np.nanvar)(_nan_mean(np.var))
implements(np.nanstd)(_nan_mean(np.std))

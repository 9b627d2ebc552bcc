"""``x[index]`` and ``x[index] = value`` of lazy arrays, by numpy's rules for views and copies."""

from __future__ import annotations

from operator import index as as_int
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graph import Tensor
from ..ops.core.choice import Where
from ..ops.core.like import BroadcastLike, IotaLike, ReshapeLike
from ..ops.core.masking import Nonzero
from ..ops.core.movement import Cast, ExpandDims
from ..ops.core.reshape import Reshape
from ..ops.core.scatter import ScatterUpdate
from ..ops.core.slicing import ALL, subscript
from ..spec import Dim, kind
from .refusals import refusal
from .views import Sliced

if TYPE_CHECKING:
    from .lazy import LazyArray


def get(x: LazyArray, index: Any) -> Any:
    """Return ``x[index]``: a view for places and slices, else a copy."""
    parts = index if isinstance(index, tuple) else (index,)
    if any(map(_is_array, parts)):
        return x.owner.fresh(subscript(x.tensor, _tensors(x, parts)))
    view = _view(x, parts)
    scalar = not isinstance(x.shadow[_known(x, parts)], np.ndarray)
    return x.owner.fresh(view.tensor) if scalar else view


def put(x: LazyArray, index: Any, value: Any) -> None:
    """Write ``x[index] = value``: the array has a new tensor, which its views see."""
    parts = index if isinstance(index, tuple) else (index,)
    if not any(map(_is_array, parts)):
        target = _view(x, parts)
        same = getattr(value, "storage", None) is target.storage and value.steps == target.steps
        if same and value.owner is x.owner:
            return  # x[i] += v, which has written the view
        target.write(fitted(x, value, target.tensor))
        return
    new = x.owner.lift(value).tensor
    mask = x.owner.lift(parts[0]).tensor if len(parts) == 1 else None
    if mask is not None and kind(mask.dtype) == "b" and mask.rank and _in_rows(new, x, mask):
        axes = tuple(range(mask.rank, x.ndim))
        wide = ExpandDims(axis=axes)(mask) if axes else mask
        x.write(Where()(wide, Cast(dtype=x.dtype)(new), x.tensor))
        return
    at = places(x, parts)
    flat = _flat(x.tensor)
    written = ScatterUpdate(axis=0)(flat, _flat(at), _flat(fitted(x, value, at)))
    x.write(ReshapeLike()(written, x.tensor))


def places(x: LazyArray, parts: tuple[Any, ...]) -> Tensor:
    """Return the numbers of the elements that an index takes, in row-major order."""
    found: Tensor = subscript(IotaLike()(x.tensor), _tensors(x, parts))
    return found


def fitted(x: LazyArray, value: Any, like: Tensor) -> Tensor:
    """Return what is assigned in the dtype of the array, and the shape of the places."""
    new = x.owner.lift(value)
    tensor = new.tensor
    while tensor.rank > like.rank and tensor.shape[0] == 1:
        tensor = tensor[0]
    if tensor.dtype != x.dtype:
        tensor = Cast(dtype=x.dtype)(tensor)
    if tensor.rank > like.rank:
        raise ValueError(
            f"could not broadcast input array from shape {new.shape} into shape {like.shape}"
        )
    return tensor if tensor.shape == like.shape else BroadcastLike()(tensor, like)


def _flat(t: Tensor) -> Tensor:
    return t if t.rank == 1 else Reshape(shape=(-1,))(t)


def _in_rows(value: Tensor, x: LazyArray, mask: Tensor) -> bool:
    """Tell whether a value is the same for all places of a mask, so that it can be chosen."""
    return value.rank <= x.ndim - mask.rank


def _is_array(part: Any) -> bool:
    from .lazy import LazyArray

    return isinstance(part, (LazyArray, Tensor, np.ndarray, list, bool, np.bool_))


def _tensors(x: LazyArray, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return an index with tensors in it; a mask beside others is what it selects."""
    arrays = sum(map(_is_array, parts))
    out: list[Any] = []
    for part in parts:
        if not _is_array(part):
            out.append(part)
            continue
        if isinstance(part, list):
            part = np.asarray(part, None if len(part) else np.intp)
        if isinstance(part, (bool, np.bool_)):
            raise refusal("True or False as an index", hint="np.where(...), or x[None]")
        known = isinstance(part, np.ndarray) and not x.owner.holds(part)
        if known and part.dtype == bool:
            _check_mask(x, part, parts)
            out += [x.owner.constant(i) for i in part.nonzero()]
            continue
        t = x.owner.lift(part).tensor
        if kind(t.dtype) not in "iub":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        if kind(t.dtype) == "b" and not t.rank:
            raise refusal("a mask without axes as an index", hint="np.where(...)")
        if kind(t.dtype) == "b" and arrays > 1:
            out += Nonzero()(t) if t.rank > 1 else [Nonzero()(t)[0]]
        else:
            out.append(t)
    return tuple(out)


def _width(part: Any) -> int:
    """Return how many axes a part of an index takes."""
    if part is None or part is Ellipsis:
        return 0
    return int(part.ndim) if getattr(part, "dtype", None) == np.dtype(bool) else 1


def _check_mask(x: LazyArray, mask: Any, parts: tuple[Any, ...]) -> None:
    """Refuse a known mask of another shape than the axes it covers, as numpy does."""
    widths = [0 if p is mask else _width(p) for p in parts]
    place = next(i for i, p in enumerate(parts) if p is mask)
    start = sum(widths[:place])
    if any(p is Ellipsis for p in parts[:place]):
        start += x.ndim - sum(widths) - mask.ndim
    covered = x.shape[start : start + mask.ndim]
    if any(isinstance(d, int) and d != n for d, n in zip(covered, mask.shape, strict=False)):
        raise IndexError(
            f"boolean index did not match indexed array: it is {mask.shape}, the axes {covered}"
        )


def _view(x: LazyArray, parts: tuple[Any, ...]) -> LazyArray:
    """Return ``x[parts]`` as a view, also where numpy gives a scalar."""
    known = _known(x, parts)
    more = () if any(p is Ellipsis for p in known) else (Ellipsis,)  # a view, never a scalar
    stand_in = x.shadow[(*known, *more)]
    used = sum(p is not None and p is not Ellipsis for p in parts)
    at = next((i for i, p in enumerate(parts) if p is Ellipsis), len(parts))
    before, after = map(_item, parts[:at]), map(_item, parts[at + 1 :])
    index = (*before, *[ALL] * (x.ndim - used), *after)
    while index and index[-1] == ALL:
        index = index[:-1]
    return x.view_of(Sliced(index), stand_in)


def _known(x: LazyArray, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return an index with examples of the sizes that are not known; numpy checks the rest."""
    if not x.owner.dynamic:
        return parts
    sizes = x.owner.sizes
    shape = iter(x.tensor.shape) if not any(p is Ellipsis for p in parts) else None
    out: list[Any] = []
    for part in parts:
        d = next(shape, 0) if shape is not None and part is not None else 0
        if isinstance(part, slice):
            bounds = (_example(v, sizes) for v in (part.start, part.stop, part.step))
            out.append(slice(*bounds))
        elif isinstance(part, Dim) or isinstance(d, Dim):
            out.append(0)
        else:
            out.append(part)
    return tuple(out)


def _example(value: Any, sizes: dict[str, int]) -> Any:
    from .shadow import STAND_IN

    if isinstance(value, Dim):
        return value.substitute({s: sizes.get(s, STAND_IN) for s in value.symbols})
    return value


def _item(part: Any) -> Any:
    """Return a part of an index as the op has it."""
    if part is None or isinstance(part, Dim):
        return part
    if isinstance(part, slice):
        bounds = (part.start, part.stop, part.step)
        return ("slice", *(v if v is None or isinstance(v, Dim) else as_int(v) for v in bounds))
    return as_int(part)

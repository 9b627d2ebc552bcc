"""numpy's ufuncs on lazy arrays: numpy says the dtypes, ops compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import DTypeError, ShapeError
from ..graph import Tensor
from ..op import OPS, find_op
from ..ops.core.like import BroadcastLike, ReshapeLike
from ..ops.core.movement import cast_to
from ..ops.loading import load
from ..spec import broadcast, kind
from . import indexing
from .lazy import UFUNCS, LazyArray
from .refusals import refusal
from .registry import call
from .shadow import laid_out_like
from .special import FORMULAS

if TYPE_CHECKING:
    from .state import Recording

MANY = 1 << 30
"""References to a plain array that is written otherwise than by an operator."""

REDUCTIONS = {
    "add": np.sum,
    "multiply": np.prod,
    "maximum": np.max,
    "minimum": np.min,
    "logical_and": np.all,
    "logical_or": np.any,
}
"""ufunc -> the function that is its ``reduce``."""

SCATTERS = {
    "add": "scatter_add",
    "subtract": "scatter_sub",
    "multiply": "scatter_mul",
    "divide": "scatter_div",
    "maximum": "scatter_max",
    "minimum": "scatter_min",
}
"""ufunc -> the op that is its ``at``."""


def apply(
    trace: Recording,
    ufunc: np.ufunc,
    method: str,
    inputs: tuple[Any, ...],
    options: dict[str, Any],
    holders: int,
) -> Any:
    """Apply a ufunc or one of its methods: what ``__array_ufunc__`` does."""
    if method == "__call__":
        return _call(trace, ufunc, inputs, holders, **options)
    if method in _METHODS:
        return _METHODS[method](trace, ufunc, *inputs, **options)
    raise refusal(f"np.{ufunc.__name__}.{method} has no op", hint="a reduction with axis=")


UFUNCS.append(apply)


# -- calls -----------------------------------------------------------------------------------------


def _call(
    trace: Recording,
    ufunc: np.ufunc,
    inputs: tuple[Any, ...],
    holders: int,
    out: tuple[Any, ...] = (),
    where: Any = True,
    dtype: Any = None,
    casting: str = "same_kind",
    signature: Any = None,
    **layout: Any,
) -> Any:
    xs = [trace.lift(x) for x in inputs]
    targets = tuple(_target(trace, o, holders) for o in out) or (None,) * ufunc.nout
    given = _signature(ufunc, dtype, signature)
    dtypes = _resolve(ufunc, xs, targets, casting, given)
    operands = [_converted(trace, x, d) for x, d in zip(xs, dtypes, strict=False)]
    found = _compute(ufunc, operands)
    results = []
    for target, y, d in zip(targets, found, dtypes[ufunc.nin :], strict=True):
        y = cast_to(d, y)
        if where is not True:
            y = _masked(trace, y, where, target, ufunc)
        if target is None:
            results.append(trace.fresh(y, _layout(y, xs)))
        else:
            results.append(_write(target, y, casting))
    return results[0] if ufunc.nout == 1 else tuple(results)


def _target(trace: Recording, out: Any, holders: int = MANY) -> LazyArray | None:
    """Return the array that a result is written into; a scalar is replaced instead."""
    if out is None:
        return None
    target = trace.written(out, holders) if isinstance(out, np.ndarray) else trace.own(out)
    return None if target.scalar else target


def _signature(ufunc: np.ufunc, dtype: Any, signature: Any) -> Any:
    if dtype is not None:
        return (None,) * ufunc.nin + (np.dtype(dtype),) * ufunc.nout
    return signature


def _resolve(
    ufunc: np.ufunc, xs: list[LazyArray], targets: Any, casting: str, signature: Any
) -> tuple[np.dtype[Any], ...]:
    """Return the dtypes of inputs and outputs, as numpy decides: numbers of Python are weak."""
    kinds = {"i": int, "f": float, "c": complex}
    known: list[Any] = [kinds[x.dtype.kind] if x.weak else x.dtype for x in xs]
    if ufunc in _COMPARISONS and any(x.weak for x in xs):
        known = [_wide_enough(x, xs) for x in xs]
    outs = [None if t is None else t.dtype for t in targets]
    options: Any = {"casting": casting}
    if signature is not None:
        options["signature"] = signature
    found = ufunc.resolve_dtypes((*known, *outs), **options)
    return tuple(found[: ufunc.nin]) + tuple(
        o or d for o, d in zip(outs, found[ufunc.nin :], strict=True)
    )


def _wide_enough(x: LazyArray, xs: list[LazyArray]) -> Any:
    """Return the dtype of a comparison's input: a number may lie outside the other's range."""
    strong = [y.dtype for y in xs if not y.weak]
    if not x.weak or x.dtype.kind != "i" or not strong or strong[0].kind not in "iu":
        return {"i": int, "f": float, "c": complex}[x.dtype.kind] if x.weak else x.dtype
    limits, value = np.iinfo(strong[0]), x.tensor.spec.value
    inside = value is None or limits.min <= int(value) <= limits.max
    return int if inside else np.dtype(np.int64)


_COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)


def _converted(trace: Recording, x: LazyArray, dtype: np.dtype[Any]) -> Tensor:
    """Return an input in the dtype in which numpy computes."""
    t = x.tensor
    if t.dtype == dtype:
        return t
    if x.weak and t.kind == "constant":
        return trace.number(t.graph.values.array(t.name).item(), dtype)
    if kind(dtype) == "b":
        return find_op("not_equal")()(t, trace.number(0, t.dtype))  # type: ignore[no-any-return]
    return cast_to(dtype, t)  # type: ignore[no-any-return]


def _compute(ufunc: np.ufunc, xs: list[Tensor]) -> tuple[Tensor, ...]:
    """Return the results of a ufunc on inputs that are converted."""
    name = ufunc.__name__
    try:
        formula: Callable[..., Any] | None = FORMULAS.get(name)
        found = NotImplemented if formula is None else formula(*xs)
        if found is NotImplemented:
            op = _op_of(ufunc)
            if op is None:
                raise refusal(
                    f"np.{name} has no op, so a trace cannot hold it",
                    hint='other functions, or @gw.compile(fallback="eager") for plain numpy',
                )
            found = op()(*xs)
    except DTypeError as error:
        given = ", ".join(str(x.dtype) for x in xs)
        raise refusal(
            f"np.{name} of {given} has no op: {error.problem}",
            hint='another dtype, or @gw.compile(fallback="eager") for plain numpy',
        ) from None
    except ShapeError:
        shapes = " ".join(str(x.shape).replace(" ", "") for x in xs)
        raise ValueError(f"operands could not be broadcast together with shapes {shapes}") from None
    return found if isinstance(found, tuple) else (found,)


def _op_of(ufunc: np.ufunc) -> Any:
    if ufunc is np.power:
        return find_op("pow")
    if ufunc is np.matmul:
        return find_op("matmul")
    found = next((cls for cls in list(OPS.values()) if cls.ufunc is ufunc), None)
    if found is None:
        load()
        found = next((cls for cls in list(OPS.values()) if cls.ufunc is ufunc), None)
    return found


def _layout(y: Tensor, xs: list[LazyArray]) -> Any:
    """Return the shadow of a result, where its order in memory is not the usual one."""
    plain = all(x.shadow.flags.c_contiguous for x in xs)
    if plain or not y.spec.is_concrete or any(x.owner.dynamic for x in xs):
        return None
    shape: Any = y.shape
    wide = [x.shadow for x in xs if x.ndim]
    try:
        return laid_out_like(shape, y.dtype, wide)
    except ValueError:  # of matmul, whose inputs do not broadcast
        return None


def _masked(
    trace: Recording, y: Tensor, where: Any, target: LazyArray | None, ufunc: np.ufunc
) -> Tensor:
    if target is None:
        raise refusal(
            f"np.{ufunc.__name__}(where=...) without out= leaves elements undefined",
            hint="out=x, or np.where(mask, f(x), x)",
        )
    mask = trace.lift(where).tensor
    made: Tensor = find_op("where")()(mask, cast_to(target.dtype, y), target.tensor)
    return made


def _write(target: LazyArray, y: Tensor, casting: str = "same_kind") -> LazyArray:
    """Write a result into an array: ``out=`` and ``x += y``."""
    if not np.can_cast(y.dtype, target.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(
            f"Cannot cast output from {y.dtype!r} to {target.dtype!r} with casting rule {casting!r}"
        )
    joint = broadcast(y.shape, target.shape)
    if target.owner.dynamic is False and joint != target.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {target.shape} "
            f"doesn't match the broadcast shape {joint}"
        )
    y = cast_to(target.dtype, y)
    target.write(y if y.shape == target.shape else BroadcastLike()(y, target.tensor))
    return target


def into(out: Any, y: Any) -> Any:
    """Return a function's result, written into ``out`` if there is one."""
    if isinstance(out, tuple):
        (out,) = out
    if out is None:
        return y
    target = _target(y.owner, out)
    return y if target is None else _write(target, y.tensor)


# -- methods ---------------------------------------------------------------------------------------


def _reduce(trace: Recording, ufunc: np.ufunc, x: Any, axis: Any = 0, **options: Any) -> Any:
    if ufunc.__name__ not in REDUCTIONS:
        raise refusal(
            f"np.{ufunc.__name__}.reduce has no op", need=", ".join(REDUCTIONS), hint="np.sum(x)"
        )
    return call(REDUCTIONS[ufunc.__name__], trace.lift(x), axis=axis, **options)


def _accumulate(
    trace: Recording, ufunc: np.ufunc, x: Any, axis: int = 0, dtype: Any = None, out: Any = None
) -> Any:
    simple = {"add": np.cumsum, "multiply": np.cumprod}
    extremes = {"maximum": "cummax", "minimum": "cummin"}
    name, array = ufunc.__name__, trace.lift(x)
    if name in simple:
        return call(simple[name], array, axis=axis, dtype=dtype, out=out)
    if name in extremes:
        found, _ = find_op(extremes[name])(axis=axis)(array.tensor)
        return into(out, trace.fresh(found))
    raise refusal(f"np.{name}.accumulate has no op", hint="np.cumsum(x), or gw.scan")


def _outer(trace: Recording, ufunc: np.ufunc, a: Any, b: Any, **options: Any) -> Any:
    left, right = trace.lift(a), trace.lift(b)
    if right.ndim:
        left = left[(..., *[None] * right.ndim)]
    return _call(trace, ufunc, (left, right), MANY, **options)


def _at(trace: Recording, ufunc: np.ufunc, x: Any, index: Any, *values: Any) -> None:
    target = trace.written(x, MANY) if isinstance(x, np.ndarray) else trace.own(x)
    name = SCATTERS.get(ufunc.__name__)
    if name is None or not values:
        raise refusal(f"np.{ufunc.__name__}.at has no op", need=", ".join(SCATTERS))
    parts = index if isinstance(index, tuple) else (index,)
    at = indexing.places(target, parts)
    flat = target.tensor.reshape(-1)
    value = indexing.fitted(target, values[0], at).reshape(-1)
    new = find_op(name)(axis=0)(flat, at.reshape(-1), value)
    target.write(ReshapeLike()(cast_to(target.dtype, new), target.tensor))


_METHODS: dict[str, Callable[..., Any]] = {
    "reduce": _reduce,
    "accumulate": _accumulate,
    "outer": _outer,
    "at": _at,
}

"""Reasons, in words: why an op lets little of a gradient through, or much."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .level import Edge, norm
from .measured import Measured, Slopes

Array = np.ndarray[Any, Any]
ROUNDING = 1e-12
"""What is left of terms that cancel exactly, relative to them: float64 and some sums."""
LITTLE, MUCH = 0.1, 10.0
"""Gains beyond which an op is worth a word."""


class Reason(NamedTuple):
    """Why a cotangent is what it is behind an op: the kind, and a clause about the op."""

    kind: str = ""
    text: str = ""


def reason(edge: Edge, names: Sequence[str]) -> Reason:
    """Return what an op does to a cotangent, if that is worth a word.

    ``names`` are what errors call the tensors that come in.
    """
    if edge.i in edge.vjp.refused:
        return Reason("detached", f"states no gradient: {edge.vjp.refused[edge.i]}")
    found = Measured(edge)
    if not math.isfinite(edge.norm_out):
        return _not_finite(edge, found, names) if math.isfinite(edge.norm_in) else Reason()
    slopes = found.slopes
    makers = [_cancels(edge, found)] if slopes is None else [_elements(edge, found, slopes, names)]
    if slopes is None:
        makers += [_other_factors(edge, found, names), _dense(edge, found, names)]
    elif edge.norm_out:
        makers.append(_cancels(edge, found))
    for made in makers:
        for kind, text in made:
            return Reason(kind, text)
    return Reason()


# -- element by element -----------------------------------------------------------------------------


def _elements(
    edge: Edge, found: Measured, slopes: Slopes, names: Sequence[str]
) -> Iterator[Reason]:
    live, share = slopes.live, slopes.share
    gain = _gain(slopes, edge)
    if share > 0.5 or (share and gain < LITTLE):
        if found.is_linear and slopes.values.any() | _has_factor(edge, found):
            yield _factor_zero(edge, found, slopes, names)
        else:
            yield _flat(found, slopes)
    elif gain < LITTLE and not found.is_linear:
        grid, reach = found.reach
        usable = np.abs(reach[np.isfinite(reach)])
        if usable.size and gain < LITTLE * usable.max():
            best = float(grid[np.isfinite(reach)][usable.argmax()])
            yield Reason(
                "saturated",
                f"saturated: x lies {_span(slopes.x[live])}, where its slope is "
                f"{_about(gain)}; at {_near(best)} it is {_about(float(usable.max()))}",
            )
        else:
            yield Reason("factor", f"its slope is {_about(gain)} there: x lies {_span(slopes.x)}")
    elif gain < LITTLE or gain > MUCH:
        at = _worst(edge, found, slopes, largest=gain > MUCH)
        values = [
            f"{name} = {_about(float(np.broadcast_to(x, live.shape)[at].real))}"
            for name, x in zip(names, edge.xs, strict=False)
            if x is not None and x.dtype.kind in "fc" and _fits(x, live.shape)
        ]
        slope = _about(abs(float(slopes.values[at])))
        if found.is_linear:
            others = [v for k, v in enumerate(values) if names.index(v.split(" = ")[0]) != edge.i]
            yield Reason("factor", f"multiplies it by {slope}" + _where(others))
        else:
            yield Reason("steep", f"its slope is {slope}" + _where(values))


def _gain(slopes: Slopes, edge: Edge) -> float:
    """Return the gain of the slopes alone, whatever sums come after."""
    g = next(g for g in edge.given if g is not None and g.any())
    with np.errstate(all="ignore"):
        passed = norm(np.where(slopes.live, slopes.values * g, 0.0))
    return passed / norm(g)


def _has_factor(edge: Edge, found: Measured) -> bool:
    """Tell whether another input decides the slopes, as a factor or a mask does."""
    return any(x is not None and i != edge.i for i, x in enumerate(edge.xs))


def _factor_zero(edge: Edge, found: Measured, slopes: Slopes, names: Sequence[str]) -> Reason:
    flat, shape = slopes.flat, slopes.live.shape
    for name, x in zip(names, edge.xs, strict=False):
        if x is None or x is edge.x or not _fits(x, shape):
            continue
        wide = np.broadcast_to(x, shape)
        if x.dtype.kind == "b":
            chosen = wide[flat]
            if chosen.all() or not chosen.any():
                word = "true" if chosen.all() else "false"
                return Reason("masked", f"masked: {name!r} is {word} {_at(slopes)}")
        elif x.dtype.kind in "fciu" and not wide[flat].any():
            return Reason("zero factor", f"multiplied by {name!r}, which is 0 {_at(slopes)}")
    return Reason("masked", f"passes nothing {_at(slopes)}")


def _flat(found: Measured, slopes: Slopes) -> Reason:
    x = slopes.x[slopes.flat]
    grid, reach = found.reach
    steep = grid[reach != 0] if grid.size else grid
    clause = f"its slope is 0 {_at(slopes)}: x lies {_span(x)}"
    if grid.size and not steep.size:
        return Reason("flat", f"its slope is 0 everywhere, {_at(slopes, False)}: a step function")
    if steep.size:
        low, high = float(steep.min()), float(steep.max())
        if low > grid.min() and high < grid.max():
            clause += f", and it has a slope only between {_near(low)} and {_near(high)}"
        elif low > grid.min():
            clause += f", and it has a slope only above {_near(low)}"
        elif high < grid.max():
            clause += f", and it has a slope only below {_near(high)}"
    return Reason("flat", clause + _units(slopes))


def _units(slopes: Slopes) -> str:
    """Say how many columns have no slope in any row."""
    live, flat = slopes.live, slopes.flat
    if flat.ndim < 2 or flat.all() or not (columns := live.shape[-1]):
        return ""
    rows = flat.reshape(-1, columns) | ~live.reshape(-1, columns)
    dead = int(rows.all(0).sum())
    return f"; {dead} of {columns} columns have none in any row" if dead else ""


def _at(slopes: Slopes, comma: bool = True) -> str:
    n, of = int(slopes.flat.sum()), int(slopes.live.sum())
    if n == of:
        return "at its one element" if of == 1 else f"at all {of:,} elements"
    return f"at {n / of:.0%} of {of:,} elements"


def _worst(edge: Edge, found: Measured, slopes: Slopes, *, largest: bool) -> tuple[int, ...]:
    g = next(g for g in edge.given if g is not None and g.any())
    with np.errstate(all="ignore"):
        size = np.abs(slopes.values * g) if largest else np.abs(slopes.values)
    size = np.where(slopes.live, size, -np.inf)
    place = int(np.nanargmax(size))
    return tuple(int(i) for i in np.unravel_index(place, size.shape))


# -- sums, products and everything else --------------------------------------------------------------


def _cancels(edge: Edge, found: Measured) -> Iterator[Reason]:
    if found.spread and edge.norm_out < LITTLE * found.spread:
        left = edge.norm_out / found.spread
        how = (
            "exactly, up to rounding" if left < ROUNDING else f"to {_about(left)} of what they are"
        )
        yield Reason("cancels", f"terms of opposite sign cancel {how}")


def _other_factors(edge: Edge, found: Measured, names: Sequence[str]) -> Iterator[Reason]:
    """Yield another input that is zero, or nearly: of a product, a convolution, a gather."""
    if edge.gain > LITTLE:
        return
    for i, (name, x) in enumerate(zip(names, edge.xs, strict=False)):
        if x is None or i == edge.i or x.dtype.kind not in "fc" or not x.size:
            continue
        share = float((x == 0).mean())
        if share == 1:
            yield Reason("zero factor", f"multiplied by {name!r}, which is all 0")
        elif share > 0.9 and found.is_linear:
            yield Reason("zero factor", f"multiplied by {name!r}, which is 0 at {share:.1%}")


def _dense(edge: Edge, found: Measured, names: Sequence[str]) -> Iterator[Reason]:
    gain = edge.gain
    ones = edge.pull([None if g is None else np.ones_like(g) for g in edge.given])
    if found.is_linear and ones is not None and ones.size:
        read = float((ones != 0).mean())
        if read < 0.5 and gain <= MUCH:
            rows = (ones != 0).reshape(len(ones), -1).any(1) if ones.ndim else np.array([True])
            what = f"{int(rows.sum()):,} of {len(ones):,} rows" if ones.ndim else f"{read:.1%}"
            yield Reason("unread", f"only {what} of x are read")
        even = ones.ravel()
        if gain < LITTLE and np.ptp(even) <= 1e-9 * abs(even[0]) and abs(even[0]) < 1:
            n = 1 / abs(even[0])
            yield Reason("average", f"averages: each element gets 1/{n:,.0f} of what arrives")
        if gain < LITTLE or gain > MUCH:
            others = [
                f"{name!r}, which lies {_span(x)}"
                for i, (name, x) in enumerate(zip(names, edge.xs, strict=False))
                if x is not None and i != edge.i and x.dtype.kind in "fc" and x.size
            ]
            by = f": multiplied by {others[0]}" if others else ""
            yield Reason("factor", f"passes {_about(gain)} times what arrives{by}")
    elif gain < LITTLE:
        easy = found.gain_when_small
        if easy > MUCH * gain:
            yield Reason(
                "saturated",
                f"saturated: x lies {_span(edge.x)}; at a tenth of that it would pass "
                f"{_about(easy)} instead of {_about(gain)}",
            )
        else:
            yield Reason("factor", f"passes {_about(gain)} of what arrives; x lies {_span(edge.x)}")
    elif gain > MUCH:
        yield Reason("steep", f"passes {_about(gain)} times what arrives; x lies {_span(edge.x)}")


def _not_finite(edge: Edge, found: Measured, names: Sequence[str]) -> Reason:
    slopes = found.slopes
    if slopes is None:
        return Reason("nonfinite", f"passes what is not finite; x lies {_span(edge.x)}")
    wrong = slopes.live & ~np.isfinite(slopes.values)
    if not wrong.any():
        return Reason("nonfinite", "passes what is not finite")
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    values = [
        f"{name} = {_about(float(np.broadcast_to(x, wrong.shape)[at].real))}"
        for name, x in zip(names, edge.xs, strict=False)
        if x is not None and x.dtype.kind in "fc" and _fits(x, wrong.shape)
    ]
    return Reason("nonfinite", f"its slope is {float(slopes.values[at])}{_where(values)}")


# -- numbers ---------------------------------------------------------------------------------------


def _fits(x: Array, shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(x.shape, shape) == shape
    except ValueError:
        return False


def _where(values: Sequence[str]) -> str:
    return " where " + ", ".join(values) if values else ""


def _span(x: Array) -> str:
    values = np.abs(x) if np.iscomplexobj(x) else x
    values = values[np.isfinite(values)]
    if not values.size:
        return "nowhere finite"
    low, high = float(values.min()), float(values.max())
    return f"at {_about(low)}" if low == high else f"between {_about(low)} and {_about(high)}"


def _about(x: float) -> str:
    """Return a number with two or three digits."""
    return f"{x:.3g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def _near(x: float) -> str:
    """Return a place on the grid; what is next to zero is zero."""
    return "0" if abs(x) <= 2e-4 else f"{x:.2g}"

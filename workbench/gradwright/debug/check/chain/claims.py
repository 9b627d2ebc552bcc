"""Which slope a call has by an input: what its op declares, held against its forward once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....op import redefinitions
from ....shared import Bounded
from ...float64 import Call
from .slopes import ROW_BYTES, Affine, Element, Linear, Rows, Slope, Transposed, Windows
from .transposes import TRANSPOSES

Array = np.ndarray[Any, Any]

_STEP = 1e-5
_APART = 1e-5
"""Relative difference of what was measured along a direction and place by place."""
_sound = Bounded[bool](4096)
"""Whether a claim holds, by op, input, outputs that count, and shapes."""


def slope_of(
    call: Call, i: int, heads: Sequence[int], held: list[Any], rng: np.random.Generator
) -> Slope | None:
    """Return the slope of a call by an input; None where the op declares none, or a wrong one."""
    found = _declared(call, i, heads, held, rng)
    if found is None or type(found) is Linear:
        return found  # certified at each use
    key = (
        call.op, redefinitions(), i, tuple(map(call.outs.index, heads)),
        tuple(None if held[j] is None else held[j].shape for j in call.ins),
    )  # fmt: skip
    holds = _sound.find(key)
    if holds is None:
        with np.errstate(all="ignore"):
            holds = (
                _certified(found, held, rng)
                if isinstance(found, Linear)
                else _agrees(found, held, rng)
            )
        _sound.keep(key, holds)
    if holds:
        return found
    return Linear(call, i, heads, found.unit) if isinstance(found, Linear) else None


def forget() -> None:
    """Forget which claims hold: ops may have changed."""
    _sound.clear()


def _declared(
    call: Call, i: int, heads: Sequence[int], held: list[Any], rng: np.random.Generator
) -> Slope | None:
    x, op = held[call.ins[i]], call.op
    claim = op.depends(i)
    if any(held[j].dtype != np.float64 for j in (call.ins[i], *heads)):
        return None  # complex slopes are not one number, and narrow ones are rounding
    if claim.kind == "linear":
        kind = Transposed if type(op) in TRANSPOSES and len(heads) == 1 else Linear
        return kind(call, i, heads, np.asarray(rng.standard_normal(x.shape)))
    if len(heads) > 1:
        return None
    if claim.kind == "affine":
        return Affine(call, i, heads, x)
    if claim.kind == "element":
        return Element(call, i, heads)
    if claim.kind == "rows" and claim.axis is not None and x.ndim and x.size:
        largest = max(x.size, held[heads[0]].size)
        if 8 * x.shape[claim.axis] * largest <= ROW_BYTES:
            return Rows(call, i, heads, x, claim.axis)
    if claim.kind == "windows" and x.size and held[heads[0]].size:
        return Windows(call, i, heads, claim.size)
    return None


def _certified(slope: Linear, held: list[Any], rng: np.random.Generator) -> bool:
    """Hold a transpose that is written here against the forward, by one projection."""
    bar = {slope.head: np.asarray(rng.standard_normal(held[slope.head].shape))}
    Linear.measure(slope, held)
    found = slope.pull(held, bar)
    return found is not None and slope.certifies(bar, found)


def _agrees(slope: Slope, held: list[Any], rng: np.random.Generator) -> bool:
    """Hold measured slopes against differences along one direction, output by output."""
    slope.measure(held)
    ones = np.ones(held[slope.head].shape)
    if slope.pulled(held, ones, slope.values).shape != held[slope.call.ins[slope.i]].shape:
        return False
    if _along(slope, held, rng):
        return True
    slope.refine(held)
    return slope.refines and _along(slope, held, rng)


def _along(slope: Slope, held: list[Any], rng: np.random.Generator) -> bool:
    x, y = held[slope.call.ins[slope.i]], held[slope.head]
    v = rng.standard_normal(x.shape) * np.abs(x)
    right = (slope.moved(held, x + _STEP * v) - slope.moved(held, x - _STEP * v)) / (2 * _STEP)
    found = slope.push(held, v)
    if right.shape != np.shape(found):
        return False
    size = np.maximum(np.abs(found), np.abs(right))
    most = np.max(size, initial=0.0, where=np.isfinite(size))
    wrong = np.abs(right - found) > _APART * size + 1e-7 * most + 1e-9 * np.abs(y)
    if slope.kinks is not None:
        rough = slope.kinks
        wrong &= ~(rough.any(0) if rough.ndim > wrong.ndim else rough)
    return not wrong.any()

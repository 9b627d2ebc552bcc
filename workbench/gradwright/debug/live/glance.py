"""A glance: what settles a healthy node with few evaluations, and says what wants a closer look.

Of a function of elements each element is seen: two evaluations measure all slopes, and those that
disagree are moved by themselves, where nothing hides them. Any other input moves along a random
direction, of which a mistake in one of many elements may be a small part.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...op import Op, run_forward
from ...ops.control.scan_op import Scan
from ...ops.core.identity import StopGradient
from ..check.chain.slopes import central
from ..check.directions import inner
from ..check.judging import Comparison, quick
from ..check.local import LocalCheck

Array = np.ndarray[Any, Any]

TURNS = 3
"""Turns of a scan that a look takes: the first, one between, and the last."""
STEPS = {"affine": 0.5, "element": 1e-5}
"""Where slopes of elements are measured, relative to their size; of a line anywhere, without error.
"""
SHARP = 1e-3
"""Relative error of a measured slope that tells nothing."""
LEAST = 1e-8
"""Part of the largest slope below which one is not told from 0."""
ROUNDINGS = 8.0
"""Of the values that a slope is the difference of."""


def glance(check: LocalCheck) -> Iterator[Comparison | None]:
    """Compare each input of an op at one step, or at a smaller one; None where it rests.

    ``ok`` is sure; anything else wants ``check.run()``, along the directions left in ``check``.
    """
    if not check.directions or not check.outputs or isinstance(check.op, StopGradient):
        return
    yield None
    with np.errstate(all="ignore"):
        found = check.vjp(check.xs, check.ys, check.gs, check.training)
    yield None
    for i in list(check.directions):
        if check.active is not None and i not in check.active:
            continue
        if is_elementwise(check, i):
            comparison, off = elements(check, i, found[i])
            if comparison.verdict == "ok":
                yield comparison
                continue
            x = check.xs[i]
            assert x is not None  # or nothing would have disagreed
            size = sizes(x)[1]
            check.directions[i] = np.where(off, size * check.rng.standard_normal(size.shape), 0.0)
        v = check.directions[i]
        at = functools.partial(check.at, directions={i: v}, gs=check.gs)
        yield twice(at, inner(v, found[i]), 1.0, check.rtol)


def twice(f: Callable[[float], float], exact: float, scale: float, rtol: float) -> Comparison:
    """Compare at one step, and where that is not clear at one that is a hundred times smaller."""
    found = quick(f, exact, scale=scale, rtol=rtol)
    if found.verdict != "unclear":
        return found
    closer = quick(f, exact, scale=scale / 100, rtol=rtol)
    return closer if closer.verdict == "ok" else found


def is_elementwise(check: LocalCheck, i: int) -> bool:
    """Tell whether the only output is a function of elements of an input, without broadcasting."""
    x, y = check.xs[i], check.ys[0]
    if x is None or len(check.outputs) != 1 or check.outputs[0] != 0:
        return False
    plain = x.shape == y.shape and x.dtype == y.dtype == np.float64
    return plain and not check.is_surrogate and check.op.depends(i).kind in ("affine", "element")


def elements(check: LocalCheck, i: int, cotangent: Array) -> tuple[Comparison, Array]:
    """Hold a cotangent against slopes of all elements; return the worst, and which disagree."""
    x, y, g = check.xs[i], check.ys[0], check.gs[0]
    assert x is not None
    step, wrong = STEPS[check.op.depends(i).kind], np.ones(y.shape, bool)
    numbers = np.nan, np.nan, np.nan
    for size in sizes(x):
        with np.errstate(all="ignore"):
            slopes, rounding = central(lambda at: check.moved(i, at)[0], x, step * size)
            measured, noise = g * slopes, ROUNDINGS * np.abs(g) * rounding
            off = np.abs(cotangent - measured)
            scale = np.maximum(np.abs(cotangent), np.abs(measured))
            most = np.max(scale, initial=0.0, where=np.isfinite(scale))
            room = check.rtol * scale + LEAST * most + noise
            wrong &= ~((off <= room) & (noise <= SHARP * scale + LEAST * most))
            at = np.unravel_index(np.argmax(np.where(room > 0, off / room, off > 0)), y.shape)
        numbers = float(cotangent[at]), float(measured[at]), float(room[at])
        if not wrong.any():
            return Comparison("ok", *numbers), wrong
    return Comparison("unclear", *numbers), wrong


def sizes(x: Array) -> tuple[Array, Array]:
    """Return what steps of elements are relative to: the median at least, or each alone.

    What is far below the median may have no value a median away.
    """
    size = np.abs(x)
    some = size[size > 0]
    median = float(np.median(some)) if some.size else 1.0
    return np.maximum(size, median), np.where(size > 0, size, median)


def shortened(
    op: Op, xs: list[Array | None], ys: list[Array], rng: np.random.Generator
) -> tuple[Op, list[Array | None], list[Array]]:
    """Return a scan over a few of its items in a row, with what it makes of them; others as is.

    The rule of a scan does not know how many turns there are, and a look at sixty takes twenty
    times as long as one at three.
    """
    if not isinstance(op, Scan):
        return op, xs, ys
    _, scanned, _ = op.split(xs)
    arrays = [x for x in scanned if x is not None]
    n = len(arrays[0]) if arrays and arrays[0].ndim else op.length
    if not isinstance(n, int) or n <= TURNS or any(x.dtype.kind == "O" for x in arrays):
        return op, xs, ys
    start = int(rng.integers(n - TURNS + 1))
    few = list(xs)
    few[op.n_carry : op.n_carry + len(scanned)] = [x[start : start + TURNS] for x in arrays]
    short = op if op.length is None else op.replace(length=TURNS)
    return short, few, list(run_forward(short, few, training=True))

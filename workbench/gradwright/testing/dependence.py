"""What an op says of its dependence on an input: against its own forward, element by element."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from ..debug.float64 import wide, widened
from ..op import Dependence, Op, Sample, run_forward
from ..spec import is_floating
from .common import Array, cases, need

MOVES = 24
"""How many elements of an input are moved, one by one; larger inputs have them drawn."""
Forward = Callable[[Array], list[Array]]


def check_dependence(cls: type[Op], sample: Sample) -> None:
    """``depends`` promises no more than ``forward`` keeps, on this sample and at drawn numbers."""
    for op, xs in cases(cls, sample):
        op = widened(op)
        held = [None if x is None else x.astype(wide(x.dtype)) for x in xs]
        for i, x in enumerate(held):
            if x is None or x.dtype != np.float64 or not x.size or i in op.shape_only:
                continue
            claim = op.depends(i)
            problem = broken(claim, forward_of(op, held, i), x) if claim.is_known else ""
            need(
                not problem,
                f"depends({i}) says {claim.kind}: {problem}; declare what is true at all values, "
                'such as "opaque", which claims nothing',
            )


def forward_of(op: Op, xs: list[Array | None], i: int) -> Forward:
    """Return an op as a function of input ``i``, of the outputs that a gradient passes."""

    def run(x: Array) -> list[Array]:
        ys = run_forward(op, [*xs[:i], x, *xs[i + 1 :]])
        return [y for y in ys[: op.n_public] if is_floating(y.dtype)]

    return run


def broken(claim: Dependence, f: Forward, x: Array) -> str:
    """Return what contradicts a claim, or nothing."""
    rng = np.random.default_rng(0)
    if claim.kind == "linear":
        return _bent(f, x, rng)
    problem = _spilt(claim, f, x, rng)
    return problem or (_bent(f, x, rng) if claim.kind == "affine" else "")


def _bent(f: Forward, x: Array, rng: np.random.Generator) -> str:
    """Return where f(x + v) − f(x) is no linear map of v, or not the same one at another x."""
    a, b, v, w = rng.standard_normal((4, *x.shape))
    ya, yb = f(a), f(b)
    parts = zip(ya, yb, f(a + v), f(a + w), f(a + v - 3 * w), f(b + v), strict=True)
    for k, (at_a, at_b, by_v, by_w, by_both, other) in enumerate(parts):
        size = max(np.abs(y).max(initial=0.0) for y in (at_a, at_b, by_v, by_w, by_both, other))
        moved = by_v - at_a
        if not _close(by_both - at_a, moved - 3 * (by_w - at_a), size):
            return f"output {k} is no linear function of it"
        if not _close(other - at_b, moved, size):
            return f"the slope of output {k} depends on its value"
    return ""


def _spilt(claim: Dependence, f: Forward, x: Array, rng: np.random.Generator) -> str:
    """Return which output element moves though it should not when one element of x moves."""
    ys = f(x)
    places = [tuple(map(int, p)) for p in np.ndindex(x.shape)]
    if len(places) > MOVES:
        places = [places[p] for p in rng.choice(len(places), MOVES, replace=False)]
    far = 2 * np.abs(x[np.isfinite(x)]).max(initial=0.0)
    for place, step in itertools.product(places, (1e-3 * far or 1e-3, far, -far)):
        moved = x.copy()
        moved[place] += step
        try:
            zs = f(moved)
        except (ArithmeticError, ValueError):  # out of the op's domain
            continue
        for k, (y, z) in enumerate(zip(ys, zs, strict=True)):
            reached = _reached(claim, x.shape, place, y.shape)
            if reached is None:
                return f"output {k} has shape {y.shape} where the input has {x.shape}"
            held = ~reached & ~_equal(y, z)
            if held.any():
                where = tuple(map(int, np.argwhere(held)[0]))
                return f"input element {place} moves element {where} of output {k}"
    return ""


def _reached(
    claim: Dependence, shape: tuple[int, ...], place: tuple[int, ...], out: tuple[int, ...]
) -> Array | None:
    """Return where in an output of a shape one element of the input may be seen; None: no fit."""
    mask: Array = np.zeros(shape, bool)
    mask[place] = True
    if claim.kind == "rows":
        if claim.axis is None or not -len(shape) <= claim.axis < len(shape):
            return None
        axis = claim.axis % len(shape)
        mask = np.logical_or.reduce(mask, axis, keepdims=True)
        if len(out) == len(shape) - 1:
            mask = mask.squeeze(axis)
    elif claim.kind == "windows":
        lead = len(shape) - len(claim.size)
        window = [p // n for p, n in zip(place[lead:], claim.size, strict=True)]
        mask = np.zeros(out, bool)
        if len(out) != len(shape):
            return None
        if all(p < n for p, n in zip(window, out[lead:], strict=True)):
            mask[(*place[:lead], *window)] = True
    try:
        return np.broadcast_to(mask, out)
    except ValueError:
        return None


def _equal(y: Array, z: Array) -> Array:
    """Return where two results are the same but for rounding."""
    with np.errstate(all="ignore"):
        same = np.abs(y - z) <= 1e-13 * np.maximum(np.abs(y), np.abs(z))
    found: Array = same | (y == z) | (np.isnan(y) & np.isnan(z))
    return found


def _close(a: Array, b: Array, size: float) -> bool:
    return bool((np.abs(a - b) <= 1e-11 * size).all())

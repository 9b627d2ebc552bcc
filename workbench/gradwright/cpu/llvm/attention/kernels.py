"""What happens to the scores of a tile between products: kernels that fusion lays out."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....fuse.builder import Builder, Term, call, where
from ....ops.attention.tiled import LOW, blind
from ..steps import Step, made


@dataclass(frozen=True)
class Form:
    """What tells kernels apart: the dtype, borders of what is seen, and what a mask is.

    ``axes`` are those along which a mask moves, ``mask`` is the character of its dtype, or none.
    Of low scores alone each of ``n_blind`` keys has the same weight; 0 if there are none.
    """

    dtype: np.dtype[Any]
    low: bool = False
    high: bool = False
    mask: str = ""
    axes: tuple[int, ...] = ()
    unseen: str = "zeros"
    n_blind: int = 0

    def scores(self, b: Builder) -> tuple[Term, Term | None]:
        """Return what is left of scores, −∞ where a key is hidden, and which are scores."""
        x = b.load("s", (0, 1), self.dtype) * b.load("scale", (), self.dtype)
        shown = None
        if self.mask == "?":
            shown = b.load("mask", self.axes, np.dtype(bool))
            x = where(shown, x, LOW if self.unseen == "average" else -math.inf)
        elif self.mask:
            x = x + b.load("mask", self.axes, self.dtype)
        seen: list[Term] = []
        if self.low or self.high:
            column = b.load("column", (1,), self.dtype)  # integers would fill half as many lanes
        if self.low:
            seen.append(column >= b.load("first", (0,), self.dtype))
        if self.high:
            seen.append(column <= b.load("last", (0,), self.dtype))
        for one in seen:
            x = where(one, x, -math.inf)
        return x, shown

    def slopes(self, b: Builder) -> tuple[Term, Term]:
        """Return weights, and what goes back to scores."""
        x, shown = self.scores(b)
        dp = b.load("dp", (0, 1), self.dtype)
        less, minus = b.load("lse", (0,), self.dtype), b.load("delta", (0,), self.dtype)
        p = call("exp", x - less)
        if self.n_blind:
            alike = where(x > -math.inf, b.const(1 / self.n_blind, self.dtype), 0.0)
            p = where(less < blind(self.dtype), alike, p)
        ds = p * (dp - minus)
        return p, ds if shown is None else where(shown, ds, 0.0)


@functools.cache
def begun(dtype: np.dtype[Any]) -> Step:
    """Return the kernel that stores what there is before the first tile."""
    b = Builder(2, 1)
    zero, least = b.const(0.0, dtype), b.const(float(np.finfo(dtype).min), dtype)
    return made(b, {"y": (zero, (0, 1)), "top": (least, (0,)), "total": (zero, (0,))})


@functools.cache
def shrunk(dtype: np.dtype[Any]) -> Step:
    """Return the kernel that multiplies rows by numbers."""
    b = Builder(2, 1)
    return made(b, {"y": (b.load("y", (0, 1), dtype) * b.load("shrink", (0,), dtype), (0, 1))})


@functools.cache
def ended(dtype: np.dtype[Any], nothing: float) -> Step:
    """Return the kernel that divides by l, and makes lse; of no keys l is ``nothing``."""
    b = Builder(2, 1)
    y = b.load("y", (0, 1), dtype)
    top, total = (b.load(name, (0,), dtype) for name in ("top", "total"))
    size = where(total <= 0, nothing, total)
    return made(b, {"y": (y * (1 / size), (0, 1)), "lse": (top + call("log", size), (0,))})


@functools.cache
def slopes(form: Form) -> Step:
    """Return the kernel that makes weights of scores, and slopes of scores of those of weights."""
    b = Builder(2, 1)
    p, ds = form.slopes(b)
    scale = b.load("scale", (), form.dtype)
    return made(b, {"s": (p, (0, 1)), "dp": (ds * scale, (0, 1))})


@functools.cache
def added(form: Form) -> Step:
    """Return the kernel that adds slopes of scores to those of a mask."""
    b = Builder(2, 1)
    _, ds = form.slopes(b)
    return made(b, {"dmask": (b.load("dmask", (0, 1), form.dtype) + ds, (0, 1))})


@functools.cache
def zeros(dtype: np.dtype[Any]) -> Step:
    """Return the kernel that stores zeros."""
    b = Builder(2, 2)
    return made(b, {"x": (b.const(0.0, dtype), (0, 1))})

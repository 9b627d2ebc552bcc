"""Probing: a parameter moves in one element, or along a direction, and the loss is watched."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import GradientError
from ...gradient import gradients
from ...graph import Tensor, ancestors
from ...graph.expand import run_nodes
from ...spec import is_floating, kind
from ..float64 import Float64Run, Function
from .directions import draw_direction, typical_size
from .numeric import (
    NARROW,
    WIDE,
    Comparison,
    Slope,
    jittered,
    judge,
    kinked,
    quick,
    rounding,
    slope,
)

Array = np.ndarray[Any, Any]
Index = tuple[int, ...]
UNCHECKED = Comparison("unchecked", math.nan, math.nan, math.nan)


@dataclass(frozen=True, repr=False)
class ElementCheck:
    """One element of a parameter (``part`` is ``real`` or ``imag`` of a complex one).

    ``index`` is None for the random direction through all elements.
    """

    parameter: str
    index: Index | None
    part: str = "real"
    comparison: Comparison = UNCHECKED
    kinks: tuple[str, ...] = ()
    """Nodes with a kink exactly here, such as a relu at 0."""

    @property
    def verdict(self) -> str:
        """``ok``, ``kink``, ``unclear`` or ``fail``."""
        return self.comparison.verdict

    def __str__(self) -> str:
        place = "along a random direction" if self.index is None else f"{list(self.index)}"
        c = self.comparison
        kinks = f", kink at {', '.join(self.kinks)}" if self.kinks else ""
        return (
            f"{self.parameter} {place}: {self.verdict}, analytic {c.analytic:.6g}, "
            f"numeric {c.numeric:.6g}, relative error {c.relative_error:.1e}{kinks}"
        )

    def __repr__(self) -> str:
        return f"<{self}>"


class Probe:
    """Moves one parameter of a float64 run and watches the loss."""

    def __init__(self, run: Float64Run, parameter: Tensor, loss: Tensor, rtol: float) -> None:
        self.function, self.rtol = Function(run, [parameter], [loss]), rtol
        self.base = run.env[parameter]
        self.typical = max(typical_size(self.base), 1e-3)
        self._moved = self.base.copy()
        self._target = run.env[loss]

    def direction(
        self, name: str, analytic: Array, rng: np.random.Generator, most: int | None = None
    ) -> ElementCheck:
        """Check along one random direction through all elements, or ``most`` of them."""
        v = draw_direction(self.base, rng, most)
        exact = float(np.vdot(analytic, v).real)
        return self._check(ElementCheck(name, None), lambda t: self.base + t * v, exact, 1.0)

    def element(self, name: str, index: Index, analytic: Array) -> Iterator[ElementCheck]:
        """Check one element; of a complex one the real and the imaginary part."""
        for part in ("real", "imag") if np.iscomplexobj(self.base) else ("real",):
            yield self.part(name, index, part, analytic)

    def part(self, name: str, index: Index, part: str, analytic: Array) -> ElementCheck:
        """Check the real or the imaginary part of one element."""
        exact = float(getattr(analytic[index], part))
        place = self.along(index, part)
        found = self._check(ElementCheck(name, index, part), place, exact, self.scale(index))
        place(0.0)
        return found

    def scale(self, index: Index) -> float:
        """Return the size that steps along an element are relative to."""
        return max(self.typical, float(abs(self.base[index])))

    def along(self, index: Index, part: str = "real") -> Callable[[float], Array]:
        """Return what moves one element by t; all calls give the same array."""
        start, unit = self.base[index], 1j if part == "imag" else 1.0

        def place(t: float) -> Array:
            self._moved[index] = start + t * unit
            return self._moved

        return place

    def loss(self, place: Callable[[float], Array]) -> Callable[[float], float]:
        """Return the loss at ``place(t)``; NaN outside the domain of an op."""

        def f(t: float) -> float:
            try:
                return float(self.function(place(t))[0])
            except (ArithmeticError, ValueError):
                return math.nan

        return f

    def slope(self, f: Callable[[float], float], scale: float) -> Slope:
        """Return the derivative at 0 of what :meth:`loss` gives, with the noise of this run."""
        return slope(f, scale=scale, magnitude=rounding(self._jitter[1]))

    @functools.cached_property
    def _jitter(self) -> tuple[list[list[Any]], float]:
        """Runs that differ in rounding alone, and how far apart their losses are."""
        runs, spread, calls = [], 0.0, self.function.calls
        for seed in range(3):
            rng = np.random.default_rng(seed)
            held = list(self.function.registers(jittered(self.base, rng)))
            for forward, ins, outs, _ in calls.calls:
                ys = forward(*[held[i] for i in ins])
                for out, y in zip(outs, ys if type(ys) is tuple else (ys,), strict=False):
                    held[out] = jittered(np.asarray(y), rng)
            runs.append(held)
            spread = max(spread, abs(float(held[self.function.targets[0]] - self._target)))
        return runs, spread

    def _check(
        self, check: ElementCheck, place: Callable[[float], Array], exact: float, scale: float
    ) -> ElementCheck:
        f = self.loss(place)
        found = quick(f, exact, scale=scale, rtol=self.rtol)
        kinks: tuple[str, ...] = ()
        if found.verdict == "unclear":
            kinks = tuple(self._kinks(lambda h: place(h * scale)))
            if kinks:
                found = replace(found, verdict="kink")
            else:
                found = judge(exact, self.slope(f, scale), self.rtol)
        return replace(check, comparison=found, kinks=kinks)

    def _kinks(self, place: Callable[[float], Array]) -> list[str]:
        """Return the nodes that have a kink here though what comes into them is smooth.

        Where several kinks meet, as in relu(x) - relu(-x) at 0, the loss may be smooth and the
        gradient still be one of many, so a difference is no mistake. Nodes that jump, as vectors
        of equal eigenvalues do, are no excuse: a loss that is smooth all the same has one gradient.
        """
        zero, *moved = (
            list(self.function.registers(place(h).copy()))
            for h in (0.0, WIDE, -WIDE, NARROW, -NARROW)
        )
        jitter, _ = self._jitter
        found: dict[str, None] = {}
        rough: set[int] = set()
        for _, ins, outs, label in self.function.calls.calls:
            first, torn = not rough.intersection(ins), False
            bent = []
            for out in outs:
                if zero[out].dtype.kind in "fc":
                    at = [m[out] for m in moved]
                    same = [held[out] for held in jitter]
                    kinks, jumps = kinked(zero[out], (at[0], at[1]), (at[2], at[3]), same)
                    torn |= bool(jumps.any())
                    if kinks.any():
                        bent.append(out)
            rough.update(bent)
            if bent and first and not torn:
                found[label] = None
        return list(found)


def analytic_gradients(run: Float64Run, loss: Tensor, wrt: Sequence[Tensor]) -> list[Array]:
    """Return the gradients of a run's copied loss, in float64."""
    found = gradients(loss, wrt)
    order = ancestors(found, stop=set(run.env))
    arrays: list[Array] = run_nodes(order, run.env, found, training=run.training)
    return arrays


def check_loss(loss: Tensor) -> None:
    """Raise GradientError unless ``loss`` is a real scalar."""
    if loss.rank:
        raise GradientError(
            f"the loss {loss.name!r} is not a scalar",
            facts=[f"got {loss.spec}"],
            need="a tensor of rank 0",
            hint=f"{loss.name}.sum() or .mean()",
        )
    if kind(loss.dtype) != "f":
        raise GradientError(
            f"the loss {loss.name!r} is not a real number",
            facts=[f"got {loss.spec}"],
            need="a floating scalar",
        )


def check_floating(t: Tensor) -> Tensor:
    """Return the tensor; raises GradientError if it can have no gradient."""
    if not is_floating(t.dtype):
        raise GradientError(f"{t!r} is not floating, so it has no gradient")
    return t

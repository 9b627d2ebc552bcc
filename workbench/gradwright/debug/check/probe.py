"""Probing: a parameter moves in one element, or along a direction, and the loss is watched."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ...errors import GradientError
from ...gradient import gradients
from ...graph import Constant, Tensor, ancestors
from ...graph.expand import run_nodes
from ...op import run_forward
from ...spec import is_floating, kind
from ..float64 import Float64Run, Function
from .directions import by_element, draw_direction, typical_size
from .judging import Comparison, judge, quick
from .numeric import FINEST, NARROW, WIDE, Slope, jittered, kinked, rounding, slope
from .steep import is_steep
from .vjp import deciding

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
    excuse: str = ""
    """Why a difference is no mistake: ``cancelled``, where rounding alone moves the gradient this
    far, or ``veiled``, where a loop holds a gradient that is declared."""

    @property
    def verdict(self) -> str:
        """``ok``, ``kink``, ``unclear`` or ``fail``."""
        return self.comparison.verdict

    def given(self, spread: float, excuse: str = "cancelled") -> ElementCheck:
        """Return the check where rounding alone moves the analytic gradient by ``spread``."""
        c = self.comparison
        if c.verdict != "fail" or not abs(c.analytic - c.numeric) <= 10 * spread:
            return self
        return replace(self, comparison=replace(c, verdict="unclear"), excuse=excuse)

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
        found: list[ElementCheck] = []
        none = ElementCheck(name, None)
        for v in (draw_direction(self.base, rng, most), by_element(self.base, rng)):
            if v is not None and not (found and found[0].verdict == "ok"):
                exact = float(np.vdot(analytic, v).real)
                if not math.isfinite(exact) and np.isfinite(analytic).all():  # too large along v
                    lost = Comparison("unclear", exact, math.inf, math.inf)
                    found.append(replace(none, comparison=lost))
                else:
                    place = functools.partial(self._moved_along, v)
                    found.append(self._check(none, place, exact, 1.0))
        return _sharper(*found)

    def _moved_along(self, v: Array, t: float) -> Array:
        return np.asarray(self.base + t * v)

    def element(self, name: str, index: Index, analytic: Array) -> Iterator[ElementCheck]:
        """Check one element; of a complex one the real and the imaginary part."""
        for part in ("real", "imag") if np.iscomplexobj(self.base) else ("real",):
            yield self.part(name, index, part, analytic)

    def part(self, name: str, index: Index, part: str, analytic: Array) -> ElementCheck:
        """Check the real or the imaginary part of one element."""
        exact = float(getattr(analytic[index], part))
        place, own = self.along(index, part), float(abs(self.base[index]))
        found = self._check(ElementCheck(name, index, part), place, exact, self.scale(index))
        if found.verdict != "ok" and 0 < own < 1e-2 * self.scale(index):
            found = _sharper(found, self._check(found, place, exact, own))
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
        if is_steep(f, exact, scale):  # as sqrt is at 0: right, and of no use
            found = Comparison("unclear", exact, math.nan, math.inf)
            return replace(check, comparison=found, kinks=())
        if found.verdict != "unclear":
            return replace(check, comparison=found, kinks=())
        found = judge(exact, self.slope(f, scale), self.rtol)
        if found.verdict == "ok":
            return replace(check, comparison=found, kinks=())
        kinks = self._kinks(lambda h: place(h * scale))
        if kinks and found.verdict != "kink":
            low, high = self._subgradients(kinks, found, scale)
            inside = low - found.tolerance <= exact <= high + found.tolerance
            found = replace(found, verdict="kink") if inside else found
        names = tuple(dict.fromkeys(k.label for k in kinks))
        return replace(check, comparison=found, kinks=names)

    def _kinks(self, place: Callable[[float], Array]) -> list[Kink]:
        """Return where nodes have a kink here though what comes into them is smooth.

        Nodes that jump, as vectors of equal eigenvalues do, are no excuse: a loss that is smooth
        all the same has one gradient.
        """
        zero = list(self.function.registers(place(0.0).copy()))
        sides = [
            tuple(list(self.function.registers(place(s * h).copy())) for s in (1, -1))
            for h in (WIDE, NARROW, *FINEST)
        ]
        jitter, _ = self._jitter
        found: list[Kink] = []
        rough: set[int] = set()
        for number, (_, ins, outs, label) in enumerate(self.function.calls.calls):
            first, torn = not rough.intersection(ins), False
            bent = []
            for out in outs:
                runs = (*(y for side in sides for y in side), *jitter)
                if any(run[out].shape != zero[out].shape for run in runs):
                    torn = True  # how many elements there are is a jump, too
                elif zero[out].dtype.kind in "fc":
                    wide, narrow, *finer = ((up[out], down[out]) for up, down in sides)
                    same = [held[out] for held in jitter]
                    at, jumps = kinked(zero[out], wide, narrow, same, finer)
                    torn |= bool(jumps.any())
                    if at.any():
                        up, down = narrow
                        left, right = (zero[out] - down) / NARROW, (up - zero[out]) / NARROW
                        bent.append(Kink(label, number, out, at, left, right))
            rough.update(k.out for k in bent)
            if first and not torn:
                found += bent
        return found

    def _subgradients(
        self, kinks: Sequence[Kink], found: Comparison, scale: float
    ) -> tuple[float, float]:
        """Return the least and the largest slope that a choice at each kink can give.

        Where several kinks meet, as in relu(x) − relu(−x) at 0, the loss may be smooth and the
        gradient still be one of many: each kinked element may take any slope between its two, and
        the loss follows it by what it does when that element moves alone.
        """
        assert found.slope is not None
        low = high = found.slope.right * scale
        if sum(int(k.at.sum()) for k in kinks) > _MOST_KINKS:
            return -math.inf, math.inf
        for kink in kinks:
            for index in map(tuple, np.argwhere(kink.at).tolist()):
                left, right = float(kink.left[index].real), float(kink.right[index].real)
                up, down = self._sensitivity(kink, index)
                taken = (up if right > 0 else down) * right
                ends = [c * slope - taken for c in (up, down) for slope in (left, right)]
                low, high = low + min(ends), high + max(ends)
        return low / scale, high / scale

    def _sensitivity(self, kink: Kink, index: Index) -> tuple[float, float]:
        """Return the loss's slopes by one element of what a node makes, upwards and downwards."""
        base = list(self.function.registers(self.base))
        size = max(typical_size(base[kink.out]), float(abs(base[kink.out][index])))
        target, losses = self.function.targets[0], []
        for step in (0.0, 1e-6 * size, -1e-6 * size):
            held, moved = list(base), base[kink.out].copy()
            moved[index] += step
            held[kink.out] = moved
            for forward, ins, outs, _ in self.function.calls.calls[kink.call + 1 :]:
                ys = forward(*[held[i] for i in ins])
                for out, y in zip(outs, ys if type(ys) is tuple else (ys,), strict=True):
                    held[out] = np.asarray(y)
            losses.append(float(held[target]))
        here, above, below = losses
        return (above - here) / (1e-6 * size), (here - below) / (1e-6 * size)


def _sharper(found: ElementCheck, again: ElementCheck | None = None) -> ElementCheck:
    """Return the one of two checks that tells more; the second one's steps suit each element."""
    if again is None or again.verdict == "unclear":
        return found
    narrower = again.comparison.tolerance <= found.comparison.tolerance
    return again if found.verdict == "unclear" or narrower else found


class Kink(NamedTuple):
    """Elements of a node's output whose slopes differ on the two sides of a point."""

    label: str
    call: int
    out: int
    at: Array
    left: Array
    right: Array


_MOST_KINKS = 32
"""Kinked elements whose share of the loss's slope is measured; more of them excuse anything."""


def analytic_gradients(run: Float64Run, loss: Tensor, wrt: Sequence[Tensor]) -> list[Array]:
    """Return the gradients of a run's copied loss, in float64."""
    found = gradients(loss, wrt)
    order = ancestors(found, stop=set(run.env))
    arrays: list[Array] = run_nodes(order, run.env, found, training=run.training)
    return arrays


def gradient_spread(run: Float64Run, loss: Tensor, wrt: Sequence[Tensor]) -> list[Array]:
    """Return how far apart the gradients of runs are that differ in rounding alone.

    Where terms of a gradient cancel, as those of (eˣ − 1)/x at 1e-10, it has lost digits that no
    vjp is to blame for.
    """
    found = gradients(loss, wrt)
    order = [*run.nodes, *ancestors(found, stop=set(run.env))]
    made = {t for node in run.nodes for t in node.outputs}
    runs: list[list[Array]] = []
    held = deciding(order)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        given = ((t, a) for t, a in run.env.items() if t not in made)
        env = {t: a if t.node in held else jittered(a, rng) for t, a in given}
        for node in order:
            if isinstance(node.op, Constant):
                env[node.outputs[0]] = node.graph.values.array(node.name)
                continue
            xs = [None if t is None else env[t] for t in node.inputs]
            ys = run_forward(node.op.for_mode(run.training), xs, training=run.training)
            ys = ys if node in held else tuple(jittered(y, rng) for y in ys)
            env.update(zip(node.outputs, ys, strict=True))
        runs.append([env[t] for t in found])
    pairs = list(itertools.combinations(runs, 2))
    return [
        np.fmax.reduce([np.zeros(t.shape), *(np.abs(a[k] - b[k]) for a, b in pairs)])
        for k, t in enumerate(wrt)
    ]


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

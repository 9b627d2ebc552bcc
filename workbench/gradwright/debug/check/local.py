"""One op's vjp beside its own forward, on the arrays of one run.

For y = f(x) with a random cotangent g and a random direction v,

    ⟨vjp(g), v⟩ = d/dt ⟨g, f(x + t·v)⟩ at t = 0,

which costs one vjp and two evaluations of f when it holds. Complex numbers use Re ⟨conj(a), b⟩.
Only what is asked for is checked: cotangents of inputs that lie on a path from a parameter, for
outputs that lie on a path to the loss.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...op import Op, run_forward
from ...ops.core.identity import StopGradient
from ..float64 import Calls, inside
from ..surrogates import declared
from .directions import by_element, draw_direction, inner, normal_like
from .judging import Comparison, compare, quick
from .mistakes import TRIALS, cause
from .numeric import FINEST, NARROW, WIDE, jittered, kinked, rounding, slope
from .steep import is_steep
from .vjp import vjp_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, repr=False)
class InputCheck:
    """One input's cotangent beside finite differences along a random direction."""

    name: str
    comparison: Comparison
    cause: str = ""
    """What a wrong cotangent is, if the numbers say so: ``0.5 times what it should be``."""

    def __str__(self) -> str:
        c = self.comparison
        cause = f" ({self.cause})" if self.cause else ""
        return f"{self.name}: vjp {c.analytic:.6g}, finite differences {c.numeric:.6g}{cause}"

    def __repr__(self) -> str:
        return f"<{self}: {self.comparison.verdict}>"


def label(op: Op, i: int) -> str:
    """Return the name of an op's input."""
    parameters = op.inputs
    if i < len(parameters) and parameters[i].kind is not parameters[i].VAR_POSITIONAL:
        return parameters[i].name
    return f"input {i}"


class LocalCheck:
    """The check of one op on arrays: draws cotangents and directions, compares, finds kinks.

    ``active`` are the inputs whose cotangents are asked for, ``reached`` the outputs that have one;
    None for all of them.
    """

    def __init__(
        self,
        op: Op,
        xs: Sequence[Array | None],
        ys: Sequence[Array],
        rng: np.random.Generator,
        *,
        training: bool = False,
        rtol: float = 1e-5,
        active: Collection[int] | None = None,
        reached: Collection[int] | None = None,
        most: int | None = None,
    ) -> None:
        self.op, self.xs, self.ys, self.training = op, list(xs), list(ys), training
        self.rtol, self.active, self.rng = rtol, active, rng
        self.vjp = vjp_of(op, xs, ys, active, reached)
        self._calls, self.is_surrogate = _forward(op, xs, ys, training)
        self.directions = {
            i: draw_direction(x, rng, most)
            for i in self.vjp.cotangents
            if (x := self.xs[i]) is not None and x.size
        }
        self.gs = [
            np.where(np.isfinite(y), normal_like(y, rng), 0) if g is not None else y
            for g, y in zip(self.vjp.gs, self.ys, strict=False)
        ]
        self.outputs = [i for i, g in enumerate(self.vjp.gs) if g is not None and self.gs[i].size]

    def run(self, *, causes: bool = True) -> tuple[str, str, tuple[InputCheck, ...]]:
        """Return verdict, reason, and the comparison of each input, with ``causes`` if wanted.

        Inputs move one at a time: together, one that matters little could hide behind the others.
        """
        if not self.directions or not self.outputs or isinstance(self.op, StopGradient):
            return "none", "", ()
        cotangents = self.pull(self.gs)
        if not all(np.isfinite(c).all() for c in cotangents.values()):
            smaller = [g * 2.0**-100 if i in self.outputs else g for i, g in enumerate(self.gs)]
            again = self.pull(smaller)
            if all(np.isfinite(c).all() for c in again.values()):  # too large for what was drawn
                self.gs, cotangents = smaller, again
        found = tuple(self._input(i, cotangents[i], causes) for i in self.directions)
        for verdict in ("fail", "unclear", "kink"):
            wrong = [str(c) for c in found if c.comparison.verdict == verdict]
            if wrong:
                return verdict, "; ".join(wrong), found
        return "ok", "", found

    def pull(self, gs: Sequence[Array]) -> dict[int, Array]:
        """Return vjp(g) for each input."""
        with np.errstate(all="ignore"):
            return self.vjp(self.xs, self.ys, gs, self.training)

    def exact(self, gs: Sequence[Array]) -> dict[int, float]:
        """Return ⟨vjp(g), v⟩ for each input."""
        found = self.pull(gs)
        return {i: inner(v, found[i]) for i, v in self.directions.items()}

    def forward(self, t: float, directions: Mapping[int, Array]) -> Sequence[Array]:
        """Return the outputs at x + t·v; NaN where the op has no value there."""
        xs = [
            x + t * directions[i] if i in directions and x is not None else x
            for i, x in enumerate(self.xs)
        ]
        return self._safe(xs)

    def moved(self, i: int, x: Array) -> Sequence[Array]:
        """Return the outputs for another value of an input; NaN where the op has no value there."""
        return self._safe([x if k == i else other for k, other in enumerate(self.xs)])

    def at(self, t: float, directions: Mapping[int, Array], gs: Sequence[Array]) -> float:
        """Return ⟨g, f(x + t·v)⟩."""
        ys = self.forward(t, directions)
        return sum(inner(gs[i], ys[i]) for i in self.outputs)

    @functools.cached_property
    def jitter(self) -> list[Sequence[Array]]:
        """Outputs for inputs that differ from the given ones by rounding: how noisy the op is."""
        found = []
        for rng in self.rng.spawn(3):
            xs = [None if x is None else jittered(x, rng) for x in self.xs]
            found.append(self._safe(xs))
        return found

    def _safe(self, xs: Sequence[Array | None]) -> Sequence[Array]:
        """Return the outputs; NaN where the op has no value."""
        try:
            with np.errstate(all="ignore"):
                found = self._calls(xs)
            if all(a.shape == y.shape for a, y in zip(found, self.ys, strict=True)):
                return found
        except (ArithmeticError, ValueError, RuntimeWarning):
            pass
        return [np.full(y.shape, np.nan) for y in self.ys]

    def beside(self) -> list[Array | None]:
        """Return inputs moved by a thousandth, where the kinks of this point are not."""
        return [
            x + 1e-3 * self.directions[i] if i in self.directions and x is not None else x
            for i, x in enumerate(self.xs)
        ]

    def _input(self, i: int, cotangent: Array, causes: bool) -> InputCheck:
        """Check one input; where sizes are mixed, the steps of a second look suit each element."""
        x, v = self.xs[i], self.directions[i]
        assert x is not None  # or there would be nothing to compare
        found, gs = self._compare(i, v, cotangent)
        if found.verdict == "unclear" and (own := by_element(x, self.rng)) is not None:
            again, others = self._compare(i, own, cotangent)
            if again.verdict != "unclear":
                found, gs, v = again, others, own
        finite = np.where(np.isfinite(cotangent), v, 0)
        if found.verdict == "fail" and self._is_lost(i, finite, gs, found):
            found = replace(found, verdict="unclear")
        if found.verdict == "fail" and self._is_torn({i: v}):
            found = replace(found, verdict="kink")
        told = causes and found.verdict == "fail"
        return InputCheck(label(self.op, i), found, self.cause(i, gs) if told else "")

    def _is_lost(self, i: int, v: Array, gs: Sequence[Array], found: Comparison) -> bool:
        """Tell whether a cotangent is off by no more than what rounding makes of it.

        That of a saturated softmax, say, where terms as large as its input cancel.
        """
        if self.vjp.cotangents[i] is None or not np.isfinite(found.analytic):
            return False
        spread = 0.0
        for rng in self.rng.spawn(3):
            with np.errstate(all="ignore"):
                options = self.xs, self.ys, gs, self.training, rng
                moved = _along(v, self.vjp.rounded_otherwise(*options)[i])
            spread = max(spread, abs(moved - found.analytic))
        return abs(found.analytic - found.numeric) <= 10 * spread

    def _compare(self, i: int, v: Array, cotangent: Array) -> tuple[Comparison, Sequence[Array]]:
        """Check one input; on a disagreement, output elements with a kink apart from the others.

        Returns the cotangents that were used, too.
        """
        alone, exact = {i: v}, inner(v, cotangent)
        if not np.isfinite(exact) and np.isfinite(cotangent).all():  # too large along v, not wrong
            return Comparison("unclear", exact, np.inf, np.inf), self.gs
        if self._is_steep(i, cotangent):
            steep = np.isinf(cotangent)
            found, gs = self._compare(i, np.where(steep, 0, v), np.where(steep, 0, cotangent))
            told = found.verdict not in ("ok", "kink")
            return found if told else Comparison("unclear", exact, np.nan, np.inf), gs
        found = quick(lambda t: self.at(t, alone, self.gs), exact, rtol=self.rtol)
        if found.verdict == "ok":
            return found, self.gs
        rough, jump = self._kinked(alone)
        if found.verdict == "fail":  # not finite, which is right where there is no slope on a side
            return (replace(found, verdict="kink") if jump else found), self.gs
        if not any(k.any() for k in rough):
            return self._slope(alone, self.gs, exact), self.gs
        smooth = [np.where(k, 0, g) for g, k in zip(self.gs, rough, strict=True)]
        found = self._slope(alone, smooth, _along(v, self.pull(smooth)[i]))
        if found.verdict == "fail" and not found.is_between:  # as beside kinks at all distances
            return found, smooth
        kinks = [np.where(k, g, 0) for g, k in zip(self.gs, rough, strict=True)]
        return self._between(alone, kinks, _along(v, self.pull(kinks)[i])), kinks

    def _is_steep(self, i: int, cotangent: Array) -> bool:
        """Tell whether an infinite cotangent is right, at its first and its last such element."""
        if cotangent.dtype.kind != "f" or np.isnan(cotangent).any():
            return False
        at = np.flatnonzero(np.isinf(cotangent))

        def moved(k: int) -> Callable[[float], float]:
            unit = np.zeros(cotangent.shape)
            unit.flat[k] = 1.0
            return lambda t: self.at(t, {i: unit}, self.gs)

        ends = dict.fromkeys((*at[:1], *at[-1:]))
        return bool(at.size) and all(is_steep(moved(k), cotangent.flat[k]) for k in ends)

    def cause(self, i: int, gs: Sequence[Array]) -> str:
        """Say what a wrong cotangent is, if it can be told; "" if not."""
        x = self.xs[i]
        assert x is not None
        if self.vjp.cotangents[i] is None:
            return "none, though the output moves with it"
        rng = self.rng.spawn(1)[0]
        along = [draw_direction(x, rng) for _ in range(TRIALS)]
        with np.errstate(all="ignore"):
            cotangents = self.pull(gs)
            if self._is_steep(i, cotangents[i]):
                steep = np.isinf(cotangents[i])
                along = [np.where(steep, 0, v) for v in along]
                cotangents[i] = np.where(steep, 0, cotangents[i])
            slopes = [slope(lambda t, v=v: self.at(t, {i: v}, gs)) for v in along]  # type: ignore[misc]
            others = {label(self.op, k): g for k, g in cotangents.items() if k != i}
            return cause(cotangents[i], others, along, slopes)

    def _slope(
        self, directions: Mapping[int, Array], gs: Sequence[Array], exact: float
    ) -> Comparison:
        magnitude = sum(inner(np.abs(gs[k]), np.abs(self.ys[k])) for k in self.outputs)
        for ys in self.jitter:
            spread = abs(sum(inner(gs[k], ys[k] - self.ys[k]) for k in self.outputs))
            magnitude = max(magnitude, rounding(spread))
        return compare(
            lambda t: self.at(t, directions, gs), exact, magnitude=magnitude, rtol=self.rtol
        )

    def _kinked(self, directions: Mapping[int, Array]) -> tuple[list[Array], bool]:
        """Return per output which elements have different slopes on both sides; and if any jump."""
        sides: list[tuple[Sequence[Array], Sequence[Array]]] = []
        rough: list[Array] = []
        jump = False
        for steps in ((WIDE, NARROW), FINEST):  # the finer ones only where there is a kink
            sides += [(self.forward(h, directions), self.forward(-h, directions)) for h in steps]
            rough, jump = [], False
            for i, y in enumerate(self.ys[: len(self.gs)]):
                kinks, jumps = np.zeros(y.shape, bool), np.zeros(y.shape, bool)
                if i in self.outputs:
                    wide, narrow, *finer = ((up[i], down[i]) for up, down in sides)
                    kinks, jumps = kinked(y, wide, narrow, [ys[i] for ys in self.jitter], finer)
                rough.append(kinks)
                jump |= bool(jumps.any())
            if not any(k.any() for k in rough):
                break
        return rough, jump

    def _is_torn(self, alone: Mapping[int, Array]) -> bool:
        """Tell whether an output that nobody reads jumps here, as vectors of equal eigenvalues do.

        What the op gives there is one choice of many, and so are the slopes of what is read.
        """
        floating = {i for i, y in enumerate(self.ys) if y.dtype.kind in "fc"}
        unread = sorted(floating.difference(self.outputs))
        if not unread:
            return False
        wide, narrow = ((self.forward(h, alone), self.forward(-h, alone)) for h in (WIDE, NARROW))
        return any(
            kinked(
                self.ys[i],
                (wide[0][i], wide[1][i]),
                (narrow[0][i], narrow[1][i]),
                [ys[i] for ys in self.jitter],
            )[1].any()
            for i in unread
        )

    def _between(self, alone: Mapping[int, Array], gs: Sequence[Array], exact: float) -> Comparison:
        """Hold the slope of the kinked elements against the interval of their one-sided slopes.

        It is wrong only outside two such intervals, of steps a hundred times apart, that agree.
        """
        intervals = [self._interval(h, alone, gs) for h in (NARROW, FINEST[0])]
        size = max(abs(end) for ends in intervals for end in ends)
        slack = 1e-4 * (size + abs(exact))
        inside = any(low - slack <= exact <= high + slack for low, high in intervals)
        (low, high), finer = intervals
        settled = abs(low - finer[0]) + abs(high - finer[1]) <= 1e-2 * size
        verdict = "kink" if inside else "fail" if settled else "unclear"
        return Comparison(verdict, exact, (low + high) / 2, (high - low) / 2)

    def _interval(
        self, h: float, alone: Mapping[int, Array], gs: Sequence[Array]
    ) -> tuple[float, float]:
        above, below = self.forward(h, alone), self.forward(-h, alone)
        low = high = 0.0
        for k in self.outputs:
            with np.errstate(all="ignore"):
                right = np.conj(gs[k]) * (above[k] - self.ys[k]) / h
                left = np.conj(gs[k]) * (self.ys[k] - below[k]) / h
            used = gs[k] != 0
            low += float(np.minimum(left.real, right.real)[used].sum())
            high += float(np.maximum(left.real, right.real)[used].sum())
        return low, high


def _along(v: Array, cotangent: Array) -> float:
    """Return ⟨cotangent, v⟩, without what v does not move: it may be infinite."""
    return inner(v, np.where(v == 0, 0, cotangent))


def _forward(
    op: Op, xs: Sequence[Array | None], ys: Sequence[Array], training: bool
) -> tuple[Callable[[Sequence[Array | None]], Sequence[Array]], bool]:
    """Return what the vjp is held against, and whether a gradient in it is a declared one.

    That is an op's forward, opened where it stands for a graph, or the surrogate it declares.
    """
    if op.has_surrogate():
        moved, _ = declared(op, xs, ys)
        return lambda arrays: moved(*arrays), True
    if inside(op, xs) is None:
        return lambda arrays: run_forward(op, arrays), False
    calls = Calls(training)
    ins = [0 if x is None else calls.new(x) for x in xs]
    outs = calls.open(op, ins, op.name)

    def run(arrays: Sequence[Array | None]) -> Sequence[Array]:
        for i, x in zip(ins, arrays, strict=True):
            calls.registers[i] = x
        held = calls.run()
        return [held[i] for i in outs]

    return run, bool(calls.surrogates)

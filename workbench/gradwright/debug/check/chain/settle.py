"""What the chain says of a parameter's elements, and differences of the loss where it is not sure.

An element passes where the graph's gradient agrees with what the chain brings. The others get, in
this order, and each only what the one before left open:

1. a difference of the loss along one direction through all that are clearly off: where the chain
   is right about them, the graph is wrong;
2. central differences, many elements at once (``batched``);
3. a probe of its own, with a sweep of steps (``probe``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..directions import typical_size
from ..judging import QUICK, Comparison
from ..numeric import INSIDE
from ..probe import ElementCheck, Probe
from ..report import ParameterCheck
from .batched import Batch
from .grouped import MOST, Grouped
from .program import Program
from .sweep import NOISE, Sweep, agree

Array = np.ndarray[Any, Any]

_CLEAR = 10
"""Tolerances by which an element is off that is told wrong together with others."""
_GAP = 0.2
"""Part of what an element is off by that the slopes on its two sides may differ: else it may be a
kink, inside a loop perhaps, where no output of the loop shows it clearly."""
_EPS = float(np.finfo(np.float64).eps)


class Settlement:
    """The verdicts of all elements, parameter by parameter."""

    def __init__(self, program: Program, sweep: Sweep, analytic: Sequence[Array]) -> None:
        self.program, self.sweep, self.rtol = program, sweep, sweep.rtol
        self.analytic = analytic
        self._probes: dict[int, Probe] = {}
        self.measured = sweep.pull_back()
        self.tied = self._tied()
        self.touched: list[Array | None] = [None] * len(self.measured)
        """Elements that move something on a kink, if any do."""
        self.kinky = self._kinky()
        """Elements that differences have to settle, since they move something on a kink."""

    def _tied(self) -> bool:
        """Tell whether the loss moves as the chain says: its sources together, others alone."""
        program, sure = self.program, []
        for k, r in enumerate(program.parameters):
            real = self.analytic[k].dtype.kind == "f"
            if real and r not in self.sweep.lost and self.measured[k].size:
                sure.append((r, self.measured[k]))
        sources = [(r, n) for r, n in sure if r not in program.computed]
        groups = [sources, *([(r, n)] for r, n in sure if r in program.computed)]
        return all(
            self.sweep.tied([r for r, _ in group], [n for _, n in group])
            for group in groups
            if group
        )

    def _kinky(self) -> list[Array | None]:
        """Return the elements whose slope may be one of several.

        Where the loss bends along none of them, as at min(x, x), that is none but those of slope 0:
        of relu(x)² at 0, a step of any size sees more than the slope.
        """
        slopes = (s for step in self.program.steps for s, _ in step.slopes)
        if all(s is None or s.kinks is None for s in slopes):
            return [None] * len(self.measured)
        touched = self.touched = self.sweep.touched()
        known = [
            (r, t) for r, t in zip(self.program.parameters, touched, strict=True) if t is not None
        ]
        found = []
        bent = bool(known) and self.sweep.bends([r for r, _ in known], [t for _, t in known])
        for r, t, n in zip(self.program.parameters, touched, self.measured, strict=True):
            if t is not None and not (bent and self.sweep.bends([r], [t])):
                t = t & (n == 0)
            found.append(t if t is not None and t.any() else None)
        return found

    def _sure(self, k: int) -> bool:
        """Tell whether a chain leads to a parameter, and is tied to the loss."""
        lost = self.program.parameters[k] in self.sweep.lost
        return self.tied and not lost and self.analytic[k].dtype.kind == "f"

    def direction(self, k: int, check: ParameterCheck, rng: np.random.Generator) -> ElementCheck:
        """Return the check of a parameter along one random direction.

        Where chain and gradient agree it is the chain's, elsewhere the loss is asked.
        """
        analytic, measured = self.analytic[k], self.measured[k]
        if self._sure(k) and agree(analytic, measured, self.rtol):
            v = rng.standard_normal(analytic.shape)
            slack = self.rtol * float(np.vdot(np.abs(measured), np.abs(v)))
            exact, numeric = float(np.vdot(analytic, v)), float(np.vdot(measured, v))
            return ElementCheck(
                check.name, None, comparison=Comparison("ok", exact, numeric, slack)
            )
        return self._probe(k).direction(check.name, analytic, rng)

    def settle(self, k: int, check: ParameterCheck, chosen: Array | None) -> Iterator[int]:
        """Fill in a parameter's elements; yields how many are done, bit by bit.

        ``chosen`` are their flat numbers; None: all.
        """
        analytic = self.analytic[k]
        if analytic.dtype.kind == "c":
            every = np.arange(analytic.size) if chosen is None else chosen
            yield from self._probed(k, check, every)
            return
        measured, register = self.measured[k], self.program.parameters[k]
        sure = self._sure(k)
        apart = np.abs(analytic - measured)
        larger = np.maximum(np.abs(analytic), np.abs(measured))
        passed = (apart <= self.rtol * larger) & np.isfinite(larger) & sure
        kinky = self.kinky[k]
        if kinky is not None:
            passed &= ~kinky
        left = ~passed
        if chosen is not None:
            asked = np.zeros(analytic.size, bool)
            asked[chosen] = True
            asked = asked.reshape(analytic.shape)
            passed &= asked
            left &= asked
        check.take(passed, measured, self.rtol * larger, "ok", "certified")
        yield int(passed.sum())
        if not left.any():
            return
        if sure:
            touched = self.touched[k]
            smooth = left if touched is None else left & ~touched
            clear = (
                smooth
                & (apart > _CLEAR * self.rtol * larger)
                & self._visible(register, apart, measured)
                & _told(analytic, measured, self._steps(register))
            )
            if clear.any() and self.sweep.sides_with(register, measured, analytic, clear):
                check.take(clear, measured, self.rtol * larger, "fail", "certified")
                yield int(clear.sum())
                left &= ~clear
        yield from self._differenced(k, check, left, sure)

    def _visible(self, register: int, apart: Array, measured: Array) -> Array:
        """Tell where the chain and the gradient are further apart than the rounding of either."""
        rounding = _EPS * self.program.magnitude() / self._steps(register)
        top = float(np.max(np.abs(measured), initial=0.0))
        clear: Array = (apart > 30 * rounding) & (apart > 1e3 * NOISE * top) & np.isfinite(apart)
        return clear

    def _steps(self, register: int) -> Array:
        x = self.program.held[register]
        return np.asarray(QUICK * np.maximum(max(typical_size(x), 1e-3), np.abs(x)))

    def _differenced(self, k: int, check: ParameterCheck, left: Array, sure: bool) -> Iterator[int]:
        at = np.flatnonzero(left)
        if not at.size:
            return
        register = self.program.parameters[k]
        batch = Batch(self.program, register)
        rough = self._rough(register)
        try:
            found = batch.differences(at, watch=rough)
        except (ArithmeticError, ValueError):  # outside a domain, or shapes that depend on values
            yield from self._probed(k, check, at)
            return
        a, slopes = self.analytic[k].ravel()[at], found.slopes
        size = np.maximum(np.abs(a), np.abs(slopes))
        tolerance = self.rtol * size + found.rounding
        close = np.abs(a - slopes) <= self.rtol * size
        ok = close & np.isfinite(size) & ((found.rounding <= self.rtol * size) | found.still)
        wrong = np.zeros(at.shape, bool)
        told = _told(a, slopes, self._steps(register).ravel()[at])
        rest = np.flatnonzero(~ok & np.isfinite(slopes) & np.isfinite(a))
        if rest.size:
            again = self.measured[k].ravel()[at].copy()
            if not sure:
                again[rest] = batch.differences(at[rest], step=1e-5).slopes
            off = np.abs(a - again)
            wrong[rest] = (
                ~found.bent
                & told
                & (sure | (found.gap <= _GAP * np.abs(a - slopes)))
                & (np.abs(again - slopes) <= 0.2 * off)
                & (np.abs(a - slopes) > 1.5 * self.rtol * size + 30 * found.rounding)
            )[rest]
        if wrong.any() and not (sure or self._is_bad(k, at[wrong], slopes[wrong])):
            wrong[:] = False
        for mask, verdict in ((ok, "ok"), (wrong, "fail")):
            where, values, slack = (
                np.zeros(left.size, bool),
                np.zeros(left.size),
                np.zeros(left.size),
            )
            where[at[mask]] = True
            values[at], slack[at] = slopes, tolerance
            shape = left.shape
            check.take(
                where.reshape(shape),
                values.reshape(shape),
                slack.reshape(shape),
                verdict,
                "differenced",
            )
        yield int(ok.sum() + wrong.sum())
        yield from self._probed(k, check, at[~ok & ~wrong], smooth=rough == [])

    def _is_bad(self, k: int, at: Array, slopes: Array) -> bool:
        """Tell whether a sweep of steps bears out slopes of elements that the gradient has not.

        Two steps of differences agree, too, where both are too long for how fast the loss turns.
        """
        probe = self._probe(k)
        off, move = self.analytic[k].ravel()[at] - slopes, np.zeros(probe.base.size)
        sizes = np.fmax(probe.typical, np.abs(probe.base.ravel()[at]))
        move[at] = np.sign(off) * sizes
        way = move.reshape(probe.base.shape)
        found = probe.slope(probe.loss(lambda t: np.asarray(probe.base + t * way)), 1.0)
        apart = abs(found.value - float(np.vdot(slopes, move[at]))) + found.error
        return not (found.kink or found.lost) and apart <= 0.05 * float(np.vdot(np.abs(off), sizes))

    def _probed(
        self, k: int, check: ParameterCheck, at: Array, *, smooth: bool = False
    ) -> Iterator[int]:
        if not at.size:
            return
        analytic = self.analytic[k]
        if analytic.dtype.kind == "f":
            steps = self.program.steps_behind([self.program.parameters[k]])
            most = 1 if any(s is None for step in steps for s, _ in step.slopes) else MOST
            grouped = Grouped(self.program, k, self.rtol, smooth=smooth)
            for found in grouped.elements(check.name, at, analytic, most):
                check.add(found)
                yield 1
            return
        probe = self._probe(k)
        for flat in at:
            index = tuple(map(int, np.unravel_index(flat, analytic.shape))) if analytic.ndim else ()
            for found in probe.element(check.name, index, analytic):
                check.add(found)
            yield 1

    def _probe(self, k: int) -> Probe:
        if k not in self._probes:
            program = self.program
            program.refresh()
            self._probes[k] = Probe(program.run, program.copies[k], program.loss_copy, self.rtol)
        return self._probes[k]

    def _rough(self, register: int) -> list[int]:
        """Return the outputs behind a parameter that have a kink, or may have: of an opaque op."""
        found, moved = [], {register}
        for step in self.program.steps_behind([register]):
            for slope, j in step.slopes:
                if j in moved and slope is None:
                    found += [o for o in step.call.outs if self.program.held[o].dtype.kind in "fc"]
                elif j in moved and slope is not None and slope.kinks is not None:
                    found.append(slope.head)
            moved.update(step.call.outs)
        return found


def _told(analytic: Array, slopes: Array, steps: Array) -> Array:
    """Tell where a slope of 0 is not what stairs of rounding inside make of a small one."""
    told: Array = (np.abs(slopes) > 1e-6 * np.abs(analytic)) | (np.abs(analytic) * steps > INSIDE)
    return told

"""One run of a program: every node's rule beside measured slopes, then the gradient beside a chain.

1. Forward, gradient, and every rule at a random cotangent run as flat calls.
2. Every slope is measured by its call's own forward.
3. Each rule is held against Jᵀg, element by element.
4. Cotangents go back from the loss through the measured slopes alone, with additions and sums of
   our own. What arrives at a parameter is to be held against the graph's gradient.
5. One central difference of the loss itself, along a direction through all parameters, ties the
   chain to the loss.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...address import Address
from ...float64 import run_calls
from ..blame import NodeCheck
from ..directions import draw_direction
from ..judging import Comparison
from ..local import InputCheck, label
from ..numeric import NARROW, WIDE, kinked
from .program import Part, Program, Step
from .slopes import STEP, rms

Array = np.ndarray[Any, Any]

NOISE = 1e-9
"""Part of the largest element of a cotangent that measured slopes do not tell from 0."""
_BESIDE = 1e-3
"""How far from a kink a rule is looked at again, relative."""
_TIES = (1e-5, 1e-6, 1e-7)
"""Relative steps of the difference of the whole: one of them is clear of kinks and of rounding."""
_EPS = float(np.finfo(np.float64).eps)


class Sweep:
    """The slopes, cotangents and verdicts of a program at the values that its registers hold."""

    def __init__(self, program: Program, rtol: float) -> None:
        self.program, self.rtol, self.held = program, rtol, program.held
        self.lost: set[int] = set()
        """Registers to which no sure chain leads."""

    # -- nodes ------------------------------------------------------------------------------------

    def measure(self) -> None:
        """Measure all slopes."""
        for step in self.program.steps:
            for slope, _ in step.slopes:
                if slope is not None:
                    slope.measure(self.held)

    def run_rules(self) -> None:
        """Run every node's rule at its random cotangents."""
        for part in self.program.parts:
            if part.rule is not None:
                for head, slot in zip(part.outs, part.rule.gs, strict=False):
                    if slot:
                        self.held[slot] = part.seeds[head]
                part.rule.done = set(part.rule.targets)
        run_calls(self.program.rules, self.held)

    def check_part(self, part: Part) -> NodeCheck | None:
        """Check a node's rule element by element; None where ``check_node`` has to look.

        That is where nothing is known of a dependence, and where something is wrong.
        """
        if part.rule is None:
            return None
        found = self._compared(part.steps, part, self.held)
        if found is None and self._refined(part.steps):
            found = self._compared(part.steps, part, self.held)
        if found is None:
            return None
        verdict, reason = "ok", ""
        bent = [str(c) for c in found if c.comparison.verdict == "kink"]
        if bent:
            if not (part.right_beside or self._right_beside(part)):
                return None
            part.right_beside = True
            verdict, reason = "kink", "; ".join(bent)
        node = part.node
        return NodeCheck(Address(node.name), node.op.name, node.where, verdict, reason, found)

    def _refined(self, steps: Sequence[Step]) -> bool:
        """Measure again where that may help."""
        slopes = [s for step in steps for s, _ in step.slopes if s is not None]
        for slope in slopes:
            if slope.refines and slope.kinks is None:
                slope.refine(self.held)
        return any(s.refines for s in slopes)

    def _compared(
        self, steps: Sequence[Step], part: Part, held: list[Any]
    ) -> tuple[InputCheck, ...] | None:
        """Return a comparison per input if all elements agree, or lie between the sides of a kink.

        At a kink only a node of one call is told: others may meet in it.
        """
        rule, bar = part.rule, self._pulled(steps, part, held)
        if rule is None or bar is None:
            return None
        checks = []
        for i in rule.targets:
            register = part.ins[i]
            claimed = rule.cotangent(held, i)
            measured = bar.get(register)
            alone = part.ins.count(register) == 1
            if measured is None:
                measured = np.zeros(claimed.shape)
            elif not alone:  # x·x: its cotangents come added up
                same = [k for k in rule.targets if part.ins[k] == register]
                claimed = sum((rule.cotangent(held, k) for k in same), np.zeros(()))
            verdict = "ok"
            if not agree(claimed, measured, self.rtol):
                sides = self._sides(steps, register, bar, held) if alone else None
                if sides is None or not _between(claimed, *sides, self.rtol):
                    return None
                verdict = "kink"
            checks.append(
                InputCheck(label(part.node.op, i), _summary(verdict, claimed, measured, self.rtol))
            )
        return tuple(checks)

    def _pulled(
        self, steps: Sequence[Step], part: Part, held: list[Any]
    ) -> dict[int, Array] | None:
        """Return what the measured slopes make of a node's random cotangents."""
        bar = dict(part.seeds)
        for step in reversed(steps):
            if bar.keys().isdisjoint(step.heads):
                continue
            for slope, j in step.slopes:
                found = None if slope is None else slope.pull(held, bar)
                if found is None:
                    return None
                bar[j] = bar[j] + found if j in bar else found
        return bar

    def _sides(
        self, steps: Sequence[Step], register: int, bar: Mapping[int, Array], held: list[Any]
    ) -> tuple[Array, Array] | None:
        if len(steps) == 1:
            for slope, j in steps[0].slopes:
                if j == register and slope is not None:
                    return slope.between(held, bar)
        return None

    def _right_beside(self, part: Part) -> bool:
        """Tell whether a rule is right where the inputs are moved a little, off their kinks."""
        held, rng = list(self.held), np.random.default_rng(0)
        for i in {part.ins[i] for i in part.rule.targets} if part.rule else ():
            held[i] = np.asarray(held[i] + _BESIDE * draw_direction(held[i], rng))
        run_calls([step.call for step in part.steps], held)
        steps = [
            replace(step, slopes=[(copy.copy(s), j) for s, j in step.slopes]) for step in part.steps
        ]
        for step in steps:
            for slope, _ in step.slopes:
                if slope is not None:
                    slope.measure(held)
        if part.rule is not None:
            run_calls(part.rule.calls, held)
        return self._compared(steps, part, held) is not None

    # -- the chain --------------------------------------------------------------------------------

    def pull_back(self) -> list[Array]:
        """Return what the chain brings to each parameter, and note to which it does not lead."""
        held, program = self.held, self.program
        bar: dict[int, Array] = {program.loss: np.ones(())}
        lost = self.lost
        for step in program.choices:
            if self._jumps(step):
                lost.update(j for _, j in step.slopes)
                bar.update((j, np.zeros(held[j].shape)) for _, j in step.slopes if j not in bar)
        for step in reversed(program.steps):
            if not step.slopes or bar.keys().isdisjoint(step.heads):
                continue
            dark = not lost.isdisjoint(step.heads)
            for slope, j in step.slopes:
                found = None if dark or slope is None else slope.pull(held, bar)
                if found is None:
                    lost.add(j)
                    bar.setdefault(j, np.zeros(held[j].shape))
                else:
                    bar[j] = bar[j] + found if j in bar else found
        return [bar[r] if r in bar else np.zeros(held[r].shape) for r in program.parameters]

    def touched(self) -> list[Array | None]:
        """Return which elements of each parameter move something that sits on a kink.

        None: no element does. Random cotangents go back from all slopes that differ on their sides.
        """
        held, program, rng = self.held, self.program, np.random.default_rng(0)
        bar: dict[int, Array] = {}
        for step in reversed(program.steps):
            reached = {o: bar[o] for o in step.heads if o in bar and bar[o].any()}
            for slope, j in step.slopes:
                parts: list[Array | None] = []
                if slope is not None and slope.kinks is not None:
                    g = rng.standard_normal(held[slope.head].shape)
                    parts.append(slope.pulled(held, g, slope.kinks.astype(float)))
                if reached and slope is not None:
                    parts.append(slope.pull(held, reached))
                for part in parts:
                    if part is not None:
                        bar[j] = bar[j] + part if j in bar else part
        return [bar[r] != 0 if r in bar and bar[r].any() else None for r in program.parameters]

    def bends(self, registers: Sequence[int], where: Sequence[Array]) -> bool:
        """Tell whether the loss has a kink here along a direction through elements of registers.

        The gap between the slopes on two sides shrinks with the step where there is none.
        """
        held, rng = self.held, np.random.default_rng(self.program.seed)
        moves = [
            mask * rng.standard_normal(mask.shape) * np.maximum(np.abs(held[r]), rms(held[r]))
            for r, mask in zip(registers, where, strict=True)
        ]
        zero = np.array(float(held[self.program.loss]))
        wide, narrow = (
            tuple(np.array(self._moved(registers, moves, t)) for t in (step, -step))
            for step in (WIDE, NARROW)
        )
        size = np.array(self.program.magnitude())
        found, _ = kinked(zero, wide, narrow, [zero + 4 * _EPS * size])  # type: ignore[arg-type]
        return bool(found)

    def _jumps(self, step: Step) -> bool:
        """Tell whether a comparison or a choice turns out otherwise right beside its inputs."""
        held, call = self.held, step.call
        rng = np.random.default_rng(0)
        moves = {
            j: rng.choice((-1.0, 1.0), held[j].shape)
            * (np.maximum(np.abs(held[j]), 1e-2 * rms(held[j])) * STEP)
            for _, j in step.slopes
        }
        for sign in (1.0, -1.0):
            xs = [
                np.asarray(held[j] + sign * moves[j]) if j in moves else held[j] for j in call.ins
            ]
            ys = call.forward(*xs)
            found = dict(zip(call.outs, ys if type(ys) is tuple else (ys,), strict=True))
            if not all(np.array_equal(found[o], held[o]) for o in step.chosen):
                return True
        return False

    def tied(self, registers: Sequence[int], slopes: Sequence[Array]) -> bool:
        """Tell whether the loss itself moves as ``slopes`` say, along one random direction."""
        held, units = self.held, self.program.units(registers)
        moves = [
            unit * np.maximum(np.abs(held[r]), rms(held[r]))
            for r, unit in zip(registers, units, strict=True)
        ]
        want = sum(float(np.vdot(s, v)) for s, v in zip(slopes, moves, strict=True))
        noise = 8 * _EPS * self.program.magnitude()
        near = _TIES[-1]
        if noise / near <= self.rtol * abs(want):  # one side is enough where rounding is small
            here = float(held[self.program.loss])
            found = (self._moved(registers, moves, near) - here) / near
            if abs(found - want) <= self.rtol * max(abs(found), abs(want)) < math.inf:
                return True
        for step in _TIES:
            found = self._difference(registers, moves, step)
            slack = self.rtol * max(abs(found), abs(want)) + noise / step
            if abs(found - want) <= slack < math.inf:
                return True
        return False

    def sides_with(self, register: int, measured: Array, analytic: Array, where: Array) -> bool:
        """Tell whether the loss moves as the chain says, and not as the graph's gradient.

        The direction is the one along which the two differ most, through the elements ``where``.
        """
        off = np.where(where, analytic - measured, 0.0)
        x = self.held[register]
        move = np.sign(off) * np.maximum(np.abs(x), rms(x))
        want, apart = float(np.vdot(measured, move)), float(np.vdot(off, move))
        return any(
            abs(self._difference([register], [move], step) - want) <= 0.05 * apart for step in _TIES
        )

    def _difference(self, registers: Sequence[int], moves: Sequence[Array], step: float) -> float:
        """Return the central difference of the loss along a direction."""
        above, below = (self._moved(registers, moves, t) for t in (step, -step))
        return (above - below) / (2 * step)

    def _moved(self, registers: Sequence[int], moves: Sequence[Array], t: float) -> float:
        held = self.held
        return self.program.loss_at(
            registers, [held[r] + t * v for r, v in zip(registers, moves, strict=True)]
        )


def agree(claimed: Array, measured: Array, rtol: float) -> bool:
    """Tell whether all elements of a cotangent agree, up to the noise of the largest."""
    apart = claimed - measured
    flat, size = apart.ravel(), measured.ravel()
    if float(flat.dot(flat)) * size.size <= NOISE**2 * float(size.dot(size)) < math.inf:
        return True  # the largest is no less than the mean
    top = float(np.max(np.abs(size), initial=0.0))
    larger = np.maximum(np.abs(claimed), np.abs(measured))
    close = (np.abs(apart) <= rtol * larger + NOISE * top) & np.isfinite(apart)
    return bool(close.all())


def _between(claimed: Array, low: Array, high: Array, rtol: float) -> bool:
    size = np.maximum(np.abs(low), np.abs(high))
    slack = rtol * size + 10 * NOISE * float(np.max(size, initial=0.0))
    inside = (claimed >= low - slack) & (claimed <= high + slack) & np.isfinite(slack)
    return bool(inside.all())


def _summary(verdict: str, claimed: Array, measured: Array, rtol: float) -> Comparison:
    """Return two cotangents as one number each: along the first of them."""
    flat = claimed.ravel()
    size, product = float(flat.dot(flat)), float(flat.dot(measured.ravel()))
    return Comparison(verdict, size, product, rtol * max(size, abs(product)))

"""Which op is wrong: every node's vjp is held against its own forward, at the values of one run.

For a node y = f(x) with a random cotangent g and a random direction v,

    ⟨vjp(g), v⟩ = d/dt ⟨g, f(x + t·v)⟩ at t = 0,

which costs one vjp and two evaluations of f when it holds. It needs no other node, so an error is
found where it is made, not where it arrives. Complex numbers use Re ⟨conj(a), b⟩.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ...op import Op, run_forward
from ...ops.core.identity import StopGradient
from ...spec import spec_of
from ..address import Address
from ..float64 import Calls, inside, known_specs
from .causes import TRIALS, cause
from .directions import draw_direction, inner, normal_like
from .numeric import (
    NARROW,
    WIDE,
    Comparison,
    compare,
    jittered,
    kinked,
    quick,
    rounding,
    slope,
)
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


class Turns(NamedTuple):
    """In how many turns of a loop a node is at fault, of those that were looked at."""

    wrong: int
    looked_at: int
    all: bool
    """Whether these are all turns."""

    def __str__(self) -> str:
        return f"in {self.wrong} of {'' if self.all else 'the first '}{self.looked_at} turns"


@dataclass(frozen=True, repr=False)
class NodeCheck:
    """What the check of one node found.

    ``verdict`` is ``ok``, ``kink`` (not differentiable here, the vjp is one of the slopes),
    ``unclear``, ``fail``, or ``none`` where there is nothing to check. ``inner`` holds the nodes at
    fault inside of it; of a loop, those of the first turn that has one.
    """

    address: Address
    op: str
    where: str
    verdict: str
    reason: str = ""
    inputs: tuple[InputCheck, ...] = ()
    inner: tuple[NodeCheck, ...] = ()
    seconds: float = field(default=0.0, compare=False)
    """How long the check took."""
    turns: Turns | None = None
    """Of a node at fault in a loop, how many turns that is so in."""

    @property
    def name(self) -> str:
        """The node's name, without what it is inside of."""
        return self.address.node

    def faults(self) -> list[NodeCheck]:
        """Return the innermost nodes at fault: those inside where there are any, else this one."""
        if self.verdict != "fail":
            return []
        inside = [(fault, node) for node in self.inner for fault in node.faults()]
        return [replace(f, turns=f.turns or node.turns) for f, node in inside] or [self]

    @property
    def relative_error(self) -> float:
        """The largest relative error of the inputs' cotangents; NaN counts as infinite."""
        errors = [i.comparison.relative_error for i in self.inputs]
        return max((float("inf") if e != e else e for e in errors), default=0.0)

    def __repr__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"<{self.op} {str(self.address)!r} {self.verdict}{reason}>"


def label(op: Op, i: int) -> str:
    """Return the name of an op's input."""
    parameters = op.inputs
    if i < len(parameters) and parameters[i].kind is not parameters[i].VAR_POSITIONAL:
        return parameters[i].name
    return f"input {i}"


class LocalCheck:
    """The check of one op on arrays: draws cotangents and directions, compares, finds kinks."""

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
        most: int | None = None,
    ) -> None:
        self.op, self.xs, self.ys, self.training = op, list(xs), list(ys), training
        self.rtol, self.active, self.rng = rtol, active, rng
        self.vjp = vjp_of(
            op,
            tuple(None if s is None else s.key() for s in known_specs(op, xs)),
            tuple(spec_of(y).key() for y in ys),
        )
        self._calls = _forward(op, xs, training)
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
        exact = self.exact(self.gs)
        found = tuple(
            self._input(i, exact[i], causes)
            for i in self.directions
            if np.isfinite(exact[i]) or self.active is None or i in self.active
        )
        for verdict in ("fail", "unclear", "kink"):
            wrong = [str(c) for c in found if c.comparison.verdict == verdict]
            if wrong:
                return verdict, "; ".join(wrong), found
        return "ok", "", found

    def exact(self, gs: Sequence[Array]) -> dict[int, float]:
        """Return ⟨vjp(g), v⟩ for each input."""
        with np.errstate(all="ignore"):
            found = self.vjp(self.xs, self.ys, gs, self.training)
        return {i: inner(v, found[i]) for i, v in self.directions.items()}

    def forward(self, t: float, directions: Mapping[int, Array]) -> Sequence[Array]:
        """Return the outputs at x + t·v; NaN where the op has no value there."""
        xs = [
            x + t * directions[i] if i in directions and x is not None else x
            for i, x in enumerate(self.xs)
        ]
        return self._safe(xs)

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
                return self._calls(xs)
        except (ArithmeticError, ValueError, RuntimeWarning):
            return [np.full(y.shape, np.nan) for y in self.ys]

    def beside(self) -> list[Array | None]:
        """Return inputs moved by a thousandth, where the kinks of this point are not."""
        return [
            x + 1e-3 * self.directions[i] if i in self.directions and x is not None else x
            for i, x in enumerate(self.xs)
        ]

    def _input(self, i: int, exact: float, causes: bool) -> InputCheck:
        found, gs = self._compare(i, exact)
        told = causes and found.verdict == "fail"
        return InputCheck(label(self.op, i), found, self.cause(i, gs) if told else "")

    def _compare(self, i: int, exact: float) -> tuple[Comparison, Sequence[Array]]:
        """Check one input; on a disagreement, output elements with a kink apart from the others.

        Returns the cotangents that were used, too.
        """
        alone = {i: self.directions[i]}
        found = quick(lambda t: self.at(t, alone, self.gs), exact, rtol=self.rtol)
        if found.verdict == "ok":
            return found, self.gs
        rough, jump = self._kinked(alone)
        if found.verdict == "fail":  # not finite, which is right where there is no slope on a side
            return (replace(found, verdict="kink") if jump else found), self.gs
        if not any(k.any() for k in rough):
            return self._slope(alone, self.gs, exact), self.gs
        smooth = [np.where(k, 0, g) for g, k in zip(self.gs, rough, strict=True)]
        found = self._slope(alone, smooth, self.exact(smooth)[i])
        if found.verdict == "fail":
            return found, smooth
        kinks = [np.where(k, g, 0) for g, k in zip(self.gs, rough, strict=True)]
        return self._between(i, kinks), kinks

    def cause(self, i: int, gs: Sequence[Array]) -> str:
        """Say what a wrong cotangent is, if it can be told; "" if not."""
        x = self.xs[i]
        assert x is not None  # or there would be nothing to compare
        rng = self.rng.spawn(1)[0]
        along = [draw_direction(x, rng) for _ in range(TRIALS)]
        with np.errstate(all="ignore"):
            cotangents = self.vjp(self.xs, self.ys, gs, self.training)
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
        wide, narrow = (
            (self.forward(h, directions), self.forward(-h, directions)) for h in (WIDE, NARROW)
        )
        rough, jump = [], False
        for i, y in enumerate(self.ys[: len(self.gs)]):
            kinks, jumps = np.zeros(y.shape, bool), np.zeros(y.shape, bool)
            if i in self.outputs:
                near, far = (narrow[0][i], narrow[1][i]), (wide[0][i], wide[1][i])
                kinks, jumps = kinked(y, far, near, [ys[i] for ys in self.jitter])
            rough.append(kinks)
            jump |= bool(jumps.any())
        return rough, jump

    def _between(self, i: int, gs: Sequence[Array]) -> Comparison:
        """Hold the slope of the kinked elements against the interval of their one-sided slopes."""
        alone = {i: self.directions[i]}
        above, below = self.forward(NARROW, alone), self.forward(-NARROW, alone)
        low = high = 0.0
        for k in self.outputs:
            with np.errstate(all="ignore"):
                right = np.conj(gs[k]) * (above[k] - self.ys[k]) / NARROW
                left = np.conj(gs[k]) * (self.ys[k] - below[k]) / NARROW
            used = gs[k] != 0
            low += float(np.minimum(left.real, right.real)[used].sum())
            high += float(np.maximum(left.real, right.real)[used].sum())
        exact = self.exact(gs)[i]
        slack = 1e-4 * (abs(low) + abs(high) + abs(exact))
        inside = low - slack <= exact <= high + slack
        return Comparison("kink" if inside else "fail", exact, (low + high) / 2, (high - low) / 2)


def _forward(
    op: Op, xs: Sequence[Array | None], training: bool
) -> Callable[[Sequence[Array | None]], Sequence[Array]]:
    """Return an op's forward, opened where it stands for a graph."""
    if inside(op, xs) is None:
        return lambda arrays: run_forward(op, arrays)
    calls = Calls(training)
    ins = [0 if x is None else calls.new(x) for x in xs]
    outs = calls.open(op, ins, op.name)

    def run(arrays: Sequence[Array | None]) -> Sequence[Array]:
        for i, x in zip(ins, arrays, strict=True):
            calls.registers[i] = x
        held = calls.run()
        return [held[i] for i in outs]

    return run

"""What a node encloses, as levels of their own: composites, calls, branches, and turns of loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...graph import Tensor
from ...ops.control.branch import Cond
from ...ops.control.call import Call
from ...ops.control.loop_op import LoopOp
from ...spec import is_floating
from ..address import Part
from ..inside import Inside, has_inside
from .level import Array, Edge, Level, norm, norm_of, run_level

Seeds = dict[Tensor, Array]


@dataclass(frozen=True)
class Turns:
    """The carried cotangent after each turn of a loop, in the order in which it goes back."""

    numbers: tuple[int, ...]
    norms: tuple[float, ...]

    @property
    def rate(self) -> float:
        """How many times as long it is after a turn, on average; 1 where there is one turn."""
        norms = [n for n in self.norms if 0 < n < np.inf]
        if len(norms) < 2:
            return 1.0
        return float((norms[-1] / norms[0]) ** (1 / (len(norms) - 1)))


@dataclass(frozen=True)
class Opening:
    """The level inside a node that a path goes through, and where it enters and leaves."""

    part: Part
    level: Level
    start: Tensor
    seeds: Seeds
    sources: Mapping[Tensor, int]
    """Inner inputs -> which input of the node they are."""
    turns: Turns | None = None


def encloses(edge: Edge) -> bool:
    """Tell whether a node is one for control flow, of which the user wrote the inside."""
    return isinstance(edge.op, (Call, Cond, LoopOp))


def opened(edge: Edge) -> Opening | None:
    """Return what is inside the node of an edge, with cotangents.

    None where the gradient does not come from an inside, and for loops that carry sequences.
    """
    op = edge.op
    if not has_inside(op) or (op.has_vjp() and not encloses(edge)):
        return None
    if isinstance(op, LoopOp):
        is_boxed = any(x is not None and x.dtype.kind == "O" for x in edge.xs)
        return None if is_boxed else _loop(edge, op)
    inside = Inside(op, edge.xs)
    assert inside.sub is not None
    places = [i for i, x in enumerate(edge.xs) if x is not None][-len(inside.given) :]
    start = inside.sub.inputs[places.index(edge.i)]
    level = run_level(inside.sub, inside.given, [start], edge.training)
    seeds = _seeds(inside.sub.outputs, edge.given)
    level.pull(seeds)
    sources = dict(zip(inside.sub.inputs, places, strict=True))
    return Opening(inside.part, level, start, seeds, sources)


def _seeds(outputs: Sequence[Tensor], gs: Sequence[Array | None]) -> Seeds:
    seeds: Seeds = {}
    for t, g in zip(outputs, gs, strict=False):
        if g is not None:
            seeds[t] = seeds[t] + g if t in seeds else g
    return seeds


class _Turn(NamedTuple):
    """One turn on the way back: what arrived, what went on to the input, what was carried on."""

    given: Sequence[Array]
    seeds: Seeds
    arrived: float
    passed: float
    left: float

    @property
    def number(self) -> int:
        return int(self.given[0])


def _loop(edge: Edge, op: LoopOp) -> Opening | None:
    """Run a loop turn by turn, then back, and return the turn that tells most about an input."""
    n, body, own = op.n_carry, op.body, 1 + edge.i - op.first_carry
    given = _run(edge, op)
    if own < 1 or not given:
        return None
    carries = [t for t in body.inputs[1 : 1 + n] if is_floating(t.dtype)]
    start, results = body.inputs[own], edge.given[n : n + op.n_results]

    def back(at: Sequence[Array], seeds: Seeds) -> Level:
        level = run_level(body, at, {*carries, start}, edge.training)
        level.pull(seeds)
        return level

    carried, made = list(edge.given[:n]), list[_Turn]()
    for at in reversed(given):
        rows = [None if g is None else g[int(at[0])] for g in results]
        seeds = _seeds(body.outputs[op.lead :], [*carried, *rows])
        level = back(at, seeds)
        carried = [level.total.get(t) for t in body.inputs[1 : 1 + n]]
        passed = norm(level.total[start]) if start in level.total else 0.0
        left = norm_of(g for g in carried if g is not None)
        made.append(_Turn(at, seeds, norm_of(seeds.values()), passed, left))
    turn = _telling(made, is_carry=own <= n)
    sources = {t: k + op.first_carry - 1 for k, t in enumerate(body.inputs) if k > n}
    turns = Turns(tuple(t.number for t in made), tuple(t.left for t in made))
    return Opening(turn.number, back(turn.given, turn.seeds), start, turn.seeds, sources, turns)


def _run(edge: Edge, op: LoopOp) -> list[Sequence[Array]]:
    """Return what the body of a loop is given in each turn, in order."""
    inside, given = Inside(op, edge.xs), list[Sequence[Array]]()
    with np.errstate(all="ignore"):
        while inside.sub is not None:
            given.append(inside.given)
            inside.take(inside.sub.run(inside.given, training=edge.training))
    return given


def _telling(turns: Sequence[_Turn], is_carry: bool) -> _Turn:
    """Return the turn in which most goes to the input; of a carry, where it dies or changes most.

    Where nothing goes to the input in any turn, it is the first in which something arrives.
    """
    if is_carry or not any(t.passed for t in turns):
        dying = [t for t in turns if not t.passed and t.arrived]
        if dying:
            return dying[0]
    if not is_carry:
        return max(turns, key=lambda t: t.passed)
    alive = [t for t in turns if t.passed and t.arrived] or turns[:1]
    return max(alive, key=lambda t: abs(np.log(t.passed / t.arrived)) if t.passed else 0.0)

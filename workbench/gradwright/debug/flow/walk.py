"""The steps of a path, into calls, branches, loops and what else a node stands for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...graph import Node, Tensor
from ...ops.control.loop_op import LoopOp
from ...spec import is_floating
from ..address import Address, Part
from .causes import cut_nodes, cut_reason, cuts
from .explanation import Cause, Step, named
from .level import Array, Edge, Level
from .numbers import about, cancelled
from .opening import Opening, Turns, encloses, opened
from .paths import Use, find_path, joined
from .reasons import LITTLE, MUCH, Reason, reason

TELLS = "flat", "masked", "zero factor", "detached", "cancels", "cancels exactly"
"""Kinds that say all: a composite is not opened behind them."""


@dataclass(frozen=True)
class Place:
    """Where a level is, and what its tensors are called by those who look from outside."""

    outer: Address | None
    part: Part
    where: str
    names: Mapping[Tensor, str]

    def address(self, node: Node) -> Address:
        """Return the address of a node; what stands for another node has that one's."""
        if self.outer is not None:
            return self.outer.into(node.name, self.part)
        return Address(node.name if node.origin is None else node.origin.name)

    def name(self, t: Tensor | None) -> str:
        """Return what a tensor of the level is called."""
        return "" if t is None else self.names.get(t, t.name)

    def line(self, where: str) -> str:
        """Return the user's line: what is inside a composite has that of the composite."""
        return where or self.where


class Walk:
    """Steps in the order of the gradient, and the turns of the loops that were opened."""

    def __init__(self) -> None:
        self.turns: dict[str, Turns] = {}
        self.inner_cuts: list[Cause] = []
        """Where other paths end inside of what the path goes through."""

    def steps(self, level: Level, path: Sequence[Use], place: Place) -> list[Step]:
        """Return the steps of a path, from the loss to the parameter."""
        found: list[Step] = []
        for node, i in reversed(path):
            edge = level.edge(node, i)
            at = place.address(node)
            names = [place.name(t) for t in node.inputs]
            own = Reason() if encloses(edge) else self._reason(edge, names, level, place)
            inner = self._inside(edge, at, place, names, own)
            if inner is None or str(at) in self.turns:
                found.append(self._step(edge, at, place, own, self.turns.get(str(at))))
            found += inner or []
            found += self._join(level, node, i, place)
        return found

    def _reason(self, edge: Edge, names: Sequence[str], level: Level, place: Place) -> Reason:
        found = reason(edge, names)
        given = None if found.zero is None else edge.node.inputs[found.zero]
        if given is None:
            return found
        origin = zero_origin(level, given)
        if origin is given:
            return found
        by = place.name(origin)
        maker = "" if origin.kind != "array" else f" of {origin.op.title}"
        return replace(found, text=f"{found.text}, since {by!r}{maker} is")

    def _join(self, level: Level, node: Node, i: int, place: Place) -> Iterator[Step]:
        """Yield a step where what the uses of a tensor ask for cancels."""
        t = node.inputs[i]
        assert t is not None
        longest, left = joined(level, t)
        if left < LITTLE * longest:
            names = [user.name for user, _ in level.uses(t)]
            kind, rest = cancelled(left / longest)
            yield Step(
                place.address(t.node),
                "the uses of",
                place.line(t.node.where),
                place.name(t),
                longest,
                left,
                kind,
                f"what {named(names)} ask for cancels {rest}",
            )

    def _step(
        self, edge: Edge, at: Address, place: Place, own: Reason, turns: Turns | None
    ) -> Step:
        told = own if turns is None else _told_turns(edge, turns)
        return Step(
            at,
            edge.op.title,
            place.line(edge.node.where),
            place.name(edge.node.inputs[edge.i]),
            edge.norm_in,
            edge.norm_out,
            told.kind,
            told.text,
        )

    def _inside(
        self, edge: Edge, at: Address, place: Place, names: Sequence[str], own: Reason
    ) -> list[Step] | None:
        """Return the steps inside a node; None where they would tell no more than the node."""
        remarkable = not LITTLE <= edge.gain <= MUCH
        if not encloses(edge) and (own.kind in TELLS or not remarkable):
            return None
        if not math.isfinite(edge.norm_in):
            return None
        found = opened(edge)
        if found is None:
            return None
        inner = self._place(found, at, place.line(edge.node.where), names)
        path = find_path(found.level, found.start, found.seeds)
        steps = self.steps(found.level, path, inner)
        self.inner_cuts += cuts(found.level, inner.address, inner.where)
        if found.turns is not None:
            self.turns[str(at)] = found.turns
        if not steps and edge.norm_out == 0:
            steps = [
                Step(
                    inner.address(node),
                    op.title,
                    inner.line(node.where),
                    ", ".join(inner.name(t) for t in node.inputs if t in found.level.active),
                    edge.norm_in,
                    0.0,
                    "detached",
                    cut_reason(op, node),
                )
                for node, op in cut_nodes(found.level)[:1]
            ]
        return steps or None

    def _place(self, found: Opening, at: Address, where: str, names: Sequence[str]) -> Place:
        known = {t: names[i] for t, i in found.sources.items() if names[i]}
        return Place(at, found.part, where, known)


def _told_turns(edge: Edge, turns: Turns) -> Reason:
    """Say how fast what is carried shrinks or grows; it is a cause for what is carried alone."""
    op = edge.op
    assert isinstance(op, LoopOp)
    carries = op.body.inputs[1 : 1 + op.n_carry]
    if 0.0 in turns.norms and any(t.spec.differentiable for t in carries):
        last = turns.numbers[turns.norms.index(0.0)]
        return Reason("", f"nothing is carried back beyond turn {last}")
    if 0.95 < turns.rate < 1.05:
        return Reason()
    way = "shrinks" if turns.rate < 1 else "grows"
    text = (
        f"what is carried {way} by {about(turns.rate)} per turn, from {about(turns.norms[0])} "
        f"to {about(turns.norms[-1])} over {len(turns.norms)} turns"
    )
    return Reason("turns" if edge.i < op.first_carry + op.n_carry else "", text)


def zero_origin(level: Level, t: Tensor) -> Tensor:
    """Return the tensor that makes another one 0: the first that is 0 though what it reads is not.

    Single numbers count as part of the op that reads them.
    """
    at: Tensor | None = t
    found = t
    while at is not None:
        found = at
        zeros = (
            x for x in at.node.inputs
            if x is not None and _is_zero(level.env.get(x))
        )  # fmt: skip
        at = next(zeros, None)
    return found


def _is_zero(a: Array | None) -> bool:
    return a is not None and is_floating(a.dtype) and a.size > 1 and not a.any()

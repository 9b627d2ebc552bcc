"""The steps of a path, into calls, branches, loops and what else a node stands for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...graph import Tensor
from ..address import Address, Part
from .causes import cut_reason
from .explanation import Step
from .inside import Inside, Turns, encloses, opened
from .level import Edge, Level
from .paths import Use, find_path
from .reasons import LITTLE, MUCH, Reason, reason

TELLS = "flat", "masked", "zero factor", "detached"
"""Kinds that say all: a composite is not opened behind them."""


@dataclass(frozen=True)
class Place:
    """Where a level is, and what its tensors are called by those who look from outside."""

    outer: Address | None
    part: Part
    where: str
    names: Mapping[Tensor, str]

    def address(self, name: str) -> Address:
        """Return the address of a node of the level."""
        return Address(name) if self.outer is None else self.outer.into(name, self.part)

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

    def steps(self, level: Level, path: Sequence[Use], place: Place) -> list[Step]:
        """Return the steps of a path, from the loss to the parameter."""
        found: list[Step] = []
        for node, i in reversed(path):
            edge = level.edge(node, i)
            at = place.address(node.name)
            names = [place.name(t) for t in node.inputs]
            own = Reason() if encloses(edge) else reason(edge, names)
            inner = self._inside(edge, at, place, names, own)
            if inner is None or str(at) in self.turns:
                found.append(self._step(edge, at, place, own, self.turns.get(str(at))))
            found += inner or []
        return found

    def _step(
        self, edge: Edge, at: Address, place: Place, own: Reason, turns: Turns | None
    ) -> Step:
        kind, text = own
        if turns is not None and (turns.rate < 0.95 or turns.rate > 1.05):
            way = "shrinks" if turns.rate < 1 else "grows"
            kind, text = (
                "turns",
                (
                    f"what is carried {way} by {turns.rate:.2g} per turn, from {turns.norms[0]:.2g} "
                    f"to {turns.norms[-1]:.2g} over {len(turns.norms)} turns"
                ),
            )
        node = edge.node
        return Step(
            at, edge.op.title, place.line(node.where), place.name(node.inputs[edge.i]),
            edge.norm_in, edge.norm_out, kind, text,
        )  # fmt: skip

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
        if found.turns is not None:
            self.turns[str(at)] = found.turns
        if not steps and edge.norm_out == 0:
            steps = [
                Step(
                    inner.address(node.name), op.title, inner.line(node.where),
                    inner.name(node.inputs[i]), edge.norm_in, 0.0, "detached", cut_reason(op, node),
                )
                for node, op, i in found.level.cuts[:1]
            ]  # fmt: skip
        return steps or None

    def _place(self, found: Inside, at: Address, where: str, names: Sequence[str]) -> Place:
        known = {t: names[i] for t, i in found.sources.items() if i < len(names) and names[i]}
        return Place(at, found.part, where, known)

"""Groups: variables that are trained otherwise than the rest, and what holds for each parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ...errors import TrainingError
from ...graph import Graph, Tensor
from ..config import TrainingConfig
from ..constraints import Constraint
from ..settings import Group

T = TypeVar("T")


@dataclass(frozen=True)
class Treatment:
    """How one parameter is trained: which optimizer, counted from 0, and the numbers around it."""

    optimizer: int
    multiplier: float
    l1: float
    l2: float
    decay: float | None
    """Decoupled; None leaves it to the optimizer."""
    constraint: Constraint | None
    """What it is brought back to after its update."""


def treatments(
    graph: Graph, config: TrainingConfig, params: Iterable[Tensor]
) -> dict[Tensor, Treatment]:
    """Return what holds for each parameter.

    Raises TrainingError for a pattern that fits no variable, and for one that two of them fit.
    """
    groups, found = list(config.groups), {}
    member: dict[str, Group] = {}
    for group in groups:
        for name in _fitting(graph, group.variables):
            if name in member:
                raise TrainingError(
                    f"{name!r} is in two groups",
                    facts=[", ".join(map(repr, g.variables)) for g in (member[name], group)],
                    need="at most one for each variable",
                )
            member[name] = group
    factors = _by_name(graph, config.lr_multipliers, "learning rate multipliers")
    bounds = _by_name(graph, config.constraints, "constraints")
    plain = Group(("*",))
    own = [g for g in groups if g.optimizer is not None]
    for p in params:
        group = member.get(p.name, plain)
        found[p] = Treatment(
            1 + own.index(group) if group.optimizer is not None else 0,
            group.lr_multiplier * factors.get(p.name, 1.0),
            config.l1 if group.l1 is None else group.l1,
            config.l2 if group.l2 is None else group.l2,
            config.weight_decay if group.weight_decay is None else group.weight_decay,
            bounds.get(p.name),
        )
    return found


def _fitting(graph: Graph, patterns: Sequence[str]) -> dict[str, None]:
    """Return the names of the variables that patterns fit; patterns of one group may overlap."""
    names: dict[str, None] = {}
    for pattern in patterns:
        named = graph.get(pattern)  # a name may have the brackets of a pattern
        fitting = graph.find(pattern) if named is None else [named]
        fits = [t.name for t in fitting if t.kind == "variable"]
        if not fits:
            raise TrainingError(f"no variable fits {pattern!r}", hint="g.summary()")
        names.update(dict.fromkeys(fits))
    return names


def _by_name(graph: Graph, settings: Mapping[str, T], what: str) -> dict[str, T]:
    """Return settings by the name of the variable that a pattern fits."""
    found: dict[str, tuple[str, T]] = {}
    for pattern, value in settings.items():
        for name in _fitting(graph, [pattern]):
            if name in found:
                raise TrainingError(
                    f"{name!r} has two {what}",
                    facts=[f"{found[name][0]!r} and {pattern!r} fit it"],
                    need="at most one for each variable",
                )
            found[name] = pattern, value
    return {name: value for name, (_, value) in found.items()}

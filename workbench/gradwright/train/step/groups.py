"""Groups: variables that are trained otherwise than the rest, and what holds for each parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...errors import TrainingError
from ...graph import Graph, Tensor
from ..config import TrainingConfig
from ..settings import Group


@dataclass(frozen=True)
class Treatment:
    """How one parameter is trained: which optimizer, counted from 0, and the numbers around it."""

    optimizer: int
    multiplier: float
    l1: float
    l2: float
    decay: float | None
    """Decoupled; None leaves it to the optimizer."""


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
    factors = _factors(graph, config.lr_multipliers)
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


def _factors(graph: Graph, multipliers: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, tuple[str, float]] = {}
    for pattern, factor in multipliers.items():
        for name in _fitting(graph, [pattern]):
            if name in found:
                raise TrainingError(
                    f"{name!r} has two learning rate multipliers",
                    facts=[f"{found[name][0]!r} and {pattern!r} fit it"],
                    need="at most one for each variable",
                )
            found[name] = pattern, factor
    return {name: factor for name, (_, factor) in found.items()}

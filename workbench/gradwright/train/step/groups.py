"""Groups: variables that are trained otherwise than the rest, and what holds for each parameter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ...errors import TrainingError
from ...graph import Graph, Tensor
from ..config import TrainingConfig
from ..constraints import Constraint
from ..settings import PENALTIES
from .numbers import of_group, of_pattern

T = TypeVar("T")


@dataclass(frozen=True)
class Treatment:
    """How one parameter is trained: which optimizer, counted from 0, and the numbers around it.

    Of these it has the names; those that ``numbers`` leaves out have no part in the step.
    """

    optimizer: int
    multipliers: tuple[str, ...]
    l1: str
    l2: str
    decay: str | None
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
    member: dict[str, int] = {}
    for i, group in enumerate(groups):
        for name in _fitting(graph, group.variables):
            if name in member:
                raise TrainingError(
                    f"{name!r} is in two groups",
                    facts=[", ".join(map(repr, groups[j].variables)) for j in (member[name], i)],
                    need="at most one for each variable",
                )
            member[name] = i
    named = {pattern: of_pattern(pattern) for pattern in config.lr_multipliers}
    factors = _by_name(graph, named, "learning rate multipliers")
    bounds = _by_name(graph, config.constraints, "constraints")
    own = [i for i, group in enumerate(groups) if group.optimizer is not None]
    for p in params:
        at = member.get(p.name)
        multipliers = [] if at is None else [of_group(at, "lr_multiplier")]
        multipliers += [factors[p.name]] if p.name in factors else []
        stated = {
            name: name if at is None or getattr(groups[at], name) is None else of_group(at, name)
            for name in PENALTIES
        }
        decayed = config.weight_decay is not None or stated["weight_decay"] != "weight_decay"
        found[p] = Treatment(
            1 + own.index(at) if at in own else 0,
            tuple(multipliers),
            stated["l1"],
            stated["l2"],
            stated["weight_decay"] if decayed else None,
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

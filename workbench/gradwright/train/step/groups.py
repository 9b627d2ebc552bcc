"""Groups: variables that are trained otherwise than the rest, and what holds for each parameter."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ...errors import TrainingError
from ...graph import Graph, Tensor
from ...words.jsonable import jsonable
from ...words.named import Named
from ..optim import Optimizer

if TYPE_CHECKING:
    from ..config import TrainingConfig


@jsonable
@dataclass(frozen=True)
class Group(Named):
    """Variables that are trained otherwise than the rest; what is None is as for all others.

    Args:
        variables: names, patterns such as ``"*/bias"``, or tensors; one of them, or several.
        optimizer: moves them instead of the trainer's, with its own learning rate.
        lr_multiplier: factor on the learning rate; 0 leaves them where they are.
        l1, l2, weight_decay: as in ``TrainingConfig``, for these alone.

    Raises TrainingError for numbers out of range, TypeError for a setting that it does not have;
    the trainer, TrainingError for a variable of two groups.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w, b = g.variable("w", (), init=1.0), g.variable("b", (), init=1.0)
    >>> slow = gw.Group("b", lr_multiplier=0.1)
    >>> trainer = gw.Trainer(g, w + b, optimizer=gw.optim.SGD(0.5), groups=[slow])
    >>> record = trainer.step({})
    >>> g.values["w"].item(), round(g.values["b"].item(), 3)
    (0.5, 0.95)
    """

    variables: tuple[str, ...]
    optimizer: Optimizer | None = None
    lr_multiplier: float = 1.0
    l1: float | None = None
    l2: float | None = None
    weight_decay: float | None = None
    instead: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("lr", "learning_rate"),
        "optimizer=gw.optim.Adam(1e-4) has a rate of its own, and lr_multiplier=0.1 scales that of "
        "the trainer",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "variables", names_of(self.variables, "a group"))
        if self.optimizer is not None and not isinstance(self.optimizer, Optimizer):
            raise TrainingError(f"{self.optimizer!r} is no optimizer", hint="gw.optim.SGD(0.1)")
        for name in ("lr_multiplier", "l1", "l2", "weight_decay"):
            value = getattr(self, name)
            if value is not None:
                check_number(f"a group's {name}", value)


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


def names_of(given: object, what: str) -> tuple[str, ...]:
    """Return names for a name, a tensor, or several; raises TrainingError for anything else."""
    several = [given] if isinstance(given, str | Tensor) else given
    if not isinstance(several, Iterable):
        raise TrainingError(f"{what} cannot be {given!r}", need="names, patterns or tensors")
    names = [t.name if isinstance(t, Tensor) else t for t in several]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise TrainingError(f"{what} cannot be {given!r}", need="names, patterns or tensors")
    return tuple(names)


def check_number(what: str, value: object, most: float = math.inf) -> None:
    """Raise TrainingError for anything but a finite number from 0 to ``most``."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not (good and 0 <= value <= most and value < math.inf):  # type: ignore[operator]
        limit = "" if most == math.inf else f" <= {most:g}"
        raise TrainingError(f"{what}={value!r} is out of range", need=f"a number >= 0{limit}")


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

"""Numbers: what settings say in numbers is fed to a step, so that it may change between two.

Each has a name, as one would write it behind ``config.``: that of the first optimizer's momentum is
``momentum``, of a second one's ``momentum_1``; others are called ``clip_norm``, ``groups[0].l2``,
``lr_multipliers['*/bias']``. All of them are one vector, since a plan takes 0.25 us for each array
that it is fed. Learning rates are fed beside it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import fields
from typing import Any

from ...graph import Graph, Tensor
from ...ops.core.slicing import StridedSlice
from ..config import TrainingConfig
from ..optim import Optimizer
from ..optim.base import BOUNDS, Number, number_at, range_missed
from ..settings import PENALTIES


def numbers(config: TrainingConfig, step: int | None = None) -> dict[str, Number]:
    """Return the numbers and schedules that a step is fed with, by name.

    With ``step``, counted from 0, schedules are what they say for it; raises TrainingError where
    that is out of range. Of the numbers around an optimizer, what is None, or 0, or a multiplier of
    1 is left out: the graph of a step has no part for it.

    >>> import gradwright as gw
    >>> sgd = gw.optim.SGD(0.1, momentum=gw.schedules.Points(((0, 0.5), (4, 0.9))))
    >>> numbers(gw.TrainingConfig(sgd, clip_norm=1.0, l2=0.0), step=2)
    {'momentum': 0.7, 'weight_decay': 0.0, 'clip_norm': 1.0}
    """
    found: dict[str, Number] = {}

    def put(name: str, field: str, number: Number, most: float = math.inf) -> None:
        found[name] = number if step is None else number_at(field, number, step, most)

    for i, optimizer in enumerate(config.optimizers):
        for field, number in optimizer.scalars().items():
            put(of_optimizer(i, field), field, number)
    for field in (*PENALTIES, *BOUNDS):
        if number := getattr(config, field):
            put(field, field, number)
    for i, group in enumerate(config.groups):
        for field in PENALTIES:
            if number := getattr(group, field):
                put(of_group(i, field), field, number)
        if group.lr_multiplier != 1.0:
            put(of_group(i, "lr_multiplier"), "lr_multiplier", group.lr_multiplier)
    for pattern, factor in config.lr_multipliers.items():
        if factor != 1.0:
            put(of_pattern(pattern), of_pattern(pattern), factor)
    if config.ema is not None:
        put("ema.decay", "ema.decay", config.ema.decay, 1.0)
    return found


def of_optimizer(index: int, name: str) -> str:
    """Return the name of a number of an optimizer.

    >>> of_optimizer(0, "momentum"), of_optimizer(2, "momentum")
    ('momentum', 'momentum_2')
    """
    return f"{name}_{index}" if index else name


def of_group(index: int, name: str) -> str:
    """Return the name of a number of a group.

    >>> of_group(1, "l2")
    'groups[1].l2'
    """
    return f"groups[{index}].{name}"


def of_pattern(pattern: str) -> str:
    """Return the name of the factor on the learning rate of what fits a pattern.

    >>> of_pattern("*/bias")
    "lr_multipliers['*/bias']"
    """
    return f"lr_multipliers[{pattern!r}]"


def form(config: TrainingConfig, built_in: Sequence[Collection[str]] = ()) -> list[Any]:
    """Return what the graph of a step depends on of its settings: all but the size of numbers.

    ``built_in`` are names of numbers of each optimizer that its graph was made of all the same.

    >>> import gradwright as gw
    >>> a, b, c = (gw.TrainingConfig(gw.optim.SGD(0.1, momentum=m)) for m in (0.5, 0.9, 0.0))
    >>> form(a) == form(b), form(a) == form(c)
    (True, False)
    """
    found: list[Any] = [*numbers(config), config.weight_decay is None]
    apart = {"optimizer", "groups", "lr_multipliers", "ema", *PENALTIES, *BOUNDS}
    found += (getattr(config, f.name) for f in fields(config) if f.name not in apart)
    for optimizer in config.optimizers:
        found += type(optimizer), optimizer.form()
    for optimizer, names in zip(config.optimizers, built_in, strict=False):
        found += (getattr(optimizer, name) for name in names)
    for group in config.groups:
        found += group.variables, group.optimizer is None
        found += (getattr(group, name) is None for name in PENALTIES)
    found += config.lr_multipliers
    if config.ema is not None:
        found += config.ema.start, config.ema.every, config.ema.buffers
    return found


def watched(optimizer: Optimizer) -> tuple[Optimizer, set[str]]:
    """Return a copy of an optimizer, and which of its numbers are read from that, as they are.

    An optimizer of somebody's own may build a number into the graph instead of taking the tensor.

    >>> import gradwright as gw
    >>> copy, read = watched(gw.optim.SGD(0.1, weight_decay=0.5))
    >>> copy.weight_decay, read
    (0.5, {'weight_decay'})
    """
    read: set[str] = set()
    names = optimizer.scalars().keys() - optimizer.switches

    class Watched(type(optimizer)):  # type: ignore[misc]  # whatever it is
        def __getattribute__(self, name: str) -> Any:
            if name in names:
                read.add(name)
            return super().__getattribute__(name)

    Watched.__name__ = type(optimizer).__name__  # for errors
    copy: Optimizer = object.__new__(Watched)
    vars(copy).update(vars(optimizer))
    return copy, read


class Numbers:
    """The numbers of the present settings: what a step is fed with, and what a history shows."""

    def __init__(self) -> None:
        self._config: TrainingConfig | None = None
        """The settings, where some follow schedules."""
        self._fed: tuple[float, ...] = ()
        self._first: dict[str, Number] = {}
        """What each was when it was met first."""
        self.shown: dict[str, int] = {}
        """Where the numbers are that follow schedules, or have been set to others."""

    def read(self, config: TrainingConfig) -> None:
        """Take over the numbers of settings."""
        held = numbers(config)
        moving = {name for name, number in held.items() if callable(number)}
        seen = {
            name
            for name, number in held.items()
            if name in moving
            or name in self.shown
            or self._first.setdefault(name, number) != number
        }
        self.shown = {name: i for i, name in enumerate(held) if name in seen}
        self._config = config if moving else None
        self._fed = () if moving else tuple(map(float, held.values()))  # type: ignore[arg-type]

    def steady(self, optimizers: Sequence[Optimizer]) -> tuple[Any, ...] | None:
        """Return learning rates and other numbers as steps are fed; None where some may move."""
        if self._config is not None or not all(map(_is_steady, optimizers)):
            return None
        rates = [optimizer.rate(0) for optimizer in optimizers]
        return (*rates, self._fed) if self._fed else tuple(rates)

    def at(self, step: int) -> tuple[float, ...]:
        """Return what a step, counted from 0, is fed with."""
        if self._config is None:
            return self._fed
        return tuple(numbers(self._config, step).values())  # type: ignore[arg-type]


def _is_steady(optimizer: Optimizer) -> bool:
    """Tell whether each step has the learning rate that is stated now."""
    number = vars(optimizer).get("learning_rate")
    is_own = type(number) in (float, int) and type(optimizer).rate is Optimizer.rate
    return is_own and not range_missed("learning_rate", number)


class Fed:
    """The numbers of a step in its graph: one placeholder, of which each is an element."""

    def __init__(self, graph: Graph, scope: str, config: TrainingConfig) -> None:
        self._graph, self._scope = graph, scope
        self._index = {name: i for i, name in enumerate(numbers(config))}
        self._made: dict[str, Tensor] = {}
        self.vector: Tensor | None = None
        """Placeholder of all of them, f64[n]; None where there are none."""
        if self._index:
            with graph.deriving(scope):
                self.vector = graph.placeholder("numbers", (len(self._index),), "float64")

    def get(self, name: str) -> Tensor | None:
        """Return a number as a 0-d tensor; None for one that has no part in the step."""
        return self[name] if name in self._index else None

    def __getitem__(self, name: str) -> Tensor:
        """Return a number as a 0-d tensor."""
        made = self._made.get(name)
        if made is None:
            assert self.vector is not None
            with self._graph.deriving(self._scope):
                element = StridedSlice(index=(self._index[name],))
                made = element(self.vector, name=name if name.isidentifier() else None)
            self._made[name] = made
        return made

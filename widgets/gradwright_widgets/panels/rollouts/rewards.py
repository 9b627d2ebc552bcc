"""Rewards of a training as a page has them: named, weighed, switched off and on, replaced."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

from gradwright.align.rewards.judge import named, unique
from gradwright.align.rewards.rule import Rule, Weighted, name_of
from gradwright.errors import GraphError, TrainingError

from ...host.desk import GraphDesk


class RewardDesk:
    """What is done to the rewards of an objective, between two steps.

    What a page weighs is a ``Weighted`` reward afterwards. One that is off has the weight 0: it is
    judged, so that its curve goes on, and counts nothing; what it weighed is kept for when it is
    switched on.
    """

    def __init__(
        self, desk: GraphDesk, objective: Callable[[], Any], changed: Callable[[], object]
    ) -> None:
        self._desk, self._objective, self._changed = desk, objective, changed
        self._off: dict[str, float] = {}

    def rows(self) -> list[dict[str, Any]]:
        """Return name and weight of each reward, and whether it counts."""
        rows = []
        for name, reward in self._named():
            weight = _parts(reward)[1]
            on = weight != 0 or name not in self._off
            rows.append({"name": name, "weight": weight if on else self._off[name], "on": on})
        return rows

    def replace(self, rewards: Any) -> None:
        """Judge the next rollout, and all after it, by other rewards.

        Raises FeedError for what is no reward.
        """
        named(rewards)

        def command() -> None:
            self._controlled().rewards = rewards
            self._off.clear()
            self._changed()

        self._desk.commands.submit(command)

    def weigh(self, name: str, weight: float, *, note: bool = False) -> None:
        """Have a reward count so much from the next rollout on."""
        if not math.isfinite(weight):
            raise GraphError(f"a weight of {weight} makes no sense", need="a finite number")
        row = self._row(name)
        self._off.pop(name, None)
        self._set(name, float(weight))
        if note:
            self._note(name, row["weight"] if row["on"] else 0.0, weight)

    def switch(self, name: str, on: bool, *, note: bool = False) -> None:
        """Have a reward count, or only be judged, from the next rollout on."""
        row = self._row(name)
        if on == row["on"]:
            return
        was, now = (0.0, row["weight"]) if on else (row["weight"], 0.0)
        if on:
            del self._off[name]
        else:
            self._off[name] = was
        self._set(name, now)
        if note:
            self._note(name, was, now)

    def _named(self) -> list[tuple[str, Any]]:
        objective = self._objective()
        if objective is None:
            return []
        tops = named(objective.rewards)
        if not isinstance(objective.rewards, Mapping):
            tops = [(name_of(_parts(reward)[0]), reward) for _, reward in tops]
        return list(zip(unique([name for name, _ in tops]), (r for _, r in tops), strict=True))

    def _controlled(self) -> Any:
        objective = self._objective()
        if objective is None:
            raise TrainingError(
                "no rewards are judged here",
                hint="RolloutPanel(gw.align.trainer(model, gw.align.GRPO(), rewards=[f]))",
            )
        return objective

    def _row(self, name: str) -> dict[str, Any]:
        self._controlled()
        rows = {row["name"]: row for row in self.rows()}
        if name not in rows:
            raise GraphError(
                f"no reward is called {name!r}", facts=[f"there are {', '.join(rows)}"]
            )
        return rows[name]

    def _set(self, name: str, weight: float) -> None:
        def command() -> None:
            held = dict(self._named())
            if name in held:  # it may have been replaced before its turn came
                held[name] = _weighed(name, _parts(held[name])[0], weight)
                self._controlled().rewards = held
            self._changed()

        self._desk.commands.submit(command)

    def _note(self, name: str, was: float, now: float) -> None:
        undo = functools.partial(_undo, name=name, weight=was)
        key = f"weight of reward {name}"
        self._desk.changes.note(key, key, f"{was:g}", f"{now:g}", undo)


def _parts(reward: Any) -> tuple[Any, float]:
    """Return a reward without its weight, and that."""
    if isinstance(reward, Weighted) and not reward.name:
        return reward.reward, reward.weight
    return reward, 1.0


def _weighed(name: str, reward: Any, weight: float) -> Any:
    """Return a reward with a weight, whose curve has the name that it had."""
    if isinstance(reward, Rule):
        reward = dataclasses.replace(reward, name=name)
    elif name_of(reward) != name:
        given = reward

        @functools.wraps(given)
        def reward(*args: Any, **columns: Any) -> Any:
            return given(*args, **columns)

        reward.__name__ = name
    return Weighted(reward, weight)


def drawing_of(trainer: Any) -> Any:
    """Return the objective of a trainer that draws rollouts, None where none does."""
    found = getattr(trainer, "objective", None)
    return found if hasattr(found, "experience") else None


def _undo(desk: GraphDesk, name: str, weight: float) -> None:
    RewardDesk(desk, lambda: drawing_of(desk.trainer), desk.refresh).weigh(name, weight)

"""Rewards of a training as a page has them: named, weighed, switched off and on, replaced."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from gradwright.errors import GraphError, TrainingError

from ...host.desk import GraphDesk
from .words import reward_name


class RewardDesk:
    """What is done to the rewards of an objective, between two steps.

    A reward that is off has the weight 0: it is judged, so that its curve goes on, and counts
    nothing. What it weighed before is kept for when it is switched on.
    """

    def __init__(
        self, desk: GraphDesk, objective: Callable[[], Any], changed: Callable[[], object]
    ) -> None:
        self._desk, self._objective, self._changed = desk, objective, changed
        self._off: dict[str, float] = {}

    def rows(self) -> list[dict[str, Any]]:
        """Return name, weight and whether it counts, of each reward."""
        objective = self._objective()
        if objective is None:
            return []
        rows = []
        for name, weight in zip(self.names(), objective.weights, strict=True):
            on = weight != 0 or name not in self._off
            rows.append({"name": name, "weight": weight if on else self._off[name], "on": on})
        return rows

    def names(self) -> list[str]:
        """Return what the rewards are called: as scores have them, where there are such."""
        objective = self._objective()
        given = list(objective.rewards)
        seen = objective.experience
        if seen is not None and len(seen.scores.names) == len(given):
            return list(seen.scores.names)
        return [reward_name(reward) for reward in given]

    def replace(self, rewards: Sequence[Any]) -> None:
        """Judge the next rollout, and all after it, by other rewards; each weighs 1."""
        given = list(rewards)
        if not given or not all(callable(reward) for reward in given):
            raise TrainingError(
                "there is no reward", facts=[f"got {rewards!r:.60}"],
                need="one function or more, called with prompts and completions",
            )  # fmt: skip

        def command() -> None:
            objective = self._controlled()
            objective.rewards = given
            objective.weights = [1.0] * len(given)
            self._off.clear()
            self._changed()

        self._desk.commands.submit(command)

    def weigh(self, name: str, weight: float, *, note: bool = False) -> None:
        """Have a reward count so much from the next rollout on."""
        if not math.isfinite(weight):
            raise GraphError(f"a weight of {weight} makes no sense", need="a finite number")
        was = self._row(name)
        self._off.pop(name, None)
        self._set(name, float(weight))
        if note:
            self._note(name, was["weight"] if was["on"] else 0.0, weight)

    def switch(self, name: str, on: bool, *, note: bool = False) -> None:
        """Have a reward count, or only be judged, from the next rollout on."""
        row = self._row(name)
        if on == row["on"]:
            return
        weight = row["weight"] if on else 0.0
        if on:
            del self._off[name]
        else:
            self._off[name] = row["weight"]
        self._set(name, weight)
        if note:
            self._note(name, 0.0 if on else row["weight"], weight)

    def _controlled(self) -> Any:
        objective = self._objective()
        if objective is None:
            raise TrainingError(
                "no rewards are judged here", hint="RolloutPanel(gw.align.trainer(model, GRPO()))"
            )
        return objective

    def _row(self, name: str) -> dict[str, Any]:
        self._controlled()
        rows = {row["name"]: row for row in self.rows()}
        if name not in rows:
            raise GraphError(f"no reward is called {name!r}", facts=[f"there are {', '.join(rows)}"])
        return rows[name]

    def _set(self, name: str, weight: float) -> None:
        def command() -> None:
            names = self.names()
            if name in names:  # it may have been replaced before its turn came
                weights = list(self._controlled().weights)
                weights[names.index(name)] = weight
                self._controlled().weights = weights
            self._changed()

        self._desk.commands.submit(command)

    def _note(self, name: str, was: float, now: float) -> None:
        undo = functools.partial(_undo, name=name, weight=was)
        key = f"weight of reward {name}"
        self._desk.changes.note(key, key, f"{was:g}", f"{now:g}", undo)


def _undo(desk: GraphDesk, name: str, weight: float) -> None:
    from .panel import RolloutsPanel

    desk.widget.part(RolloutsPanel).weigh_reward(name, weight)

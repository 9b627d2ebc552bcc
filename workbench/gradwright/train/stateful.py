"""Stateful: the parts of a training that have state, which is saved and taken over as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..errors import TrainingError
from ..ops.draws.philox import is_word
from .config import TrainingConfig

NEEDED = ("optimizer", "counters", "seeds", "data")
"""What every state of a trainer has."""


@runtime_checkable
class Stateful(Protocol):
    """A part that a checkpoint asks for its state: numbers, strings and arrays by name."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a continuation needs."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` returned; raises TrainingError where it is none."""


def saved(parts: Mapping[str, Stateful]) -> dict[str, Any]:
    """Return the state of parts, each under the prefix that it stands by."""
    return {
        f"{prefix}{name}": value
        for prefix, part in parts.items()
        for name, value in part.state_dict().items()
    }


def beneath(prefix: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stands under a prefix, by the names that it has there."""
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def kinds(config: TrainingConfig) -> str:
    """Return the names of the optimizers, which say whose state it is."""
    return " ".join(type(optimizer).__name__ for optimizer in config.optimizers)


def seeds_of(state: Mapping[str, Any], config: TrainingConfig) -> tuple[int, int]:
    """Return the seeds of trainer and session; raises TrainingError for state of another kind."""
    missing = set(NEEDED) - state.keys()
    if missing:
        raise TrainingError(f"this is no state of a trainer: {missing.pop()!r} is missing")
    came = bytes(np.asarray(state["optimizer"])).decode(errors="replace")
    if came != kinds(config):
        raise TrainingError(f"this is state of {came}", need=f"state of {kinds(config)}")
    seeds = [int(n) for n in np.asarray(state["seeds"]).reshape(-1)]
    if len(seeds) != 2 or not all(map(is_word, seeds)):
        raise TrainingError("this is no state of a trainer: it has other seeds")
    return seeds[0], seeds[1]

"""Facts of a rollout for the lines around it, and what alarms are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...host.wire import finite
from .rows import AT_ONCE

if TYPE_CHECKING:
    from gradwright.align import Experience

CLIPPED = "clip_ratio/region_mean"
"""Metric of steps that says which share of the tokens is clipped."""


def facts(objective: Any, seen: Experience | None, trainer: Any) -> dict[str, Any]:
    """Return what the training does, and number, size and speed of the rollout that is shown."""
    status = {"status": status_of(trainer)}
    if seen is None or objective is None:
        return status
    rollout, latest = seen.rollout, objective.experience
    tokens = int(rollout.lengths.sum())
    return {
        **status, "number": seen.number, "step": seen.step, "rows": len(rollout),
        "groups": len(rollout.prompts), "pages": AT_ONCE,
        "rate": finite(tokens / rollout.seconds) if rollout.seconds else None,
        "latest": seen.number if latest is None else latest.number,
    }  # fmt: skip


def status_of(trainer: Any) -> str:
    """Return what a trainer does now: "idle", "running" or "paused"."""
    fit = None if trainer is None else trainer.progress
    if fit is None or fit.outcome != "running":
        return "idle"
    return "paused" if trainer.status == "paused" else "running"


def history_of(objective: Any) -> Mapping[str, Sequence[float]]:
    """Return the facts of all rollouts as they are now; the training adds to them meanwhile."""
    return {} if objective is None else {n: list(c) for n, c in dict(objective.history).items()}


def told(
    objective: Any, trainer: Any
) -> tuple[Mapping[str, Sequence[float]], Sequence[float], Experience | None]:
    """Return what `alarms` takes: facts of rollouts, clip shares of steps, the last rollout."""
    steps = {} if trainer is None else trainer.history.steps
    clipped = steps.get(CLIPPED, [])
    return history_of(objective), clipped, None if objective is None else objective.experience

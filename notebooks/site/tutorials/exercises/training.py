"""Checks of tutorial 4."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gradwright as gw

from . import exercise

MOST_STEPS = 400


@exercise
def falling(schedule: Callable[[int], float]) -> str | None:
    """Read a schedule at its bends."""
    for step, wanted in {0: 0.1, 99: 0.1, 100: 0.01, 199: 0.01, 200: 0.001, 299: 0.001}.items():
        found = float(schedule(step))
        if abs(found - wanted) > 1e-3 * wanted:
            return f"At step {step} it should be {wanted:g}, and is {found:g}."
    return None


@exercise
def regularised(make: Callable[[gw.Graph], gw.Trainer], network: Any) -> str | None:
    """Read the settings of a trainer."""
    trainer = make(network())
    if not isinstance(trainer, gw.Trainer):
        return f"A trainer is wanted; this is a {type(trainer).__name__}."
    optimizer, settings = trainer.config.optimizer, trainer.config
    if type(optimizer).__name__ != "AdamW":
        return f"The optimizer is {type(optimizer).__name__}; AdamW has a decay of its own."
    if abs(optimizer.weight_decay - 0.05) > 1e-9:
        return f"The decay is {optimizer.weight_decay:g}, not 0.05."
    if settings.clip_norm != 1.0:
        return f"The norm of all gradients is bounded by clip_norm=1.0; it is {settings.clip_norm}."
    return None


@exercise
def trained(
    make: Callable[[], gw.Trainer], network: Any, train: Mapping[str, Any], test: Mapping[str, Any]
) -> str | None:
    """Count the steps of a training, and the digits that it knows."""
    trainer = make()
    if trainer.steps_done > MOST_STEPS:
        return f"It took {trainer.steps_done} steps; {MOST_STEPS} are allowed."
    found = trainer.graph.output({"x": test["x"]}, "head/logits")["head/logits"].argmax(axis=1)
    share = float((found == test["t"]).mean())
    if share < 0.95:
        return f"{share:.1%} of the test digits after {trainer.steps_done} steps: rate, or batches?"
    return None

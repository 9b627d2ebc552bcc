"""Run: one run of a phase of a step, as it is settled before it is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...data.batches import Batches, Feeds
from ..callbacks import Change
from .graph import Phase, StepGraph
from .keeper import Fed


@dataclass(slots=True)
class Run:
    """One run of a phase."""

    step: StepGraph
    phase: Phase
    feeds: Feeds
    rows: int
    """How many examples count towards the epoch."""
    numbers: Fed
    """What is fed beside data: learning rates, other numbers, and the scale of the loss."""
    weight: tuple[float, ...] = ()
    """What the batch weighs in a window, if that is fed."""
    source: Batches | None = None
    changes: Mapping[str, Change] | None = None
    """What it did to each variable that may be trained, if that was watched."""

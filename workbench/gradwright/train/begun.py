"""Begun: where a training stands within an epoch, and what that has measured so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from .step.measure import Totals


@dataclass
class Begun:
    """An epoch that has begun, and the window of batches that wait for their update in it.

    Totals are never written into, so a shallow copy keeps the place.
    """

    signature: list[int] = field(default_factory=list)
    """Of the data that the epoch has begun on."""
    batches: int = 0
    """How many of them are done."""
    totals: Totals = field(default_factory=dict)
    """What they have measured."""
    gathered: int = 0
    """Batches whose gradients wait in the window."""
    window: Totals = field(default_factory=dict)
    """What these have measured."""

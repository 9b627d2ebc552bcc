"""Schedules: a number, such as the learning rate, as a function of the step, counted from 0.

What is named here are frozen dataclasses: they compare, print, draw themselves and are saved as
JSON. They multiply (``0.5 * a * b``), follow one another (``a.then(b, at=1000)``) and count epochs
instead of steps (``a.per_epoch(469)``). A plain function of the step will do, too, where nothing is
to be saved.
"""

from typing import Any

from ...ops import missing
from .base import Anneal, Plan, Schedule, plot
from .composed import ByEpoch, Product, Ramp, Sequence
from .cycles import Cosine, CosineRestarts, Linear, OneCycle, WarmupStableDecay
from .decays import Constant, Exponential, Inverse, Map, Points, Polynomial, Sigmoid, Step

__all__ = [
    "Anneal",
    "ByEpoch",
    "Constant",
    "Cosine",
    "CosineRestarts",
    "Exponential",
    "Inverse",
    "Linear",
    "Map",
    "OneCycle",
    "Plan",
    "Points",
    "Polynomial",
    "Product",
    "Ramp",
    "Schedule",
    "Sequence",
    "Sigmoid",
    "Step",
    "WarmupStableDecay",
    "plot",
]


def __getattr__(name: str) -> Any:
    """Say what is meant by a name that is not here."""
    raise missing(__name__, name, __all__)

"""The CPU as a device: numpy first, then chains of machine code on fixed addresses."""

from .device import Cpu, Guard
from .lowerings import (
    adam,
    adam_8bit,
    core,
    counts,
    head,
    layers,
    named_rows,
    packed,
    places,
    rows,
)

__all__ = [
    "Cpu",
    "Guard",
    "adam",
    "adam_8bit",
    "core",
    "counts",
    "head",
    "layers",
    "named_rows",
    "packed",
    "places",
    "rows",
]

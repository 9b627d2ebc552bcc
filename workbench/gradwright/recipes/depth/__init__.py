"""Depth and memory: stacks of layers through two plans, stores, and gradients from any seed."""

from .deep import DeepTrainer
from .section import Section
from .seeded import backward_from, seeded_cross_entropy
from .stack import CheckpointedStack
from .store import Disk, Memory, Store
from .updates import Updates

__all__ = [
    "CheckpointedStack",
    "DeepTrainer",
    "Disk",
    "Memory",
    "Section",
    "Store",
    "Updates",
    "backward_from",
    "seeded_cross_entropy",
]

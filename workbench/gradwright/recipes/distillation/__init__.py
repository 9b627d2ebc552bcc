"""Distillation: a student learns from what a teacher says, attends to and computes inside.

- ``soft_targets``: Hinton's loss: T²·KL of softened outputs, and cross-entropy with labels
- ``on_policy``: GKD's divergence, from forward to reverse KL
- ``attention``: attention maps, head by head or as means of heads
- ``attention_maps``: normalised maps of where activations are large
- ``features``: features, through a learned projection where widths differ
- ``Distillation``: a weighted sum of such terms, as loss and metrics of a trainer
"""

from .losses import attention, attention_maps, features, on_policy, soft_targets
from .sum import Distillation

__all__ = [
    "Distillation",
    "attention",
    "attention_maps",
    "features",
    "on_policy",
    "soft_targets",
]

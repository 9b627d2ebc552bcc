"""Training: optimizers, schedules, metrics, data, and the trainer that brings them together."""

from . import fused, metrics, optim, schedules
from .callbacks import Callback, EarlyStopping
from .history import History, Record
from .metrics import Metric
from .trainer import Trainer

__all__ = [
    "Callback",
    "EarlyStopping",
    "History",
    "Metric",
    "Record",
    "Trainer",
    "fused",
    "metrics",
    "optim",
    "schedules",
]

"""Training: optimizers, schedules, metrics, data, and the trainer that brings them together."""

from . import fused, metrics, optim, schedules
from .callbacks import Callback, Change, EarlyStopping
from .history import History, Record
from .metrics import Metric
from .statistics import ParameterStatistics
from .trainer import Trainer

__all__ = [
    "Callback",
    "Change",
    "EarlyStopping",
    "History",
    "Metric",
    "ParameterStatistics",
    "Record",
    "Trainer",
    "fused",
    "metrics",
    "optim",
    "schedules",
]

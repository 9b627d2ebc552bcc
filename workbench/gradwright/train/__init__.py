"""Training: optimizers, schedules, metrics, data, and the trainer that brings them together."""

from typing import TYPE_CHECKING

from ..evaluation import metrics
from ..evaluation.metrics import Metric
from ..ops import later
from . import optim, schedules
from .callbacks import (
    Callback,
    Change,
    Divergence,
    EarlyStopping,
    MaxSteps,
    Profiler,
    Recorder,
    ReduceLROnPlateau,
    Score,
    ScoreReached,
    Stopping,
    TensorBoard,
    TimeLimit,
    UpdateRatio,
    WeightsAndBiases,
    compare_profiles,
    on_epoch,
    on_step,
)
from .callbacks.statistics import ParameterStatistics
from .config import TrainingConfig
from .history import FitEnd, History, Record
from .settings import EMA, SWA, Accumulation, Group
from .step.accumulate import GradientAccumulator
from .trainer import Trainer

if TYPE_CHECKING:
    from ..recipes.cross_validation import CrossValidation, cross_validate
    from ..recipes.learning_rate_finder import LearningRates, find_learning_rate
    from ..recipes.unrolled_trainer import UnrolledTrainer
    from ..recording import Run, RunFolder, Runs, RunsComparison, Store
    from .callbacks.activations import (
        ActivationComparison,
        SaveActivations,
        compare_activations,
        load_activations,
    )
    from .callbacks.gradient_watch import GradientWatch
    from .callbacks.reproduce import Reproduce

__all__ = [
    "EMA",
    "SWA",
    "Accumulation",
    "ActivationComparison",
    "Callback",
    "Change",
    "CrossValidation",
    "Divergence",
    "EarlyStopping",
    "FitEnd",
    "GradientAccumulator",
    "GradientWatch",
    "Group",
    "History",
    "LearningRates",
    "MaxSteps",
    "Metric",
    "ParameterStatistics",
    "Profiler",
    "Record",
    "Recorder",
    "ReduceLROnPlateau",
    "Reproduce",
    "Run",
    "RunFolder",
    "Runs",
    "RunsComparison",
    "SaveActivations",
    "Score",
    "ScoreReached",
    "Stopping",
    "Store",
    "TensorBoard",
    "TimeLimit",
    "Trainer",
    "TrainingConfig",
    "UnrolledTrainer",
    "UpdateRatio",
    "WeightsAndBiases",
    "compare_activations",
    "compare_profiles",
    "cross_validate",
    "find_learning_rate",
    "load_activations",
    "metrics",
    "on_epoch",
    "on_step",
    "optim",
    "schedules",
]

_LATER = {
    ".callbacks.activations": (
        "ActivationComparison SaveActivations compare_activations load_activations"
    ),
    ".callbacks.gradient_watch": "GradientWatch",
    ".callbacks.reproduce": "Reproduce",
    "..recipes.cross_validation": "CrossValidation cross_validate",
    "..recipes.learning_rate_finder": "LearningRates find_learning_rate",
    "..recipes.unrolled_trainer": "UnrolledTrainer",
    "..recording": "Run RunFolder Runs RunsComparison Store",
}
"""What is imported when first asked for; rooms above stand here, too, as users know them."""

__getattr__, __dir__ = later(__name__, _LATER, __all__)

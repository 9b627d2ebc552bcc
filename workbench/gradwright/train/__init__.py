"""Training: optimizers, schedules, metrics, data, and the trainer that brings them together."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..evaluation import metrics
from ..evaluation.metrics import Metric
from ..ops import missing
from ..shared import first_use
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
    name: home
    for home, names in {
        ".callbacks.activations": (
            "ActivationComparison SaveActivations compare_activations load_activations"
        ),
        ".callbacks.gradient_watch": "GradientWatch",
        ".callbacks.reproduce": "Reproduce",
        "..recipes.cross_validation": "CrossValidation cross_validate",
        "..recipes.learning_rate_finder": "LearningRates find_learning_rate",
        "..recipes.unrolled_trainer": "UnrolledTrainer",
        "..recording": "Run RunFolder Runs RunsComparison Store",
    }.items()
    for name in names.split()
}
"""What is imported when first asked for; rooms above stand here, too, as users know them."""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise missing(__name__, name, __all__)
    with first_use:
        found = globals()[name] = getattr(import_module(_LATER[name], __name__), name)
    return found

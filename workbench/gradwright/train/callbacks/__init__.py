"""Callbacks: hooks into training, and those that come with gradwright."""

from .bar import Progress
from .base import Callback, Change, Recorder
from .limits import Divergence, MaxSteps, ScoreReached, TimeLimit
from .plain import on_epoch, on_step
from .plateau import ReduceLROnPlateau
from .profiler import Profiler, compare_profiles
from .ratio import UpdateRatio
from .score import Score
from .stopping import EarlyStopping, Stopping
from .tensorboard import TensorBoard
from .weights_and_biases import WeightsAndBiases

__all__ = [
    "Callback",
    "Change",
    "Divergence",
    "EarlyStopping",
    "MaxSteps",
    "Profiler",
    "Progress",
    "Recorder",
    "ReduceLROnPlateau",
    "Score",
    "ScoreReached",
    "Stopping",
    "TensorBoard",
    "TimeLimit",
    "UpdateRatio",
    "WeightsAndBiases",
    "compare_profiles",
    "on_epoch",
    "on_step",
]

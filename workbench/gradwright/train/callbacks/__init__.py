"""Callbacks: hooks into training, and those that come with gradwright."""

from .bar import Progress
from .base import Callback, Change, Recorder
from .limits import Divergence, MaxSteps, ScoreReached, TimeLimit
from .plain import on_epoch, on_step
from .profiler import Profiler, compare_profiles
from .ratio import UpdateRatio
from .score import Score
from .stopping import EarlyStopping, Stopping

__all__ = [
    "Callback",
    "Change",
    "Divergence",
    "EarlyStopping",
    "MaxSteps",
    "Profiler",
    "Progress",
    "Recorder",
    "Score",
    "ScoreReached",
    "Stopping",
    "TimeLimit",
    "UpdateRatio",
    "compare_profiles",
    "on_epoch",
    "on_step",
]

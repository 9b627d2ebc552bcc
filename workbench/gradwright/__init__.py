"""gradwright: declare an autodiff graph, see it, step through it, check it, train it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import (
    audio,
    bitwise,
    cnn,
    image,
    init,
    linalg,
    loss,
    math,
    nn,
    ops,
    quant,
    random,
    rnn,
    sequence,
    signal,
    strings,
    training,
)
from .containers import OptionalSpec, SequenceSpec
from .control import function
from .define import define_op
from .gradient import gradients
from .graph import Graph, Node, Tensor, Values, clone
from .listeners import Listener
from .lowering import lowering
from .op import (
    ZERO,
    ErrorSample,
    NotDifferentiable,
    OnnxRule,
    Op,
    Sample,
    WeightSite,
    attr,
    register,
)
from .ops import loaded, surface
from .session import Session
from .shared import first_use
from .spec import Dim, TensorSpec

if TYPE_CHECKING:
    from . import data, models, testing, train
    from .debug import Stepper
    from .debug.gradient_check import gradient_check
    from .io import inspect, load, load_state, onnx, save
    from .ops.signatures.base import *  # noqa: F403
    from .ops.signatures.linalg import *  # noqa: F403
    from .ops.signatures.math import *  # noqa: F403
    from .tracing import compile, cond, loop, map_fn, scan, trace, while_loop
    from .train import (
        EMA,
        SWA,
        Accumulation,
        Callback,
        EarlyStopping,
        GradientAccumulator,
        Group,
        History,
        ParameterStatistics,
        Trainer,
        TrainingConfig,
        UnrolledTrainer,
        distillation,
        evaluation,
        metrics,
        optim,
        schedules,
        transfer,
    )
    from .train.checkpoints import Checkpoints, resume
    from .train.depth import CheckpointedStack, DeepTrainer, backward_from
    from .train.evaluation import evaluate
    from .train.precision import FP8, LossScale, LossScaler, Precision
    from .train.predict import predict
    from .train.runs import Run, runs

__version__ = "0.1.0"

__all__ = [
    "EMA",
    "FP8",
    "SWA",
    "ZERO",
    "Accumulation",
    "Callback",
    "CheckpointedStack",
    "Checkpoints",
    "DeepTrainer",
    "Dim",
    "EarlyStopping",
    "ErrorSample",
    "GradientAccumulator",
    "Graph",
    "Group",
    "History",
    "Listener",
    "LossScale",
    "LossScaler",
    "Node",
    "NotDifferentiable",
    "OnnxRule",
    "Op",
    "OptionalSpec",
    "ParameterStatistics",
    "Precision",
    "Run",
    "Sample",
    "SequenceSpec",
    "Session",
    "Stepper",
    "Tensor",
    "TensorSpec",
    "Trainer",
    "TrainingConfig",
    "UnrolledTrainer",
    "Values",
    "WeightSite",
    "attr",
    "audio",
    "backward_from",
    "bitwise",
    "clone",
    "cnn",
    "compile",
    "cond",
    "data",
    "define_op",
    "distillation",
    "evaluate",
    "evaluation",
    "function",
    "gradient_check",
    "gradients",
    "image",
    "init",
    "inspect",
    "linalg",
    "load",
    "load_state",
    "loop",
    "loss",
    "lowering",
    "map_fn",
    "math",
    "metrics",
    "models",
    "nn",
    "onnx",
    "ops",
    "optim",
    "predict",
    "quant",
    "random",
    "register",
    "resume",
    "rnn",
    "runs",
    "save",
    "scan",
    "schedules",
    "sequence",
    "signal",
    "strings",
    "testing",
    "trace",
    "train",
    "training",
    "transfer",
    "while_loop",
]


# exp, concat, matmul ...: the ops of the namespaces that numpy has at its top level, too.
_functions = loaded("base", "math", "linalg")
globals().update(_functions)
__all__ += list(_functions)
_member, __dir__ = surface(__name__, "base", "math", "linalg", also=__all__)

_LATER = {
    name: stage
    for stage, names in {
        "debug": ("Stepper", "gradient_check"),
        "io": ("inspect", "load", "load_state", "onnx", "save"),
        "tracing": ("compile", "cond", "loop", "map_fn", "scan", "trace", "while_loop"),
        "train": (
            *("EMA", "SWA", "Accumulation", "Callback", "EarlyStopping", "GradientAccumulator"),
            *("Group", "History", "ParameterStatistics", "Trainer", "TrainingConfig"),
            "UnrolledTrainer",
        ),
        "train.checkpoints": ("Checkpoints", "resume"),
        "train.depth": ("CheckpointedStack", "DeepTrainer", "backward_from"),
        "train.evaluation": ("evaluate",),
        "train.precision": ("FP8", "LossScale", "LossScaler", "Precision"),
        "train.predict": ("predict",),
        "train.runs": ("Run", "runs"),
    }.items()
    for name in names
}
"""What is imported when first asked for: together it takes longer than all the rest."""
_MODULES = {
    **{stage: stage for stage in ("data", "debug", "io", "models", "testing", "tracing", "train")},
    **{
        part: f"train.{part}"
        for part in ("distillation", "evaluation", "metrics", "optim", "schedules", "transfer")
    },
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        with first_use:
            found = import_module(f".{_MODULES[name]}", __name__)
    elif name in _LATER:
        with first_use:
            found = getattr(import_module(f".{_LATER[name]}", __name__), name)
    else:
        return _member(name)
    globals()[name] = found
    return found

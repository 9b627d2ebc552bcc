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
from .spec import Dim, TensorSpec
from .train import (
    Callback,
    EarlyStopping,
    History,
    ParameterStatistics,
    Trainer,
    metrics,
    optim,
    schedules,
)

if TYPE_CHECKING:
    from . import testing
    from .debug import Stepper
    from .debug.gradient_check import gradient_check
    from .io import inspect, load, load_state, onnx, save
    from .ops.signatures.base import *  # noqa: F403
    from .ops.signatures.linalg import *  # noqa: F403
    from .ops.signatures.math import *  # noqa: F403
    from .tracing import compile, cond, loop, map_fn, scan, trace, while_loop

__version__ = "0.1.0"

__all__ = [
    "ZERO",
    "Callback",
    "Dim",
    "EarlyStopping",
    "ErrorSample",
    "Graph",
    "History",
    "Listener",
    "Node",
    "NotDifferentiable",
    "OnnxRule",
    "Op",
    "OptionalSpec",
    "ParameterStatistics",
    "Sample",
    "SequenceSpec",
    "Session",
    "Stepper",
    "Tensor",
    "TensorSpec",
    "Trainer",
    "Values",
    "WeightSite",
    "attr",
    "audio",
    "bitwise",
    "clone",
    "cnn",
    "compile",
    "cond",
    "define_op",
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
    "nn",
    "onnx",
    "ops",
    "optim",
    "quant",
    "random",
    "register",
    "rnn",
    "save",
    "scan",
    "schedules",
    "sequence",
    "signal",
    "strings",
    "testing",
    "trace",
    "training",
    "while_loop",
]


# exp, concat, matmul ...: the ops of the namespaces that numpy has at its top level, too.
_functions = loaded("base", "math", "linalg")
globals().update(_functions)
__all__ += list(_functions)
_member, __dir__ = surface(__name__, "base", "math", "linalg", also=__all__)

_tracing = ("compile", "cond", "loop", "map_fn", "scan", "trace", "while_loop")
_LATER = {
    **dict.fromkeys(("Stepper", "gradient_check"), "debug"),
    **dict.fromkeys(("inspect", "load", "load_state", "onnx", "save"), "io"),
    **dict.fromkeys(_tracing, "tracing"),
}
"""What is imported when first asked for: together it takes as long as all the rest."""


def __getattr__(name: str) -> Any:
    if name in ("debug", "io", "testing", "tracing"):
        return import_module(f".{name}", __name__)
    if name not in _LATER:
        return _member(name)
    found = globals()[name] = getattr(import_module(f".{_LATER[name]}", __name__), name)
    return found

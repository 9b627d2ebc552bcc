"""gradwright: declare an autodiff graph, see it, step through it, check it, train it."""

from .control import cond
from .debug import Stepper, gradient_check
from .gradient import gradients
from .graph import Graph, Node, Tensor, Values, clone
from .io import inspect, load, load_state, save
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
from .ops import namespace
from .session import Session
from .spec import Dim, TensorSpec

__version__ = "0.1.0"

__all__ = [
    "ZERO",
    "Dim",
    "ErrorSample",
    "Graph",
    "Listener",
    "Node",
    "NotDifferentiable",
    "OnnxRule",
    "Op",
    "Sample",
    "Session",
    "Stepper",
    "Tensor",
    "TensorSpec",
    "Values",
    "WeightSite",
    "attr",
    "clone",
    "cond",
    "gradient_check",
    "gradients",
    "inspect",
    "load",
    "load_state",
    "lowering",
    "register",
    "save",
]

# exp, concat, matmul ...: the ops of the namespaces that numpy has at its top level, too.
_functions = namespace("base", "math", "linalg")
globals().update(_functions)
__all__ += list(_functions)

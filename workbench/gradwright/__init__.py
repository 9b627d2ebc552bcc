"""gradwright: declare an autodiff graph, see it, step through it, check it, train it."""

from .control import cond
from .gradient import gradients
from .graph import Graph, Node, Tensor, Values, clone
from .listeners import Listener
from .lowering import lowering
from .op import (
    ErrorSample,
    NotDifferentiable,
    OnnxRule,
    Op,
    Sample,
    WeightSite,
    ZERO,
    attr,
    register,
)
from .session import Session
from .spec import Dim, TensorSpec

__version__ = "0.1.0"

"""gradwright_widgets: the graph, its training and its parameters, live in a notebook."""

from .gradcheck_panel import GradCheckPanel
from .graph_view import GraphView
from .live_plot import LivePlot
from .op_reference import OpReference
from .parameter_table import ParameterTable
from .run_comparison import RunComparison
from .stepper_panel import StepperPanel
from .tensor_view import TensorView
from .trainer_panel import TrainerPanel
from .workbench import Workbench

__all__ = [
    "GradCheckPanel",
    "GraphView",
    "LivePlot",
    "OpReference",
    "ParameterTable",
    "RunComparison",
    "StepperPanel",
    "TensorView",
    "TrainerPanel",
    "Workbench",
]

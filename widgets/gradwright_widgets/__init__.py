"""gradwright_widgets: the graph, its training and its parameters, live in a notebook."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .bridge import hook

if TYPE_CHECKING:
    from .panels.adapters.panel import AdapterPanel as AdapterPanel
    from .panels.check.panel import GradCheckPanel as GradCheckPanel
    from .panels.compare.panel import RuntimeComparison as RuntimeComparison
    from .panels.graph.panel import GraphView as GraphView
    from .panels.kernels.panel import KernelView as KernelView
    from .panels.ops.panel import OpReference as OpReference
    from .panels.parameters.panel import ParameterTable as ParameterTable
    from .panels.plot.panel import LivePlot as LivePlot
    from .panels.rollouts.pairs import PreferencePanel as PreferencePanel
    from .panels.rollouts.panel import RolloutPanel as RolloutPanel
    from .panels.runs.panel import RunComparison as RunComparison
    from .panels.stepper.panel import StepperPanel as StepperPanel
    from .panels.tensor.panel import TensorView as TensorView
    from .panels.text.panel import TextPanel as TextPanel
    from .panels.training.panel import TrainerPanel as TrainerPanel
    from .workbench import Workbench as Workbench

_ROOMS = {
    "AdapterPanel": "panels.adapters.panel",
    "GradCheckPanel": "panels.check.panel",
    "GraphView": "panels.graph.panel",
    "KernelView": "panels.kernels.panel",
    "LivePlot": "panels.plot.panel",
    "OpReference": "panels.ops.panel",
    "ParameterTable": "panels.parameters.panel",
    "PreferencePanel": "panels.rollouts.pairs",
    "RolloutPanel": "panels.rollouts.panel",
    "RunComparison": "panels.runs.panel",
    "RuntimeComparison": "panels.compare.panel",
    "StepperPanel": "panels.stepper.panel",
    "TensorView": "panels.tensor.panel",
    "TextPanel": "panels.text.panel",
    "TrainerPanel": "panels.training.panel",
    "Workbench": "workbench",
}
"""Each widget and its module, which is loaded when the widget is first asked for."""

__all__ = list(_ROOMS)


def __getattr__(name: str) -> Any:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS})


hook.install()  # where a kernel runs, its side panel hears of what is alive

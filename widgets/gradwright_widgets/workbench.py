"""Everything about one graph in one view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import traitlets

from gradwright import Graph

from .host.host import Host
from .host.panel import Panel
from .host.part import Part
from .host.wire import Message
from .panels.adapters.panel import AdaptersPanel
from .panels.check.panel import CheckPanel
from .panels.check.watch import WatchPanel
from .panels.compare.panel import ComparePanel
from .panels.graph.panel import GraphView
from .panels.kernels.panel import KernelsPanel, kernels_module
from .panels.parameters.panel import ParameterPanel
from .panels.plot.panel import PlotPanel
from .panels.rollouts.panel import RolloutsPanel, module_message
from .panels.runs.panel import RunsPanel
from .panels.stepper.panel import StepPanel
from .panels.tensor.panel import TensorPanel
from .panels.training.panel import TrainerPanel

TABS: dict[str, tuple[type[Panel], ...]] = {
    "train": TrainerPanel.panels,
    "rollouts": (RolloutsPanel,),
    "parameters": (ParameterPanel,),
    "adapters": (AdaptersPanel,),
    "step": (StepPanel,),
    "tensor": (TensorPanel,),
    "check": (CheckPanel, WatchPanel),
    "onnx": (ComparePanel,),
    "kernels": (KernelsPanel,),
    "runs": (RunsPanel,),
}
"""The panels behind each tab."""
_TAB_OF: dict[type[Part], str] = {panel: tab for tab, panels in TABS.items() for panel in panels}
EXAMPLES = 8
"""Rows of the training data to step through and check; a check takes time for each."""


class Workbench(Host):
    """The graph on the left; training, parameters, stepper, tensors, check and runs on the right.

    All panels show the same objects: a node that is selected in the drawing is selected in the
    table, a parameter frozen in the table is frozen in the graph and in the drawing, an op that the
    check blames is lit. Whatever a button does, code can do, and the panels follow:
    ``bench.start()``, ``bench.pause()``, ``bench.freeze("hidden/*")``, ``bench.stepper.step()``,
    ``bench.show_tensor("hidden/w")``, ``bench.check()``.

    Args:
        graph: the graph.
        trainer: who trains it; without one the graph can be seen, stepped through and checked.
        data: what the start button trains on, as for ``Trainer.fit``.
        validation: data to evaluate after each epoch.
        loss: what is stepped to and checked; default the trainer's loss.
        feeds: the example that is stepped through and checked; default the first 8 rows of
            ``data``, else what the trainer's last step was fed with.
        options: traits, such as ``epochs``, ``batch_size``, ``height``, ``expanded`` and ``tab``,
            one of "train", "rollouts", "parameters", "adapters", "step", "tensor", "check", "onnx",
            "kernels" and "runs".

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph("line")
    >>> x, t = g.placeholder("x", (None, 2)), g.placeholder("t", (None, 1))
    >>> w = g.variable("w", (2, 1))
    >>> loss = gw.loss.mean_squared_error(t, x @ w, name="loss")
    >>> trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1))
    >>> data = {"x": np.eye(2), "t": [[1.0], [2.0]]}
    >>> bench = Workbench(g, trainer, data=data, epochs=3, batch_size=2)
    >>> bench.start(); bench.wait(); bench.state, trainer.steps_done
    ('finished', 3)
    >>> bench.freeze("w"); bench.frozen, w.trainable
    (['w'], False)
    >>> bench.stepper.run_to("loss")
    <Stop: target at 'loss'>
    """

    module = "workbench"
    panels = (*GraphView.panels, *(panel for panels in TABS.values() for panel in panels))
    tab = traitlets.Enum(tuple(TABS), "train", help="The panel in front, on the right.").tag(
        sync=True
    )
    height = traitlets.Int(580, min=320, max=4000, help="Height in pixels.").tag(sync=True)

    def __init__(
        self,
        graph: Graph,
        trainer: Any = None,
        *,
        data: Any = None,
        feeds: Any = None,
        **options: Any,
    ) -> None:
        if feeds is None and isinstance(data, Mapping):
            feeds = {name: _first_rows(rows) for name, rows in data.items()}
        if trainer is None:
            options.setdefault("tab", "step")
        super().__init__(graph, trainer, data=data, feeds=feeds, **options)
        self.desk.on("tensor", self._bring_tensor)
        self.desk.on("steps", self._bring_stepper)

    def show_tensor(self, value: Any, index: str = "", *, name: str = "") -> None:
        """Show a tensor of the graph, or any array, in front."""
        self.part(TensorPanel).show_tensor(value, index, name=name)
        self.tab = "tensor"

    def _bring_tensor(self, value: Any, name: str) -> None:
        self.tab = "tensor"

    def _bring_stepper(self) -> None:
        self.tab = "step"

    def shows(self, part: Part) -> bool:
        """Tell whether a panel is in front, or the drawing."""
        return _TAB_OF.get(type(part), self.tab) == self.tab

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return the messages that bring a new view up to date; whole, code that it asks for."""
        found = super().new_view_messages(whole=whole)
        if whole and self.rollout_rewards:
            found.append(module_message())
        if whole and self.kernel_launches():
            found.append(kernels_module())
        return found

    @traitlets.observe("tab")
    def _on_tab(self, _: Any) -> None:
        for panel in TABS[self.tab]:
            self.part(panel)  # what it has put off is done

    def to_table(self) -> str:
        """Return the panels of the graph as HTML tables, those with nothing to show left out."""
        panels = (
            *(*GraphView.panels, ParameterPanel, AdaptersPanel, KernelsPanel),
            *(RolloutsPanel, PlotPanel, StepPanel, CheckPanel),
        )
        return "".join(self.part(panel).to_table() for panel in (*panels, ComparePanel))


def _first_rows(rows: Any) -> Any:
    array = np.asarray(rows)
    return array[:EXAMPLES] if array.ndim else array

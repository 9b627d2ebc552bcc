"""Drawing, curves and parameters of one graph in one view."""

from __future__ import annotations

from typing import Any

import traitlets

from gradwright import Graph

from .graph_view import GraphPanel
from .live_plot import PlotPanel
from .parameter_table import ParameterPanel

TABS = ("train", "parameters")


class Workbench(GraphPanel, ParameterPanel, PlotPanel):
    """The graph on the left, live curves and parameters on the right.

    All panels show the same objects: a node that is selected in the drawing is selected in the
    table, a parameter frozen in the table is frozen in the graph and in the drawing. With a
    ``trainer`` the curves follow its ``fit``, started in a cell, a script or another thread.

    >>> import gradwright as gw
    >>> g = gw.Graph("line")
    >>> x, t = g.placeholder("x", (None, 2)), g.placeholder("t", (None, 1))
    >>> w = g.variable("w", (2, 1))
    >>> loss = gw.loss.mean_squared_error(t, x @ w, name="loss")
    >>> bench = Workbench(g, gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1)))
    >>> bench.freeze("w")
    >>> bench.frozen, w.trainable
    (['w'], False)
    """

    module = "workbench"

    def __init__(self, graph: Graph, trainer: Any = None, **options: Any) -> None:
        super().__init__(graph, trainer, **options)
        if trainer is not None:
            self.show(trainer.history)

    def to_table(self) -> str:
        """Return nodes, parameters and the last values of the curves as HTML tables."""
        panels = (GraphPanel, ParameterPanel, PlotPanel)
        return "".join(panel.to_table(self) for panel in panels)

    tab = traitlets.Enum(TABS, TABS[0], help="The panel in front, on the right.").tag(sync=True)
    height = traitlets.Int(560, min=320, max=4000, help="Height in pixels.").tag(sync=True)

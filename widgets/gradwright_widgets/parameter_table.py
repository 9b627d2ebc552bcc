"""The parameters of a graph, with a box that freezes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets

from ._base import handles
from ._bound import GraphWidget
from ._still import parameter_html
from .graph_spec import frozen, parameters


class ParameterPanel(GraphWidget):
    """Traits and messages of the table; a widget that has them can show the parameter panel."""

    parameters = traitlets.List(
        traitlets.Dict(), help="Name, shape, dtype and size of each parameter."
    ).tag(sync=True)

    def _initial(self) -> dict[str, Any]:
        return {**super()._initial(), "parameters": parameters(self._graph)}

    def freeze(self, *patterns: str) -> None:
        """Freeze the parameters that fit, between two steps if training runs."""
        self._mark(patterns, freeze=True)

    def unfreeze(self, *patterns: str) -> None:
        """Let the parameters that fit be trained again, between two steps if training runs."""
        self._mark(patterns, freeze=False)

    @handles("parameters.freeze")
    def _on_freeze(self, content: dict[str, Any]) -> None:
        # A tensor and not its name, which may hold the wildcards of a pattern.
        self._mark([self._graph[str(content.get("name"))]], freeze=bool(content.get("frozen")))

    def _mark(self, chosen: Sequence[Any], *, freeze: bool) -> None:
        change = self._graph.freeze if freeze else self._graph.unfreeze

        def command() -> None:
            self.guarded(lambda: change(*chosen))
            self.frozen = frozen(self._graph)
            self.send({"kind": "parameters.done"})

        self.commands.submit(command)

    def refresh(self) -> None:
        """Show the parameters as they are now."""
        super().refresh()
        now = parameters(self._graph)
        if now != self.parameters:
            self.parameters = now

    def to_table(self) -> str:
        """Return the parameters as an HTML table."""
        return parameter_html(self._graph)


class ParameterTable(ParameterPanel):
    """A table of the parameters of a graph: shape, dtype, size, and a box that freezes each.

    Freezing changes the graph itself, so every trainer of it obeys from its next step on. Pass the
    ``trainer`` that may be running meanwhile, so that the box waits for a step boundary.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2, 3))
    >>> table = ParameterTable(g)
    >>> table.freeze("w")
    >>> table.frozen, w.trainable
    (['w'], False)
    """

    module = "parameter_table"

"""The graph as a drawing whose scopes open and close."""

from __future__ import annotations

from typing import Any

import traitlets

from gradwright import Graph
from gradwright.errors import GraphError

from ._bound import GraphWidget, scopes
from ._still import draw_svg, node_table
from .graph_spec import drawn_nodes, graph_spec


class GraphPanel(GraphWidget):
    """Traits of the drawing; a widget that has them can show the graph panel."""

    graph_spec = traitlets.Dict(help="Nodes, edges and specs as columns; see graph_spec.py.").tag(
        sync=True
    )
    expanded = traitlets.List(
        traitlets.Unicode(),
        default_value=None,
        allow_none=True,
        help="Scopes that are open; None opens as many as stay readable.",
    ).tag(sync=True)
    gradients = False
    """Whether the derived layer, such as gradients, is drawn, too."""

    def _initial(self) -> dict[str, Any]:
        self._shown = self._state()
        return {**super()._initial(), "graph_spec": self._spec()}

    def _spec(self) -> dict[str, Any]:
        return graph_spec(self._graph, gradients=self.gradients)

    def _state(self) -> Any:
        nodes = drawn_nodes(self._graph, gradients=self.gradients)
        return self._graph.revision, len(nodes), nodes[-1].serial if nodes else -1

    @traitlets.validate("expanded")
    def _check_expanded(self, proposal: Any) -> list[str] | None:
        if proposal.value is None:
            return None
        known = scopes(self._graph)
        for path in proposal.value:
            if path not in known:
                raise GraphError(
                    f"graph {self._graph.name!r} has no scope {path!r}",
                    hint=f"there are {', '.join(sorted(known)) or 'none'}",
                )
        return list(proposal.value)

    def refresh(self) -> None:
        """Show the graph as it is now: new nodes, and what has been frozen."""
        super().refresh()
        state = self._state()
        if state == self._shown:
            return
        self._shown = state
        with self.hold_sync():
            self.graph_spec = self._spec()
            if self.selected and self._graph.get(self.selected) is None:
                self.selected = ""
            if self.expanded is not None:
                known = scopes(self._graph)
                self.expanded = [path for path in self.expanded if path in known]

    def to_svg(self) -> str:
        """Return a still drawing; a graph of more than 40 nodes is drawn by its outer scopes."""
        return draw_svg(self._graph)

    def to_table(self) -> str:
        """Return the nodes, or the outer scopes of a large graph, as an HTML table."""
        return node_table(self._graph)


class GraphView(GraphPanel):
    """A drawing of a graph: scopes open and close, a click selects, everything zooms.

    ``gradients=True`` also draws the derived layer, such as gradients.

    >>> import gradwright as gw
    >>> g = gw.Graph("line")
    >>> with g.scope("hidden"):
    ...     y = g.placeholder("x", ("B", 2)) @ g.variable("w", (2, 3))
    >>> view = GraphView(g)
    >>> view.selected = "hidden/matmul"
    >>> view.expanded = ["hidden"]
    >>> view.selected = "hiden/"
    Traceback (most recent call last):
    ...
    gradwright.errors.GraphError: nothing is called 'hiden/' in graph 'line'
      try:  a node's name, or a scope's with a slash behind it
    """

    module = "graph_view"

    def __init__(self, graph: Graph, *, gradients: bool = False, **options: Any) -> None:
        self.gradients = gradients
        super().__init__(graph, **options)

"""The graph as a drawing whose scopes open and close."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import traitlets

from gradwright import Graph, Node, Tensor
from gradwright.debug.address import Address
from gradwright.errors import GradwrightError, GraphError
from gradwright.files.whole import replacing

from ...drawing.buffers import float64
from ...drawing.grouping import scope_paths
from ...drawing.nodes import drawn_nodes
from ...drawing.spec import graph_spec
from ...host.adapters import switch
from ...host.desk import Feeds, GraphDesk
from ...host.host import Host
from ...host.insides import is_inside, node_at, parts_of
from ...host.panel import Panel
from ...host.part import checks, handles, shared, watches
from ...still.tables import node_table
from .colors import ColorPanel
from .dot import graph_dot, graph_mermaid, graph_pdf
from .insides import inside_spec, opened
from .inspector import InspectorPanel
from .measure import MEASURES
from .sketch import draw_svg
from .twins import ensure_gradients
from .why import WhyPanel

PATHS = ("none", "upstream", "downstream", "both")
COLOR_BY = (
    *("category", "dtype", "size", "bytes", "parameters", "flops"),
    *MEASURES,
    "overlay",
)
SCALES = ("linear", "log", "diverging")


class GraphPanel(Panel):
    """The drawing."""

    name = "graph"
    desk: GraphDesk

    graph_spec = shared(traitlets.Dict(help="Nodes, edges and specs as columns; see spec.py."))
    expanded = shared(
        traitlets.List(
            traitlets.Unicode(),
            default_value=None,
            allow_none=True,
            help="Scopes that are open, and nodes, as `norm::`; None opens as many scopes as stay"
            " readable.",
        )
    )
    insides = shared(
        traitlets.Dict(help="What the nodes that are opened enclose, by address; see insides.py.")
    )
    paths = shared(
        traitlets.Enum(
            PATHS,
            PATHS[0],
            help="What is highlighted around the selection: what leads to it or from it.",
        )
    )
    path_to = shared(
        traitlets.Unicode(
            "", help="The other end of a path from what is selected, which is highlighted instead."
        )
    )
    color_by = shared(
        traitlets.Enum(
            COLOR_BY,
            COLOR_BY[0],
            help="What colours mean: facts of nodes; from `time` on what is measured when it is"
            " chosen; or `overlay`, what `set_overlay` has given.",
        )
    )
    overlay = shared(
        traitlets.Dict(
            help="Title, unit and scale, and values as the buffer of an f64[nodes] array."
        )
    )
    follow = shared(
        traitlets.Bool(
            False, help="Whether scopes open around the node that runs next; it is in sight anyway."
        )
    )
    minimap = shared(traitlets.Bool(True, help="Whether a map is shown when not all is in sight."))
    gradients = shared(
        traitlets.Bool(
            False, help="Whether gradients are drawn beside their nodes, and updates beside those."
        )
    )

    def __init__(self, desk: GraphDesk) -> None:
        super().__init__(desk)
        self._given: dict[str, float] = {}
        self._shown: Any = None
        self._insides: dict[str, Any] = {}
        desk.on("overlay", self._on_overlay)

    def initial(self) -> dict[str, Any]:
        """Return the graph as it is."""
        self._shown = self._state()
        return {"graph_spec": graph_spec(self.desk.graph)}

    def begin(self) -> None:
        """Send what nodes enclose that are open from the first on."""
        self._on_expanded()

    def _spec(self) -> dict[str, Any]:
        return graph_spec(self.desk.graph, gradients=self.gradients)

    def _state(self) -> Any:
        nodes = drawn_nodes(self.desk.graph, gradients=self.gradients)
        return self.desk.graph.revision, len(nodes), nodes[-1].serial if nodes else -1

    @watches("gradients")
    def _on_gradients(self) -> None:
        self.desk.commands.submit(lambda: self.widget.guarded(self._show_gradients))

    def _show_gradients(self) -> None:
        try:
            if self.gradients:
                ensure_gradients(self.desk)
        finally:  # what there is, updates for instance, is shown anyway
            self.desk.refresh()

    @checks("expanded")
    def _check_expanded(self, paths: list[str] | None) -> list[str] | None:
        if paths is None:
            return None
        known = scope_paths(self.desk.graph)
        for path in paths:
            if path not in known and not is_inside(self.desk.graph, path):
                raise GraphError(
                    f"graph {self.desk.graph.name!r} has no scope {path!r}",
                    hint=f"{_close(path, known)}; a node that holds others opens as 'name::'",
                )
        graph, shown = self.desk.graph, self._insides
        self._insides = {**shown, **{at: inside_spec(graph, at) for at in opened(paths, shown)}}
        return list(paths)

    @watches("expanded")
    def _on_expanded(self) -> None:
        """Send what nodes enclose that are opened for the first time; branches open with them."""
        new = opened(self.expanded, self.insides)
        if not new:
            return
        graph = self.desk.graph
        with self.widget.hold_sync():
            self.insides = self._insides
            branches = [
                f"{at}:{part}:" for at in new for part in parts_of(node_at(graph, at)) if part
            ]
            self.expanded = sorted({*(self.expanded or ()), *branches})

    @checks("path_to")
    def _check_path_to(self, name: str) -> str:
        return self.desk.check_name(name)

    @handles("adapter")
    def _on_adapter(self, content: dict[str, Any]) -> None:
        switch(self.desk, str(content.get("name")), bool(content.get("on")), note=True)

    def set_overlay(
        self,
        title: str,
        values: Mapping[Any, float],
        *,
        scale: str = "linear",
        unit: str = "",
    ) -> None:
        """Colour the drawing by a number per node, with a legend; a scope shows its largest.

        ``values`` may name nodes that are not drawn, such as gradients, and those inside of others,
        by address, which stand for the others, too; NaN is no value. The ``diverging`` scale is for
        signed numbers: it has zero in its middle, and scopes show what is farthest from it. ``log``
        leaves numbers that are not positive without colour.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> w = g.variable("w", (2, 3))
        >>> view = GraphView(g)
        >>> view.set_overlay("gradient norm", {w: 0.25}, scale="log")
        >>> view.color_by, view.overlay["title"]
        ('overlay', 'gradient norm')

        Raises:
            GraphError: the graph has no such node, or there is no such scale.
        """
        if scale not in SCALES:
            raise GraphError(f"no scale is called {scale!r}", hint=f"one of {', '.join(SCALES)}")
        self._given = {self._name_of(key): float(value) for key, value in values.items()}
        with self.widget.hold_sync():
            self.overlay = {
                "title": str(title),
                "unit": str(unit),
                "scale": scale,
                **self._values(),
            }
            self.color_by = "overlay"

    def clear_overlay(self) -> None:
        """Colour the drawing by the kind of op again."""
        self._given = {}
        with self.widget.hold_sync():
            self.color_by = "category"
            self.overlay = {}

    def _on_overlay(
        self, title: str, values: Mapping[Any, float] | None, scale: str = "linear"
    ) -> None:
        if values is not None:
            self.set_overlay(title, values, scale=scale)
        elif self.overlay.get("title") == title:  # and not what somebody else has put there
            self.clear_overlay()

    def _name_of(self, key: Any) -> str:
        """Return the name of a node that is given by itself, by its output or by name."""
        if not isinstance(key, str):
            node: Node = getattr(key, "node", key)
            return node.name
        if ":" in key:
            node_at(self.desk.graph, key)
            return str(Address.parse(key).anywhere)
        found = self.desk.graph.get(key)
        if found is None:
            raise GraphError(
                f"graph {self.desk.graph.name!r} has no node {key!r} to colour",
                hint="names as in [node.name for node in graph.nodes]",
            )
        return found.node.name

    def _values(self) -> dict[str, Any]:
        """Return a number per node, and those inside of nodes, which the nodes show, too."""
        given = dict(self._given)
        inside = {name: value for name, value in given.items() if ":" in name}
        for address, value in inside.items():
            outer = Address.parse(address).outer
            while outer is not None and str(outer) not in self._given:
                given[str(outer)] = max(value, given.get(str(outer), value), key=abs)
                outer = outer.outer
        nodes = drawn_nodes(self.desk.graph, gradients=self.gradients)
        return {
            "values": float64([given.get(node.name, np.nan) for node in nodes]),
            "inside": {name: value for name, value in given.items() if ":" in name},
        }

    def refresh(self) -> None:
        """Show the graph as it is now: new nodes, and what has been frozen."""
        if self.gradients:  # an edit of the graph has dropped them
            with contextlib.suppress(GradwrightError):
                ensure_gradients(self.desk)
        state = self._state()
        if state == self._shown:
            return
        self._shown = state
        with self.widget.hold_sync():
            self.graph_spec = self._spec()
            if self.overlay:
                self.overlay = {**self.overlay, **self._values()}
            known = scope_paths(self.desk.graph)
            if self._is_gone(self.desk.selected):
                self.desk.selected = ""
            if self._is_gone(self.path_to):
                self.path_to = ""
            self.insides, self._insides = {}, {}
            if self.expanded is not None:
                graph = self.desk.graph
                self.expanded = [p for p in self.expanded if p in known or is_inside(graph, p)]
                self._on_expanded()

    def _is_gone(self, name: str) -> bool:
        try:
            self.desk.check_name(name)
        except GraphError:
            return True
        return False

    def to_dot(self) -> str:
        """Return the whole graph in the language of Graphviz, with a cluster for every scope.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", ())
        >>> "-> n1" in GraphView(g).to_dot(), "-> n1" in GraphView((x + x).graph).to_dot()
        (False, True)
        """
        return graph_dot(self.desk.graph, gradients=self.gradients)

    def to_mermaid(self) -> str:
        """Return the whole graph as a Mermaid flowchart, with a subgraph for every scope.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> print(GraphView(gw.exp(g.placeholder("x", ())).graph).to_mermaid())
        flowchart TB
          n0(["x<br/>f32[]"])
          n1["exp"]
          n0 -->|"f32[]"| n1
        <BLANKLINE>
        """
        return graph_mermaid(self.desk.graph, gradients=self.gradients)

    def to_pdf(self, path: str | Path | None = None) -> bytes:
        """Return the whole graph as a page of PDF, laid out by Graphviz; also write it to path.

        Raises:
            GradwrightError: Graphviz is not installed; the drawing's menu saves PDFs without it.
        """
        page = graph_pdf(self.to_dot())
        if path is not None:
            with replacing(path) as file:
                file.write(page)
        return page

    def to_svg(self) -> str:
        """Return a still drawing; a graph of more than 40 nodes is drawn by its outer scopes."""
        return draw_svg(self.desk.graph, opened(self.expanded))

    def to_table(self) -> str:
        """Return the nodes, or the outer scopes of a large graph, as an HTML table."""
        return node_table(self.desk.graph)


def _close(path: str, known: Iterable[str]) -> str:
    """Return the scopes closest to `path`, else the first, and how many there are; no gradients."""
    own = sorted(scope for scope in known if not scope.startswith(("∂", "grad/")))
    if close := difflib.get_close_matches(path, own, 3):
        return f"closest of {len(own)} scopes: {', '.join(map(repr, close))}"
    more = f" and {len(own) - 12} more" if len(own) > 12 else ""
    return "there are " + (", ".join(own[:12]) + more or "none")


class GraphView(Host):
    """A drawing of a graph: scopes open and close, a click selects, everything zooms.

    Calls, composites, loops and branches open, too, with a double click or as ``name::`` in
    ``expanded``. What is inside of them is called by its address: ``norm::mean``, ``scan::add``.

    ``gradients=True`` draws the gradient of every node beside it; with a ``loss`` or a ``trainer``
    it is built where there is none yet.

    >>> import gradwright as gw
    >>> g = gw.Graph("line")
    >>> with g.scope("hidden"):
    ...     y = g.placeholder("x", ("B", 2)) @ g.variable("w", (2, 3))
    >>> view = GraphView(g)
    >>> view.selected = "hidden/matmul"
    >>> view.expanded = ["hidden"]
    >>> p = gw.nn.silu(y, name="p")
    >>> view.expanded = ["hidden", "p::"]
    >>> view.insides["p"]["names"][:2]
    ['p::in0', 'p::sigmoid']
    >>> view.selected = "hiden/"
    Traceback (most recent call last):
    ...
    gradwright.errors.GraphError: nothing is called 'hiden/' in graph 'line'
      try:  a node's name, or a scope's with a slash behind it
    """

    module = "graph_view"
    panels = (GraphPanel, WhyPanel, ColorPanel, InspectorPanel)

    def __init__(
        self,
        graph: Graph,
        trainer: Any = None,
        *,
        loss: Tensor | str | None = None,
        feeds: Feeds | Callable[[], Feeds] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(graph, trainer, loss=loss, feeds=feeds, **options)

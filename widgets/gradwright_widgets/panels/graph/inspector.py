"""The property sheet of what is selected: what the kernel knows of it, and bookmarks."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import traitlets

from gradwright import Node
from gradwright.errors import GradwrightError, GraphError
from gradwright.graph.expand import bind_dims
from gradwright.train import ParameterStatistics

from ...drawing.code import program
from ...drawing.facts import node_facts
from ...drawing.grouping import groups_of
from ...drawing.nodes import drawn_nodes
from ...drawing.values import bars, statistics, thumbnail
from ...host.desk import GraphDesk
from ...host.insides import node_at
from ...host.panel import Panel
from ...host.part import checks, handles, shared, watches
from ...host.wire import Message

MOST_VIEWS = 50


class InspectorPanel(Panel):
    """The sheet beside the drawing, and places in the drawing that have names."""

    name = "inspector"
    desk: GraphDesk

    inspector = shared(
        traitlets.Bool(False, help="Whether the sheet of what is selected stands open.")
    )
    views = shared(
        traitlets.List(
            traitlets.Dict(),
            help="Bookmarks: `name`, `selected`, `expanded`, and `place`, the x, y and scale of the"
            " window.",
        )
    )

    def __init__(self, desk: GraphDesk) -> None:
        super().__init__(desk)
        self._pace = self.widget.paced(self._send_values)
        for topic in ("selected", "stepped", "edited", "trained"):
            desk.on(topic, lambda **_: self._look())

    @checks("views")
    def _check_views(self, views: list[dict[str, Any]]) -> list[dict[str, Any]]:
        for view in views:
            place = view.get("place", [0, 0, 1])
            fits = len(place) == 3 and all(isinstance(x, (int, float)) for x in place)
            if not (isinstance(view.get("name"), str) and view["name"] and fits):
                raise GraphError(
                    f"{view!r} is no bookmark",
                    need='{"name": "...", "selected": "", "expanded": [], "place": [x, y, scale]}',
                )
        if len(views) > MOST_VIEWS:
            raise GraphError(f"{len(views)} bookmarks", need=f"{MOST_VIEWS} at most")
        return views

    @watches("inspector")
    def _on_inspector(self) -> None:
        self._look()

    def _look(self) -> None:
        if self.inspector:
            self._pace.request()

    def refresh(self) -> None:
        """Send what is known of what is selected now; a page asks for facts of a new graph."""
        self._look()

    # -- messages --------------------------------------------------------------------------------

    @handles("sync")
    def _on_sync(self, _: Any) -> None:
        for message in self.new_view_messages(whole=True):
            self.widget.send(*message)

    @handles("look")
    def _on_look(self, _: Any) -> None:
        self._send_values()

    @handles("code")
    def _on_code(self, content: dict[str, Any]) -> None:
        code = self.to_code(str(content.get("name", "")))
        self.widget.send({"kind": "inspector.code", "name": content.get("name"), "code": code}, [])

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return what is known of all nodes; ``whole`` where the sheet or its colours are shown."""
        if not whole:
            return []
        values = self._values()
        return [self._facts()] + ([values] if values else [])

    def _facts(self) -> Message:
        gradients = bool(getattr(self.widget, "gradients", False))
        facts = node_facts(self.desk.graph, self._sizes(), gradients=gradients)
        buffers = [facts.pop(name) for name in ("place", "flops", "bytes")]
        return {"kind": "inspector.facts", **facts}, buffers

    def _sizes(self) -> dict[str, int]:
        """Return the sizes of the example, as far as it is there already."""
        if self.desk.makes_feeds:
            return {}
        graph = self.desk.graph
        with contextlib.suppress(GradwrightError, ValueError):
            feeds = self.desk.example_feeds()
            keyed = {graph[k] if isinstance(k, str) else k: np.shape(v) for k, v in feeds.items()}
            return {name: int(size) for name, size in bind_dims(keyed).items()}
        return {}

    def _send_values(self) -> None:
        if (message := self._values()) is not None:
            self.widget.send(*message)

    def _values(self) -> Message | None:
        """Return statistics and thumbnails of what is selected; empty ones where none is known."""
        name = self.desk.selected
        if not name:
            return None
        tensors, buffers = [], []
        for label, array, source in self._arrays(name):
            data, height, width = thumbnail(array)
            facts = {"label": label, "source": source, "thumb": [height, width]}
            tensors.append({**facts, **statistics(array), "bars": bars(array)})
            buffers.append(memoryview(data))
        content = {"kind": "inspector.values", "name": name, "tensors": tensors}
        return {**content, "gradient": self._gradient_norm(name)}, buffers

    def _gradient_norm(self, name: str) -> float | None:
        """Return the norm of a parameter's gradient in the last step that was sampled."""
        for callback in getattr(self.desk.trainer, "callbacks", ()):
            if isinstance(callback, ParameterStatistics):
                norm = callback.last().get(name, {}).get("gradient_norm", np.nan)
                if np.isfinite(norm):
                    return float(norm)
        return None

    def _arrays(self, name: str) -> list[tuple[str, Any, str]]:
        """Return the values of a node's results: the stepper's, or what is stored."""
        node = self._node(name)
        if node is None:
            return []
        found: list[tuple[str, Any, str]] = []
        several = len(node.public) > 1
        for k, tensor in enumerate(node.public):
            at = name if not several else f"{name}:{k}"
            value, source = self.desk.ask("value", name=at), "stepper"
            if value is None and node.kind in ("variable", "constant") and ":" not in name:
                held = self.desk.values if node.kind == "variable" else self.desk.graph.values
                with contextlib.suppress(GradwrightError, KeyError):
                    value, source = held.array(node.name), "stored"
            if isinstance(value, (np.ndarray, np.generic)):
                label = tensor.name.rpartition("/")[2] if several else ""
                found.append((label, np.asarray(value), source))
        return found

    def _node(self, name: str) -> Node | None:
        if name.endswith("/"):
            return None
        with contextlib.suppress(GradwrightError):
            return node_at(self.desk.graph, name)
        return None

    # -- from code -------------------------------------------------------------------------------

    def to_code(self, name: str = "") -> str:
        """Return the Python that builds a node, what a scope holds, or by default what is selected.

        It is a program: what its nodes read of others are placeholders of their specs.

        >>> import gradwright as gw
        >>> from gradwright_widgets import GraphView
        >>> g = gw.Graph("line")
        >>> y = gw.nn.relu(g.placeholder("x", ("B", 2)))
        >>> print(GraphView(g).to_code("relu"))
        import gradwright as gw
        <BLANKLINE>
        g = gw.Graph("line")
        x = g.placeholder("x", ("B", 2))
        relu = gw.nn.relu(x)
        <BLANKLINE>

        Raises:
            GraphError: nothing is called so, or it holds what no line of code says.
        """
        name = self.desk.check_name(name or self.desk.selected)
        graph = self.desk.graph
        if not name:
            return program(graph, drawn_nodes(graph))
        if not name.endswith("/"):
            return program(graph, [node_at(graph, name)])
        return program(graph, self._within(name))

    def _within(self, scope: str) -> list[Node]:
        """Return the nodes of a scope, or of a card or block that stands for one."""
        nodes = drawn_nodes(self.desk.graph)
        groups = groups_of(self.desk.graph)
        if groups is None or scope[:-1] not in groups.names:
            return [node for node in nodes if node.name.startswith(scope)]
        within = {groups.names.index(scope[:-1])}
        for group, parent in enumerate(groups.parent):  # parents come first
            if parent in within:
                within.add(group)
        return [node for node in nodes if groups.of(node) in within]

    def bookmark(self, name: str) -> None:
        """Keep what is selected and open under a name; the page adds the place of its window.

        >>> import gradwright as gw
        >>> from gradwright_widgets import GraphView
        >>> g = gw.Graph("line")
        >>> _ = g.placeholder("x", (2,))
        >>> view = GraphView(g, selected="x")
        >>> view.bookmark("the input")
        >>> view.views
        [{'name': 'the input', 'selected': 'x', 'expanded': None}]
        """
        expanded = getattr(self.widget, "expanded", None)
        made = {"name": name, "selected": self.desk.selected, "expanded": expanded}
        self.views = [*(v for v in self.views if v["name"] != name), made]

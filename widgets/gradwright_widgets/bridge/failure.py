"""An error of a graph as a drawing: what there was, the node at fault, shapes, and the line."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from gradwright import Graph, Node, Tensor
from gradwright.errors import GradwrightError

from ..drawing.spec import category
from ..panels.graph.sketch import FAULT, Box, draw_boxes
from ..still.svg import INK, LINE, QUIET, svg_page, svg_text
from .places import place_of

MOST = 16
"""Boxes of the drawing: what the node reads, the nearest first, and some of what reads it."""
AFTER = 4
"""Boxes of those that read a node that is in the graph already."""
_WIDEST = 96
"""Letters of a line below the drawing."""
_LETTER, _LINE = 7.3, 17.0


@dataclass(frozen=True)
class Failure:
    """An error and the graph around it; shown by itself in a notebook.

    >>> import gradwright as gw
    >>> g = gw.Graph("wrong")
    >>> x, w = g.placeholder("x", (None, 3)), g.variable("w", (4, 2))
    >>> try: x @ w
    ... except gw.errors.ShapeError as error: failure = Failure.of(error)
    >>> failure.facts()["node"], failure.facts()["kind"], failure.svg().count("<rect")
    ('matmul', 'ShapeError', 8)
    """

    error: GradwrightError
    node: Node

    @classmethod
    def of(cls, error: BaseException | None) -> Failure | None:
        """Return what can be drawn of an error; None for one that is about no node."""
        if not isinstance(error, GradwrightError) or error.node is None:
            return None
        return cls(error, error.node)

    @property
    def graph(self) -> Graph:
        """The graph, in which the node is missing if it was refused."""
        return self.node.graph

    def facts(self) -> dict[str, Any]:
        """Return what the side panel shows of it."""
        error, node = self.error, self.node
        return {
            "kind": type(error).__name__,
            "problem": error.problem,
            "facts": list(error.facts),
            "need": error.need,
            "hint": error.hint,
            "graph": self.graph.name,
            "node": node.name,
            "op": node.op.name,
            "about": about(node),
            "place": place_of(node),
            "svg": self.svg(),
        }

    def svg(self) -> str:
        """Return the drawing with the error below it, as SVG text."""
        width, height, body = draw_boxes(_boxes(self.graph, self.node))
        rows = _rows(self.error, self.node)
        width = max([width, *(24 + _LETTER * len(text) for text, *_ in rows)])
        y = height + 6
        below = [f'<path d="M16 {height - 6:.0f}H{width - 16:.0f}" stroke="{LINE}"/>']
        for text, color, marked in rows:
            if marked:
                place = f'x="10" y="{y:.0f}" width="{width - 20:.0f}" height="{_LINE:.0f}"'
                below.append(f'<rect {place} rx="3" fill="{FAULT}" fill-opacity="0.1"/>')
            below.append(_code(text, 16, y + _LINE / 2, color))
            y += _LINE
        title = f"{type(self.error).__name__}: {self.error.problem}"
        return svg_page(width, y + 10, body + "".join(below), title)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        head = f"The graph {self.graph.name!r} around {self.node.name!r}"
        return {"image/svg+xml": self.svg(), "text/plain": head}


def about(node: Node) -> str:
    """Return what the op of a node is, in the first sentence of its documentation."""
    return (type(node.op).__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")


def _boxes(graph: Graph, fault: Node) -> list[Box]:
    """Return boxes of the node at fault and its surroundings, each after what it reads."""
    chosen = {id(node): node for node in _near(fault)}
    for user in [u for t in fault.outputs for u in t.uses if not u.derived][:AFTER]:
        chosen.setdefault(id(user), user)
    order = [node for node in graph.all_nodes if id(node) in chosen]
    known = {id(node) for node in order}
    order += [node for key, node in chosen.items() if key not in known]
    order.sort(key=lambda node: node is fault and not fault.outputs)  # refused: after all others
    number = {id(node): k for k, node in enumerate(order)}
    boxes: list[Box] = []
    for k, node in enumerate(order):
        box = Box(node.name.rpartition("/")[2], _note(node), category(node), fault=node is fault)
        for tensor in node.inputs:
            source = -1 if tensor is None else number.get(id(tensor.node), -1)
            if tensor is not None and 0 <= source < k and source not in box.inputs:
                box.inputs.append(source)
                text = _spec(tensor)
                if text not in boxes[source].labels:
                    boxes[source].labels.append(text)
        boxes.append(box)
    return boxes


def _near(fault: Node) -> list[Node]:
    """Return a node and what leads to it, by distance, until there are enough."""
    found, waiting = {id(fault): fault}, deque([fault])
    while waiting and len(found) < MOST:
        for tensor in waiting.popleft().inputs:
            if tensor is not None and id(tensor.node) not in found and len(found) < MOST:
                found[id(tensor.node)] = tensor.node
                waiting.append(tensor.node)
    return list(found.values())


def _note(node: Node) -> str:
    leaf = node.name.rpartition("/")[2]
    return node.kind if node.kind != "array" else "" if leaf == node.op.name else node.op.name


def _spec(tensor: Tensor) -> str:
    text = str(tensor.spec)
    return text if len(text) <= 28 else text[:27] + "…"


def _rows(error: GradwrightError, node: Node) -> list[tuple[str, str, bool]]:
    """Return the lines below the drawing: text, colour, and whether it is the line at fault."""
    place = place_of(node)
    head = f"{type(error).__name__}: {error.problem}"
    rows = [(head, FAULT, False), *((f"  {fact}", INK, False) for fact in error.facts)]
    if error.need:
        rows.append((f"  need: {error.need}", INK, False))
    if error.hint:
        rows.append((f"  try:  {error.hint}", INK, False))
    if place["code"]:
        rows += [("", INK, False), (place["where"], QUIET, False)]
        for number, text in place["code"]:
            here = number == place["line"]
            rows.append((f"{number:>4}  {text}", INK if here else QUIET, here))
    return [(_cut(text), color, here) for text, color, here in rows]


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _code(text: str, x: float, y: float, color: str) -> str:
    """Return a line of code as it stands, blanks included."""
    line = svg_text(text, x, y, 12, color, "start")
    style = 'font-family="ui-monospace, \'DejaVu Sans Mono\', monospace" xml:space="preserve"'
    return line.replace("<text ", f"<text {style} ", 1)

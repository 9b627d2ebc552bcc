"""Still pictures and tables for readers that run no JavaScript: GitHub, nbconvert, a PDF.

The drawing is plainer than the live one: rows by longest path, ordered by barycentres. It has to be
made where no browser runs, of few boxes; the live layout is in widgets/frontend/src/graph.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gradwright import Graph

from .graph_spec import category, drawn_nodes, frozen, parameters

MOST_BOXES = 40
_COLORS = {
    "input": "#2f8fd0",
    "parameter": "#d98e00",
    "constant": "#8b919b",
    "linear": "#0072b2",
    "activation": "#009e73",
    "norm": "#b0569b",
    "math": "#7d8797",
    "reduce": "#8a7a00",
    "shape": "#a3a9b3",
    "loss": "#d55e00",
    "random": "#6a5acd",
    "control": "#444c5c",
    "scope": "#5b6472",
}
_INK, _QUIET, _LINE, _PAPER = "#1f2430", "#5b6472", "#c4cad2", "#ffffff"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"


@dataclass
class _Box:
    title: str
    note: str
    category: str
    inputs: list[int] = field(default_factory=list)
    row: int = 0
    x: float = 0.0
    width: float = 0.0


def draw_svg(graph: Graph) -> str:
    """Return the graph, or the outer scopes of a large one, as an SVG drawing.

    >>> import gradwright as gw
    >>> g = gw.Graph("line")
    >>> y = g.placeholder("x", (2,)) + 1.0
    >>> draw_svg(g).startswith("<svg ")
    True
    """
    boxes = _boxes(graph)
    if not boxes:
        return ""
    rows = _rows(boxes)
    _order(boxes, rows)
    gap, height, step, margin = 22.0, 34.0, 66.0, 16.0
    wide = max(sum(boxes[k].width + gap for k in row) - gap for row in rows)
    for row in rows:
        at = margin + (wide - sum(boxes[k].width + gap for k in row) + gap) / 2
        for k in row:
            boxes[k].x = at + boxes[k].width / 2
            at += boxes[k].width + gap
    lines, shapes = [], []
    for box in boxes:
        top = margin + box.row * step
        for source in (boxes[k] for k in box.inputs):
            y0, y1 = margin + source.row * step + height, top
            half = (y1 - y0) / 2
            lines.append(
                f'<path d="M{source.x:.1f} {y0:.1f}C{source.x:.1f} {y0 + half:.1f} '
                f'{box.x:.1f} {y1 - half:.1f} {box.x:.1f} {y1:.1f}" fill="none" stroke="{_LINE}"/>'
            )
        shapes.append(_shape(box, top, height))
    body = "".join(lines + shapes)
    return _svg(wide + 2 * margin, 2 * margin + step * (len(rows) - 1) + height, body, graph.name)


def _boxes(graph: Graph) -> list[_Box]:
    nodes = drawn_nodes(graph)
    whole = len(nodes) <= MOST_BOXES
    boxes: list[_Box] = []
    place: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for node in nodes:
        scope, _, leaf = node.name.rpartition("/")
        outer = "" if whole else node.name.partition("/")[0] + "/" if scope else ""
        key = outer or node.name
        if outer:
            sizes[outer] = sizes.get(outer, 0) + 1
        if key not in place:
            if len(boxes) == MOST_BOXES:
                return []  # a drawing of hundreds of boxes says less than the table
            place[key] = len(boxes)
            if outer:
                boxes.append(_Box(outer[:-1], "", "scope"))
            else:
                spec = str(node.outputs[0].spec) if node.outputs else ""
                note = spec if node.kind != "array" else scope
                boxes.append(_Box(leaf, note, category(node)))
        mine = place[key]
        for tensor in node.inputs:
            if tensor is None:
                continue
            name = tensor.node.name
            source = place.get(name, place.get(name.partition("/")[0] + "/"))
            # A scope that also feeds what came before it would point upwards; the table has it.
            if source is not None and source < mine and source not in boxes[mine].inputs:
                boxes[mine].inputs.append(source)
    for key, count in sizes.items():
        boxes[place[key]].note = f"{count} nodes"
    for box in boxes:
        box.width = max(72.0, 7.2 * len(_cut(box.title)) + 24, 5.8 * len(_cut(box.note)) + 24)
    return boxes


def _rows(boxes: Sequence[_Box]) -> list[list[int]]:
    uses: list[list[int]] = [[] for _ in boxes]
    for k, box in enumerate(boxes):
        box.row = max((boxes[s].row + 1 for s in box.inputs), default=0)
        for source in box.inputs:
            uses[source].append(k)
    for k in reversed(range(len(boxes))):
        if uses[k] and not boxes[k].inputs:
            boxes[k].row = min(boxes[u].row for u in uses[k]) - 1
    rows: list[list[int]] = [[] for _ in range(max(box.row for box in boxes) + 1)]
    for k, box in enumerate(boxes):
        rows[box.row].append(k)
    return [row for row in rows if row]


def _order(boxes: Sequence[_Box], rows: list[list[int]]) -> None:
    for r, row in enumerate(rows):
        for k in row:
            boxes[k].row = r
    near: list[list[int]] = [[*box.inputs] for box in boxes]
    for k, box in enumerate(boxes):
        for source in box.inputs:
            near[source].append(k)
    place = {k: i - len(row) / 2 for row in rows for i, k in enumerate(row)}
    for sweep in range(8):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            row.sort(
                key=lambda k: sum(place[n] for n in near[k]) / len(near[k]) if near[k] else place[k]
            )
            place.update((k, i - len(row) / 2) for i, k in enumerate(row))


def _shape(box: _Box, top: float, height: float) -> str:
    left, color = box.x - box.width / 2, _COLORS[box.category]
    round_, tint = (17, 0.14) if box.category == "parameter" else (5, 0.0)
    if box.category in ("input", "constant"):
        round_, tint = 3, 0.14
    middle = top + height / 2
    out = [
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{height}" '
        f'rx="{round_}" fill="{_PAPER}" stroke="{color if tint else _LINE}"/>',
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{height}" '
        f'rx="{round_}" fill="{color}" fill-opacity="{tint}"/>'
        if tint
        else f'<rect x="{left:.1f}" y="{top + 4:.1f}" width="4" height="{height - 8}" '
        f'rx="2" fill="{color}"/>',
        _text(_cut(box.title), box.x, middle - (7 if box.note else 0), 12, _INK),
    ]
    if box.note:
        out.append(_text(_cut(box.note), box.x, middle + 8, 10, _QUIET))
    return "".join(out)


def curve_svg(curves: Iterable[tuple[str, str, list[float], list[float]]]) -> str:
    """Return one small chart per metric: (metric, name, steps, values) of every curve.

    >>> curve_svg([("loss", "train", [1.0, 2.0], [3.0, 1.0])]).count("<polyline")
    1
    """
    charts: dict[str, list[tuple[str, list[float], list[float]]]] = {}
    for metric, name, x, y in curves:
        charts.setdefault(metric, []).append((name, x, y))
    if not charts:
        return ""
    width, height, left = 560.0, 130.0, 56.0
    palette = {"step": "#9ecae1", "train": "#0072b2", "validation": "#d55e00"}
    body = []
    for number, (metric, found) in enumerate(charts.items()):
        top = number * height
        points = [
            (a, b) for _, x, y in found for a, b in zip(x, y, strict=True) if math.isfinite(b)
        ]
        body.append(_text(metric, 8, top + 14, 12, _INK, "start"))
        if not points:
            continue
        x0, x1 = min(p[0] for p in points), max(p[0] for p in points)
        y0, y1 = min(p[1] for p in points), max(p[1] for p in points)
        for value, at in ((y1, top + 30), (y0, top + height - 14)):
            body.append(_text(f"{value:.4g}", left - 6, at, 10, _QUIET, "end"))
            body.append(f'<path d="M{left} {at}H{width - 10}" stroke="{_LINE}"/>')
        for name, x, y in found:
            stride = max(1, len(x) // 500)
            placed = " ".join(
                f"{left + (a - x0) / ((x1 - x0) or 1) * (width - left - 10):.1f},"
                f"{top + 30 + (y1 - b) / ((y1 - y0) or 1) * (height - 44):.1f}"
                for a, b in zip(x[::stride], y[::stride], strict=True)
                if math.isfinite(b)
            )
            color = palette.get(name, "#009e73")
            style = f'fill="none" stroke="{color}" stroke-width="1.5"'
            body.append(f'<polyline points="{placed}" {style}/>')
        names = ", ".join(name for name, _, _ in found)
        body.append(_text(names, width - 10, top + 14, 10, _QUIET, "end"))
    return _svg(width, height * len(charts), "".join(body), "training curves")


def node_table(graph: Graph) -> str:
    """Return the nodes, or the outer scopes of a large graph, as an HTML table."""
    nodes = drawn_nodes(graph)
    if len(nodes) <= MOST_BOXES:
        rows = [
            [n.name, n.op.name, ", ".join(str(t.spec) for t in n.outputs),
             ", ".join(t.name for t in n.inputs if t is not None)]
            for n in nodes
        ]  # fmt: skip
        return html_table(["node", "op", "result", "inputs"], rows)
    counts: dict[str, int] = {}
    for node in nodes:
        outer = node.name.partition("/")[0] + "/" if "/" in node.name else "(top)"
        counts[outer] = counts.get(outer, 0) + 1
    return html_table(["scope", "nodes"], [[scope, str(n)] for scope, n in counts.items()])


def parameter_html(graph: Graph) -> str:
    """Return the parameters as an HTML table."""
    still = set(frozen(graph))
    rows = [
        [p["name"], " × ".join(map(str, p["shape"])) or "scalar", p["dtype"], f"{p['count']:,}",
         "frozen" if p["name"] in still else "trainable"]
        for p in parameters(graph)
    ]  # fmt: skip
    return html_table(["parameter", "shape", "type", "count", "training"], rows)


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a plain table; everything in it is text.

    >>> html_table(["name"], [["<b>"]])
    '<table><thead><tr><th>name</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _cut(text: str) -> str:
    return text if len(text) <= 24 else text[:23] + "…"


def _text(text: str, x: float, y: float, size: int, color: str, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}" '
        f'dominant-baseline="central">{_xml(text)}</text>'
    )


def _svg(width: float, height: float, body: str, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{_FONT}" role="img">'
        f"<title>{_xml(title)}</title>"
        f'<rect width="100%" height="100%" fill="{_PAPER}"/>{body}</svg>'
    )


def _xml(text: str) -> str:
    """Escape text for XML, which has no place for most control characters."""
    return html.escape("".join(c if c >= " " or c in "\t\n\r" else "\ufffd" for c in text))

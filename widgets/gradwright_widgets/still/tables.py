"""Still curves and tables for readers that run no JavaScript: GitHub, nbconvert, a PDF."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from gradwright import Graph

from ..drawing.grouping import groups_of
from ..drawing.nodes import drawn_nodes, spec_text
from ..host.facts import shape_text
from .svg import INK, LINE, QUIET, svg_page, svg_text

MOST_BOXES = 40
MOST_ROWS = 300
_COLORS = ("#009e73", "#b0569b", "#b58900", "#2f8fd0", "#0072b2", "#d55e00")


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
    own = dict.fromkeys(n for found in charts.values() for n, _, _ in found if n not in palette)
    palette |= {name: _COLORS[k % len(_COLORS)] for k, name in enumerate(own)}
    body = []
    for number, (metric, found) in enumerate(charts.items()):
        top = number * height
        points = [
            (a, b) for _, x, y in found for a, b in zip(x, y, strict=True) if math.isfinite(b)
        ]
        body.append(svg_text(metric, 8, top + 14, 12, INK, "start"))
        if not points:
            continue
        x0, x1 = min(p[0] for p in points), max(p[0] for p in points)
        y0, y1 = min(p[1] for p in points), max(p[1] for p in points)
        for value, at in ((y1, top + 30), (y0, top + height - 14)):
            body.append(svg_text(f"{value:.4g}", left - 6, at, 10, QUIET, "end"))
            body.append(f'<path d="M{left} {at}H{width - 10}" stroke="{LINE}"/>')
        for name, x, y in found:
            stride = max(1, len(x) // 500)
            placed = " ".join(
                f"{left + (a - x0) / ((x1 - x0) or 1) * (width - left - 10):.1f},"
                f"{top + 30 + (y1 - b) / ((y1 - y0) or 1) * (height - 44):.1f}"
                for a, b in zip(x[::stride], y[::stride], strict=True)
                if math.isfinite(b)
            )
            style = f'fill="none" stroke="{palette[name]}" stroke-width="1.5"'
            body.append(f'<polyline points="{placed}" {style}/>')
        names = ", ".join(name for name, _, _ in found)
        body.append(svg_text(names, width - 10, top + 14, 10, QUIET, "end"))
    return svg_page(width, height * len(charts), "".join(body), "training curves")


def node_table(graph: Graph) -> str:
    """Return the nodes, or the outer scopes of a large graph, as an HTML table."""
    nodes = drawn_nodes(graph)
    if len(nodes) <= MOST_BOXES:
        rows = [
            [n.name, n.op.name, ", ".join(map(spec_text, n.outputs)),
             ", ".join(t.name for t in n.inputs if t is not None)]
            for n in nodes
        ]  # fmt: skip
        return html_table(["node", "op", "result", "inputs"], rows)
    counts: dict[str, int] = {}
    if (groups := groups_of(graph)) is not None:
        held = Counter(groups.outermost(node) for node in nodes)
        layers = [
            [groups.title(group), groups.about(group), str(held[group])]
            for group, around in enumerate(groups.parent)
            if around < 0
        ]
        return html_table(["layer", "what it does", "nodes"], layers)
    for node in nodes:
        outer = node.name.partition("/")[0] + "/" if "/" in node.name else "(top)"
        counts[outer] = counts.get(outer, 0) + 1
    return html_table(["scope", "nodes"], [[scope, str(n)] for scope, n in counts.items()])


def parameter_html(
    parameters: Sequence[Mapping[str, Any]],
    frozen: Collection[str],
    numbers: Mapping[str, Mapping[str, float]],
    flags: Mapping[str, Sequence[str]],
) -> str:
    """Return the parameters, their statistics and their flags as an HTML table."""
    columns = ("mean", "std", "norm", "gradient_norm", "ratio")
    shown = [c for c in columns if any(not math.isnan(row[c]) for row in numbers.values())]
    rows = []
    for p in parameters[:MOST_ROWS]:
        name, row = p["name"], numbers.get(p["name"], {})
        words = ["frozen" if name in frozen else "trainable", *flags.get(name, ())]
        rows.append(
            [name, shape_text(p["shape"]), p["dtype"], f"{p['count']:,}",
             *(_number(row.get(c, math.nan)) for c in shown), ", ".join(words)]
        )  # fmt: skip
    left = len(parameters) - len(rows)
    if left:
        rows.append([f"{left:,} more", *[""] * (4 + len(shown))])
    titles = {"gradient_norm": "gradient norm", "ratio": "update : parameter"}
    head = ["parameter", "shape", "type", "count", *(titles.get(c, c) for c in shown), "training"]
    return html_table(head, rows)


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}"


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

"""The still drawing of a graph: rows by longest path, few crossings, straight long lines.

It has to be made where no browser runs, of few boxes; the live layout, which opens scopes and draws
thousands, is in widgets/frontend/src/panels/graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from gradwright import Graph, Node

from ...drawing.grouping import Groups, groups_of
from ...drawing.nodes import drawn_nodes
from ...drawing.spec import category
from ...host.insides import holder_of, parts_of
from ...still.svg import INK, LINE, PAPER, QUIET, svg_page, svg_text
from ...still.tables import MOST_BOXES
from .insides import drawn_inside, wiring

_COLORS = {
    "input": "#2f8fd0",
    "parameter": "#c28000",
    "constant": "#868c96",
    "linear": "#0072b2",
    "activation": "#009e73",
    "norm": "#b0569b",
    "math": "#667085",
    "reduce": "#8a7a00",
    "shape": "#948a7b",
    "loss": "#d55e00",
    "random": "#6a5acd",
    "control": "#444c5c",
    "scope": "#5b6472",
}
_WIRE = "#868f9c"
FAULT = "#c62828"
_GAP, _HEIGHT, _STEP, _MARGIN = 22.0, 36.0, 72.0, 16.0
_SWEEPS = 12
_STORED = ("parameter", "constant")


@dataclass
class Box:
    """A box, or the place where a long line passes a row (then without a title)."""

    title: str = ""
    note: str = ""
    category: str = ""
    inputs: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    """What stands at the lines that leave it."""
    fault: bool = False
    """Whether it is what went wrong, drawn in red, as is what comes in."""
    row: int = 0
    x: float = 0.0
    width: float = 0.0


def draw_svg(graph: Graph, opened: Sequence[str] = ()) -> str:
    """Return the graph, or the outer scopes of a large one, as an SVG drawing.

    Nodes that are ``opened``, by address, stand below what they enclose, as far as there is room. A
    graph that would need more than 40 boxes even so gives "": its table says more.

    >>> import gradwright as gw
    >>> g = gw.Graph("line")
    >>> y = g.placeholder("x", (2,)) + 1.0
    >>> draw_svg(g).startswith("<svg ")
    True
    """
    boxes = _boxes(graph, opened)
    return svg_page(*draw_boxes(boxes), graph.name) if boxes else ""


def draw_boxes(boxes: list[Box]) -> tuple[float, float, str]:
    """Return width, height and body of a picture of boxes, each of which comes after its inputs."""
    for box in boxes:
        box.width = max(76.0, 7.2 * len(_cut(box.title)) + 28, 5.8 * len(_cut(box.note)) + 28)
        box.width = max([box.width, *(11.6 * len(text) for text in box.labels)])
    _choose_rows(boxes)
    routes = _routes(boxes)
    rows: list[list[int]] = [[] for _ in range(max(box.row for box in boxes) + 1)]
    for k, box in enumerate(boxes):
        rows[box.row].append(k)
    near = _neighbours(boxes, routes)
    rows = _order(rows, near)
    _place(boxes, rows, near)
    left = min(box.x - box.width / 2 for box in boxes)
    for box in boxes:
        box.x += _MARGIN - left
    width = max(box.x + box.width / 2 for box in boxes) + _MARGIN
    lines = [_line([boxes[k] for k in route]) for route in routes]
    body = "".join(lines) + "".join(_shape(box) for box in boxes if box.title)
    return width, 2 * _MARGIN + _STEP * (len(rows) - 1) + _HEIGHT, body


class _Step(NamedTuple):
    """A node as it is called here, and what it reads, by the position of the argument."""

    name: str
    node: Node
    sources: Mapping[int, str]


def _steps(graph: Graph, opened: Sequence[str]) -> list[_Step]:
    """Return the nodes, and what those enclose that are opened, before the node itself."""
    steps = [_Step(node.name, node, _sources(node)) for node in drawn_nodes(graph)]
    for address in opened:
        found = next((k for k, step in enumerate(steps) if step.name == address), None)
        if found is None:
            continue
        inner = _opened(steps[found])
        if len(steps) + len(inner) - 1 <= MOST_BOXES:
            steps[found : found + 1] = inner
    return steps


def _sources(node: Node, prefix: str = "") -> dict[int, str]:
    inputs = enumerate(node.inputs)
    return {k: prefix + tensor.node.name for k, tensor in inputs if tensor is not None}


def _opened(step: _Step) -> list[_Step]:
    """Return what a node encloses, and the node, which reads what its results are made of."""
    inner, left, exits = list[_Step](), dict(step.sources), list[str]()
    for part, inside in parts_of(step.node).items():
        prefix = f"{step.name}:{part}:"
        joined = wiring(step.node, inside)
        given = {id(tensor.node): position for position, tensor in joined.entries}
        for node in drawn_inside(inside):
            sources = _sources(node, prefix)
            if id(node) in given:
                sources = {0: step.sources[given[id(node)]]}
                left.pop(given[id(node)], None)
            inner.append(_Step(prefix + node.name, node, sources))
        exits += [prefix + tensor.node.name for tensor in joined.exits]
    return [*inner, step._replace(sources=dict(enumerate([*left.values(), *exits])))]


def _boxes(graph: Graph, opened: Sequence[str]) -> list[Box]:
    steps = _steps(graph, opened)
    whole = len(steps) <= MOST_BOXES
    groups = groups_of(graph)
    if groups is not None and not (whole and opened):
        return _group_boxes(groups, steps)
    boxes: list[Box] = []
    place: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for name, node, sources in steps:
        outer = "" if whole or not node.scope else name.partition("/")[0] + "/"
        key = outer or name
        if outer:
            sizes[outer] = sizes.get(outer, 0) + 1
        if key not in place:
            if len(boxes) == MOST_BOXES:
                return []
            place[key] = len(boxes)
            boxes.append(Box(outer[:-1], "", "scope") if outer else _node_box(name, node))
        mine = place[key]
        for read in sources.values():
            source = place.get(read, place.get(read.partition("/")[0] + "/"))
            # A scope that also feeds what came before it would point upwards; the table has it.
            if source is not None and source < mine and source not in boxes[mine].inputs:
                boxes[mine].inputs.append(source)
    for key, count in sizes.items():
        boxes[place[key]].note = f"{count} node{'s' * (count != 1)}"
    return boxes


def _group_box(groups: Groups, group: int) -> Box:
    return Box(groups.title(group), groups.about(group), groups.category(group))


def _group_boxes(groups: Groups, steps: Sequence[_Step]) -> list[Box]:
    """Return a box for each outer group, and for what stands beside them."""
    boxes: list[Box] = []
    place: dict[str, int] = {}
    at: dict[int, int] = {}
    main = [step for step in steps if not groups.role.get(id(step.node))]
    for name, node, sources in main:
        group = groups.outermost(node)
        if group < 0 or group not in at:
            if len(boxes) == MOST_BOXES:
                return []
            at[group] = len(boxes)
            boxes.append(_group_box(groups, group) if group >= 0 else _node_box(name, node))
        mine = place[name] = at[group]
        for read in sources.values():
            source = place.get(read, mine)
            if source < mine and source not in boxes[mine].inputs:
                boxes[mine].inputs.append(source)
    return boxes


def _node_box(name: str, node: Node) -> Box:
    spec = str(node.outputs[0].spec) if node.outputs else ""
    shape = spec.partition("[")[2].rstrip("]").replace(", ", "×") or spec.partition("[")[0]
    holder = holder_of(name)
    where = f"in {holder.rpartition('/')[2]}" if holder else node.scope
    leaf = node.name.rpartition("/")[2]
    return Box(leaf, " · ".join(part for part in (where, shape) if part), category(node))


def _choose_rows(boxes: Sequence[Box]) -> None:
    """Every box comes below what it reads; what reads nothing stands right above its reader."""
    uses: list[list[int]] = [[] for _ in boxes]
    for k, box in enumerate(boxes):
        box.row = max((boxes[s].row + 1 for s in box.inputs), default=0)
        for source in box.inputs:
            uses[source].append(k)
    for k in reversed(range(len(boxes))):
        if uses[k] and not boxes[k].inputs:
            boxes[k].row = min(boxes[u].row for u in uses[k]) - 1
    used = {row: r for r, row in enumerate(sorted({box.row for box in boxes}))}
    for box in boxes:
        box.row = used[box.row]


def _routes(boxes: list[Box]) -> list[list[int]]:
    """Return each line as the boxes it joins, with a new place in every row that it passes."""
    routes = []
    for k in range(len(boxes)):
        for source in boxes[k].inputs:
            passed = range(boxes[source].row + 1, boxes[k].row)
            first = len(boxes)
            boxes.extend(Box(row=row, width=4.0) for row in passed)
            routes.append([source, *range(first, first + len(passed)), k])
    return routes


def _neighbours(boxes: list[Box], routes: list[list[int]]) -> tuple[list[list[int]], ...]:
    above: list[list[int]] = [[] for _ in boxes]
    below: list[list[int]] = [[] for _ in boxes]
    for route in routes:
        for upper, lower in pairwise(route):
            below[upper].append(lower)
            above[lower].append(upper)
    return above, below


def _order(rows: list[list[int]], near: tuple[list[list[int]], ...]) -> list[list[int]]:
    """Sort every row by the mean place of the neighbours in the row before; keep the best order."""
    place = {k: float(i) for row in rows for i, k in enumerate(row)}
    best, fewest = rows, _crossings(rows, near[1])
    for sweep in range(_SWEEPS):
        rows = [list(row) for row in rows]
        side = near[sweep % 2]
        for row in rows if sweep % 2 == 0 else reversed(rows):
            mean = {k: sum(place[n] for n in side[k]) / len(side[k]) for k in row if side[k]}
            row.sort(key=lambda k, mean=mean: mean.get(k, place[k]))  # type: ignore[misc]
            place.update((k, float(i)) for i, k in enumerate(row))
        crossed = _crossings(rows, near[1])
        if crossed < fewest:
            best, fewest = rows, crossed
    return best


def _crossings(rows: list[list[int]], below: list[list[int]]) -> int:
    place = {k: i for row in rows for i, k in enumerate(row)}
    count = 0
    for row in rows:
        ends = [place[n] for k in row for n in sorted(below[k], key=place.__getitem__)]
        count += sum(a > b for i, a in enumerate(ends) for b in ends[i + 1 :])
    return count


def _place(boxes: list[Box], rows: list[list[int]], near: tuple[list[list[int]], ...]) -> None:
    """Move boxes towards the median of their neighbours, long lines first, as the order allows."""
    for row in rows:
        at = 0.0
        for k in row:
            boxes[k].x = at + boxes[k].width / 2
            at += boxes[k].width + _GAP
    for sweep in range(_SWEEPS):
        side = near[sweep % 2]
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wish, weight, offset, at = [], [], [], 0.0
            for i, k in enumerate(row):
                at += 0.0 if i == 0 else (boxes[row[i - 1]].width + boxes[k].width) / 2 + _GAP
                # Parameters stand beside the main line and do not bend it.
                main = [n for n in side[k] if boxes[n].category not in _STORED] or side[k]
                found = sorted(boxes[n].x for n in main)
                middle = (found[(len(found) - 1) // 2] + found[len(found) // 2]) / 2 if found else 0
                wish.append((middle if found else boxes[k].x) - at)
                weight.append(_pull(boxes[k]) if found else 0.01)
                offset.append(at)
            for k, x, by in zip(row, _isotonic(wish, weight), offset, strict=True):
                boxes[k].x = x + by


def _pull(box: Box) -> float:
    """Return how much a box has its way where several want the same place."""
    return 8.0 if not box.title else 0.02 if box.category in _STORED else 1.0


def _isotonic(wish: Sequence[float], weight: Sequence[float]) -> list[float]:
    """Return the rising sequence that is nearest in weighted squares: pool adjacent violators.

    >>> _isotonic([1.0, 4.0, 2.0, 5.0], [1.0, 1.0, 1.0, 1.0])
    [1.0, 3.0, 3.0, 5.0]
    """
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for value, mass in zip(wish, weight, strict=True):
        pool = (value, mass, 1)
        while pools and pools[-1][0] > pool[0]:
            mean, other, members = pools.pop()
            total = other + pool[1]
            pool = ((mean * other + pool[0] * pool[1]) / total, total, members + pool[2])
        pools.append(pool)
    return [mean for mean, _, members in pools for _ in range(members)]


def _line(stops: list[Box]) -> str:
    """Return a line from the first box to the last, straight through the rows that it passes."""
    x, y = stops[0].x, _MARGIN + stops[0].row * _STEP + _HEIGHT
    path = [f"M{x:.1f} {y:.1f}"]
    for stop in stops[1:]:
        top = _MARGIN + stop.row * _STEP
        end = top - 5 if stop.title else top
        half = (end - y) / 2
        path.append(f"C{x:.1f} {y + half:.1f} {stop.x:.1f} {end - half:.1f} {stop.x:.1f} {end:.1f}")
        x, y = stop.x, top + _HEIGHT
        if not stop.title:
            path.append(f"L{x:.1f} {y:.1f}")
    tip = _MARGIN + stops[-1].row * _STEP
    color, weight = (FAULT, 2.0) if stops[-1].fault else (_WIRE, 1.2)
    return (
        f'<path d="{"".join(path)}" fill="none" stroke="{color}" stroke-width="{weight}"/>'
        f'<path d="M{x:.1f} {tip:.1f}l-3.5 -6.5h7z" fill="{color}"/>'
    )


def _shape(box: Box) -> str:
    left, top, color = box.x - box.width / 2, _MARGIN + box.row * _STEP, _COLORS[box.category]
    place = f'x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{_HEIGHT:g}"'
    stored = box.category == "input" or box.category in _STORED
    rounding = {"parameter": 18, "input": 4, "constant": 4}.get(box.category, 6)
    out = [f'<rect {place} rx="{rounding}" fill="{PAPER}" stroke="{color if stored else LINE}"/>']
    if box.fault:
        style = f'fill="{FAULT}" fill-opacity="0.1" stroke="{FAULT}" stroke-width="2"'
        out.append(f'<rect {place} rx="{rounding}" {style} stroke-dasharray="5 3"/>')
    elif stored:
        out.append(f'<rect {place} rx="{rounding}" fill="{color}" fill-opacity="0.14"/>')
    elif box.category == "scope":
        out.insert(0, f'<rect {place} rx="6" transform="translate(4 4)" fill="{LINE}"/>')
    else:
        bar = f'x="{left:.1f}" y="{top + 5:.1f}" width="4" height="{_HEIGHT - 10:g}"'
        out.append(f'<rect {bar} rx="2" fill="{color}"/>')
    middle = top + _HEIGHT / 2
    out.append(svg_text(_cut(box.title), box.x, middle - (7 if box.note else 0), 12, INK))
    if box.note:
        out.append(svg_text(_cut(box.note), box.x, middle + 8, 10, FAULT if box.fault else QUIET))
    for k, text in enumerate(box.labels):
        out.append(svg_text(text, box.x + 5, top + _HEIGHT + 10 + 11 * k, 10, QUIET, "start"))
    return "".join(out)


def _cut(text: str) -> str:
    return text if len(text) <= 36 else text[:35] + "…"

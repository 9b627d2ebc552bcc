"""A tensor for readers that run no JavaScript: rows of a table, and a picture as SVG."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...host.facts import shape_text
from ...still.svg import INK, QUIET, svg_page, svg_text
from .reduction import QUANTILES, Real, Summary
from .sheet import Sheet, Window, type_name

Array = np.ndarray[Any, Any]

_SHADES = 33  # colours of a still picture; cells of one colour are one path
_CELLS = 64
_LOW, _MIDDLE, _HIGH = (8, 69, 130), (247, 247, 245), (190, 86, 8)
_BAD = {"nan": "#c2188b", "+inf": "#e0b400", "-inf": "#00836a"}


def statistics(array: Array, summary: Summary) -> list[list[str]]:
    """Return the rows of the table of statistics: label and text.

    >>> from gradwright_widgets.panels.tensor.reduction import real_part, summarize
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> dict(statistics(x, summarize(x, real_part(x.dtype, "real"))))["norm"]
    '4.583'
    """
    share = summary.zeros / summary.read if summary.read else 0.0
    names = ["1 %", "25 %", "median", "75 %", "99 %"]
    assert len(names) == len(QUANTILES)
    one, quarter, median, three, last = (
        [name, _number(q)] for name, q in zip(names, summary.quantiles, strict=True)
    )
    rows = [
        ["shape", shape_text(array.shape)],
        ["type", type_name(array.dtype)],
        ["min", _number(summary.low)],
        ["max", _number(summary.high)],
        ["mean", _number(summary.mean)],
        ["std", _number(summary.std)],
        ["norm", _number(summary.norm)],
        ["zeros", f"{100 * share:.3g} %"],
        *(median, ["memory", _bytes(array.nbytes)]),  # two by two they make lines of a table
        *(one, last, quarter, three),
    ]
    return [*rows, *([kind, f"{count:,}"] for kind, count in summary.bad.items())]


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:.4g}".replace("-", "−")


def _bytes(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def tensor_svg(sheet: Sheet, real: Real, summary: Summary, counts: Array, title: str) -> str:
    """Return a slice as coloured cells over the histogram of its tensor, as SVG text."""
    width, height, margin = 420.0, 260.0, 14.0
    body = [svg_text(_short(title), margin, 16, 12, INK, "start")]
    if sheet.empty:
        body.append(svg_text("an empty slice", width / 2, 90, 12, QUIET))
        return svg_page(width, 120, "".join(body), title)
    body += _picture(sheet, real, summary, (margin, 30.0, width - 2 * margin, 150.0))
    top, room = 196.0, 40.0
    most = max(1, int(counts.max())) if len(counts) else 1
    wide = (width - 2 * margin) / max(1, len(counts))
    bars = "".join(
        f"M{margin + k * wide:.1f} {top + room}v{-room * n / most:.1f}h{wide * 0.9:.1f}"
        f"V{top + room}z"
        for k, n in enumerate(counts.tolist())
        if n
    )
    body.append(f'<path d="{bars}" fill="#667085"/>')
    body.append(svg_text(_number(summary.low), margin, height - 12, 10, QUIET, "start"))
    body.append(svg_text(_number(summary.high), width - margin, height - 12, 10, QUIET, "end"))
    bad = ", ".join(f"{n:,} {kind}" for kind, n in summary.bad.items() if n)
    if bad:
        body.append(svg_text(bad, width / 2, height - 12, 10, "#c2188b"))
    return svg_page(width, height, "".join(body), title)


def _picture(
    sheet: Sheet, real: Real, summary: Summary, box: tuple[float, float, float, float]
) -> list[str]:
    left, top, room_x, room_y = box
    rows, columns = sheet.grid
    one = Window((0, rows), (0, columns), (0, sheet.height), (0, sheet.width))
    facts, numbers = sheet.cells(one, real)
    tall, wide = (
        min(facts["cells"][0], max(1, _CELLS // rows)),
        min(facts["cells"][1], max(1, _CELLS // columns)),
    )
    step_y, step_x = facts["cells"][0] / tall, facts["cells"][1] / wide
    gap = 0.0 if sheet.shown == 1 else 1.0
    unit_x = min(room_x / (columns * (wide + gap)), 24.0)
    unit_y = min(room_y / (rows * (tall + gap)), 24.0)
    paths: dict[str, list[str]] = {}
    for tile in range(numbers.shape[1]):
        row, column = divmod(tile, columns)
        for i in range(tall):
            for k in range(wide):
                ys = slice(int(i * step_y), int((i + 1) * step_y))
                xs = slice(int(k * step_x), int((k + 1) * step_x))
                color = _color(numbers[:, tile, ys, xs], summary)
                x = left + (column * (wide + gap) + k) * unit_x
                y = top + (row * (tall + gap) + i) * unit_y
                cell = f"M{x:.1f} {y:.1f}h{unit_x:.2f}v{unit_y:.2f}h{-unit_x:.2f}z"
                paths.setdefault(color, []).append(cell)
    return [
        f'<path d="{"".join(cells)}" fill="{color}" shape-rendering="crispEdges"/>'
        for color, cells in paths.items()
    ]


def _color(cells: Array, summary: Summary) -> str:
    values = cells[0] if len(cells) == 1 else np.where(-cells[0] > cells[1], cells[0], cells[1])
    for kind, mask in (
        ("nan", np.isnan(values) if len(cells) == 1 else cells[3:4].any()),
        ("+inf", np.isposinf(values) if len(cells) == 1 else cells[4:5].any()),
        ("-inf", np.isneginf(values) if len(cells) == 1 else cells[5:6].any()),
    ):
        if np.any(mask):
            return _BAD[kind]
    value = float(values.flat[int(np.nanargmax(np.abs(values)))])
    low, high = summary.low, summary.high
    if low < 0 < high:
        peak = max(-low, high)
        low, high = -peak, peak
    share = (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.5
    at = round(min(max(share, 0.0), 1.0) * (_SHADES - 1)) / (_SHADES - 1)
    if summary.low >= 0 or summary.high <= 0:
        return _mix(_MIDDLE, _LOW, at if summary.low >= 0 else 1 - at)
    return _mix(_MIDDLE, _HIGH, 2 * at - 1) if at > 0.5 else _mix(_LOW, _MIDDLE, 2 * at)


def _mix(a: tuple[int, int, int], b: tuple[int, int, int], share: float) -> str:
    return "#" + "".join(f"{round(x + (y - x) * share):02x}" for x, y in zip(a, b, strict=True))


def _short(text: str) -> str:
    return text if len(text) <= 62 else text[:61] + "…"

"""What the pages are told of things that are alive: rows of plain JSON, a section a kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gradwright import Graph

from .living import Living, shown
from .places import nodes_by_cell

Row = dict[str, Any]
POINTS = 1000
"""Points of a curve in one message."""


class Facts:
    """Makes rows; of a graph that has not changed, without looking at its nodes again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Row, Mapping[str, int]]] = {}
        self._paces: dict[int, Pace] = {}

    def graphs(self, found: Living) -> tuple[list[Row], dict[str, Row]]:
        """Return a row of each graph, and how many nodes of which graph each cell has built."""
        rows, cells, known = [], dict[str, Row](), {}
        written = {id(model.graph) for model in found.writers.values()}
        for key, graph in found.graphs.items():
            stamp = graph.revision, id(getattr(graph, "latest", None)), len(graph.all_nodes)
            held = self._known.get(id(graph))
            if held is None or held[0] != stamp:
                held = stamp, _graph_row(graph), nodes_by_cell(graph)
            known[id(graph)] = held
            rows.append({"key": key, **held[1], "writes": id(graph) in written})
            for cell, count in held[2].items():
                cells.setdefault(cell, {})[key] = count
        self._known = known
        return rows, cells

    def trainings(self, found: Living) -> list[Row]:
        """Return a row of each trainer."""
        paces = {id(t): self._paces.get(id(t)) or Pace() for t in found.trainers.values()}
        self._paces = paces
        return [_training_row(key, t, paces[id(t)]) for key, t in found.trainers.items()]


class Pace:
    """How many steps a second a training takes, over its last seconds, without pauses.

    >>> pace = Pace()
    >>> [pace.seen(steps, seconds) for steps, seconds in ((0, 0.0), (10, 1.0), (10, 1.0))]
    [0.0, 10.0, 10.0]
    """

    SECONDS = 3.0

    def __init__(self) -> None:
        self._seen: list[tuple[int, float]] = []

    def seen(self, steps: int, seconds: float) -> float:
        """Return the pace, so many steps being done after so many seconds of training."""
        if self._seen and (steps < self._seen[-1][0] or seconds < self._seen[-1][1]):
            self._seen = []  # it has begun anew
        if not self._seen or steps > self._seen[-1][0]:
            self._seen.append((steps, seconds))
        while len(self._seen) > 2 and seconds - self._seen[1][1] >= self.SECONDS:
            self._seen.pop(0)
        (first, since), (last, until) = self._seen[0], self._seen[-1]
        return (last - first) / (until - since) if until > since else 0.0


def _graph_row(graph: Graph) -> Row:
    nodes = [node for node in graph.all_nodes if not node.derived]
    sizes = [n.outputs[0].spec.size for n in nodes if n.kind == "variable" and n.trainable]
    return {"name": graph.name, "nodes": len(nodes), "parameters": sum(map(int, sizes))}


def _training_row(key: str, trainer: Any, pace: Pace) -> Row:
    progress, last = trainer.progress, trainer.history.steps.last()
    loss = last.get("loss", math.nan)
    return {
        "key": key,
        "name": trainer.graph.name,
        "loss_name": trainer.losses[0].name,
        "status": trainer.status,
        "step": trainer.steps_done,
        "epoch": trainer.epochs_done,
        "loss": number(loss),
        "rate": round(pace.seen(trainer.steps_done, trainer.history.seconds), 3),
        "skipped": trainer.skipped,
        "outcome": "" if progress is None else progress.outcome,
        "reason": "" if progress is None else progress.error or progress.reason,
        "done": 0 if progress is None else progress.steps,
        "total": None if progress is None else progress.total,
        "left": None if progress is None or progress.left is None else round(progress.left, 1),
    }


def stepper_rows(found: Living) -> list[Row]:
    """Return where each stepper stands that is on its way, those of open widgets included."""
    rows = []
    seen = set()
    panels = {name: getattr(host, "current", "") for name, host in shown().items()}
    for key, stepper in found.steppers.items():
        place = "" if stepper.current is None else str(stepper.path)
        seen.add(place)
        rows.append({"key": key, "name": stepper.graph.name, "at": place})
    rows += [{"key": k, "name": "", "at": at} for k, at in panels.items() if at and at not in seen]
    return rows


def run_rows(found: Living) -> list[Row]:
    """Return a row of each run that this kernel has."""
    return [
        {
            "key": key,
            "name": run.name or run.folder.name,
            "folder": str(run.folder),
            "recording": run.is_recording,
        }
        for key, run in found.runs.items()
    ]


def check_rows(found: Living) -> list[Row]:
    """Return a row of each gradient check: reports of the user, and those that widgets show."""
    panels = {name: getattr(host, "check_report", None) for name, host in shown().items()}
    reports = {**found.reports, **{k: r for k, r in panels.items() if r is not None}}
    rows: list[Row] = []
    held: list[Any] = []
    for key, report in reports.items():
        if any(report is other for other in held):
            continue
        held.append(report)
        rows.append(
            {
                "key": key,
                "loss": report.loss,
                "outcome": report.outcome,
                "blame": [str(check.address) for check in report.blame],
            }
        )
    return rows


def curve(trainer: Any, start: int) -> tuple[int, list[float], list[Any]]:
    """Return how many rows a training has, and steps and losses from row ``start`` on, thinned."""
    table = trainer.history.steps
    if not {"step", "loss"} <= set(table):
        return 0, [], []
    read = table.snapshot("step", "loss", start=start)
    steps, losses = read["step"], read["loss"]
    every = max(1, -(-len(steps) // POINTS))
    chosen = slice((len(steps) - 1) % every if len(steps) else 0, None, every)  # the last one stays
    return start + len(steps), steps[chosen].tolist(), list(map(number, losses[chosen].tolist()))


def number(value: float) -> Any:
    """Return a number for JSON, which has no word for NaN and the infinite: they are text.

    >>> number(0.5), number(float("nan")), number(float("-inf"))
    (0.5, 'NaN', '-Infinity')
    """
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

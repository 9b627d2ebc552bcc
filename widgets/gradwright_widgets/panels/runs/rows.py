"""Rows of the table of runs: as the page has them, sorted and filtered as it does."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gradwright.recording.folder import RunSummary
from gradwright.recording.table import RunsComparison
from gradwright.train import Runs

from ...drawing.order import natural
from ..parameters.panel import fits

MOST = 500
"""Runs that a page has, the latest."""
DIFFERENCES = 200
OWN_COLUMNS = ("name", "status", "created", "epochs", "steps", "seconds")


def keyed(runs: Runs) -> dict[str, RunSummary]:
    """Return runs by a key of their own: the id, numbered where a folder was copied."""
    found: dict[str, RunSummary] = {}
    for run in runs:
        key, n = run.id, 2
        while key in found:
            key, n = f"{run.id}#{n}", n + 1
        found[key] = run
    return found


def row_of(key: str, run: RunSummary) -> dict[str, Any]:
    """Return a run as strict JSON: None for NaN, text for infinity."""
    return {
        "key": key,
        "name": run.name,
        "graph": run.graph,
        "status": run.status,
        "created": run.created,
        "epochs": run.epochs,
        "steps": run.steps,
        "seconds": round(run.seconds, 2),
        "tags": list(run.tags),
        "notes": run.notes[:300],
        "metrics": {name: _plain(value) for name, value in run.metrics.items()},
    }


def _plain(value: float) -> Any:
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)


def labels(runs: Mapping[str, RunSummary], chosen: Iterable[str]) -> dict[str, str]:
    """Return names for curves: with the beginning of the id where two are called the same.

    Names that curves of a training have, which are drawn otherwise, get it, too.
    """
    held = [key for key in chosen if key in runs]
    names = [runs[key].name or "unnamed" for key in held]
    taken = {"step", "train", "validation", *(n for n in names if names.count(n) > 1)}
    return {
        key: f"{name} ({key[:6]}{key.partition('#')[2] and key[-2:]})" if name in taken else name
        for key, name in zip(held, names, strict=True)
    }


def shown(rows: Iterable[Mapping[str, Any]], text: str, sort: str) -> list[Mapping[str, Any]]:
    """Return the rows that a filter shows, sorted by ``"name"``, ``"-created"``, ``"loss"`` ...

    A minus sorts downwards; rows without the metric come last.
    """
    kept = [row for row in rows if fits(text, searched(row))]
    column, sign = sort.removeprefix("-"), -1 if sort.startswith("-") else 1
    if column in ("name", "status"):
        return sorted(kept, key=lambda row: natural(str(row[column]).lower()), reverse=sign < 0)

    def place(row: Mapping[str, Any]) -> tuple[bool, float]:
        held = row if column in OWN_COLUMNS else row["metrics"]
        value = float(held[column]) if held.get(column) is not None else math.nan
        return math.isnan(value), 0.0 if math.isnan(value) else sign * value

    return sorted(kept, key=place)


def searched(row: Mapping[str, Any]) -> str:
    """Return the text of a row that a filter looks into."""
    return " ".join([row["name"], row["graph"], row["status"], *row["tags"]])


def differences(runs: Sequence[RunSummary]) -> list[list[str]]:
    """Return settings that are not the same in all runs: name, and the value of each as text.

    What trains comes first; versions, machine and commit last.
    """
    found: dict[str, list[Any]] = {}
    for i, run in enumerate(runs[1:], 1):
        for name, first, other in RunsComparison(runs[0], run).config:
            found.setdefault(name, [first] * len(runs))[i] = other
    ordered = sorted(found, key=lambda name: not name.startswith(("training.", "graph.")))
    named = ((name.removesuffix(".$class"), found[name]) for name in ordered[:DIFFERENCES])
    return [[name, *map(_text, values)] for name, values in named]


def _text(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 400 else text[:399] + "…"

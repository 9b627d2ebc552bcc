"""Runs of a folder, and what each has recorded since a page last asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradwright.errors import GradwrightError
from gradwright.recording.folder import RunFolder, RunSummary, is_run
from gradwright.recording.table import RunsComparison
from gradwright.shared import Bounded

from ...panels.runs.reader import Columns, RunReader
from ..paths import stamp_of
from ..refused import RefusedError
from .asked import Asked, real

MOST = 500
"""Runs of a table, the latest."""
LOOKED = 5000
"""Entries of a folder that may be runs."""
DIFFERENCES = 200
_SUMMARIES = Bounded[RunSummary](2000)
"""Rows of the table by folder and stamp: of a finished run the events are read once."""


def runs(asked: Asked) -> dict[str, Any]:
    """Return the runs right in a folder, or the one that it is; nothing is written."""
    folder, path = asked.file, asked.paths[0]
    if not folder.is_dir():
        raise RefusedError(400, "runs lie in a folder")
    found: list[dict[str, Any]] = []
    problems: list[str] = []
    own = [(folder, path)] if is_run(folder) else _inside(asked, folder, path)
    own.sort(key=lambda item: -item[0].stat().st_mtime)
    for run, at in own[:MOST]:
        try:
            found.append(_row(at, _summary(run)))
        except (GradwrightError, OSError, ValueError, RecursionError) as error:
            problems.append(f"{at}: {asked.told(str(error))}")
    found.sort(key=lambda row: -row["created"])
    metrics = dict.fromkeys(name for row in found for name in row["metrics"])
    return {"columns": list(metrics), "runs": found, "total": len(own), "problems": problems}


def _inside(asked: Asked, folder: Path, path: str) -> list[tuple[Path, str]]:
    """Return the runs that lie right in a folder; those that links lead out to are left out."""
    found = []
    for entry in sorted(folder.iterdir())[:LOOKED]:
        if entry.is_dir() and is_run(entry):
            try:
                asked.check(entry)
            except RefusedError:
                continue
            found.append((entry, f"{path}/{entry.name}" if path else entry.name))
    return found


def _summary(run: Path) -> RunSummary:
    key = run, stamp_of(run)["stamp"]
    found = _SUMMARIES.find(key)
    if found is None:
        found = RunFolder(run).summary()
        _SUMMARIES.keep(key, found)
    return found


def _row(path: str, run: RunSummary) -> dict[str, Any]:
    return {
        "key": run.id,
        "path": path,
        "name": run.name,
        "graph": run.graph,
        "status": run.status,
        "created": run.created,
        "updated": run.updated,
        "epochs": run.epochs,
        "steps": run.steps,
        "seconds": round(run.seconds, 2),
        "tags": list(run.tags),
        "notes": run.notes[:300],
        "metrics": {name: real(value) for name, value in run.metrics.items()},
    }


def curves(asked: Asked) -> dict[str, Any]:
    """Return what a run has recorded since a byte of its events."""
    if not is_run(asked.file):
        raise RefusedError(422, "the folder is that of no run")
    reader = RunReader(str(asked.file), asked.number("since", 0, 1 << 60))
    if not reader.path.exists():  # it has just been begun
        return {"next": 0, "more": False, "cut": None, "steps": {}, "epochs": {}}
    asked.check(reader.path)
    more = reader.read()
    if reader.problem:
        raise RefusedError(422, "its events cannot be read", facts=[reader.problem])
    return {
        "next": reader.offset,
        "more": more and reader.offset < reader.path.stat().st_size,
        "cut": reader.cut,
        "steps": _columns(reader.steps),
        "epochs": _columns(reader.epochs),
    }


def _columns(columns: Columns) -> dict[str, Any]:
    names = ["step", "epoch", "seconds", *columns.metrics] if columns.rows else []
    return {name: list(map(real, columns.get(name).tolist())) for name in names}


def difference(asked: Asked) -> dict[str, Any]:
    """Return the settings that are not the same in all of some runs."""
    for file, path in zip(asked.files, asked.paths, strict=True):
        if not is_run(file):
            raise RefusedError(422, "the folder is that of no run", where=path)
    first, *others = (RunFolder(file) for file in asked.files)
    rows: dict[str, list[Any]] = {}
    for k, other in enumerate(others, 1):
        for name, ours, theirs in RunsComparison(first.summary(), other.summary()).config:
            rows.setdefault(name, [ours] * (1 + len(others)))[k] = theirs
    ordered = sorted(rows, key=lambda name: not name.startswith(("training.", "graph.")))
    return {"rows": [[name, *rows[name]] for name in ordered[:DIFFERENCES]]}

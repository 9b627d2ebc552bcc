"""Forged run folders and rows of their index, beside a good run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradwright as gw
from gradwright.errors import GradwrightError
from gradwright.formats.source import Folder
from gradwright.recording import format as run_format
from gradwright.recording.store import COLUMNS
from tests.forgeries.fields import Case, forgeries, written
from tests.forgeries.forger import Forger, fit, training


class RunFolders(Forger):
    """Two run folders, one of which has a forged file."""

    file = "config.json"

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.store = gw.train.Store(place / "runs")
        for name in ("good", "forged"):
            run = gw.Run(place / "runs" / name, name, store=self.store, tags=["a"])
            fit(training(run), 2)
        self.folder = place / "runs" / "forged"
        self.path = self.folder / self.file
        self.data = self.path.read_bytes()

    def cases(self) -> Iterator[Case]:
        """Yield the wrong configurations."""
        yield from forgeries(json.loads(self.data), written)

    def check(self, forged: Any) -> str:
        """List, show, compare and open the runs, from the index and without it."""
        self.path.write_bytes(forged)
        outcome = "taken"
        for indexed in (True, False):
            if not indexed:
                self.store.path.unlink()
            runs = gw.runs(self.store)
            assert "good" in {r.name for r in runs}, "a bad one hides the other"
            str(runs), runs._repr_html_(), str(runs.sort("created"))
            outcome = "taken" if len(runs) == 2 else "left out"
        for read in (
            lambda: gw.train.RunFolder(self.folder),
            lambda: gw.train.RunFolder(self.folder).config,
            lambda: repr(gw.train.RunFolder(self.folder)),
            lambda: gw.train.RunFolder(self.folder).history,
            lambda: gw.train.RunFolder(self.folder).gradient_watch,
            lambda: gw.runs(self.store).compare(0, 1),
            lambda: run_format.inspect(Folder(self.folder)),
        ):
            try:
                read()
            except (GradwrightError, IndexError):
                outcome = "left out" if outcome == "left out" else "refused"
        return outcome


class Events(RunFolders):
    """What happened in a run."""

    file = "events.jsonl"

    def cases(self) -> Iterator[Case]:
        """Yield files with one wrong line."""
        lines = self.data.split(b"\n")[:-1]
        for n in (0, 1, 2, len(lines) - 1):
            around = lines[:n], [*lines[n + 1 :], b""]

            def made(wrong: Any, around: Any = around) -> bytes:
                return b"\n".join([*around[0], written(wrong), *around[1]])

            for name, make in forgeries(json.loads(lines[n]), made):
                yield f"line {n + 1}: {name}", make


class Rows(RunFolders):
    """The index of runs: a cache, whose rows are made anew where they are wrong."""

    def cases(self) -> Iterator[Case]:
        """Yield columns with wrong values, as SQLite and JSON may hold them."""
        values: list[Any] = [None, 0, -1, 2**62, 0.5, 1e308, "", "x", b"\xff\0", "[" * 2000, "{}"]
        values += ['{"loss": []}', '{"loss": 1e999}', "[1, null]", '{"loss": "low"}', "9" * 5000]
        for column in COLUMNS:
            for value in values:
                row = column, value
                yield f"{column} = {value!r}"[:80], lambda row=row: row  # type: ignore[misc]

    def check(self, forged: Any) -> str:
        """List the runs."""
        column, value = forged
        gw.runs(self.store)
        with sqlite3.connect(self.store.path) as db:
            db.execute(f"UPDATE runs SET {column} = ? WHERE name = 'forged'", (value,))
        db.close()
        runs = gw.runs(self.store)
        assert {r.folder for r in runs} == {
            str(self.place / "runs" / n) for n in ("good", "forged")
        }
        str(runs), runs._repr_html_(), str(runs.sort("created"))
        self.store.path.unlink()
        return "made anew"

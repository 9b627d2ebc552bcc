"""RunFolder: a run as its folder tells it, while it goes on or long after."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..debug.live.points import Alarm, Point, points_of
from ..debug.live.seen import Seen
from ..errors import TrainingError
from ..train.history import History, Record
from .events import number, read

if TYPE_CHECKING:
    import plotly.graph_objects as go

CONFIG, EVENTS, LOCK = "config.json", "events.jsonl", ".lock"


@dataclass(frozen=True)
class RunSummary:
    """One row of the index: what a run is, and how far it has come."""

    id: str
    folder: str
    name: str
    graph: str
    status: str
    """``"running"``, ``"finished"``, ``"stopped"``, ``"failed"``; ``"interrupted"`` where its
    process is gone."""
    created: float
    """Seconds since 1970."""
    updated: float
    steps: int
    epochs: int
    seconds: float
    """Time spent training."""
    tags: tuple[str, ...]
    notes: str
    metrics: Mapping[str, float]
    """Of the last epoch."""
    pid: int = 0
    host: str = ""

    def open(self) -> RunFolder:
        """Return the run itself."""
        return RunFolder(self.folder)


class RunFolder:
    """A run folder, to read: its configuration, its events and its history.

    Raises TrainingError for a folder that is none, and for files that are damaged otherwise than by
    a crash, which may leave the last line of ``events.jsonl`` torn.

    >>> import gradwright as gw, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "run")
    >>> g = gw.Graph("parabola")
    >>> w = g.variable("w", (), init=2.0)
    >>> run = gw.Run(folder, name="first", store=None)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25), callbacks=[run])
    >>> history = trainer.fit([{}], epochs=3, progress=False)
    >>> read = gw.train.RunFolder(folder)
    >>> read.status, read.config["graph"]["name"], read.history.epochs["loss"].tolist()
    ('finished', 'parabola', [4.0, 1.0, 0.25])
    >>> [event["event"] for event in read.events()]
    ['fit_started', 'steps', 'epoch', 'steps', 'epoch', 'steps', 'epoch', 'fit_ended']
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        if not (self.path / CONFIG).is_file():
            raise TrainingError(
                f"{str(path)!r} is no run folder", need=f"a folder with a {CONFIG}, made by gw.Run"
            )

    @property
    def config(self) -> dict[str, Any]:
        """What the training was made of: graph, settings, seeds, versions; of the latest fit."""
        try:
            found = json.loads((self.path / CONFIG).read_text("utf-8"))
        except ValueError as error:
            raise TrainingError(f"{str(self.path / CONFIG)!r} is no JSON: {error}") from None
        if not isinstance(found, dict) or not isinstance(found.get("id"), str):
            raise TrainingError(f"{str(self.path / CONFIG)!r} is no configuration of a run")
        for event in self.events():
            found.update(event.get("config", {}))
        return found

    def events(self) -> list[dict[str, Any]]:
        """Return all events so far, in the order in which they came."""
        return list(read(self.path / EVENTS))

    @property
    def history(self) -> History:
        """Return steps and epochs as training noted them.

        Where a fit went on from an earlier checkpoint, what came after that is as if it had never
        been.
        """
        try:
            return _history(self.events())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TrainingError(
                f"{str(self.path / EVENTS)!r} has an event that is none: {error!r}"
            ) from error

    @property
    def gradient_watch(self) -> Seen | None:
        """What a ``gw.GradientWatch`` saw: points and alarms, a table and a plot; None without.

        Where a fit went on from an earlier checkpoint, what came after that is as if it had never
        been.
        """
        try:
            return _seen(self.events())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TrainingError(
                f"{str(self.path / EVENTS)!r} has an event that is none: {error!r}"
            ) from error

    @property
    def status(self) -> str:
        """How it is, or how the last fit ended."""
        return self.summary().status

    def summary(self) -> RunSummary:
        """Return the row of the index."""
        config, events = self.config, self.events()
        starts = [e for e in events if e["event"] == "fit_started"]
        ends = [e for e in events if e["event"] == "fit_ended"]
        last = starts[-1] if starts else {}
        pid, host = int(last.get("pid", 0)), str(last.get("host", ""))
        status = "running" if len(starts) > len(ends) else "interrupted"
        if ends and events[-1]["event"] == "fit_ended":
            status = str(events[-1].get("outcome"))
        elif not is_alive(pid, host):
            status = "interrupted"
        history = _history(events)
        own = ("step", "epoch", "seconds")
        epochs = history.epochs.last() if history.epochs.rows else {}
        created = float(config.get("created", 0.0))
        return RunSummary(
            id=config["id"],
            folder=str(self.path),
            name=str(config.get("name", "")),
            graph=str(config.get("graph", {}).get("name", "")),
            status=status,
            created=created,
            updated=float(events[-1].get("time", created)) if events else created,
            steps=int(history.steps["step"][-1]) if history.steps.rows else 0,
            epochs=int(history.epochs["epoch"][-1]) if history.epochs.rows else 0,
            seconds=history.seconds,
            tags=tuple(map(str, config.get("tags", ()))),
            notes=str(config.get("notes", "")),
            metrics={k: v for k, v in epochs.items() if k not in own},
            pid=pid,
            host=host,
        )

    def plot(self) -> go.Figure:
        """Return the figure of the history."""
        return self.history.plot()

    def __repr__(self) -> str:
        row = self.summary()
        return (
            f"<RunFolder {row.name!r}: {row.status}, {row.epochs} epochs, {row.steps} steps, "
            f"{str(self.path)!r}>"
        )


def is_alive(pid: int, host: str) -> bool:
    """Tell whether a process may still run; one of another machine may."""
    if not pid:
        return False
    if host != platform.node() or sys.platform == "win32":  # there, a signal 0 would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def when(seconds: float) -> str:
    """Return a time as text."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _seen(events: list[dict[str, Any]]) -> Seen | None:
    points: list[Point] = []
    alarms: list[Alarm] = []
    for event in events:
        match event["event"]:
            case "fit_started":
                done = event["step"]
                points = [p for p in points if p.step <= done]
                alarms = [a for a in alarms if a.step <= done]
            case "gradients":
                points += points_of(event)
            case "gradient_alarm":
                alarms.append(Alarm.from_dict(event))
    return Seen(points, alarms) if points or alarms else None


def _history(events: list[dict[str, Any]]) -> History:
    steps: list[Record] = []
    epochs: list[Record] = []
    for event in events:
        match event["event"]:
            case "fit_started":
                done, epoch = event["step"], event["epoch"]
                steps = [r for r in steps if r.step <= done]
                epochs = [r for r in epochs if r.epoch <= epoch]
            case "steps":
                columns = event["metrics"]
                for i, step in enumerate(event["step"]):
                    metrics = {name: number(column[i]) for name, column in columns.items()}
                    steps.append(Record(step, event["epoch"][i], metrics, event["seconds"][i]))
            case "epoch":
                metrics = {name: number(value) for name, value in event["metrics"].items()}
                epochs.append(Record(event["step"], event["epoch"], metrics, event["seconds"]))
    history = History()
    for record in steps:
        history.add_step(record)
    for record in epochs:
        history.add_epoch(record)
    return history

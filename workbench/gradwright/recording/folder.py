"""RunFolder: a run as its folder tells it, while it goes on or long after."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..debug.live.points import Alarm, Point, points_of
from ..debug.live.seen import Seen
from ..errors import ArchiveError, TrainingError
from ..files.plain import opened
from ..formats.checked import MAX_JSON, check_version, expect, parse_json
from ..train.history import History, Record
from .course import Course, course_of, real, time_of, whole
from .events import number, read

if TYPE_CHECKING:
    import plotly.graph_objects as go

CONFIG, EVENTS, LOCK = "config.json", "events.jsonl", ".lock"
FORMAT = 1
"""Version of run folders; one that states none is of the first."""


@dataclass(frozen=True)
class RunSummary:
    """One row of the index: what a run is, and how far it has come."""

    id: str
    folder: str
    name: str
    graph: str
    status: str
    """``"running"``, ``"finished"``, ``"stopped"``, ``"terminated"``, ``"failed"``;
    ``"interrupted"`` where its process is gone."""
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
        if not is_run(self.path):
            raise TrainingError(
                f"{str(path)!r} is no run folder", need=f"a folder with a {CONFIG}, made by gw.Run"
            )

    @property
    def config(self) -> dict[str, Any]:
        """What the training was made of: graph, settings, seeds, versions; of the latest fit."""
        return self._configuration() | self._course().changes

    def _configuration(self) -> dict[str, Any]:
        """Return what the folder was begun with."""
        path = self.path / CONFIG
        try:
            with opened(path) as file:
                return configuration(file.read(MAX_JSON + 1))
        except OSError as error:
            raise TrainingError(f"{str(path)!r} cannot be read: {error.strerror}") from error
        except ArchiveError as error:
            raise TrainingError(
                f"{str(path)!r} is no configuration of a run: {error.problem}", hint=error.hint
            ) from error

    def _course(self) -> Course:
        return course_of(self.path / EVENTS)

    def events(self) -> list[dict[str, Any]]:
        """Return all events so far, in the order in which they came."""
        return list(read(self.path / EVENTS))

    @property
    def history(self) -> History:
        """Return steps and epochs as training noted them.

        Where a fit went on from an earlier checkpoint, what came after that is as if it had never
        been.
        """
        with self._reading():
            return _history(read(self.path / EVENTS))

    @property
    def gradient_watch(self) -> Seen | None:
        """What a ``gw.GradientWatch`` saw: points and alarms, a table and a plot; None without.

        Where a fit went on from an earlier checkpoint, what came after that is as if it had never
        been.
        """
        with self._reading():
            return _seen(read(self.path / EVENTS))

    @property
    def status(self) -> str:
        """How it is, or how the last fit ended."""
        return self.summary().status

    def summary(self) -> RunSummary:
        """Return the row of the index."""
        config, course = self._configuration(), self._course()
        is_running = course.is_open and is_alive(course.pid, course.host)
        graph = (config | course.changes).get("graph", {})
        created = config.get("created", 0.0)
        return RunSummary(
            id=config["id"],
            folder=str(self.path),
            name=config["name"],
            graph=str(graph.get("name", "")) if isinstance(graph, dict) else "",
            status=course.outcome or ("running" if is_running else "interrupted"),
            created=float(created),
            updated=created if course.updated is None else course.updated,
            steps=course.steps,
            epochs=course.epochs,
            seconds=course.seconds,
            tags=tuple(config.get("tags", ())),
            notes=config.get("notes", ""),
            metrics=course.metrics,
            pid=course.pid,
            host=course.host,
        )

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what goes wrong with an event into an error that names the file."""
        try:
            yield
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise TrainingError(
                f"{str(self.path / EVENTS)!r} has an event that is none: {error!r}"
            ) from error

    def plot(self) -> go.Figure:
        """Return the figure of the history."""
        return self.history.plot()

    def __repr__(self) -> str:
        row = self.summary()
        return (
            f"<RunFolder {row.name!r}: {row.status}, {row.epochs} epochs, {row.steps} steps, "
            f"{str(self.path)!r}>"
        )


def is_run(folder: str | os.PathLike[str]) -> bool:
    """Tell whether a folder has what makes it one of a run; whether that is good is not asked."""
    try:
        return (Path(folder) / CONFIG).exists()
    except (OSError, ValueError):  # a name that is too long, or has a zero
        return False


def configuration(data: bytes) -> dict[str, Any]:
    """Return what ``config.json`` says, as far as runs are listed by it; raises ArchiveError."""
    found = parse_json(data, "")
    check_version(found.get("format", 1), FORMAT)
    for key in ("id", "name"):
        expect(found.get(key), str, key, "")
    expect(found.get("notes", ""), str, "notes", "")
    for tag in expect(found.get("tags", []), list, "tags", ""):
        expect(tag, str, "a tag", "")
    try:
        time_of(found.get("created", 0.0))
    except ValueError as error:
        raise ArchiveError(f"created: {error}") from None
    return found


def is_alive(pid: int, host: str) -> bool:
    """Tell whether a process may still run; one of another machine may."""
    if not 0 < pid < 1 << 31:
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


def _seen(events: Iterable[dict[str, Any]]) -> Seen | None:
    points: list[Point] = []
    alarms: list[Alarm] = []
    for event in events:
        match event["event"]:
            case "fit_started":
                done = whole(event["step"])
                points = [p for p in points if p.step <= done]
                alarms = [a for a in alarms if a.step <= done]
            case "gradients":
                points += points_of(event)
            case "gradient_alarm":
                alarms.append(Alarm.from_dict(event))
    return Seen(points, alarms) if points or alarms else None


def _history(events: Iterable[dict[str, Any]]) -> History:
    steps: list[Record] = []
    epochs: list[Record] = []
    for event in events:
        match event["event"]:
            case "fit_started":
                done, epoch = whole(event["step"]), whole(event["epoch"])
                steps = [r for r in steps if r.step <= done]
                epochs = [r for r in epochs if r.epoch <= epoch]
            case "steps":
                columns = {name: list(map(number, c)) for name, c in event["metrics"].items()}
                places = (event[name] for name in ("step", "epoch", "seconds"))
                for i, (step, of, seconds) in enumerate(zip(*places, strict=True)):
                    metrics = {name: column[i] for name, column in columns.items()}
                    steps.append(Record(whole(step), whole(of), metrics, real(seconds)))
            case "epoch":
                metrics = {name: number(value) for name, value in event["metrics"].items()}
                place = whole(event["step"]), whole(event["epoch"])
                epochs.append(Record(*place, metrics, real(event["seconds"])))
    history = History()
    for record in steps:
        history.add_step(record)
    for record in epochs:
        history.add_epoch(record)
    return history

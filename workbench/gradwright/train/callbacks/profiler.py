"""Profiler: a few steps of a training as a timeline, for Perfetto and chrome://tracing.

The file is in the Trace Event Format: complete events (``"ph": "X"``) with microseconds.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import TrainingError
from ...files.whole import write_text
from ...plan.profile import Profile
from ...session.listeners import Listener, RunEvent
from ...words.tables import Table
from ..history import Record
from ..training import Training
from .base import Callback

STEPS, CALLS = 1, 2
"""The tracks: what the training does, and the calls of its plan."""
CALL = "call"


class Profiler(Callback):
    """Writes what some steps of a training spend their time on, as a Chrome trace.

    Open the file in https://ui.perfetto.dev or chrome://tracing. One track has the runs of the
    trainer's session as they were, a step or a validation each, and between them the waiting for
    data; the other, for each profiled step, all calls of its plan: kernels, products and numpy
    functions. Calls are timed one by one right after the step, on the same batch, with the time
    that this takes cut out of the timeline; nothing is committed, and the numbers of the training
    stay the same, bit for bit. When it is done it costs nothing.

    Args:
        path: the file; written when the last step has been profiled, or the fit ends.
        warmup: steps to let pass first; kernels have been compiled after a few.
        steps: how many steps to profile.
        repeats: how often each call is timed; the shortest counts.

    >>> import gradwright as gw, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "trace.json")
    >>> g = gw.Graph()
    >>> w = g.variable("w", (3,), init=2.0)
    >>> profiler = gw.train.Profiler(path, warmup=2, steps=2)
    >>> trainer = gw.Trainer(g, gw.exp(w, name="e").sum(), callbacks=[profiler])
    >>> history = trainer.fit([{}] * 9, progress=False)
    >>> [event["name"] for event in profiler.events if event.get("cat") == "step"]
    ['step 3', 'step 4']
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        warmup: int = 10,
        steps: int = 3,
        repeats: int = 3,
    ) -> None:
        if warmup < 0 or steps < 1 or repeats < 1:
            raise TrainingError(
                f"warmup={warmup}, steps={steps}, repeats={repeats} make no sense",
                need="warmup >= 0; steps >= 1; repeats >= 1",
            )
        self.path = Path(path)
        self.warmup, self.steps, self.repeats = warmup, steps, repeats
        self.events: list[dict[str, Any]] = []
        """What the file holds."""
        self._left = warmup + steps
        self._watch: _Watch | None = None

    def on_fit_start(self, trainer: Training) -> None:
        """Listen to the trainer's session, unless all is done."""
        if self._left:
            self._watch = _Watch(trainer, self)
            trainer.session.listeners.append(self._watch)

    def on_step_end(self, trainer: Training, record: Record) -> None:
        """Count the step; after the last one write the file."""
        if self._watch is not None:
            self._left -= 1
            if not self._left:
                self._finish(trainer)

    def on_fit_end(self, trainer: Training) -> None:
        """Write what there is."""
        if self._watch is not None:
            self._finish(trainer)

    def _finish(self, trainer: Training) -> None:
        if self._watch in trainer.session.listeners:
            trainer.session.listeners.remove(self._watch)
        self._watch = None
        if not self.events:
            warnings.warn(
                f"the fit ended in the warm-up of {self.warmup} steps, so {str(self.path)!r} is "
                "not written; the next fit goes on with it, or Profiler(warmup=...)",
                stacklevel=2,
            )
            return
        named = [
            _name("process_name", 0, f"gradwright: {trainer.graph.name}"),
            _name("thread_name", STEPS, "training"),
            _name("thread_name", CALLS, "calls of the plan"),
        ]
        text = json.dumps({"traceEvents": [*named, *self.events], "displayTimeUnit": "ms"})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, text)

    @property
    def is_due(self) -> bool:
        """Whether the next step is one of those to profile."""
        return 0 < self._left <= self.steps

    def __repr__(self) -> str:
        state = f"{self._left} steps to go" if self._left else "done"
        return f"<Profiler to {str(self.path)!r}: {state}>"


class _Watch(Listener):
    """Times the runs of a session, and has the calls of their plan timed."""

    def __init__(self, trainer: Training, profiler: Profiler) -> None:
        self._session, self._profiler = trainer.session, profiler
        self._zero = self._ended = self._began = time.perf_counter()
        self._feeds: Mapping[Any, Any] = {}

    def run_started(self, event: RunEvent) -> None:
        self._began, self._feeds = time.perf_counter(), event.feeds

    def run_finished(self, event: RunEvent) -> None:
        ended, profiler = time.perf_counter(), self._profiler
        if profiler.is_due:
            what, cat = (f"step {event.step + 1}", "step") if event.training else ("validate", "")
            data = self._event("data", "data", self._ended, self._began)
            run = self._event(what, cat or "validation", self._began, ended)
            profiler.events += [data, run]
            if event.training:
                profiler.events += self._calls(run)
        # Not what the profiling took: the timeline goes on as if it had not been.
        spent = time.perf_counter() - ended
        self._zero += spent
        self._ended = ended + spent

    def _event(self, name: str, cat: str, began: float, ended: float) -> dict[str, Any]:
        return _complete(name, cat, STEPS, (began - self._zero) * 1e6, (ended - began) * 1e6)

    def _calls(self, run: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the calls of the plan that ran, laid end to end from the start of the run."""
        plan = self._session.plans[-1]
        profile: Profile = plan.profile(
            self._feeds, self._session.values, repeats=self._profiler.repeats
        )
        found, at = [], run["ts"]
        for timed in profile:
            row = timed.row
            facts = {"ops": " ".join(row.ops), "runs as": row.what, "rate": timed.rate}
            event = _complete(row.node, CALL, CALLS, at, timed.seconds * 1e6)
            found.append(event | {"args": {"run": run["name"], **facts}})
            at += timed.seconds * 1e6
        return found


def _complete(name: str, cat: str, track: int, start: float, duration: float) -> dict[str, Any]:
    return {
        "name": name,
        "cat": cat,
        "ph": "X",
        "ts": round(start, 3),
        "dur": round(duration, 3),
        "pid": os.getpid(),
        "tid": track,
        "args": {},
    }


def _name(what: str, track: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": os.getpid(), "tid": track, "args": {"name": name}}


def compare_profiles(
    first: Profiler | str | os.PathLike[str], second: Profiler | str | os.PathLike[str]
) -> Table:
    """Return a table of the mean time of each call in two profiles, the greatest difference first.

    Both are profilers, or files that they wrote. Raises TrainingError for files that are none.

    >>> import gradwright as gw, tempfile, pathlib
    >>> def profiled(n):
    ...     path = pathlib.Path(tempfile.mkdtemp(), "trace.json")
    ...     g = gw.Graph()
    ...     loss = gw.exp(g.variable("w", (n,)), name="e").sum()
    ...     trainer = gw.Trainer(g, loss, callbacks=[gw.train.Profiler(path, warmup=0, steps=1)])
    ...     trainer.fit([{}], progress=False)
    ...     return path
    >>> print(gw.train.compare_profiles(profiled(10), profiled(1000)).columns)
    ['call', 'first µs', 'second µs', 'difference', 'ratio']
    """
    tables = [_means(profile) for profile in (first, second)]
    one, two = tables
    names = list(dict.fromkeys([*one, *two]))
    names.sort(key=lambda name: -abs(two.get(name, 0.0) - one.get(name, 0.0)))
    rows = []
    for name in names:
        a, b = one.get(name), two.get(name)
        change = "" if a is None or b is None else f"{b - a:+.1f}"
        ratio = "" if not a or b is None else f"{b / a:.2f}"
        rows.append([name, *("" if x is None else f"{x:.1f}" for x in (a, b)), change, ratio])
    sums = [sum(table.values()) for table in tables]
    return Table(
        ["call", "first µs", "second µs", "difference", "ratio"],
        rows,
        title=f"calls of a step: {sums[0]:,.1f} µs and {sums[1]:,.1f} µs",
    )


def _means(profile: Profiler | str | os.PathLike[str]) -> dict[str, float]:
    """Return the mean microseconds that each call takes in a step; equal names are added up."""
    if isinstance(profile, Profiler):
        events = profile.events
    else:
        try:
            events = json.loads(Path(profile).read_text(encoding="utf-8"))["traceEvents"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TrainingError(
                f"{os.fspath(profile)!r} is no profile: {error}", need="a file of gw.train.Profiler"
            ) from None
    steps = sum(event.get("cat") == "step" for event in events)
    found: dict[str, float] = {}
    for event in events:
        if event.get("cat") == CALL:
            found[event["name"]] = found.get(event["name"], 0.0) + event["dur"] / steps
    return found

"""Gradients watched while training goes on: a strip of their errors, and alarms in words."""

from __future__ import annotations

from typing import Any

import traitlets

from gradwright import GradientWatch
from gradwright.debug import Alarm

from ...drawing.buffers import float64, int32
from ...host.desk import GraphDesk
from ...host.panel import Panel
from ...host.part import checks, handles, shared, watches
from ...host.wire import Message

PER_SECOND = 3
VERDICTS = ("ok", "kink", "unclear", "surrogate", "fail")
"""As a page numbers them, from best to worst."""


class WatchPanel(Panel):
    """The check that goes on beside a training.

    A ``GradientWatch`` that the trainer has already is shown; else the switch adds one.
    """

    name = "watch"
    desk: GraphDesk
    public = ("gradient_watch",)

    watch_on = shared(
        traitlets.Bool(False, help="Whether gradients are checked while the trainer trains.")
    )
    watch_pause = shared(
        traitlets.Bool(False, help="Whether the training pauses at an error above noise.")
    )
    watch_state = shared(
        traitlets.Enum(
            ("", "idle", "watching", "alarm"), "", help="What the watch does; without trainer ''."
        )
    )

    def __init__(self, desk: GraphDesk) -> None:
        super().__init__(desk)
        self._watch: GradientWatch | None = None
        self._pace = self.widget.paced(self._send, PER_SECOND)
        self._alarms = 0

    def begin(self) -> None:
        """Show the watch that the trainer has, if it has one."""
        if self.desk.trainer is None:
            return
        self.watch_state = "idle"
        held = (c for c in self.desk.trainer.callbacks if isinstance(c, GradientWatch))
        if (found := next(held, None)) is not None:
            self._take(found)
            self.watch_on = True

    @property
    def gradient_watch(self) -> GradientWatch | None:
        """The watch that is shown, or None."""
        return self._watch

    # -- the switches ----------------------------------------------------------------------------

    @checks("watch_on", "watch_pause")
    def _check_on(self, on: bool) -> bool:
        if on:
            self.desk.controlled()
        return on

    @watches("watch_on")
    def _on_switch(self) -> None:
        self.desk.commands.submit(self._switch)

    def _switch(self) -> None:
        trainer = self.desk.controlled()
        if self._watch is None:
            self._take(GradientWatch(on_alarm=lambda _: None))  # the strip tells of it
        watch = self._watch
        assert watch is not None
        held = watch in trainer.callbacks
        if self.watch_on and not held:
            trainer.add_callback(watch)
        elif not self.watch_on and held:
            trainer.remove_callback(watch)
        self._show()

    def _take(self, watch: GradientWatch) -> None:
        self._watch = watch
        watch.listen(lambda _: self._show())
        self._on_pause_switch()
        self._show()

    @watches("watch_pause")
    def _on_pause_switch(self) -> None:
        if self._watch is not None and (self.watch_pause or self._watch.on_alarm == self._stop):
            self._watch.on_alarm = self._stop if self.watch_pause else None

    def _stop(self, _: Alarm) -> None:
        self.desk.controlled().pause()

    # -- what it has seen ------------------------------------------------------------------------

    def _show(self) -> None:
        """Light what is at fault, and have the strip drawn; called between two steps."""
        watch = self._watch
        assert watch is not None
        self.watch_state = watch.state if self.watch_on else "idle"
        alarms = watch.alarms
        if len(alarms) != self._alarms:
            self._alarms = len(alarms)
            names = dict.fromkeys(name for alarm in alarms for name in lit(alarm))
            self.desk.tell("watched", names=list(names))
        self.when_shown(self._pace.request)

    def training_ended(self) -> None:
        """Show the last of it."""
        self._pace.flush()

    @handles("sync")
    def _on_sync(self, _: Any) -> None:
        for message in self.new_view_messages():
            self.widget.send(*message)

    def _send(self) -> None:
        for message in self.new_view_messages():
            self.widget.send(*message)

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return the strip and the alarms."""
        return [] if self._watch is None else [watch_message(self._watch)]


def lit(alarm: Alarm) -> tuple[str, ...]:
    """Return what an alarm lights in a drawing: the place it names, or the nodes that hold it."""
    return (alarm.address,) if ":" in alarm.address else alarm.nodes


def watch_message(watch: GradientWatch) -> Message:
    """Return what a watch has seen: a point for each look, and every alarm in words."""
    points, cost, worst = watch.points, watch.cost, watch.worst
    names = {name: k for k, name in enumerate(dict.fromkeys(p.name for p in points))}
    facts = {
        "kind": "watch.points",
        "names": list(names),
        "kinds": [p.kind for p in points],
        "worst": None if worst is None else worst.name,
        "alarms": [
            {**alarm.to_dict(), "nodes": list(lit(alarm))} for alarm in watch.alarms
        ],
        "share": cost.share,
        "rounds": cost.rounds,
        "looks": cost.nodes + cost.elements,
    }  # fmt: skip
    verdicts = memoryview(bytes(VERDICTS.index(p.verdict) for p in points))
    columns = [float64([getattr(p, fact) for p in points]) for fact in ("step", "error", "noise")]
    return facts, [*columns, verdicts, int32([names[p.name] for p in points])]

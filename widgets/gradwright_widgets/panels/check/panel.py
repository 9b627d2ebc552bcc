"""Gradients beside finite differences: checked in the background, shown while it goes on."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from types import EllipsisType
from typing import Any

import traitlets

from gradwright import Graph, Tensor, gradient_check
from gradwright.debug import LossCurve, Report
from gradwright.errors import GradwrightError, GraphError

from ...host.desk import GraphDesk, feeds_text
from ...host.host import Host
from ...host.insides import is_called
from ...host.panel import Panel
from ...host.part import handles, member_of, shared, watches
from ...host.typed import whole_numbers
from ...host.wire import Message
from .chosen import chosen_name, chosen_tensors
from .rows import (
    CheckProgress,
    curve_message,
    map_message,
    node_errors,
    planned_row,
    worst_elements,
)
from .watch import WatchPanel

PER_SECOND = 10
SAVED_CURVES = 20
_OVERLAY = "gradient error"
_MOST_CURVES = 64  # kept for pages that open later, 4 kB each


class CheckPanel(Panel):
    """The gradient check.

    Args:
        desk: where graph, loss and example are found.
        report: a finished check to show.
    """

    name = "check"
    desk: GraphDesk

    blamed = shared(
        traitlets.List(
            traitlets.Unicode(),
            help="Nodes whose gradient was found wrong, by address inside of others.",
        )
    )
    check_state = shared(
        traitlets.Enum(
            ("", "running", "done", "stopped", "failed"), "", help="How far the check is."
        )
    )
    check_limit = shared(
        traitlets.Int(
            20, min=0, allow_none=True, help="Elements checked of each parameter; None for all."
        )
    )
    check_which = shared(
        traitlets.Enum(("trainable", "selected"), "trainable", help="Which parameters are checked.")
    )
    check_training = shared(
        traitlets.Bool(False, help="Whether dropout, batch norm and the like run as in training.")
    )
    check_overlay = shared(
        traitlets.Bool(False, help="Whether the drawing is coloured by the errors of its nodes.")
    )
    check_focus = shared(
        traitlets.Dict(
            help="What is looked at: name of a parameter, and index and part of an element."
        )
    )
    check_hint = shared(
        traitlets.Unicode("", help="What a check still needs, if anything."), late=True
    )

    def __init__(self, desk: GraphDesk, *, report: Report | None = None) -> None:
        super().__init__(desk)
        self._first = report
        self._check = CheckProgress()
        self._check_lock = threading.RLock()
        self._check_pace = self.widget.paced(self._send_check, PER_SECOND)
        self._check_work = self.widget.background("the gradient check")
        self._check_curve_work = self.widget.background("the loss curve")
        self._check_curves: dict[str, LossCurve] = {}
        self._at_fault: list[str] = []
        self._watched: list[str] = []
        desk.on("watched", self._on_watched)

    def begin(self) -> None:
        """Say what a check needs, or show the one that is given."""
        self._say_what_is_missing()
        if self._first is not None:
            self.check_report, self._first = self._first, None

    # -- checking --------------------------------------------------------------------------------

    def check(
        self,
        wrt: Sequence[Tensor | str] | None = None,
        max_per_param: int | EllipsisType | None = ...,
        training: bool | None = None,
        wait: bool = False,
    ) -> Report | None:
        """Check the gradients in the background, on the values of this moment.

        Args:
            wrt: parameters, placeholders or activations, or scopes with a slash behind; default
                what ``check_which`` says.
            max_per_param: elements of each, None for all, 0 for nothing but the ops; default
                ``check_limit``.
            training: mode of the run; default ``check_training``.
            wait: return the report when it is done, and raise what went wrong.

        Raises:
            GraphError: there is no loss or nothing to run on, or ``wrt`` names nothing.
            GradwrightError: a check runs already.
        """
        loss, feeds = self.desk.loss_tensor(), self.desk.example_feeds()
        if wrt is None and self.check_which == "selected":
            wrt = [chosen_name(self.desk.selected)]
        chosen = self.desk.trained(loss) if wrt is None else chosen_tensors(self.desk.graph, wrt)
        mode = self.check_training if training is None else training
        limit = self.check_limit if max_per_param is ... else max_per_param
        found = CheckProgress(feeds=feeds_text(feeds), training=mode)
        found.planned = [planned_row(t) for t in chosen]
        options: dict[str, Any] = {
            "wrt": chosen, "max_per_param": limit, "training": mode,
            "values": self.desk.values.snapshot(),
        }  # fmt: skip

        def progress(done: int, total: int, name: str) -> None:
            found.done, found.total, found.name = done, total, name
            self.when_shown(self._check_pace.request)

        def task(stop: threading.Event) -> None:
            try:
                report = gradient_check(
                    self.desk.graph, loss, feeds, **options,
                    progress=progress, should_stop=stop, watch=found.watch,
                )  # fmt: skip
            except Exception as error:
                found.error = error
                self._end_check("failed")
                if not isinstance(error, GradwrightError):
                    raise
            else:
                self._end_check("stopped" if report.stopped else "done")

        with self._check_lock:
            if self._check_work.busy:
                raise GradwrightError("a gradient check is running already", hint="stop it first")
            self.check_limit, self.check_training = limit, mode
            found.run = self._check.run + 1
            self._begin_check(found)
            self._check_work.start(task)
        if not wait:
            return None
        self._check_work.join()
        if found.error is not None:
            raise found.error
        return found.report

    def stop_check(self) -> None:
        """End the check; what it has found so far stays."""
        self._check_work.stop()

    @property
    def check_report(self) -> Report | None:
        """The last check, also while it runs; set it to show another one."""
        with self._check_lock:
            return None if self._check.report is None else self._check.report.copy()

    @check_report.setter
    def check_report(self, report: Report | None) -> None:
        if self._check_work.busy:
            raise GradwrightError("a gradient check is running", hint="stop it first")
        at = None if report is None else report.occasion
        found = CheckProgress(self._check.run + 1)
        if at is not None:
            found.feeds, found.training = feeds_text(at.feeds), at.training
        found.report = report
        self._begin_check(found)
        self._end_check("" if report is None else "stopped" if report.stopped else "done")

    def _begin_check(self, found: CheckProgress) -> None:
        with self._check_lock:
            self._check = found
            self._check_curves.clear()
        with self.widget.hold_sync():
            self.check_state = "running"
            self._at_fault = []
            self._light()
            self.check_focus, self.check_overlay = {}, False
        self.when_shown(self._check_pace.request)

    def _end_check(self, state: str) -> None:
        with self._check_lock:
            self._check.seconds = time.monotonic() - self._check.began
        faults = [] if self._check.report is None else self._check.report.faults
        self._check_pace.flush()
        self.when_shown(self._send_check)
        with self.widget.hold_sync():
            self.check_state = state
            self._at_fault = [str(n.address) for n in faults]
            self._light()
            self.check_overlay = bool(self.blamed)

    # -- single elements -------------------------------------------------------------------------

    def check_curve(
        self, parameter: str, index: int | Sequence[int] = (), *, part: str = "real"
    ) -> LossCurve:
        """Return the loss along one element at the values of the check, and show it.

        Raises GradientError if there is no such element, GraphError if nothing was checked.
        """
        report = self._check.report
        if report is None:
            raise GraphError("nothing has been checked yet", hint="panel.check()")
        key = _key(parameter, index, part)
        found = self._check_curves.get(key)
        if found is None:
            found = report.curve(parameter, index, part=part)
            with self._check_lock:
                while len(self._check_curves) >= _MOST_CURVES:
                    del self._check_curves[next(iter(self._check_curves))]
                self._check_curves[key] = found
        self.widget.send(*curve_message(self._check.run, found))
        self.check_focus = {"name": parameter, "index": list(found.check.index or ()), "part": part}
        return found

    # -- what the page asks for ------------------------------------------------------------------

    @handles("start")
    def _on_check_start(self, _: Any) -> None:
        self.check()

    @handles("stop")
    def _on_check_stop(self, _: Any) -> None:
        self.stop_check()

    @handles("map")
    def _on_check_map(self, content: dict[str, Any]) -> None:
        report = self._check.report
        found = None if report is None else report.parameters.get(str(content.get("name")))
        if found is not None:
            self.widget.send(*map_message(self._check.run, found))

    @handles("curve")
    def _on_check_curve(self, content: dict[str, Any]) -> None:
        index = whole_numbers(content.get("index", []))
        name, part = str(content.get("name")), str(content.get("part", "real"))
        self._check_curve_work.join(10)  # a double click asks twice
        self._check_curve_work.start(
            lambda stop: self.widget.guarded(lambda: self.check_curve(name, index, part=part))
        )

    @handles("sync")
    def _on_check_sync(self, _: Any) -> None:
        for message in self._check_messages():
            self.widget.send(*message)

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return all rows; for a page without kernel also all maps and the worst curves."""
        report = self.check_report
        if not whole or report is None:
            return self._check_messages()
        if report.occasion is not None:
            for name, index, part in worst_elements(report, SAVED_CURVES):
                key = _key(name, index, part)
                if key not in self._check_curves:
                    with contextlib.suppress(GradwrightError):  # the graph has it no more
                        self._check_curves[key] = report.curve(name, index, part=part)
        rows, *curves = self._check_messages()
        maps = [map_message(self._check.run, p) for p in report.parameters.values()]
        return [rows, *maps, *curves]

    def _check_messages(self) -> list[Message]:
        with self._check_lock:
            found = [self._check.message(everything=True)]
        return found + [
            curve_message(self._check.run, c) for c in list(self._check_curves.values())
        ]

    def _send_check(self) -> None:
        with self._check_lock:  # rows of two threads must leave in their order
            self.widget.send(*self._check.message(everything=False))

    # -- the drawing, the graph ------------------------------------------------------------------

    @watches("check_overlay")
    def _on_check_overlay(self) -> None:
        report, errors = self._check.report, None
        if self.check_overlay and report is not None:
            known = node_errors(report).items()
            errors = {name: error for name, error in known if is_called(self.desk.graph, name)}
        self.desk.tell("overlay", title=_OVERLAY, values=errors, scale="log")

    def _check_missing(self) -> str:
        """Say what a check still needs; what a function of feeds gives is not asked for."""
        try:
            loss = self.desk.loss_tensor()
            if loss.shape:
                raise GraphError(
                    f"{loss.name!r} is {loss.spec}, and only a single number has gradients",
                    hint=f"loss = g[{loss.name!r}].sum(name='loss'), and loss=loss here",
                )
            if not self.desk.makes_feeds:
                self.desk.example_feeds()
        except GraphError as error:
            return str(error)
        return ""

    def refresh(self) -> None:
        """Say whether a check has what it needs by now."""
        self.when_shown(self._say_what_is_missing)
        self._light()

    def _light(self) -> None:
        """Light what the last check or the watch found at fault, as far as it is there."""
        found = dict.fromkeys([*self._at_fault, *self._watched])
        self.blamed = [name for name in found if is_called(self.desk.graph, name)]

    def _on_watched(self, names: Sequence[str]) -> None:
        self._watched = list(names)
        self._light()

    def step_ended(self, record: Any) -> None:
        """After the first step there is an example to check."""
        self.when_shown(self._after_step)

    def _after_step(self) -> None:
        if self.check_hint:
            self._say_what_is_missing()

    def _say_what_is_missing(self) -> None:
        self.check_hint = self._check_missing()

    # -- views that last -------------------------------------------------------------------------

    def to_table(self) -> str:
        """Return the parameters of the last check as an HTML table."""
        report = self.check_report
        return "" if report is None else report.table()._repr_html_()


class GradCheckPanel(Host):
    """Checks the gradients of a graph while it trains, and says in words what it found.

    The check runs in the background on a snapshot of the values. A parameter opens as a map of the
    errors of its elements, an element as the loss along it. With a ``report`` the panel shows a
    check that has been.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", init=[1.0, -2.0])
    >>> loss = gw.square(w).sum(name="loss")
    >>> panel = GradCheckPanel(g, loss=loss)
    >>> panel.check(wait=True)
    <gradient check of 'loss' passed: 2 elements of 1 parameter, 2 nodes>
    >>> panel.blamed, panel.curve("w", 1).analytic
    ([], -4.0)
    """

    module = "gradcheck_panel"
    panels = (CheckPanel, WatchPanel)
    stop = member_of(CheckPanel, "stop_check")
    report = member_of(CheckPanel, "check_report")
    curve = member_of(CheckPanel, "check_curve")
    height = traitlets.Int(600, min=320, max=4000, help="Height in pixels.").tag(sync=True)

    def __init__(
        self, graph: Graph, trainer: Any = None, *, report: Report | None = None, **options: Any
    ) -> None:
        super().__init__(graph, trainer, report=report, **options)


def _key(name: str, index: int | Sequence[int], part: str) -> str:
    at = (index,) if isinstance(index, int) else tuple(index)
    return repr((name, at, part))

"""Colours that something has to run for, measured when they are chosen."""

from __future__ import annotations

import threading
from typing import Any

import traitlets

from gradwright.errors import GradwrightError, GraphError

from ...drawing.buffers import float64
from ...drawing.nodes import drawn_nodes
from ...host.desk import GraphDesk
from ...host.panel import Panel
from ...host.part import handles, shared, watches
from .measure import MEASURES, Measured, numbers


class ColorPanel(Panel):
    """What ``color_by`` shows of time, devices, gradients and values."""

    name = "colors"
    desk: GraphDesk

    measured = shared(
        traitlets.Dict(
            help="What was measured for `color_by`: `by`, title, unit, scale, how scopes `join`"
            " theirs, `kinds`, and values as the buffer of an f64[nodes] array; `busy` while it"
            " is, `problem` where it cannot be."
        )
    )

    def __init__(self, desk: GraphDesk) -> None:
        super().__init__(desk)
        self._work = self.widget.background("the measurement of colours")
        self._revision = -1
        self._found: Measured | None = None

    def begin(self) -> None:
        """Measure what a widget is made with."""
        self._on_color_by()

    @watches("color_by")
    def _on_color_by(self) -> None:
        by = self.widget.color_by
        if by in MEASURES and self.measured.get("by") != by:
            self.measure(by)

    def measure(self, by: str, *, wait: bool = False) -> None:
        """Measure a colour of the drawing anew, in the background: ``"time"``, ``"gradient"``.

        It runs on the example and the values of this moment, as the stepper and the check do.

        >>> import gradwright as gw
        >>> from gradwright_widgets import GraphView
        >>> g = gw.Graph()
        >>> w = g.variable("w", (2,), init=[3.0, 4.0])
        >>> view = GraphView(g, loss=(w * w).sum(name="loss"), feeds={})
        >>> view.measure("gradient", wait=True)
        >>> view.color_by, view.measured["title"]
        ('gradient', 'gradient norm')

        Raises:
            GraphError: that is nothing to measure.
            GradwrightError: another measurement runs; with ``wait``, it failed.
        """
        if by not in MEASURES:
            raise GraphError(f"{by!r} is not measured", need=f"one of {', '.join(MEASURES)}")
        failure: list[GradwrightError] = []

        def task(_: threading.Event) -> None:
            gradients = bool(getattr(self.widget, "gradients", False))
            revision = self.desk.graph.revision
            try:
                found = MEASURES[by](self.desk, gradients=gradients)
            except GradwrightError as error:
                self.measured = {"by": by, "problem": str(error).splitlines()[0]}
                failure.append(error)
                raise
            self._found, self._revision = found, revision
            self.measured = self._told(by, found)

        self._work.join(0.1)  # a quick choice after another
        if self._work.busy:
            raise GradwrightError("another colour is being measured", hint="choose it again")
        self.measured = {"by": by, "busy": True}
        self.widget.color_by = by
        self._work.start(task)
        if wait:
            self._work.join()
            if failure:
                raise failure[0]

    def _told(self, by: str, found: Measured) -> dict[str, Any]:
        gradients = bool(getattr(self.widget, "gradients", False))
        nodes = drawn_nodes(self.desk.graph, gradients=gradients)
        return {
            "by": by,
            "title": found.title,
            "unit": found.unit,
            "scale": found.scale,
            "join": found.join,
            "kinds": found.kinds,
            "values": float64(numbers(found, nodes)),
        }

    @handles("measure")
    def _on_measure(self, content: dict[str, Any]) -> None:
        self.measure(str(content.get("by")))

    def refresh(self) -> None:
        """Fit what was measured to the nodes that are drawn now; a changed graph begins anew."""
        by = self.measured.get("by")
        if by is None or self._found is None:
            return
        if self._revision != self.desk.graph.revision:
            self._found, self.measured = None, {}
            if self.widget.color_by == by:
                self.measure(by)
        else:
            self.measured = self._told(by, self._found)

"""Views that the side panel shows: widgets of its own, or those of the notebook, that stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradwright.errors import GradwrightError

from ..host.cells import apart
from ..panels.check.panel import GradCheckPanel
from ..panels.graph.panel import GraphView
from ..panels.parameters.panel import ParameterTable
from ..panels.plot.panel import LivePlot
from ..panels.runs.panel import RunComparison
from ..panels.stepper.panel import StepperPanel
from ..panels.training.panel import TrainerPanel
from .living import Living, hosts

KEPT = (
    *("expanded", "height", "minimap", "color_by", "smoothing", "log_scale", "runs_chosen"),
    *("text_prompt", "text_mode", "text_length", "text_temperature", "text_seed"),
)
"""Traits that go over to the view of an object that has taken the place of another."""
_OF = {
    "graph": "graphs",
    "parameters": "graphs",
    "text": "graphs",
    "training": "trainers",
    "curves": "trainers",
    "stepper": "steppers",
    "check": "reports",
    "runs": "runs",
}
"""View -> the kind of thing that it shows."""


@dataclass
class Pin:
    """A view in the panel; ``subject`` is what it shows, None for a widget of the notebook."""

    view: str
    key: str
    widget: Any
    subject: Any = None

    @property
    def title(self) -> str:
        """What it is about."""
        return str(self.widget._title())

    def renew(self, found: Living, own: set[str]) -> bool:
        """Take what has the name now in the place of what had it; tell whether it was another.

        ``own`` are the models of the panel's widgets, which no cell has made.
        """
        if self.subject is None:
            return self._renew_found(own)
        now = _subject(found, self.view, self.key)
        if now is None or now is self.subject:
            return False
        before = self.widget
        made = show(found, self.view, self.key)
        for name in KEPT:
            if before.has_trait(name) and made.widget.has_trait(name):
                made.widget.guarded(lambda n=name: setattr(made.widget, n, getattr(before, n)))
        self.widget, self.subject = made.widget, made.subject
        before.close()
        return True

    def _renew_found(self, own: set[str]) -> bool:
        """Go over to the widget that the cell has made anew."""
        if self.widget.comm is not None:
            return False
        named = [w for w in hosts() if (type(w).__name__, w._title()) == (self.view, self.key)]
        same = [widget for widget in named if widget.model_id not in own]
        if same:
            self.widget = same[-1]
        return bool(same)


def show(found: Living, view: str, key: str) -> Pin:
    """Return a new view of what has a name; raises GradwrightError where nothing has."""
    subject = _subject(found, view, key)
    if subject is None:
        raise GradwrightError(f"there is no {key!r} any more", hint="run its cell again")
    with apart():
        return Pin(view, key, _made(found, view, subject), subject)


def pinned(model: str) -> Pin:
    """Return a widget of the notebook, by its model, as a view."""
    for widget in hosts():
        if widget.model_id == model:
            return Pin(type(widget).__name__, widget._title(), widget)
    raise GradwrightError("this view is none of gradwright's, or its kernel was restarted")


def _subject(found: Living, view: str, key: str) -> Any:
    subject = getattr(found, _OF.get(view, "graphs")).get(key)
    if view == "text":  # the model that the graph is of
        return next((m for m in found.writers.values() if m.graph is subject), None)
    return subject


def _made(found: Living, view: str, subject: Any) -> Any:
    """Return a widget; one of a graph has the trainer of the graph, so that it follows it."""
    if view in ("graph", "parameters"):
        trainers = [t for t in found.trainers.values() if t.graph is subject]
        kind = GraphView if view == "graph" else ParameterTable
        return kind(subject, trainers[-1] if trainers else None)
    if view == "training":
        return TrainerPanel(subject, **_data_of(subject))
    if view == "curves":
        return LivePlot(subject)
    if view == "text":
        from ..panels.text.panel import TextPanel  # with the models, which few notebooks have

        return TextPanel(subject)
    if view == "check":
        return GradCheckPanel(subject.occasion.graph, report=subject)
    if view == "runs":
        return RunComparison(subject.store or subject.folder.parent)
    return StepperPanel(subject.graph)


def _data_of(trainer: Any) -> dict[str, Any]:
    """Return what the start button of another widget trains on, if there is one."""
    for widget in reversed(hosts()):
        data, validation = getattr(widget, "training_data", (None, None))
        if widget.trainer is trainer and data is not None:
            return {"data": data, "validation": validation}
    return {}

"""What widgets show: their still pictures and tables, and what a saved page holds of them.

A page carries the module that draws it, so one that was saved goes on to open whatever becomes of
ours. What is recorded here is what today's widgets tell theirs: traits, and the first messages.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from unittest import mock

import gradwright as gw
import gradwright_widgets as widgets
from tests.house.models import classifier, cross_entropy, loops, normal, rows
from tests.house.trainings import settings

HELD = re.compile(r'(?<=id="saved">)(.*?)(?=</script>)', re.DOTALL)
"""State and messages in the text of a page."""
SHORT = 80
"""Letters of a value that is recorded as it is; of longer ones, the hash."""


def record() -> dict[str, Any] | None:
    """Return of each widget its still views, and state and messages of its page.

    The clock stands still, so that no time that was measured is among what is shown. In a checkout
    whose bundles were not built there are no widgets, and None is returned.
    """
    with ExitStack() as still:
        for clock in ("time", "monotonic", "perf_counter"):
            still.enter_context(mock.patch.object(time, clock, lambda: 1e9))
        try:
            return {name: _shown(widget) for name, widget in scenes()}
        except FileNotFoundError as error:
            print(f"views are left out: {error}")
            return None


def _shown(widget: Any) -> dict[str, Any]:
    held = json.loads(HELD.search(widget.to_html())[1])
    stills = {k: _short(getattr(widget, k)()) for k in ("to_svg", "to_table") if hasattr(widget, k)}
    data, _ = widget._repr_mimebundle_()
    found = {
        "state": {k: _short(v) for k, v in sorted(held["state"].items())},
        "messages": [
            {k: _short(v) for k, v in sorted(m["content"].items())}
            | {"buffers": _short(m["buffers"])}
            for m in held["messages"]
        ],
        "mime": sorted(data),
    }
    widget.close()
    return found | stills


def _short(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= SHORT else hashlib.sha256(text.encode()).hexdigest()[:24]


def scenes() -> Iterator[tuple[str, Any]]:
    """Yield each widget on a network that has been trained, by a name."""
    g, t, logits = classifier()
    loss, data = cross_entropy(t, logits), rows()
    feeds = {k: v[:8] for k, v in data.items()}
    trainer = gw.Trainer(g, loss, gw.optim.Adam(0.01), ema=gw.EMA(0.9), **settings())
    trainer.fit(data, epochs=2, batch_size=8, validation=0.25, progress=False)
    report = gw.gradient_check(g, loss, feeds)
    yield "GraphView", widgets.GraphView(g, expanded=["hidden"])
    yield "GraphView of loops", widgets.GraphView(loops()[0].graph)
    yield "ParameterTable", widgets.ParameterTable(g, trainer=trainer)
    yield "TensorView", widgets.TensorView(normal(1, 3, 20, 30), "[1]", name="noise")
    yield "TrainerPanel", widgets.TrainerPanel(trainer)
    yield "LivePlot", widgets.LivePlot(trainer)
    stepping = widgets.StepperPanel(g, loss="loss", feeds=feeds)
    stepping.break_at(op="matmul")
    stepping.run()
    yield "StepperPanel", stepping
    yield "GradCheckPanel", widgets.GradCheckPanel(g, loss="loss", feeds=feeds, report=report)
    yield "Workbench", widgets.Workbench(g, trainer, data=data)

"""The stepper's panel: breakpoints, watches, runs in the background, ops that fail."""

from __future__ import annotations

import gc
import re
import threading
import weakref

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from gradwright_widgets.panels.stepper.panel import StepPanel, StepperPanel
from tests.support.panels import EVIL
from tests.widgets import stepper_panels
from tests.widgets.stepper_panels import press, tell

graph = pytest.fixture(stepper_panels.graph)
feeds = pytest.fixture(stepper_panels.feeds)
panel = pytest.fixture(stepper_panels.panel)


def test_breakpoints_from_the_panel(panel):
    tell(panel, "stepper.break", place="op", text="matmul")
    tell(panel, "stepper.break", place="scope", text="hidden", condition="above", limit="0.5")
    tell(panel, "stepper.break", place="", condition="when", limit="value.min() < -100")
    texts = [b["text"] for b in panel.breakpoints]
    assert texts == [
        "op matmul", "scope hidden when |max| > 0.5", "any node when value.min() < -100",
    ]  # fmt: skip
    assert "hidden/matmul" in panel.stops and "hidden/relu" in panel.stops
    press(panel, "run")
    assert (
        panel.stepping["say"]
        == "Stopped after 'hidden/matmul': breakpoint #2 scope hidden when |max| > 0.5."
    )
    tell(panel, "stepper.breakpoint", numbers=[2], on=False)
    assert "hidden/relu" not in panel.stops and not panel.stepper.breakpoints[1].enabled
    press(panel, "run")
    assert panel.current == "matmul" and panel.breakpoints[0]["hits"] == 1
    tell(panel, "stepper.breakpoint", numbers=[1, 2, 3])
    assert panel.breakpoints == [] == panel.stops == panel.stepper.breakpoints
    tell(panel, "stepper.break", place="op", text="matmull")
    assert "no node has the op" in panel.message
    tell(panel, "stepper.break", place="op", text=" ", condition="nan")
    assert "which op" in panel.message and panel.breakpoints == []
    tell(panel, "stepper.break", place="name", text="hidden/*", condition="above", limit="much")
    assert "cannot read 'much'" in panel.message and "object at" not in panel.message
    panel.break_at("ln::sub*")
    assert panel.stops == ["ln"]  # the drawing marks what holds it


def test_run_stops_inside_a_composite_and_shows_it(panel):
    panel.break_at(op="sub")
    press(panel, "run")
    assert panel.current == "ln::sub" and panel.stepping["crumbs"] == ["digits", "ln"]


def test_watches_show_values_and_errors(panel):
    for text in ('norm(t["hidden/w"])', 't["loss"]', 't["hidden/b"]'):
        tell(panel, "stepper.watch", text=text)
    tell(panel, "stepper.watch", text='t["x"] / t["hidden/w"]')
    assert "cannot be computed" in panel.message  # whatever runs, so it is not taken
    norm, loss, bias = panel.watches
    w = panel.stepper.value("hidden/w")
    assert float(norm["value"]) == pytest.approx(np.linalg.norm(w), 1e-5)
    assert loss.get("waits")
    assert bias["value"] == "[0., 0., 0., 0., 0., 0.]"
    panel.run()
    assert float(panel.watches[1]["value"]) == pytest.approx(
        float(panel.stepper.value("loss")), 1e-5
    )
    tell(panel, "stepper.watch", text='t["loss"]', remove=True)
    assert [w["text"] for w in panel.watches][1] == bias["text"]
    tell(panel, "stepper.watch", text='t["nope"]')
    assert "nope" in panel.message


class Gate:
    """Lets a test hold an op while it runs."""

    def __init__(self):
        self.reached, self.go = threading.Event(), threading.Event()


@pytest.fixture
def slow():
    gate = Gate()

    @gw.register("test/slow")
    class Slow(gw.Op):
        """Wait for the test."""

        def infer(self, x):
            return x

        def forward(self, x):
            gate.reached.set()
            assert gate.go.wait(30)
            return x + 1

    g = gw.Graph("slow")
    x = g.placeholder("x", (2,))
    y = (Slow()(x * 2.0, name="wait") * 3.0).sum(name="y")
    panel = StepperPanel(g, fetches=[y], feeds={"x": [1.0, 2.0]})
    yield panel, gate
    gate.go.set()
    panel.close()


def test_a_run_in_the_background_can_be_stopped(slow):
    panel, gate = slow
    tell(panel, "stepper.move", verb="run")
    assert gate.reached.wait(30)
    tell(panel, "stepper.move", verb="step")
    assert "is running" in panel.message
    with pytest.raises(GraphError, match="is running"):
        panel.run()
    assert panel.value_of("mul") is None and panel.to_table() == ""
    tell(panel, "stepper.stop")
    gate.go.set()
    panel.part(StepPanel).walk.join()
    assert panel.stepping["say"] == "Stopped." and panel.stepping["mode"] == "ready"
    assert panel.stepping["position"] == 2 and panel.message == ""
    press(panel, "run")
    assert panel.stepper.results()[0] == 24.0


def test_a_long_run_shows_how_far_it_is(slow, monkeypatch):
    panel, gate = slow
    monkeypatch.setattr("gradwright_widgets.panels.stepper.walk.PROGRESS", 0.0)
    states = []
    panel.observe(lambda change: states.append(change["new"]), "stepping")
    tell(panel, "stepper.move", verb="run")
    assert gate.reached.wait(30)
    assert states[-1]["mode"] == "running" and states[-1]["progress"] == {"position": 1, "count": 4}
    gate.go.set()
    panel.part(StepPanel).walk.join()
    assert states[-1]["mode"] == "ready" and "progress" not in states[-1]


def test_closing_ends_the_thread(slow):
    panel, gate = slow
    tell(panel, "stepper.move", verb="run")
    assert gate.reached.wait(30)
    panel.close()
    gate.go.set()
    panel.part(StepPanel).walk.join()
    assert not [t for t in threading.enumerate() if t.name == "gradwright stepper"]
    assert panel.stepper.position == 2


def test_a_closed_panel_is_forgotten(graph, feeds):
    panel = StepperPanel(graph, loss="loss", feeds=feeds)
    stepper = panel.stepper
    known = weakref.ref(panel)
    panel.close()
    del panel
    gc.collect()
    assert known() is None
    stepper.step()


def test_an_op_that_raises_is_lit_with_the_users_line():
    @gw.register("test/angry")
    class Angry(gw.Op):
        """Refuse large numbers."""

        def infer(self, x):
            return x

        def forward(self, x):
            if x.max() > 1:
                raise ValueError(EVIL)
            return x

    g = gw.Graph("angry")
    x = g.placeholder("x", (2,))
    y = Angry()(x * 1.0, name=EVIL).sum(name="y")
    panel = StepperPanel(g, fetches=["y"], feeds={"x": [1.0, 2.0]})
    press(panel, "run")
    state = panel.stepping
    assert state["tone"] == "error" and state["failed"] == 1 and panel.current == EVIL
    assert "ValueError" in state["say"] and re.search(
        r"test_stepper_panel_stops.py:\d+", state["say"]
    )
    press(panel, "step")
    assert panel.stepping["tone"] == "error" and panel.message == ""
    with pytest.raises(ValueError, match="onerror"):
        panel.step()
    tell(panel, "stepper.edit", name="mul", how="element", index="1", value="0.5", rerun=True)
    press(panel, "run")
    assert panel.stepping["tone"] == "" and float(panel.stepper.value(y)) == 1.5
    tell(panel, "stepper.edit", name="mul", how="fill", value="3", rerun=True)
    assert panel.stepping["tone"] == "error" and panel.current == EVIL


def test_the_first_nan_is_found_and_shown():
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    loss = (gw.sqrt(x, name="root") * 2.0).sum(name="loss")
    panel = StepperPanel(g, loss=loss, feeds={"x": [1.0, -4.0, 9.0]}, fetches=["loss"])
    press(panel, "find")
    state = panel.stepping
    assert "sqrt 'root'" in state["say"] and state["focus"]["name"] == "root"
    assert state["focus"]["tensors"][1]["range"] == [1.0, 3.0, 1, 0]
    press(panel, "back")
    assert panel.stepping["say"] == ""
    panel.load(feeds={"x": [1.0, 4.0, 9.0]})
    assert panel.find_nonfinite() is None
    assert panel.stepping["say"] == "No NaN or Inf anywhere."

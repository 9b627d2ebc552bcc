"""The stepper's panel: saved pages, tables, wrong messages, beside a training."""

from __future__ import annotations

import base64
import json
import re
import threading
import time

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets import Workbench
from gradwright_widgets.drawing.values import ranges, thumbnail
from gradwright_widgets.host.base import bundle
from gradwright_widgets.panels.stepper import recording
from gradwright_widgets.panels.stepper.panel import StepPanel, StepperPanel
from tests.support.panels import EVIL
from tests.widgets import stepper_panels
from tests.widgets.stepper_panels import press, tell

graph = pytest.fixture(stepper_panels.graph)
feeds = pytest.fixture(stepper_panels.feeds)
panel = pytest.fixture(stepper_panels.panel)


def saved(page):
    found = re.search(r'<script type="application/json" id="saved">(.*?)</script>', page, re.S)
    return json.loads(found[1])


def test_a_saved_page_holds_a_recording_of_a_whole_run(panel):
    panel.run_to("ln")
    panel.edit("hidden/b", 0.5)
    panel.rerun()
    panel.watch('t["loss"] * 2')
    panel.watch('t["x"].sum()')
    position = panel.stepper.position
    held = saved(panel.to_html())
    assert panel.stepper.position == position  # the recording ran by itself
    level, run = (m["content"] for m in held["messages"])
    assert level["names"] == [n.name for n in panel.stepper.nodes()]
    assert run["position"] == position and len(run["nodes"]) == len(level["names"])
    panel.run()
    loss, total = run["watches"]
    assert loss["known"] == level["names"].index("loss") + 1 and total["known"] == 0
    assert float(loss["value"]) == pytest.approx(2 * float(panel.stepper.value("loss")), 1e-5)
    by_name = {t["name"]: t for t in run["tensors"]}
    thumbs = base64.b64decode(held["messages"][1]["buffers"][0]["$bytes"])
    for node in panel.stepper.nodes():
        value = panel.stepper.value(node.outputs[0])
        fact = by_name[node.name]
        assert fact["range"] == ranges(value)
        offset, height, width = fact["thumb"]
        assert thumbs[offset : offset + height * width] == thumbnail(value)[0]
    assert run["note"] == ""


def test_a_large_recording_is_cut_and_says_so(panel, monkeypatch):
    monkeypatch.setattr(recording, "MOST_BYTES", 4_000)
    page = panel.to_html()
    run = saved(page)["messages"][1]["content"]
    total = len(panel.stepper.nodes())
    assert 0 < len(run["nodes"]) < total
    assert run["note"] == f"Recorded: the first {len(run['nodes'])} of {total} nodes (2 MB)."
    assert len(page) < 20_000 + len(bundle("stepper_panel")) * 4 / 3


def test_a_failing_run_is_recorded_up_to_there():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    y = gw.reshape(gw.exp(x), (2, 2), name="square").sum()
    panel = StepperPanel(g, fetches=[y], feeds={"x": np.zeros(3)})
    run = saved(panel.to_html())["messages"][1]["content"]
    assert run["failed"] == 1 and "'square' failed" in run["error"]


def test_hostile_names_stay_text(feeds):
    g = gw.Graph(EVIL)
    x = g.placeholder("x", (2,))
    h = gw.exp(x, name=EVIL)
    g.constant(1.0)
    y = (h * 2.0).sum(name=EVIL + "/y")
    panel = StepperPanel(g, fetches=[y], feeds={"x": [1.0, 2.0]})
    tell(panel, "stepper.break", place="node", text=EVIL)
    tell(panel, "stepper.watch", text=f"t[{EVIL!r}]")
    assert panel.message == "" and panel.stops == [EVIL]
    panel.step(2)
    assert panel.watches[0]["value"] == "[2.7183, 7.3891]"
    table = panel.to_table()
    assert "<img" not in table and "&lt;img" in table and table.count("<tr>") == 3
    assert "<img" not in panel.to_html()


def test_the_table_of_what_has_run(panel):
    assert panel.to_table() == "" and panel._still() == {}
    panel.run_to("ln")
    table = panel.to_table()
    assert table.count("<tr>") == 1 + panel.stepper.position
    assert "f32[5, 6]" in table and "hidden/relu" in table


def test_messages_from_the_page_cannot_break_it(panel):
    panel.step()
    for kind, facts in (
        ("stepper.move", {"verb": "drop table"}),
        ("stepper.move", {"verb": "run_to", "name": "nothing"}),
        ("stepper.move", {"verb": "run_to"}),
        ("stepper.look", {"name": None}),
        ("stepper.look", {"tensor": "nothing"}),
        ("stepper.rows", {"level": -3, "first": "x"}),
        ("stepper.rows", {"level": panel.stepping["level"], "first": 10**9}),
        ("stepper.breakpoint", {"numbers": "all"}),
        ("stepper.break", {}),
        ("stepper.edit", {"name": 3, "how": [], "value": None}),
        ("stepper.watch", {}),
        ("stepper.stop", {}),
    ):
        tell(panel, kind, **facts)
        panel.part(StepPanel).walk.join()
    assert panel.stepper.position == 1
    press(panel, "step")
    assert panel.stepper.position == 2 and panel.message == ""


def test_training_that_runs_is_not_disturbed(graph, feeds):
    trainer = gw.Trainer(graph, "loss", optimizer=gw.optim.SGD(0.1))
    panel = StepperPanel(graph, trainer)
    done = threading.Event()
    thread = threading.Thread(
        target=lambda: (trainer.fit([feeds] * 50, epochs=10_000, progress=False), done.set())
    )
    thread.start()
    try:
        end = time.monotonic() + 30
        while trainer.steps_done < 5:
            assert time.monotonic() < end
            time.sleep(0.001)
        panel.run()
        w = panel.stepper.value("hidden/w").tobytes()
        while trainer.steps_done < 100:
            assert time.monotonic() < end
            time.sleep(0.001)
        assert panel.stepper.value("hidden/w").tobytes() == w
        panel.reset()
        panel.run()
    finally:
        trainer.stop()
        thread.join(30)
    assert not thread.is_alive()
    panel.close()


def test_a_model_that_only_infers_offers_its_outputs():
    g = gw.Graph("net")
    x = g.placeholder("x", (None, 4))
    h = x @ g.variable("w", (4, 3), init=1.0)
    gw.nn.softmax(h, name="probabilities")
    score = gw.max(h)
    bench = Workbench(g, feeds={"x": np.ones((2, 4), "f4")})
    assert bench.outputs == ["probabilities", score.name]
    assert bench.stepping["mode"] == "empty" and "no loss" in bench.check_hint
    bench._receive(bench, {"kind": "desk.output", "id": 1, "name": "nowhere"}, [])
    assert "nowhere" in bench.message and bench.outputs
    bench._receive(bench, {"kind": "desk.output", "id": 2, "name": "probabilities"}, [])
    assert bench.outputs == [] and bench.stepping["mode"] == "idle"
    assert bench.stepper.run_to("probabilities").reason == "target"
    bench.tab = "check"
    assert "only a single number has gradients" in bench.check_hint
    bench.choose_output(score.name)
    bench.refresh()
    assert bench.check_hint == "" and bench.check(wait=True).passed
    bench.close()


def test_a_loss_that_is_known_leaves_no_choice(graph):
    assert Workbench(graph, loss="loss").outputs == []

"""The stepper's panel without a browser: walking, what it shows, what it sends."""

from __future__ import annotations

import time

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from gradwright_widgets.panels.stepper.panel import StepperPanel
from tests.widgets import stepper_panels
from tests.widgets.stepper_panels import press, tell, watch_wire

graph = pytest.fixture(stepper_panels.graph)
feeds = pytest.fixture(stepper_panels.feeds)
panel = pytest.fixture(stepper_panels.panel)


def test_it_begins_when_the_first_command_comes(panel, graph):
    before = len(graph.all_nodes)
    assert panel.stepping["mode"] == "idle" and len(graph.all_nodes) == before
    press(panel, "step")
    assert panel.stepping["mode"] == "ready" and panel.stepping["position"] == 1
    assert panel.current == panel.stepper.path
    assert panel.stepper is panel.stepper


def test_forwards_and_backwards_give_the_same_bits(panel, graph, feeds):
    names = [n.name for n in panel.stepper.nodes()]
    assert names.index("loss") < names.index("grad/loss/loss/ones_like")
    seen = []
    while panel.stepper.current is not None:
        node = panel.stepper.current
        press(panel, "step")
        seen.append((node, panel.stepper.value(node.outputs[0]).tobytes()))
    assert panel.stepping["say"] == "Everything has run." and panel.current == ""
    for node, bits in reversed(seen):
        assert panel.stepper.value(node.outputs[0]).tobytes() == bits
        press(panel, "back")
        assert panel.current == node.name
    press(panel, "run")
    assert [panel.stepper.value(n.outputs[0]).tobytes() for n, _ in seen] == [b for _, b in seen]
    found = gw.Session(graph).run(panel.stepper.fetches, feeds)
    for a, b in zip(panel.stepper.results(), found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_the_default_fetches_are_the_loss_and_its_trainable_gradients(panel, graph):
    graph.freeze("w2")
    wrt = [t for t in graph.variables if t.trainable]
    assert panel.stepper.fetches[0] is graph["loss"]
    assert [t.shape for t in panel.stepper.fetches[1:]] == [t.shape for t in wrt]


def test_code_and_panel_drive_the_same_stepper(panel):
    s = panel.stepper
    s.step(3)
    assert panel.stepping["position"] == 3 and panel.current == s.path
    assert panel.run_to("ln").reason == "target" and panel.current == "ln"
    press(panel, "into")
    assert panel.stepping["crumbs"] == ["digits", "ln"] and panel.current.startswith("ln::")
    assert s.depth == 1
    press(panel, "out")
    assert s.depth == 0 and panel.stepping["crumbs"] == ["digits"]
    press(panel, "into_gradient", name="ln")
    assert s.current.origin.name == "ln"
    press(panel, "reset")
    assert panel.stepping["position"] == 0


def test_a_step_is_one_small_message(panel, monkeypatch):
    panel.stepper.run_to("loss")
    sent = watch_wire(panel, monkeypatch)
    press(panel, "step")
    assert [kind for kind, _ in sent] == ["heard", "state", "done"]
    assert sum(size for _, size in sent) < 10_000
    sent.clear()
    panel.refresh()  # nothing has changed
    assert sent == []


def test_a_loop_of_steps_does_not_flood_the_page(monkeypatch):
    g = gw.Graph("deep")
    y = g.placeholder("x", (4,))
    for _ in range(1_000):
        y = gw.sin(y)
    panel = StepperPanel(g, fetches=[y], feeds={"x": np.ones(4)})
    assert panel.stepper.position == 0
    sent = watch_wire(panel, monkeypatch)
    start = time.monotonic()
    while panel.stepper.current is not None:
        panel.step()
    assert len(sent) < 70 + 25 * (time.monotonic() - start)
    panel.refresh()  # as after every cell
    assert panel.stepping["position"] == 1_000
    panel.close()


def test_a_level_is_sent_when_it_is_entered(panel, monkeypatch):
    panel.stepper.run_to("ln")
    sent = watch_wire(panel, monkeypatch)
    panel.into()
    assert [kind for kind, _ in sent] == ["stepper.level", "state"]
    level = panel.stepping["level"]
    panel.out()
    panel.run_to("ln")
    panel.into()
    assert panel.stepping["level"] != level  # other values under the same names


def test_ten_thousand_nodes_send_what_is_asked_for(monkeypatch):
    g = gw.Graph("deep")
    y = g.placeholder("x", (4,))
    for _ in range(5_000):
        y = gw.sin(y) + 0.1
    panel = StepperPanel(g, fetches=[y], feeds={"x": np.zeros(4)})
    assert len(panel.stepper.nodes()) == 10_000
    sent = watch_wire(panel, monkeypatch)
    panel.run()
    assert len(sent) == 1 and sent[0][1] < 10_000
    tell(panel, "stepper.rows", level=panel.stepping["level"], first=4_000)
    assert sent[-2][0] == "stepper.rows" and sent[-2][1] < 10_000 and sent[-1][0] == "done"
    panel.close()


def test_rows_say_what_the_values_are(panel, monkeypatch):
    panel.run()
    messages = []
    monkeypatch.setattr(panel, "send", lambda content, buffers=None: messages.append(content))
    tell(panel, "stepper.rows", level=panel.stepping["level"], first=0)
    nodes = panel.stepper.nodes()
    (told,) = [content for content in messages if content["kind"] == "stepper.rows"]
    for index, low, high, n_nan, n_inf, shape in told["rows"]:
        value = panel.stepper.value(nodes[index].outputs[0])
        assert (list(value.shape), n_nan, n_inf) == (shape, 0, 0)
        assert low == pytest.approx(float(value.min()), 1e-5)
        assert high == pytest.approx(float(value.max()), 1e-5)


def test_the_values_beside_the_current_node(panel):
    panel.run_to("hidden/relu")
    focus = panel.stepping["focus"]
    assert focus["name"] == "hidden/relu" and "stepper_panels.py" in focus["where"]
    given, made = focus["tensors"]
    assert given["side"] == "in" and given["spec"] == "f32[5, 6]"
    value = panel.stepper.value("hidden/add")
    assert given["mean"] == pytest.approx(value.mean(), 1e-4)
    assert len(given["thumb"]) == 30 and "range" not in made
    panel.selected = "hidden/matmul"  # what is selected anywhere is looked at
    assert panel.stepping["focus"]["name"] == "hidden/matmul"
    press(panel, "step")
    assert panel.stepping["focus"]["name"] == panel.current
    tell(panel, "stepper.look", name="hidden/add")
    assert panel.selected == "hidden/add" == panel.stepping["focus"]["name"]


def test_a_click_on_a_tensor_shows_it(graph, feeds):
    panel, shown = StepperPanel(graph, loss="loss", feeds=feeds), []
    panel.desk.on("tensor", lambda value, name: shown.append(name or value))
    panel.run_to("ln")
    tell(panel, "stepper.look", tensor="hidden/relu")
    assert shown == ["hidden/relu"] and panel.selected == "hidden/relu"
    assert panel.value_of("hidden/relu").shape == (5, 6)
    assert panel.value_of("loss") is None and panel.value_of("nothing") is None
    panel.into()
    panel.step()
    first = panel.stepper.nodes()[0].name
    tell(panel, "stepper.look", tensor=f"ln::{first}")
    assert shown[-1] == f"ln::{first}" and panel.value_of(f"ln::{first}") is not None
    panel.close()


def test_following_training_and_edits_of_the_graph(graph, feeds):
    trainer = gw.Trainer(graph, "loss", optimizer=gw.optim.SGD(0.5))
    panel = StepperPanel(graph, trainer)
    assert panel.stepping["mode"] == "empty" and "Train one step" in panel.stepping["say"]
    press(panel, "step")
    assert "nothing to run on" in panel.message
    trainer.step(feeds)
    panel.refresh()
    assert panel.stepping["mode"] == "idle"
    panel.run()
    first = float(panel.stepper.value("loss"))
    assert "after step 1 · training mode" in panel.stepping["source"]
    other = {**feeds, "x": feeds["x"] * 2}
    trainer.step(other)
    panel.refresh()
    assert panel.stepping["stale"] == "Training has gone on to step 2."
    b = panel.break_at("loss")
    panel.watch('t["loss"]')
    press(panel, "last_batch")
    assert panel.stepping["stale"] == "" and panel.stepping["position"] == 0
    assert panel.stepper.breakpoints == [b] and panel.watches == [
        {"text": 't["loss"]', "waits": True}
    ]
    panel.stepper.run()
    panel.stepper.run()
    expected = gw.Session(graph).run("loss", other)
    assert float(panel.stepper.value("loss")) == pytest.approx(float(expected), 1e-5) != first
    with graph.edit() as edit:
        edit.replace_use(graph["hidden/relu"], gw.tanh(graph["hidden/add"]))
    panel.refresh()
    assert "graph has changed" in panel.stepping["stale"]
    panel.close()


def test_the_empty_state_says_what_to_type(graph):
    panel = StepperPanel(graph)
    assert panel.stepping["code"] == 'StepperPanel(g, loss="loss", feeds={"x": ..., "t": ...})'
    panel = StepperPanel(graph, loss="loss")
    assert panel.stepping["code"] == 'StepperPanel(g, loss=\'loss\', feeds={"x": ..., "t": ...})'
    assert "x: f32[B, 8]" in panel.stepping["say"]
    with pytest.raises(GraphError, match="nothing to run on"):
        panel.step()
    panel.load(feeds={"x": np.ones((1, 8)), "t": [0]})
    assert panel.stepping["mode"] == "ready"

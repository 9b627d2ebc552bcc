"""The stepper's panel without a browser: traits, messages, edits, background runs, saved pages."""

from __future__ import annotations

import base64
import gc
import json
import re
import threading
import time
import weakref

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from gradwright_widgets import _recording
from gradwright_widgets._base import bundle
from gradwright_widgets._step_facts import ranges, thumbnail
from gradwright_widgets._typed import parse_index, parse_number, parse_value
from gradwright_widgets.stepper_panel import StepperPanel

EVIL = '<img src=x onerror="window.executed=1">'


@pytest.fixture
def graph():
    g = gw.Graph("digits")
    x = g.placeholder("x", ("B", 8))
    t = g.placeholder("t", ("B",), dtype="int64")
    with g.scope("hidden"):
        w = g.variable("w", (8, 6), init=gw.init.he_normal(seed=0))
        h = gw.nn.relu(x @ w + g.variable("b", (6,)))
    n = gw.nn.layer_norm(
        h, g.variable("scale", (6,), init=1.0), g.variable("shift", (6,)), name="ln"
    )
    logits = n @ g.variable("w2", (6, 3), init=gw.init.xavier_uniform(seed=1))
    gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    return g


@pytest.fixture
def feeds():
    rng = np.random.default_rng(0)
    return {"x": rng.standard_normal((5, 8)).astype("f4"), "t": rng.integers(0, 3, 5)}


@pytest.fixture
def panel(graph, feeds):
    made = StepperPanel(graph, loss="loss", feeds=feeds)
    yield made
    made.close()


def press(panel, verb, **facts):
    """Do what the page asks when a button is pressed."""
    tell(panel, "stepper.move", verb=verb, **facts)
    panel._walk.join()


def tell(panel, kind, **facts):
    panel._receive(panel, {"kind": kind, "id": 1, **facts}, [])


def watch_wire(panel, monkeypatch):
    """Collect what leaves for the page: (name, bytes) of every message."""
    sent = []

    def size(value):
        return len(json.dumps(value, default=lambda b: "x" * len(b)))

    monkeypatch.setattr(
        panel, "send", lambda content, buffers=None: sent.append((content["kind"], size(content)))
    )
    real = panel.send_state

    def send_state(key=None):
        if state := panel.get_state(key):  # an empty one does not leave
            sent.append(("state", size(state)))
        real(key)

    monkeypatch.setattr(panel, "send_state", send_state)
    return sent


# -- walking ---------------------------------------------------------------------------------------


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
    assert panel.stepping["crumbs"] == ["digits", "ln"] and panel.current.startswith("ln/")
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
    assert [kind for kind, _ in sent] == ["heard", "state"]
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
    assert sent[-1][0] == "stepper.rows" and sent[-1][1] < 10_000
    panel.close()


def test_rows_say_what_the_values_are(panel, monkeypatch):
    panel.run()
    messages = []
    monkeypatch.setattr(panel, "send", lambda content, buffers=None: messages.append(content))
    tell(panel, "stepper.rows", level=panel.stepping["level"], first=0)
    nodes = panel.stepper.nodes()
    for index, low, high, n_nan, n_inf, shape in messages[-1]["rows"]:
        value = panel.stepper.value(nodes[index].outputs[0])
        assert (list(value.shape), n_nan, n_inf) == (shape, 0, 0)
        assert low == pytest.approx(float(value.min()), 1e-5)
        assert high == pytest.approx(float(value.max()), 1e-5)


def test_the_values_beside_the_current_node(panel):
    panel.run_to("hidden/relu")
    focus = panel.stepping["focus"]
    assert focus["name"] == "hidden/relu" and "test_stepper_panel.py" in focus["where"]
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
    class WithTensor(StepperPanel):
        shown = ()

        def show_tensor(self, value, *, name=""):
            self.shown = (*self.shown, name or value)

    panel = WithTensor(graph, loss="loss", feeds=feeds)
    panel.run_to("ln")
    tell(panel, "stepper.look", tensor="hidden/relu")
    assert panel.shown == ("hidden/relu",) and panel.selected == "hidden/relu"
    assert panel.value_of("hidden/relu").shape == (5, 6)
    assert panel.value_of("loss") is None and panel.value_of("nothing") is None
    panel.into()
    panel.step()
    first = panel.stepper.nodes()[0].name
    tell(panel, "stepper.look", tensor=f"ln/{first}")
    assert panel.shown[-1] == f"ln/{first}" and panel.value_of(f"ln/{first}") is not None
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


# -- stopping --------------------------------------------------------------------------------------


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
    panel.break_at("ln/rsqrt*")
    assert panel.stops == ["ln"]  # the drawing marks what holds it


def test_run_stops_inside_a_composite_and_shows_it(panel):
    panel.break_at(op="sub")
    press(panel, "run")
    assert panel.current == "ln/sub" and panel.stepping["crumbs"] == ["digits", "ln"]


def test_watches_show_values_and_errors(panel):
    for text in ('norm(t["hidden/w"])', 't["loss"]', 't["x"] / t["hidden/w"]', 't["hidden/b"]'):
        tell(panel, "stepper.watch", text=text)
    norm, loss, wrong, bias = panel.watches
    w = panel.stepper.value("hidden/w")
    assert float(norm["value"]) == pytest.approx(np.linalg.norm(w), 1e-5)
    assert loss.get("waits") and "cannot be computed" in wrong["error"]
    assert bias["value"] == "[0., 0., 0., 0., 0., 0.]"
    panel.run()
    assert float(panel.watches[1]["value"]) == pytest.approx(
        float(panel.stepper.value("loss")), 1e-5
    )
    tell(panel, "stepper.watch", text='t["loss"]', remove=True)
    assert [w["text"] for w in panel.watches][1] == wrong["text"]
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
    panel._walk.join()
    assert panel.stepping["say"] == "Stopped." and panel.stepping["mode"] == "ready"
    assert panel.stepping["position"] == 2 and panel.message == ""
    press(panel, "run")
    assert panel.stepper.results()[0] == 24.0


def test_a_long_run_shows_how_far_it_is(slow, monkeypatch):
    panel, gate = slow
    monkeypatch.setattr("gradwright_widgets._walk.PROGRESS", 0.0)
    states = []
    panel.observe(lambda change: states.append(change["new"]), "stepping")
    tell(panel, "stepper.move", verb="run")
    assert gate.reached.wait(30)
    assert states[-1]["mode"] == "running" and states[-1]["progress"] == {"position": 1, "count": 4}
    gate.go.set()
    panel._walk.join()
    assert states[-1]["mode"] == "ready" and "progress" not in states[-1]


def test_closing_ends_the_thread(slow):
    panel, gate = slow
    tell(panel, "stepper.move", verb="run")
    assert gate.reached.wait(30)
    panel.close()
    gate.go.set()
    panel._walk.join()
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
    assert "ValueError" in state["say"] and re.search(r"test_stepper_panel.py:\d+", state["say"])
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


# -- editing ---------------------------------------------------------------------------------------


def test_edit_and_rerun_compare_before_and_after(panel, graph, feeds):
    panel.run()
    old = panel.stepper.value("hidden/relu")
    loss = float(panel.stepper.value("loss"))
    tell(panel, "stepper.edit", name="hidden/relu", how="element", index="0, 1:3", value="[2, 3]")
    assert panel.message == "" and panel.stepping["pending"] > 3
    assert panel.stepper.value("hidden/relu")[0, 1:3].tolist() == [2.0, 3.0]
    press(panel, "rerun")
    new = np.array(old)
    new[0, 1:3] = 2.0, 3.0
    expected = gw.Session(graph).run(["loss", "matmul"], {**feeds, graph["hidden/relu"]: new})
    assert float(panel.stepper.value("loss")) == pytest.approx(float(expected[0]), 1e-5)
    names = [n.name for n in panel.stepper.nodes()]
    before = {names[row[0]]: row for row in panel.reruns["before"]}
    assert before["hidden/relu"][2] == pytest.approx(old.max(), 1e-5)
    assert before["loss"][1] == pytest.approx(loss, 1e-5)
    assert "hidden/matmul" not in before and "grad/loss/loss/ones_like" not in before
    text = panel.reruns["text"]
    assert re.match(rf"\d+ nodes ran again · loss {loss:.6g} → ", text)
    assert panel.reruns["level"] == panel.stepping["level"] and panel.stepping["pending"] == 0
    assert graph.values["hidden/b"].sum() == 0


def test_ways_to_edit(panel):
    panel.run_to("hidden/relu")
    held = panel.stepper.value("hidden/matmul")
    panel.edit("hidden/matmul", scale=2.0)
    assert np.array_equal(panel.stepper.value("hidden/matmul"), held * 2)
    panel.edit("hidden/w", 0.25)
    assert np.unique(panel.stepper.value("hidden/w")).tolist() == [0.25]
    panel.edit("hidden/b", [1, 2, 3, 4, 5, 6])
    panel.edit("x", np.nan, index=(0, 0))
    assert np.isnan(panel.stepper.value("x")).sum() == 1
    assert panel.rerun() == 2  # the product again, though its edited value stays, and the sum
    assert np.array_equal(panel.stepper.value("hidden/matmul"), held * 2)
    for facts, message in (
        ({"how": "element", "index": "9, 9", "value": "1"}, "cannot change"),
        ({"how": "element", "index": "a", "value": "1"}, "cannot read the index"),
        ({"how": "literal", "value": "__import__('os')"}, "cannot read"),
        ({"how": "literal", "value": "[1, 2"}, "cannot read"),
        ({"how": "literal", "value": "[1, 2]"}, "another shape"),
        ({"how": "literal", "value": "['a', 'b']"}, "hidden/b"),
        ({"how": "scale", "value": "[2]"}, "not a number"),
    ):
        tell(panel, "stepper.edit", name="hidden/b", **facts)
        assert message in panel.message, facts
        assert panel.stepper.value("hidden/b").tolist() == [1, 2, 3, 4, 5, 6]
    tell(
        panel,
        "stepper.edit",
        name="hidden/b",
        how="literal",
        value="array([0., 0, 0, 0, -inf, nan])",
    )
    assert panel.message == "" and np.isinf(panel.stepper.value("hidden/b")[4])


def test_an_edit_inside_a_composite(panel):
    panel.run_to("ln")
    panel.into()
    panel.step()
    first = panel.stepper.nodes()[0].name
    fact = next(t for t in panel.stepping["focus"]["tensors"] if t["name"] == first)
    assert fact["path"] == f"ln/{first}" and not fact["fixed"]
    tell(panel, "stepper.edit", name=fact["path"], how="fill", value="0.5")
    assert panel.message == "" and panel.stepper.depth == 1
    panel.out()
    assert panel.stepper.depth == 0 and panel.stepper.current.name == "matmul"


def test_what_is_typed_is_read_and_never_run():
    assert parse_value("-1e-3") == -0.001
    assert parse_value(" [[1, nan], [True, 2]] ")[0][0] == 1
    assert parse_value("np.array([1, 2], dtype='float32')") == [1, 2]
    for text in (
        "open('x')",
        "[x for x in (1,)]",
        "1 if 2 else 3",
        "(" * 500,
        "",
        "a.b",
        "9" * 200_000,
    ):
        with pytest.raises(GraphError, match="cannot read"):
            parse_value(text)
    assert parse_index("[..., -1]") == (..., -1) and parse_index("") == ()
    assert np.arange(9)[parse_index("::3")].tolist() == [0, 3, 6]
    for text in ("x", "1.5", "0,,1", "1:2:3:4"):
        with pytest.raises(GraphError):
            np.arange(9)[parse_index(text)] if text != "0,,1" else parse_index("0,x,1")
    with pytest.raises(GraphError):
        parse_number(True)


def test_summaries_of_awkward_arrays():
    assert ranges(np.zeros((0, 3))) == [None, None, 0, 0]
    assert ranges(np.array([np.nan, np.inf], "f4")) == [None, None, 1, 1]
    assert ranges(np.array([True, False])) == [0.0, 1.0, 0, 0]
    assert ranges(np.array([3 + 4j])) == [5.0, 5.0, 0, 0]
    assert ranges(np.array([2**63], np.uint64)) == [2**63, 2**63, 0, 0]
    data, height, width = thumbnail(np.array([[-2.0, 0.0, 1.0], [np.nan, 2.0, np.inf]]))
    assert (list(data), height, width) == ([0, 127, 190, 255, 254, 255], 2, 3)
    assert thumbnail(np.zeros((100, 0)))[0] == b"" and thumbnail(np.zeros(()))[1:] == (1, 1)
    assert thumbnail(np.zeros((3, 1000, 1000)))[1:] == (24, 32)


# -- views that last -------------------------------------------------------------------------------


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
    monkeypatch.setattr(_recording, "MOST_BYTES", 4_000)
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
        panel._walk.join()
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

"""What pages hear of a kernel over the panel's comm, and what they can ask of it."""

from __future__ import annotations

import gc
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ipywidgets import Widget

import gradwright as gw
import gradwright_widgets as gww
from gradwright.train import living as trainers
from gradwright_widgets.bridge import hook
from gradwright_widgets.bridge.living import living
from gradwright_widgets.bridge.places import nodes_of_cell, place_of
from gradwright_widgets.bridge.session import Session
from tests.support.panels import wait_for


class Wire:
    """A comm that keeps what is sent, and brings what a page asks."""

    def __init__(self, name: str = "one") -> None:
        self.comm_id, self.sent, self.broken = name, list[dict[str, Any]](), False

    def on_msg(self, heard: Any) -> None:
        self.heard = heard

    def on_close(self, closed: Any) -> None:
        self.closed = closed

    def send(self, message: dict[str, Any]) -> None:
        if self.broken:
            raise ConnectionError("the page is gone")
        self.sent.append(message)

    def ask(self, kind: str, **facts: Any) -> dict[str, Any]:
        """Ask for something and return the answer."""
        self.heard({"content": {"data": {"kind": kind, "id": len(self.sent), **facts}}})
        return next(m for m in reversed(self.sent) if m["kind"] == "answer")

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [m for m in list(self.sent) if m["kind"] == kind]

    def latest(self, section: str) -> Any:
        """Return the rows of a section that were told last."""
        return next(m[section] for m in reversed(list(self.sent)) if section in m)


def parabola(name: str = "parabola", **settings: Any) -> tuple[gw.Graph, gw.Trainer]:
    graph = gw.Graph(name)
    w = graph.variable("w", (2, 3), init=2.0)
    loss = (w * w).sum(name="loss")
    return graph, gw.Trainer(graph, loss, optimizer=gw.optim.SGD(0.1), **settings)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without what other tests have left open."""
    Widget.close_all()
    monkeypatch.setattr(trainers, "_living", weakref.WeakValueDictionary())


@pytest.fixture
def kernel():
    names: dict[str, Any] = {}
    session = Session(lambda: names)
    wire = Wire()
    session.join(wire)
    yield SimpleNamespace(names=names, session=session, wire=wire)
    wire.closed({})
    thread = session._thread
    if thread is not None:
        thread.join(10)
        assert not thread.is_alive(), "nobody looks when no page listens"


def test_a_graph_without_nodes_is_one(kernel):
    kernel.names["empty"] = gw.Graph("empty")
    kernel.session.look()
    assert [row["key"] for row in kernel.wire.latest("graphs")] == ["empty"]


def test_what_is_alive_is_found_where_the_user_has_it():
    graph, trainer = parabola()
    other = gw.Graph("other")

    class Model:
        graph = property(lambda self: pytest.fail("code of the user's was run"))

    model = Model()
    model.__dict__["graph"] = other
    found = living({"g": graph, "_hidden": gw.Graph(), "t": trainer, "m": [model], "np": np})
    assert dict(found.graphs) == {"g": graph, "m[0].graph": other}
    assert {k: v for k, v in found.trainers.items() if v is trainer} == {"t": trainer}
    del trainer, found, model


def test_a_trainer_that_a_function_keeps_is_found_while_it_lives():
    seen = []

    class Look(gw.Callback):
        def on_step_end(self, trainer, record):
            seen.append(any(t is trainer for t in living({}).trainers.values()))

    def train():
        parabola(callbacks=[Look()])[1].fit([{}], progress=False)

    train()
    assert seen == [True]


def test_a_page_hears_of_everything_and_then_of_what_changes(kernel):
    kernel.names["g"], kernel.names["trainer"] = graph, trainer = parabola()
    kernel.wire.ask("hello", page="p")
    assert kernel.wire.latest("graphs") == [
        {"key": "g", "name": "parabola", "nodes": 3, "parameters": 6, "writes": False}
    ]
    before = len(kernel.wire.of("state"))
    kernel.session.look()
    assert len(kernel.wire.of("state")) == before, "nothing has changed"
    trainer.fit([{}] * 5, progress=False)
    kernel.session.look()
    (row,) = (r for r in kernel.wire.latest("trainings") if r["key"] == "trainer")
    assert (row["step"], row["outcome"], row["status"]) == (5, "finished", "idle")
    assert row["loss"] == trainer.history.steps["loss"][-1]
    curves = [m for m in kernel.wire.of("curve") if m["key"] == "trainer"]
    assert [s for m in curves for s in m["steps"]] == [1, 2, 3, 4, 5]
    assert [x for m in curves for x in m["losses"]] == trainer.history.steps["loss"].tolist()
    gw.exp(graph["w"])
    kernel.session.look()
    assert kernel.wire.latest("graphs")[0]["nodes"] == 4


def test_numbers_that_json_has_no_word_for_are_text(kernel):
    kernel.names["t"] = trainer = parabola(nonfinite="skip")[1]
    trainer.graph.values["w"] = np.full((2, 3), np.nan, np.float32)
    trainer.fit([{}], progress=False)
    kernel.wire.ask("hello")
    (row,) = (r for r in kernel.wire.latest("trainings") if r["key"] == "t")
    assert row["loss"] == "NaN" and row["skipped"] == 1


def test_a_training_is_paused_resumed_and_stopped_while_its_cell_runs(kernel):
    kernel.names["t"] = trainer = parabola()[1]
    kernel.wire.ask("hello")
    thread = threading.Thread(target=trainer.fit, args=([{}],),
                              kwargs={"epochs": 10**6, "progress": False})  # fmt: skip
    thread.start()
    wait_for(lambda: trainer.steps_done > 3)
    kernel.wire.ask("pause", key="t")
    wait_for(lambda: trainer.status == "paused")
    wait_for(lambda: any(r["key"] == "t" and r["status"] == "paused"
                         for r in kernel.wire.latest("trainings")))  # fmt: skip
    kernel.wire.ask("resume", key="t")
    wait_for(lambda: trainer.status == "running")
    kernel.wire.ask("stop", key="t")
    thread.join(30)
    assert trainer.progress.outcome == "stopped"
    assert "no trainer 'gone'" in kernel.wire.ask("stop", key="gone")["error"]


def test_a_thousand_steps_are_a_few_messages(kernel):
    kernel.names["t"] = trainer = parabola()[1]
    kernel.wire.ask("hello")
    trainer.fit([{}], epochs=3000, progress=False)
    kernel.session.look()
    curves = [m for m in kernel.wire.of("curve") if m["key"] == "t"]
    assert sum(len(m["steps"]) for m in curves) <= 1000 * len(curves)
    assert curves[-1]["steps"][-1] == 3000, "the last one is there"


def test_a_view_stays_when_its_cell_runs_again(kernel):
    kernel.names["g"] = parabola()[0]
    answer = kernel.wire.ask("open", view="graph", key="g")
    assert (answer["title"], answer["view"]) == ("parabola", "graph")
    first = kernel.session._pins[answer["pin"]].widget
    first.expanded = []
    kernel.names["g"] = again = parabola()[0]
    kernel.session.cell_ended(None)
    view = kernel.wire.of("view")[-1]
    second = kernel.session._pins[view["pin"]].widget
    assert view["pin"] == answer["pin"] and view["model"] == second.model_id != answer["model"]
    assert second.desk.graph is again and second.expanded == []
    assert first.comm is None, "nobody sees it any more"
    del kernel.names["g"]
    kernel.session.cell_ended(None)
    assert second.comm is not None, "what is gone is still to be seen"
    kernel.wire.ask("unpin", pin=view["pin"])
    assert second.comm is None and not kernel.session._pins


def test_a_view_of_the_notebook_is_pinned_and_found_again(kernel):
    graph, _ = parabola()
    shown = gww.GraphView(graph)
    answer = kernel.wire.ask("pin", model=shown.model_id)
    assert answer["model"] == shown.model_id
    shown.close()  # its cell runs again
    again = gww.GraphView(parabola()[0])
    kernel.session.cell_ended(None)
    assert kernel.wire.of("view")[-1]["model"] == again.model_id
    kernel.wire.ask("unpin", pin=answer["pin"])
    assert again.comm is not None, "it is the notebook's"
    assert "none of gradwright's" in kernel.wire.ask("pin", model="nothing")["error"]
    again.close()


@pytest.mark.parametrize("view", ["graph", "parameters", "training", "curves", "check", "runs",
                                  "stepper"])  # fmt: skip
def test_every_view_opens(kernel, view, tmp_path):
    run = gw.Run(tmp_path / "run", store=None)
    graph, trainer = parabola(callbacks=[run])
    trainer.fit([{}], progress=False)
    kernel.names |= {"g": graph, "t": trainer, "run": run}
    kernel.names["report"] = gw.gradient_check(graph, "loss")
    kernel.names["s"] = gw.Stepper(graph, ["loss"])
    key = {"graph": "g", "parameters": "g", "check": "report", "runs": "run", "stepper": "s"}
    answer = kernel.wire.ask("open", view=view, key=key.get(view, "t"))
    assert "error" not in answer and answer["model"]
    widget = kernel.session._pins[answer["pin"]].widget
    assert widget.message == ""
    kernel.wire.ask("unpin", pin=answer["pin"])
    assert kernel.wire.ask("open", view=view, key="gone")["error"].startswith("there is no 'gone'")


def test_a_language_model_is_written_with_beside_the_notebook(kernel):
    config = gw.models.DecoderConfig(vocabulary=5, width=8, layers=1, heads=2)
    kernel.names["model"] = model = gw.models.Decoder(config)
    kernel.wire.ask("hello")
    (row,) = kernel.wire.latest("graphs")
    assert (row["key"], row["writes"]) == ("model.graph", True)
    answer = kernel.wire.ask("open", view="text", key="model.graph")
    panel = kernel.session._pins[answer["pin"]].widget
    assert isinstance(panel, gww.TextPanel) and panel.graph is model.graph
    panel.text_prompt = "1 2"
    kernel.names["model"] = again = gw.models.Decoder(config)
    kernel.session.cell_ended(None)
    panel = kernel.session._pins[answer["pin"]].widget
    assert panel.graph is again.graph and panel.text_prompt == "1 2"
    kernel.names["g"] = parabola()[0]
    assert "no 'g'" in kernel.wire.ask("open", view="text", key="g")["error"]
    kernel.wire.ask("unpin", pin=answer["pin"])


def test_rows_of_steppers_runs_and_checks(kernel, tmp_path):
    run = gw.Run(tmp_path / "run", name="first", store=None)
    graph, trainer = parabola(callbacks=[run])
    kernel.names["s"] = stepper = gw.Stepper(graph, ["loss"])
    kernel.names["t"] = trainer
    kernel.names["report"] = gw.gradient_check(graph, "loss")
    stepper.run_to("loss")
    kernel.wire.ask("hello")
    assert kernel.wire.latest("steppers")[0] == {"key": "s", "name": "parabola", "at": "loss"}
    assert kernel.wire.latest("checks")[0] == {
        "key": "report", "loss": "loss", "outcome": "passed", "blame": [],
    }  # fmt: skip
    assert kernel.wire.latest("runs")[0]["folder"] == str(tmp_path / "run")


def test_node_to_cell_and_line_and_cell_to_nodes(kernel):
    graph = gw.Graph("net")
    with graph.cell("first"):
        x = graph.placeholder("x", (2,))
    with graph.cell("second"):
        y = gw.exp(x, name="y")
        view = gww.GraphView(graph)
    kernel.names["g"] = graph
    kernel.wire.ask("hello")
    assert kernel.wire.latest("cells") == {"first": {"g": 1}, "second": {"g": 1}}
    place = kernel.wire.ask("where", graph="net", node="y")
    assert place["cell"] == "second" and place["file"] == __file__
    assert place["code"][2][1].strip() == 'y = gw.exp(x, name="y")' and place == {
        "kind": "answer", "id": place["id"], **place_of(y.node),
    }  # fmt: skip
    assert (
        "no graph 'net' has a node 'z'" in kernel.wire.ask("where", graph="net", node="z")["error"]
    )
    assert kernel.wire.ask("select", cell="second", graph="g")["nodes"] == ["y"]
    assert (view.selected, view.overlay["title"]) == ("y", "this cell")
    assert nodes_of_cell(graph, "nowhere") == []
    view.close()


def test_a_page_that_is_gone_takes_nobody_along(kernel):
    other = Wire("two")
    kernel.session.join(other)
    other.broken = True
    kernel.names["g"] = parabola()[0]
    kernel.session.look()
    assert kernel.wire.latest("graphs")[0]["key"] == "g"
    assert list(kernel.session._comms.values()) == [kernel.wire]


def test_a_page_that_was_loaded_anew_takes_its_own_place(kernel):
    kernel.wire.ask("hello", page="tab")
    again = Wire("two")
    kernel.session.join(again)
    again.ask("hello", page="tab")
    assert list(kernel.session._comms.values()) == [again]
    again.closed({})


MESSAGES = [None, [], {}, {"kind": 3}, {"kind": "no"}, {"kind": "look"}, {"kind": "unpin"}]


@pytest.mark.parametrize("message", [*MESSAGES, {"kind": "hello", "page": [1]}])
def test_messages_of_others_change_nothing(kernel, message):
    kernel.wire.heard({"content": {"data": message}})
    assert not kernel.session._pins


def test_the_hook_is_set_once_in_a_kernel_and_nowhere_else():
    registered = []
    manager = SimpleNamespace(
        targets={}, register_target=lambda n, f: manager.targets.update({n: f})
    )
    events = SimpleNamespace(register=lambda event, f: registered.append(event))
    shell = SimpleNamespace(kernel=SimpleNamespace(comm_manager=manager), events=events)
    assert hook.install(shell) and hook.install(shell)
    assert list(manager.targets) == ["gradwright.panel"] and registered == ["post_run_cell"]
    assert not hook.install(SimpleNamespace()) and not hook.install()


def test_what_a_page_says_while_the_session_takes_over_is_heard(monkeypatch):
    wire, heard = Wire(), list[str]()
    session = SimpleNamespace(receive=lambda comm, data: heard.append(data["kind"]))
    waiting = hook.Waiting(wire)

    def say(kind: str) -> threading.Thread:
        thread = threading.Thread(target=wire.heard, args=({"content": {"data": {"kind": kind}}},))
        thread.start()
        return thread

    def join(comm: Any) -> Any:
        last.append(say("amidst"))
        last[0].join(0.1)
        return session

    last: list[threading.Thread] = []
    monkeypatch.setattr(hook, "_joined", join)
    say("hello").join()
    waiting._join()
    last[0].join()
    say("after").join()
    assert heard == ["hello", "amidst", "after"]


def test_a_cell_ends_well_whatever_the_objects_of_the_user_answer(kernel):
    class Own(gw.Trainer):
        broken = False
        steps_done = property(lambda self: 1 // (not self.broken))

    graph, _ = parabola()
    trainer = Own(graph, graph["loss"])
    kernel.names.update(g=graph, t=trainer)
    trainer.broken = True
    kernel.session.cell_ended(None)
    trainer.broken = False
    kernel.session.cell_ended(None)
    assert next(row["key"] for row in kernel.wire.latest("trainings")) == "t"
    assert kernel.session._thread.is_alive(), "it looks on"


def test_nothing_is_held_for_a_page_that_has_gone(kernel):
    graph, trainer = parabola()
    kernel.names.update(g=graph, t=trainer)
    kernel.session.look()
    held = weakref.ref(graph), weakref.ref(trainer)
    kernel.names.clear()
    kernel.wire.closed({})
    wait_for(lambda: kernel.session._thread is None)
    del graph, trainer
    gc.collect()
    assert [ref() for ref in held] == [None, None]

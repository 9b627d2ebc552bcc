"""The widgets without a browser: traits, commands, messages, beside a trainer."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets import GraphView, LivePlot, ParameterTable, Workbench
from gradwright_widgets.host.pace import CommandQueue, Pace
from gradwright_widgets.panels.plot.panel import PlotPanel
from tests.support.panels import sent, wait_for
from tests.widgets import digit_widgets

data = pytest.fixture(digit_widgets.data)
graph = pytest.fixture(digit_widgets.graph)
trainer = pytest.fixture(digit_widgets.trainer)


# -- traits ----------------------------------------------------------------------------------------


def test_an_unknown_option_names_the_one_that_was_meant(graph):
    with pytest.raises(TypeError, match="Workbench has no option 'dta'; did you mean 'data'"):
        Workbench(gw.Graph(), dta={})
    with pytest.raises(TypeError, match="GraphView has no option 'heigth'; did you mean 'height'"):
        GraphView(graph, heigth=300)
    with pytest.raises(TypeError, match="there are color_by, edits, expanded, feeds, follow"):
        GraphView(graph, zzz=1)
    with pytest.raises(TypeError, match=r"shows a gradwright\.Graph, got 'digits'"):
        GraphView("digits")


def test_selection_and_scopes_are_checked(graph):
    view = GraphView(graph)
    for name in ("hidden/w", "hidden/", "loss", ""):
        view.selected = name
    with pytest.raises(gw.errors.GraphError, match="nothing is called 'hidden/v'"):
        view.selected = "hidden/v"
    with pytest.raises(gw.errors.GraphError, match="has no scope 'visible'"):
        view.expanded = ["hidden", "visible"]
    assert (view.selected, view.expanded) == ("", None)


def test_of_many_scopes_an_error_names_the_closest():
    graph = gw.Graph("tall")
    for k in range(300):
        with graph.scope(f"stage{k}"):
            graph.placeholder("x", (1,))
    view = GraphView(graph)
    with pytest.raises(gw.errors.GraphError, match="closest of 300 scopes: 'stage17'") as found:
        view.expanded = ["stages17"]
    assert len(str(found.value)) < 300
    with pytest.raises(gw.errors.GraphError, match=r"there are stage0, .* and 288 more"):
        view.expanded = ["?"]


def test_selection_is_reported(graph):
    view, names = GraphView(graph), []
    view.on_select(names.append)
    view.selected = "loss"
    assert names == ["loss"]


def test_refresh_follows_the_graph(graph):
    view = Workbench(graph, selected="loss", expanded=["hidden"])
    before = view.graph_spec
    view.refresh()
    assert view.graph_spec is before, "nothing has changed, so nothing is sent"
    graph.freeze("hidden/*")
    gw.nn.softmax(graph["matmul"], name="p")
    view.refresh()
    assert view.frozen == ["hidden/w", "hidden/b"]
    assert "p" in view.graph_spec["names"]
    assert (view.selected, view.expanded) == ("loss", ["hidden"])


def test_a_module_that_was_not_built_is_named(graph, monkeypatch, tmp_path):
    from gradwright_widgets.host import base

    base.bundle.cache_clear()
    monkeypatch.setattr(base, "STATIC", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"without graph_view\.js[\s\S]*npm run build"):
        GraphView(graph)
    base.bundle.cache_clear()


# -- parameters ------------------------------------------------------------------------------------


def test_the_table_lists_what_can_be_trained(graph):
    table = ParameterTable(graph)
    assert [p["name"] for p in table.parameters] == ["hidden/w", "hidden/b", "w2"]
    assert table.parameters[0] == {
        "name": "hidden/w",
        "shape": [8, 6],
        "dtype": "f32",
        "count": 48,
        "bytes": 192,
        "running": False,
    }


def test_the_box_freezes_the_graph(graph, monkeypatch):
    table = ParameterTable(graph)
    messages = sent(table, monkeypatch)
    freeze = {"kind": "parameters.freeze", "names": ["hidden/w"], "frozen": True, "id": 3}
    table._receive(table, freeze, [])
    assert not graph["hidden/w"].trainable
    assert graph["hidden/b"].trainable
    assert table.frozen == ["hidden/w"]
    assert messages == [({"kind": "heard", "id": 3}, None), ({"kind": "done", "id": 3}, None)]
    table._receive(table, {**freeze, "frozen": False}, [])
    assert graph["hidden/w"].trainable
    assert table.frozen == []


def test_a_name_with_wildcards_freezes_itself_alone():
    g = gw.Graph()
    g.variable("w*", ())
    g.variable("w2", ())
    table = ParameterTable(g)
    table._receive(table, {"kind": "parameters.freeze", "names": ["w*"], "frozen": True}, [])
    assert table.frozen == ["w*"]


def test_a_request_that_fails_is_shown_and_answered(graph, monkeypatch):
    table = ParameterTable(graph)
    messages = sent(table, monkeypatch)
    table.freeze("nothing*")
    assert "no floating variable fits 'nothing*'" in table.message
    assert not messages, "code has asked, and no page"
    table.freeze("hidden/*")
    assert table.message == ""
    freeze = {"kind": "parameters.freeze", "names": ["gone"], "frozen": True, "id": 1}
    table._receive(table, freeze, [])
    assert "gone" in table.message
    assert [content["kind"] for content, _ in messages] == ["heard", "done"]


def test_a_request_is_heard_and_then_done_or_refused(graph, monkeypatch):
    bench = Workbench(graph)
    messages = sent(bench, monkeypatch)
    for number, kind in enumerate(("desk.hear", "training.start", "no.such")):
        bench._receive(bench, {"kind": kind, "id": number}, [])
    assert [(content["kind"], content["id"]) for content, _ in messages] == [
        ("heard", 0), ("done", 0), ("heard", 1), ("refused", 1), ("heard", 2), ("refused", 2),
    ]  # fmt: skip
    assert "no trainer" in bench.message


def test_a_request_that_waits_for_a_step_is_done_after_it(graph, trainer, data, monkeypatch):
    bench = Workbench(graph, trainer)
    messages = sent(bench, monkeypatch)
    answers = []

    class Ask(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 1:
                freeze = {"kind": "parameters.freeze", "names": ["w2"], "frozen": True, "id": 1}
                thread = threading.Thread(target=bench._receive, args=(bench, freeze, []))
                thread.start()
                thread.join()
            answers.append([content["kind"] for content, _ in messages if "id" in content])

    follow = trainer.callbacks[-1]
    trainer.remove_callback(follow)  # the boundary comes after our look
    trainer.add_callback(Ask())
    trainer.add_callback(follow)
    trainer.fit(data, batch_size=32, progress=False)
    assert answers[:2] == [["heard"], ["heard", "done"]]


def test_unknown_messages_are_ignored(graph):
    bench = Workbench(graph)
    for content in ({"kind": "__init__"}, {"kind": ["x"]}, {}, "text", None):
        bench._receive(bench, content, [])


# -- following a trainer ---------------------------------------------------------------------------


def test_curves_follow_the_trainer(trainer, data):
    plot = LivePlot(trainer)
    history = trainer.fit(data, epochs=3, batch_size=32, validation=data, progress=False)
    steps, losses = plot.points("loss", "step")
    assert steps == list(range(1, 10))
    np.testing.assert_array_equal(losses, history.steps["loss"])
    np.testing.assert_array_equal(plot.points("loss", "validation")[1], history.epochs["val_loss"])
    np.testing.assert_array_equal(plot.points("loss", "train")[1], history.epochs["loss"])
    assert plot.points("grad_norm", "step") == ([], [])
    assert plot.status == "epoch 3 · step 9"


def test_curves_of_training_that_has_been_are_there(trainer, data):
    live = LivePlot(trainer)
    trainer.fit(data, epochs=2, batch_size=32, validation=data, progress=False)
    late = LivePlot(trainer)
    for name in ("step", "train", "validation"):
        assert late.points("loss", name) == live.points("loss", name)


def test_a_frozen_parameter_stays_bit_for_bit(graph, trainer, data):
    bench = Workbench(graph, trainer)

    class FreezeAtStepThree(gw.Callback):
        def on_step_end(self, trainer, record):
            if record.step == 3:
                request = {"kind": "parameters.freeze", "names": ["hidden/w"], "frozen": True}
                thread = threading.Thread(target=bench._receive, args=(bench, request, []))
                thread.start()
                thread.join()
                assert graph["hidden/w"].trainable, "the command waits for the step boundary"
            if record.step == 4:
                self.held = graph.values["hidden/w"].copy()

    # Called before the workbench's own callback, and so between the step and its boundary.
    follow = trainer.callbacks[-1]
    trainer.remove_callback(follow)
    probe = FreezeAtStepThree()
    trainer.add_callback(probe)
    trainer.add_callback(follow)
    before = graph.values["w2"].copy()
    trainer.fit(data, epochs=4, batch_size=32, progress=False)
    assert bench.frozen == ["hidden/w"]
    np.testing.assert_array_equal(graph.values["hidden/w"], probe.held)
    assert np.abs(graph.values["w2"] - before).max() > 0


def test_commands_run_while_the_training_is_paused(graph, trainer, data):
    bench = Workbench(graph, trainer)
    thread = threading.Thread(
        target=lambda: trainer.fit(data, epochs=10_000, batch_size=32, progress=False)
    )
    thread.start()
    try:
        wait_for(lambda: trainer.steps_done >= 3)
        trainer.pause(wait=True)
        bench.freeze("w2")
        assert not graph["w2"].trainable
    finally:
        trainer.stop()
        thread.join(30)
    assert not thread.is_alive()
    assert not bench.commands.busy


def test_an_error_in_training_leaves_the_widgets_usable(graph, trainer, data):
    bench = Workbench(graph, trainer)
    with pytest.raises(gw.errors.GradwrightError):
        trainer.fit({**data, "x": data["x"] * np.float32("nan")}, progress=False)
    bench.freeze("w2")
    assert bench.frozen == ["w2"]


def no_timer_waits(paces):
    timers = [t for t in threading.enumerate() if isinstance(t, threading.Timer)]
    ours = [t for t in timers if getattr(t.function, "__self__", None) in paces]
    assert all(t.finished.is_set() for t in ours)
    for timer in ours:
        timer.join(10)  # cancelled, and on its way out


def test_a_closed_or_forgotten_widget_costs_nothing(graph, trainer, data):
    bench = Workbench(graph, trainer)
    bench.append(0, {"loss": 1.0})
    bench.append(1, {"loss": 1.0})
    bench.close()
    gone = weakref.ref(bench)
    trainer.fit(data, progress=False)
    assert bench.points("loss", "step") == ([], [])
    assert not any(work.busy for work in bench._works)
    no_timer_waits(bench._paces)
    del bench
    gc.collect()
    assert gone() is None


# -- messages and their pace -----------------------------------------------------------------------


def test_points_leave_as_one_frame_and_in_order(monkeypatch):
    plot = LivePlot()
    messages = sent(plot, monkeypatch)
    for step in range(5000):
        plot.append(step, {"loss": step / 2, "accuracy": 0.5})
    plot.part(PlotPanel)._pace.flush()
    assert len(messages) < 30
    found = {0: [], 1: []}
    for content, (xs, ys) in messages:
        assert content["kind"] == "plot.points"
        at = 0
        for part in content["parts"]:
            assert part["start"] == len(found[part["series"]])
            stretch = slice(at, at + part["count"])
            found[part["series"]] += np.frombuffer(ys, "<f8")[stretch].tolist()
            at += part["count"]
        assert len(xs) == len(ys) == 8 * at
    assert found[0] == [step / 2 for step in range(5000)]
    assert found[1] == [0.5] * 5000


def test_a_new_view_gets_everything(monkeypatch):
    plot = LivePlot()
    plot.extend("loss", "train", range(100), np.arange(100) / 7)
    plot.part(PlotPanel)._pace.flush()
    messages = sent(plot, monkeypatch)
    plot._receive(plot, {"kind": "plot.sync"}, [])
    ((content, (_, ys)),) = messages
    assert content["parts"] == [{"series": 0, "start": 0, "count": 100}]
    np.testing.assert_array_equal(np.frombuffer(ys, "<f8"), np.arange(100) / 7)


def test_a_reset_starts_another_run(monkeypatch):
    plot = LivePlot()
    plot.append(1, {"loss": 3.0})
    plot.reset()
    plot.append(1, {"loss": 2.0})
    content, _ = plot.new_view_messages()[0]
    assert content["run"] == 1
    assert plot.points("loss") == ([1.0], [2.0])


def test_pace_holds_back_and_then_sends():
    sent_at = []
    pace = Pace(lambda: sent_at.append(time.monotonic()), per_second=50)
    for _ in range(20):
        pace.request()
    assert len(sent_at) == 1, "the first at once, the others together"
    wait_for(lambda: len(sent_at) == 2)
    assert sent_at[1] - sent_at[0] >= 0.015


def test_commands_never_run_side_by_side():
    commands, running, most = CommandQueue(), [0], [0]

    def command():
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.001)
        running[0] -= 1

    threads = [
        threading.Thread(target=lambda: [commands.submit(command) for _ in range(10)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1

"""Widgets beside trainings, threads and graphs that change: who outlives whom."""

from __future__ import annotations

import threading

import ipywidgets
import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets import GraphView, LivePlot, ParameterTable, StepperPanel, Workbench
from gradwright_widgets.host.work import Work
from tests.widgets import benches
from tests.widgets.benches import data, network

bench = pytest.fixture(benches.bench)


def test_a_training_outlives_what_goes_wrong_in_its_widgets(bench, monkeypatch):
    def broken(record):
        raise ZeroDivisionError("a panel")

    monkeypatch.setattr(bench, "step_ended", broken)
    bench.trainer.fit(data(), batch_size=8, progress=False)
    assert bench.trainer.progress.outcome == "finished"
    assert bench.message == "ZeroDivisionError: a panel"


def test_a_command_of_the_training_thread_runs_at_once(bench):
    seen = []

    class Look(gw.Callback):
        def on_step_end(self, trainer, record):
            seen.append(bench.stepper.run_to("loss").reason)

    bench.trainer.add_callback(Look())
    bench.trainer.fit(data(), batch_size=16, progress=False)
    assert seen == ["target"]


def test_no_step_runs_beside_a_command_of_a_pause(bench):
    inside, go_on, order = threading.Event(), threading.Event(), []

    def command():
        inside.set()
        assert go_on.wait(10)
        order.append("command")

    class Pause(gw.Callback):
        def on_step_end(self, trainer, record):
            order.append(f"step {record.step}")
            if record.step == 1:
                trainer.pause()

        def on_pause(self, trainer):
            self.thread = threading.Thread(target=bench.commands.submit, args=(command,))
            self.thread.start()
            assert inside.wait(10)
            trainer.resume()
            threading.Timer(0.05, go_on.set).start()

    pause = Pause()
    bench.trainer.add_callback(pause)
    bench.trainer.fit(data(), batch_size=8, progress=False)
    pause.thread.join()
    assert order == ["step 1", "command", "step 2"]


def test_widgets_made_again_and_again_leave_nothing_at_the_trainer(bench):
    g, trainer = bench.graph, bench.trainer
    before = trainer.callbacks
    for make in (Workbench, ParameterTable, GraphView):
        for _ in range(3):
            make(g, trainer).close()
    LivePlot(trainer).close()
    assert trainer.callbacks == before
    again = Workbench(g, trainer, data=data(), epochs=2, batch_size=8)
    again.start()
    again.wait()
    again.close()
    assert trainer.callbacks == before


def test_widgets_made_again_and_again_leave_no_model_behind(bench):
    before = set(ipywidgets.widgets.widget._instances)
    for make in (Workbench, ParameterTable, GraphView):
        for _ in range(3):
            widget = make(bench.graph, bench.trainer)
            widget.close()
            widget.close()
    LivePlot(bench.trainer).close()
    shared = ipywidgets.Layout()
    GraphView(bench.graph, layout=shared).close()
    assert shared.comm is not None
    shared.close()
    assert set(ipywidgets.widgets.widget._instances) <= before


def test_a_widget_closed_during_a_fit_leaves_at_its_end(bench):
    other = ParameterTable(bench.graph, bench.trainer)
    follow = bench.trainer.callbacks[-1]

    class Close(gw.Callback):
        def on_step_end(self, trainer, record):
            other.close()
            other.freeze("gain")  # waits for the end of the fit
            assert follow in trainer.callbacks

    close = Close()
    bench.trainer.add_callback(close)
    bench.trainer.fit(data(), batch_size=16, progress=False)
    assert follow not in bench.trainer.callbacks and not other.commands.busy
    assert not bench.graph["gain"].trainable


def test_tables_are_made_while_a_training_samples(bench):
    failed, made = [], []

    def train():
        try:
            bench.trainer.fit(data(), epochs=200, batch_size=8, progress=False)
        except Exception as error:
            failed.append(error)

    bench.trainer.callbacks[0].seconds = 0.0
    thread = threading.Thread(target=train)
    thread.start()
    while thread.is_alive() and len(made) < 40:
        made.append(ParameterTable(bench.graph, bench.trainer))
    bench.trainer.stop()
    thread.join()
    for table in made:
        table.close()
    assert not failed


def test_work_that_is_about_to_begin_is_waited_for(monkeypatch):
    begin, done, start = threading.Event(), [], threading.Thread.start

    def late(thread):
        if thread.name == "gradwright late":
            assert begin.wait(10)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", late)
    work = Work("late")
    starter = threading.Thread(target=work.start, args=(lambda stop: done.append(1),))
    starter.start()
    threading.Timer(0.05, begin.set).start()
    while work._thread is None:
        pass
    work.join()
    starter.join()
    assert done == [1]


@pytest.mark.parametrize(
    "wrong", [{"scale": 1e300}, {"scale": float("nan")}, {"value": 1.5, "index": (0,)},
              {"value": float("nan")}, {"value": [[1], [2, 3]]}, {"value": "'a'"}, {"value": 300},
              {"value": 300, "index": (0,)}, {"value": 1j, "index": (0,)}, {}],
)  # fmt: skip
def test_an_edit_that_does_not_fit_changes_nothing(wrong):
    g = gw.Graph()
    x = g.placeholder("x", (3,), dtype="int8")
    gw.sum(x, name="y")
    panel = StepperPanel(g, fetches=["y"], feeds={"x": [1, 2, 3]})
    panel.stepper.run()
    with pytest.raises(gw.errors.GradwrightError):
        panel.edit("x", **wrong)
    assert panel.stepper.value("x").tolist() == [1, 2, 3] and not panel.stepper.pending
    panel.edit("x", scale=-2.0)
    assert panel.stepper.value("x").tolist() == [-2, -4, -6]


def test_a_point_that_is_no_number_leaves_the_curves_whole():
    plot = LivePlot()
    plot.append(1, {"a": 1.0, "b": 1.0})
    for step, value in ((2, "much"), ("two", 2.0), (2, None), (2, 10**400)):
        with pytest.raises(gw.errors.GradwrightError, match="a point of a curve is a number"):
            plot.append(step, {"a": 2.0, "b": value})
    plot.append(3, {"a": 3.0, "b": 3.0})
    assert plot.points("a") == plot.points("b") == ([1.0, 3.0], [1.0, 3.0])


def test_a_check_that_cannot_begin_is_not_running(bench):
    with pytest.raises(Exception, match="check_limit"):
        bench.check(max_per_param=-5)
    assert bench.check_state == "" and bench.check_report is None
    bench.check(wait=True, max_per_param=1)
    assert bench.check_state == "done"


def test_a_tensor_that_was_removed_is_shown_no_more(bench):
    g = bench.graph
    spare = g.variable("spare", (2,))
    bench.refresh()
    bench.selected = "spare"
    bench._receive(bench, {"kind": "tensor.look", "view": "v", "shown": True}, [])
    assert bench.tensor == "spare"
    with g.edit() as edit:
        edit.remove(spare)
    bench._receive(bench, {"kind": "tensor.sync", "id": 1}, [])
    assert bench.message == "", "the cell that removes it may still run"
    bench.refresh()
    assert bench.tensor == bench.selected == ""
    bench.to_html()


def test_a_variable_that_was_made_anew_or_renamed_is_measured_anew():
    g = gw.Graph()
    first = g.variable("w", (2,), init=1.0)
    g.variable("v", (2,), init=9.0)
    table = ParameterTable(g)
    table._receive(table, {"kind": "parameters.sync"}, [])

    def means():
        table.refresh()
        return {name: row["mean"] for name, row in table.parameter_numbers().items()}

    assert means() == {"w": 1.0, "v": 9.0}
    with g.edit() as edit:
        edit.remove(first)
    g.variable("w", (2,), init=5.0)
    assert means() == {"v": 9.0, "w": 5.0}
    for old, new in (("w", "other"), ("v", "w"), ("other", "v")):
        g.rename(old, new)
    assert means() == {"w": 9.0, "v": 5.0}


def test_a_page_of_a_check_whose_parameter_was_renamed(bench):
    bench.check(wait=True, max_per_param=2)
    bench.graph.rename("gain", "strength")
    bench.to_html()
    with pytest.raises(gw.errors.GradwrightError, match="'gain'"):
        bench.check_curve("gain", 0)
    curve = bench.check_curve("strength", 0)
    assert curve.analytic == pytest.approx(curve.numeric)


def test_a_loss_that_was_renamed_is_still_the_loss():
    g = network()
    view = Workbench(g, loss="loss", feeds=data(4))
    g.rename("loss", "the loss")
    assert view.loss_tensor() is g["the loss"]
    assert view.check(wait=True, max_per_param=1).loss == "the loss"


def test_values_of_a_session_are_those_that_are_shown_and_checked():
    g = network()
    mine = g.values.snapshot()
    session = gw.Session(g, values=mine)
    bench = Workbench(g, gw.Trainer(g, "loss", session=session), data=data(), batch_size=8)
    bench.start()
    bench.wait()
    bench.show_tensor("hidden/w")
    assert np.abs(g.values["hidden/w"] - mine["hidden/w"]).max() > 0
    np.testing.assert_array_equal(bench.tensor_value(), mine["hidden/w"])
    report = bench.check(wait=True, max_per_param=0)
    np.testing.assert_array_equal(report.occasion.values["hidden/w"], mine["hidden/w"])

"""Changes made by hand: they are listed in every widget of their graph, and taken back."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets import ParameterTable, TrainerPanel, Workbench
from gradwright_widgets.host.edits import edits_of
from tests.widgets import benches
from tests.widgets.benches import data, network

bench = pytest.fixture(benches.bench)


def ask(widget, kind, **facts):
    widget._receive(widget, {"kind": kind, "id": 1, **facts}, [])
    assert widget.message == ""


def texts(widget):
    return [edit["text"] for edit in widget.edits]


def test_what_code_does_is_no_change_by_hand(bench):
    bench.set_learning_rate(0.5)
    bench.freeze("gain")
    bench.stepper.break_at(op="matmul")
    bench.edit = bench.stepper.edit("gain", np.ones(3, "f4"))
    assert bench.edits == []


def test_a_rate_set_by_hand_outlives_its_cell_and_is_listed_there(bench):
    trainer = bench.trainer
    for rate in (0.2, 0.3):
        ask(bench, "rate.set", value=rate)
    assert texts(bench) == ["learning rate 0.05 → 0.3"]
    bench.close()
    again = TrainerPanel(trainer, data())
    assert texts(again) == ["learning rate 0.05 → 0.3"] and trainer.optimizer.learning_rate == 0.3
    ask(again, "desk.undo", key="rate")
    assert trainer.optimizer.learning_rate == 0.05 and again.edits == []
    ask(again, "rate.set", value=0.2)
    ask(again, "rate.set", value=0.05)
    assert again.edits == [], "a rate that was moved back is no change"
    again.close()


def test_a_schedule_comes_back():
    g = gw.Graph()
    w = g.variable("w", (), init=2.0)
    schedule = gw.schedules.Cosine(0.1, steps=10)
    trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(schedule))
    panel = TrainerPanel(trainer, [{}])
    ask(panel, "rate.set", value=1.0)
    ask(panel, "rate.set", value=2.0)
    assert len(panel.edits) == 1 and panel.training["aside"]
    panel.undo_edits()
    assert trainer.optimizer.learning_rate is schedule
    assert panel.training["aside"] == "" and panel.edits == []
    ask(panel, "rate.set", value=1.0)
    ask(panel, "rate.set")  # the button that goes back to the schedule
    assert trainer.optimizer.learning_rate is schedule and panel.edits == []
    panel.close()


def test_values_stops_and_frozen_parameters_are_taken_back_each_or_all(bench):
    bench.stepper.run()
    before = {n: bench.stepper.value(n).copy() for n in ("hidden/w", "loss")}
    trained = [t.name for t in bench.graph.trainable]
    edit = {"name": "hidden/w", "how": "element", "index": "0, 0", "value": "5", "rerun": True}
    ask(bench, "stepper.edit", **edit)
    ask(bench, "stepper.edit", **{**edit, "index": "1, 1"})
    ask(bench, "stepper.break", place="op", text="matmul")
    ask(bench, "stepper.break", place="op", text="relu")
    ask(bench, "parameters.freeze", names=["gain", "shift"], frozen=True)
    ask(bench, "parameters.freeze", names=["shift"], frozen=False)
    assert [t.partition(" ")[0] for t in texts(bench)] == ["hidden/w[1,", "stop", "stop", "gain"]
    assert bench.stepper.value("loss") != before["loss"]
    assert texts(ParameterTable(bench.graph)) == texts(bench)

    ask(bench, "desk.undo", key=bench.edits[1]["key"])
    assert [str(b).partition(" ")[2] for b in bench.stepper.breakpoints] == ["op relu"]
    ask(bench, "desk.undo")
    assert bench.edits == [] and not bench.stepper.breakpoints
    for name, value in before.items():
        assert np.array_equal(bench.stepper.value(name), value)
    assert [t.name for t in bench.graph.trainable] == trained


def test_a_stepper_that_begins_anew_has_no_edits(bench):
    bench.stepper.run()
    ask(bench, "stepper.edit", name="gain", how="fill", value="2")
    ask(bench, "stepper.break", place="op", text="relu")
    ask(bench, "stepper.move", verb="load")
    assert [t.partition(" ")[0] for t in texts(bench)] == ["stop"], "breakpoints stay"


def test_many_at_once_are_one_change():
    g = gw.Graph()
    for k in range(9):
        g.variable(f"w{k}", (2,))
    table = ParameterTable(g)
    ask(table, "parameters.freeze", names=[f"w{k}" for k in range(9)], frozen=True)
    assert texts(table) == ["9 parameters trained → frozen"] and not g.trainable
    ask(table, "desk.undo")
    assert len(g.trainable) == 9
    table.close()


def test_a_list_keeps_no_graph_alive():
    def made():
        g = network()
        trainer = gw.Trainer(g, "loss", optimizer=gw.optim.SGD(0.05))
        bench = Workbench(g, trainer, data=data(), batch_size=8)
        bench.stepper.run()
        ask(bench, "rate.set", value=1.0)
        ask(bench, "stepper.break", place="op", text="relu")
        ask(bench, "parameters.freeze", names=["gain"], frozen=True)
        assert len(edits_of(g).standing()) == 3
        bench.close()
        return weakref.ref(g)

    known = made()
    gc.collect()
    assert known() is None

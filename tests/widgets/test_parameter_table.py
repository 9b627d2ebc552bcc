"""The parameter table without a browser: numbers, frames, freezing, filters, pages that last."""

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
import traitlets

import gradwright as gw
from gradwright.errors import GraphError
from gradwright.train.callbacks.statistics import COLUMNS
from gradwright_widgets import ParameterTable, Workbench
from gradwright_widgets.panels.parameters import measuring
from gradwright_widgets.panels.parameters.panel import ParameterPanel, _closed_at_first, fits
from tests.support.panels import EVIL, sent, wait_for


@pytest.fixture
def graph():
    g = gw.Graph("net")
    x, t = g.placeholder("x", (None, 5)), g.placeholder("t", (None, 2))
    with g.scope("hidden"):
        w = g.variable("w", (5, 7), init=gw.init.he_normal(seed=0))
        h = gw.tanh(x @ w + g.variable("b", (7,)))
    y = h @ g.variable("out", (7, 2), init=gw.init.xavier_uniform(seed=1))
    gw.mean((y - t) ** 2.0, name="loss")
    return g


@pytest.fixture
def data():
    x = np.random.default_rng(3).standard_normal((24, 5)).astype("f4")
    return {"x": x, "t": x[:, :2] * 3 - 1}


@pytest.fixture
def trainer(graph):
    return gw.Trainer(graph, "loss", optimizer=gw.optim.SGD(0.1))


def sampled(trainer):
    """Return the statistics of every step, as a user adds them."""
    watch = gw.ParameterStatistics(every=1)
    trainer.add_callback(watch)
    return watch


class Page:
    """Reads frames as the browser does."""

    def __init__(self):
        self.layout, self.names, self.steps, self.history = -1, [], [], []

    def take(self, content, buffers):
        start, steps = content["start"], content["steps"]
        if start and (content["layout"] != self.layout or start > len(self.steps)):
            return False
        if not start:
            self.names = content["names"]
        self.layout, n = content["layout"], len(self.names)
        history = np.frombuffer(buffers[0], "<f4").reshape(len(steps), n, 2)
        self.steps = [*self.steps[:start], *steps]
        self.history = [*self.history[:start], *history]
        self.now = np.frombuffer(buffers[1], "<f4").reshape(n, len(COLUMNS))
        self.flags = np.frombuffer(buffers[2], np.uint8).reshape(n, 3)
        return True


# -- numbers ---------------------------------------------------------------------------------------


def test_without_a_trainer_the_values_are_measured(graph):
    table = ParameterTable(graph)
    page = Page()
    assert page.take(*table.new_view_messages()[-1])
    assert page.names == ["hidden/w", "hidden/b", "out"] and page.steps == []
    w = graph.values["hidden/w"].astype(float)
    expected = [w.mean(), w.std(), np.linalg.norm(w), w.min(), w.max(), 0]
    np.testing.assert_allclose(page.now[0, :6], expected, rtol=1e-6)
    assert np.isnan(page.now[:, 6:]).all()
    np.testing.assert_allclose(list(table.parameter_numbers()["hidden/w"].values())[:6], expected)


def test_numbers_are_those_of_the_trainer(graph, trainer, data):
    watch = sampled(trainer)
    table = ParameterTable(graph, trainer)
    assert table.statistics is watch, "the user's own statistics are shown"
    trainer.fit(data, epochs=3, batch_size=8, progress=False)
    page = Page()
    page.take(*table.new_view_messages()[-1])
    assert page.steps == watch.steps == list(range(1, 10))
    for k, name in enumerate(page.names):
        held = watch.history(name)
        np.testing.assert_allclose(page.now[k], list(watch.last()[name].values()), rtol=1e-6)
        np.testing.assert_allclose([h[k, 0] for h in page.history], held["gradient_norm"], 1e-6)
        np.testing.assert_allclose([h[k, 1] for h in page.history], held["ratio"], 1e-6)


def test_frames_add_up_to_what_a_new_view_gets(graph, trainer, data, monkeypatch):
    trainer.add_callback(gw.ParameterStatistics(every=1, keep=16))
    table = ParameterTable(graph, trainer)
    monkeypatch.setattr(
        table.part(ParameterPanel)._statistics_pace,
        "request",
        table.part(ParameterPanel)._send_statistics,
    )
    messages = sent(table, monkeypatch)
    table._receive(table, {"kind": "parameters.sync"}, [])
    for steps in range(40):
        trainer.step(data)
        if steps == 10:
            graph.freeze("hidden/b")
    page = Page()
    frames = [m for m in messages if m[0]["kind"] == "parameters.statistics"]
    assert len(frames) >= 40
    assert all(page.take(*frame) for frame in frames)
    whole = Page()
    whole.take(*table.new_view_messages()[-1])
    assert page.steps == whole.steps == table.statistics.steps
    np.testing.assert_array_equal(page.history, whole.history)
    np.testing.assert_array_equal(page.now, whole.now)
    longest = max(len(c["steps"]) for c, _ in frames if c["start"])
    assert longest <= 2, "only the latest samples are sent"


def test_frames_leave_four_times_a_second(graph, trainer, data, monkeypatch):
    sampled(trainer)
    table = ParameterTable(graph, trainer)
    messages = sent(table, monkeypatch)
    trainer.fit(data, epochs=50, batch_size=8, progress=False)
    assert messages == [], "nobody looks"
    table._receive(table, {"kind": "parameters.sync"}, [])
    assert table.part(ParameterPanel)._statistics_pace._interval == 0.25
    began = time.monotonic()
    trainer.fit(data, epochs=100, batch_size=8, progress=False)
    frames = [m for m in messages if m[0]["kind"] == "parameters.statistics"]
    assert 2 <= len(frames) <= 4 * (time.monotonic() - began) + 4


def test_a_value_that_is_set_is_measured_again(graph, trainer, data):
    sampled(trainer)
    table = ParameterTable(graph, trainer)
    trainer.step(data)
    graph.values["out"] = np.full((7, 2), 3.0)
    table.new_view_messages()
    numbers = table.parameter_numbers()
    assert numbers["out"]["mean"] == 3 and numbers["out"]["std"] == 0
    assert numbers["out"]["gradient_norm"] > 0, "the gradient is still that of the last step"
    graph.values["hidden/b"] = np.full(7, np.nan)
    table.new_view_messages()
    assert table.parameter_flags() == {"hidden/b": ("not finite",)}


def test_large_models_are_measured_beside_the_cells(graph, monkeypatch):
    monkeypatch.setattr(measuring, "AT_ONCE", 10)
    monkeypatch.setattr(measuring, "IN_A_ROW", 5)
    threads = set()
    measure = measuring.value_statistics

    def spy(arrays):
        threads.add(threading.current_thread())
        return measure(arrays)

    monkeypatch.setattr(measuring, "value_statistics", spy)
    table = ParameterTable(graph)
    assert not threads, "nothing is measured before somebody looks"
    table._receive(table, {"kind": "parameters.sync"}, [])
    wait_for(lambda: not np.isnan(table.parameter_numbers()["out"]["mean"]))
    assert threads and threading.main_thread() not in threads
    graph.values["out"] = np.full((7, 2), 3.0)
    table.refresh()
    wait_for(lambda: table.parameter_numbers()["out"]["mean"] == 3)
    table.close()
    wait_for(lambda: not table._works[-1].busy)


def test_values_beyond_float32_are_shown_and_warn_nobody():
    g = gw.Graph()
    g.variable("w", (2,), dtype="float64", init=[1e300, 2e300])
    table = ParameterTable(g)
    _, buffers = table.new_view_messages()[-1]
    assert np.isinf(np.frombuffer(buffers[1], "<f4")[2])
    assert "2.236e+300" in table.to_table()


def test_a_trainer_has_one_sampler_that_stops_when_the_tables_are_closed(graph, trainer, data):
    first, second = ParameterTable(graph, trainer), Workbench(graph, trainer)
    assert first.statistics is second.statistics
    samplers = [c for c in trainer.callbacks if isinstance(c, gw.ParameterStatistics)]
    assert samplers == [first.statistics]
    watch = first.statistics
    trainer.step(data)
    assert watch.steps == [1]
    first.close()
    watch._due = 0.0
    trainer.step(data)
    assert watch.steps == [1, 2], "one is still open"
    second.close()
    watch._due = 0.0
    trainer.step(data)
    assert watch.steps == [1, 2]


@pytest.mark.parametrize("epochs", [1, 5])
def test_a_short_training_is_sampled_at_its_last_step_too(graph, trainer, data, epochs):
    table = ParameterTable(graph, trainer)
    trainer.fit(data, epochs=epochs, batch_size=2, progress=False)
    assert table.statistics.steps[-1] == trainer.steps_done
    ratio = table.statistics.last()["hidden/w"]["ratio"]
    assert table.parameter_numbers()["hidden/w"]["ratio"] == ratio > 0
    trainer.fit(data, epochs=50, steps=3, batch_size=2, progress=False)
    assert table.statistics.steps[-1] == trainer.steps_done, "fewer steps than the epochs have"


def test_a_trainer_keeps_no_table_alive(graph, trainer):
    table = ParameterTable(graph, trainer)
    known = weakref.ref(table)
    table.close()
    del table
    gc.collect()
    assert known() is None


def test_live_samples_leave_the_numbers_as_they_are(data):
    def run(look):
        g = gw.Graph("net")
        x, t = g.placeholder("x", (None, 5)), g.placeholder("t", (None, 2))
        w = g.variable("w", (5, 2), init=gw.init.he_normal(seed=0))
        settled = gw.Session(g, deterministic=True)
        loss = gw.mean((x @ w - t) ** 2.0)
        trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(0.01), session=settled)
        if look:
            table = ParameterTable(g, trainer)
            table._receive(table, {"kind": "parameters.sync"}, [])
        trainer.fit(data, epochs=5, batch_size=7, progress=False)
        return trainer.history.steps["loss"].tobytes(), g.values["w"].tobytes()

    assert run(True) == run(False)


# -- freezing --------------------------------------------------------------------------------------


def test_a_box_of_a_group_freezes_what_is_in_it(graph, monkeypatch):
    table = ParameterTable(graph)
    messages = sent(table, monkeypatch)
    request = {"kind": "parameters.freeze", "names": ["hidden/w", "hidden/b"], "frozen": True,
               "id": 1}  # fmt: skip
    table._receive(table, request, [])
    assert table.frozen == ["hidden/w", "hidden/b"] and graph["out"].trainable
    table._receive(table, {**request, "names": ["hidden/b"], "frozen": False, "id": 2}, [])
    assert table.frozen == ["hidden/w"]
    assert [m for m, _ in messages] == [
        {"kind": kind, "id": k} for k in (1, 2) for kind in ("heard", "done")
    ]


@pytest.mark.parametrize("names", [["out", "gone"], ["out", "x"], ["loss"], "out", None, [], [7]])
def test_a_request_that_makes_no_sense_changes_nothing_and_is_answered(graph, names, monkeypatch):
    table = ParameterTable(graph)
    messages = sent(table, monkeypatch)
    request = {"kind": "parameters.freeze", "names": names, "frozen": True, "id": 1}
    table._receive(table, request, [])
    assert all(t.trainable for t in graph.variables)
    assert [m["kind"] for m, _ in messages] == ["heard", "done"]
    assert bool(table.message) == (isinstance(names, list) and bool(names))


def test_what_the_filter_shows_can_be_frozen_from_code(graph):
    table = ParameterTable(graph, table_filter="hidden/")
    assert table.shown_parameters() == ["hidden/w", "hidden/b"]
    table.freeze(*table.shown_parameters())
    assert table.frozen == ["hidden/w", "hidden/b"]
    table.table_filter = "/[/"
    with pytest.raises(GraphError, match="no regular expression"):
        table.shown_parameters()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "a/w a/b B/w [x] w*"),
        ("w", "a/w B/w w*"),
        ("b", "a/b B/w"),
        ("*/w", "a/w B/w"),
        ("a/?", "a/w a/b"),
        ("[ab]/*", "a/w a/b"),
        ("[!a]/*", "B/w"),
        ("/^a/", "a/w a/b"),
        ("/w$|x/", "a/w B/w [x]"),
        (" a/ ", "a/w a/b"),
        ("(", ""),
        ("/", "a/w a/b B/w"),
    ],
)
def test_filters(text, shown):
    names = ["a/w", "a/b", "B/w", "[x]", "w*"]
    assert [n for n in names if fits(text, n)] == shown.split()


def test_running_means_are_not_offered_for_training():
    g = gw.Graph()
    x = g.placeholder("x", (None, 4))
    running = g.variable("running", (4,), trainable=False)
    g.variable("w", (4,))
    g.update(running, running * 0.9 + gw.mean(x, axis=0) * 0.1)
    table = ParameterTable(g)
    assert {p["name"]: p["running"] for p in table.parameters} == {"running": True, "w": False}


# -- what is shown ---------------------------------------------------------------------------------


def test_options_that_are_no_columns_are_refused(graph):
    table = ParameterTable(graph, table_columns=["std", "ratio"], table_sort="-ratio")
    for name, value in (("table_sort", "size"), ("table_columns", ["std", "median"])):
        with pytest.raises(traitlets.TraitError):
            setattr(table, name, value)
    assert table.table_columns == ["std", "ratio"] and table.table_sort == "-ratio"


def test_large_models_begin_with_closed_groups():
    assert _closed_at_first(["a/w"] * 100) == []
    blocks = [f"model/block{i}/{n}" for i in range(40) for n in ("w", "b", "attn/q")]
    closed = _closed_at_first(blocks)
    assert len(closed) == 40 and "model/block7" in closed
    assert _closed_at_first([*blocks, "embedding"]) == ["model"]
    assert _closed_at_first([f"w{i}" for i in range(300)]) == []


def test_an_edit_of_the_graph_is_followed(graph, trainer, data):
    sampled(trainer)
    table = ParameterTable(graph, trainer)
    page = Page()
    trainer.step(data)
    page.take(*table.new_view_messages()[-1])
    graph.variable("later", (3,), init=2.0)
    table.refresh()
    content, buffers = table.part(ParameterPanel)._statistics_message(everything=False)
    assert content["start"] == 0 and content["layout"] != page.layout
    page.take(content, buffers)
    assert page.names[-1] == "later" and page.steps == [1]
    assert np.isnan(page.history[0][-1]).all() and not np.isnan(page.history[0][0]).any()


# -- views that last -------------------------------------------------------------------------------


def test_the_still_table_has_the_numbers(graph, trainer, data):
    sampled(trainer)
    table = ParameterTable(graph, trainer)
    graph.freeze("hidden/b")
    trainer.step(data)
    text = table.to_table()
    cells = re.findall(r"<tr><td>([^<]*)</td>(.*?)</tr>", text)
    rows = {name: re.findall(r"<td>([^<]*)</td>", rest) for name, rest in cells}
    last = table.statistics.last()
    assert rows["hidden/w"][3:] == [
        *(f"{last['hidden/w'][c]:.4g}" for c in ("mean", "std", "norm", "gradient_norm", "ratio")),
        "trainable",
    ]
    assert rows["hidden/b"][-1] == "frozen" and rows["hidden/b"][-3] == ""


def test_a_long_table_says_how_much_is_left_out():
    g = gw.Graph()
    for i in range(310):
        g.variable(f"w{i}", ())
    text = ParameterTable(g).to_table()
    assert text.count("<tr>") == 302 and "10 more" in text


def test_a_saved_page_has_numbers_and_history(graph, trainer, data):
    watch = sampled(trainer)
    table = ParameterTable(graph, trainer, table_sort="-ratio", table_filter="hidden")
    trainer.fit(data, epochs=2, batch_size=8, progress=False)
    html = table.to_html()
    saved = json.loads(re.search(r'id="saved">(.*?)</script>', html)[1])
    assert saved["state"]["table_sort"] == "-ratio" and saved["state"]["table_filter"] == "hidden"
    found = [m for m in saved["messages"] if m["content"]["kind"] == "parameters.statistics"]
    page = Page()
    page.take(found[0]["content"], [base64.b64decode(b["$bytes"]) for b in found[0]["buffers"]])
    assert page.steps == watch.steps
    np.testing.assert_allclose(page.now[2, -1], watch.last()["out"]["ratio"], rtol=1e-6)


def test_names_are_text_everywhere():
    g = gw.Graph()
    g.variable(EVIL, (2,))
    table = ParameterTable(g)
    assert EVIL not in table.to_table() and "&lt;img" in table.to_table()
    assert EVIL.replace('"', '\\"') not in table.to_html()

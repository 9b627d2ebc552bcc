"""Runs side by side: the table, the curves, what settings differ in, and other processes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
import traitlets

import gradwright as gw
from gradwright.errors import GradwrightError
from gradwright_widgets import RunComparison
from gradwright_widgets.panels.runs.panel import RunsPanel
from gradwright_widgets.panels.runs.reader import RunReader
from tests.support.panels import EVIL, PATIENCE, sent


def record(store, name, rate=0.1, epochs=3, tags=(), folder=None):
    g = gw.Graph("line")
    x, w = g.placeholder("x", (None,)), g.variable("w", (), init=2.0)
    run = gw.Run(folder, name=name, tags=tags, store=store)
    trainer = gw.Trainer(
        g, gw.mean((x * w) ** 2.0, name="loss"), optimizer=gw.optim.SGD(rate), callbacks=[run]
    )
    rows = {"x": np.linspace(-1, 1, 16).astype("f4")}
    trainer.fit(rows, epochs=epochs, batch_size=8, validation=rows, progress=False)
    return trainer, rows


@pytest.fixture
def store(tmp_path):
    return gw.train.Store(tmp_path / "runs")


def keys(comparison):
    return {row["name"]: row["key"] for row in comparison.run_table()}


def test_without_runs_the_page_says_how_to_record_one(store):
    comparison = RunComparison(store)
    assert comparison.run_table() == [] and comparison.to_table() == comparison.to_svg() == ""
    assert '"whole": true' in comparison.to_html() and not store.root.exists()


def test_the_table_is_sorted_and_filtered(store):
    for name, rate in (("slow", 0.01), ("fast", 0.3), ("Middle", 0.1)):
        record(store, name, rate, tags=["quick"] if name == "fast" else [])
    comparison = RunComparison(store, runs_sort="loss")
    assert [row["name"] for row in comparison.run_table()] == ["fast", "Middle", "slow"]
    for sort, first in (("-val_loss", "slow"), ("name", "fast"), ("-created", "Middle")):
        comparison.runs_sort = sort
        assert comparison.run_table()[0]["name"] == first
    for text, names in (("quick", {"fast"}), ("/^s/", {"slow"}), ("*MIDDLE*", set())):
        comparison.runs_filter = text
        assert {row["name"] for row in comparison.run_table()} == names
    comparison.runs_filter = "/(/"
    with pytest.raises(GradwrightError, match="no regular expression"):
        comparison.run_table()


def test_curves_are_those_of_the_histories(store):
    one, _ = record(store, "one", 0.1, epochs=4)
    two, _ = record(store, "two", 0.3)
    comparison = RunComparison(store)
    comparison.compare("one", "two")
    by_name = keys(comparison)
    for name, trainer in (("one", one), ("two", two)):
        x, y = comparison.run_points(by_name[name])
        assert x == list(range(1, trainer.epochs_done + 1))
        np.testing.assert_array_equal(y, trainer.history.epochs["val_loss"])
    comparison.runs_metric, comparison.runs_x_axis = "each step: grad_norm", "step"
    x, y = comparison.run_points(by_name["one"])
    assert x == list(range(1, 9))
    np.testing.assert_array_equal(y, one.history.steps["grad_norm"])
    comparison.runs_x_axis = "epoch"
    assert comparison.run_points(by_name["one"])[0] == [k / 2 for k in range(1, 9)]
    comparison.runs_x_axis = "seconds"
    assert np.diff(comparison.run_points(by_name["one"])[0]).min() > 0
    comparison.runs_metric = EVIL
    assert len(comparison.run_points(by_name["one"])[0]) == 4, "the usual one instead"


def test_settings_that_differ_are_told_for_all(store):
    for name, rate in (("a", 0.1), ("b", 0.2), ("c", 0.1)):
        record(store, name, rate)
    comparison = RunComparison(store)
    comparison.compare("a", "c")
    assert comparison.run_differences() == []
    comparison.compare("a", "b", "c")
    expected = [["training.optimizer.learning_rate", "0.1", "0.2", "0.1"]]
    assert comparison.run_differences() == expected
    with pytest.raises(GradwrightError, match=r"did you mean 'a'|0 runs are called"):
        comparison.compare("A")
    with pytest.raises(traitlets.TraitError):
        comparison.runs_chosen = [str(k) for k in range(13)]


def test_only_what_is_new_is_sent(store, monkeypatch):
    trainer, rows = record(store, "one")
    record(store, "two")
    comparison = RunComparison(store)
    comparison.compare("one", "two")
    comparison.part(RunsPanel)._runs_work.join(PATIENCE)
    comparison.refresh_runs()
    messages = sent(comparison, monkeypatch)
    comparison.refresh_runs()
    assert messages == [], "nothing is new"
    trainer.fit(rows, epochs=2, batch_size=8, validation=rows, progress=False)
    comparison.refresh_runs()
    table, curves = (content for content, _ in messages)
    assert [row["name"] for row in table["rows"]] == ["one"] and not table["whole"]
    assert [(p["start"], p["count"]) for p in curves["parts"]] == [(3, 2)]
    comparison.refresh_runs()
    assert len(messages) == 2


def test_a_page_asks_and_is_answered(store, monkeypatch):
    record(store, EVIL)
    comparison = RunComparison(store)
    messages = sent(comparison, monkeypatch)
    for whole in (True, False, EVIL):
        comparison._receive(comparison, {"kind": "runs.look", "whole": whole}, [])
        comparison.part(RunsPanel)._runs_work.join(PATIENCE)
    kinds = [content["kind"] for content, _ in messages]
    assert kinds.count("runs.seen") == 3
    assert [len(c["rows"]) for c, _ in messages if c["kind"] == "runs.table"] == [1, 1]
    comparison._receive(comparison, {"kind": "runs.sync"}, [])
    assert messages[-1][0]["series"] == []


def test_runs_of_another_process_appear(store, tmp_path):
    comparison = RunComparison(store)
    assert comparison.run_table() == []
    code = (
        "import sys, numpy as np, gradwright as gw\n"
        "from tests.widgets.test_run_comparison import record\n"
        "record(gw.train.Store(sys.argv[1]), 'elsewhere')\n"
    )
    subprocess.run([sys.executable, "-c", code, store.root], check=True, timeout=PATIENCE)
    comparison.compare("elsewhere")
    assert comparison.run_points(comparison.runs_chosen[0])[0] == [1, 2, 3]


def test_equal_names_and_those_of_curves_are_told_apart(store):
    for name in ("same", "same", "train", EVIL):
        record(store, name)
    comparison = RunComparison(store)
    rows = comparison.run_table()
    comparison.compare(*(row["key"] for row in rows))
    with pytest.raises(GradwrightError, match="2 runs are called 'same'"):
        comparison.compare("same")
    comparison.part(RunsPanel)._read_runs()
    content, _ = comparison.part(RunsPanel)._runs_message({})
    labels = [run["label"] for run in content["chosen"]]
    assert len(set(labels)) == 4 and EVIL in labels and "train" not in labels
    slots = {run["key"]: run["slot"] for run in content["chosen"]}
    comparison.runs_chosen = comparison.runs_chosen[2:]
    comparison.part(RunsPanel)._read_runs()
    kept = {r["key"]: r["slot"] for r in comparison.part(RunsPanel)._runs_message({})[0]["chosen"]}
    assert kept == {key: slots[key] for key in kept}, "colours stay"


def test_names_are_text_in_all_that_is_written(store):
    record(store, EVIL, tags=[EVIL, "</script>"])
    comparison = RunComparison(store, runs_filter="</script>")
    comparison.compare(EVIL)

    found = set()

    class Elements(HTMLParser):
        def handle_starttag(self, tag, attributes):
            found.add(tag)

    parser = Elements()
    parser.feed(comparison.to_html() + comparison.to_table() + comparison.to_svg())
    assert not found & {"img", "iframe"}
    saved = re.search(r'id="saved">(.*?)</script>', comparison.to_html(), re.DOTALL)[1]
    json.loads(saved, parse_constant=pytest.fail)
    assert set(comparison.static()._repr_mimebundle_()) == {"image/svg+xml", "text/html"}


# -- reading a file that grows ---------------------------------------------------------------------


def lines(*events):
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def steps(first, count, epoch=1):
    numbers = list(range(first, first + count))
    own = {"step": numbers, "epoch": [epoch] * count, "seconds": [0.1 * n for n in numbers]}
    return {"event": "steps", **own, "metrics": {"loss": [1 / n for n in numbers]}}


def test_a_line_that_is_being_written_waits(tmp_path):
    reader = RunReader(str(tmp_path))
    whole = lines({"event": "fit_started", "step": 0, "epoch": 0}, steps(1, 3))
    (tmp_path / "events.jsonl").write_bytes(whole[:-5])
    assert reader.read() and reader.steps.rows == 0
    assert not reader.read()
    (tmp_path / "events.jsonl").write_bytes(whole)
    assert reader.read() and reader.steps.get("step").tolist() == [1, 2, 3]


def test_what_a_resumed_training_did_anew_counts(tmp_path):
    began = {"event": "fit_started", "step": 0, "epoch": 0}
    epoch = {"event": "epoch", "step": 5, "epoch": 1, "seconds": 1.0, "metrics": {"loss": None}}
    path = tmp_path / "events.jsonl"
    path.write_bytes(lines(began, steps(1, 5), epoch))
    reader = RunReader(str(tmp_path))
    reader.read()
    before = reader.generation
    again = {"event": "fit_started", "step": 2, "epoch": 0}
    path.write_bytes(path.read_bytes() + lines(again, steps(3, 1)))
    reader.read()
    assert reader.steps.get("step").tolist() == [1, 2, 3] and reader.epochs.rows == 0
    assert reader.generation > before


@pytest.mark.parametrize(
    "line",
    [b"[]\n", b"\xff\xfe\n", b'{"event": "steps"}\n', b'{"event": "epoch", "step": "x"}\n',
     b'{"event": 3}\n[[[\n', b'{"event": "steps", "step": [1], "epoch": [1, 2], "seconds": [1], '
     b'"metrics": {}}\n', b"null\n"],
)  # fmt: skip
def test_a_damaged_file_says_so_and_keeps_what_was_read(tmp_path, line):
    path = tmp_path / "events.jsonl"
    path.write_bytes(lines(steps(1, 3)) + line)
    reader = RunReader(str(tmp_path))
    assert reader.read() and reader.steps.rows == 3
    assert "is no event of a run" in reader.problem and not reader.read()

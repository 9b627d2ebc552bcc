"""The index of runs: lists, comparisons, damage, and many processes that write at once."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.recording.store import _read
from tests.recording.test_runs import fit, line, rows

SOURCES = str(Path(gw.__file__).parent.parent)


@pytest.fixture
def store(tmp_path):
    return gw.train.Store(tmp_path / "runs")


def some_runs(store, n=3):
    for k in range(n):
        run = gw.Run(name=f"run {k}", tags=["odd" if k % 2 else "even"], store=store)
        fit(line([run], rate=0.05 * (k + 1), name=f"g{k}"), validation=rows())


def test_runs_are_listed_filtered_and_sorted(store):
    some_runs(store)
    table = gw.runs(store)
    assert [r.name for r in table] == ["run 2", "run 1", "run 0"]  # the latest first
    assert table.metrics == ["loss", "val_loss"]
    assert [r.name for r in table.sort("val_loss")] == ["run 2", "run 1", "run 0"]
    assert table.sort("val_loss", descending=True)[0].name == "run 0"
    assert [r.name for r in table.filter(tag="even")] == ["run 2", "run 0"]
    assert [r.name for r in table.filter(name="*1", status="finished")] == ["run 1"]
    assert [r.name for r in table.filter(lambda r: r.metrics["loss"] < 0)] == []
    assert table["run 1"].graph == "g1" and table[0].steps == 6 and len(table[:2]) == 2
    assert table[table[1].id] is table[1]
    with pytest.raises(KeyError, match="did you mean 'run 1'"):
        table["run1"]
    named = "3 runs, 'run 2', 'run 1', 'run 0'"
    for place in (3, -4):
        with pytest.raises(IndexError, match=f"there is no run {place}: {named}"):
            table[place]
    with pytest.raises(KeyError, match=f"0 runs are called 'nope': {named}"):
        table.compare("nope", "run 0")
    with pytest.raises(IndexError, match=r"there is no run 0: 0 runs$"):
        table[:0][0]
    twice = gw.train.Runs([*table, table[0]])
    with pytest.raises(
        KeyError, match=f"2 runs are called 'run 2': ask by place, or '{table[0].id}"
    ):
        twice["run 2"]
    with pytest.raises(TrainingError, match="no run has measured 'val_lss'") as caught:
        table.sort("val_lss")
    assert caught.value.hint == "did you mean 'val_loss'?"
    text = str(table)
    assert text.startswith("3 runs\nname") and "finished" in text


def test_curves_are_those_of_the_histories(store):
    some_runs(store, 2)
    table = gw.runs(store)
    figure = table.plot("val_loss")
    assert [trace.name for trace in figure.data] == ["run 1", "run 0"]
    for trace, row in zip(figure.data, table, strict=True):
        assert list(trace.y) == row.open().history.epochs["val_loss"].tolist()
    with pytest.raises(TrainingError, match="no run has measured"):
        table.plot("accuracy")


def test_two_runs_are_compared(store):
    some_runs(store, 2)
    found = gw.runs(store).compare("run 0", "run 1")
    assert ("training.optimizer.learning_rate", 0.05, 0.1) in found.config
    assert ("graph.name", "g0", "g1") in found.config
    assert {name for name, _, _ in found.metrics} == {"loss", "val_loss"}
    assert [trace.name for trace in found.plot().data] == ["run 0", "run 1"]
    assert "learning_rate" in str(found) and "<table>" in found._repr_html_()


def test_names_are_text_and_never_html(store):
    bad = "<img src=x onerror=alert(1)>"
    for name in (bad, bad + "2"):
        fit(line([gw.Run(name=name, tags=[bad], notes=bad, store=store)]))
    table = gw.runs(store)
    for shown in (table, table.compare(0, 1)):
        assert "<img" not in shown._repr_html_() and "&lt;img" in shown._repr_html_()
    assert all("<" not in trace.name for trace in table.plot("loss").data)


def test_folders_that_are_gone_are_forgotten_and_new_ones_found(store):
    some_runs(store, 2)
    gone, kept = gw.runs(store)
    for file in sorted(Path(gone.folder).iterdir()):
        file.unlink()
    Path(gone.folder).rmdir()
    assert [r.id for r in gw.runs(store)] == [kept.id]
    copied = store.root / "copied"
    copied.mkdir()
    for name in ("config.json", "events.jsonl"):
        (copied / name).write_bytes(Path(kept.folder, name).read_bytes())
    assert {r.folder for r in gw.runs(store)} == {kept.folder, str(copied)}


def test_the_index_is_a_cache_of_the_folders(store, tmp_path):
    some_runs(store, 2)
    fit(line([gw.Run(tmp_path / "elsewhere", store=store)]))
    before = gw.runs(store)
    store.path.unlink()
    for _ in range(2):
        for row, again in zip(before, gw.runs(store), strict=True):
            assert (row.id, row.status, row.metrics, row.steps, row.tags) == (
                *(again.id, again.status, again.metrics, again.steps, again.tags),
            )
        store.rebuild()


def garbage(path):
    path.write_bytes(b"this is no database" * 100)


def flipped(path):
    data = bytearray(path.read_bytes())
    data[100:3000] = os.urandom(2900)
    path.write_bytes(data)


def no_version(path):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA user_version = -1")
    db.close()


def bad_row(path):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("UPDATE runs SET metrics = 'nonsense'")
    db.close()


def cut(path):
    os.truncate(path, 1000)


@pytest.mark.parametrize("damage", [garbage, flipped, no_version, bad_row, cut])
def test_a_damaged_index_is_made_again_with_a_warning(store, damage):
    some_runs(store, 2)
    before = gw.runs(store)
    damage(store.path)
    with pytest.warns(UserWarning, match="is damaged .*made again from the run folders"):
        after = gw.runs(store)
    assert [r.id for r in after] == [r.id for r in before]


def test_a_training_goes_on_while_the_index_is_made_again(store):
    some_runs(store, 2)
    garbage(store.path)
    with pytest.warns(UserWarning, match="is damaged .*made again from the run folders"):
        some_runs(store, 1)
    assert len(gw.runs(store)) == 3


def test_an_index_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    store = gw.train.Store(tmp_path / "file" / "root")
    run = gw.Run(tmp_path / "a", store=store)
    with pytest.warns(UserWarning, match="its folder has it all"):
        fit(line([run]))
    assert run.read().status == "finished"


def test_a_damaged_run_folder_is_left_out_of_a_new_index(store):
    some_runs(store, 2)
    bad, good = gw.runs(store)
    Path(bad.folder, "config.json").write_text("{")
    with pytest.warns(UserWarning, match="is left out"):
        store.rebuild()
    assert [row.id for row in store._do(_read)] == [good.id]


PROGRAM = """
import sys
import gradwright as gw

for k in range(int(sys.argv[2])):
    g = gw.Graph("parabola")
    w = g.variable("w", (), init=2.0)
    run = gw.Run(name=f"{sys.argv[1]}-{k}")
    trainer = gw.Trainer(g, w * w, optimizer=gw.optim.SGD(0.25), callbacks=[run])
    trainer.fit([{}], epochs=3, progress=False)
"""


def start(folder, *args, program=PROGRAM):
    env = {**os.environ, "PYTHONPATH": SOURCES, "GRADWRIGHT_RUNS": str(folder)}
    return subprocess.Popen([sys.executable, "-W", "error", "-c", program, *args], env=env)


def test_four_processes_write_at_once_and_none_loses_a_run(tmp_path):
    started = [start(tmp_path / "runs", f"p{n}", "3") for n in range(4)]
    assert [process.wait(60) for process in started] == [0] * 4
    store = gw.train.Store(tmp_path / "runs")
    with store._alone():
        found = {row.name: row for row in store._do(_read)}
    assert set(found) == {f"p{n}-{k}" for n in range(4) for k in range(3)}
    assert {row.status for row in gw.runs(store)} == {"finished"}
    assert {row.metrics["loss"] for row in gw.runs(store)} == {0.25}


def test_a_run_whose_process_was_killed_is_interrupted(tmp_path):
    program = textwrap.dedent("""
        import os, signal
        import gradwright as gw

        g = gw.Graph("parabola")
        w = g.variable("w", (), init=2.0)
        run = gw.Run(name="killed")
        def kill(trainer, record):
            run.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        trainer = gw.Trainer(g, w * w, callbacks=[run, gw.train.on_step(kill, every=2)])
        trainer.fit([{}], epochs=3, progress=False)
    """)
    assert start(tmp_path, program=program).wait(60) != 0
    (row,) = gw.runs(tmp_path)
    assert (row.name, row.status) == ("killed", "interrupted")
    assert row.open().status == "interrupted" and row.open().history.steps.rows == 2


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TrainingError, match="is no folder"):
        gw.runs(tmp_path / "nothing")

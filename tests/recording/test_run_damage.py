"""Run folders that are damaged, forged, newer, or on a disk that takes nothing more."""

from __future__ import annotations

import errno
import json
import os
import platform
import sqlite3

import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.files.whole import write_text
from gradwright.recording import course, events, folder, store
from tests.forgeries.campaign import forged
from tests.train.checkpoints.resumed import fit, trainer_of


@pytest.mark.parametrize(("kind", "every"), [("run", 211), ("events", 97), ("index", 41)])
def test_forged_files_are_told_and_hide_no_other_run(kind, every):
    """A sample; ``python -m tests.forgeries`` tries all."""
    outcomes, wrong = forged(kind, every, first=3)
    assert not wrong and outcomes.total() > 3


def one(place, name="a", epochs=1, **options):
    trainer = trainer_of(gw.Run(place / name, name, **options))
    fit(trainer, epochs)
    return trainer


def test_what_a_newer_version_has_written_says_so(tmp_path):
    where = gw.train.Store(tmp_path)
    for name in ("old", "new"):
        one(tmp_path, name, store=where)
    path = tmp_path / "new" / "config.json"
    held = json.loads(path.read_text())
    assert held["format"] == 1
    path.write_text(json.dumps(held | {"format": 9}))
    newer = r"it was written by a newer gradwright \(format 9; this reads up to 1\)"
    with pytest.raises(TrainingError, match=newer):
        gw.train.RunFolder(tmp_path / "new").summary()
    where.path.unlink()
    with pytest.warns(UserWarning, match=newer):
        assert [r.name for r in gw.runs(where)] == ["old"]


def test_folders_of_before_there_were_numbers_are_of_the_first_format(tmp_path):
    one(tmp_path, store=None)
    path = tmp_path / "a" / "config.json"
    held = json.loads(path.read_text())
    del held["format"]
    path.write_text(json.dumps(held))
    assert gw.train.RunFolder(tmp_path / "a").status == "finished"


def test_an_index_of_a_newer_version_is_left_to_it(tmp_path):
    where = gw.train.Store(tmp_path)
    one(tmp_path, store=where)
    db = sqlite3.connect(where.path, isolation_level=None)
    db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.warns(UserWarning, match=r"newer gradwright \(format 9; this reads up to 1\)"):
        assert [r.name for r in gw.runs(where)] == ["a"]
    with pytest.warns(UserWarning, match="its folder has it all"):
        one(tmp_path, "b", store=where)
    db = sqlite3.connect(where.path)
    assert db.execute("PRAGMA user_version").fetchone() == (9,)
    db.close()


# -- a disk that is full or read-only --------------------------------------------------------------


def refuses(code):
    def refusing(*args, **options):
        raise OSError(code, os.strerror(code))

    return refusing


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_takes_nothing_is_told_before_the_first_step(tmp_path, monkeypatch, code):
    trainer = trainer_of(gw.Run(tmp_path / "a", store=None))
    with monkeypatch.context() as patched:
        patched.setattr("gradwright.files.whole.os.open", refuses(code))
        with pytest.raises(TrainingError, match=f"cannot be .*: {os.strerror(code)}"):
            fit(trainer, 1)
    assert trainer.steps_done == 0 and not (tmp_path / "a" / "config.json").exists()
    fit(trainer, 1)
    assert gw.train.RunFolder(tmp_path / "a").status == "finished"


def test_a_configuration_that_is_cut_off_by_a_full_disk_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr("gradwright.files.whole.os.fsync", refuses(errno.ENOSPC))
    with pytest.raises(TrainingError, match="No space left"):
        fit(trainer_of(gw.Run(tmp_path / "a", store=None)), 1)
    assert [p.name for p in (tmp_path / "a").iterdir()] == [".lock"]


def test_text_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    write_text(path, "before")
    monkeypatch.setattr("gradwright.files.whole.os.fsync", refuses(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "after")
    assert path.read_text() == "before" and [p.name for p in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (sqlite3.SQLITE_FULL, "database or disk is full"),
        (sqlite3.SQLITE_READONLY, "attempt to write a readonly database"),
    ],
)
def test_runs_are_listed_without_an_index(tmp_path, monkeypatch, code, message):
    where = gw.train.Store(tmp_path)
    for name in ("a", "b"):
        one(tmp_path, name, store=where)

    def full(*args, **options):
        error = sqlite3.OperationalError(message)
        error.sqlite_errorcode = code
        raise error

    monkeypatch.setattr(store.sqlite3, "connect", full)
    with pytest.warns(UserWarning, match=f"is not used: {message}; the run folders are read"):
        assert {r.name for r in gw.runs(where)} == {"a", "b"}


# -- long runs -------------------------------------------------------------------------------------


def steps_line(first, n):
    numbers = list(range(first, first + n))
    found = {
        "event": "steps",
        "step": numbers,
        "epoch": [1] * n,
        "seconds": [s / 8 for s in numbers],
    }
    return json.dumps(found | {"metrics": {"loss": [0.5] * n}}, separators=(",", ":")) + "\n"


def test_what_lies_between_is_not_read(tmp_path, monkeypatch):
    """Lines of steps longer and shorter than what is read at once, and cut anywhere."""
    trainer = one(tmp_path, epochs=2, store=None)
    folder = gw.train.RunFolder(tmp_path / "a")
    path = folder.path / "events.jsonl"
    *others, end = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*others, *(steps_line(15 + 40 * i, 40) for i in range(20)), end]))
    seen = []
    monkeypatch.setattr(course, "parsed", lambda line: seen.append(line) or json.loads(line))
    for chunk in (1, 7, 100, 1 << 18):
        monkeypatch.setattr(course, "CHUNK", chunk)
        seen.clear()
        row = folder.summary()
        assert (row.steps, row.epochs, row.status) == (814, 2, "finished")
        assert row.seconds == 814 / 8 == folder.history.seconds
        assert row.metrics["loss"] == trainer.history.epochs["loss"][-1]
        assert sum(b'"steps"' in line for line in seen) == 1


def test_a_summary_is_what_the_history_says(tmp_path):
    """After a fit that went on from an earlier checkpoint, ended or not."""
    checkpoints = gw.Checkpoints(tmp_path / "c", keep_last=9)
    fit(trainer_of(gw.Run(tmp_path / "a", store=None), checkpoints), 3)
    again = trainer_of(gw.Run(tmp_path / "a", store=None))
    gw.resume(again, tmp_path / "c", 14)
    fit(again, 2, steps=10)
    path = tmp_path / "a" / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for n in range(1, len(lines) + 1):
        path.write_bytes(b"".join(lines[:n]))
        folder = gw.train.RunFolder(tmp_path / "a")
        row, history = folder.summary(), folder.history
        assert row.epochs == (history.epochs["epoch"][-1] if history.epochs.rows else 0)
        assert row.steps == (history.steps["step"][-1] if history.steps.rows else 0)
        assert row.seconds == pytest.approx(history.seconds, abs=1e-3)
    assert row.status == "finished" and row.steps == 24


def test_a_line_without_end_is_told(tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"event":"note"}\n' + b"x" * 300)
    monkeypatch.setattr(events, "MAX_JSON", 200)
    with pytest.raises(TrainingError, match=r"line 2: it has over 200 bytes"):
        list(events.read(path))


@pytest.mark.parametrize("pid", [0, -1, 1 << 31, 1 << 61])
def test_a_number_that_no_process_has_is_of_none_that_runs(pid):
    assert not folder.is_alive(pid, platform.node())


def test_a_torn_line_of_steps_is_left_out(tmp_path):
    one(tmp_path, store=None)
    path = tmp_path / "a" / "events.jsonl"
    whole_lines = path.read_bytes()
    before = gw.train.RunFolder(tmp_path / "a").summary()
    for torn in ('{"eve', steps_line(15, 9)[:-5], "garbage"):
        path.write_bytes(whole_lines + torn.encode())
        assert gw.train.RunFolder(tmp_path / "a").summary() == before

"""Reports: what is needed to find a fault, and nothing that was computed with."""

from __future__ import annotations

import errno
import logging
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, TrainingError

SECRET = 4711.125


def clinic():
    """Return a training of secrets: names, a constant, values and data."""
    g = gw.Graph("clinic")
    x = g.placeholder("patients", ("people", 3))
    with g.scope("ward"):
        w = g.variable("weights", (3, 1), init=SECRET)
    y = gw.einsum("ij,jk->ik", x, w)
    y = gw.nn.softmax(y, axis=0) * g.constant(np.full((1, 1), SECRET), name="dose")
    g.variable("greeting", init=np.array(["hello Bob"], dtype=np.dtypes.StringDType()))
    loss = gw.mean(y, name="suffering")
    trainer = gw.Trainer(g, loss, metrics={"grief": gw.sum(y)}, parameters=[w])
    return trainer


def data():
    rows = np.full((6, 3), SECRET, "float32")
    rows[4, 1] = np.nan
    return {"patients": rows}


def held(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name).decode() for name in file.namelist()}


def failed(path, **options):
    trainer = clinic()
    with (
        pytest.raises(TrainingError, match="not finite"),
        gw.reporting(path, trainer, **options),
    ):
        trainer.fit(data(), batch_size=2, shuffle=False, progress=False)
    return held(path)


def test_a_failure_is_told_without_data_and_names(tmp_path):
    texts = failed(tmp_path / "report.zip")
    assert list(texts) == [
        *("README.txt", "versions.txt", "graph.txt", "plans.txt", "error.txt", "log.txt"),
    ]
    everything = "\n".join(texts.values())
    for secret in (
        *("clinic", "patients", "people", "ward", "weights", "dose", "suffering", "grief"),
        *("4711", "Bob", "ij,jk", "test_report", str(tmp_path), str(Path.home())),
    ):
        assert secret not in everything
    assert "= softmax(n" in texts["graph.txt"] and "axis=0" in texts["graph.txt"]
    assert ": f32[s1, 3] = placeholder" in texts["graph.txt"]
    assert "instructions became" in texts["plans.txt"] and "bytes of arena" in texts["plans.txt"]
    assert "TrainingError: " in texts["error.txt"] and "not finite" in texts["error.txt"]
    assert "gradwright/train/step/taker.py:" in texts["error.txt"]
    assert "a line of yours" in texts["error.txt"]
    assert "made, since none of these is kept" in texts["log.txt"]
    assert f"numpy: {np.__version__}" in texts["versions.txt"]
    assert "no values of variables" in texts["README.txt"]
    assert not logging.getLogger("gradwright").handlers
    assert logging.getLogger("gradwright").level == logging.NOTSET


def test_a_folder_that_is_called_as_we_are_is_not_told(tmp_path):
    file = tmp_path / "gradwright" / "patients.py"
    script = compile("gw.Graph().rename('x', 'y')", str(file), "exec")
    with pytest.raises(gw.errors.GradwrightError) as caught:
        exec(script, {"gw": gw})
    error = held(gw.report(tmp_path / "report.zip", error=caught.value))["error.txt"]
    assert "a line of yours" in error and "patients" not in error
    assert "\n  gradwright/graph/graph.py:" in error


def test_names_are_in_it_where_they_are_wanted(tmp_path):
    texts = failed(tmp_path / "report.zip", names=True)
    everything = "\n".join(texts.values())
    names = ("clinic", "patients", "people", "ward/weights", "suffering", "ij,jk")
    for name in (*names, "test_report.py:"):
        assert name in everything
    for secret in ("4711", "Bob", str(tmp_path)):
        assert secret not in everything


def test_afterwards_from_a_session_with_an_error_of_another_kind(tmp_path):
    g = gw.Graph()
    x = g.placeholder("x", ("n",))
    session = gw.Session(g)
    session.run(x * 2.0, {"x": [1.0]})
    try:
        raise KeyError(SECRET)
    except KeyError as error:
        path = gw.report(tmp_path / "report.zip", session, session.plans[0], error=error)
    texts = held(path)
    assert texts["error.txt"].startswith("KeyError: its message is left out")
    assert texts["graph.txt"].count("graph 1:") == 1 and texts["plans.txt"].count("plan of") == 1
    assert "4711" not in "\n".join(texts.values())


def test_nothing_is_written_where_nothing_fails(tmp_path):
    trainer = clinic()
    with gw.reporting(tmp_path / "report.zip", trainer):
        rows = {"patients": np.ones((6, 3), "float32")}
        trainer.fit(rows, validation=rows, batch_size=2, progress=False)
    assert not list(tmp_path.iterdir())


def test_a_report_that_cannot_be_written_hides_no_error(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("gradwright.files.whole.os.fsync", full)
    with (
        pytest.raises(ValueError, match="mine") as caught,
        gw.reporting(tmp_path / "report.zip", clinic()),
    ):
        raise ValueError("mine")
    assert "No space left" in caught.value.__notes__[0]
    assert not list(tmp_path.iterdir())
    with pytest.raises(OSError, match="No space left"):
        gw.report(tmp_path / "report.zip", clinic())


def test_other_things_are_refused(tmp_path):
    with pytest.raises(GraphError, match="a dict cannot be reported"):
        gw.report(tmp_path / "report.zip", {})

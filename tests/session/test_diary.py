"""What sessions tell ``logging``: which plan was made or found, and why; nothing when it is off."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm import compiler
from gradwright.files import trusted
from gradwright.session import diary


@pytest.fixture
def told(caplog):
    """Return what has been told since the last time, each line by its logger."""
    caplog.set_level(logging.DEBUG, logger="gradwright")

    def lines(name="session"):
        found = [r.getMessage() for r in caplog.records if r.name == f"gradwright.{name}"]
        caplog.clear()
        return found

    return lines


def net(**options):
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 4)), g.variable("w", (4, 2), init=np.ones((4, 2)))
    y = gw.sum(gw.tanh(gw.neg(gw.neg(x)) @ w), name="y")
    return g, y, gw.Session(g, kernels="off", **options)


def feeds(n):
    return {"x": np.ones((n, 4), "float32")}


def test_why_a_plan_was_made_or_found(told):
    g, y, session = net()
    session.run(y, feeds(3))
    assert told()[0] == "plan of y for x: [3, 4]: made, since none of these is kept"
    session.run(y, feeds(3))
    assert told() == []
    session.run(y, feeds(5))
    assert told()[0] == "plan of y for x: [5, 4]: made, since 'x' is [5, 4], and was [3, 4]"
    session.run(y, feeds(3))
    assert told() == ["plan of y for x: [3, 4]: found, as it was asked for before"]
    session.run([y, "x"], feeds(3))
    assert told()[0].startswith("plan of y, x for x: [3, 4]: made")
    session.run(y, feeds(3))
    assert told() == ["plan of y for x: [3, 4]: found, as it ran before"]
    session.run(y, feeds(3), training=True)
    assert told()[0].endswith("made, since it is for training")
    session.run(y, feeds(3) | {"w": np.ones((4, 2), "float32")})
    assert told()[0].endswith("'w' is fed")
    g.to_constant("w")
    session.run(y, feeds(3))
    assert "the graph was edited" in told()[0]


def test_what_is_told_of_other_tensors_leaves_the_graph_as_it_was(told):
    g, y, session = net()
    w, z, may = g["w"], gw.mean(g["x"], name="z"), gw.greater(y, 0.0)
    doubled, tripled = w * 2.0, w * 3.0
    nodes = g.all_nodes
    for fetches, updates, commit_if, reason in (
        (y, {}, None, "since none of these is kept"),
        (z, {}, None, "since none of these is kept"),
        ([y, z], {}, None, "since none of these is kept"),
        ([z, y], {}, None, "since none of these is kept"),
        ([], {w: doubled}, None, "since none of these is kept"),
        ([], {w: tripled}, None, "since other updates"),
        ([], {w: tripled}, may, "since another condition of the commit"),
    ):
        session.run(fetches, feeds(3), updates, commit_if=commit_if)
        assert told()[0].endswith(f"made, {reason}")
    assert g.all_nodes == nodes


def test_what_is_not_fed_any_more_is_told(told):
    _, y, session = net()
    session.run(y, feeds(3) | {"w": np.ones((4, 2), "float32")})
    told()
    session.run(y, feeds(3))
    assert told()[0].endswith("made, since 'w' is not fed")


def test_plans_that_have_to_go(told):
    _, y, session = net(max_plans=2)
    for n in (3, 4, 5):
        session.run(y, feeds(n))
    assert "plan of y: let go, used longest ago" in told()
    session.run(y, feeds(3))
    gone, made, *_ = told()
    assert gone == "plan of y: let go, used longest ago"
    assert made == "plan of y for x: [3, 4]: made, since 'x' is [3, 4], and was [5, 4]"


def test_rewrites_are_counted(told):
    _, y, session = net()
    session.run(y, feeds(3))
    assert told("rewrite") == ["plan of y: 5 instructions became 3: neg_neg 1"]


@pytest.mark.skipif(not compiler.available(), reason="no llvmlite")
def test_threads_that_were_chosen(told):
    g = gw.Graph()
    x = g.placeholder("x", (1000, 1000))
    session = gw.Session(g, deterministic=True, threads=2)
    session.run(gw.tanh(x), {"x": np.ones((1000, 1000), "float32")})
    assert any(line.endswith("threads 2, by its size") for line in told("cpu"))


@pytest.mark.skipif(not compiler.available(), reason="no llvmlite")
def test_kernels_that_were_compiled_or_found_on_disk(told, tmp_path, monkeypatch):
    monkeypatch.setenv("GRADWRIGHT_CACHE", str(tmp_path))
    text = "define void @k() { ret void }\n"
    compiler.compile_text(text)
    (line,) = told("cpu")
    assert "compiled in" in line
    compiler.compile_text(text)
    (line,) = told("cpu")
    assert "found on disk" in line
    monkeypatch.setattr(trusted, "LIMIT", 10)
    trusted.trim(next(path.parent for path in tmp_path.rglob("*.o")))
    assert told("cpu")[0].endswith("over 10: those used longest ago go")


def test_a_training_tells_of_its_files_and_its_end(told, tmp_path):
    g = gw.Graph()
    loss = gw.mul(g.variable("w", (), init=2.0), 2.0)

    def trainer():
        checkpoints = gw.Checkpoints(tmp_path, keep_last=1, asynchronous=False)
        return gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.25), callbacks=[checkpoints])

    trainer().fit([{}], epochs=2, progress=False)
    gw.resume(trainer(), tmp_path)
    assert told("train") == [
        "checkpoint of step 1: written, step-000000001.gw",
        "checkpoint of step 2: written, step-000000002.gw",
        "checkpoint of step 1: deleted, as it need not stay",
        "fit: finished after 2 steps: 2 epochs are done",
        "resumed from step-000000002.gw, step 2",
    ]


def test_nothing_is_asked_for_when_it_is_off(caplog, monkeypatch):
    _, y, session = net(max_plans=1)

    def asked(*args):
        raise AssertionError("nobody wants to know")

    monkeypatch.setattr(diary, "tell", asked)
    monkeypatch.setattr(diary, "names_of", asked)
    for n in (3, 4, 3):
        session.run(y, feeds(n))
    assert not caplog.records
    monkeypatch.setattr(diary, "why", asked)
    monkeypatch.setattr(diary, "is_on", asked)
    session.run(y, feeds(3))  # as the run before: not even this is asked

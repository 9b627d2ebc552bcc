"""Timing of a session: what ran how often and for how long, to be printed and begun anew."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.session import planned, session, timing


@pytest.fixture
def clock(monkeypatch):
    """Let time pass by a second whenever it is asked for."""
    now = [0.0]

    def tick():
        now[0] += 1.0
        return now[0]

    for module in (session, planned):
        monkeypatch.setattr(module.time, "perf_counter", tick)
    return now


def chain():
    g = gw.Graph("chain")
    x = g.placeholder("x", (None,))
    return g, gw.exp(x, name="y"), gw.sum(x, name="s")


def test_runs_and_plans_are_counted_by_what_is_fetched(clock):
    g, y, s = chain()
    with gw.Session(g, kernels="off") as session:
        for n in (1, 2, 2, 1):
            session.run(y, {"x": np.ones(n)})
        session.run([y, s], {"x": np.ones(1)}, training=True)
        rows = {t.what: t for t in session.timing.rows}
        assert (rows["y"].runs, rows["y"].plans, rows["y"].mode) == (4, 2, "eval")
        assert (rows["y, s"].runs, rows["y, s"].plans, rows["y, s"].mode) == (1, 1, "train")
        assert (rows["y"].seconds, rows["y"].mean, rows["y"].least, rows["y"].last) == (4, 1, 1, 1)
        assert (session.timing.runs, session.timing.seconds) == (5, 5.0)
        assert (session.timing.plans, session.timing.planning) == (3, 3.0)


def test_updates_and_prepared_runs_count_too(clock):
    g = gw.Graph()
    w = g.variable("w", (), init=1.0)
    with gw.Session(g, kernels="off") as session:
        step = session.prepare([], (), {w: w + 1.0})
        for _ in range(3):
            step()
        (row,) = session.timing.rows
        assert (row.what, row.runs, row.plans) == ("updates", 3, 1) and g.values["w"] == 4.0


def test_it_begins_anew(clock):
    g, y, _ = chain()
    with gw.Session(g, kernels="off") as session:
        session.run(y, {"x": [1.0]})
        session.timing.reset()
        assert session.timing.rows == [] and session.timing.seconds == 0.0
        assert str(session.timing).startswith("0 runs in 0 ms, 0 plans made in 0 ms")
        session.run(y, {"x": [1.0]})
        (row,) = session.timing.rows
        assert (row.runs, row.plans, row.seconds) == (1, 0, 1.0)


def test_it_is_printed_as_a_table_and_shown_as_text():
    g = gw.Graph()
    y = gw.exp(g.placeholder("x", (None,)), name="<b>y</b>")
    with gw.Session(g) as session:
        session.run(y, {"x": [1.0]})
        text, page = str(session.timing), session.timing._repr_html_()
        assert text.splitlines()[0].startswith("1 run in ") and "1 plan made in" in text
        assert text.splitlines()[1].split() == [
            *("what", "mode", "runs", "total", "ms", "mean", "µs", "least", "µs"),
            *("last", "µs", "plans", "planning", "ms"),
        ]
        assert text.splitlines()[2].startswith("<b>y</b>  eval  1")
        assert "&lt;b&gt;" in page and "<b>" not in page
        assert repr(session.timing).startswith("<Timing: 1 run in ")


def test_a_training_is_timed_by_its_session():
    g = gw.Graph()
    w = g.variable("w", (3,), init=1.0)
    trainer = gw.Trainer(g, gw.mean(w * w, name="loss"))
    trainer.fit([{}] * 5, progress=False, epochs=2)
    (row,) = trainer.session.timing.rows
    assert row.runs == 10 and row.mode == "train" and "loss" in row.what
    assert 0 < row.least <= row.mean <= row.seconds


def test_lines_are_bounded_and_failed_runs_are_none():
    g, y, _ = chain()
    with gw.Session(g, kernels="off") as session:
        with pytest.raises(gw.errors.FeedError):
            session.run(y)
        assert session.timing.runs == 0
    lots = timing.Timing()
    for n in range(timing.MOST + 5):
        lots.of([g.constant(float(n), name=f"c{n}")], False).add(1.0)
    assert len(lots.rows) == timing.MOST and lots.rows[0].what in g
    assert lots.rows[0].least == 1.0


def test_others_may_read_it_while_a_session_runs():
    g, y, s = chain()
    stop, failed = threading.Event(), []
    with gw.Session(g, kernels="off") as session:

        def read():
            while not stop.is_set():
                try:
                    str(session.timing)
                    session.timing.reset()
                except Exception as error:
                    failed.append(error)
                    return

        thread = threading.Thread(target=read)
        thread.start()
        for n in range(200):
            session.run((y, s, [y, s])[n % 3], {"x": np.ones(n % 7 + 1)})
        stop.set()
        thread.join()
    assert not failed

"""Profiles of a training: files that hold to the trace event format, and what they say."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError


def train(callbacks, steps=12, width=8, *, validation=False, unroll=1):
    """Train a small net with dropout and return the trainer."""
    g = gw.Graph("net")
    x = g.placeholder("x", (None, 4))
    rng = np.random.default_rng(0)
    w = g.variable("w", init=rng.standard_normal((4, width)).astype("f4"))
    v = g.variable("v", init=rng.standard_normal((width, 1)).astype("f4"))
    hidden = gw.nn.dropout(gw.tanh(gw.matmul(x, w, name="first")), p=0.1)
    loss = gw.mean(gw.matmul(hidden, v, name="second") ** 2.0, name="loss")
    session = gw.Session(g, deterministic=True)
    trainer = gw.Trainer(g, loss, callbacks=callbacks, session=session)
    data = {"x": rng.standard_normal((4 * steps, 4)).astype("f4")}
    held_out = data if validation else None
    trainer.fit(data, batch_size=4, validation=held_out, unroll=unroll, progress=False)
    return trainer


def conforms(event):
    """Check an event against the Trace Event Format: its phase, and what that phase needs."""
    assert isinstance(event["name"], str) and event["name"]
    assert event["ph"] in ("X", "M")
    assert type(event["pid"]) is int and type(event["tid"]) is int
    assert isinstance(event["args"], dict)
    if event["ph"] == "X":  # a complete event: microseconds
        assert isinstance(event["cat"], str)
        for key in ("ts", "dur"):
            assert isinstance(event[key], int | float) and event[key] >= 0
    else:  # metadata
        assert event["name"] in ("process_name", "thread_name")
        assert isinstance(event["args"]["name"], str)


def test_the_file_is_a_trace_that_viewers_read(tmp_path):
    path = tmp_path / "new" / "trace.json"
    train([gw.train.Profiler(path, warmup=3, steps=2)])
    text = path.read_text("utf-8")
    found = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert found["displayTimeUnit"] in ("ms", "ns")
    for event in found["traceEvents"]:
        conforms(event)
    tracks = {e["tid"] for e in found["traceEvents"] if e["name"] == "thread_name"}
    events = [e for e in found["traceEvents"] if e["ph"] == "X"]
    assert {e["tid"] for e in events} == tracks
    runs = sorted((e["ts"], e["dur"]) for e in events if e["cat"] != "call")
    for (start, duration), (following, _) in itertools.pairwise(runs):
        assert start + duration <= following + 0.01  # viewers nest what overlaps; 0.01 is rounding


def test_each_profiled_step_has_all_calls_of_its_plan(tmp_path):
    profiler = gw.train.Profiler(tmp_path / "trace.json", warmup=3, steps=2)
    trainer = train([profiler])
    steps = [e["name"] for e in profiler.events if e["cat"] == "step"]
    assert steps == ["step 4", "step 5"]
    plan = trainer.session.plans[-1]
    expected = [row.node for row in plan.kernels if row.what != "view"]
    for step in steps:
        calls = [e for e in profiler.events if e["cat"] == "call" and e["args"]["run"] == step]
        assert [e["name"] for e in calls] == expected
        assert sum(e["dur"] for e in calls) > 0
        starts = [e["ts"] for e in calls]
        assert starts == sorted(starts)
        (product,) = [e for e in calls if e["name"] == "first"]
        assert re.fullmatch(r"[\d.e+-]+ GFLOP/s", product["args"]["rate"])


def test_profiling_changes_no_number(tmp_path):
    plain = train([])
    profiled = train([gw.train.Profiler(tmp_path / "trace.json", warmup=1, steps=3)])
    for name in ("w", "v"):
        assert plain.values[name].tobytes() == profiled.values[name].tobytes()
    losses = [t.history.steps["loss"].tobytes() for t in (plain, profiled)]
    assert losses[0] == losses[1]


def test_a_listener_sees_what_a_run_is_fed_with():
    class Fed(gw.Listener):
        def run_started(self, event):
            seen.append({t.name: np.array(a) for t, a in event.feeds.items()})

        def run_finished(self, event):
            assert event.feeds == {}

    seen = []
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    y = gw.nn.dropout(x, p=0.5).sum()
    with gw.Session(g, seed=7, listeners=[Fed()]) as session:
        session.run(y, {"x": [1.0, 2.0]}, training=True, step=5)
    (feeds,) = seen
    assert feeds.pop("x").tolist() == [1.0, 2.0]
    assert [key.tolist() for key in feeds.values()] == [[7, 5]]  # of random ops


def test_it_ends_when_its_steps_are_done(tmp_path):
    profiler = gw.train.Profiler(tmp_path / "trace.json", warmup=0, steps=2)
    trainer = train([profiler])
    assert trainer.session.listeners == [] and "done" in repr(profiler)
    count = len(profiler.events)
    trainer.fit({"x": np.ones((8, 4), "f4")}, progress=False)
    assert len(profiler.events) == count


def test_a_fit_that_is_too_short_writes_what_there_is(tmp_path):
    path = tmp_path / "trace.json"
    profiler = gw.train.Profiler(path, warmup=3, steps=50)
    train([profiler], steps=5, validation=True)
    events = json.loads(path.read_text())["traceEvents"]
    names = [e["name"] for e in events if e.get("cat") == "step"]
    assert names == ["step 4", "step 5"]
    assert any(e["cat"] == "validation" for e in profiler.events)


def test_a_fit_that_ends_in_the_warm_up_says_so_and_the_next_goes_on(tmp_path):
    g = gw.Graph()
    w = g.variable("w", (), init=2.0)
    profiler = gw.train.Profiler(tmp_path / "trace.json", warmup=3, steps=1)
    trainer = gw.Trainer(g, w * w, callbacks=[profiler])
    with pytest.warns(UserWarning, match="ended in the warm-up of 3 steps"):
        trainer.fit([{}] * 2, progress=False)
    assert not profiler.path.exists()
    trainer.fit([{}] * 2, progress=False)
    assert profiler.path.exists()


def test_unrolled_steps_are_one_run(tmp_path):
    profiler = gw.train.Profiler(tmp_path / "trace.json", warmup=0, steps=8)
    train([profiler], steps=8, unroll=4)
    assert [e["name"] for e in profiler.events if e["cat"] == "step"] == ["step 1", "step 5"]


def test_two_profiles_are_compared_call_by_call(tmp_path):
    small, large = (gw.train.Profiler(tmp_path / f"{n}.json", warmup=2) for n in (8, 4096))
    train([small], width=8)
    train([large], width=4096)
    table = gw.train.compare_profiles(small, large.path)
    rows = {row[0]: row for row in table.rows}
    assert float(rows["first"][4]) > 1.0  # 512 times the work
    means = [e["dur"] for e in small.events if e["name"] == "first"]
    assert float(rows["first"][1]) == pytest.approx(np.mean(means), abs=0.06)
    changes = [round(abs(float(row[2] or 0) - float(row[1] or 0)), 1) for row in table.rows]
    assert all(a >= b - 0.2 for a, b in itertools.pairwise(changes))  # 0.2 is rounding
    same = gw.train.compare_profiles(small, small)
    assert {row[4] for row in same.rows if float(row[1])} == {"1.00"}


@pytest.mark.parametrize("text", ["", "[]", '{"traceEvents": 3', '{"other": []}'])
def test_what_is_no_profile_is_refused(tmp_path, text):
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(TrainingError, match="is no profile"):
        gw.train.compare_profiles(path, path)
    with pytest.raises(TrainingError, match="is no profile"):
        gw.train.compare_profiles(tmp_path / "missing.json", path)

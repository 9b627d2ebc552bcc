"""Prepared runs: what is checked once stays true, and a call is a run of the session."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, FeedError, GraphError, ShapeError, TrainingError
from gradwright.session import Prepared
from tests.support.networks import squares

line = pytest.fixture(squares)
ONES = np.ones((4, 3), np.float32), np.zeros(4, np.float32)


def test_a_prepared_call_is_a_run(line):
    g, x, t, w, loss = line
    session = gw.Session(g)
    call = session.prepare({"loss": loss, "rest": (w, [x])}, ["x", t], {w: w * 2.0}, training=True)
    assert isinstance(call, Prepared) and call.feeds == (x, t)
    got = call(*ONES)
    assert float(got["loss"]) == 144.0 and g.values["w"].tolist() == [2.0, 4.0, 6.0]
    assert got["rest"][0].tolist() == [1.0, 2.0, 3.0] and isinstance(got["rest"], tuple)
    assert not np.shares_memory(got["rest"][1][0], ONES[0])
    named = call({"t": np.zeros(2), x: [[1, 1, 1], [0, 0, 1]]})  # other sizes, other dtypes
    assert float(named["loss"]) == 12.0**2 + 6.0**2
    assert session.step == 2 and repr(call) == "<Prepared (x, t) -> (loss, w, x)>"


def test_one_feed_that_is_a_list_of_arrays_is_given_by_position():
    g = gw.Graph()
    items = g.placeholder("items", gw.SequenceSpec((2,)))
    call = gw.Session(g).prepare(gw.sequence.length(items), [items])
    assert int(call([np.ones(2), np.zeros(2)])) == 2
    assert int(call({"items": []})) == 0


def test_arrays_of_the_stated_dtype_are_not_copied_and_others_are_converted(line):
    g, x, *_ = line

    seen = []

    class Watch(gw.Op):
        """Note where the input lies."""

        def infer(self, x):
            return x

        def forward(self, x):
            seen.append(x.__array_interface__["data"][0])
            return x + 0

    call = gw.Session(g).prepare(Watch()(x), [x])
    call(ONES[0])
    call(ONES[0].astype("float64"))
    call(ONES[0].astype(">f4"))
    assert seen[0] == ONES[0].__array_interface__["data"][0] and len(set(seen)) > 1
    assert call(ONES[0].astype(">f4") * 3).dtype == np.dtype("float32")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((), r"0 arrays are given[\s\S]*need: x: f32\[B, 3\], t: f32\[B\]"),
        ((ONES[0],), "1 arrays are given"),
        ((*ONES, ONES[1]), "3 arrays are given"),
        (({"x": ONES[0]},), "'x' is given"),
        (({**dict(zip("xt", ONES, strict=True)), "w": 1.0},), "'w' is given"),
        (({"y": 1.0},), "no tensor 'y'"),
        ((ONES[1], ONES[1]), "'x' is fed with rank 1"),
        ((np.ones((4, 2), np.float32), ONES[1]), "'x' is fed with size 2 on axis 1"),
        ((np.ones((5, 3), np.float32), ONES[1]), "'t' says B = 4, but 'x' says B = 5"),
        ((ONES[0] * 1j, ONES[1]), "cannot take complex64"),
        (([[1, 2], [3]], ONES[1]), "no array"),
    ],
)
def test_arrays_that_do_not_fit_are_named_and_harm_nothing(line, arrays, message):
    g, x, t, w, loss = line
    call = gw.Session(g).prepare(loss, [x, t], {w: w * 2.0})
    for _ in range(2):
        call(*ONES)
        before = g.values["w"].tolist()
        with pytest.raises(FeedError, match=message):
            call(*arrays)
        assert g.values["w"].tolist() == before


def test_what_cannot_be_prepared_is_refused_when_called(line):
    g, x, _, w, loss = line
    other = gw.Graph().placeholder("x", ())
    session = gw.Session(g)
    with pytest.raises(FeedError, match="no tensor 'nothing'"):
        session.prepare("nothing")
    with pytest.raises(FeedError, match="cannot be fetched"):
        session.prepare(3.0)
    with pytest.raises(GraphError, match="of another graph"):
        session.prepare(loss, [other])
    with pytest.raises(FeedError, match="'t' is not fed"):
        session.prepare(loss, [x])(ONES[0])
    with pytest.raises(ShapeError, match="has another spec"):
        session.prepare([], [x], {w: x})(ONES[0])
    with pytest.raises(DTypeError, match=r"need: bool\[\]"):
        session.prepare([], [x], {w: w}, commit_if=x)(ONES[0])
    session.close()
    with pytest.raises(GraphError, match="closed"):
        session.prepare(w)()


def test_an_edit_counts_from_the_next_call(line):
    g, x, t, w, loss = line
    call = gw.Session(g).prepare(loss, [x, t])
    assert float(call(*ONES)) == 144.0
    with g.edit() as e:
        e.insert_after(w, lambda w: w * 0.5)
    assert float(call(*ONES)) == 36.0
    g.rename(w, "weight")
    g.values["weight"] = [0.0, 0.0, 1.0]
    assert float(call(*ONES)) == 4 * 0.25
    with g.edit() as e:
        e.remove(loss)
    with pytest.raises(GraphError, match="no longer in the graph"):
        call(*ONES)


def test_listeners_that_join_are_told_from_the_next_call(line):
    g, x, t, w, loss = line
    session = gw.Session(g)
    call = session.prepare(loss, [x, t], {w: w + 1.0}, commit_if=loss > 100.0)
    call(*ONES)
    seen = []

    class Watch(gw.Listener):
        wants_nodes = True

        def run_started(self, event):
            seen.append(("start", event.step, [t.name for t in event.fetches]))

        def node_ran(self, event):
            seen.append(event.node.name)

        def run_finished(self, event):
            seen.append(("end", float(event.results[0]), event.committed))

        def values_changed(self, versions):
            seen.append(versions)

    session.listeners.append(Watch())
    assert float(call(*ONES)) == 18.0**2
    assert seen[0] == ("start", 1, ["loss"]) and "matmul" in seen
    assert seen[-2:] == [("end", 324.0, True), {"w": 2}]
    g.values["w"] = [0.0, 0.0, 0.0]
    call(*ONES)
    assert seen[-1] == ("end", 0.0, False) and g.values["w"].tolist() == [0.0] * 3


def test_random_ops_follow_the_step_of_the_call():
    g = gw.Graph()
    x = g.placeholder("x", (64,))
    dropped = gw.nn.dropout(x, p=0.5)
    session = gw.Session(g, seed=3)
    call, ones = session.prepare(dropped, [x], training=True), np.ones(64, np.float32)
    a, b, again = call(ones), call(ones), call(ones, step=0)
    assert not np.array_equal(a, b) and np.array_equal(a, again) and session.step == 2
    assert np.array_equal(b, session.run(dropped, {x: ones}, training=True, step=1))
    key = np.array([3, 1], np.uint64)
    fed = session.prepare(dropped, [x, g.rng], training=True)
    assert np.array_equal(b, fed(ones, key))


def test_runs_and_prepared_calls_share_plans_and_both_count_as_use(line):
    g, x, t, _, loss = line
    session = gw.Session(g, max_plans=2)
    call = session.prepare(loss, [x, t])
    for n in (1, 2):
        call(np.ones((n, 3), np.float32), np.zeros(n, np.float32))
        session.run(loss, {x: np.ones((n, 3)), t: np.zeros(n)})
    held = list(session.plan_cache.values())
    assert len(held) == 2
    call(np.ones((1, 3), np.float32), np.zeros(1, np.float32))
    call(np.ones((3, 3), np.float32), np.zeros(3, np.float32))
    assert held[0] in session.plan_cache.values() and held[1] not in session.plan_cache.values()


def test_what_was_evicted_is_planned_again_and_released(line):
    g, x, t, _, loss = line
    session = gw.Session(g, max_plans=1)
    calls = [session.prepare(loss * k, [x, t]) for k in (1.0, 2.0)]
    for _ in range(3):
        assert [float(call(*ONES)) for call in calls] == [144.0, 288.0]
    evicted = weakref.ref(next(iter(session.plan_cache.values())))
    calls[0](*ONES)
    gc.collect()
    assert evicted() is None and len(session.plan_cache) == 1


def test_the_bytes_of_plans_are_bounded_and_can_be_released():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    y = gw.exp(gw.exp(x) + 1.0).sum()
    session = gw.Session(g, cache_bytes=1 << 16)
    call = session.prepare(y, [x])
    for n in range(1, 40):
        call(np.zeros(1000 * n, np.float32))
    assert session.plan_cache.nbytes <= 1 << 16 or len(session.plan_cache) == 1
    before = call(np.zeros(5, np.float32))
    session.release()
    assert call(np.zeros(5, np.float32)) == before


def test_a_session_that_is_dropped_takes_its_plans_along(line):
    g, x, t, _, loss = line
    session = gw.Session(g)
    session.run(loss, {x: ONES[0], t: ONES[1]})
    call = session.prepare(loss, [x, t])
    call(*ONES)
    held = weakref.ref(next(iter(session.plan_cache.values())))
    gc.disable()
    try:
        del session, call
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("options", [{"device": "guard"}, {"check": "replay"}, {"kernels": "off"}])
def test_other_ways_to_run_give_the_same(line, options):
    g, x, t, w, loss = line
    (dw,) = gw.gradients(loss, [w])
    updates = {w: w - 0.01 * dw}
    values = g.values.snapshot()
    plain = gw.Session(g).prepare([loss, dw], [x, t], updates)
    other = gw.Session(g, values=values, **options).prepare([loss, dw], [x, t], updates)
    for _ in range(3):
        for a, b in zip(plain(*ONES), other(*ONES), strict=True):
            assert np.allclose(a, b, rtol=1e-5)
    assert np.allclose(values["w"], g.values["w"], rtol=1e-5)


def test_the_plan_of_a_step_is_known_before_it_runs(line):
    g, x, t, w, loss = line
    (dw,) = gw.gradients(loss, [w])
    updates = {w: w - dw}
    session = gw.Session(g)
    plan = session.plan(loss, {"x": (4, 3), "t": (4,)}, updates)
    assert plan.memory().arena > 0
    session.prepare(loss, [x, t], updates)(*ONES)
    assert list(session.plan_cache.values()) == [plan]
    assert session.plan(loss, {"x": (4, 3), "t": (4,)}) is not plan


# -- options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernels": "never"}, r"'background', 'wait', 'later', 'off'"),
        ({"threads": 0}, "int >= 1"),
        ({"threads": 1.5}, "int >= 1"),
        ({"checkpoint": "all"}, "'sqrt'"),
        ({"checkpoint": 0}, "'sqrt'"),
        ({"checkpoint": [1]}, "'sqrt'"),
        ({"max_plans": 0}, "max_plans >= 1"),
        ({"cache_bytes": -1}, "cache_bytes >= 0"),
    ],
)
def test_options_that_make_no_sense_are_named(line, options, message):
    with pytest.raises(GraphError, match=message):
        gw.Session(line[0], **options)


def test_a_deterministic_session_waits_for_kernels_and_records_versions(line):
    session = gw.Session(line[0], deterministic=True, threads=1)
    assert session.options.kernels == "wait"
    assert session.tuning["numpy"] == np.__version__ and session.tuning["threads"] == 1
    assert {"blas", "llvmlite", "machine", "kernels"} <= session.tuning.keys()
    assert gw.Session(line[0], deterministic=True, kernels="off").options.kernels == "off"
    assert gw.Session(line[0]).tuning["choices"] == {}


# -- what one writes by mistake ------------------------------------------------------------------


def test_feeds_by_keyword_and_arrays_in_place_of_dicts_say_what_to_write(line):
    g, *_, loss = line
    session = gw.Session(g)
    written = r'[\s\S]*session.run\(y, {"x": x, "t": t}\)'
    with pytest.raises(FeedError, match="no argument 'x'" + written):
        session.run(loss, x=ONES[0], t=ONES[1])
    with pytest.raises(FeedError, match="feeds are a ndarray" + written):
        session.run(loss, ONES[0])


def test_data_in_several_arguments_say_what_to_write(line):
    g, *_, loss = line
    trainer = gw.Trainer(g, loss)
    with pytest.raises(TrainingError, match=r'trainer.fit\({"x": x, "t": t}\)'):
        trainer.fit(*ONES)
    assert trainer.status == "idle" and trainer.steps_done == 0

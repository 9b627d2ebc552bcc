"""Results written into given arrays: right ones come back, wrong ones are refused beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available
from gradwright.errors import FeedError

N = 40_000
"""Elements of a result that kernels write where it is wanted: more than 64 kB."""


def graph() -> tuple[gw.Graph, gw.Tensor, gw.Tensor, gw.Tensor, gw.Tensor]:
    g = gw.Graph()
    x, w = g.placeholder("x", (None,)), g.variable("w", (), init=2.0)
    y = gw.mul(gw.tanh(x), w, name="y")
    return g, x, w, y, gw.sum(y, name="total")


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("n", [3, N])
def test_results_come_in_the_arrays_that_were_given(kernels: Any, n: int) -> None:
    g, x, w, y, total = graph()
    feed = np.linspace(-1, 1, n, dtype=np.float32)
    strided = np.zeros((n, 2), np.float32)[:, 1]
    for out in (np.zeros(n, np.float32), strided, np.zeros(n + 1, np.float32)[1:]):
        with gw.Session(g, kernels=kernels) as session:
            expected = session.run([y, total], {x: feed})
            sums = np.zeros((), np.float32)
            found = session.run([y, total], {x: feed}, {w: w + 1.0}, out={"y": out, total: sums})
            assert found[0] is out and found[1] is sums
            np.testing.assert_array_equal(out, expected[0])
            assert sums == expected[1] and g.values["w"] == 3.0
            prepared = session.prepare({"y": y}, [x])
            assert prepared(feed, out={y: out})["y"] is out
            np.testing.assert_array_equal(out, expected[0] * np.float32(1.5))
            kept = out.copy()
            assert prepared(-feed)["y"] is not out  # what was lent is given back
            np.testing.assert_array_equal(out, kept)
            g.values["w"] = 2.0


@pytest.mark.skipif(not available(), reason="no llvmlite")
def test_large_results_are_written_where_they_are_wanted() -> None:
    g, x, _, y, _ = graph()
    out, feed = np.zeros(N, np.float32), np.ones(N, np.float32)
    with gw.Session(g, kernels="wait") as session:
        run = session.prepare(y, [x])
        run(feed)
        run(feed, out={y: out})
        executor: Any = session.plans[-1].head.executor
        (_, place, _), *_ = executor.bound.exits._fresh
        assert place.at == out.ctypes.data  # kernels wrote there, and nobody copied
        run(feed)
        assert place.at != out.ctypes.data


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: {"y": np.zeros(4)}, "float64"),
        (lambda x: {"y": np.zeros(3, np.float32)}, r"float32\[3\]"),
        (lambda x: {"y": [0.0] * 4}, "a list"),
        (lambda x: {"x": np.zeros(4, np.float32)}, "not fetched"),
        (lambda x: {"nothing": np.zeros(4, np.float32)}, "no tensor 'nothing'"),
        (lambda x: {"y": x}, "share memory"),
        (lambda x: [np.zeros(4, np.float32)], "out is a list"),
        (lambda x: {"y": np.broadcast_to(np.float32(0), 4)}, "read-only"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_runs(make: Any, message: str) -> None:
    g, x, w, y, _ = graph()
    feed = np.ones(4, np.float32)
    with gw.Session(g) as session:
        run = session.prepare(y, [x], {w: w + 1.0})
        for call in (
            lambda out: session.run(y, {x: feed}, {w: w + 1.0}, out=out),
            lambda out: run(feed, out=out),
            lambda out: g.output({x: feed}, y, out=out),
        ):
            with pytest.raises(FeedError, match=message):
                call(make(feed))
    assert g.values["w"] == 2.0 and (feed == 1).all()


def test_two_results_in_one_array_and_variables_are_refused() -> None:
    g, x, w, y, total = graph()
    whole = np.zeros(5, np.float32)
    with gw.Session(g) as session:
        with pytest.raises(FeedError, match="share memory"):
            z = y + 1.0
            session.run([y, z], {x: np.ones(4)}, out={y: whole[:4], z: whole[1:]})
        with pytest.raises(FeedError, match="read-only"):
            session.run([w, total], {x: np.ones(4)}, out={w: g.values["w"]})
        where = gw.nonzero(x)[0]
        with pytest.raises(FeedError, match="known only when it is there"):
            session.run(where, {x: np.ones(4)}, out={where: np.zeros((1, 4), np.int64)})


def test_a_run_that_fails_lends_nothing_to_the_next() -> None:
    g, x, _, y, _ = graph()

    class Refuses(gw.Listener):
        def run_started(self, event: Any) -> None:
            raise RuntimeError("not now")

    class Fails(gw.Listener):
        wants_nodes = True

        def node_ran(self, event: Any) -> None:
            raise RuntimeError("in the midst")

    out = np.zeros(N, np.float32)
    with gw.Session(g, kernels="wait") as session:
        session.run(y, {x: np.ones(N, np.float32)})
        for listener in (Refuses(), Fails()):
            session.listeners.append(listener)
            with pytest.raises(RuntimeError, match=r"not now|in the midst"):
                session.run(y, {x: np.ones(N, np.float32)}, out={y: out})
            session.listeners.clear()
            session.run(y, {x: np.ones(N, np.float32)})
    assert not out.any()


def test_predictions_are_written_into_given_arrays() -> None:
    g, _, _, y, _ = graph()
    data = {"x": np.linspace(-1, 1, 10, dtype=np.float32)}
    expected = gw.predict(g, y, data)["y"]
    for size in (256, 3):
        out = np.zeros(10, np.float32)
        assert gw.predict(g, y, data, batch_size=size, out={"y": out})["y"] is out
        np.testing.assert_allclose(out, expected, 1e-6)
        for wrong in (np.zeros(9, np.float32), np.zeros(10), data["x"]):
            before = data["x"].copy()
            with pytest.raises(FeedError, match="out of 'y'"):
                gw.predict(g, y, data, batch_size=size, out={"y": wrong})
            assert (data["x"] == before).all()
        for wrong in ({"z": out}, out):
            with pytest.raises(FeedError, match="by 'y'"):
                gw.predict(g, y, data, batch_size=size, out=wrong)

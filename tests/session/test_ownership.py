"""What a session hands out is the caller's own, and what it stores is the graph's."""

from __future__ import annotations

import warnings
import weakref

import numpy as np
import pytest

import gradwright as gw
from tests.support.networks import squares

line = pytest.fixture(squares)
FEEDS = {"x": np.ones((4, 3)), "t": np.zeros(4)}


def test_results_are_the_callers_own(line):
    g, x, _, w, _loss = line
    with gw.Session(g) as session:
        fed = np.ones((4, 3), np.float32)
        same = session.run(x, {"x": fed})
        assert not np.shares_memory(same, fed)
        first = session.run(g["matmul"], FEEDS)
        kept = first.copy()
        session.run(g["matmul"], {**FEEDS, "x": np.zeros((4, 3))})
        assert np.array_equal(first, kept)
        with pytest.raises(ValueError, match="read-only"):
            session.run(w)[0] = 5.0


def test_views_of_the_arena_are_safe_to_keep():
    g = gw.Graph()
    x = g.placeholder("x", (2, 3))
    y = gw.exp(x).T
    z = gw.exp(y)
    with gw.Session(g) as session:
        a, b = session.run([y, z], {"x": np.zeros((2, 3))})
        session.run([y, z], {"x": np.ones((2, 3))})
        assert np.all(a == 1.0) and np.allclose(b, np.e)


class _Listens(gw.Listener):
    wants_nodes = True


class _Same(gw.Op):
    """Return the input itself, as ops of users do."""

    def infer(self, x):
        return x

    def forward(self, x):
        return x


@pytest.mark.parametrize("listeners", [(), (_Listens(),)])
def test_writing_into_a_result_changes_nothing_else(listeners):
    g = gw.Graph()
    x, w = g.placeholder("x", (4,)), g.variable("w", (4,), init=5.0)
    y = gw.exp(x)
    fetches = [
        y, gw.identity(y), y.reshape(2, 2), y[1:], gw.broadcast_to(y, (2, 4)),
        x, gw.identity(x), x.reshape(2, 2), _Same()(x), gw.identity(w), _Same()(w),
    ]  # fmt: skip
    fed = np.zeros(4, np.float32)
    with gw.Session(g, listeners=listeners) as session:
        results = session.run(fetches, {"x": fed})
    before = [r.copy() for r in results]
    for i, r in enumerate(results):
        r[...] = 7.0
        for other, held in zip(results[i + 1 :], before[i + 1 :], strict=True):
            assert np.array_equal(other, held)
    assert fed.tolist() == [0.0] * 4 and g.values["w"].tolist() == [5.0] * 4


@pytest.mark.parametrize("listeners", [(), (_Listens(),)])
@pytest.mark.parametrize(
    "value",
    [
        lambda x, y: y,
        lambda x, y: y.reshape(4),
        lambda x, y: x,
        lambda x, y: gw.identity(x),
        lambda x, y: x.reshape(4),
        lambda x, y: _Same()(x),
    ],
)
def test_what_an_update_stores_belongs_to_the_graph_alone(value, listeners):
    g = gw.Graph()
    x, w = g.placeholder("x", (4,)), g.variable("w", (4,))
    y = gw.exp(x)
    new = value(x, y)
    fed = np.ones(4, np.float32)
    with gw.Session(g, listeners=listeners) as session:
        a, b = session.run([y, new], {"x": fed}, updates={w: new})
    stored = b.copy()
    for array in (fed, a, b):
        array[...] = 7.0  # each stays writable
    assert g.values["w"].tolist() == stored.tolist()


def test_an_update_keeps_no_larger_buffer_alive():
    g = gw.Graph()
    x, w = g.placeholder("x", (1000, 4)), g.variable("w", (4,))
    gw.Session(g).run([], {"x": np.zeros((1000, 4))}, updates={w: gw.exp(x)[0]})
    assert g.values.array("w").base is None and g.values["w"].tolist() == [1.0] * 4


@pytest.mark.parametrize("device", ["cpu", "guard"])
def test_sessions_hold_neither_feeds_nor_results(device):
    g = gw.Graph()
    x = g.placeholder("x", (1000,))
    kept = gw.boolean_mask(x, x > 0.0)
    either = gw.cond(x.sum() > 0.0, lambda: x * 2.0, lambda: x)
    session = gw.Session(g, device)
    for _ in range(3):
        fed = np.ones(1000, np.float32)
        results = session.run([gw.exp(x).reshape(10, 100).T, kept, either, x], {"x": fed})
        held = [weakref.ref(fed), *map(weakref.ref, results)]
        del fed, results
        assert all(ref() is None for ref in held)
    session.run(x * 2.0, {"x": np.ones(1000)})
    if device == "guard":
        assert len(session.device._fences) <= 1  # those of earlier runs are gone


def test_a_result_is_written_again_only_when_nobody_holds_it():
    n = 1 << 15
    g = gw.Graph()
    x, w = g.placeholder("x", (n,)), g.variable("w", (n,), init=0.0)
    doubled, session = x * 2.0, gw.Session(g)

    def run(number):
        return session.run(doubled, {"x": np.full(n, number)})

    def place():
        return run(0.0).__array_interface__["data"]

    assert place() == place()
    kept = [run(float(i)) for i in range(4)]
    assert [a[-1] for a in kept] == [0, 2, 4, 6]
    part = kept.pop()[:3]
    run(7.0)
    np.testing.assert_array_equal(part, 6)
    changed = run(8.0)
    changed.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # numpy 2.5 would rather reshape
        changed.shape = 2, -1
    del changed
    for _ in range(3):
        y = run(9.0)
        assert y.shape == (n,) and y.flags.writeable and (y == 18).all()
    updates = {w: w + x}
    seen = []
    for number in range(5):
        seen.append(g.values["w"][:1])
        session.run([], {"x": np.ones(n)}, updates=updates)
        assert [int(a[0]) for a in seen] == list(range(number + 1))
        np.testing.assert_array_equal(g.values["w"], number + 1)

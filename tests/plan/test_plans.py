"""Plans: their cache, their memory, rewrites, shapes that depend on values."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ShapeError
from gradwright.program.memory import Interval, lay_out
from tests.support.networks import squares

line = pytest.fixture(squares)
FEEDS = {"x": np.ones((4, 3)), "t": np.zeros(4)}


# -- plans -----------------------------------------------------------------------------------------


def test_plans_are_cached_per_shape_and_bounded(line):
    g, *_, loss = line
    session = gw.Session(g, max_plans=2)
    for n in (1, 2, 1, 2):
        session.run(loss, {"x": np.ones((n, 3)), "t": np.zeros(n)})
    held = list(session.plan_cache.values())
    session.run(loss, {"x": np.ones((1, 3)), "t": np.zeros(1)})
    assert len(held) == 2 and set(session.plan_cache.values()) == set(held)
    session.run(loss, {"x": np.ones((7, 3)), "t": np.zeros(7)})
    assert len(session.plan_cache) == 2


def test_a_size_that_contradicts_the_graph_is_found_when_planned():
    g = gw.Graph()
    x, y = g.placeholder("x", (None,)), g.placeholder("y", (None,))
    z, pair = x + y, gw.concat([x[None], y[None]])  # equal sizes, or one of them 1; equal sizes
    with gw.Session(g) as session:
        assert session.run(z, {"x": np.ones(3), "y": np.ones(3)}).shape == (3,)
        with pytest.raises(ShapeError, match="do not broadcast"):
            session.run(z, {"x": np.ones(3), "y": np.ones(2)})
        assert session.run(z, {"x": np.ones(1), "y": np.ones(3)}).shape == (3,)
        with pytest.raises(ShapeError, match="equal sizes, got 1 and 3"):
            session.run(pair, {"x": np.ones(1), "y": np.ones(3)})


def test_redefining_an_op_reaches_existing_sessions_and_prepared_runs():
    g = gw.Graph()
    x = g.placeholder("x", ())

    def define(factor):
        @gw.register("test/scaled")
        class Scaled(gw.Op):
            """Multiply by a number."""

            def infer(self, x):
                return x

            def forward(self, x):
                return np.asarray(x * np.float32(factor))

        return Scaled

    y = define(2.0)()(x)
    with gw.Session(g) as session:
        prepared = session.prepare(y, [x])
        assert float(session.run(y, {"x": 1.0})) == float(prepared(1.0)) == 2.0
        define(3.0)
        assert float(prepared(1.0)) == float(session.run(y, {"x": 1.0})) == 3.0


def test_memory_is_shared_between_values_that_never_meet():
    g = gw.Graph()
    y = x = g.placeholder("x", (1000,))
    for _ in range(50):
        y = gw.exp(y)
    memory = gw.Session(g).plan(y.sum(), {"x": (1000,)}).memory()
    assert memory.unshared >= 50 * 4000 and memory.arena <= 2 * 4096 + 64
    assert x.shape == (1000,)


def test_layout_never_overlaps_values_alive_together(rng):
    for _ in range(20):
        starts = rng.integers(0, 50, 200)
        items = [
            Interval(i, int(rng.integers(0, 5000)), int(s), int(s + rng.integers(0, 20)))
            for i, s in enumerate(starts)
        ]
        layout = lay_out(items)
        for a in items:
            for b in items[a.value + 1 :]:
                if a.start <= b.end and b.start <= a.end:
                    low, high = sorted((a, b), key=lambda i: layout.offsets[i.value])
                    start = layout.offsets[low.value]
                    assert start + low.nbytes <= layout.offsets[high.value] or not low.nbytes
        assert all(o % 64 == 0 for o in layout.offsets.values())
        assert max(layout.offsets[i.value] + i.nbytes for i in items) <= layout.nbytes


def test_rewrites_can_be_left_out_and_change_nothing(line):
    g, _, _, w, loss = line
    (dw,) = gw.gradients(loss, [w])
    plain = gw.Session(g, skip_rewrites=gw.rewrite.RULES).run([loss, dw], FEEDS)
    for skipped in ((), *((name,) for name in gw.rewrite.RULES)):
        out = gw.Session(g, skip_rewrites=skipped, check="replay").run([loss, dw], FEEDS)
        assert all(np.array_equal(a, b) for a, b in zip(plain, out, strict=True))


def test_equal_subgraphs_are_computed_once():
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    plan = gw.Session(g).plan(gw.exp(x) + gw.exp(x), {"x": (3,)})
    assert [i.op.name for i in plan.program.instrs] == ["exp", "add"]


def test_shapes_alone_cost_no_computation():
    g = gw.Graph()
    x = g.placeholder("x", (None, 2))
    expensive = gw.exp(x)
    plan = gw.Session(g).plan(gw.zeros_like(expensive), {"x": (3, 2)})
    assert plan.program.instrs == []
    assert gw.Session(g).run(gw.zeros_like(expensive), {"x": np.ones((3, 2))}).shape == (3, 2)


def test_sizes_of_placeholders_in_two_scopes_are_two_sizes():
    g = gw.Graph()
    with g.scope("a"):
        x = g.placeholder("x", (None,))
    with g.scope("b"):
        y = g.placeholder("x", (None,))
    out = gw.Session(g).run([x.sum(), y.sum()], {x: np.ones(3), y: np.ones(2)})
    assert out == [3.0, 2.0]


def test_renaming_a_variable_reaches_plans_that_exist():
    g = gw.Graph()
    w = g.variable("w", (2,), init=1.0)
    y = w * 2.0
    with gw.Session(g) as session:
        session.run(y)
        g.rename(w, "v")
        session.run([], updates={w: y})
    assert g.values["v"].tolist() == [2.0, 2.0]


def test_planning_shapes_takes_no_memory():
    g = gw.Graph()
    x = g.placeholder("x", (1 << 20, 1 << 20))  # 4 TB
    plan = gw.Session(g).plan(gw.zeros_like(x)[0, 0], {"x": (1 << 20, 1 << 20)})
    assert plan.memory().arena < 1 << 20


def test_a_chain_of_20_000_nodes():
    g = gw.Graph()
    y = x = g.placeholder("x", (2,))
    one = g.placeholder("one", (2,))
    for _ in range(20_000):
        y = y + one
    with gw.Session(g) as session:
        assert session.run(y, {"x": np.zeros(2), "one": np.ones(2)}).tolist() == [2e4, 2e4]
    (dx,) = gw.gradients(y, [x])
    assert gw.Session(g).run(dx, {"x": np.zeros(2), "one": np.ones(2)}).tolist() == [1.0, 1.0]
    assert len(str(g.summary())) > 200_000


# -- data-dependent shapes -------------------------------------------------------------------------


def test_a_mask_ends_a_segment_and_gradients_flow_through():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    kept = gw.boolean_mask(x, x > 0.0)
    y = (kept * kept).sum()
    (dx,) = gw.gradients(y, [x])
    for device in ("cpu", "guard"):
        with gw.Session(g, device, check="replay") as session:
            for data in ([1.0, -2.0, 3.0], [-1.0, -1.0, -1.0], [4.0, 5.0, 6.0], [1.0, -2.0, 3.0]):
                a = np.array(data, np.float32)
                k, v, d = session.run([kept, y, dx], {"x": a})
                assert k.tolist() == a[a > 0].tolist() and float(v) == float((a[a > 0] ** 2).sum())
                assert d.tolist() == np.where(a > 0, 2 * a, 0).tolist()


def test_reshape_to_a_fed_shape():
    g = gw.Graph()
    x, s = g.placeholder("x", (None,)), g.placeholder("s", (2,), "int64")
    y = gw.exp(x).reshape(s) * 2.0
    total = y.sum(axis=0)
    (dx,) = gw.gradients(total, [x])
    for device in ("cpu", "guard"):
        with gw.Session(g, device) as session:
            for shape in ((2, 3), (3, 2), (6, 1), (2, 3)):
                t, d = session.run([total, dx], {"x": np.zeros(6), "s": shape})
                assert t.tolist() == [2.0 * shape[0]] * shape[1] and d.tolist() == [2.0] * 6


def test_a_size_that_only_a_run_tells_without_the_tensor_that_has_it():
    """What states the size has no input that would be computed before it."""
    g = gw.Graph()
    x = g.placeholder("x", ("N",))
    with g:
        positive = x[x > 0]
        n = positive.shape[0]
        twice = gw.concat([positive, positive])[: n + 1]
        steps = gw.arange(n * 2)
        both = gw.broadcast_to(x[0], (n, twice.shape[0]))
    feeds = {"x": np.float32([1, -1, 2])}
    for check in (None, "replay"):
        with gw.Session(g, check=check) as session:
            for fetches in ([steps], [both], [both, steps], [steps, positive]):
                found = session.run(fetches, feeds)
                assert [y.shape for y in found] == [
                    {steps: (4,), both: (2, 3), positive: (2,)}[t] for t in fetches
                ]
            assert session.run(steps, {"x": np.float32([1])}).tolist() == [0, 1]

"""Thousands of shapes through one session: right numbers, no growth, and compile work shared."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, ShapeError
from gradwright.plan.plan import Plan
from gradwright.plan.template import Templates
from gradwright.program.device import open_device
from gradwright.program.options import PlanOptions
from gradwright.spec import TensorSpec

OFF = PlanOptions(kernels="off")


def dense():
    """Return a graph with an attention block and its gradient, and what to fetch."""
    rng = np.random.default_rng(0)
    g = gw.Graph()
    x = g.placeholder("x", ("B", "T", 8))
    w = g.variable("w", init=rng.standard_normal((8, 8)).astype("f4"))
    h = gw.nn.softmax(x @ w @ x.mT, axis=-1) @ gw.nn.gelu(x @ w)
    loss = (h - x.mean(axis=1, keepdims=True)).reshape(-1, 8).std()
    return g, [loss, *gw.gradients(loss, [w, x])]


def looped():
    """Return a graph with a scan over T steps and its gradient."""
    rng = np.random.default_rng(0)
    g = gw.Graph()
    x = g.placeholder("x", ("B", "T", 4))
    w = g.variable("w", init=rng.standard_normal((4, 4)).astype("f4"))

    def step(c, item):
        new = gw.tanh(c @ w + item)
        return new, new

    _, ys = gw.scan(step, gw.zeros_like(x[:, 0]), x.transpose(1, 0, 2))
    loss = (ys * ys).mean()
    return g, [loss, *gw.gradients(loss, [w])]


def masked():
    """Return a graph in which values decide a size."""
    g = gw.Graph()
    x = g.placeholder("x", ("B", "T"))
    chosen = gw.exp(x[x > 0.0])
    return g, [chosen.sum(), (chosen * chosen).sum(), gw.gradients(chosen.sum(), [x])[0]]


def varied():
    """Return a graph of ops that look at sizes in many ways."""
    rng = np.random.default_rng(0)
    g = gw.Graph()
    x = g.placeholder("x", ("B", "T", 6))
    w = g.variable("w", init=rng.standard_normal((6, 6)).astype("f4"))
    h = gw.nn.softmax(x @ w, axis=1)
    k = gw.concat([gw.sort(gw.cumsum(h, axis=1), axis=1), h], axis=1)
    p = gw.pad(k.reshape(k.shape[0], -1), ((0, 0), (1, 1)))
    v = p.var(axis=1) + gw.logsumexp(p, axis=1) + p[:, ::2].sum(axis=1) + p.max(axis=1)
    kept = gw.where(p > 0.0, p, -p).sum() / gw.cast(gw.shape_of(p)[0], "float32")
    loss = (v + gw.nn.dropout(p, 0.3).mean(axis=1)).mean() + kept
    return g, [loss, *gw.gradients(loss, [x, w])]


GRAPHS = {
    "varied": (varied, (6,)),
    "dense": (dense, (8,)),
    "looped": (looped, (4,)),
    "masked": (masked, ()),
}


@pytest.mark.parametrize(("kind", "count"), [("dense", 240), ("looped", 160), ("masked", 160)])
def test_hundreds_of_shapes_leave_nothing_behind(kind, count, rng):
    build, rest = GRAPHS[kind]
    g, fetches = build()
    most = 6 if kind == "looped" else 30
    with gw.Session(g, kernels="off", max_plans=12) as session:

        def run(n):
            for _ in range(n):
                feed = rng.standard_normal((rng.integers(2, 60), rng.integers(2, most), *rest))
                session.run(fetches, {"x": feed.astype("f4")}, training=True)
            gc.collect()
            return len(gc.get_objects())

        early = run(count // 4)
        late = run(count // 2)
        tracemalloc.start()
        try:
            run(24)  # as many as replace all plans
            before, _ = tracemalloc.get_traced_memory()
            run(count // 10)
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        run(count // 4 - count // 10 - 24)
        assert len(session.plan_cache) == 12
        counts = next(iter(session.plan_cache.values())).shapes.counts
    assert late < 1.03 * early + 500
    assert after - before < 1_000_000
    assert counts["filled"] > 3 * counts["plain"]


@pytest.mark.parametrize("kind", list(GRAPHS))
def test_each_shape_gives_what_a_session_of_its_own_gives(kind, rng):
    build, rest = GRAPHS[kind]
    g, fetches = build()
    shapes = [
        (3, 4),
        (5, 6),
        (7, 3),
        (2, 2),
        (1, 4),
        (4, 1),
        (1, 1),
        (9, 5),
        (8, 8),
        (4, 4),
        (3, 9),
    ]
    with gw.Session(g, kernels="off") as shared:
        for b, t in shapes:
            feed = {"x": rng.standard_normal((b, t, *rest)).astype("f4")}
            found = shared.run(fetches, feed, training=True, step=1)
            with gw.Session(g, kernels="off") as alone:
                expected = alone.run(fetches, feed, training=True, step=1)
            for a, e in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a, e)


def specs(g, **shapes):
    return {g[k]: TensorSpec(shape, g[k].dtype) for k, shape in shapes.items()}


def compiled(templates, g, fetches, **shapes):
    device = open_device("cpu")
    return templates.plan(fetches, specs(g, **shapes), device, training=True, options=OFF)


def test_programs_from_templates_are_those_of_plain_plans():
    g, fetches = dense()
    templates = Templates()
    for b, t in ((4, 5), (6, 7), (9, 8), (10, 11), (16, 3)):
        plan = compiled(templates, g, fetches, x=(b, t, 8))
        feeds = specs(g, x=(b, t, 8))
        alone = Plan(fetches, feeds, open_device("cpu"), training=True, options=OFF)
        for a, e in zip(plan.program.instrs, alone.program.instrs, strict=True):
            assert a.op == e.op and a.path == e.path
            made = [plan.program.specs[o] for o in a.outs]
            assert made == [alone.program.specs[o] for o in e.outs]
        assert plan.memory().peak == alone.memory().peak
    assert plan.shapes.counts == {"plain": 1, "flat": 2, "filled": 2}


def test_sizes_of_one_and_zero_are_compiled_plainly():
    g = gw.Graph()
    x, y = g.placeholder("x", ("B", 3)), g.placeholder("y", ("C", 3))
    loss = (x + y).sum()
    templates = Templates()
    for n in (2, 3, 4, 5):
        plan = compiled(templates, g, [loss], x=(n, 3), y=(n, 3))
    assert plan.shapes.counts["filled"] == 1
    for b, c, size in ((5, 1, 5), (6, 1, 6), (0, 1, 0), (1, 1, 1)):
        plan = compiled(templates, g, [loss], x=(b, 3), y=(c, 3))
        env = {x: np.ones((b, 3), "f4"), y: np.ones((c, 3), "f4")}
        plan.run(env)
        assert env[loss] == 6.0 * size
    assert plan.shapes.counts == {"plain": 5, "flat": 2, "filled": 1}


def test_two_symbols_that_were_equal_so_far_are_told_apart():
    g = gw.Graph()
    x, y = g.placeholder("x", ("B", 3)), g.placeholder("y", ("C", 3))
    loss = (gw.exp(x) * y).sum()
    dx, dy = gw.gradients(loss, [x, y])
    with gw.Session(g, kernels="off") as session:
        for n in range(2, 9):
            session.run([loss, dx, dy], {"x": np.zeros((n, 3)), "y": np.ones((n, 3))})
        with pytest.raises((ShapeError, FeedError)) as caught:
            session.run([loss, dx, dy], {"x": np.zeros((4, 3)), "y": np.ones((5, 3))})
        assert "mul" in str(caught.value) and "4" in str(caught.value)
        _, _, found = session.run([loss, dx, dy], {"x": np.zeros((4, 3)), "y": np.ones((1, 3))})
        np.testing.assert_allclose(found, np.full((1, 3), 4.0))


def test_constants_that_depend_on_sizes_are_computed_anew():
    g = gw.Graph()
    x = g.placeholder("x", ("B", "T"))
    mask = gw.tril(gw.ones_like(x))
    y = (x * mask * 3.0).mean() * 2.0
    with gw.Session(g, kernels="off") as session:
        for b, t in ((4, 6), (5, 7), (6, 8), (9, 3), (12, 40)):
            feed = np.arange(b * t, dtype="f4").reshape(b, t)
            expected = (np.tril(feed) * 3).mean() * 2
            np.testing.assert_allclose(session.run(y, {"x": feed}), expected, rtol=1e-5)
        assert next(iter(session.plan_cache.values())).shapes.counts["filled"] == 2


def test_redefined_ops_and_edited_graphs_start_new_templates():
    g = gw.Graph()
    x = g.placeholder("x", ("B",))
    y = gw.exp(x).sum()
    with gw.Session(g, kernels="off") as session:
        for n in range(2, 7):
            session.run(y, {"x": np.zeros(n)})
        with g.edit() as edit:
            edit.replace_use(x, gw.sin(x), of=[n for n in x.uses if n.op.name == "exp"])
        for n in range(2, 9):
            with gw.Session(g, kernels="off") as alone:
                expected = alone.run(y, {"x": np.ones(n)})
            assert session.run(y, {"x": np.ones(n)}) == expected


def test_ops_that_ask_about_sizes_are_opened_at_each_of_them():
    """Whether H is 1 no symbol tells; the loss opens otherwise where heads are averaged."""
    g = gw.Graph()
    labels = g.placeholder("l", ("B", "H", "T", "S"), "float64")
    predictions = g.placeholder("p", ("B", 1, "T", "S"), "float64")
    y = gw.loss.attention_distillation(labels, predictions)
    rng = np.random.default_rng(0)
    with gw.Session(g, kernels="off") as session:
        for heads in (2, 3, 4, 5, 1, 6):
            feeds = {
                "l": rng.standard_normal((2, heads, 3, 4)),
                "p": rng.standard_normal((2, 1, 3, 4)),
            }
            with gw.Session(g, kernels="off") as alone:
                np.testing.assert_array_equal(session.run(y, feeds), alone.run(y, feeds))


@pytest.mark.parametrize("kind", ["dense", "looped", "masked"])
def test_many_shapes_in_turn_are_planned_once(kind, monkeypatch):
    """Batches of 120 lengths, over and over: the second round finds all plans, and those inside."""
    make, rest = GRAPHS[kind]
    g, fetches = make()
    made = []
    compiled = Plan._compile

    def counted(self, *args):
        made.append(self)
        return compiled(self, *args)

    monkeypatch.setattr(Plan, "_compile", counted)
    rng = np.random.default_rng(0)
    given = [(rng.standard_normal((2, n, *rest)) + 0.01).astype("f4") for n in range(1, 121)]
    with gw.Session(g, kernels="off") as session:
        for round_ in range(2):
            for x in given:
                session.run(fetches, {"x": x})
            if round_ == 0:
                assert made
                made.clear()
        assert len(session.plans) == len(given)
    assert not made


def test_a_branch_of_no_rows_tells_no_size():
    """From max(0, T - 3) = 0 nobody can tell T, so what the branch has in common cannot serve."""
    g = gw.Graph()
    c, x = g.placeholder("c", ()), g.placeholder("x", ("T",))
    s = gw.sin(x)[2:-1]
    y = gw.cond(c > 0, lambda: gw.exp(gw.where(s > 0, s, 0.0)), lambda: -s)
    session = gw.Session(g)
    for n in (6, 3, 7, 2, 9, 3):
        rows = np.linspace(0, 2, n)
        inner = np.sin(rows)[2:-1]
        found = session.run(y, {"c": 1.0, "x": rows})
        np.testing.assert_allclose(found, np.exp(np.where(inner > 0, inner, 0)), rtol=1e-5)

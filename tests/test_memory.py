"""Memory of plans: layouts, writing in place, reports, checkpoints, and release under pressure."""

from __future__ import annotations

import gc
import itertools
import math
import tracemalloc
import weakref
from pathlib import Path

import numpy as np
import pytest

import gradwright as gw
from gradwright.device import Cpu, open_device, register_device
from gradwright.errors import GraphError, MemoryLimitError
from gradwright.plan import Bounded
from gradwright.plan.liveness import Lifetimes
from gradwright.plan.memory import Interval, lay_out, lower_bound
from gradwright.plan.options import PlanOptions
from gradwright.plan.plan import Plan
from gradwright.rewrite import Program
from gradwright.rewrite.checkpoint import is_forward
from gradwright.spec import TensorSpec


def mlp(layers, width=32, dropout=0.0):
    """Return a graph with a deep tanh network, its loss and gradients."""
    rng = np.random.default_rng(0)
    g = gw.Graph()
    x, t = g.placeholder("x", ("B", width)), g.placeholder("t", ("B", width))
    h, params = x, []
    for i in range(layers):
        w = g.variable(f"l{i}/w", init=rng.normal(0, width**-0.5, (width, width)).astype("f4"))
        b = g.variable(f"l{i}/b", init=np.zeros(width, "f4"))
        params += [w, b]
        with g.scope(f"l{i}"):
            h = gw.tanh(h @ w + b, name="out")
            if dropout:
                h = gw.nn.dropout(h, dropout)
    loss = gw.mean((h - t) ** 2.0, name="loss")
    return g, [loss, *gw.gradients(loss, params)]


def decoder(layers, width=32, heads=2, words=40):
    """Return a graph with a small decoder, its loss and gradients."""
    rng = np.random.default_rng(0)

    def weight(name, *shape):
        return g.variable(name, init=rng.normal(0, 0.1, shape).astype("f4"))

    g = gw.Graph()
    ids, t = (g.placeholder(n, ("B", "T"), "int64") for n in ("ids", "t"))
    params = [weight("embed", words, width)]
    h = gw.nn.embedding(ids, params[0])
    for i in range(layers):
        own = [weight(f"b{i}/{n}", width, m) for n, m in (("q", 3 * width), ("o", width))]
        own += [weight(f"b{i}/up", width, 4 * width), weight(f"b{i}/down", 4 * width, width)]
        own += [g.variable(f"b{i}/n{j}", init=np.ones(width, "f4")) for j in range(2)]
        with g.scope(f"block{i}"):
            qkv = gw.nn.rms_norm(h, own[4]) @ own[0]
            q, k, v = (
                p.reshape(p.shape[0], p.shape[1], heads, width // heads).transpose(0, 2, 1, 3)
                for p in gw.split(qkv, 3, axis=-1)
            )
            a = gw.nn.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + a.transpose(0, 2, 1, 3).reshape(h.shape[0], h.shape[1], width) @ own[1]
            h = h + gw.nn.gelu(gw.nn.rms_norm(h, own[5]) @ own[2]) @ own[3]
        params += own
    loss = gw.loss.sparse_softmax_cross_entropy(t, h @ weight("head", width, words))
    return g, [loss, *gw.gradients(loss, params)]


def convolutions():
    """Return a graph with a small convolutional network with statistics, and its gradients."""
    rng = np.random.default_rng(0)
    g = gw.Graph()
    x = g.placeholder("x", ("B", 3, 12, 12))
    h, params, channels = x, [], 3
    for i, n in enumerate((8, 8, 16, 16)):
        w = g.variable(f"w{i}", init=rng.normal(0, 0.2, (n, channels, 3, 3)).astype("f4"))
        h = gw.nn.relu(gw.cnn.conv2d(h, w, padding=1))
        h, channels = gw.nn.dropout(h, 0.2), n
        params.append(w)
    loss = (h * h).mean()
    return g, [loss, *gw.gradients(loss, params)]


def feeds_of(g, **sizes):
    rng = np.random.default_rng(1)
    feeds = {}
    for p in g.placeholders:
        shape = [d if isinstance(d, int) else sizes[str(d)] for d in p.shape]
        whole = p.dtype.kind in "iu"
        feeds[p.name] = rng.integers(0, 40, shape) if whole else rng.standard_normal(shape)
        feeds[p.name] = feeds[p.name].astype(p.dtype)
    return feeds


def plan_of(g, targets, feeds, training=True, **options):
    with gw.Session(g, kernels="off", **options) as session:
        return session.plan(targets, {k: v.shape for k, v in feeds.items()}, training=training)


# -- layouts --------------------------------------------------------------------------------------


def intervals(rng, n, kind):
    starts = rng.integers(0, n, n)
    lengths = 1 + rng.exponential(n / 8 if kind == "long" else 5, n).astype(int)
    sizes = {
        "powers": rng.choice([1 << 14, 1 << 16, 1 << 18, 1 << 20], n),
        "any": rng.integers(1, 10_000_000, n),
        "long": (10 ** rng.uniform(1, 8, n)).astype(int),
    }[kind]
    return [
        Interval(i, int(b), int(s), int(s + k))
        for i, (s, k, b) in enumerate(zip(starts, lengths, sizes, strict=True))
    ]


@pytest.mark.parametrize("kind", ["powers", "any", "long"])
@pytest.mark.parametrize("n", [3, 40, 300])
def test_layouts_are_close_to_the_lower_bound(kind, n, rng):
    ratios = []
    for _ in range(4):
        items = intervals(rng, n, kind)
        live = [0] * (3 * n + 200)
        for i in items:
            for step in range(i.start, min(i.end + 1, len(live))):
                live[step] += i.size
        assert lower_bound(items) == max(live)
        layout = lay_out(items)
        ratios.append(layout.nbytes / max(live))
        for a, b in itertools.combinations(items, 2):
            if a.start <= b.end and b.start <= a.end:
                p, q = layout.offsets[a.value], layout.offsets[b.value]
                assert p + a.size <= q or q + b.size <= p
        assert max(layout.offsets[i.value] + i.size for i in items) == layout.nbytes
        assert layout.unshared == sum(i.size for i in items)
    assert 1 <= max(ratios) < 1.16 and np.mean(ratios) < 1.09


@pytest.mark.parametrize("build", [lambda: mlp(8), lambda: decoder(2), convolutions])
def test_networks_are_laid_out_within_two_percent_of_the_bound(build):
    g, targets = build()
    segment = plan_of(g, targets, feeds_of(g, B=256, T=12)).head.segment
    spans = {}
    for o, offset in segment.layout.offsets.items():
        lives = segment.lives
        end = min(lives.dies[o], len(segment.program.instrs))
        spans.setdefault(offset, []).append((o, lives.born[o], end))
    items = []
    for o in segment.layout.offsets:  # a chain of values in one place is one buffer
        if o not in segment.over:
            last, end = o, segment.lives.dies[o]
            while last in segment.over.values():
                last = next(k for k, v in segment.over.items() if v == last)
                end = segment.lives.dies[last]
            nbytes = segment.program.specs[o].nbytes
            items.append(Interval(o, nbytes, segment.lives.born[o], end))
    least = lower_bound(items)
    assert segment.layout.nbytes <= max(1.02 * least, least + 65536)


def test_the_schedule_needs_half_the_memory_of_a_walk_from_the_outputs():
    g, targets = mlp(12)
    feeds = feeds_of(g, B=256)
    plan = plan_of(g, targets, feeds)
    walked = [n for n in plan.order if n.kind == "array"]
    position = {n: i for i, n in enumerate(walked)}
    program = plan.program
    made = set(program.sources) | set(program.constants)
    for instr in program.instrs:  # every value is made before it is read
        assert all(i is None or i in made for i in instr.ins)
        made.update(instr.outs)
    scheduled = lower_bound(spans_of(program))
    program.instrs.sort(key=lambda i: position[i.origin])
    assert scheduled < 0.6 * lower_bound(spans_of(program))


def spans_of(program):
    lives = Lifetimes(program)
    return [
        Interval(o, program.specs[o].nbytes, lives.born[o], lives.dies[o])
        for i in program.instrs
        for o in i.outs
        if lives.roots[o] == o and o not in lives.leaving
    ]


# -- in place -------------------------------------------------------------------------------------


def test_a_chain_of_elements_runs_in_one_buffer():
    g = gw.Graph()
    x = y = g.placeholder("x", (1000,))
    for _ in range(6):
        y = gw.sin(gw.exp(y))
    plan = plan_of(g, y.sum(), {"x": np.zeros(1000)})
    assert plan.memory().arena == 4032 and x.shape == (1000,)


def test_nothing_is_written_over_that_is_read_later():
    g = gw.Graph()
    x = g.placeholder("x", (3, 3))
    a = gw.exp(x)
    b = gw.sin(a)  # a is read again by c
    c = a * b
    d = gw.cos(c + c.mT)  # a view of c, in another order, lies in its buffer
    e = d + d[:1]
    out = {"e": e.sum(), "b": b}
    feed = np.random.default_rng(0).standard_normal((3, 3)).astype("f4")
    with gw.Session(g, kernels="off") as session:
        found = session.run(out, {"x": feed})
    a = np.exp(feed)
    c = a * np.sin(a)
    d = np.cos(c + c.T)
    np.testing.assert_allclose(found["e"], (d + d[:1]).sum(), rtol=1e-5)
    np.testing.assert_allclose(found["b"], np.sin(a), rtol=1e-6)


def test_results_never_share_memory():
    g = gw.Graph()
    x = g.placeholder("x", (50_000,))
    a = gw.exp(x)
    outs = [a, gw.sin(a), a.reshape(100, 500), (a + 1.0)]
    with gw.Session(g, kernels="off") as session:
        found = session.run(outs, {"x": np.ones(50_000, "f4")})
        kept = [y.copy() for y in found]
        session.run(outs, {"x": np.zeros(50_000, "f4")})
        assert all(np.array_equal(a, b) for a, b in zip(found, kept, strict=True))
        for a, b in itertools.combinations(found, 2):
            assert not np.shares_memory(a, b)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_give_what_buffers_of_their_own_give(seed):
    rng = np.random.default_rng(seed)
    g = gw.Graph()
    pool = [g.placeholder("x", (4, 4)), gw.exp(g.variable("w", init=np.eye(4, dtype="f4")))]
    for _ in range(30):
        a, b = (pool[i] for i in rng.integers(max(0, len(pool) - 6), len(pool), 2))
        made = [
            lambda a, b: a + b, lambda a, b: a * b.mT, lambda a, b: gw.sin(a),
            lambda a, b: (a - b).reshape(2, 8).reshape(4, 4), lambda a, b: gw.tanh(a)[::-1],
            lambda a, b: a @ b * 0.1, lambda a, b: a - b[:1], lambda a, b: gw.maximum(a, b),
        ]  # fmt: skip
        pool.append(made[rng.integers(len(made))](a, b))
    targets = [pool[-1], pool[-3], pool[int(rng.integers(4, 30))]]
    feed = {"x": rng.standard_normal((4, 4)).astype("f4")}
    with gw.Session(g, kernels="off") as cpu, gw.Session(g, "guard", kernels="off") as guard:
        for a, b in zip(cpu.run(targets, feed), guard.run(targets, feed), strict=True):
            np.testing.assert_array_equal(a, b)


# -- the report -----------------------------------------------------------------------------------


def test_the_report_agrees_with_counting_by_hand():
    g, targets = mlp(6)
    feeds = feeds_of(g, B=64)
    plan = plan_of(g, targets, feeds)
    memory, program = plan.memory(), plan.program
    assert memory.feeds == sum(a.nbytes for a in feeds.values())
    assert memory.variables == sum(g.values[t.name].nbytes for t in plan.variables)
    assert memory.results == sum(program.specs[program.numbers[t]].nbytes for t in targets)
    alive = [0] * len(program.instrs)
    lives, over = Lifetimes(program), plan.head.segment.over
    gone = {x: o for o, x in over.items()}
    for instr in program.instrs:
        for o in instr.outs:
            if lives.roots[o] != o:
                continue
            end = lives.born[gone[o]] - 1 if o in gone else lives.dies[o]
            for step in range(lives.born[o], min(end + 1, len(alive))):
                alive[step] += program.specs[o].nbytes
    outside = memory.feeds + memory.variables + memory.constants
    assert memory.live == [outside + n for n in alive]
    assert memory.live[memory.peak_step] == max(memory.live) <= memory.peak
    at_peak = sum(r.nbytes for r in memory.at_peak())
    assert at_peak == max(memory.live)


def test_the_prediction_is_what_a_first_run_allocates():
    g, targets = mlp(10, width=128)
    feeds = feeds_of(g, B=2048)
    with gw.Session(g, kernels="off") as session:
        plan = session.plan(targets, {k: v.shape for k, v in feeds.items()}, training=True)
        memory = plan.memory()
        assert plan.head.segment.arena is None  # known before anything is allocated
        tracemalloc.start()
        try:
            held = session.run(targets, feeds, training=True)
            now, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        made = memory.arena + memory.results
        assert made > 5_000_000 and made <= now <= peak < 1.03 * made
        assert 0 <= plan.head.segment.arena.nbytes - memory.arena <= 64  # for the alignment
        assert memory.peak == made + memory.feeds + memory.variables + memory.constants
        assert len(held) == 21


def resident():
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def test_resident_memory_grows_by_what_was_predicted():
    pytest.importorskip("resource")
    g = gw.Graph()
    x = g.placeholder("x", ("B", 256))
    h = gw.tanh(x @ x.mT)
    y = (h @ gw.sin(h)).sum()
    feed = np.ones((2800, 256), "f4")
    with gw.Session(g, kernels="off") as session:
        memory = session.plan(y, {"x": feed.shape}).memory()
        before = resident()
        session.run(y, {"x": feed})
        grown = resident() - before
    assert memory.arena > 60_000_000
    assert 0.9 * memory.arena < grown < 1.25 * memory.arena


def test_every_array_has_a_reason():
    g = gw.Graph()
    x = g.placeholder("x", (64, 32))
    w = g.variable("w", init=np.ones((32, 32), "f4"))
    h = gw.nn.sigmoid(x @ w, name="h")
    s = gw.nn.relu(h.reshape(32, 64), name="s")
    loss = gw.sum(s * s, name="loss")
    (dw,) = gw.gradients(loss, [w])
    memory = plan_of(g, [loss, dw], {"x": np.zeros((64, 32))}).memory()
    reasons = {r.node: r.reason for r in memory.rows}
    places = {r.node: r.place for r in memory.rows}
    assert reasons["h"].startswith("kept for the backward of h")
    assert reasons["reshape"] == "view of h"
    assert "result loss" in reasons["loss"] and places["loss"] == "result"
    assert reasons["x"] == "fed" and reasons["w"] == "a variable's value"
    assert all(r.reason and r.born <= r.dies for r in memory.rows)
    text = str(memory)
    assert "peak in step" in text and "h" in text and len(text.splitlines()) <= 18


def test_reports_show_names_as_text(capsys):
    g = gw.Graph()
    x = g.placeholder("<script>x", (64,))
    y = gw.exp(x, name="<b>bold</b>").sum()
    memory = plan_of(g, y, {"<script>x": np.zeros(64)}).memory()
    page = memory._repr_html_()
    assert "&lt;b&gt;" in page and "<b>" not in page and "<script>" not in page
    memory.print()
    assert "<b>bold</b>" in capsys.readouterr().out
    figure = memory.plot()
    assert list(figure.data[0].y) == memory.live and "<b>" not in str(figure.data[0].text)
    assert repr(memory).startswith("<Memory: peak ")


def test_sizes_that_values_decide_are_reported_after_a_run():
    g = gw.Graph()
    x = g.placeholder("x", (1000,))
    y = gw.exp(x[x > 0.0]).sum()
    with gw.Session(g, kernels="off") as session:
        plan = session.plan(y, {"x": (1000,)})
        before = len(plan.memory().live)
        value = session.run(y, {"x": np.linspace(-1, 1, 1000)})
        assert len(plan.memory().live) > before
        np.testing.assert_allclose(value, np.exp(np.linspace(-1, 1, 1000)[500:]).sum(), rtol=1e-5)


# -- checkpoints ----------------------------------------------------------------------------------


def both(build, policy, **sizes):
    """Return the plans and results without and with a policy."""
    g, targets = build()
    feeds = feeds_of(g, **sizes)
    found = []
    for checkpoint in (None, policy):
        with gw.Session(g, kernels="off", checkpoint=checkpoint) as session:
            plan = session.plan(targets, {k: v.shape for k, v in feeds.items()}, training=True)
            found.append((plan, session.run(targets, feeds, training=True)))
    return found


@pytest.mark.parametrize(
    "build",
    [lambda: mlp(9, dropout=0.3), lambda: decoder(4), convolutions],
    ids=["mlp", "decoder", "convolutions"],
)
@pytest.mark.parametrize("policy", ["sqrt", 1, 3])
def test_checkpoints_change_no_bit(build, policy):
    (plain, expected), (plan, found) = both(build, policy, B=8, T=12)
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))
    again = [i for i in plan.program.instrs if i.recompute]
    forward = [i for i in plain.program.instrs if is_forward(i)]
    assert again and len(again) <= len(forward)
    assert plan.memory().peak < plain.memory().peak


@pytest.mark.parametrize(
    ("build", "layers"), [(lambda: mlp(24, 16), 24), (lambda: decoder(24), 24)], ids=["mlp", "gpt"]
)
def test_the_root_policy_keeps_memory_of_order_root_n(build, layers):
    (plain, _), (plan, _) = both(build, "sqrt", B=64, T=8)
    before, after = plain.memory(), plan.memory()
    assert after.arena <= 2.5 * math.sqrt(layers) / layers * before.arena
    again = [i for i in plan.program.instrs if i.recompute]
    assert len(again) <= sum(map(is_forward, plain.program.instrs))
    assert after.results == before.results and after.variables == before.variables


def test_names_say_what_is_kept():
    g, targets = mlp(8)
    feeds = feeds_of(g, B=64)
    plan = plan_of(g, targets, feeds, checkpoint=("l2/out", "l5/out"))
    again = {i.path for i in plan.program.instrs if i.recompute}
    assert {"l2/out", "l5/out"}.isdisjoint(again) and {"l1/out", "l3/out", "l7/out"} <= again
    whole = plan_of(g, targets, feeds, checkpoint=("l[25]",))  # scopes: what leaves them is kept
    assert {i.path for i in whole.program.instrs if i.recompute} == again
    with pytest.raises(GraphError, match="names no forward node"):
        plan_of(g, targets, feeds, checkpoint=("layer*",))


def test_a_plan_without_gradients_has_nothing_to_compute_again():
    g, targets = mlp(8)
    plan = plan_of(g, targets[0], feeds_of(g, B=64), checkpoint="sqrt")
    assert not any(i.recompute for i in plan.program.instrs)


def test_what_is_computed_again_is_reported():
    g, targets = mlp(9)
    memory = plan_of(g, targets, feeds_of(g, B=64), checkpoint="sqrt").memory()
    assert any("computed again" in r.reason for r in memory.rows)


@pytest.mark.parametrize("unroll", [1, 2])
def test_training_with_checkpoints_is_training(unroll):
    weights = []
    for checkpoint in (None, "sqrt"):
        g, (loss, *_) = mlp(9, dropout=0.2)
        x, t = feeds_of(g, B=32).values()
        with gw.Session(g, kernels="off", checkpoint=checkpoint) as session:
            trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(1e-2), session=session)
            trainer.fit({"x": x, "t": t}, batch_size=8, epochs=2, unroll=unroll, shuffle=False)
            plans = list(session.plan_cache.values())
        weights.append([g.values[v.name].copy() for v in g.variables])
        assert any(i.recompute for p in plans for i in p.program.instrs) == bool(checkpoint)
    assert all(np.array_equal(a, b) for a, b in zip(*weights, strict=True))


# -- pressure and caches --------------------------------------------------------------------------


class Small(Cpu):
    """A machine with room for one and a half megabytes of arenas."""

    limit = 1_500_000

    def __init__(self):
        self.made = []
        super().__init__()

    def arena(self, nbytes):
        live = {id(a): a.nbytes for r in self.made if (a := r()) is not None}
        if nbytes > self._block.nbytes and sum(live.values()) + nbytes > self.limit:
            raise MemoryError(nbytes)
        found = super().arena(nbytes)
        if all(r() is not found.base for r in self.made):
            self.made.append(weakref.ref(found.base))
        return found


@pytest.fixture
def small():
    register_device("small", Small)


def chain():
    g = gw.Graph()
    x = g.placeholder("x", ("N",))
    h = gw.exp(x, name="h")
    return g, (gw.nn.sigmoid(h, name="squashed") * h).sum()


def test_buffers_of_idle_plans_make_room(small):
    g, y = chain()
    with gw.Session(g, kernels="off") as session:
        session.device = Small()
        for n in (20_000, 60_000, 120_000, 20_000):
            got = session.run(y, {"x": np.zeros(n, "f4")})
            np.testing.assert_allclose(got, n / (1 + np.exp(-1.0)), rtol=1e-5)
        assert len(session.plan_cache) == 3


def test_a_plan_too_large_for_the_machine_says_what_it_needs(small):
    g, y = chain()
    with gw.Session(g, kernels="off") as session:
        session.device = Small()
        with pytest.raises(MemoryLimitError) as caught:
            session.run(y, {"x": np.zeros(1_000_000, "f4")})
        text = str(caught.value)
        assert "'h'" in text and "the plan needs 12 MB" in text and 'checkpoint="sqrt"' in text
        assert isinstance(caught.value, MemoryError)
        assert float(session.run(y, {"x": np.zeros(10, "f4")})) > 0  # smaller ones go on


def test_released_sessions_give_their_memory_back_and_run_on():
    g, targets = mlp(4, width=64)
    feeds = feeds_of(g, B=4096)
    with gw.Session(g, kernels="off") as session:
        first = session.run(targets, feeds)
        (plan,) = session.plan_cache.values()
        arena = weakref.ref(plan.head.segment.arena)
        assert session.plan_cache.nbytes >= plan.memory().arena
        session.release()
        gc.collect()
        assert arena() is None and plan.head.segment.arena is None
        again = session.run(targets, feeds)
        assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


def test_plans_inside_of_loops_are_released_with_the_plan_around_them():
    g = gw.Graph()
    x = g.placeholder("x", (5, 100, 100))
    _, ys = gw.scan(lambda c, item: (gw.tanh(c @ item).T @ c,) * 2, x[0], x)
    with gw.Session(g, kernels="off") as session:
        feed = {"x": np.full((5, 100, 100), 0.01, "f4")}
        first = session.run(ys, feed)
        (plan,) = session.plan_cache.values()
        launch = next(f for f in plan.head.plain.found if hasattr(f, "release"))
        (inner,) = (p for c in launch._compiled.values() for p in c._plans.values())
        arena = weakref.ref(inner.head.segment.arena)
        session.release()
        gc.collect()
        assert arena() is None
        assert np.array_equal(first, session.run(ys, feed))


def test_plans_of_one_session_share_an_arena():
    g, targets = mlp(4, width=64)
    with gw.Session(g, kernels="off") as session:
        session.run(targets, feeds_of(g, B=512))
        for n in (100, 200, 300):
            session.run(targets, feeds_of(g, B=n))
        arenas = {id(p.head.segment.arena) for p in session.plan_cache.values()}
        assert len(session.plan_cache) == 4 and len(arenas) == 1


def test_caches_are_bound_by_count_and_by_bytes():
    g, targets = mlp(2, width=64)
    with gw.Session(g, kernels="off", max_plans=3) as session:
        for n in range(2, 9):
            session.run(targets, feeds_of(g, B=n))
        assert len(session.plan_cache) == 3
    with gw.Session(g, kernels="off", cache_bytes=300_000) as session:
        for n in (64, 80, 96, 2000):
            session.run(targets, feeds_of(g, B=n))
        assert len(session.plan_cache) == 1
    cache = Bounded(9, 100, lambda value: dict(value))
    for key in "abc":
        cache.keep(key, {1: 40, key: 20})  # one buffer of 40 is shared by all
    assert list(cache) == ["a", "b", "c"] and cache.nbytes == 100
    cache.find("a")
    cache.keep("d", {"d": 1})
    assert list(cache) == ["c", "a", "d"]


def test_plans_of_scripts_need_no_session():
    g, targets = mlp(2)
    device = open_device("cpu")
    feeds = {g["x"]: TensorSpec((4, 32)), g["t"]: TensorSpec((4, 32))}
    options = PlanOptions(kernels="off", checkpoint=1)
    plan = Plan(targets, feeds, device, training=False, options=options)
    assert isinstance(plan.program, Program) and plan.memory().feeds == 2 * 4 * 32 * 4

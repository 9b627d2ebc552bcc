"""Memory of plans: layouts, writing in place, reports."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import gradwright as gw
from gradwright.program.liveness import Lifetimes
from gradwright.program.memory import Interval, lay_out, lower_bound
from tests.plan.memory_models import convolutions, decoder, feeds_of, mlp, plan_of

# -- layouts ---------------------------------------------------------------------------------------


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
    segment = plan_of(g, targets, feeds_of(g, B=256, T=12)).head.executor.laid
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


# -- in place --------------------------------------------------------------------------------------


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


_X = np.random.default_rng(0).standard_normal((4, 4)).astype("f4")
BY_BLAS = np.array_equal((_X[::-1] @ _X)[::-1], _X @ _X)
"""Whether products of reversed arrays have the same bits: numpy 2.0 and 2.1 do them themselves."""


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
            np.testing.assert_allclose(a, b, rtol=0 if BY_BLAS else 1e-5)


# -- the report ------------------------------------------------------------------------------------


def test_the_report_agrees_with_counting_by_hand():
    g, targets = mlp(6)
    feeds = feeds_of(g, B=64)
    plan = plan_of(g, targets, feeds)
    memory, program = plan.memory(), plan.program
    assert memory.feeds == sum(a.nbytes for a in feeds.values())
    assert memory.variables == sum(g.values[t.name].nbytes for t in plan.variables)
    assert memory.results == sum(program.specs[program.numbers[t]].nbytes for t in targets)
    alive = [0] * len(program.instrs)
    lives, over = Lifetimes(program), plan.head.executor.laid.over
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
        assert plan.head.executor.laid.arena is None  # known before anything is allocated
        tracemalloc.start()
        try:
            held = session.run(targets, feeds, training=True)
            now, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        made = memory.arena + memory.results
        assert made > 5_000_000 and made <= now <= peak < 1.03 * made
        assert 0 <= plan.head.executor.laid.arena.nbytes - memory.arena <= 64  # for the alignment
        assert memory.peak == made + memory.feeds + memory.variables + memory.constants
        assert len(held) == 21


RESIDENT = """
import numpy as np, gradwright as gw
from pathlib import Path

def resident():
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096

g = gw.Graph()
x = g.placeholder("x", ("B", 256))
h = gw.tanh(x @ x.mT)
y = (h @ gw.sin(h)).sum()
feed = np.ones((2800, 256), "f4")
with gw.Session(g, kernels="off") as session:
    session.run(y, {"x": feed[:3]})  # what ops and BLAS hold is there
    arena = session.plan(y, {"x": feed.shape}).memory().arena
    before = resident()
    session.run(y, {"x": feed})
    print(arena, resident() - before)
"""


def test_resident_memory_grows_by_what_was_predicted():
    """In a process of its own: one that has let go of as much may have kept it."""
    pytest.importorskip("resource")
    done = subprocess.run([sys.executable, "-c", RESIDENT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    arena, grown = map(int, done.stdout.split())
    assert arena > 60_000_000
    assert 0.9 * arena < grown < 1.25 * arena


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

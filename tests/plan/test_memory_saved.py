"""Memory saved: values computed again, buffers released under pressure, bounded caches."""

from __future__ import annotations

import gc
import math
import weakref

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu import Cpu
from gradwright.errors import GraphError, MemoryLimitError
from gradwright.plan.plan import Plan
from gradwright.program.device import open_device, register_device
from gradwright.program.options import PlanOptions
from gradwright.program.program import Program
from gradwright.rewrite.checkpoint import is_forward
from gradwright.shared import Bounded
from gradwright.spec import TensorSpec
from tests.plan.memory_models import convolutions, decoder, feeds_of, mlp, plan_of

# -- checkpoints -----------------------------------------------------------------------------------


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


# -- pressure and caches ---------------------------------------------------------------------------


class Small(Cpu):
    """A machine with room for one and a half megabytes of arenas."""

    limit = 1_500_000

    def __init__(self):
        self.made = []
        super().__init__()

    def arena(self, nbytes, what=""):
        live = {id(a): a.nbytes for r in self.made if (a := r()) is not None}
        if nbytes > self._block.nbytes and sum(live.values()) + nbytes > self.limit:
            raise MemoryError(nbytes)
        found = super().arena(nbytes, what)
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
        arena = weakref.ref(plan.head.executor.laid.arena)
        assert session.plan_cache.nbytes >= plan.memory().arena
        session.release()
        gc.collect()
        assert arena() is None and plan.head.executor.laid.arena is None
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
        launch = next(f for f in plan.head.executor.plain.found if hasattr(f, "release"))
        (inner,) = (p for c in launch._compiled.values() for p in c._plans.values())
        arena = weakref.ref(inner.head.executor.laid.arena)
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
        arenas = {id(p.head.executor.laid.arena) for p in session.plan_cache.values()}
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

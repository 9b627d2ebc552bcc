"""Memory managers: where plans compute changes no bit, and what is held and freed is told."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu import blocks, memory
from gradwright.errors import GraphError, MemoryLimitError
from gradwright.program.ledger import Ledger
from tests.house import models
from tests.train.checkpoints.resumed import whole

MANAGERS = ("arena", "caching", "none")
X = np.random.default_rng(0).standard_normal((64, 6)).astype("float32")
LARGE = np.random.default_rng(1).standard_normal((300, 200)).astype("float32")


@pytest.fixture(autouse=True)
def pool(monkeypatch):
    """Give caching sessions a pool that no other test has used."""
    fresh = blocks.Pool()
    monkeypatch.setattr(memory, "POOL", fresh)
    return fresh


class Hostile(blocks.Pool):
    """Each run gets another block, and what is given back is destroyed."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def take(self, nbytes, at, what):
        block = blocks.aligned(nbytes)
        block[...] = 0xFF
        return block

    def give(self, block):
        block[...] = 0xFF
        self.kept = [*self.kept[-3:], block]  # so that the next one lies elsewhere


# -- the same bits ---------------------------------------------------------------------------------


def classified():
    _, t, logits = models.classifier(act=gw.nn.gelu)
    return models.cross_entropy(t, gw.nn.dropout(logits, 0.2)), models.rows()


MODELS = {
    "classifier": classified,
    "convolutions": models.cnn,
    "recurrent": models.recurrent,
    "transformer": models.transformer,
    "loops": models.loops,
    "batch norm": models.averaging,
}
SETTINGS = {
    "scaled halves": {"precision": "float16", "nonfinite": "skip"},
    "windows": {"accumulation": 2, "ema": gw.EMA(0.9)},
}


def outcome(manager, kernels, make, **settings):
    """Return all numbers of a short training and an evaluation."""
    loss, data = make()
    session = gw.Session(loss.graph, deterministic=True, kernels=kernels, memory=manager, threads=2)
    trainer = gw.Trainer(
        loss.graph, loss, optimizer=gw.optim.Adam(0.01), session=session, clip_norm=1.0, **settings
    )
    size = {"batch_size": 16} if isinstance(data, dict) else {}
    trainer.fit(data, epochs=2, progress=False, **size)
    return whole(trainer) | {"measured": dict(trainer.evaluate(data, **size))}


@pytest.mark.parametrize("kernels", ["wait", "off"])
@pytest.mark.parametrize("name", MODELS)
def test_all_give_the_same_bits(name, kernels, monkeypatch):
    expected = outcome("arena", kernels, MODELS[name])
    for manager in ("caching", "none"):
        assert outcome(manager, kernels, MODELS[name]) == expected
    monkeypatch.setattr(memory, "POOL", Hostile())
    assert outcome("caching", kernels, MODELS[name]) == expected


@pytest.mark.parametrize("setting", SETTINGS)
def test_all_give_the_same_bits_in_steps_that_are_more_than_one_call(setting, monkeypatch):
    expected = outcome("arena", "wait", classified, **SETTINGS[setting])
    assert outcome("none", "wait", classified, **SETTINGS[setting]) == expected
    monkeypatch.setattr(memory, "POOL", Hostile())
    assert outcome("caching", "wait", classified, **SETTINGS[setting]) == expected


def chain():
    g = gw.Graph("chain")
    x = g.placeholder("x", ("N", 6))
    h = gw.exp(x, name="h")
    return g, gw.sum(gw.nn.sigmoid(h) * h, name="y"), h


@pytest.mark.parametrize("kernels", ["wait", "off"])
@pytest.mark.parametrize("manager", MANAGERS)
def test_results_are_arrays_of_their_own(manager, kernels):
    g = gw.Graph()
    x = g.placeholder("x", ("N", 200))
    big, small = gw.tanh(x, name="big"), gw.tanh(x[:2, :3], name="small")
    view, told = gw.transpose(big), gw.sum(gw.exp(big))
    with gw.Session(g, kernels=kernels, memory=manager) as session:
        first = session.run([big, small, view, told], {"x": LARGE})
        for _ in range(3):
            session.run([big, small, view, told], {"x": LARGE})
        held = [a.copy() for a in first]
        session.run([big, small, view, told], {"x": -LARGE})
        session.run(gw.sum(gw.sin(x * 2.0)), {"x": LARGE})
        for a, b in zip(first, held, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(first[0], np.tanh(LARGE), 1e-6)


@pytest.mark.parametrize("manager", MANAGERS)
def test_sizes_that_values_decide_and_text(manager, monkeypatch):
    monkeypatch.setattr(memory, "POOL", Hostile())
    g = gw.Graph()
    x, words = g.placeholder("x", (None,)), g.placeholder("words", (2,), "str")
    found = gw.exp(x[x > 0.0] * 2.0)
    with gw.Session(g, memory=manager, kernels="wait") as session:
        for n in (3, 50, 3):
            a = np.linspace(-1, 1, n).astype("f4")
            y, total, text = session.run(
                [found, gw.sum(found), gw.strings.string_concat(words, np.array("!", "T"))],
                {"x": a, "words": ["a", "b"]},
            )
            np.testing.assert_allclose(y, np.exp(a[a > 0] * 2), 1e-6)
            np.testing.assert_allclose(total, np.exp(a[a > 0] * 2).sum(), 1e-5)
            assert text.tolist() == ["a!", "b!"]


def test_the_guard_has_ways_of_its_own():
    g, y, _ = chain()
    with gw.Session(g, "guard", memory="none") as session:
        expected = gw.Session(g, kernels="off").run(y, {"x": X})
        assert session.run(y, {"x": X}) == expected and session.memory.peak == 0


def test_another_way_is_refused():
    with pytest.raises(GraphError, match=r"memory='pool'[\s\S]*'arena', 'caching', 'none'"):
        gw.Session(gw.Graph(), memory="pool")


# -- what is held, and what was freed and why ------------------------------------------------------


def arena_of(session):
    return max(plan.memory().arena for plan in session.plans)


@pytest.mark.parametrize("kernels", ["wait", "off"])
def test_nothing_is_kept_where_nothing_is_to_be_kept(kernels):
    g, y, _ = chain()
    with gw.Session(g, kernels=kernels, memory="none") as session:
        for _ in range(5):
            session.run(y, {"x": X})
        assert session.memory.held == 0 and session.memory.peak == arena_of(session) > 0
        assert session.plan_cache.nbytes < 100  # results that were small
        (line,) = session.memory.log
        assert (line.count, line.nbytes) == (5, 5 * arena_of(session))
        assert (line.what, line.why) == ("y", "the run has ended")
        session.memory.reset()
        assert session.memory.log == [] and session.memory.peak == 0


def test_plans_of_sessions_take_turns_in_one_block(pool):
    g, y, _ = chain()
    one, two = (gw.Session(g, memory="caching", kernels="off") for _ in range(2))
    for _ in range(3):
        one.run(y, {"x": X})
        two.run(y, {"x": X[:32]})
    assert one.memory is two.memory is pool.ledger
    assert pool.ledger.held == pool.ledger.peak == arena_of(one) and not pool.ledger.log
    two.run(y, {"x": np.tile(X, (9, 1))})
    (line,) = pool.ledger.log
    assert (line.count, line.why) == (1, "a larger one took its place")
    assert pool.ledger.held == arena_of(two) > 8 * arena_of(one)
    apart = [gw.Session(g, memory="arena", kernels="off") for _ in range(2)]
    for session in apart:
        session.run(y, {"x": X})
    assert sum(session.memory.held for session in apart) == 2 * arena_of(one)
    one.close()  # what is idle may go; the next run takes its own
    assert pool.ledger.held == 0 and pool.ledger.log[-1].why == "the session was closed"
    np.testing.assert_allclose(two.run(y, {"x": X}), apart[0].run(y, {"x": X}))


def test_a_plan_gets_the_block_that_it_had(pool):
    small, large = pool.take(1000, 0, "a"), pool.take(2000, 0, "b")
    pool.give(small)
    pool.give(large)
    assert pool.take(500, blocks.address(large), "b") is large
    assert pool.take(500, blocks.address(large), "b") is small


def test_a_pool_keeps_no_more_than_it_may(pool):
    pool.most = 1000
    first, second = pool.take(600, 0, "a"), pool.take(500, 0, "b")
    pool.give(first)
    assert pool.ledger.held == 1100
    pool.give(second)
    del first
    assert pool.ledger.held == 500
    assert pool.ledger.log[0].why == "more than 1 kB were kept"
    assert pool.take(400, 0, "c") is second


def test_loops_borrow_a_block_beside_that_of_the_plan_around_them(pool):
    g = gw.Graph()
    x = g.placeholder("x", (5, 30, 30))
    _, ys = gw.scan(lambda c, item: (gw.tanh(c @ item).T @ c,) * 2, x[0], x)
    y = gw.sum(gw.exp(gw.tanh(x) * 0.5 + ys))
    feed = {"x": np.full((5, 30, 30), 0.01, "f4")}
    expected = gw.Session(g, kernels="off").run(y, feed)
    with gw.Session(g, kernels="off", memory="caching") as session:
        assert session.run(y, feed) == session.run(y, feed) == expected
        assert len(pool._free) == 2 and pool.ledger.held > arena_of(session)


def test_an_arena_that_grows_says_so():
    g, y, _ = chain()
    with gw.Session(g, kernels="off") as session:
        session.run(y, {"x": X})
        small = session.memory.held
        session.run(y, {"x": np.tile(X, (9, 1))})
        assert session.memory.held > 8 * small  # the first plan is bound to the first block
        session.run(y, {"x": X})
        freed = session.release()
        assert freed.plans == 2 and freed.nbytes > 9 * small and session.memory.held == 0
        assert {f.why for f in session.memory.log} == {
            "a larger one took its place",
            "the memory of all plans was released",
        }
        assert session.run(y, {"x": X}) > 0 and len(session.plans) == 2


def test_released_plans_are_counted():
    g, y, h = chain()
    with gw.Session(g, kernels="off") as session:
        assert repr(session.release_plans()) == "0 plans, 0 B"
        session.run(y, {"x": X})
        session.run(h, {"x": X})
        held = session.memory.held
        freed = session.release_plans()
        assert freed.plans == 2 and freed.nbytes == held + y.spec.nbytes + X.nbytes
        assert repr(freed) == f"2 plans, {freed.nbytes / 1000:.3g} kB"
        assert not session.plans and session.memory.log[-1].why == "the plans were released"
        assert session.run(y, {"x": X}) > 0
        (plan,) = session.plans
        assert session.release_plans().plans == 1 and plan.memory().arena > 0


def test_a_reason_is_that_of_what_it_was_given_for():
    ledger = Ledger()
    with ledger.ending("the test has ended"):
        ledger.took(np.empty(8, "u1"), "a")
    ledger.took(np.empty(8, "u1"), "a")
    assert [(f.why, f.nbytes) for f in ledger.log] == [
        ("the test has ended", 8),
        ("no plan uses it any more", 8),
    ]


def test_a_log_is_bounded():
    ledger = Ledger()
    for n in range(300):
        ledger.took(np.empty(8, "u1"), f"run {n}")
    assert [f.what for f in ledger.log] == [f"run {n}" for n in range(44, 300)]


def test_a_block_counts_as_long_as_somebody_holds_on_to_it():
    g, y, _ = chain()
    with gw.Session(g, kernels="off") as session:
        session.run(y, {"x": X})
        arena = session.plans[0].head.executor.laid.arena
        assert session.release().nbytes == 0 and session.memory.held > 0
        del arena
        gc.collect()
        assert session.memory.held == 0


def test_reports_are_text_and_tables():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    y = gw.exp(gw.tanh(x), name="<b>y</b>").sum()
    with gw.Session(g, kernels="off", memory="none") as session:
        session.run([y, "<b>y</b>"], {"x": [1.0]})
        assert repr(session.memory) == "<memory 'none': 0 B now, 64 B at most, 1 block freed>"
        assert "<b>y</b>" in str(session.memory) and "why" in str(session.memory)
        page = session.memory._repr_html_()
        assert "&lt;b&gt;" in page and "<b>" not in page


# -- errors, threads -------------------------------------------------------------------------------


@pytest.mark.parametrize("kernels", ["wait", "off"])
def test_a_run_that_fails_gives_its_block_back(pool, kernels):
    fails = []

    @gw.register("managers/sometimes")
    class Sometimes(gw.Op):
        """The input, or an error."""

        def infer(self, x):
            return x

        def forward(self, x):
            if fails:
                raise ValueError("no")
            return x + 1.0

    g = gw.Graph()
    x = g.placeholder("x", (None,))
    y = gw.sum(gw.exp(Sometimes()(gw.tanh(x))) * 2.0)
    with gw.Session(g, kernels=kernels, memory="caching") as session:
        expected = session.run(y, {"x": X[0]})
        fails.append(1)
        for _ in range(3):
            with pytest.raises(Exception, match="no"):
                session.run(y, {"x": X[0]})
        fails.clear()
        assert session.run(y, {"x": X[0]}) == expected
        assert len(pool._free) == 1 and pool.ledger.held == pool._free[0].nbytes


def test_idle_blocks_make_room(pool, monkeypatch):
    g, y, _ = chain()
    aligned = blocks.aligned

    def poor(nbytes):
        if pool.ledger.held + nbytes > 10_000:
            raise MemoryError(nbytes)
        return aligned(nbytes)

    monkeypatch.setattr(blocks, "aligned", poor)
    both = [pool.take(4800, 0, "a"), pool.take(4700, 0, "b")]
    while both:
        pool.give(both.pop())
    with gw.Session(g, kernels="off", memory="caching") as session:
        assert session.run(y, {"x": np.tile(X, (3, 1))}) > 0
        assert arena_of(session) == 9216
        assert [f.why for f in pool.ledger.log] == [
            "a larger one took its place",
            "the machine had no more memory",
        ]
        with pytest.raises(MemoryLimitError):
            session.run(y, {"x": np.tile(X, (99, 1))})
        assert session.run(y, {"x": X}) > 0


def test_threads_share_a_pool(pool):
    g, y, _ = chain()
    feeds = [np.tile(X, (n + 1, 1)) for n in range(4)]
    expected = [gw.Session(g, kernels="off").run(y, {"x": a}) for a in feeds]
    wrong, start = [], threading.Barrier(4)

    def work(n):
        with gw.Session(g, kernels="off", memory="caching") as session:
            start.wait()
            for i in range(60):
                k = (n + i) % 4
                if session.run(y, {"x": feeds[k]}) != expected[k]:
                    wrong.append((n, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(pool._free) <= 4
    pool.release()
    assert pool.ledger.held == 0


def test_copies_that_take_a_shape_write_where_their_result_lies(monkeypatch):
    monkeypatch.setattr(memory, "POOL", Hostile())
    g = gw.Graph()
    x = g.placeholder("x", (4, 6))
    flat = gw.transpose(gw.tanh(x)).reshape(g.constant(np.array([3, 8]), name="shape"))
    y = gw.sum(gw.exp(flat) * 2.0, axis=1)
    with gw.Session(g, memory="caching", kernels="wait") as session:
        for scale in (1.0, -0.5, 2.0):
            a = (X[:4] * scale).astype("f4")
            expected = (2 * np.exp(np.tanh(a).T.reshape(3, 8))).sum(1)
            np.testing.assert_allclose(session.run(y, {"x": a}), expected, 1e-5)

"""What a plan shows of itself: kernels, memory, rewrites; and waiting for kernels."""

from __future__ import annotations

import importlib
import re
import threading
from html.parser import HTMLParser

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu import executor
from gradwright.cpu.bound import Bound
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.plain import Plain
from gradwright.errors import FeedError, GraphError, LoweringError
from gradwright.shared import Bounded
from tests.support.panels import EVIL

compiled = pytest.mark.skipif(not available(), reason="no llvmlite: pip install -e '.[fast]'")


def classifier(**options):
    """Return a trainer of two layers, one of whose nodes has a hostile name, and a batch."""
    g = gw.Graph("views")
    x, t = g.placeholder("x", (None, 12)), g.placeholder("t", (None,), dtype="int64")
    w = g.variable(EVIL, (12, 7), init=gw.init.he_normal(seed=0))
    h = gw.nn.relu(x @ w + g.variable("b", (7,)), name=f"{EVIL}h")
    logits = gw.matmul(h, g.variable("v", (7, 3), init=gw.init.he_normal(seed=1)), name="logits")
    loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    trainer = gw.Trainer(g, loss, gw.optim.Adam(1e-2), session=gw.Session(g, **options))
    rng = np.random.default_rng(0)
    return trainer, {"x": rng.standard_normal((9, 12), "f"), "t": rng.integers(0, 3, 9)}


def trained_plan(**options):
    trainer, batch = classifier(**options)
    trainer.step(batch)
    return trainer.session.plans[-1]


class Tags(HTMLParser):
    """Collects the elements of a text, which have to close in order, and what they say."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found, self.open, self.said = set(), [], ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.found.add(tag)
        self.open.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said += data


# -- kernels --------------------------------------------------------------------------------------


@compiled
def test_every_step_is_told_and_nothing_is_told_twice():
    plan = trained_plan(kernels="wait")
    kernels = plan.kernels
    assert isinstance(plan.head.executor.laid, Bound) and not kernels.state
    assert [row.step for row in kernels] == list(range(len(plan.program.instrs)))
    assert [row.node for row in kernels] == [i.path for i in plan.program.instrs]
    assert sum(kernels.counts.values()) == len(kernels)
    assert kernels.counts["product"] == 2 + 1 + 2  # forward; back to h; and to w and v
    assert all(row.is_ready for row in kernels)
    # Whatever the rewritten program does is done by one row, or by several where it is repeated.
    done = [op for row in kernels for op in row.ops]
    assert {i.op.name for i in plan.head.executor.plain.program.instrs} - set(done) <= {
        "global_norm",
        "all_finite",
        "mean",
    }  # opened into smaller ops before they are fused


@compiled
def test_a_kernel_says_what_it_computes():
    kernels = trained_plan(kernels="wait").kernels
    (row,) = (r for r in kernels.of(f"{EVIL}h") if "relu" in r.ops)
    assert row.what == "kernel" and row.ops == ("add", "relu") and row.space == (9, 7)
    assert [str(s) for s in row.outs] == ["f32[9, 7]"]
    for word in ("add(", "where("):
        assert word in row.ir and word in str(row)
    assert "define void @k(" in row.llvm and "select" in row.llvm
    product = kernels.of("logits")[0]
    assert product.what == "product" and (product.ir, product.llvm) == ("", "")


@compiled
def test_chains_are_neighbours_of_machine_code():
    plan = trained_plan(kernels="wait")
    segment = plan.head.executor.laid
    rows = [row for row in plan.kernels if row.what != "view"]
    chains = [row.chain for row in rows if row.chain is not None]
    assert chains == sorted(chains) and set(chains) == set(range(1, max(chains) + 1))
    for row in rows:
        assert (row.chain is not None) == (row.step in segment.code)
    # The updates that overwrite variables are a chain of their own, after the commit is decided.
    last = {row.chain for row in rows if row.ops == ("adam_update",)}
    assert len(last) == 1 and last.isdisjoint(r.chain for r in rows if "relu" in r.ops)


def test_names_are_text_in_html():
    for how in ("wait", "off"):
        plan = trained_plan(kernels=how)
        for shown in (plan.kernels, plan.memory(), plan.rewrites):
            text = shown._repr_html_()
            tags = Tags(text)
            assert "img" not in tags.found and "<img" not in text
            assert "div" in tags.found or "table" in tags.found
        assert EVIL in Tags(plan.memory()._repr_html_()).said
        assert f"{EVIL}h" in Tags(plan.kernels._repr_html_()).said
    figure = plan.memory().plot()
    assert all("<img" not in str(text) for trace in figure.data for text in trace.text)


def test_without_kernels_the_table_says_so():
    plan = trained_plan(kernels="off")
    kernels = plan.kernels
    assert isinstance(plan.head.executor.laid, Plain)
    assert kernels.state == 'kernels="off"' and 'kernels="off"' in repr(plan)
    assert set(kernels.counts) == {"numpy"} and len(kernels) == len(plan.program.instrs)
    assert {row.ir + row.llvm for row in kernels} == {""}
    assert all(row.chain is None for row in kernels)


def test_the_guard_device_says_why_it_has_none():
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    plan = gw.Session(g, "guard").plan(gw.exp(x), {"x": (3,)})
    assert "'guard'" in plan.kernels.state


def test_an_empty_plan_can_be_shown():
    g = gw.Graph()
    w = g.variable("w", (2,))
    plan = gw.Session(g).plan(w)
    assert len(plan.kernels) == 0 and not plan.kernels.state
    assert str(plan.kernels) and Tags(plan.kernels._repr_html_())
    assert str(plan.memory()) and Tags(plan.rewrites._repr_html_())


@compiled
def test_what_stays_in_numpy_says_why():
    g = gw.Graph()
    x, ids = g.placeholder("x", (5, 4)), g.placeholder("ids", (3,), dtype="int64")
    small = g.placeholder("small", (4,), dtype="int8")
    sorted_, at = gw.sort(x, name="sorted"), gw.gather(x, ids, name="rows")
    narrow = gw.add(small, small, name="narrow")
    words = g.placeholder("words", (2,), dtype="str")
    joined = gw.strings.string_concat(words, words, name="joined")
    shapes = {"x": (5, 4), "ids": (3,), "small": (4,), "words": (2,)}
    session = gw.Session(g, kernels="wait")
    plan = session.plan([sorted_, at, narrow, joined], shapes)
    session.wait_for_kernels()
    (row,) = plan.kernels.of("sorted")
    assert row.what == "numpy" and "sort" in row.why
    (row,) = plan.kernels.of("joined")
    assert row.what == "numpy" and "objects" in row.why
    (row,) = plan.kernels.of("narrow")
    assert row.what == "numpy" and "int8" in row.why
    for row in plan.kernels:
        assert bool(row.why) == (row.what == "numpy")


@compiled
def test_loops_tell_of_the_plans_inside():
    g = gw.Graph()
    x = g.placeholder("x", (6, 4))

    def step(total, row):
        total = gw.tanh(total + row)
        return total, total

    _, ys = gw.scan(step, g.constant(np.zeros(4, "f")), x)
    with gw.Session(g, kernels="wait") as session:
        session.run(ys, {"x": np.ones((6, 4), "f")})
        (row,) = [r for r in session.plans[-1].kernels if r.what == "plans"]
    assert row.ops == ("scan",) and "1 kernel for 2 ops" in row.why


@compiled
def test_rows_go_on_after_sizes_that_values_decide():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    (kept,) = gw.nonzero(x)
    out = gw.exp(gw.cast(kept, "float32") * 2.0, name="out")
    with gw.Session(g, kernels="wait") as session:
        session.run(out, {"x": [0.0, 1.0, 2.0]})
        plan = session.plans[-1]
    rows = list(plan.kernels)
    assert [row.step for row in rows] == list(range(len(rows)))
    assert len(plan.parts) == 2 and rows[-1].node == "out"
    (first,) = plan.kernels.of(kept.node)
    assert first.what == "numpy" and "known when it has run" in first.why


@compiled
def test_a_kernel_that_cannot_be_compiled_is_told(monkeypatch):
    from gradwright.cpu.llvm import bind, compiler

    monkeypatch.setattr(compiler.KERNELS, "compile", lambda key: None)
    monkeypatch.setattr(bind, "CALLS", Bounded(1))  # none that is known
    plan = trained_plan(kernels="wait")
    assert "machine code" in plan.kernels.state and set(plan.kernels.counts) == {"numpy"}


# -- waiting --------------------------------------------------------------------------------------


@compiled
def test_while_kernels_are_compiled_the_table_counts_them(monkeypatch):
    from gradwright.cpu.llvm import bind, compiler

    begun, go_on, n = threading.Event(), threading.Event(), []
    real = compiler.KERNELS.compile

    def slow(key):
        n.append(key)
        if len(n) == 3:
            begun.set()
            assert go_on.wait(60)
        return real(key)

    trainer, batch = classifier()
    trainer.step(batch)
    plan = trainer.session.plans[-1]
    assert "after 3 runs" in plan.kernels.state
    monkeypatch.setattr(compiler.KERNELS, "compile", slow)
    monkeypatch.setattr(bind, "CALLS", Bounded(1))  # none that is known
    try:
        assert not trainer.session.wait_for_kernels(0.0)
        assert begun.wait(60)
        kernels = plan.kernels
        done, of = map(int, re.search(r"compiling: (\d+) of (\d+)", kernels.state).groups())
        assert 0 < done < of == kernels.counts["kernel"]
        assert not any(row.is_ready for row in kernels if row.what == "kernel")
        assert Tags(kernels._repr_html_()) and "(kernel)" in str(kernels)
        trainer.step(batch)  # numpy goes on meanwhile
    finally:
        go_on.set()
    assert trainer.session.wait_for_kernels(60)
    assert not plan.kernels.state and all(row.is_ready for row in plan.kernels)


@compiled
def test_waiting_brings_kernels_before_they_would_come(monkeypatch):
    trainer, batch = classifier()
    asked = []
    real = executor.BACKGROUND.add
    monkeypatch.setattr(executor.BACKGROUND, "add", lambda work: (asked.append(work), real(work)))
    trainer.step(batch)
    assert trainer.session.wait_for_kernels() and trainer.session.wait_for_kernels()
    for _ in range(executor.RUNS + 1):
        trainer.step(batch)
    assert len(asked) == 1  # neither the second wait nor the third run asks again
    assert isinstance(trainer.session.plans[-1].head.executor.laid, Bound)


@compiled
def test_waiting_compiles_plans_that_have_not_run():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    for how in ("background", "wait"):
        with gw.Session(g, kernels=how) as session:
            plan = session.plan(gw.tanh(x * 2.0), {"x": (3,)})
            assert plan.kernels.state
            assert session.wait_for_kernels(60)
            assert plan.kernels.counts == {"kernel": 1}


def test_waiting_without_kernels_is_over_at_once():
    g = gw.Graph()
    session = gw.Session(g, kernels="off")
    session.plan(g.placeholder("x", (3,)) * 2.0, {"x": (3,)})
    assert session.wait_for_kernels()
    session.close()
    with pytest.raises(GraphError, match="closed"):
        session.wait_for_kernels()


def test_the_plan_that_ran_last_comes_last():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    y = x + 1.0
    with gw.Session(g) as session:
        for n in (2, 3, 2):
            session.run(y, {"x": np.zeros(n)})
        assert [plan.head.known[x].shape for plan in session.plans] == [(3,), (2,)]


# -- memory and replay ----------------------------------------------------------------------------


@compiled
def test_updates_in_place_take_no_memory_of_their_own():
    plain, bound = trained_plan(kernels="off").memory(), trained_plan(kernels="wait").memory()
    variables = sum(r.nbytes for r in bound.rows if r.place == "variable")
    assert plain.results >= variables - 8  # all but the step's number
    assert bound.results < 64
    (row,) = [r for r in bound.rows if r.reason.startswith("written over v,")]
    assert row.nbytes == 0


def test_replay_blames_no_step_for_the_rounding_before_it():
    """The key's bias has a gradient of rounding alone, of which Adam makes whole steps."""
    g = gw.Graph()
    x, y = g.placeholder("x", ("B", 8, 16)), g.placeholder("y", ("B", 8, 16))
    init = gw.init.normal(std=0.3, seed=0)
    q, k, v = (
        (x @ g.variable(f"w{n}", (16, 16), init=init) + g.variable(f"b{n}", (16,), init=0.1))
        for n in "qkv"
    )
    h = gw.nn.scaled_dot_product_attention(q, k, v)
    loss = gw.mean((h - y) ** 2.0)
    session = gw.Session(g, check="replay")
    trainer = gw.Trainer(g, loss, gw.optim.Adam(1e-2), session=session)
    rng = np.random.default_rng(0)
    for _ in range(5):
        trainer.step({name: rng.standard_normal((4, 8, 16), "f") for name in "xy"})
    assert np.abs(g.values["bk"] - 0.1).max() > 1e-3


def test_replay_still_names_the_step_that_is_wrong(monkeypatch):
    table = importlib.import_module("gradwright.program.lowering")._table
    monkeypatch.setitem(table, ("tanh", "cpu"), lambda op, ins, outs: slightly_wrong)
    g = gw.Graph()
    x = g.placeholder("x", (5,))
    y = gw.exp(gw.tanh(x, name="inner"), name="outer")
    with gw.Session(g, check="replay") as session, pytest.raises(LoweringError) as raised:
        session.run(y, {"x": np.linspace(0.5, 1.0, 5, dtype="f")})
    assert "'inner'" in str(raised.value) and "'outer'" not in str(raised.value)


def slightly_wrong(xs, ys):
    np.tanh(xs[0] * np.float32(1.0002), out=ys[0])


# -- what is asked wrongly ------------------------------------------------------------------------


def line():
    g = gw.Graph("line")
    x, w = g.placeholder("letters", (None, 4)), g.variable("w", (4,), init=1.0)
    return g, x, w, gw.tanh(x * w).sum(name="loss")


@pytest.mark.parametrize(
    "options",
    [
        {"max_plans": "3"},
        {"max_plans": True},
        {"cache_bytes": "1GB"},
        {"checkpoint": True},
        {"checkpoint": [1]},
        {"skip_rewrites": "csee"},
        {"kernels": True},
    ],
)
def test_options_that_make_no_sense_are_named(options):
    (given,) = map(str, options.values())
    with pytest.raises(GraphError, match=re.escape(given.strip("[]"))):
        gw.Session(line()[0], **options)


def test_a_session_wants_a_graph():
    with pytest.raises(GraphError, match="no graph"):
        gw.Session(3)


def test_one_name_needs_no_list():
    g, x, _, loss = line()
    session = gw.Session(g, skip_rewrites="cse")
    for feeds in ("letters", x):
        assert session.prepare(loss, feeds)(np.zeros((2, 4))) == 0


@pytest.mark.parametrize("shape", [4, None, (None, 4), (-1, 4), (2.0, 4), np.ones((2, 4))])
def test_shapes_of_a_plan_are_sizes(shape):
    g, _, _, loss = line()
    with pytest.raises(FeedError, match="the shape of 'letters' is given as"):
        gw.Session(g).plan(loss, {"letters": shape})


@pytest.mark.parametrize("updates", [["w"], {"w": 1.0}, "w"])
def test_updates_are_tensors(updates):
    g, _, w, loss = line()
    session = gw.Session(g)
    for given in (updates, {w: 1.0}, {w: "loss"}):
        with pytest.raises(GraphError, match=r"updates=\{w: w - 0.1 \* grad\}"):
            session.run(loss, {"letters": np.zeros((2, 4))}, given)
    assert g.values["w"].tolist() == [1.0] * 4


def test_a_closed_session_makes_no_plan():
    g, _, _, loss = line()
    session = gw.Session(g)
    session.close()
    with pytest.raises(GraphError, match="closed"):
        session.plan(loss, {"letters": (2, 4)})

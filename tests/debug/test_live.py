"""Parts of a watch: whose turn it is, its time, what it takes of a training, and what it keeps."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.check.directions import draw_direction
from gradwright.debug.check.local import LocalCheck
from gradwright.debug.float64 import Float64Run
from gradwright.debug.live.again import RunAgain
from gradwright.debug.live.glance import TURNS, glance, shortened
from gradwright.debug.live.points import Alarm, Point, Strip, columns, points_of
from gradwright.debug.live.program import narrowed, ops_of
from gradwright.debug.live.turns import Deck, Purse
from gradwright.errors import ShapeError
from gradwright.op import OPS, find_op, run_forward
from gradwright.op.dependence import ELEMENT
from tests.support.watched import HEALTHY


@pytest.mark.parametrize("name", ["transformer", "norms", "lstm, a scan", "random numbers"])
def test_a_run_of_other_values_is_that_of_a_new_copy(name):
    model = HEALTHY[name]()
    g, (first, second) = model.loss.graph, model.batches(n=2)
    options = {"values": g.values, "seed": 3}
    run = RunAgain([model.loss], first, training=True, step=1, **options)
    for v in g.trainable:
        with g.values.edit(v.name) as array:
            array += 0.125
    names = [node.name for node in run.again(second, step=2, **options)]
    new = Float64Run([model.loss], second, training=True, step=2, **options)
    assert names == [n.name for n in new.nodes]
    for t, copy in new.copies.items():
        assert run.env[run.copies[t]].tobytes() == new.env[copy].tobytes(), t.name
        assert run.copies[t].spec.key() == copy.spec.key()


def test_a_run_refuses_other_shapes_and_numbers_that_decide_them():
    g = gw.Graph()
    x, shape = g.placeholder("x", (None, 4)), g.placeholder("shape", (2,), "int64")
    y = gw.sum(OPS["reshape"]()(x, shape), axis=0, name="y")
    given = {"x": np.ones((2, 4), "f4"), "shape": np.array([4, 2])}
    run = RunAgain([y], given, values=g.values)
    assert len(list(run.again(given, values=g.values))) == len(run.nodes)
    with pytest.raises(ShapeError, match="as before"):
        list(run.again({**given, "x": np.ones((3, 4), "f4")}, values=g.values))
    with pytest.raises(ShapeError, match="as before"):
        list(run.again({**given, "shape": np.array([2, 4])}, values=g.values))


def test_a_copy_that_comes_node_by_node_is_the_one_that_comes_at_once():
    model = HEALTHY["transformer"]()
    batch = model.batches()[0]
    options = {"values": model.loss.graph.values, "training": True}
    whole = Float64Run([model.loss], batch, **options)
    slow = Float64Run([model.loss], batch, at_once=False, **options)
    assert not slow.nodes
    next(slow.coming)
    assert len(slow.nodes) == 1
    assert [n.name for n in slow.coming] == [n.name for n in whole.nodes[1:]]
    value = whole.env[whole.copies[model.loss]]
    assert slow.env[slow.copies[model.loss]] == value


def test_random_numbers_are_those_of_the_step():
    g = gw.Graph()
    x = g.placeholder("x", (64,))
    y = gw.nn.dropout(x, 0.5, name="y")
    data = np.arange(1.0, 65.0, dtype="f4")
    with gw.Session(g, seed=5) as session:
        for step in (0, 7):
            plan = session.run(y, {"x": data}, training=True, step=step)
            run = Float64Run([y], {"x": data}, values=g.values, seed=5, step=step, training=True)
            assert np.array_equal(plan, run.env[run.copies[y]].astype("f4"))


def test_some_values_are_lent_and_kept():
    g = gw.Graph()
    w, v = g.variable("w", (2,), init=1.0), g.variable("v", (2,), init=2.0)
    some = g.values.snapshot(["w"])
    assert list(some) == ["w"]
    with gw.Session(g) as session:
        for _ in range(3):
            session.run(w, updates={w: w + 1.0, v: v + 1.0})
    assert some["w"].tolist() == [1.0, 1.0]
    assert g.values["w"].tolist() == [4.0, 4.0]


def test_rows_of_a_batch_go_together():
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 2)), g.placeholder("t", (None,), "int64")
    table, rate = g.placeholder("table", (None, 3)), g.placeholder("rate", ())
    feeds = {
        x: np.arange(20.0).reshape(10, 2),
        t: np.arange(10),
        table: np.ones((4, 3)),
        rate: np.array(0.5),
    }
    for start in (0, 5, 10**9):
        found = narrowed(feeds, 3, start)
        assert [len(found[k]) for k in (x, t, table)] == [3, 3, 4]
        assert (found[x][:, 0] == 2 * found[t]).all()
        assert not np.shares_memory(found[x], feeds[x])
    assert len(narrowed({x: feeds[x][:2]}, 3, 0)[x]) == 2


def test_a_scan_is_looked_at_in_a_few_turns_that_are_right():
    model = HEALTHY["gru, a scan"]()
    run = Float64Run([model.loss], model.batches()[0], values=model.loss.graph.values)
    node = next(n for n in run.nodes if n.name == "scan")
    xs = [None if t is None else run.env[t] for t in node.inputs]
    ys = [run.env[t] for t in node.outputs]
    op, few, made = shortened(node.op, xs, ys, np.random.default_rng(0))
    assert len(few[1]) == TURNS < len(xs[1])
    assert any(np.array_equal(few[1], xs[1][i : i + TURNS]) for i in range(4))
    assert [y.tobytes() for y in made] == [y.tobytes() for y in run_forward(op, few, training=True)]
    other = next(n for n in run.nodes if n.op.name == "matmul")
    assert shortened(other.op, [], ys, np.random.default_rng(0)) == (other.op, [], ys)


class OneElement(gw.Op):
    """Sine; one element of its gradient is a thousandth too large."""

    dependence = ELEMENT

    def infer(self, x):
        return x.with_shape(x.shape)

    def forward(self, x):
        return np.sin(x)

    def vjp(self, gs, ys, xs):
        off = np.ones(256)
        off[77] = 1.001
        return (gs[0] * gw.cos(xs[0]) * off,)


def test_one_element_of_many_that_is_off_is_seen():
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.standard_normal(256)
        check = LocalCheck(OneElement(), [x], [np.sin(x)], rng, most=16)
        assert [c.verdict for c in glance(check) if c is not None] == ["unclear"]
        assert np.flatnonzero(check.directions[0]).tolist() == [77]
        assert check.run()[0] == "fail"


@pytest.mark.parametrize(
    ("op", "make"),
    [
        ("relu", lambda r: np.round(r.standard_normal(500), 1)),  # many at the kink
        ("abs", lambda r: np.where(r.random(500) < 0.5, 0.0, r.standard_normal(500))),
        ("sqrt", lambda r: 10.0 ** r.uniform(-12, 12, 500)),
        ("log", lambda r: 10.0 ** r.uniform(-12, 12, 500)),
        ("exp", lambda r: r.uniform(-700, 600, 500)),
        ("sin", lambda r: r.uniform(-1e4, 1e4, 500)),
        ("gelu", lambda r: r.standard_normal(500) * 5),
        ("tanh", lambda r: r.standard_normal(500) * 20),
        ("neg", lambda r: np.zeros(500)),
        ("softplus", lambda r: r.standard_normal(500) * 50),
    ],
)
def test_functions_of_elements_that_are_right_pass(op, make):
    rng = np.random.default_rng(1)
    for _ in range(5):
        made, x = find_op(op)(), make(rng)
        check = LocalCheck(made, [x], run_forward(made, [x]), rng, most=16)
        found = [c for c in glance(check) if c is not None]
        if any(c.verdict != "ok" for c in found):
            assert check.run()[0] in ("ok", "kink")


def test_ops_inside_of_others_are_known():
    double = gw.define_op("live/double", lambda x: 2 * x, vjp=lambda g, y, x: g * 2.0)
    g = gw.Graph()
    x = g.placeholder("x", (4,))
    total, _ = gw.scan(lambda c, v: (double(c) + gw.nn.silu(v), None), 0.0, x, name="scan")
    names = {cls.name for cls in ops_of(total.node.op, [t.spec for t in total.node.inputs])}
    assert {"scan", "live/double", "silu", "sigmoid"} <= names


def test_a_purse_never_spends_more_than_its_share_and_one_slice():
    rng = np.random.default_rng(0)
    purse, largest = Purse(0.02), 0.0
    for _ in range(5000):
        purse.earn(float(rng.exponential(1e-3)))
        while purse.may_spend or (purse.has_put_by and rng.random() < 0.01):
            slice_ = float(rng.exponential(2e-4))
            largest = max(largest, slice_)
            (purse.spend if purse.may_spend else purse.pay)(slice_)
        assert purse.spent <= 0.02 * purse.others + largest
    assert purse.spent > 0.015 * purse.others
    purse.earn(1e6)  # a night's pause
    count = 0
    while purse.may_spend:
        purse.spend(1e-3)
        count += 1
    assert count <= 1 + Purse.MOST / 1e-3


def test_a_deck_deals_all_of_a_list_that_changes():
    deck = Deck(np.random.default_rng(0))
    for name in deck.deal("abcd", 2):
        deck.done(name)
    left = set(deck.deal("abcdef", 6))
    assert left >= {"e", "f"}
    assert len(left) == 4
    assert deck.rounds == 0
    deck.again(["e", *left])
    for name in "abcdef":
        deck.done(name)
    assert set(deck.deal("xa", 9)) == {"x"}
    deck.done("x")
    assert set(deck.deal("xa", 9)) == {"x", "a"}
    assert deck.rounds == 1
    assert deck.deal("", 3) == []


def test_a_strip_keeps_the_worst_and_the_latest():
    strip = Strip(most=64)
    errors = np.random.default_rng(0).uniform(1e-12, 1e-8, 5000)
    for step, error in enumerate(errors):
        strip.append(Point(step, "w", "element", float(error), 1e-5, "ok", (step,)))
    points = strip.points
    assert 32 <= len(points) <= 64
    assert points[-1].step == 4999
    steps = [p.step for p in points]
    assert steps == sorted(set(steps))
    assert strip.worst.error == errors.max()
    assert strip.worst in points
    strip.append(Point(5000, "x", "node", 1e-3, 1e-5, "fail"))
    strip.append(Point(5001, "x", "node", np.inf, np.inf, "unclear"))
    assert strip.worst.name == "x"
    assert strip.worst.above
    assert points_of(columns(strip.points)) == list(strip.points)


def test_an_alarm_is_read_back():
    alarm = Alarm(3, "scan::mul", "mul is wrong", ("scan",), "mul", "cell:1")
    assert Alarm.from_dict(alarm.to_dict()) == alarm
    for broken in ({}, {**alarm.to_dict(), "step": "x"}, {**alarm.to_dict(), "nodes": 3}):
        with pytest.raises((KeyError, TypeError, ValueError)):
            Alarm.from_dict(broken)


def test_a_direction_may_be_sparse():
    x = np.full((40, 50), 2.0).T  # a view, as what transposes give
    found = draw_direction(x, np.random.default_rng(0), most=64)
    assert 50 <= np.count_nonzero(found) <= 64
    assert 1.0 < np.abs(found[found != 0]).mean() < 2.2  # 2·√(2/π)
    whole = draw_direction(x, np.random.default_rng(0), most=2000)
    assert np.count_nonzero(whole) == 2000

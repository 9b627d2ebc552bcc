"""scan, map_fn, while_loop and loop: values, gradients of every order, random numbers, cost.

The references are JAX where it is installed, and loops written out by hand everywhere else.
"""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from tests.ops.control.control_flow import everywhere, orders, total

RNG = np.random.default_rng(0)
X, W, H = RNG.standard_normal((5, 3)), RNG.standard_normal((3, 3)), RNG.standard_normal(3)


def recurrent(reverse=False):
    g = gw.Graph()
    x = g.placeholder("x", ("T", 3), "float64")
    h = g.placeholder("h", (3,), "float64")
    w = g.variable("w", init=W, dtype="float64")

    def step(c, x):
        c = gw.tanh((c.reshape(1, 3) @ w).reshape(3) + x)
        return c, c * c

    last, ys = gw.scan(step, h, x, reverse=reverse)
    return g, [x, h, w], last, ys


# -- scan ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_and_two_orders_of_gradients_are_those_of_jax(jax, reverse):
    jnp = jax.numpy

    def loss_of(x, h, w):
        def step(c, x):
            c = jnp.tanh(c @ w + x)
            return c, c * c

        last, ys = jax.lax.scan(step, h, x, reverse=reverse)
        return last.sum() + (ys * ys).sum()

    first = jax.grad(loss_of, (0, 1, 2))
    second = jax.grad(lambda *a: sum((q * q).sum() for q in first(*a)), (0, 1, 2))
    g, wrt, last, ys = recurrent(reverse)
    loss = last.sum() + (ys * ys).sum()
    ours, again = orders(loss, wrt)
    found = everywhere(g, [loss, *ours, *again], {"x": X, "h": H})
    args = X, H, W
    for a, b in zip(found, [loss_of(*args), *first(*args), *second(*args)], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_scan_stacks_in_the_order_of_the_items():
    g = gw.Graph()
    x = g.placeholder("x", (4,))
    up = gw.scan(lambda c, x: (c + x, c), 0.0, x)
    down = gw.scan(lambda c, x: (c + x, c), 0.0, x, reverse=True)
    values = everywhere(g, [up[0], up[1], down[0], down[1]], {"x": [1.0, 2.0, 4.0, 8.0]})
    assert [v.tolist() for v in values] == [15.0, [0, 1, 3, 7], 15.0, [14, 12, 8, 0]]


def test_structures_of_carries_and_results():
    g = gw.Graph()
    x, y = g.placeholder("x", (3,)), g.placeholder("y", (3, 2), "int64")
    init = {"sum": 0.0, "more": (g.constant([0, 0]), [g.constant(1.0)])}

    def step(c, item):
        a, (count, [product]) = c["sum"], c["more"]
        new = {"sum": a + item[0], "more": (count + item[1], [product * item[0]])}
        return new, {"twice": 2.0 * item[0], "none": None}

    last, ys = gw.scan(step, init, (x, y))
    assert list(last) == ["sum", "more"] and ys["none"] is None
    feeds = {"x": [1.0, 2.0, 3.0], "y": [[1, 0], [2, 0], [3, 1]]}
    found = everywhere(g, [last["sum"], last["more"][0], last["more"][1][0], ys["twice"]], feeds)
    assert [v.tolist() for v in found] == [6.0, [6, 1], 6.0, [2.0, 4.0, 6.0]]


def test_scan_along_another_axis_and_without_items():
    g = gw.Graph()
    x = g.placeholder("x", (2, 4))
    _, ys = gw.scan(lambda c, col: (c + col, c + col), g.constant([0.0, 0.0]), x, axis=1)
    with g:
        last, powers = gw.scan(lambda c, _: (2.0 * c, c), 1.0, length=4)
    assert ys.shape == (2, 4)
    a = np.arange(8.0).reshape(2, 4)
    found = everywhere(g, [ys, last, powers], {"x": a})
    assert found[0].tolist() == np.cumsum(a, 1).tolist()
    assert found[1] == 16.0 and found[2].tolist() == [1, 2, 4, 8]


@pytest.mark.parametrize("length", [0, 1, 7])
def test_lengths_are_known_when_run(length):
    g, wrt, last, ys = recurrent()
    loss = last.sum() + ys.sum()
    dx, dh, dw = gw.gradients(loss, wrt)
    assert str(ys.spec) == "f64[T, 3]"
    feeds = {"x": RNG.standard_normal((length, 3)), "h": H}
    y, gx, gh, gw_ = everywhere(g, [ys, dx, dh, dw], feeds)
    assert y.shape == gx.shape == (length, 3)
    if not length:
        assert gh.tolist() == [1, 1, 1] and not gw_.any()


def test_the_length_may_be_a_size_of_another_tensor():
    g = gw.Graph()
    x, w = g.placeholder("x", ("B", 3)), g.variable("w", init=1.5)
    with g:
        last, powers = gw.scan(lambda c, _: (c * w, c), 1.0, length=x.shape[0])
    (dw,) = gw.gradients(powers.sum(), [w])
    with gw.Session(g, check="replay") as session:
        for b, value, slope in ((3, 3.375, 4.0), (0, 1.0, 0.0), (5, 7.59375, 24.25)):
            found = session.run([last, dw, x.sum()], {"x": np.ones((b, 3))})
            assert [float(v) for v in found] == [value, slope, 3.0 * b]


def test_map_fn_is_the_function_of_every_row():
    g = gw.Graph()
    x = g.placeholder("x", (4, 3), "float64")
    y = gw.map_fn(lambda row: (row / row.sum(), row.max()), x)
    (dx,) = gw.gradients((y[0] * y[0]).sum() + y[1].sum(), [x])
    a = np.abs(RNG.standard_normal((4, 3))) + 0.5
    rows, tops, slope = everywhere(g, [*y, dx], {"x": a})
    np.testing.assert_allclose(rows, a / a.sum(1, keepdims=True))
    assert tops.tolist() == a.max(1).tolist()
    p, s = a / a.sum(1, keepdims=True), a.sum(1, keepdims=True)
    expected = 2 * (p - (p * p).sum(1, keepdims=True)) / s + (a == a.max(1, keepdims=True))
    np.testing.assert_allclose(slope, expected)


# -- while -----------------------------------------------------------------------------------------


def unrolled_by_hand(jax, steps):
    """Return in JAX what the loop below computes in so many steps, and three orders."""

    def loss_of(x, w):
        v = x
        for _ in range(steps):
            v = v * w + x * x
        return (v * v).sum()

    levels = [loss_of]
    for _ in range(3):
        slope = jax.grad(levels[-1], (0, 1))
        levels += [slope, lambda *a, slope=slope: sum((q * q).sum() for q in slope(*a))]
    return levels[::2][:1] + levels[1::2]


@pytest.mark.parametrize(
    "start", [[1.0, 2.0, 3.0], [1.0, 0.5, 0.2], [30.0, 20.0, 10.0]], ids=["few", "many", "none"]
)
def test_while_and_three_orders_of_gradients_are_those_of_the_unrolled_loop(jax, start):
    g = gw.Graph()
    x = g.placeholder("x", (3,), "float64")
    w = g.variable("w", init=np.array([1.1, 1.2, 1.3]), dtype="float64")
    last = gw.while_loop(
        lambda c: c["v"].sum() < 50.0,
        lambda c: {"v": c["v"] * w + x * x, "n": c["n"] + 1},
        {"v": x, "n": 0},
    )
    loss = (last["v"] * last["v"]).sum()
    first, second = orders(loss, [x, w])
    third = gw.gradients(total(second), [x, w])
    found = everywhere(g, [last["n"], loss, *first, *second, *third], {"x": start})
    value, *levels = unrolled_by_hand(jax, int(found[0]))
    args = np.array(start), g.values["w"]
    expected = [value(*args), *(q for level in levels for q in level(*args))]
    for a, b in zip(found[1:], expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)


def test_a_while_loop_of_other_length_compiles_nothing_anew():
    g = gw.Graph()
    x, w = g.placeholder("x", ()), g.variable("w", init=1.5)
    y = gw.while_loop(lambda c: c < 100.0, lambda c: c * w, x)
    dw, dx = gw.gradients(gw.exp(y * 0.01), [w, x])
    with gw.Session(g) as session:
        session.run([y, dw, dx], {"x": 1.0})
        (plan,) = session.plan_cache.values()
        session.run([y, dw, dx], {"x": 80.0})
        session.run([y, dw, dx], {"x": 200.0})
        assert list(session.plan_cache.values()) == [plan] and not plan.head.tails


def test_the_largest_number_of_steps():
    g = gw.Graph()
    x = g.placeholder("x", (), "float64")
    y = gw.while_loop(lambda c: c < 1e9, lambda c: c * x, x, max_steps=3)
    (dx,) = gw.gradients(y, [x])
    for given, value, slope in ((3.0, 81.0, 4 * 27.0), (1e6, 1e12, 2e6), (2e9, 2e9, 1.0)):
        assert everywhere(g, [y, dx], {"x": given}) == [value, slope]
    for wrong in (-1, 2.0, "3"):
        with pytest.raises(GraphError, match="max_steps"):
            gw.while_loop(lambda c: c < 1.0, lambda c: c, x, max_steps=wrong)


def test_loop_stops_at_the_trip_count_or_the_condition():
    g = gw.Graph()
    n, x = g.placeholder("n", (), "int64"), g.placeholder("x", (), "float64")
    last, ys = gw.loop(
        lambda i, c: (c < 50.0, c * x, {"c": c, "i": i}), g.constant(1.0, dtype="float64"), trip=n
    )
    (dx,) = gw.gradients((ys["c"] * ys["c"]).sum(), [x])
    for limit, powers in ((3, [1, 2, 4]), (0, []), (99, [1, 2, 4, 8, 16, 32, 64])):
        final, c, i, slope = everywhere(g, [last, ys["c"], ys["i"], dx], {"n": limit, "x": 2.0})
        assert c.tolist() == powers and i.tolist() == list(range(len(powers)))
        assert final == 2.0 ** len(powers)
        assert slope == sum(2 * k * 2.0 ** (2 * k - 1) for k in range(len(powers)))
    never, _ = gw.loop(lambda i, c: (True, c * 2.0, None), x, go=x < 0.0, trip=5)
    assert float(g.output({"x": 3.0}, never)[never.name]) == 3.0


# -- random numbers and modes ----------------------------------------------------------------------


def test_random_ops_draw_anew_in_each_step_and_again_the_same():
    g = gw.Graph()
    with g:
        _, rows = gw.scan(lambda c, _: (c, gw.random.uniform((4,))), 0.0, length=6)
        _, drawn = gw.loop(lambda i, c: (True, c, gw.random.normal(())), g.constant(0.0), trip=5)
    with gw.Session(g, deterministic=True) as session:  # else kernels come in the midst of a loop
        a, b = session.run([rows, drawn], step=3)
        again = session.run([rows, drawn], step=3)
        other = session.run([rows, drawn], step=4)
    assert len(np.unique(a)) == a.size and len(np.unique(b)) == b.size
    assert np.array_equal(a, again[0]) and np.array_equal(b, again[1])
    assert not np.isin(a, other[0]).any()


def test_the_gradient_sees_the_numbers_that_were_drawn():
    g = gw.Graph()
    w = g.variable("w", init=np.ones(50), dtype="float64")

    def step(c, _):
        dropped = gw.nn.dropout(w * (1.0 + c.sum() * 0.0), p=0.5)
        return c + dropped, dropped

    with g:
        last, masks = gw.scan(step, g.constant(np.zeros(50)), length=4)
    (dw,) = gw.gradients(last.sum(), [w])
    kept, slope = everywhere(g, [masks, dw], {}, training=True, step=9)
    assert set(kept.ravel().tolist()) == {0.0, 2.0}
    assert slope.tolist() == kept.sum(0).tolist()
    assert gw.Session(g).run(dw).tolist() == [4.0] * 50


def test_random_ops_deep_inside_draw_anew_and_again_the_same():
    g = gw.Graph()
    x = g.placeholder("x", (3,), "float64")

    @gw.function("noise")
    def noise(v):
        return v + gw.random.normal((), dtype="float64")

    def inner(c, v):
        drawn = gw.cond(v > 0.0, lambda: noise(v), lambda: gw.random.uniform((), dtype="float64"))
        return c, drawn

    _, ys = gw.scan(lambda c, v: (c, gw.scan(inner, c, x)[1]), x[0], x)
    (dx,) = gw.gradients(total([ys]), [x])
    feeds = {"x": [1.0, -1.0, 2.0]}
    drawn, grad = everywhere(g, [ys, dx], feeds, step=7)
    assert len(np.unique(drawn)) == 9
    np.testing.assert_allclose(grad, 2.0 * drawn.sum(0) * [1.0, 0.0, 1.0])
    assert not np.isin(everywhere(g, [ys], feeds, step=8)[0], drawn).any()
    s = gw.Stepper(g, [ys], feeds, step=7)
    while s.current is not None or s.depth:
        if s.current is None:
            s.out()
        elif s.current.op.name in ("scan", "cond", "call"):
            s.into()
        else:
            s.step()
    np.testing.assert_array_equal(s.results()[0], drawn)


def test_calls_of_one_function_draw_different_numbers():
    @gw.function("noisy")
    def noisy(x):
        return gw.nn.dropout(x, p=0.5)

    g = gw.Graph()
    x = g.placeholder("x", (64,))
    a, b = gw.Session(g).run([noisy(x), noisy(x)], {"x": np.ones(64)}, training=True)
    assert {*a.tolist(), *b.tolist()} == {0.0, 2.0} and a.tolist() != b.tolist()


# -- cost ------------------------------------------------------------------------------------------


def test_many_steps_neither_recurse_nor_leak():
    g = gw.Graph()
    x, w = g.placeholder("x", (10_000,), "float64"), g.variable("w", init=np.array(0.999))
    last, ys = gw.scan(lambda c, v: (c * w + v, c), g.constant(np.array(0.0)), x)
    dx, dw = gw.gradients(last + ys.sum(), [x, w])
    a = RNG.standard_normal(10_000)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(150 + len_of_stack())
    try:
        with gw.Session(g, kernels="wait") as session:  # none arrives while we count
            found = session.run([last, dx, dw], {"x": a})
            gc.collect()
            before = len(gc.get_objects())
            for _ in range(2):
                session.run([last, dx, dw], {"x": a})
            gc.collect()
            assert len(gc.get_objects()) < before + 100
    finally:
        sys.setrecursionlimit(limit)
    c, slope = 0.0, 0.0
    for v in a:
        c, slope = c * 0.999 + v, slope * 0.999 + c
    np.testing.assert_allclose(found[0], c, rtol=1e-9)


def len_of_stack():
    """Return how deep the stack is here."""
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def test_a_step_is_planned_once_and_the_tape_only_where_it_is_read():
    g, wrt, last, ys = recurrent()
    with gw.Session(g) as session:
        plan = session.plan([last, ys], {"x": (5, 3), "h": (3,)})
        (scan,) = [i for i in plan.program.instrs if i.op.name == "scan"]
        assert not scan.op.record and len(scan.outs) == 2
        plan = session.plan(gw.gradients(last.sum(), wrt), {"x": (5, 3), "h": (3,)})
        records = [i.op.record for i in plan.program.instrs if i.op.name == "scan"]
        assert records == [True, False]


@pytest.mark.parametrize("reverse", [False, True])
def test_the_gradient_computes_no_result_of_a_step_again(reverse):
    g = gw.Graph()
    x, h = g.placeholder("x", (5, 2, 3)), g.placeholder("h", (2, 3))
    w = g.variable("w", (3, 3))
    last, _ = gw.scan(lambda c, x: (gw.tanh(c @ w + x), None), h, x, reverse=reverse)
    gw.gradients(last.sum(), [x, h, w])
    (back,) = [n.op for n in g.derived if n.op.name == "scan"]
    ops = [n.op.name for n in back.body.nodes if n.kind == "array"]
    assert ops.count("matmul") == 2 and "tanh" not in ops  # of the carry, and of w


def test_a_step_infers_nothing_while_it_runs(monkeypatch):
    inferred = []

    @gw.register("test/watched")
    class Watched(gw.Op):
        """The same again, and a note that its specs were asked for."""

        def infer(self, x):
            inferred.append(x)
            return x.with_shape(x.shape)

        def forward(self, x):
            return x.copy()

    g = gw.Graph()
    x = g.placeholder("x", (None,))
    last, _ = gw.scan(lambda c, v: (Watched()(c) + v, None), 0.0, x)
    with gw.Session(g) as session:
        session.run(last, {"x": np.ones(3)})
        before = len(inferred)
        session.run(last, {"x": np.ones(3)})
        assert len(inferred) == before
        session.run(last, {"x": np.ones(500)})
        assert len(inferred) < before + 10


def test_the_key_of_a_step_is_a_block_of_philox():
    from gradwright.ops.draws import philox

    key = np.array([2**40 + 17, 2**35 + 5], np.uint64)
    g = gw.Graph()
    made = gw.random.fold_in(g.constant(key), 9)
    counter = np.array([[9, philox.FOLD, 5, 2**3]], np.uint32)
    words = philox.philox((17, 2**8), counter)[0].astype(np.uint64)
    expected = [words[0] | words[1] << np.uint64(32), words[2] | words[3] << np.uint64(32)]
    assert g.output({}, made)["fold_in"].tolist() == [int(k) for k in expected]

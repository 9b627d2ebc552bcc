"""scan, while_loop, loop, map_fn and function: values, gradients of every order, errors, cost.

The references are JAX where it is installed, and loops written out by hand everywhere else.
"""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

import gradwright as gw
from gradwright.control import unrolled
from gradwright.errors import DTypeError, GradientError, GradwrightError, GraphError, ShapeError

RNG = np.random.default_rng(0)
X, W, H = RNG.standard_normal((5, 3)), RNG.standard_normal((3, 3)), RNG.standard_normal(3)


def everywhere(g, fetches, feeds, **options):
    """Run with each device and with replay; all agree, and one result is returned."""
    found = []
    for device in ("cpu", "guard"):
        with gw.Session(g, device, check="replay") as session:
            found.append(session.run(fetches, feeds, **options))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    return found[0]


def total(tensors):
    """Return a number that depends on all elements of the tensors, not linearly."""
    parts = [(t * t).sum() for t in tensors]
    return sum(parts[1:], start=parts[0])


def orders(loss, wrt):
    """Return the gradient and, by differentiating its squares, the second order."""
    first = gw.gradients(loss, wrt)
    return first, gw.gradients(total(first), wrt)


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


# -- nesting ---------------------------------------------------------------------------------------


def nested():
    """A while loop and a cond inside a scan inside a function inside a cond."""
    g = gw.Graph()
    p = g.placeholder("p", (), "bool")
    x = g.placeholder("x", (3,), "float64")
    w = g.variable("w", init=np.array([1.5, 1.2, 1.1]), dtype="float64")

    @gw.function("block")
    def block(start, rows):
        def step(c, row):
            n = gw.while_loop(lambda v: v.sum() < 10.0, lambda v: v * w + row, c)
            y = gw.cond(n[0] > 5.0, lambda: n.sum() * w[0], lambda: n[1] * row[2])
            return n * 0.1, y

        return gw.scan(step, start, rows)

    last, ys = gw.cond(
        p,
        lambda: block(x, gw.stack([x, x + 1.0, x * x])),
        lambda: (x * w, gw.stack([x[0], x[1], x[2]])),
    )
    return g, x, w, (last * last).sum() + ys.sum()


def by_hand(p, x, w):
    if not p:
        return ((x * w) ** 2).sum() + x.sum()
    c, ys = x, []
    for row in (x, x + 1.0, x * x):
        n = c
        while n.sum() < 10.0:
            n = n * w + row
        ys.append(n.sum() * w[0] if n[0] > 5.0 else n[1] * row[2])
        c = n * 0.1
    return (c * c).sum() + sum(ys)


def differences(f, x):
    """Return the gradient by central differences."""
    found = np.zeros_like(x)
    for i in range(x.size):
        e = np.zeros_like(x)
        e[i] = 1e-6
        found[i] = (f(x + e) - f(x - e)) / 2e-6
    return found


@pytest.mark.parametrize("taken", [True, False])
def test_nested_control_flow_and_its_gradients(taken):
    g, x, w, loss = nested()
    first, second = orders(loss, [x, w])
    a, b = np.array([0.3, 0.7, 1.1]), g.values["w"]
    found = everywhere(g, [loss, *first, *second], {"x": a, "p": taken})
    np.testing.assert_allclose(found[0], by_hand(taken, a, b), rtol=1e-12)
    np.testing.assert_allclose(found[1], differences(lambda v: by_hand(taken, v, b), a), rtol=1e-6)
    np.testing.assert_allclose(found[2], differences(lambda v: by_hand(taken, a, v), b), rtol=1e-6)
    with gw.Session(g) as session:

        def squares(v, name):
            values = {"x": a, "w": b, name: v}
            slopes = session.run(first, {"p": taken, **values})
            return sum((s * s).sum() for s in slopes)

        for name, exact in (("x", found[3]), ("w", found[4])):
            at = a if name == "x" else np.asarray(b)
            numeric = differences(lambda v, name=name: squares(v, name), at)
            np.testing.assert_allclose(exact, numeric, rtol=1e-5)


def test_nested_control_flow_is_saved_and_loaded(tmp_path):
    g, _, w, loss = nested()
    gw.gradients(loss, [w])[0].rename("dw")
    (g["dw"] * 2.0).rename("user")
    g.save(tmp_path / "g.gw")
    found = gw.load(tmp_path / "g.gw")
    feeds = {"x": [0.3, 0.7, 1.1], "p": True}
    a, b = (each.output(feeds, loss.name, "user") for each in (g, found))
    assert all(np.array_equal(a[k], b[k]) for k in a) and a["user"].any()
    (again,) = gw.gradients(found[loss.name], [found["w"]])
    np.testing.assert_array_equal(found.output(feeds, again)[again.name] * 2.0, a["user"])


def test_a_stepper_walks_through_every_step():
    g, x, _, loss = nested()
    (dx,) = gw.gradients(loss, [x])
    feeds = {"x": [0.3, 0.7, 1.1], "p": True}
    expected = gw.Session(g).run([loss, dx], feeds)
    s = gw.Stepper(g, [loss, dx], feeds)
    entered, deepest = set(), 0
    while s.current is not None or s.depth:
        if s.current is None:
            s.out()
        elif s.current.op.name in ("cond", "call", "scan", "while") and s.depth < 5:
            entered.add(s.current.op.name)
            s.into()
            deepest = max(deepest, s.depth)
        else:
            s.step()
    assert entered == {"cond", "call", "scan", "while"} and deepest >= 4
    for a, b in zip(s.results(), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_steps_have_names_in_the_stepper():
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    _, ys = gw.scan(lambda c, v: (gw.exp(c, name="grow"), c * v), 0.0, x)
    s = gw.Stepper(g, [ys], {"x": [1.0, 2.0]})
    s.run_to(ys)
    s.into()
    names = [node.name for node in s.frame.steps]
    assert "step_0/grow" in names and "step_1/mul" in names and "step_1/grow" in names
    s.out()
    assert s.results()[0].tolist() == [0.0, 2.0]


def test_breakpoints_stop_inside_a_step():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    _, ys = gw.scan(lambda c, v: (c + v, gw.exp(c, name="grow")), 0.0, x)
    s = gw.Stepper(g, [ys], {"x": [1.0, 2.0, 3.0, 4.0]})
    s.break_at("scan/*grow", above=10.0)
    stop = s.run()
    assert s.depth == 1 and "step_2/grow" in repr(stop)
    s.run()
    s.run()
    np.testing.assert_allclose(s.results()[0], np.exp([0.0, 1.0, 3.0, 6.0]), rtol=1e-6)
    long = gw.Stepper(g, [ys], {"x": np.zeros(30_000)})
    long.break_at("scan/*grow")
    long.run()  # over it: there are too many steps
    assert long.results()[0].tolist() == [1.0] * 30_000


def test_a_loop_too_long_to_walk_through_says_so():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    last, _ = gw.scan(lambda c, v: (c + v, None), 0.0, x)
    with pytest.raises(GraphError, match="30,000 steps"):
        unrolled(last.op, [np.zeros((), np.float32), np.zeros(30_000, np.float32)])


# -- random numbers and modes ----------------------------------------------------------------------


def test_random_ops_draw_anew_in_each_step_and_again_the_same():
    g = gw.Graph()
    with g:
        _, rows = gw.scan(lambda c, _: (c, gw.random.uniform((4,))), 0.0, length=6)
        _, drawn = gw.loop(lambda i, c: (True, c, gw.random.normal(())), g.constant(0.0), trip=5)
    with gw.Session(g) as session:
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


# -- function --------------------------------------------------------------------------------------


def test_a_call_is_one_node_that_opens(tmp_path):
    g = gw.Graph()
    x, w = g.placeholder("x", (2, 3)), g.variable("w", (3, 3), init=0.5)
    b = g.variable("b", (3,), init=1.0)

    @gw.function("block")
    def block(x, w, *, scale=1.0):
        h = gw.tanh(x @ w, name="hidden")
        return {"y": h * scale + b, "h": h}

    first = block(x, w)
    second = block(first["y"], w=w, scale=2.0)["y"]
    assert [n.name for n in g.nodes] == ["x", "w", "b", "block", "block_1"]
    assert second.op.label == "block" and "hidden" in second.op.body.graph
    (dw,) = gw.gradients((second * second).sum(), [w])
    a = RNG.standard_normal((2, 3)).astype(np.float32)
    y, slope = everywhere(g, [second, dw], {"x": a})
    k = np.full((3, 3), 0.5)
    inner = np.tanh(a @ k) + 1.0
    np.testing.assert_allclose(y, np.tanh(inner @ k) * 2 + 1, rtol=1e-6)
    (plan,) = [gw.Session(g).plan(second, {"x": (2, 3)})]
    assert [i.op.name for i in plan.program.instrs].count("matmul") == 2
    g.save(tmp_path / "g.gw")
    again = gw.load(tmp_path / "g.gw")
    np.testing.assert_array_equal(again.output({"x": a}, second.name)[second.name], y)
    assert gw.gradient_check(g, (second * second).sum(), {"x": a}).passed
    assert slope.shape == (3, 3)


@pytest.mark.parametrize(
    ("fn", "says"),
    [
        (lambda x: None, "returns nothing"),
        (lambda x: x.graph.variable("v", (2,)), "cannot be made inside"),
        (lambda x: x @ x @ x.reshape(1, 2), "while building the bad of function"),
    ],
)
def test_what_cannot_be_a_function_is_explained(fn, says):
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    with pytest.raises(GradwrightError, match=says):
        gw.function("bad")(fn)(x)
    with pytest.raises(GraphError, match="no tensor among its inputs"):
        gw.function("alone")(lambda: 1.0)()


# -- errors ----------------------------------------------------------------------------------------


def test_a_carry_that_changes_is_named():
    g = gw.Graph()
    x = g.placeholder("x", (4, 2))
    zero = g.constant([0.0, 0.0])
    with pytest.raises(ShapeError, match=r"carry 'carry_h' starts as f32\[2\] and is f32\[4\]"):
        gw.scan(lambda c, r: ({"h": gw.concat([c["h"], r])}, None), {"h": zero}, x)
    with pytest.raises(DTypeError, match=r"carry 'carry_1' starts as f32\[2\] and is i64\[2\]"):
        gw.while_loop(
            lambda c: c[0].sum() < 1.0, lambda c: (c[0], c[1].astype("int64")), (zero, zero)
        )
    with pytest.raises(GraphError, match="another structure"):
        gw.scan(lambda c, r: ((c, c), None), zero, x)


def test_a_carry_whose_size_depends_on_values_is_named_when_it_changes():
    g = gw.Graph()
    x = g.placeholder("x", (4,))
    last, _ = gw.scan(lambda c, v: (gw.gather(c, gw.nonzero(c > v)[0]), None), x, x)
    with gw.Session(g) as session, pytest.raises(ShapeError, match="the carry 'carry' is"):
        session.run(last, {"x": [1.0, 2.0, 3.0, 4.0]})


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda x: gw.scan(lambda c, r: c, 0.0, x), "need: a pair"),
        (lambda x: gw.scan(lambda c, r: (c, None), 0.0), "number of steps is open|no tensor"),
        (lambda x: gw.scan(lambda c, r: (c, None), 0.0, x, length=3), "4 rows"),
        (lambda x: gw.scan(lambda c, r: (c, None), 0.0, (x, x[:2])), "2 rows"),
        (lambda x: gw.scan(lambda c, r: (c, None), 0.0, x.sum()), "row by row"),
        (lambda x: gw.while_loop(lambda c: c, lambda c: c, x.sum()), r"need: bool\[\]"),
        (lambda x: gw.loop(lambda i, c: c, x, trip=2), "going on|go on"),
        (lambda x: gw.loop(lambda i, c: (True, c, None), x, trip=1.5), "number of steps is"),
        (
            lambda x: gw.scan(lambda c, r: (c @ r @ r, None), x, x),
            "while building the body of scan",
        ),
        (lambda x: gw.scan(lambda c, r: (r.graph.variable("v", ()), None), 0.0, x), "made inside"),
    ],
)
def test_what_cannot_be_a_loop_is_explained(build, says):
    g = gw.Graph()
    x = g.placeholder("x", (4, 2))
    before = [n.name for n in g.nodes]
    with g, pytest.raises(GradwrightError, match=says):
        build(x)
    assert all(n.kind != "array" or n.name in before or "sum" in n.name or "slice" in n.name
               for n in g.nodes)  # fmt: skip


def test_a_tensor_of_a_step_cannot_be_used_outside():
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    inside = []
    gw.scan(lambda c, v: (inside.append(c + v) or inside[-1], c), 0.0, x)
    del inside[:-1]  # of the graphs before the carry's dtype was settled
    gw.cond(x.sum() > 0.0, lambda: inside.append(x * 2.0) or x, lambda: x)
    for t, says in zip(inside, ("body of scan", "then branch of cond"), strict=True):
        for build in (lambda t=t: t * 2.0, lambda t=t: x + t):
            with pytest.raises(GraphError, match=f"a tensor of the {says} is used after"):
                build()
        with pytest.raises(GraphError, match=f"return it from the {says}"):
            gw.Session(g).run(t, {"x": [1.0, 2.0, 3.0]})


def test_a_loop_without_a_tape_says_why_it_has_no_gradient():
    g = gw.Graph()
    x = g.placeholder("x", (3,))
    _, ys = gw.scan(lambda c, v: (c + v, c), 0.0, x)
    lean = ys.node.op.without_residuals()(*ys.node.inputs)
    assert len(lean) == 2
    with pytest.raises(GradientError, match="record=False"):
        gw.gradients(lean[1].sum(), [x])


def test_a_loop_whose_parts_do_not_fit_is_refused():
    g = gw.Graph()
    x = g.placeholder("x", (4,))
    last, _ = gw.scan(lambda c, v: (c + v, None), 0.0, x)
    for wrong in ({"n_carry": 3}, {"n_carry": -1}, {"n_xs": 2}, {"listed": (True, False)}):
        with pytest.raises(GraphError, match="a step of <3 inputs"):
            last.op.replace(**wrong)
    with pytest.raises(ShapeError, match="a step takes 2 tensors"):
        last.op(x, x, x)
    with pytest.raises(DTypeError, match="a step takes f32"):
        last.op(g.constant(1), x)


def test_only_what_is_asked_for_must_be_differentiable():
    @gw.register("test/opaque")
    class Opaque(gw.Op):
        """Twice the input, and nobody says how it changes."""

        def infer(self, x):
            return x.with_shape(x.shape)

        def forward(self, x):
            return 2.0 * x

    g = gw.Graph()
    x, w = g.placeholder("x", (3, 2)), g.variable("w", (2,), init=1.0)
    last, _ = gw.scan(lambda c, r: (c * w + Opaque()(r), None), g.constant([0.0, 0.0]), x)
    (dw,) = gw.gradients(last.sum(), [w])
    assert g.output({"x": np.ones((3, 2))}, dw)[dw.name].tolist() == [6.0, 6.0]
    with pytest.raises(GradientError, match="test/opaque states no vjp"):
        gw.gradients(last.sum(), [x])
    step, _ = gw.scan(lambda c, r: (Opaque()(c) + r * w, None), g.constant([0.0, 0.0]), x)
    with pytest.raises(GradientError, match="in a step"):
        gw.gradients(step.sum(), [w])


def test_an_edit_reaches_what_loops_and_branches_were_built_for():
    g = gw.Graph()
    x, wider = g.placeholder("x", (4, 3), "float64"), g.placeholder("wider", (2, 5), "float64")
    w, v = (g.variable(k, init=np.ones(n), dtype="float64") for k, n in (("w", 3), ("v", 5)))

    def step(c, x):
        grown = gw.while_loop(lambda q: q.sum() < 10.0, lambda q: q * 1.5 + w, c + 1.0)
        return gw.cond(c.sum() > 0.0, lambda: c * w, lambda: x + c), grown

    _, ys = gw.scan(step, w * 1.0, x)
    before = {n: n.op for n in g.nodes}
    with pytest.raises(ShapeError), g.edit() as e:
        e.replace_use(x, wider)  # the captured w has 3 elements
    assert {n: n.op for n in g.nodes} == before and ys.shape == (4, 3)
    with g.edit() as e:
        e.replace_use(x, wider)
        e.replace_use(w, v)
    assert ys.shape == (2, 5)
    dv, dx = gw.gradients(total([ys]), [v, wider])
    found = everywhere(g, [ys, dv, dx], {"wider": np.ones((2, 5))})
    other = gw.Graph()
    with other:
        x = other.placeholder("x", (2, 5), "float64")
        w = other.variable("w", init=np.ones(5), dtype="float64")
        _, ys = gw.scan(step, w * 1.0, x)
    expected = everywhere(other, [ys, *gw.gradients(total([ys]), [w, x])], {"x": np.ones((2, 5))})
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_edit_of_a_known_number_reaches_the_steps():
    g = gw.Graph()
    x, shape = g.placeholder("x", (2, 6)), g.constant([3, 2])
    y = gw.map_fn(lambda row: gw.reshape(row, shape).sum(0), x)
    with g.edit() as e:
        e.replace_use(shape, g.constant([2, 3]))
    assert y.shape == (2, 3)
    (found,) = everywhere(g, [y], {"x": np.arange(12.0).reshape(2, 6)})
    assert found.tolist() == [[3.0, 5.0, 7.0], [15.0, 17.0, 19.0]]


def test_sizes_of_outer_tensors_reach_the_steps():
    g = gw.Graph()
    x, y = g.placeholder("x", ("B", 3)), g.placeholder("y", ("T", "N"))
    rows = x.shape[0]
    _, z = gw.scan(lambda c, r: (c, r.reshape(rows, -1) * 2.0), 0.0, y)
    (dy,) = gw.gradients((z * z).sum(), [y])
    with gw.Session(g) as session:
        for b in (2, 3):
            out, slope = session.run([z, dy], {"x": np.zeros((b, 3)), "y": np.ones((4, 6))})
            assert out.shape == (4, b, 6 // b) and slope.tolist() == np.full((4, 6), 8.0).tolist()


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
        with gw.Session(g) as session:
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
    from gradwright.ops import philox

    key = np.array([2**40 + 17, 2**35 + 5], np.uint64)
    g = gw.Graph()
    made = gw.random.fold_in(g.constant(key), 9)
    counter = np.array([[9, philox.FOLD, 5, 2**3]], np.uint32)
    words = philox.philox((17, 2**8), counter)[0].astype(np.uint64)
    expected = [words[0] | words[1] << np.uint64(32), words[2] | words[3] << np.uint64(32)]
    assert g.output({}, made)["fold_in"].tolist() == [int(k) for k in expected]

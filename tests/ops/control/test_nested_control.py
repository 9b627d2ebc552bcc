"""Loops and branches inside loops, branches and functions: gradients, archives, the stepper."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError, GraphError
from tests.ops.control.control_flow import everywhere, orders

RNG = np.random.default_rng(0)


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


def test_a_stepper_says_in_which_turn_it_is():
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    _, ys = gw.scan(lambda c, v: (gw.exp(c, name="grow"), c * v), 0.0, x)
    s = gw.Stepper(g, [ys], {"x": [1.0, 2.0]})
    s.run_to(ys)
    s.into()
    met = []
    while s.depth:
        met.append(s.path)
        s.step()
    assert sorted(met) == ["scan:0:grow", "scan:0:mul", "scan:1:grow", "scan:1:mul"]
    assert met[0].startswith("scan:0") and s.results()[0].tolist() == [0.0, 2.0]


def test_breakpoints_stop_inside_a_turn():
    g = gw.Graph()
    x = g.placeholder("x", (None,))
    _, ys = gw.scan(lambda c, v: (c + v, gw.exp(c, name="grow")), 0.0, x)
    s = gw.Stepper(g, [ys], {"x": [1.0, 2.0, 3.0, 4.0]})
    s.break_at("scan::grow", above=10.0)
    stop = s.run()
    assert s.depth == 1 and "scan:2:grow" in repr(stop)
    s.run()
    s.run()
    np.testing.assert_allclose(s.results()[0], np.exp([0.0, 1.0, 3.0, 6.0]), rtol=1e-6)
    long = gw.Stepper(g, [ys], {"x": np.zeros(30_000)})
    long.break_at("scan:12:grow")
    assert repr(long.run()) == "<Stop: breakpoint at 'scan:12:grow' by #1 name scan:12:grow>"


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

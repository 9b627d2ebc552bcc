"""cond: which branch runs, captures, gradients of every order, sizes that differ, errors."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradientError, GradwrightError


def both(g, fetches, feeds_of):
    """Run with each device and with replay, for both branches."""
    for device in ("cpu", "guard"):
        with gw.Session(g, device, check="replay") as session:
            for taken in (True, False):
                yield taken, session.run(fetches, feeds_of(taken))


def test_gradients_flow_through_captured_tensors():
    g = gw.Graph()
    p, x = g.placeholder("p", (), "bool"), g.placeholder("x", (3,))
    w = g.variable("w", (3,), init=[1.0, 2.0, 3.0])
    y = gw.cond(p, lambda v: (w * v * v).sum(), lambda v: (v * v * v).sum() + 0.0 * w.sum(), x)
    dx, dw = gw.gradients(y, [x, w])
    (ddx,) = gw.gradients(dx, [x])
    a, b = np.array([1.0, -2.0, 0.5], np.float32), np.array([1.0, 2.0, 3.0], np.float32)
    for taken, out in both(g, [y, dx, dw, ddx], lambda t: {"p": t, "x": a}):
        expected = (
            [(b * a * a).sum(), 2 * b * a, a * a, 2 * b]
            if taken
            else [(a**3).sum(), 3 * a * a, 0 * a, 6 * a]
        )
        for got, want in zip(out, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_only_the_chosen_branch_runs():
    ran = []

    @gw.register("test/noisy")
    class Noisy(gw.Op):
        """Note that it ran."""

        label: str = gw.attr(doc="What to note.")

        def infer(self, x):
            return x

        def forward(self, x):
            ran.append(self.label)
            return x.copy()

    g = gw.Graph()
    p, x = g.placeholder("p", (), "bool"), g.placeholder("x", ())
    y = gw.cond(p, lambda: Noisy(label="then")(x), lambda: Noisy(label="else")(x))
    with gw.Session(g) as session:
        session.run(y, {"p": True, "x": 1.0})
        session.run(y, {"p": False, "x": 1.0})
    assert ran == ["then", "else"]


def test_nested_and_several_outputs():
    g = gw.Graph()
    p, q = g.placeholder("p", (), "bool"), g.placeholder("q", (), "bool")
    x = g.placeholder("x", ())
    a, b = gw.cond(
        p,
        lambda: (gw.cond(q, lambda: x * 2.0, lambda: x * 3.0), x),
        lambda: (x * 5.0, x * x),
    )
    da, db = gw.gradients(a, [x])[0], gw.gradients(b, [x])[0]
    with gw.Session(g, check="replay") as session:
        out = {
            (pv, qv): [float(v) for v in session.run([a, b, da, db], {"p": pv, "q": qv, "x": 4.0})]
            for pv in (True, False)
            for qv in (True, False)
        }
    assert out[True, True] == [8, 4, 2, 1] and out[True, False] == [12, 4, 3, 1]
    assert out[False, True] == out[False, False] == [20, 16, 5, 8]


def test_results_of_different_sizes():
    g = gw.Graph()
    p, x = g.placeholder("p", (), "bool"), g.placeholder("x", (4,))
    y = gw.cond(p, lambda: x[:3], lambda: x[1:2])
    total = (y * y).sum()
    (dx,) = gw.gradients(total, [x])
    data = np.arange(1.0, 5.0, dtype=np.float32)
    for taken, (v, t, d) in both(g, [y, total, dx], lambda p: {"p": p, "x": data}):
        kept = data[:3] if taken else data[1:2]
        mask = [1, 1, 1, 0] if taken else [0, 1, 0, 0]
        assert v.tolist() == kept.tolist() and float(t) == float((kept**2).sum())
        assert d.tolist() == (2 * data * mask).tolist()


def test_the_mode_reaches_the_branch():
    g = gw.Graph()
    p, x = g.placeholder("p", (), "bool"), g.placeholder("x", (1000,))
    y = gw.cond(p, lambda: gw.nn.dropout(x, p=0.5), lambda: x)
    with gw.Session(g) as session:
        feeds = {"p": True, "x": np.ones(1000)}
        assert session.run(y, feeds).tolist() == [1.0] * 1000
        kept = session.run(y, feeds, training=True)
        assert set(kept.tolist()) == {0.0, 2.0}


def test_structures_of_operands_and_results():
    g = gw.Graph()
    p, x = g.placeholder("p", (), "bool"), g.placeholder("x", ())
    y = gw.cond(
        p,
        lambda pair: {"sum": pair["a"] + pair["b"], "both": (pair["a"], [pair["b"]])},
        lambda pair: {"sum": pair["a"], "both": (pair["b"], [pair["a"] * 3.0])},
        {"a": x, "b": x * 2.0},
    )
    (one,) = gw.cond(p, lambda: [x], lambda: (x * 2.0,))
    with gw.Session(g) as session:
        assert session.run(y, {"p": True, "x": 1.0}) == {"sum": 3.0, "both": (1.0, [2.0])}
        assert session.run(y, {"p": False, "x": 1.0}) == {"sum": 1.0, "both": (2.0, [3.0])}
        assert session.run(one, {"p": False, "x": 1.0}) == 2.0


@pytest.mark.parametrize(
    ("pred", "then", "other", "message"),
    [
        ("x", lambda x: x, lambda x: x, r"need: bool\[\]"),
        ("p", lambda x: (x, x), lambda x: x, "branches return 2 and 1"),
        ("p", lambda x: x, lambda x: x > 0, "need: equal dtypes"),
        ("p", lambda x: {"a": x}, lambda x: {"b": x}, "the same nesting"),
        ("p", lambda x: x, lambda x: None, "else branch of a cond returns nothing"),
        ("p", lambda x: (), lambda x: x, "returns nothing"),
        ("p", lambda x: x @ x.reshape(-1, 1) @ x, lambda x: x, "while building the then branch"),
        ("p", lambda x: x.graph.variable("v", (3,)), lambda x: x, "cannot be made inside"),
    ],
)
def test_what_cannot_be_a_branch_is_explained(pred, then, other, message):
    g = gw.Graph()
    g.placeholder("p", (), "bool")
    x = g.placeholder("x", (3,))
    with pytest.raises(GradwrightError, match=message):
        gw.cond(g[pred], then, other, x)
    with pytest.raises(GradwrightError, match="use Python's if"):
        gw.cond(True, then, other, x)


@pytest.mark.parametrize("options", [{}, {"device": "guard"}, {"check": "replay"}])
def test_sizes_of_outer_tensors_reach_the_branches(options):
    g = gw.Graph()
    x, y = g.placeholder("x", ("B", 3)), g.placeholder("y", ("N",))
    p = g.placeholder("p", (), "bool")
    rows = x.shape[0]  # B: no branch captures x itself
    z = gw.cond(p, lambda: y.reshape(rows, -1) * 2.0, lambda: y.reshape(-1, rows).T)
    (dy,) = gw.gradients((z * z).sum(), [y])
    feeds = {"x": np.zeros((2, 3)), "y": np.arange(6.0)}
    with gw.Session(g, **options) as session:
        out, slope = session.run([z, dy], {**feeds, "p": True})
        assert out.tolist() == [[0, 2, 4], [6, 8, 10]] and slope.tolist() == [0, 8, 16, 24, 32, 40]
        assert session.run(z, {**feeds, "p": False}).tolist() == [[0, 2, 4], [1, 3, 5]]
        assert session.run(z, {**feeds, "x": np.zeros((3, 3)), "p": True}).shape == (3, 2)
    s = gw.Stepper(g, [z], {**feeds, "p": True})
    s.run_to(z)
    s.into()
    s.run()
    s.run()
    assert s.results()[0].tolist() == out.tolist()


def test_what_a_branch_cannot_differentiate_matters_only_when_asked_for():
    class Opaque(gw.Op):
        """Copy the input; states no gradient."""

        def infer(self, x):
            return x

        def forward(self, x):
            return x.copy()

    g = gw.Graph()
    x, z, p = g.placeholder("x", (2,)), g.placeholder("z", (2,)), g.placeholder("p", (), "bool")
    y = gw.cond(p, lambda: x * Opaque()(z), lambda: x * 3.0).sum()
    (dx,) = gw.gradients(y, [x])
    feeds = {"x": [1.0, 2.0], "z": [4.0, 5.0]}
    assert gw.Session(g).run(dx, {**feeds, "p": True}).tolist() == [4.0, 5.0]
    assert gw.Session(g).run(dx, {**feeds, "p": False}).tolist() == [3.0, 3.0]
    with pytest.raises(GradientError, match="in a branch, no gradient flows through local/opaque"):
        gw.gradients(y, [z])


def test_a_branch_that_is_a_tensor_is_refused():
    g = gw.Graph()
    x = g.placeholder("x", ())
    with pytest.raises(GradwrightError, match=r"lambda: x"):
        gw.cond(x > 0.0, x, lambda: x)

"""What loops refuse and name, and how edits of the graph reach their steps."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, GradientError, GradwrightError, GraphError, ShapeError
from tests.ops.control.control_flow import everywhere, total


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

"""What is the same in each turn of a loop is computed once: values, gradients, what stays in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError
from gradwright.op import Op
from gradwright.spec import TensorSpec

RNG = np.random.default_rng(0)
A, B, X = RNG.standard_normal((4, 6)), RNG.standard_normal((6, 4)) / 2, RNG.standard_normal((5, 4))


class Counted(Op):
    """y = −x, which counts how often it runs."""

    name = "counted_neg"
    element = "neg"
    calls = 0

    def infer(self, x: TensorSpec) -> TensorSpec:
        return x.with_shape(x.shape)

    def forward(self, x: Any) -> Any:
        type(self).calls += 1
        return -x

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (-gs[0],)


def recurrence(g: gw.Graph, kind: str, *, by_hand: bool = False) -> tuple[gw.Tensor, list[Any]]:
    """Return a loss and its variables; ``by_hand`` has the product in front of the loop."""
    a, b = g.variable("a", init=A), g.variable("b", init=B)
    x = g.placeholder("x", (5, 4), "float64")
    outside = gw.tanh(a @ b) if by_hand else None

    def w() -> gw.Tensor:
        return gw.tanh(a @ b) if outside is None else outside

    start = g.constant(np.zeros(4))
    if kind == "scan":
        _, ys = gw.scan(lambda c, t: (n := gw.tanh(c @ w() + t), n), start, x)
        return (ys**2.0).mean(), [a, b]
    if kind == "map":
        return (gw.map_fn(lambda t: gw.tanh(t @ w()), x) ** 2.0).mean(), [a, b]
    _, total = gw.while_loop(
        lambda held: (held[0] < 4) & (w().sum() < 1e9),
        lambda held: (held[0] + 1, gw.tanh(held[1] @ w() + x[0])),
        (g.constant(0), start),
    )
    return (total**2.0).mean(), [a, b]


@pytest.mark.parametrize("kernels", ["off", "wait"])
@pytest.mark.parametrize("kind", ["scan", "map", "while"])
def test_values_and_gradients_are_those_of_the_loop_by_hand(kind: str, kernels: Any) -> None:
    found = []
    for by_hand, skip in ((False, ()), (False, ("hoist",)), (True, ())):
        g = gw.Graph()
        loss, variables = recurrence(g, kind, by_hand=by_hand)
        first = gw.gradients(loss, variables)
        second = gw.gradients(gw.tensordot(first[0], first[0], 2), variables)
        with gw.Session(g, kernels=kernels, skip_rewrites=skip) as session:
            found.append(session.run([loss, *first, *second], {"x": X}))
    for other in found[1:]:
        for mine, theirs in zip(found[0], other, strict=True):
            np.testing.assert_allclose(mine, theirs, 1e-12, 1e-14)


def test_gradients_match_torch(torch: Any) -> None:
    g = gw.Graph()
    loss, variables = recurrence(g, "scan")
    mine = gw.Session(g).run(gw.gradients(loss, variables), {"x": X})
    a, b = (torch.tensor(v, requires_grad=True) for v in (A, B))
    c, total = torch.zeros(4, dtype=torch.float64), 0.0
    for t in torch.tensor(X):
        c = torch.tanh(c @ torch.tanh(a @ b) + t)
        total = total + (c**2).mean() / 5
    total.backward()
    for m, t in zip(mine, (a.grad, b.grad), strict=True):
        np.testing.assert_allclose(m, t.numpy(), 1e-12)


@pytest.mark.parametrize("kind", ["scan", "map", "while"])
def test_the_product_is_in_front_of_the_loop(kind: str) -> None:
    g = gw.Graph()
    loss, variables = recurrence(g, kind)
    session = gw.Session(g, kernels="off", skip_rewrites=("sum_behind",))  # has a product more
    plan = session.plan([loss, *gw.gradients(loss, variables)], {"x": (5, 4)})
    ops = [instr.op.name for instr in plan.program.instrs]
    assert ops.count("matmul") == 3  # a·b, and what goes to a and b of its cotangent
    bodies = [i.op.body for i in plan.program.instrs if hasattr(i.op, "body")]
    shapes = {tuple(n.outputs[0].shape) for b in bodies for n in b.nodes if n.op.name == "matmul"}
    assert (4, 6) not in shapes and (6, 4) not in shapes
    assert "hoist" in str(plan.rewrites)


def test_it_runs_once_and_again_in_the_stepper() -> None:
    """A plan computes it once; the graph, which steppers follow, has it in the body."""
    g = gw.Graph()
    w, x = g.variable("w", init=np.ones(3)), g.placeholder("x", (7, 3), "float64")
    _, ys = gw.scan(lambda c, t: (c + t, (c + t) * Counted()(w)), g.constant(np.zeros(3)), x)
    Counted.calls = 0
    given = {"x": np.ones((7, 3))}
    found = gw.Session(g, kernels="off").run(ys, given)
    assert Counted.calls == 1
    stepper = gw.Stepper(g, fetches=[ys], feeds=given)
    stepper.run()
    assert Counted.calls == 8
    np.testing.assert_array_equal(found, -np.cumsum(np.ones((7, 3)), 0))


def test_what_may_fail_waits_for_a_turn() -> None:
    """A loop without turns asks for no inverse, which there is not."""
    g = gw.Graph()
    w, x = g.placeholder("w", (2, 2)), g.placeholder("x", (None, 2))
    i = g.placeholder("i", (1,), "int64")
    _, ys = gw.scan(
        lambda c, t: (c, t @ gw.linalg.cholesky(w) + gw.gather(w, i)[0]),
        g.constant(np.zeros(2, np.float32)), x,
    )  # fmt: skip
    bad = {"w": -np.eye(2), "i": [7]}
    assert gw.Session(g).run(ys, {"x": np.zeros((0, 2)), **bad}).shape == (0, 2)
    with pytest.raises(GradwrightError) as caught:
        gw.Session(g).run(ys, {"x": np.zeros((1, 2)), **bad})
    assert "scan:0:" in str(caught.value)


@pytest.mark.parametrize("start", [[np.nan, -1.0], [0.0, np.inf]])
def test_loops_without_turns_keep_their_start_and_have_zero_gradients(start: Any) -> None:
    """log w and 1/w are no numbers here, and 0 times them is not what comes of no turns."""
    g = gw.Graph()
    w, x = g.variable("w", init=np.array(start)), g.placeholder("x", (None, 2), "float64")
    c, ys = gw.scan(lambda c, t: (c * gw.log(w) + t, c * w), g.constant(np.ones(2)), x)
    grads = gw.gradients(c.sum() + ys.sum(), [w])
    end, grad = gw.Session(g).run([c, *grads], {"x": np.zeros((0, 2))})
    np.testing.assert_array_equal(end, np.ones(2))
    np.testing.assert_array_equal(grad, np.zeros(2))


def test_random_ops_stay_inside() -> None:
    g = gw.Graph()
    w, x = g.variable("w", init=np.ones(64)), g.placeholder("x", (5, 64), "float64")
    _, ys = gw.scan(lambda c, t: (c, gw.nn.dropout(gw.exp(w), 0.5) * t), g.constant(np.zeros(1)), x)
    found = gw.Session(g).run(ys, {"x": np.ones((5, 64))}, training=True)
    assert len({row.tobytes() for row in found}) == 5
    assert set(np.round(np.unique(found), 6)) == {0.0, round(2 * np.e, 6)}


def test_other_lengths_and_sizes_are_right_in_one_session() -> None:
    """Plans of further shapes fill the template of the first two."""
    g = gw.Graph()
    a = g.variable("a", init=A)
    v, x = g.placeholder("v", ("N", 6), "float64"), g.placeholder("x", ("T", 4), "float64")
    _, ys = gw.scan(lambda c, t: (c, (gw.exp(v) @ gw.tanh(a).T * t).sum(0)), g.constant(0.0), x)
    session = gw.Session(g, kernels="off")
    for n, t in ((2, 3), (3, 4), (5, 2), (7, 7), (1, 1)):
        vs, xs = RNG.standard_normal((n, 6)), RNG.standard_normal((t, 4))
        expected = np.stack([(np.exp(vs) @ np.tanh(A).T * row).sum(0) for row in xs])
        np.testing.assert_allclose(session.run(ys, {"v": vs, "x": xs}), expected, 1e-12)


def test_a_gradient_check_looks_into_such_a_loop() -> None:
    g = gw.Graph()
    loss, _ = recurrence(g, "scan")
    assert gw.gradient_check(g, loss, {"x": X}).passed

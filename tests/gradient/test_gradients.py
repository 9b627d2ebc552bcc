"""The gradient engine: orders, what may be differentiated by what, sums over all uses."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradientError, GraphError
from tests.support.op_values import value

# -- orders ----------------------------------------------------------------------------------------


def test_orders_one_to_five_of_a_power() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (), "float64")
    y = x * x * x * x
    found = []
    for _ in range(5):
        (y,) = gw.gradients(y, [x], unreachable="zero")
        found.append(float(value(y, {"x": 3.0})))
    assert found == [4 * 27, 12 * 9, 24 * 3, 24, 0]


def test_mixed_second_derivatives_commute() -> None:
    g = gw.Graph()
    x, y = g.placeholder("x", (), "float64"), g.placeholder("y", (), "float64")
    z = gw.exp(x * y) * x
    (zx,), (zy,) = gw.gradients(z, [x]), gw.gradients(z, [y])
    (zxy,), (zyx,) = gw.gradients(zx, [y]), gw.gradients(zy, [x])
    at = {"x": 0.7, "y": -0.4}
    exact = np.exp(0.7 * -0.4) * (2 * 0.7 + 0.7**2 * -0.4)  # ∂²/∂x∂y of x·eˣʸ
    np.testing.assert_allclose([value(zxy, at), value(zyx, at)], exact, rtol=1e-14)


def test_hessian_of_a_network_is_symmetric_and_matches_differences(
    rng: np.random.Generator,
) -> None:
    g = gw.Graph()
    w = g.variable("w", init=rng.standard_normal((3, 2)))
    x = g.constant(rng.standard_normal((4, 3)))
    v = g.placeholder("v", (3, 2), "float64")
    loss = gw.exp(gw.exp(x @ w) * -0.1).sum()
    (dw,) = gw.gradients(loss, [w])
    (hv,) = gw.gradients(dw, [w], [v])
    rows = [value(hv, {"v": e.reshape(3, 2)}).ravel() for e in np.eye(6)]
    np.testing.assert_allclose(rows, np.transpose(rows), rtol=1e-12, atol=1e-14)
    start, h = g.values["w"].copy(), 1e-5
    for k, e in enumerate(np.eye(6)):
        step = h * e.reshape(3, 2)
        sides = []
        for sign in (1, -1):
            g.values["w"] = start + sign * step
            sides.append(value(dw))
        numeric = (sides[0] - sides[1]).ravel() / (2 * h)
        np.testing.assert_allclose(rows[k], numeric, rtol=1e-7, atol=1e-9)


def test_gradients_equal_torch(torch: ModuleType, rng: np.random.Generator) -> None:
    arrays = {"w": rng.standard_normal((3, 4)), "b": rng.standard_normal(4)}
    data = rng.standard_normal((5, 3))
    g = gw.Graph()
    w, b = (g.variable(k, init=a) for k, a in arrays.items())
    loss = (gw.exp((g.constant(data) @ w + b) * 0.3) / 7.0).sum()
    first = gw.gradients(loss, [w, b])
    (second,) = gw.gradients((first[0] * first[0]).sum(), [b])
    tw, tb = (torch.tensor(a, requires_grad=True) for a in arrays.values())
    tloss = (torch.exp((torch.tensor(data) @ tw + tb) * 0.3) / 7.0).sum()
    tfirst = torch.autograd.grad(tloss, [tw, tb], create_graph=True)
    (tsecond,) = torch.autograd.grad((tfirst[0] ** 2).sum(), [tb])
    for ours, theirs in zip([*first, second], [*tfirst, tsecond], strict=True):
        # 0.3 and 7.0 take the tensors' dtype, so both sides compute in float64
        np.testing.assert_allclose(value(ours), theirs.detach().numpy(), rtol=1e-12)


def test_complex_gradients_follow_torch(torch: ModuleType, rng: np.random.Generator) -> None:
    a, b = (rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3)) for _ in range(2))
    g = gw.Graph()
    ga, gb = g.variable("a", init=a), g.variable("b", init=b)
    z = gw.exp(ga * gb) / gb
    loss = gw.real(z * gw.conj(z)).sum()
    ta, tb = (torch.tensor(v, requires_grad=True) for v in (a, b))
    tz = torch.exp(ta * tb) / tb
    theirs = torch.autograd.grad((tz * tz.conj()).real.sum(), [ta, tb])
    for ours, their in zip(gw.gradients(loss, [ga, gb]), theirs, strict=True):
        np.testing.assert_allclose(value(ours), their.numpy(), rtol=1e-12)


# -- what is differentiated by what ----------------------------------------------------------------


def test_by_placeholder_activation_and_variable() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (2,), "float64")
    w = g.variable("w", init=np.array([2.0, 3.0]))
    h = x * w
    loss = (h * h).sum()
    dx, dh, dw = gw.gradients(loss, [x, h, w])
    at = {"x": [1.0, -1.0]}
    assert value(dh, at).tolist() == [4, -6]  # 2h
    assert value(dx, at).tolist() == [8, -18]  # 2h·w
    assert value(dw, at).tolist() == [4, 6]  # 2h·x


def test_of_a_tensor_by_itself() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (3,), "float64")
    (dx,) = gw.gradients(x, [x])
    assert value(dx, {"x": [1.0, 2.0, 3.0]}).tolist() == [1, 1, 1]


def test_without_grad_outputs_all_elements_are_summed() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (2, 2), "float64")
    (dx,) = gw.gradients(x * x, [x])
    assert value(dx, {"x": [[1.0, 2.0], [3.0, 4.0]]}).tolist() == [[2, 4], [6, 8]]


def test_grad_outputs_weigh_each_element_and_each_output() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (2,), "float64")
    v = g.placeholder("v", (2,), "float64")
    (dx,) = gw.gradients([x * x, x * 5.0], [x], [v, np.array([10.0, 0.0])])
    assert value(dx, {"x": [1.0, 2.0], "v": [1.0, -1.0]}).tolist() == [2 + 50, -4]


@pytest.mark.parametrize("bad", [np.ones(3), np.ones(1), np.ones((1, 2)), np.ones(2, np.float32)])
def test_a_grad_output_of_another_spec_is_refused(bad: Any) -> None:
    g = gw.Graph()
    x = g.placeholder("x", (2,), "float64")
    seed = g.constant(bad)
    with pytest.raises(GradientError, match="grad_output of 'mul' does not fit"):
        gw.gradients(x * x, [x], [seed])


def test_grad_outputs_must_be_as_many_as_outputs() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ())
    with pytest.raises(GradientError, match="2 outputs need 2 grad_outputs, got 1"):
        gw.gradients([x * x, x + x], [x], [x])


def test_stop_takes_tensors_as_constant() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (), "float64")
    square = x * x
    y = square * x
    (full,), (held,) = gw.gradients(y, [x]), gw.gradients(y, [x], stop=[square])
    assert float(value(full, {"x": 3.0})) == 27
    assert float(value(held, {"x": 3.0})) == 9


def test_a_gradient_reaches_the_frontier_and_goes_no_further() -> None:
    g = gw.Graph()
    x = g.variable("x", init=np.array([1.0, 2.0, 3.0]))
    first, second = gw.split(x * 2.0, [1, 2])
    y = second * 3.0
    z = (y * y).sum() + (first * second[:1]).sum()
    dy, dx = gw.gradients(z, [y, x], stop=[y])
    np.testing.assert_allclose(value(dy), 2 * value(y))
    # through the product alone: d(2x₀·2x₁)
    np.testing.assert_allclose(value(dx), [8.0, 4.0, 0.0])
    part, rest = gw.gradients(z, [second, x], stop=[second])  # one of two outputs of a node
    np.testing.assert_allclose(value(part), 18 * value(second) + [value(first)[0], 0.0])
    np.testing.assert_allclose(value(rest), [2 * value(second)[0], 0.0, 0.0])
    (itself,) = gw.gradients(y, [y], stop=[y])
    np.testing.assert_array_equal(value(itself), [1.0, 1.0])


def test_the_second_order_goes_on_behind_a_frontier_unless_it_is_stopped_again() -> None:
    """y = x², z = y³: ∂z/∂y = 3y², which is 12x³ in x and 6y in y."""
    g = gw.Graph()
    x = g.variable("x", init=np.array([1.0, 2.0]))
    y = x * x
    (dy,) = gw.gradients((y * y * y).sum(), [y], stop=[y])
    np.testing.assert_allclose(value(dy), 3 * value(y) ** 2)
    (on,) = gw.gradients(dy, [x])
    np.testing.assert_allclose(value(on), 12 * value(x) ** 3)
    (at,) = gw.gradients(dy, [y], stop=[y])
    np.testing.assert_allclose(value(at), 6 * value(y))
    (held,) = gw.gradients(dy, [x], stop=[y], unreachable="zero")
    np.testing.assert_array_equal(value(held), 0.0)
    with pytest.raises(GradientError, match="only behind what is stopped: 'mul'"):
        gw.gradients(dy, [x], stop=y)  # one tensor is a frontier, too


def test_a_frontier_of_loops_and_calls() -> None:
    """Carries and results of loops and calls are tensors as others are."""

    @gw.function("cube")
    def cube(a: gw.Tensor) -> gw.Tensor:
        return a * a * a

    g = gw.Graph()
    x, w = g.variable("x", init=np.array(2.0)), g.variable("w", init=np.array(3.0))
    grown, _ = gw.scan(lambda c, _: (c * w, c), x, length=2)  # x·w²
    called = cube(grown)
    y = called * w
    to_call, to_w = gw.gradients(y, [called, w], stop=[called])
    assert float(value(to_call)) == 3.0 and float(value(to_w)) == 18.0**3
    (to_loop,) = gw.gradients(y, [grown], stop=[grown])
    assert float(value(to_loop)) == 3 * 18.0**2 * 3.0
    (through,) = gw.gradients(y, [w], stop=[x])  # x³·w⁷
    assert float(value(through)) == 8 * 7 * 3.0**6
    with pytest.raises(GradientError, match="'x' only behind"):
        gw.gradients(y, [x], stop=[grown])


def test_a_frontier_is_made_of_tensors_of_the_graph() -> None:
    g, other = gw.Graph(), gw.Graph()
    x, foreign = g.variable("x", (), init=1.0), other.variable("y", (), init=1.0)
    y = x * 2.0
    with pytest.raises(GradientError, match="'mul' is no tensor"):
        gw.gradients(y, [x], stop=["mul"])
    with pytest.raises(GraphError, match="'y'"):
        gw.gradients(y, [x], stop=[foreign])


# -- accumulation, broadcasting, dtypes ------------------------------------------------------------


def test_a_tied_tensor_gets_the_sum_of_all_its_uses(rng: np.random.Generator) -> None:
    g = gw.Graph()
    w = g.variable("w", init=rng.standard_normal((3, 3)))
    x = g.constant(rng.standard_normal((2, 3)))
    copies = [g.variable(f"w{i}", init=g.values["w"]) for i in range(4)]

    def network(ws: list[gw.Tensor]) -> gw.Tensor:
        return (gw.exp(x @ ws[0] * 0.1) @ ws[1] + ws[2].sum() * (x @ ws[3])).sum()

    (tied,) = gw.gradients(network([w] * 4), [w])
    parts = gw.gradients(network(copies), copies)
    np.testing.assert_allclose(value(tied), sum(map(value, parts)), rtol=1e-12)


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((1, 1), (2, 3)), ((2, 0), (1, 1))],
)
def test_broadcasting_is_undone_once(
    left: tuple[int, ...], right: tuple[int, ...], rng: np.random.Generator
) -> None:
    g = gw.Graph()
    a, b = rng.standard_normal(left), rng.standard_normal(right)
    x, y = g.variable("x", init=a), g.variable("y", init=b)
    weight = rng.standard_normal(np.broadcast_shapes(left, right))
    dx, dy = gw.gradients(x * y, [x, y], [weight])

    def reduced(full: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        lead = full.ndim - len(shape)
        axes = [*range(lead), *(lead + i for i, d in enumerate(shape) if d == 1)]
        return full.sum(tuple(axes), keepdims=True).reshape(shape)

    np.testing.assert_allclose(value(dx), reduced(weight * b, left), rtol=1e-12)
    np.testing.assert_allclose(value(dy), reduced(weight * a, right), rtol=1e-12)


@pytest.mark.parametrize("rows", [1, 3])
def test_broadcasting_over_a_symbolic_size(rows: int) -> None:
    g = gw.Graph()
    x = g.placeholder("x", (None, 2), "float64")
    b = g.variable("b", init=np.zeros((1, 2)))
    (db,) = gw.gradients(x * b, [b])
    data = np.arange(2.0 * rows).reshape(rows, 2)
    assert value(db, {"x": data}).tolist() == [data.sum(0).tolist()]


def test_cotangents_have_their_primals_dtype() -> None:
    g = gw.Graph()
    x, w = g.variable("x", (2,), init=1.5), g.variable("w", init=np.array([2.0, 3.0]))
    dx, dw = gw.gradients(x * w, [x, w])
    assert (x.dtype, dx.dtype, dw.dtype) == (np.float32, np.float32, np.float64)
    assert value(dx).tolist() == [2, 3]


def test_the_real_part_of_a_cotangent_flows_into_a_real_tensor() -> None:
    g = gw.Graph()
    x = g.variable("x", init=np.array(2.0))
    z = g.constant(np.array(3 + 4j))
    (dx,) = gw.gradients(gw.real(x * z * z), [x])
    assert float(value(dx)) == ((3 + 4j) ** 2).real

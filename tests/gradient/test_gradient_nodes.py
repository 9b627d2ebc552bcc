"""What has no gradient and says so; the derived layer; composites, many outputs, size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradientError, GraphError
from gradwright.op import ZERO, NotDifferentiable
from tests.support.op_values import value

# -- what does not exist ---------------------------------------------------------------------------


def test_an_unreachable_parameter_is_named() -> None:
    g = gw.Graph()
    w, lost = g.variable("w", (2,)), g.variable("hidden/lost", (2,))
    loss = (w * w).sum(name="loss")
    with pytest.raises(GradientError, match=r"'loss' does not depend on 'hidden/lost'") as caught:
        gw.gradients(loss, [w, lost])
    assert "test_gradient_nodes.py" in str(caught.value)
    zeros = gw.gradients(loss, [w, lost], unreachable="zero")[1]
    assert value(zeros).tolist() == [0, 0]


def test_a_vjp_that_returns_no_tuple_is_named():
    @gw.register("test/bare_vjp")
    class BareVjp(gw.Op):
        """Return the input; the vjp forgets the tuple."""

        def infer(self, x):
            return x

        def forward(self, x):
            return x

        def vjp(self, gs, ys, xs):
            return gs[0]

    g = gw.Graph()
    w = g.variable("w", (1,))
    with pytest.raises(GradientError, match="vjp of test/bare_vjp 'bare_vjp' returned <Tensor"):
        gw.gradients(BareVjp()(w).sum(), [w])
    with pytest.raises(TypeError, match=r"BareVjp\(\)\(tensor\)"):
        BareVjp(w)


def test_unreachable_takes_two_words_only() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ())
    with pytest.raises(GradientError, match="'ignore' is not known"):
        gw.gradients(x * x, [x], unreachable="ignore")


def test_a_path_of_zeros_is_zero_not_an_error() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (2,), "float64")
    (dx,) = gw.gradients(gw.zeros_like(x) * 3.0, [x])
    assert value(dx, {"x": [1.0, 2.0]}).tolist() == [0, 0]


@pytest.mark.parametrize("which", ["y", "wrt"])
def test_integers_have_no_gradient(which: str) -> None:
    g = gw.Graph()
    n, x = g.placeholder("n", (), "int64"), g.placeholder("x", ())
    with pytest.raises(GradientError, match="not floating"):
        gw.gradients(n + n if which == "y" else x * x, [n if which == "wrt" else x])


def test_wrt_is_a_list() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ())
    with pytest.raises(GradientError, match="is no list"):
        gw.gradients(x * x, x)
    assert gw.gradients(x * x, []) == []


def test_tensors_of_two_graphs_do_not_mix() -> None:
    a, b = gw.Graph("a"), gw.Graph("b")
    x, y = a.placeholder("x", ()), b.placeholder("y", ())
    with pytest.raises(GraphError, match="another graph"):
        gw.gradients(x * x, [y])


class Lookup(gw.Op):
    """Scale by a table that has no gradient.

    y = a·b
    """

    def infer(self, a: Any, b: Any) -> Any:
        return a.with_shape(a.shape)

    def forward(self, a: Any, b: Any) -> Any:
        return a * b

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return gs[0] * xs[1], NotDifferentiable("the table is a lookup")


def test_not_differentiable_raises_only_when_asked_through() -> None:
    g = gw.Graph()
    x, table = g.placeholder("x", (), "float64"), g.variable("table", init=np.array(4.0))
    y = Lookup()(x, table * 1.0, name="scaled")
    (dx,) = gw.gradients(y, [x])
    assert float(value(dx, {"x": 2.0})) == 4
    with pytest.raises(GradientError, match="the table is a lookup") as caught:
        gw.gradients(y, [x, table])
    assert "lookup 'scaled'" in str(caught.value)


class Opaque(gw.Op):
    """Square, without a word about its gradient.

    y = x²
    """

    def infer(self, x: Any) -> Any:
        return x.with_shape(x.shape)

    def forward(self, x: Any) -> Any:
        return x * x


def test_an_op_without_vjp_is_no_silent_zero() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (), "float64")
    with pytest.raises(GradientError, match="opaque states no vjp"):
        gw.gradients(Opaque()(x), [x])


class Short(Opaque):
    """A vjp that forgets an input.

    y = x²
    """

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return ()


def test_a_vjp_of_the_wrong_length_is_named() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (), "float64")
    with pytest.raises(GradientError, match="'short' returned 0 cotangents for 1 input"):
        gw.gradients(Short()(x), [x])


# -- the derived layer -----------------------------------------------------------------------------


def test_gradients_are_remembered_until_an_edit() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (), "float64")
    y = x * x
    (first,) = gw.gradients(y, [x])
    count = len(g.all_nodes)
    assert gw.gradients(y, [x])[0] is first
    assert len(g.all_nodes) == count
    assert gw.gradients(y, [x], stop=[x * 1.0])[0] is not first
    with g.edit() as e:
        e.insert_after(x, lambda t: t * 3.0)
    with pytest.raises(GraphError, match="no longer in the graph"):
        value(first, {"x": 1.0})
    (again,) = gw.gradients(g["mul"], [x])
    assert float(value(again, {"x": 1.0})) == 18


def test_gradient_nodes_are_derived_and_know_their_origin() -> None:
    g = gw.Graph()
    with g.scope("layer"):
        x = g.placeholder("x", (), "float64")
        y = gw.exp(x, name="e")
    before = list(g.nodes)
    (dx,) = gw.gradients(y, [x])
    assert g.nodes == before
    assert dx.node.derived and dx.node.origin is y.node
    assert dx.name.startswith("grad/layer/e/layer/e")
    assert dx.node in g.derived


def test_the_users_scope_does_not_reach_the_derived_layer() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (), "float64")
    with g.scope("somewhere"):
        (dx,) = gw.gradients(x * x, [x])
    assert not dx.name.startswith("somewhere")


# -- composites, many outputs, size ----------------------------------------------------------------


class Wave(gw.Op):
    """A composite without a gradient of its own.

    y = a·eˣ
    """

    a: float = gw.attr(2.0, doc="Factor.")

    def expand(self, x: Any) -> Any:
        return gw.exp(x) * self.a


def test_a_composite_is_differentiated_through_its_expansion() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (2,), "float64")
    y = Wave(a=3.0)(x)
    for _ in range(3):
        (y,) = gw.gradients(y, [x])
        at = np.array([0.5, -1.0])
        np.testing.assert_allclose(value(y, {"x": at}), 3 * np.exp(at), rtol=1e-14)
    assert y.node.op.name == "pullback"


class Pair(gw.Op):
    """Square and cube at once.

    y = x², z = x³
    """

    def infer(self, x: Any) -> Any:
        return x.with_shape(x.shape), x.with_shape(x.shape)

    def forward(self, x: Any) -> Any:
        return x * x, x * x * x

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        x, total = xs[0], None
        for g, slope in zip(gs, (x * 2.0, x * x * 3.0), strict=True):
            if g is not ZERO:
                total = g * slope if total is None else total + g * slope
        return (total,)


@pytest.mark.parametrize(("which", "slope"), [((0,), 6), ((1,), 27), ((0, 1), 33)])
def test_only_used_outputs_have_a_cotangent(which: tuple[int, ...], slope: float) -> None:
    g = gw.Graph()
    x = g.placeholder("x", (), "float64")
    ys = Pair()(x)
    (dx,) = gw.gradients([ys[i] for i in which], [x])
    assert float(value(dx, {"x": 3.0})) == slope


def test_a_long_chain_does_not_recurse() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (), "float64")
    y = x
    for _ in range(5_000):
        y = y + x
    (dx,) = gw.gradients(y, [x])
    assert float(value(dx, {"x": 0.0})) == 5_001


class Murky(gw.Op):
    """The input; nobody knows its gradient.

    y = x
    """

    def infer(self, x):
        return x

    def forward(self, x):
        return x.copy()

    def vjp(self, gs, ys, xs):
        return (gw.NotDifferentiable("nobody knows"),)


def test_what_lies_behind_stop_gradient_needs_no_gradient():
    g = gw.Graph()
    x = g.placeholder("x", (2,), "float64")
    y = gw.sum(Murky()(gw.stop_gradient(x)) * x)
    (dx,) = gw.gradients(y, [x])
    np.testing.assert_array_equal(g.output({"x": [3.0, 4.0]}, dx)[dx.name], [3.0, 4.0])
    with pytest.raises(GradientError, match="nobody knows"):
        gw.gradients(gw.sum(Murky()(x)), [x])

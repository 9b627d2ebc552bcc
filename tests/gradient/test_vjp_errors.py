"""What a vjp of the user's may do wrong: op, node, line, and what was needed are in the message."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradientError, GraphError, ShapeError

NAMED = "vjp of test/bad 'bad' "
PLACE = r"made at test_vjp_errors.py:\d+"


def two_inputs(vjp: Callable[..., Any]) -> tuple[gw.Tensor, gw.Tensor]:
    op = gw.define_op("test/bad", lambda x, z: x * z, vjp=vjp)
    g = gw.Graph()
    x = g.variable("x", (3,))
    return op(x, 2.0).sum(), x


@pytest.mark.parametrize(
    ("vjp", "message"),
    [
        (lambda g, y, x, z: g * z, r"returned 1 cotangents for 2 inputs"),
        (lambda g, y, x, z: [g, g, g], r"returned 3 cotangents for 2 inputs"),
        (lambda g, y, x, z: (np.ones(3), None), r"returned ndarray for 'x' : f32\[3\]"),
        (lambda g, y, x, z: (1.0, None), r"returned float for 'x' : f32\[3\]"),
        (lambda g, y, x, z: (g.astype("int32"), None), r"returned i32\[3\] for 'x' : f32\[3\]"),
        (lambda g, y, x, z: (x > 0, None), r"returned bool\[3\] for 'x' : f32\[3\]"),
        (lambda g, y, x, z: (gw.concat([g, g]), None), r"returned f32\[6\] for 'x' : f32\[3\]"),
        (lambda g, y, x, z: (g.missing, None), r"failed: AttributeError: "),
        (lambda g, y, x, z: list(zip([1], [2, 3], strict=True)), r"failed: ValueError: zip"),
    ],
)
def test_what_is_no_cotangent_is_refused(vjp: Callable[..., Any], message: str) -> None:
    loss, x = two_inputs(vjp)
    before = len(loss.graph.all_nodes)
    with pytest.raises(GradientError, match=NAMED + message) as caught:
        gw.gradients(loss, [x])
    assert re.search(PLACE, str(caught.value)) and "need:" in str(caught.value)
    nodes = loss.graph.all_nodes
    assert all(n.derived for n in nodes[before:])
    assert loss.graph.output({}, loss)[loss.name] == 0  # what is half built hinders nobody


def test_the_line_in_the_vjp_is_named_where_its_ops_do_not_fit() -> None:
    loss, x = two_inputs(lambda g, y, x, z: (g @ gw.concat([x, x]), None))
    with pytest.raises(ShapeError) as caught:
        gw.gradients(loss, [x])
    text = str(caught.value)
    assert "in the vjp of test/bad 'bad'" in text and re.search(PLACE, text)
    assert re.search(r"raised at test_vjp_errors.py:\d+", text)


class Worse(gw.Op):
    """A product whose vjp fails where the cotangent is made.

    y = 2x
    """

    name = "test/worse"

    def infer(self, x: Any) -> Any:
        return x.with_shape(x.shape)

    def forward(self, x: Any) -> Any:
        return 2 * x

    def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
        return (lambda: gs[0] * len(3),)  # type: ignore[arg-type]


def test_a_cotangent_that_is_made_late_fails_with_the_same_words() -> None:
    g = gw.Graph()
    x = g.variable("x", (3,))
    loss = Worse()(x, name="worse").sum()
    with pytest.raises(GradientError, match="vjp of test/worse 'worse' failed: TypeError: "):
        gw.gradients(loss, [x])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"vjp": lambda g, y, x: g}, r"test/arity: vjp takes \(g, y, x\)"),
        ({"vjp": lambda g, y, x, z: g}, r"need: vjp\(g, y, x, z, cap\)"),
        ({"infer": lambda x, z: x}, r"test/arity: infer takes \(x, z\)"),
        ({"infer": lambda x, cap: x}, r"need: infer\(x, z, cap\)"),
        ({"vjp": 3}, r"test/arity: vjp is 3"),
    ],
)
def test_functions_of_other_parameters_are_refused_where_an_op_is_defined(
    wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        gw.define_op("test/arity", lambda x, z, cap=1.0: x * z, **wrong)


@pytest.mark.parametrize("infer", [lambda x: x.shape, lambda x: 3, lambda x: x.nothing])
def test_an_infer_that_says_no_spec_names_the_node(infer: Callable[..., Any]) -> None:
    op = gw.define_op("test/shapeless", lambda x: x, infer=infer)
    g = gw.Graph()
    x = g.variable("x", (3,))
    with pytest.raises(GraphError, match=r"'here' \(test_vjp_errors.py:\d+\): infer"):
        op(x, name="here")
    assert "here" not in g


def test_nodes_of_a_gradient_point_to_the_line_of_their_forward_node() -> None:
    g = gw.Graph()
    w = g.variable("w", (3,))
    loss = gw.exp(w * 2.0, name="here").sum()
    line = g.node("here").where
    (dw,) = gw.gradients(loss, [w])
    (second,) = gw.gradients(dw.sum(), [w])
    found = [n for n in gw.graph.ancestors([dw, second]) if n.name.startswith("grad/sum/here")]
    assert len(found) >= 1 and {n.where for n in found} == {line}


@pytest.mark.parametrize("vjp", [lambda g, y, x: (g / 2.0,), lambda g, y, x: (g,)])
def test_a_vjp_of_a_class_is_told_that_it_gets_lists(vjp: Callable[..., Any]) -> None:
    """A function given to define_op gets tensors; a method does not."""

    class Listed(gw.Op):
        """The input.

        y = x
        """

        def infer(self, x: Any) -> Any:
            return x.with_shape(x.shape)

        def forward(self, x: Any) -> Any:
            return x.copy()

        def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
            return vjp(gs, ys, xs)

    x = gw.Graph().variable("x", (3,))
    with pytest.raises(GradientError, match=r"vjp\(self, gs, ys, xs\), with one entry per output"):
        gw.gradients(Listed()(x).sum(), [x])

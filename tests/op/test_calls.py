"""How functions of ops are called: lists, positions, and what is refused with which words."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, LoweringError, ShapeError
from gradwright.op import Op, attr


@pytest.fixture
def x():
    return gw.Graph().placeholder("x", (2, 3))


def test_a_list_of_tensors_and_then_the_axis(x):
    assert gw.concat([x, x], 1).node.op == gw.concat(x, x, axis=1).node.op
    assert gw.stack((x, x), -1).shape == gw.stack(x, x, axis=-1).shape == (2, 3, 2)
    assert gw.add_n([x, x]).shape == gw.add_n(x, [1.0, 2.0, 3.0]).shape == (2, 3)
    assert gw.add_n([1.0, 2.0, 3.0], x).shape == (2, 3)


def test_a_shape_of_one_dimension_is_a_number():
    with gw.Graph():
        assert gw.random.normal(3).shape == gw.random.uniform((3,)).shape == (3,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: gw.nn.softmax(x, axis="rows"), "softmax: axis='rows' does not fit"),
        (lambda x: gw.nn.softmax(x, True), "softmax: axis=True does not fit"),
        (lambda x: gw.sum(x, 0, 1), "sum: keepdims=1 does not fit"),
        (lambda x: gw.one_hot(gw.argmax(x, 1), 3.0), "one_hot: depth=3.0 does not fit"),
        (lambda x: gw.nn.dropout(x, "half"), "dropout: p='half' does not fit"),
        (lambda x: gw.nn.softmax(x, x), "axis of softmax: Tensor cannot be an attribute"),
        (lambda x: gw.exp(None), "exp got None for 'x'"),
        (lambda x: x + None, "add got None for 'b'"),
    ],
)
def test_what_does_not_fit_is_named(x, call, message):
    with pytest.raises(GraphError, match="^" + message.replace("(", r"\(")), x.graph:
        call(x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: gw.sum(x, 0.5), "axis 0.5 is not a whole number"),
        (lambda x: gw.mean(x, (0, 0)), "named twice"),
        (lambda x: gw.mean(x, (1, -1)), "named twice"),
        (lambda x: gw.flip(x, (0, -2)), "named twice"),
        (lambda x: gw.squeeze(x[:1], (0, 0)), "named twice"),
    ],
)
def test_axes_that_do_not_exist_are_named(x, call, message):
    with pytest.raises(ShapeError, match=message):
        call(x)


def test_an_op_of_a_notebook_may_annotate_with_types():
    class Raised(Op):
        """A power of the input."""

        power = attr(2, doc="Exponent.")
        scale = attr(1.0, doc="Factor.")
        __annotations__ = {"power": int, "scale": float | None}

        def infer(self, x):
            return x

    assert [a.type for a in Raised.attrs.values()] == ["int", "float | None"]
    assert Raised(power=3, scale=None).power == 3
    with pytest.raises(GraphError, match="power='3' does not fit"):
        Raised(power="3")


def test_an_op_that_returns_nothing_is_named():
    @gw.register("test/no_spec")
    class NoSpec(gw.Op):
        """Forget to return from infer."""

        def infer(self, x):
            pass

    @gw.register("test/no_result")
    class NoResult(gw.Op):
        """Forget to return from expand."""

        def expand(self, x):
            pass

    x = gw.Graph().placeholder("x", (2,))
    for op, place in (
        (NoSpec(), "infer of test/no_spec"),
        (NoResult(), "expand of test/no_result"),
    ):
        with pytest.raises(GraphError, match=place):
            op(x)


@pytest.mark.parametrize("device", ["cpu", "guard"])
def test_a_forward_that_writes_into_its_input_changes_no_variable(device):
    @gw.register("test/writes_input")
    class WritesInput(gw.Op):
        """Add 1 in place, which is not allowed."""

        def infer(self, x):
            return x

        def forward(self, x):
            x += 1
            return x

    g = gw.Graph()
    w = g.variable("w", (2,), init=[1.0, 2.0])
    y = WritesInput()(w, name="y")
    with gw.Session(g, device) as session, pytest.raises(LoweringError, match=r"'y'.*read-only"):
        session.run(y)
    assert "read-only" in str(gw.Stepper(g, [y]).run())
    assert g.values["w"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: gw.nn.softmax(x, dim=1), "did you mean gw.nn.softmax(x, axis=1)?"),
        (lambda x: x.mean(keepdim=True), "did you mean x.mean(keepdims=True)?"),
        (lambda x: gw.relu(x), "did you mean gw.nn.relu(x)?"),
        (lambda x: gw.nn.ReLU()(x), "did you mean gw.nn.relu(x)?"),
        (lambda x: gw.cat([x, x]), "did you mean gw.concat([x, x])?"),
        (lambda x: x.view(3, 2), "did you mean x.reshape(3, 2)?"),
        (lambda x: x.expand(3, 2), "did you mean x.broadcast_to((3, 2))?"),
        (lambda x: x.sum().backward(), "did you mean gw.gradients(x.sum(), g.trainable)?"),
        (lambda x: gw.tensor([1.0]), "did you mean g.constant([1.0])?"),
        (lambda x: gw.zeros((2,)), "did you mean gw.full((2,), 0.0)?"),
        (lambda x: gw.nn.L1Loss(), "did you mean gw.loss.absolute_difference(target, input)?"),
        (lambda x: gw.nn.BCELoss(), "did you mean gw.loss.log_loss(target, input)?"),
        (lambda x: gw.nn.Conv2DTranspose(), "did you mean gw.cnn.conv_transpose2d(x, weight)?"),
        (lambda x: gw.nn.linear(x, np.ones((4, 3))), "try:  weight.T"),
        (lambda x: gw.cnn.conv2d(x[None, :, :, None], np.ones((1, 1, 3, 2))), "try:  gw.transpose"),
        (
            lambda x: gw.optim.Adam(lr=1e-3),
            "Adam has no 'lr'.*did you mean gw.optim.Adam(learning_rate=0.001)?",
        ),
        (lambda x: gw.optim.Adam(betas=(0.9, 0.99)), "it has learning_rate, beta1, beta2, eps"),
        (lambda x: x.numpy(), "did you mean x.eval(feeds)?.*Session.run"),
        (lambda x: np.sum(x), "numpy's sum cannot take tensor 'x'.*use gw.sum"),
        (lambda x: np.frexp(x), "numpy's frexp cannot take tensor 'x'"),
        (lambda x: np.add.reduce(x), "numpy's add cannot take tensor 'x'"),
    ],
)
def test_what_was_probably_meant_is_named(x, call, message):
    with pytest.raises((TypeError, AttributeError, ShapeError)) as caught:
        call(x)
    assert all(part in str(caught.value) for part in message.split(".*"))


def test_a_name_that_is_like_no_other_gets_no_hint():
    for owner in (gw, gw.nn):
        with pytest.raises(AttributeError) as caught:
            owner.frobnicate  # noqa: B018
        assert "mean" not in str(caught.value)
    assert not hasattr(gw.Graph().placeholder("x", ()), "frobnicate")


def test_numpy_functions_and_operators_build_graph(x):
    value = np.array([[0.5, 1.0, 2.0], [3.0, 4.0, 5.0]], np.float32)
    other = np.array([1.0, -2.0, 0.5], np.float32)
    cases = [
        lambda x: np.exp(x),
        lambda x: np.maximum(other, x),
        lambda x: other - x,
        lambda x: np.float32(2) / x,
        lambda x: other > x,
        lambda x: (other > 0) & (x > 1),
        lambda x: np.ones((4, 2), np.float32) @ x,
        lambda x: np.arctan2(np.float32(1), x),
    ]
    for case in cases:
        built = case(x)
        assert isinstance(built, gw.Tensor)
        np.testing.assert_allclose(
            x.graph.output({"x": value}, built)[built.name], case(value), rtol=1e-6
        )


def test_a_signature_says_how_many_results_there_are_and_what_may_be_left_out():
    signatures = [inspect.signature(f) for f in (gw.nn.kv_cache_update, gw.split, gw.nn.relu)]
    returned = [s.return_annotation for s in signatures]
    assert returned == ["tuple[Tensor, Tensor]", "tuple[Tensor, ...]", "Tensor"]
    assert inspect.signature(gw.nn.linear).parameters["bias"].annotation == "Tensor | None"


def test_a_missing_input_is_named_with_all_that_is_taken(x):
    with pytest.raises(TypeError) as caught:
        gw.nn.linear(x)
    takes = "takes (x, weight, bias=None, *, name=None)"
    assert str(caught.value) == f"linear needs the input 'weight'; it {takes}"


def test_the_choices_of_an_attribute_are_documented():
    assert "approximate: Exact, or by tanh. One of 'none', 'tanh'." in (gw.nn.gelu.__doc__ or "")

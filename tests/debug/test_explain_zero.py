"""Why a gradient is zero: planted causes, each named with the op that kills it."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GradientError
from tests.debug.explained import FEEDS, Net, T, X, held_against_the_gradient, recurrence

# -- ops without a slope ---------------------------------------------------------------------------


def test_dead_units() -> None:
    """All relus off: the first layer gets nothing since they are flat, the second since h is 0."""
    net = Net(bias=-50.0)
    loss = net.loss()
    first = net.why(loss)
    assert (first.verdict, first.zeros, first.culprits) == ("zero", 1.0, ("layer0/relu",))
    assert first.causes[0].kind == "flat"
    assert "at all 512 elements" in first.text and "a slope only above 0" in first.text
    assert first.steps[-1].address.node == "layer0/matmul"
    second = net.why(loss, "out/w")
    assert second.causes[0].kind == "zero factor"
    assert "multiplied by 'layer0/relu', which is all 0" in second.text


def test_some_dead_units_are_counted() -> None:
    net = Net()
    net.g.values["layer0/b"] = np.where(np.arange(16) < 9, -50, 0).astype("f4")
    found = net.why(net.loss())
    assert found.verdict == "ordinary"
    assert round(found.zeros * 16) == 9
    assert "9 of 16 columns have none in any row" in found.text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("round", "a step function"),
        ("floor", "a step function"),
        ("clip", "a slope only above -1 and below 1"),
        ("relu6", "a slope only above 0 and below 6"),
    ],
)
def test_flat_functions(name: str, words: str) -> None:
    net = Net(bias=30.0)
    made = {
        "round": lambda h: gw.round(h),
        "floor": lambda h: gw.floor(h),
        "clip": lambda h: gw.clip(h, -1.0, 1.0),
        "relu6": lambda h: gw.nn.relu6(h),
    }[name](net.h)
    made.rename("flat")
    found = net.why(net.loss(made @ net.w2))
    assert (found.verdict, found.causes[0].kind) == ("zero", "flat")
    assert found.culprits == ("flat",)
    assert words in found.text


def test_a_function_of_the_users_own() -> None:
    """Nothing is known of it but its forward and vjp."""
    gate = gw.define_op(
        "explained/gate",
        lambda x: np.where(np.abs(x) > 2.0, x, 0.0),
        vjp=lambda g, y, x: gw.where(gw.abs(x) > 2.0, g, 0.0),
    )
    net = Net(gw.tanh)
    found = net.why(net.loss(gate(net.h, name="gate") @ net.w2))
    assert (found.verdict, found.causes[0].kind, found.culprits) == ("zero", "flat", ("gate",))


# -- factors and masks -----------------------------------------------------------------------------


def test_a_mask_that_is_zero() -> None:
    """The square is flat at 0 because of the mask; the mask itself would stop it next."""
    net = Net()
    mask = net.g.placeholder("mask", ("B",))
    loss = gw.square(net.z * mask.reshape(-1, 1)).mean(name="loss")
    found = net.why(loss, mask=np.zeros(32))
    assert [c.kind for c in found.causes] == ["flat", "zero factor"]
    assert "since 'mask' is" in found.causes[0].text
    assert found.causes[1].text.startswith("behind that, it dies at mul 'mul'")


def test_a_choice() -> None:
    net = Net()
    keep = net.g.placeholder("keep", ("B",), "bool")
    chosen = gw.where(keep.reshape(-1, 1), net.z, 1.0, name="chosen")
    loss = net.loss(chosen)
    found = net.why(loss, keep=np.zeros(32, bool))
    assert (found.causes[0].kind, found.culprits) == ("masked", ("chosen",))
    assert "is false at all 128 elements" in found.text
    most = np.zeros(32, bool)
    most[3] = True
    partly = net.why(loss, keep=most)
    assert partly.verdict == "ordinary"
    assert any(s.kind == "masked" and "97%" in s.reason for s in partly.steps)


def test_weights_that_start_at_zero() -> None:
    net = Net(out=0.0)
    loss = net.loss()
    found = net.why(loss)
    assert (found.causes[0].kind, found.culprits) == ("zero factor", ("matmul",))
    assert "multiplied by 'out/w', which is all 0" in found.text
    assert net.why(loss, "out/w").verdict == "ordinary"


def test_rows_that_are_never_read() -> None:
    g = gw.Graph()
    table, i = g.variable("table", (50, 4), init=1.0), g.placeholder("i", ("B",), "int64")
    loss = gw.square(gw.gather(table, i)).mean(name="loss")
    found = gw.explain_gradient(g, loss, table, {"i": [1, 2, 2]})
    assert found.zeros == 48 / 50
    assert (found.causes[0].kind, found.verdict) == ("unread", "ordinary")
    assert "2 of 50 rows" in found.text


# -- what cancels ----------------------------------------------------------------------------------


def test_rows_of_a_softmax_add_up_to_one() -> None:
    net = Net()
    found = net.why(gw.nn.softmax(net.z, name="p").sum(name="loss"))
    assert (found.verdict, found.culprits) == ("zero", ("p",))
    assert found.causes[0].kind == "cancels exactly"


def test_a_bias_before_a_batch_norm() -> None:
    """What all rows have in common, the norm takes away."""
    g = gw.Graph()
    x, b = g.placeholder("x", ("B", 8)), g.variable("b", (8,), init=0.5)
    scale, shift = g.variable("scale", (8,), init=1.0), g.variable("shift", (8,))
    y = gw.nn.batch_norm(gw.add(x, b, name="biased"), scale, shift, name="bn")
    loss = gw.square(gw.sin(y)).mean(name="loss")
    found = gw.explain_gradient(g, loss, b, {"x": X})
    assert (found.verdict, found.causes[0].kind) == ("zero", "cancels exactly")
    fixed = gw.explain_gradient(g, loss, b, {"x": X}, training=False)
    assert fixed.verdict == "ordinary"


def test_uses_that_cancel() -> None:
    g = gw.Graph()
    x, w = g.placeholder("x", ("B", 8)), g.variable("w", (8,), init=1.0)
    h = gw.mul(x, w, name="h")
    loss = ((h - h.mean(0)).sum() + 1.0).rename("loss")
    found = gw.explain_gradient(g, loss, w, {"x": X})
    assert (found.verdict, found.culprits) == ("zero", ("h",))
    assert "the uses of 'h'" in found.text


# -- what is no path -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (lambda h: gw.stop_gradient(h, name="cut"), "detaches it"),
        (lambda h: gw.cast(h * 9.0, "int64", name="cut").astype("float32"), "gives i64[32, 16]"),
        (lambda h: gw.greater(h, 0.0, name="cut").astype("float32"), "gives bool[32, 16]"),
        (lambda h: gw.argsort(h, name="cut").astype("float32"), "gives i64[32, 16]"),
    ],
    ids=["stop_gradient", "cast", "comparison", "argsort"],
)
def test_detached(cut: object, words: str) -> None:
    net = Net()
    found = net.why(net.loss(cut(net.h) @ net.w2))  # type: ignore[operator]
    assert (found.verdict, found.causes[0].kind, found.culprits) == (
        "unreachable", "detached", ("cut",)
    )  # fmt: skip
    assert words in found.text
    assert np.isnan(found.norm)


def test_a_branch_that_is_detached() -> None:
    """The gradient is there, by the other branch; that one path ends is said."""
    net = Net(depth=2)
    both = net.g["layer0/relu"] + gw.stop_gradient(net.h, name="cut")
    loss = net.loss(both @ net.w2)
    found = net.why(loss)
    assert (found.verdict, found.culprits) == ("ordinary", ("cut",))
    assert net.why(loss, "layer1/w").verdict == "unreachable"


def test_unused_and_frozen() -> None:
    net = Net()
    net.g.variable("extra", (3,))
    loss = net.loss()
    found = net.why(loss, "extra")
    assert (found.verdict, found.causes[0].kind) == ("unreachable", "unused")
    net.g.freeze("layer0/w")
    frozen = net.why(loss)
    assert (frozen.verdict, frozen.causes[-1].kind) == ("ordinary", "frozen")


# -- numbers that are too small for the dtype ------------------------------------------------------


@pytest.mark.parametrize(("dtype", "tiny"), [("float32", 1e-24), ("float16", 1e-3)])
def test_underflow(dtype: str, tiny: float) -> None:
    net = Net(dtype=dtype)
    loss = (gw.square(net.z).mean() * tiny * tiny).rename("loss")
    found = gw.explain_gradient(net.g, loss, "layer0/w", {"x": X.astype(dtype), "t": T})
    assert (found.verdict, found.causes[0].kind) == ("zero", "underflow")
    assert f"is 0 in {dtype}" in found.text
    wide = Net(dtype="float64")
    loss = (gw.square(wide.z).mean() * tiny * tiny).rename("loss")
    assert wide.why(loss).verdict == "small"


def test_a_sequence_is_not_followed() -> None:
    """Its length is told, and no reason is made up."""
    g = gw.Graph()
    x = g.variable("x", (3,), init=1.0)
    items = gw.sequence.map(lambda v: v * v, gw.sequence.construct(x * 2.0, x * 3.0))
    loss = gw.sequence.at(items, 0).sum(name="loss")
    found = gw.explain_gradient(g, loss, x)
    held_against_the_gradient(found, g, loss, {})
    assert (found.verdict, found.causes[0].kind) == ("ordinary", "unfollowed")
    assert "'construct' gives, seq(f64[3])" in found.text


def test_residuals_are_not_followed() -> None:
    """A loss made of a loop's gradient reads the tape of the loop."""
    g, loss = recurrence(0.8, turns=5)
    (slope,) = gw.gradients(loss, [g["w"]])
    second = gw.square(slope).sum(name="second")
    feeds = {"x": np.ones((5, 6))}
    found = gw.explain_gradient(g, second, "h0", feeds)
    held_against_the_gradient(found, g, second, feeds)
    assert (found.verdict, found.causes[0].kind) == ("ordinary", "unfollowed")
    assert "scan 'rnn' keeps for its gradient" in found.text


def test_what_does_not_fit() -> None:
    net = Net()
    with pytest.raises(GradientError, match="not a scalar"):
        gw.explain_gradient(net.g, net.z, "layer0/w", FEEDS)
    with pytest.raises(GradientError, match="not floating"):
        gw.explain_gradient(net.g, net.loss(), "t", FEEDS)
    with pytest.raises(FeedError, match="not fed"):
        gw.explain_gradient(net.g, net.g["loss"], "layer0/w", {"x": X})


def test_nothing_is_changed() -> None:
    net = Net()
    loss = net.loss()
    nodes, before = len(net.g.all_nodes), {k: v.copy() for k, v in net.g.values.items()}
    gw.explain_gradient(net.g, loss, "layer0/w", FEEDS)
    assert len(net.g.all_nodes) == nodes
    for name, array in before.items():
        np.testing.assert_array_equal(net.g.values[name], array)


def test_an_empty_batch_is_said_to_be_empty() -> None:
    net = Net()
    found = gw.explain_gradient(
        net.g, gw.sum(net.g["layer0/relu"]), "layer0/w", {"x": np.zeros((0, X.shape[1]))}
    )
    assert found.verdict == "zero"
    assert "nothing comes in: x has no element" in found.text


@pytest.mark.parametrize("name", ["w", "e"])
def test_a_parameter_without_elements_is_all_there_is_to_say(name):
    g = gw.Graph()
    x, w, e = g.placeholder("x", (None, 2)), g.variable("w", (2, 0)), g.variable("e", (0, 3))
    v = gw.concat([g.variable("v", (2, 3), init=1.0), e], axis=0)
    loss = gw.mean(gw.nn.relu(gw.concat([x @ v, x @ w], axis=1)), name="loss")
    why = gw.explain_gradient(g, loss, name, {"x": np.ones((3, 2))})
    shape = list(g[name].shape)
    assert why.verdict == "zero"
    assert [c.text for c in why.causes] == [f"{name!r} has no elements, its shape is {shape}"]
    assert why.culprits == (name,)
    assert name in str(why) and why._repr_html_()

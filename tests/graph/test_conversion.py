"""Conversions in place: dtypes of sources, and values frozen as constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, FeedError, GraphBusyError, GraphError, ShapeError

X = np.random.default_rng(0).standard_normal((5, 3))


def network(dtype: str = "float32") -> gw.Graph:
    """Return a graph with numbers on the way, in a loop, a branch and a call."""
    g = gw.Graph("net")
    x = g.placeholder("x", ("B", 3), dtype)
    w = g.variable("w", init=np.arange(9.0).reshape(3, 3) / 8, dtype=dtype)

    @gw.function("block")
    def block(a: gw.Tensor) -> gw.Tensor:
        return gw.tanh(a) * 0.5 + w

    h = gw.nn.relu(x @ w + 0.25) * 2
    total, _ = gw.scan(lambda c, v: (c * 0.5 + v, c), h[0] * 1.0, h)
    chosen = gw.cond(total.sum() > 0.0, lambda: total * 0.125, lambda: -total)
    gw.identity(block(h[:3]) / (1.0 + chosen), name="y")
    return g


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
@pytest.mark.parametrize("through", [lambda g, path: g, "file"])
def test_a_converted_graph_is_the_one_built_in_that_dtype(
    dtype: str, through: Any, tmp_path: Any
) -> None:
    """Numbers beside tensors take their dtype again, in bodies, too, and after a file."""
    g = network()
    if through == "file":
        g.save(tmp_path / "net.gw")
        g = gw.load(tmp_path / "net.gw")
    g.convert({"x": dtype, "w": dtype})
    built = network(dtype)
    assert [str(g[n].spec) for n in ("x", "w", "y")] == [
        str(built[n].spec) for n in ("x", "w", "y")
    ]
    (dw,), (expected,) = (
        gw.gradients(g["y"].sum(), [g["w"]]),
        gw.gradients(built["y"].sum(), [built["w"]]),
    )
    found = g.output({"x": X}, "y", dw).values()
    for ours, theirs in zip(found, built.output({"x": X}, "y", expected).values(), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_values_are_rounded_and_names_stay() -> None:
    g = gw.Graph()
    w = g.variable("a/w", init=np.float64([1 + 2.0**-8 + 2.0**-40, -3.0]))
    c, flag = g.constant([1.5, -2.75], "c"), g.constant([True, False], "flag")
    held = g.values.snapshot()
    g.convert({w: "bfloat16", "c": "int8", "flag": "float32"})
    assert g["a/w"] is w and w.trainable and w.dtype.name == "bfloat16"
    assert g.values["a/w"].astype(float).tolist() == [1.0078125, -3.0]  # rounded once
    assert [g.values[t.name].tolist() for t in (c, flag)] == [[1, -2], [1.0, 0.0]]
    assert held["a/w"].dtype == np.float64 and held["a/w"][0] != 1.0078125


def test_small_integers_are_known_after_a_conversion() -> None:
    g = gw.Graph()
    shape = g.constant(np.int64([2, 3]), "shape")
    y = g.placeholder("x", (6,)).reshape(shape)
    g.convert({"shape": "int32"})
    assert y.shape == (2, 3) and shape.dtype == np.int32
    assert g.output({"x": np.arange(6.0)}, y)["reshape"].shape == (2, 3)


Change = Callable[[gw.Graph], Any]
REFUSED: dict[str, tuple[Change, type[Exception], str]] = {
    "computed": (lambda g: g.convert({"mul": "float64"}), GraphError, "gw.cast"),
    "text": (lambda g: g.convert({"s": "float32"}), DTypeError, "numbers on both sides"),
    "to text": (lambda g: g.convert({"w": "str"}), DTypeError, "numbers on both sides"),
    "trained": (lambda g: g.convert({"w": "int64"}), DTypeError, "has no gradient"),
    "complex": (lambda g: g.convert({"z": "float32"}), DTypeError, "imaginary part"),
    "range": (lambda g: g.convert({"big": "int8"}), DTypeError, "'big': values do not fit"),
    "overflow": (lambda g: g.convert({"large": "float16"}), DTypeError, "beyond the range"),
    "nan": (lambda g: g.convert({"nan": "int8"}), DTypeError, "not finite"),
    "an op": (lambda g: g.convert({"w": "float64", "i": "float32"}), DTypeError, "gather"),
    "an update": (lambda g: g.convert({"w": "float64", "v": "float64"}), ShapeError, "of 'steps'"),
    "name": (lambda g: g.convert({"wrong": "float32"}), GraphError, "wrong"),
    "no dict": (lambda g: g.convert(["w"]), GraphError, "a dict"),
    "no feed": (lambda g: g.to_constant("x"), FeedError, "'x'"),
    "feed": (lambda g: g.to_constant("x", feeds={"x": [1.0]}), FeedError, "'x'"),
    "one of two": (lambda g: g.to_constant("split:1"), GraphError, "one of several outputs"),
    "gradient": (lambda g: g.to_constant(g.derived[-1].outputs[0]), GraphError, "derived layer"),
    "constant": (lambda g: g.to_constant("big"), GraphError, "is a constant"),
    "downstream": (lambda g: g.to_constant("n", feeds={"n": [7, 1]}), ShapeError, "reshape"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_refused_changes_nothing(why: str) -> None:
    g = gw.Graph()
    x, w, v = g.placeholder("x", (2,)), g.variable("w", (2,), init=2.0), g.variable("v", (2,))
    i = g.constant([0, 1], "i")
    g.constant(np.array("a", "T"), "s")
    g.constant(1j, "z")
    g.constant([300], "big")
    g.constant([np.nan], "nan")
    g.constant([3e38, np.inf], "large")
    n = g.placeholder("n", (2,), "int64")
    steps = g.variable("steps", (2,), trainable=False)
    y = gw.gather(w * x, i) * 0.5
    y.reshape(n)
    gw.split(y, 2)
    g.update(steps, steps + v)
    gw.gradients(y.sum(), [w])
    before = [(n, n.op, n.inputs, [(t, str(t.spec)) for t in n.outputs]) for n in g.nodes]
    values, updates = g.values.snapshot(), dict(g.updates.declared)
    change, error, says = REFUSED[why]
    with pytest.raises(error, match=says):
        change(g)
    after = [(n, n.op, n.inputs, [(t, str(t.spec)) for t in n.outputs]) for n in g.nodes]
    assert after == before and g.updates.declared == updates and w.trainable
    assert all(g.values[k].tobytes() == a.tobytes() for k, a in values.items() if k != "s")
    assert g.output({"x": [1.0, 3.0]}, y)[y.name].tolist() == [1.0, 3.0]


def test_training_goes_on_in_another_dtype() -> None:
    """The loss falls, and checks hold in the new dtype."""
    g = gw.Graph()
    x = g.placeholder("x", ("B", 3))
    w = g.variable("w", (3, 2), init=gw.init.he_normal(seed=1))
    loss = ((x @ w - 1.0) ** 2).mean()
    trainer = gw.Trainer(g, loss, gw.optim.Adam(1e-2))
    losses = [trainer.step({"x": X}).metrics["loss"] for _ in range(3)]
    g.convert({"x": "float64", "w": "float64"})
    losses += [trainer.step({"x": X}).metrics["loss"] for _ in range(3)]
    assert losses == sorted(losses, reverse=True) and g.values["w"].dtype == np.float64
    assert gw.gradient_check(g, loss, {"x": X}).passed


def test_any_tensor_becomes_a_constant() -> None:
    """Computed ones, placeholders, variables, at once; what came before goes its own way."""
    g = gw.Graph()
    x, w = g.placeholder("x", ("B", 3)), g.variable("w", init=np.float32(np.eye(3)))
    h = gw.nn.relu(x @ w, name="h")
    y = gw.max(h, axis=0) * w.sum(1) + g.placeholder("b", (3,))
    h_is = np.maximum(X, 0).astype(np.float32)
    g.to_constant(h, "w", "b", feeds={"x": X, "b": [1.0, 2.0, 3.0]})
    assert [g[n].kind for n in ("h", "w", "b")] == ["constant"] * 3 and h.node.inputs == ()
    assert str(h.spec) == "f32[5, 3]" and g.trainable == []
    np.testing.assert_allclose(
        g.output({}, y)[y.name], h_is.max(0) + np.float32([1, 2, 3]), rtol=1e-6
    )
    with pytest.raises(GraphError, match="is a constant"):
        g.values["h"] = h_is
    g.to_variable("h")
    (dh,) = gw.gradients(y.sum(), [h])
    assert g.output({}, dh)[dh.name].sum() == 3.0


def test_residuals_go_with_what_computed_them() -> None:
    """A maximum keeps where it was for its gradient, which nobody asks for any more."""
    g = gw.Graph()
    x = g.variable("x", init=np.float32(X[None, None]))
    pooled = gw.cnn.max_pool2d(x, 2, name="pooled")
    loss = (pooled * g.variable("s", (), init=2.0)).sum()
    gw.gradients(loss, [x])
    g.to_constant(pooled)
    assert len(pooled.node.outputs) == 1
    (ds,) = gw.gradients(loss, [g["s"]])
    expected = X[:4, :2].reshape(2, 2, 1, 2).max((1, 3)).sum()
    np.testing.assert_allclose(g.output({}, ds)[ds.name], expected, rtol=1e-6)
    with pytest.raises(GraphBusyError), g.running():
        g.to_constant("x")

"""Why a gradient is small, large or not finite; and healthy ones, of which nothing is claimed."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from tests.debug.explained import FEEDS, RNG, Net, T, X, held_against_the_gradient, recurrence

# -- small -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "name", "best"), [(gw.tanh, "tanh", "1"), (gw.nn.sigmoid, "sigmoid", "0.25")]
)
def test_saturated(act: Callable[[Any], Any], name: str, best: str) -> None:
    net = Net(act, bias=25.0 if name == "sigmoid" else 13.0, dtype="float64")
    found = net.why(net.loss())
    assert found.verdict == "small"
    assert (found.causes[0].kind, found.culprits[0]) == ("saturated", f"layer0/{name}")
    assert f"at 0 it is {best}" in found.text


def test_a_saturated_softmax() -> None:
    """Before a squared error the softmax itself is at fault: it is no function of elements."""
    net = Net()
    p = gw.nn.softmax(net.z + net.g.constant(np.float32([25, 0, 0, 0])), name="p")
    found = net.why(gw.square(p - 0.25).mean(name="loss"))
    assert (found.verdict, found.culprits[0]) == ("small", "p")
    assert found.causes[0].kind in ("saturated", "cancels")


def test_many_layers_that_shrink_it_a_little() -> None:
    net = Net(gw.nn.sigmoid, depth=12)
    found = net.why(net.loss())
    assert found.verdict == "small"
    assert found.causes[0].text.startswith("12 sigmoid pass 0.2")
    assert len(found.causes[0].nodes) == 12
    assert net.why(net.g["loss"], "layer11/w").verdict == "ordinary"


def test_a_wrong_reduction() -> None:
    """The mean over a batch, divided by its size once more, and again."""
    net = Net()
    loss = (gw.square(net.z).mean(name="mean") / 1e6).rename("loss")
    found = net.why(loss)
    assert (found.verdict, found.causes[0].kind, found.culprits[0]) == ("small", "factor", "loss")
    assert "multiplies by 1e-6" in found.causes[0].text
    g = gw.Graph()
    w, x = g.variable("w", (4,), init=1.0), g.placeholder("x", (1000, 1000))
    wide = gw.broadcast_to(gw.square(w).sum(), (1000, 1000)) * x
    loss = (x.sum() + wide.mean(name="m")).rename("loss")
    rows = np.zeros((1000, 1000))
    rows[0, 0] = 1.0
    found = gw.explain_gradient(g, loss, w, {"x": rows})
    assert (found.verdict, found.causes[0].kind, found.culprits[0]) == ("small", "average", "m")
    assert "1/1,000,000" in found.text


def test_terms_that_nearly_cancel() -> None:
    """A layer norm takes away what changes all of a row alike, so a sum of squares hardly moves."""
    g = gw.Graph()
    x, w = g.placeholder("x", ("B", 8)), g.variable("w", (8,), init=1.0)
    scale, shift = g.variable("scale", (8,), init=1.0), g.variable("shift", (8,))
    y = gw.nn.layer_norm(x * w, scale, shift, name="ln")
    loss = gw.square(y).mean(name="loss")
    found = gw.explain_gradient(g, loss, w, {"x": 100 * X})
    assert found.verdict == "small"
    assert (found.causes[0].kind, found.culprits[0]) == ("cancels", "ln")


# -- large -----------------------------------------------------------------------------------------


def test_layers_that_grow_it() -> None:
    net = Net(depth=10, scale=6.0)
    found = net.why(gw.square(net.z).mean(name="loss"))
    assert found.verdict == "large"
    assert found.causes[0].text.startswith("11 matmul pass ")
    assert found.causes[0].gain > 1e6


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda z: z / z.graph.constant(np.float32([1e-7, 1, 1, 1])), "factor", "is 1e-7"),
        (lambda z: gw.exp(z + 25.0), "steep", "its slope is"),
    ],
    ids=["division", "exp"],
)
def test_one_op_that_grows_it(make: Callable[[Any], Any], kind: str, words: str) -> None:
    net = Net()
    found = net.why(make(net.z).sum(name="loss"))
    assert found.verdict == "large"
    assert words in found.text
    assert kind in [c.kind for c in found.causes]


def test_a_sum_instead_of_a_mean() -> None:
    g = gw.Graph()
    x, w = g.placeholder("x", ("B", 8)), g.variable("w", (8,), init=0.001)
    loss = gw.exp(x @ w).sum(name="loss")
    found = gw.explain_gradient(g, loss, w, {"x": np.repeat(np.abs(X), 200, 0)})
    assert found.verdict == "large"
    assert "sum" in [c.kind for c in found.causes]
    assert "adds up 6,400 elements" in found.text


# -- not finite ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda z: gw.sqrt(gw.abs(z).sum(1)), "its slope is inf where 'sum' is 0"),
        (lambda z: gw.log(gw.abs(z) + 0.0), "begins at"),
        (lambda z: gw.pow(gw.abs(z), 0.5), "begins at"),
    ],
    ids=["sqrt", "log", "pow"],
)
def test_not_finite(make: Callable[[Any], Any], words: str) -> None:
    net = Net(out=0.0)
    loss = gw.clip(make(net.z), -5.0, 5.0).mean(name="loss")
    found = net.why(loss)
    assert found.verdict == "nonfinite"
    assert words in found.text
    assert found.causes[0].kind == "nonfinite"


def test_a_loss_that_is_not_finite() -> None:
    """Its gradient may be anything; where it begins is told."""
    net = Net()
    loss = gw.log(net.z - 9.0, name="log").sum(name="loss")
    found = gw.explain_gradient(net.g, loss, "layer0/w", FEEDS)
    assert (found.verdict, found.culprits) == ("nonfinite", ("log",))
    assert "of finite numbers" in found.text
    fed = net.why(gw.square(net.z).mean(name="other"), x=np.where(X > 2, np.inf, X))
    assert fed.culprits == ("x",)
    assert "'x' holds NaN or infinity" in fed.text


def test_overflow_of_a_narrow_dtype() -> None:
    """exp overflows float16; of its logarithm plans and gradients make a logsumexp, which fits."""
    feeds = {"x": 3 * X.astype("f2"), "t": T}
    net = Net(dtype="float16")
    loss = gw.exp(net.z * 9.0, name="e").mean(name="loss")
    found = gw.explain_gradient(net.g, loss, "layer0/w", feeds)
    assert (found.verdict, found.causes[0].kind) == ("nonfinite", "overflow")
    assert "exp 'e'" in found.text
    assert "it overflows float16" in found.text
    net = Net(dtype="float16")
    loss = gw.log(gw.exp(net.z * 9.0).sum(), name="loss")
    found = gw.explain_gradient(net.g, loss, "layer0/w", feeds)
    assert found.verdict == "ordinary"
    assert 50 < found.norm < 200


def test_what_gradients_make_stable() -> None:
    """The slope of sqrt(Σ x²) is that of a length: finite where the sum is 0."""
    net = Net(out=0.0)
    found = net.why((gw.sqrt(gw.square(net.z).sum(1), name="length").mean() + 1.0).rename("loss"))
    assert found.verdict == "zero"
    assert "length" in found.nodes
    assert net.why(net.g["loss"], "out/w").verdict != "nonfinite"


# -- healthy ones ----------------------------------------------------------------------------------


def cnn() -> tuple[gw.Tensor, dict[str, Any]]:
    g = gw.Graph()
    x, t = g.placeholder("x", ("B", 3, 8, 8)), g.placeholder("t", ("B",), "int64")
    k = g.variable("k", (6, 3, 3, 3), gw.init.he_normal(seed=0))
    scale, shift = g.variable("scale", (6,), init=1.0), g.variable("shift", (6,))
    h = gw.nn.relu(gw.nn.batch_norm(gw.cnn.conv2d(x, k, padding=1), scale, shift, axis=1))
    w = g.variable("w", (96, 4), gw.init.xavier_uniform(seed=1))
    z = gw.flatten(gw.cnn.max_pool2d(h, 2), 1) @ w
    loss = gw.loss.sparse_softmax_cross_entropy(t, z, name="loss")
    return loss, {"x": RNG.standard_normal((8, 3, 8, 8)).astype("f4"), "t": T[:8]}


def transformer() -> tuple[gw.Tensor, dict[str, Any]]:
    g = gw.Graph()
    x, t = g.placeholder("x", ("B", 6, 16)), g.placeholder("t", ("B",), "int64")
    q, k, v, o = (g.variable(n, (16, 16), gw.init.xavier_uniform(seed=ord(n))) for n in "qkvo")
    a = gw.nn.softmax((x @ q) @ gw.transpose(x @ k, (0, 2, 1)) / 4.0)
    scale, shift = g.variable("scale", (16,), init=1.0), g.variable("shift", (16,))
    h = gw.nn.layer_norm(x + a @ (x @ v) @ o, scale, shift)
    w = g.variable("w", (16, 4), gw.init.xavier_uniform(seed=3))
    loss = gw.loss.sparse_softmax_cross_entropy(t, gw.nn.gelu(h).mean(1) @ w, name="loss")
    return loss, {"x": RNG.standard_normal((8, 6, 16)).astype("f4"), "t": T[:8]}


def lstm() -> tuple[gw.Tensor, dict[str, Any]]:
    g = gw.Graph()
    x = g.placeholder("x", (12, "B", 5))
    w = g.variable("w", (5, 24), gw.init.xavier_uniform(seed=0))
    u = g.variable("u", (6, 24), gw.init.xavier_uniform(seed=1))

    def step(state: Any, v: gw.Tensor) -> Any:
        h, c = state
        z = v @ w + h @ u
        i, f, o, new = (z[:, 6 * k : 6 * k + 6] for k in range(4))
        c = gw.nn.sigmoid(f) * c + gw.nn.sigmoid(i) * gw.tanh(new)
        h = gw.nn.sigmoid(o) * gw.tanh(c)
        return (h, c), h

    start = g.constant(np.zeros((4, 6), "f4"))
    _, hs = gw.scan(step, (start, start), x)
    return gw.square(hs - 0.3).mean(name="loss"), {"x": RNG.standard_normal((12, 4, 5))}


def mlp() -> tuple[gw.Tensor, dict[str, Any]]:
    net = Net(gw.nn.gelu, depth=4)
    return net.loss(), FEEDS


@pytest.mark.parametrize("make", [cnn, transformer, lstm, mlp])
def test_nothing_is_claimed_of_healthy_networks(
    make: Callable[[], tuple[gw.Tensor, dict[str, Any]]],
) -> None:
    loss, feeds = make()
    g = loss.graph
    for parameter in g.trainable:
        found = gw.explain_gradient(g, loss, parameter, feeds)
        held_against_the_gradient(found, g, loss, feeds)
        assert (found.verdict, found.causes) == ("ordinary", ()), found.text
        assert found.steps[0].norm_in == 1
        for before, after in zip(found.steps, found.steps[1:], strict=False):
            if not after.address.levels and not before.address.levels:
                assert after.norm_in >= 0.05 * before.norm_out  # what cancels is a step of its own


# -- the object ------------------------------------------------------------------------------------


def test_norms_along_the_path_beside_torch(torch: ModuleType) -> None:
    """Of a chain, each norm is that of the cotangent there."""
    net = Net(gw.tanh)
    found = net.why(gw.square(net.z).mean(name="loss"))
    w1, b1, w2 = (torch.tensor(net.g.values[n], dtype=torch.float64)
                  for n in ("layer0/w", "layer0/b", "out/w"))  # fmt: skip
    w1.requires_grad_()
    a = torch.tensor(X, dtype=torch.float64) @ w1
    b = a + b1
    h = torch.tanh(b)
    z = h @ w2
    s = z**2
    theirs = [g.norm().item() for g in torch.autograd.grad(s.mean(), [s, z, h, b, a, w1])]
    assert [s.op for s in found.steps] == ["mean", "square", "matmul", "tanh", "add", "matmul"]
    np.testing.assert_allclose([s.norm_out for s in found.steps], theirs, rtol=1e-9)
    gains = [s.gain for s in found.steps]
    np.testing.assert_allclose(math.prod(gains), found.norm, rtol=1e-9)


def test_what_can_be_shown() -> None:
    g, loss = recurrence(0.4)
    found = gw.explain_gradient(g, loss, "h0", {"x": np.zeros((30, 6))})
    kept = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert kept["verdict"] == "small"
    assert kept["nodes"][0] == "loss"
    assert kept["nodes"][-1] == "h0"
    assert set(kept["culprits"]) <= {*kept["nodes"]}
    figure = found.figure()
    assert len(figure.data) == 2  # the path, and the turns of the loop
    assert figure.layout.yaxis.type == "log"
    assert "<b>" in found._repr_html_()
    assert str(found) == found.text
    assert len(found.table().rows) == len(found.steps)
    json.dumps(
        gw.explain_gradient(g, loss, "w", {"x": np.zeros((30, 6))}).to_dict(), allow_nan=False
    )

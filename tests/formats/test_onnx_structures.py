"""Writing loops, functions and old opsets: ONNX Runtime computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, UnsupportedOpError
from tests.formats.onnx_models import helper, model, onnx

ort = pytest.importorskip("onnxruntime")
ort.set_default_logger_severity(4)

ROWS = np.float32([[0.1, 0.2], [0.3, -0.4], [0.5, 0.6]])
W = np.float32([0.5, 0.7])


def same(
    graph: gw.Graph, outputs: list[Any], feeds: dict[str, Any], rtol: float = 1e-5, **how: Any
) -> Any:
    """Hold what ONNX Runtime makes of the written graph, and ours of reading it, to a session."""
    proto = gw.onnx.to_model(graph, outputs, **how)
    onnx.checker.check_model(proto, full_check=True)
    with gw.Session(graph) as session:
        expected = session.run(outputs, feeds)
    theirs = ort.InferenceSession(proto.SerializeToString())
    given = {i.name: feeds[i.name] for i in theirs.get_inputs()}
    read = gw.onnx.load(proto.SerializeToString())
    with gw.Session(read) as session:
        ours = session.run([o.name.replace(":", "_") for o in proto.graph.output], given)
    for found in (theirs.run(None, given), ours):
        for a, b in zip(found, expected, strict=True):
            assert a.shape == b.shape
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol, 1e-6)
    return proto


def kinds(proto: Any) -> list[str]:
    return [node.op_type for node in proto.graph.node]


# -- loops -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("counted", [False, True])
def test_scans_and_their_gradients(reverse: bool, counted: bool) -> None:
    """Of rows, and of a number of steps alone, which is a Loop."""
    g = gw.Graph()
    x, w = g.placeholder("x", ("T", 2)), g.placeholder("w", (2,))

    def step(c: Any, v: Any) -> Any:
        number = gw.cast(c.graph.step, "float32")
        return gw.tanh(c * w + (x[0] if counted else v)) * number + c, c * c

    rows = None if counted else x
    length = 4 if counted else None
    last, ys = gw.scan(step, gw.ones_like(x[0]), rows, length=length, reverse=reverse)
    feeds = {"x": ROWS, "w": W}
    proto = same(g, [last, ys], feeds)
    assert ("Loop" if counted else "Scan") in kinds(proto)
    total = last.sum() + (ys * ys).sum()
    first = gw.gradients(total, [x, w])
    same(g, [last, *first], feeds)
    second = gw.gradients((first[1] * first[1]).sum(), [x, w])
    same(g, list(second), feeds, rtol=1e-4)


def test_a_number_of_steps_may_be_a_symbol() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("T", 2))
    last, _ = gw.scan(lambda c, _: (c * 0.5 + 1.0, ()), x[0], None, length=x.shape[0] * 2)
    same(g, [last], {"x": ROWS})


def test_while_loops_and_their_gradients() -> None:
    g = gw.Graph()
    x, w, n = g.placeholder("x", (2,)), g.placeholder("w", (2,)), g.placeholder("n", (), "int64")
    grown = gw.while_loop(lambda c: (c * c).sum() < 100.0, lambda c: c * w + x, x, max_steps=9)
    total, powers = gw.loop(lambda i, c: ((c < 50.0).all(), c * w, c), x, trip=n)
    chosen = gw.cond(x.sum() > 0.0, lambda: gw.tanh(x * w), lambda: x - w)
    loss = grown.sum() + total.sum() + powers.sum() + chosen.sum()
    for sign in (1.0, -1.0):
        feeds = {"x": sign * np.float32([1, 2]), "w": np.float32([2, 1.5]), "n": np.array(4)}
        same(g, [grown, total, powers, *gw.gradients(loss, [x, w])], feeds)


def test_sequences_are_scanned_by_loops() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    items = gw.sequence.construct(x, x * 2.0, x * 3.0)
    last, ys = gw.scan(lambda c, v: (c * v, c + v), x, items)
    same(g, [last, ys, *gw.gradients(last.sum() + ys.sum(), [x])], {"x": W})


def test_only_what_is_read_is_written() -> None:
    """No node and no stored tensor stands in a model for nothing."""
    g = gw.Graph()
    x = g.placeholder("x", (2, 8, 8, 3))
    w = g.variable("w", (3, 3, 3, 4), gw.init.he_normal(seed=0))
    y = gw.cnn.max_pool2d(gw.cnn.conv2d(x, w, data_format="NHWC", weights_format="HWIO"), 2,
                          data_format="NHWC")  # fmt: skip
    gw.gradients(y.sum(), [w])  # nodes that nobody writes
    proto = gw.onnx.to_model(g, [y])
    read = {name for node in proto.graph.node for name in node.input}
    read |= {o.name for o in proto.graph.output}
    assert {t.name for t in proto.graph.initializer} <= read
    assert all(not read.isdisjoint(node.output) for node in proto.graph.node)
    assert kinds(proto).count("MaxPool") == 1


def test_several_outputs_may_be_one_tensor() -> None:
    g = gw.Graph()
    x = g.placeholder("x", (2,))
    y = gw.merge_avg(x, x, x)
    same(g, [y, *gw.gradients(y.sum(), [x])], {"x": W})
    a, b = g.placeholder("a", (2,)), g.placeholder("b", (2,))
    grads = gw.gradients(((a - b) * (a - b)).sum(), [a, b])
    same(g, [*grads, a], {"a": W, "b": W * 2})


# -- complex tensors -------------------------------------------------------------------------------


def test_complex_tensors_are_pairs() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 6))
    bins = gw.signal.rfft(x, name="bins")
    size = gw.abs(bins * gw.conj(bins) + bins)
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 6)).astype("float32")}
    same(g, [size, *gw.gradients(size.sum(), [x])], feeds, rtol=1e-4)
    proto = gw.onnx.to_model(g, [bins])
    (pairs,) = ort.InferenceSession(proto.SerializeToString()).run(None, feeds)
    spectrum = np.fft.rfft(feeds["x"])
    np.testing.assert_allclose(pairs, np.stack([spectrum.real, spectrum.imag], -1), 1e-4, 1e-5)
    assert proto.graph.output[0].doc_string == "complex64, as pairs of numbers on the last axis"


# -- sizes that are symbols ------------------------------------------------------------------------


def test_gradients_of_symbolic_sizes() -> None:
    g = gw.Graph()
    x, ids = g.placeholder("x", ("B", 2, "H", "W")), g.placeholder("ids", ("N",), "int64")
    w = g.variable("w", (3, 2, 3, 3), gw.init.he_normal(seed=1))
    h = gw.cnn.conv2d(x, w, padding=1, stride=2)
    h = gw.cnn.avg_pool2d(gw.cnn.max_pool2d(h, 2, stride=1), 2, stride=1)
    pooled = gw.cnn.adaptive_avg_pool2d(x, (2, 3))
    rows = gw.gather(x.reshape(-1, 2), ids)
    part = x[:, -1, ::2, None, 1:]
    loss = (h * h).sum() + (pooled * pooled).sum() + (rows * rows).sum() + (part * part).sum()
    feeds = {
        "x": np.random.default_rng(1).standard_normal((2, 2, 7, 6)).astype("float32"),
        "ids": np.array([0, 3, 3, -1]),
    }
    proto = same(g, [loss, pooled, *gw.gradients(loss, [x, w])], feeds, rtol=2e-5)
    assert next(d.dim_param for d in proto.graph.input[0].type.tensor_type.shape.dim) == "B"


@pytest.mark.parametrize("index", [
    (0, None, slice(None)), (slice(None), -1, None), (None, slice(2, None, -2), slice(1, 2)),
    (..., 1), (slice(0, 0),), (slice(-2, None), slice(None, -1)), (1, 2), (None, 2, None),
])  # fmt: skip
def test_gradients_of_slices(index: Any) -> None:
    g = gw.Graph()
    x = g.placeholder("x", (3, 4))
    y = x[index]
    weight = np.random.default_rng(0).standard_normal(y.shape).astype("float32")
    feeds = {"x": np.arange(12, dtype="float32").reshape(3, 4)}
    same(g, list(gw.gradients((y * y * weight).sum(), [x])), feeds)


@pytest.mark.parametrize("size", [(5, 4), (2, 3), (1, 1), (7, 5), (3, 2)])
def test_adaptive_means_of_any_size(size: tuple[int, int]) -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 2, 5, 4))
    y = gw.cnn.adaptive_avg_pool2d(x, size)
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 2, 5, 4)).astype("float32")}
    same(g, [y, *gw.gradients((y * y).sum(), [x])], feeds)


# -- opsets ----------------------------------------------------------------------------------------


def network(norm: Any, activation: Any) -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph("net")
    x = g.placeholder("x", ("B", 6))
    h = activation(x @ g.variable("w", (6, 8), gw.init.he_normal(seed=0)))
    h = norm(h) if norm else h
    return g, gw.nn.softmax(h @ g.variable("v", (8, 3), gw.init.he_normal(seed=1)), name="p")


@pytest.mark.parametrize(("norm", "activation", "expected"), [
    (None, gw.nn.relu, 7), (None, gw.erf, 9), (None, gw.nn.mish, 18), (None, gw.nn.gelu, 20),
    (gw.nn.layer_norm, gw.nn.relu, 17), (gw.nn.rms_norm, gw.nn.relu, 23),
])  # fmt: skip
def test_the_lowest_opset_keeps_every_op_whole(norm: Any, activation: Any, expected: int) -> None:
    g, y = network(norm, activation)
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 6)).astype("float32")}
    proto = same(g, [y], feeds, opset="lowest")
    assert proto.opset_import[0].version == expected
    whole = set(kinds(gw.onnx.to_model(g, [y], opset=23)))
    assert len(proto.graph.node) <= len(gw.onnx.to_model(g, [y], opset=23).graph.node)
    assert set(kinds(proto)) <= whole
    if expected > 7:  # one below, an op is opened, is missing, or has not the types
        try:
            below = gw.onnx.to_model(g, [y], opset=expected - 1)
        except UnsupportedOpError:
            return
        assert len(below.graph.node) > len(proto.graph.node)


@pytest.mark.parametrize("opset", [7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 26])
def test_old_opsets_run_in_onnx_runtime(opset: int) -> None:
    """What was an attribute, and is an input now, is written as it was."""
    g = gw.Graph()
    x = g.placeholder("x", ("B", 2, 6, 5))
    w = g.variable("w", (4, 2, 3, 3), gw.init.he_normal(seed=3))
    h = gw.cnn.max_pool2d(gw.nn.relu(gw.cnn.conv2d(x, w, padding=1)), 2)
    h = gw.pad(h[:, 1:, :, ::1], ((0, 0), (0, 0), (1, 2), (0, 1)))
    h = gw.concat([gw.squeeze(h[:, :1], 1).expand_dims(1), h], 1)
    a, b = gw.split(h, 2, axis=1)
    h = gw.clip(a.mean(axis=(2, 3)) + b.max(axis=(2, 3)), -0.5, 2.0)
    y = gw.nn.log_softmax(h.T).T.reshape(2, -1)
    feeds = {"x": np.random.default_rng(0).standard_normal((3, 2, 6, 5)).astype("float32")}
    assert same(g, [y], feeds, opset=opset).opset_import[0].version == opset


def test_what_an_old_opset_lacks_is_named() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 3))
    gw.unsorted_segment_sum(x, gw.cast(x[:, 0], "int64"), 4, name="y")
    with pytest.raises(UnsupportedOpError, match="in opset 11; a newer one may have more"):
        gw.onnx.to_model(g, ["y"], opset=11)
    assert gw.onnx.to_model(g, ["y"], opset="lowest").opset_import[0].version == 16
    half = gw.cast(x, "bfloat16")
    gw.cast(half + half, "float32", name="z")
    with pytest.raises(UnsupportedOpError, match="opset 12"):
        gw.onnx.to_model(g, ["z"], opset=12)
    for wrong in (6, 29, "newest"):
        with pytest.raises(GraphError, match="is not written"):
            gw.onnx.to_model(g, ["y"], opset=wrong)


def test_what_a_model_says_of_itself(tmp_path: Path) -> None:
    g, y = network(None, gw.nn.relu)
    gw.onnx.save(g, tmp_path / "net.onnx", [y], opset="lowest")
    proto = onnx.load(tmp_path / "net.onnx")
    assert proto.producer_name == "gradwright"
    assert proto.producer_version == gw.__version__
    assert proto.graph.name == "net"
    assert "'net'" in proto.doc_string


# -- functions -------------------------------------------------------------------------------------


def layers(n: int) -> gw.Graph:
    g = gw.Graph("net")
    h = g.placeholder("x", ("B", 8))
    for i in range(n):
        with g.scope(f"block_{i}"):
            with g.scope("mlp"):
                w = g.variable("w", (8, 8), gw.init.he_normal(seed=i))
                h = gw.nn.relu(h @ w + g.variable("b", (8,)))
            h = gw.nn.layer_norm(h, g.variable("g", (8,), 1.0), g.variable("shift", (8,)))
    gw.nn.softmax(h, name="p")
    return g


X8 = {"x": np.random.default_rng(0).standard_normal((2, 8)).astype("float32")}


def test_equal_scopes_are_one_function_and_come_back() -> None:
    g = layers(3)
    proto = same(g, ["p"], X8, functions=True)
    assert {f.name for f in proto.functions} == {"block", "mlp"}
    assert kinds(proto) == ["block", "block", "block", "Softmax"]
    assert [n.name for n in proto.graph.node][:3] == ["block_0", "block_1", "block_2"]
    back = gw.onnx.load(proto)
    assert {f"block_{i}{part}" for i in range(3) for part in ("", "/mlp")} <= set(back.scopes)
    again = same(back, ["p"], X8, functions=True)
    assert sorted((f.domain, f.name, len(f.node)) for f in again.functions) == sorted(
        (f.domain, f.name, len(f.node)) for f in proto.functions
    )
    assert not gw.onnx.to_model(g, ["p"]).functions


def test_functions_of_a_model_keep_their_names() -> None:
    """Their attributes are numbers in the bodies: a body per number."""
    leak = helper.make_function(
        "mine", "Leak", ["a"], ["b"],
        [helper.make_node("LeakyRelu", ["a"], ["b"])], [helper.make_opsetid("", 18)],
        attribute_protos=[helper.make_attribute("slope", 0.5)],
    )  # fmt: skip
    reference = leak.node[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "slope", 1
    nodes = [
        helper.make_node("Leak", ["x"], ["h"], name="first", domain="mine"),
        helper.make_node("Leak", ["h"], ["i"], name="second", domain="mine", slope=0.1),
        helper.make_node("Leak", ["i"], ["j"], name="third", domain="mine"),
        helper.make_node("HardSwish", ["j"], ["y"], name="alone"),
    ]
    proto = model(nodes, {"x": [2, 8]}, ["y"], functions=[leak], domains=["mine"])
    graph = gw.onnx.load(proto)
    assert graph.scopes[:3] == ["first", "second", "third"]
    written = same(graph, ["y"], X8, functions=True)
    assert [(f.domain, f.name) for f in written.functions] == [("mine", "Leak"), ("mine", "Leak_1")]
    called = [(n.op_type, n.name) for n in written.graph.node]
    assert called[:3] == [("Leak", "first"), ("Leak_1", "second"), ("Leak", "third")]
    assert all(n.domain != "mine" for n in written.graph.node[3:])


def test_calls_are_functions_with_their_gradients() -> None:
    @gw.function("block")
    def block(a: Any, b: Any) -> Any:
        return gw.tanh(a @ b), gw.exp(-a)

    g = gw.Graph()
    x, w = g.placeholder("x", ("B", 8)), g.variable("w", (8, 8), gw.init.he_normal(seed=1))
    p, q = block(x, w)
    r, s = block(p, w)
    y = gw.add(r * q, s, name="y")
    proto = same(g, [y, *gw.gradients(y.sum(), [x, w])], X8, functions=True)
    assert [f.name for f in proto.functions] == ["block"]
    assert kinds(proto).count("block") == 2


def test_a_scope_that_cannot_run_in_one_go_stays_open() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 8))
    with g.scope("part"):
        a = gw.exp(x * 0.1)
    b = gw.sin(a)
    with g.scope("part"):
        c = gw.cos(b)
    with g.scope("rest"):
        gw.add(a * c, b, name="y")
    proto = same(g, ["rest/y"], X8, functions=True)
    assert [f.name for f in proto.functions] == ["rest"]


def test_bodies_in_functions_read_what_stands_outside() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("B", 8))
    y = x
    for i in range(2):
        with g.scope(f"gate.{i}"):
            flag = y.sum() > float(0)
            y = gw.cond(flag, lambda y=y: y * 2.0 + x, lambda y=y: -y * x)
    gw.identity(y, name="y")
    for sign in (1.0, -1.0):
        proto = same(g, ["y"], {"x": sign * X8["x"]}, functions=True)
    assert len(proto.functions) <= 2
    assert "If" not in kinds(proto)

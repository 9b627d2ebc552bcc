"""Writing graphs as ONNX: they mean the same to onnx's own evaluator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, UnsupportedOpError
from gradwright.op import OPS
from gradwright.op.declare import REQUIRED
from gradwright.ops.loading import load
from tests.formats.onnx_models import helper, model, onnx


def convolutional() -> gw.Graph:
    graph = gw.Graph("digits")
    init = gw.init.he_normal(seed=1)
    x = graph.placeholder("image", ("B", 1, 8, 8))
    with graph.scope("features"):
        w = graph.variable("w", (4, 1, 3, 3), init)
        x = gw.nn.relu(gw.cnn.conv2d(x, w, graph.variable("b", (4,)), padding="same"))
        x = gw.cnn.max_pool2d(x, 2)
        x = gw.nn.dropout(x, 0.5)
    with graph.scope("head"):
        x = x.reshape(-1, 4 * 16)
        x = gw.nn.linear(x, graph.variable("w", (64, 10), init), graph.variable("b", (10,)))
        gw.nn.softmax(x, name="p")
    return graph


def attending() -> gw.Graph:
    graph = gw.Graph("block")
    init = gw.init.he_normal(seed=2)
    ids = graph.placeholder("ids", ("B", "T"), "int64")
    x = gw.nn.embedding(ids, graph.variable("table", (11, 8), init))
    h = gw.nn.layer_norm(x, graph.variable("g", (8,), 1.0), graph.variable("b", (8,)))
    q, k, v = (h @ graph.variable(n, (8, 8), init) for n in "qkv")
    y = gw.nn.scaled_dot_product_attention(q, k, v)
    x = x + y
    x = x + gw.nn.gelu(x @ graph.variable("up", (8, 16), init)) @ graph.variable(
        "down", (16, 8), init
    )
    gw.nn.log_softmax(x[:, -1], name="log_p")
    return graph


FEEDS: dict[str, Any] = {
    "image": np.random.default_rng(0).standard_normal((3, 1, 8, 8)).astype(np.float32),
    "ids": np.array([[1, 2, 3, 4], [4, 10, 0, 1]]),
}


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize(("build", "output"), [(convolutional, "p"), (attending, "log_p")])
def test_networks_mean_the_same_to_onnx(build: Any, output: str, opset: int) -> None:
    from onnx.reference import ReferenceEvaluator

    graph = build()
    name = output if output in graph else "head/" + output
    proto = gw.onnx.to_model(graph, [name], opset=opset)
    onnx.checker.check_model(proto, full_check=True)
    feeds = {t.name: FEEDS[t.name] for t in graph.placeholders if t.name in FEEDS}
    expected = graph.output(feeds, name)[name]
    (theirs,) = ReferenceEvaluator(proto).run([name], feeds)
    np.testing.assert_allclose(theirs, expected, rtol=1e-4, atol=1e-6)
    again = gw.onnx.load(proto)
    np.testing.assert_allclose(again.output(feeds, name)[name], expected, rtol=1e-5, atol=1e-6)
    dims = [d.dim_param for d in proto.graph.input[0].type.tensor_type.shape.dim]
    assert dims[0] == "B"


def test_sizes_that_are_symbols_are_computed_when_run() -> None:
    graph = gw.Graph()
    x = graph.placeholder("x", ("B", "T", 2))
    b, t = x.shape[:2]
    with graph:
        places = gw.arange(t * 2 + 1)
    gw.broadcast_to(x.reshape(b * t, 2).sum(), (t, b), name="y")
    gw.concat([places, places], name="n")
    proto = gw.onnx.to_model(graph, ["y", "n"])
    onnx.checker.check_model(proto, full_check=True)
    feeds = {"x": np.ones((2, 3, 2), np.float32)}
    found = gw.onnx.load(proto).output(feeds, "y", "n")
    assert found["y"].tolist() == [[12.0, 12.0]] * 3
    assert found["n"].tolist() == [*range(7), *range(7)]


@pytest.mark.parametrize("outputs", [["w"], ["y", "w"], ["c"], ["x", "c", "w", "y", "v"]])
def test_an_output_may_be_what_nothing_computes(outputs: list[str]) -> None:
    """Inputs, parameters and constants are outputs as they are, under their own names."""
    from onnx.reference import ReferenceEvaluator

    g = gw.Graph()
    x, w = g.placeholder("x", (2,)), g.variable("w", init=np.float32([3, 4]))
    g.constant(np.int64([[5]]), "c")
    v = gw.add(x * w, w, name="v")
    gw.cond(v.sum() > 0.0, lambda: w, lambda: x, name="y")
    feeds = {"x": np.float32([1, 2])}
    proto = gw.onnx.to_model(g, outputs)
    onnx.checker.check_model(proto, full_check=True)
    assert [o.name for o in proto.graph.output] == outputs
    assert {t.name for t in proto.graph.initializer} >= {*outputs} & {"w", "c"}
    expected = gw.Session(g).run(outputs, feeds)
    given = {i.name: feeds[i.name] for i in proto.graph.input}
    back = gw.onnx.load(proto.SerializeToString())
    for ran in (ReferenceEvaluator(proto).run(None, given), gw.Session(back).run(outputs, given)):
        for found, value in zip(ran, expected, strict=True):
            assert found.dtype == value.dtype
            np.testing.assert_array_equal(found, value)


def test_control_flow_is_written_with_its_bodies() -> None:
    graph = gw.Graph()
    x, n = graph.placeholder("x", (3,)), graph.placeholder("n", (), "int64")
    chosen = gw.cond(x.sum() > 0.0, lambda: x * 2.0, lambda: -x, name="chosen")
    grown = gw.while_loop(lambda c: c.sum() < 100.0, lambda c: c * c + x, chosen, max_steps=5)
    last, sums = gw.scan(lambda c, v: (c + v, c * v), 0.0, x)
    total, powers = gw.loop(lambda i, c: (c < 50.0, c * 2.0, c), graph.constant(1.0), trip=n)
    results = [chosen, grown, last, sums, total, powers]
    proto = gw.onnx.to_model(graph, results)
    onnx.checker.check_model(proto, full_check=True)
    again = gw.onnx.load(proto)
    names = [o.name.replace(":", "_") for o in proto.graph.output]
    for values in ([1.0, 2.0, 3.0], [-1.0, -2.0, 0.5]):
        feeds = {"x": np.float32(values), "n": np.int64(4)}
        expected = graph.output(feeds, *results)
        found = again.output(feeds, *names)
        for a, b in zip(found.values(), expected.values(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_scan_from_the_last_item_to_the_first_is_written() -> None:
    graph = gw.Graph()
    x = graph.placeholder("x", ("T", 2))

    def step(c, v):
        return c * 0.5 + v + gw.cast(v.graph.step, "float32"), c * v

    last, ys = gw.scan(step, np.zeros(2, "float32"), x, reverse=True, name="back")
    (alone, _) = gw.scan(lambda c, v: (c - v, ()), x[0], x, reverse=True, name="only")
    results = [last, ys, alone]
    proto = gw.onnx.to_model(graph, results)
    onnx.checker.check_model(proto, full_check=True)
    names = [o.name.replace(":", "_") for o in proto.graph.output]
    feeds = {"x": np.arange(6, dtype="float32").reshape(3, 2)}
    expected, found = graph.output(feeds, *results), gw.onnx.load(proto).output(feeds, *names)
    for a, b in zip(found.values(), expected.values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_onnx_cannot_express_is_named_at_once(tmp_path: Path) -> None:
    graph = gw.Graph()
    x = graph.placeholder("x", (2, 2))
    gw.linalg.eigvalsh(x)
    gw.linalg.svdvals(x)
    gw.linalg.eigvalsh(x + 1.0)
    path = tmp_path / "no.onnx"
    with pytest.raises(UnsupportedOpError, match=r"(?s)eigvalsh: 2 nodes.*svdvals: 1 node"):
        gw.onnx.save(graph, path)
    assert not path.exists()
    with pytest.raises(GraphError, match="opset 3 is not written"):
        gw.onnx.to_model(graph, opset=3)
    with pytest.raises(GraphError, match="no output"):
        gw.onnx.to_model(gw.Graph())


def test_defaults_of_operators_are_those_of_their_schemas() -> None:
    """An op read by its rule takes ONNX's default where a model leaves an attribute out."""
    from gradwright.formats.onnx.node import ONNX

    load()
    gw.onnx.operators()
    wrong = []
    for name, cls in OPS.items():
        rule = cls.onnx
        if rule is None or (rule.domain, rule.op_type) in ONNX.readers or "." in rule.domain[3:8]:
            continue
        schema = onnx.defs.get_schema(rule.op_type, max_inclusive_version=28, domain=rule.domain)
        ours = {rule.rename.get(k, k): k for k in cls.attrs if k not in rule.inputs}
        for key, attribute in schema.attributes.items():
            if key in rule.fixed or key in rule.defaults:
                continue
            if key not in ours:
                wrong.append(f"{name}: {rule.op_type} has {key}")
                continue
            default, held = attribute.default_value, cls.attrs[ours[key]].default
            if not default.name or held is REQUIRED or isinstance(held, np.dtype):
                continue
            stated = helper.get_attribute_value(default)
            stated = stated.decode() if isinstance(stated, bytes) else stated
            same = np.isclose(stated, held) if isinstance(held, float) else stated == held
            if not same:
                wrong.append(f"{name}: {key} is {held}, and {stated} in ONNX")
    assert not wrong


def test_operators_with_late_values_are_saved_replayed_and_written_again(tmp_path: Path) -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear")
    graph = gw.onnx.load(model([node], {"x": [1, 1, 1, 2], "s": [4]}, ["y"]))
    gw.save(graph, tmp_path / "late.gw")
    again = gw.load(tmp_path / "late.gw")
    written = gw.onnx.load(gw.onnx.to_model(graph, opset=18))
    x = np.float32([[[[0.0, 1.0]]]])
    for held in (graph, again, written):
        with gw.Session(held, check="replay") as session:
            for scale in (2.0, 3.0):
                y = session.run("y", {"x": x, "s": np.float32([1, 1, 1, scale])})
                assert y.shape == (1, 1, 1, 2 * scale)
    assert gw.onnx.to_model(graph, opset=19).graph.node[-1].op_type == "Resize"
    older = helper.make_node("Upsample", ["x", "s"], ["y"], mode="nearest")
    graph = gw.onnx.load(model([older], {"x": [1, 2], "s": [2]}, ["y"], opset=9))
    with pytest.raises(UnsupportedOpError, match="another operator in opset 19"):
        gw.onnx.to_model(graph, opset=19)


def test_inputs_and_outputs_have_the_names_that_they_came_with() -> None:
    names = {"x": "serving:0", "y": "/y:0", "z": "y", "t": '{"1": "a"}'}
    nodes = [
        helper.make_node("Relu", [names["x"]], [names["y"]]),
        helper.make_node("Neg", [names["y"]], [names["z"]]),
        helper.make_node("Exp", [names["z"]], [names["t"]]),
    ]
    ends = {k: helper.make_tensor_value_info(name, 1, ["n"]) for k, name in names.items()}
    proto = helper.make_graph(nodes, "g", [ends["x"]], [ends[k] for k in "yzt"])
    graph = gw.onnx.load(helper.make_model(proto, opset_imports=[helper.make_opsetid("", 20)]))
    wanted = [names[k] for k in "yzt"]
    written = gw.onnx.to_model(graph, wanted)
    assert [i.name for i in written.graph.input] == [names["x"]]
    assert [o.name for o in written.graph.output] == wanted
    graph.rename(graph["/y:0"], "mine")
    assert [o.name for o in gw.onnx.to_model(graph, ["mine", "y"]).graph.output] == ["mine", "y"]


@pytest.mark.parametrize("functions", [False, True])
def test_inputs_are_written_in_the_order_in_which_they_are_declared(functions: bool) -> None:
    graph = gw.Graph()
    first, second, third = (graph.placeholder(name, (2,)) for name in ("q", "k", "v"))
    gw.sub(third, gw.mul(second, first), name="y")
    proto = gw.onnx.to_model(graph, functions=functions)
    assert [info.name for info in proto.graph.input] == ["q", "k", "v"]
    again = gw.onnx.to_model(gw.onnx.load(proto))
    assert [info.name for info in again.graph.input] == ["q", "k", "v"]


@pytest.mark.parametrize("recognize", [False, True])
def test_a_model_that_was_read_is_written_with_its_own_outputs(recognize: bool) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Concat", ["s", "one"], ["shape"], axis=0),  # known, so nothing uses it
        helper.make_node("Relu", ["x"], ["inner"]),
        helper.make_node("Neg", ["inner"], ["z"]),
        helper.make_node("Reshape", ["z", "shape"], ["a"]),
    ]
    own = ["z", "x", "a", "inner"]
    proto = model(nodes, {"x": [2, 3]}, own, stored={"one": np.array([1])})
    graph = gw.onnx.load(proto, recognize=recognize)
    written = gw.onnx.to_model(graph)
    assert [info.name for info in written.graph.output] == own
    gw.exp(graph["a"], name="new")
    assert [info.name for info in gw.onnx.to_model(graph).graph.output] == ["new"]

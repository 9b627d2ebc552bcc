"""Outlines: the graph of a file as a full load gives it, from headers alone."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError
from gradwright.formats import registry, source
from gradwright_widgets.drawing.facts import node_facts
from gradwright_widgets.drawing.spec import graph_spec
from tests.formats import every_format
from tests.formats.every_format import BIG, Counted, onnx

made = pytest.fixture(scope="module")(every_format.made)
LOADS = {"onnx": gw.onnx.load, "gw": gw.load, "checkpoint": gw.load}


def told(graph: gw.Graph) -> list[tuple]:
    return [
        (n.name, repr(n.op), [str(t.spec) for t in n.outputs],
         [None if t is None else (t.node.name, t.index) for t in n.inputs], n.trainable)
        for n in graph.nodes
    ]  # fmt: skip


@pytest.mark.parametrize("name", LOADS)
def test_an_outline_is_the_graph_that_a_load_gives(made, name):
    path, _ = made[name]
    counted = Counted(source.at(path))
    found = registry.named(name).outline(counted)
    assert told(found.graph) == told(LOADS[name](path)) and not found.notes
    assert counted.total[0] < 70_000 < BIG
    assert "big" not in found.graph.values  # and no zeros in its place


def test_a_run_is_outlined_by_its_latest_checkpoint(made, tmp_path):
    path, _ = made["run"]
    outline = registry.named("run").outline
    assert [n.name for n in outline(source.at(path)).graph.nodes][:2] == ["x", "w"]
    run = gw.Run(tmp_path / "new", store=None)
    every_format.trained(tmp_path, run)
    with pytest.raises(ArchiveError, match="no checkpoint yet"):
        outline(source.at(run.folder))


def test_shapes_that_small_constants_tell_are_told(tmp_path):
    g = gw.Graph("reshaped")
    x = g.placeholder("x", ("B", 6))
    y = gw.reshape(x, (-1, 2, 3)) @ g.variable("w", init=np.ones((3, 5000), "f4"))
    gw.onnx.save(g, tmp_path / "r.onnx", [gw.nn.relu(y, name="y")])
    found = registry.named("onnx").outline(source.at(tmp_path / "r.onnx"))
    assert str(found.graph["y"].spec) == "f32[B, 2, 5000]"


def test_a_model_with_unknown_operators_is_drawn_as_it_lies(tmp_path):
    helper, kind = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("Odd", ["x", "w"], ["h"], name="first", domain="mine", axis=1),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    w = onnx.numpy_helper.from_array(np.zeros((40, 50), "f4"), "w")
    ends = [helper.make_tensor_value_info(n, kind.FLOAT, ["N", 4]) for n in "xy"]
    model = helper.make_model(
        helper.make_graph(nodes, "odd", ends[:1], ends[1:], [w]),
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)],
    )
    onnx.save(model, tmp_path / "odd.onnx")
    found = registry.named("onnx").outline(source.at(tmp_path / "odd.onnx"))
    rows = [(n.name, n.op.name, str(n.outputs[0].spec)) for n in found.graph.nodes]
    assert rows == [
        ("x", "placeholder", "f32[N, 4]"),
        ("w", "constant", "f32[40, 50]"),
        ("first", "mine:Odd", "?"),
        ("y", "Relu", "f32[N, 4]"),
    ]
    assert found.notes[1] == "the model uses operators that are not known here"
    assert found.graph["first"].node.op.attributes() == {"axis": 1}
    assert node_facts(found.graph)["lines"] == ["", "", "", ""] and graph_spec(found.graph)


def test_a_model_whose_nodes_go_in_a_circle_is_drawn_as_it_lies(tmp_path):
    helper = onnx.helper
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    ends = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2]) for n in "xb"]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:])), tmp_path / "c")
    found = registry.named("onnx").outline(source.at(tmp_path / "c"))
    assert [n.name for n in found.graph.nodes] == ["x", "a", "b"] and found.notes


def test_structure_is_bounded(made, monkeypatch):
    monkeypatch.setattr("gradwright.formats.onnx.headers.outline.MAX_STRUCTURE", 100)
    with pytest.raises(ArchiveError, match="too many nodes"):
        registry.named("onnx").outline(source.at(made["onnx"][0]))


def test_tensors_whose_rank_only_a_run_tells_are_drawn(tmp_path):
    helper, kind = onnx.helper, onnx.TensorProto
    nodes = [helper.make_node("Exp", ["x"], ["h"]), helper.make_node("Squeeze", ["h"], ["y"])]
    x = helper.make_tensor_value_info("x", kind.FLOAT, None)
    y = helper.make_tensor_value_info("y", kind.FLOAT, None)
    graph = helper.make_graph(nodes, "open", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    onnx.save(model, tmp_path / "open.onnx")
    found = registry.named("onnx").outline(source.at(tmp_path / "open.onnx"))
    assert not found.notes and str(found.graph["y"].spec).startswith("f32[]|...|f32[")
    facts = node_facts(found.graph)
    assert np.frombuffer(facts["flops"]).tolist() == [0.0] * facts["nodes"]

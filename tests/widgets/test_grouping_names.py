"""Blocks of graphs whose names tell them: of nodes, of weights, of modules beside them."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets import GraphView
from gradwright_widgets.drawing.names import modules, weight_path
from tests.widgets.test_grouping import inside, named, of, outline


@pytest.mark.parametrize(
    ("scopes", "weights"),
    [
        (lambda k: f"layers/layers.{k}/{{}}/", lambda k: f"onnx_{k}_{{}}"),
        (lambda k: f"model/model/layers.{k}/{{}}/", lambda k: f"w{k}_{{}}"),
        (lambda k: "n", lambda k: f"layers.{k}.{{}}"),
    ],
    ids=["TorchScript", "a name around all", "weights"],
)
def test_modules_are_read_off_names(scopes, weights):
    groups = of(named(scopes, weights))
    assert outline(groups) == ["layers.0 … layers.8"]
    layers = inside(groups, 0)
    assert [groups.titles[k] for k in layers] == [f"layers.{k}" for k in range(9)]
    cards = inside(groups, layers[2])
    assert [groups.titles[k] for k in cards] == ["up", "down"]
    assert {groups.rows[k] for k in cards} == {("linear 8 → 8, bias", "relu")}
    assert [groups.names[k] for k in cards] == ["layers.2/up", "layers.2/down"]


def test_a_card_is_called_after_the_module_of_its_weights():
    g = gw.Graph("attention")
    x = g.placeholder("x", ("B", 8))
    parts = {}
    for part in ("query", "key"):
        w = g.constant(np.ones((8, 8), np.float32), f"w_{part}")
        made = gw.matmul(x, w, name=f"layer/self/{part}/MatMul")
        parts[part] = gw.reshape(made, (-1, 2, 4), name=f"layer/self/Reshape_{part}")
    gw.mul(*parts.values(), name="layer/self/Mul")
    gw.tanh(x, name="other/Tanh")
    g.known_as = {"x": x}
    groups = of(g)
    named_here = {
        groups.names[k]: (groups.titles[k], groups.rows[k])
        for k in inside(groups, groups.names.index("layer/self"))
    }
    assert named_here == {
        "layer/self/query": ("query", ("linear 8 → 8", "reshape")),
        "layer/self/key": ("key", ("linear 8 → 8", "reshape")),
        "layer/self/Mul": ("", ("multiply",)),
    }


def test_scopes_of_a_file_of_ours_are_blocks(tmp_path):
    g = gw.Graph("saved")
    h = g.placeholder("x", ("B", 8))
    for k in range(2):
        with g.scope(f"block{k}"):
            for w in ("up", "down"):
                h = gw.nn.relu(h @ g.variable(w, (8, 8), init=1.0)) + h
    gw.mean(h, name="y")
    gw.onnx.save(g, tmp_path / "saved.onnx")
    again = gw.onnx.load(tmp_path / "saved.onnx")
    assert outline(of(again)) == ["block0", "block1", "mean"]
    view = GraphView(again, expanded=["block0"])
    view.selected = "block1/"


def test_modules_that_an_exporter_tells_beside_the_names_are_blocks():
    onnx = pytest.importorskip("onnx")
    nodes, before = [], "x"
    for layer in range(9):
        for part, op in (("up", "MatMul"), ("act", "Relu")):
            made = f"v{layer}_{part}"
            ins = [before, "w"] if op == "MatMul" else [before]
            node = onnx.helper.make_node(op, ins, [made], name=f"node_{op}_{layer}")
            scopes = ["", "layers", f"layers.{layer}", f"layers.{layer}.{part}", op.lower()]
            node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=repr(scopes))
            kinds = ["net.Net", "torch.nn.ModuleList", "net.Block", "torch.nn.Linear", "aten.op"]
            node.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=repr(kinds))
            nodes.append(node)
            before = made
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "dynamo",
        [value("x", onnx.TensorProto.FLOAT, ["B", 4])],
        [value(before, onnx.TensorProto.FLOAT, ["B", 4])],
        [onnx.numpy_helper.from_array(np.ones((4, 4), np.float32), "w")],
    )
    again = gw.onnx.load(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)])
    )
    assert "layers/layers.3/up/node_MatMul_3" in {node.name for node in again.nodes}
    groups = of(again)
    assert outline(groups) == ["layers.0 … layers.8"]
    notes = dict(zip(groups.names, groups.notes, strict=True))
    assert notes["layers.0 … layers.8"] == "Block · 9 × (linear 4 → 4) → B×4"
    kinds = {"layers": "ModuleList", "layers/layers.3": "Block", "layers/layers.3/up": "Linear"}
    assert kinds.items() <= again.classes.items()


def test_a_module_that_is_used_twice_and_needs_itself_stands_in_two_places():
    g = gw.Graph()
    x = g.placeholder("x", ("B", 8))
    ws = {name: g.constant(np.ones((8, 8), np.float32), f"{name}_w") for name in "abcd"}
    for name in ("a", "b", "a", "b", "c", "d"):
        with g.scope(name):
            for _ in range(3):
                x = gw.tanh(gw.tanh(x @ ws[name])) @ ws[name]
    g.known_as = {"x": g["x"]}
    groups = of(g)
    assert outline(groups)[:4] == ["a", "b", "a", "b"]
    assert groups.names[:1] == ["a"] and "a_2" in groups.names


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("transformer.h.3.attn.c_attn.weight", ("transformer", "h.3", "attn", "c", "attn")),
        ("gpu_0/res4_22_branch2b_w_0", ("gpu_0", "res4_22", "branch2b")),
        ("model/dense_1/kernel", ("model", "dense_1")),
        ("onnx::MatMul_123", ("onnx::MatMul_123",)),
        ("1234", ()),
    ],
)
def test_weights_tell_modules(name, path):
    assert weight_path(name) == path


def test_numbers_of_nodes_are_no_modules():
    assert modules("StatefulPartitionedCall/model/n12/dense") == (
        *("StatefulPartitionedCall", "model", "dense"),
    )

"""What is wrong with an ONNX model is refused: damage, hostile nodes, endless loops."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GradwrightError
from tests.formats.onnx_models import INT64, helper, model, numpy_helper


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([helper.make_node("Relu", ["nothing"], ["y"])], "nothing before it makes 'nothing'"),
        ([helper.make_node("Relu", ["x"], ["x"])], "given twice"),
        ([helper.make_node("Relu", ["x"], ["y"], slope=1.0)], "no attribute 'slope'"),
        ([helper.make_node("Concat", ["x", "x"], ["y"])], "lacks its attribute 'axis'"),
        ([helper.make_node("Relu", [], ["y"])], "Relu"),
        ([helper.make_node("Constant", [], ["y"])], "one attribute"),
        ([helper.make_node("Relu", ["x"], ["y", "z"]), helper.make_node("Abs", ["z"], ["w"])],
         "2 outputs are read"),
    ],
)  # fmt: skip
def test_models_that_are_not_valid(nodes: list[Any], message: str) -> None:
    with pytest.raises(GradwrightError, match=message):
        gw.onnx.load(model(nodes, {"x": [2, 3]}, ["y"]))


def test_damaged_files_raise_errors_of_ours_and_never_crash() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["c"], kernel_shape=[2, 2], pads=[1, 0, 0, 1])
    tail = [
        helper.make_node("Shape", ["c"], ["s"]),
        helper.make_node("Reshape", ["c", "s"], ["r"]),
        helper.make_node("ReduceSum", ["r", "axes"], ["y"]),
    ]
    stored = {"w": np.ones((1, 1, 2, 2), np.float32), "axes": np.int64([1])}
    data = model([node, *tail], {"x": [1, 1, 4, 4]}, ["y"], stored=stored).SerializeToString()
    draw = random.Random(0)
    for number in range(400):
        damaged = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        if number % 5 == 0:
            damaged = damaged[: draw.randrange(len(damaged))]
        with contextlib.suppress(GradwrightError):
            gw.onnx.load(bytes(damaged))


def test_files_that_are_no_models() -> None:
    for data in (b"", b"\x00" * 64, b"PK\x03\x04" + bytes(100), b"\xff" * 32):
        with pytest.raises(ArchiveError):
            gw.onnx.load(data)
    with pytest.raises(FileNotFoundError):
        gw.onnx.load("/nowhere/at/all.onnx")


HOSTILE: list[tuple[str, Any, dict[str, Any]]] = [
    ("num_outputs", helper.make_node("Split", ["x"], ["y"], num_outputs=1 << 31), {"x": [6]}),
    ("axes", helper.make_node("ConstantOfShape", ["n"], ["y"]), {"n": (INT64, [1 << 40])}),
    ("rank", helper.make_node("Expand", ["x", "n"], ["y"]), {"x": [1], "n": (INT64, [1 << 40])}),
    ("circle", helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", tree_roots=[0], leaf_targetids=[0],
        nodes_featureids=[0, 0], nodes_truenodeids=[1, 0], nodes_falsenodeids=[1, 0],
        nodes_trueleafs=[0, 0], nodes_falseleafs=[0, 0],
        nodes_modes=numpy_helper.from_array(np.uint8([0, 0])),
        nodes_splits=numpy_helper.from_array(np.float32([0, 0])),
        leaf_weights=numpy_helper.from_array(np.float32([1.0])),
    ), {"x": [2, 1]}),
    ("nowhere", helper.make_node(
        "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", tree_roots=[7], leaf_targetids=[0],
        nodes_featureids=[0], nodes_truenodeids=[0], nodes_falsenodeids=[0],
        nodes_trueleafs=[1], nodes_falseleafs=[1],
        nodes_modes=numpy_helper.from_array(np.uint8([0])),
        nodes_splits=numpy_helper.from_array(np.float32([0])),
        leaf_weights=numpy_helper.from_array(np.float32([1.0])),
    ), {"x": [2, 1]}),
]  # fmt: skip


@pytest.mark.parametrize(("message", "node", "inputs"), HOSTILE)
def test_nodes_that_would_take_all_memory_or_never_end(
    message: str, node: Any, inputs: dict[str, Any]
) -> None:
    proto = model([node], inputs, ["y"])
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 5))
    with pytest.raises(GradwrightError, match=message):
        gw.onnx.load(proto)

"""Some of the modules of ``tests/formats/exported.py``, and what they are made of by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from tests.formats.onnx_models import FLOAT, INT64, TensorProto, helper, model

SCRIPT = (
    *("Conv2d padded by circular", "ConvTranspose2d", "fold", "InstanceNorm2d", "LSTMCell"),
    *("LSTM of two directions, batch first", "GRU, free length", "EmbeddingBag", "topk", "views"),
    *("MultiheadAttention with a mask of keys", "interpolate to the size of another image"),
    *("grid_sample", "gather and scatter_add", "index by tensors", "slices", "reductions"),
    *("arange of a size", "activations", "a loop of a script", "a branch of a script"),
    "quantised and back",
)
"""Modules that are written within milliseconds."""
DYNAMO = ("torch.cond",)
"""It takes a second or two for each."""


@pytest.fixture(scope="module")
def exported() -> Any:
    pytest.importorskip("torch", reason="no torch: pip install -e '.[oracle]'")
    pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install -e '.[test]'")
    from tests.formats import exported

    return exported


@pytest.fixture(scope="module")
def known(exported: Any) -> dict[str, Any]:
    return {module.name: module for module in exported.modules()}


def test_there_are_as_many_as_we_say(known: dict[str, Any]) -> None:
    written = [(name, writer) for name, module in known.items() for writer in module.writers]
    assert len(known) >= 70 and len(written) >= 120
    assert all(module.writers for module in known.values())


@pytest.mark.parametrize(
    ("name", "writer"), [*((n, "script") for n in SCRIPT), *((n, "dynamo") for n in DYNAMO)]
)
def test_a_module_is_what_torch_makes_of_it(
    exported: Any, known: dict[str, Any], name: str, writer: str
) -> None:
    """Read, run at two sizes beside torch and ONNX Runtime, drawn, written, checked."""
    assert exported.difference(known[name], writer) < exported.MOST


# -- by hand ---------------------------------------------------------------------------------------


def checked(made: Any, feeds: dict[str, Any]) -> gw.Graph:
    """Return the graph of a model whose gradient by its input has passed a check."""
    graph = gw.onnx.load(made.SerializeToString())
    loss = gw.mean(gw.sin(graph["y"]))
    assert gw.gradient_check(graph, loss, feeds, wrt=["x"]).passed
    return graph


def test_an_image_resized_to_the_size_of_another_has_a_gradient() -> None:
    """The inputs of Resize that are left out decide nothing."""
    nodes = [
        helper.make_node("Shape", ["like"], ["to"]),
        helper.make_node("Resize", ["x", "", "", "to"], ["y"], mode="linear"),
    ]
    made = model(nodes, {"x": (FLOAT, [1, 2, "h", "w"]), "like": (FLOAT, [1, 2, "p", "q"])}, ["y"])
    x = np.arange(12, dtype=np.float32).reshape(1, 2, 2, 3)
    graph = checked(made, {"x": x, "like": np.zeros((1, 2, 4, 5), np.float32)})
    for size in ((2, 3), (4, 6)):
        feeds = {"x": x, "like": np.zeros((1, 2, *size), np.float32)}
        found = graph.output(feeds, "y")["y"]
        assert found.shape == (1, 2, *size)
    assert np.array_equal(graph.output({"x": x, "like": x}, "y")["y"], x)


def test_a_loop_that_slices_by_its_turn_has_a_gradient() -> None:
    """What a Slice in a body does is known in its turn alone; a check looks into such bodies."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Reshape", ["turn", "one"], ["at"]),
            helper.make_node("Add", ["at", "one"], ["to"]),
            helper.make_node("Slice", ["x", "at", "to"], ["row"]),
            helper.make_node("ReduceSum", ["row"], ["total"], keepdims=0),
            helper.make_node("Mul", ["sum", "total"], ["more"]),
            helper.make_node("Identity", ["go"], ["go_on"]),
        ],
        "body",
        [info("turn", INT64, []), info("go", TensorProto.BOOL, []), info("sum", FLOAT, [])],
        [info("go_on", TensorProto.BOOL, []), info("more", FLOAT, [])],
    )
    nodes = [helper.make_node("Loop", ["n", "", "start"], ["y"], body=body)]
    stored = {
        "start": np.array(1.0, np.float32),
        "one": np.array([1], np.int64),
    }
    made = model(nodes, {"x": (FLOAT, ["k", 2]), "n": (INT64, [])}, ["y"], stored=stored)
    x = np.array([[1.0, 2.0], [0.5, -2.0], [3.0, 0.25]], np.float32)
    graph = checked(made, {"x": x, "n": 3})
    assert graph.output({"x": x, "n": 2}, "y")["y"] == 3.0 * -1.5

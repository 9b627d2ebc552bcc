"""What is wrong with an ONNX model is refused: damage, hostile nodes, endless loops."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, GradwrightError, MemoryLimitError
from tests.formats.onnx_models import FLOAT, INT64, TensorProto, helper, model, numpy_helper


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


# -- what a small file may ask for -----------------------------------------------------------------


@pytest.mark.parametrize("version", [2**40, 2**63 - 1, 2**31, 29, 0, -5])
@pytest.mark.parametrize("domain", ["", "ai.onnx", "mine"])
def test_versions_that_do_not_exist(version: int, domain: str) -> None:
    proto = model([helper.make_node("Celu", ["x"], ["y"])], {"x": [2]}, ["y"])
    if domain == "mine":
        proto.opset_import.append(helper.make_opsetid("mine", version))
        if version == 29:
            return
    else:
        proto.opset_import[0].domain, proto.opset_import[0].version = domain, version
    with pytest.raises(ArchiveError, match=f"opset {version:,} of"):
        gw.onnx.load(proto)
    body = helper.make_node("Relu", ["a"], ["b"])
    function = helper.make_function("f", "f", ["a"], ["b"], [body], [proto.opset_import[-1]])
    call = helper.make_node("f", ["x"], ["y"], domain="f")
    proto = model([call], {"x": [2]}, ["y"], functions=[function], domains=["f"])
    with pytest.raises(ArchiveError, match=f"opset {version:,} of"):
        gw.onnx.load(proto)


@pytest.mark.parametrize(
    ("op_type", "inputs", "need"),
    [
        ("Range", ["x"], "start, limit, delta"),
        ("Range", ["x", "", "x"], "start, limit, delta"),
        ("Range", [], "start, limit, delta"),
        ("Slice", ["x"], r"data, starts, ends, \[axes\], \[steps\]"),
        ("Relu", ["x", "x"], "X"),
        ("Clip", ["", "x"], r"input, \[min\], \[max\]"),
        ("OneHot", ["x", "x"], "indices, depth, values"),
    ],
)
def test_inputs_that_a_node_lacks(op_type: str, inputs: list[str], need: str) -> None:
    """They are missed when the model is read, not when values are known."""
    node = helper.make_node(op_type, inputs, ["y"])
    with pytest.raises(ArchiveError, match=f"{op_type} has[^$]*need: {need}"):
        gw.onnx.load(model([node], {"x": []}, ["y"]))


def constant(name: str, value: Any) -> Any:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value)))


def shaped(op_type: str, *inputs: str, name: str = "y", **attrs: Any) -> Any:
    return helper.make_node(op_type, inputs, [name], **attrs)


HUGE: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "fill": ([constant("s", np.int64([1 << 40])), shaped("ConstantOfShape", "s")], {}),
    "beyond addresses": (
        [constant("s", np.int64([1 << 31] * 3)), shaped("ConstantOfShape", "s")], {},
    ),
    "a view that leaves": (
        [constant("s", np.int64([1 << 40, 1])), shaped("Expand", "x", "s")], {"x": [1]},
    ),
    "range": (
        [constant("a", np.int64(0)), constant("b", np.int64(1 << 40)), constant("c", np.int64(1)),
         shaped("Range", "a", "b", "c")], {},
    ),
    "range of floats": (
        [constant("a", np.float32(0)), constant("b", np.float32(1e30)),
         constant("c", np.float32(1)), shaped("Range", "a", "b", "c")], {},
    ),
    "tile": ([constant("s", np.int64([1 << 40])), shaped("Tile", "x", "s")], {"x": [3]}),
    "sixty tiles": (
        [constant("s", np.int64([2])), helper.make_node("Tile", ["x", "s"], ["0"]),
         *(helper.make_node("Tile", [f"{i}", "s"], [f"{i + 1}"]) for i in range(60)),
         shaped("ReduceSum", "60")], {"x": [3]},
    ),
    "pad": ([constant("p", np.int64([1 << 40] * 2)), shaped("Pad", "x", "p")], {"x": [3]}),
    "resize": (
        [constant("s", np.int64([1, 1, 1 << 30, 1 << 30])), shaped("Resize", "x", "", "", "s")],
        {"x": [1, 1, 4, 4]},
    ),
    "scales": (
        [constant("s", np.float32([1, 1, 1e30, 1e30])), shaped("Resize", "x", "", "s")],
        {"x": [1, 1, 4, 4]},
    ),
    "one-hot": (
        [constant("d", np.int64([1 << 40])), constant("v", np.float32([0, 1])),
         shaped("OneHot", "x", "d", "v")], {"x": (INT64, [4])},
    ),
    "convolution": (
        [constant("w", np.ones((1, 1, 2, 2), np.float32)),
         shaped("Conv", "x", "w", pads=[1 << 40] * 4)], {"x": [1, 1, 4, 4]},
    ),
    "window": ([constant("n", np.int64(1 << 40)), shaped("HannWindow", "n")], {}),
    "transform": ([constant("n", np.int64(1 << 40)), shaped("DFT", "x", "n")], {"x": [1, 4, 1]}),
    "draws": ([shaped("RandomNormal", shape=[1 << 40, 1 << 20])], {}),
}  # fmt: skip


@pytest.mark.parametrize("case", HUGE)
def test_arrays_larger_than_the_machine(case: str) -> None:
    """Nothing is taken of what a plan cannot have, even where the system would promise it."""
    nodes, inputs = HUGE[case]
    proto = model(nodes, inputs or {"unused": [1]}, ["y"])
    graph = gw.onnx.load(proto)
    feeds = {
        t.name: np.zeros([int(d) for d in t.shape], t.dtype)
        for t in graph.placeholders
    }  # fmt: skip
    with pytest.raises(MemoryLimitError, match="all that the machine has"):
        graph.output(feeds, "y")


def test_functions_that_stand_for_without_end() -> None:
    """Each calls the one before twice: a kilobyte, and 10^12 nodes."""
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    functions = [
        helper.make_function("f", "f0", ["a"], ["b"], [helper.make_node("Relu", "a", "b")], opsets)
    ]
    for i in range(40):
        twice = [
            helper.make_node(f"f{i}", ["a"], ["c"], domain="f"),
            helper.make_node(f"f{i}", ["c"], ["b"], domain="f"),
        ]
        functions.append(helper.make_function("f", f"f{i + 1}", ["a"], ["b"], twice, opsets))

    def load(i: int) -> gw.Graph:
        call = helper.make_node(f"f{i}", ["x"], ["y"], domain="f")
        return gw.onnx.load(
            model([call], {"x": [2]}, ["y"], functions=functions, domains=["f"])
        )  # fmt: skip

    assert len(load(6).nodes) > 64
    with pytest.raises(ArchiveError, match="made of 3,298,534,883,327 nodes"):
        load(40)


def test_functions_that_call_themselves_in_branches() -> None:
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    branches = [
        helper.make_graph(
            [helper.make_node("r", ["a"], [name], domain="f")], name, [],
            [helper.make_tensor_value_info(name, FLOAT, None)],
        )
        for name in "pq"
    ]  # fmt: skip
    body = helper.make_node("If", ["c"], ["b"], then_branch=branches[0], else_branch=branches[1])
    function = helper.make_function(
        "f", "r", ["a"], ["b"], [constant("c", np.bool_(True)), body], opsets
    )
    call = helper.make_node("r", ["x"], ["y"], domain="f")
    with pytest.raises(ArchiveError, match="call themselves"):
        gw.onnx.load(model([call], {"x": [2]}, ["y"], functions=[function], domains=["f"]))


@pytest.mark.parametrize(
    ("dims", "places", "match"),
    [
        ([4], np.int64([-1]), "does not fit"),
        ([4], np.int64([4]), "does not fit"),
        ([4], np.int64([1, 2]), "does not fit"),
        ([4], np.float32([1]), "does not fit"),
        ([4], np.array([True, False, False, False]), "does not fit"),
        ([2, 2], np.int64([[0, -1]]), "does not fit"),
        ([2, 2], np.int64([[0, 0, 0]]), "does not fit"),
        ([-4], np.int64([1]), "no stored tensor"),
        ([1 << 40], np.int64([1]), "4,398,046,511,104 bytes"),
        ([1 << 62, 1 << 62], np.int64([1]), "no stored tensor"),
    ],
)
def test_sparse_tensors_that_are_none(dims: list[int], places: Any, match: str) -> None:
    proto = model([helper.make_node("Identity", ["s"], ["y"])], {"x": [1]}, ["y"])
    sparse = proto.graph.sparse_initializer.add()
    sparse.dims.extend(dims)
    sparse.values.CopyFrom(numpy_helper.from_array(np.float32([1]), "s"))
    sparse.indices.CopyFrom(numpy_helper.from_array(places))
    with pytest.raises((ArchiveError, MemoryLimitError), match=match):
        gw.onnx.load(proto)


def test_text_of_another_count_or_no_text() -> None:
    for data in ([b"\xff\xfe"], [b"a"] * 6, []):
        proto = model([helper.make_node("Identity", ["s"], ["y"])], {"x": [1]}, ["y"])
        proto.graph.initializer.append(
            TensorProto(name="s", data_type=TensorProto.STRING, dims=[5], string_data=data)
        )
        with pytest.raises(ArchiveError, match="tensor 's'"):
            gw.onnx.load(proto)


def test_branches_inside_of_branches() -> None:
    """As deep as protobuf goes; the time grows with the depth, not with its power."""

    def branch(depth: int, name: str) -> Any:
        node = helper.make_node("Neg", ["x"], [name])
        if depth:
            inner = {f"{k}_branch": branch(depth - 1, f"{name}{k[0]}") for k in ("then",)}
            inner["else_branch"] = branch(0, f"{name}e")
            node = helper.make_node("If", ["c"], [name], **inner)
        out = [helper.make_tensor_value_info(name, FLOAT, None)]
        return helper.make_graph([node], "branch", [], out)

    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch(26, "t"), else_branch=branch(0, "e")
    )
    graph = gw.onnx.load(model([node], {"x": [2], "c": (TensorProto.BOOL, [])}, ["y"]))
    x = np.float32([1, 2])
    assert graph.output({"x": x, "c": np.array(True)}, "y")["y"].tolist() == [-1.0, -2.0]

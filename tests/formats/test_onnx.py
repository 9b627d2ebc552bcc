"""Reading ONNX models in all their forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, UnsupportedOpError
from tests.formats.onnx_models import FLOAT, INT64, TensorProto, X, helper, model, numpy_helper, run

IMAGE = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
SOFT = np.exp(X - X.max()) / np.exp(X - X.max()).sum()
OLDER: list[tuple[str, int, dict[str, Any], Any, Any]] = [
    ("ReduceSum", 11, {"axes": [1], "keepdims": 0}, X, X.sum(1)),
    ("ReduceMean", 13, {"axes": [-1]}, X, X.mean(1, keepdims=True)),
    ("Unsqueeze", 11, {"axes": [0, 3]}, X, X[None, :, :, None]),
    ("Squeeze", 11, {"axes": [0]}, X[None], X),
    ("Slice", 9, {"starts": [0, -2], "ends": [1, 100]}, X, X[:1, -2:]),
    ("Pad", 10, {"pads": [0, 1, 0, 2]}, X, np.pad(X, ((0, 0), (1, 2)))),
    ("Softmax", 11, {"axis": 0}, X, SOFT),
    ("LogSoftmax", 11, {"axis": 0}, X, np.log(SOFT)),
    ("Clip", 6, {"min": -1.0, "max": 1.0}, X, X.clip(-1, 1)),
    ("Clip", 6, {"max": 1.0}, X, X.clip(None, 1)),
    ("TopK", 9, {"k": 2, "axis": 1}, X, X[:, :0:-1]),
    ("Upsample", 7, {"scales": [1.0, 2.0]}, X, X.repeat(2, 1)),
    ("Dropout", 10, {"ratio": 0.5}, X, X),
    ("Split", 11, {"axis": 1, "split": [1, 2]}, X, X[:, :1]),
    ("Cast", 9, {"to": INT64}, X, X.astype(np.int64)),
    ("ArgMax", 11, {"axis": 1, "keepdims": 0}, X, X.argmax(1)),
    ("Flatten", 9, {"axis": 1}, X[None], X.reshape(1, 6)),
    ("HardSigmoid", 6, {}, X, (X * 0.2 + 0.5).clip(0, 1)),
    ("MaxPool", 8, {"kernel_shape": [2, 2], "strides": [2, 2]}, IMAGE, IMAGE[:, :, 1::2, 1::2]),
    ("SpaceToDepth", 1, {"blocksize": 2}, IMAGE,
     np.stack([IMAGE[0, 0, i::2, j::2] for i in (0, 1) for j in (0, 1)])[None]),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "opset", "attrs", "x", "expected"), OLDER)
def test_older_opsets(op_type: str, opset: int, attrs: Any, x: Any, expected: Any) -> None:
    outputs = ["y", "z"] if op_type in ("TopK", "Split") else ["y"]
    node = helper.make_node(op_type, ["x"], outputs, **attrs)
    (y,) = run(model([node], {"x": x.shape}, ["y"], opset=opset), {"x": x}, "y")
    assert y.dtype == expected.dtype
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_constants_in_all_forms() -> None:
    forms: dict[str, Any] = {
        "value": numpy_helper.from_array(np.float32([1.5, 2.5])), "value_float": 0.5,
        "value_floats": [1.0, 2.0], "value_int": 3, "value_ints": [4, 5], "value_string": "a",
        "value_strings": ["b", "c"],
    }  # fmt: skip
    nodes = [helper.make_node("Constant", [], [key], **{key: v}) for key, v in forms.items()]
    values = numpy_helper.from_array(np.float32([7.0]), "values")
    indices = numpy_helper.from_array(np.int64([1]), "indices")
    sparse = helper.make_sparse_tensor(values, indices, [3])
    nodes.append(helper.make_node("Constant", [], ["sparse"], sparse_value=sparse))
    found = run(model(nodes, {}, [*forms, "sparse"]), {}, *forms, "sparse")
    assert [np.asarray(v).tolist() for v in found] == [
        [1.5, 2.5], 0.5, [1.0, 2.0], 3, [4, 5], "a", ["b", "c"], [0.0, 7.0, 0.0]
    ]  # fmt: skip


def test_values_fed_late_may_differ_from_run_to_run() -> None:
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    graph = gw.onnx.load(model([node], {"x": [2, 3], "axes": (INT64, [1])}, ["y"], opset=13))
    with gw.Session(graph) as session:
        for axis in (0, 1, 0):
            y = session.run("y", {"x": X, "axes": [axis]})
            np.testing.assert_allclose(y, X.sum(axis))
    slope = gw.gradients(graph["y"].sum(), [graph["x"]])
    assert (
        graph.output({"x": X, "axes": [1]}, *slope)[slope[0].name].tolist()
        == np.ones((2, 3)).tolist()
    )


def test_shapes_computed_in_the_graph_are_known_early() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["n"]),
        helper.make_node("Concat", ["n", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    stored = {"zero": np.int64([0]), "rest": np.int64([3, 2])}
    graph = gw.onnx.load(model(nodes, {"x": ["N", 6]}, ["y"], stored=stored))
    assert graph["y"].shape == (gw.Dim.symbol("N"), 3, 2)


def test_functions_nest_take_attributes_and_have_defaults() -> None:
    inner = helper.make_function(
        "local", "Leak", ["a"], ["b"],
        [helper.make_node("LeakyRelu", ["a"], ["b"])], [helper.make_opsetid("", 18)],
        attribute_protos=[helper.make_attribute("slope", 0.5)],
    )  # fmt: skip
    reference = inner.node[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "slope", 1
    outer = helper.make_function(
        "local", "Twice", ["x"], ["y"],
        [
            helper.make_node("Leak", ["x"], ["h"], domain="local"),
            helper.make_node("Leak", ["h"], ["y"], domain="local", slope=0.1),
        ],
        [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)],
    )  # fmt: skip
    node = helper.make_node("Twice", ["x"], ["y"], domain="local")
    proto = model([node], {"x": [2, 3]}, ["y"], functions=[inner, outer], domains=["local"])
    (y,) = run(proto, {"x": X}, "y")
    np.testing.assert_allclose(y, np.where(X < 0, X * 0.05, X), rtol=1e-6)


def test_a_function_that_calls_itself_is_refused() -> None:
    body = [helper.make_node("Again", ["x"], ["y"], domain="local")]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    again = helper.make_function("local", "Again", ["x"], ["y"], body, imports)
    node = helper.make_node("Again", ["x"], ["y"], domain="local")
    proto = model([node], {"x": [2]}, ["y"], functions=[again], domains=["local"])
    with pytest.raises(ArchiveError, match="nest deeper"):
        gw.onnx.load(proto)


def test_branches_use_what_stands_outside() -> None:
    def branch(op_type: str) -> Any:
        out = helper.make_tensor_value_info("r", FLOAT, [2, 3])
        return helper.make_graph([helper.make_node(op_type, ["x", "w"], ["r"])], op_type, [], [out])

    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branch("Mul"), else_branch=branch("Add")
    )
    proto = model(
        [node], {"c": (TensorProto.BOOL, []), "x": [2, 3]}, ["y"], stored={"w": np.float32([2.0])}
    )
    for flag, expected in ((True, X * 2), (False, X + 2)):
        np.testing.assert_allclose(run(proto, {"c": flag, "x": X}, "y")[0], expected)


def test_all_unknown_operators_are_named_at_once() -> None:
    body = [helper.make_node("Mystery", ["x"], ["y"], domain="far")]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("far", 1)]
    called = helper.make_function("local", "Call", ["x"], ["y"], body, imports)
    nodes = [
        helper.make_node("Unheard", ["x"], ["a"]),
        helper.make_node("Unheard", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Call", ["c"], ["y"], domain="local"),
    ]
    proto = model(nodes, {"x": [2]}, ["y"], functions=[called], domains=["local", "far"])
    with pytest.raises(UnsupportedOpError) as caught:
        gw.onnx.load(proto)
    text = str(caught.value)
    assert "ai.onnx Unheard (opset 18): 2 nodes" in text
    assert "far Mystery (opset 1): 1 node," in text
    assert "Relu" not in text


def test_names_of_the_model_are_kept_and_outputs_are_found() -> None:
    nodes = [
        helper.make_node("Relu", ["in:0"], ["h"], name="/enc/layer.0/Relu"),
        helper.make_node("Split", ["h"], ["left", "right"], name="cut", axis=1, num_outputs=2),
        helper.make_node("Identity", ["w"], ["copy"]),
    ]
    proto = model(
        nodes, {"in:0": ["B", 4]}, ["left", "right", "h", "copy", "w", "in:0"],
        stored={"w": np.float32([1, 2])},
    )  # fmt: skip
    graph = gw.onnx.load(proto)
    assert [t.name for t in graph.placeholders] == ["in_0"]
    feeds = {"in_0": X[:, :2].repeat(2, 1)}
    found = graph.output(feeds, "left", "right", "h", "copy")
    np.testing.assert_allclose(found["left"], feeds["in_0"].clip(0)[:, :2])
    np.testing.assert_allclose(found["right"], feeds["in_0"].clip(0)[:, 2:])
    assert "cut" in {n.name for n in graph.nodes} or graph["left"].node.name == "left"
    assert graph["left"].shape[0] == gw.Dim.symbol("B")


def test_trainable_models_learn() -> None:
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    stored = {"w": np.float32([[1.0, 2.0, 3.0]]), "b": np.float32([0.5])}
    graph = gw.onnx.load(model([node], {"x": ["B", 3]}, ["y"], stored=stored), trainable=True)
    assert sorted(t.name for t in graph.trainable) == ["b", "w"]
    (dw,) = gw.gradients(graph["y"].sum(), [graph["w"]])
    np.testing.assert_allclose(graph.output({"x": X}, dw)[dw.name], X.sum(0)[None])
    assert not gw.onnx.load(model([node], {"x": ["B", 3]}, ["y"], stored=stored)).trainable


def external(location: str, **entries: Any) -> Any:
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [3]}, ["y"])
    tensor = proto.graph.initializer.add()
    tensor.name, tensor.data_type, tensor.data_location = "w", FLOAT, TensorProto.EXTERNAL
    tensor.dims.append(3)
    for key, value in {"location": location, **entries}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return proto


def test_external_data_of_the_models_folder(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"####" + np.float32([1, 2, 3]).tobytes())
    path = tmp_path / "model.onnx"
    path.write_bytes(external("w.bin", offset=4, length=12).SerializeToString())
    graph = gw.onnx.load(path)
    assert graph.output({"x": np.zeros(3, np.float32)}, "y")["y"].tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(ArchiveError, match="load the model by its path"):
        gw.onnx.load(path.read_bytes())


@pytest.mark.parametrize(
    ("location", "entries", "message"),
    [
        ("../secret.bin", {}, "in the folder of the model"),
        ("{root}/secret.bin", {}, "in the folder of the model"),
        ("link.bin", {}, "in the folder of the model"),
        ("sub", {}, "in the folder of the model"),
        ("", {}, "in the folder of the model"),
        ("w.bin", {"offset": 8}, "at most 12"),
        ("w.bin", {"offset": 4, "length": 12}, "at most 12"),
        ("w.bin", {"offset": -4}, "a whole number"),
    ],
)
def test_external_data_elsewhere_is_refused(
    tmp_path: Path, location: str, entries: Any, message: str
) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(12))
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "w.bin").write_bytes(bytes(12))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    proto = external(location.format(root=tmp_path), **entries)
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ArchiveError, match=message):
        gw.onnx.load(folder / "m.onnx")


def test_regions_are_pooled_cell_by_cell() -> None:
    x = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
    rois = np.float32([[0, 0, 0, 3, 3], [0, 1, 1, 2, 3], [0, 3, 0, 3, 0]])
    node = helper.make_node("MaxRoiPool", ["x", "rois"], ["y"], pooled_shape=[2, 2])
    proto = model([node], {"x": x.shape, "rois": rois.shape}, ["y"], opset=22)
    (y,) = run(proto, {"x": x, "rois": rois}, "y")
    assert y[0, 0].tolist() == [[5.0, 7.0], [13.0, 15.0]]
    assert y[1, 0].tolist() == [[9.0, 10.0], [13.0, 14.0]]
    assert y[2, 1].tolist() == [[19.0, 19.0], [19.0, 19.0]]


def test_regular_operators_of_classical_models() -> None:
    table = {"imputed_value_floats": [5.0], "replaced_value_float": float("nan")}
    nodes = [
        helper.make_node("Imputer", ["x"], ["a"], domain="ai.onnx.ml", **table),
        helper.make_node("Scaler", ["a"], ["b"], domain="ai.onnx.ml", offset=[1.0], scale=[2.0]),
        helper.make_node("Normalizer", ["b"], ["y"], domain="ai.onnx.ml", norm="L1"),
        helper.make_node(
            "LinearRegressor", ["a"], ["z"], domain="ai.onnx.ml",
            coefficients=[1.0, 2.0, 3.0, 4.0], intercepts=[0.5, -0.5], targets=2,
        ),
    ]  # fmt: skip
    proto = model(nodes, {"x": [2, 2]}, ["y", "z"], domains=["ai.onnx.ml"])
    x = np.float32([[np.nan, 2.0], [3.0, 1.0]])
    y, z = run(proto, {"x": x}, "y", "z")
    filled = np.where(np.isnan(x), 5.0, x)
    scaled = (filled - 1) * 2
    np.testing.assert_allclose(y, scaled / np.abs(scaled).sum(1, keepdims=True))
    np.testing.assert_allclose(z, filled @ np.float32([[1, 3], [2, 4]]) + np.float32([0.5, -0.5]))


@pytest.mark.parametrize(("opset", "named"), [(2, {}), (13, {}), (18, {"num_outputs": 3})])
@pytest.mark.parametrize("outputs", [["y", "", ""], ["", "y", ""], ["", "", "y"]])
def test_parts_of_a_split_that_nobody_names_are_parts(
    opset: int, named: dict[str, int], outputs: list[str]
) -> None:
    from onnx.reference import ReferenceEvaluator

    nodes = [helper.make_node("Split", ["x"], outputs, axis=0, **named)]
    proto = model(nodes, {"x": [6, 2]}, ["y"], opset=opset)
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    (want,) = ReferenceEvaluator(proto).run(None, {"x": x})
    assert want.shape == (2, 2)
    np.testing.assert_array_equal(gw.onnx.load(proto).output({"x": x}, "y")["y"], want)

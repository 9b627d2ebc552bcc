"""A dozen small ONNX models of all kinds, as bytes, for what damages them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tests.formats.onnx_models import FLOAT, INT64, TensorProto, helper, model, numpy_helper

node, info = helper.make_node, helper.make_tensor_value_info


def _of(array: Any) -> Any:
    return numpy_helper.from_array(np.asarray(array))


def _image() -> Any:
    draw = np.random.default_rng(0).standard_normal
    stored = {
        "w": draw((4, 2, 3, 3)).astype("f4"), "b": draw(4).astype("f4"),
        **{k: np.abs(draw(4)).astype("f4") for k in ("scale", "bias", "mean", "var")},
        "v": draw((64, 3)).astype("f4"), "sizes": np.int64([1, 4, 8, 8]),
    }  # fmt: skip
    nodes = [
        node(
            "Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]
        ),
        node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["n"], epsilon=1e-5),
        node("Relu", ["n"], ["r"]),
        node("Resize", ["r", "", "", "sizes"], ["up"], mode="linear"),
        node("MaxPool", ["up"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["m"], ["f"], axis=1),
        node("Gemm", ["f", "v"], ["g"], alpha=0.5),
        node("Softmax", ["g"], ["y"], axis=-1),
    ]
    return model(nodes, {"x": [1, 2, 8, 8]}, ["y"], stored=stored, opset=20)


def _shapes() -> Any:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["b"], axis=0),
        node("Unsqueeze", ["b", "axes"], ["b1"]),
        node("Concat", ["b1", "rest"], ["to"], axis=0),
        node("Reshape", ["x", "to"], ["r"]),
        node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
        node("Slice", ["t", "start", "end", "axes", "step"], ["sl"]),
        node("Split", ["sl"], ["p", "q"], axis=1, num_outputs=2),
        node("ConstantOfShape", ["to"], ["fill"], value=_of(np.float32([2.0]))),
        node("Expand", ["two", "to"], ["e"]),
        node("Tile", ["p", "reps"], ["ti"]),
        node("Pad", ["q", "pads"], ["pa"], mode="constant"),
        node("ReduceSum", ["pa", "axes"], ["y"], keepdims=0),
        node("Range", ["zero", "n", "n1"], ["z"]),
        node("TopK", ["r", "start1"], ["v", "i"], axis=1),
        node("Where", ["mask", "fill", "e"], ["w"]),
    ]
    stored = {
        "zero": np.int64(0), "axes": np.int64([0]), "rest": np.int64([2, 3]),
        "start": np.int64([0]), "end": np.int64([9]), "step": np.int64([1]),
        "two": np.float32([2.0]), "reps": np.int64([1, 2, 1]), "n": np.int64(6),
        "pads": np.int64([0, 1, 0, 0, 0, 1]), "n1": np.int64(2), "start1": np.int64([1]),
        "mask": np.bool_([True, False, True]),
    }  # fmt: skip
    return model(nodes, {"x": ["B", 6]}, ["y", "z", "v", "w", "ti"], stored=stored)


def _control() -> Any:
    body = helper.make_graph(
        [node("Add", ["v", "one"], ["v1"]), node("Identity", ["c"], ["c1"]),
         node("Mul", ["v1", "v1"], ["s"])],
        "body", [info("i", INT64, []), info("c", TensorProto.BOOL, []), info("v", FLOAT, [2])],
        [info("c1", TensorProto.BOOL, []), info("v1", FLOAT, [2]), info("s", FLOAT, [2])],
        [numpy_helper.from_array(np.float32([1, 2]), "one")],
    )  # fmt: skip
    branches = {
        f"{key}_branch": helper.make_graph(
            [node(op, ["x"], [key])], key, [], [info(key, FLOAT, [2])]
        )
        for key, op in (("then", "Neg"), ("else", "Abs"))
    }
    step = helper.make_graph(
        [node("Add", ["a", "b"], ["a1"]), node("Identity", ["a1"], ["o"])], "step",
        [info("a", FLOAT, [2]), info("b", FLOAT, [2])],
        [info("a1", FLOAT, [2]), info("o", FLOAT, [2])],
    )  # fmt: skip
    nodes = [
        node("Loop", ["n", "cond", "x"], ["l", "ls"], body=body),
        node("If", ["cond"], ["f"], **branches),
        node("Scan", ["l", "ls"], ["y", "z"], body=step, num_scan_inputs=1),
    ]
    stored = {"n": np.int64(3), "cond": np.bool_(True)}
    return model(nodes, {"x": [2]}, ["y", "z", "f"], stored=stored)


def _functions() -> Any:
    inner = helper.make_function(
        "mine", "half", ["a"], ["b"],
        [node("Constant", [], ["h"], value_float=0.5), node("Mul", ["a", "h"], ["b"])],
        [helper.make_opsetid("", 18)],
    )  # fmt: skip
    outer = helper.make_function(
        "mine", "twice", ["a"], ["b"],
        [node("half", ["a"], ["c"], domain="mine"), node("LeakyRelu", ["c"], ["b"])],
        [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)], ["alpha"],
    )  # fmt: skip
    reference = outer.node[1].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "alpha", 1
    call = node("twice", ["x"], ["y"], domain="mine", alpha=0.25)
    return model([call], {"x": ["B", 2]}, ["y"], functions=[inner, outer], domains=["mine"])


def _recurrent() -> Any:
    draw = np.random.default_rng(1).standard_normal
    stored = {"w": draw((1, 12, 2)).astype("f4"), "r": draw((1, 12, 3)).astype("f4")}
    nodes = [
        node("LSTM", ["x", "w", "r"], ["h", "last", ""], hidden_size=3,
             activations=["Sigmoid", "Tanh", "Tanh"]),
        node("Squeeze", ["h", "one"], ["s"]),
        node("LayerNormalization", ["s", "g"], ["y"], axis=-1),
        node("Einsum", ["y", "y"], ["z"], equation="tbi,tbj->tij"),
    ]  # fmt: skip
    stored |= {"one": np.int64([1]), "g": np.ones(3, np.float32)}
    return model(nodes, {"x": [4, "B", 2]}, ["y", "z"], stored=stored)


def _trees() -> Any:
    tree = {
        "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
        "target_weights": [1.0, -1.0],
    }  # fmt: skip
    ml = {"domain": "ai.onnx.ml"}
    nodes = [
        node("Scaler", ["x"], ["s"], offset=[0.5], scale=[2.0], **ml),
        node("TreeEnsembleRegressor", ["s"], ["y"], n_targets=1, **tree, **ml),
        node("LinearClassifier", ["s"], ["l", "p"], coefficients=[1.0, 2.0, -1.0, 0.5],
             intercepts=[0.1, 0.2], classlabels_ints=[0, 1], post_transform="SOFTMAX", **ml),
        node("ArrayFeatureExtractor", ["x", "i"], ["a"], **ml),
    ]  # fmt: skip
    return model(
        nodes, {"x": ["B", 2]}, ["y", "p", "a"], stored={"i": np.int64([1])}, domains=["ai.onnx.ml"]
    )


def _texts() -> Any:
    nodes = [
        node("StringNormalizer", ["t"], ["n"], case_change_action="LOWER", stopwords=["b"]),
        node("LabelEncoder", ["n"], ["e"], domain="ai.onnx.ml", keys_strings=["a", "c"],
             values_int64s=[1, 2], default_int64=-1),
        node("Cast", ["e"], ["y"], to=FLOAT),
        node("StringConcat", ["n", "n"], ["z"]),
        node("RegexFullMatch", ["n"], ["m"], pattern="a+(b|c)*"),
    ]  # fmt: skip
    proto = model(nodes, {}, ["y", "z", "m"], opset=20, domains=["ai.onnx.ml"])
    proto.opset_import[-1].version = 4
    proto.graph.initializer.append(
        TensorProto(
            name="t", data_type=TensorProto.STRING, dims=[3], string_data=[b"A", b"b", b"c"]
        )
    )
    return proto


def _sequences() -> Any:
    nodes = [
        node("SplitToSequence", ["x"], ["s"], axis=0, keepdims=1),
        node("SequenceAt", ["s", "i"], ["a"]),
        node("SequenceInsert", ["s", "a"], ["s2"]),
        node("ConcatFromSequence", ["s2"], ["y"], axis=0),
        node("SequenceLength", ["s2"], ["n"]),
    ]
    return model(nodes, {"x": [3, 2]}, ["y", "n"], stored={"i": np.int64(1)})


def _quantised() -> Any:
    stored = {
        "s": np.float32(0.1), "z": np.uint8(128), "w": np.arange(6, dtype=np.int8).reshape(2, 3),
        "ws": np.float32([0.1, 0.2, 0.3]),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("DequantizeLinear", ["w", "ws"], ["wd"], axis=1),
        node("MatMul", ["d", "wd"], ["y"]),
        node("DynamicQuantizeLinear", ["y"], ["dq", "ds", "dz"]),
        node("MatMulInteger", ["q", "w"], ["mi"]),
    ]
    return model(nodes, {"x": ["B", 2]}, ["y", "mi", "dq"], stored=stored, opset=21)


def _sparse() -> Any:
    proto = model([node("MatMul", ["x", "w"], ["y"])], {"x": [2, 4]}, ["y"])
    sparse = proto.graph.sparse_initializer.add()
    sparse.dims.extend([4, 3])
    sparse.values.CopyFrom(numpy_helper.from_array(np.float32([1, 2, 3]), "w"))
    sparse.indices.CopyFrom(_of(np.int64([0, 5, 11])))
    return proto


def _external() -> Any:
    proto = model(
        [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["y"])], {"x": [2, 4]}, ["y"]
    )
    for name, dims, start in (("w", [4, 3], 0), ("b", [3], 64)):
        tensor = TensorProto(name=name, data_type=FLOAT, dims=dims, data_location=1)
        place = {"location": "w.bin", "offset": start, "length": 4 * int(np.prod(dims))}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        proto.graph.initializer.append(tensor)
    return proto


def _attention() -> Any:
    nodes = [
        node("RMSNormalization", ["x", "g"], ["n"], axis=-1),
        node("Attention", ["n", "n", "n"], ["a"], q_num_heads=2, kv_num_heads=2, is_causal=1),
        node("Gelu", ["a"], ["y"], approximate="tanh"),
        node("CumSum", ["y", "axis"], ["z"]),
        node("OneHot", ["i", "depth", "values"], ["o"]),
        node("ScatterND", ["x", "at", "up"], ["sc"]),
    ]
    stored = {
        "g": np.ones(4, np.float32), "axis": np.int64(1), "i": np.int64([0, 2]),
        "depth": np.int64([3]), "values": np.float32([0, 1]), "at": np.int64([[0]]),
        "up": np.ones((1, 3, 4), np.float32),
    }  # fmt: skip
    return model(nodes, {"x": [2, 3, 4]}, ["y", "z", "o", "sc"], stored=stored, opset=23)


@functools.cache
def models() -> dict[str, bytes]:
    """Return the models by name."""
    makers = (
        *(_image, _shapes, _control, _functions, _recurrent, _trees, _texts, _sequences),
        *(_quantised, _sparse, _external, _attention),
    )
    return {make.__name__[1:]: make().SerializeToString() for make in makers}

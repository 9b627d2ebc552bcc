"""What ``gw.ops.find`` says of an operator is what models with it are read into."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.ops.reference.onnx import NONE, PARTS
from tests.formats.onnx_models import FLOAT, INT64, helper, model, onnx
from tests.formats.test_onnx_classical import CASES


def test_every_operator_is_found() -> None:
    for domain, name in gw.onnx.operators():
        if f"{domain}.{name}" not in NONE:
            assert gw.ops.find(f"{domain or 'ai.onnx'}.{name}").call


def test_every_operator_of_onnx_is_found_or_has_a_reason() -> None:
    there = {f"{s.domain}.{s.name}".removeprefix(".") for s in onnx.defs.get_all_schemas()}
    read = {f"{domain}.{name}".removeprefix(".") for domain, name in gw.onnx.operators()}
    assert there - read == {*NONE} - read
    for name in there - {*NONE}:
        assert gw.ops.find(name).call


IMAGE, ROWS = (FLOAT, [1, 2, 4, 4]), (FLOAT, [2, 3])
BODY = helper.make_graph(
    [helper.make_node("Neg", ["a"], ["b"])],
    "body",
    [helper.make_tensor_value_info("a", FLOAT, ["n"])],
    [helper.make_tensor_value_info("b", FLOAT, ["n"])],
)
ENCODER: dict[str, Any] = {"cats_int64s": [1, 2]}
OPERATORS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "Affine": ({"x": ROWS}, {}, {"alpha": 2.0, "beta": 1.0}),
    "CastLike": ({"x": (INT64, [2]), "like": ROWS}, {}, {}),
    "CenterCropPad": ({"x": ROWS}, {"shape": np.array([1, 5])}, {}),
    "Crop": ({"x": IMAGE}, {}, {"border": [1, 1, 1, 1]}),
    "ImageScaler": ({"x": IMAGE}, {}, {"bias": [1.0, 2.0], "scale": 2.0}),
    "MaxRoiPool": ({"x": IMAGE, "rois": (FLOAT, [1, 5])}, {}, {"pooled_shape": [2, 2]}),
    "ParametricSoftplus": ({"x": ROWS}, {}, {"alpha": 2.0, "beta": 1.0}),
    "RandomNormalLike": ({"x": ROWS}, {}, {}),
    "RandomUniformLike": ({"x": ROWS}, {}, {}),
    "ReduceLogSum": ({"x": ROWS}, {"axes": np.array([1])}, {}),
    "Scale": ({"x": ROWS}, {}, {"scale": 2.0}),
    "ScaledTanh": ({"x": ROWS}, {}, {"alpha": 2.0, "beta": 1.0}),
    "Scatter": ({"x": ROWS, "at": (INT64, [1, 3]), "u": (FLOAT, [1, 3])}, {}, {}),
    "Upsample": ({"x": IMAGE}, {"scales": np.array([1, 1, 2, 2], np.float32)}, {}),
    "ai.onnx.ml.ArrayFeatureExtractor": ({"x": ROWS, "at": (INT64, [1])}, {}, {}),
    "ai.onnx.ml.Binarizer": ({"x": ROWS}, {}, {}),
    "ai.onnx.ml.CategoryMapper": (
        {"x": (INT64, [2])}, {}, {"cats_int64s": [1, 2], "cats_strings": ["a", "b"]}
    ),
    "ai.onnx.ml.FeatureVectorizer": ({"x": ROWS, "z": ROWS}, {}, {"inputdimensions": [3, 3]}),
    "ai.onnx.ml.Imputer": (
        {"x": ROWS}, {}, {"imputed_value_floats": [1.0], "replaced_value_float": 0.0}
    ),
    "ai.onnx.ml.Normalizer": ({"x": ROWS}, {}, {"norm": "L1"}),
    "ai.onnx.ml.OneHotEncoder": ({"x": (INT64, [2])}, {}, ENCODER),
    "ai.onnx.ml.Scaler": ({"x": ROWS}, {}, {"offset": [1.0], "scale": [2.0]}),
}  # fmt: skip
"""Operator -> inputs, stored ones, attributes."""
OLD = {
    **{"Scatter": 10, "Upsample": 9},
    **dict.fromkeys(("Affine", "Crop", "ImageScaler", "ParametricSoftplus", "Scale"), 6),
    "ScaledTanh": 6,
}
"""Operator -> an opset that has it."""


def names_in(graph: gw.Graph) -> set[str]:
    return {node.op.name for node in graph.nodes}


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_of_several_ops_is_read_into_them(operator: str) -> None:
    inputs, stored, attributes = OPERATORS[operator]
    domain, _, op_type = operator.rpartition(".")
    node = helper.make_node(op_type, [*inputs, *stored], ["y"], domain=domain, **attributes)
    made = model(
        [node], inputs, ["y"], stored=stored, opset=OLD.get(op_type, 20),
        domains=[domain] if domain else [],
    )  # fmt: skip
    assert names_in(gw.onnx.load(made.SerializeToString())) >= {*PARTS[operator]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_classical_model_is_read_into_them(case: tuple[str, int, dict[str, Any]]) -> None:
    op_type, n_outputs, attributes = case
    outputs = ["y", "z"][:n_outputs]
    node = helper.make_node(op_type, ["x"], outputs, domain="ai.onnx.ml", **attributes)
    made = model([node], {"x": (FLOAT, [5, 3])}, outputs, domains=["ai.onnx.ml"])
    names = names_in(gw.onnx.load(made.SerializeToString()))
    assert names >= {*PARTS.get(f"ai.onnx.ml.{op_type}", ())}

"""Classical models of ``ai.onnx.ml``: against the evaluator of ONNX, and cases made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError

onnx = pytest.importorskip("onnx", reason="no onnx: pip install -e '.[onnx]'")
from onnx import TensorProto, helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

DRAW = np.random.default_rng(7)
X = DRAW.standard_normal((5, 3)).astype(np.float32)
RBF = {"kernel_type": "RBF", "kernel_params": [0.5, 0.0, 0.0]}
POLY = {"kernel_type": "POLY", "kernel_params": [0.5, 0.2, 3.0]}
SIGMOID = {"kernel_type": "SIGMOID", "kernel_params": [0.3, 0.1, 0.0]}


def numbers(*shape: int) -> list[float]:
    return [float(v) for v in DRAW.standard_normal(shape).ravel()]


def trees(**others: Any) -> dict[str, Any]:
    """Return two trees: the first of depth 2, the second one question."""
    return {
        "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
        "nodes_featureids": [0, 0, 2, 0, 0, 1, 0, 0],
        "nodes_modes": [
            *("BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF"),
            *("BRANCH_LT", "LEAF", "LEAF"),
        ],
        "nodes_values": [0.1, 0.0, -0.3, 0.0, 0.0, 0.2, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 3, 0, 0, 1, 0, 0],
        "nodes_falsenodeids": [2, 0, 4, 0, 0, 2, 0, 0],
        **others,
    }


def leaves(what: str, ids: list[int]) -> dict[str, Any]:
    return {
        f"{what}_treeids": [0, 0, 0, 0, 1, 1],
        f"{what}_nodeids": [1, 3, 3, 4, 1, 2],
        f"{what}_ids": ids,
        f"{what}_weights": [0.5, -1.5, 2.0, 0.25, 1.0, -0.75],
    }


THREE = {"classlabels_ints": [5, 6, 7]}
TWO = {"classlabels_strings": ["no", "yes"]}
VECTORS = {"vectors_per_class": [2, 1, 2], "support_vectors": numbers(5, 3), "rho": numbers(3)}
PAIR = {"vectors_per_class": [2, 1], "support_vectors": numbers(3, 3), "rho": [0.1]}
CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("LinearRegressor", 1, {"coefficients": numbers(2, 3), "intercepts": [0.5, -1.0],
                            "targets": 2}),
    *(
        ("LinearClassifier", 2, {**THREE, "coefficients": numbers(3, 3), "intercepts": numbers(3),
                                 "post_transform": post})
        for post in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
    ),
    ("LinearClassifier", 2, {**TWO, "coefficients": numbers(3), "intercepts": [0.2],
                             "post_transform": "LOGISTIC"}),
    *(
        ("SVMRegressor", 1, {"n_supports": 4, "support_vectors": numbers(4, 3),
                             "coefficients": numbers(4), "rho": [0.3], **kernel})
        for kernel in ({}, RBF, POLY, SIGMOID)
    ),
    ("SVMRegressor", 1, {"coefficients": numbers(3), "rho": [0.3], "one_class": 1,
                         "n_supports": 0}),
    *(
        ("SVMClassifier", 2, {**THREE, **VECTORS, "coefficients": numbers(2, 5), **kernel})
        for kernel in ({"kernel_type": "LINEAR"}, RBF, POLY)
    ),
    ("SVMClassifier", 2, {**PAIR, "classlabels_ints": [0, 1], "coefficients": numbers(3), **RBF}),
    ("SVMClassifier", 2, {"classlabels_ints": [0, 1], "coefficients": numbers(2, 3),
                          "rho": [0.4], "vectors_per_class": [0, 0]}),
    *(
        ("TreeEnsembleRegressor", 1, trees(
            **leaves("target", [0, 0, 1, 1, 0, 1]), n_targets=2, aggregate_function=how))
        for how in ("SUM", "AVERAGE")
    ),
    ("TreeEnsembleRegressor", 1, trees(
        **leaves("target", [0] * 6), n_targets=1, base_values=[2.0])),
    *(
        ("TreeEnsembleClassifier", 2, trees(
            **leaves("class", [0, 1, 2, 2, 0, 1]), classlabels_int64s=[3, 4, 5],
            post_transform=post))
        for post in ("NONE", "SOFTMAX")
    ),
    ("TreeEnsembleClassifier", 2, trees(
        **leaves("class", [0] * 6), classlabels_strings=["a", "b"], post_transform="LOGISTIC")),
]  # fmt: skip


def model(op_type: str, n: int, attributes: dict[str, Any], kind: int = TensorProto.FLOAT) -> Any:
    outputs = ["y", "z"][:n]
    node = helper.make_node(op_type, ["x"], outputs, domain="ai.onnx.ml", **attributes)
    infos = [helper.make_empty_tensor_value_info(name) for name in outputs]
    x = helper.make_tensor_value_info("x", kind, ["N", 3])
    graph = helper.make_graph([node], "classical", [x], infos)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports)


@pytest.mark.parametrize(("op_type", "n", "attributes"), CASES)
def test_results_are_those_of_the_reference(op_type: str, n: int, attributes: Any) -> None:
    proto = model(op_type, n, attributes)
    theirs = ReferenceEvaluator(proto).run(None, {"x": X})
    graph = gw.onnx.load(proto)
    ours = list(graph.output({"x": X}, *["y", "z"][:n]).values())
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
        else:
            assert a.tolist() == b.tolist()
    again = gw.onnx.load(gw.onnx.to_model(graph, ["y", "z"][:n]))
    for a, b in zip(again.output({"x": X}, *["y", "z"][:n]).values(), ours, strict=True):
        assert a.tolist() == b.tolist()


def test_probabilities_of_pairs_that_agree_are_recovered() -> None:
    """Where rᵢⱼ = pᵢ/(pᵢ + pⱼ) for all pairs, the coupled probabilities are p."""
    from gradwright.formats.onnx.readers.classical import _coupled

    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    pairs = [(0, 1), (0, 2), (1, 2)]
    won = np.stack([p[:, i] / (p[:, i] + p[:, j]) for i, j in pairs], 1)
    graph = gw.Graph()
    y = _coupled(graph.constant(won), 3, pairs)
    np.testing.assert_allclose(graph.output({}, y)[y.name], p, atol=5e-3)


@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_probabilities_are_those_of_onnx_runtime(n: int) -> None:
    pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install -e '.[test]'")
    from tests.formats.estimators import theirs

    pairs = n * (n - 1) // 2
    proto = model("SVMClassifier", 2, {
        "classlabels_ints": list(range(n)), "vectors_per_class": [1] * n, "rho": numbers(pairs),
        "support_vectors": numbers(n, 3), "coefficients": numbers(n - 1, n), **RBF,
        "prob_a": [-1.0 - k / 7 for k in range(pairs)], "prob_b": numbers(pairs),
    })  # fmt: skip
    labels, wanted = theirs(proto.SerializeToString(), X, "x").values()
    found = gw.onnx.load(proto).output({"x": X}, "y", "z")
    assert found["y"].tolist() == labels.tolist()
    np.testing.assert_allclose(found["z"], wanted, atol=1e-6)


def test_categories_are_mapped_both_ways() -> None:
    table = {"cats_strings": ["a", "b"], "cats_int64s": [7, 8], "default_int64": -5}
    there = gw.onnx.load(model("CategoryMapper", 1, table, TensorProto.STRING))
    assert there.output({"x": [["b", "c", "a"]]}, "y")["y"].tolist() == [[8, -5, 7]]
    back = gw.onnx.load(model("CategoryMapper", 1, table, TensorProto.INT64))
    assert back.output({"x": [[8, 9, 7]]}, "y")["y"].tolist() == [["b", "_Unused", "a"]]


@pytest.mark.parametrize(
    "changed",
    [
        {"nodes_truenodeids": [1, 0, 2, 0, 0, 1, 0, 0]},
        {"nodes_truenodeids": [9, 0, 3, 0, 0, 1, 0, 0]},
        {"nodes_modes": ["BRANCH_LEQ"] * 8},
        {"nodes_modes": ["LEAF"] * 8},
        {"target_ids": [0, 0, 4, 1, 0, 1]},
        {"target_nodeids": [0, 3, 3, 4, 1, 2]},
        {"nodes_values": [0.5]},
        {"n_targets": 1 << 40},
        {"aggregate_function": "MEDIAN"},
    ],
)
def test_trees_that_are_none_are_refused(changed: dict[str, Any]) -> None:
    attributes = trees(**leaves("target", [0, 0, 1, 1, 0, 1]), n_targets=2)
    with pytest.raises(GradwrightError):
        gw.onnx.load(model("TreeEnsembleRegressor", 1, {**attributes, **changed}))

"""Models of opsets 1 to 6, and operators that ONNX had on trial: against numpy and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError
from tests.formats.onnx_models import X, model, run

onnx = pytest.importorskip("onnx", reason="no onnx: pip install -e '.[onnx]'")
from onnx import helper, version_converter  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

DRAW = np.random.default_rng(3)
IMAGE = DRAW.standard_normal((2, 3, 4, 5)).astype(np.float32)
CHANNELS = np.array([1.0, -2.0, 0.5], np.float32)
ROW = np.array([10.0, 20.0, 30.0], np.float32)
COLUMN = np.array([10.0, 20.0], np.float32)
PAIR = {"broadcast": 1}
HINT = {"consumed_inputs": [0]}


def by_channel(v: Any) -> Any:
    return np.reshape(v, (-1, 1, 1))


ELEMENTS: dict[str, Callable[[Any], Any]] = {
    "Abs": np.abs, "Ceil": np.ceil, "Exp": np.exp, "Floor": np.floor, "Neg": np.negative,
    "Reciprocal": np.reciprocal, "Relu": lambda x: np.maximum(x, 0), "Tanh": np.tanh,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip
PAIRS: list[tuple[str, dict[str, Any], Any, Any, Any]] = [
    ("Add", {}, X, 2 * X, 3 * X),
    ("Add", PAIR, X, ROW, X + ROW),
    ("Add", {**PAIR, "axis": 1}, X, ROW, X + ROW),
    ("Sub", {**PAIR, "axis": 0}, X, COLUMN, X - COLUMN[:, None]),
    ("Sub", {**PAIR, "axis": -2}, X, COLUMN, X - COLUMN[:, None]),
    ("Mul", {**PAIR, "axis": 1}, IMAGE, CHANNELS, IMAGE * by_channel(CHANNELS)),
    ("Div", {**PAIR, "axis": 1}, IMAGE, IMAGE[0, :, :, 0], IMAGE / IMAGE[0, :, :, :1]),
    ("Mul", {**PAIR, "axis": 0}, X, np.float32(2.0), 2 * X),
    ("Pow", {**PAIR, "axis": 0}, X, COLUMN / 10, X ** (COLUMN[:, None] / 10)),
    ("Less", {**PAIR, "axis": 0}, X, COLUMN - 11, COLUMN[:, None] - 11 > X),
    ("Greater", PAIR, X, ROW - 20, X > ROW - 20),
    ("And", {**PAIR, "axis": 0}, X > 0, COLUMN > 10, (X > 0) & (COLUMN > 10)[:, None]),
    ("Xor", PAIR, X > 0, ROW > 10, (X > 0) ^ (ROW > 10)),
    ("Equal", {**PAIR, "axis": 0}, X.astype("i4"), np.array([-2, 0], "i4"),
     X.astype("i4") == [[-2], [0]]),
]  # fmt: skip
MEAN, VAR = np.array([0.1, 0.2, -0.3], "f4"), np.array([1.0, 2.0, 0.5], "f4")
NORMAL = (IMAGE - by_channel(MEAN)) / np.sqrt(by_channel(VAR) + np.float32(1e-5))
OF_BATCH = (IMAGE - IMAGE.mean((0, 2, 3), keepdims=True)) / np.sqrt(
    IMAGE.var((0, 2, 3), keepdims=True) + 1e-5
)
ONES = np.ones(3, np.float32)
TABLE = np.abs(IMAGE[0]) + 0.5
OTHERS: list[tuple[str, int, dict[str, Any], list[Any], Any]] = [
    ("Clip", 1, {**HINT, "min": -1.0, "max": 1.0}, [X], X.clip(-1, 1)),
    ("Elu", 1, {**HINT, "alpha": 2.0}, [X], np.where(X > 0, X, 2 * np.expm1(X))),
    ("LeakyRelu", 1, {**HINT, "alpha": 0.3}, [X], np.where(X > 0, X, 0.3 * X)),
    ("HardSigmoid", 1, {**HINT, "alpha": 0.4}, [X], np.clip(0.4 * X + 0.5, 0, 1)),
    ("Max", 1, {"consumed_inputs": [0, 0]}, [X, -X], np.abs(X)),
    ("Sum", 1, {"consumed_inputs": [0, 0, 0]}, [X, X, X], 3 * X),
    ("Mean", 1, {}, [X, 3 * X], 2 * X),
    ("PRelu", 6, {}, [IMAGE, CHANNELS], np.where(IMAGE < 0, IMAGE * by_channel(CHANNELS), IMAGE)),
    ("PRelu", 1, {}, [X, CHANNELS[:1]], np.where(X < 0, X * CHANNELS[0], X)),
    ("Gemm", 6, {"transB": 1, "alpha": 0.5, "broadcast": 1}, [X, X, COLUMN], X @ X.T / 2 + COLUMN),
    ("Gemm", 1, {"beta": 2.0}, [X, X.T, np.eye(2, dtype="f4")], X @ X.T + 2 * np.eye(2)),
    ("Cast", 1, {"to": "INT32"}, [X], X.astype("i4")),
    ("Cast", 1, {"to": "DOUBLE"}, [X], X.astype("f8")),
    ("Concat", 1, {}, [X, ROW[None].repeat(2, 0)], np.concatenate([X, [ROW, ROW]], 1)),
    ("Concat", 1, {"axis": 0}, [X, ROW[None]], np.concatenate([X, [ROW]])),
    ("Reshape", 1, {"shape": [3, -1]}, [X], X.reshape(3, 2)),
    ("Reshape", 1, {"shape": [0, 1, 3]}, [X], X[:, None]),
    ("Pad", 1, {"paddings": [0, 1, 0, 2], "value": 7.0}, [X],
     np.pad(X, ((0, 0), (1, 2)), constant_values=7)),
    ("Tile", 1, {}, [X, np.array([2], "i8"), np.array([1], "i8")], np.tile(X, (1, 2))),
    ("Upsample", 1, {"height_scale": 2.0, "width_scale": 3.0}, [IMAGE],
     IMAGE.repeat(2, 2).repeat(3, 3)),
    ("GlobalLpPool", 1, {"p": 1.0}, [IMAGE], np.abs(IMAGE).sum((2, 3), keepdims=True)),
    ("LpPool", 1, {"kernel_shape": [4, 5]}, [IMAGE],
     np.sqrt((IMAGE**2).sum((2, 3), keepdims=True))),
    ("InstanceNormalization", 1, {}, [IMAGE, ONES, 0 * ONES],
     (IMAGE - IMAGE.mean((2, 3), keepdims=True))
     / np.sqrt(IMAGE.var((2, 3), keepdims=True) + 1e-5)),
    ("BatchNormalization", 6, {"is_test": 1}, [IMAGE, ONES, CHANNELS, MEAN, VAR],
     NORMAL + by_channel(CHANNELS)),
    ("BatchNormalization", 1, {"is_test": 1, "spatial": 0, "consumed_inputs": [0, 0, 0, 1, 1]},
     [IMAGE, TABLE, IMAGE[1], IMAGE[0], TABLE],
     (IMAGE - IMAGE[0]) / np.sqrt(TABLE + 1e-5) * TABLE + IMAGE[1]),
    ("BatchNormalization", 6, {}, [IMAGE, ONES, CHANNELS, MEAN, VAR],
     OF_BATCH + by_channel(CHANNELS)),
]  # fmt: skip


def run_one(op_type: str, opset: int, attrs: Any, xs: list[Any]) -> Any:
    proto, feeds = one_node(op_type, opset, attrs, xs)
    (y,) = run(proto, feeds, "y")
    return y


def one_node(op_type: str, opset: int, attrs: Any, xs: list[Any]) -> tuple[Any, dict[str, Any]]:
    """Return a model of one node and what it is fed; integers are stored in it."""
    names = [f"x{i}" for i in range(len(xs))]
    arrays = dict(zip(names, map(np.asarray, xs), strict=True))
    fed = {k: v for k, v in arrays.items() if v.dtype != np.int64}
    infos = {k: (helper.np_dtype_to_tensor_dtype(v.dtype), [*v.shape]) for k, v in fed.items()}
    stored = {k: v for k, v in arrays.items() if k not in fed}
    node = helper.make_node(op_type, names, ["y"], **attrs)
    return model([node], infos, ["y"], stored=stored, opset=opset), fed


@pytest.mark.parametrize("op_type", ELEMENTS)
@pytest.mark.parametrize("opset", [1, 6])
def test_elements(op_type: str, opset: int) -> None:
    found = run_one(op_type, opset, HINT if opset == 1 else {}, [X])
    np.testing.assert_allclose(found, ELEMENTS[op_type](X), rtol=1e-6)


@pytest.mark.parametrize(("op_type", "attrs", "a", "b", "expected"), PAIRS)
def test_pairs_broadcast_from_an_axis_on(
    op_type: str, attrs: Any, a: Any, b: Any, expected: Any
) -> None:
    for opset in (1, 6):
        found = run_one(op_type, opset, attrs, [a, b])
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert found.shape == expected.shape


@pytest.mark.parametrize(("op_type", "opset", "attrs", "xs", "expected"), OTHERS)
def test_operators(op_type: str, opset: int, attrs: Any, xs: Any, expected: Any) -> None:
    found = run_one(op_type, opset, attrs, xs)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


def test_split_by_an_input() -> None:
    node = helper.make_node("Split", ["x", "sizes"], ["a", "b"], axis=1)
    proto = model([node], {"x": X.shape}, ["a", "b"], stored={"sizes": np.array([1, 2])}, opset=1)
    a, b = run(proto, {"x": X}, "a", "b")
    np.testing.assert_array_equal(np.concatenate([a, b], 1), X)
    assert (a.shape, b.shape) == ((2, 1), (2, 2))


def test_batch_norm_that_trains_returns_the_next_statistics() -> None:
    """Of the batch, mixed with the old ones."""
    outputs = ["y", "mean", "var"]
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], outputs, momentum=0.75)
    stored = {"s": ONES, "b": 0 * ONES, "m": MEAN, "v": VAR}
    proto = model([node], {"x": IMAGE.shape}, outputs, stored=stored, opset=6)
    y, mean, var = run(proto, {"x": IMAGE}, *outputs)
    np.testing.assert_allclose(y, OF_BATCH, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mean, 0.75 * MEAN + 0.25 * IMAGE.mean((0, 2, 3)), rtol=1e-5)
    np.testing.assert_allclose(var, 0.75 * VAR + 0.25 * IMAGE.var((0, 2, 3)), rtol=1e-5)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_are_those_of_opset_7(kind: str) -> None:
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    x, w, r = (
        DRAW.standard_normal(s).astype(np.float32)
        for s in ((3, 2, 4), (1, gates * 5, 4), (1, gates * 5, 5))
    )
    found = {}
    attrs: dict[str, Any] = {"hidden_size": 5, "output_sequence": 1}
    for opset in (1, 7):
        node = helper.make_node(kind, ["x", "w", "r"], ["y"], **attrs)
        attrs.pop("output_sequence", None)
        proto = model([node], {"x": x.shape}, ["y"], stored={"w": w, "r": r}, opset=opset)
        (found[opset],) = run(proto, {"x": x}, "y")
    np.testing.assert_array_equal(found[1], found[7])


def test_a_network_of_opset_6_is_what_the_converted_one_is() -> None:
    """Names stay, where the library's converter makes others."""
    nodes = [
        helper.make_node("Conv", ["x:0", "w"], ["c"], name="conv/a", kernel_shape=[3, 3]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], is_test=1),
        helper.make_node("Dropout", ["n"], ["d"], name="drop", ratio=0.5, is_test=1),
        helper.make_node("Reshape", ["d", "shape"], ["flat"], name="flatten"),
        helper.make_node("Gemm", ["flat", "w2", "b2"], ["y"], broadcast=1, transB=1),
    ]
    stored = {
        "w": DRAW.standard_normal((3, 3, 3, 3)).astype("f4"), "s": ONES, "b": CHANNELS,
        "m": MEAN, "v": VAR, "shape": np.array([2, -1]),
        "w2": DRAW.standard_normal((4, 18)).astype("f4"), "b2": np.arange(4, dtype="f4"),
    }  # fmt: skip
    proto = model(nodes, {"x:0": IMAGE.shape}, ["y"], stored=stored, opset=6)
    for name, array in stored.items():  # of IR 3: what is stored is an input, too
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        proto.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    newer = version_converter.convert_version(proto, 21)
    evaluator: Any = ReferenceEvaluator(newer)
    (expected,) = evaluator.run(None, {"x:0": IMAGE})
    (found,) = run(proto, {"x_0": IMAGE}, "y")
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    graph = gw.onnx.load(proto)
    assert all(name in graph for name in ("x_0", "w", "conv/a", "drop", "flatten", "y"))


def test_a_model_older_than_opsets_is_of_the_first() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to="INT64")
    proto = model([node], {"x": X.shape}, ["y"], opset=1)
    proto.ir_version = 2
    del proto.opset_import[:]
    np.testing.assert_array_equal(run(proto, {"x": X}, "y")[0], X.astype("i8"))


TRIAL: list[tuple[str, dict[str, Any], list[Any]]] = [
    ("Affine", {"alpha": 2.0, "beta": 0.5}, [X]),
    ("ScaledTanh", {"alpha": 1.7, "beta": 0.6}, [X]),
    ("ParametricSoftplus", {"alpha": 1.5, "beta": 0.5}, [X]),
    ("Scale", {"scale": 3.0}, [X]),
    ("ImageScaler", {"scale": 2.0, "bias": [1.0, 2.0, 3.0]}, [IMAGE]),
    ("Crop", {"border": [1, 0, 1, 2]}, [IMAGE]),
    ("Crop", {"border": [1, 1, 0, 0], "scale": [2, 3]}, [IMAGE]),
    ("DynamicSlice", {}, [IMAGE, np.array([1, 0]), np.array([9, -1]), np.array([2, 3])]),
    ("ThresholdedRelu", {"alpha": 0.5}, [X]),
    ("MeanVarianceNormalization", {"across_channels": 1}, [IMAGE]),
    ("MeanVarianceNormalization", {"normalize_variance": 0}, [IMAGE]),
]


@pytest.mark.parametrize(("op_type", "attrs", "xs"), TRIAL)
def test_operators_on_trial(op_type: str, attrs: Any, xs: Any) -> None:
    runtime = pytest.importorskip("onnxruntime")
    proto, feeds = one_node(op_type, 8, attrs, xs)
    proto.ir_version = 8
    session = runtime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = session.run(None, feeds)
    (found,) = run(proto, feeds, "y")
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


WRONG: list[tuple[str, int, dict[str, Any], list[Any], str]] = [
    ("Add", 6, {"broadcast": 1, "axis": 1}, [X, X], "2 axes do not fit into 2 from axis 1 on"),
    ("Mul", 6, {"broadcast": 1, "axis": 5}, [X, ROW], "do not fit into 2 from axis 5 on"),
    ("Cast", 1, {"to": "LONGISH"}, [X], "to='LONGISH' is no element type"),
    ("LpPool", 1, {"p": 1.5, "kernel_shape": [2, 2]}, [IMAGE], "p=1.5 is no whole number"),
    ("Tile", 1, {}, [X, np.array([2]), np.array([7])], "not a valid node"),
    ("Reshape", 1, {}, [X], "lacks its attribute 'shape'"),
]


@pytest.mark.parametrize(("op_type", "opset", "attrs", "xs", "message"), WRONG)
def test_what_is_wrong_is_told(op_type: str, opset: int, attrs: Any, xs: Any, message: str) -> None:
    with pytest.raises(ArchiveError, match=message):
        gw.onnx.load(one_node(op_type, opset, attrs, xs)[0])


def test_gradient_of_values_of_the_model() -> None:
    """The gradient of what a model computes; of other values than it was computed from, not."""
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["h"]),
        helper.make_node("ReduceSum", ["h"], ["loss"]),
        helper.make_node("Gradient", ["x", "w"], ["dx", "dw"], domain="ai.onnx.preview.training",
                         xs=["x", "w"], y="loss"),
    ]  # fmt: skip
    infos = {"x": X.shape, "w": ROW.shape}
    proto = model(nodes, infos, ["dx", "dw"], opset=13, domains=["ai.onnx.preview.training"])
    dx, dw = run(proto, {"x": X, "w": ROW}, "dx", "dw")
    np.testing.assert_array_equal(dx, np.tile(ROW, (2, 1)))
    np.testing.assert_allclose(dw, X.sum(0))
    proto.graph.node[2].input[0] = "h"
    with pytest.raises(ArchiveError, match="at other values than those it was computed from"):
        gw.onnx.load(proto)

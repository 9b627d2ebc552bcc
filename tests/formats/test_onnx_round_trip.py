"""Every op's samples through ONNX and back: the checker accepts the model, the numbers stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import DTypeError, UnsupportedOpError
from gradwright.graph.expand import stand_in
from gradwright.op import OPS
from gradwright.ops.loading import load
from gradwright.spec import kind, known_spec
from tests.support.sweeps import telling

onnx = pytest.importorskip("onnx", reason="no onnx: pip install -e '.[onnx]'")
from onnx import helper, numpy_helper  # noqa: E402

load()

OPSET = 28


def samples(cls: type[gw.Op]) -> list[gw.Sample]:
    try:
        return list(cls.samples(np.random.default_rng(0)))
    except NotImplementedError:
        return []


OPS_WITH_SAMPLES = {n: c for n, c in OPS.items() if c.namespace not in ("", "gradient")}


def round_trip(cls: type[gw.Op], sample: gw.Sample, dtype: Any, opset: int) -> None:
    """Write a sample's graph, read it again, and run both; floats are of a dtype."""
    graph = gw.Graph("sample")
    feeds: dict[str, Any] = {}
    tensors: list[Any] = []
    for i, x in enumerate(sample.inputs):
        array = None if x is None else np.asarray(x)
        if array is None:
            tensors.append(None)
            continue
        with np.errstate(over="ignore"):
            array = array.astype(dtype) if array.dtype == np.float64 else array
        tensors.append(stand_in(graph, f"x{i}", known_spec(array)))
        feeds[f"x{i}"] = array
    try:
        with graph:
            found = cls(**sample.attrs)(*tensors)
    except DTypeError as error:  # a body states float64
        raise UnsupportedOpError(f"not in {dtype}: {error.problem}") from None
    outputs = list(found) if isinstance(found, tuple) else [found]
    model = gw.onnx.to_model(graph, outputs, opset=opset)
    onnx.checker.check_model(model, full_check=True)
    again = gw.onnx.load(model.SerializeToString())
    names = [o.name.replace(":", "_") for o in model.graph.output]
    with gw.Session(graph) as session:
        expected = session.run(outputs, feeds)
    with gw.Session(again) as session:
        ours = session.run(names, {k: as_pairs(v) for k, v in feeds.items() if k in again})
    drawn = next(iter(cls.inputs), None)
    same_numbers = drawn is None or drawn.name != "rng"  # those of our own streams are not written
    for a, b in zip(ours, expected, strict=True):
        alike(a, b, same_numbers)


def as_pairs(x: Any) -> Any:
    """Return a complex array as models have it: as pairs of numbers."""
    return (
        np.stack([x.real, x.imag], -1) if isinstance(x, np.ndarray) and kind(x.dtype) == "c" else x
    )


def alike(a: Any, b: Any, same_numbers: bool = True) -> None:
    """Hold two results, or what containers hold, against each other."""
    if isinstance(b, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            alike(x, y, same_numbers)
        return
    if b is None:
        assert a is None
        return
    b = as_pairs(b)
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    if not same_numbers:
        return
    if kind(a.dtype) == "f":
        wide = [v.astype(np.float64) for v in (a, b)]
        np.testing.assert_allclose(*wide, rtol=2e-5, atol=2e-6)
    else:
        np.testing.assert_array_equal(a, b)


def expressed(cls: type[gw.Op], sample: gw.Sample, opset: int = OPSET) -> bool:
    """Hold a sample's round trip in the first dtype that ONNX has the op for; False if in none."""
    for dtype in (np.float64, np.float32):
        try:
            round_trip(cls, sample, dtype, opset)
        except UnsupportedOpError:
            continue
        return True
    return False


@pytest.mark.parametrize("chunk", range(8))
def test_samples_come_back(chunk: int) -> None:
    """What is written is valid and means the same; ops with a rule are written."""
    for number, (name, cls) in enumerate(OPS_WITH_SAMPLES.items()):
        if number % 8 == chunk:
            try:
                found = samples(cls)
                written = [expressed(cls, found[n]) for n in telling(found, 2)]
            except Exception as error:
                raise AssertionError(f"{name}: {error}") from error
            known = cls.onnx is not None and bool(written)
            assert any(written) or not known, f"{name} has a rule, but is not written"


# -- operators that the backend suite has no case of, or none in which they are themselves --------

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5
IMAGE = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
OWN: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "Bernoulli": ({}, {"p": np.full((2, 3), 0.25, np.float32)}, {}),
    "ConcatFromSequence": ({"items": [X, X[:1]]}, {}, {"axis": 0}),
    "Dropout": ({"x": X}, {"ratio": np.float32(0.5), "training": np.bool_(True)}, {}),
    "Gemm": ({"x": X}, {"w": X.T.copy(), "b": X[:, 0].copy()}, {}),
    "GlobalLpPool": ({"x": IMAGE}, {}, {"p": 3}),
    "LayerNormalization": ({"x": X}, {"g": X[0].copy(), "b": X[1].copy()}, {"epsilon": 0.1}),
    "Multinomial": ({"x": X}, {}, {"sample_size": 5}),
    "RandomNormal": ({}, {}, {"shape": [2, 3], "mean": 1.0, "scale": 0.5}),
    "RandomNormalLike": ({"x": X}, {}, {"mean": 1.0}),
    "RandomUniform": ({}, {}, {"shape": [4], "low": -1.0, "dtype": 11}),
    "RandomUniformLike": ({"x": X}, {}, {"high": 2.0}),
    "SequenceErase": ({"items": [X, X[:1]]}, {"at": np.int64(1)}, {}),
}
"""Operator -> inputs that are fed, inputs that are stored, attributes."""
RANDOM = ("Bernoulli", "Dropout", "Multinomial", "Random")


def model_of(op_type: str) -> Any:
    """Return a model of one operator; the first size of what is fed is a symbol."""
    fed, stored, attributes = OWN[op_type]
    infos = []
    for name, value in fed.items():
        if isinstance(value, list):
            infos.append(helper.make_tensor_sequence_value_info(name, 1, [None, 3]))
        else:
            infos.append(helper.make_tensor_value_info(name, 1, ["N", *value.shape[1:]]))
    node = helper.make_node(op_type, [*fed, *stored], ["y"], **attributes)
    out = helper.make_empty_tensor_value_info("y")
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in stored.items()]
    graph = helper.make_graph([node], "own", infos, [out], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])


@pytest.mark.parametrize("op_type", OWN)
def test_an_operator_is_written_as_itself(op_type: str) -> None:
    fed = OWN[op_type][0]
    graph = gw.onnx.load(model_of(op_type))
    model = gw.onnx.to_model(graph, ["y"], opset=OPSET)
    onnx.checker.check_model(model, full_check=True)
    assert op_type in {node.op_type for node in model.graph.node}
    ours = gw.onnx.load(model).output(fed, "y")["y"]
    alike(ours, graph.output(fed, "y")["y"], not op_type.startswith(RANDOM))


def test_random_tensors_have_the_distribution_that_was_written() -> None:
    from onnx.reference import ReferenceEvaluator

    with gw.Graph() as graph:
        gw.random.normal((4000,), mean=3.0, std=0.5, name="n")
        gw.random.bernoulli((4000,), p=0.2, name="b")
    model = gw.onnx.to_model(graph, ["n", "b"])
    theirs = ReferenceEvaluator(model).run(["n", "b"], {})
    ours = gw.onnx.load(model).output({}, "n", "b").values()
    for n, b in (theirs, ours):
        assert abs(n.mean() - 3) < 0.05
        assert abs(n.std() - 0.5) < 0.05
        assert abs(b.mean() - 0.2) < 0.03


def test_opsets_of_rules_are_versions_of_their_operators() -> None:
    known: dict[tuple[str, str], set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        known.setdefault((schema.domain, schema.name), set()).add(schema.since_version)
    wrong = [
        f"{name}: {rule.op_type} {rule.since}"
        for name, cls in OPS.items()
        if (rule := cls.onnx) is not None and rule.domain != "com.microsoft"
        if rule.since not in known[rule.domain, rule.op_type]
    ]
    assert not wrong

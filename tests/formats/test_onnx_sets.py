"""The models inside ONNX's own package: exports of PyTorch, sequences, and nine networks.

Those of PyTorch and the sequences come with inputs and outputs. The networks come with constant
weights, of which most give the same number everywhere: random ones take their place, and each
value that a network computes is held against ONNX Runtime.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.formats.onnx.declarations import clean_name
from tests.support.onnx_cases import as_given, compare
from tests.support.sweeps import IS_WHOLE

onnx = pytest.importorskip("onnx", reason="no onnx: pip install -e '.[onnx]'")
from onnx import numpy_helper  # noqa: E402

DATA = Path(onnx.__file__).parent / "backend/test/data"
SETS = {"pytorch-converted": 82, "pytorch-operator": 35, "simple": 23}
"""Set -> how many models it has; all are right."""
NOT_WRITTEN: dict[str, str] = {}
"""Model that is right -> why it is not written again."""
NETWORKS = sorted(path.stem for path in (DATA / "light").glob("*.onnx"))
WIDE = ("light_bvlc_alexnet", "light_vgg19", "light_zfnet512")
"""Networks of 60 million weights and more, of which only the outputs are compared."""


def test_the_sets_are_whole() -> None:
    for name, size in SETS.items():
        assert len([*(DATA / name).glob("*/model.onnx")]) == size
    assert len(NETWORKS) == 9


def stored(path: Path, kind: Any) -> Any:
    """Return what a file of test data holds, as a session takes it."""
    if kind.HasField("sequence_type"):
        return as_given(numpy_helper.to_list(onnx.SequenceProto.FromString(path.read_bytes())))
    if kind.HasField("optional_type"):
        return as_given(numpy_helper.to_optional(onnx.OptionalProto.FromString(path.read_bytes())))
    return as_given(onnx.TensorProto.FromString(path.read_bytes()))


def check(folder: Path, model: Any, graph: gw.Graph, results: list[str]) -> None:
    """Run a graph on each set of data of a folder, and compare."""
    given = {info.name for info in model.graph.initializer}
    fed = [info for info in model.graph.input if info.name not in given]
    with gw.Session(graph) as session:
        for data in sorted(folder.glob("test_data_set_*")):
            feeds = {
                clean_name(info.name): stored(data / f"input_{i}.pb", info.type)
                for i, info in enumerate(fed)
            }
            found = session.run(results, feeds)
            for i, info in enumerate(model.graph.output):
                expected = stored(data / f"output_{i}.pb", info.type)
                compare(info.name, found[i], expected, 1e-3, 1e-5)


@pytest.mark.parametrize(
    "path", [p.parent for name in SETS for p in sorted((DATA / name).glob("*/model.onnx"))],
    ids=lambda path: path.name,
)  # fmt: skip
def test_models_with_data(path: Path) -> None:
    """What they compute, and compute again once written and read, is what came with them."""
    model = onnx.load(path / "model.onnx")
    graph = gw.onnx.load(model)
    results = [clean_name(info.name) for info in model.graph.output]
    check(path, model, graph, results)
    if path.name in NOT_WRITTEN:
        return
    check(path, model, gw.onnx.load(gw.onnx.to_model(graph, results)), results)


def with_random_weights(name: str) -> Any:
    """Return a network whose constant weights are drawn, and keep the size of what they make."""
    model = onnx.load(DATA / f"light/{name}.onnx")
    draw = np.random.default_rng(0).standard_normal(262_139).astype(np.float32)  # a prime
    shapes = {t.name: tuple(numpy_helper.to_array(t)) for t in model.graph.initializer}
    readers = {x: node.op_type for node in model.graph.node for x in node.input}
    nodes = [node for node in model.graph.node if node.op_type != "ConstantOfShape"]
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            continue
        shape, reader = shapes[node.input[0]], readers[node.output[0]]
        weight = np.resize(draw, shape)
        if len(shape) > 1:
            weight *= np.float32(1 / np.sqrt(np.prod(shape[1:])))
        elif reader == "BatchNormalization":  # its variances, too
            weight = np.abs(weight) + np.float32(0.5)
        model.graph.initializer.append(numpy_helper.from_array(weight, node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    if name not in WIDE:
        known = {info.name for info in model.graph.output}
        made = (node.output[0] for node in nodes if node.output[0] not in known)
        model.graph.output.extend(onnx.ValueInfoProto(name=y) for y in made)
    return model


@pytest.mark.parametrize("name", NETWORKS if IS_WHOLE else [n for n in NETWORKS if n not in WIDE])
def test_networks_beside_onnx_runtime(name: str) -> None:
    """Each value is that of ONNX Runtime, but for the rounding of sums that are taken otherwise."""
    runtime = pytest.importorskip("onnxruntime")
    model = with_random_weights(name)
    data = model.SerializeToString()
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    theirs = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    (info,) = theirs.get_inputs()
    x = np.random.default_rng(1).standard_normal(info.shape).astype(np.float32)
    expected = theirs.run(None, {info.name: x})
    graph = gw.onnx.load(data)
    names = [output.name for output in theirs.get_outputs()]
    with gw.Session(graph) as session:
        found = session.run([clean_name(y) for y in names], {clean_name(info.name): x})
    assert len(found) == len(expected)
    for y, ours, want in zip(names, found, expected, strict=True):
        compare(y, ours, want, 1e-3, 1e-4 * float(np.abs(want).max()))

"""ONNX models made of nodes, and what a session computes of them; skips without onnx."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.spec.one_of import OneOf

onnx = pytest.importorskip("onnx", reason="no onnx: pip install -e '.[onnx]'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def model(
    nodes: list[Any],
    inputs: dict[str, Any],
    outputs: list[str],
    *,
    stored: dict[str, Any] | None = None,
    opset: int = 18,
    functions: Any = (),
    domains: Any = (),
) -> Any:
    """Return a model; inputs are shapes of floats, or (element type, shape)."""
    infos = [
        helper.make_tensor_value_info(
            name,
            *(
                spec
                if isinstance(spec, tuple) and len(spec) == 2 and isinstance(spec[1], list)
                else (FLOAT, list(spec))
            ),
        )
        for name, spec in inputs.items()
    ]
    results = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    tensors = [numpy_helper.from_array(np.asarray(a), name) for name, a in (stored or {}).items()]
    graph = helper.make_graph(nodes, "test", infos, results, tensors)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions))


def run(proto: Any, feeds: dict[str, Any], *outputs: str) -> list[Any]:
    graph = gw.onnx.load(proto.SerializeToString())
    with gw.Session(graph) as session:
        found: list[Any] = session.run(list(outputs), feeds)
    return found


def by_runtime(proto: Any, feeds: dict[str, Any], *outputs: str) -> list[Any]:
    """Return what ONNX Runtime computes, whatever the model states of its outputs.

    It refuses an IR that is newer than itself, whatever uses it.
    """
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    proto = type(proto).FromString(proto.SerializeToString())
    proto.ir_version = min(proto.ir_version, 10)
    for info in proto.graph.output:
        info.ClearField("type")
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    text = {k: np.asarray(v) for k, v in feeds.items()}
    text = {k: v.astype(object) if v.dtype.kind in "TU" else v for k, v in text.items()}
    found: list[Any] = session.run(list(outputs), text)
    return found


def agree(proto: Any, feeds: dict[str, Any], *outputs: str, again: bool = True) -> gw.Graph:
    """Hold a model against ONNX Runtime: as it is read, from an archive, and written again."""
    expected = by_runtime(proto, feeds, *outputs)
    graph = gw.onnx.load(proto.SerializeToString())
    names = [graph[name].name for name in outputs]
    feeds = {graph[name].name: value for name, value in feeds.items()}
    same(graph, feeds, names, expected)
    if again:
        with tempfile.TemporaryDirectory() as folder:
            gw.save(graph, Path(folder, "model.gw"))
            same(gw.load(Path(folder, "model.gw")), feeds, names, expected)
        written = gw.onnx.to_model(graph, [graph[name] for name in dict.fromkeys(names)])
        if not any(isinstance(graph[name].spec, OneOf) for name in [*names, *feeds]):
            onnx.checker.check_model(written, full_check=True)  # it wants a rank of each
        same_values(by_runtime(written, feeds, *names), expected)
    return graph


def same(graph: gw.Graph, feeds: dict[str, Any], names: list[str], expected: list[Any]) -> None:
    with gw.Session(graph) as session:
        same_values(session.run(names, feeds), expected)


def same_values(found: list[Any], expected: list[Any]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        theirs = np.asarray(theirs)
        assert ours.shape == theirs.shape
        if theirs.dtype.kind == "O":
            assert ours.tolist() == theirs.tolist()
            continue
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5

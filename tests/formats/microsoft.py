"""Nodes of ONNX Runtime's own domain, run by it and by us."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import gradwright as gw

onnx = pytest.importorskip("onnx", reason="no onnx: pip install -e '.[onnx]'")
from onnx import helper, numpy_helper  # noqa: E402

runtime = pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install -e '.[test]'")


def node_model(
    op_type: str,
    inputs: Sequence[Any],
    attrs: Mapping[str, Any],
    *,
    n: int = 1,
    stored: Sequence[int] = (),
    sizes: Mapping[int, str] | None = None,
    domain: str = "com.microsoft",
    opset: int = 21,
) -> tuple[Any, dict[str, Any]]:
    """Return a model of one node and what it is fed; inputs of the places ``stored`` lie in it.

    ``sizes`` names sizes that are not stated: each axis of such a size has a symbol instead.
    """
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    tensors, infos, feeds = [], [], {}
    for i, (name, x) in enumerate(zip(names, inputs, strict=True)):
        if x is None:
            continue
        array = np.asarray(x)
        if i in stored:
            tensors.append(numpy_helper.from_array(array, name))
            continue
        shape = [(sizes or {}).get(d, d) for d in array.shape]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        infos.append(helper.make_tensor_value_info(name, kind, shape))
        feeds[name] = array
    results = [onnx.ValueInfoProto(name=f"y{i}") for i in range(n)]
    node = helper.make_node(op_type, names, [r.name for r in results], domain=domain, **attrs)
    graph = helper.make_graph([node], "test", infos, results, tensors)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10), feeds


def run_theirs(proto: Any, feeds: Mapping[str, Any]) -> list[Any]:
    """Return what ONNX Runtime computes."""
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found: list[Any] = session.run(None, dict(feeds))
    return found


def run_ours(proto: Any, feeds: Mapping[str, Any]) -> list[Any]:
    """Return what a session computes of the graph that is read."""
    return _run(gw.onnx.load(proto), [info.name for info in proto.graph.output], feeds)


def run_written(proto: Any, feeds: Mapping[str, Any]) -> list[Any]:
    """Return what a session computes of the graph that is written, as ONNX alone, and read."""
    graph, names = gw.onnx.load(proto), [info.name for info in proto.graph.output]
    written = gw.onnx.to_model(graph, names)
    assert {node.domain for node in written.graph.node} <= {""}
    return _run(gw.onnx.load(written), names, feeds)


def _run(graph: gw.Graph, names: list[str], feeds: Mapping[str, Any]) -> list[Any]:
    with gw.Session(graph) as session:
        found: list[Any] = session.run(names, dict(feeds))
    return found


def check(
    op_type: str,
    inputs: Sequence[Any],
    attrs: Mapping[str, Any] | None = None,
    *,
    sizes: Mapping[int, str] | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    steps: int = 0,
    written: bool = True,
    **others: Any,
) -> None:
    """Hold a node against ONNX Runtime, with sizes as they are and, if named, with symbols.

    Whole numbers may be ``steps`` apart. What is read is ``written`` again, too, and compared.
    """
    proto, feeds = node_model(op_type, inputs, attrs or {}, **others)
    theirs = run_theirs(proto, feeds)
    protos = [proto]
    if sizes:
        protos.append(node_model(op_type, inputs, attrs or {}, sizes=sizes, **others)[0])
    for each in protos:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = [run_ours(each, feeds)]
            found += [run_written(each, feeds)] if written else []
        for ours in found:
            for a, b in zip(ours, theirs, strict=True):
                compare(a, b, rtol, atol, steps)


def compare(ours: Any, theirs: Any, rtol: float, atol: float, steps: int = 0) -> None:
    """Hold a result against another: dtype, shape, numbers."""
    assert ours.dtype == theirs.dtype, f"{ours.dtype}, not {theirs.dtype}"
    assert ours.shape == theirs.shape, f"{ours.shape}, not {theirs.shape}"
    if theirs.dtype.kind in "iu":
        apart = np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
        assert apart.max(initial=0) <= steps, f"{apart.max()} steps apart"
        return
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)

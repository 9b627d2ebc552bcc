"""ONNX models made of nodes, and what a session computes of them; skips without onnx."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw

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


X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5

"""Control flow: sub-graphs as attributes; loops are in ``loops.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import UnsupportedOpError
from ....graph import SubGraph
from ....spec import TensorSpec
from ....spec import dtype as as_dtype
from ..dtypes import element_type
from ..node import writes
from ..nodes import name_output, write_subgraph
from ..output import Call, Output
from ..versions import as_inputs, schema_of

if TYPE_CHECKING:
    from onnx import GraphProto


def body_of(
    call: Call,
    sub: SubGraph,
    xs: list[str],
    inputs: list[tuple[str, TensorSpec]],
    label: str,
    n_outputs: int | None = None,
    first: list[tuple[str, TensorSpec]] | None = None,
) -> GraphProto:
    """Return a sub-graph on names of the outer graph and on inputs of its own."""
    inner = Output(call.out.opset, call.out)
    path = f"{call.name}/{label}"
    made = write_subgraph(inner, sub, xs, path)[:n_outputs]
    outputs = [
        (own_result(inner, name, f"{path}/y{i}"), t.spec)
        for i, (name, t) in enumerate(zip(made, sub.outputs, strict=False))
    ]
    return inner.graph(path, inputs, [*(first or []), *outputs])


def own_result(inner: Output, name: str, wanted: str) -> str:
    """Return a result as a tensor of the sub-graph itself, each of its own name."""
    made = inner.add("Identity", [name], base=wanted)
    return name_output(inner, made[0], made[0])


@writes("cond")
def cond(call: Call) -> list[str]:
    xs = call.xs[1:]
    branches = {
        name: body_of(call, getattr(call.op, name), xs, [], name)
        for name in ("then_branch", "else_branch")
    }
    return call.out.add("If", [call.xs[0]], n=len(call.results), base=call.name, **branches)


@writes("flex_attention")
def flex_attention(call: Call) -> list[str]:
    """Write the functions between the steps as sub-graphs."""
    attrs = dict[str, Any](scale=call.scale)
    if call.softmax_precision is not None:
        attrs["softmax_precision"] = element_type(as_dtype(call.softmax_precision))
    for label in ("score_mod", "prob_mod"):
        sub = getattr(call.op, label)
        if sub is not None:
            own = (call.out.fresh(f"{call.name}/{label}/x"), sub.inputs[0].spec)
            attrs[label] = body_of(call, sub, [own[0], *call.xs[3:]], [own], label, 1)
    schema_of("ai.onnx.preview", "FlexAttention", 1)
    return call.out.add(
        "FlexAttention", call.xs[:3], base=call.name, domain="ai.onnx.preview", **attrs
    )


@writes("onnx_op")
def onnx_op(call: Call) -> list[str]:
    """Write an operator that was read from ONNX as it was."""
    then, now = (schema_of(call.domain, call.op_type, v) for v in (call.opset, call.out.opset))

    def constant(value: Any) -> str:
        return call.out.constant(value, call.x.dtype if isinstance(value, float) else np.int64)

    xs, attrs = as_inputs(now, call.xs, dict(call.attributes_), constant)
    fits = now.min_input <= len(xs) <= now.max_input
    if not fits or not _means_the_same(then, now, len(call.xs), attrs):
        raise UnsupportedOpError(
            f"{call.op_type} is another operator in opset {call.out.opset}",
            hint=f"opset={call.opset}",
        )
    n = len(call.results)
    return call.out.add(call.op_type, xs, n=n, base=call.name, domain=call.domain, **attrs)


def _means_the_same(then: Any, now: Any, n_inputs: int, attrs: dict[str, Any]) -> bool:
    """Tell whether a later version means the same by what a node has of inputs and attributes.

    What it has not may be new, or gone, where it need not be given and no default differs.
    """
    if then.since_version == now.since_version:
        return True
    if now.deprecated:
        return False
    ports = [[f.name for f in s.inputs][:n_inputs] for s in (then, now)]
    before, after = (
        {k: a.default_value.SerializeToString() for k, a in s.attributes.items()}
        for s in (then, now)
    )
    return ports[0] == ports[1] and all(
        key in after if key in attrs else after.get(key, b"") == default
        for key, default in before.items()
    )

"""Control flow: sub-graphs as attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import UnsupportedOpError
from ....graph import SubGraph
from ....spec import TensorSpec
from ....spec import dtype as as_dtype
from ....spec.containers import SequenceSpec
from ..by_rule import schema_of
from ..dtypes import element_type
from ..exporter import name_output, write_subgraph
from ..node import writes
from ..output import Call, CannotExport, Output

if TYPE_CHECKING:
    from onnx import GraphProto


def _body(
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
        (_own(inner, name, f"{path}/y{i}"), t.spec)
        for i, (name, t) in enumerate(zip(made, sub.outputs, strict=False))
    ]
    return inner.graph(path, inputs, [*(first or []), *outputs])


def _own(inner: Output, name: str, wanted: str) -> str:
    """Return a result as a tensor of the sub-graph itself, each of its own name."""
    made = inner.add("Identity", [name], base=wanted)
    return name_output(inner, made[0], made[0])


@writes("cond")
def cond(call: Call) -> list[str]:
    xs = call.xs[1:]
    branches = {
        name: _body(call, getattr(call.op, name), xs, [], name)
        for name in ("then_branch", "else_branch")
    }
    return call.out.add("If", [call.xs[0]], n=len(call.results), base=call.name, **branches)


@writes("scan")
def scan(call: Call) -> list[str]:
    """Write a scan: carries, then what is scanned; the step's number is one more carry."""
    sub, n, n_xs = call.body, call.n_carry, call.n_xs
    if n_xs and not n and isinstance(call.x, SequenceSpec):
        return _sequence_map(call)
    items = call.specs[n : n + n_xs]
    if not n_xs or any(call.listed) or any(isinstance(s, SequenceSpec) for s in items):
        raise CannotExport
    n_sub = len(sub.inputs)
    own = [(call.out.fresh(f"{call.name}/{t.name}"), t.spec) for t in sub.inputs[: 1 + n + n_xs]]
    captured = call.xs[n + n_xs :]
    if len(captured) != n_sub - 1 - n - n_xs:
        raise CannotExport
    names = [*(name for name, _ in own), *captured]
    n_y = (call.op.n_public or len(call.results)) - n
    inner = Output(call.out.opset, call.out)
    path = f"{call.name}/body"
    made = write_subgraph(inner, sub, names, path)
    number_spec = sub.inputs[0].spec
    one = np.ones((), number_spec.dtype)
    onward = inner.constant(-one if call.reverse else one)
    number = inner.add("Add", [own[0][0], onward], base=f"{path}/step")[0]
    outputs = [(number, number_spec)]
    for i in range(n + n_y):
        outputs.append((_own(inner, made[i], f"{path}/y{i}"), sub.outputs[i].spec))
    body = inner.graph(path, own, outputs)
    start = call.out.constant(one - one)
    directions: dict[str, Any] = {}
    if call.reverse:
        directions = {"scan_input_directions": [1] * n_xs}
        if n_y:
            directions["scan_output_directions"] = [1] * n_y
        rows = call.out.add("Gather", [call.out.add("Shape", [call.xs[n]])[0], start])[0]
        start = call.out.add("Sub", [rows, call.out.constant(one)])[0]
    made = call.out.add(
        "Scan", [start, *call.xs[: n + n_xs]], n=1 + n + n_y, base=call.name,
        body=body, num_scan_inputs=n_xs, **directions,
    )  # fmt: skip
    return made[1:]


def _sequence_map(call: Call) -> list[str]:
    """Write what is done with every item of sequences."""
    sub, n_xs = call.body, call.n_xs
    number, *items = sub.inputs
    containers = all(isinstance(s, SequenceSpec) for s in call.specs[:n_xs])
    if call.reverse or number.uses or not all(call.listed) or not containers:
        raise CannotExport
    own = [(call.out.fresh(f"{call.name}/{t.name}"), t.spec) for t in items[:n_xs]]
    names = ["", *(name for name, _ in own), *call.xs[n_xs:]]
    n = call.op.n_public or len(call.results)
    body = _body(call, sub, names, own, "body", n)
    return call.out.add("SequenceMap", call.xs[:n_xs], n=n, base=call.name, body=body)


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
            attrs[label] = _body(call, sub, [own[0], *call.xs[3:]], [own], label, 1)
    schema_of("ai.onnx.preview", "FlexAttention", 1)
    return call.out.add(
        "FlexAttention", call.xs[:3], base=call.name, domain="ai.onnx.preview", **attrs
    )


@writes("while")
def while_(call: Call) -> list[str]:
    """Write a loop: ``go`` and the number of steps, then the carries."""
    sub, n = call.body, call.n_carry
    if any(call.listed):
        raise CannotExport
    own = [(call.out.fresh(f"{call.name}/{t.name}"), t.spec) for t in sub.inputs[: 1 + n]]
    captured = call.xs[2 + n :]
    if len(captured) != len(sub.inputs) - 1 - n:
        raise CannotExport
    n_y = (call.op.n_public or len(call.results)) - n
    flag = (call.out.fresh(f"{call.name}/go"), TensorSpec((), "bool"))
    inner = Output(call.out.opset, call.out)
    path = f"{call.name}/body"
    made = write_subgraph(inner, sub, [*(name for name, _ in own), *captured], path)
    outputs = [
        (_own(inner, made[i], f"{path}/y{i}"), sub.outputs[i].spec) for i in range(1 + n + n_y)
    ]
    body = inner.graph(path, [own[0], flag, *own[1:]], outputs)
    limit = call.xs[1]
    spec = call.specs[1]
    if limit and spec is not None:
        limit = call.cast(limit, spec.dtype, np.dtype("int64"))
    if call.max_steps is not None:
        most = call.out.constant(np.int64(call.max_steps))
        limit = call.add("Min", limit, most) if limit else most
    xs = [limit, call.xs[0], *call.xs[2 : 2 + n]]
    return call.out.add("Loop", xs, n=n + n_y, base=call.name, body=body)


@writes("onnx_op")
def onnx_op(call: Call) -> list[str]:
    """Write an operator that was read from ONNX as it was."""
    then, now = (schema_of(call.domain, call.op_type, v) for v in (call.opset, call.out.opset))
    n, attrs = len(call.results), dict(call.attributes_)
    if not _means_the_same(then, now, len(call.xs), attrs):
        raise UnsupportedOpError(
            f"{call.op_type} is another operator in opset {call.out.opset}",
            hint=f"opset={call.opset}",
        )
    return call.out.add(call.op_type, call.xs, n=n, base=call.name, domain=call.domain, **attrs)


def _means_the_same(then: Any, now: Any, n_inputs: int, attrs: dict[str, Any]) -> bool:
    """Tell whether a later version means the same by what a node has of inputs and attributes.

    What it has not may be new, or gone, where it need not be given and no default differs.
    """
    if then.since_version == now.since_version:
        return True
    if now.deprecated or not now.min_input <= n_inputs <= now.max_input:
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

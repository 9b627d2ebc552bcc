"""Control flow: sub-graphs that run by condition, or again and again."""

from __future__ import annotations

from typing import Any

from ....errors import ArchiveError
from ....op import find_op
from ....ops.control import branch
from ....ops.control import loop as loops
from ....ops.control import scan as scans
from ..folding import fold
from ..importer import Scope
from ..node import OnnxNode, one, op, reads


def scope_of(node: OnnxNode) -> Scope:
    """Return the scope that builds the sub-graphs of a node."""
    if node.scope is None:
        raise ArchiveError(f"{node.op_type} cannot be built apart from its model")
    return node.scope


@reads("If", since=1)
def if_(node: OnnxNode, condition: Any) -> Any:
    """Choose a branch; one whose condition is known is built in place of the node."""
    scope, then, other = scope_of(node), node["then_branch"], node["else_branch"]
    known = fold(condition)
    if known is not None:
        return scope.subgraph(then if one(known) else other, [])
    pred = op("reshape", shape=())(condition) if condition.rank else condition
    return branch.cond(pred, lambda: scope.subgraph(then, []), lambda: scope.subgraph(other, []))


@reads("Loop", since=1)
def loop(node: OnnxNode, trip: Any = None, go: Any = None, *carried: Any) -> Any:
    scope, body = scope_of(node), node["body"]
    n = len(carried)

    def step(number: Any, carry: Any) -> Any:
        going = number.graph.constant(True)
        going, *rest = scope.subgraph(body, [_scalar(number), going, *carry])
        return _scalar(going), rest[:n], rest[n:]

    last, stacked = loops.loop(
        step,
        list(carried),
        trip=_scalar(trip),
        go=True if go is None else _scalar(go),
        free_shapes=True,
    )
    return [*last, *stacked]


def _scalar(t: Any) -> Any:
    return t if t is None or not t.rank else op("reshape", shape=())(t)


@reads("Scan", since=9)
def scan(node: OnnxNode, *xs: Any) -> Any:
    """Scan tensors along axes, each forwards or backwards."""
    n_scanned = node["num_scan_inputs"]
    n = len(xs) - n_scanned
    axes = node.get("scan_input_axes", (0,) * n_scanned)
    backwards = node.get("scan_input_directions", (0,) * n_scanned)
    scanned = [
        _turned(_moved(x, axis, 0), 0, back)
        for x, axis, back in zip(xs[n:], axes, backwards, strict=True)
    ]
    last, stacked = _scanned(node, xs[:n], scanned)
    axes = node.get("scan_output_axes", (0,) * len(stacked))
    backwards = node.get("scan_output_directions", (0,) * len(stacked))
    ys = [
        _moved(_turned(y, 0, back), 0, axis)
        for y, axis, back in zip(stacked, axes, backwards, strict=True)
    ]
    return [*last, *ys]


@reads("Scan", since=8)
def scan_batches(node: OnnxNode, lengths: Any, *xs: Any) -> Any:
    """Scan every item of a batch along its first axis, as opset 8 does."""
    if lengths is not None:
        raise ArchiveError("Scan of opset 8 with lengths per item is not known")
    n = len(xs) - node["num_scan_inputs"]
    backwards = node.get("directions", (0,) * (len(xs) - n))

    def item(parts: Any) -> Any:
        scanned = [_turned(x, 0, b) for x, b in zip(parts[n:], backwards, strict=True)]
        last, stacked = _scanned(node, parts[:n], scanned)
        return [*last, *stacked]

    return scans.map_fn(item, list(xs))


def _scanned(node: OnnxNode, carried: Any, scanned: Any) -> tuple[list[Any], list[Any]]:
    scope, body, n = scope_of(node), node["body"], len(carried)

    def step(carry: Any, items: Any) -> Any:
        made = scope.subgraph(body, [*carry, *items])
        return made[:n], made[n:]

    last, stacked = scans.scan(step, list(carried), list(scanned), free_shapes=True)
    return last, stacked


def _moved(x: Any, source: int, target: int) -> Any:
    """Move an axis to another place."""
    a, b = source % x.rank, target % x.rank
    order = [i for i in range(x.rank) if i != a]
    order.insert(b, a)
    return x if a == b else op("transpose", axes=tuple(order))(x)


def _turned(x: Any, axis: int, back: int) -> Any:
    return op("flip", axis=axis)(x) if back else x


@reads("FlexAttention", since=1, domain="ai.onnx.preview")
def flex_attention(node: OnnxNode, query: Any, key: Any, value: Any) -> Any:
    from .attention import precision

    scope = scope_of(node)

    def function(name: str) -> Any:
        proto = node.get(name)
        return None if proto is None else lambda x: scope.subgraph(proto, [x])[0]

    functions = {name: function(name) for name in ("score_mod", "prob_mod")}
    settings = {"scale": node.get("scale"), "softmax_precision": precision(node)}
    trace: Any = find_op("flex_attention")
    return trace.trace(query, key, value, functions, settings, None)

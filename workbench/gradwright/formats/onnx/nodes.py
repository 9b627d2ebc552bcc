"""Writing nodes in ONNX: by writer, by rule, or as what an op expands to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from ...graph import Constant, Node, Rng, SubGraph, Tensor, Variable
from ...graph.expand import expansion
from ...op import Op
from ...ops.control.call import Call as Function
from ...ops.convolutions.formats import back, is_first, moved
from ...spec import TensorSpec
from .by_rule import write_by_rule
from .node import ONNX, PAIRED, UNREAD
from .output import Call, Output
from .versions import CannotExport


def name_output(out: Output, name: str, wanted: str) -> str:
    """Let a result be called ``wanted``; a tensor that is no node's is copied."""
    if name == wanted:
        return name
    if name in out.root.stored or not any(name in n.output for n in out.nodes):
        return _renamed(out, out.add("Identity", [name])[0], wanted)
    return _renamed(out, name, wanted)


def _renamed(out: Output, name: str, wanted: str) -> str:
    """Give a tensor another name wherever it occurs."""
    stack = list(out.nodes)
    while stack:
        node = stack.pop()
        if node.name == name:
            node.name = wanted
            out.homes[wanted] = out.homes.pop(name, "")
        for field in (node.input, node.output):
            for i, held in enumerate(field):
                if held == name:
                    field[i] = wanted
        for attribute in node.attribute:
            stack.extend(attribute.g.node)
    return wanted


def write_nodes(
    out: Output,
    nodes: Iterable[Node],
    names: dict[Tensor, str],
    results: Collection[Tensor],
    path: str = "",
) -> None:
    """Write nodes in order, of which ``results`` leave; ``names`` gets their outputs."""
    nodes = list(nodes)
    read = {t for node in nodes for t in _read(node)}
    for node in nodes:
        if all(t in names for t in node.outputs):
            continue
        t = node.outputs[0]
        label = f"{path}/{node.name}" if path else node.name
        if isinstance(node.op, Constant | Variable):
            names[t] = store(out, node, label)
            out.see(names[t], t.spec)
            continue
        if isinstance(node.op, Rng):  # what draws with it in eval mode cannot be written anyway
            names[t] = out.fresh(label)
            continue
        xs = [None if x is None else names.get(x, "") for x in node.inputs]
        unread = UNREAD[node.op.name](node.op, len(xs)) if node.op.name in UNREAD else ()
        kept = [
            x for i, x in enumerate(node.inputs) if x is not None and not xs[i] and i not in unread
        ]
        if kept and path:  # a residual, which only gradients use in ONNX's eyes
            raise CannotExport
        if kept:
            out.missing.update(f"the gradient of {x.node.op.name}" for x in kept[:1])
            names.update((y, out.fresh(label)) for y in node.outputs)
            continue
        with out.within(_home(out, node, path)):
            made = write(
                out, node.op, xs, [None if x is None else x.spec for x in node.inputs],
                [y.spec for y in node.outputs], label,
                [y in read or y in results for y in node.outputs],
            )  # fmt: skip
        for y, name in zip(node.outputs, made, strict=False):
            names[y] = name
            out.see(name, y.spec)


def _read(node: Node) -> list[Tensor]:
    """Return the inputs that the writer of a node reads: not what it makes again."""
    unread = UNREAD[node.op.name](node.op, len(node.inputs)) if node.op.name in UNREAD else ()
    return [x for i, x in enumerate(node.inputs) if x is not None and i not in unread]


def _home(out: Output, node: Node, path: str) -> str:
    """Return the scope that a node stands in; what an op is opened into stands where the op does.

    The nodes of a call stand in it, in scopes of their own.
    """
    if isinstance(node.op, Function):
        return f"{path}/{node.name}" if path else node.name
    inner = "" if node.derived else node.scope
    if path and not (path == out.scope and inner):
        return out.scope
    return f"{path}/{inner}" if path else inner


def store(out: Output, node: Node, label: str) -> str:
    """Store the value of a constant or a variable."""
    return out.store(np.asarray(node.graph.values.array(node.name)), label)


def write(
    out: Output,
    op: Op,
    xs: Sequence[str | None],
    specs: Sequence[TensorSpec | None],
    results: Sequence[TensorSpec],
    name: str,
    wanted: Sequence[bool],
) -> list[str]:
    """Write an op in the first way that works, and return the names of its outputs."""
    op = op.for_mode(False)
    call = Call(out, op, [x or "" for x in xs], list(specs), list(results), name, list(wanted))
    if not is_first(op):
        return _write_channels_first(call)
    at = len(out.nodes)
    first = ONNX.writers.get(op.name, write_by_rule)
    if any(s is not None and s.dtype.kind == "c" for s in (*specs, *results)):
        first = PAIRED.get(op.name, _write_expansion)
    for way in (first, _write_expansion):
        try:
            made = way(call)
        except CannotExport:
            del out.nodes[at:]
            continue
        return list(made) if isinstance(made, (list, tuple)) else [made]
    out.root.missing[op.name] += 1
    return [out.fresh(name) for _ in results]


def _write_channels_first(call: Call) -> list[str]:
    """Write an op for channels last as one for channels first, which are all that ONNX has."""
    op: Any = call.op
    out, base = call.out, f"{call.name}/transpose"

    def permuted(x: str, order: Sequence[int] | None) -> str:
        return x if not x or order is None else out.add("Transpose", [x], base=base, perm=order)[0]

    orders, given = [op.order(i) for i in range(len(call.xs))], op.order(None)
    ins = list(map(permuted, call.xs, orders))
    inner, outer = map(moved, call.specs, orders), [moved(s, given) for s in call.results]
    made = write(out, op.first(), ins, list(inner), outer, call.name, call.wanted)
    return [permuted(y, back(given)) for y in made]


def _write_expansion(call: Call) -> list[str]:
    """Write a composite as what it stands for."""
    op = call.op
    if not op.is_composite():
        raise CannotExport
    with call.out.opens(op.name, call.name):
        sub = expansion(op, call.specs)
        return write_subgraph(call.out, sub, [x for x in call.xs if x], call.name)


def write_subgraph(out: Output, sub: SubGraph, xs: Sequence[str], path: str) -> list[str]:
    """Write the nodes of a sub-graph on inputs; return the names of its outputs."""
    names = dict(zip(sub.inputs, xs, strict=True))
    for t, name in names.items():
        out.see(name, t.spec)
    write_nodes(out, sub.nodes, names, set(sub.outputs), path)
    return [names[t] for t in sub.outputs]

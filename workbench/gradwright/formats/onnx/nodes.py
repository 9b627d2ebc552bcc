"""Writing nodes in ONNX: by writer, by rule, or as what an op is made of.

Where ONNX has no operator, a writer may say in our ops what an op is made of (``spelled``). Complex
tensors, of which ONNX's operators take none, are real ones with a last axis of pairs (``paired``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ...graph import Constant, Graph, Node, Rng, SubGraph, Tensor, Variable
from ...graph.expand import expansion, stand_in
from ...op import Op
from ...ops.control.call import Call as Function
from ...ops.convolutions.formats import back, is_first, moved
from ...ops.core.joining import Stack
from ...spec import TensorSpec, is_half, kind
from .by_rule import write_by_rule
from .node import ONNX, PAIRED, UNREAD, Unread, cast
from .output import Call, Output, as_pairs
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


# -- what ops are made of, said in ops -------------------------------------------------------------

Spelling = Callable[..., Any]
Build = TypeVar("Build", bound=Spelling)


def spelled(*ops: str, unread: Unread | None = None) -> Callable[[Build], Build]:
    """Enter a function ``(op, *inputs) -> tensor or tensors`` as what some ops are written as.

    ``unread(op, n)`` says which of n inputs it does not read, so that nobody needs to write them.
    """

    def enter(build: Build) -> Build:
        ONNX.writes(*ops)(lambda call: spell(call, build))
        if unread is not None:
            UNREAD.update(dict.fromkeys(ops, unread))
        return build

    return enter


def spell(call: Call, build: Spelling) -> list[str]:
    """Write what ``build`` makes of tensors like the inputs; as one op, it rounds halves once.

    Outputs that it does not make, which only some gradients read, are left out.
    """
    graph = Graph(call.op.name, scratch=True)
    given: list[Tensor] = []
    with graph:
        xs: list[Tensor | None] = []
        for i, (name, spec) in enumerate(zip(call.xs, call.specs, strict=True)):
            if spec is None or not name:
                xs.append(None)
                continue
            given.append(stand_in(graph, f"x{i}", spec))
            xs.append(cast(given[-1], "float32") if is_half(spec.dtype) else given[-1])
        made = build(call.op, *xs)
        ys = made if isinstance(made, (tuple, list)) else (made,)
        pairs = zip(ys, call.results, strict=False)
        ys = [cast(y, r.dtype) if kind(y.dtype) == kind(r.dtype) == "f" else y for y, r in pairs]
    with call.out.opens(call.op.name, call.name):
        return write_subgraph(call.out, SubGraph(given, ys), [x for x in call.xs if x], call.name)


class Parts(NamedTuple):
    """The real and the imaginary part of a complex tensor."""

    re: Tensor
    im: Tensor


def paired(*ops: str) -> Callable[[Build], Build]:
    """Enter a function as what some ops are written as where a tensor is complex.

    It takes and returns real tensors as they are, and complex ones as :class:`Parts`.
    """

    def enter(build: Build) -> Build:
        def write(call: Call) -> list[str]:
            def on_pairs(of: Any, *xs: Any) -> Any:
                made = build(of, *(_parts(x, s) for x, s in zip(xs, call.specs, strict=True)))
                made = made if isinstance(made, list) else [made]
                return [Stack(axis=-1)(*y) if isinstance(y, Parts) else y for y in made]

            pairs = call.on(
                [None if s is None else as_pairs(s) for s in call.specs],
                list(map(as_pairs, call.results)),
            )
            return spell(pairs, on_pairs)

        PAIRED.update(dict.fromkeys(ops, write))
        return build

    return enter


def _parts(x: Tensor | None, spec: TensorSpec | None) -> Any:
    if x is None or spec is None or kind(spec.dtype) != "c":
        return x
    return Parts(x[..., 0], x[..., 1])

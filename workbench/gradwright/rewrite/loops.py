"""What does not change from turn to turn of a loop is computed once, in front of it.

Only what cannot fail and draws nothing at random: a loop without turns then computes in vain what
it would not have computed at all, and nobody sees it. Steppers and plain runs follow the graph, in
which it stays where it was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import GradwrightError
from ..graph import Constant, Node, SubGraph, Tensor, expansion
from ..graph.expand import bind_dims
from ..op import Op
from ..ops.control.loop_op import LoopOp
from ..ops.control.scan import scan
from ..ops.core.exponential import Exp
from ..ops.core.like import BroadcastLike
from ..ops.core.movement import Cast, Moving
from ..ops.core.reduce import Mean, Sum
from ..ops.matrices.linalg import Matmul
from ..program.program import Instr
from .editor import Editor
from .table import rule

SURE = (Matmul, Cast, Moving, Sum, Mean, BroadcastLike)
"""Ops, beside functions of elements, that never fail on inputs of specs that fit."""


@rule(
    "hoist",
    lambda op: issubclass(op, LoopOp),
    "loop (c ↦ f(c, g(w)))",
    "h = g(w); loop (c ↦ f(c, h))",
    example=lambda x, w: scan(lambda c, t: (c * Exp()(w), t), w, x)[0],
)
def _hoist(at: Editor, instr: Instr) -> Sequence[int] | None:
    """What a loop computes of tensors from outside alone, and cannot fail, is computed before."""
    op = instr.op
    assert isinstance(op, LoopOp)
    n = len(instr.ins) - op.first_carry - op.n_carry - op.n_xs
    own, captured = op.body.inputs[: len(op.body.inputs) - n], op.body.inputs[-n:] if n else ()
    nodes, frontier = _fixed(op.body, captured)
    if not frontier:
        return None
    given = instr.ins[len(instr.ins) - n :]
    made: dict[Tensor, int | None] = dict(zip(captured, given, strict=True))
    sizes = {**op.body.sizes, **bind_dims({t: at.spec(i).shape for t, i in made.items()})}
    try:
        for node in nodes:
            if isinstance(node.op, Constant):
                made[node.outputs[0]] = at.constant(node.graph.values.array(node.name))
            else:
                ins = [None if t is None else made[t] for t in node.inputs]
                made[node.outputs[0]] = at.make(node.op.bind(sizes), *ins)
    except GradwrightError:  # the loop itself will say, if it makes a turn
        return None
    inside = SubGraph([*own, *captured, *frontier], op.body.outputs)
    read = {t for node in inside.nodes for t in node.inputs} | set(inside.outputs)
    needed = [t for t in (*captured, *frontier) if t in read]
    body = SubGraph([*own, *needed], op.body.outputs)
    body.sizes = op.body.sizes
    ins = (*instr.ins[: len(instr.ins) - n], *(made[t] for t in needed))
    outs = tuple(at.specs[o] for o in instr.outs)
    return at.program.emit(op.replace(body=body), ins, outs, instr.origin, instr.path)


def _fixed(body: SubGraph, captured: Iterable[Tensor]) -> tuple[list[Node], list[Tensor]]:
    """Return the nodes to compute in front of a loop, and those results that its turns read.

    What is only moved about is left inside, where it mostly is a view.
    """
    known, worth = set(captured), set()
    nodes: list[Node] = []
    for node in body.nodes:
        if isinstance(node.op, Constant):
            known.add(node.outputs[0])
            nodes.append(node)
            continue
        inputs = [t for t in node.inputs if t is not None]
        if not inputs or not known.issuperset(inputs) or not _is_sure(node):
            continue
        if all(isinstance(t.op, Constant) for t in inputs):
            continue
        (y,) = node.outputs
        known.add(y)
        nodes.append(node)
        if not isinstance(node.op, Moving) or not worth.isdisjoint(inputs):
            worth.add(y)
    moved = {node for node in nodes if node.outputs[0] in worth}
    read = {
        t
        for node in body.nodes
        if node not in moved
        for t in node.inputs
        if t is not None and t in worth
    }
    frontier = [t for node in nodes if (t := node.outputs[0]) in read | worth & {*body.outputs}]
    needed = _behind(frontier)
    return [node for node in nodes if node in needed], frontier


def _behind(tensors: Iterable[Tensor]) -> set[Node]:
    """Return what tensors are made of."""
    found: set[Node] = set()
    waiting = [t.node for t in tensors]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += [t.node for t in node.inputs if t is not None]
    return found


def _is_sure(node: Node) -> bool:
    """Tell whether a node has one result, which it has without fail, at any sizes."""
    specs = [None if t is None else t.spec for t in node.inputs]
    if len(node.outputs) != 1 or node.op.symbols() or any(s and s.by_reference for s in specs):
        return False
    return _never_fails(node.op) or _opens_to_sure(node.op, specs)


def _never_fails(op: Op) -> bool:
    return bool(op.element) or isinstance(op, SURE)


def _opens_to_sure(op: Op, specs: Sequence[object]) -> bool:
    """Tell whether a composite, such as a softmax, is made of what never fails."""
    if not op.is_composite():
        return False
    try:
        inner = expansion(op, specs)  # type: ignore[arg-type]
    except GradwrightError:
        return False
    own = {t.node for t in inner.inputs}
    return all(
        node in own or isinstance(node.op, Constant) or _never_fails(node.op)
        for node in inner.nodes
    )

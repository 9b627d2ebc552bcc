"""What a loop only adds up, turn by turn, is computed once behind it, of what its turns have read.

The gradient of a loop adds up the cotangents of what all turns share. In the loop each turn reads
and writes a matrix of the size of W, or a whole table, for the product or the rows of a few
examples; behind it Σₜ Xₜᵀ·Dₜ is one product over the examples of all turns, which writes it once.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

from ..graph import Graph, Node, SubGraph, Tensor, expansion
from ..graph.expand import infer_nodes, inline, stand_in
from ..ops.control.loop_op import NUMBER, item_of
from ..ops.control.scan import scan
from ..ops.control.scan_op import Scan
from ..ops.core.elementwise import Add, Mul, Neg
from ..ops.core.identity import AddN
from ..ops.core.index import GatherGrad
from ..ops.core.like import SumLike, ZerosLike
from ..ops.core.movement import Moving, Transpose
from ..ops.core.reshape import Flatten
from ..ops.matrices.linalg import Matmul
from ..program.program import Instr
from .editor import Editor
from .table import rule

PAYS = 2
"""A sum waits if it is so many times as large as what is kept of a turn instead."""
MOST = 4
"""What is kept takes at most so many times as much memory as what the loop goes along."""
DEPTH = 4
"""How deep composites in composites are opened to find the products in them."""
Read = Callable[[Tensor], int]
"""The value that a tensor of a turn has in all turns, or outside."""
Later = Callable[[Editor, Read], int]


@rule(
    "sum_behind",
    lambda op: issubclass(op, Scan),
    "loop (s ↦ s + xᵀ·d)",
    "s + Xᵀ·D",
    exact=False,
    example=lambda s, wide: scan(
        lambda c, t: (c + Matmul()(Transpose()(t), t), ()), Matmul()(wide, Transpose()(wide)), s
    )[0],
)
def _sum_behind(at: Editor, instr: Instr) -> Sequence[int] | None:
    """A loop keeps the factors of products that it only adds up: one product adds them all."""
    op: Any = instr.op
    if op.record or not all(i is not None and at.spec(i).is_concrete for i in instr.ins):
        return None
    sums = _sums(op := _opened(at, op))
    if not sums:
        return None
    carries, items, captured = op.split(instr.ins)
    n, body = op.n_carry, op.body
    own, outs = body.inputs[1:], body.outputs
    chosen = _chosen(at, op, instr, sums)
    if not chosen:
        return None
    kept = [j for j in range(n) if j not in chosen]
    outside = dict(zip(own[n:], (*items, *captured), strict=True))
    results = {t: k for k, t in enumerate(outs[n:]) if not op.is_listed(k)}
    stacked = dict.fromkeys(
        t for j in chosen for t in sums[j][0] if t not in outside and t not in results
    )
    held = body.__dict__.setdefault("_sums_behind", {})
    if (found := tuple(chosen)) not in held:
        left = SubGraph(
            [body.inputs[0], *(own[j] for j in kept), *own[n:]],
            [*(outs[j] for j in kept), *outs[n:], *stacked],
        )
        left.sizes = body.sizes
        held[found] = left
    lean = op.replace(
        body=held[found],
        n_carry=len(kept),
        changing=tuple(k for k, j in enumerate(kept) if j in op.changing),
        listed=(*op.listed, *(False for _ in stacked)) if op.listed else (),
    )
    made = at.make_all(lean, *(carries[j] for j in kept), *items, *captured)
    ends = dict(zip(kept, made, strict=False))
    collected = made[len(kept) :]
    whole = {t: collected[k] for t, k in results.items()}
    whole |= dict(zip(stacked, collected[op.n_results :], strict=True))
    whole |= outside
    for j in chosen:
        total = sums[j][1](at, whole.__getitem__)
        ends[j] = total if _is_zero(at, carries[j]) else at.make(Add(), carries[j], total)
    return [*(ends[j] for j in range(n)), *collected[: op.n_results]]


def _opened(at: Editor, op: Scan) -> Scan:
    """Return a scan whose turns add no pullbacks in one piece, but what these are made of."""
    held: dict[Any, SubGraph] = op.body.__dict__.setdefault("_opened", {})
    key = at.program.device, at.program.training, op.n_carry, op.n_xs
    if key not in held:
        body = op.body
        for _ in range(DEPTH):
            whole = {k for k in _added(body, op.n_carry) if _opens(at, k)}
            if not whole:
                break
            body = _inlined(body, whole)
        held[key] = body
    return op if held[key] is op.body else cast(Scan, op.replace(body=held[key]))


def _added(body: SubGraph, n_carry: int) -> set[Node]:
    """Return what makes the terms that turns add to their carries."""
    return {
        t.node
        for was, now in zip(body.inputs[1 : 1 + n_carry], body.outputs, strict=False)
        if isinstance(now.op, Add) and any(t is was for t in now.node.inputs)
        for t in now.node.inputs
        if t is not None and t is not was
    }


def _opens(at: Editor, node: Node) -> bool:
    ins = [None if t is None else t.spec for t in node.inputs]
    outs = [t.spec for t in node.outputs]
    return node.op.is_composite() and not at.program.is_lowered(node.op, ins, outs)


def _inlined(body: SubGraph, whole: Collection[Node]) -> SubGraph:
    """Return a body with the expansions of some of its nodes in their places."""
    graph = Graph("turns", scratch=True)
    own = [stand_in(graph, f"in{i}", t.spec) for i, t in enumerate(body.inputs)]
    made = dict(zip(body.inputs, own, strict=True))
    for node in body.nodes:
        if node.outputs[0] in made:
            continue
        if node in whole:
            specs = [None if t is None else t.spec for t in node.inputs]
            sub, ins = expansion(node.op, specs), [t for t in node.inputs if t is not None]
        else:
            ins = list(dict.fromkeys(t for t in node.inputs if t is not None))
            sub = SubGraph(ins, node.outputs)
        made |= zip(node.outputs, inline(sub, graph, [made[t] for t in ins]), strict=True)
    left = SubGraph(own, [made[t] for t in body.outputs])
    left.sizes = body.sizes
    return left


def _sums(op: Scan) -> dict[int, tuple[list[Tensor], Later]]:
    """Return the carries that turns only add to: what they read of a turn, and the sum of all."""
    body, n = op.body, op.n_carry
    readers = collections.Counter([*body.outputs, *(t for k in body.nodes for t in k.inputs)])
    found: dict[int, tuple[list[Tensor], Later]] = {}
    for j, (was, now) in enumerate(zip(body.inputs[1 : 1 + n], body.outputs, strict=False)):
        if not isinstance(now.op, Add) or (readers[was], readers[now]) != (1, 1):
            continue
        terms: list[Any] = [t for t in now.node.inputs if t is not was]
        needs: list[Tensor] = []
        later = _later(op, terms[0], needs) if len(terms) == 1 else None
        if later is not None and terms[0].spec == was.spec:
            found[j] = needs, later
    return found


def _later(op: Scan, t: Tensor, needs: list[Tensor]) -> Later | None:
    """Return how the sum of a tensor over all turns is made behind them; adds what it reads."""
    first = 1 + op.n_carry
    shared = {op.body.inputs[0], *op.body.inputs[first + op.n_xs :]}
    made = t.op
    ins: Any = t.node.inputs

    def keeps(*tensors: Tensor) -> bool:
        needs.extend(tensors)
        return shared.isdisjoint(tensors)

    if isinstance(made, Add | AddN) and all(x.shape == t.shape for x in ins):
        parts = [_later(op, x, needs) for x in ins]
        whole = [p for p in parts if p is not None]
        if len(whole) < len(parts):
            return None
        return lambda at, read: at.make(AddN(), *(p(at, read) for p in whole))
    if isinstance(made, Moving | Neg):
        inner = _later(op, ins[0], needs)
        return None if inner is None else lambda at, read: at.make(made, inner(at, read))
    if isinstance(made, Matmul | Mul) and _is_product(made, ins):
        a, b = ins
        turned = isinstance(a.op, Transpose) and a.op.order(2) == (1, 0)
        a = a.node.inputs[0] if turned else a
        return (lambda at, read: _product(at, read(a), read(b), turned)) if keeps(a, b) else None
    if isinstance(made, GatherGrad) and made.axis == 0 and ins[2] in shared:
        return (lambda at, read: at.make(made, *map(read, ins))) if keeps(*ins[:2]) else None
    if isinstance(made, SumLike) and ins[1] in shared:
        return (lambda at, read: at.make(made, *map(read, ins))) if keeps(ins[0]) else None
    return None


def _is_product(op: Matmul | Mul, ins: Sequence[Tensor]) -> bool:
    """Tell whether it is a product of matrices, or of a column and a row."""
    if any(x.rank != 2 for x in ins):
        return False
    return isinstance(op, Matmul) or (ins[0].shape[1] == 1 and ins[1].shape[0] == 1)


def _product(at: Editor, a: int, b: int, turned: bool) -> int:
    """Return Σₜ aₜᵀ·bₜ, or Σₜ aₜ·bₜ, of stacks of matrices."""
    rows = Flatten(start_axis=0, end_axis=1)
    if turned:
        left = at.make(Transpose(axes=(1, 0)), at.make(rows, a))
    else:
        left = at.make(Flatten(start_axis=1), at.make(Transpose(axes=(1, 0, 2)), a))
    return at.make(Matmul(), left, at.make(rows, b))


def _chosen(
    at: Editor, op: Scan, instr: Instr, sums: dict[int, tuple[list[Tensor], Later]]
) -> list[int]:
    """Return the sums that are worth what has to be kept of each turn, the largest first."""
    carries, scanned, captured = ([at.spec(i) for i in some] for some in op.split(instr.ins))
    items = [item_of(s) for s in scanned]
    sizes: list[Any] = [math.prod(s.shape) for s in carries]
    tensors = list(dict.fromkeys(t for needs, _ in sums.values() for t in needs))
    body = SubGraph(op.body.inputs, tensors)
    body.sizes = op.body.sizes
    specs = infer_nodes(body, [NUMBER, *carries, *items, *captured])
    if not all(s.is_concrete for s in (*specs, *items)):
        return []
    size: dict[Tensor, Any] = {t: math.prod(s.shape) for t, s in zip(tensors, specs, strict=True)}
    first, n = 1 + op.n_carry, op.n_carry
    there = {*op.body.inputs[first : first + op.n_xs], *op.body.outputs[n:]}
    left: Any = MOST * sum(math.prod(s.shape) for s in items)
    chosen: list[int] = []
    for j in sorted(sums, key=lambda j: -sizes[j]):
        new = {t for t in sums[j][0] if t not in there}
        cost = sum(size[t] for t in new)
        if PAYS * cost <= sizes[j] and cost <= left:
            chosen.append(j)
            there |= new
            left -= cost
    return sorted(chosen)


def _is_zero(at: Editor, value: int) -> bool:
    """Tell whether a value is zeros at any sizes."""
    recipe = at.program.recipes.get(value)
    return recipe is not None and isinstance(recipe.what, ZerosLike)

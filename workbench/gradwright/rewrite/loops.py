"""What does not change from turn to turn of a loop is computed once, in front of it.

Steppers and plain runs follow the graph, in which it stays where it was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import GradwrightError
from ..graph import Constant, Tensor
from ..graph.expand import bind_dims
from ..ops.control.loop_op import LoopOp
from ..ops.control.scan import scan
from ..ops.core.exponential import Exp
from ..program.program import Instr
from .editor import Editor
from .table import rule


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
    found = op.fixed
    if found is None:
        return None
    captured = found.before.inputs
    n = len(instr.ins) - len(captured)
    made: dict[Tensor, int | None] = dict(zip(captured, instr.ins[n:], strict=True))
    shapes: Any = {t: at.spec(i).shape for t, i in made.items()}
    sizes = {**op.body.sizes, **bind_dims(shapes)}
    try:
        for node in found.before.nodes:
            if isinstance(node.op, Constant):
                made[node.outputs[0]] = at.constant(node.graph.values.array(node.name))
            elif node.outputs[0] not in made:
                ins = [None if t is None else made[t] for t in node.inputs]
                made[node.outputs[0]] = at.make(node.op.bind(sizes), *ins)
    except GradwrightError:  # the loop itself will say, if it makes a turn
        return None
    given = (*instr.ins[:n], *(made[t] for t in found.needed))
    outs = tuple(at.specs[o] for o in instr.outs)
    lean = op.replace(body=found.body)
    return at.program.emit(lean, given, outs, instr.origin, instr.path)

"""The rule of Adam's step, which devices lower whole: a kernel of what it expands to.

Steps of other optimizers have none: plans open them, and what they are made of becomes a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph import Constant, expansion
from ..program.declined import DeclinedError
from ..spec import TensorSpec
from .builder import Term
from .rules import Place, Specs, broadcast, rule, rule_of


def of_updates(op: Any, ins: Specs, outs: Sequence[TensorSpec]) -> Place | None:
    """Place tensors of one shape, and scalars."""
    shape = outs[0].shape
    if any(s is not None and s.shape not in (shape, ()) for s in ins):
        return None
    return broadcast(op, ins, outs)


@rule("adam_update", locate=of_updates)
def _update(op: Any, at: Place, *terms: Term) -> Any:
    """Build the ops of the expansion; scalars among them are computed once a launch."""
    axes_of = zip(terms, at.ins, strict=True)
    specs = [TensorSpec(at.space if axes else (), t.dtype) for t, axes in axes_of]
    inner = expansion(op, specs)
    known: dict[Any, Any] = dict(zip(inner.inputs, terms, strict=True))
    builder = terms[0].builder
    for node in inner.nodes:
        if node.outputs[0] in known:
            continue
        if isinstance(node.op, Constant):
            array = node.graph.values.array(node.name)
            if array.size != 1:
                raise DeclinedError
            known[node.outputs[0]] = builder.const(array.item(), array.dtype)
            continue
        found = rule_of(node.op)
        if found is None:
            raise DeclinedError
        made = found.build(node.op, at, *(None if t is None else known[t] for t in node.inputs))
        made = made if isinstance(made, tuple) else (made,)
        known.update(zip(node.outputs, made, strict=True))
    return tuple(known[t] for t in inner.outputs)

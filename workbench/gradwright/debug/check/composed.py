"""Cotangents of what has an inside, from the vjps of the nodes inside: the chain rule, once more.

It shares no code with the gradients that are checked: a wrong reverse scan, or a composite's own
vjp, is told from this one without any differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...graph import Tensor
from ...op import Op
from ...ops.control.loop_op import LoopOp
from ...spec import BOXED
from ..address import Address
from ..inside import Met, Opened, opened, sources
from .vjp import vjp_of

Array = np.ndarray[Any, Any]


def composed(
    op: Op, xs: Sequence[Array | None], gs: Sequence[Array], training: bool, most: int
) -> dict[int, Array] | None:
    """Return the cotangents of an op's inputs by number; those that nothing reaches are left out.

    None where that would take more than ``most`` nodes, or a value inside has no cotangent as an
    array: a sequence, or what only the gradient of a gradient reads.
    """
    ran: list[tuple[Opened, list[Met]]] = []
    for level in opened(op, xs, Address("x"), training=training):
        ran.append((level, list(level)))
        most -= len(ran[-1][1])
        if most < 0 or any(a.dtype == BOXED for a in level.env.values()):
            return None
    if isinstance(op, LoopOp):
        return _through_turns(op, ran, xs, gs)
    if not ran:
        return None
    ((level, met),) = ran
    found = _through(level, met, gs)
    if found is None:
        return None
    pairs = zip(sources(op, xs), level.sub.inputs, strict=True)
    return {i: found[t] for i, t in pairs if t in found}


def _through_turns(
    op: LoopOp,
    ran: Sequence[tuple[Opened, Sequence[Met]]],
    xs: Sequence[Array | None],
    gs: Sequence[Array],
) -> dict[int, Array] | None:
    """Pull cotangents back through all turns, the last one first."""
    n, m = op.n_carry, op.n_carry + op.n_xs
    carried: list[Array | None] = list(gs[:n])
    total: dict[int, Array] = {}
    for level, met in reversed(ran):
        at: Any = level.part
        found = _through(level, met, [*[None] * op.lead, *carried, *(g[at] for g in gs[n:])])
        if found is None:
            return None
        own = [found.get(t) for t in level.sub.inputs[1:]]
        carried = own[:n]
        for i, g in enumerate(own[n:], op.first_carry + n):
            if g is None:
                continue
            if i < op.first_carry + m:
                held = total.setdefault(i, np.zeros_like(xs[i], dtype=g.dtype))
                held[at] = g
            else:
                total[i] = total[i] + g if i in total else g
    total.update((i, g) for i, g in enumerate(carried, op.first_carry) if g is not None)
    return total


def _through(
    level: Opened, met: Sequence[Met], gs: Sequence[Array | None]
) -> Mapping[Tensor, Array] | None:
    """Pull cotangents of the outputs of one level back to all that it was given."""
    total: dict[Tensor, Array] = {}

    def add(t: Tensor, g: Array | None) -> None:
        if g is not None and level.env[t].dtype.kind in "fc":
            total[t] = total[t] + g if t in total else g

    for t, g in zip(level.sub.outputs, gs, strict=True):
        add(t, g)
    for node, op, xs, ys in ((m.node, m.op, m.inputs, m.outputs) for m in reversed(met)):
        own = [total.pop(t, None) for t in node.outputs]
        if all(g is None for g in own):
            continue
        public = len(node.public)
        if any(g is not None for g in own[public:]):
            return None
        pairs = zip(own[:public], ys, strict=False)
        given = [
            y if y.dtype.kind not in "fc" else np.zeros_like(y) if g is None else g
            for g, y in pairs
        ]
        for i, g in vjp_of(op, xs, ys)(xs, ys, given, level.training).items():
            x = node.inputs[i]
            if x is not None:
                add(x, g)
    return total

"""Ops with a declared gradient, as what they declare: what differences are held against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..graph import SubGraph, expansion
from ..op import Op
from ..spec import is_floating

Array = np.ndarray[Any, Any]


def holds_surrogate(op: Op) -> bool:
    """Tell whether an op with a declared gradient stands in the body of a loop, at any depth."""
    subs = _bodies(op)
    for sub in subs:
        for node in sub.nodes:
            if node.op.has_surrogate():
                return True
            inner = _bodies(node.op)
            if node.op.is_composite() and not inner:
                inner = [expansion(node.op, [None if t is None else t.spec for t in node.inputs])]
            subs += inner
    return False


def _bodies(op: Op) -> list[SubGraph]:
    return [v for v in op.attributes().values() if isinstance(v, SubGraph)]


def declared(
    op: Op, at: Sequence[Array | None], ys: Sequence[Array]
) -> tuple[Callable[..., tuple[Array, ...]], Sequence[Array]]:
    """Return what moves as an op's surrogate does, and is ``ys`` where its inputs are ``at``."""
    held = [None if x is None else np.array(x) for x in at]

    def outputs(xs: Sequence[Array | None]) -> Sequence[Array]:
        found = op.surrogate(xs, held)
        return [np.asarray(y) for y in (found if isinstance(found, tuple) else (found,))]

    base = outputs(held)

    def forward(*xs: Array | None) -> tuple[Array, ...]:
        moved = outputs(xs)
        return tuple(
            y + (m - b) if is_floating(y.dtype) else y
            for y, m, b in zip(ys, moved, base, strict=True)
        )

    return forward, ys

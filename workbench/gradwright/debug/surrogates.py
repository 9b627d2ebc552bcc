"""Ops with a declared gradient, as what they declare: what differences are held against."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..op import Op
from ..ops.control.branch import Cond
from ..ops.control.call import Call
from ..ops.control.loop_op import LoopOp
from ..spec import is_floating
from .address import parts, specs_of

Array = np.ndarray[Any, Any]


def holds_surrogate(op: Op) -> bool:
    """Tell whether an op with a declared gradient stands in the body of a loop, at any depth."""
    if not isinstance(op, Cond | LoopOp | Call):
        return False
    subs = list(parts(op, ()).values())
    for sub in subs:
        for node in sub.nodes:
            if node.op.has_surrogate():
                return True
            with contextlib.suppress(ShapeError):  # only a run tells what it is made of
                subs += parts(node.op, specs_of(node)).values()
    return False


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

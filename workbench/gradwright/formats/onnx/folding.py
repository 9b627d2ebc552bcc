"""What is known of a tensor before anything runs: constants, shapes, and small ops on these."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import GradwrightError
from ...graph import Constant, Node, Source, Tensor
from ...graph.expand import run_nodes
from ...spec import SMALL
from .node import known_value

Array = np.ndarray[Any, Any]

MAX_NODES = 64
"""Nodes that are computed for one answer at most."""


def fold(tensor: Tensor, takes_dims: bool = False) -> Array | None:
    """Return the value of a tensor if constants and known shapes decide it, else None."""
    held = _held(tensor)
    if held is not None:
        return held
    if takes_dims and tensor.spec.value is not None:
        return known_value(tensor.spec, True)
    given: dict[Tensor, Array] = {}
    order: list[Node] = []
    opened: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(tensor.node, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
            continue
        if node in opened:
            continue
        opened.add(node)
        if isinstance(node.op, Source) or len(opened) > MAX_NODES:
            return None
        if any(t.spec.is_concrete and t.spec.size > SMALL for t in node.outputs):
            return None
        stack.append((node, True))
        for t in node.inputs:
            if t is not None and t not in given:
                value = _held(t)
                if value is None:
                    stack.append((t.node, False))
                else:
                    given[t] = value
    try:
        return run_nodes(order, given, [tensor])[0]
    except (GradwrightError, ValueError, IndexError):
        return None


def _held(t: Tensor) -> Array | None:
    """Return the value of a tensor that is stored, or known as a shape."""
    if isinstance(t.op, Constant) and t.name in t.graph.values:
        return t.graph.values.array(t.name)
    return known_value(t.spec)

"""What a loop's body computes of tensors from outside alone, and so is the same in each turn.

Only what cannot fail and draws nothing at random: it may be computed in front of a loop, and of a
loop without turns it is then computed in vain, which nobody sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...errors import GradwrightError
from ...graph import Constant, Node, SubGraph, Tensor, expansion
from ...op import Op
from ..core.movement import Moving


@dataclass(frozen=True, eq=False)
class Fixed:
    """A body in two parts: what is computed in front of the loop, and what is left of a turn."""

    before: SubGraph
    """(*captured) -> what the turns read of it; captured is all that the body captures."""
    body: SubGraph
    """(*own, *needed) -> results."""
    needed: tuple[Tensor, ...]
    """What the turns still take from outside: of ``captured`` and of the outputs of ``before``."""


def fixed(body: SubGraph, n_captured: int) -> Fixed | None:
    """Return a body in two parts; None if there is nothing to compute in front of the loop."""
    held: dict[int, Fixed | None] = body.__dict__.setdefault("_fixed", {})
    if n_captured not in held:
        held[n_captured] = _found(body, n_captured)
    return held[n_captured]


def _found(body: SubGraph, n_captured: int) -> Fixed | None:
    n = len(body.inputs) - n_captured
    own, captured = body.inputs[:n], body.inputs[n:]
    frontier = _frontier(body, captured)
    if not frontier:
        return None
    inside = SubGraph([*body.inputs, *frontier], body.outputs)
    given = {*body.inputs, *frontier}
    turn = [node for node in inside.nodes if not given.issuperset(node.outputs)]
    read = {t for node in turn for t in node.inputs} | {*body.outputs}
    needed = tuple(t for t in (*captured, *frontier) if t in read)
    left = SubGraph([*own, *needed], body.outputs)
    before = SubGraph(captured, frontier)
    left.sizes = before.sizes = body.sizes
    return Fixed(before, left, needed)


def _frontier(body: SubGraph, captured: Iterable[Tensor]) -> list[Tensor]:
    """Return what the turns read of what can be computed in front of them.

    What is only moved about is left inside, where it mostly is a view.
    """
    known: set[Tensor] = set(captured)
    worth: set[Tensor] = set()
    for node in body.nodes:
        inputs = [t for t in node.inputs if t is not None]
        if isinstance(node.op, Constant):
            known.add(node.outputs[0])
        elif inputs and known.issuperset(inputs) and _is_sure(node):
            known.add(node.outputs[0])
            is_alone = all(isinstance(t.op, Constant) for t in inputs)
            is_moved = isinstance(node.op, Moving) and worth.isdisjoint(inputs)
            if not (is_alone or is_moved):
                worth.add(node.outputs[0])
    made = {t.node for t in worth}
    left = {t for node in body.nodes if node not in made for t in node.inputs} | {*body.outputs}
    return [t for node in body.nodes for t in node.outputs if t in worth and t in left]


def _is_sure(node: Node) -> bool:
    """Tell whether a node has one result, which it has without fail, at any sizes."""
    specs = [None if t is None else t.spec for t in node.inputs]
    if len(node.outputs) != 1 or node.op.symbols() or any(s and s.by_reference for s in specs):
        return False
    return _never_fails(node.op) or _opens_to_sure(node.op, specs)


def _never_fails(op: Op) -> bool:
    return bool(op.element) or op.never_fails


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

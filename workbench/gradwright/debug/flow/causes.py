"""Causes: which of the steps explain what a gradient is, in sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from ...graph import Node, Tensor
from ...op import Op
from ...ops.core.identity import StopGradient
from ...spec import is_floating
from ..address import Address
from .explanation import Cause, Step
from .level import Array, Level
from .numbers import about

_MOST = 3
"""Causes of one kind of trouble that are told."""
TELLING = 0.3
"""The part of the strongest cause, in orders of magnitude, that another one has to have."""
PARTIAL = "flat", "masked", "unread", "zero factor"
"""Kinds that make elements zero."""


def cut_reason(op: Op, node: Node) -> str:
    """Say why no gradient flows back through a node."""
    if isinstance(op, StopGradient):
        return "detaches it: to gradients, what it gives is a constant"
    return f"gives {node.outputs[0].spec}, through which no gradient flows"


def unreached(level: Level) -> list[Cause]:
    """Return the places that all paths to the loss end at."""
    return [
        _cut(f"it ends at {_named(op.title, node.name, node.where)}", op, node, node.name)
        for node, op in cut_nodes(level)
    ][:_MOST]


def cut_nodes(level: Level) -> list[tuple[Node, Op]]:
    """Return the nodes that paths end at: first what detaches, last comparisons."""

    def rank(cut: tuple[Node, Op]) -> int:
        node, op = cut
        return 0 if isinstance(op, StopGradient) else 1 + (node.outputs[0].dtype.kind == "b")

    return sorted(dict.fromkeys((node, op) for node, op, _ in level.cuts), key=rank)


def cuts(level: Level, address: Callable[[Node], Address], where: str = "") -> list[Cause]:
    """Return the places that some paths are cut at on purpose."""
    found = []
    for node, op in cut_nodes(level):
        if isinstance(op, StopGradient):
            at = str(address(node))
            text = f"a path ends at {_named(op.title, at, node.where or where)}"
            found.append(_cut(text, op, node, at))
    return found[:_MOST]


def _cut(text: str, op: Op, node: Node, at: str) -> Cause:
    return Cause("detached", f"{text}, which {cut_reason(op, node)}", (at,), 0.0)


def deaths(steps: Iterable[Step]) -> Iterator[Cause]:
    """Yield the steps that let nothing through, or what cancels up to rounding.

    Of a node and what is inside it, that is the inner one.
    """
    steps = list(steps)
    for n, step in enumerate(steps):
        if any(_is_inside(s, step) for s in steps[n + 1 :]):
            continue
        if step.norm_out == 0 < step.norm_in or step.kind == "cancels exactly":
            reason = step.reason or "passes nothing of what arrives"
            yield Cause(step.kind or "flat", f"it dies at {told(step)}: {reason}", _at(step), 0.0)


def changes(steps: Sequence[Step], *, grows: bool) -> list[Cause]:
    """Return what makes a gradient small, or large, by kinds of op, the strongest first."""
    groups: dict[tuple[str, str], list[Step]] = {}
    for step in steps:
        in_turn = any(isinstance(part, int) for _, part in step.address.levels)
        if 0 < step.gain < math.inf and not in_turn:
            groups.setdefault((step.op, step.kind), []).append(step)
    sign = 1 if grows else -1

    def weight(group: Sequence[Step]) -> float:
        return sign * sum(math.log(s.gain) for s in group)

    ranked = sorted(groups.values(), key=weight, reverse=True)
    least = max(math.log(2), TELLING * max(map(weight, ranked), default=0.0))
    strong = [group for group in ranked if weight(group) > least][:_MOST]
    return [_changed(group, steps, grows=grows) for group in strong]


def _changed(group: Sequence[Step], steps: Sequence[Step], *, grows: bool) -> Cause:
    gain = math.prod(s.gain for s in group)
    worst = (max if grows else min)(group, key=lambda s: s.gain)
    reason = worst.reason or f"passes {about(worst.gain)} times what arrives"
    nodes = tuple(str(s.address) for s in group)
    inner = [s for s in steps if _is_inside(s, worst) and 0 < s.gain < math.inf]
    most = (max if grows else min)(inner, key=lambda s: s.gain, default=worst)
    if most is not worst and abs(math.log(most.gain)) > math.log(1.2):  # of a loop
        reason += f"; in a turn, most by {told(most)}"
        reason += f": {most.reason}" if most.reason else f", which passes {about(most.gain)}"
        nodes = (*nodes, str(most.address))
    if len(group) == 1:
        return Cause(worst.kind or "factor", f"{told(worst)}: {reason}", nodes, gain)
    each = gain ** (1 / len(group))
    return Cause(
        worst.kind or "factor",
        f"{len(group)} {worst.op} pass {about(each)} each, {about(gain)} in all; the "
        f"{'largest' if grows else 'smallest'}, {told(worst)}: {reason}",
        nodes,
        gain,
    )


def broken(nodes: Iterable[Node], env: Mapping[Tensor, Array]) -> Iterator[Cause]:
    """Yield the nodes that make what is not finite of finite numbers, forward."""
    for node in nodes:
        if all(is_finite(env[t]) for t in node.inputs if t is not None):
            for t in node.outputs:
                if not is_finite(env[t]):
                    named = _named(node.op.title, node.name, node.where)
                    text = f"forward, {named} makes NaN or infinity of finite numbers"
                    yield Cause("nonfinite", text, (node.name,), math.inf)


def is_finite(a: Array) -> bool:
    """Tell whether an array holds neither NaN nor infinity."""
    if not is_floating(a.dtype):
        return True
    return bool(np.isfinite(a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)).all())


def partial(steps: Iterable[Step]) -> list[Cause]:
    """Return what makes some elements of a gradient zero."""
    return [
        Cause(s.kind, f"{told(s)}: {s.reason}", _at(s), s.gain) for s in steps if s.kind in PARTIAL
    ][:_MOST]


def told(step: Step) -> str:
    """Return op, address and line of a step."""
    return _named(step.op, str(step.address), step.where)


def _named(op: str, name: str, where: str) -> str:
    line = f" ({where})" if where else ""
    return f"{op} {name!r}{line}"


def _is_inside(step: Step, outer: Step) -> bool:
    levels, depth = step.address.levels, len(outer.address.levels)
    return (
        len(levels) > depth
        and levels[:depth] == outer.address.levels
        and levels[depth].node == outer.address.node
    )


def _at(step: Step) -> tuple[str, ...]:
    return (str(step.address),)

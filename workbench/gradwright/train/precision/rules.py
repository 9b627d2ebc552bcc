"""Which ops compute in 16 bits, and which in float32: as they say, or as what they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...graph import Constant, SubGraph
from ...graph.expand import expansion
from ...op import Autocast, Op
from ...spec import TensorSpec

LOW, HIGH, APART, FREE = "low", "high", "apart", "free"
"""Cast the inputs down; keep them in float32; look inside a composite; take them as they come."""


class Rule(NamedTuple):
    """What happens to an op, and the reason."""

    what: str
    reason: str


TAKEN = Rule(FREE, Autocast.FREE.reason)
OPENED = Rule(APART, "made of products and other ops, each under its own rule")
MIXED = Rule(HIGH, "made of ops that stay in float32")
_seen: dict[tuple[Op, tuple[object, ...]], Rule] = {}
_MOST = 4096


def rule_of(op: Op, specs: Sequence[TensorSpec | None]) -> Rule:
    """Return the rule for an op on inputs of these specs.

    A composite that says nothing goes by what it is made of: with a product inside it is opened.

    >>> import gradwright as gw
    >>> from gradwright.ops.core.activation import Relu
    >>> rule_of(Relu(), [gw.TensorSpec((2,))]).what
    'free'
    """
    if op.autocast is not Autocast.FREE:
        return Rule(op.autocast.bits, op.autocast.reason)
    bodies = [v for v in op.attributes().values() if isinstance(v, SubGraph)]
    if not bodies and not op.is_composite():
        return TAKEN
    key = op, tuple(None if s is None else s.key() for s in specs)
    found = _seen.get(key)
    if found is None:
        if len(_seen) >= _MOST:
            _seen.clear()
        found = _seen[key] = _by_parts(bodies or [expansion(op, specs)])
    return found


def _by_parts(parts: Sequence[SubGraph]) -> Rule:
    """Return the rule for what is made of these: a product inside opens it."""
    found = {
        rule_of(node.op, [None if t is None else t.spec for t in node.inputs]).what
        for part in parts
        for node in part.nodes
        if not isinstance(node.op, Constant)
    }
    if found & {LOW, APART}:
        return OPENED
    return MIXED if HIGH in found else TAKEN

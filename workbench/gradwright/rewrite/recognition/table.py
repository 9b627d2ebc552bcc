"""Patterns: what a graph may have written out, each declared once.

A pattern is a formula and what it becomes, ``pattern(kind, core, before, after)``; where that does
not say enough, a function under ``@finds(kind, core)`` yields what it found. ``core`` is an op that
no such formula does without: only around those is looked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ...graph import Node, Tensor
from ..terms import INNER, Binds, Term
from .products import MISFITS
from .view import View

HEIGHT = 6
"""How far above its core a form may end."""
PATTERNS: list[Pattern] = []
"""All patterns, in the order in which they are tried: what one makes, later ones may take."""


@dataclass
class Found:
    """One place that has a form: what it ends in, the nodes that it is, and what it becomes."""

    root: Tensor
    taken: Sequence[Node]
    """All nodes that go, the root's included; nothing outside may need the others."""
    make: Callable[[], Tensor]
    wrong: str = ""
    """Why it is only nearly what is looked for."""


@dataclass(frozen=True)
class Pattern:
    """One form: its kind, the op around which is looked, and the formula that it is."""

    kind: str
    core: str
    find: Callable[[View, Node], Iterator[Found]]
    formula: str


def finds(
    kind: str, core: str, formula: str
) -> Callable[[Callable[[View, Node], Iterator[Found]]], Callable[[View, Node], Iterator[Found]]]:
    """Declare a pattern by a function that yields what it finds around a node."""

    def declare(
        find: Callable[[View, Node], Iterator[Found]],
    ) -> Callable[[View, Node], Iterator[Found]]:
        PATTERNS.append(Pattern(kind, core, find, formula))
        return find

    return declare


def pattern(
    kind: str,
    core: str,
    before: Term,
    after: Term,
    *,
    when: Callable[[View, Binds], str] | None = None,
) -> None:
    """Declare a pattern by two formulas; ``when`` says what is wrong with a match, if anything."""

    def find(at: View, node: Node) -> Iterator[Found]:
        for root in _above(at, node):
            value = at.value(root)
            for binds in before.match(at, value, {}):
                taken = [step.node for step in binds.get(INNER, ())]
                if node not in taken:
                    continue
                misfits = [*binds.get(MISFITS, ()), *filter(None, [when and when(at, binds)])]

                def make(binds: Binds = binds) -> Tensor:
                    return at.tensor(after.build(cast("Any", at), binds))

                yield Found(root, [root.node, *taken], make, "; ".join(misfits))

    PATTERNS.append(Pattern(kind, core, find, f"{before} → {after}"))


def _above(at: View, node: Node) -> Iterator[Tensor]:
    """Yield the tensors that a form around a node may end in, the farthest last."""
    level, seen = [node], {node: None}
    for _ in range(HEIGHT):
        yield from (n.outputs[0] for n in level)
        users = (u for n in level for t in n.outputs[:1] for u in at.readers(t))
        level = [u for u in dict.fromkeys(users) if u is not None and u not in seen]
        seen |= dict.fromkeys(level)
        if len(level) > HEIGHT:  # what so many read is a result by itself
            return

"""Addresses: which node, inside of what, in which turn of a loop.

An address is a value, so that all who point into a graph - stepper, blame, the search for a NaN,
drawings - mean the same by it, and may keep it, compare it and send it as text. ``:`` is in no
name, so it parts what encloses from what is inside:

- ``norm::mean`` is ``mean`` inside the composite or function ``norm``;
- ``decoder/scan:3:cell/add`` is ``cell/add`` in turn 3 of a loop, by the number that its body is
  given, and ``decoder/scan::cell/add`` that node in whichever turn, as a drawing shows it;
- ``choose:then:mul`` is in one branch of a ``cond``, ``choose:else:mul`` in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, NamedTuple

from ..errors import GraphError
from ..graph import Graph, Node, SubGraph, Tensor, expansion
from ..op import Op
from ..ops.control.branch import Cond
from ..ops.control.call import Call
from ..ops.control.loop_op import LoopOp
from ..ops.control.scan_op import Scan
from ..spec import TensorSpec

Part = int | str | None
"""The turn of a loop, the branch of a ``cond``; None where there is one inside, or any is meant."""
BRANCHES = ("then", "else")


class Level(NamedTuple):
    """A node that encloses others, and which part of it does."""

    node: str
    part: Part = None


class Located(NamedTuple):
    """What an address leads to."""

    node: Node
    within: tuple[SubGraph, ...]
    """The sub-graphs on the way, outermost first; the last holds the node."""


@dataclass(frozen=True, slots=True)
class Address:
    """The place of a node: its name, and what encloses it, outermost first.

    >>> here = Address.parse("decoder/scan:3:norm::mean")
    >>> here.node, here.turn, here.levels[0]
    ('mean', 3, Level(node='decoder/scan', part=3))
    >>> str(here.outer), str(here.anywhere), Address.parse(str(here)) == here
    ('decoder/scan:3:norm', 'decoder/scan::norm::mean', True)
    """

    node: str
    levels: tuple[Level, ...] = ()

    def __post_init__(self) -> None:
        for name in (*(level.node for level in self.levels), self.node):
            if not name or ":" in name:
                raise GraphError(f"{name!r} is no node's name", hint="Address.parse(text)")
        for _, part in self.levels:
            if part not in (None, *BRANCHES) and not (type(part) is int and part >= 0):
                raise GraphError(
                    f"{part!r} is no part", need="a turn from 0, 'then', 'else', or None"
                )

    @classmethod
    def parse(cls, text: str) -> Address:
        """Return the address that a text writes down; ``str`` writes it."""
        parts = text.split(":")
        if not len(parts) % 2:
            raise GraphError(
                f"{text!r} is no address", need="scan:3:add: node, part, node", hint="norm::mean"
            )
        levels = zip(parts[:-1:2], map(_part, parts[1::2]), strict=True)
        return cls(parts[-1], tuple(Level(*level) for level in levels))

    def __str__(self) -> str:
        outer = (f"{n}:{'' if part is None else part}:" for n, part in self.levels)
        return "".join(outer) + self.node

    def into(self, node: str, part: Part = None) -> Address:
        """Return the address of a node inside this one."""
        return Address(node, (*self.levels, Level(self.node, part)))

    @property
    def outer(self) -> Address | None:
        """The node that encloses it; None at the top of the graph."""
        if not self.levels:
            return None
        return Address(self.levels[-1].node, self.levels[:-1])

    @property
    def turn(self) -> int | None:
        """The turn of the innermost loop around it of which one is said."""
        turns = [part for _, part in self.levels if isinstance(part, int)]
        return turns[-1] if turns else None

    @property
    def anywhere(self) -> Address:
        """The same node in whichever turns."""
        loose = (Level(n, None if isinstance(part, int) else part) for n, part in self.levels)
        return replace(self, levels=tuple(loose))

    def covers(self, other: Address) -> bool:
        """Tell whether another address is this one, where this one leaves parts open.

        >>> Address.parse("scan::add").covers(Address.parse("scan:3:add"))
        True
        """
        return (
            self.node == other.node
            and len(self.levels) == len(other.levels)
            and all(
                a.node == b.node and a.part in (None, b.part)
                for a, b in zip(self.levels, other.levels, strict=True)
            )
        )

    def find(self, graph: Graph) -> Located:
        """Return the node, and the sub-graphs that lead to it; nothing runs.

        Raises GraphError for what is not there: a node, an inside, a branch, a turn.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.nn.silu(g.placeholder("x", (3,)), name="y")
        >>> found = Address.parse("y::mul").find(g)
        >>> found.node.op, len(found.within)
        (mul(), 1)
        """
        nodes, within = {n.name: n for n in graph.all_nodes}, list[SubGraph]()
        for depth, (name, part) in enumerate(self.levels):
            at = Address(name, self.levels[:depth])
            within.append(_inside(_named(nodes, at), part, at))
            given = (t.node for t in within[-1].inputs)
            nodes = {n.name: n for n in (*given, *within[-1].nodes)}
        return Located(_named(nodes, self), tuple(within))


def _part(text: str) -> Part:
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    return text or None


def check_turn(at: Address, part: Part, turns: int | None) -> None:
    """Refuse a turn beyond the end of a loop, if it is known how often that runs."""
    if isinstance(part, int) and turns is not None and part >= turns:
        need = f"0 to {turns - 1}" if turns else "a loop that makes turns"
        raise GraphError(f"{str(at)!r} has no turn {part}", need=need)


def _named(nodes: Mapping[str, Node], at: Address) -> Node:
    if at.node in nodes:
        return nodes[at.node]
    close = get_close_matches(at.node, nodes, 3, 0.5)
    where = "in the graph" if at.outer is None else f"inside {str(at.outer)!r}"
    raise GraphError(f"no node {where} is called {at.node!r}", hint=" or ".join(map(repr, close)))


def parts(op: Op, specs: Sequence[TensorSpec | None]) -> dict[str, SubGraph]:
    """Return what an op encloses, by part: ``then`` and ``else`` of a cond, ``""`` of all others.

    A primitive op encloses nothing. Raises what ``expand`` does where sizes are missing.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cond(g.placeholder("p", (), "bool"), lambda: 1.0, lambda: 2.0)
    >>> list(parts(y.node.op, ()))
    ['then', 'else']
    """
    if isinstance(op, Cond):
        return {"then": op.then_branch, "else": op.else_branch}
    if isinstance(op, LoopOp | Call):
        return {"": op.body}
    return {"": expansion(op, specs)} if op.is_composite() else {}


def specs_of(node: Node) -> list[TensorSpec | None]:
    """Return the specs of a node's inputs, None for those that are left out."""
    return [None if t is None else t.spec for t in node.inputs]


def _inside(node: Node, part: Part, at: Address) -> SubGraph:
    """Return a part of what a node encloses."""
    op = node.op
    if isinstance(op, Cond):
        if part not in BRANCHES:
            raise GraphError(
                f"{str(at)!r} has two branches", need=f"{at}:then:... or {at}:else:..."
            )
        return parts(op, ())[str(part)]
    if isinstance(op, LoopOp):
        if isinstance(part, str):
            raise GraphError(f"{str(at)!r} is a loop", need=f"{at}:3:... or {at}::...")
        check_turn(at, part, turns_of(node))
    elif part is not None:
        raise GraphError(f"{str(at)!r} is neither loop nor cond", need=f"{at}::...")
    found = parts(op, specs_of(node))
    if not found:
        raise GraphError(f"{op.name} {str(at)!r} is primitive: there is nothing inside")
    return found[""]


def turns_of(node: Node, spec: Callable[[Tensor], TensorSpec] = lambda t: t.spec) -> int | None:
    """Return how often a loop runs, where shapes tell; ``spec`` may know more sizes."""
    op: Any = node.op
    if not isinstance(op, Scan):
        return None
    _, scanned, _ = op.split(node.inputs)
    sizes = [op.length, *(x.shape[0] for x in map(spec, scanned) if x.rank)]
    return next((n for n in sizes if isinstance(n, int)), None)

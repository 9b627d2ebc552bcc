"""How a Python function becomes a sub-graph: traced once, with what it captures from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...errors import GradwrightError, GraphError
from ...graph import Graph, SubGraph, Tensor
from ...graph.expand import inline, stand_in
from ...spec import TensorSpec

Rebuild = Callable[[Iterator[Any]], Any]


def flatten(structure: Any, leaves: list[Any]) -> Rebuild:
    """Collect the leaves of nested lists, tuples and dicts; None has none.

    Returns what makes the structure of other leaves.

    >>> leaves = []
    >>> rebuild = flatten({"a": 1, "b": (2, None)}, leaves)
    >>> leaves, rebuild(iter(["x", "y"]))
    ([1, 2], {'a': 'x', 'b': ('y', None)})
    """
    if structure is None:
        return lambda found: None
    if isinstance(structure, dict):
        named = {k: flatten(v, leaves) for k, v in structure.items()}
        return lambda found: {k: part(found) for k, part in named.items()}
    if isinstance(structure, (list, tuple)):
        parts = [flatten(s, leaves) for s in structure]
        kind: Any = type(structure)
        make = getattr(kind, "_make", kind)  # of a named tuple
        return lambda found: make([part(found) for part in parts])
    leaves.append(structure)
    return next


def same_structure(a: Any, b: Any) -> bool:
    """Tell whether two structures differ at most in their leaves."""
    if isinstance(a, dict) or isinstance(b, dict):
        alike = isinstance(a, dict) and isinstance(b, dict) and list(a) == list(b)
        return alike and all(same_structure(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        alike = isinstance(a, (list, tuple)) and isinstance(b, (list, tuple))
        return alike and len(a) == len(b) and all(map(same_structure, a, b))
    return (a is None) == (b is None)


class Body:
    """A function's graph while it is made: named inputs, then results, then captures."""

    def __init__(self, owner: Graph, label: str, what: str) -> None:
        self.graph, self.label, self.what = Graph(label, parent=owner), label, what
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []

    def input(self, name: str, spec: TensorSpec) -> Tensor:
        """Add an input of its own."""
        made = stand_in(self.graph, name, spec)
        self.inputs.append(made)
        return made

    def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Build what ``fn`` builds; an error says in which function it came up."""
        with self.graph:
            try:
                return fn(*args)
            except GradwrightError as error:
                error.facts.append(f"while building the {self.label} of {self.what}")
                raise

    def take(self, value: Any) -> Tensor:
        """Return a result as a tensor of this graph."""
        with self.graph:
            t = value if isinstance(value, Tensor) else self.graph.constant(value)
            return t if t.graph is self.graph else self.graph.capture(t)

    def check(self, *, hands_on_state: bool = False) -> None:
        """Refuse a graph with variables of its own, and one with state that nobody would set."""
        if self.graph.variables:
            raise GraphError(
                f"a variable cannot be made inside the {self.label} of {self.what}",
                hint=f"make it before the {self.what}",
            )
        if hands_on_state:
            return
        outside: dict[Tensor | None, Tensor] = {
            inner: t for t, inner in self.graph.captures.items() if t.kind == "variable"
        }
        for node in self.graph.nodes:
            for i in node.op.next_state:
                if (state := outside.get(node.inputs[i])) is not None:
                    raise GraphError(
                        f"{node.name!r} would set {state.name!r} in the {self.label} of "
                        f"{self.what}, whose turns and branches set no state",
                        hint=f"training=False, or call it outside of the {self.what}",
                    )

    def states(self) -> list[Tensor]:
        """Return the next value of each input that is state of what was built, such as a mean."""
        given = {*self.inputs, *self.graph.captures.values()}
        found = self.graph.updates.states(self.graph.nodes)
        return [new for t, new in found.items() if t in given]

    def closed(self, captured: Sequence[Tensor]) -> SubGraph:
        """Return the sub-graph: its inputs, then what stands for ``captured``; it is complete."""
        made = SubGraph([*self.inputs, *map(self.graph.capture, captured)], self.outputs)
        self.graph.closed = f"{self.label} of {self.what}"
        return made


def scratch(sub: SubGraph, names: str) -> tuple[Graph, list[Tensor], list[Tensor]]:
    """Return a new graph with stand-ins for the inputs of ``sub``, and its outputs there."""
    graph = Graph(names, scratch=True)
    xs = [stand_in(graph, f"x{i}", t.spec) for i, t in enumerate(sub.inputs)]
    return graph, xs, inline(sub, graph, xs)

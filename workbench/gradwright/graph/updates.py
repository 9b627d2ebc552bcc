"""Updates: what a training step sets beside the parameters that it moves.

Layers with state, such as running means, say so by their op (``Op.next_state``): a step sets the
state of those that its losses are made of. What else a step shall set, the user declares.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import GraphError
from .build import check_update
from .edit import copied
from .tensor import Node, Tensor
from .walk import ancestors, placeholders

if TYPE_CHECKING:
    from .graph import Graph

WHEN = ("before", "after")


@dataclass(frozen=True, eq=False)
class Declared:
    """One update that the user declared."""

    value: Tensor
    when: str
    """Whether it reads the values before the step or after it."""


class Updates(Mapping[Tensor, Tensor]):
    """New values by variable: those of a step on all of the graph that moves no parameter.

    ``of`` are those of a step on some losses, which is what trainers ask for.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", ("B", 2)), g.variable("w", (2,), init=1.0)
    >>> y = gw.nn.batch_norm(x * w, name="bn")
    >>> slow = g.variable("slow", (2,), trainable=False)
    >>> g.update(slow, 0.9 * slow + 0.1 * w, when="after")
    >>> [v.name for v in g.updates]
    ['bn/running_mean', 'bn/running_var', 'slow']
    >>> [v.name for v in g.updates.of(w.sum())]
    ['slow']
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.declared: dict[Tensor, Declared] = {}
        """Those of ``g.update``, by variable."""

    def of(
        self, *losses: Tensor, moved: Mapping[Tensor, Tensor] | None = None
    ) -> dict[Tensor, Tensor]:
        """Return what a step on ``losses`` sets, with the parameters that it has ``moved``.

        The result fits ``session.run(..., updates=)``. Updates are left out that depend on
        placeholders which the losses do not; of those that read values after the step, also those
        that read trainable parameters, none of which has moved. Without ``moved`` all read what
        there is.
        """
        graph, new = self._graph, dict(moved or {})
        for t in (*losses, *new, *new.values()):
            graph.check_member(t)
        key = "updates", losses, moved is None, tuple(new.items()), tuple(self.marks())
        held: dict[Tensor, Tensor] | None = graph.gradients.get(key)
        if held is None or any(not _is_there(t) for t in held.values()):
            fed = placeholders(losses)
            new = self.before(losses, fed) | new
            scope = graph._free_scope("updates")
            held = graph.gradients[key] = self.after(new, fed, scope, all_due=moved is None)
        return dict(held)

    def before(self, losses: Iterable[Tensor], fed: Iterable[Tensor]) -> dict[Tensor, Tensor]:
        """Return the state of what ``losses`` are made of, and what reads values before a step.

        ``fed`` are the placeholders that have values. A declared update stands in place of what
        layers make of their state.
        """
        states = self.states(ancestors(losses))
        return {v: t for v, t in states.items() if v.kind == "variable"} | {
            v: d.value
            for v, d in self.declared.items()
            if d.when == "before" and _is_fed(d.value, fed)
        }

    def after(
        self,
        new: Mapping[Tensor, Tensor],
        fed: Iterable[Tensor],
        prefix: str,
        *,
        all_due: bool = False,
    ) -> dict[Tensor, Tensor]:
        """Return ``new``, what a step sets, with what reads these values in place of the old.

        What reads trainable parameters is due where one of them is among ``new``: an average of
        one network's weights does not go on while another is trained. What is built for it is named
        under ``prefix``.
        """
        declared = {
            v: d.value
            for v, d in self.declared.items()
            if d.when == "after" and _is_fed(d.value, fed) and (all_due or _is_due(d.value, new))
        }
        mapping = dict(new)
        with self._graph.deriving(prefix):
            for node in ancestors(declared.values()):
                if any(t in mapping for t in node.inputs):
                    again = copied(node, mapping)
                    mapping.update(zip(node.outputs, again.outputs, strict=True))
        return {**new, **{v: mapping.get(t, t) for v, t in declared.items()}}

    def states(self, nodes: Iterable[Node]) -> dict[Tensor, Tensor]:
        """Return the next value of all that is state of some nodes, wherever it comes from.

        Where several have the same, each starts from what the one before it made, in the order in
        which they were made.
        """
        found: dict[Tensor, Tensor] = {}
        for node in sorted((n for n in nodes if n.op.next_state), key=lambda n: n.serial):
            state = {
                t: o for i, o in node.op.next_state.items() if (t := node.inputs[i]) is not None
            }
            outputs = self._again(node, {t: found[t] for t in state if t in found})
            found |= {t: outputs[o] for t, o in state.items()}
        return found

    def _again(self, node: Node, reads: Mapping[Tensor, Tensor]) -> tuple[Tensor, ...]:
        """Return the outputs of a node that reads other tensors, built when first asked for."""
        if not reads:
            return node.outputs
        graph, key = self._graph, ("again", node, tuple(reads.items()))
        held: tuple[Tensor, ...] | None = graph.gradients.get(key)
        if held is None or not _is_there(held[0]):
            with graph.deriving(graph._free_scope("updates")):
                held = graph.gradients[key] = copied(node, reads).outputs
        return held

    # -- which there are -------------------------------------------------------------------------

    def declare(self, variable: Tensor, value: Tensor | None, when: str) -> None:
        """Declare the update of a variable, or with None that it stays what it is."""
        if when not in WHEN:
            raise GraphError(f"when={when!r} is not known", need=" or ".join(map(repr, WHEN)))
        self._graph.check_member(variable)
        self._graph.check_member(variable if value is None else value)
        check_update(variable, variable if value is None else value)
        if value is None:
            self.declared.pop(variable, None)
            if layers_of(variable):
                self.declared[variable] = Declared(variable, "before")
            return
        if old := self._replaced(variable, value, when):
            warnings.warn(
                f"the update of {variable.name!r} to {value.name!r} takes the place of {old}; "
                "g.update(variable, None) before it says that this is meant",
                stacklevel=3,
            )
        self.declared[variable] = Declared(value, when)

    def _replaced(self, variable: Tensor, value: Tensor, when: str) -> str:
        """Return in words what sets a variable so far; nothing where a cell declares it again."""
        held = self.declared.get(variable)
        if held is None and when == "before":
            return " and ".join(f"what {n.name!r} makes of it" for n in layers_of(variable))
        if held is None or {held.value} & {value, variable} or not _is_there(held.value):
            return ""
        return f"that to {held.value.name!r}, made at {held.value.node.where or 'no line'}"

    def marks(self) -> list[Any]:
        """Return what decides which updates a step makes, beside the revision of the graph."""
        declared, cache = tuple(self.declared.values()), self._graph.gradients
        read: list[Tensor] | None = cache.get(("read", declared))
        if read is None:  # once per revision: every step asks
            nodes = ancestors(d.value for d in declared)
            read = cache["read", declared] = [n.outputs[0] for n in nodes if n.kind == "variable"]
        return [*declared, *(t.node.trainable for t in read)]

    def redirect(self, old: Tensor, new: Tensor) -> None:
        """Have what sets a variable to ``old`` set it to ``new``."""
        for v, d in self.declared.items():
            if d.value is old:
                self.declared[v] = replace(d, value=new)

    def supersede(self, mapping: Mapping[Tensor, Tensor]) -> None:
        """Put what a cell built again in the place of what it built before."""
        for old, new in mapping.items():
            self.redirect(old, new)
        self.declared = {mapping.get(v, v): d for v, d in self.declared.items()}

    def drop(self, nodes: Iterable[Node]) -> None:
        """Forget what was declared of or to tensors of nodes that are no longer there."""
        gone = {t for n in nodes for t in n.outputs}
        self.declared = {v: d for v, d in self.declared.items() if not {v, d.value} & gone}

    def holds_state(self, variable: Tensor) -> bool:
        """Tell whether steps see a variable as state: of a layer, or set by what reads it before.

        Such a variable is not trained unless that is asked for.
        """
        declared = self.declared.get(variable)
        return (declared is not None and declared.when == "before") or bool(layers_of(variable))

    def __contains__(self, variable: object) -> bool:
        if not isinstance(variable, Tensor):
            return False
        return variable in self.declared or bool(layers_of(variable))

    def __iter__(self) -> Iterator[Tensor]:
        states = [t for t in self._graph.variables if layers_of(t)]
        return iter(dict.fromkeys([*states, *self.declared]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getitem__(self, variable: Tensor) -> Tensor:
        return self.of(*(t for n in self._graph.nodes for t in n.outputs[:1]))[variable]

    def __repr__(self) -> str:
        return f"<Updates of {', '.join(repr(v.name) for v in self) or 'nothing'}>"


def layers_of(variable: Tensor) -> list[Node]:
    """Return the layers whose state a variable is, in the order in which they were made."""
    found = dict.fromkeys(
        n
        for n in variable.uses
        if not n.derived and any(n.inputs[i] is variable for i in n.op.next_state)
    )
    return sorted(found, key=lambda n: n.serial)


def _is_there(t: Tensor) -> bool:
    """Tell whether a tensor is part of its graph, and no leftover of a cell that runs again."""
    graph, node = t.graph, t.node
    return graph._nodes.get(node.name) is node and graph._stale.get(node.name) is not node


def _is_due(value: Tensor, new: Iterable[Tensor]) -> bool:
    read = {n.outputs[0] for n in ancestors([value]) if n.trainable}
    return not read or not read.isdisjoint(new)


def _is_fed(value: Tensor, fed: Iterable[Tensor]) -> bool:
    return {*fed}.issuperset(placeholders([value]))

"""A graph and a model that are the same, node beside node."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .....errors import GradwrightError
from .....graph import Graph, Node, Rng, Source, Tensor, ancestors
from .....graph.expand import bind_dims, run_nodes
from .....spec import BOXED
from ...dtypes import to_array
from ...external.reading import Beside
from ...importer import import_model
from ...model import NOWHERE, Model, names_read
from .rounding import Rounding

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Unit:
    """What is compared as one: nodes of ours, and nodes of the model that make the same tensors."""

    protos: tuple[NodeProto, ...]
    outputs: tuple[tuple[str, Tensor], ...]
    """What the model calls a result, and which tensor it is here."""
    nodes: tuple[Node, ...]
    """Ours, in order; none where a node is left out here, as a Dropout is."""
    inputs: tuple[Tensor, ...]

    @property
    def main(self) -> Node:
        """The node that makes the first result."""
        return self.outputs[0][1].node

    @property
    def computing(self) -> list[Node]:
        """Ours without what is stored."""
        return [node for node in self.nodes if not isinstance(node.op, Source)]

    @property
    def name(self) -> str:
        """What it is called: its node, or the scope of all its nodes, with a slash behind."""
        scopes = {node.scope for node in self.computing}
        alone = len(self.computing) < 2 or len(scopes) > 1 or scopes == {""}
        return self.main.name if alone else f"{scopes.pop()}/"

    @property
    def ops(self) -> str:
        """The ops that it is made of."""
        ops = list(dict.fromkeys(node.op.name for node in self.computing))
        return " + ".join(ops) if self.name.endswith("/") else self.main.op.name

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators of ONNX."""
        return tuple(dict.fromkeys(proto.op_type for proto in self.protos))


@dataclass
class Frame:
    """A graph and its model, or a body that was lifted out of one."""

    graph: Graph
    model: ModelProto
    tensors: Mapping[str, Tensor]
    """Name in the model -> tensor of the graph."""
    own: bool = False
    """Whether the graph was there first, and the model was written from it."""
    beside: Beside = NOWHERE
    """The files beside the model."""
    theirs: dict[str, Array] = field(default_factory=dict)
    """Name -> value of the other runtime, of what is fed and of what nodes make."""
    given: dict[Tensor, Array] = field(default_factory=dict)
    """The same by tensor, with what is stored in the graph."""
    ours: dict[Tensor, Array] = field(default_factory=dict)
    """What our nodes make from what is fed, one after the other."""
    sizes: dict[str, int] = field(default_factory=dict)

    @functools.cached_property
    def used(self) -> set[str]:
        """Names that something reads: what else a node may give is not compared."""
        graph = self.model.graph
        return {info.name for info in graph.output} | {n for p in graph.node for n in names_read(p)}

    @functools.cached_property
    def functions(self) -> Model:
        """The model, with its functions at hand."""
        return Model(self.model, self.beside)

    @classmethod
    def of_model(cls, model: ModelProto, source: Any, beside: Beside = NOWHERE) -> Frame:
        """Return the frame of a model that is read here."""
        graph = import_model(source)
        return cls(graph, model, dict(graph.known_as), beside=beside)

    # -- values ----------------------------------------------------------------------------------

    def take(self, theirs: Mapping[str, Array]) -> None:
        """Take the values of another runtime, and compute ours from what is fed."""
        self.theirs = dict(theirs)
        stored = [n for n in self.graph.nodes if n.kind in ("variable", "constant")]
        self.given = {n.outputs[0]: self.graph.values.stored(n) for n in stored}
        for name, value in theirs.items():
            t = self.tensors.get(name)
            if (
                t is not None
                and value.ndim == t.spec.of_rank(value.ndim).rank
                and value.dtype == t.dtype
            ):
                self.given.setdefault(t, value)
        plain = {t: a for t, a in self.given.items() if a.dtype != BOXED}
        self.sizes = bind_dims({t: a.shape for t, a in plain.items()})
        self.ours = {t: a for t, a in self.given.items() if isinstance(t.op, Source)}

    def value(self, name: str) -> Array | None:
        """Return what a name of the model stands for, in the other runtime."""
        if name in self.theirs:
            return self.theirs[name]
        t = self.tensors.get(name)
        if t is not None:
            return self.given.get(t)
        stored = (s for s in self.model.graph.initializer if s.name == name)
        return next((to_array(s, self.beside) for s in stored), None)  # nothing here has read it

    # -- units -----------------------------------------------------------------------------------

    def units(self) -> Iterator[Unit]:
        """Yield what is compared, in the order in which it runs."""
        known = set(self.tensors.values())
        yield from self._of_graph(known) if self.own else self._of_model(known)

    def _of_model(self, known: set[Tensor]) -> Iterator[Unit]:
        for proto in self.model.graph.node:
            names = [n for n in proto.output if n in self.tensors and n in self.used]
            outputs = [(n, self.tensors[n]) for n in names]
            read = {self.tensors[n] for n in names_read(proto) if n in self.tensors}
            if outputs:
                yield self._unit((proto,), outputs, known, read)

    def _of_graph(self, known: set[Tensor]) -> Iterator[Unit]:
        names = {t: name for name, t in reversed(list(self.tensors.items()))}
        makers = {n: p for p in self.model.graph.node for n in p.output if n in self.used}
        for node in ancestors(names):
            outputs = [(names[t], t) for t in node.public if names.get(t) in makers]
            if not outputs or isinstance(node.op, Source):
                continue
            read = {t for t in node.inputs if t is not None and t in names}
            stop = {names[t] for t in read}
            yield self._unit(_between(makers, [n for n, _ in outputs], stop), outputs, known, read)

    def _unit(
        self,
        protos: Sequence[NodeProto],
        outputs: Sequence[tuple[str, Tensor]],
        known: set[Tensor],
        read: set[Tensor],
    ) -> Unit:
        made = {t for _, t in outputs} - read
        nodes = ancestors(made, stop=known - made)
        own = {t for node in nodes for t in node.outputs}
        inputs = {t: None for n in nodes for t in n.inputs if t is not None and t not in own}
        inputs |= {t: None for _, t in outputs if t in read}
        return Unit(tuple(protos), tuple(outputs), tuple(nodes), tuple(inputs))

    # -- running ---------------------------------------------------------------------------------

    def draws(self, unit: Unit) -> bool:
        """Tell whether its numbers are drawn at random."""
        sources = [*unit.nodes, *(t.node for t in unit.inputs)]
        return any(isinstance(node.op, Rng) for node in sources)

    def go_on(self, unit: Unit, *, random: bool) -> None:
        """Compute what it makes of our values; what is drawn at random is taken from the other."""
        for _, t in unit.outputs:
            if random and t in self.given:
                self.ours[t] = self.given[t]
        if random or any(t not in self.ours for t in unit.inputs):
            return
        try:
            found = self._run(unit, [self.ours[t] for t in unit.inputs])
        except GradwrightError:  # told where it runs on their inputs
            return
        self.ours.update({t: y for (_, t), y in zip(unit.outputs, found, strict=True)})

    def rounding(self, unit: Unit) -> Rounding:
        """Return what it makes of the inputs of the other runtime, and what rounding explains.

        Raises GradwrightError where it does not run on these, KeyError where one is not known.
        """
        xs = [self.given[t] if t in self.given else self.ours[t] for t in unit.inputs]
        ys = self._run(unit, xs)
        return Rounding(lambda moved: self._run(unit, moved), xs, ys, unit.operators)

    def _run(self, unit: Unit, xs: Sequence[Array]) -> list[Array]:
        given = dict(zip(unit.inputs, xs, strict=True))
        wanted = [t for _, t in unit.outputs]
        with np.errstate(all="ignore"):
            return run_nodes(unit.nodes, given, wanted, sizes=self.sizes)


def _between(
    makers: Mapping[str, NodeProto], ends: Sequence[str], stop: set[str]
) -> tuple[NodeProto, ...]:
    """Return the nodes of a model that make some names from others, in order."""
    order: list[NodeProto] = []
    done: set[str] = set()
    stack = [(name, False) for name in reversed(ends)]
    while stack:
        name, ready = stack.pop()
        proto = makers.get(name)
        if ready and proto is not None:
            order.append(proto)
            continue
        if proto is None or name in stop or proto.output[0] in done:
            continue
        done.add(proto.output[0])
        stack.append((name, True))
        stack += [(n, False) for n in names_read(proto)]
    return tuple(order)

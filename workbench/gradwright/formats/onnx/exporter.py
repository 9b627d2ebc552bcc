"""Writing a graph as an ONNX model, in an opset that is stated or in the lowest that does."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import GraphError, UnsupportedOpError
from ...graph import Constant, Graph, Node, Placeholder, Tensor, Variable, members, ordered
from ...spec import TensorSpec
from ...spec.one_of import sizes_in
from .declarations import clean_name, distinct
from .functions import Functions
from .node import CALLED, READ, unused
from .nodes import name_output, store, write_nodes
from .output import Output, to_tensors, value_info
from .versions import NEWEST

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, TensorProto

Array = np.ndarray[Any, Any]
Held = Callable[[Mapping[str, Array]], Sequence["TensorProto"]]
"""What makes a model hold arrays."""

OLDEST, CHECKED = 7, 18
"""The oldest opset that is written, and the first whose types all our writers go by."""
LIGHT = 64
"""Elements up to which a tensor is looked at when a model is checked."""


def export_graph(
    graph: Graph,
    outputs: Sequence[Tensor | str] | None,
    opset: int | str,
    held: Held = to_tensors,
    names_of: dict[Tensor, str] | None = None,
    *,
    functions: bool = False,
) -> ModelProto:
    """Return the model that computes some tensors of a graph; ``held`` makes it hold arrays.

    ``names_of`` gets what all tensors are called in it.
    """
    from onnx import defs

    if not isinstance(graph, Graph):
        raise GraphError(f"{graph!r} is no graph", need="a gw.Graph")
    newest = min(NEWEST, defs.onnx_opset_version())
    if type(opset) not in (int, str) or opset not in ("lowest", *range(OLDEST, newest + 1)):
        raise GraphError(
            f"opset {opset!r} is not written", need=f"{OLDEST} to {newest}, or 'lowest'"
        )
    graph.settle()
    chosen = _chosen(graph, outputs)
    nodes, _ = ordered(chosen)
    nodes += _telling_sizes(graph, nodes)
    if opset == "lowest":
        written, problem = _lowest(graph, nodes, chosen, newest), None
    else:
        written = Written(graph, nodes, chosen, int(opset))
        problem = written.problem() if int(opset) < CHECKED else None
    if problem is not None:
        raise UnsupportedOpError(
            f"opset {opset} has no operators for some types of the graph",
            facts=[problem], hint="opset='lowest' finds the first that has",
        )  # fmt: skip
    if names_of is not None:
        names_of.update(written.names)
    return written.model(held, functions=functions)


class Written:
    """Nodes as they are written in an opset: all that a model consists of.

    Raises UnsupportedOpError, which names all ops that the opset cannot express.
    """

    def __init__(
        self, graph: Graph, nodes: Sequence[Node], chosen: Sequence[Tensor], opset: int
    ) -> None:
        self.name, self.opset, self.called = graph.name, opset, CALLED.get(graph)
        out = self.out = Output(opset)
        fed = {n for n in nodes if isinstance(n.op, Placeholder)}
        inputs = [n for n in graph.all_nodes if n in fed]  # as declared: some feed by position
        names: dict[Tensor, str] = {}
        ends = dict.fromkeys([*(n.outputs[0] for n in inputs), *chosen])
        named = {t: t.name for t in ends} | _elsewhere(graph, ends)
        for t, name in named.items():
            stored = isinstance(t.node.op, Constant | Variable)  # a result that nothing computes
            names[t] = store(out, t.node, name) if stored else out.fresh(name)
        wanted = {t: name for t, name in names.items() if t.node.kind == "array"}
        known = {t: name for t, name in names.items() if t not in wanted}
        for t, name in known.items():
            out.see(name, t.spec)
        write_nodes(out, nodes, known, set(chosen))
        if out.missing:
            raise UnsupportedOpError(
                "the graph uses ops that ONNX cannot express",
                facts=[f"{op}: {n} node{'s'[: n > 1]}" for op, n in sorted(out.missing.items())],
                hint="" if opset == NEWEST else f"in opset {opset}; a newer one may have more",
            )
        self.inputs = [(known[n.outputs[0]], n.outputs[0].spec) for n in inputs]
        self.outputs: list[tuple[str, TensorSpec]] = []
        called: dict[str, str] = {}
        for t in chosen:
            name, own = known[t], wanted.get(t, named[t])
            if name in called:  # several may turn out to be one tensor
                name = out.add("Identity", [called[name]])[0]
            called[known[t]] = name_output(out, name, own)
            self.outputs.append((called[known[t]], t.spec))
        self.names = {t: called.get(name, name) for t, name in known.items()}
        """What tensors are called in it."""
        _, read = out.live(name for name, _ in self.outputs)
        self.stored = {name: array for name, array in out.stored.items() if name in read}

    def model(self, held: Held, *, functions: bool) -> ModelProto:
        """Return the model, whose arrays ``held`` makes it hold; scopes may be its functions."""
        if not functions:
            return self._of(self.out.graph(self.name, self.inputs, self.outputs, held(self.stored)))
        names = [name for name, _ in self.outputs]
        nodes, _ = self.out.live(names)
        found = Functions(nodes, self.out.homes, self.called, self.out.constants, names)
        self.out.nodes = found.nodes
        _, read = self.out.live(names)
        stored = {name: array for name, array in self.stored.items() if name in read}
        made = self.out.graph(self.name, self.inputs, self.outputs, held(stored))
        return self._of(made, found.made)

    def problem(self) -> str | None:
        """Return what ONNX's checker finds wrong with it, of large tensors by their types alone."""
        from onnx import checker, shape_inference

        large = {name: a for name, a in self.stored.items() if a.size > LIGHT}
        small = {name: a for name, a in self.stored.items() if name not in large}
        made = self.out.graph(self.name, self.inputs, self.outputs, to_tensors(small))
        made.input.extend(value_info(n, TensorSpec(a.shape, a.dtype)) for n, a in large.items())
        try:
            checker.check_model(self._of(made), full_check=True)
        except (checker.ValidationError, shape_inference.InferenceError) as error:
            return " ".join(str(error).split())[:300]
        return None

    def _of(self, made: GraphProto, functions: Sequence[FunctionProto] = ()) -> ModelProto:
        from onnx import helper

        own = {f.domain for f in functions}
        domains = sorted((self.out.domains & DOMAINS.keys()) | own)
        imports = [helper.make_opsetid("", self.opset)]
        imports += [helper.make_opsetid(d, DOMAINS.get(d, 1)) for d in domains]
        for function in functions:
            function.opset_import.extend(imports)
        version = helper.find_min_ir_version_for(imports, ignore_unknown=True)
        return helper.make_model(
            made, opset_imports=imports, functions=functions, producer_name="gradwright",
            producer_version=_version(), doc_string=f"Inference graph of {self.name!r}.",
            ir_version=max(version, 8 if functions else 4),  # functions; inputs that are not stored
        )  # fmt: skip


@functools.cache
def _version() -> str:
    from importlib import metadata

    try:
        return metadata.version("gradwright")
    except metadata.PackageNotFoundError:
        return ""


def _elsewhere(graph: Graph, tensors: Container[Tensor]) -> dict[Tensor, str]:
    """Return what tensors are called in the model that they came from, if nobody renamed them."""
    known = {name: t for name, t in graph.known_as.items() if t in tensors}
    labels = distinct(known, clean_name)
    return {t: name for name, t in known.items() if labels[name] == t.name}


def _lowest(graph: Graph, nodes: Sequence[Node], chosen: Sequence[Tensor], newest: int) -> Written:
    """Return what is written in the first opset that opens no more ops than the newest does."""
    best = Written(graph, nodes, chosen, newest)
    for opset in range(OLDEST, newest):
        try:
            found = Written(graph, nodes, chosen, opset)
        except UnsupportedOpError:
            continue
        if found.out.opened <= best.out.opened and found.problem() is None:
            return found
    return best


DOMAINS = {
    **{"ai.onnx.ml": 5, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1},
    "com.microsoft": 1,
}


def _chosen(graph: Graph, outputs: Sequence[Tensor | str] | None) -> list[Tensor]:
    if outputs is None:
        own, spare = READ.get(graph, ((), ()))
        found = [t for t in unused(graph) if t.name not in spare]
        if {t.name for t in found} <= {*own}:  # as it was read
            found = [t for name in own if (t := graph.get(name)) is not None]
    else:
        found = members(graph, outputs, "outputs")
    if not found:
        raise GraphError(f"graph {graph.name!r} has no output to write")
    return list(dict.fromkeys(found))


def _telling_sizes(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """Return the placeholders that only tell sizes which ops state, such as of a random tensor."""
    stated = {symbol for n in nodes for symbol in n.op.symbols()}
    fed = [n.outputs[0].spec for n in nodes if isinstance(n.op, Placeholder)]
    stated -= {str(d) for spec in fed for d in sizes_in(spec)}
    found = []
    for t in graph.placeholders:
        told = stated & set(map(str, sizes_in(t.spec)))
        if told and t.node not in nodes:
            found.append(t.node)
            stated -= told
    return found

"""Building a graph from an ONNX model, node by node."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArchiveError, GradwrightError
from ...graph import Constant, Graph, Tensor, active_graph
from ...ops.core.identity import Identity
from ...rewrite.recognition import recognize
from ...spec import TensorSpec, is_floating, known_spec
from ...spec.containers import ContainerSpec
from ...spec.one_of import OneOf
from ..foreign import Reader
from .declarations import Shapes, clean_name, distinct, input_specs
from .dtypes import constant_array, to_array, to_dense
from .folding import fold
from .late import OnnxOp
from .limits import check_limits
from .model import (
    MAX_DEPTH,
    Model,
    attribute_values,
    names_read,
    normal_domain,
    opsets,
    read_model,
    schema_body,
)
from .node import CALLED, ONNX, READ, UNFIT, OnnxNode, unused
from .schemas import check_node, present
from .scopes import classes, scoped

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto

Array = np.ndarray[Any, Any]
Value = Any
"""A tensor, an array or the spec of one that is not in a graph yet, or None for an input that is
left out."""


def import_model(
    source: Any,
    trainable: bool = False,
    recognized: Collection[str] = (),
    shapes: Shapes | None = None,
    stored: Mapping[str, TensorSpec] | None = None,
) -> Graph:
    """Return the graph of a model, in which what is written out of some kinds is one op each.

    Its inputs have the ``shapes`` where these are given. ``stored`` are tensors that the model
    lacks, as of one that is read without its weights: they become constants without values.
    """
    proto, beside = read_model(source)
    model = Model(proto, beside)
    check_limits(model)
    model.refuse_unknown()
    graph = Graph(clean_name(proto.graph.name or "onnx"))
    CALLED[graph] = {}
    scope = Scope(model, graph, trainable=trainable)
    with graph:
        scope.enter(proto.graph)
        for name, spec in ({} if stored is None else stored).items():
            scope.define(name, spec)
        inputs = [info for info in proto.graph.input if info.name not in scope.values]
        outputs = [info.name for info in proto.graph.output]
        scope.labels = distinct([*(info.name for info in inputs), *outputs], clean_name)
        scope.exact = {n for n in _names_of(proto.graph) if n == clean_name(n)}
        for name, spec in input_specs(inputs, {} if shapes is None else shapes).items():
            scope.values[name] = _placeholder(graph, scope.labels[name], spec)
        scope.build(proto.graph.node, set(outputs))
        results = [t for t in map(scope.name_output, outputs) if t is not None]
    named_there = scope.values.items()
    graph.known_as = {name: value for name, value in named_there if isinstance(value, Tensor)}
    names = [t.name for t in results]
    READ[graph] = names, {t.name for t in unused(graph)}.difference(names)
    if recognized:
        recognize(graph, recognized, outputs=results)
    return graph


class Scope:
    """The values that names stand for in a graph, a sub-graph or a function body."""

    def __init__(
        self,
        model: Model,
        graph: Graph,
        parent: Scope | None = None,
        versions: Mapping[str, int] | None = None,
        attributes: Mapping[str, Any] | None = None,
        trainable: bool = False,
    ) -> None:
        self.model, self.graph, self.parent, self.trainable = model, graph, parent, trainable
        self.versions = model.opsets if versions is None else versions
        self.attributes = {} if attributes is None else attributes
        self.labels: dict[str, str] = {}
        """Inputs and outputs of the model, and what they are called, as nothing else is."""
        self.exact: set[str] = set()
        """Names that stay as they are, before others are cleaned to the same."""
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.values: dict[str, Value] = {}
        self.initial: set[str] = set()
        """Names of initializers; what Constant nodes hold is not among them."""
        if self.depth > MAX_DEPTH:
            raise ArchiveError(f"sub-graphs or functions nest deeper than {MAX_DEPTH}")

    # -- values ----------------------------------------------------------------------------------

    def enter(self, proto: GraphProto) -> None:
        """Take the stored tensors of a graph."""
        self.initial |= {tensor.name for tensor in proto.initializer}
        for tensor in proto.initializer:
            self.define(tensor.name, to_array(tensor, self.model.beside))
        for sparse in proto.sparse_initializer:
            self.define(sparse.values.name, to_dense(sparse, self.model.beside))

    def define(self, name: str, value: Value) -> None:
        """Let a name stand for a value, once."""
        if name in self.values:
            raise ArchiveError(f"the name {name[:60]!r} is given twice")
        self.values[name] = value

    def find(self, name: str) -> tuple[Scope, Value]:
        """Return a value and the scope it is of."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope, scope.values[name]
            scope = scope.parent
        raise ArchiveError(
            f"nothing before it makes {name[:60]!r}", need="nodes in the order of their use"
        )

    def tensor(self, name: str) -> Tensor | None:
        """Return what a name stands for, put into its graph if it is an array yet."""
        if not name:
            return None
        scope, value = self.find(name)
        if isinstance(value, np.ndarray | TensorSpec):
            value = scope.values[name] = scope._stored(name, value)
        return value  # type: ignore[no-any-return]

    def _stored(self, name: str, array: Array | TensorSpec) -> Tensor:
        with self.graph, self.graph._at_top():
            label = self.free_name(name)
            if isinstance(array, TensorSpec):
                return self.graph._source(Constant(), label, array)
            is_weight = array.size > 1 or name in self.initial  # one number by itself is none
            if self.trainable and array.ndim and is_floating(array.dtype) and is_weight:
                return self.graph.variable(label, init=array)
            tensor = self.graph._source(Constant(), label, known_spec(array))
            self.graph.values.commit({tensor.name: array})  # as it lies, be that in a file
            return tensor

    def _as_stored(self, name: str) -> Value:
        """Return what a name stands for, an array where its values are known."""
        value = self.find(name)[1]
        return self.tensor(name) if isinstance(value, TensorSpec) else value

    def free_name(self, name: str) -> str:
        """Return a clean name that nothing in the scope has that is being built."""
        graph, base = self.graph, clean_name(name)
        inside = len(graph._full_name("x")) - 1
        theirs, exact = self.labels.values(), () if base == name else self.exact
        while (free := graph._free_name(base)[inside:]) in theirs or free in exact:
            pass
        return free

    # -- nodes -----------------------------------------------------------------------------------

    def build(self, nodes: Sequence[NodeProto], outputs: set[str]) -> None:
        """Build nodes in their order; only outputs that something reads are asked for."""
        used = outputs | {name for node in nodes for name in names_read(node)}
        for proto in nodes:
            label = f"{proto.op_type} {(proto.name or next(iter(proto.output), ''))[:60]!r}"
            try:
                self._build_node(proto, used, outputs)
            except GradwrightError as error:
                if not error.where:
                    error.where = label
                else:
                    error.facts.append(f"in the model at {label}")
                raise
            except UNFIT as error:
                raise ArchiveError(f"not a valid node: {error}", where=label) from error

    def _build_node(self, proto: NodeProto, used: set[str], outputs: set[str]) -> None:
        attributes = attribute_values(proto, self.attributes, self.model.beside)
        domain = normal_domain(proto.domain)
        if proto.op_type == "Constant" and not domain:
            self.define(proto.output[0], constant_array(attributes))
            return
        version = self.versions.get(domain, 0)
        results = present(domain, proto.op_type, version, proto.output)
        node = OnnxNode(
            proto.op_type,
            version,
            attributes,
            tuple(n != "" and n in used for n in results),
            domain,
            scoped(proto, proto.name or next(filter(None, results), "")),
            self,
        )
        self.graph.classes |= {clean_name(path): kind for path, kind in classes(proto)}
        reader = ONNX.find_added(node)  # what a user says goes before the model
        function = None if reader else self.model.function(proto)
        if reader is None and function is None:
            check_node(node, proto.input)
            reader = ONNX.find(node)
        needed = reader.values if reader is not None else ()
        xs = [
            self._as_stored(n) if n and i in needed else self.tensor(n)
            for i, n in enumerate(proto.input)
        ]
        if function is not None:
            ys = self._grouped(node, function, xs)
        else:
            with named(self.graph, self.free_name(node.name)):
                if reader is not None:
                    ys = self.apply(reader, node, xs)
                else:
                    ys = self.call(*self._body(node), xs, attributes)
        ys = ys if isinstance(ys, (tuple, list)) else (ys,)
        if len(ys) < len(node.wanted) and any(node.wanted[len(ys) :]):
            raise ArchiveError(f"{len(node.wanted)} outputs are read", need=f"{len(ys)} at most")
        for output, y in zip(results, ys, strict=False):
            if output:
                self.define(output, y)

    def apply(self, reader: Reader, node: OnnxNode, xs: Sequence[Value]) -> Any:
        """Return the outputs of a node, now or once the values are known that it needs."""
        settled = list(xs)
        for i in reader.values:
            if i < len(xs) and isinstance(xs[i], Tensor):
                settled[i] = fold(xs[i], reader.takes_dims)
        known = all(s is not None for s, x in zip(settled, xs, strict=True) if x is not None)
        if known and not self._waits(reader, node, xs):
            return reader(node, *settled)
        late = OnnxOp(
            op_type=node.op_type,
            opset=node.version,
            domain=node.domain,
            attributes_=tuple(sorted(node.attributes.items())),
            wanted=node.wanted,
        )
        tensors = [self.graph.constant(x) if isinstance(x, np.ndarray) else x for x in xs]
        return late(*tensors)

    @staticmethod
    def _waits(reader: Reader, node: OnnxNode, xs: Sequence[Value]) -> bool:
        """Tell whether only a run tells the sizes or ranks that say what a node is.

        A node with sub-graphs does not wait: their nodes do.
        """
        specs = [x.spec if isinstance(x, Tensor) else x for x in xs]
        if reader.waits is not None and reader.waits(node, *specs):
            return True
        return any(isinstance(s, OneOf) for s in specs) and not any(
            hasattr(value, "node") for value in node.attributes.values()
        )

    # -- functions and sub-graphs ----------------------------------------------------------------

    def _grouped(self, node: OnnxNode, function: FunctionProto, xs: Sequence[Value]) -> list[Value]:
        """Build a function of the model in a scope, which is written as that function again."""
        name = self.free_name(node.name)
        called = CALLED.setdefault(self.graph, {})
        called[self.graph._full_name(name)] = function.domain, function.name
        with self.graph.scope(name):
            return self.call(function, {}, xs, node.attributes)

    def _body(self, node: OnnxNode) -> tuple[FunctionProto, Mapping[str, Any]]:
        """Return the body that a node has in its schema, and the defaults of its attributes."""
        known = schema_body(node.domain, node.op_type, node.version)
        if known is None:
            raise ArchiveError(f"{node.op_type} is not known")
        return known

    def call(
        self,
        function: FunctionProto,
        preset: Mapping[str, Any],
        xs: Sequence[Value],
        attributes: Mapping[str, Any],
    ) -> list[Value]:
        """Build the body of a function on inputs."""
        defaults = {
            a.name: attribute_values(_holder(a), {}, self.model.beside)[a.name]
            for a in function.attribute_proto
        }
        versions = opsets(function.opset_import) or self.versions
        inner = Scope(
            self.model,
            active_graph() or self.graph,
            None,
            versions,
            {**preset, **defaults, **attributes},
        )
        inner.depth = self.depth + 1
        if inner.depth > MAX_DEPTH:
            raise ArchiveError(f"functions nest deeper than {MAX_DEPTH}, or call themselves")
        padded = [*xs, *[None] * (len(function.input) - len(xs))]
        for name, x in zip(function.input, padded, strict=True):
            inner.define(name, x)
        inner.build(function.node, set(function.output))
        return [inner.tensor(name) for name in function.output]

    def subgraph(self, proto: GraphProto, xs: Sequence[Value]) -> list[Value]:
        """Build a sub-graph in the graph that is being built, with ``xs`` for its inputs."""
        graph = active_graph()
        assert graph is not None
        inner = Scope(self.model, graph, self, self.versions, self.attributes)
        for info, x in zip(proto.input, xs, strict=False):
            inner.define(info.name, x)
        inner.enter(proto)
        outputs = [info.name for info in proto.output]
        inner.build(proto.node, set(outputs))
        return [inner.tensor(name) for name in outputs]

    # -- outputs ---------------------------------------------------------------------------------

    def name_output(self, name: str) -> Tensor | None:
        """Give an output of the model its name; returns the tensor that has it."""
        tensor = self.tensor(name)
        wanted = self.labels[name]
        if tensor is None or tensor.name == wanted:
            return tensor
        node, theirs = tensor.node, self.labels.values()
        if node.kind == "array" and tensor.index == 0 and node.name not in theirs:
            self.graph.rename(tensor, wanted)
            return tensor
        made: Tensor = Identity()(tensor, name=wanted)
        self.values[name] = made
        return made


@contextlib.contextmanager
def named(graph: Graph, name: str) -> Iterator[None]:
    """Build nodes in a scope; one that is alone in it gets the scope's name as its own."""
    before = len(graph._nodes)
    full = graph._full_name(name)
    with graph.scope(name):
        yield
    added = itertools.islice(reversed(graph._nodes.values()), len(graph._nodes) - before)
    inside = [node for node in added if node.name.startswith(full + "/")]
    if len(inside) == 1 and not inside[0].named and full not in graph:
        graph.rename(inside[0].outputs[0], full)


def _placeholder(graph: Graph, label: str, spec: TensorSpec) -> Tensor:
    """Declare an input of the model."""
    if isinstance(spec, ContainerSpec | OneOf):
        return graph.placeholder(label, spec)
    return graph.placeholder(label, spec.shape, spec.dtype)


def _names_of(proto: GraphProto) -> set[str]:
    """Return all names that a graph gives, to tensors and to nodes."""
    tensors = (*proto.input, *proto.output, *proto.initializer)
    outputs = (name for node in proto.node for name in node.output)
    return {*(t.name for t in tensors), *(node.name for node in proto.node), *outputs}


def _holder(attribute: AttributeProto) -> NodeProto:
    """Return a node that has the attribute, so that it is read like any other."""
    from onnx import NodeProto

    return NodeProto(attribute=[attribute])

"""Building a graph from an ONNX model, node by node."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import ArchiveError, GradwrightError
from ...graph import Constant, Graph, Tensor, active_graph
from ...ops.core.identity import Identity
from ...rewrite.recognition import recognize
from ...spec import AnyDim, Dim, TensorSpec, is_floating, known_spec
from ...spec.containers import ContainerSpec, OptionalSpec, SequenceSpec
from ..foreign import Reader
from .dtypes import constant_array, from_element_type, to_array, to_dense
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
from .node import CALLED, ONNX, UNFIT, OnnxNode, check_rank
from .schemas import check_node

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto, ValueInfoProto

Array = np.ndarray[Any, Any]
Value = Any
"""A tensor, an array that is not in a graph yet, or None for an input that is left out."""


def import_model(
    source: Any,
    trainable: bool = False,
    recognized: Collection[str] = (),
    names: dict[str, Tensor] | None = None,
) -> Graph:
    """Return the graph of a model, in which what is written out of some kinds is one op each.

    ``names`` gets the tensors that the names of the model stand for.
    """
    proto, beside = read_model(source)
    model = Model(proto, beside)
    check_limits(model)
    model.refuse_unknown()
    graph = Graph(clean_name(proto.graph.name) or "onnx")
    CALLED[graph] = {}
    scope = Scope(model, graph, trainable=trainable)
    with graph:
        scope.enter(proto.graph)
        outputs = {info.name for info in proto.graph.output}
        computed = outputs - {i.name for i in proto.graph.input} - scope.values.keys()
        scope.reserved = set(map(clean_name, computed))
        for info in proto.graph.input:
            if info.name not in scope.values:
                scope.values[info.name] = _placeholder(scope, info)
        scope.build(proto.graph.node, outputs)
        results = [scope.name_output(info.name) for info in proto.graph.output]
    if recognized:
        recognize(graph, recognized, outputs=[t for t in results if t is not None])
    if names is not None:
        names.update({n: v for n, v in scope.values.items() if isinstance(v, Tensor)})
    return graph


def clean_name(name: str) -> str:
    """Return a name that a graph takes: printable, without ``:`` and empty parts.

    >>> from gradwright.formats.onnx.importer import clean_name
    >>> clean_name("/encoder/layer.0//MatMul:0")
    'encoder/layer.0/MatMul_0'
    """
    text = "".join(c if c.isprintable() else "_" for c in name.replace(":", "_"))
    text = "/".join(part for part in text.split("/") if part)
    return "rng_" if text == "rng" else text


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
        self.reserved: set[str] = set()
        """Names of what the model computes as outputs, which no other node takes."""
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
        if isinstance(value, np.ndarray):
            value = scope.values[name] = scope._stored(name, value)
        return value  # type: ignore[no-any-return]

    def _stored(self, name: str, array: Array) -> Tensor:
        with self.graph, self.graph._at_top():
            label = self.free_name(name)
            is_weight = array.size > 1 or name in self.initial  # one number by itself is none
            if self.trainable and array.ndim and is_floating(array.dtype) and is_weight:
                return self.graph.variable(label, init=array)
            tensor = self.graph._source(Constant(), label, known_spec(array))
            self.graph.values.commit({tensor.name: array})  # as it lies, be that in a file
            return tensor

    def free_name(self, name: str) -> str:
        """Return a clean name that nothing in the scope has that is being built."""
        graph, base = self.graph, clean_name(name) or "value"
        inside = len(graph._full_name("x")) - 1
        free = graph._free_name(base)[inside:]
        while free in self.reserved:
            free = graph._free_name(base)[inside:]
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
        name = proto.name
        node = OnnxNode(
            proto.op_type,
            self.versions.get(domain, 0),
            attributes,
            tuple(n != "" and n in used for n in proto.output),
            domain,
            name or (proto.output[0] if proto.output else ""),
            self,
        )
        reader = ONNX.find_added(node)  # what a user says goes before the model
        function = None if reader else self.model.function(proto)
        if reader is None and function is None:
            check_node(node, proto.input)
            reader = ONNX.find(node)
        needed = reader.values if reader is not None else ()
        xs = [
            self.find(n)[1] if n and i in needed else self.tensor(n)
            for i, n in enumerate(proto.input)
        ]
        if function is not None:
            ys = self._grouped(proto.name or function.name, function, xs, attributes)
        else:
            with named(self.graph, self.free_name(node.name)):
                if reader is not None:
                    ys = self.apply(reader, node, xs)
                else:
                    ys = self.call(*self._body(node), xs, attributes)
        ys = ys if isinstance(ys, (tuple, list)) else (ys,)
        if len(ys) < len(node.wanted) and any(node.wanted[len(ys) :]):
            raise ArchiveError(f"{len(node.wanted)} outputs are read", need=f"{len(ys)} at most")
        for output, y in zip(proto.output, ys, strict=False):
            if output:
                self.define(output, y)

    def apply(self, reader: Reader, node: OnnxNode, xs: Sequence[Value]) -> Any:
        """Return the outputs of a node, now or once the values are known that it needs."""
        settled = list(xs)
        for i in reader.values:
            if i < len(xs) and isinstance(xs[i], Tensor):
                settled[i] = fold(xs[i], reader.takes_dims)
                if settled[i] is None:
                    break
        else:
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

    # -- functions and sub-graphs ----------------------------------------------------------------

    def _grouped(
        self,
        label: str,
        function: FunctionProto,
        xs: Sequence[Value],
        attributes: Mapping[str, Any],
    ) -> list[Value]:
        """Build a function of the model in a scope of its own."""
        name = self.free_name(label)
        CALLED.setdefault(self.graph, {})[self.graph._full_name(name)] = (
            function.domain,
            function.name,
        )
        with self.graph.scope(name):
            return self.call(function, {}, xs, attributes)

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
        wanted = clean_name(name)
        if tensor is None or tensor.name == wanted:
            return tensor
        if wanted in self.graph:
            wanted = self.free_name(name)
        node = tensor.node
        if node.kind == "array" and tensor.index == 0 and node.name not in self.reserved:
            self.graph.rename(tensor, wanted)
            return tensor
        return Identity()(tensor, name=wanted)  # type: ignore[no-any-return]


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


def _placeholder(scope: Scope, info: ValueInfoProto) -> Tensor:
    """Declare an input of the model."""
    label = scope.free_name(info.name)
    spec = spec_of_type(info.type, info.name)
    if isinstance(spec, ContainerSpec):
        return scope.graph.placeholder(label, spec)
    return scope.graph.placeholder(label, spec.shape, spec.dtype)


def spec_of_type(proto: TypeProto, name: str) -> TensorSpec:
    """Return the spec of a type: a tensor, a sequence of tensors, or an optional of these."""
    if proto.HasField("sequence_type"):
        item = proto.sequence_type.elem_type
        shape = item.tensor_type.shape
        if not item.tensor_type.HasField("shape") or not shape.dim:  # models state [] for any
            return SequenceSpec(None, from_element_type(item.tensor_type.elem_type))
        inner = spec_of_type(item, name)
        return SequenceSpec(inner.shape, inner.dtype)
    if proto.HasField("optional_type"):
        return OptionalSpec(spec_of_type(proto.optional_type.elem_type, name))
    if not proto.HasField("tensor_type"):
        raise ArchiveError(f"the input {name[:60]!r} is no tensor", need="tensors and sequences")
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        raise ArchiveError(
            f"the rank of the input {name[:60]!r} is not stated",
            hint="onnx.shape_inference, or state its shape in the model",
        )
    check_rank(len(tensor.shape.dim))
    dims: list[AnyDim] = []
    for axis, d in enumerate(tensor.shape.dim):
        if d.HasField("dim_value"):
            if d.dim_value < 0:
                raise ArchiveError(f"the input {name[:60]!r} has the size {d.dim_value}")
            dims.append(d.dim_value)
        else:
            symbol = re.sub(r"\W", "_", d.dim_param, flags=re.ASCII)
            symbol = symbol if symbol.isidentifier() else f"{name}_{axis}"
            dims.append(Dim.symbol(re.sub(r"\W", "_", symbol, flags=re.ASCII)))
    return TensorSpec(dims, from_element_type(tensor.elem_type))


def _holder(attribute: AttributeProto) -> NodeProto:
    """Return a node that has the attribute, so that it is read like any other."""
    from onnx import NodeProto

    return NodeProto(attribute=[attribute])

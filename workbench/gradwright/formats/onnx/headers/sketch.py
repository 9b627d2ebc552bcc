"""The nodes of an ONNX model as they lie, for one that cannot be loaded: looked at, not run."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ....errors import GradwrightError
from ....graph import Constant, Graph, Placeholder, Tensor
from ....op import Op
from ....spec import TensorSpec
from ...archive.unknown import UnknownOp
from ..declarations import Sizes, clean_name, sizes_of, spec_of_type
from ..model import check_text, names_read, normal_domain
from .census import called

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

SHOWN = 32
"""Numbers of an attribute that are kept at most."""


class Untold(TensorSpec):
    """The spec of a tensor of which the model says nothing."""

    def __str__(self) -> str:
        return "?"


def sketched(proto: ModelProto, stored: Mapping[str, TensorSpec]) -> Graph:
    """Return a graph of the nodes by their operators, with the types that the model states.

    What nothing makes is left out, and what follows from itself is not joined. Raises ArchiveError
    where names are no text.
    """
    check_text(proto.graph, 0)
    graph = Graph(clean_name(proto.graph.name or "onnx"))
    said = (*proto.graph.input, *proto.graph.value_info, *proto.graph.output)
    sizes = Sizes(name for info in said for name in sizes_of(info.type))
    specs = {info.name: _spec(info, sizes) for info in said}
    specs |= {t.name: TensorSpec(tuple(t.dims), "float32") for t in proto.graph.initializer}
    specs |= stored
    found: dict[str, Tensor] = {}

    def source(name: str, op: Op) -> None:
        label = graph._free_name(clean_name(name))
        found[name] = graph._source(op, label, specs.get(name, Untold((), "float32")))

    for info in proto.graph.input:
        source(info.name, Placeholder())
    held = {*stored, *(t.name for t in proto.graph.initializer)}
    reasons: dict[str, str] = {}
    for node in _in_order(proto.graph):
        for name in node.input:
            if name in held and name not in found:
                source(name, Constant())
        op = UnknownOp(
            name=called(normal_domain(node.domain), node.op_type) or "?",
            version=1,
            attributes={a.name: _plain(a) for a in node.attribute},
            reason="is drawn as it lies",
            peers=reasons,
        )
        label = clean_name(node.name or next(filter(None, node.output), node.op_type))
        inputs = tuple(found.get(name) for name in node.input)
        made = graph._new_node(op, inputs, label, auto=True)
        outputs = list(node.output) or [""]
        made.outputs = tuple(
            Tensor(made, i, specs.get(name, Untold((), "float32")))
            for i, name in enumerate(outputs)
        )
        graph._insert(made)
        found |= dict(zip(outputs, made.outputs, strict=True))
    return graph


def _spec(info: ValueInfoProto, sizes: Sizes) -> TensorSpec:
    try:
        return spec_of_type(info.type, info.name, sizes)
    except GradwrightError:
        return Untold((), "float32")


def _in_order(proto: GraphProto) -> list[NodeProto]:
    """Return the nodes with each after those that it reads, or as they lie if there is a circle."""
    maker = {name: i for i, node in enumerate(proto.node) for name in node.output if name}
    reads = {
        i: {maker[name] for name in names_read(node) if name in maker}
        for i, node in enumerate(proto.node)
    }
    if all(j < i for i, before in reads.items() for j in before):
        return list(proto.node)
    try:
        return [proto.node[i] for i in graphlib.TopologicalSorter(reads).static_order()]
    except graphlib.CycleError:
        return list(proto.node)


def _plain(attribute: AttributeProto) -> Any:
    """Return an attribute as far as it can be shown in a line."""
    a = attribute
    if a.type == a.FLOAT:
        return a.f
    if a.type == a.INT:
        return a.i
    if a.type == a.STRING:
        return a.s[:200].decode("utf-8", "replace")
    if a.type in (a.INTS, a.FLOATS):
        return tuple((a.ints if a.type == a.INTS else a.floats)[:SHOWN])
    return "..."

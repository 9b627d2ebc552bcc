"""An ONNX model without its weights: the graph that shapes and memory are told from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ....errors import ArchiveError
from ....graph import Graph, Source, Tensor
from ....spec import AnyDim, Dim
from ... import source as files
from ...memory import Memory, Use, check_sizes, estimated
from ...report import ModelInfo
from ..dtypes import element_type
from .wire import Field, Pages, fields

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

Held = tuple[int, tuple[AnyDim, ...]]
"""Element type and shape of a stored tensor."""
SMALL = 4096
"""Bytes of a tensor that are read at most: shapes, axes and bounds are smaller."""
LARGE_NODE = 1 << 16
"""Bytes from which on a node is looked at for the tensor that it may hold."""
IR_VERSION, GRAPH, OPSET, FUNCTION = 1, 7, 8, 25  # of ModelProto
NODE, GRAPH_NAME, INITIALIZER, INPUT, OUTPUT, SPARSE = 1, 2, 5, 11, 12, 15  # of GraphProto
NODE_OUTPUT, OP_TYPE, ATTRIBUTE, TENSOR = 2, 4, 5, 5  # of NodeProto, and of AttributeProto
DIMS, DATA_TYPE, TENSOR_NAME, EXTERNAL = 1, 2, 8, 13  # of TensorProto


def memory(source: files.Source, info: ModelInfo, sizes: Mapping[str, int]) -> Memory:
    """Return what the model would take at certain sizes of its inputs.

    Raises ArchiveError where it has operators that are not known.
    """
    if info.unknown_ops:
        raise ArchiveError(
            "shapes cannot be told through operators that are not known",
            where=source.name,
            facts=[f"{name}: {why}" for name, why in info.unknown_ops.items()],
        )
    from ..importer import import_model

    proto = outline(source, info)
    graph = import_model(proto)
    inputs = graph.placeholders[: len(info.inputs)]
    symbols = _symbols(proto, inputs)
    settled = {symbols.get(name, name): n for name, n in sizes.items()}
    check_sizes(settled, {t.name: t.spec for t in inputs})
    specs = [t.spec for t in inputs]
    found = estimated(list(uses(graph)), info.tensors.values(), specs, settled)
    return dataclasses.replace(found, sizes=dict(sizes))


def uses(graph: Graph) -> Iterator[Use]:
    """Yield the nodes of a graph as memory sees them."""
    place = {node: i for i, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        reads = tuple(place[t.node] for t in node.inputs if t is not None)
        specs = tuple(t.spec for t in node.outputs)
        yield Use(specs, reads, isinstance(node.op, Source))


def _symbols(proto: ModelProto, inputs: Sequence[Tensor]) -> dict[str, str]:
    """Return what the sizes that the model names are called in the graph."""
    found: dict[str, str] = {}
    for info, tensor in zip(proto.graph.input, inputs, strict=False):
        stated = info.type.tensor_type.shape.dim
        for dim, d in zip(stated, tensor.shape, strict=False):
            if dim.dim_param and isinstance(d, Dim) and len(d.symbols) == 1:
                found.setdefault(dim.dim_param, next(iter(d.symbols)))
    return found


# -- the model without its weights -----------------------------------------------------------------


def outline(source: files.Source, info: ModelInfo) -> ModelProto:
    """Return the model with inputs in the place of all tensors but small ones, behind its own."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from onnx import ModelProto

    model = ModelProto()
    weights: dict[str, Held] = {}
    try:
        for f in fields(Pages(source), 0, source.size):
            if f.number == OPSET:
                model.opset_import.add().ParseFromString(_bytes(source, f))
            elif f.number == FUNCTION:
                model.functions.add().ParseFromString(_bytes(source, f))
            elif f.number == IR_VERSION:
                model.ir_version = f.value
            elif f.number == GRAPH:
                model.graph.SetInParent()
                _add_graph(source, f, model.graph, info, weights)
    except (DecodeError, ValueError) as error:  # a number beyond its bits is the latter
        raise ArchiveError(f"this is no ONNX model: {error}", where=source.name) from None
    for name, (number, shape) in weights.items():
        value = model.graph.input.add(name=name)
        value.type.tensor_type.elem_type = number
        value.type.tensor_type.shape.SetInParent()
        for n in shape:
            value.type.tensor_type.shape.dim.add(dim_value=n)
    return model


def _add_graph(
    source: files.Source,
    proto: Field,
    graph: GraphProto,
    info: ModelInfo,
    weights: dict[str, Held],
) -> None:
    """Add the parts of a graph; of tensors that are not small, enter what they are."""
    for f in proto.fields():
        if f.number == GRAPH_NAME:
            graph.name = f.text()
        elif f.number == NODE:
            if f.size > LARGE_NODE and (held := _constant(f)):
                weights |= held
            else:
                graph.node.add().ParseFromString(_bytes(source, f))
        elif f.number == INPUT:
            name = next((part.text() for part in f.fields() if part.number == 1), "")
            if name in info.inputs:  # and no stored tensor
                graph.input.add().ParseFromString(_bytes(source, f))
        elif f.number == OUTPUT:
            graph.output.add().ParseFromString(_bytes(source, f))
        elif f.number in (INITIALIZER, SPARSE):
            if f.number == SPARSE:
                f = next(part for part in f.fields() if part.number == 1)
            parts = {part.number: part for part in f.fields()}
            name = parts[TENSOR_NAME].text() if TENSOR_NAME in parts else ""
            if f.size <= SMALL and EXTERNAL not in parts and f.number == INITIALIZER:
                graph.initializer.add().ParseFromString(_bytes(source, f))
            else:
                spec = info.tensors[name]
                weights[name] = element_type(spec.dtype), spec.shape


def _constant(node: Field) -> dict[str, Held]:
    """Return the tensor that a Constant node holds, by the name of its output."""
    op_type = name = ""
    tensors = []
    for f in node.fields():
        if f.number == OP_TYPE:
            op_type = f.text()
        elif f.number == NODE_OUTPUT:
            name = f.text()
        elif f.number == ATTRIBUTE:
            tensors += [part for part in f.fields() if part.number == TENSOR]
    if op_type != "Constant" or len(tensors) != 1:
        return {}
    number, shape = 0, list[int]()
    for f in tensors[0].fields():
        if f.number == DIMS:
            shape += f.ints()
        elif f.number == DATA_TYPE:
            number = f.value
    return {name: (number, tuple(shape))}


def _bytes(source: files.Source, f: Field) -> bytes:
    return files.exactly(source, f.start, f.size)

"""An ONNX model without its weights: the graph that is drawn, and that memory is told from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ....errors import ArchiveError, GradwrightError
from ....graph import Tensor
from ....spec import Dim, TensorSpec
from ... import source as files
from ...memory import Memory, check_sizes, estimated, uses
from ...registry import Outline
from ...report import ModelInfo
from ..dtypes import from_element_type, stored_bytes
from .wire import Field, Pages, fields

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

SMALL = 4096
"""Bytes of a tensor that are read at most: shapes, axes and bounds are smaller."""
LARGE_NODE = 1 << 16
"""Bytes from which on a node is looked at for the tensor that it may hold."""
MAX_STRUCTURE = 1 << 28
"""Bytes of nodes and names at most; 10,000 nodes have 3 MB."""
RUN = 1 << 24
"""Bytes of neighbouring parts that are read at once."""
IR_VERSION, GRAPH, OPSET, METADATA, FUNCTION = 1, 7, 8, 14, 25  # of ModelProto
NODE, GRAPH_NAME, INITIALIZER, INPUT, OUTPUT, SPARSE = 1, 2, 5, 11, 12, 15  # of GraphProto
VALUE_INFO = 13
NODE_OUTPUT, OP_TYPE, ATTRIBUTE, TENSOR = 2, 4, 5, 5  # of NodeProto, and of AttributeProto
DIMS, DATA_TYPE, TENSOR_NAME, EXTERNAL = 1, 2, 8, 13  # of TensorProto


def drawn(source: files.Source) -> Outline:
    """Return the graph of a model: that which it would be loaded as, or else its nodes as they lie.

    The latter have the names and operators of the file; of a model with operators that are not
    known, or one that is not valid, that is all that can be told.
    """
    from ..importer import import_model
    from .sketch import sketched

    proto, stored = outline(source)
    try:
        return Outline(import_model(proto, stored=stored))
    except GradwrightError as error:
        why = [error.problem, *error.facts]
    except RecursionError:
        why = ["its graphs nest too deeply"]
    return Outline(sketched(proto, stored), ("drawn as it lies, for it cannot be loaded", *why))


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

    proto, stored = outline(source)
    graph = import_model(proto, stored=stored)
    inputs = graph.placeholders[: len(info.inputs)]
    symbols = _symbols(proto, inputs)
    settled = {symbols.get(name, name): n for name, n in sizes.items()}
    check_sizes(settled, {t.name: t.spec for t in inputs})
    specs = [t.spec for t in inputs]
    found = estimated(list(uses(graph)), info.tensors.values(), specs, settled)
    return dataclasses.replace(found, sizes=dict(sizes))


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


def outline(source: files.Source) -> tuple[ModelProto, dict[str, TensorSpec]]:
    """Return the model without its tensors, but for small ones, and the specs of those it lacks."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from onnx import ModelProto

    model = ModelProto()
    weights: dict[str, TensorSpec] = {}
    room = [MAX_STRUCTURE]
    try:
        for f in fields(Pages(source), 0, source.size):
            if f.number == OPSET:
                model.opset_import.add().ParseFromString(_bytes(source, f, room))
            elif f.number == METADATA:
                model.metadata_props.add().ParseFromString(_bytes(source, f, room))
            elif f.number == FUNCTION:
                model.functions.add().ParseFromString(_bytes(source, f, room))
            elif f.number == IR_VERSION:
                model.ir_version = f.value
            elif f.number == GRAPH:
                model.graph.SetInParent()
                _add_graph(source, f, model.graph, weights, room)
    except ArchiveError:
        raise
    except (DecodeError, ValueError) as error:  # a number beyond its bits is the latter
        raise ArchiveError(f"this is no ONNX model: {error}", where=source.name) from None
    held = weights.keys() | {tensor.name for tensor in model.graph.initializer}
    fed = [info for info in model.graph.input if info.name not in held]
    del model.graph.input[:]  # before IR version 4, stored tensors are inputs, too
    model.graph.input.extend(fed)
    return model, weights


def _add_graph(
    source: files.Source,
    proto: Field,
    graph: GraphProto,
    weights: dict[str, TensorSpec],
    room: list[int],
) -> None:
    """Add the parts of a graph; of tensors that are not small, enter what they are.

    Parts that follow each other are read and parsed together, as they are.
    """
    start = end = proto.start

    def add() -> None:
        if end > start:
            whole = Field(proto.pages, GRAPH, proto.kind, start, end - start)
            graph.MergeFromString(_bytes(source, whole, room))

    for f in proto.fields():
        kept = f.number in (GRAPH_NAME, INPUT, OUTPUT, VALUE_INFO)
        if f.number == NODE:
            held = _constant(f) if f.size > LARGE_NODE else {}
            weights |= held
            kept = not held
        elif f.number in (INITIALIZER, SPARSE):
            name, spec, is_outside = _stored(f) if f.number == INITIALIZER else _sparse(f)
            kept = f.size <= SMALL and not is_outside
            if not kept:
                weights[name] = spec
        if not kept or f.start + f.size - start > RUN:
            add()
            start = end if kept else f.start + f.size
        end = f.start + f.size
    add()


def _stored(proto: Field) -> tuple[str, TensorSpec, bool]:
    """Return the name and spec of a stored tensor, and whether its data lies in another file."""
    name, number, is_outside = "", 0, False
    shape: list[int] = []
    for f in proto.fields():
        if f.number == DIMS:
            shape += f.ints()
        elif f.number == DATA_TYPE:
            number = f.value
        elif f.number == TENSOR_NAME:
            name = f.text()
        elif f.number == EXTERNAL:
            is_outside = True
    return name, _spec(name, shape, number), is_outside


def _sparse(proto: Field) -> tuple[str, TensorSpec, bool]:
    """Return the name and spec of a tensor that is stored by its elements that are not zero."""
    name, number = "", 0
    shape: list[int] = []
    for f in proto.fields():
        if f.number == 1:
            parts = {part.number: part for part in f.fields()}
            name = parts[TENSOR_NAME].text() if TENSOR_NAME in parts else ""
            number = parts[DATA_TYPE].value if DATA_TYPE in parts else 0
        elif f.number == 3:
            shape += f.ints()
    return name, _spec(name, shape, number), True


def _spec(name: str, shape: list[int], number: int) -> TensorSpec:
    with files.naming(f"tensor {name[:60]!r}"):
        if any(n < 0 for n in shape):
            raise ArchiveError(f"its shape is {tuple(shape)}")
        dtype = from_element_type(number)
        stored_bytes(shape, dtype)
        return TensorSpec(tuple(shape), dtype)


def _constant(node: Field) -> dict[str, TensorSpec]:
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
    return {name: _stored(tensors[0])[1]}


def _bytes(source: files.Source, f: Field, room: list[int]) -> bytes:
    """Return the bytes of a part; raises ArchiveError where all of them exceed what is allowed."""
    room[0] -= f.size
    if room[0] < 0:
        raise ArchiveError(
            "the model has too many nodes, or nodes that hold too much",
            need=f"{MAX_STRUCTURE:,} bytes of structure at most",
        )
    return files.exactly(source, f.start, f.size)

"""ONNX models as a format: described from what lies around their tensors."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import ArchiveError
from ...spec import dtype_name
from ..registry import Format, ModelInfo, Range, TensorRange
from ..source import Source, naming
from .dtypes import NARROW, from_element_type, stored_bytes
from .external import place
from .model import MAX_DEPTH, is_known, normal_domain
from .wire import BYTES, VARINT, Field, Pages, fields

IR_VERSION, GRAPH, OPSET, FUNCTION = 1, 7, 8, 25  # fields of ModelProto
NODE, NAME, INITIALIZER, SPARSE = 1, 2, 5, 15  # of GraphProto
FUNCTION_NAME, FUNCTION_NODE, FUNCTION_OPSET, FUNCTION_DOMAIN = 1, 7, 9, 10  # of FunctionProto
OP_TYPE, ATTRIBUTE, DOMAIN = 4, 5, 7  # of NodeProto
SUBGRAPH, SUBGRAPHS = 6, 11  # of AttributeProto
DIMS, DATA_TYPE, TENSOR_NAME, RAW, EXTERNAL, LOCATION = 1, 2, 8, 9, 13, 14  # of TensorProto
FORMS = {4: "", 5: "varints", 6: "text", 7: "varints", 10: "", 11: "varints"}
"""Field of TensorProto that holds typed data -> how bytes stand for elements."""


def recognise(source: Source) -> bool | None:
    """Tell a model by the fields of its message; protobuf has no words of its own."""
    if source.read(0, 1) != bytes([IR_VERSION << 3 | VARINT]):
        return False
    seen: set[tuple[int, int]] = set()
    try:
        for f in _fields(source):
            seen.add((f.number, f.kind))
    except ArchiveError:  # it may be cut off, for its graph comes late
        return None if seen else False
    return True if {(GRAPH, BYTES), (OPSET, BYTES)} <= seen else None


def _fields(source: Source) -> Iterator[Field]:
    return fields(Pages(source), 0, source.size)


# -- tensors ---------------------------------------------------------------------------------------


def tensors(source: Source) -> Mapping[str, TensorRange]:
    """Return the stored tensors of the graph; those with external data lie in files beside it."""
    with naming(source.name):
        graphs = [f for f in _fields(source) if f.number == GRAPH]
        if not graphs:
            raise ArchiveError("the model has no graph")
        found: dict[str, TensorRange] = {}
        for f in (f for graph in graphs for f in graph.fields()):
            if f.number not in (INITIALIZER, SPARSE):
                continue
            name, tensor = _tensor(f) if f.number == INITIALIZER else _sparse(f)
            if name in found:
                raise ArchiveError(f"the name {name[:60]!r} is given twice")
            found[name] = tensor
        return found


def _tensor(proto: Field) -> tuple[str, TensorRange]:
    """Return the name of a tensor and where it lies."""
    name, number, is_external = "", 0, False
    shape: list[int] = []
    held: dict[int, list[Range]] = {}
    external: dict[str, str] = {}
    for f in proto.fields():
        if f.number == DIMS:
            shape += f.ints()
        elif f.number == DATA_TYPE:
            number = f.value
        elif f.number == TENSOR_NAME:
            name = f.text()
        elif f.number == RAW or f.number in FORMS:
            held.setdefault(f.number, []).append(Range(f.start, f.size))
        elif f.number == EXTERNAL:
            entry = {part.number: part.text() for part in f.fields()}
            external[entry.get(1, "")] = entry.get(2, "")
        elif f.number == LOCATION:
            is_external = f.value == 1
    where = f"tensor {name[:60]!r}"
    with naming(where):
        dtype = from_element_type(number)
        if any(n < 0 for n in shape):
            raise ArchiveError(f"its shape is {tuple(shape)}")
        count = math.prod(shape)
        nbytes = stored_bytes(shape, dtype)
        is_packed = dtype_name(dtype) in NARROW
        form = "packed" if is_packed else ""
        if is_external:
            return name, TensorRange(dtype, tuple(shape), (place(external, nbytes),), form)
        if len(held) > 1:
            raise ArchiveError("its data is given twice")
        kind, ranges = next(iter(held.items()), (RAW, []))
        form = form if kind == RAW else FORMS[kind]
        stored = sum(r.nbytes for r in ranges)
        numbers = nbytes if is_packed else count
        fits = {"text": len(ranges) == count, "varints": numbers <= stored <= 10 * numbers}
        if not fits.get(form, stored == nbytes):
            raise ArchiveError(
                f"its data has {stored:,} bytes", need=f"those of {count:,} elements"
            )
        return name, TensorRange(dtype, tuple(shape), tuple(ranges), form)


def _sparse(proto: Field) -> tuple[str, TensorRange]:
    """Return a tensor that is stored by its elements that are not zero."""
    parts: dict[int, tuple[str, TensorRange]] = {}
    shape: list[int] = []
    for f in proto.fields():
        if f.number == 3:
            shape += f.ints()
        elif f.number in (1, 2):
            parts[f.number] = _tensor(f)
    if parts.keys() != {1, 2}:
        raise ArchiveError("a sparse tensor has no values, or no indices")
    (name, values), (_, indices) = parts[1], parts[2]
    return name, TensorRange(values.dtype, tuple(shape), values.ranges + indices.ranges, "sparse")


# -- ops -------------------------------------------------------------------------------------------


@dataclass
class _Ops:
    """How often each operator occurs, and which of them the model defines."""

    counts: collections.Counter[tuple[str, str]] = field(default_factory=collections.Counter)
    opsets: dict[str, int] = field(default_factory=dict)
    functions: set[tuple[str, str]] = field(default_factory=set)

    def add(self, proto: Field, number: int = NODE, depth: int = 0) -> None:
        """Count the nodes of a graph or function, and of the graphs inside."""
        if depth > MAX_DEPTH:
            raise ArchiveError(f"sub-graphs nest deeper than {MAX_DEPTH}")
        for node in proto.fields():
            if node.number != number:
                continue
            op_type = domain = ""
            for f in node.fields():
                if f.number == OP_TYPE:
                    op_type = f.text()
                elif f.number == DOMAIN:
                    domain = normal_domain(f.text())
                elif f.number == ATTRIBUTE:
                    for inner in f.fields():
                        if inner.number in (SUBGRAPH, SUBGRAPHS):
                            self.add(inner, NODE, depth + 1)
            self.counts[domain, op_type] += 1

    def define(self, proto: Field) -> None:
        """Take a function of the model."""
        name = domain = ""
        for f in proto.fields():
            if f.number == FUNCTION_NAME:
                name = f.text()
            elif f.number == FUNCTION_DOMAIN:
                domain = normal_domain(f.text())
            elif f.number == FUNCTION_OPSET:
                self.state(f)
        self.functions.add((domain, name))
        self.add(proto, FUNCTION_NODE)

    def state(self, proto: Field) -> None:
        """Take the version of a domain that the model states."""
        domain, version = "", 0
        for f in proto.fields():
            if f.number == 1:
                domain = normal_domain(f.text())
            elif f.number == 2:
                version = f.value
        self.opsets.setdefault(domain, version)

    def unknown(self) -> Iterator[tuple[str, str]]:
        """Yield operators that nothing knows, and why."""
        for domain, op_type in self.counts:
            if (domain, op_type) in self.functions:
                continue
            version = self.opsets.get(domain, 0)
            try:
                held = is_known(domain, op_type, version)
            except ImportError:  # without the onnx package nobody can tell what schemas know
                held = False
            if not held:
                yield _called(domain, op_type), f"of opset {version or 'not stated'} is not known"


def _called(domain: str, op_type: str) -> str:
    return f"{domain}:{op_type}" if domain else op_type


def inspect(source: Source) -> ModelInfo:
    """Return the stored tensors of the graph, and how often each operator occurs."""
    with naming(source.name):
        ops, name = _Ops(), ""
        later = []
        for model in _fields(source):
            if model.number == OPSET:
                ops.state(model)
            elif model.number == FUNCTION:
                later.append(model)
            elif model.number == GRAPH:
                name = next((f.text() for f in model.fields() if f.number == NAME), "")
                ops.add(model)
        for function in later:
            ops.define(function)
        counts = sorted(ops.counts.items(), key=lambda item: (-item[1], item[0]))
        return ModelInfo(
            path=Path(source.name),
            nbytes=source.size,
            name=name,
            ops={_called(*key): n for key, n in counts},
            unknown_ops=dict(ops.unknown()),
            tensors={name: tensor.spec for name, tensor in tensors(source).items()},
        )


FORMAT = Format(
    name="onnx",
    title="an ONNX model",
    suffixes=(".onnx",),
    recognise=recognise,
    inspect=inspect,
    tensors=tensors,
    use="gw.onnx.load(path)",
)

"""ONNX models as a format: described from what lies around their tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ...errors import ArchiveError
from ...graph import Graph
from ...spec import TensorSpec, dtype_name
from ..registry import Format, Range, TensorRange
from ..report import ModelInfo
from ..source import Source, naming
from .dtypes import NARROW, from_element_type, stored_bytes
from .external.reading import place
from .headers.census import Census, called
from .headers.outline import drawn, memory
from .headers.wire import BYTES, VARINT, Field, Pages, fields

IR_VERSION, PRODUCER, PRODUCER_VERSION = 1, 2, 3  # fields of ModelProto
GRAPH, OPSET, FUNCTION = 7, 8, 25
NAME, INITIALIZER, SPARSE = 2, 5, 15  # of GraphProto
DIMS, DATA_TYPE, TENSOR_NAME, RAW, EXTERNAL, LOCATION = 1, 2, 8, 9, 13, 14  # of TensorProto
FORMS = {4: "", 5: "varints", 6: "text", 7: "varints", 10: "", 11: "varints"}
"""Field of TensorProto that holds typed data -> how bytes stand for elements."""

Outside = Callable[[Mapping[str, str], int], Range]
"""What places external data of so many bytes."""


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


def _tensor(
    proto: Field, text: Callable[[Field], str] = Field.text, outside: Outside | None = None
) -> tuple[str, TensorRange]:
    """Return the name of a tensor and where it lies; ``outside`` places external data."""
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
            name = text(f)
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
            at = (outside or place)(external, nbytes)
            return name, TensorRange(dtype, tuple(shape), (at,), form)
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
    stored_bytes(shape, values.dtype)
    return name, TensorRange(values.dtype, tuple(shape), values.ranges + indices.ranges, "sparse")


# -- all of it -----------------------------------------------------------------------------------


def inspect(source: Source) -> ModelInfo:
    """Return what the model says of itself, and what to beware of; no data of tensors is read."""
    with naming(source.name):
        census, facts = Census(), dict[int, str]()
        specs: dict[str, TensorSpec] = {}
        ir_version, name, graphs, functions = 0, "", list[Field](), list[Field]()
        for f in _fields(source):
            if f.number == IR_VERSION:
                ir_version = f.value
            elif f.number in (PRODUCER, PRODUCER_VERSION):
                facts[f.number] = census.text(f)
            elif f.number == OPSET:
                census.state(f)
            elif f.number == FUNCTION:
                functions.append(f)
            elif f.number == GRAPH:
                graphs.append(f)
        if not graphs:
            raise ArchiveError("the model has no graph")
        for graph in graphs:
            for f in graph.fields():
                if f.number == NAME:
                    name = census.text(f)
                elif f.number in (INITIALIZER, SPARSE):
                    _take(f, source, census, specs)
        for function in functions:
            census.define(function)
        for graph in graphs:
            census.graph(graph, specs.keys())
        census.conclude()
        unknown = dict(census.unknown())
        return ModelInfo(
            Path(source.name), source.size, name, census.ops(),
            {called(*key[:2]): why for key, why in unknown.items()}, specs,
            producer=" ".join(filter(None, map(facts.get, (PRODUCER, PRODUCER_VERSION)))),
            versions={"IR": ir_version, **{d or "ai.onnx": n for d, n in census.opsets.items()}},
            inputs=census.inputs,
            outputs=census.outputs,
            unknown_nodes={called(*key[:2]): tuple(census.nodes[key]) for key in unknown},
            findings=tuple(census.findings),
        )  # fmt: skip


def _take(proto: Field, source: Source, census: Census, specs: dict[str, TensorSpec]) -> None:
    """Take the spec of a stored tensor, and note where its data is not as it should be."""
    wrong: list[str] = []

    def outside(entries: Mapping[str, str], nbytes: int) -> Range:
        try:
            return place(entries, nbytes)
        except ArchiveError as error:
            wrong.append(error.problem)
            return Range(0, nbytes)

    if proto.number == SPARSE:
        name, tensor = _sparse(proto)
    else:
        name, tensor = _tensor(proto, census.text, outside)
    wrong += [_lacks(source, r) for r in tensor.ranges if r.file]
    for problem in filter(None, wrong):
        census.find(problem, f"tensor {name[:60]!r}")
    if name in specs:
        census.find("it is the name of 2 stored tensors", repr(name[:60]))
    specs[name] = tensor.spec


def _lacks(source: Source, r: Range) -> str:
    """Return why a range of a file beside the model is not there, "" if it is."""
    root = Path(source.name).resolve().parent
    path = (root / r.file).resolve()
    if root not in path.parents:
        return f"its data would be in {r.file[:60]!r}, which leads out of the folder"
    if not path.is_file():
        return f"its data is in {r.file[:60]!r}, which is missing"
    held, end = path.stat().st_size, r.start + r.nbytes
    return f"its data ends at byte {end:,} of {r.file[:60]!r}, which has {held:,}" * (end > held)


def opened(path: Path) -> Graph:
    """Return the graph of a model."""
    from .importer import import_model

    return import_model(path)


FORMAT = Format(
    name="onnx",
    title="an ONNX model",
    suffixes=(".onnx",),
    recognise=recognise,
    inspect=inspect,
    tensors=tensors,
    use="gw.onnx.load(path)",
    memory=memory,
    outline=drawn,
    open=opened,
)

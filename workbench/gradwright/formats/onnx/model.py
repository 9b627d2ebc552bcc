"""ONNX models as they lie in a file: reading them, and looking through them before building."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...errors import ArchiveError, GraphError, UnsupportedOpError
from ..registry import mistaken
from ..source import as_path
from .dtypes import to_array, to_dense
from .external.reading import Beside
from .node import ONNX, OnnxNode

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

NOWHERE = Beside()
MAX_DEPTH = 64
"""How deep functions and sub-graphs may nest."""


def need_onnx() -> None:
    """Raise GraphError where the onnx package is missing."""
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise GraphError(
            "the onnx package is not installed", hint="pip install 'gradwright[onnx]'"
        ) from None


def read_model(model: Any) -> tuple[ModelProto, Beside]:
    """Return a model, and the files beside it."""
    need_onnx()
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from onnx import ModelProto

    if isinstance(model, ModelProto):
        return model, NOWHERE
    beside = NOWHERE
    if isinstance(model, bytes):
        data = model
    else:
        path = as_path(model, "a path, the bytes of a file, or a ModelProto")
        data, beside = path.read_bytes(), Beside(path)
    made = ModelProto()
    try:
        made.ParseFromString(data)
    except DecodeError as error:
        other = None if beside is NOWHERE else mistaken(model, "onnx")
        raise other or ArchiveError(f"this is no ONNX model: {error}") from None
    return made, beside


def normal_domain(domain: str) -> str:
    """Return the domain by its one name; ONNX's own may also be called ``ai.onnx``."""
    return "" if domain == "ai.onnx" else domain


def opsets(imports: Iterable[Any]) -> dict[str, int]:
    """Return the version of each domain that a model or function states."""
    return {normal_domain(o.domain): o.version for o in imports}


class Model:
    """A model with its functions at hand, looked through for what nobody can read."""

    def __init__(self, proto: ModelProto, beside: Beside) -> None:
        self.proto, self.beside = proto, beside
        self.opsets = opsets(proto.opset_import)
        if proto.ir_version < 3:  # they had no word for it
            self.opsets.setdefault("", 1)
        if not proto.HasField("graph"):
            raise ArchiveError("the model has no graph")
        if not self.opsets:
            raise ArchiveError("the model does not say which opset it is of")
        check_text(proto.graph, 0)
        for function in proto.functions:
            check_text(function, 0)
        self.functions: dict[tuple[str, str, str], FunctionProto] = {
            (normal_domain(f.domain), f.name, f.overload): f for f in proto.functions
        }

    def function(self, node: NodeProto) -> FunctionProto | None:
        """Return the function of the model that a node calls, if it calls one."""
        return self.functions.get((normal_domain(node.domain), node.op_type, node.overload))

    def refuse_unknown(self) -> None:
        """Raise one error that names all operators that no reader, function or schema knows."""
        missing: dict[tuple[str, str, int], list[str]] = {}
        seen: set[tuple[str, str, str]] = set()

        def visit(
            nodes: Iterable[NodeProto], versions: Mapping[str, int], depth: int, inside: str
        ) -> None:
            if depth > MAX_DEPTH:
                raise ArchiveError(f"sub-graphs or functions nest deeper than {MAX_DEPTH}")
            for node in nodes:
                domain = normal_domain(node.domain)
                version = versions.get(domain, 0)
                here = inside + label(node.name, node.op_type, node.output)
                for inner in graphs_of(node):
                    visit(inner.node, versions, depth + 1, f"{here}/")
                called = self.function(node)
                if ONNX.find_added(OnnxNode(node.op_type, version, domain=domain)):
                    continue
                if called is not None:
                    key = domain, node.op_type, node.overload
                    if key not in seen:
                        seen.add(key)
                        inner_versions = opsets(called.opset_import) or versions
                        visit(called.node, inner_versions, depth + 1, f"{node.op_type}/")
                    continue
                if not is_known(domain, node.op_type, version):
                    missing.setdefault((domain, node.op_type, version), []).append(here)

        visit(self.proto.graph.node, self.opsets, 0, "")
        if missing:
            raise UnsupportedOpError(
                "the model uses operators that are not known here",
                facts=[
                    f"{domain or 'ai.onnx'} {op_type} (opset {version or 'not stated'}): "
                    f"{len(names)} node{'s'[: len(names) > 1]}, {some(names)}"
                    for (domain, op_type, version), names in sorted(missing.items())
                ],
                hint="gw.onnx.reads or gw.onnx.maps; gw.onnx.operators() lists what is known",
            )


def label(name: str, op_type: str, outputs: Sequence[str]) -> str:
    """Return how a node is told: by its name, else by its operator and what it makes."""
    return (name or f"{op_type}:{next(iter(outputs), '')}")[:60]


def some(names: Sequence[str]) -> str:
    """Return the first few names.

    >>> from gradwright.formats.onnx.model import some
    >>> some(["a", "b"]), some("abcdefg")
    ("'a', 'b'", "'a', 'b', 'c', 'd' and 3 more")
    """
    shown = ", ".join(map(repr, names[:4]))
    return f"{shown} and {len(names) - 4:,} more" if len(names) > 4 else shown


def check_text(graph: GraphProto | FunctionProto, depth: int) -> None:
    """Refuse names that are no text: protobuf hands on bytes that are not UTF-8 as they are."""
    if depth > MAX_DEPTH:
        raise ArchiveError(f"sub-graphs nest deeper than {MAX_DEPTH}")
    names: list[Any] = [graph.name]
    for group in (graph.input, graph.output, getattr(graph, "initializer", ())):
        names += [item if isinstance(item, str | bytes) else item.name for item in group]
        names += [symbol for item in group for symbol in _symbols(getattr(item, "type", None))]
    for node in graph.node:
        names += [node.name, node.op_type, node.domain, node.overload, *node.input, *node.output]
        names += [text for a in node.attribute for text in (a.name, a.ref_attr_name)]
        for inner in graphs_of(node):
            check_text(inner, depth + 1)
    if not all(isinstance(name, str) for name in names):
        raise ArchiveError("a name in the model is no UTF-8 text")


def _symbols(proto: Any) -> Iterator[Any]:
    """Yield the symbols in the shapes of a type."""
    for name in ("sequence_type", "optional_type"):
        if proto is not None and proto.HasField(name):
            yield from _symbols(getattr(proto, name).elem_type)
    if proto is not None:
        yield from (d.dim_param for d in proto.tensor_type.shape.dim)


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the sub-graphs that a node holds."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def names_read(node: NodeProto) -> Iterator[str]:
    """Yield all names that a node reads, its sub-graphs included."""
    stack: list[Any] = [node]
    while stack:
        current = stack.pop()
        yield from current.input
        for graph in graphs_of(current):
            stack.extend(graph.node)
            yield from (info.name for info in graph.output)


def is_known(domain: str, op_type: str, version: int) -> bool:
    """Tell whether a reader knows an operator, or its schema says what it is made of."""
    if op_type == "Constant" and not domain:
        return True
    if ONNX.find(OnnxNode(op_type, version, domain=domain)) is not None:
        return True
    known = schema_body(domain, op_type, version)
    if known is None:
        return False
    body, _ = known
    inner = opsets(body.opset_import)
    return all(
        is_known(normal_domain(n.domain), n.op_type, inner.get(normal_domain(n.domain), version))
        for n in body.node
        if n.op_type != op_type
    )


def schema_body(
    domain: str, op_type: str, version: int
) -> tuple[FunctionProto, dict[str, Any]] | None:
    """Return what ONNX's schema says an operator is made of, and the defaults of its attributes.

    Bodies that depend on the types of a node are left alone: the library that makes them crashes
    on types it does not expect, and readers know these operators.
    """
    import onnx

    try:
        schema: Any = onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None
    if not schema.has_function:
        return None
    defaults = [a.default_value for a in schema.attributes.values() if a.default_value.name]
    return schema.function_body, {a.name: _plain(a, NOWHERE) for a in defaults}


def attribute_values(node: NodeProto, outer: Mapping[str, Any], beside: Beside) -> dict[str, Any]:
    """Return the attributes of a node as plain values.

    Those that refer to an attribute of the function they stand in take it from ``outer``.
    """
    found: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.name in found:
            raise ArchiveError(f"the attribute {attribute.name[:60]!r} occurs twice")
        if attribute.ref_attr_name:
            if attribute.ref_attr_name in outer:
                found[attribute.name] = outer[attribute.ref_attr_name]
            continue
        found[attribute.name] = _plain(attribute, beside)
    return found


def _plain(attribute: AttributeProto, beside: Beside) -> Any:
    def text(data: bytes) -> str:
        return data.decode("utf-8", "replace")

    a = attribute
    if a.type == a.FLOAT:
        return a.f
    if a.type == a.INT:
        return a.i
    if a.type == a.STRING:
        return text(a.s)
    if a.type == a.TENSOR:
        return to_array(a.t, beside)
    if a.type == a.SPARSE_TENSOR:
        return to_dense(a.sparse_tensor, beside)
    if a.type == a.FLOATS:
        return tuple(a.floats)
    if a.type == a.INTS:
        return tuple(a.ints)
    if a.type == a.STRINGS:
        return tuple(map(text, a.strings))
    if a.type == a.TENSORS:
        return tuple(to_array(t, beside) for t in a.tensors)
    if a.type == a.GRAPH:
        return a.g
    if a.type == a.TYPE_PROTO:
        return a.tp
    raise ArchiveError(f"the attribute {a.name[:60]!r} is of kind {a.type}, which is not read")

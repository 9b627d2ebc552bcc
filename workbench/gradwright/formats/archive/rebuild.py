"""``graph.json`` and arrays, made a graph again: every claim is verified on the way."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import ArchiveError, GradwrightError, GraphError, Site, UnsupportedOpError
from ...graph import Constant, Graph, Node, Placeholder, SubGraph, Tensor, Variable, check_update
from ...graph.build import check_name
from ...graph.updates import Declared, layers_of
from ...op import Op, infer_specs
from ...spec import SMALL, AnyDim, Dim, TensorSpec, differ, dtype, is_floating
from ...spec.containers import ANY, ContainerSpec, OptionalSpec, SequenceSpec
from ...spec.dims import reserve_symbols
from ...spec.one_of import OneOf, one_of, options
from ..checked import expect, expect_fields
from .attributes import OpReader
from .document import DOCUMENT, SOURCES, STORED, Reference, reference_of
from .unknown import UnknownOp

Array = np.ndarray[Any, Any]
Row = dict[str, Any]

_MARKS = ("trainable", "frozen", "derived", "apart")
_OPTIONAL = ("version", "attrs", "in", "known", "public", *_MARKS, "origin")


class Document:
    """The parsed document: its parts have the right types, what they say is not yet verified."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        fields = ("name", "streams", "nodes", "graphs", "updates")
        expect_fields(found, fields, ("after", "notes"), "the document", DOCUMENT)
        self.name = expect(found["name"], str, "name", DOCUMENT)
        self.streams = expect(found["streams"], int, "streams", DOCUMENT)
        if self.streams < 0:
            raise ArchiveError("streams is negative", where=DOCUMENT)
        self.rows = _check_rows(found["nodes"], DOCUMENT)
        self.graphs: list[dict[str, Any]] = expect(found["graphs"], list, "graphs", DOCUMENT)
        for i, inner in enumerate(self.graphs):
            where = f"{DOCUMENT}, graph {i}"
            expect_fields(inner, ("name", "inputs", "outputs", "nodes"), (), "the graph", where)
            expect(inner["name"], str, "name", where)
            _check_rows(inner["nodes"], where)
            for end in ("inputs", "outputs"):
                for name in expect(inner[end], list, end, where):
                    expect(name, str, end, where)
        self.notes: dict[str, Any] = expect(found.get("notes", {}), dict, "notes", DOCUMENT)
        self.apart = [row["name"] for row in self.rows if row.get("apart")]
        """Variables and constants whose arrays are not in the archive."""
        self.is_first = "after" not in found
        """Whether it is of format 1, where updates of layers are told, and not what is frozen."""
        self.updates: list[tuple[str, str, str]] = []
        """Variable, value, and which values it reads: those before a step, or after it."""
        for key, when in (("updates", "before"), ("after", "after")):
            for name, value in expect(found.get(key, {}), dict, key, DOCUMENT).items():
                self.updates.append((name, expect(value, str, key, DOCUMENT), when))


def _check_rows(rows: Any, where: str) -> list[Row]:
    for i, row in enumerate(expect(rows, list, "nodes", where)):
        here = f"{where}, node {i}"
        expect_fields(row, ("name", "op", "out"), _OPTIONAL, "the node", here)
        here = f"{where}, node {expect(row['name'], str, 'name', here)[:80]!r}"
        expect(row["op"], str, "op", here)
        for key in ("in", "out", "known"):
            expect(row.get(key, []), list, key, here)
        for key in _MARKS:
            expect(row.get(key, True), bool, key, here)
        for text in row["out"]:
            expect(text, str, "out", here)
        if not row["out"]:
            raise ArchiveError("a node without outputs", where=here)
        expect(row.get("origin", ""), str, "origin", here)
        if not 1 <= expect(row.get("public", 1), int, "public", here) <= len(row["out"]):
            raise ArchiveError("'public' exceeds the outputs", where=here)
    return rows  # type: ignore[no-any-return]


class SpecReader:
    """Reads ``float32[B, 64]``, ``seq(float32[?, 3])`` and ``float32[3]|float32[2, 3]``.

    Equal texts are parsed once.
    """

    def __init__(self) -> None:
        self._parsed: dict[str, tuple[np.dtype[Any], tuple[AnyDim, ...]]] = {}
        self.symbols: set[str] = set()

    def read(self, text: str, where: str) -> TensorSpec:
        """Return the spec."""
        outer, bracket, inside = text.partition("(")
        if bracket and text.endswith(")"):
            with _explained(where):
                return self._container(outer, inside[:-1], where)
        first, *others = re.split(r"(?<=\])\|", text)
        if others:
            each = [self.read(part, where) for part in (first, *others)]
            with _explained(where):
                found = one_of(each)
            if not isinstance(found, OneOf) or len(found.options) < len(each):
                raise ArchiveError(f"{text[:60]!r} is not a spec", where=where, need="other ranks")
            return found
        if text not in self._parsed:
            self._parsed[text] = self._parse(text, where)
            self.symbols.update(*(d.symbols for d in self._parsed[text][1] if isinstance(d, Dim)))
        kind, shape = self._parsed[text]
        return TensorSpec(shape, kind)

    def _container(self, outer: str, inside: str, where: str) -> TensorSpec:
        if outer == "seq" and "[" not in inside:
            return SequenceSpec(None, dtype(inside))
        if outer == "opt" and inside.startswith("seq("):
            return OptionalSpec(self.read(inside, where))
        if outer not in ("seq", "opt"):
            raise ArchiveError(f"{outer[:60]}(...) is not a spec", where=where)
        kind, shape = self._parse(inside, where, open_sizes=True)
        return (
            SequenceSpec(shape, kind) if outer == "seq" else OptionalSpec(TensorSpec(shape, kind))
        )

    @staticmethod
    def _parse(
        text: str, where: str, *, open_sizes: bool = False
    ) -> tuple[np.dtype[Any], tuple[AnyDim, ...]]:
        name, bracket, rest = text.partition("[")
        if not bracket or not rest.endswith("]"):
            raise ArchiveError(f"{text[:60]!r} is not a spec", where=where, need="'float32[B, 64]'")
        try:
            sizes = _sizes(rest[:-1]) if rest != "]" else []
            known = {"?": ANY} if open_sizes else {}
            shape = tuple(known.get(size) or Dim.parse(size) for size in sizes)
            kind = dtype(name)
        except GraphError as error:
            raise ArchiveError(error.problem, where=where) from None
        if any(isinstance(d, int) and d < 0 for d in shape):
            raise ArchiveError(f"{text[:60]!r} has a negative size", where=where)
        return kind, shape


def _sizes(text: str) -> list[str]:
    """Return the sizes of a shape, which may have commas in parentheses: ``B, max(0, T - 1)``."""
    sizes: list[str] = []
    depth = 0
    for part in text.split(", "):
        if depth > 0:
            sizes[-1] += f", {part}"
        else:
            sizes.append(part)
        depth += part.count("(") - part.count(")")
    return sizes


class GraphReader:
    """Builds graphs from a document and arrays; everything is verified on the way.

    Of an array there may be the spec alone, or nothing if it lies apart: the node has no value.
    """

    def __init__(
        self, document: Document, arrays: Mapping[str, Array | TensorSpec], site: Site | None
    ) -> None:
        self._document, self._arrays, self._site = document, dict(arrays), site
        self._ops, self._specs = OpReader(), SpecReader()

    def read(self) -> Graph:
        """Return the graph; arrays that no node claims are an error."""
        document = self._document
        for i, inner in enumerate(document.graphs):
            where = f"{DOCUMENT}, graph {i}"
            graph = Graph(inner["name"], scratch=True)
            self._build(graph, inner["nodes"], f"{i}:", where)
            ends = [[_tensor(graph, n, where) for n in inner[e]] for e in ("inputs", "outputs")]
            if not ends[1] or any(not isinstance(t.op, Placeholder) for t in ends[0]):
                raise ArchiveError("a sub-graph goes from placeholders to outputs", where=where)
            with _explained(where):
                self._ops.graphs.append(SubGraph(*ends))
        graph = Graph(document.name)
        self._build(graph, document.rows, "", DOCUMENT)
        graph._streams = itertools.count(document.streams)
        reserve_symbols(self._specs.symbols)
        for name, value, when in document.updates:
            where = f"{DOCUMENT}, update of {name[:80]!r}"
            variable, tensor = _tensor(graph, name, where), _tensor(graph, value, where)
            with _explained(where):
                check_update(variable, tensor)
                if variable in graph.updates.declared:
                    raise GraphError("it has two")
            if not (document.is_first and tensor.node in layers_of(variable)):
                graph.updates.declared[variable] = Declared(tensor, when)
        if document.is_first:
            for t in graph.variables:
                may_train = is_floating(t.dtype) and not graph.updates.holds_state(t)
                t.node.frozen = may_train and not t.trainable
        graph.notes.update(document.notes)
        if self._arrays:
            raise ArchiveError(f"no node has the array {next(iter(self._arrays))[:80]!r}")
        return graph

    def _build(self, graph: Graph, rows: Sequence[Row], prefix: str, where: str) -> None:
        by_name: dict[str, Row] = {}
        for row in rows:
            name = row["name"]
            here = f"{where}, node {name[:80]!r}"
            if name in by_name:
                raise ArchiveError("two nodes have this name", where=here)
            with _explained(here):
                check_name(name)
            by_name[name] = row
        references = {
            name: [reference_of(r, f"{where}, node {name!r}") for r in row.get("in", ())]
            for name, row in by_name.items()
        }
        nodes: dict[str, Node] = {}
        for name in _inputs_first(references, where):
            here = f"{where}, node {name!r}"
            inputs = tuple(None if r is None else _output(nodes, r, here) for r in references[name])
            nodes[name] = self._node(graph, by_name[name], inputs, prefix, here)
        graph._nodes = {name: nodes[name] for name in by_name}
        for serial, (name, row) in enumerate(by_name.items()):
            node = graph.latest = nodes[name]
            node.serial = serial
            for t in node.inputs:
                if t is not None:
                    t.uses.append(node)
            if "origin" in row:
                node.origin = _tensor(graph, row["origin"], f"{where}, node {name!r}").node
        graph._serial = itertools.count(len(nodes))

    def _node(
        self, graph: Graph, row: Row, inputs: tuple[Tensor | None, ...], prefix: str, where: str
    ) -> Node:
        specs = tuple([self._specs.read(text, where) for text in row["out"]])
        source = SOURCES.get(row["op"])
        op = self._ops.read(row, where, row.get("public")) if source is None else source()
        node = Node(graph, row["name"], op, inputs, 0, self._site)
        node.derived = row.get("derived", False)
        if source is None:
            self._set_known(specs, row.get("known", ()), where)
            specs = self._verified(op, inputs, specs, row, where)
        else:
            self._read_source(node, specs, row, prefix, where)
        node.outputs = tuple([Tensor(node, i, s) for i, s in enumerate(specs)])
        return node

    def _read_source(
        self, node: Node, specs: tuple[TensorSpec, ...], row: Row, prefix: str, where: str
    ) -> None:
        if node.inputs or len(specs) != 1 or row.keys() & {"attrs", "version", "public"}:
            raise ArchiveError(f"a {row['op']} has no inputs and one output", where=where)
        spec = specs[0]
        node.trainable, node.frozen = row.get("trainable", False), row.get("frozen", False)
        may_train = row["op"] == Variable.name and is_floating(spec.dtype)
        if node.trainable + node.frozen > may_train:
            raise ArchiveError("only a floating variable is trainable, or frozen", where=where)
        if row["op"] not in STORED:
            self._set_known(specs, row.get("known", ()), where)
            return
        array = self._arrays.pop(prefix + node.name, None)
        if array is None and row.get("apart"):
            return
        if array is None:
            raise ArchiveError("the node's array is missing", where=where)
        if array.shape != spec.shape or array.dtype != spec.dtype:
            raise ArchiveError(
                "the node's array has another spec", where=where, need=str(spec),
                facts=[f"got {TensorSpec(array.shape, array.dtype)}"],
            )  # fmt: skip
        if isinstance(array, TensorSpec):
            return
        node.graph.values.commit({node.name: array})
        if row["op"] == Constant.name and array.dtype.kind in "iu" and array.size <= SMALL:
            spec.value = array

    def _set_known(self, specs: Sequence[TensorSpec], known: Sequence[Any], where: str) -> None:
        for spec, flat in zip(specs, known, strict=False):
            if flat is None:
                continue
            if not spec.is_concrete or len(expect(flat, list, "known", where)) != spec.size:
                raise ArchiveError(f"'known' does not fill {spec}", where=where)
            values = [v if type(v) is int else _dim(v, where) for v in flat]
            symbolic = any(isinstance(v, Dim) for v in values)
            with _explained(where):
                array = np.array(values, object if symbolic else spec.dtype)
                spec.value = array.reshape(spec.shape)

    def _verified(
        self,
        op: Op,
        inputs: Sequence[Tensor | None],
        stated: tuple[TensorSpec, ...],
        row: Row,
        where: str,
    ) -> tuple[TensorSpec, ...]:
        """Return the stated specs if the op infers the same, or is unknown."""
        if isinstance(op, UnknownOp):
            return stated
        try:
            found = infer_specs(op, [None if t is None else t.spec for t in inputs])
        except UnsupportedOpError:  # an attribute holds an unknown op
            return stated
        except Exception as error:  # an op's rule may raise anything on what a file makes up
            raise ArchiveError(f"{op.name} refuses its inputs: {error}", where=where) from error
        compared = row.get("public", len(stated))
        upgraded = row.get("version", 1) != op.version
        enough = len(found) >= compared if upgraded else len(found) == len(stated)
        if not enough or not all(map(_agree, found[:compared], stated)):
            raise ArchiveError(
                f"{op.name} infers other specs than the archive states", where=where,
                need=", ".join(map(str, stated)), facts=[f"got {', '.join(map(str, found))}"],
                hint="if the op was redefined since: raise its version, and write upgrade()",
            )  # fmt: skip
        for spec, other in zip(stated, found, strict=False):
            spec.value = other.value
        return stated if not upgraded else (*stated[:compared], *found[compared:])


class _explained:  # noqa: N801 - reads as a statement
    """Turns errors of the graph into errors of the archive, with the place in the document."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> None:
        if isinstance(error, (GradwrightError, ValueError, OverflowError, TypeError)):
            problem = getattr(error, "problem", error)
            raise ArchiveError(str(problem), where=self._where) from error


def _agree(a: TensorSpec, b: TensorSpec) -> bool:
    """Tell whether specs may be the same; symbols made by inference have new names each time."""
    if isinstance(a, ContainerSpec):
        return a == b
    if isinstance(a, OneOf) or isinstance(b, OneOf):
        pairs = itertools.zip_longest(options(a), options(b))
        return all(None not in pair and _agree(*pair) for pair in pairs)
    return (
        a.dtype == b.dtype
        and len(a.shape) == len(b.shape)
        and (a.shape == b.shape or not any(map(differ, a.shape, b.shape)))
    )


def _dim(value: Any, where: str) -> int | Dim:
    with _explained(where):
        return Dim.parse(expect(value, str, "known", where))


def _output(nodes: Mapping[str, Node], reference: Reference, where: str) -> Tensor:
    name, index = reference
    outputs = nodes[name].outputs
    if index >= len(outputs):
        raise ArchiveError(f"{name!r} has no output {index}", where=where)
    return outputs[index]


def _tensor(graph: Graph, text: str, where: str) -> Tensor:
    reference = reference_of(text, where)
    if reference is None or reference[0] not in graph._nodes:
        raise ArchiveError(f"no node is called {text[:60]!r}", where=where)
    return _output(graph._nodes, reference, where)


def _inputs_first(references: Mapping[str, list[Reference | None]], where: str) -> list[str]:
    """Return the nodes in an order to build them; edits may have left another order in the file."""
    order: list[str] = []
    done: set[str] = set()
    path: set[str] = set()
    for root in references:
        stack = [root]
        while stack:
            name = stack[-1]
            if name in done or name in path:
                stack.pop()
                if name not in done:
                    done.add(name)
                    order.append(name)
                continue
            path.add(name)
            for r in references[name]:
                if r is None or r[0] in done:
                    continue
                if r[0] not in references:
                    raise ArchiveError(
                        f"the input {r[0][:60]!r} does not exist", where=f"{where}, node {name!r}"
                    )
                if r[0] in path:
                    raise ArchiveError(
                        "the node depends on itself", where=f"{where}, node {r[0]!r}"
                    )
                stack.append(r[0])
    return order

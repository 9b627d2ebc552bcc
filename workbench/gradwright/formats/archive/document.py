"""``graph.json``: the graph as text, one node per line.

::

    {"name": "digits", "streams": 0,
     "nodes": [
      {"name": "x", "op": "placeholder", "out": ["float32[x_0, 64]"]},
      {"name": "hidden/w", "op": "variable", "out": ["float32[64, 32]"], "trainable": true},
      {"name": "hidden/matmul", "op": "matmul", "in": ["x", "hidden/w"], "out": [...]}],
     "graphs": [], "updates": {}, "after": {}}

Inputs name nodes, ``split:1`` a further output, null an input left out. ``known`` are values of
small integer outputs (see TensorSpec), ``public`` the number of visible outputs where residuals
follow, ``derived`` marks nodes of gradients that the user's nodes need, ``origin`` their forward
node. A ``frozen`` variable is a parameter that freezing keeps from training; the array of one that
is ``apart`` is in no file of this archive. ``updates`` and
``after`` are what steps set variables to, from values before or after the step. ``graphs`` are
sub-graphs held by attributes, inner before outer, each with ``inputs`` and
``outputs``. The array of a variable or constant has the node's name; in graph 2 it is ``2:name``.
``notes``, which may be missing, are what others know of the graph, such as its adapters.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import ArchiveError, GradwrightError, GraphError
from ...graph import Constant, Graph, Node, Placeholder, Rng, SubGraph, Variable, ancestors
from ...op import Op
from ...spec import Dim, TensorSpec, dtype_name
from ...spec.containers import ANY, OptionalSpec, SequenceSpec
from ...spec.one_of import OneOf
from ..checked import expect
from .attributes import encode_op

Array = np.ndarray[Any, Any]
Reference = tuple[str, int]
"""Name of a node, and which of its outputs."""

DOCUMENT = "graph.json"
SOURCES: dict[str, type[Op]] = {c.name: c for c in (Placeholder, Variable, Constant, Rng)}
STORED = (Variable.name, Constant.name)


def saved_nodes(graph: Graph) -> list[Node]:
    """Return the user's nodes and those derived ones that they or the updates are built on."""
    roots = [t for n in graph.nodes for t in n.inputs if t is not None and t.node.derived]
    roots += [d.value for d in graph.updates.declared.values() if d.value.node.derived]
    kept = set(ancestors(roots)) if roots else set()
    return [n for n in graph.all_nodes if not n.derived or n in kept]


class DocumentWriter:
    """Turns a graph into the bytes of the document and the arrays it refers to."""

    def __init__(self, apart: Collection[str] = ()) -> None:
        self.arrays: dict[str, Array] = {}
        self._apart = apart
        """Names of variables and constants whose arrays are left out."""
        self._graphs: list[str] = []
        self._numbers: dict[SubGraph, int] = {}

    def write(self, graph: Graph, values: Mapping[str, Array], streams: int) -> bytes:
        """Return the document; ``arrays`` then holds what it refers to."""
        nodes = saved_nodes(graph)
        rows = self._rows(nodes)
        held = [n.name for n in nodes if n.op.name in STORED and n.name not in self._apart]
        self.arrays = {name: values[name] for name in held} | self.arrays
        updates: dict[str, dict[str, str]] = {"before": {}, "after": {}}
        for v, declared in graph.updates.declared.items():
            updates[declared.when][v.name] = declared.value.name
        text = (
            f'{{"name": {_text(graph.name)}, "streams": {streams},\n "nodes": [{_lines(rows)}],\n'
            f' "graphs": [{_lines(self._graphs)}],\n "updates": {_text(updates["before"])},\n'
            f' "after": {_text(updates["after"])}{_notes(graph)}}}\n'
        )
        return text.encode()

    def _rows(self, nodes: Sequence[Node]) -> list[str]:
        kept = set(nodes)
        rows = []
        for node in nodes:
            try:
                rows.append(_text(self._row(node, kept)))
            except GradwrightError as error:
                error.where = error.where or f"node {node.name!r}"
                raise
            except RecursionError:
                where = f"node {node.name!r}"
                raise GraphError("attributes are nested too deeply", where=where) from None
        return rows

    def _row(self, node: Node, kept: set[Node]) -> dict[str, Any]:
        row: dict[str, Any] = {"name": node.name, **encode_op(node.op, self._number)}
        if node.inputs:
            row["in"] = [None if t is None else t.name for t in node.inputs]
        row["out"] = [_spec_text(t.spec) for t in node.outputs]
        if not isinstance(node.op, Constant):
            known = [_known(t.spec) for t in node.outputs]
            if any(k is not None for k in known):
                row["known"] = known
        if node.op.n_public is not None and node.op.n_public < len(node.outputs):
            row["public"] = node.op.n_public
        row |= {k: True for k in ("trainable", "frozen", "derived") if getattr(node, k)}
        if node.name in self._apart and node.graph.parent is None:
            row["apart"] = True
        if node.origin is not None and node.origin in kept:
            row["origin"] = node.origin.name
        return row

    def _number(self, sub: SubGraph) -> int:
        """Store a sub-graph, after those inside it, and return its number."""
        if sub in self._numbers:
            return self._numbers[sub]
        inputs = dict.fromkeys(t.node for t in sub.inputs)
        if any(not isinstance(n.op, Placeholder) for n in inputs):
            raise GraphError("a sub-graph takes something else than its own placeholders")
        nodes = [*inputs, *(n for n in sub.nodes if n not in inputs)]
        rows = self._rows(nodes)
        number = self._numbers[sub] = len(self._graphs)
        for node in nodes:
            if isinstance(node.op, Constant):
                self.arrays[f"{number}:{node.name}"] = node.graph.values.array(node.name)
        ends = {"inputs": [t.name for t in sub.inputs], "outputs": [t.name for t in sub.outputs]}
        self._graphs.append(
            f'{{"name": {_text(sub.graph.name)}, {_text(ends)[1:-1]},'
            f' "nodes": [{_lines(rows, "    ")}]}}'
        )
        return number


def _notes(graph: Graph) -> str:
    """Return what others know of a graph, where they have anything to say."""
    found = {k: v.to_json() if hasattr(v, "to_json") else v for k, v in graph.notes.items()}
    kept = {k: v for k, v in found.items() if v}
    return f',\n "notes": {_text(kept)}' if kept else ""


def _text(value: Any) -> str:
    """Return JSON that can be encoded, or say what is wrong with it."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except ValueError as error:  # half a surrogate pair, an endless integer
        raise GraphError(f"cannot be written as JSON: {error}") from None
    return text


def _lines(rows: Sequence[str], indent: str = "  ") -> str:
    return "".join(f"\n{indent}{row}," for row in rows)[:-1]


def _spec_text(spec: TensorSpec) -> str:
    if isinstance(spec, OptionalSpec):
        return f"opt({_spec_text(spec.element)})"
    if isinstance(spec, SequenceSpec):
        if spec.item_shape is None:
            return f"seq({dtype_name(spec.item_dtype)})"
        return f"seq({_spec_text(TensorSpec(spec.item_shape, spec.item_dtype))})"
    if isinstance(spec, OneOf):
        return "|".join(map(_spec_text, spec.options))
    for d in spec.shape:
        if isinstance(d, Dim) and d != ANY and Dim.parse(str(d)) != d:
            raise GraphError(f"the dimension {d} could not be read again")
    return f"{dtype_name(spec.dtype)}[{', '.join(map(str, spec.shape))}]"


def _known(spec: TensorSpec) -> list[Any] | None:
    """Return the known value of a spec as a flat list of ints and dims as text."""
    if spec.value is None:
        return None
    flat = np.ravel(spec.value).tolist()
    if not all(type(v) is int or isinstance(v, Dim) for v in flat):
        return None
    return [str(v) if isinstance(v, Dim) else v for v in flat]


def reference_of(value: Any, where: str) -> Reference | None:
    """Return node name and output of ``split:1``."""
    if value is None:
        return None
    name, colon, index = expect(value, str, "in", where).partition(":")
    if not colon:
        return name, 0
    if not index.isascii() or not index.isdecimal() or index[0] == "0" or len(index) > 9:
        raise ArchiveError(f"{value[:60]!r} is not the name of an output", where=where)
    return name, int(index)

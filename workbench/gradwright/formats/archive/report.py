"""What is in an archive, told without reading an array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ArchiveError
from ...graph import Placeholder
from ...spec import TensorSpec
from ...words.tables import Table, size
from ..memory import Memory, Use, check_sizes, estimated
from ..report import Finding, ModelInfo, some, table
from .archive import STATE, VALUES, states_of
from .attributes import find_class, op_fields
from .container import Reader
from .document import DOCUMENT, SOURCES, STORED, reference_of
from .rebuild import Document, SpecReader
from .tensors import shards_in


@dataclass(frozen=True)
class ShardInfo:
    """One safetensors member: its name in the archive, its size, and the specs of its tensors.

    ``file`` is the file beside the archive that it is, if it is one.

    >>> from gradwright.formats.archive import ShardInfo
    >>> ShardInfo("values/00001-of-00001.safetensors", 64, {}).nbytes
    64
    """

    member: str
    nbytes: int
    tensors: Mapping[str, TensorSpec]
    file: str = ""


@dataclass(frozen=True, repr=False)
class ArchiveInfo(ModelInfo):
    """Contents of an archive; ``repr`` is a table.

    ``ops`` counts nodes by op without sources, sub-graphs included; ``unknown_ops`` says for each
    op that cannot run here why. ``states`` are the names that :func:`load_state` takes; in
    ``tensors`` theirs stand before a colon, as in ``optimizer:w/momentum``.

    >>> import gradwright as gw, tempfile, pathlib
    >>> g = gw.Graph("line")
    >>> y = g.placeholder("x", ("B", 2)) @ g.variable("w", (2, 1))
    >>> path = pathlib.Path(tempfile.mkdtemp(), "line.gw")
    >>> g.save(path)
    >>> gw.inspect(path)
    line.gw: a graph archive 'line', 3 nodes, 1.35 kB
      inputs        x f32[B, 2]
      ops           matmul 1
      tensors       1 with 2 elements
      dtypes        float32 8 B
      variables     1 with 2 elements, 2 elements trainable
      largest tensors
      tensor  spec       bytes
      w       f32[2, 1]  8
      files
      shard                              tensors  bytes
      values/00001-of-00001.safetensors  1        72
    """

    nodes: int
    placeholders: Mapping[str, TensorSpec]
    variables: Mapping[str, TensorSpec]
    trainable: tuple[str, ...]
    shards: tuple[ShardInfo, ...]
    states: tuple[str, ...]

    def title(self) -> str:
        """Return what it is, in a line."""
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes:,} nodes"
        return f"{self.format} {self.name!r}, {nodes}, {size(self.nbytes)}"

    def facts(self) -> dict[str, str]:
        """Return what is told in a line each."""
        elements = {n: s.size for n, s in self.variables.items()}
        trained = sum(elements[n] for n in self.trainable)
        variables = (
            f"{len(elements):,} with {sum(elements.values()):,} elements, "
            f"{trained:,} elements trainable"
        )
        return {**super().facts(), "variables": variables, "states": some(self.states)}

    def tables(self) -> list[Table]:
        """Return what is told in rows."""
        rows = [[s.file or s.member, f"{len(s.tensors):,}", f"{s.nbytes:,}"] for s in self.shards]
        return [*super().tables(), table("files", ["shard", "tensors", "bytes"], rows)]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        shards = [{"member": s.member, "file": s.file, "bytes": s.nbytes} for s in self.shards]
        return {
            **super().as_dict(),
            "trainable": list(self.trainable),
            "states": list(self.states),
            "shards": shards,
        }


def described(reader: Reader, path: Path) -> ArchiveInfo:
    """Return what an open archive holds."""
    document = Document(reader.json(DOCUMENT))
    states = states_of(reader)
    shards = tuple(
        ShardInfo(m.name, m.size, {e.name: TensorSpec(e.shape, e.dtype) for e in entries}, m.file)
        for folder in (VALUES, *(f"{STATE}/{name}" for name in states))
        for m, entries in shards_in(reader, folder)
    )
    ops, unknown = _count_ops(document)
    rows = {k: [r for r in document.rows if r["op"] == k] for k in ("placeholder", "variable")}
    specs = SpecReader()
    tensors = {_prefix(s.member) + n: t for s in shards for n, t in s.tensors.items()}
    apart = {*document.apart}
    if lost := [n for r in rows["variable"] if (n := r["name"]) not in tensors and n not in apart]:
        raise ArchiveError(f"the array of {lost[0][:80]!r} is missing")
    return ArchiveInfo(
        path=path,
        nbytes=reader.nbytes,
        name=document.name,
        ops=ops,
        unknown_ops={name: why for name, (why, _) in unknown.items()},
        tensors=tensors,
        nodes=len(document.rows),
        placeholders={r["name"]: specs.read(r["out"][0], DOCUMENT) for r in rows["placeholder"]},
        variables={
            r["name"]: tensors.get(r["name"]) or specs.read(r["out"][0], DOCUMENT)
            for r in rows["variable"]
        },
        trainable=tuple(r["name"] for r in rows["variable"] if r.get("trainable")),
        shards=shards,
        states=tuple(states),
        inputs={r["name"]: str(specs.read(r["out"][0], DOCUMENT)) for r in rows["placeholder"]},
        unknown_nodes={name: tuple(nodes) for name, (_, nodes) in unknown.items()},
        findings=[
            Finding(f"{len(apart):,} arrays of the model were left out: it holds what was trained")
        ]
        * bool(apart),
    )


def memory_of(reader: Reader, info: ModelInfo, sizes: Mapping[str, int]) -> Memory:
    """Return what the graph of an open archive would take at certain sizes of its inputs."""
    rows, specs = Document(reader.json(DOCUMENT)).rows, SpecReader()
    place = {row["name"]: i for i, row in enumerate(rows)}
    uses, inputs, weights = [], {}, []
    for row in rows:
        results = tuple(specs.read(text, DOCUMENT) for text in row["out"])
        if row["op"] == Placeholder.name:
            inputs[row["name"]] = results[0]
        elif row["op"] in STORED:
            weights.append(info.tensors.get(row["name"], results[0]))
        refs = [reference_of(ref, DOCUMENT) for ref in row.get("in", ())]
        reads = tuple(place[ref[0]] for ref in refs if ref is not None and ref[0] in place)
        uses.append(Use(results, reads, row["op"] in SOURCES))
    check_sizes(sizes, inputs)
    return estimated(uses, weights, inputs.values(), sizes)


def _prefix(member: str) -> str:
    """Return what stands before the names of the tensors of a member of the archive."""
    folder = member.rpartition("/")[0]
    return "" if folder == VALUES else folder.removeprefix(f"{STATE}/") + ":"


def _count_ops(document: Document) -> tuple[dict[str, int], dict[str, tuple[str, list[str]]]]:
    """Return how often each op occurs, most frequent first, and which are not known, why and where.

    An op may be unknown inside of another.
    """
    counts: dict[str, int] = {}
    unknown: dict[str, tuple[str, list[str]]] = {}
    looked_up: dict[tuple[str, int], str] = {}
    for row in (*document.rows, *(r for g in document.graphs for r in g["nodes"])):
        if row["op"] in SOURCES:
            continue
        counts[row["op"]] = counts.get(row["op"], 0) + 1
        for found in _ops_in(row):
            name, version, _ = op_fields(found, DOCUMENT)
            if (name, version) not in looked_up:
                why = find_class(name, version)
                looked_up[name, version] = why if isinstance(why, str) else ""
            if why := looked_up[name, version]:
                unknown.setdefault(name, (why, []))[1].append(row["name"])
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))), unknown


def _ops_in(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the op of a row, and those its attributes hold."""
    stack: list[Any] = [row]
    while stack:
        match stack.pop():
            case {"op": _} as found:
                yield found
                attrs = found.get("attrs")
                stack.extend(attrs.values() if isinstance(attrs, dict) else ())
            case list() as values:
                stack.extend(values)

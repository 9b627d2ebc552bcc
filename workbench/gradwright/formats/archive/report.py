"""What is in an archive, told without reading an array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ArchiveError
from ...spec import TensorSpec
from ...words.tables import size
from ..registry import ModelInfo
from .archive import STATE, VALUES, AnyPath, opened, states_of
from .attributes import find_class, op_fields
from .container import Reader
from .document import DOCUMENT, SOURCES
from .rebuild import Document, SpecReader
from .tensors import shards_in

MAX_ITEMS, MAX_ROWS = 12, 20
"""How much of a list ``repr`` shows."""


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
    line.gw: graph 'line', 3 nodes, 1.35 kB
      placeholders  x f32[B, 2]
      ops           matmul 1
      variables     1 with 2 elements, 2 elements trainable
      dtypes        float32 8 B
      shard                              tensors  bytes
      ─────────────────────────────────────────────────
      values/00001-of-00001.safetensors        1     72
    """

    nodes: int
    placeholders: Mapping[str, TensorSpec]
    variables: Mapping[str, TensorSpec]
    trainable: tuple[str, ...]
    shards: tuple[ShardInfo, ...]
    states: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        elements = {n: s.size for n, s in self.variables.items()}
        trained = sum(elements[n] for n in self.trainable)
        facts = {
            "placeholders": _some(f"{n} {s}" for n, s in self.placeholders.items()),
            "ops": _some(f"{n} {k:,}" for n, k in self.ops.items()),
            "unknown ops": _some(f"{n} {why}" for n, why in self.unknown_ops.items()),
            "variables": f"{len(elements):,} with {sum(elements.values()):,} elements, "
            f"{trained:,} elements trainable",
            "dtypes": _some(f"{n} {size(k)}" for n, k in self.dtypes.items()),
            "states": _some(self.states),
        }
        yield f"{self.path.name}: graph {self.name!r}, {self.nodes:,} nodes, {size(self.nbytes)}"
        yield from (f"  {label:<12}  {text}" for label, text in facts.items() if text)
        rows = [
            (s.file or s.member, f"{len(s.tensors):,}", f"{s.nbytes:,}")
            for s in self.shards[:MAX_ROWS]
        ]
        table = [("shard", "tensors", "bytes"), *rows]
        widths = [max(len(r[i]) for r in table) for i in range(3)]
        for i, row in enumerate(table):
            yield f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}"
            if i == 0:
                yield "  " + "─" * (sum(widths) + 4)
        if len(self.shards) > MAX_ROWS:
            yield f"  and {len(self.shards) - MAX_ROWS:,} more"


def _some(items: Iterable[str]) -> str:
    found = list(items)
    more = f", and {len(found) - MAX_ITEMS:,} more" if len(found) > MAX_ITEMS else ""
    return ", ".join(found[:MAX_ITEMS]) + more


def inspect(path: AnyPath) -> ArchiveInfo:
    """Return sizes, dtypes, op counts, placeholders and shards of an archive, reading no arrays.

    Raises ArchiveError where the file is damaged; the checksums of arrays are not verified.

    >>> import gradwright as gw, tempfile, pathlib
    >>> g = gw.Graph("line")
    >>> y = g.placeholder("x", ("B", 2)) @ g.variable("w", (2, 1))
    >>> path = pathlib.Path(tempfile.mkdtemp(), "line.gw")
    >>> g.save(path)
    >>> info = gw.inspect(path)
    >>> info.ops, str(info.placeholders["x"]), info.shards[0].tensors
    ({'matmul': 1}, 'f32[B, 2]', {'w': f32[2, 1]})
    """
    with opened(path) as reader:
        return described(reader, Path(path))


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
    if lost := [r["name"] for r in rows["variable"] if r["name"] not in tensors]:
        raise ArchiveError(f"the array of {lost[0][:80]!r} is missing")
    return ArchiveInfo(
        path=path,
        nbytes=reader.nbytes,
        name=document.name,
        ops=ops,
        unknown_ops=unknown,
        tensors=tensors,
        nodes=len(document.rows),
        placeholders={r["name"]: specs.read(r["out"][0], DOCUMENT) for r in rows["placeholder"]},
        variables={r["name"]: tensors[r["name"]] for r in rows["variable"]},
        trainable=tuple(r["name"] for r in rows["variable"] if r.get("trainable")),
        shards=shards,
        states=tuple(states),
    )


def _prefix(member: str) -> str:
    """Return what stands before the names of the tensors of a member of the archive."""
    folder = member.rpartition("/")[0]
    return "" if folder == VALUES else folder.removeprefix(f"{STATE}/") + ":"


def _count_ops(document: Document) -> tuple[dict[str, int], dict[str, str]]:
    """Return how often each op occurs, most frequent first, and which ones are not known here."""
    counts: dict[str, int] = {}
    unknown: dict[str, str] = {}
    looked_up: set[tuple[str, int]] = set()
    for row in (*document.rows, *(r for g in document.graphs for r in g["nodes"])):
        if row["op"] in SOURCES:
            continue
        counts[row["op"]] = counts.get(row["op"], 0) + 1
        for found in _ops_in(row):
            name, version, _ = op_fields(found, DOCUMENT)
            if (name, version) not in looked_up:
                looked_up.add((name, version))
                if isinstance(why := find_class(name, version), str):
                    unknown[name] = why
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

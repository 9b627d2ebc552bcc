"""What a file of a model is, told before it is loaded: as text, as JSON, and in a notebook."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..spec import TensorSpec, dtype_name, is_floating
from ..words.tables import Table, size
from .language import LanguageShape
from .memory import Memory

MAX_ITEMS, MAX_ROWS = 12, 20
"""How much of a list is shown; JSON has all of it."""
LARGEST = 8
"""Tensors that are shown, the largest first."""


@dataclass(frozen=True)
class Finding:
    """What whoever opens a file should know: what was found, and where.

    A ``grave`` one keeps the file from being loaded as it is.
    """

    what: str
    where: str = ""
    grave: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


@dataclass(frozen=True)
class Packed:
    """What a tensor lies in a file as, where it takes other bytes than its elements do in memory.

    >>> from gradwright.formats.report import Packed
    >>> Packed("q4_0", 18)
    Packed(kind='q4_0', nbytes=18)
    """

    kind: str
    nbytes: int


@dataclass(frozen=True, repr=False)
class ModelInfo:
    """What the headers of a file tell, without its arrays; ``print`` and a notebook show it.

    ``ops`` counts nodes by op, sub-graphs included; ``unknown_ops`` says of each op that cannot run
    here why, and ``unknown_nodes`` which nodes it is. ``inputs`` and ``outputs`` are types with
    their symbolic sizes, ``versions`` those of the format and of domains of operators.
    """

    path: Path
    nbytes: int
    name: str
    ops: Mapping[str, int]
    unknown_ops: Mapping[str, str]
    tensors: Mapping[str, TensorSpec]
    format: str = field(default="", kw_only=True)
    producer: str = field(default="", kw_only=True)
    versions: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    inputs: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    outputs: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    unknown_nodes: Mapping[str, Sequence[str]] = field(default_factory=dict, kw_only=True)
    findings: Sequence[Finding] = field(default=(), kw_only=True)
    memory: Memory | None = field(default=None, kw_only=True)
    """Estimated for the ``sizes`` that ``gw.inspect`` was given, or for usual ones of a language
    model; else None."""
    architecture: str = field(default="", kw_only=True)
    """What a model is called that is made of more than its ops, such as ``"llama"``."""
    language: LanguageShape | None = field(default=None, kw_only=True)
    """The sizes of a language model."""
    tokenizer: str = field(default="", kw_only=True)
    """What text becomes tokens by, in a line."""
    metadata: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """What else a file says of itself."""
    packed: Mapping[str, Packed] = field(default_factory=dict, kw_only=True)
    """Tensors that are stored in other bytes than their spec tells, such as blocks of few bits."""
    files: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    """The bytes of each file, where there are several."""

    @property
    def dtypes(self) -> dict[str, int]:
        """Bytes of arrays by dtype, or by what they are packed as."""
        found: dict[str, int] = {}
        for name in self.tensors:
            kind, nbytes = self.stored(name)
            found[kind] = found.get(kind, 0) + nbytes
        return found

    @property
    def parameters(self) -> int:
        """Elements of all tensors."""
        return sum(spec.size for spec in self.tensors.values())

    def stored(self, name: str) -> tuple[str, int]:
        """Return what a tensor is stored as, and in how many bytes."""
        if name in self.packed:
            return self.packed[name].kind, self.packed[name].nbytes
        spec = self.tensors[name]
        return dtype_name(spec.dtype), spec.nbytes

    def largest(self, n: int = LARGEST) -> list[tuple[str, TensorSpec]]:
        """Return the largest tensors by bytes, the largest first."""
        return sorted(self.tensors.items(), key=lambda item: -self.stored(item[0])[1])[:n]

    def at_sizes(self, sizes: Mapping[str, int]) -> Memory:
        """Return what a language model takes at a ``length`` and a ``batch``, as it is stored."""
        assert self.language is not None
        weights = sum(self.stored(name)[1] for name in self.tensors)
        floating = sum(
            spec.nbytes
            for name, spec in self.tensors.items()
            if name not in self.packed and is_floating(spec.dtype)
        )
        return self.language.memory(weights, floating, sizes)

    # -- views -----------------------------------------------------------------------------------

    def title(self) -> str:
        """Return what it is, in a line."""
        return f"{self.format} {self.name!r}".strip() + f", {size(self.nbytes)}"

    def facts(self) -> dict[str, str]:
        """Return what is told in a line each; empty ones are not shown."""
        return {
            "architecture": self.architecture,
            "producer": self.producer,
            "versions": some(f"{name} {n:,}" for name, n in self.versions.items()),
            "inputs": some(f"{name} {spec}" for name, spec in self.inputs.items()),
            "outputs": some(f"{name} {spec}" for name, spec in self.outputs.items()),
            "ops": some(f"{name} {n:,}" for name, n in self.ops.items()),
            "tensors": f"{len(self.tensors):,} with {self.parameters:,} elements",
            "dtypes": some(f"{name} {size(n)}" for name, n in self.dtypes.items()),
            "tokenizer": self.tokenizer,
            "metadata": some(f"{name} {text[:40]}" for name, text in self.metadata.items()),
            "files": some(f"{name} {size(n)}" for name, n in self.files.items()),
            "memory": str(self.memory or ""),
            "this machine": "" if self.memory is None else self.memory.beside_machine(),
        }

    def tables(self) -> list[Table]:
        """Return what is told in rows."""
        unknown = [
            [name, f"{self.ops.get(name, 0):,}", why, some(self.unknown_nodes.get(name, ()), 4)]
            for name, why in self.unknown_ops.items()
        ]
        rows = [
            [name, str(spec), *[kind if name in self.packed else ""] * bool(self.packed), f"{n:,}"]
            for name, spec in self.largest()
            for kind, n in [self.stored(name)]
        ]
        found = [["refused" if f.grave else "note", str(f)] for f in self.findings]
        return [
            table("cannot run here", ["op", "nodes", "why", "where"], unknown),
            table(
                "largest tensors", ["tensor", "spec", *["as"] * bool(self.packed), "bytes"], rows
            ),
            table("findings", ["weight", "found"], found),
        ]

    def __str__(self) -> str:
        facts = [f"  {key:<12}  {text}" for key, text in self.facts().items() if text]
        notes = [] if self.memory is None else textwrap.wrap(self.memory.counts, 84)
        tables = [f"  {line}" for t in self.tables() if t.rows for line in str(t).splitlines()]
        return "\n".join(
            [f"{self.path.name}: {self.title()}", *facts, *(f"{'':<16}{n}" for n in notes), *tables]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [[key, text] for key, text in self.facts().items() if text]
        notes = [] if self.memory is None else [self.memory.counts]
        facts = Table([self.path.name, self.title()], rows, notes=notes)
        return "".join(t._repr_html_() for t in [facts, *self.tables()] if t.rows)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        return {
            "path": str(self.path),
            "format": self.format,
            "name": self.name,
            "bytes": self.nbytes,
            "producer": self.producer,
            "versions": dict(self.versions),
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "ops": dict(self.ops),
            "unknown_ops": {
                name: {"why": why, "nodes": list(self.unknown_nodes.get(name, ()))}
                for name, why in self.unknown_ops.items()
            },
            "parameters": self.parameters,
            "dtypes": self.dtypes,
            "architecture": self.architecture,
            "language": None if self.language is None else self.language.as_dict(),
            "tokenizer": self.tokenizer,
            "metadata": dict(self.metadata),
            "files": dict(self.files),
            "tensors": {name: self._row(name) for name in self.tensors},
            "memory": None if self.memory is None else self.memory.as_dict(),
            "findings": [
                {"what": f.what, "where": f.where, "grave": f.grave} for f in self.findings
            ],
        }

    def _row(self, name: str) -> dict[str, Any]:
        spec, (kind, nbytes) = self.tensors[name], self.stored(name)
        return {"dtype": kind, "shape": list(spec.shape), "bytes": nbytes}

    def to_json(self) -> str:
        """Return all of it as JSON."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False)


def table(title: str, columns: Sequence[str], rows: list[list[str]]) -> Table:
    """Return the first rows of a table, and how many more there are."""
    more = len(rows) - MAX_ROWS
    return Table(
        columns, rows[:MAX_ROWS], title=title, notes=[f"and {more:,} more"] if more > 0 else []
    )


def some(items: Iterable[str], most: int = MAX_ITEMS) -> str:
    """Return the first few of a list, and how many more there are.

    >>> some(["a", "b"]), some(map(str, range(20)), 3)
    ('a, b', '0, 1, 2, and 17 more')
    """
    found = list(items)
    more = f", and {len(found) - most:,} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more

"""What a file of a model is, told before it is loaded: as text, as JSON, and in a notebook."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..spec import TensorSpec, dtype_name
from ..words.tables import Table, size
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
    """Estimated for the ``sizes`` that ``gw.inspect`` was given, else None."""

    @property
    def dtypes(self) -> dict[str, int]:
        """Bytes of arrays by dtype."""
        found: dict[str, int] = {}
        for spec in self.tensors.values():
            name = dtype_name(spec.dtype)
            found[name] = found.get(name, 0) + spec.nbytes
        return found

    @property
    def parameters(self) -> int:
        """Elements of all tensors."""
        return sum(spec.size for spec in self.tensors.values())

    def largest(self, n: int = LARGEST) -> list[tuple[str, TensorSpec]]:
        """Return the largest tensors by bytes, the largest first."""
        return sorted(self.tensors.items(), key=lambda item: -item[1].nbytes)[:n]

    # -- views -----------------------------------------------------------------------------------

    def title(self) -> str:
        """Return what it is, in a line."""
        return f"{self.format} {self.name!r}".strip() + f", {size(self.nbytes)}"

    def facts(self) -> dict[str, str]:
        """Return what is told in a line each; empty ones are not shown."""
        return {
            "producer": self.producer,
            "versions": some(f"{name} {n:,}" for name, n in self.versions.items()),
            "inputs": some(f"{name} {spec}" for name, spec in self.inputs.items()),
            "outputs": some(f"{name} {spec}" for name, spec in self.outputs.items()),
            "ops": some(f"{name} {n:,}" for name, n in self.ops.items()),
            "tensors": f"{len(self.tensors):,} with {self.parameters:,} elements",
            "dtypes": some(f"{name} {size(n)}" for name, n in self.dtypes.items()),
            "memory": str(self.memory or ""),
        }

    def tables(self) -> list[Table]:
        """Return what is told in rows."""
        unknown = [
            [name, f"{self.ops.get(name, 0):,}", why, some(self.unknown_nodes.get(name, ()), 4)]
            for name, why in self.unknown_ops.items()
        ]
        rows = [[name, str(spec), f"{spec.nbytes:,}"] for name, spec in self.largest()]
        found = [["refused" if f.grave else "note", str(f)] for f in self.findings]
        return [
            table("cannot run here", ["op", "nodes", "why", "where"], unknown),
            table("largest tensors", ["tensor", "spec", "bytes"], rows),
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
            "tensors": {
                name: {"dtype": dtype_name(s.dtype), "shape": list(s.shape), "bytes": s.nbytes}
                for name, s in self.tensors.items()
            },
            "memory": None if self.memory is None else self.memory.as_dict(),
            "findings": [
                {"what": f.what, "where": f.where, "grave": f.grave} for f in self.findings
            ],
        }

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

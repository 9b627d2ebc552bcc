"""What is known of a world's operators, as a mapping that prints as a table and goes to JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...words.tables import Table, Tabular
from .node import Reader
from .rules import Rule


class Known(Tabular, dict[tuple[str, str], Sequence[Reader]]):
    """(domain, operator) -> its readers, oldest version first; ``print`` says how each is read.

    >>> import gradwright as gw
    >>> known = gw.onnx.operators()
    >>> known["", "HardSigmoid"][0].as_dict()["attributes"]["alpha"]
    {'type': 'float', 'default': 0.2}
    """

    def table(self) -> Table:
        """Return a row for each reader."""
        rows = [
            [domain, op_type, str(reader.since), reader.says, _what(reader)]
            for (domain, op_type), readers in sorted(self.items())
            for reader in readers
        ]
        return Table(["domain", "operator", "since", "read by", "becomes"], rows)

    __repr__ = Tabular.__str__

    def as_dict(self) -> list[dict[str, Any]]:
        """Return what ``to_json`` writes: an object for each reader."""
        return [
            {"domain": domain, "operator": op_type, **reader.as_dict(), **_rule(reader)}
            for (domain, op_type), readers in sorted(self.items())
            for reader in readers
        ]

    def to_json(self) -> str:
        """Return all of it as JSON."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False)


def _rule(reader: Reader) -> dict[str, Any]:
    return reader.read.as_dict() if isinstance(reader.read, Rule) else {}


def _what(reader: Reader) -> str:
    """Return what a rule says, in a line."""
    said = _rule(reader)
    if not said:
        return ""
    takes = [f"{key}={source}" for key, source in said.get("takes", {}).items()]
    return ", ".join([said["op"], *takes])

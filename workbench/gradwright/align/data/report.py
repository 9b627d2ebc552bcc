"""What became of the rows of data: which were dropped, cut, or are worth a look, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import FeedError

SHOWN = 8
"""Rows or problems that a message names; the others are counted."""
FATES = ("dropped", "cut", "kept")


@dataclass(frozen=True, slots=True)
class Note:
    """What became of a row of the data, and why."""

    row: int
    fate: str
    """``"dropped"``, ``"cut"``, or ``"kept"``: used as it is, and yet worth a look."""
    why: str


@dataclass(frozen=True)
class DataReport:
    """What became of the rows of data. Printed it is a table, and ``notes`` are its data.

    >>> import gradwright as gw
    >>> tokenizer = gw.models.CharTokenizer("ab.")
    >>> data = {"prompt": ["a", "b"], "completion": ["b", ""]}
    >>> print(gw.align.examples(data, "completion", tokenizer, eos=2).report)
    2 rows read, 1 used
    dropped  1  empty completion  row 1
    """

    read: int
    used: int
    notes: Sequence[Note] = ()

    def counts(self) -> dict[tuple[str, str], int]:
        """Return how many rows there are of each fate and reason."""
        return {key: len(rows) for key, rows in self._grouped().items()}

    def rows(self, why: str) -> list[int]:
        """Return the numbers of the rows that something is said of."""
        return [note.row for note in self.notes if note.why == why]

    def __str__(self) -> str:
        lines = [f"{self.read:,} rows read, {self.used:,} used"]
        groups = sorted(self._grouped().items(), key=lambda item: FATES.index(item[0][0]))
        table = [(fate, f"{len(rows):,}", why, numbered(rows)) for (fate, why), rows in groups]
        widths = [max((len(row[i]) for row in table), default=0) for i in range(3)]
        for fate, n, why, rows in table:
            lines.append(f"{fate:{widths[0]}}  {n:>{widths[1]}}  {why:{widths[2]}}  {rows}")
        return "\n".join(lines)

    def _grouped(self) -> dict[tuple[str, str], list[int]]:
        groups: dict[tuple[str, str], list[int]] = {}
        for note in self.notes:
            groups.setdefault((note.fate, note.why), []).append(note.row)
        return groups


class Problems:
    """What is wrong with rows, collected, so that one error names all of it."""

    def __init__(self) -> None:
        self._found: list[tuple[int, str]] = []

    def add(self, row: int, column: str, came: str, need: str) -> None:
        """Note what a column of a row holds, and what was needed."""
        self._found.append((row, f"row {row}, {column!r}: {came}; needed: {need}"))

    def check(self) -> None:
        """Raise a FeedError of all problems, if there are any; the first of them are shown."""
        if not self._found:
            return
        rows = len({row for row, _ in self._found})
        more = len(self._found) - SHOWN
        facts = [text for _, text in sorted(self._found, key=lambda found: found[0])[:SHOWN]]
        raise FeedError(
            f"{rows:,} {'row' if rows == 1 else 'rows'} of the data cannot be read",
            facts=[*facts, f"and {more:,} more"] if more > 0 else facts,
        )


def numbered(rows: Iterable[int]) -> str:
    """Return numbers of rows for a message, the first few of many.

    >>> numbered([3]), numbered(range(10))
    ('row 3', 'rows 0, 1, 2, 3, 4, 5, 6, 7, ...')
    """
    held = list(rows)
    shown = ", ".join(map(str, held[:SHOWN])) + (", ..." if len(held) > SHOWN else "")
    return f"{'row' if len(held) == 1 else 'rows'} {shown}"


def told(value: Any) -> str:
    """Return what a value is for a message: its kind and, of a short one, its text.

    >>> told(None), told("x"), told([1])
    ('nothing', "the text 'x'", 'a list of 1')
    """
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f"the text {value[:40]!r}" + ("..." if len(value) > 40 else "")
    if isinstance(value, bool | int | float):
        return f"{type(value).__name__} {value!r:.40}"
    size = f" of {len(value)}" if hasattr(value, "__len__") else ""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}{size}"

"""Table: rows of text that print aligned and show as HTML in a notebook."""

from __future__ import annotations

import html
from collections.abc import Sequence

_STYLE = "text-align: left; vertical-align: top"
"""JupyterLab would set all cells to the right, texts as well."""
_CAPTION, _NOTE = "text-align: left; padding: 0 0.5em 0.4em", "font-size: smaller"
"""JupyterLab would centre the one, and set the other larger than the cells."""
_WHOLE, SHORT = "; white-space: nowrap", 24
"""Cells of so few characters are not broken into lines."""


class Table:
    """A small table; ``str(table)`` is aligned text, a notebook shows HTML. Cells are text.

    >>> print(Table(["name", "size"], [["w", "6"], ["bias", "12"]], title="parameters"))
    parameters
    name  size
    w     6
    bias  12
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        title: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        self.columns, self.rows = list(columns), [list(r) for r in rows]
        self.title, self.notes = title, list(notes)

    def __str__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(row[i]) for row in lines) for i in range(len(self.columns))]
        text = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in lines
        ]
        return "\n".join([*([self.title] if self.title else []), *text, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def cells(row: Sequence[str], tag: str) -> str:
            return "".join(
                f'<{tag} style="{_STYLE if len(cell) > SHORT else _STYLE + _WHOLE}">'
                f"{html.escape(cell)}</{tag}>"
                for cell in row
            )

        body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in self.rows)
        caption = self.title and f'<caption style="{_CAPTION}">{html.escape(self.title)}</caption>'
        notes = "".join(f'<p style="{_NOTE}">{html.escape(note)}</p>' for note in self.notes)
        head = f"<thead><tr>{cells(self.columns, 'th')}</tr></thead>"
        return f"<table>{caption}{head}<tbody>{body}</tbody></table>{notes}"


class Tabular:
    """What is shown as its table: ``str`` gives aligned text, a notebook HTML.

    >>> class Sizes(Tabular):
    ...     def table(self) -> Table:
    ...         return Table(["name", "size"], [["w", "6"]])
    >>> print(Sizes())
    name  size
    w     6
    """

    def table(self) -> Table:
        """Return what is shown."""
        raise NotImplementedError

    def __str__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()


def size(n: int) -> str:
    """Return bytes as text of three digits and a unit.

    >>> size(999), size(1536), size(3_200_000_000), size(10**400)[:4]
    ('999 B', '1.54 kB', '3.2 GB', '1000')
    """
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if n >= factor:
            whole = (n + factor // 2) // factor  # what a file claims may be too large for a float
            return f"{n / factor:.3g} {unit}" if 2 * n < 1999 * factor else f"{whole} {unit}"
    return f"{n} B"

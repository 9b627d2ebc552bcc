"""Kernels of a plan as a table: what each step runs as, and why some are left to numpy."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from ..graph import Node, Tensor
from ..program.executor import Executor
from ..program.row import Row, short, sizes
from ..words.tables import Table

SHOWN = 60
"""How many rows a text shows."""


class Kernels:
    """What a plan runs, step after step; a table in a notebook, and as text.

    While kernels are being compiled numpy runs, and the table shows those that will come.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> plan = gw.Session(g, kernels="off").plan(gw.exp(x).sum(), {"x": (4, 3)})
    >>> plan.kernels
    <Kernels: 2 steps in numpy: kernels="off">
    >>> [(row.what, row.node, row.ops) for row in plan.kernels]
    [('numpy', 'exp', ('exp',)), ('numpy', 'sum', ('sum',))]
    """

    def __init__(self, executors: Sequence[Executor]) -> None:
        self.rows: list[Row] = []
        self.state = ", ".join(dict.fromkeys(e.state for e in executors if e.state))
        """Why not all of it is machine code by now; empty when it is as it stays."""
        for executor in executors:
            self.rows += executor.rows(len(self.rows), 1 + max(self._chains(), default=0))

    def _chains(self) -> list[int]:
        return list(dict.fromkeys(row.chain for row in self.rows if row.chain is not None))

    @property
    def counts(self) -> dict[str, int]:
        """How many steps run as what; a kernel that is not compiled yet counts as one."""
        found: dict[str, int] = {}
        for row in self.rows:
            found[row.what] = found.get(row.what, 0) + 1
        return found

    def of(self, node: Node | Tensor | str) -> list[Row]:
        """Return the rows that serve a node of the graph, given itself or by name.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", (3,))
        >>> kernels = gw.Session(g).plan(gw.exp(x, name="e") * 2.0, {"x": (3,)}).kernels
        >>> [row.node for row in kernels.of("e")]
        ['e']
        """
        name = node if isinstance(node, str) else node.name
        return [row for row in self.rows if any(name == n.name for n in row.origins)]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, step: int) -> Row:
        return self.rows[step]

    def __repr__(self) -> str:
        return f"<Kernels: {self.said()}>"

    def __str__(self) -> str:
        return str(self._table())

    def said(self) -> str:
        """Say in a line what there is."""
        counts, n_ops = self.counts, sum(len(r.ops) for r in self.rows if r.what == "kernel")
        words = {
            "kernel": f"kernel{{s}} for {n_ops} ops",
            "product": "product{s}",
            "copy": "cop{ies}",
            "machine code": "other{s} in machine code",
            "plans": "step{s} with plans inside",
            "numpy": "step{s} in numpy",
            "view": "view{s}",
        }
        parts = [
            f"{counts[what]} {text.format(**_endings(counts[what]))}"
            for what, text in words.items()
            if what in counts
        ]
        if chains := self._chains():
            parts.append("{} chain{s}".format(len(chains), **_endings(len(chains))))
        return ", ".join(parts or ["no steps"]) + (f": {self.state}" if self.state else "")

    def _table(self, shown: int = SHOWN) -> Table:
        """Return what takes time, step by step: views are left out."""
        columns = ["step", "what", "node", "ops", "over", "chain", "why not machine code"]
        listed = [row for row in self.rows if row.what != "view"]
        rows = [
            [
                str(row.step),
                row.what if row.is_ready else f"({row.what})",
                short(row.node),
                short(" ".join(row.ops)),
                sizes(row.space),
                "" if row.chain is None else str(row.chain),
                row.why,
            ]
            for row in listed[:shown]
        ]
        used = [i for i in range(len(columns)) if i < 5 or any(row[i] for row in rows)]
        more = len(listed) - shown
        return Table(
            [columns[i] for i in used],
            [[row[i] for i in used] for row in rows],
            title=self.said(),
            notes=[f"and {more} more"] if more > 0 else [],
        )

    def _repr_html_(self) -> str:
        def block(row: Row) -> str:
            title = html.escape(f"{row.step} {row.node}: {' '.join(row.ops)}")
            text = html.escape(row.ir)
            return f"<details><summary>{title}</summary><pre>{text}</pre></details>"

        table = self._table(len(self.rows))
        title, table.title = table.title, ""
        kernels = "".join(block(row) for row in self.rows if row.ir)
        inside = f"<details><summary>what each kernel computes</summary>{kernels}</details>"
        return (
            f"<p>{html.escape(title)}</p>"
            f'<div style="max-height: 26em; overflow: auto">{table._repr_html_()}</div>'
            f"{inside if kernels else ''}"
        )


def _endings(n: int) -> dict[str, str]:
    """Return how words end that are counted."""
    return {"s": "" if n == 1 else "s", "ies": "y" if n == 1 else "ies"}

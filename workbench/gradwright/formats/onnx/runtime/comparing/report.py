"""What a comparison of two runtimes has found, node by node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .....errors import GraphError
from .....graph import Graph
from .....words.tables import Table, Tabular

Verdict = Literal["ok", "differs", "fails", "inside", "random", "unknown"]
SHOWN = 20
LEAST, MOST = 1e-3, 1e3
"""Between these a drawing is coloured, as shares of what rounding explains."""


@dataclass(frozen=True)
class NodeComparison:
    """One node of ours beside those of the model that make the same.

    ``own`` is how far its result is off where it gets the inputs of the other runtime; ``error``
    is the same where both have run from what is fed, so what came with its inputs is in it. Both
    are ‖y − y'‖₂ / ‖y'‖₂.
    """

    name: str
    """Its address, in a loop with the turn; a scope, with a slash behind, where it is several."""
    op: str
    onnx: str
    """Operators and result in the model: ``Gemm 'logits'``."""
    spec: str
    error: float
    """NaN where ours has not come that far."""
    own: float
    ratio: float
    """The largest difference, in shares of what rounding explains: above 1 it is none."""
    verdict: Verdict
    """``inside`` is one that differs because of a node that it encloses."""
    reason: str
    second: str = ""
    """What onnx.reference says where the two differ."""
    where: str = ""
    """The user's line."""
    drawn: tuple[str, ...] = ()
    """What it is in a drawing: nodes, or addresses inside of some."""

    @property
    def differs(self) -> bool:
        """Whether rounding does not explain it."""
        return self.verdict in ("differs", "fails")

    def __str__(self) -> str:
        line = f" ({self.where})" if self.where else ""
        told = [f"{self.op} {self.name!r}{line}, {self.onnx}: {self.reason}", self.second]
        return "; ".join(filter(None, told))


class Comparison(Tabular, Sequence[NodeComparison]):
    """All nodes of a graph beside those of its model, in the order in which they run.

    ``gw.onnx.compare`` returns one. ``graph`` is the graph that was compared: the one that was
    given, or what the model is read into.
    """

    def __init__(
        self, graph: Graph, rows: Iterable[NodeComparison], by: str, *, stopped: bool = False
    ) -> None:
        self.graph, self.by, self.stopped = graph, by, stopped
        self._rows = list(rows)

    def __getitem__(self, index: Any) -> Any:
        """Return by number, by name, or the worst of a scope, which has a slash behind."""
        if not isinstance(index, str):
            return self._rows[index]
        if index.endswith("/"):
            found = [r for r in self._rows if any(d.startswith(index) for d in r.drawn)]
        else:
            found = [r for r in self._rows if index == r.name or index in r.drawn]
        if not found:
            raise GraphError(f"no node {index!r} was compared", hint="table() lists them")
        return max(found, key=_badness)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def first(self) -> NodeComparison | None:
        """The first node that differs beyond rounding, None where all agree."""
        return next((row for row in self._rows if row.differs), None)

    @property
    def agrees(self) -> bool:
        """Whether no node differs beyond rounding."""
        return self.first is None

    @property
    def faults(self) -> list[NodeComparison]:
        """All nodes that differ on the same inputs; none because of another."""
        return [row for row in self._rows if row.differs]

    def worst(self, n: int = 10) -> list[NodeComparison]:
        """Return the nodes that differ most, in shares of what rounding explains."""
        return sorted(self._rows, key=_badness, reverse=True)[:n]

    @property
    def colours(self) -> dict[str, float]:
        """Node or address -> its difference, in shares of what rounding explains, 0.001 to 1000."""
        found: dict[str, float] = {}
        for row in self._rows:
            if row.verdict in ("random", "unknown"):
                continue
            share = min(max(_badness(row), LEAST), MOST)
            found.update({name: max(share, found.get(name, 0.0)) for name in row.drawn})
        return found

    def table(self, n: int | None = SHOWN) -> Table:
        """Return the nodes in their order; those that differ, and else ``n`` at most."""
        kept = self._rows if n is None else _first_and_worst(self._rows, n)
        rows = [
            [
                r.name, r.op, r.onnx, r.spec, _number(r.error), _number(r.own), _share(r),
                r.verdict, "; ".join(filter(None, (r.reason, r.second))),
            ]
            for r in kept
        ]  # fmt: skip
        columns = ["node", "op", "in the model", "result", "error", "of it here", "of rounding"]
        left = len(self) - len(kept)
        return Table(
            [*columns, "verdict", "why"],
            rows,
            title=repr(self)[1:-1],
            notes=[f"and {left} more, by table(None)"] if left else [],
        )

    def __repr__(self) -> str:
        first, others = self.first, len(self.faults) - 1
        head = f"{self.graph.name!r} beside {self.by}"
        if first is None:
            n = sum(row.verdict == "ok" for row in self._rows)
            apart = len(self) - n
            left = f", {apart} not compared" if apart else ""
            stopped = ", stopped early" if self.stopped else ""
            return f"<{head}: {n} nodes agree{left}{stopped}>"
        more = f", and {others} more" if others else ""
        return f"<{head}: the first that differs is {first.op} {first.name!r}{more}>"


def _badness(row: NodeComparison) -> float:
    return float("inf") if row.verdict == "fails" else row.ratio


def _first_and_worst(rows: Sequence[NodeComparison], n: int) -> list[NodeComparison]:
    """Return all that differ and the worst of the others, in their order."""
    ranked = sorted(range(len(rows)), key=lambda i: (not rows[i].differs, -_badness(rows[i])))
    wrong = sum(row.differs for row in rows)
    return [rows[i] for i in sorted(ranked[: max(n, wrong)])]


def _number(x: float) -> str:
    return "" if x != x else "0" if x == 0 else f"{x:.1e}"


def _share(row: NodeComparison) -> str:
    if row.verdict in ("random", "unknown", "fails"):
        return ""
    return "equal" if row.ratio == 0 else f"{row.ratio:.2g}" if row.ratio < 1e6 else "beyond"

"""Trained: how much of a model is trained, place by place."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ..graph import Graph, Node, Tensor
from ..spec import is_floating
from ..words.tables import Table, Tabular, size
from .site import Place, Site, sites

SHOWN = 40


@dataclass(frozen=True)
class TrainedRow:
    """What is trained at a place: how many numbers, in how many bytes, and of which shapes."""

    place: str
    leaves: dict[str, tuple[int, ...]]
    n_trained: int
    nbytes: int
    n_weight: int
    """Numbers of the weight that it stands beside; 0 where that is none."""

    @property
    def percent(self) -> float:
        """What is trained, of the weight it stands beside."""
        return 100 * self.n_trained / self.n_weight if self.n_weight else 100.0


@dataclass(frozen=True, repr=False)
class Trained(Tabular):
    """What is trained of a model, of ``n_all`` numbers; it prints as a table."""

    rows: tuple[TrainedRow, ...]
    n_all: int

    @property
    def n_trained(self) -> int:
        """Numbers that are trained."""
        return sum(row.n_trained for row in self.rows)

    @property
    def nbytes(self) -> int:
        """Bytes of them."""
        return sum(row.nbytes for row in self.rows)

    @property
    def percent(self) -> float:
        """What is trained, of all numbers of the model."""
        return 100 * self.n_trained / self.n_all if self.n_all else 0.0

    def table(self) -> Table:
        """Return the rows as text."""
        rows = [
            [
                row.place,
                ", ".join(f"{k} {'x'.join(map(str, v))}" for k, v in row.leaves.items()),
                f"{row.n_trained:,}",
                size(row.nbytes),
                f"{row.percent:.2f}%" if row.n_weight else "",
            ]
            for row in self.rows[:SHOWN]
        ]
        more = [f"and {len(self.rows) - SHOWN:,} more"] if len(self.rows) > SHOWN else []
        return Table(
            ["place", "variables", "trained", "bytes", "of its weight"],
            rows,
            title=f"{self.n_trained:,} of {self.n_all:,} numbers are trained: {self.percent:.4f}%",
            notes=more,
        )


def trained(
    graph: Graph,
    named: Mapping[str, Mapping[str, Tensor]],
    places: Sequence[Place],
    but: Collection[Tensor] = (),
    apart: Collection[Node] = (),
) -> Trained:
    """Return what is trained of a graph: variables of adapters by place, and what else is.

    ``but`` count as none, such as those of other adapters that are switched off; ``apart`` are the
    nodes of adapters, in which there are no weights of the model.
    """
    weights = {p.name: p.size for p in places if isinstance(p, Site)}
    own = {t for leaves in named.values() for t in leaves.values()}
    rest = {t.name: {"": t} for t in graph.trainable if t not in {*own, *but}}
    rows = []
    for place, leaves in {**named, **rest}.items():
        held = {leaf: t for leaf, t in leaves.items() if t.trainable}
        if held:
            shapes = {leaf: tuple(map(int, t.shape)) for leaf, t in held.items()}
            n = sum(map(_size, held.values()))
            nbytes = sum(_size(t) * t.dtype.itemsize for t in held.values())
            rows.append(TrainedRow(place, shapes, n, nbytes, weights.get(place, 0)))
    kept = {t for t in own if not t.trainable}  # such as the importances of AdaLoRA
    return Trained(tuple(rows), _count(graph, {*but, *kept}, apart))


def _size(t: Tensor) -> int:
    return math.prod(map(int, t.shape))


def _count(graph: Graph, but: Collection[Tensor], apart: Collection[Node]) -> int:
    """Return how many numbers a model has: packed weights by what they unpack to."""
    floats = {t for t in graph.variables if is_floating(t.dtype)} - {*but}
    rest = [s.size for s in sites(graph, but=but, apart=apart) if s.weight not in floats]
    return sum(map(_size, floats)) + sum(rest)

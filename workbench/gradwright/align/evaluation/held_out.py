"""HeldOut: what a model answered to prompts that it was not trained on, greedily and drawn."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import TrainingError
from ...words.jsonable import jsonable
from ...words.tables import Table, Tabular
from .statistics import pass_at, wilson

if TYPE_CHECKING:
    import plotly.graph_objects as go

Array = np.ndarray[Any, Any]


@jsonable
@dataclass(frozen=True)
class Answers:
    """Answers to each prompt, drawn in one way: ``texts[i][j]`` is the j-th to prompt i."""

    texts: tuple[tuple[str, ...], ...]
    right: tuple[tuple[bool, ...], ...]
    """Whether the verifier takes it."""
    formed: tuple[tuple[bool, ...], ...]
    """Whether it has the form of an answer, right or wrong."""
    lengths: tuple[tuple[int, ...], ...]
    """In tokens, with the one that ended it."""

    @property
    def samples(self) -> int:
        """How many answers there are to each prompt."""
        return len(self.right[0]) if self.right else 0


@jsonable
@dataclass(frozen=True)
class HeldOut(Tabular):
    """What a model answered to prompts, and how often it was right; ``gw.align.evaluate`` makes it.

    Printed it is a table of ways to draw and of slices of the prompts. Intervals are Wilson's, of
    95 %, and count each prompt once, however many answers were drawn: those to one prompt are
    alike. Settings and answers are data: ``to_json`` of ``gradwright.words.jsonable`` keeps them.

    >>> from gradwright.align.evaluation.held_out import Answers, HeldOut
    >>> said = Answers((("4",), ("6",)), ((True,), (False,)), ((True,), (True,)), ((2,), (2,)))
    >>> seen = HeldOut(("2+2=", "2+3="), {"greedy": said}, {"odd": (False, True)})
    >>> print(seen)
    2 held-out prompts
    slice      prompts  greedy
    all              2  0.500 (0.095-0.905)
    odd=False        1  1.000 (0.207-1.000)
    odd=True         1  0.000 (0.000-0.793)
    well-formed      2  1.000 (0.342-1.000)
    """

    prompts: tuple[str, ...]
    ways: Mapping[str, Answers]
    """By how they were drawn: ``"greedy"``, ``"sampled"``."""
    slices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Columns of the data that prompts are told apart by, a value for each prompt."""

    def __post_init__(self) -> None:
        n = len(self.prompts)
        counts = {f"{w} answers": len(a.right) for w, a in self.ways.items()}
        counts |= {f"values of {name!r}": len(v) for name, v in self.slices.items()}
        for what, count in counts.items():
            if count != n:
                raise TrainingError(
                    f"there are {what} of {count} prompts", need=f"one of each of {n}"
                )

    def right(self, way: str = "greedy") -> Array:
        """Return which answers are right: bool[prompts, samples]."""
        return np.array(self.answers(way).right, bool).reshape(len(self.prompts), -1)

    def answers(self, way: str = "greedy") -> Answers:
        """Return the answers that were drawn in one way."""
        if way not in self.ways:
            raise TrainingError(f"no answers were drawn {way!r}", need=", ".join(self.ways))
        return self.ways[way]

    def rate(self, way: str = "greedy", among: Array | None = None) -> float:
        """Return how often answers are right; ``among``, bool[prompts], leaves out others."""
        right = self.right(way) if among is None else self.right(way)[among]
        return float(right.mean()) if right.size else float("nan")

    def interval(self, way: str = "greedy", among: Array | None = None) -> tuple[float, float]:
        """Return the interval of ``rate`` that holds the true one in 95 % of evaluations."""
        n = len(self.prompts) if among is None else int(among.sum())
        return wilson(self.rate(way, among) * n, n) if n else (0.0, 1.0)

    def format_rate(self, way: str = "greedy") -> float:
        """Return how often answers have the form of one, right or wrong."""
        formed = np.array(self.answers(way).formed, bool)
        return float(formed.mean()) if formed.size else float("nan")

    def pass_at(self, k: int, way: str = "sampled") -> float:
        """Return how often one of k answers is right, as the mean over prompts."""
        samples = self.answers(way).samples
        each = [pass_at(k, sum(row), samples) for row in self.answers(way).right]
        return float(np.mean(each)) if each else float("nan")

    def groups(self) -> dict[str, Array]:
        """Return which prompts, bool[prompts], stand in each slice; the first are all."""
        found = {"all": np.ones(len(self.prompts), bool)}
        for name, values in self.slices.items():
            for value in sorted(set(values), key=lambda v: (str(type(v)), v)):
                found[f"{name}={value}"] = np.array([v == value for v in values], bool)
        return found

    def table(self) -> Table:
        """Return a row for each slice, with a column for each way to draw."""
        rows = []
        for name, among in self.groups().items():
            told = [spread(self.rate(w, among), self.interval(w, among)) for w in self.ways]
            rows.append([name, f"{int(among.sum()):>7}", *told])
        formed = []
        for way in self.ways:
            rate, n = self.format_rate(way), len(self.prompts)
            formed.append(spread(rate, wilson(rate * n, n)) if n else spread(rate, (0.0, 1.0)))
        rows.append(["well-formed", f"{len(self.prompts):>7}", *formed])
        for k in self._ks():
            told = [f"{self.pass_at(k, w):.3f}" if self._samples(w) >= k else "" for w in self.ways]
            rows.append([f"pass@{k}", f"{len(self.prompts):>7}", *told])
        title = f"{len(self.prompts)} held-out prompts"
        return Table(["slice", "prompts", *self.ways], rows, title=title)

    def plot(self) -> go.Figure:
        """Return a figure of the rates of each slice, with their intervals."""
        groups = self.groups()
        series = {
            way: [(self.rate(way, g), self.interval(way, g)) for g in groups.values()]
            for way in self.ways
        }
        return bars(list(groups), series, f"{len(self.prompts)} held-out prompts")

    def _samples(self, way: str) -> int:
        return self.answers(way).samples

    def _ks(self) -> list[int]:
        most = max(map(self._samples, self.ways), default=1)
        return [k for k in (2, 4, 8, 16, 32, 64) if k <= most]


def spread(rate: float, interval: tuple[float, float]) -> str:
    """Return a rate with its interval as tables show it.

    >>> spread(0.95, (0.935, 0.962))
    '0.950 (0.935-0.962)'
    """
    return f"{rate:.3f} ({interval[0]:.3f}-{interval[1]:.3f})" if rate == rate else "-"


Rates = Mapping[str, list[tuple[float, tuple[float, float]]]]
"""For each series, rates with their intervals."""


def bars(names: list[str], series: Rates, title: str) -> go.Figure:
    """Return a figure of rates, side by side, with their intervals."""
    import plotly.graph_objects as go

    figure = go.Figure()
    labels = [html.escape(name, quote=False) for name in names]
    for name, points in series.items():
        above = [high - rate for rate, (_, high) in points]
        below = [rate - low for rate, (low, _) in points]
        spread_ = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
        figure.add_bar(x=labels, y=[rate for rate, _ in points], name=name, error_y=spread_)
    figure.update_xaxes(type="category")
    figure.update_yaxes(title="right answers", range=[0, 1.05])
    figure.update_layout(template="plotly_white", barmode="group", title=title)
    return figure

"""Measures: the loss and all metrics together, per batch and summed over an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import TrainingError
from ...evaluation.metrics import Mean, Metric
from ...graph import Graph, Tensor
from ...graph.cells import means_the_same
from ..position import Totals

OWN = (
    *("loss", "grad_norm", "learning_rate", "step", "epoch", "seconds"),
    *("loss_scale", "l1_penalty", "l2_penalty"),
)
"""Names of what the trainer itself records."""


class Total(Mean):
    """The mean over examples of the sum of several losses."""

    def __init__(self, losses: Sequence[Tensor]) -> None:
        super().__init__(losses[0])
        self.fetches = tuple(losses)

    def add(self, total: Any, arrays: Sequence[Any], rows: int) -> Any:
        """Add a batch, weighted by its examples."""
        return super().add(total, [np.array(sum(float(a) for a in arrays))], rows)


class Measures:
    """Named metrics, the loss first; a scalar tensor stands for its mean over examples.

    Several losses are recorded each by its name, and their sum as ``loss``.
    """

    def __init__(
        self,
        graph: Graph,
        losses: Mapping[str, Tensor],
        metrics: Mapping[str, Tensor | Metric | str],
    ) -> None:
        self._graph = graph
        parts = list(losses.values())
        self._metrics: dict[str, Metric] = {
            "loss": Mean(*parts) if len(parts) == 1 else Total(parts)
        }
        for name, metric in [*(losses.items() if len(parts) > 1 else ()), *metrics.items()]:
            self._metrics[name] = _metric(
                name, graph[metric] if isinstance(metric, str) else metric
            )
        self._slices: list[tuple[str, Metric, slice]] = []
        """Which of the fetched arrays are whose."""
        start = 0
        for name, metric in self._metrics.items():
            stop = start + len(metric.fetches)
            self._slices.append((name, metric, slice(start, stop)))
            start = stop
        for t in self.fetches():
            graph.check_member(t)

    def fetches(self) -> list[Tensor]:
        """Return the tensors to fetch, as they stand in the graph now."""
        return [now(self._graph, t) for m in self._metrics.values() for t in m.fetches]

    def add(self, totals: Totals, arrays: Sequence[Any], rows: int) -> Totals:
        """Return the totals with one more batch; arrays beyond those of ``fetches`` are ignored."""
        return {
            name: metric.add(totals[name] if name in totals else metric.start(), arrays[own], rows)
            for name, metric, own in self._slices
        }

    def of_batch(self, arrays: Sequence[Any]) -> dict[str, float]:
        """Return the numbers of one batch alone; what is beyond those of ``fetches`` is ignored."""
        return {
            name: float(arrays[own.start])
            if type(metric) is Mean
            else _number(name, metric, metric.add(metric.start(), arrays[own], 1))
            for name, metric, own in self._slices
        }

    def results(self, totals: Totals) -> dict[str, float]:
        """Return the numbers that totals stand for."""
        return {n: _number(n, m, totals.get(n, m.start())) for n, m in self._metrics.items()}

    def check(self, saved: Mapping[str, Any]) -> None:
        """Raise TrainingError for saved totals that are not of these metrics."""
        if saved.keys() - self._metrics.keys():
            raise TrainingError(
                f"saved totals of {', '.join(saved)} do not belong to these metrics",
                need=", ".join(self._metrics),
            )
        for name, totals in saved.items():
            try:
                self._metrics[name].result(totals)
            except Exception as error:
                raise TrainingError(f"saved totals of {name} are none: {error}") from error


def now(graph: Graph, t: Tensor) -> Tensor:
    """Return what ``t`` has become: a cell that ran again replaces its nodes.

    Raises GraphError if it is gone, or if its name now stands for something else.
    """
    held = graph.get(t.name)
    return held if held is not None and means_the_same(t.node, held.node) else graph.check_member(t)


def _metric(name: str, metric: Any) -> Metric:
    if name in OWN or name.startswith("val_"):
        raise TrainingError(
            f"a metric cannot be called {name!r}",
            need=f"another name than {', '.join(OWN)} and val_...",
            hint='several losses can be named: {"main": a, "auxiliary": b}' * (name == "loss"),
        )
    if isinstance(metric, Tensor):
        return Mean(metric)
    if not isinstance(metric, Metric):
        raise TrainingError(
            f"metric {name!r} is a {type(metric).__name__}",
            need="a scalar tensor or a gw.metrics.Metric",
        )
    for t in metric.fetches:
        if not isinstance(t, Tensor):
            raise TrainingError(
                f"metric {name!r} fetches {t!r}, a {type(t).__name__}", need="tensors of the graph"
            )
    return metric


def _number(name: str, metric: Metric, total: Any) -> float:
    value = metric.result(total)
    if not isinstance(value, int | float | np.number):
        raise TrainingError(
            f"the result of metric {name!r} is {value!r}, a {type(value).__name__}", need="a float"
        )
    return float(value)

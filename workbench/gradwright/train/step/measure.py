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
from .weighing import divisor

OWN = (
    *("loss", "grad_norm", "learning_rate", "step", "epoch", "seconds"),
    *("loss_scale", "l1_penalty", "l2_penalty"),
)
"""Names of what the trainer itself records."""


class Measures:
    """Named metrics, the loss first; a scalar tensor stands for its mean over an epoch.

    In it, a batch weighs what the scalar is a mean over, such as the tokens that a mask shows
    (``weighing``); where that is unknown, its examples. Several losses are recorded each by its
    name, and their sum as ``loss``.
    """

    def __init__(
        self,
        graph: Graph,
        losses: Mapping[str, Tensor],
        metrics: Mapping[str, Tensor | Metric | str],
    ) -> None:
        self._graph = graph
        parts = list(losses.items())
        self._parts = [name for name, _ in parts] if len(parts) > 1 else []
        """The losses whose sum is recorded, too."""
        self._metrics: dict[str, Metric] = {} if self._parts else {"loss": Mean(parts[0][1])}
        for name, metric in [*(parts if self._parts else ()), *metrics.items()]:
            self._metrics[name] = _metric(
                name, graph[metric] if isinstance(metric, str) else metric
            )
        for metric in self._metrics.values():
            for t in metric.fetches:
                graph.check_member(t)
        self._slices: list[tuple[str, Metric, slice, bool]] = []
        """Which of the fetched arrays are whose, and whether the last one is its weight."""
        self._means: list[tuple[str, int]] | None = None
        """Where the scalars are, if there are no other metrics."""
        self.fetches()

    def fetches(self) -> list[Tensor]:
        """Return the tensors to fetch, as they stand in the graph now."""
        found: list[Tensor] = []
        slices = []
        for name, metric in self._metrics.items():
            start = len(found)
            found += [now(self._graph, t) for t in metric.fetches]
            own = slice(start, len(found))
            weight = divisor(found[start]) if type(metric) is Mean else None
            slices.append((name, metric, own, weight is not None))
            found += [] if weight is None else [weight]
        self._slices = slices
        are_means = all(type(metric) is Mean for metric in self._metrics.values())
        self._means = [(name, own.start) for name, _, own, _ in slices] if are_means else None
        return found

    def add(
        self, totals: Totals, arrays: Sequence[Any], rows: Any, *, as_given: bool = False
    ) -> Totals:
        """Return the totals with one more batch; arrays beyond those of ``fetches`` are ignored.

        It weighs what a mean is over, else its examples, ``rows``; ``as_given`` always ``rows``.
        """
        found = {}
        for name, metric, own, is_weighed in self._slices:
            weight: Any = float(arrays[own.stop]) if is_weighed and not as_given else rows
            total = totals[name] if name in totals else metric.start()
            found[name] = metric.add(total, arrays[own], weight)
        return found

    def of_batch(self, arrays: Sequence[Any]) -> dict[str, float]:
        """Return the numbers of one batch alone; what is beyond those of ``fetches`` is ignored."""
        if self._means is not None:
            found = {}
            for name, at in self._means:  # a comprehension would be a call more
                found[name] = float(arrays[at])
        else:
            found = {
                name: _number(name, metric, metric.add(metric.start(), arrays[own], 1))
                for name, metric, own, _ in self._slices
            }
        return self._with_sum(found) if self._parts else found

    def results(self, totals: Totals) -> dict[str, float]:
        """Return the numbers that totals stand for."""
        found = {n: _number(n, m, totals.get(n, m.start())) for n, m in self._metrics.items()}
        return self._with_sum(found) if self._parts else found

    def _with_sum(self, found: dict[str, float]) -> dict[str, float]:
        """Return numbers with the sum of the losses before them."""
        return {"loss": sum(found[name] for name in self._parts), **found}

    def check(self, saved: Mapping[str, Any]) -> None:
        """Raise TrainingError for saved totals that are not of these metrics."""
        if saved.keys() - self._metrics.keys() - {"loss"}:
            raise TrainingError(
                f"saved totals of {', '.join(saved)} do not belong to these metrics",
                need=", ".join(self._metrics),
            )
        for name in saved.keys() & self._metrics.keys():
            metric, totals = self._metrics[name], saved[name]
            try:
                if type(metric) is Mean:
                    _, _ = map(float, totals)  # a sum, and its weight
                metric.result(totals)
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

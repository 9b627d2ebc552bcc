"""Evaluations in a graph: as metrics of a trainer, and filled from data by ``gw.evaluate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..data import batches
from ..data.columns import label, listed
from ..errors import TrainingError
from ..graph import Graph, Tensor
from ..graph.walk import placeholders
from .base import Evaluation
from .model import computed, session_of


class Evaluated(dict[str, Evaluation | Sequence[Evaluation]]):
    """Evaluations by the name of what they are of; ``[...]`` takes the tensor as well.

    >>> import gradwright as gw
    >>> p = gw.Graph().placeholder("p", (None, 2))
    >>> Evaluated({"p": gw.evaluation.Regression()})[p].count
    0
    """

    def __missing__(self, key: Any) -> Evaluation | Sequence[Evaluation]:
        if isinstance(key, Tensor) and key.name in self:
            return self[key.name]
        raise KeyError(f"{label(key)} was not evaluated; there are {listed(self)}")


def evaluate(
    model: Any,
    data: Any,
    evaluations: Mapping[Any, Evaluation | Sequence[Evaluation]],
    labels: Any,
    *,
    mask: Any = None,
    batch_size: int | None = None,
) -> Evaluated:
    """Run a graph over data in eval mode, and return evaluations that have seen all of it.

    They come by the names of the tensors, and ``found[probs]`` takes the tensor as well.

    Args:
        model: a graph, a session, or a trainer, whose precision then counts.
        data: arrays by placeholder name, or an iterable of dicts.
        evaluations: one or several for each tensor of predictions, or its name; they take in what
            they see here on top of what they have seen.
        labels: a tensor of the graph, usually a placeholder, or its name; or, where they differ, a
            dict of them by predictions.
        mask: likewise; 0 where nothing counts.
        batch_size: examples per run, for arrays.

    Raises FeedError or GraphError for data or names that do not fit, and TrainingError for arrays
    where tensors belong, and for evaluations that do not say of which tensor.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, t = g.placeholder("x", (None, 2)), g.placeholder("t", (None,), "int64")
    >>> probs = gw.nn.softmax(2.0 * x, name="probs")
    >>> data = {"x": [[1, 0], [0, 1], [1, 0]], "t": [0, 1, 1]}
    >>> found = gw.evaluate(g, data, {"probs": gw.evaluation.Classification()}, labels="t")
    >>> found["probs"].accuracy()
    0.6666666666666666
    """
    session = session_of(model)
    graph = session.graph
    if not isinstance(evaluations, Mapping):
        raise TrainingError(
            f"the evaluations are of type {type(evaluations).__name__}",
            need="a dict of them by the tensor of predictions, or by its name",
            hint='gw.evaluate(model, data, {probs: gw.evaluation.Classification()}, labels="t")',
        )
    jobs = []
    for key, asked in evaluations.items():
        several = list(asked) if isinstance(asked, Sequence) else [asked]
        for one in several:
            if not isinstance(one, Evaluation):
                raise TrainingError(
                    f"{key!r} is to be evaluated by a {type(one).__name__}",
                    need="gw.evaluation.Classification(), ROC() ...",
                )
        own = [labels.get(key) if isinstance(labels, Mapping) else labels]
        own += [mask.get(key) if isinstance(mask, Mapping) else mask] if mask is not None else []
        if own[0] is None:
            raise TrainingError(f"there are no labels for {key!r}", need="labels={...: 't'}")
        whats = ("labels", "predictions", "mask")
        given = zip(whats, (own[0], key, *own[1:]), strict=False)
        fetches = [_tensor(graph, t, what) for what, t in given if t is not None]
        jobs.append((several, fetches))
    wanted = list(dict.fromkeys(t for _, fetches in jobs for t in fetches))
    source = batches(graph, data, placeholders(wanted), batch_size, exact=False)
    run = computed(model, wanted)
    for feeds, _ in source.epoch(0):
        found = dict(zip(wanted, session.run(run, feeds), strict=True))
        for several, fetches in jobs:
            for one in several:
                one.add(*(found[t] for t in fetches))
    return Evaluated({k.name if isinstance(k, Tensor) else k: e for k, e in evaluations.items()})


def _tensor(graph: Graph, key: Any, what: str) -> Tensor:
    """Return a tensor of the graph by itself or its name."""
    if isinstance(key, Tensor):
        return graph.check_member(key)
    if isinstance(key, str):
        return graph[key]
    raise TrainingError(
        f"what stands for the {what} is of type {type(key).__name__}",
        need="a tensor of the graph, or its name; its numbers belong to the data",
        hint='gw.evaluate(model, {"x": X, "t": T}, ..., labels="t")',
    )

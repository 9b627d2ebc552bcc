"""Placed: which placeholders the parts of a tuple of data are for."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.columns import Names
from ..graph import Graph
from .config import TrainingConfig


def placed(graph: Graph, config: TrainingConfig) -> Names | None:
    """Return the names of the parts of data that comes as tuples; None where none are stated.

    Patterns stand for the placeholders that they fit, in the order in which these were declared.
    The n-th mask of features masks the n-th of these, and so with labels.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> for name in ("x1", "x2", "t", "shown"):
    ...     _ = g.placeholder(name, (None,))
    >>> placed(g, gw.TrainingConfig(features="x*", labels="t", label_masks="shown"))
    ('x1', 'x2', 't', 'shown')
    """
    features, labels = _found(graph, config.features), _found(graph, config.labels)
    of_features, of_labels = (_found(graph, n) for n in (config.feature_masks, config.label_masks))
    names = Names((*features, *labels, *of_features, *of_labels, *_found(graph, config.masks)))
    pairs = [*zip(of_features, features, strict=False), *zip(of_labels, labels, strict=False)]
    ranks = {name: t.rank for name in names if (t := graph.get(name)) is not None}
    names.masks = {mask: (of, ranks.get(mask, 1)) for mask, of in pairs}
    return names or None


def _found(graph: Graph, given: Sequence[str]) -> list[str]:
    """Return the names of placeholders; what fits none stays, for the data to say so."""
    found: list[str] = []
    for name in given:
        fits = [] if name in graph else [t.name for t in graph.find(name)]
        found += [n for n in fits if graph[n].kind == "placeholder"] or [name]
    return found

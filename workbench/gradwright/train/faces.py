"""Training in one call: ``Graph.fit``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ..gradient.faces import only_loss
from ..graph import Graph
from .history import History
from .trainer import Trainer

OF_FIT = frozenset(inspect.signature(Trainer.fit).parameters) - {"self", "data", "more", "epochs"}
"""Options of ``Trainer.fit``; what else ``Graph.fit`` is given is for the trainer."""


def fit(
    graph: Graph, data: Any, epochs: int | None, loss: Any, options: Mapping[str, Any]
) -> History:
    """Train a graph; see ``Graph.fit``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=1.0)
    >>> loss = w * w
    >>> fit(g, [{}], 3, None, {"optimizer": "sgd", "progress": False}).steps.rows
    3
    """
    own = {name: value for name, value in options.items() if name not in OF_FIT}
    trainer = graph.fitted_by
    if trainer is None or own or loss is not None:
        if loss is None and not getattr(own.get("config"), "losses", ()):
            loss = only_loss(graph)
        trainer = Trainer(graph, loss, **own)
        graph.fitted_by = trainer
    rest = {name: value for name, value in options.items() if name in OF_FIT}
    history: History = trainer.fit(data, epochs=epochs, **rest)
    return history

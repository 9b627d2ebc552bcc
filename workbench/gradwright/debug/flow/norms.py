"""How large the gradient of a loss is at every node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...graph import Graph, Source, Tensor, Values, ancestors, member
from ...ops.core.identity import StopGradient
from ...spec import is_floating
from ..arguments import check_run
from ..check.probe import check_loss
from ..float64 import Float64Run
from .level import Level, norm_of, stabilised


def gradient_norms(
    graph: Graph,
    loss: Tensor | str,
    feeds: Mapping[Any, Any] | None = None,
    *,
    training: bool = True,
    seed: int = 0,
    values: Values | None = None,
) -> dict[str, float]:
    """Return ‖∂loss/∂y‖₂ of each node y that the loss depends on, by name.

    Forward and backward run once, node by node in float64, on a copy, as in ``explain_gradient``.
    Nodes that no gradient reaches, such as what leads to ``stop_gradient`` alone, are not in it.

    Args:
        graph: the graph that holds ``loss``.
        loss: a real scalar tensor, or its name.
        feeds: placeholder -> value, as for ``Session.run``.
        training: mode of dropout, batch norm and the like.
        seed: of random ops.
        values: where variables are read; default a snapshot of ``graph.values``.

    Raises GradientError if ``loss`` is not a real scalar; FeedError for feeds that do not fit.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[3.0, 4.0])
    >>> loss = (w * w).sum(name="loss")
    >>> gw.debug.gradient_norms(g, loss)
    {'w': 10.0, 'mul': 1.4142135623730951, 'loss': 1.0}
    """
    check_run("gradient_norms(graph, loss, feeds)", graph, training, values, seed=seed)
    target = member(graph, loss)
    check_loss(target)
    held = graph.values.snapshot() if values is None else values
    run = Float64Run([target], feeds or {}, values=held, seed=seed, training=training)
    own = {copy: t for t, copy in run.copies.items()}
    begins = (Source, StopGradient)
    starts = [t for t in run.env if isinstance(t.node.op, begins) and is_floating(t.dtype)]
    end = run.copies[target]
    end = stabilised(run, end, end)
    nodes = [n for n in ancestors([end]) if not isinstance(n.op, Source)]
    level = Level([(node, node.op) for node in nodes], run.env, starts, run.training)
    level.pull({end: np.ones(())})
    found: dict[str, list[Any]] = {}
    for copy, total in level.total.items():
        t = target if copy is end else own.get(copy)
        if t is not None:
            found.setdefault(t.node.name, []).append(total)
    norms = {name: norm_of(parts) for name, parts in found.items()}
    return {node.name: norms[node.name] for node in graph.all_nodes if node.name in norms}

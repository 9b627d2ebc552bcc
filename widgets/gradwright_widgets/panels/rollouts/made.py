"""Where the numbers of a token were made: the node in the graph, and what it is fed with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradwright import Graph
from gradwright.graph import ancestors

if TYPE_CHECKING:
    from gradwright.align import Experience


def log_probs_node(graph: Graph, trainer: Any) -> Any:
    """Return the node that computes the log-probabilities that are trained, None without one."""
    from gradwright.ops.losses.head import HeadLogProbs

    nodes = graph.nodes if trainer is None else ancestors(trainer.losses)
    found = [node for node in nodes if isinstance(node.op, HeadLogProbs)]
    return found[-1] if found else None


def row_feeds(seen: Experience, row: int, model: Any) -> dict[Any, Any] | None:
    """Return what one row of a rollout feeds to the model, None where its placeholders are unknown.

    Among it is what the row of the data feeds beside tokens, such as an image.
    """
    if model is None:
        return None
    fed = {
        model.graph[name]: np.asarray(v)[None] for name, v in seen.rollout.prompt(row).feeds.items()
    }
    return {model.ids: seen.ids[row : row + 1], model.labels: seen.labels[row : row + 1], **fed}

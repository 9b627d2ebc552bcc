"""A run without a session of one's own: what ``Graph.output`` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Graph, member
from .session import Session


def output(
    graph: Graph, feeds: Mapping[Any, Any], fetches: Sequence[Any]
) -> dict[str, np.ndarray[Any, Any]]:
    """Return arrays by name, computed in eval mode; without ``fetches`` all unused outputs.

    All in numpy, so that the same values give the same bits: kernels would come in the midst of a
    loop, or be too late.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> _ = g.constant(2.0) * 3.0
    >>> [float(y) for y in output(g, {}, ()).values()]
    [6.0]
    """
    unused = [t for n in graph.nodes if n.kind == "array" for t in n.public if not t.uses]
    tensors = [member(graph, f) for f in fetches or unused]
    with Session(graph, kernels="off") as session:
        return dict(zip((t.name for t in tensors), session.run(tensors, feeds), strict=True))

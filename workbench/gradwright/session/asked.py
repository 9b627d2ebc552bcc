"""Asked: what a graph keeps of being run without a session of one's own, so that it is cheap again.

A session for each way of running, and what was asked for by what was given. It goes when the graph
is edited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Graph, Tensor
from ..program.options import Kernels
from .prepared import Prepared
from .session import Session

Array = np.ndarray[Any, Any]
SMALL = 1 << 20
"""Bytes that may be kept between calls: arena and results of a plan; what takes more is let go."""
PLANS, MOST = 32, 256
"""How many plans and answers are kept of a graph."""


class Answer:
    """Some tensors of a graph as a function of feeds, in eval mode and at random step 0."""

    __slots__ = ("_is_small", "_names", "_prepared", "_session", "_shapes", "keys")

    def __init__(self, session: Session, names: Sequence[str], prepared: Prepared) -> None:
        self._session, self._names, self._prepared = session, tuple(names), prepared
        self._shapes: Any = None
        self._is_small = True

    def __call__(self, arrays: list[Any], out: Mapping[Any, Array] | None = None) -> list[Any]:
        """Return results by name; memory of a large run is let go."""
        request = self._prepared.request
        found = self._session._execute(request, arrays, 0, out)
        return found


def kept(graph: Graph, name: str, kernels: Kernels) -> Session:
    """Return the session of a graph by what it is for; a new one since the graph was edited."""
    held = graph.notes.get(name)

"""A run without a session of one's own: what ``Graph.output`` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Graph, Tensor, member
from .feeds import are_named, keyed
from .idle import give_back, is_small, taken
from .session import Session

Array = np.ndarray[Any, Any]


class Answer:
    """Some tensors as a function of arrays, at random step 0."""

    __slots__ = ("_is_small", "_names", "_request", "_shapes")

    def __init__(
        self, session: Session, tensors: Sequence[Tensor], feeds: Sequence[Tensor]
    ) -> None:
        self._names = tuple(t.name for t in tensors)
        self._request = session._request(list(tensors), feeds, None, False, None)
        self._shapes: Any = None
        self._is_small = True

    def __call__(self, session: Session, arrays: list[Any], out: Any) -> dict[str, Array]:
        """Return the arrays by name; the memory of a large plan is let go."""
        request, names = self._request, self._names
        found = session._execute(request, arrays, 0, out)
        if request.shapes is not self._shapes:
            self._shapes, self._is_small = request.shapes, is_small(request.plan())
        if not self._is_small:
            session.release("g.output has ended")
        return {names[0]: found[0]} if len(names) == 1 else dict(zip(names, found, strict=True))


def output(
    graph: Graph,
    feeds: Mapping[Any, Any],
    fetches: Sequence[Any],
    out: Mapping[Any, Array] | None = None,
) -> dict[str, Array]:
    """Return arrays by name, computed in eval mode; without ``fetches`` all unused outputs.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> _ = g.constant(2.0) * 3.0
    >>> [float(y) for y in output(g, {}, ()).values()]
    [6.0]
    """
    session = taken(graph, "later")
    try:
        answer = session.answers[tuple(fetches), tuple(feeds)]
        arrays = list(feeds.values())
    except (KeyError, TypeError, AttributeError):  # new, or none of tensors and dicts: see below
        answer, arrays = _answer(session, feeds, fetches)
    found: dict[str, Array] = answer(session, arrays, out)
    give_back(session)
    return found


def _answer(session: Session, feeds: Any, fetches: Sequence[Any]) -> tuple[Answer, list[Any]]:
    """Return what answers, to be found again if it stays the same, and what it is given."""
    graph, given = session.graph, keyed(session.graph, feeds)
    unused = [t for n in graph.nodes if n.kind == "array" for t in n.public if not t.uses]
    tensors = [member(graph, f) for f in fetches or unused]
    answer = Answer(session, tensors, list(given))
    once = len(given) == len(feeds)  # else one is given by name and as a tensor
    if fetches and once and are_named((*fetches, *feeds), (*tensors, *given)):
        session.answers[tuple(fetches), tuple(feeds)] = answer
    return answer, list(given.values())

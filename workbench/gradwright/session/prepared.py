"""Prepared: a request of a session as a function of its feeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FeedError
from ..graph import Tensor
from .feeds import keyed

if TYPE_CHECKING:
    from .request import Request
    from .session import Session


class Prepared:
    """A run that is checked once and called often; ``session.prepare`` makes it.

    Arrays are given in the order of ``feeds``, or as one dict by placeholder or name. What comes
    back, and what is committed, is that of ``Session.run``; graph edits and redefined ops count
    from the next call on.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", (None,)), g.variable("w", (), init=2.0)
    >>> session = gw.Session(g)
    >>> scaled = session.prepare(x * w, [x], {w: w + 1.0})
    >>> scaled(np.ones(2, np.float32)).tolist(), scaled({"x": [1.0]}).tolist()
    ([2.0, 2.0], [3.0])
    """

    __slots__ = ("_request", "_session")

    def __init__(self, session: Session, request: Request) -> None:
        self._session, self._request = session, request

    @property
    def feeds(self) -> tuple[Tensor, ...]:
        """What is fed, in order."""
        return self._request.feeds

    def __call__(
        self, *arrays: Any, step: int | None = None, out: Mapping[Any, Any] | None = None
    ) -> Any:
        """Run, commit the updates, and return the fetched arrays in the structure of the fetches.

        ``out`` are arrays for some of them, as of ``Session.run``. Raises FeedError for too few or
        too many arrays, and as ``Session.run`` does.

        >>> import gradwright as gw, numpy as np
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", (2,))
        >>> y = gw.exp(x, name="y")
        >>> call, found = gw.Session(g).prepare(y, [x]), np.zeros((3, 2), np.float32)
        >>> for row in found:
        ...     _ = call(np.zeros(2, np.float32), out={y: row})
        >>> found.sum().item()
        6.0
        """
        request, given = self._request, list(arrays)
        if len(given) == 1 and type(given[0]) is not np.ndarray and isinstance(given[0], Mapping):
            given = self._ordered(given[0])
        elif len(given) != len(request.feeds):
            raise self._misfed(f"{len(given)} arrays are given")
        return self._session._execute(request, given, step, out)

    def on(self, arrays: list[Any], step: int) -> Any:
        """Run on an array for each of ``feeds``, for callers that have counted them."""
        return self._session._execute(self._request, arrays, step)

    def _ordered(self, feeds: Mapping[Any, Any]) -> list[Any]:
        found = keyed(self._session.graph, feeds)
        if found.keys() != set(self._request.feeds):
            raise self._misfed(f"{', '.join(repr(t.name) for t in found) or 'nothing'} is given")
        return [found[t] for t in self._request.feeds]

    def _misfed(self, problem: str) -> FeedError:
        names = ", ".join(f"{t.name}: {t.spec}" for t in self._request.feeds)
        return FeedError(
            f"{problem} to what was prepared for other feeds",
            need=names or "no feeds",
            hint="session.prepare(fetches, feeds=[...]) states them",
        )

    def __repr__(self) -> str:
        takes = ", ".join(t.name for t in self._request.feeds)
        gives = ", ".join(t.name for t in self._request.fetches)
        return f"<Prepared ({takes}) -> ({gives})>"

"""Sessions that read the weights of another graph as they are now."""

from __future__ import annotations

from collections.abc import Iterable

from ..graph import Values
from ..session import Session


class Followed:
    """The values of a graph, of which sessions take over what has changed; none is copied.

    >>> import gradwright as gw
    >>> g, other = gw.Graph(), gw.Graph()
    >>> w, v = (graph.variable("w", (2,)) for graph in (g, other))
    >>> followed, session = Followed(g.values), gw.Session(other)
    >>> g.values["w"] = [1.0, 2.0]
    >>> followed.hand(["w"], session)
    >>> session.values["w"].tolist()
    [1.0, 2.0]
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        self._versions: dict[str, int] = {}

    def hand(self, names: Iterable[str], *sessions: Session) -> None:
        """Commit to sessions, always the same ones, what has changed since the last time.

        All is of one moment, while a trainer changes it.
        """
        held = self._values
        with held.lock:
            now = {name: held.version(name) for name in names if name in held}
            changed = {n: held.array(n) for n, v in now.items() if self._versions.get(n) != v}
            for session in sessions:
                session.values.commit(changed)
        self._versions = now

"""Running: which threads run a graph, so that edits are refused meanwhile."""

from __future__ import annotations

from threading import get_ident


class Running:
    """Counts a run of the thread while it lasts; a class, since a generator costs 1 us more."""

    __slots__ = ("_counts",)

    def __init__(self, counts: dict[int, int]) -> None:
        self._counts = counts

    def __enter__(self) -> None:
        thread = get_ident()
        self._counts[thread] = self._counts.get(thread, 0) + 1

    def __exit__(self, *exc: object) -> None:
        thread = get_ident()
        if self._counts[thread] == 1:
            del self._counts[thread]
        else:
            self._counts[thread] -= 1

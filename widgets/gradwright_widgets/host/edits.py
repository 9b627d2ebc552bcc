"""What was changed by hand on a page, which outlives its cell: a list that takes it back."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradwright import Graph

Undo = Callable[[Any], object]
"""Takes a change back; called with the desk of whoever asks, since a list outlives its widgets.

It holds nothing of the graph itself, or the graph would never be let go.
"""


@dataclass(frozen=True)
class Edit:
    """One change: of what, from what, to what, and what takes it back."""

    key: str
    what: str
    was: str
    now: str
    undo: Undo
    owner: weakref.ReferenceType[Any] | None = None
    """What the change goes with, such as a stepper; None for the graph."""

    @property
    def text(self) -> str:
        """The change in words."""
        return f"{self.what} {self.was} → {self.now}" if self.was else f"{self.what} {self.now}"

    @property
    def stands(self) -> bool:
        """Whether there still is what was changed."""
        return self.owner is None or self.owner() is not None


class Edits:
    """The changes of one graph, its training and its steppers, in the order they were made.

    All widgets of the graph share them, also those of a cell that runs again.

    >>> import gradwright as gw
    >>> edits, rates = edits_of(gw.Graph()), []
    >>> edits.note("rate", "learning rate", "0.1", "3", lambda desk: rates.append(0.1))
    >>> edits.note("rate", "learning rate", "3", "5", lambda desk: rates.append(3))
    >>> [edit.text for edit in edits.standing()]
    ['learning rate 0.1 → 5']
    >>> edits.undo(None, "rate"); rates, edits.standing()
    ([0.1], [])
    """

    def __init__(self) -> None:
        self._edits: dict[str, Edit] = {}
        self._lock = threading.Lock()
        self._listeners: list[weakref.WeakMethod[Callable[[], object]]] = []

    def listen(self, listener: Callable[[], object]) -> None:
        """Have a method called after each change of the list, as long as its object lives."""
        self._listeners.append(weakref.WeakMethod(listener))

    def note(
        self,
        key: str,
        what: str,
        was: str,
        now: str,
        undo: Undo,
        owner: object = None,
        *,
        exact: bool = True,
    ) -> None:
        """Note a change; one that changes again is taken back to what it was at first.

        What is as it was is none, where the words are ``exact``.
        """
        held = None if owner is None else weakref.ref(owner)
        with self._lock:
            first = self._edits.get(key)
            if first is not None and first.owner == held:
                was, undo = first.was, first.undo
            if exact and was == now:
                self._edits.pop(key, None)
            else:
                self._edits[key] = Edit(key, what, was, now, undo, held)
        self._tell()

    def forget(self, key: str) -> None:
        """Drop a change that is none any more."""
        with self._lock:
            self._edits.pop(key, None)
        self._tell()

    def forget_of(self, owner: object) -> None:
        """Drop the changes of what is thrown away."""
        with self._lock:
            gone = weakref.ref(owner)
            self._edits = {key: e for key, e in self._edits.items() if e.owner != gone}
        self._tell()

    def undo(self, desk: Any, key: str | None = None) -> None:
        """Take a change back, or all, the last one first; raises what that raises."""
        for edit in reversed(self.standing()):
            if key is None or edit.key == key:
                edit.undo(desk)
                self.forget(edit.key)

    def standing(self) -> list[Edit]:
        """Return the changes of what still is there."""
        with self._lock:
            self._edits = {key: edit for key, edit in self._edits.items() if edit.stands}
            return list(self._edits.values())

    def _tell(self) -> None:
        self._listeners = [known for known in self._listeners if known() is not None]
        for known in self._listeners:
            if (listener := known()) is not None:
                listener()


_KNOWN: weakref.WeakKeyDictionary[Graph, Edits] = weakref.WeakKeyDictionary()


def edits_of(graph: Graph) -> Edits:
    """Return the changes of a graph."""
    return _KNOWN.setdefault(graph, Edits())

"""Regular expressions in RE2's syntax, matched in time linear in the text.

Python's ``re`` backtracks: ``(a+)+b`` takes 2ⁿ steps on n times ``a``. So a pattern that comes with
a model is turned into a nondeterministic automaton (Thompson 1968), of which all states are
followed at once. Whether a text matches as a whole depends neither on greediness nor on groups.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ...errors import GraphError
from .characters import Characters
from .syntax import PERL, Parser, Tree

MAX_STATES = 20_000


class Pattern:
    """A compiled pattern: states numbered from 0, with edges that eat a character or none.

    >>> from gradwright.ops.texts.regex import Pattern
    >>> pattern = Pattern(r"(?i)(a+)+[^-_]b{2,3}")
    >>> [pattern.matches(text) for text in ("aAxbb", "a-bb", "aaxbbbb")]
    [True, False, False]
    """

    def __init__(self, text: str) -> None:
        tree = Parser(text).read()
        self.eats: list[list[tuple[Characters, int]]] = []
        self.free: list[list[tuple[str, int]]] = []
        """Edges without a character, and what must hold there: "", ``^``, ``$``, ``b``, ``B``."""
        self.start, self.end = self._build(tree)

    def matches(self, text: str) -> bool:
        """Tell whether the whole text fits."""
        current = self._reach({self.start: 0}, text, 0)
        for at, c in enumerate(text):
            following = {s: 0 for q in current for fits, s in self.eats[q] if fits(c)}
            if not following:
                return False
            current = self._reach(following, text, at + 1)
        return self.end in current

    def find(self, text: str, at: int = 0) -> tuple[int, int] | None:
        """Return where the first match from ``at`` on begins, and where the longest one ends.

        >>> from gradwright.ops.texts.regex import Pattern
        >>> Pattern("a|ab").find("cab")
        (1, 3)
        """
        begun: dict[int, int] = {}
        """State -> the first place where what came to it began."""
        found: tuple[int, int] | None = None
        for here in range(at, len(text) + 1):
            if found is None:
                begun[self.start] = min(begun.get(self.start, here), here)
            begun = self._reach(begun, text, here)
            if self.end in begun and (found is None or begun[self.end] <= found[0]):
                found = begun[self.end], here
            if here == len(text):
                break
            following: dict[int, int] = {}
            for q, place in begun.items():
                if found is None or place <= found[0]:
                    for fits, s in self.eats[q]:
                        if fits(text[here]):
                            following[s] = min(following.get(s, place), place)
            begun = following
            if found is not None and not begun:
                break
        return found

    def _reach(self, begun: dict[int, int], text: str, at: int) -> dict[int, int]:
        """Return all states that are reached without a character, with the first place of each."""
        found: dict[int, int] = {}
        for state, place in sorted(begun.items(), key=lambda item: item[1]):
            stack = [] if state in found else [state]
            found.setdefault(state, place)
            while stack:
                for needs, s in self.free[stack.pop()]:
                    if s not in found and (not needs or _holds(needs, text, at)):
                        found[s] = place
                        stack.append(s)
        return found

    def _state(self) -> int:
        if len(self.eats) >= MAX_STATES:
            raise GraphError(f"a pattern of more than {MAX_STATES:,} states", hint="a shorter one")
        self.eats.append([])
        self.free.append([])
        return len(self.eats) - 1

    def _build(self, node: Tree) -> tuple[int, int]:
        """Return the first and last state of a part of the pattern."""
        first = self._state()
        match node:
            case ("char", fits):
                last = self._state()
                self.eats[first].append((fits, last))
                return first, last
            case ("empty", needs):
                last = self._state()
                self.free[first].append((needs, last))
                return first, last
            case ("sequence", parts):
                return first, self._chain(first, parts)
            case ("either", parts):
                last = self._state()
                for part in parts:
                    self.free[self._chain(first, [part])].append(("", last))
                return first, last
            case ("repeat", part, least, most):
                last = self._chain(first, [part] * least)
                end = self._state()
                self.free[last].append(("", end))
                if most is None:
                    self.free[self._chain(end, [part])].append(("", end))
                for _ in range(0 if most is None else most - least):
                    last = self._chain(last, [part])
                    self.free[last].append(("", end))
                return first, end
        raise AssertionError(node)

    def _chain(self, last: int, parts: Sequence[Tree]) -> int:
        """Build parts behind a state, one behind the other, and return the last state."""
        for part in parts:
            a, b = self._build(part)
            self.free[last].append(("", a))
            last = b
        return last


def _holds(needs: str, text: str, at: int) -> bool:
    """Tell whether a place between characters is what an edge needs."""
    if needs == "^":
        return at == 0
    if needs == "$":
        return at == len(text)
    if needs == "^m":
        return at == 0 or text[at - 1] == "\n"
    if needs == "$m":
        return at == len(text) or text[at] == "\n"
    word = PERL["w"]
    before, after = at > 0 and word(text[at - 1]), at < len(text) and word(text[at])
    return (before != after) == (needs == "b")


@functools.lru_cache(maxsize=256)
def compiled(pattern: str) -> Pattern:
    """Return a pattern, compiled once."""
    return Pattern(pattern)

"""A pattern as a deterministic automaton over the bytes of UTF-8, built as far as it is walked.

Tokens are bytes, and may end within a character. So a state is what the pattern's own automaton
may be in, and the bytes of a character that is not whole yet; these stand for a range of code
points, and are let through where the range has a character that fits. From every state but the
dead one the end can be reached.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...errors import GraphError
from ...ops.texts.regex import Pattern

Array = np.ndarray[Any, Any]
DEAD, START = 0, 1
MAX_STATES = 50_000
"""States of an automaton: rows of a table, 1 kB each."""
UNKNOWN = -1
_State = tuple[frozenset[int], bytes]


class Automaton:
    """A pattern that a text has to fit as a whole, byte by byte.

    >>> from gradwright.models.grammar.automaton import Automaton
    >>> automaton = Automaton("é+[0-9]")
    >>> state = START
    >>> for byte in "éé".encode() + b"7":
    ...     state = automaton.step(state, byte)
    >>> automaton.accepts(state), automaton.step(START, ord("x")) == DEAD
    (True, True)
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = found = Pattern(pattern)
        anchors = {needs for edges in found.free for needs, _ in edges} - {"", "^", "$"}
        if anchors:
            raise GraphError(
                f"the pattern {pattern[:80]!r} asks what stands beside a place",
                facts=["word borders, or the begin and end of lines"],
                need="what each character has to be",
            )
        self._last = self._reaching({found.end}, ("", "$"), eats=False)
        """States that may be the end of a text."""
        self._useful = self._reaching(self._last, ("",), eats=True)
        self._lock = threading.Lock()
        self._states: list[_State] = []
        self._numbers: dict[_State, int] = {}
        self.table = np.empty((0, 256), np.int32)
        """State and byte -> state, `UNKNOWN` where nobody has asked yet."""
        self._number((frozenset(), b""))
        self.table[DEAD] = DEAD
        begin = self._closed([found.start], ("", "^"))
        if not begin:
            raise GraphError(f"no text fits the pattern {pattern[:80]!r}")
        self._number((begin, b""))

    def __len__(self) -> int:
        return len(self._states)

    def accepts(self, state: int) -> bool:
        """Tell whether a text may end in a state."""
        inner, pending = self._states[state]
        return not pending and not inner.isdisjoint(self._last)

    def step(self, state: int, byte: int) -> int:
        """Return the state behind a byte."""
        self.fill([state])
        return int(self.table[state, byte])

    def fill(self, states: Iterable[int]) -> None:
        """Work out the rows of states."""
        for state in states:
            if self.table[state, 0] == UNKNOWN:
                with self._lock:
                    row = self._row(*self._states[state])
                    self.table[state] = row

    # -- how it is built -------------------------------------------------------------------------

    def _row(self, inner: frozenset[int], pending: bytes) -> Array:
        edges = [edge for q in inner for edge in self._pattern.eats[q]]
        row = np.full(256, DEAD, np.int32)
        for byte in range(0x80, 0xC0) if pending else (*range(0x80), *range(0xC2, 0xF5)):
            begun = pending + bytes([byte])
            low, high = code_points(begun)
            if low == high:
                reached = self._closed([q for fits, q in edges if fits(chr(low))], ("",))
                row[byte] = self._number((reached, b"")) if reached else DEAD
            elif low < high and any(fits.meets(low, high) for fits, _ in edges):
                row[byte] = self._number((inner, begun))
        return row

    def _number(self, state: _State) -> int:
        if state not in self._numbers:
            n = self._numbers[state] = len(self._states)
            if n >= MAX_STATES:
                raise GraphError(
                    f"the automaton of a pattern has more than {MAX_STATES:,} states",
                    hint="a pattern with fewer counted repetitions",
                )
            self._states.append(state)
            if n >= len(self.table):
                more = np.full((max(64, len(self.table)), 256), UNKNOWN, np.int32)
                self.table = np.concatenate([self.table, more])
        return self._numbers[state]

    def _closed(self, states: Iterable[int], through: tuple[str, ...]) -> frozenset[int]:
        """Return what is reached without a character, as far as the end is reached from there."""
        found: set[int] = set()
        stack = [*states]
        while stack:
            q = stack.pop()
            if q not in found and (q in self._useful or "^" in through):
                found.add(q)
                stack += [s for needs, s in self._pattern.free[q] if needs in through]
        return frozenset(found & self._useful)

    def _reaching(self, ends: set[int], through: tuple[str, ...], *, eats: bool) -> set[int]:
        """Return the states from which one of ``ends`` is reached."""
        before: dict[int, list[int]] = {}
        for q, edges in enumerate(self._pattern.free):
            for needs, s in edges:
                if needs in through:
                    before.setdefault(s, []).append(q)
        for q, eaten in enumerate(self._pattern.eats):
            for fits, s in eaten if eats else ():
                if fits.ranges:
                    before.setdefault(s, []).append(q)
        found, stack = set(ends), [*ends]
        while stack:
            for q in before.get(stack.pop(), ()):
                if q not in found:
                    found.add(q)
                    stack.append(q)
        return found


def code_points(begun: bytes) -> tuple[int, int]:
    """Return the first and last code point whose UTF-8 begins so; the last is less if none does.

    >>> code_points("€".encode()[:2]), code_points(b"a"), code_points(bytes([0xED, 0xA0]))
    ((8320, 8383), (97, 97), (55296, 55295))
    """
    lead = begun[0]
    if lead < 0x80:
        return lead, lead
    size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    value = lead & (0x7F >> size)
    for byte in begun[1:]:
        value = value << 6 | byte & 0x3F
    left = 6 * (size - len(begun))
    least = (0x80, 0x800, 0x10000)[size - 2]
    most = 0xD7FF if lead == 0xED else 0x10FFFF  # behind it are halves of pairs
    return max(value << left, least), min((value + 1 << left) - 1, most)

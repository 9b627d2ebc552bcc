"""Blocks that no name tells of: parallel copies, what lies between two cuts, and repeats."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from .cards import Card
from .summary import Summary
from .tree import BLOCK, CARD, CROWDED, RUN, Group, Signs, children_of

FEW = 7
"""A level with more children than this is looked at for repeats."""
SHORT, LONGEST = 8, 96
"""Children that repeat together: up to so many anywhere, up to so many if they fill the level."""
MOST = 0.6
"""Of a level: a block that holds more explains nothing."""
COLLECTS = 4
"""So many inputs make a child a place where copies are gathered."""


class Structure:
    """Finds blocks in a tree of cards, level by level."""

    def __init__(
        self, cards: Sequence[Card], summary: Summary, ties: Sequence[Sequence[int]] = ()
    ) -> None:
        self.cards, self.summary, self.ties = cards, summary, ties
        self.signs = Signs(cards)

    def find(self, root: Group) -> None:
        """Make blocks and runs of crowded levels, from the top down."""
        pending = [root]
        while pending:
            group = pending.pop()
            if group.kind == CARD:
                continue
            if group.kind == BLOCK:
                self._level(group)
            pending += group.children

    def _level(self, group: Group) -> None:
        inputs = [c for c in group.children if self.is_input(c)]
        group.children = [c for c in group.children if not self.is_input(c)]
        if len(group.children) > CROWDED and not self._copies(group):
            self._cut(group)
        if len(group.children) > FEW:
            group.children = self._repeats(group.children)
        group.children = [*inputs, *group.children]

    def is_input(self, group: Group) -> bool:
        """Tell whether a group is what a run is fed with."""
        return group.kind == CARD and self.cards[group.card].kind < 0

    # -- copies ----------------------------------------------------------------------------------

    def _copies(self, group: Group) -> bool:
        """Group parallel copies: what stays connected once inputs and collectors are gone."""
        children = group.children
        place_of, reads = children_of(group, self.cards)
        hub = [len(found) >= COLLECTS for found in reads]
        parent = list(range(len(children)))

        def top(at: int) -> int:
            while parent[at] != at:
                parent[at] = at = parent[parent[at]]
            return at

        for at, found in enumerate(reads):
            for other in found:
                if not hub[at] and not hub[other]:
                    parent[max(top(at), top(other))] = min(top(at), top(other))
        for tie in self.ties:
            tied = [place_of[k] for k in tie if k in place_of and not hub[place_of[k]]]
            for at in tied[1:]:
                parent[max(top(at), top(tied[0]))] = min(top(at), top(tied[0]))
        parts: dict[int, list[int]] = {}
        for at in range(len(children)):
            if not hub[at]:
                parts.setdefault(top(at), []).append(at)
        alike: dict[tuple[int, ...], list[list[int]]] = {}
        for members in parts.values():
            if len(members) > 2:
                key = tuple(self.signs.of(children[at]) for at in members)
                alike.setdefault(key, []).append(members)
        found_copies = [copies for copies in alike.values() if len(copies) > 1]
        if not found_copies or not self._untied(reads, found_copies):
            return False
        place: dict[int, Group | None] = {}
        for copies in found_copies:
            title = self.summary.of([children[at] for at in copies[0]])
            for k, members in enumerate(copies, 1):
                block = Group(BLOCK, title, [children[at] for at in members])
                block.note = f"{k} of {len(copies)} alike"
                place.update(dict.fromkeys(members))
                place[members[0]] = block
        group.children = [
            child
            for at, old in enumerate(children)
            if (child := place.get(at, old)) is not None
        ]  # fmt: skip
        return True

    @staticmethod
    def _untied(reads: list[list[int]], copies: list[list[list[int]]]) -> bool:
        """Tell whether copies can stand as blocks without needing each other in a circle."""
        block = list(range(len(reads)))
        for members in (members for found in copies for members in found):
            for at in members:
                block[at] = members[0]
        inner: dict[int, set[int]] = {at: set() for at in block}
        for at, found in enumerate(reads):
            inner[block[at]] |= {block[other] for other in found} - {block[at]}
        waiting = {at: len(found) for at, found in inner.items()}
        readers: dict[int, list[int]] = {at: [] for at in inner}
        for at, found_blocks in inner.items():
            for other in found_blocks:
                readers[other].append(at)
        ready, done = [at for at, count in waiting.items() if not count], 0
        while ready:
            done += 1
            for other in readers[ready.pop()]:
                waiting[other] -= 1
                if not waiting[other]:
                    ready.append(other)
        return done == len(inner)

    # -- cuts ------------------------------------------------------------------------------------

    def _cut(self, group: Group) -> None:
        """Make a block of what lies between two places where a single result goes on."""
        children = group.children
        count = len(children)
        out: list[Group] = []
        block: list[Group] = []
        crossing = self._crossing(children)
        for at, child in enumerate(children):
            block.append(child)
            if crossing[at] > 1 and at < count - 1:
                continue
            if len(block) > MOST * count:
                return  # long skips, as in a U-Net
            out.append(block[0] if len(block) == 1 else self._block(block))
            block = []
        group.children = out

    def _crossing(self, children: Sequence[Group]) -> list[int]:
        """Return how many cards up to each child are read after it."""
        place = {k: at for at, child in enumerate(children) for k in child.cards()}
        last = len(children) - 1
        change = [0] * (last + 2)
        for k, at in place.items():
            readers = self.cards[k].readers
            far = max((place.get(r, last if r > k else at) for r in readers), default=at)
            if far > at:
                change[at] += 1
                change[far] -= 1
        return list(accumulate(change))

    def _block(self, members: list[Group]) -> Group:
        """Return a block of members; one block with cards that have no name takes them in."""
        blocks = [group for group in members if group.kind == BLOCK]
        if len(blocks) == 1 and all(group.kind == BLOCK or not group.title for group in members):
            (block,) = blocks
            at = members.index(block)
            block.children = [*members[:at], *block.children, *members[at + 1 :]]
            block.sign = -1
            return block
        return Group(BLOCK, self.summary.of(members), members)

    # -- repeats ---------------------------------------------------------------------------------

    def _repeats(self, children: list[Group]) -> list[Group]:
        """Fold what repeats, the shortest first: A B A B A B becomes a run of three blocks.

        What is longer than a few blocks, such as a step of an unrolled network, must fill most of
        the level.
        """
        period = 1
        while period <= min(LONGEST, len(children) // 2):
            signs = np.array([self.signs.of(child) for child in children])
            ahead = _equal_ahead(signs, period)
            if period <= SHORT and ahead.max() >= period:
                children = self._fold(children, period, ahead.tolist(), 2)
            elif period > SHORT and np.mean(ahead > 0) >= MOST:
                children = self._fold(children, period, self._in_step(children, period, ahead), 3)
            period += 1
        return children

    def _in_step(
        self, children: Sequence[Group], period: int, ahead: np.ndarray[Any, Any]
    ) -> list[int]:
        """Let long repeats begin where the fewest results go on: at the end of a step."""
        crossing, shifted = self._crossing(children), ahead.copy()
        at = 0
        while at < len(ahead):
            length = int(ahead[at])
            if length >= 2 * period:
                first = min(range(at, at + period), key=lambda k: crossing[k - 1] if k else 0)
                shifted[at:first] = 0
            at += length + 1
        return [int(length) for length in shifted]

    def _fold(
        self, children: list[Group], period: int, ahead: Sequence[int], least: int
    ) -> list[Group]:
        out: list[Group] = []
        at = 0
        while at < len(children):
            times = 1 + ahead[at] // period
            plain = all(child.kind == CARD for child in children[at : at + period])
            if times < least or (plain and times * period < 6):
                out.append(children[at])
                at += 1
                continue
            copies = [children[at + k * period : at + (k + 1) * period] for k in range(times)]
            out.append(self._run(copies))
            at += period * times
        return out

    def _run(self, copies: list[list[Group]]) -> Group:
        blocks = [copy[0] if len(copy) == 1 else self._block(copy) for copy in copies]
        return Group(RUN, self.summary.run(blocks), blocks)


def _equal_ahead(signs: np.ndarray[Any, Any], period: int) -> np.ndarray[Any, Any]:
    """Return how many children from each on equal the one that stands a period after them.

    >>> _equal_ahead(np.array([1, 2, 1, 2, 3]), 2).tolist()
    [2, 1, 0, 0, 0]
    """
    differs = np.ones(len(signs), bool)
    differs[: len(signs) - period] = signs[:-period] != signs[period:]
    places = np.arange(len(signs))
    following = np.minimum.accumulate(np.where(differs, places, len(signs))[::-1])[::-1]
    return np.asarray(following - places)

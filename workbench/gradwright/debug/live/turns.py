"""Whose turn it is, and for how long: all are dealt before one is again, and time by a purse."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Collection, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Deck:
    """Deals names in random order, each once before any again, while the list may change.

    >>> deck = Deck(np.random.default_rng(0))
    >>> seen = []
    >>> for _ in range(3):
    ...     for name in deck.deal("abc", 2):
    ...         deck.done(name)
    ...         seen.append(name)
    >>> sorted(seen[:3]), len(seen), deck.rounds
    (['a', 'b', 'c'], 5, 1)
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._done: set[str] = set()
        self.rounds = 0
        """How often all of the list were done."""

    def deal(self, names: Sequence[str], n: int) -> list[str]:
        """Return up to ``n`` of those whose turn is not over."""
        left = [name for name in names if name not in self._done]
        if not left and names:
            self.rounds += 1
            self._done.clear()
            left = list(names)
        return [left[i] for i in self._rng.permutation(len(left))[:n]]

    def done(self, name: str) -> None:
        """Count one as done."""
        self._done.add(name)

    def again(self, names: Collection[str] | None = None) -> None:
        """Count some, or all, as not done."""
        self._done -= self._done if names is None else set(names)


class Aftermath:
    """What a look costs when it is over: then caches are cold, and garbage is collected.

    Steps after a look stand beside the others, by their medians, since single steps take long for
    reasons of their own.

    >>> aftermath = Aftermath()
    >>> for _ in range(Aftermath.FEW):
    ...     _ = aftermath.of(0.003, steps=3, is_after=False)
    >>> aftermath.of(0.0035, steps=3, is_after=True)
    0.0005
    """

    FEW = 15
    """Of either that are looked at, the latest: as many are needed before anything is said."""

    def __init__(self) -> None:
        self._others = collections.deque[float](maxlen=self.FEW)
        self._later = collections.deque[float](maxlen=self.FEW)

    def of(self, seconds: float, *, steps: int, is_after: bool) -> float:
        """Return which part of some steps' time is due to the look before them."""
        if not is_after:
            self._others.append(seconds / steps)
            return 0.0
        if len(self._others) < self.FEW:
            return 0.0
        self._later.append(seconds - steps * statistics.median(self._others))
        return min(max(0.0, statistics.median(self._later)), seconds)


class Purse:
    """Time that may be spent: a share of what others take, and a part of it put by.

    What is put by is for what cannot wait, as a rule that has just changed. Neither is saved up
    beyond a bound, so that a long wait does not become a long pause.

    >>> purse = Purse(0.1)
    >>> purse.earn(0.1)
    >>> purse.spend(0.009)
    >>> purse.may_spend, purse.has_put_by
    (False, True)
    >>> purse.pay(0.003)
    >>> purse.may_spend, purse.has_put_by
    (False, False)
    """

    PUT_BY = 0.2
    """The part that is put by."""
    MOST = 0.05
    """Seconds that either may hold."""

    def __init__(self, share: float) -> None:
        self.share = share
        self._free = self._reserve = 0.0
        self.spent = self.others = 0.0

    def earn(self, seconds: float) -> None:
        """Add the share of what others took."""
        self.others += seconds
        part = self.share * seconds
        self._reserve += self.PUT_BY * part
        self._free += (1 - self.PUT_BY) * part
        if self._reserve > self.MOST:  # what one cannot hold the other may
            self._free, self._reserve = self._free + self._reserve - self.MOST, self.MOST
        if self._free > self.MOST:
            left, self._free = self._free - self.MOST, self.MOST
            self._reserve = min(self._reserve + left, self.MOST)

    def spend(self, seconds: float) -> None:
        """Take away what was spent; what is put by pays where nothing else is left."""
        self.spent += seconds
        self._free -= seconds

    def pay(self, seconds: float) -> None:
        """Take away what could not wait."""
        self.spent += seconds
        self._reserve -= seconds
        if self._reserve < 0:
            self._free, self._reserve = self._free + self._reserve, 0.0

    @property
    def may_spend(self) -> bool:
        """Whether there is anything to spend."""
        return self._free > 0

    @property
    def has_put_by(self) -> bool:
        """Whether there is anything for what cannot wait."""
        return self._reserve > 0 or self._free > 0

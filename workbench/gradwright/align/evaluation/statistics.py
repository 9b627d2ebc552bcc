"""How sure rates of right answers are, and how sure it is that one is better than another."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...errors import TrainingError


def wilson(right: float, n: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Return the interval of a rate of ``right`` of ``n`` (Wilson 1927); by default of 95 %.

    (p + z²/2n ± z·√(p(1 − p)/n + z²/4n²)) / (1 + z²/n),  p = right/n

    Of nothing it is all that a rate can be. Raises TrainingError where ``right`` is not 0 to n.

    >>> from gradwright.align.evaluation.statistics import wilson
    >>> [round(x, 3) for x in wilson(950, 1000)]
    [0.935, 0.962]
    """
    if not 0 <= right <= n:
        raise TrainingError(f"{right} of {n} answers cannot be right", need="0 to all of them")
    if n == 0:
        return 0.0, 1.0
    p, share = right / n, z * z / n
    middle = p + share / 2
    reach = z * math.sqrt(p * (1 - p) / n + share / (4 * n))
    low, high = (middle - reach) / (1 + share), (middle + reach) / (1 + share)
    return (low if right else 0.0), (high if right < n else 1.0)


class McNemar(NamedTuple):
    """What pairs of answers to the same prompts tell of a change (McNemar 1947)."""

    gained: int
    """Prompts that are answered rightly now, and were not before."""
    lost: int
    """Prompts that were, and are no more."""
    z: float
    """(gained − lost)/√(gained + lost); 0 where nothing has changed."""
    p: float
    """How likely so uneven a change is by chance, both ways: exact, of the binomial at 1/2."""


def mcnemar(gained: int, lost: int) -> McNemar:
    """Return how sure a change is, by prompts gained and lost.

    >>> from gradwright.align.evaluation.statistics import mcnemar
    >>> change = mcnemar(399, 10)
    >>> round(change.z, 1), change.p < 1e-90
    (19.2, True)
    """
    n = gained + lost
    if n == 0:
        return McNemar(gained, lost, 0.0, 1.0)
    tail = sum(math.comb(n, i) for i in range(min(gained, lost) + 1))
    return McNemar(gained, lost, (gained - lost) / math.sqrt(n), min(1.0, 2 * tail / 2**n))


def pass_at(k: int, right: int, n: int) -> float:
    """Return how likely k answers, drawn of n of which some are right, hold a right one.

    1 − C(n − right, k)/C(n, k) (Chen et al. 2021, arXiv:2107.03374)

    Raises TrainingError where there are fewer than k answers.

    >>> from gradwright.align.evaluation.statistics import pass_at
    >>> pass_at(1, 1, 4), pass_at(2, 1, 4)
    (0.25, 0.5)
    """
    if not 1 <= k <= n:
        raise TrainingError(f"{n} answers a prompt tell nothing of {k}", need="1 <= k <= samples")
    return 1 - math.comb(n - right, k) / math.comb(n, k)

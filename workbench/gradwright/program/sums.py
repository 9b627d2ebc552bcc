"""Sums of many terms as sums of a few: their bits stay, for they are added up in order anyhow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

MANY = 32
"""Terms from which a sum is taken apart."""
TERMS = 15
"""Terms that are added at a time: kernels of thousands of inputs are nothing LLVM is made for, and
whoever replaces one of them would look at all."""


def added(terms: Sequence[int], emit: Callable[[Sequence[int]], int]) -> int:
    """Return the value of a sum of terms from left to right; ``emit`` adds up some of them.

    >>> made = []
    >>> added(range(40), lambda ins: made.append(len(ins)) or 100 + len(made))
    103
    >>> made
    [16, 16, 10]
    """
    total = terms[0]
    for start in range(1, len(terms), TERMS):
        total = emit((total, *terms[start : start + TERMS]))
    return total

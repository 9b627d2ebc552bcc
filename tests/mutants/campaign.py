"""The campaign: mutants are checked, and what a check says is held against what was planted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.debug.address import Address
from gradwright.debug.check.report import Report
from tests.mutants.faults import FAULTS
from tests.mutants.looped import LOOPED
from tests.mutants.planting import Make, Mutant, draw, draw_turn, grown, healthy, where_is
from tests.mutants.straight import STRAIGHT, Network


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant.

    ``named``: the faulty node and no other is blamed, by its address; ``beside``: others are, too;
    ``outer``: only what encloses it; ``turn``: in another turn; ``other``: only others; ``silent``:
    found, and nobody blamed; ``missed``: passed; ``error``: the check raised.
    """

    mutant: Mutant
    at: Address
    verdict: str
    told: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.verdict}: {self.mutant}, planted at {self.at}, blamed {self.told}"


def check(net: Network, **options: Any) -> Report:
    """Check a network as users do."""
    return gw.gradient_check(net.graph, net.loss, net.feeds, training=net.training, **options)


def judged(mutant: Mutant, **options: Any) -> Outcome:
    """Check a mutant, and say whether it was found."""
    net = grown(mutant)
    (place,) = where_is(net.graph)
    start = time.perf_counter()
    try:
        report = check(net, **options)
    except Exception as error:
        told, verdict = f"{type(error).__name__}: {error}", "error"
    else:
        told = ", ".join(str(f.address) for f in report.faults) or "nobody"
        verdict = verdict_of(report, mutant.turn or place)
    return Outcome(mutant, mutant.turn or place, verdict, told, time.perf_counter() - start)


def verdict_of(report: Report, at: Address) -> str:
    """Return what a report is worth, given where the fault is."""
    if report.passed:
        return "missed"
    found = [f.address for f in report.faults]
    if not found:
        return "silent"
    right = [at.covers(a) and all_turns_said(a, at) for a in found]
    if all(right):
        return "named"
    if any(right):
        return "beside"
    if any(a.anywhere == at.anywhere for a in found):
        return "turn"
    names = [level.node for level in at.levels]
    if any(a.node in names and len(a.levels) < len(names) for a in found):
        return "outer"
    return "other"


def all_turns_said(found: Address, at: Address) -> bool:
    """Tell whether an address says the turn of every loop on its way, and the branches."""
    functions = ("two_layers", "dense")
    return all(
        isinstance(part, (int, str)) or node.startswith(functions) for node, part in found.levels
    )


def mutants(n: int, seed: int) -> Iterator[Mutant]:
    """Draw mutants, every other one inside of a node, of these every fourth in one turn only."""
    rng = np.random.default_rng(seed)
    for number in range(n):
        if number % 2 == 0:
            yield draw(STRAIGHT, FAULTS, rng)
        elif number % 8 == 7:
            yield draw_turn(LOOPED, rng)
        else:
            yield draw(LOOPED, FAULTS, rng, inside=True)


def alarms(n: int, seed: int) -> Iterator[str]:
    """Check healthy networks, all in turn, and yield what is said against any of them."""
    makes: Sequence[Make] = (*STRAIGHT, *LOOPED)
    rng = np.random.default_rng(seed)
    for number in range(n):
        make, drawn = makes[number % len(makes)], int(rng.integers(1_000_000))
        net, _ = healthy(make, drawn)
        report = check(net, seed=number)
        if not report.passed:
            told = ", ".join(str(f.address) for f in report.faults) or "nobody"
            yield f"{make.__name__} seed {drawn}: {report!r}, blamed {told}"


def counted(outcomes: Sequence[Outcome]) -> str:
    """Return how many mutants came to what."""
    counts = Counter(o.verdict for o in outcomes)
    return ", ".join(f"{n} {verdict}" for verdict, n in counts.most_common())

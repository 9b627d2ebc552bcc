"""Interleaved timing: rivals take turns, so that a machine that slows down slows all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

ROUNDS = 7
SECONDS = 0.15
"""How long one rival runs in one round."""


@dataclass(frozen=True)
class Timing:
    """Median and interquartile range of one rival, in seconds per call."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        scale, unit = (1e6, "µs") if self.median < 1e-3 else (1e3, "ms")
        return f"{self.median * scale:8.1f} {unit} [{self.low * scale:.1f}–{self.high * scale:.1f}]"


def race(
    rivals: Mapping[str, Callable[[], object]],
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time all rivals in ABBA order; each call count is set once, so that a turn takes 0.15 s."""
    calls = {}
    for name, run in rivals.items():
        run()
        start = clock()
        run()
        once = max(clock() - start, 1e-7)
        calls[name] = max(1, int(SECONDS / once))
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    for number in range(rounds):
        for name in list(rivals) if number % 2 == 0 else list(rivals)[::-1]:
            run, n = rivals[name], calls[name]
            start = clock()
            for _ in range(n):
                run()
            taken[name].append((clock() - start) / n)
    return {name: summarize(times) for name, times in taken.items()}


def summarize(times: list[float]) -> Timing:
    """Return median and quartiles."""
    low, median, high = statistics.quantiles(times, n=4)
    return Timing(median, low, high)


def table(title: str, timings: Mapping[str, Timing], ours: str) -> None:
    """Print a table with the ratio of every rival to ``ours``: above 1, ours is faster."""
    print(f"\n{title}")
    for name, timing in timings.items():
        ratio = timing.median / timings[ours].median
        print(f"  {name:<28} {timing}" + ("" if name == ours else f"   {ratio:5.2f}x ours"))

"""A training step of each method, ours and peft's in turns, and whether both come to one loss."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence

from tests.benchmarks.adapters.sides import Side, sides

LOSSES = 3
"""Steps whose losses are compared before anything is timed."""
WARM, ROUNDS, STEPS = 3, 7, 2
AIM, MEAN_AIM = 1.3, 1.5
TOLERANCE = 1e-4


def main(methods: Sequence[str]) -> None:
    """Print a row for each method and the mean of all."""
    print(
        f"\na step, CPU ms: median of {ROUNDS} turns of {STEPS}; aim {AIM}x each, {MEAN_AIM}x mean"
    )
    print(f"{'method':<24}{'ours':>9}{'peft':>9}{'peft/ours':>11}   first losses")
    ratios = []
    for name in methods:
        ours, theirs = sides(name)
        said = compared(ours, theirs)
        for side in (ours, theirs):
            for _ in range(WARM):
                side.step()
            side.settle()
            side.step()
        mine, other, ratio = race(ours, theirs)
        ratios.append(ratio)
        print(
            f"{name:<24}{mine * 1e3:>9.1f}{other * 1e3:>9.1f}{ratio:>10.2f}x   {said}", flush=True
        )
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    print(f"{'geometric mean':<42}{mean:>10.2f}x")


def compared(ours: Side, theirs: Side) -> str:
    """Return what is said of the first losses of both sides."""
    pairs = [(ours.step(), theirs.step()) for _ in range(LOSSES)]
    worst = max(abs(mine - other) / abs(other) for mine, other in pairs)
    mine, other = pairs[-1]
    return f"{other:.5f}" if worst <= TOLERANCE else f"WRONG: {mine:.5f}, peft's {other:.5f}"


def race(ours: Side, theirs: Side) -> tuple[float, float, float]:
    """Return the processor's seconds of a step of both, and the median of the rounds' ratios."""
    taken: dict[bool, list[float]] = {True: [], False: []}
    for number in range(ROUNDS):
        for is_ours in (True, False) if number % 2 == 0 else (False, True):
            side = ours if is_ours else theirs
            start = time.process_time()
            for _ in range(STEPS):
                side.step()
            taken[is_ours].append((time.process_time() - start) / STEPS)
    ratio = statistics.median(t / m for m, t in zip(taken[True], taken[False], strict=True))
    return statistics.median(taken[True]), statistics.median(taken[False]), ratio

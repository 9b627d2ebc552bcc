"""Mutants: networks with one wrong vjp in them, and whether a gradient check names it.

    python -m tests.mutants [count] [--seed N] [--healthy M]    500 mutants, 200 healthy networks

Each mutant is a network with one op exchanged for a copy whose vjp has a fault, half of them inside
of loops, branches and functions. What was not named is printed, with what makes it again; the exit
code is 1 below 99 %, or where a healthy network is blamed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")

from tests.mutants.campaign import Outcome, alarms, counted, judged, mutants  # noqa: E402

GOAL = 0.99


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description="mutants that gradient checks have to name")
    parser.add_argument("count", type=int, nargs="?", default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--healthy", type=int, default=200)
    given = parser.parse_args()
    outcomes: list[Outcome] = []
    for mutant in mutants(given.count, given.seed):
        outcomes.append(judged(mutant))
        if outcomes[-1].verdict != "named":
            print(outcomes[-1], flush=True)
    for where in ("without loops", "inside"):
        some = [o for o in outcomes if bool(o.at.levels) == (where == "inside")]
        if some:
            ms = 1e3 * statistics.median(o.seconds for o in some)
            print(f"{len(some)} mutants {where}: {counted(some)}; {ms:.0f} ms a check")
    named = sum(o.verdict == "named" for o in outcomes) / max(1, len(outcomes))
    false = list(alarms(given.healthy, given.seed))
    print(*false, sep="\n")
    print(f"{named:.1%} named; {len(false)} false alarms in {given.healthy} healthy checks")
    return int(named < GOAL or bool(false))


if __name__ == "__main__":
    sys.exit(main())

"""``python -m tests.benchmarks.engine [a b ...]``: training steps beside those of other engines."""

from __future__ import annotations

import argparse
import functools
import json
import signal
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.engine import report
from tests.benchmarks.engine.costs import measure
from tests.benchmarks.engine.models import MODELS
from tests.benchmarks.engine.peers import PEERS
from tests.benchmarks.engine.race import race

RIVALS = [p for p in PEERS if p != "ours"]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.engine", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(MODELS)}: all")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="default: 1 2")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each peer, default 7")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="default: wall")
    parser.add_argument("--peers", nargs="*", choices=RIVALS, default=RIVALS, help="default: all")
    parser.add_argument("--details", action="store_true", help="processor times and variants too")
    parser.add_argument("--no-costs", action="store_true", help="leave out the second table")
    parser.add_argument("--only-costs", action="store_true", help="leave out the first table")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    chosen = parser.parse_args(given)
    unknown = [r for r in chosen.rows if r not in MODELS]
    if unknown:
        parser.error(f"no row {', '.join(unknown)}; there are {', '.join(MODELS)}")
    chosen.rows = chosen.rows or list(MODELS)
    return chosen


def steps(chosen: argparse.Namespace, keep: Callable[[Any], None]) -> None:
    """Print the table of training steps as it comes; ``keep`` takes its numbers so far."""
    print(report.header(chosen.peers))
    results = []
    for threads in chosen.threads:
        for row in chosen.rows:
            result = race(row, threads, chosen.peers, chosen.rounds, chosen.clock, _progress)
            _progress("")
            results.append(result)
            keep([r.to_json() for r in results])
            print(report.line(result, chosen.peers), flush=True)
            if chosen.details:
                print("\n".join(report.details(result)), flush=True)
    print("\n".join(report.means(results, chosen.peers)))


def costs(rows: Sequence[str]) -> dict[str, Any]:
    """Print and return what a step costs beside its time, each from fresh processes."""
    found: dict[str, Any] = {}

    def each(
        name: str, chosen: Sequence[str], tell: Callable[[Any], str], times: int = 1, **to: str
    ) -> None:
        for row in chosen:
            label = " ".join((name, row, *to.values()))
            _progress(label)
            try:
                runs = [measure(name, row, *to.values()) for _ in range(times)]
            except RuntimeError as error:
                said = str(error)
            else:
                found[label] = runs if times > 1 else runs[0]
                said = tell(found[label])
            _progress("")
            print(f"  {label:<18} {said}", flush=True)

    def first_step(runs: Sequence[dict[str, float]]) -> str:
        parts = ("build", "step", "cpu", "import")
        build, step, cpu, start = (statistics.median(r[k] for r in runs) for k in parts)
        whole = f"{build + step:.3f} s: build {build:.3f}, step {step:.3f}; cpu {cpu:.3f} s"
        return f"{whole}; import {start:.3f} s"

    def resident(run: dict[str, float]) -> str:
        return f"{run['above build']:.1f} MiB above build, {run['above import']:.1f} above import"

    print("\ncold start, a fresh process, median of 5 (aim 0.3 s above import)")
    each("cold", rows, first_step, times=5)
    print("\nplanning (aim 50 µs a node)")
    each("plan", rows, lambda r: f"{r['us']:.1f} µs a node, {r['nodes']} nodes")
    print("\nTrainer.fit above the bare step (aim 15 µs)")
    each(
        "fit",
        [r for r in rows if r == "a"],
        lambda r: (
            f"{r['extra']:.1f} µs: {r['fit']:.1f} in fit, {r['bare']:.1f} bare; "
            f"{r['unrolled']:.1f} with unroll=8; "
            f"of it {r['data']:.1f} for batches ({r['gathered']:.1f} where rows are shuffled)"
        ),
    )
    print("\nfunctions that a warm Trainer.step calls (aim 120)")
    each(
        "calls",
        [r for r in rows if r == "a"],
        lambda r: f"{r['python'] + r['c']}: {r['python']} of Python, {r['c']} of C",
    )
    print("\narrays above 1 kB that a steady step allocates (aim 0)")
    each(
        "allocations",
        rows,
        lambda r: f"{r['count']}, together {r['bytes']:,} B; largest {r['largest']}",
    )
    print("\nresident memory at the peak of ten steps (aim: not above torch's)")
    for peer in ("ours", "torch"):
        each("memory", [r for r in rows if r in "eg"], resident, peer=peer)
    return found


def _progress(text: str) -> None:
    """Show what is going on, where somebody watches."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def main(given: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    chosen = arguments(given)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the peers are ended, too
    print(report.versions())
    found: dict[str, Any] = {"versions": report.versions()}

    def keep(part: str, numbers: Any) -> None:
        found[part] = numbers
        if chosen.json:
            chosen.json.write_text(json.dumps(found, indent=1))

    if not chosen.only_costs:
        print("how many times as long a peer's step takes: above 1 gradwright is faster\n")
        steps(chosen, functools.partial(keep, "steps"))
    if not chosen.no_costs:
        keep("costs", costs(chosen.rows))


main()

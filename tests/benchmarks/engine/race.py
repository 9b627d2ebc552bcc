"""The race: all peers of a row take turns, one at a time, and ratios are taken round by round."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.benchmarks.engine.models import MODELS
from tests.benchmarks.engine.peers import PEERS
from tests.benchmarks.engine.process import Process

TURN = 0.3
"""Seconds that one peer runs in one round."""
PAUSE = 0.05
"""Seconds between turns: OpenBLAS's and OpenMP's waiting threads spin for about half of that."""
TOLERANCE = 1e-4
"""Largest relative difference between the first losses of two peers."""


@dataclass
class Side:
    """What was found of one peer: times per step of each round, in seconds, or what is missing."""

    variant: str = ""
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    """Share of the cores' time that other processes took, by rounds."""
    losses: list[float] = field(default_factory=list)
    trouble: str = ""
    """Why there is no time: not installed, failed, or another loss than ours."""


@dataclass
class Result:
    """One row at one number of threads."""

    row: str
    title: str
    threads: int
    sides: dict[str, Side]
    clock: str = "wall"
    """Which times the ratios are of: wall, or cpu for one thread on a machine that others use."""

    def ratio(self, peer: str, clock: str = "") -> float | None:
        """Return peer/ours, the median of the rounds' ratios; above 1 ours is faster."""
        mine, theirs = (getattr(self.sides[p], clock or self.clock) for p in ("ours", peer))
        if not mine or not theirs:
            return None
        return statistics.median(t / m for m, t in zip(mine, theirs, strict=True))

    def best(self, peers: Sequence[str]) -> float | None:
        """Return the ratio to the fastest of several peers."""
        found = [r for p in peers if p in self.sides and (r := self.ratio(p)) is not None]
        return min(found, default=None)

    @property
    def is_disturbed(self) -> bool:
        """Whether other processes took more than a tenth of the time of a peer's cores."""
        return any(
            side.others and statistics.median(side.others) > 0.1 for side in self.sides.values()
        )

    def to_json(self) -> dict[str, Any]:
        """Return all of it as plain data."""
        return asdict(self)


def race(
    row: str,
    threads: int,
    peers: Sequence[str],
    rounds: int,
    clock: str = "wall",
    say: Callable[[str], None] = lambda text: None,
) -> Result:
    """Run one row: compare the losses, warm up, then time in ABBA order."""
    model = MODELS[row]()
    cores = sorted(os.sched_getaffinity(0))[-threads:]
    if len(cores) < threads:
        raise ValueError(f"{threads} threads need as many cores; there are {len(cores)}")
    sides = {peer: Side() for peer in ("ours", *peers)}
    processes: dict[str, Process] = {}
    try:
        for peer, side in sides.items():
            missing = PEERS[peer].missing(model)
            if missing:
                side.trouble = f"not installed: {', '.join(missing)}"
                continue
            say(f"{row}, {threads} threads: {PEERS[peer].title}")
            processes[peer] = process = Process(peer, row, threads, cores)
            try:
                _begin(process, side, sides["ours"])
            except RuntimeError as error:
                side.trouble = f"failed: {error}"
        ready = [p for p, side in sides.items() if side.wall]
        steps = {p: max(1, round(TURN / sides[p].wall[0])) for p in ready}
        for side in sides.values():
            side.wall, side.cpu = [], []
        for number in range(rounds):
            say(f"{row}, {threads} threads: round {number + 1}")
            for peer in ready if number % 2 == 0 else ready[::-1]:
                time.sleep(PAUSE)
                taken = processes[peer].ask("run", steps=steps[peer])
                sides[peer].wall.append(taken["wall"])
                sides[peer].cpu.append(taken["cpu"])
                sides[peer].others.append(taken["others"])
    finally:
        for process in processes.values():
            process.close()
    return Result(row, model.title, threads, sides, clock)


def _begin(process: Process, side: Side, ours: Side) -> None:
    """Compare the first losses of all variants, then warm up and note the time of a step."""
    for name, losses in process.ask("losses").items():
        side.losses = side.losses or losses
        for step, (mine, theirs) in enumerate(zip(ours.losses, losses, strict=False), 1):
            if not math.isclose(mine, theirs, rel_tol=TOLERANCE):
                side.trouble = f"WRONG: loss {step} of {name} is {theirs:.6g}, ours {mine:.6g}"
                return
    found = process.ask("warm")
    side.variant, side.wall = found["variant"], [found["seconds"]]


def middle(times: Sequence[float]) -> tuple[float, float, float]:
    """Return median and quartiles."""
    if len(times) < 2:
        return times[0], times[0], times[0]
    low, median, high = statistics.quantiles(times, n=4)
    return median, low, high


def geometric_mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(map(math.log, ratios)))

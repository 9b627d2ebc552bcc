"""Campaigns: things made of seeds by the thousand, in subprocesses, each finding with its line.

What ends its process by a signal, hangs, raises or is not as it should be is a finding, and the
line that reproduces it is printed. A module that is one has a :class:`Campaign`, and its ``main``.
"""

from __future__ import annotations

import argparse
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Campaign:
    """``python -m <module> [count] [--seed N] [--one]``: ``problem`` says what is wrong of a seed.

    ``shown`` are lines that show what a seed makes, and ``well`` is said where nothing is wrong.
    """

    module: str
    what: str
    problem: Callable[[int], str]
    shown: Callable[[int], Iterable[str]]
    well: str
    count: int = 10_000
    batch: int = 250
    """Seeds of one process."""
    patience: float = 120.0
    """Seconds after which one hangs."""

    def search(self, count: int, first: int) -> Iterator[str]:
        """Try seeds in subprocesses; yield a line for each that is a finding."""
        at, end = first, first + count
        while at < end:
            stop = min(at + self.batch, end)
            last, said, how = self._batch(at, stop)
            yield from said
            if how:
                yield f"{how}: {self._one(last)}"
            at = last + 1 if how else stop

    def _batch(self, start: int, stop: int) -> tuple[int, list[str], str]:
        """Try seeds in one process; return the last one, findings, and how the process ended."""
        environment = {**os.environ, "GRADWRIGHT_CACHE": "off", "PYTHONFAULTHANDLER": "1"}
        child = subprocess.Popen(
            self.command(start, stop), stdout=subprocess.PIPE, text=True, env=environment,
            cwd=Path(__file__).parents[2],
        )  # fmt: skip
        lines: queue.Queue[str] = queue.Queue()

        def read() -> None:
            assert child.stdout is not None
            with child.stdout as said:
                for line in said:
                    lines.put(line.rstrip())
            lines.put("")

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        last, found = start, []
        while True:
            try:
                line = lines.get(timeout=self.patience)
            except queue.Empty:
                child.kill()
                child.wait()
                reader.join()
                return last, found, f"hangs for {self.patience:.0f} s"
            if not line:
                break
            if line.isdigit():
                last = int(line)
            else:
                found.append(line)
        reader.join()
        code = child.wait()
        return last, found, "" if code == 0 else f"ended with {code}"

    def command(self, start: int, stop: int) -> list[str]:
        """Return what tries seeds in a process of its own."""
        count = str(stop - start)
        return [sys.executable, "-m", self.module, count, "--seed", str(start), "--here"]

    def _one(self, seed: int) -> str:
        return f"python -m {self.module} --seed {seed} --one"

    def here(self, count: int, first: int) -> None:
        """Try seeds in this process: print each, and what is found, one a line."""
        for seed in range(first, first + count):
            print(seed, flush=True)
            try:
                says = self.problem(seed)
            except Exception as error:
                says = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
            if says:
                print(f"{says}: {self._one(seed)}", flush=True)

    def main(self, doc: str | None) -> None:
        """Search, or show one."""
        parser = argparse.ArgumentParser(
            description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        parser.add_argument("count", nargs="?", type=int, default=self.count)
        parser.add_argument("--seed", type=int, default=time.time_ns() % 2**31)
        parser.add_argument("--one", action="store_true", help="one, in this process")
        parser.add_argument("--here", action="store_true", help="all in this process")
        given = parser.parse_args()
        if given.one:
            print(*self.shown(given.seed), sep="\n")
            print(self.problem(given.seed) or self.well)
        elif given.here:
            self.here(given.count, given.seed)
        else:
            print(f"{given.count} {self.what} from seed {given.seed}", flush=True)
            start, n = time.monotonic(), 0
            for n, line in enumerate(self.search(given.count, given.seed), 1):  # noqa: B007
                print(line, flush=True)
            took = time.monotonic() - start
            print(f"{given.count} {self.what}, {took:.0f} s, {n} findings")
            sys.exit(n > 0)

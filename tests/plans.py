"""Plans on disk: random graphs are run without them, with them, from them, and from damaged ones.

    python -m tests.plans [count] [--seed N]    graphs of the seeds N, N + 1, ... (1,000)
    python -m tests.plans --seed N --one        one graph, here

Each graph is built anew for each run, as another process would; all runs must give the same bits.
Every third is a program of `tests.fuzz`, the others have a dozen of all ops, and some rewrites.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import gradwright as gw
from gradwright.errors import GradwrightError
from gradwright.graph import Tensor
from gradwright.plan import kept
from gradwright.rewrite import RULES
from tests.fuzz import Program
from tests.support.campaign import Campaign
from tests.support.random_graphs import ALL, RandomGraph

Array = Any
STATES: list[str] = []
"""What became of each plan, for tests to look at."""


class Drawn:
    """A graph of a seed, with what is fetched, fed and updated."""

    def __init__(self, seed: int) -> None:
        self.updates: Mapping[Tensor, Tensor] = {}
        self.commit_if: Tensor | None = None
        self.training = False
        self.kernels = "off" if seed % 4 else "wait"  # LLVM takes 25 ms for each
        if seed % 3 == 0:
            program = Program(seed)
            self.graph, self.feeds = program.graph, program.feeds
            self.fetches = [k.tensor for k in program.fetches]
            return
        rng = np.random.default_rng(seed)
        ops = [ALL[n] for n in rng.choice(len(ALL), 12, replace=False)]
        rules = [str(name) for name in rng.choice(list(RULES), 3)]
        made = RandomGraph(lambda n: int(rng.integers(n)), ops, rules)
        self.graph, self.feeds, self.fetches = made.graph, made.feeds, made.fetches
        self.updates, self.commit_if, self.training = made.updates, made.commit_if, made.training

    def run(self) -> tuple[str, list[Array]]:
        """Return what became of the plan, and the results of two runs, or the error."""
        found: list[Any] = []
        how: dict[str, Any] = {"deterministic": True, "threads": 1, "kernels": self.kernels}
        with gw.Session(self.graph, **how) as session, np.errstate(all="ignore"):
            try:
                for step in range(2):
                    found += session.run(
                        self.fetches, self.feeds, self.updates, training=self.training,
                        commit_if=self.commit_if, step=step,
                    )  # fmt: skip
            except (GradwrightError, ValueError, ArithmeticError) as error:
                found.append(type(error).__name__)
            states = [plan.kept.state for plan in session.plans]
        found += [self.graph.values[v.name] for v in self.updates]
        return (states or [""])[-1], found


def same(a: Any, b: Any) -> bool:
    """Tell whether two results are the same to the bit."""
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if not isinstance(a, np.ndarray | np.generic):
        return bool(a == b)
    x, y = np.asarray(a), np.asarray(b)
    alike = x.dtype == y.dtype and x.shape == y.shape
    return alike and gw.spec.content_of(x) == gw.spec.content_of(y)


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Return what a disk, or somebody, may have made of a file."""
    at = int(rng.integers(len(data)))
    ways = [
        data[:at],
        data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :],
        data + data[-at:],
        bytes(len(data)),
        b"",
    ]
    return ways[int(rng.integers(len(ways)))]


def problem(seed: int) -> str:
    """Return what is wrong with plans on disk for the graph of a seed; empty if nothing."""
    _folder()
    os.environ.pop("GRADWRIGHT_PLANS", None)
    with mock.patch.object(kept, "LEAST", 1):
        with mock.patch.dict(os.environ, GRADWRIGHT_PLANS="off"):
            _, plain = Drawn(seed).run()
        before = set(_folder().glob("*.plan"))
        first, made = Drawn(seed).run()
        second, read = Drawn(seed).run()
        STATES.append(second)
        if not same(plain, made) or not same(plain, read):
            return f"{first}, {second}: other results than without the disk"
        if "written" in first and "read" not in second:
            return f"{first}, then {second}"
        rng = np.random.default_rng(seed)
        for path in sorted(set(_folder().glob("*.plan")) - before):
            path.write_bytes(damaged(path.read_bytes(), rng))
        third, again = Drawn(seed).run()
        if not same(plain, again):
            return f"{third}: other results from damaged files"
    return ""


def _folder() -> Path:
    """Return the folder of this process, which the first call makes."""
    name = os.environ.get("GRADWRIGHT_CACHE", "off")
    if name == "off":
        name = os.environ["GRADWRIGHT_CACHE"] = tempfile.mkdtemp(prefix="gradwright-plans-")
        atexit.register(shutil.rmtree, name, ignore_errors=True)
    return Path(name)


def shown(seed: int) -> Iterable[str]:
    """Return lines that show the graph of a seed."""
    return [str(node) for node in Drawn(seed).graph.all_nodes]


CAMPAIGN = Campaign(
    "tests.plans", "graphs", problem, shown,
    "the same without plans on disk, with them, from them, and from damaged ones", count=1000,
)  # fmt: skip


if __name__ == "__main__":
    CAMPAIGN.main(__doc__)

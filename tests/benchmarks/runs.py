"""What it takes to list long runs: time, and memory above that of the process.

``python -m tests.benchmarks.runs`` writes runs of 2.6 million steps, 150 and 415 MB of events, and
lists them without an index, as where folders were copied, and from it.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw

STEPS = 2_600_000
PER_LINE = {"6,000 steps a line": 6000, "1 step a line": 1}
"""As fast steps are written, twice a second, and as slow ones."""


def write(folder: Path, per_line: int, steps: int = STEPS) -> None:
    """Write a run of so many steps."""
    g = gw.Graph("long")
    w = g.variable("w", (), init=2.0)
    trainer = gw.Trainer(g, w * w, callbacks=[gw.Run(folder, store=None)])
    trainer.fit([{}], progress=False)
    path = folder / "events.jsonl"
    begun, *_, end = path.read_bytes().splitlines(keepends=True)
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(begun)
        for first in range(1, steps, per_line):
            numbers = list(range(first, min(first + per_line, steps + 1)))
            columns = {"step": numbers, "epoch": [1] * len(numbers)}
            columns["seconds"] = rng.uniform(0, 1e5, len(numbers)).round(6).tolist()
            metrics = {"loss": rng.uniform(size=len(numbers)).round(7).tolist()}
            metrics |= {"grad_norm": rng.uniform(size=len(numbers)).tolist()}
            metrics |= {"learning_rate": [0.001] * len(numbers)}
            event = {"event": "steps", **columns, "metrics": metrics}
            file.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")
        file.write(end)


def peak() -> float:
    """Return the most memory that the process has had, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def timed(what: str, work: Callable[[], Any]) -> None:
    """Print time and memory."""
    before, begun = peak(), time.perf_counter()
    work()
    taken = time.perf_counter() - begun
    print(f"  {what:28} {taken * 1e3:7.1f} ms, {peak() - before:5.1f} MB more", flush=True)


def main() -> None:
    """Write and list runs."""
    gw.runs(tempfile.mkdtemp(prefix="gradwright-runs-"))  # what it imports counts to the process
    for name, per_line in PER_LINE.items():
        root = Path(tempfile.mkdtemp(prefix="gradwright-runs-"))
        apart = multiprocessing.get_context("spawn").Process(
            target=write, args=(root / "long", per_line)
        )
        apart.start()  # what it takes to write one is no matter here
        apart.join()
        size = (root / "long" / "events.jsonl").stat().st_size
        print(f"{STEPS:,} steps, {name}: {size / 1e6:.0f} MB of events")
        timed("gw.runs, without an index", lambda: str(gw.runs(root)))  # noqa: B023
        timed("gw.runs, from the index", lambda: str(gw.runs(root)))  # noqa: B023
        timed("RunFolder.config", lambda: gw.train.RunFolder(root / "long").config)  # noqa: B023
        shutil.rmtree(root)


if __name__ == "__main__":
    main()

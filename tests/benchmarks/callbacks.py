"""What callbacks add to a step: ``python -m tests.benchmarks.callbacks``.

The step itself is the smallest there is, so that nothing hides what they add.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gradwright as gw

STEPS, EDGE, ROUNDS = 50_000, 2_000, 5


def each_step(*callbacks: gw.Callback) -> tuple[float, float]:
    """Return µs of a step: those of the training thread, and those of all threads."""
    marks = []

    def mark(trainer: gw.Trainer, record: gw.train.Record) -> None:
        if record.step in (EDGE, STEPS - EDGE):
            marks.append((time.thread_time(), time.process_time()))

    g = gw.Graph()
    w = g.variable("w", (8,), init=1.0)
    watched = [*callbacks, gw.train.on_step(mark)]
    trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.SGD(1e-6), callbacks=watched)
    trainer.fit([{}] * STEPS, progress=False)
    own, every = ((b - a) / (STEPS - 2 * EDGE) * 1e6 for a, b in zip(*marks, strict=True))
    return own, every


def callbacks() -> None:
    """Print the least that a step takes with each, of rounds that take turns."""
    with tempfile.TemporaryDirectory() as folder:
        store, number = gw.train.Store(folder), itertools.count()
        kinds: dict[str, Callable[[], list[gw.Callback]]] = {
            "none": list,
            "Run": lambda: [gw.Run(Path(folder, str(next(number))), store=store)],
            "Score": lambda: [gw.train.Score(1000, to=lambda line: None)],
            "Divergence": lambda: [gw.train.Divergence()],
            "UpdateRatio": lambda: [gw.train.UpdateRatio(low=-20.0)],
            "Profiler, done": lambda: [gw.train.Profiler(Path(folder, "trace"), warmup=10)],
        }
        found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
        for _ in range(ROUNDS):
            for kind, make in kinds.items():
                found[kind].append(each_step(*make()))
    for kind, times in found.items():
        own, every = (min(column) for column in zip(*times, strict=True))
        print(f"{kind:15} {own:6.1f} µs a step in the training, {every:6.1f} µs in all")


if __name__ == "__main__":
    callbacks()

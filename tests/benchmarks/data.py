"""What feeding costs: assembled batches beside numpy's take and torch's DataLoader, and overlap.

``python -m tests.benchmarks.data``.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from statistics import median

import numpy as np

import gradwright as gw
from gradwright.data import batches, order

ROUNDS = 9


def in_turns(works: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median seconds of each, run in turns so that all see the same machine."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - began)
    return {name: median(taken) for name, taken in times.items()}


def drained(items: Iterable[object]) -> None:
    """Take all items."""
    for _ in items:
        pass


def assembly(rows: int, width: int, size: int) -> None:
    """Print how long an epoch of shuffled batches takes."""
    x = np.random.default_rng(0).random((rows, width), np.float32)
    t = np.arange(rows) % 10
    g = gw.Graph()
    needed = [g.placeholder("x", (None, width)), g.placeholder("t", (None,), "int64")]
    whole = batches(g, {"x": x, "t": t}, needed, size, shuffle=True)
    part = batches(g, gw.data.split({"x": x, "t": t}, 0.01)[0], needed, size, shuffle=True)

    def takes() -> None:
        rows_of_epoch = order(0, 0, rows)
        for at in range(0, rows, size):
            chosen = rows_of_epoch[at : at + size]
            x.take(chosen, 0)
            t.take(chosen, 0)

    epochs = itertools.count()  # each has an order of its own
    works: dict[str, Callable[[], object]] = {
        "numpy take": takes,
        "arrays": lambda: drained(whole.epoch(next(epochs))),
        "a split of them": lambda: drained(part.epoch(next(epochs))),
    }
    try:
        import torch
    except ImportError:
        print("torch is not installed: pip install -e '.[oracle]'")
    else:
        tensors = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(t))
        loader = torch.utils.data.DataLoader(tensors, batch_size=size, shuffle=True)
        works["torch DataLoader"] = lambda: drained(loader)
    taken = in_turns(works)
    n = -(-rows // size)
    print(f"{rows} rows of {width} floats, batches of {size}: us per batch, and beside take")
    for name, seconds in taken.items():
        print(f"  {name:<18} {seconds / n * 1e6:9.1f}  {seconds / taken['numpy take']:6.2f}x")


def overlap(n: int = 40, make: float = 0.004, use: float = 0.004) -> None:
    """Print how long a source and a use that wait as long as each other take together."""

    def source() -> Iterable[dict[str, list[int]]]:
        for i in range(n):
            time.sleep(make)
            yield {"x": [i]}

    def used(data: Iterable[object]) -> None:
        for _ in data:
            time.sleep(use)

    data = gw.data.dataset(source)
    taken = in_turns({"in turns": lambda: used(data), "prefetched": lambda: used(data.prefetch(2))})
    print(f"a source of {make * 1e3:.0f} ms and a use of {use * 1e3:.0f} ms, {n} times: ms")
    for name, seconds in taken.items():
        print(f"  {name:<18} {seconds * 1e3:9.1f}  {seconds / taken['in turns']:6.2f}x")


if __name__ == "__main__":
    assembly(20_000, 784, 64)
    assembly(20_000, 784, 256)
    assembly(20_000, 64, 32)
    overlap()

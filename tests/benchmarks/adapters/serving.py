"""Many adapters on one base: switching among a hundred on disk, and eight in one batch.

The base is the Llama of the steps, the adapters LoRA of rank 8 on queries and values, folders of
Hugging Face. The wall clock counts here, for reading files is no work of the processor.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from gradwright import adapters
from gradwright.models import Decoder
from tests.benchmarks.adapters.sides import CONFIG

COUNT, SLOTS = 100, 8
NEW = 32
"""Tokens of a generation."""


def main(methods: Sequence[str]) -> None:
    """Print both tables."""
    with tempfile.TemporaryDirectory() as folder:
        written(Path(folder))
        served = adapters.serve(Decoder(CONFIG), folder, slots=SLOTS, most=COUNT)
        switching(served)
        rows(served)
        served.close()


def written(folder: Path) -> None:
    """Write adapters with numbers of their own."""
    rng = np.random.default_rng(0)
    model = Decoder(CONFIG)
    adapted = adapters.add(model, adapters.LoRA(r=8, alpha=16), "q|v")
    for i in range(COUNT):
        state = adapted.state()
        adapted.load_state({k: 0.02 * rng.standard_normal(v.shape) for k, v in state.items()})
        adapters.save(adapted, folder / f"a{i}")


def switching(served: adapters.Served) -> None:
    """Print how long the adapter of a row takes to be where it is read from."""

    def of(names: Sequence[str]) -> float:
        taken = []
        for name in names:
            start = time.perf_counter()
            with served.rows([name]):
                taken.append(time.perf_counter() - start)
        return statistics.median(taken) * 1e3

    names = list(served.names)
    first, again = of(names), of(names * 3)
    print(f"\nswitching among {COUNT} adapters with {SLOTS} slots, ms; aim < 1 on a hit")
    print(f"  from disk              {first:8.3f}")
    print(f"  from memory to a slot  {again:8.3f}")
    print(f"  in its slot            {of(names[-1:] * 300):8.3f}")
    print(f"  {served.counts}")


def rows(served: adapters.Served) -> None:
    """Print how many times as long eight runs take as one of eight rows."""
    rng, eight = np.random.default_rng(1), list(itertools.islice(served.names, SLOTS))
    prompts = rng.integers(1, 1000, (SLOTS, 4)).tolist()
    print("\neight rows of eight adapters in one batch, and eight runs, ms; aim 2x")

    def batch() -> None:
        served.generate(prompts, NEW, rows=eight)

    def alone() -> None:
        for prompt, name in zip(prompts, eight, strict=True):
            served.generate([prompt], NEW, rows=[name])

    told(f"generate {NEW} tokens", batch, alone)
    for length in (1, 8, 128):
        ids = rng.integers(0, 1000, (SLOTS, length))

        def together(ids: np.ndarray = ids) -> None:
            served.run("logits", {"ids": ids}, rows=eight)

        def one_by_one(ids: np.ndarray = ids) -> None:
            for row, name in zip(ids, eight, strict=True):
                served.run("logits", {"ids": row[None]}, rows=[name])

        told(f"a forward run of {length}", together, one_by_one)


def told(what: str, batch: Callable[[], None], alone: Callable[[], None]) -> None:
    """Race both and print a line."""
    for run in (batch, alone) * 3:
        run()
    time.sleep(2.0)  # kernels are compiled in the background
    taken: dict[str, list[float]] = {"batch": [], "alone": []}
    for _ in range(7):
        for name, run in (("batch", batch), ("alone", alone)):
            start = time.perf_counter()
            run()
            taken[name].append((time.perf_counter() - start) * 1e3)
    one, eight = (statistics.median(times) for times in taken.values())
    print(f"  {what:<22} {one:9.2f} {eight:9.2f} {eight / one:6.2f}x", flush=True)

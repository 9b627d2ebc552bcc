"""What a checkpoint of 10 million parameters costs: the training that waits, and the disk.

``python -m tests.benchmarks.checkpoints``.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.train.checkpoints.snapshot import Documents, Training, taken

LAYERS, WIDTH = 10, 1000


def deep() -> gw.Trainer:
    """Return a trainer of 10 million parameters that has taken steps with Adam."""
    g = gw.Graph()
    h = g.placeholder("x", (None, WIDTH))
    for i in range(LAYERS):
        h = gw.tanh(h @ g.variable(f"w{i}", (WIDTH, WIDTH), init=np.eye(WIDTH)))
    trainer = gw.Trainer(g, gw.mean(h * h), session=gw.Session(g, deterministic=True))
    for _ in range(3):
        trainer.step({"x": np.ones((4, WIDTH), "float32")})
    return trainer


def timed(*works: Callable[[], Any], rounds: int = 7) -> list[float]:
    """Return the median time of each piece of work, in ms; they take turns."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, found in zip(works, times, strict=True):
            begun = time.perf_counter()
            work()
            found.append((time.perf_counter() - begun) * 1e3)
    return [median(found) for found in times]


def synced(path: Path) -> None:
    """Have the disk hold what was written."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def checkpoints() -> None:
    """Print how long a snapshot and the next step take, and how long writing does."""
    trainer, documents = deep(), Documents()
    feeds = {"x": np.ones((4, WIDTH), "float32")}

    def snapshot() -> Any:
        return taken(
            trainer,
            documents,
            training=Training("", {}),
            metrics={},
            is_epoch_end=False,
            monitor="",
            mode="min",
        )

    def step() -> None:
        trainer.step(feeds)

    held: list[Any] = []
    taking, after, usual = timed(
        lambda: held.append(snapshot()), step, lambda: (held.clear(), step())
    )
    print("\ncheckpoint of 10 M parameters with Adam, 120 MB")
    print(f"  taking it, between two steps {taking:8.2f} ms")
    print(f"  the next step                {after:8.2f} ms   (new arrays for those that it holds)")
    print(f"  any other step               {usual:8.2f} ms")
    with tempfile.TemporaryDirectory() as name:
        works = writers(Path(name), snapshot())
        for label, found in zip(works, timed(*works.values()), strict=True):
            print(f"  {label:<28} {found:8.0f} ms")


def writers(folder: Path, snapshot: Any) -> dict[str, Callable[[], Any]]:
    """Return ways to have the same arrays on the disk."""
    from safetensors.numpy import save_file

    arrays = {k: np.array(v) for k, v in {**snapshot.values, **snapshot.state}.items()}

    def raw() -> None:
        with (folder / "plain").open("wb") as file:
            for array in arrays.values():
                file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        synced(folder / "plain")

    def tensors() -> None:
        save_file(arrays, folder / "a.safetensors")
        synced(folder / "a.safetensors")

    works: dict[str, Callable[[], Any]] = {
        "writing it, CRC, fsync": lambda: snapshot.write(folder, 1),
        "the bytes alone, fsync": raw,
        "safetensors, fsync": tensors,
    }
    try:
        import torch
    except ImportError:
        return works
    held = {name: torch.from_numpy(array) for name, array in arrays.items()}

    def saved() -> None:
        torch.save(held, folder / "a.pt")
        synced(folder / "a.pt")

    return works | {"torch.save, fsync": saved}


if __name__ == "__main__":
    checkpoints()

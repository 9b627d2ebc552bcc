"""ONNX models here and on ONNX Runtime, in turn: ``python -m tests.benchmarks.onnx``.

    python -m tests.benchmarks.onnx [--torch] [--threads N] [--clock cpu] [part of a name ...]

The networks that come with the onnx package, with random weights, and five that are written; with
``--torch`` these are written by torch's exporter. Every pair runs the same model on the same input,
after both have been found to agree; 1 and then 2 threads, a process each. Ratios above 1 say how
many times as long we take. ``--clock cpu`` counts the time of the process, where others use the
machine, too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

if __name__ == "__main__":  # before numpy is imported
    _count = next((sys.argv[i + 1] for i, a in enumerate(sys.argv) if a == "--threads"), "1")
    for _pool in ("OPENBLAS", "MKL", "OMP"):
        os.environ[f"{_pool}_NUM_THREADS"] = _count

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.onnx_models import LIGHT, WRITTEN, by_torch, feeds_of, light
from tests.benchmarks.timing import Timing, race

OURS, THEIRS = "gradwright", "ONNX Runtime"
ROUNDS = 5
CLOSE = 1e-3
"""How far outputs may be apart, of the largest: deep networks add up many roundings."""


def rivals(model: Any, threads: int) -> dict[str, Any]:
    """Return both as functions of nothing, on the same input; raises where they disagree."""
    feeds = feeds_of(model)
    graph = gw.onnx.load(model)
    runner = gw.onnx.Runner(model, threads=threads)
    output = runner.names[0]
    session = gw.Session(graph, kernels="wait", threads=threads)
    named = {name: graph.placeholders[i].name for i, name in enumerate(feeds)}
    prepared = session.prepare(graph[output.replace(":", "_")], list(named.values()))
    arrays, binding = list(feeds.values()), runner.bind(feeds, output)
    ours, theirs = prepared(*arrays), binding.run()[output]
    for _ in range(20):  # threads are chosen in the first sixteen
        ours = prepared(*arrays)
    apart = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    if apart > CLOSE:
        raise AssertionError(f"{model.graph.name}: outputs are {apart:.1e} apart")
    return {OURS: lambda: prepared(*arrays), THEIRS: binding.run}


def measure(name: str, model: Any, threads: int, clock: Callable[[], float]) -> float:
    """Print both times and return how many times as long we take."""
    found: dict[str, Timing] = race(rivals(model, threads), ROUNDS, clock)
    ratio = found[OURS].median / found[THEIRS].median
    print(f"  {name:<22} {found[OURS]}   {found[THEIRS]}   {ratio:6.2f}", flush=True)
    return ratio


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("parts", nargs="*")
    chosen = parser.parse_args(arguments)
    if chosen.threads is None:
        for n in (1, 2):
            command = [sys.executable, "-m", "tests.benchmarks.onnx", "--threads", str(n)]
            subprocess.run([*command, *arguments], check=True)
        return
    models = {name: (lambda name=name: light(name)) for name in LIGHT}
    for name, make in WRITTEN.items():
        if chosen.torch:
            models[name] = lambda name=name: by_torch(name)
        else:
            models[name] = lambda make=make: gw.onnx.to_model(make())
    wanted = [m for m in models if not chosen.parts or any(p in m for p in chosen.parts)]
    print(f"{chosen.threads} thread{'s' * (chosen.threads > 1)}: ours, {THEIRS}, ratio")
    clock = time.process_time if chosen.clock == "cpu" else time.perf_counter
    ratios = [measure(name, models[name](), chosen.threads, clock) for name in wanted]
    print(f"  geometric mean {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])

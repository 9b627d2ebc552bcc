"""Weights beside an ONNX model, above 2 GB both ways: time, memory, and bytes on disk.

    python -m tests.benchmarks.external [gigabytes] [--full]

A model of layers of 256 MB is written, loaded, and one row of it read. Its weights are zeros, which
neither memory nor disk has been asked for, or with ``--full`` numbers, which both have.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw

ROWS, WIDTH = 1 << 14, 1 << 12


def model(layers: int, full: bool) -> gw.Graph:
    """Return a graph that reads a row of each layer."""
    g = gw.Graph("large")
    i = g.placeholder("i", (1,), dtype="int64")
    rng = np.random.default_rng(0)
    for k in range(layers):
        w = g.variable(f"w{k}", (ROWS, WIDTH))
        if full:
            rng.standard_normal(dtype=np.float32, out=g.values.array(w.name))
        gw.gather(w, i, name=f"y{k}")
    return g


def told(what: str, use: Callable[[], Any]) -> Any:
    """Print how long something takes, and what memory the process has more after it."""
    before, start = resident(), time.perf_counter()
    found = use()
    took = time.perf_counter() - start
    print(f"{what:28} {took:8.3f} s {(resident() - before) / 1e6:10,.1f} MB of memory", flush=True)
    return found


def resident() -> int:
    """Return the bytes of memory that the process has, pages of mapped files that it read too."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Write, load, read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gigabytes", nargs="?", type=float, default=3.0)
    parser.add_argument("--full", action="store_true")
    asked = parser.parse_args()
    layers = max(1, round(asked.gigabytes * 1e9 / (4 * ROWS * WIDTH)))
    i, names = np.int64([7]), [f"y{k}" for k in range(layers)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        g = model(layers, asked.full)
        known = g.output({"i": i}, *names)
        told("gw.onnx.save", lambda: gw.onnx.save(g, path))
        for file in sorted(Path(folder).iterdir()):
            stat = file.stat()
            print(f"{file.name:28} {stat.st_size:,} bytes, {stat.st_blocks * 512:,} on disk")
        told("gw.inspect", lambda: gw.inspect(path))
        loaded = told("gw.onnx.load", lambda: gw.onnx.load(path))
        found = told("a row of each layer", lambda: loaded.output({"i": i}, *names))
        assert all(np.array_equal(found[n], known[n]) for n in names)


if __name__ == "__main__":
    main()

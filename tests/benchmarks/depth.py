"""``python -m tests.benchmarks.depth``: what depth costs, in one graph and in a stack of layers.

Build is what the first gradients take beyond the later ones: graph, plans, kernels (compiled, none
from the cache). Memory is the peak of resident memory above that of an empty process and the
weights. Each case has a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.recipes.depth import Disk

WIDTH, TOKENS, BATCH = 128, 64, 8
SHAPES = {
    "g": (WIDTH,), "q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH),
    "o": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH),
}  # fmt: skip
CASES = ("graph", "graph, sqrt", "stack", "stack, disk")


def block(p: Any, x: Any) -> Any:
    """Return one layer of a transformer with a single head."""
    h = gw.nn.rms_norm(x, p["g"])
    scores = gw.nn.softmax((h @ p["q"]) @ (h @ p["k"]).swapaxes(-1, -2) / WIDTH**0.5)
    x = x + scores @ (h @ p["v"]) @ p["o"]
    return x + gw.nn.gelu(x @ p["up"]) @ p["down"]


def weights(n: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    scaled = {k: 0.02 * rng.standard_normal(s, dtype=np.float32) for k, s in SHAPES.items()}
    return [scaled] * n


def resident() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(case: str, n: int) -> dict[str, float]:
    """Return seconds to build, milliseconds per gradient, and peak MiB of one case."""
    x = np.random.default_rng(1).standard_normal((BATCH, TOKENS, WIDTH), dtype=np.float32)
    layers, before, began = weights(n), resident(), time.perf_counter()
    if case.startswith("stack"):
        specs = {k: gw.TensorSpec(s) for k, s in SHAPES.items()}
        stack = gw.CheckpointedStack(
            block, specs, gw.TensorSpec(("B", "T", WIDTH)), kernels="wait", threads=1
        )
        store = Disk() if "disk" in case else None

        def run() -> None:
            y, held = stack.forward(layers, x, store=store)
            stack.backward(layers, held, y, sink=lambda i, grads: None)
    else:
        g = gw.Graph()
        y = fed = g.placeholder("x", ("B", "T", WIDTH))
        params = []
        for i, layer in enumerate(layers):
            with g.scope(f"layer{i}"):
                p = {k: g.variable(k, v.shape, init=v) for k, v in layer.items()}
                y = block(p, y)
                params += p.values()
        checkpoint = "sqrt" if "sqrt" in case else None
        session = gw.Session(g, kernels="wait", threads=1, checkpoint=checkpoint)
        before = resident()  # the weights are one array in the stack, and n here
        prepared = session.prepare([*gw.gradients(y, [*params, fed], y)], [fed], training=True)

        def run() -> None:
            prepared(x)

    run()
    built = time.perf_counter() - began
    times = []
    for _ in range(5):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return {"build": built - min(times), "ms": 1e3 * min(times), "MiB": resident() - before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", nargs=2, metavar=("CASE", "LAYERS"))
    given = parser.parse_args()
    if given.case:
        print(json.dumps(measure(given.case[0], int(given.case[1]))))
        return
    print(f"{'':14}{'layers':>8}{'build, s':>10}{'x of 4':>8}{'gradient, ms':>14}{'peak, MiB':>11}")
    for case in CASES:
        first = None
        for n in (4, 16, 64):
            empty = tempfile.mkdtemp()
            command = [sys.executable, "-m", "tests.benchmarks.depth", "--case", case, str(n)]
            environment = {**os.environ, "GRADWRIGHT_CACHE": empty}
            done = subprocess.run(command, capture_output=True, check=True, env=environment)
            shutil.rmtree(empty)
            row = json.loads(done.stdout)
            first = first or row["build"]
            print(
                f"{case:14}{n:8}{row['build']:10.2f}{row['build'] / first:8.2f}"
                f"{row['ms']:14.1f}{row['MiB']:11.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

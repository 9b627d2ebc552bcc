"""Convolutions of many kinds here, in torch and in ONNX Runtime: relu(conv(x, w) + b).

    python -m tests.benchmarks.convolutions [--threads N] [--clock cpu] [part of a name ...]

All take turns on the same numbers, after they have been found to agree. Beside the times stand how
many GFLOP/s ours does, and what share that is of numpy's BLAS on large matrices in the same rounds:
the bound of a convolution that computes every product. ``--clock cpu`` counts the time of this
process, where others use the machine, too. Networks: ``python -m tests.benchmarks.onnx``.
"""

from __future__ import annotations

import argparse
import os
import sys

if __name__ == "__main__":  # before numpy is imported
    _count = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv else "1"
    for _pool in ("OPENBLAS", "MKL", "OMP"):
        os.environ[f"{_pool}_NUM_THREADS"] = _count

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gradwright as gw
from tests.benchmarks.timing import race

Shape = tuple[int, ...]
LAYERS: dict[str, tuple[Shape, Shape, dict[str, Any]]] = {
    "1x1, 56x56": ((1, 64, 56, 56), (256, 64, 1, 1), {}),
    "1x1 of many, 56x56": ((1, 256, 56, 56), (64, 256, 1, 1), {}),
    "1x1, 14x14": ((1, 1024, 14, 14), (256, 1024, 1, 1), {}),
    "1x1, 7x7": ((1, 512, 7, 7), (2048, 512, 1, 1), {}),
    "1x1, 8 of 7x7": ((8, 512, 7, 7), (512, 512, 1, 1), {}),
    "1x1 strided": ((1, 256, 56, 56), (512, 256, 1, 1), {"stride": 2}),
    "3x3, 56x56": ((1, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
    "3x3, 14x14": ((1, 256, 14, 14), (256, 256, 3, 3), {"padding": 1}),
    "3x3, 8 of 7x7": ((8, 256, 7, 7), (256, 256, 3, 3), {"padding": 1}),
    "3x3 strided": ((1, 128, 56, 56), (128, 128, 3, 3), {"padding": 1, "stride": 2}),
    "3x3 dilated": ((1, 128, 28, 28), (128, 128, 3, 3), {"padding": 2, "dilation": 2}),
    "7x7, RGB": ((1, 3, 224, 224), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
    "grouped": ((1, 128, 28, 28), (128, 4, 3, 3), {"padding": 1, "groups": 32}),
    "depthwise, 56x56": ((1, 144, 56, 56), (144, 1, 3, 3), {"padding": 1, "groups": 144}),
    "depthwise strided": (
        (1, 96, 112, 112), (96, 1, 3, 3), {"padding": 1, "stride": 2, "groups": 96},
    ),
    "depthwise, 7x7": ((1, 960, 7, 7), (960, 1, 3, 3), {"padding": 1, "groups": 960}),
}  # fmt: skip
SIDE = 768
"""Of the matrices that tell BLAS's rate."""
CLOSE = 1e-5


def rivals(x: Shape, w: Shape, attrs: dict[str, Any], threads: int) -> dict[str, Any]:
    """Return all as functions of nothing; raises where they disagree."""
    import torch

    torch.set_num_threads(threads)
    rng = np.random.default_rng(0)
    scale = math.prod(w[1:]) ** -0.5
    arrays = [rng.standard_normal(s).astype("f") for s in (x, w, w[:1])]
    arrays[1] *= scale
    g = gw.Graph("convolution")
    weight, bias = (g.constant(a, n) for n, a in zip("wb", arrays[1:], strict=True))
    y = gw.nn.relu(gw.cnn.conv2d(g.placeholder("x", x), weight, bias, **attrs), name="y")
    prepared = gw.Session(g, kernels="wait", threads=threads).prepare(y, ["x"])
    runner = gw.onnx.Runner(gw.onnx.to_model(g), threads=threads)
    binding = runner.bind({"x": arrays[0]}, runner.names[0])
    tensors = [torch.from_numpy(a) for a in arrays]

    def eager() -> Any:
        with torch.no_grad():
            return torch.relu(torch.nn.functional.conv2d(*tensors, **attrs))

    found = {
        "gradwright": lambda: prepared(arrays[0]),
        "torch": eager,
        "ONNX Runtime": lambda: binding.run()[runner.names[0]],
    }
    expected = np.asarray(eager())
    for name, run in found.items():
        apart = float(np.abs(np.asarray(run()) - expected).max() / np.abs(expected).max())
        if apart > CLOSE:
            raise AssertionError(f"{name}: outputs are {apart:.1e} apart")
    a, b = rng.standard_normal((2, SIDE, SIDE)).astype("f")
    return {**found, "BLAS": lambda: a @ b}


def measure(name: str, threads: int, clock: Callable[[], float]) -> float:
    """Print a row, and return how many times as long the faster peer takes."""
    x, w, attrs = LAYERS[name]
    peers = rivals(x, w, attrs, threads)
    found = race(peers, clock=clock)
    flops = 2.0 * np.asarray(peers["torch"]()).size * math.prod(w[1:])
    rate = flops / found["gradwright"].median
    share = rate / (2.0 * SIDE**3 / found["BLAS"].median)
    best = min(found["torch"].median, found["ONNX Runtime"].median) / found["gradwright"].median
    times = "  ".join(str(found[k]) for k in ("gradwright", "torch", "ONNX Runtime"))
    print(f"  {name:<20} {times}  {rate / 1e9:6.1f} {share:7.0%} {best:7.2f}", flush=True)
    return best


def main() -> None:
    """Print a row for each layer, and the mean of the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("parts", nargs="*")
    chosen = parser.parse_args()
    clock = time.process_time if chosen.clock == "cpu" else time.perf_counter
    wanted = [n for n in LAYERS if not chosen.parts or any(p in n for p in chosen.parts)]
    print("ours, torch, ONNX Runtime; GFLOP/s, share of BLAS's, best peer/ours")
    ratios = [measure(name, chosen.threads, clock) for name in wanted]
    print(f"  geometric mean {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()

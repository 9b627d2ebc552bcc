"""``python -m tests.benchmarks.packed``: products with packed weights, by what memory can give.

All matrices of a Llama of 150 million random weights lie in a mapped file. Each way multiplies all
of them once, for one row of x, eight and sixty-four, in turns with a plain read of the file; the
shortest of some turns counts. ``tests.benchmarks.decoding`` generates with the same weights.
"""

from __future__ import annotations

import ctypes
import functools
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")

import numpy as np  # noqa: E402

from gradwright.cpu.llvm.compiler import compile_text  # noqa: E402
from gradwright.cpu.llvm.packed.bind import products  # noqa: E402
from gradwright.cpu.llvm.packed.lanes import load, near  # noqa: E402
from gradwright.cpu.llvm.packed.machine import entries, machine  # noqa: E402
from gradwright.cpu.llvm.text import Code  # noqa: E402
from gradwright.models import DecoderConfig  # noqa: E402
from gradwright.ops.quantised.blocks import FORMATS, packed_ggml  # noqa: E402

Array = np.ndarray[Any, Any]
CONFIG = DecoderConfig(
    vocabulary=8192, width=1024, layers=12, heads=16, kv_heads=4, inner=2816, context=2048,
    tied=True,
)  # fmt: skip
KINDS = "q8_0", "q4_0", "q4_k", "q6_k"
ROWS = 1, 8, 64
TURNS = {1: 25, 8: 9, 64: 5}
Calls = Sequence[tuple[Callable[[int], None], int]]


def weights(kind: str) -> dict[str, Array]:
    """Return random weights, whose matrices are packed: what costs time are their bytes."""
    rng, form = np.random.default_rng(0), FORMATS[kind]
    some = packed_ggml(0.02 * rng.standard_normal((64, 4096)), kind).reshape(-1, form.n_bytes)
    found: dict[str, Array] = {}
    for name, shape in CONFIG.weights():
        if len(shape) == 1:
            found[name] = np.ones(shape, "f4")
        else:
            blocks = rng.integers(0, len(some), shape[0] * shape[1] // form.size)
            found[name] = some[blocks].reshape(shape[0], -1)
    return found


def mapped(folder: Path, given: Mapping[str, Array]) -> tuple[Array, dict[str, Array]]:
    """Return matrices as they lie in a mapped file, and the whole of it."""
    path = folder / "weights"
    matrices = {name: w for name, w in given.items() if w.ndim == 2}
    with path.open("wb") as file:
        for w in matrices.values():
            file.write(w.tobytes())
    whole: Array = np.memmap(path, np.uint8, "r")
    at, found = 0, {}
    for name, w in matrices.items():
        found[name] = whole[at : at + w.size].reshape(w.shape)
        at += w.size
    return whole, found


# -- what is timed ---------------------------------------------------------------------------------


def _function(address: int) -> Callable[[int], None]:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)


def reading(whole: Array) -> tuple[Calls, Any]:
    """Return a call that reads a file by lines of a cache, eight at a time."""
    code = Code()
    at = entries(code, ("p", "out", "n"), 2)
    zero, none = code.const("i64", 0), code.const("<8 x i64>", 0)
    with code.loop(zero, at["n"], step=512, carried=[none] * 8) as loop:
        p = near(at["p"], loop.index)
        loop.turned = [x ^ load(x.type, p, 64 * i) for i, x in enumerate(loop.carried)]
    total = loop.carried[0]
    for x in loop.carried[1:]:
        total = total ^ x
    code.do(f"store {total.type} {total.name}, ptr {at['out'].name}, align 1")
    out = np.zeros(64, np.uint8)
    block = np.array([whole.ctypes.data, out.ctypes.data, whole.size // 512 * 512])
    address = compile_text(code.module(machine().attributes))
    return [(_function(address), block.ctypes.data)], (out, block, whole)


def multiplying(kind: str, given: Mapping[str, Array], n: int, as_bytes: bool) -> tuple[Calls, Any]:
    """Return calls that multiply n rows with each matrix."""
    rng, form, held, calls = np.random.default_rng(1), FORMATS[kind], list[Any](), list[Any]()
    for w in given.values():
        k = w.shape[1] // form.n_bytes * form.size
        raw = np.empty(4 * n * k + 64, np.uint8)
        x = np.ndarray((n, k), np.float32, raw, -raw.ctypes.data % 64)
        x[:] = rng.standard_normal((n, k))
        y = np.empty((n, len(w)), np.float32)
        made = products(kind, machine(), x, w, y, as_bytes=as_bytes)
        held.append((x, y, made))
        calls += [(_function(call.address), call.block.ctypes.data) for call in made]
    return calls, held


def through_torch(given: Mapping[str, Array], n: int, kind: str) -> Callable[[], Any]:
    """Return the same products of float32 weights, by torch on one thread."""
    import torch

    torch.set_num_threads(1)
    form = FORMATS[kind]
    pairs = []
    for w in given.values():
        k = w.shape[1] // form.n_bytes * form.size
        pairs.append((torch.ones(len(w), k), torch.ones(n, k)))

    def run() -> None:
        for w, x in pairs:
            torch.nn.functional.linear(x, w)

    return run


def seconds(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _run(calls: Calls) -> None:
    for function, block in calls:
        function(block)


def shortest(rivals: Mapping[str, Callable[[], Any]], turns: int) -> dict[str, float]:
    """Return the shortest time of each, one after the other in turns."""
    best = dict.fromkeys(rivals, float("inf"))
    for _ in range(turns):
        for name, run in rivals.items():
            best[name] = min(best[name], seconds(run))
    return best


def main() -> None:
    """Print what products of one token's matrices take, by format, rows of x and activations."""
    print(f"all matrices once, {machine().name}, one thread")
    print(f"{'':8}{'MB':>5}{'rows':>6}{'ms':>9}{'GB/s':>8}{'of a read':>11}{'tokens/s':>10}")
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            whole, matrices = mapped(Path(folder), weights(kind))
            for n in ROWS:
                plain, held = reading(whole)
                rivals: dict[str, Callable[[], Any]] = {"read": functools.partial(_run, plain)}
                for name, as_bytes in (("float32", False), ("int8", True)):
                    calls, more = multiplying(kind, matrices, n, as_bytes)
                    held = held, more
                    rivals[name] = functools.partial(_run, calls)
                if kind == KINDS[0]:
                    rivals["torch"] = through_torch(matrices, n, kind)
                best = shortest(rivals, TURNS[n])
                for name, t in best.items():
                    size = whole.size * (4 * FORMATS[kind].size / FORMATS[kind].n_bytes
                                         if name == "torch" else 1)  # fmt: skip
                    rate = size / t / 1e9
                    read = whole.size / best["read"] / 1e9
                    tokens = "" if name == "read" else f"{n / t:10.0f}"
                    print(
                        f"{kind:6}{name:8}{size / 1e6:5.0f}{n:4}{t * 1e3:9.2f}{rate:8.1f}"
                        f"{rate / read:10.0%}{tokens}"
                    )


if __name__ == "__main__":
    main()

"""Kernels as machine code for aarch64, run under qemu-user against numpy's values.

    apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross
    python -m tests.cpu.aarch64

Each object is linked with a few lines of C that read operands from a file, call the kernel and
write them back. `objects` is also what tests/cpu/test_aarch64.py looks at, without any of that.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from gradwright.cpu.llvm import chain, gemm, repeat, unpacked
from gradwright.cpu.llvm.attention import softmax
from gradwright.cpu.llvm.compiler import Toolchain
from gradwright.cpu.llvm.convolution import tiles, turning
from gradwright.cpu.llvm.convolution.machine import machine_of
from gradwright.cpu.llvm.kernels.emit import emit
from gradwright.cpu.llvm.target import Target
from gradwright.cpu.threads import forks
from gradwright.fuse.functions import FUNCTIONS
from gradwright.fuse.interpret import evaluate
from gradwright.fuse.ir import Kernel
from gradwright.fuse.layout import Loops, block, lay_out
from gradwright.fuse.schedule import scratch_bytes
from tests.cpu.sketches import Sketch, space_of

Array = np.ndarray[Any, Any]
TARGET = Target("native", "aarch64", frozenset())
NEEDED = ("qemu-aarch64", "aarch64-linux-gnu-gcc")


@functools.cache
def tools() -> Toolchain:
    """Return LLVM for any 64-bit ARM."""
    return Toolchain("aarch64-linux-gnu", "generic")


@dataclass(frozen=True)
class Case:
    """A kernel and its inputs."""

    name: str
    kernel: Kernel
    inputs: list[Array]

    def bound(self) -> tuple[Loops, list[Array]]:
        """Return the loops of the kernel, and its operands: what goes in, and what numpy finds."""
        space = space_of(self.kernel, self.inputs)
        results = evaluate(self.kernel, [x.copy() for x in self.inputs], space)
        operands = [np.ascontiguousarray(x) for x in (*self.inputs, *results)]
        loops = lay_out(self.kernel, operands, space)
        assert isinstance(loops, Loops), self.name
        return loops, operands

    def text(self) -> str:
        """Return the kernel's LLVM text."""
        return emit(self.kernel, self.bound()[0].pattern)


def numbers(dtype: str, n: int = 67, seed: int = 0) -> Array:
    """Return numbers between -3 and 3; ints and bools of the same."""
    x = np.random.default_rng(seed).uniform(-3, 3, n)
    return x > 0 if dtype == "?" else x.astype(dtype)


def cases() -> Iterator[Case]:
    """Yield every element function on every dtype that it takes, casts, and rows."""
    kinds = {"b": ("?",), "i": ("i4", "i8"), "f": ("f4", "f8")}
    for name, function in FUNCTIONS.items():
        for dtype in (d for kind in function.kinds for d in kinds[kind]):
            sketch, xs = Sketch(1), []
            args = []
            for n in range(function.n_args):
                xs.append(numbers("?" if name == "where" and not n else dtype, seed=n))
                args.append(sketch.load(f"{xs[-1].dtype.char}:1"))
            if name.startswith(("log", "sqrt", "rsqrt", "pow")):
                xs[0] = np.abs(xs[0]) + np.asarray(0.25, dtype)
            value = getattr(sketch, name + "_")(*args)
            sketch.store(value, f"{sketch.values[value].dtype.char}:1")
            yield Case(f"{name} {dtype}", sketch.kernel(), xs)
    half = np.dtype(ml_dtypes.bfloat16)
    for before in ("?", "i4", "i8", "f4", "f8"):
        sketch, x = Sketch(1), numbers(before)
        value = sketch.load(f"{x.dtype.char}:1")
        for after in ("?", "i4", "i8", "f4", "f8", "f2", half):
            sketch.store(sketch.cast(value, after), f"{np.dtype(after).name}:1")
        yield Case(f"casts of {before}", sketch.kernel(), [x])
    for dtype in ("f4", "f8"):
        yield Case(f"softmax {dtype}", _softmax(dtype), [numbers(dtype, 6 * 40).reshape(6, 40)])
        x = numbers(dtype, 6 * 40, 3).reshape(6, 40)
        yield Case(f"column sums {dtype}", _sums(dtype), [x])


def _softmax(dtype: str) -> Kernel:
    sketch = Sketch(2, 1)
    x = sketch.load(f"{dtype}:11")
    e = sketch.exp(sketch.sub(x, sketch.reduce("max", x)))
    sketch.store(sketch.div(e, sketch.reduce("sum", e)), f"{dtype}:11")
    return sketch.kernel()


def _sums(dtype: str) -> Kernel:
    sketch = Sketch(2, 2)
    x = sketch.load(f"{dtype}:11")
    for moves in ("01", "10", "00"):
        sketch.store(x, f"{dtype}:{moves}", "sum")
    return sketch.kernel()


def texts() -> Iterator[tuple[str, str]]:
    """Yield what else there is as text: chains, threads, products, convolutions."""
    yield "chain", chain.SOURCE
    yield "repeat", repeat.SOURCE
    yield "worker", forks.source("worker", TARGET)
    yield "fork", forks.source("fork", TARGET)
    for char in "fd":
        yield f"gemm {char}", gemm._source("m", char, False, 64)
        yield f"gemv {char}", gemm._source("v", char, False, 64)
        machine = machine_of(TARGET, char)
        for rows in machine.shapes:
            yield f"taps {char} {rows}", tiles.source("taps", machine, rows)
        for taps in tiles.COUNTS:
            yield f"inner {char} {taps}", tiles.source("inner", machine, taps)
            yield f"outer {char} {taps}", tiles.source("outer", machine, taps, machine.columns)
        yield f"turning {char}", turning.source(machine)
        yield f"product of a tile {char}", unpacked.source(machine, 8, True)
        yield f"weights {char}", softmax.source(machine, "?", True, True, True, False)


# Under qemu ---------------------------------------------------------------------------------------

DRIVER = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
extern void k(int64_t *block);
static int64_t next(FILE *f) { int64_t n; if (fread(&n, 8, 1, f) != 1) exit(2); return n; }
int main(int count, char **names) {
    FILE *f = fopen(names[1], "rb");
    int64_t entries = next(f), operands = next(f), scratch = next(f), place = next(f);
    int64_t *block = malloc(8 * entries + 8), sizes[64];
    for (int64_t i = 0; i < entries; i++) block[i] = next(f);
    for (int64_t i = 0; i < operands; i++) {
        sizes[i] = next(f);
        block[i] = (int64_t)malloc(sizes[i] + 64);
        if (fread((void *)block[i], 1, sizes[i], f) != (size_t)sizes[i]) return 2;
    }
    if (scratch) block[place] = (int64_t)malloc(scratch + 64);
    fclose(f);
    k(block);
    f = fopen(names[2], "wb");
    for (int64_t i = 0; i < operands; i++) fwrite((void *)block[i], 1, sizes[i], f);
    return fclose(f);
}
"""


def difference(case: Case, folder: Path) -> float:
    """Return by how much a kernel under qemu and numpy differ, relative to what each is held to."""
    from gradwright.fuse.layout import Slots

    loops, operands = case.bound()
    scratch = scratch_bytes(case.kernel, loops)
    entries = block(loops, [0] * len(operands), 0)
    slots = Slots(len(operands), loops.pattern.n_outer)
    head = [len(entries), len(operands), scratch, slots.scratch if scratch else 0]
    data = [np.array([*head, *entries], np.int64).tobytes()]
    n = case.kernel.n_inputs
    for i, x in enumerate(operands):
        given = x.tobytes() if i < n else b"\x4d" * x.nbytes
        data += [np.int64(x.nbytes).tobytes(), given]
    (folder / "in").write_bytes(b"".join(data))
    (folder / "k.o").write_bytes(tools().object_code(case.text()))
    (folder / "driver.c").write_text(DRIVER)
    compiled = ["aarch64-linux-gnu-gcc", "-static", "-O1", "driver.c", "k.o", "-o", "run", "-lm"]
    subprocess.run(compiled, cwd=folder, check=True)
    subprocess.run(["qemu-aarch64", "./run", "in", "out"], cwd=folder, check=True, timeout=60)
    found, at, worst = (folder / "out").read_bytes(), 0, 0.0
    for i, x in enumerate(operands):
        y = np.frombuffer(found[at : at + x.nbytes], x.dtype).reshape(x.shape)
        at += x.nbytes
        if i >= n:
            worst = max(worst, _off(x, y))
    return worst


def _off(x: Array, y: Array) -> float:
    if x.dtype.kind in "biu":
        return 0.0 if np.array_equal(x, y) else np.inf
    eps = float(ml_dtypes.finfo(x.dtype).eps)  # type: ignore[no-untyped-call]
    a, b = x.astype("f8"), y.astype("f8")
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return np.inf
    with np.errstate(invalid="ignore"):
        off = np.where((a == b) | np.isnan(a), 0, np.abs(a - b) / (eps * np.maximum(np.abs(a), 1)))
    return float(off.max(initial=0.0))


def main() -> None:
    """Run all kernels, and print those that are more than 16 units of the last place away."""
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        sys.exit(f"needs {' and '.join(missing)}: {(__doc__ or '').splitlines()[2].strip()}")
    wrong, most, count = 0, 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        for count, case in enumerate(cases(), 1):  # noqa: B007
            off = difference(case, Path(folder))
            most = max(most, off)
            if off > 16:
                wrong += 1
                print(f"{case.name}: {off:.3g} units of the last place", flush=True)
    print(
        f"{count} kernels on aarch64, {wrong} wrong, the worst {most:.2g} units of the last place"
    )
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()

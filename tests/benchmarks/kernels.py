"""Triton kernels on this machine's GPU: time, share of the speed of a copy, and torch's time.

``python -m tests.benchmarks.kernels [RESULTS.md]`` prints a table, and writes it where a file is
named. Bytes are those that the formula must read and write; a copy of 1 GiB is timed in the same
run, as is torch where it is installed (eager, and compiled). L2 is written over before each run.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import triton

from gradwright.op import Op, find_op, infer_specs
from gradwright.ops.core.pullback import Pullback
from gradwright.program.lowering import find_launch
from gradwright.spec import TensorSpec
from gradwright_kernels.device.array import DeviceArray, put
from gradwright_kernels.device.driver import Driver
from gradwright_kernels.device.launcher import Eager
from gradwright_kernels.launch import use

ROWS, COLUMNS, PARAMETERS = 8192, 4096, 1 << 26


class Case(NamedTuple):
    """An op on tensors of some shapes, and what torch calls it."""

    name: str
    op: Op
    ins: tuple[TensorSpec, ...]
    peer: Callable[[Any], Callable[[], Any]]


def cases() -> Iterator[Case]:
    """Yield what is measured."""
    for dtype in ("float32", "bfloat16"):
        x, w = TensorSpec((ROWS, COLUMNS), dtype), TensorSpec((COLUMNS,), dtype)
        norm = find_op("layer_norm")()
        back = Pullback(op=norm, n_inputs=3, wrt=(0, 1, 2), present=(True,))
        yield Case(f"softmax {dtype}", find_op("softmax")(), (x,), _softmax(dtype))
        yield Case(f"layer_norm {dtype}", norm, (x, w, w), _norm(dtype, backward=False))
        yield Case(f"layer_norm backward {dtype}", back, (x, w, w, x), _norm(dtype, backward=True))
    p = TensorSpec((PARAMETERS,))
    numbers = [TensorSpec((), d) for d in ("int64", "float32", *["float64"] * 4)]
    yield Case("adam_update float32", find_op("adam_update")(), (p, p, p, p, *numbers), _adam)


def _softmax(dtype: str) -> Callable[[Any], Callable[[], Any]]:
    def made(torch: Any) -> Callable[[], Any]:
        x = torch.randn(ROWS, COLUMNS, device="cuda", dtype=getattr(torch, dtype))
        f = torch.compile(lambda x: torch.softmax(x, -1))
        return lambda: f(x)

    return made


def _norm(dtype: str, *, backward: bool) -> Callable[[Any], Callable[[], Any]]:
    def made(torch: Any) -> Callable[[], Any]:
        how = {"device": "cuda", "dtype": getattr(torch, dtype), "requires_grad": backward}
        x = torch.randn(ROWS, COLUMNS, **how)
        w, b = torch.ones(COLUMNS, **how), torch.zeros(COLUMNS, **how)
        norm = torch.nn.functional.layer_norm
        f = torch.compile(lambda x, w, b: norm(x, (COLUMNS,), w, b))
        if not backward:
            return lambda: f(x, w, b)
        y = f(x, w, b)
        g = torch.randn_like(y)
        return lambda: torch.autograd.grad(y, (x, w, b), g, retain_graph=True)

    return made


def _adam(torch: Any) -> Callable[[], Any]:
    p = torch.nn.Parameter(torch.randn(PARAMETERS, device="cuda"))
    p.grad = torch.randn_like(p)
    return torch.optim.AdamW([p], fused=True).step


class Gpu(Eager):
    """This machine's GPU, and times on it."""

    def __init__(self) -> None:
        self.driver = Driver()
        super().__init__(self.driver)

    @property
    def name(self) -> str:
        """What the driver calls it."""
        text = ctypes.create_string_buffer(100)
        self.driver.library.cuDeviceGetName(text, 100, 0)
        return text.value.decode()

    def milliseconds(self, run: Callable[[], Any], times: int = 20) -> float:
        """Return the median time of one run on the GPU; before each its L2 is written over."""
        library = self.driver.library
        events = [ctypes.c_void_p() for _ in range(2)]
        for event in events:
            library.cuEventCreate(ctypes.byref(event), 0)
        flushed = self.workspace(TensorSpec((1 << 28,), "uint8"))
        at = ctypes.c_uint64(flushed.address)
        taken = []
        for _ in range(times + 3):
            library.cuMemsetD8_v2(at, ctypes.c_ubyte(0), ctypes.c_size_t(1 << 28))
            library.cuEventRecord(events[0], None)
            run()
            library.cuEventRecord(events[1], None)
            library.cuEventSynchronize(events[1])
            found = ctypes.c_float()
            library.cuEventElapsedTime(ctypes.byref(found), *events)
            taken.append(found.value)
        return float(np.median(taken[3:]))


def launched(gpu: Gpu, case: Case) -> tuple[Callable[[], None], int]:
    """Return a function that launches a case, and how many bytes it must move."""
    outs = infer_specs(case.op, case.ins)
    with use(gpu):
        launch = find_launch(case.op, "cuda", case.ins, outs)
    assert launch is not None, f"no kernel takes {case.name}"
    rng = np.random.default_rng(0)

    def filled(spec: TensorSpec) -> DeviceArray:
        x = rng.random(min(spec.size, 1 << 22), np.float32) + 0.1
        return put(gpu.cuda, np.resize(x, spec.shape).astype(spec.dtype))

    xs, ys = [filled(s) for s in case.ins], [gpu.workspace(s) for s in outs]
    return lambda: launch(xs, ys), sum(s.nbytes for s in (*case.ins, *outs))


def main(path: str | None) -> None:
    """Print the table, and write it to a file if one is named."""
    gpu = Gpu()
    big = TensorSpec((1 << 30,), "uint8")
    a, b = (gpu.workspace(big) for _ in range(2))
    took = gpu.milliseconds(lambda: gpu.cuda.copy(b.address, a.address, big.nbytes, 0))
    speed = 2 * big.nbytes / took / 1e6
    try:
        import torch
    except ModuleNotFoundError:
        torch = None  # type: ignore[assignment]
    peer_name = "no torch here" if torch is None else f"torch {torch.__version__}, compiled"
    lines = [
        f"{gpu.name}, Triton {triton.__version__}; a copy of 1 GiB: {speed:.0f} GB/s",
        "",
        f"| kernel | ms | GB/s | of the copy | {peer_name}: ms | its time / ours |",
        "|---|---|---|---|---|---|",
    ]
    for case in cases():
        run, moved = launched(gpu, case)
        ours = gpu.milliseconds(run)
        rate, beside = moved / ours / 1e6, "| | |"
        if torch is not None:
            other = case.peer(torch)
            for _ in range(3):
                other()
            theirs = gpu.milliseconds(other)
            beside = f"| {theirs:.3f} | {theirs / ours:.2f} |"
        lines.append(f"| {case.name} | {ours:.3f} | {rate:.0f} | {rate / speed:.0%} {beside}")
        print(lines[-1], flush=True)
    print("\n".join(["", *lines]))
    if path is not None:
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)

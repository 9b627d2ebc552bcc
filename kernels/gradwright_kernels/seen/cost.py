"""What a launch takes on a GPU that need not be here: registers, occupancy, time against the roof.

    t ≥ max(bytes / bandwidth, arithmetic / peak)

Bytes are those that programs of the launch were seen to touch, each once; peaks are the makers'
figures for dense numbers. No launch takes less than a few microseconds, which is not counted.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import triton

from gradwright.spec import dtype_name

from ..compile.compiler import Binary, Resources, compile_call
from .launch import SeenLaunch


@dataclass(frozen=True)
class Chip:
    """A GPU: bytes a second, operations a second by dtype, and what one multiprocessor has."""

    name: str
    bandwidth: float
    vector: dict[str, float]
    """Operations a second of its ordinary units."""
    tensor: dict[str, float]
    """Those of its tensor cores; products of float32 are rounded to TF32 there."""
    threads: int
    blocks: int
    shared: int


CHIPS = {
    80: Chip(
        "A100 SXM 80 GB", 2.04e12,
        {"float64": 9.7e12, "float32": 19.5e12},
        {"float64": 19.5e12, "float32": 156e12, "bfloat16": 312e12, "float16": 312e12},
        2048, 32, 167_936,
    ),
    90: Chip(
        "H100 SXM", 3.35e12,
        {"float64": 34e12, "float32": 67e12},
        {"float64": 67e12, "float32": 494e12, "bfloat16": 989e12, "float16": 989e12},
        2048, 32, 233_472,
    ),
    100: Chip(
        "B200", 8.0e12,
        {"float64": 37e12, "float32": 75e12},
        {"float64": 37e12, "float32": 1_125e12, "bfloat16": 2_250e12, "float16": 2_250e12},
        2048, 32, 233_472,
    ),
}  # fmt: skip
"""The GPUs by compute capability: data sheets of A100, H100 and B200 (HGX, dense)."""
REGISTERS, WARP_REGISTERS, BLOCK_SHARED = 65_536, 256, 1_024
"""Registers of a multiprocessor, in which steps a warp gets them, and shared memory that a block
takes beside its own (CUDA C guide)."""


@dataclass(frozen=True)
class Cost:
    """What a launch takes on one kind of GPU."""

    capability: int
    chip: str
    resources: Resources
    blocks: int
    """Blocks that a multiprocessor holds at once."""
    occupancy: float
    """Share of its threads that are busy then."""
    limit: str
    """What allows no more: registers, shared memory, threads or blocks."""
    nbytes: int
    flops: int | None
    """Arithmetic; None where an op cannot say."""
    memory_seconds: float
    compute_seconds: float
    binary: Binary = field(repr=False)

    @property
    def seconds(self) -> float:
        """The least time that memory and arithmetic allow."""
        return max(self.memory_seconds, self.compute_seconds)

    @property
    def bound(self) -> str:
        """What that time goes to."""
        return "memory" if self.memory_seconds >= self.compute_seconds else "arithmetic"

    @property
    def ptx(self) -> str:
        """The code for the virtual machine of CUDA."""
        return self.binary.ptx

    def sass(self) -> str:
        """Return the machine code, as the ``nvdisasm`` that Triton brings writes it."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "kernel.cubin")
            path.write_bytes(self.binary.cubin)
            tool = triton.knobs.nvidia.nvdisasm.path
            done = subprocess.run([tool, "-c", str(path)], capture_output=True, text=True)
        return done.stdout


def cost(launch: SeenLaunch, capability: int = 90, flops: int | None = None) -> Cost:
    """Return what a launch takes on a GPU of a capability: 80, 90 or 100.

    Raises LoweringError where Triton cannot compile it.
    """
    chip = CHIPS[capability]
    binary = compile_call(launch.call, capability)
    used = binary.resources()
    blocks, limit = _blocks(used, chip)
    nbytes = launch.nbytes()
    widest = max((d for _, d in launch.call.pointers), key=lambda d: d.itemsize, default=None)
    kind = "float32" if widest is None else dtype_name(widest)
    has_product = "mma" in binary.ptx
    peaks = chip.tensor if has_product else chip.vector
    peak = peaks.get(kind, peaks["float32"])
    return Cost(
        capability,
        chip.name,
        used,
        blocks,
        blocks * used.threads / chip.threads,
        limit,
        nbytes,
        flops,
        nbytes / chip.bandwidth,
        (flops or 0) / peak,
        binary,
    )


def _blocks(used: Resources, chip: Chip) -> tuple[int, str]:
    """Return how many blocks of a kernel a multiprocessor holds, and what allows no more.

    >>> _blocks(Resources(56, 0, 32, 128), CHIPS[90])
    (9, 'registers')
    """
    warps = used.threads // 32
    of_warp = -(-used.registers * 32 // WARP_REGISTERS) * WARP_REGISTERS
    most = {
        "registers": REGISTERS // max(1, of_warp * warps),
        "shared memory": chip.shared // (used.shared_bytes + BLOCK_SHARED),
        "threads": chip.threads // used.threads,
        "blocks": chip.blocks,
    }
    limit = min(most, key=lambda name: most[name])
    return most[limit], limit

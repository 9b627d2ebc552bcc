"""The device ``cuda``: what a session gets, and what it is told where there is no GPU."""

from __future__ import annotations

import triton

from gradwright.cpu import Guard
from gradwright.errors import LoweringError
from gradwright.program.device import Device, register_device

from .driver import Driver


class Interpreted(Guard):
    """Host memory between guard bytes, where kernels run in Triton's interpreter.

    It stands in for the GPU in processes started with ``TRITON_INTERPRET=1``: the same lowerings,
    launchers and kernels, and a kernel that writes outside its output is named.
    """

    name = "cuda"


def open_cuda() -> Device:
    """Return the device for a new session.

    Raises:
        LoweringError: there is no NVIDIA driver, no GPU, or nothing yet that runs a session on it.
    """
    if triton.knobs.runtime.interpret:
        return Interpreted()
    gpu = Driver()
    raise LoweringError(
        "sessions do not run on a GPU in this version",
        facts=[f"found a GPU of compute capability {gpu.capability / 10}"],
        need="its kernels to be launched on the GPU, which no session does yet",
        hint='device="cpu", or device="cuda" with TRITON_INTERPRET=1 to try the kernels',
    )


register_device("cuda", open_cuda)

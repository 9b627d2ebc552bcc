"""How a session gets its device: which GPU, and what it is told where there is none."""

from __future__ import annotations

import functools

from gradwright.program.device import register_device

from .driver import Driver
from .gpu import Gpu
from .simulated.driver import TOTAL, Simulated


@functools.cache
def gpu(ordinal: int) -> Driver:
    """Return a GPU of this machine, opened once; raises LoweringError where there is none."""
    return Driver(ordinal)


@functools.cache
def freest() -> int:
    """Return the number of the GPU with most free memory when that is first asked.

    It stays that one, since variables of a process should not go from GPU to GPU unasked. The
    others are closed again: an open one takes some hundred MB.
    """
    first = Driver(0)
    if first.count == 1:
        return 0
    free = [Driver(n).memory()[0] for n in range(first.count)]
    return free.index(max(free))


def open_cuda(number: int | None = None) -> Gpu:
    """Return a GPU for a new session, by default the one with most free memory."""
    name = "cuda" if number is None else f"cuda:{number}"
    ordinal = freest() if number is None else number
    return Gpu(name, gpu(ordinal), ordinal)


def open_simulated(number: int | None = None) -> Gpu:
    """Return a simulated GPU for a new session, all of its own."""
    return Gpu("cuda-sim" if number is None else f"cuda-sim:{number}", Simulated(TOTAL))


register_device("cuda", open_cuda, is_numbered=True)
register_device("cuda-sim", open_simulated, is_numbered=True)

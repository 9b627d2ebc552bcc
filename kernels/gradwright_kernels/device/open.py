"""How a session gets its device, and what it is told where there is no GPU."""

from __future__ import annotations

import functools

from gradwright.program.device import register_device

from .driver import Driver
from .gpu import Gpu
from .simulated.driver import TOTAL, Simulated


@functools.cache
def driver() -> Driver:
    """Return this machine's GPU, opened once; raises LoweringError without one."""
    return Driver()


def open_cuda() -> Gpu:
    """Return this machine's GPU for a new session."""
    return Gpu("cuda", driver())


def open_simulated() -> Gpu:
    """Return a simulated GPU for a new session, all of its own."""
    return Gpu("cuda-sim", Simulated(TOTAL))


register_device("cuda", open_cuda)
register_device("cuda-sim", open_simulated)

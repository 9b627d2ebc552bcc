"""The CUDA driver on host memory; see :class:`gradwright_kernels.device.cuda.Cuda`.

It checks each access of a kernel (out of bounds, never written, two programs at one place, two
lanes that disagree, misaligned), each use of freed memory, work of two streams that nothing orders,
and copies that the host does not wait for. It does not see barriers within a program, shared
memory, how a GPU rounds and what it takes: that is for compiling ahead of time and for a GPU.
"""

from __future__ import annotations

import ctypes
import threading
import zlib
from typing import Any

import numpy as np

from gradwright.errors import GradwrightError, LoweringError

from ...compile.compiler import Call
from ..cuda import Function, Launch, cell
from .access import Looking
from .interpret import Watch, program, run
from .memory import Blocks
from .streams import Moment, Streams

CAPABILITY = 90
TOTAL = 8 << 30
"""Bytes that it has; those that nobody touches take none of the host's."""
NOT_YET = 0xFF
"""What the host reads in each byte before it has waited: NaN, or -1."""


class Simulated:
    """A GPU of ``total`` bytes; without checks a launch takes a sixth less, and only computes.

    >>> import numpy as np
    >>> cuda = Simulated(total=1000)
    >>> x, y, at = np.arange(3.0), np.zeros(3), cuda.allocate(24)
    >>> cuda.copy_in(at, x.ctypes.data, 24, 0)
    >>> cuda.copy_out(y.ctypes.data, at, 24, 0)
    >>> y.tolist(), cuda.memory()
    ([nan, nan, nan], (976, 1000))
    >>> cuda.wait(0)
    >>> y.tolist()
    [0.0, 1.0, 2.0]
    """

    capability = CAPABILITY

    def __init__(self, total: int = TOTAL, *, is_checked: bool = True) -> None:
        self.is_checked, self.lock = is_checked, threading.RLock()
        self.blocks, self.streams = Blocks(total), Streams()
        self.launches = 0
        """How many kernels have run."""

    # -- memory ----------------------------------------------------------------------------------

    def memory(self) -> tuple[int, int]:
        """Return how many bytes are free, and how many there are."""
        return self.blocks.total - self.blocks.taken, self.blocks.total

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory, a multiple of 256; raises MemoryError."""
        return self.blocks.allocate(nbytes)

    def free(self, address: int) -> None:
        """Give memory back; what still runs and uses it is told so."""
        self.blocks.free(address)

    def copy_in(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy from the host, which may not touch the source before that is done."""
        given = zlib.crc32(ctypes.string_at(source, nbytes)) if self.is_checked else 0

        def do(moment: Moment) -> None:
            if self.is_checked and zlib.crc32(ctypes.string_at(source, nbytes)) != given:
                raise LoweringError(
                    "the host has changed what is copied to the device, before that was done",
                    need="to wait, or memory that stays as it is",
                )
            self._write(to, source, nbytes, moment)

        self.streams.put(stream, "a copy to the device", do)

    def copy_out(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy to the host, which reads NaN until it has waited."""
        ctypes.memset(to, NOT_YET, nbytes)

        def do(moment: Moment) -> None:
            self._read(source, nbytes, moment)
            ctypes.memmove(to, source, nbytes)

        self.streams.put(stream, "a copy to the host", do)

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy within the device."""

        def do(moment: Moment) -> None:
            self._read(source, nbytes, moment)
            self._write(to, source, nbytes, moment)

        self.streams.put(stream, "a copy on the device", do)

    def forget(self, address: int, nbytes: int, stream: int) -> None:
        """Take a range for not written: a value begins there."""

        def do(moment: Moment) -> None:
            block = self.blocks.alive(address, nbytes, moment.what)
            block.written[block.within(address, nbytes)] = 0

        self.streams.put(stream, "a new value", do)

    def _write(self, to: int, source: int, nbytes: int, moment: Moment) -> None:
        block = self.blocks.alive(to, nbytes, moment.what)
        at = block.within(to, nbytes)
        self.streams.use(block, at.start, at.stop, moment, writes=True)
        ctypes.memmove(to, source, nbytes)
        block.written[at] = 1

    def _read(self, source: int, nbytes: int, moment: Moment) -> None:
        block = self.blocks.alive(source, nbytes, moment.what)
        at = block.within(source, nbytes)
        self.streams.use(block, at.start, at.stop, moment, writes=False)
        if self.is_checked and not block.written[at].all():
            gap = int(np.argmin(block.written[at]))
            raise LoweringError(
                f"{moment.what} reads memory that nobody has written",
                facts=[f"byte {gap:,} of {nbytes:,} at {source:#x}"],
            )

    # -- streams and events ----------------------------------------------------------------------

    def make_stream(self) -> int:
        """Return a stream that runs beside the default one."""
        return self.streams.make()

    def wait(self, stream: int) -> None:
        """Do all that the stream was given; raises LoweringError for what goes wrong there."""
        self.streams.wait(stream)

    def make_event(self) -> int:
        """Return an event, which marks a point in a stream."""
        return self.streams.event()

    def record(self, event: int, stream: int) -> None:
        """Let an event be what the stream was given last."""
        self.streams.record(event, stream)

    def wait_event(self, stream: int, event: int) -> None:
        """Let a stream go on only when an event is past."""
        self.streams.wait_event(stream, event)

    # -- kernels ---------------------------------------------------------------------------------

    def load(self, call: Call) -> Function:
        """Return a kernel; nothing is compiled."""
        return Function(call, 0, call.signature.at_launch, 32 * call.num_warps)

    def launch(self, launch: Launch, stream: int) -> None:
        """Run all programs of a kernel, which takes its arguments from the parameter block."""
        self.streams.put(stream, launch.name, lambda moment: self._run(launch, moment))

    def _run(self, launch: Launch, moment: Moment) -> None:
        self.launches += 1
        call, kinds = launch.function.call, launch.function.types
        values = [
            cell(kind).from_address(address).value
            for kind, address in zip(kinds, launch.block, strict=False)
        ]
        addresses = [v for v, kind in zip(values, kinds, strict=True) if kind.startswith("*")]
        try:
            if not self.is_checked:
                run(call, addresses, Watch())
                return
            looking = Looking(launch, addresses, self.blocks)
            run(call, looking.addresses, looking)
            looking.order(self.streams, moment)
        except GradwrightError as error:
            raise _at(error, launch.node) from None
        except Exception as error:  # a kernel is anybody's code
            said = f"{launch.name} fails in program {program()}: {type(error).__name__}: {error}"
            raise _at(LoweringError(said), launch.node) from error


def _at(error: GradwrightError, node: tuple[str, str, Any] | None) -> GradwrightError:
    """Return an error that says which node's kernel it is about."""
    if node is not None and not error.where:
        op, path, origin = node
        error.of(origin).met_at(op, path, origin.where)
    return error

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
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwright.errors import GradwrightError, LoweringError

from ...compile.compiler import Call
from ..cuda import Function, Launch, cell
from .access import Looking
from .interpret import Watch, program, run
from .memory import Blocks
from .streams import Moment, Streams

Do = Callable[[Moment], None]
Work = list[tuple[str, Callable[[], Do]]]
"""What a stream is given: its name, and what says when it is given what is to be done."""
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
        self.launches = self.graphs = 0
        """How many kernels have run, and how many graphs were launched."""
        self._pinned = Blocks(1 << 62)
        self._kept: dict[int, Work] = {}
        """What streams keep that are to become graphs."""
        self._graphs: dict[int, Work] = {}
        self._is_of_graph = False

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

    def host_memory(self, nbytes: int) -> int:
        """Return the address of memory of the host that copies go to and from at full speed."""
        return self._pinned.allocate(nbytes)

    def free_host_memory(self, address: int) -> None:
        """Give memory of the host back."""
        self._pinned.free(address)

    def copy_in(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy from the host, which may not touch the source before that is done."""

        def given() -> Do:
            self._of_host(source, nbytes, stream)
            before = zlib.crc32(ctypes.string_at(source, nbytes)) if self.is_checked else 0

            def do(moment: Moment) -> None:
                if self.is_checked and zlib.crc32(ctypes.string_at(source, nbytes)) != before:
                    raise LoweringError(
                        "the host has changed what is copied to the device, before that was done",
                        need="to wait, or memory that stays as it is",
                    )
                self._write(to, source, nbytes, moment)

            return do

        self._give(stream, "a copy to the device", given)

    def copy_out(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy to the host, which reads NaN until it has waited."""

        def given() -> Do:
            self._of_host(to, nbytes, stream)
            ctypes.memset(to, NOT_YET, nbytes)

            def do(moment: Moment) -> None:
                self._read(source, nbytes, moment)
                ctypes.memmove(to, source, nbytes)

            return do

        self._give(stream, "a copy to the host", given)

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy within the device."""

        def do(moment: Moment) -> None:
            self._read(source, nbytes, moment)
            self._write(to, source, nbytes, moment)

        self._give(stream, "a copy on the device", lambda: do)

    def forget(self, address: int, nbytes: int, stream: int) -> None:
        """Take a range for not written: a value begins there."""

        def do(moment: Moment) -> None:
            block = self.blocks.alive(address, nbytes, moment.what)
            block.written[block.within(address, nbytes)] = 0

        self._give(stream, "a new value", lambda: do)

    def _give(self, stream: int, what: str, given: Callable[[], Do]) -> None:
        """Give a stream work, or keep it: ``given`` says what is done from then on."""
        kept = self._kept.get(stream)
        if kept is None:
            self.streams.put(stream, what, given())
        else:
            kept.append((what, given))

    def _of_host(self, address: int, nbytes: int, stream: int) -> None:
        """Refuse memory of the host that is gone, or that may be when a graph is launched."""
        block = self._pinned.find(address)
        if block is not None:
            self._pinned.alive(address, nbytes, "a copy to or from pinned memory")
        elif self._is_of_graph:
            raise LoweringError(
                "a graph copies to or from memory of the host that is not pinned",
                need="host_memory, which stays where it is",
            )

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
        if stream in self._kept:
            raise LoweringError("the host waits for a stream that keeps its work for a graph")
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

    # -- graphs ----------------------------------------------------------------------------------

    def begin_graph(self, stream: int) -> None:
        """Have a stream keep what it is given from now on, instead of doing it."""
        self._kept[stream] = []

    def end_graph(self, stream: int) -> int:
        """Return what a stream has been given as a graph, and have it work again."""
        graph = self.streams.event()
        self._graphs[graph] = self._kept.pop(stream)
        return graph

    def launch_graph(self, graph: int, stream: int) -> None:
        """Do all of a graph, in its order, with the addresses that it was made with."""
        if graph not in self._graphs:
            raise LoweringError(f"there is no graph {graph}, or it was freed")
        self._is_of_graph = True
        try:
            for what, given in self._graphs[graph]:
                self.streams.put(stream, what, given())
        finally:
            self._is_of_graph = False
        self.graphs += 1

    def free_graph(self, graph: int) -> None:
        """Forget a graph."""
        del self._graphs[graph]

    # -- kernels ---------------------------------------------------------------------------------

    def load(self, call: Call) -> Function:
        """Return a kernel; nothing is compiled."""
        return Function(call, 0, call.signature.at_launch, 32 * call.num_warps)

    def launch(self, launch: Launch, stream: int) -> None:
        """Run all programs of a kernel, which takes its arguments from the parameter block, now."""
        kinds = launch.function.types
        values = [
            cell(kind).from_address(address).value
            for kind, address in zip(kinds, launch.block, strict=False)
        ]
        self._give(stream, launch.name, lambda: lambda moment: self._run(launch, values, moment))

    def _run(self, launch: Launch, values: list[int], moment: Moment) -> None:
        self.launches += 1
        call, kinds = launch.function.call, launch.function.types
        addresses = [v for v, kind in zip(values, kinds, strict=True) if kind.startswith("*")]
        try:
            looking = Looking(launch, addresses, self.blocks) if self.is_checked else None
            with np.errstate(all="ignore"):  # a GPU warns of nothing
                run(call, looking.addresses if looking else addresses, looking or Watch())
            if looking:
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

"""What a device asks of CUDA: memory, copies, streams, events, kernels. Two answer.

:class:`~gradwright_kernels.device.driver.Driver` is the GPU through ``libcuda``;
:class:`~gradwright_kernels.device.simulated.driver.Simulated` is host memory and Triton's
interpreter. Nothing above them knows which it is. Addresses, streams and events are ints, stream 0
is the default one; all that takes a stream returns at once and is done in the stream's order.
"""

from __future__ import annotations

import ctypes
import threading
from dataclasses import dataclass
from typing import Any, Protocol

from ..compile.compiler import Call

_CELLS: dict[str, Any] = {"i32": ctypes.c_int32, "i64": ctypes.c_int64}


def cell(kind: str) -> Any:
    """Return the C type of what a kernel takes at launch, by Triton's name; pointers are addresses.

    >>> cell("i32").__name__, cell("*fp32") is cell("*i8")
    ('c_int', True)
    """
    return _CELLS.get(kind, ctypes.c_uint64)


@dataclass(frozen=True)
class Function:
    """A kernel that is loaded: what it is called with, and by."""

    call: Call
    handle: int
    types: tuple[str, ...]
    """Triton's names for the types of what it takes at launch, in order."""
    threads: int
    shared_bytes: int = 0


@dataclass(frozen=True)
class Launch:
    """A kernel bound to arrays: one driver call."""

    function: Function
    cells: tuple[Any, ...]
    """What it takes, as C has it; the last two are pointers to scratch memory, never used."""
    block: Any
    """The addresses of the cells."""
    tensors: tuple[tuple[str, int, int], ...]
    """Of the array behind each pointer the name, where its lowest byte is from there, and how many
    bytes it has, for messages and checks."""
    followed: tuple[tuple[str, int, int], ...] = ()
    """The arrays whose addresses it reads in memory: name, address, bytes."""
    node: tuple[str, str, Any] | None = None
    """Op, path and node that it serves."""

    @property
    def name(self) -> str:
        """The kernel's name."""
        name: str = self.function.call.kernel.__name__
        return name

    @classmethod
    def of(cls, function: Function, cells: list[Any], *rest: Any) -> Launch:
        """Return a launch with these cells; unused scratch pointers are added."""
        held = (*cells, ctypes.c_uint64(0), ctypes.c_uint64(0))
        block = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
        return cls(function, held, block, *rest)


class Cuda(Protocol):
    """The calls of the CUDA driver that a device makes; what fails raises LoweringError."""

    capability: int
    """Compute capability, 90 for 9.0."""
    is_checked: bool
    """Whether it looks at each access, and wants to be told what is forgotten."""
    lock: threading.RLock
    """Held by who runs or commits a step: sessions of several threads may share variables."""

    def memory(self) -> tuple[int, int]:
        """Return how many bytes are free, and how many there are."""

    def allocate(self, nbytes: int) -> int:
        """Return the address of new memory, a multiple of 256; raises MemoryError."""

    def free(self, address: int) -> None:
        """Give memory back; nothing that runs may use it."""

    def copy_in(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy from the host; the source stays as it is until that is done."""

    def copy_out(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy to the host, which reads it when it has waited."""

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copy within the device."""

    def host_memory(self, nbytes: int) -> int:
        """Return the address of memory of the host that copies go to and from at full speed."""

    def free_host_memory(self, address: int) -> None:
        """Give memory of the host back."""

    def make_stream(self) -> int:
        """Return a stream that runs beside the default one."""

    def wait(self, stream: int) -> None:
        """Wait until all is done that the stream was given."""

    def make_event(self) -> int:
        """Return an event, which marks a point in a stream."""

    def record(self, event: int, stream: int) -> None:
        """Let an event be what the stream was given last."""

    def wait_event(self, stream: int, event: int) -> None:
        """Let a stream go on only when an event is past."""

    def load(self, call: Call) -> Function:
        """Return a kernel, compiled for this device and loaded."""

    def launch(self, launch: Launch, stream: int) -> None:
        """Run all programs of a kernel."""

    def begin_graph(self, stream: int) -> None:
        """Have a stream keep what it is given from now on, instead of doing it."""

    def end_graph(self, stream: int) -> int:
        """Return what a stream has been given as a graph, and have it work again."""

    def launch_graph(self, graph: int, stream: int) -> None:
        """Do all of a graph, in its order, with the addresses that it was made with."""

    def free_graph(self, graph: int) -> None:
        """Forget a graph."""

    def forget(self, address: int, nbytes: int, stream: int) -> None:
        """Say that a value begins there: what was there before is read by nobody."""

"""The devices ``cuda`` and ``cuda-sim``: this machine's GPU, and one that is simulated."""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import triton

from gradwright.errors import GraphError
from gradwright.graph import Tensor
from gradwright.program.executor import Ask, Keep
from gradwright.program.ledger import Ledger, Manager
from gradwright.program.program import Program
from gradwright.program.row import names_of

from .ahead import Ahead
from .array import Block, Pool
from .cuda import Cuda
from .dlpack import CPU, CUDA
from .executor import GpuExecutor
from .staging import Pinned
from .there import OnDevice, taken
from .value import DeviceValue


class Gpu:
    """A GPU and its memory; see :class:`gradwright.program.device.Device`.

    All plans of a session share one arena: they run on one stream, in its order.
    """

    keeps = False
    """Whether results stay on the device."""
    fallback = ""
    """What computes ops without a kernel: ``"cpu"``, or nothing, so that they are errors."""

    def __init__(self, name: str, cuda: Cuda, ordinal: int | None = None) -> None:
        self.dlpack = (CPU, 0) if ordinal is None else (CUDA, ordinal)
        """What DLPack calls this device; a simulated one has memory of the host."""
        self.name, self.cuda, self.stream = name, cuda, cuda.make_stream()
        self.ledger = Ledger()
        self.pool = Pool(cuda)
        """Memory for results that stay, and for batches that come."""
        self._arena: Block | None = None
        self._pinned: Pinned | None = None
        self.homes = weakref.WeakValueDictionary[Tensor, DeviceValue]()
        """Where variables of the session lie, or did, as long as a plan is bound to that."""

    def configure(
        self,
        threads: int | None,
        record: Mapping[str, Any] | None,
        *,
        deterministic: bool,
        memory: Manager = "arena",
        fallback: str | None = None,
        results: str | None = None,
    ) -> None:
        """Take what a session may be told; raises GraphError for what a GPU does not know."""
        if threads is not None or memory != "arena":
            raise GraphError(
                f"threads={threads!r}, memory={memory!r} are not for device {self.name!r}",
                need="no threads, and an arena",
            )
        self.fallback, self.keeps = fallback or "", results == "device"

    @functools.cached_property
    def event(self) -> int:
        """An event for who has others wait for what was begun."""
        return self.cuda.make_event()

    @functools.cached_property
    def copying(self) -> int:
        """A stream for what is copied here while steps run."""
        return self.cuda.make_stream()

    def takes(self, value: Any) -> OnDevice | None:
        """Return a feed that lies on this device, ready to be read; None: it goes by the host."""
        return taken(self, value)

    def ahead(self, batches: Iterable[Mapping[Any, Any]]) -> Iterator[Mapping[Any, Any]]:
        """Yield batches that are copied here while the one before is used."""
        return Ahead(self).of(batches)

    def nested(self) -> Gpu:
        """Return a device for plans inside plans, which run while those do."""
        inner = Gpu(self.name, self.cuda, self.dlpack[1] if self.dlpack[0] == CUDA else None)
        inner.fallback, inner.ledger = self.fallback, self.ledger
        return inner

    def identity(self) -> str:
        """Return what programs that are kept on disk depend on here."""
        return f"{self.name} {self.cuda.capability} {triton.__version__}"

    def executor(self, program: Program, ask: Ask, keep: Keep | None = None) -> GpuExecutor:
        """Return a program as launches; raises LoweringError for an op that has no kernel."""
        return GpuExecutor(program, self, ask)

    def arena(self, nbytes: int, outputs: Iterable[Tensor]) -> Block:
        """Return memory that a plan divides among its values, part of what the largest takes.

        Nobody else holds it: plans are bound anew when it has become too small for one of them.
        """
        if self._arena is None or self._arena.nbytes < nbytes:
            self._arena = None  # it goes before the new one comes
            self._arena = Block(self.cuda, nbytes)
            self.ledger.took(self._arena, names_of(outputs))
        return self._arena

    def pinned(self, nbytes: int) -> Pinned:
        """Return memory of the host for what a step takes and gives, as much as the largest does.

        Nobody else holds it, as with the arena.
        """
        if self._pinned is None or self._pinned.nbytes < nbytes:
            self._pinned = None
            self._pinned = Pinned(self.cuda, nbytes)
        return self._pinned

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena as it is."""
        return 0 if self._arena is None else self._arena.nbytes

    def wait_for_all(self) -> None:
        """Wait until the device has done what it was given."""
        self.cuda.wait(self.stream)

    def record(self) -> dict[str, Any]:
        """Return what decides the last bits: Triton, and the GPU that it compiles for."""
        return {"triton": triton.__version__, "capability": self.cuda.capability}

    def retune(self, record: Mapping[str, Any], *, deterministic: bool) -> None:
        """Take over nothing: there is nothing to choose yet."""

    def running(self) -> AbstractContextManager[None]:
        """Return what runs happen in: nothing."""
        return nullcontext()

    def wait(self, timeout: float | None = None) -> bool:
        """Tell that all is compiled."""
        return True

    def release(self) -> None:
        """Let the arena go, and the host's part of it."""
        self._arena = self._pinned = None
        self.pool.clear()

    @contextlib.contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Have Ctrl-C wait: what updates variables is done whole."""
        held = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or held is None:
            yield  # other threads get no signals
            return
        late: list[Any] = []
        signal.signal(signal.SIGINT, lambda *args: late.append(args))
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, held)
            if late and callable(held):
                held(*late[0])

"""The devices ``cpu`` and ``guard``: numpy, OpenBLAS and machine code on the host's memory."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from ..program.executor import Ask, Keep
from ..program.ledger import Manager
from ..program.program import Program
from .executor import CpuExecutor
from .llvm.blas import Limit, blas
from .llvm.target import check_switches
from .memory import Fenced, Memory
from .threads.background import BACKGROUND
from .threads.record import recorded, tuned


class Cpu(Memory):
    """The host's memory and processor; see :class:`gradwright.program.device.Device`."""

    def __init__(self) -> None:
        super().__init__()
        self._limit = Limit(None)

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
        """Fix threads, what they are for, and memory; raises GraphError for what is none."""
        check_switches()
        self.manage(memory)
        self.tuning = tuned(threads, record, deterministic=deterministic)
        # OpenBLAS adds in another order with more threads: bits would depend on other sessions.
        self._limit = Limit(1 if deterministic else threads)

    def takes(self, value: Any) -> None:
        """Return None: the host has it."""

    def ahead(self, batches: Iterable[Mapping[Any, Any]]) -> Iterable[Mapping[Any, Any]]:
        """Return them as they are: they are here."""
        return batches

    def nested(self) -> Cpu:
        """Return a device for plans inside plans, which run while those do."""
        inner = type(self)()
        inner.tuning = self.tuning
        self.share(inner)
        return inner

    def identity(self) -> str:
        """Return compiler, processor and BLAS: lowerings may ask which there are."""
        return _identity()

    def executor(self, program: Program, ask: Ask, keep: Keep | None = None) -> CpuExecutor:
        """Return what runs a program: numpy at first, kernels when they are compiled."""
        return CpuExecutor(program, self, ask, keep)

    def record(self) -> dict[str, Any]:
        """Return versions, the machine, and how many threads each kind of call uses."""
        return recorded(self.tuning)

    def retune(self, record: Mapping[str, Any], *, deterministic: bool) -> None:
        """Take over the threads and choices of a record, for plans that are there, too."""
        given = {} if record is None else record  # None is no record here, and is refused as such
        found = tuned(None, given, deterministic=deterministic)
        self.tuning.threads = found.threads
        self.tuning.choices.update(found.choices)

    def running(self) -> AbstractContextManager[None]:
        """Return what runs happen in, again and again: a limit of OpenBLAS's threads."""
        return self._limit

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for kernels that are being compiled; return whether all are there."""
        return BACKGROUND.wait(timeout)


class Guard(Fenced, Cpu):
    """The same between guard bytes, step by step and without kernels."""


@functools.cache
def _identity() -> str:
    from .llvm.compiler import available, identity  # llvmlite, which no import of ours may load

    library = blas()
    return f"{identity() if available() else 'numpy'}\n{library and library.version}"

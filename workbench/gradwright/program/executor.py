"""Executors: a program bound to a device. The plan asks, a device answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from ..graph import Tensor, Values
from .liveness import Lifetimes
from .memory import Layout
from .options import DEFAULTS, PlanOptions
from .program import Program
from .row import Row

Array = np.ndarray[Any, Any]
Env = dict[Tensor, Array]
Observe = Callable[[Program], Callable[[int, Array], None]] | None
"""Given a program, what sees every value of it as it appears, by number."""


@dataclass(frozen=True)
class Ask:
    """What a plan wants of one segment beside the program's outputs."""

    variables: Sequence[Tensor] = ()
    """Those that the plan reads, in an order of its own."""
    updates: Mapping[Tensor, Tensor] = field(default_factory=lambda: MappingProxyType({}))
    """Variables and their new values, which ``commit`` commits: of the last segment, else none."""
    wanted: Collection[Tensor] = frozenset()
    """What ``env`` must hold after a run, variables too."""
    kept: Collection[Tensor] = frozenset()
    """What others have after a run: an update that is one of these is copied."""
    commit_if: Tensor | None = None
    is_whole: bool = False
    """Whether it is all of its plan, so that it reads variables itself."""
    options: PlanOptions = DEFAULTS


class Keep(Protocol):
    """Where a program is on disk, and what a device makes of it may be."""

    is_read: bool
    """Whether it is there from an earlier process."""

    def read(
        self, part: str, empty: Callable[[], Program], base: Program | None = None
    ) -> tuple[Program, Any] | None:
        """Return what was written as a part, and what beside it; None: nothing is of use."""

    def write(
        self, part: str, program: Program, base: Program | None = None, extra: Any = None
    ) -> None:
        """Write a program that came of ``base``, and what JSON takes, as a part."""


class Laid(Protocol):
    """How a program lies in memory, for reports."""

    program: Program

    @property
    def lives(self) -> Lifetimes:
        """From when to when each value is needed."""

    @property
    def layout(self) -> Layout:
        """Where each value is."""

    @property
    def over(self) -> Mapping[int, int]:
        """Values that are written over another one."""

    @property
    def homes(self) -> Mapping[int, Tensor]:
        """Updates that are written over their variables, by the number of the value."""


class Executor(Protocol):
    """Runs a program on a device; plans hold one for each segment.

    Arrays in ``env`` are the host's: feeds come in, results go out, and are nobody else's memory.
    """

    @property
    def laid(self) -> Laid:
        """The program as it runs now, after what the device made of it."""

    @property
    def state(self) -> str:
        """Why not all of it runs as it will, or as it could; empty when it is as it stays."""

    def step(self, env: Env, values: Values) -> bool | None:
        """Run and commit at once; return whether it did, or None, if that cannot be done now."""

    def run(self, env: Env, values: Values | None = None, observe: Observe = None) -> None:
        """Compute all outputs but for what only updates need, into ``env``, which has the feeds.

        Variables are read from ``values``, all at one moment, as far as ``env`` has them not.
        """

    def commit(self, env: Env, values: Values, observe: Observe = None) -> bool:
        """Finish what ``run`` began: commit all updates or, if ``commit_if`` is False, none."""

    def lend(self, arrays: Mapping[Tensor, Array]) -> None:
        """Have runs write results there, dense and aligned, where that is possible; or none.

        Who lends copies the others.
        """

    def drop(self) -> None:
        """Hold no array of a run that will not be committed."""

    def singly(self, env: Env) -> AbstractContextManager[Iterable[tuple[int, Callable[[], Any]]]]:
        """Give its calls one by one with their steps, to be timed; nothing commits."""

    def rows(self, first: int, chain: int) -> list[Row]:
        """Return what each step runs as, steps numbered from ``first``, chains from ``chain``."""

    def ask(self) -> None:
        """Have compiled what will be, unless that was asked for before."""

    def buffers(self) -> Mapping[int, int]:
        """Return the bytes that it keeps between runs, by what tells memory that others share."""

    def release(self) -> None:
        """Let all memory go, not what was compiled; the next run takes it anew."""

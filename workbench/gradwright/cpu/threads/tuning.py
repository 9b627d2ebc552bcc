"""Tuning: which calls of a plan run in pieces on several threads, by rule, by record, by measuring.

What is worth the question is measured where it runs, in the first sixteen runs of a plan: whole and
in pieces in turns, with caches and workers as they are in a step, by the processor's time of
the thread that asks, which others do not disturb. The results are known to
the whole process and, in the folder of the kernels, to later ones. Where bits must not depend on a
clock a rule decides, by size. A record decides before either.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import itertools
import json
import logging
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...files.trusted import OBJECTS
from ...shared import module_lock
from ..call import Call, Cut, apart
from ..llvm import cache
from ..llvm.blas import blas, default_threads
from .forks import PARALLEL, SERIAL
from .threads import Fork

LOG = logging.getLogger("gradwright.cpu")
ASKED = 4_000
"""ns from which on a call is worth the question: a fork costs 1 to 10 µs."""
CUT = 20_000
"""ns from which on the rule cuts a call: 10⁶ multiplications, 50,000 elements of a short kernel."""


_settling = module_lock()
"""Held while forks that are measured are noted or looked at: plans are bound in the background."""


def pieces(call: Call, n: int, *, alike: bool = False) -> list[Call]:
    """Return a call as at most ``n`` calls that may run at the same time, or none if it stays one.

    With ``alike`` it is cut only so that every result has the bits of the whole.

    >>> from gradwright.cpu.call import Call, Cut
    >>> import numpy as np
    >>> call = Call(0, np.array([4096, 100]), [(0, 0)], cut=Cut(1, 100, [(0, 8)], 10, 4))
    >>> [piece.block.tolist() for piece in pieces(call, 2)]
    [[4096, 48], [4480, 52]]
    """
    cut = call.cut
    if callable(cut):
        return list(cut(n)) if n > 1 else []
    while cut is not None:
        found = ends(cut, n)
        if len(found) > 2 and not (alike and cut.keeps is not None and not cut.keeps(found)):
            return parts(call, cut, found)
        cut = cut.instead
    return []


def ends(cut: Cut, n: int) -> list[int]:
    """Return where at most ``n`` pieces begin and end: 0, ..., the length.

    >>> ends(Cut(1, 100, [(0, 8)], 10, 24), 2)
    [0, 48, 100]
    """
    least = -(-cut.least // cut.grain) * cut.grain
    n = min(n, cut.length // least)
    if n < 2:
        return [0, cut.length]
    inner = (i * cut.length // n // cut.grain * cut.grain for i in range(n))
    return [*dict.fromkeys(inner), cut.length]


def parts(call: Call, cut: Cut, found: Sequence[int]) -> list[Call]:
    """Return the pieces of a call that begin and end at these indices."""
    made = []
    for start, stop in itertools.pairwise(found):
        own = apart(call)
        own.block[cut.slot] = stop - start
        for slot, step in cut.steps:
            own.block[slot] += start * step
        made.append(Call(own.address, own.block, own.slots, own.held))
    return made


def percent(call: Call) -> int:
    """Return how much of a call's time its pieces may take at most.

    Large calls are cut unless that does harm: on a busy machine it does nothing, and they will run
    on a quiet one. Small ones have to save a worker's waking.
    """
    return 110 if call.cost >= CUT else 90


@dataclass
class Tuning:
    """What a session has decided: how many threads for each kind of call, by its key.

    ``threads`` is the most that a run may use, None what OpenBLAS has. With ``measures`` off the
    rule decides where ``choices`` do not.
    """

    threads: int | None = None
    measures: bool = True
    choices: dict[str, int] = field(default_factory=dict)
    _open: list[tuple[str, int, weakref.ref[Fork]]] = field(default_factory=list, repr=False)
    """Forks that are being measured: key, number of pieces, and fork, which its plan holds."""

    @property
    def most(self) -> int:
        """The most threads that a run may use."""
        return default_threads() if self.threads is None else self.threads

    def find(self, call: Call, n: int) -> tuple[str, int | None]:
        """Return a call's key, and its number of threads or None if that is to be measured."""
        name = key(call)
        if name not in self.choices:
            self.settle()
        if name in self.choices:
            return name, min(n, self.choices[name])
        if not self.measures:
            self._choose(name, n if call.cost >= CUT else 1, "by its size")
        elif (known := _known().get(f"{n} {name}")) is not None:
            self._choose(name, known, "as measured before")
        return name, self.choices.get(name)

    def _choose(self, name: str, n: int, reason: str) -> None:
        self.choices[name] = n
        LOG.debug("%s: threads %d, %s", name, n, reason)

    def watch(self, name: str, n: int, fork: Fork) -> None:
        """Remember a fork that is being measured."""
        with _settling:
            self._open.append((name, n, weakref.ref(fork)))

    def settle(self) -> None:
        """Take over what has been measured by now."""
        still, found = [], {}
        with _settling:
            for name, n, held in self._open:
                if (fork := held()) is None:
                    continue
                if (turn := fork.turn) not in (SERIAL, PARALLEL):
                    still.append((name, n, held))
                elif name not in self.choices:
                    self._choose(name, n if turn == PARALLEL else 1, "as measured now")
                    found[f"{n} {name}"] = self.choices[name]
            self._open = still
        if found and _is_quiet():
            _known().update(found)
            _unsaved.update(found)


def key(call: Call) -> str:
    """Return the name of what a call does, the same in every process."""
    return call.label if isinstance(call.label, str) else _kernel_key(call.label)


@functools.lru_cache(maxsize=4096)
def _kernel_key(label: Any) -> str:
    kernel, pattern, bits = label
    name = hashlib.sha256(repr((kernel, pattern)).encode()).hexdigest()[:16]
    return f"kernel {name} up to {2**bits}"


# -- what is known to all -------------------------------------------------------------------------

_unsaved: dict[str, int] = {}


@functools.cache
def _known() -> dict[str, int]:
    """Return what has been measured on this machine, by number of threads and key."""
    found: dict[str, int] = {}
    with contextlib.suppress(ValueError):
        found = checked(json.loads(OBJECTS.load(_name()) or b"{}"))
    return found


def _is_quiet() -> bool:
    """Tell whether others have left the cores to us, so that what was measured holds later, too."""
    cores = os.cpu_count() or 1
    return not hasattr(os, "getloadavg") or os.getloadavg()[0] < cores + 0.5


def _name() -> str:
    from ..llvm.compiler import identity

    library = blas()
    version = "" if library is None else library.version
    return cache.key(f"tuning\0{version}\0{os.cpu_count()}", identity())


def checked(record: Any) -> dict[str, int]:
    """Return choices out of a record; raises ValueError if they are none."""
    if not isinstance(record, Mapping) or not all(
        isinstance(name, str) and type(n) is int and n >= 1 for name, n in record.items()
    ):
        raise ValueError("choices are numbers of threads >= 1 by name")
    return dict(record)


@atexit.register
def save() -> None:
    """Write what this process has measured to the disk."""
    if _unsaved:
        known = {**_known(), **_unsaved}
        OBJECTS.store(_name(), json.dumps(known).encode())
        _unsaved.clear()

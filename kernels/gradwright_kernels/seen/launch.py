"""One launch, seen: what each program reads and writes, and what one of them computes."""

from __future__ import annotations

import functools
import inspect
import linecache
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwright.errors import GraphError

from ..compile.compiler import Call
from ..device.array import DeviceArray
from ..device.cuda import Launch
from ..device.launcher import Launcher
from ..device.simulated.driver import Simulated
from ..device.simulated.interpret import run
from ..device.simulated.memory import Block
from .lines import Line, Lines
from .tracing import Access, Finding, Place, Tracing

Array = np.ndarray[Any, Any]
MOST_PROGRAMS = 64
"""Programs that are looked at; of a larger grid the first, the last and some between."""
NOBODY, SEVERAL = -1, -2


@dataclass(frozen=True, eq=False)
class Operand:
    """An array that a launch has."""

    parameter: str
    name: str
    array: DeviceArray

    @functools.cached_property
    def elements(self) -> Array:
        """For each element, in the order of its index, where it is in memory."""
        size, found = self.array.dtype.itemsize, np.zeros((), np.int64)
        for n, stride in zip(self.array.shape, self.array.strides, strict=True):
            found = found[..., None] + np.arange(n) * (stride // size)
        return np.asarray(found - self.array.low // size)


@dataclass(frozen=True)
class Source:
    """The text of a kernel, or of a function that it calls."""

    file: str
    name: str
    first: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Touch:
    """What the programs do at one line to one array."""

    place: Place
    argument: int
    how: str
    accesses: int
    masked: float
    """Share of lanes that are masked off."""
    nbytes: int
    """Bytes that are asked for, and distinct ones."""
    distinct: int
    sectors: float
    """Sectors that are asked for, as multiples of the fewest that would do."""


@dataclass(frozen=True)
class Walk:
    """What a program did, line by line."""

    lines: list[Line]
    accesses: list[Access]
    sources: list[Source]
    """The kernel, and the functions that it calls."""
    is_cut: bool
    """Whether there were more lines than are kept."""


class SeenLaunch:
    """A launch on a simulated GPU with all that its programs did to memory.

    Programs are numbered as they run: x + X·(y + Y·z) in a grid of X·Y·Z.
    """

    def __init__(
        self, call: Call, arrays: Sequence[DeviceArray], cuda: Simulated, nodes: Sequence[str] = ()
    ) -> None:
        self.call, self.nodes, self._cuda = call, tuple(nodes), cuda
        names = [name for name, _ in call.pointers]
        self.operands = [Operand(n, a.name, a) for n, a in zip(names, arrays, strict=True)]
        launches: list[Launch] = []
        Launcher(cuda.load(call), launches.append)(*arrays)
        (self._launch,) = launches
        self._memory = [(b, b.raw.copy(), b.written.copy()) for b in self._blocks()]
        self.programs = _sample(self.n_programs)
        self.error = ""
        """What stopped it, where its own code failed."""
        tracing = self._run(self.programs)
        self.accesses: list[Access] = tracing.accesses
        self.findings: list[Finding] = list(tracing.findings.values())
        self._finish()

    def __repr__(self) -> str:
        wrong = f", {len(self.findings)} wrong" if self.findings else ""
        return f"<{self.name}: {self.n_programs} programs, {len(self.operands)} arrays{wrong}>"

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self._launch.name

    @property
    def n_programs(self) -> int:
        """How many programs there are."""
        return math.prod(self.call.grid)

    def _blocks(self) -> list[Block]:
        found = (self._cuda.blocks.find(o.array.address) for o in self.operands)
        return list(dict.fromkeys(b for b in found if b is not None))

    def _run(self, programs: Sequence[int], lines: bool = False) -> Any:
        addresses = [o.array.address for o in self.operands]
        tracing = Tracing(self._launch, addresses, self._cuda.blocks)
        nx, ny, _ = self.call.grid
        which = [(n % nx, n // nx % ny, n // (nx * ny)) for n in programs]
        recorded = Lines(tracing)

        def go() -> None:
            run(self.call, tracing.addresses, tracing, which)

        try:
            recorded.record(go) if lines else go()
        except Exception as error:  # a kernel is anybody's code
            self.error = f"{type(error).__name__}: {error}"
        return recorded if lines else tracing

    def _finish(self) -> None:
        """Take for written what programs write that were not looked at."""
        if len(self.programs) < self.n_programs:
            for block in self._blocks():
                block.written[:] = 1

    def miss(self, operand: Operand, element: int) -> None:
        """Note that no program has written an element."""
        argument = self.operands.index(operand)
        mine = [a for a in self.accesses if a.argument == argument]
        source = self.source()
        place = mine[-1].place if mine else (source.file, source.first)
        n = int(operand.elements.max(initial=-1)) + 1
        text = f"has element {element} of {n}, which no program writes"
        self.findings.append(Finding(text, operand.parameter, operand.name, NOBODY, place))

    # -- what is asked ---------------------------------------------------------------------------

    def of(self, program: int) -> list[Access]:
        """Return the accesses of a program; raises GraphError for one that was not looked at."""
        if program not in self.programs:
            raise GraphError(
                f"program {program} of {self.name} was not looked at",
                need=f"one of {len(self.programs)} among 0 to {self.n_programs - 1}",
            )
        return [a for a in self.accesses if a.program == program]

    def at(self, argument: int, place: int) -> tuple[list[int], list[int]]:
        """Return the programs that read, and those that write, an element at a place in memory."""
        mine = [a for a in self.accesses if a.argument == argument and (a.elements == place).any()]
        reads = {a.program for a in mine if a.how != "stores"}
        return sorted(reads), sorted({a.program for a in mine if a.how != "loads"})

    def owners(self, argument: int) -> tuple[Array, Array]:
        """Return for each element which program reads it, and which one writes it.

        It is ``NOBODY`` where none does, and ``SEVERAL`` where more do.
        """
        where = self.operands[argument].elements
        n = int(where.max(initial=0)) + 1
        found = np.full((2, n), NOBODY)
        for access in self.accesses:
            if access.argument != argument:
                continue
            inside = access.elements[(access.elements >= 0) & (access.elements < n)]
            for row, other in ((0, "stores"), (1, "loads")):
                if access.how != other:
                    held = found[row, inside]
                    alone = (held == NOBODY) | (held == access.program)
                    found[row, inside] = np.where(alone, access.program, SEVERAL)
        return found[0][where], found[1][where]

    def walk(self, program: int) -> Walk:
        """Run a program once more, from how memory was, and return what each line did.

        Of what other programs have written it sees nothing; raises GraphError as ``of`` does.
        """
        self.of(program)
        held = [(b, b.raw.copy(), b.written.copy()) for b in self._blocks()]
        _restore(self._memory)
        recorded = self._run([program], lines=True)
        _restore(held)
        sources = [_source(code) for code in recorded.codes]
        return Walk(recorded.lines, recorded.tracing.accesses, sources, recorded.is_cut)

    def touches(self) -> list[Touch]:
        """Return what all programs do, by line, array and kind of access."""
        groups: dict[tuple[Place, int, str], list[Access]] = {}
        for a in self.accesses:
            groups.setdefault((a.place, a.argument, a.how), []).append(a)
        return [_summed(key, found) for key, found in groups.items()]

    def nbytes(self) -> int:
        """Return the distinct bytes that are read or written, if all programs were looked at.

        Of a sample it is what they would be if the others moved as much.
        """
        total = 0
        for argument in range(len(self.operands)):
            for other in ("stores", "loads"):
                mine = [a for a in self.accesses if a.argument == argument and a.how != other]
                if mine:
                    total += _distinct(mine) * mine[0].size
        return total * self.n_programs // max(1, len(self.programs))

    def source(self) -> Source:
        """Return the text of the kernel."""
        kernel = self.call.kernel
        above = (line.lstrip().startswith("def ") for line in kernel.raw_src)
        first = kernel.starting_line_number + next(
            (n for n, is_def in enumerate(above) if is_def), 0
        )
        return _source((kernel.fn.__code__.co_filename, first, kernel.__name__))


def _source(code: tuple[str, int, str]) -> Source:
    file, first, name = code
    lines = linecache.getlines(file)
    block = inspect.getblock(lines[first - 1 :]) if lines else []
    return Source(file, name, first, tuple(line.rstrip("\n") for line in block))


def _sample(n: int) -> list[int]:
    """Return which of n programs are looked at."""
    if n <= MOST_PROGRAMS:
        return list(range(n))
    return sorted({round(k * (n - 1) / (MOST_PROGRAMS - 1)) for k in range(MOST_PROGRAMS)})


def _restore(memory: Sequence[tuple[Block, Array, Array]]) -> None:
    for block, raw, written in memory:
        block.raw[:], block.written[:] = raw, written


def _distinct(accesses: Sequence[Access]) -> int:
    return int(np.unique(np.concatenate([a.elements for a in accesses])).size)


def _summed(key: tuple[Place, int, str], found: Sequence[Access]) -> Touch:
    lanes = sum(a.lanes.size for a in found)
    least = sum(a.least for a in found)
    return Touch(
        *key,
        len(found),
        sum(a.masked for a in found) / max(1, lanes),
        sum(a.elements.size for a in found) * found[0].size,
        _distinct(found) * found[0].size,
        sum(a.sectors for a in found) / max(1, least),
    )

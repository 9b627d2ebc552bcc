"""The executor of a GPU: a program as a table of launches on fixed addresses.

    body   what the fetches need                         ┐ run
    tail   what only updates need; those that overwrite  ┘ commit

Feeds are copied in, launches follow each other on one stream, fetches are copied out. Variables
live on the device from the first run on; the host has copies of them when somebody asks.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwright.errors import MemoryLimitError, ShapeError
from gradwright.graph import Tensor, Values
from gradwright.program.executor import Ask, Env, Observe
from gradwright.program.options import current, using
from gradwright.program.program import Instr, Program
from gradwright.program.row import Row, names_of
from gradwright.words.tables import size

from .array import DeviceArray
from .lying import Lying
from .rows import rows
from .table import Table
from .value import DeviceValue

if TYPE_CHECKING:
    from .gpu import Gpu

Array = np.ndarray[Any, Any]


class GpuExecutor:
    """A segment on a GPU; see :class:`gradwright.program.executor.Executor`."""

    state = ""

    def __init__(self, program: Program, device: Gpu, ask: Ask, *, singly: bool = False) -> None:
        self._device, self._ask, self._program = device, ask, program
        self._options = current()
        how = device.cuda, device.name, device.fallback, ask
        self.laid = Lying(program, *how, singly=singly)
        self._watched: GpuExecutor | None = None
        """The same op by op, for who wants to see all values."""
        self._apart: dict[Tensor, DeviceValue] = {}
        """Where values go that are not the variables' own."""
        self._constants: dict[int, DeviceArray] = {}
        self._table: Table | None = None
        made = {o: n for n, i in enumerate(self.laid.program.instrs) for o in i.outs}
        numbers, n_body = self.laid.program.numbers, self.laid.n_body
        self._copied = self._updates_that_are_copied() if ask.is_whole else {}
        """Updates that become their variables by a copy on the device, by their numbers."""
        stays = {o.new for o in self.laid.overwrites} | set(self._copied.values())
        found = [
            (t, numbers[t])
            for t in self.laid.program.outputs
            if numbers[t] not in stays or t in ask.kept or t is ask.commit_if
        ]
        self._early = [t for t, n in found if made.get(n, -1) < n_body]
        self._late = [t for t, n in found if made.get(n, -1) >= n_body]
        self._results = dict(found)
        self._stay = {
            t for t in self._early if device.keeps and ask.is_whole and t is not ask.commit_if
        }
        """Results that are left on the device."""
        at_home = {*self.laid.homes.values(), *self._copied}
        self._is_one = (
            ask.is_whole
            and self.laid.is_one
            and not self._late
            and (not ask.updates or self.laid.ok is not None)
            and at_home.issuperset(ask.updates)
            and (ask.commit_if is None or self._asked is not None)
        )
        """Whether a step needs no host from its feeds to its updates."""

    @property
    def _asked(self) -> int | None:
        """The value of the program on which updates depend."""
        asked = self._ask.commit_if
        number = None if asked is None else self.laid.program.numbers.get(asked)
        return number if number in self.laid.layout.offsets else None

    def _updates_that_are_copied(self) -> dict[Tensor, int]:
        """Return the updates that a step makes, as their variables lie; others go by the host."""
        lying, found = self.laid, dict[Tensor, int]()
        at_home = set(lying.homes.values())
        for variable, t in self._ask.updates.items():
            number = lying.program.numbers.get(t)
            if number is None or number not in lying.layout.offsets or variable in at_home:
                continue
            if lying.program.specs[number] == variable.spec:
                found[variable] = number
        return found

    # -- running ---------------------------------------------------------------------------------

    def step(self, env: Env, values: Values) -> bool | None:
        """Run and commit at once, unless the host has a part in it; return whether it did."""
        if not self._is_one:
            return None
        updates = self._ask.updates
        with self._device.cuda.lock, values.lock, self._device.uninterrupted():
            table = self._read(env, values)  # nobody sets them before they are updated
            is_well = table.whole(env, self._copied, self._early, self._ask.commit_if)
            if updates and is_well:
                self._take(values, {v.node.name: table.homes[v] for v in updates}, {})
        return bool(updates) and is_well

    def run(self, env: Env, values: Values | None = None, observe: Observe = None) -> None:
        """Compute all outputs into ``env``; what only updates need is left to ``commit``."""
        if observe is not None and self._watched is not self:
            self._op_by_op().run(env, values, observe)
            return
        table = self._read(env, values)
        body = range(self.laid.n_body)
        with self._device.cuda.lock:
            table.enter(env)
            table.do(body, observe and observe(self.laid.program))
            table.leave(env, self._early)
            table.look_at_alarms(body)

    def commit(self, env: Env, values: Values, observe: Observe = None) -> bool:
        """Finish the step that ``run`` began: commit all updates, or none; return whether it did.

        What overwrites its variable on the device comes last; nobody ends a step in between.
        """
        if observe is not None and self._watched is not self:
            return self._op_by_op().commit(env, values, observe)
        ask, n = self._ask, len(self.laid.program.instrs)
        if ask.commit_if is not None and not env[ask.commit_if]:
            return False
        table, see = self._table, observe and observe(self.laid.program)
        assert table is not None, "run comes first"
        first = n - len(self._last())
        tail, last = range(self.laid.n_body, first), range(first, n)
        with self._device.cuda.lock, values.lock:
            table.allow()
            table.do(tail, see)
            table.leave(env, self._late)
            table.look_at_alarms(tail)
            here = {*self.laid.homes.values(), *self._copied}
            new = {
                v.node.name: self._to_keep(v, t, env)
                for v, t in ask.updates.items()
                if v not in here
            }
            with self._device.uninterrupted():
                table.do(last, see)
                table.copy(self._copied)
                self._device.wait_for_all()
                self._take(values, {v.node.name: table.homes[v] for v in here}, new)
        return bool(ask.updates)

    def _op_by_op(self) -> GpuExecutor:
        """Return what runs each op as a kernel of its own, to be held against its ``forward``."""
        if self._watched is None:
            with using(*self._options):
                self._watched = GpuExecutor(self._program, self._device, self._ask, singly=True)
            self._watched._watched = self._watched
        return self._watched

    def lend(self, arrays: Mapping[Tensor, Array]) -> None:
        """Do nothing: results are copied to the host."""

    def drop(self) -> None:
        """Do nothing: it holds no array of the host's."""

    @contextlib.contextmanager
    def singly(self, env: Env) -> Iterator[Iterable[tuple[int, Callable[[], Any]]]]:
        """Give its steps one by one, to be timed; nothing commits.

        Updates that overwrite their variables are left out, as they would.
        """
        table = self._read(env, None)
        table.enter(env)
        table.allow()
        n = len(self.laid.program.instrs) - len(self._last())
        yield [(k, functools.partial(table.timed, k)) for k in range(n)]

    def _last(self) -> list[Instr]:
        """Return the instructions that overwrite variables, which come last."""
        return list({id(o.instr): o.instr for o in self.laid.overwrites}.values())

    # -- variables -------------------------------------------------------------------------------

    def _read(self, env: Env, values: Values | None) -> Table:
        """Have all variables on the device, and in ``env`` those that are wanted there."""
        if values is None:
            found = self._homes_of(None)
            table = self._bind(found)
            for t, home in found.items():
                home.load(env[t])
            return table
        with values.lock:
            found = self._homes_of(values)
            table = self._bind(found)
            moved = {}
            for t, home in found.items():
                if values.buffer(t.node.name) is not home:
                    home.load(values.array(t.node.name))
                    moved[t.node.name] = home
            if moved:
                values.move(moved)
            for t in self._ask.variables:
                if t in self._ask.wanted and t not in env:
                    env[t] = values.array(t.node.name)
        return table

    @functools.cached_property
    def _sources(self) -> list[Tensor]:
        """The variables that it reads or changes on the device."""
        found = self.laid.program.sources.values()
        read = [t for t in found if t.kind == "variable" and t not in self.laid.stated]
        return list(dict.fromkeys((*read, *self._copied)))

    def _homes_of(self, values: Values | None) -> dict[Tensor, DeviceValue]:
        """Return where variables lie, be it from now on; without values, in memory of their own."""
        device = self._device
        own: MutableMapping[Tensor, DeviceValue] = self._apart if values is None else device.homes
        found = {}
        for t in self._sources:
            held = None if values is None else values.buffer(t.node.name)
            is_here = isinstance(held, DeviceValue) and held.cuda is device.cuda
            home = held if is_here else own.get(t)
            if isinstance(home, DeviceValue) and home.spec == t.spec:
                found[t] = home
        missing = [t for t in self._sources if t not in found]
        if missing or self._table is None:
            self._check_memory(sum(t.spec.nbytes for t in missing))
        for t in missing:
            found[t] = own[t] = DeviceValue(device.cuda, device.stream, t.spec, t.node.name)
        return found

    def _to_keep(self, variable: Tensor, value: Tensor, env: Env) -> Array:
        """Return an update that the host has, as an array that is nobody else's."""
        is_shared = value in self._ask.kept or value not in self.laid.program.outputs
        array = env[value].copy() if is_shared else env[value]  # what is fed is the user's own
        if array.shape != variable.shape:
            raise ShapeError(
                f"the update of {variable.name!r} has shape {array.shape}", need=str(variable.spec)
            )
        array.flags.writeable = False
        return array

    @staticmethod
    def _take(values: Values, homes: Mapping[str, DeviceValue], new: Mapping[str, Array]) -> None:
        """Count what was written on the device, and let other updates be the values."""
        moved = {name: home for name, home in homes.items() if values.buffer(name) is not home}
        if moved:  # somebody has set them since they were read
            values.move(moved)
        if homes:
            values.overwritten(homes)
        if new:
            values.commit(new)

    # -- binding ---------------------------------------------------------------------------------

    def _bind(self, homes: Mapping[Tensor, DeviceValue]) -> Table:
        """Return all launches, for variables that lie there; made again when memory has moved."""
        table, device, program = self._table, self._device, self.laid.program
        arena = device.arena(self.laid.layout.nbytes, program.outputs)
        if table is None or not table.is_bound(arena, homes):
            how = self._constants, self._results, self._stay, self._asked
            table = self._table = Table(self.laid, device, arena, homes, *how)
        return table

    def _check_memory(self, variables: int) -> None:
        """Raise before anything runs if the device has too little memory."""
        device, arena = self._device, self.laid.layout.nbytes
        free, total = device.cuda.memory()
        names = names_of(self.laid.program.outputs)
        taken = arena - device.arena_bytes if arena > device.arena_bytes else 0
        constants = sum(a.nbytes for a in self.laid.program.constants.values() if any(a.strides))
        if taken + constants + variables > free:
            device.pool.clear()  # what is kept for results to come makes room
            free, total = device.cuda.memory()
        if taken + constants + variables > free:
            raise MemoryLimitError(
                f"a run of {names} takes {size(taken + constants + variables)} on device "
                f"{device.name!r}, which has {size(free)} left of {size(total)}",
                facts=[
                    f"{size(arena)} for what it computes, at its peak",
                    f"{size(variables)} for variables that are not there yet",
                    f"{size(constants)} for constants",
                ],
                hint='a smaller batch, checkpoint="sqrt", or half precision',
            )

    # -- reports ---------------------------------------------------------------------------------

    def rows(self, first: int, chain: int) -> list[Row]:
        """Return what each step runs as; all launches are one chain."""
        return rows(self.laid, first, chain)

    def ask(self) -> None:
        """Do nothing: kernels are compiled when a plan is made."""

    def buffers(self) -> Mapping[int, int]:
        """Return the bytes that it keeps between runs: its arena, which other plans share."""
        arena = self._table and self._table.arena
        return {id(arena): arena.nbytes} if arena else {}

    def release(self) -> None:
        """Let the arena go; the next run takes it anew. Variables stay."""
        self._table, self._constants, self._apart = None, {}, {}

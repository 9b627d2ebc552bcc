"""Bound: a program with its kernels, as calls of machine code on fixed addresses.

    body   what the fetches need                                    ┐ run
    tail   what only updates need: calls of Python and of kernels   ┐ finish
    last   the updates that overwrite their variables: one chain    ┘ overwrite

A run costs what its kernels and products take, and about 0.25 µs for each feed and result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..fuse.dense import make_dense
from ..fuse.overwrite import overwrites
from ..graph import Tensor, Values
from ..graph.values import Reader, atomically
from ..program.forward import explained
from ..program.liveness import Lifetimes
from ..program.program import Program
from .binder import Binder
from .blocks import Loan, aligned, name_of
from .exits import Exits
from .launchers import Launchers
from .laying import laid
from .llvm.convolution.rooms import sharing
from .memory import Memory
from .places import Loose, Moving, Place, Within, address

Array = np.ndarray[Any, Any]
Counts = tuple[int, ...]
Seen = tuple[tuple[Array, ...], tuple[Counts, Counts] | None]
SHORT = 1 << 22
"""Bytes up to which a step runs as a whole, 1 ms: readers of variables wait for its end."""


class Bound:
    """Runs a fused program; a plan makes it in the background, or before its first run.

    ``updates`` are those that may overwrite their variables: neither is fetched.
    """

    def __init__(
        self,
        program: Program,
        device: Memory,
        variables: Sequence[Tensor],
        updates: Mapping[Tensor, Tensor],
        known: Launchers,
        commit_if: Tensor | None,
    ) -> None:
        make_dense(program)
        self.program, self.device = program, device
        self._position = {t: n for n, t in enumerate(variables)}
        roots = Lifetimes(program).roots
        self.overwrites = overwrites(program, roots, updates, known.in_place)
        self.lives = Lifetimes(program)
        self.found = [known.within(program, instr) for instr in program.instrs]
        """How each instruction runs; some hold plans of their own."""
        self._binder = Binder(program, self.lives, self.found, self.overwrites, device.tuning)
        self.layout, self.over = laid(self._binder)
        self.reader: Reader | None = None
        self._commit_if = commit_if
        self._has_tail = self._binder.n_body < len(program.instrs)
        self.arena: Array | None = None
        """The memory that it is bound to, where that lasts."""
        self.is_bound = False
        self._loan = Loan.of(device.blocks, self.layout.nbytes, program, self._binder.lie)

    @property
    def overwritten(self) -> set[str]:
        """Names of variables, as they are now, whose updates are written by ``overwrite``."""
        return {o.variable.name for o in self.overwrites}

    @property
    def homes(self) -> dict[int, Tensor]:
        """Updates that overwrite their variables, by the number of the value."""
        return {o.new: o.variable for o in self.overwrites}

    @property
    def code(self) -> dict[int, tuple[int, tuple[int, ...]]]:
        """For each step that has become machine code its chain, and its functions."""
        return dict(self._binder.code)

    def is_view(self, step: int) -> bool:
        """Tell whether a step is done for good: its results are views of what is there."""
        return not self._binder.fixed[step]

    # -- preparation -----------------------------------------------------------------------------

    def prepare(self) -> None:
        """Allocate the arena and bind every call to it; compiles what is new."""
        binder, program, nbytes = self._binder, self.program, self.layout.nbytes
        moves = self._loan is not None
        arena = aligned(nbytes) if moves else self.device.arena(nbytes, name_of(program))
        with sharing(program.constants.values()):
            binder.bind(self.layout.offsets, arena, moves=moves)
        made = {o: step for step, instr in enumerate(program.instrs) for o in instr.outs}
        when = {t: made.get(program.numbers[t], -1) for t in program.outputs}
        given = {o.new for o in self.overwrites}
        early = [t for t, step in when.items() if step < binder.n_body]
        late = [t for t, step in when.items() if binder.n_body <= step < binder.n_last]
        self.exits = Exits(early, binder, self.device, given)
        self._tail_exits = Exits(late, binder, self.device, given)
        self._read_sources()
        self._targets: list[tuple[int, Moving, Moving, Tensor]] = []
        """For each overwriting update the variable, the place it writes, and the variable's own."""
        for o in self.overwrites:
            target, source = binder.places[o.new], binder.places[o.old]
            assert isinstance(target, Moving) and isinstance(source, Moving)
            n = self._position[o.variable]
            self._targets.append((n, target, source, o.variable))
        self._at_home = False
        """Whether every update overwrites its variable, as far as nobody else holds it."""
        self._counter = np.zeros(1, np.int64)
        """Address of what counts the overwriting."""
        if self.reader is not None:
            self._counter[0] = address(self.reader.writes)
        self._counted = binder.counted(self._counter)
        self._alarms = binder.alarms()
        whole = self._as_a_whole(early)
        binder.close()
        self.arena = None if moves else arena
        self.is_bound = True  # whatever ends it before, the next run prepares all again
        self._whole = whole

    def _as_a_whole(self, early: Sequence[Tensor]) -> Callable[[], Any] | None:
        """Return body, tail and overwriting as one call, where nothing forbids it."""
        program, binder, owner = self.program, self._binder, self._binder.owner
        read = [program.specs[program.numbers[t]].nbytes for _, t, _ in self._held]
        shown = any(owner[program.numbers[t]] in program.sources for t in early)
        if self._used or shown or sum(read) + self.layout.nbytes > SHORT:
            return None
        if not self.overwrites:
            return binder.whole(None, None)
        flag = None
        if self._commit_if is not None:
            number = program.numbers[self._commit_if]
            if isinstance(binder.places.get(owner[number]), Loose | Moving | Within):
                return None
            flag = address(binder.arrays[number])
        return binder.whole(self._counter, flag) if self._tail_exits.is_empty else None

    def _read_sources(self) -> None:
        """Tell variables, which come with a count of their changes, from feeds."""
        self._counts: Counts = ()
        self._feeds: list[tuple[Tensor, Place]] = []
        self._held: list[tuple[int, Tensor, Place]] = []
        position = self._position
        for number, t in self.program.sources.items():
            where = self._binder.places[number]
            if t in position:
                self._held.append((position[t], t, where))
            else:
                self._feeds.append((t, where))
        self._used = [(n, where) for n, _, where in self._held if where.is_used]
        """Variables that calls of Python read."""
        held = {id(where) for _, _, where in self._held}
        targets = {o.new for o in self.overwrites}
        self._transient: list[Loose | Moving] = [
            where
            for number, where in self._binder.places.items()
            if isinstance(where, Loose | Moving) and id(where) not in held and number not in targets
        ]

    def release(self) -> None:
        """Let the arena and all places go; the next run prepares them again."""
        if not self.is_bound:
            return
        if self._loan is not None:
            self._loan.end()
        self.is_bound = False
        self._whole, self.arena, self._counts = None, None, ()
        self._binder.forget()
        del self.exits, self._tail_exits, self._held, self._feeds, self._used
        self._transient, self._targets = [], []

    # -- running ---------------------------------------------------------------------------------

    def look(self, values: Values) -> Seen:
        """Return the variables' arrays, to be held until the step is done; under the lock.

        With them comes how often each had changed when it was looked at last, and now; or nothing
        if none has changed but by the updates made here.
        """
        reader = self.reader
        if reader is None or reader.values is not values:
            names = [t.name for t in self._position]
            reader = self.reader = values.reader(names, sorted(self.overwritten))
            self._counts = ()
            self._counter[0] = address(reader.writes)
        held = reader.arrays()
        if reader.is_latest and self._counts:
            return held, None
        known, self._counts = self._counts, ()
        return held, (known, reader.see())

    def run(self, env: dict[Tensor, Array], seen: Seen | None = None) -> None:
        """Compute what is fetched into ``env``; the variables are ``seen``, or in ``env``, too."""
        if not self.is_bound:
            self.prepare()
        try:
            self._take_variables(env, seen)
            for t, where in self._feeds:
                where.put(env[t])
            self.exits.begin()
            self._call(self._binder.body)
            self.exits.collect(env)
        except BaseException:
            self._binder.calm()
            self.drop()
            raise
        if not self._has_tail:
            self.drop()

    def step(self, env: dict[Tensor, Array], values: Values) -> bool | None:
        """Compute what is fetched, and commit, in one call of machine code.

        Returns whether it committed; None: something is in the way, and nothing was done.
        """
        whole = self._whole
        if whole is None:
            return None
        loan = self._loan
        try:
            if loan is not None:
                loan.begin()
            done = self._step(whole, env, values) if self._position else self._pass(whole, env)
            if done:
                self.exits.collect(env)
            elif done is not None:
                self._call(self._alarms)
                self.exits.collect(env)
        except BaseException:
            self._binder.calm()
            raise
        finally:
            for where in self._transient:
                where.release()
            if loan is not None:
                loan.end()
        return done

    def _step(
        self, whole: Callable[[], Any], env: Mapping[Tensor, Array], values: Values
    ) -> bool | None:
        """Run all if no variable has moved, and if those that change are held by nobody else."""
        reader = self.reader
        with values.lock:
            if reader is None or values.latest is not reader or not self._counts:
                return None  # it has seen less than all, be it that Ctrl-C ended a run
            if self.overwrites and not (self._at_home and reader.is_sole):
                return None
            before = reader.writes.item()
            self._pass(whole, env)
            return bool(reader.writes.item() != before)

    def _pass(self, whole: Callable[[], Any], env: Mapping[Tensor, Array]) -> bool:
        for t, where in self._feeds:
            where.put(env[t])
        self.exits.begin()
        whole()
        return False

    def finish(self, env: dict[Tensor, Array]) -> None:
        """Compute what updates need, but for those that overwrite, into ``env``."""
        if not self._binder.tail[0] and self._tail_exits.is_empty:
            return
        try:
            self._tail_exits.begin()
            self._call(self._binder.tail)
            self._tail_exits.collect(env)
        except BaseException:
            self._binder.calm()
            self.drop()
            raise

    def overwrite(self, held: tuple[Array, ...], new: dict[str, Array]) -> None:
        """Compute the other updates in place, or in new arrays where others hold the old ones.

        They are committed together with ``new``.
        """
        reader = self.reader
        assert reader is not None
        for _, where in self._used:
            where.release()
        try:
            with reader.values.lock:
                if self._at_home and not new and reader.is_latest and reader.all_free(held):
                    self._counted()
                    reader.is_sole = not self._used
                else:
                    self._overwrite(reader, held, new)
        finally:
            self.drop()

    def _overwrite(self, reader: Reader, held: tuple[Array, ...], new: dict[str, Array]) -> None:
        """Find out for each update where it goes, and commit."""
        is_latest, counts = reader.is_latest, reader.counts()
        known = counts if is_latest else self._counts
        home = [a and b == c for a, b, c in zip(reader.are_free(held), known, counts, strict=True)]
        self._find_homes(home, held, new)
        own = self.overwritten
        after = [n + (name in own) for name, n in zip(reader.names, counts, strict=True)]
        written = zip(reader.names, after, strict=True)
        atomically([*self._binder.last[0], *reader.values.swapping(new, written)])
        # What was written is where it was; what is new, or somebody else's, has to be found.
        self._counts = tuple(
            now if was == n and name not in new else -1
            for name, was, n, now in zip(reader.names, known, counts, after, strict=True)
        )

    def _find_homes(
        self, home: Sequence[bool], held: tuple[Array, ...], new: dict[str, Array]
    ) -> None:
        """Give each update its variable's array, where that may be, or a new one."""
        self._at_home, at_home = False, True
        for index, target, source, variable in self._targets:
            if source.is_owned and home[index]:
                target.move(source.at)
                continue
            fresh = held[index].copy()
            target.move(address(fresh))
            fresh.flags.writeable = False
            new[variable.name], at_home = fresh, False
        self._at_home = at_home

    @contextlib.contextmanager
    def singly(self, env: Mapping[Tensor, Array]) -> Iterator[list[tuple[int, Callable[[], Any]]]]:
        """Yield its calls one by one with their steps, to be made in order; nothing commits.

        ``env`` has all that it reads, variables too; updates are written to arrays of their own.
        """
        if not self.is_bound:
            self.prepare()
        try:
            self._take_variables(env, None)
            for t, where in self._feeds:
                where.put(env[t])
            self.exits.begin()
            self._tail_exits.begin()
            held = {self._position[t]: env[t] for _, t, _ in self._held}
            fresh = [(target, held[index].copy()) for index, target, _, _ in self._targets]
            for target, array in fresh:
                target.move(address(array))
            yield self._binder.singly()
        finally:
            self.drop()

    def drop(self) -> None:
        """Hold no array that is not its own."""
        for where in self._transient:
            where.release()
        for _, variable in self._used:
            variable.release()
        if self._loan is not None:
            self._loan.end()

    def _take_variables(self, env: Mapping[Tensor, Array], seen: Seen | None) -> None:
        if self._loan is not None:
            self._loan.begin()
        if seen is None:
            self._counts, self._at_home = (), False
            for _, t, where in self._held:
                where.put(env[t])
            return
        held, changes = seen
        if changes is not None:
            known, counts = changes
            for index, _, where in self._held:
                if not known or known[index] != counts[index]:
                    where.put(held[index])
                    where.release()
                    self._at_home = False
            self._counts = counts
        for index, where in self._used:
            where.again(held[index])

    def _call(self, calls: tuple[Sequence[Callable[[], Any]], Sequence[int]]) -> None:
        at = -1
        try:
            for at, call in enumerate(calls[0]):  # noqa: B007
                call()
        except Exception as error:
            cause = explained(error, self.program, calls[1][at])
            if cause is error:
                raise
            raise cause from error

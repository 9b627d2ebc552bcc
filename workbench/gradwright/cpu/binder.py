"""Binder: decides where the values of a program lie, and makes its steps calls on these places."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import LoweringError
from ..fuse.dense import is_fixed, is_plain
from ..fuse.fused import Fused
from ..fuse.overwrite import Overwrite
from ..graph import Variable
from ..op import run_forward
from ..program.forward import apart, results
from ..program.liveness import Lifetimes
from ..program.lowering import Found, Launch, Returning
from ..program.program import Instr, Program
from ..spec import TensorSpec
from .blocks import aligned_for
from .call import Call, Native, NativeReturning, numpy_launch, overwritable
from .calls import Calls, Step, asked
from .llvm.chain import COUNT, IF_TRUE, chain
from .places import STAGED, Fixed, Loose, Moving, Place, Within, address
from .threads.forks import PARALLEL
from .threads.threads import Fork, can_fork
from .threads.tuning import ASKED, Tuning, percent, pieces

Array = np.ndarray[Any, Any]
COPIED = 1 << 14
"""Bytes up to which a result is copied out of the arena: 0.1 to 0.8 µs, as naming another array."""


class RefusedError(LoweringError):
    """Kernels cannot be compiled, or not for arrays as they lie."""

    def __init__(self, kernels: Sequence[Instr]) -> None:
        names = ", ".join(repr(instr.op) for instr in kernels)
        super().__init__(f"{names} cannot be machine code here")
        self.kernels = kernels


class Binder:
    """The places of a program's values, and its calls: ``body``, ``tail`` and ``last``.

    ``fixed``, ``overwritable`` and ``elsewhere`` say what an arena has to hold; ``bind`` makes the
    calls when there is one.
    """

    def __init__(
        self,
        program: Program,
        lives: Lifetimes,
        launches: Sequence[Found],
        overwrites: Sequence[Overwrite],
        tuning: Tuning,
    ) -> None:
        self.program, self.lives, self.launches = program, lives, launches
        self._tuning = tuning
        self._n_threads = tuning.most if tuning.most > 1 and can_fork() else 1
        n = len(program.instrs)
        self.n_body = n if program.n_body is None else program.n_body
        self.targets: dict[int, dict[int, int]] = {}
        """For each overwriting output the position of the input it overwrites, by instruction."""
        for o in overwrites:
            read = self.targets.setdefault(id(o.instr), {})
            if o.ins is not None:
                read[o.ins] = o.new
        self.n_last = n - len(self.targets)
        """The step at which the overwriting ones begin."""
        self.owner = list(range(len(program.specs)))
        """For each value the one in whose place it lies."""
        self.loose = {i for i in program.sources if not is_plain(program.specs[i])}
        self.elsewhere: set[int] = {o.new for o in overwrites}
        self.written: set[int] = set()
        """Values that a call writes where it is told to."""
        self.fixed = [True] * n
        self.overwritable: dict[int, Sequence[tuple[int, int]]] = {}
        self.code: dict[int, tuple[int, tuple[int, ...]]] = {}
        """For each step that is machine code the number of its chain, and its functions."""
        outputs = {program.numbers[t] for t in program.outputs}
        for step, instr in enumerate(program.instrs):
            self._choose(step, instr, outputs)

    # -- where values lie ------------------------------------------------------------------------

    def _choose(self, step: int, instr: Instr, outputs: set[int]) -> None:
        """Decide where the outputs of a step lie."""
        program, specs = self.program, self.program.specs
        if is_fixed(instr, program.constants):
            assert instr.ins[0] is not None
            source = self.owner[instr.ins[0]]
            if source not in self.loose:
                self.fixed[step] = False
                for o in instr.outs:
                    self.owner[o] = source
                return
        writes = self._writes(step)
        for o in instr.outs:
            if not is_plain(specs[o]):
                self.loose.add(o)
            if o in self.loose or self._is_apart(step, o, writes, o in outputs):
                self.elsewhere.add(o)
        if writes:
            self.written.update(instr.outs)
            self.overwritable[step] = _overwritable(instr, program)

    def _is_apart(self, step: int, number: int, writes: bool, leaves: bool) -> bool:
        """Tell whether an output has an array of its own, in each run another one."""
        large = COPIED if writes else STAGED
        if self.program.specs[number].nbytes > large and (leaves or not writes):
            return True
        return not writes and (leaves or self.program.instrs[step].op.views)

    def _writes(self, step: int) -> bool:
        """Tell whether a step writes into arrays that it is given."""
        found, instr = self.launches[step], self.program.instrs[step]
        if found is None or isinstance(found, Returning):
            return False
        return all(is_plain(self.program.specs[o]) for o in instr.outs)

    def _place(self, number: int, place: Place) -> None:
        self.places[number] = place
        if not isinstance(place, Loose):
            self.arrays[number] = place.array if isinstance(place, Fixed) else place.template

    def _place_all(self, offsets: dict[int, int], arena: Array) -> None:
        program, specs, ground = self.program, self.program.specs, self.ground
        self.places: dict[int, Place] = {}
        self.arrays: list[Any] = [None] * len(specs)
        for number, array in program.constants.items():
            self.arrays[number] = array
        for number, offset in offsets.items():
            shape: Any = specs[number].shape
            part = np.ndarray(shape, specs[number].dtype, arena, offset)
            self._place(number, Fixed(part) if ground is None else Within(ground, part))
        for number, t in program.sources.items():
            if number in self.loose:
                self._place(number, Loose())
            elif isinstance(t.op, Variable) or specs[number].nbytes > STAGED:
                self._place(number, Moving(specs[number]))
            else:
                self._place(number, Fixed(aligned_for(specs[number])))
        for number in self.elsewhere:
            self._place(number, Loose() if number in self.loose else Moving(specs[number]))

    # -- calls -----------------------------------------------------------------------------------

    def bind(self, offsets: dict[int, int], arena: Array, *, moves: bool = False) -> None:
        """Give every value its place and make the calls.

        Where it ``moves``, the arena is a template, and another block takes its place in each run.
        Raises RefusedError with all kernels that have no machine code.
        """
        self.ground = Moving(TensorSpec(arena.shape, arena.dtype), arena) if moves else None
        self._place_all(offsets, arena)
        self._blocks: list[Array] = []
        self._size = 0
        self.held: list[Any] = []
        """Memory that blocks name."""
        self._refused: list[Instr] = []
        n = self._n_threads
        body, tail, last = Calls(n), Calls(n), Calls()
        frees = self._frees()
        for step, instr in enumerate(self.program.instrs):
            calls = body if step < self.n_body else tail if step < self.n_last else last
            self._bind(step, instr, calls)
            for number in frees.get(step, ()) if step < self.n_last else ():
                calls.add(step, self.places[number].release)
        if self._refused:
            raise RefusedError(self._refused)
        self.table = np.concatenate([np.zeros(0, np.int64), *self._blocks])
        self.body, self.tail, self.last = (
            c.linked(self.table, self.program) for c in (body, tail, last)
        )
        self._parts = body, tail, last

    def counted(self, counter: Array) -> Step:
        """Return ``last`` as a call that adds one to an integer, its address in ``counter``."""
        links = self._parts[-1].links(self.table)
        assert links is not None, "overwriting updates are machine code"
        return chain([*links, (COUNT, address(counter))])

    def whole(self, counter: Array | None, flag: int | None) -> Step | None:
        """Return body, tail and counted last as one call; None: Python or threads take part.

        It ends where an alarm is set, and before the tail if the byte at ``flag`` is 0.
        """
        body, tail, last = (calls.links(self.table) for calls in self._parts)
        if body is None or tail is None or last is None:
            return None
        if counter is None:
            return None if tail or last else chain(body)
        decision = [] if flag is None else [(IF_TRUE, flag)]
        return chain([*body, *decision, *tail, *last, (COUNT, address(counter))])

    def singly(self) -> list[tuple[int, Step]]:
        """Return all calls in order, none of them with another one, and their instructions."""
        return [found for calls in self._parts for found in calls.singly(self.table)]

    def alarms(self) -> tuple[list[Step], list[int]]:
        """Return what raises if an alarm of body or tail is set, and for which instructions."""
        heard = [calls.listening(self.program) for calls in self._parts]
        return [c for found, _ in heard for c in found], [s for _, steps in heard for s in steps]

    def calm(self) -> None:
        """Clear all alarms, whatever ended a run: the next one begins anew."""
        for calls in self._parts:
            for alarm, *_ in calls.alarms:
                alarm[:] = 0

    def close(self) -> None:
        """Let go what only binding needs."""
        table = memoryview(self.table)  # type: ignore[arg-type]
        for place in self.places.values():
            if isinstance(place, Moving):
                place.bind(table)
            elif isinstance(place, Within):
                del place.template
        if self.ground is not None:
            self.ground.bind(table)
        self.arrays, self._blocks = [], []

    def lie(self, block: Array | None) -> None:
        """Have the arena lie in a block; None: in none any more."""
        assert self.ground is not None
        if block is None:
            self.ground.release()
        else:
            self.ground.place(block, address(block))

    def forget(self) -> None:
        """Let all places and calls go; ``bind`` makes them anew."""
        self.places, self.held, self.ground = {}, [], None
        self.body = self.tail = self.last = [], []
        self._parts = Calls(), Calls(), Calls()

    def _frees(self) -> dict[int, list[int]]:
        """Return per step what Python has made and nobody reads afterwards."""
        frees: dict[int, list[int]] = {}
        lives = self.lives
        for instr in self.program.instrs:
            for o in instr.outs:
                root = lives.roots[o]
                if o in self.elsewhere and root not in lives.leaving:
                    frees.setdefault(lives.dies[root], []).append(o)
        return frees

    def _bind(self, step: int, instr: Instr, calls: Calls) -> None:
        numbers = [*instr.ins, *instr.outs]
        for position, number in self.targets.get(id(instr), {}).items():
            numbers[position] = number
        arrays = [None if i is None else self.arrays[i] for i in numbers]
        xs, ys = arrays[: len(instr.ins)], arrays[len(instr.ins) :]
        if not self.fixed[step]:
            made = run_forward(instr.op, xs, training=self.program.training)
            for o, y in zip(instr.outs, made, strict=True):
                self.arrays[o] = y
            return
        found = self.launches[step]
        if isinstance(found, Native) and not any(self._is_loose(i) for i in numbers):
            native = found.bind(xs, ys)
            if native is not None and self._may_alarm(native, instr):
                for call in native:
                    self._bind_native(step, call, numbers, calls)
                    if call.alarm is not None and step < self.n_last:  # later all is written
                        xs = self._arguments(asked(call, instr))
                        calls.alarms.append((call.alarm, step, xs))
                self.code[step] = len(calls.found), tuple(call.address for call in native)
                return
        if isinstance(instr.op, Fused) or id(instr) in self.targets:  # numpy does better op by op
            self._refused.append(instr)
            return
        launch = numpy_launch(found)
        xs = self._arguments(instr.ins)
        if launch is None or isinstance(launch, Returning):
            if isinstance(launch, NativeReturning):
                launch = Returning(launch.compiled)
            calls.add(step, functools.partial(self._forward, instr, launch, xs))
        elif self._writes(step):
            calls.add(step, functools.partial(launch, xs, self._arguments(instr.outs)))
        else:
            calls.add(step, functools.partial(self._fill, instr, launch, xs))

    def _bind_native(
        self, step: int, call: Call, numbers: Sequence[int | None], calls: Calls
    ) -> None:
        """Add a call of machine code, in pieces where that is faster."""
        is_large = call.cost >= ASKED
        alike = not self._tuning.measures
        parts = pieces(call, self._n_threads, alike=alike) if is_large else []
        if not parts:
            return calls.add_native(step, self._enter(call, numbers), is_large=is_large)
        name, n = self._tuning.find(call, len(parts))
        if n == 1:
            return calls.add_native(step, self._enter(call, numbers), is_large=True)
        if n is not None and n < len(parts):
            parts = pieces(call, n, alike=alike)
        links = [self._enter(piece, numbers) for piece in parts]
        whole = links[0] if n else self._enter(call, numbers)
        fork = Fork(whole, links, PARALLEL if n else 0, percent(call))
        if n is None:
            self._tuning.watch(name, len(parts), fork)
        self.held.append(fork)
        calls.add_native(step, fork, is_large=True)

    def _enter(self, call: Call, numbers: Sequence[int | None]) -> tuple[int, int]:
        """Put a block into the table; return its function and its place."""
        start = self._size
        for slot, operand in call.slots:
            number = numbers[operand]
            place = None if number is None else self.places.get(self.owner[number])
            moves = self.ground if isinstance(place, Within) else place
            if isinstance(moves, Moving):
                moves.name(self._size + slot, int(call.block[slot]))
        self._blocks.append(call.block)
        self.held.append(_own(call.held, self._templates(numbers)))
        self._size += len(call.block)
        return call.address, start

    def _templates(self, numbers: Sequence[int | None]) -> list[Array]:
        """Return what stands for values until calls are bound, and is then to be freed."""
        found = [self.places.get(self.owner[n]) for n in numbers if n is not None]
        return [place.template for place in found if isinstance(place, Moving | Within)]

    def is_view(self, number: int) -> bool:
        """Tell whether a value may lie within another one."""
        return self.lives.roots[number] != number

    def _is_loose(self, number: int | None) -> bool:
        return number is not None and self.owner[number] in self.loose

    def _may_alarm(self, calls: Sequence[Call], instr: Instr) -> bool:
        """Tell whether what a call checks is still there when all calls have run."""
        there = self.program.sources.keys() | self.program.constants.keys()
        looked_at = {i for call in calls for i in asked(call, instr) if i is not None}
        return there.issuperset(self.owner[i] for i in looked_at)

    def _arguments(self, numbers: Sequence[int | None]) -> list[Any]:
        """Return arguments of a call of Python, which are filled in as values come."""
        found: list[Any] = [None] * len(numbers)
        for position, number in enumerate(numbers):
            if number is not None:
                self.use(number, found, position)
        return found

    def use(self, number: int, arguments: list[Any], position: int) -> None:
        """Fill an argument with a value, now if it lies where it lies for good."""
        place = self.places.get(self.owner[number])
        if isinstance(place, Loose):
            place.use(arguments, position)
        elif isinstance(place, Moving):
            place.use(arguments, position, self.arrays[number])
        elif isinstance(place, Within) and self.ground is not None:
            self.ground.use(arguments, position, self.arrays[number])
        else:
            arguments[position] = self.arrays[number]

    def _fill(self, instr: Instr, launch: Launch, xs: Sequence[Any]) -> None:
        """Let a launcher write into new arrays, where those hold more than numbers."""
        specs: Any = [self.program.specs[o] for o in instr.outs]
        ys = [np.empty(spec.shape, spec.dtype) for spec in specs]
        launch(xs, ys)
        for o, y in zip(instr.outs, ys, strict=True):
            self.places[o].put(y)

    def _forward(self, instr: Instr, launch: Returning | None, xs: Sequence[Any]) -> None:
        """Run an op's own ``forward``, and put its results into their places."""
        ys = results(self.program, instr, launch, xs)
        if not instr.op.views:
            ys = apart(ys, xs)
        for o, y in zip(instr.outs, ys, strict=True):
            place = self.places[o]
            is_given = o in self.lives.leaving and isinstance(place, Moving)
            place.put(np.require(y, None, ["C", "A"]) if is_given else y)


def _own(held: Any, templates: Sequence[Array]) -> Any:
    """Return the memory that a call names without what others will lie in the place of."""
    if isinstance(held, tuple | list):
        return [_own(part, templates) for part in held]
    is_theirs = isinstance(held, np.ndarray) and any(
        np.may_share_memory(held, template) for template in templates
    )
    return None if is_theirs else held


def _overwritable(instr: Instr, program: Program) -> Sequence[tuple[int, int]]:
    """Return outputs of a step, and the inputs that they may lie over."""
    op = instr.op
    if isinstance(op, Fused):
        return [(y - op.kernel.n_inputs, x) for y, x in op.kernel.in_place]
    ins = [None if i is None else program.specs[i] for i in instr.ins]
    return overwritable(op, "cpu", ins, [program.specs[o] for o in instr.outs])

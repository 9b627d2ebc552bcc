"""The executor of the CPU: numpy at first, chains of machine code when they are compiled."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ..errors import LoweringError, ShapeError
from ..fuse.fused import Fused
from ..graph import Tensor, Values
from ..graph.collecting import without_collecting
from ..program.executor import Ask, Env, Keep, Observe
from ..program.program import Instr, Program
from ..program.row import WIDE, Row, short
from ..program.turns import TURNS
from .binder import RefusedError
from .bound import Bound
from .call import Native
from .fusing import Fusing
from .llvm.target import switch
from .memory import Memory
from .plain import Plain
from .rows import rows
from .threads.background import BACKGROUND

Array = np.ndarray[Any, Any]
RUNS = 3
"""Runs after which kernels are compiled in the background: who runs a plan once or twice, as for a
look at another shape, would not see them any more."""
LATER, FEW = 16, 256
"""The run before which ``"later"`` compiles kernels, and for how many steps: most take 0.3 s."""
HEAVY, HEAVY_STEP = 1 << 24, 3 << 16
"""Bytes of variables that a program changes, and for each of its steps, from which kernels are
waited for: three runs of numpy's Adam take 10 ms for each MB of them, kernels 2 to 5 ms a step."""
_MISSING = "no llvmlite that knows this machine: pip install 'gradwright[fast]'"
_log = logging.getLogger("gradwright")


class CpuExecutor:
    """A segment on the CPU; see :class:`gradwright.program.executor.Executor`."""

    def __init__(
        self, program: Program, device: Memory, ask: Ask, keep: Keep | None = None
    ) -> None:
        self.plain = Plain(program, device)
        self._fusing = Fusing(program, device.name, keep)
        self.bound: Bound | None = None
        """The segment with its kernels, when there is one; it runs from then on."""
        self.coming: Bound | None = None
        """The same while its kernels are being compiled."""
        self.kernels = "off" if device.guarded or not program.instrs else ask.options.kernels
        self.why = "" if self.kernels != "off" else _why_off(ask, device)
        """Why it stays in numpy; empty while kernels are expected, or in."""
        self._ask, self._device = ask, device
        if self.kernels == "background" and not self._fusing.may_be_on_disk:
            self._wait_if_slow()
        self._runs, self.is_asked = 0, False
        self._fetched = [(n, t) for n, t in enumerate(ask.variables) if t in ask.wanted]
        self._last: Plain | Bound | None = None
        self._rest: list[tuple[Tensor, Tensor]] = []
        """Updates that the last run leaves to be swapped in."""
        self._whole: Bound | None = None
        """What can run and commit in one go, as far as the last run told."""
        self._held: tuple[Array, ...] | None = None
        """The variables' arrays between ``run`` and ``commit``."""

    @property
    def laid(self) -> Plain | Bound:
        """What runs now."""
        return self.plain if self.bound is None else self.bound

    # -- running ---------------------------------------------------------------------------------

    def step(self, env: Env, values: Values) -> bool | None:
        """Run and commit in one call of machine code, where nothing is in the way."""
        whole = self._whole
        return None if whole is None or whole is not self.bound else whole.step(env, values)

    def run(self, env: Env, values: Values | None = None, observe: Observe = None) -> None:
        """Compute all outputs; what only updates need is left to ``commit``."""
        self._held = None
        if observe is not None:
            self._read(env, values)
            self.plain.run(env, observe(self.plain.program))
            self._ran(self.plain)
            return
        segment = self._choose()
        if values is None or isinstance(segment, Plain):
            self._read(env, values)
            with TURNS.step():
                segment.run(env)
        else:
            with values.lock:  # another session may commit: all from before it or all from after
                seen = segment.look(values)
            segment.run(env, seen)
            held = seen[0]
            for n, t in self._fetched:
                env[t] = held[n]
            if self._ask.updates:
                self._held = held
        self._ran(segment)

    def commit(self, env: Env, values: Values, observe: Observe = None) -> bool:
        """Finish the step that ``run`` began: commit all updates, or none; return whether it did.

        A variable whose array nobody else holds is overwritten, the others get new arrays. Whatever
        ends it, also Ctrl-C, all is done or nothing.
        """
        segment, held, self._held = self._last, self._held, None
        assert segment is not None, "run comes first"
        ask = self._ask
        if ask.commit_if is not None and not env[ask.commit_if]:
            segment.drop()
            return False
        if isinstance(segment, Plain):
            segment.finish(env, observe and observe(segment.program))
        else:
            segment.finish(env)
        new = {v.name: self._to_keep(v, value, env) for v, value in self._rest}
        if isinstance(segment, Bound) and held is not None:
            segment.overwrite(held, new)
        else:
            segment.drop()
            values.commit(new)
        return bool(ask.updates)

    def lend(self, arrays: Mapping[Tensor, Array]) -> None:
        """Have runs write results there, as far as kernels do; none: in arrays of their own."""
        if self.bound is not None and self.bound.is_bound:
            self.bound.exits.lent = arrays

    def drop(self) -> None:
        """Hold no array that is not its own."""
        self.laid.drop()

    def singly(self, env: Env) -> AbstractContextManager[Iterable[tuple[int, Callable[[], Any]]]]:
        """Give its calls one by one with their steps, to be timed; nothing commits."""
        return self.laid.singly(env)

    def _choose(self) -> Plain | Bound:
        """Return what runs next; it is never changed within a run."""
        if self.bound is None and self.kernels != "off":
            self._runs += 1
            if self._runs == 1 and self.kernels == "background" and self._fusing.may_be_on_disk:
                if self._fusing.is_on_disk():
                    self.kernels = "wait"
                else:
                    self._wait_if_slow()
            if self.kernels == "wait":
                self.bind()
            elif self.kernels == "later":
                if self._runs == LATER and len(self.plain.program.instrs) <= FEW:
                    self.bind()
            elif self._runs == RUNS:
                self.ask()
        if self.bound is not None:
            if self.plain.registers:
                self.plain.release()
            return self.bound
        return self.plain

    def _read(self, env: Env, values: Values | None) -> None:
        """Put variables into ``env`` that are not there."""
        if values is not None:
            with values.lock:
                for t in self._ask.variables:
                    if t not in env:
                        env[t] = values.array(t.node.name)

    def _ran(self, segment: Plain | Bound) -> None:
        """Remember what the last run was, and which updates it leaves to be swapped in."""
        if segment is not self._last:
            in_place = segment.overwritten if isinstance(segment, Bound) else ()
            self._rest = [(v, t) for v, t in self._ask.updates.items() if v.name not in in_place]
            self._last, self._whole = segment, None
            if isinstance(segment, Bound) and self._ask.is_whole:
                self._whole = None if self._rest or self._fetched else segment

    def _to_keep(self, variable: Tensor, value: Tensor, env: Env) -> Array:
        """Return an update as an array that is nobody else's and no part of a larger buffer."""
        array = env[value]
        if value in self._ask.kept or array.base is not None or not array.flags.c_contiguous:
            array = array.copy()
        if array.shape != variable.shape:
            raise ShapeError(
                f"the update of {variable.name!r} has shape {array.shape}", need=str(variable.spec)
            )
        array.flags.writeable = False
        return array

    # -- kernels ---------------------------------------------------------------------------------

    def _wait_if_slow(self) -> None:
        """Wait for kernels where numpy takes longer for its runs than they do to be compiled.

        Where steps change much, it also takes memory: new arrays of all that changes, 12 bytes a
        parameter of Adam, where kernels write over the old ones.
        """
        changed, plain = sum(v.spec.nbytes for v in self._ask.updates), self.plain
        if changed > HEAVY + HEAVY_STEP * len(plain.program.instrs) or any(
            isinstance(found, Native) and found.slow for found in plain.found
        ):
            self.kernels = "wait"

    def ask(self) -> None:
        """Have kernels compiled in the background, unless that was asked for before."""
        if self.kernels in ("wait", "later"):
            self.bind()
        elif self.kernels == "background" and not self.is_asked:
            from .llvm import compiler  # noqa: F401 - before the thread, or a fork misses its locks

            self.is_asked = True
            BACKGROUND.add(functools.partial(_bind, weakref.ref(self)))

    def bind(self) -> None:
        """Make the segment with its kernels; those that cannot be compiled stay on numpy."""
        from .llvm.compiler import available  # llvmlite, which no import of ours may load

        try:
            if available():  # from disk it is over before a collection would pay
                with without_collecting() if self._fusing.may_be_on_disk else nullcontext():
                    self.bound = self._bound()
            else:
                is_off = switch("GRADWRIGHT_KERNELS") == "off"
                self.why = "GRADWRIGHT_KERNELS=off" if is_off else _MISSING
        except Exception as error:  # no kernel is worth a failed run: numpy computes it
            self.why = str(error)
            _log.info("a plan stays on numpy: %s", error, exc_info=not _is_expected(error))
        finally:
            self.coming = None
        self.kernels = "off"  # there is no more to come; after Ctrl-C there is

    def _bound(self) -> Bound:
        """Return the segment with its kernels; raises LoweringError if none can be compiled."""
        plain, ask = self.plain, self._ask
        own: dict[Tensor, Tensor] = {}
        if ask.is_whole:  # variables come with their counts
            own = {v: t for v, t in ask.updates.items() if v not in ask.kept and t not in ask.kept}
        refused: list[Instr] = []
        while True:
            fused = self._fusing.fused(refused)
            if refused and not any(isinstance(instr.op, Fused) for instr in fused.instrs):
                raise RefusedError(refused)
            coming = self.coming = Bound(
                fused, self._device, ask.variables, own, plain.launchers, ask.commit_if
            )
            try:
                coming.prepare()
                self._fusing.keep({a for _, calls in coming.code.values() for a in calls})
                return coming
            except RefusedError as error:
                again = {instr.outs for instr in error.kernels} & {i.outs for i in refused}
                if again:
                    raise
                _log.info("numpy computes what these would: %s", error)
                refused += error.kernels

    # -- what is there ---------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """Why it does not run its kernels now; empty if it does, or there is nothing."""
        if self.bound is not None or not self.plain.program.instrs:
            return ""
        if (coming := self.coming) is not None:
            steps = [n for n, i in enumerate(coming.program.instrs) if isinstance(i.op, Fused)]
            return f"compiling: {len(coming.code.keys() & set(steps))} of {len(steps)}"
        if self.why:
            return short(self.why, 2 * WIDE)
        if self.kernels == "wait":
            return "compiled before the first run"
        if self.kernels == "later":
            few = len(self.plain.program.instrs) <= FEW
            return f"compiled before run {LATER}" if few else f"more than {FEW} steps"
        return "waits to be compiled" if self.is_asked else f"kernels come after {RUNS} runs"

    def rows(self, first: int, chain: int) -> list[Row]:
        """Return what each step runs as, or will."""
        is_ready = self.bound is not None
        return rows(self.plain, self.bound or self.coming, first, chain, is_ready=is_ready)

    def buffers(self) -> dict[int, int]:
        """Return the bytes of its arena, which plans of one device share, by address."""
        if self._device.blocks is not None:  # nothing is kept from run to run
            return {}
        arena = self.laid.arena
        if arena is None:
            return {id(self.laid): self.laid.layout.nbytes}  # what the next run will take
        base = arena if arena.base is None else arena.base
        return {id(base): base.nbytes}

    def release(self) -> None:
        """Let all buffers go, not what was compiled; the next run makes them again."""
        self.plain.release()
        if self.bound is not None:
            self.bound.release()
        for launch in self.plain.launchers.made():  # loops and branches hold plans of their own
            release = getattr(launch, "release", None)
            if release is not None:
                release()


def _why_off(ask: Ask, device: Memory) -> str:
    if ask.options.kernels == "off":
        return 'kernels="off"'
    return f"the device is {device.name!r}" if device.guarded else ""


def _is_expected(error: Exception) -> bool:
    return isinstance(error, LoweringError)


def _bind(waiting: weakref.ref[CpuExecutor]) -> None:
    """Bind a segment, if somebody still holds it."""
    if (executor := waiting()) is not None:
        with TURNS.working():
            executor.bind()

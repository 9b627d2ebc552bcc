"""From a program to steps of a device: kernels, views, and where all values lie.

Everything that the fusion takes is a generated kernel, the rest has a kernel written by hand, is a
view, or has none. A kernel that does not take its inputs as they lie gets dense copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from gradwright.errors import LoweringError
from gradwright.fuse import fuse
from gradwright.fuse.dense import Dense, copying, in_order, is_fixed, is_plain, make_dense, stand_in
from gradwright.fuse.fused import Fused
from gradwright.fuse.overwrite import overwrites
from gradwright.graph import Tensor
from gradwright.program.declined import DeclinedError
from gradwright.program.executor import Ask
from gradwright.program.forward import results
from gradwright.program.liveness import Lifetimes, place
from gradwright.program.lowering import Returning, replaced_ops
from gradwright.program.memory import Layout
from gradwright.program.program import Instr, Program
from gradwright.spec import TensorSpec

from ..fused.group import group
from ..launch import WHOLE, Strided, find, is_dense, use
from .cuda import Cuda
from .guard import chosen_last, guarded
from .joined import Joined, join
from .recorder import Recorder

Array = np.ndarray[Any, Any]
ALIGN = 256
"""What buffers of an arena are apart at least: what a line of L2, and a tensor map, ask for."""
FALLBACK = 'Session(..., fallback="cpu") has the host compute it'


@dataclass
class Step:
    """How an instruction runs."""

    kind: Literal["kernel", "view", "plans", "host"]
    run: Any = None
    """A function of input and output arrays: the device's for a kernel, else the host's."""
    recorder: Recorder | None = None
    why: str = ""
    """Why it runs on the host, or with which others it is one launch."""


class Lying:
    """A program with kernels, laid out; see :class:`gradwright.program.executor.Laid`."""

    def __init__(
        self,
        program: Program,
        cuda: Cuda,
        device: str,
        fallback: str,
        ask: Ask,
        *,
        singly: bool = False,
    ) -> None:
        self._cuda, self._device, self._fallback = cuda, device, fallback
        found = {t for t in program.sources.values() if t.kind == "variable"}
        self.stated = found.difference(ask.variables)
        """Variables that are fed: their own values are not read."""
        program, self.ok = (program, None) if singly else guarded(program, ask)
        """The value on which all updates depend; None: the host decides."""
        self.program = fuse(
            program, (), replaced_ops(device) | WHOLE, all_of_it=True, singly=singly
        )
        self.shown = make_dense(self.program)
        """Arrays that lie as values do; only those that a view is of, or that are one."""
        self._made: dict[tuple[int, ...], Step] = {}
        self._densify()
        if self.ok is not None:
            chosen_last(self.program, self.ok)
        updates = ask.updates if ask.is_whole else {}
        kept = {*ask.kept, *self.stated}
        own = {v: t for v, t in updates.items() if v not in kept and t not in kept}
        self.overwrites = overwrites(self.program, Lifetimes(self.program).roots, own)
        self.joined: list[Joined] = []
        """Updates that are one launch."""
        if not singly:
            roots = Lifetimes(self.program).roots
            self.joined = join(self.program, self.overwrites, roots, cuda, self.ghost)
        self.in_joined = {n: j for j in self.joined for n in j.steps}
        self.lives = Lifetimes(self.program)
        self.steps = [self._ready(n, instr) for n, instr in enumerate(self.program.instrs)]
        self.layout, self.over = self._place()
        self.scratch = self.layout.nbytes
        """Where memory from kernel to kernel begins, which all steps share."""
        self.sources = self.scratch + max(map(_scratch, self.steps), default=0)
        """Where feeds begin, and after them alarms, which last for a run."""
        feeds = sum(up(self.program.specs[n].nbytes) for n in self.fed)
        alarms = sum(up(a.extent) for s in self.steps if s.recorder for a, _ in s.recorder.alarms)
        total = self.sources + feeds + alarms
        total += ALIGN  # whether all is well
        self.layout = Layout(self.layout.offsets, total, self.layout.unshared)

    @property
    def homes(self) -> dict[int, Tensor]:
        """Updates that are written over their variables, by the number of the value."""
        return {o.new: o.variable for o in self.overwrites}

    @cached_property
    def fed(self) -> list[int]:
        """The feeds that go to the device: all but objects of Python, which only pass through."""
        program, stated = self.program, self.stated
        found = [n for n, t in program.sources.items() if t.kind != "variable" or t in stated]
        return [n for n in found if is_plain(program.specs[n])]

    @cached_property
    def n_body(self) -> int:
        """How many steps run before it is decided whether updates commit."""
        n = self.program.n_body
        return len(self.program.instrs) if n is None else n

    @cached_property
    def first_chosen(self) -> int:
        """The first step that depends on whether updates become values."""
        found = [n for n, i in enumerate(self.program.instrs) if self.ok in i.ins]
        return found[0] if found and self.ok is not None else len(self.steps)

    @cached_property
    def is_one(self) -> bool:
        """Whether all steps can be begun at once: the host has no part in them."""
        alarmed = [n for n, s in enumerate(self.steps) if s.recorder and s.recorder.alarms]
        is_early = max(alarmed, default=-1) < self.first_chosen
        return is_early and all(step.kind in ("kernel", "view") for step in self.steps)

    def read_constants(self) -> set[int]:
        """Return the constants that steps read."""
        read = {i for instr in self.program.instrs for i in instr.ins if i is not None}
        return read & self.program.constants.keys()

    def ghost(self, value: int) -> Array:
        """Return an array that lies as a value does, in memory that nobody touches."""
        if value not in self.shown:
            constant = self.program.constants.get(value)
            ghost = stand_in(self.program.specs[value])
            if constant is not None and constant.size > 1 and not any(constant.strides):
                ghost = np.broadcast_to(ghost[(slice(0, 1),) * ghost.ndim], ghost.shape)
            self.shown[value] = ghost
        return self.shown[value]

    # -- steps -----------------------------------------------------------------------------------

    def _densify(self) -> None:
        """Make copies of what lies in another way than its kernel takes, and of what cannot lie."""
        instrs: list[Instr] = []
        copies: dict[int, int] = {}
        n_body = self.program.n_body
        for n, instr in enumerate(self.program.instrs):
            if n == n_body:
                self.program.n_body = len(instrs)
            if instr.op.views and not self._is_view(instr):
                instr = instr.changed(op=Dense(instr.op))
            if isinstance(instr.op, Dense):
                instr = self._copied(instr)
            elif not isinstance(instr.op, Fused):
                step = self._step(instr)
                if step.kind == "kernel" and not isinstance(step.run, Strided):
                    instr = self._with_dense(instr, instrs, copies)
            instrs.append(instr)
        self.program.instrs = instrs

    def _is_view(self, instr: Instr) -> bool:
        is_there = all(o in self.shown for o in instr.outs)
        return is_there and is_fixed(instr, self.program.constants)

    def _copied(self, instr: Instr) -> Instr:
        """Return the copy that an op has become which keeps its elements in order."""
        op: Any = instr.op
        x = instr.ins[0]
        constants, others = self.program.constants, instr.ins[1:]
        is_known = all(i is None or i in constants for i in others)
        if x is None or not is_known or len(instr.outs) != 1:
            return instr
        rest = [None if i is None else constants[i] for i in others]
        spec, out = self.program.specs[x], self.program.specs[instr.outs[0]]
        if out.dtype != spec.dtype or not in_order(op.viewing, spec, rest):
            return instr
        return _copy(spec, x, instr.outs[0], out, instr)

    def _with_dense(self, instr: Instr, instrs: list[Instr], copies: dict[int, int]) -> Instr:
        """Return an instruction that reads dense copies, which are made before it."""
        ins = list(instr.ins)
        for n, x in enumerate(ins):
            if x is None or n in instr.op.shape_only or is_dense(self.ghost(x)):
                continue
            if x not in copies:
                spec = self.program.specs[x]
                copies[x] = self.program.new_value(TensorSpec(spec.shape, spec.dtype))
                instrs.append(_copy(spec, x, copies[x], spec, instr))
            ins[n] = copies[x]
        return instr if tuple(ins) == instr.ins else instr.changed(ins=tuple(ins))

    def _step(self, instr: Instr) -> Step:
        """Return how an instruction runs; what takes inputs as they lie is not bound yet."""
        if instr.outs not in self._made:
            self._made[instr.outs] = self._how(instr)
        return self._made[instr.outs]

    def _how(self, instr: Instr) -> Step:
        program, op = self.program, instr.op
        if self._is_view(instr):
            return Step("view")
        ins = [None if i is None else program.specs[i] for i in instr.ins]
        outs = [program.specs[o] for o in instr.outs]
        recorder = Recorder(self._cuda)
        if any(s is not None and not is_plain(s) for s in (*ins, *outs)):
            raise self._missing(instr, "what it takes or makes is no array of a known size", "")
        if all(s.size == 0 for s in outs):
            return Step("kernel", lambda xs, ys: None, recorder)
        if isinstance(op, Fused):
            return Step("kernel", group(op), recorder)
        with use(recorder):
            found = find(op, ins, outs)
        if getattr(found, "plans", None) is not None:
            return Step("plans", found)
        return self._host(instr) if found is None else Step("kernel", found, recorder)

    def _ready(self, number: int, instr: Instr) -> Step:
        """Return how an instruction runs on arrays that lie as they do."""
        step = self._step(instr)
        if number in self.in_joined and step.recorder is not None:
            joined = self.in_joined[number]
            step.recorder.generated(joined.made.source)
            step.why = f"one launch for steps {joined.steps[0]} to {joined.steps[-1]}"
            return step
        if step.recorder is None or not isinstance(step.run, Strided):
            return step
        xs = [None if i is None else self.ghost(i) for i in instr.ins]
        try:
            with use(step.recorder):
                step.run = step.run.bind(xs, [self.ghost(o) for o in instr.outs])
        except (LoweringError, DeclinedError) as error:
            return self._host(instr, str(error))
        return step

    def _host(self, instr: Instr, why: str = "") -> Step:
        """Return that an instruction runs on the host, if it may, or has nothing to read."""
        specs = self.program.specs
        if self._fallback == "cpu" or any(i is not None and not specs[i].size for i in instr.ins):
            return Step("host", why=why)
        raise self._missing(instr, why, FALLBACK)

    def _missing(self, instr: Instr, why: str, hint: str) -> LoweringError:
        specs = [self.program.specs[i] for i in (*instr.ins, *instr.outs) if i is not None]
        dtypes = " ".join(sorted({s.dtype.name for s in specs}))
        error = LoweringError(
            f"device {self._device!r} has no kernel for {_named(instr.op)} of {dtypes}",
            facts=[why] if why else [],
            hint=hint,
        )
        return error.of(instr.origin).met_at(instr.op.name, instr.path, instr.origin.where)

    def forward(self, number: int, xs: Sequence[Array | None]) -> Sequence[Array]:
        """Return what a step makes of arrays on the host: a loop's plans, or its op."""
        instr, run = self.program.instrs[number], self.steps[number].run
        is_returning = isinstance(run, Returning)
        if self.steps[number].kind == "plans" and not is_returning:
            specs: list[Any] = [self.program.specs[o] for o in instr.outs]
            ys = [np.empty(s.shape, s.dtype) for s in specs]
            run(xs, ys)
            return ys
        return results(self.program, instr, run if is_returning else None, xs)

    # -- memory ----------------------------------------------------------------------------------

    def _place(self) -> tuple[Layout, dict[int, int]]:
        """Lay out what steps write; kernels say what they may write over."""
        pairs: dict[int, Sequence[tuple[int, int]]] = {}
        for n, instr in enumerate(self.program.instrs):
            if isinstance(instr.op, Fused):
                kernel = instr.op.kernel
                pairs[n] = [(y - kernel.n_inputs, x) for y, x in kernel.in_place]
        fixed = [step.kind != "view" for step in self.steps]
        return place(self.lives, fixed, pairs, {o.new for o in self.overwrites})


def up(nbytes: int) -> int:
    """Return how far the next buffer is, for one of this size."""
    return -(-max(nbytes, 1) // ALIGN) * ALIGN


def _scratch(step: Step) -> int:
    return sum(up(a.extent) for a in step.recorder.scratch) if step.recorder else 0


def _named(op: Any) -> str:
    if isinstance(op, Dense):
        return _named(op.viewing)
    return " ".join(op.names) if isinstance(op, Fused) else str(op.name)


def _copy(spec: TensorSpec, x: int, y: int, out: TensorSpec, of: Instr) -> Instr:
    """Return an instruction that copies a value, whose elements are those of another shape."""
    shape: Any = spec.shape
    made = Fused(copying(spec.dtype, len(shape)), shape, [out], ("copy",))
    return Instr(made, (x,), (y,), of.origin, of.path, origins=of.origins)

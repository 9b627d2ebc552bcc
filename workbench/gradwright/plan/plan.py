"""Plan: how a graph runs for certain fetches, shapes, dtypes and mode.

Usually one segment. Where a shape depends on values (``nonzero``, a reshape to a computed shape)
a segment ends, and the next one is laid out, once per shape met, when the shape is known.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FeedError, GradwrightError
from ..fuse.overwrite import split_tail
from ..graph import Constant, Node, Source, Tensor, Values, Variable, ordered
from ..graph.build import located
from ..graph.collecting import without_collecting
from ..graph.expand import bind_dims
from ..op import Op
from ..program.device import Device
from ..program.executor import Ask, Observe
from ..program.log import RewriteLog
from ..program.lowering import find_launch, lowering_revision
from ..program.options import DEFAULTS, PlanOptions, using
from ..program.program import Program
from ..program.row import names_of
from ..rewrite import Verifier, rewrite
from ..rewrite.checkpoint import checkpoint
from ..rewrite.schedule import schedule
from ..shared import machine_bytes
from ..spec import TensorSpec
from .inference import lacks_value, specs_of
from .kept import Kept
from .kernels import Kernels
from .profile import Profile, profile
from .report import Memory, beyond
from .segment import Segment
from .sizes import bind_sizes

if TYPE_CHECKING:
    from .template import Shapes

Array = np.ndarray[Any, Any]


class Plan:
    """Compiled form of ``targets`` for feeds of given specs; makes no choice at run time.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> plan = gw.Session(g).plan((x * 2.0).sum(), {"x": (4, 3)})
    >>> [instr.op.name for instr in plan.program.instrs], plan.memory().arena
    (['mul', 'sum'], 64)
    """

    def __init__(
        self,
        targets: Sequence[Tensor],
        feeds: Mapping[Tensor, TensorSpec],
        device: Device,
        *,
        training: bool,
        options: PlanOptions = DEFAULTS,
        updates: Mapping[Tensor, Tensor] = MappingProxyType({}),
        commit_if: Tensor | None = None,
        sizes: Mapping[str, int] = MappingProxyType({}),
        shapes: Shapes | None = None,
    ) -> None:
        self.targets, self.device, self.training = list(targets), device, training
        self.options, self.updates, self.commit_if = options, dict(updates), commit_if
        self.shapes = shapes
        self._early = dict.fromkeys([*targets, *([] if commit_if is None else [commit_if])])
        wanted = [*self._early, *updates.values()]
        self._wanted = dict.fromkeys(wanted)
        self._kept = {*targets, *feeds}
        """What others have: an update that is one of these is copied."""
        self.feeds = list(feeds)
        self.order, tell = ordered(wanted, feeds, sizes)
        self.variables = [n.outputs[0] for n in self.order if isinstance(n.op, Variable)]
        self._last: Segment | None = None
        """The segment that ran last."""
        self._read = {*wanted, *tell, *(t for n in self.order for t in n.inputs if t is not None)}
        self._position = {node: i for i, node in enumerate(self.order)}
        self._asked = known, given = _fed(feeds), {**sizes, **bind_sizes(feeds)}
        self.kept = Kept(self, known, given)
        """Where it is on disk, or why it is not."""
        self.head = self._from_disk(known, given) or self._compile(0, dict(known), dict(given))

    def again(
        self, feeds: Mapping[Tensor, TensorSpec], sizes: Mapping[str, int], device: Device
    ) -> Plan:
        """Return the plan of the same request for other shapes, on a device of that name."""
        plan = copy.copy(self)
        plan.device, plan.kept = device, Kept.none("made of the plan for other sizes")
        plan.head = plan._compile(0, _fed(feeds), {**sizes, **bind_sizes(feeds)})
        return plan

    def bare(self) -> Plan:
        """Return it without segments: what the plans of all shapes have in common."""
        plan = copy.copy(self)
        del plan.head
        return plan

    def __repr__(self) -> str:
        return f"<Plan of {names_of(self.targets)}: {self.kernels.said()}>"

    @property
    def program(self) -> Program:
        """The program of the first segment."""
        return self.head.executor.laid.program

    @property
    def rewrites(self) -> RewriteLog:
        """What rewrites did to the program: print it, or look at its entries.

        A plan that is from disk is rewritten once more for it.
        """
        if self.kept.is_read:
            known, sizes = self._asked
            return self._written(0, dict(known), dict(sizes))[0].log
        return self.program.log

    @property
    def parts(self) -> list[Segment]:
        """All segments laid out so far, each before those that may follow it."""
        found = [self.head]
        for part in found:
            found += part.tails.values()
        return found

    def memory(self) -> Memory:
        """Return what it takes: known before a run, up to where values decide sizes.

        From there on the segments that ran last are taken.
        """
        return Memory([part.executor.laid for part in self._path()])

    def _path(self) -> list[Segment]:
        """Return the segments that ran last, or would run."""
        path = [self.head]
        while (tail := path[-1].tails.latest) is not None:
            path.append(tail)
        return path

    @property
    def kernels(self) -> Kernels:
        """What its steps run as, now: generated kernels, products, numpy; print it."""
        return Kernels([part.executor for part in self._path()])

    def profile(
        self, feeds: Mapping[Tensor | str, Any], values: Values | None = None, *, repeats: int = 10
    ) -> Profile:
        """Return how long each step takes, with its kernels, on these feeds: print it.

        Variables are read from ``values``, by default the graph's; none is changed.
        """
        return profile(self, feeds, values, repeats)

    def ask_for_kernels(self) -> None:
        """Have the kernels of all segments compiled, in the background if runs do not wait."""
        for part in self.parts:
            part.executor.ask()

    def release(self) -> None:
        """Let all buffers go, not what was compiled; the next run makes them again."""
        for part in self.parts:
            part.executor.release()

    def buffers(self) -> dict[int, int]:
        """Return the bytes of what it keeps between runs, by address; plans may share an arena."""
        found: dict[int, int] = {}
        for part in self.parts:
            found |= part.executor.buffers()
            found[id(part)] = part.kept
        return found

    # -- running ---------------------------------------------------------------------------------

    def run(
        self, env: dict[Tensor, Array], values: Values | None = None, observe: Observe = None
    ) -> None:
        """Compute all targets, and what decides on the commit, into ``env``, which holds the feeds.

        Variables are read from ``values``, except with ``observe`` those that are in ``env``. What
        only updates need is left to ``commit``.
        """
        part = self.head
        if values is not None and part.end < len(self.order):  # all segments see one moment
            with values.lock:
                for t in self.variables:
                    if t not in env:
                        env[t] = values.array(t.node.name)
            values = None
        while True:
            if part.least > machine_bytes():
                raise beyond(part.executor.laid, part.least, machine_bytes())
            part.executor.run(env, values, observe)
            if part.end == len(self.order):
                self._last = part
                return
            part = self.following(part, env)

    def step(self, env: dict[Tensor, Array], values: Values) -> bool:
        """Do what ``run`` and ``commit`` do, at once where nothing is in the way.

        What numpy warns of is ignored: a NaN or Inf is a value here, for others to find.
        """
        done = self.head.executor.step(env, values)
        if done is not None:
            return done
        with np.errstate(all="ignore"):
            self.run(env, values)
            return bool(self.updates) and self.commit(env, values)

    def lend(self, arrays: Mapping[Tensor, Array]) -> None:
        """Have runs write some results there, where that spares a copy; none: no more."""
        self.head.executor.lend(arrays)

    def commit(self, env: dict[Tensor, Array], values: Values, observe: Observe = None) -> bool:
        """Finish the step that ``run`` began: commit all updates, or none; return whether it did.

        It does not if ``commit_if`` has come out False. Whatever ends it, also Ctrl-C, all is done
        or nothing.
        """
        assert self._last is not None, "run comes first"
        return self._last.executor.commit(env, values, observe)

    def following(self, part: Segment, env: Mapping[Tensor, Array]) -> Segment:
        """Return the part after one whose results decide on shapes."""
        found = {t: part.met(env[t]) for t in part.dynamic}
        key = tuple(spec.key() for spec in found.values())
        following = part.tails.find(key)
        if following is None:
            known = {**part.known, **found}
            sizes = {**part.sizes, **bind_dims({t: env[t].shape for t in part.dynamic})}
            following = self._compile(part.end, known, sizes)
            part.tails.keep(key, following)
        return following

    # -- compiling -------------------------------------------------------------------------------

    @without_collecting()
    def _compile(
        self, start: int, known: dict[Tensor, TensorSpec], sizes: dict[str, int]
    ) -> Segment:
        filled = self.shapes and self.shapes.fill(self, start, known, sizes)
        if filled:
            program, end, found, known = filled
            return self._part(program, start, end, found, False, known, sizes)
        program, end, dynamic, by_value = self._written(start, known, sizes)
        if self.shapes is not None:
            self.shapes.learn(start, end, dynamic, by_value)
        return self._part(program, start, end, dynamic, by_value, known, sizes)

    def _written(
        self, start: int, known: dict[Tensor, TensorSpec], sizes: dict[str, int]
    ) -> tuple[Program, int, list[Tensor], bool]:
        """Return the program of a part after its rewrites, where it ends, and at what.

        ``known`` and ``sizes`` learn what it tells.
        """
        program = self._empty()
        end = len(self.order)
        dynamic: list[Tensor] = []
        by_value = False

        def number(t: Tensor) -> int:
            if t not in program.numbers:
                value = program.numbers[t] = program.new_value(known[t])
                program.sources[value] = t
            return program.numbers[t]

        for position in range(start, len(self.order)):
            node = self.order[position]
            if isinstance(node.op, Source):
                self._add_source(node, program, known)
                continue
            if all(t in known for t in node.outputs):
                continue
            op = node.op.for_mode(self.training).bind(sizes)
            specs = [None if t is None else known[t] for t in node.inputs]
            unknown = [
                t
                for i in op.needs_values
                if i < len(specs) and lacks_value(specs[i]) and (t := node.inputs[i]) is not None
            ]
            if unknown:
                end, dynamic, by_value = position, unknown, True
                break
            outs = specs_of(node, op, specs, sizes)
            ins = [None if t is None else number(t) for t in node.inputs]
            try:
                made = program.emit(op, ins, outs, node, node.name)
            except GradwrightError as error:  # of something inside a composite
                raise located(error, node) from None
            for t, spec, value in zip(node.outputs, outs, made, strict=True):
                if t not in known:  # one of several outputs may be fed
                    known[t], program.numbers[t] = spec, value
            open_ended = [t for t in node.outputs if not known[t].is_concrete and t in self._read]
            if open_ended:
                end, dynamic = position + 1, open_ended
                break
        program.outputs = [
            t for t in self.leaving(start, end, dynamic) if t in known and _made(t, program)
        ]
        for t in program.outputs:
            number(t)
        rewrite(program, self.options.skip, Verifier(program) if self.options.verify else None)
        schedule(program)
        return program, end, dynamic, by_value

    def _empty(self) -> Program:
        """Return a program without instructions."""
        name = self.device.name

        def is_lowered(op: Op, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> bool:
            return find_launch(op, name, ins, outs) is not None

        return Program(is_lowered, self.training, (name, lowering_revision()))

    @without_collecting()
    def _from_disk(self, known: dict[Tensor, TensorSpec], sizes: dict[str, int]) -> Segment | None:
        """Return the only segment as an earlier process has made it, if one has."""
        found = self.kept.read("program", self._empty)
        if found is None:
            return None
        program, takes = found
        return self._segment(program, 0, len(self.order), [], False, known, sizes, takes)

    def _part(self, program: Program, start: int, end: int, *rest: Any) -> Segment:
        """Return a program after its rewrites as a segment, with what follows it."""
        checkpoint(program, self.options.checkpoint)
        is_last = end == len(self.order)
        if self.updates and is_last:
            split_tail(program, [t for t in program.outputs if t in self._early])
        segment = self._segment(program, start, end, *rest)
        if is_last and not start:
            self.kept.write("program", program, extra=[segment.kept, segment.least])
        elif not start:
            self.kept.refuse("values decide what follows")
        return segment

    def _segment(self, program: Program, start: int, end: int, *rest: Any) -> Segment:
        """Return a program that is done as a segment, which the device runs."""
        is_last = end == len(self.order)
        ask = Ask(
            self.variables, self.updates if is_last else {}, self._wanted, self._kept,
            self.commit_if, is_last and not start, self.options,
        )  # fmt: skip
        with using(self.options.inner(), self.device):
            kept = self.kept if is_last and not start else None
            executor = self.device.executor(program, ask, kept)
        return Segment(program, executor, end, *rest)

    @staticmethod
    def _add_source(node: Node, program: Program, known: dict[Tensor, TensorSpec]) -> None:
        t = node.outputs[0]
        if t in known:
            return
        if node.kind == "placeholder":
            error = FeedError(f"placeholder {node.name!r} is not fed", need=str(t.spec))
            raise error.of(node)
        known[t] = t.spec
        if isinstance(node.op, Constant):
            program.numbers[t] = program.constant(node.graph.values.array(node.name))

    def leaving(self, start: int, end: int, dynamic: Sequence[Tensor]) -> list[Tensor]:
        """Return what later segments and the caller need from nodes before ``end``."""
        found = dict.fromkeys(self._wanted)
        found.update(dict.fromkeys(dynamic))
        for node in self.order[end:]:
            found.update(dict.fromkeys(t for t in node.inputs if t is not None))
        return [t for t in found if start <= self._position.get(t.node, -1) < end]


def _fed(feeds: Mapping[Tensor, TensorSpec]) -> dict[Tensor, TensorSpec]:
    """Return the specs of feeds, those that the graph states by its own objects."""
    return {
        t: t.spec if s == t.spec and s.value is None and t.spec.value is None else s
        for t, s in feeds.items()
    }


def _made(t: Tensor, program: Program) -> bool:
    """Tell whether the segment makes ``t``, be it as a copy of a feed; sources are known before."""
    number = program.numbers.get(t)
    return number is not None and program.sources.get(number) is not t

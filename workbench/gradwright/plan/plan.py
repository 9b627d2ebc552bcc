"""Plan: how a graph runs for certain fetches, shapes, dtypes and mode.

Usually one segment. Where a shape depends on values (``nonzero``, a reshape to a computed shape)
a segment ends, and the next one is laid out, once per shape met, when the shape is known.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..device import Device
from ..errors import DTypeError, FeedError, GradwrightError, ShapeError
from ..graph import Constant, Node, Source, Tensor, Variable, ancestors
from ..graph.build import located
from ..graph.expand import bind_dims
from ..lowering import find_launch
from ..op import Op, infer_specs
from ..rewrite import Program, RewriteLog, Verifier, rewrite
from ..rewrite.checkpoint import checkpoint
from ..rewrite.schedule import schedule
from ..spec import Dim, TensorSpec, known_spec
from .cache import Bounded
from .options import DEFAULTS, PlanOptions, using
from .report import Memory
from .segment import Segment

Array = np.ndarray[Any, Any]
MAX_TAILS = 32


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
        sizes: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.targets, self.device, self.training = list(targets), device, training
        self.options = options
        self.order = ancestors(targets, stop=feeds)
        self.variables = [n.outputs[0] for n in self.order if isinstance(n.op, Variable)]
        self._read = {*targets, *(t for n in self.order for t in n.inputs if t is not None)}
        self._position = {node: i for i, node in enumerate(self.order)}
        self.head = self._compile(0, dict(feeds), {**sizes, **bind_sizes(feeds)})

    def again(self, program: Program | None) -> Plan:
        """Return the same request with another program, of one segment; without one, None runs."""
        plan = copy.copy(self)
        if program is None:
            del plan.head
        else:
            plan.head = self._part(program, len(self.order), (), False, {}, {})
        return plan

    @property
    def wanted(self) -> list[Tensor]:
        """All that it computes for somebody outside."""
        return self.targets

    @property
    def is_whole(self) -> bool:
        """Whether one segment runs it all, with no size that depends on values."""
        return self.head.end == len(self.order)

    @property
    def program(self) -> Program:
        """The program of the first segment."""
        return self.head.segment.program

    @property
    def rewrites(self) -> RewriteLog:
        """What rewrites did to the program: print it, or look at its entries."""
        return self.program.log

    @property
    def parts(self) -> list[_Part]:
        """All segments laid out so far, each before those that may follow it."""
        found = [self.head]
        for part in found:
            found += part.tails.values()
        return found

    def memory(self) -> Memory:
        """Return what it takes: known before a run, up to where values decide sizes.

        From there on the segments that ran last are taken.
        """
        path = [self.head]
        while path[-1].tails:
            path.append(next(reversed(path[-1].tails.values())))
        return Memory([part.segment for part in path])

    def release(self) -> None:
        """Let all buffers go, not what was compiled; the next run makes them again."""
        for part in self.parts:
            part.segment.release()

    def buffers(self) -> dict[int, int]:
        """Return the bytes of what it keeps between runs, by address; plans may share an arena."""
        found: dict[int, int] = {}
        for part in self.parts:
            arena, program = part.segment.arena, part.segment.program
            if arena is not None:
                base = arena if arena.base is None else arena.base
                found[id(base)] = base.nbytes
            constants = sum(a.nbytes for a in program.constants.values() if any(a.strides))
            spares = sum(
                s.nbytes
                for t in program.outputs
                if (s := program.specs[program.numbers[t]]).is_concrete
            )
            found[id(part)] = constants + spares
        return found

    def run(self, env: dict[Tensor, Array], observe: Any = None) -> None:
        """Compute all targets into ``env``, which holds the feeds and variables."""
        part = self.head
        while True:
            part.segment.run(env, None if observe is None else observe(part.segment.program))
            if part.end == len(self.order):
                return
            found = {t: part.met(env[t]) for t in part.dynamic}
            key = tuple(spec.key() for spec in found.values())
            following = part.tails.find(key)
            if following is None:
                known = {**part.known, **found}
                sizes = {**part.sizes, **bind_dims({t: env[t].shape for t in part.dynamic})}
                following = self._compile(part.end, known, sizes)
                part.tails.keep(key, following)
            part = following

    # -- compiling -------------------------------------------------------------------------------

    def _compile(self, start: int, known: dict[Tensor, TensorSpec], sizes: dict[str, int]) -> _Part:
        device = self.device

        def is_lowered(op: Op, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> bool:
            return find_launch(op, device.name, ins, outs) is not None

        program = Program(is_lowered, self.training)
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
                if i < len(specs) and _lacks_value(specs[i]) and (t := node.inputs[i]) is not None
            ]
            if unknown:
                end, dynamic, by_value = position, unknown, True
                break
            outs = self._infer(node, op, specs, sizes)
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
            t for t in self._leaving(start, end, dynamic) if t in known and _made(t, program)
        ]
        for t in program.outputs:
            number(t)
        rewrite(program, self.options.skip, Verifier(program) if self.options.verify else None)
        schedule(program)
        return self._part(program, end, dynamic, by_value, known, sizes)

    def _part(self, program: Program, *rest: Any) -> _Part:
        """Return a program after its rewrites as a segment, with what follows it."""
        checkpoint(program, self.options.checkpoint)
        with using(self.options):
            return _Part(Segment(program, self.device), *rest)

    @staticmethod
    def _add_source(node: Node, program: Program, known: dict[Tensor, TensorSpec]) -> None:
        t = node.outputs[0]
        if t in known:
            return
        if node.kind == "placeholder":
            raise FeedError(f"placeholder {node.name!r} is not fed", need=str(t.spec))
        known[t] = t.spec
        if isinstance(node.op, Constant):
            program.numbers[t] = program.constant(node.graph.values.array(node.name))

    def _leaving(self, start: int, end: int, dynamic: Sequence[Tensor]) -> list[Tensor]:
        """Return what later segments and the caller need from nodes before ``end``."""
        found = dict.fromkeys(self.targets)
        found.update(dict.fromkeys(dynamic))
        for node in self.order[end:]:
            found.update(dict.fromkeys(t for t in node.inputs if t is not None))
        return [t for t in found if start <= self._position.get(t.node, -1) < end]

    def _infer(
        self, node: Node, op: Op, specs: Sequence[TensorSpec | None], sizes: dict[str, int]
    ) -> tuple[TensorSpec, ...]:
        try:
            outs = infer_specs(op, specs)
        except GradwrightError as error:
            raise located(error, node) from None
        for t, spec in zip(node.outputs, outs, strict=True):
            if spec.dtype != t.dtype or spec.rank != t.rank:
                raise DTypeError(
                    f"{t.name!r} is {spec}, not {t.spec}",
                    where=f"{node.op.name} {node.name!r} ({node.where or 'no line'})",
                    need="what the graph was built for",
                    hint=f"{op.name} is defined otherwise now: build the graph again",
                )
            for axis, (stated, size) in enumerate(zip(t.shape, spec.shape, strict=True)):
                expected = stated.substitute(sizes) if isinstance(stated, Dim) else stated
                if isinstance(size, int) and isinstance(expected, int) and size != expected:
                    raise ShapeError(
                        f"{t.name!r} has size {size} on axis {axis}, not {stated} = {expected}",
                        where=f"{node.op.name} {node.name!r} ({node.where or 'no line'})",
                        facts=[
                            f"{i.name!r} : {s}"
                            for i, s in zip(node.inputs, specs, strict=True)
                            if i is not None
                        ],
                        need="the sizes that the graph was built for",
                    )
                if isinstance(size, int) and isinstance(expected, Dim):
                    sizes.update(expected.solve(size))
        return outs


class _Part:
    """A segment, where it ends, and what follows for each set of shapes met there."""

    def __init__(
        self,
        segment: Segment,
        end: int,
        dynamic: Sequence[Tensor],
        by_value: bool,
        known: dict[Tensor, TensorSpec],
        sizes: dict[str, int],
    ) -> None:
        self.segment, self.end, self.dynamic = segment, end, list(dynamic)
        self.by_value = by_value
        """Whether it ends since values decide what follows, be they large or floating."""
        self.known, self.sizes = known, sizes
        self.tails = Bounded[_Part](MAX_TAILS)

    def met(self, array: Array) -> TensorSpec:
        """Return the spec of an array that decides what follows."""
        if self.by_value:
            return TensorSpec(array.shape, array.dtype, array.copy())
        return known_spec(array)


def bind_sizes(feeds: Mapping[Tensor, TensorSpec]) -> dict[str, int]:
    """Return the size of each symbol, or say which two feeds contradict each other."""
    sizes: dict[str, int] = {}
    source: dict[str, str] = {}
    for t, spec in feeds.items():
        if len(spec.shape) != t.rank:
            raise FeedError(
                f"{t.name!r} is fed with rank {len(spec.shape)}",
                need=str(t.spec),
                facts=[f"got {spec}"],
            )
        for stated, size in zip(t.shape, spec.shape, strict=True):
            known = stated.solve(int(size)) if isinstance(stated, Dim) else {}
            for symbol, n in known.items():
                if sizes.setdefault(symbol, n) != n:
                    raise FeedError(
                        f"{t.name!r} says {symbol} = {n}, but {source[symbol]!r} says "
                        f"{symbol} = {sizes[symbol]}",
                        need="one size for each symbol",
                    )
                source.setdefault(symbol, t.name)
    for t, spec in feeds.items():
        for axis, (stated, size) in enumerate(zip(t.shape, spec.shape, strict=True)):
            expected = stated.substitute(sizes) if isinstance(stated, Dim) else stated
            if isinstance(expected, int) and expected != size:
                raise FeedError(
                    f"{t.name!r} is fed with size {size} on axis {axis}",
                    need=f"{t.spec}"
                    + (f" with {stated} = {expected}" if expected != stated else ""),
                    facts=[f"got {spec}"],
                )
    return sizes


def _lacks_value(spec: TensorSpec | None) -> bool:
    return spec is not None and (
        spec.value is None or any(isinstance(d, Dim) for d in np.ravel(spec.value))
    )


def _made(t: Tensor, program: Program) -> bool:
    """Tell whether the segment makes ``t``, be it as a copy of a feed; sources are known before."""
    number = program.numbers.get(t)
    return number is not None and program.sources.get(number) is not t

"""Program: a flat list of instructions over numbered values, with concrete specs.

This is what a graph becomes for one set of shapes: composites are opened where no lowering takes
them whole, sources are numbered first, and rewrites work on it before a plan lays out memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..graph import Constant, Node, Tensor, expansion
from ..op import Op, redefinitions
from ..ops.core.identity import AddN
from ..ops.core.movement import Cast
from ..shared import Bounded
from ..spec import TensorSpec, at_least_float32, is_floating, known_spec
from .log import RewriteLog
from .sums import MANY, added

Array = np.ndarray[Any, Any]


class Instr:
    """One op on numbered values.

    ``origins`` are the nodes of the graph that it serves: the one it was made for comes first, and
    rewrites add those whose work it took over, up to 64. ``recompute`` is 0 for what runs once;
    copies that run again to save memory have numbers of their own, and are never merged with each
    other.
    """

    __slots__ = ("ins", "op", "origins", "outs", "path", "recompute")

    def __init__(
        self,
        op: Op,
        ins: tuple[int | None, ...],
        outs: tuple[int, ...],
        origin: Node,
        path: str,
        *,
        origins: tuple[Node, ...] = (),
        recompute: int = 0,
    ) -> None:
        self.op, self.ins, self.outs, self.path = op, ins, outs, path
        self.origins, self.recompute = origins or (origin,), recompute

    @property
    def origin(self) -> Node:
        """The node that it was made for, which errors name."""
        return self.origins[0]

    def changed(
        self,
        op: Op | None = None,
        ins: tuple[int | None, ...] | None = None,
        outs: tuple[int, ...] | None = None,
    ) -> Instr:
        """Return the same for the same nodes with another op, or on other values."""
        return Instr(
            self.op if op is None else op,
            self.ins if ins is None else ins,
            self.outs if outs is None else outs,
            self.origin,
            self.path,
            origins=self.origins,
            recompute=self.recompute,
        )

    def __repr__(self) -> str:
        return f"{list(self.outs)} = {self.op!r} {list(self.ins)}  # {self.path}"


@dataclass(frozen=True)
class Recipe:
    """How a rewrite computed a constant from others: result ``index`` of an op, or a function."""

    what: Op | Callable[..., Any]
    ins: tuple[int | None, ...]
    index: int = 0
    made: int | None = None
    """The value that it took the place of."""


@dataclass
class Program:
    """Instructions in order, the specs of all values, and where the sources come from."""

    is_lowered: Callable[[Op, Sequence[TensorSpec | None], Sequence[TensorSpec]], bool]
    """Whether the device runs an op whole on these specs."""
    training: bool = False
    device: Hashable = None
    """What ``is_lowered`` depends on; programs of one device share what composites open into."""
    specs: list[TensorSpec] = field(default_factory=list)
    instrs: list[Instr] = field(default_factory=list)
    sources: dict[int, Tensor] = field(default_factory=dict)
    """Values that are read from feeds, variables, or an earlier segment."""
    constants: dict[int, Array] = field(default_factory=dict)
    numbers: dict[Tensor, int] = field(default_factory=dict)
    """The value that each tensor of the graph has become."""
    outputs: list[Tensor] = field(default_factory=list)
    log: RewriteLog = field(default_factory=RewriteLog)
    """What rewrites changed, in order."""
    recipes: dict[int, Recipe] = field(default_factory=dict)
    """Where constants come from that rewrites computed: what else they are at other sizes."""
    n_body: int | None = None
    """How many instructions run before it is decided whether updates commit; None: all."""
    cuts: list[int] = field(default_factory=list)
    """Where further sections begin: no kernel lies in two of them."""

    def new_value(self, spec: TensorSpec) -> int:
        """Return the number of a new value."""
        self.specs.append(spec)
        return len(self.specs) - 1

    def constant(self, array: Array) -> int:
        """Return the number of a new constant."""
        number = self.new_value(known_spec(array))
        self.constants[number] = array
        return number

    def shape_stand_in(self, spec: TensorSpec) -> int:
        """Return a constant that has the shape and dtype of ``spec`` and takes no memory."""
        shape: Any = spec.shape
        number = self.new_value(TensorSpec(shape, spec.dtype))
        self.constants[number] = np.broadcast_to(np.zeros((), spec.dtype), shape)
        return number

    def is_sized(self, spec: TensorSpec) -> bool:
        """Tell whether the sizes of a value are all that this program needs to know."""
        return spec.is_concrete

    def emit(
        self,
        op: Op,
        ins: Sequence[int | None],
        out_specs: Sequence[TensorSpec],
        origin: Node,
        path: str,
    ) -> tuple[int, ...]:
        """Add an op, opened into its expansion unless it is lowered whole; returns its values."""
        given = list(ins)
        for i in op.shape_only:
            held = given[i]
            if held is not None:
                given[i] = self.shape_stand_in(self.specs[held])
        if op.is_composite():
            opened = self._opened(
                op, [None if i is None else self.specs[i] for i in given], out_specs
            )
            if opened is not None:
                return opened.put_into(self, [i for i in given if i is not None], origin, path)
        if isinstance(op, AddN) and len(given) > MANY:
            terms = [i for i in given if i is not None]
            if len({self.specs[i].dtype for i in terms}) == 1:
                return (self._added(terms, out_specs[0], origin, path),)
        return self._put(op, given, out_specs, origin, path)

    def _put(
        self,
        op: Op,
        ins: Sequence[int | None],
        outs: Sequence[TensorSpec],
        origin: Node,
        path: str,
    ) -> tuple[int, ...]:
        """Add an instruction; returns its values."""
        made = tuple([self.new_value(s) for s in outs])
        self.instrs.append(Instr(op, tuple(ins), made, origin, path))
        return made

    def _added(self, terms: Sequence[int], out: TensorSpec, origin: Node, path: str) -> int:
        """Add a sum of many terms some at a time; that of halves is rounded in the end."""

        def emit(ins: Sequence[int]) -> int:
            spec = AddN().infer(*(self.specs[i] for i in ins))
            return self._put(AddN(), ins, (spec,), origin, path)[0]

        wide = at_least_float32(out.dtype) if is_floating(out.dtype) else out.dtype
        if wide == out.dtype:
            return added(terms, emit)
        first = self.specs[terms[0]].with_dtype(wide)
        (start,) = self._put(Cast(dtype=wide), terms[:1], (first,), origin, path)
        total = added([start, *terms[1:]], emit)
        return self._put(Cast(dtype=out.dtype), (total,), (out,), origin, path)[0]

    def _opened(
        self, op: Op, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]
    ) -> Opened | None:
        """Return what a composite is opened into, None where it stays whole."""
        if self.device is None:
            return self._open(op, ins, outs)
        specs = tuple([None if s is None else s.key() for s in ins])
        key = op, specs, self.training, self.device, redefinitions()
        held = _all_opened.find(key)
        if held is not None:
            return held[0]
        made = self._open(op, ins, outs)
        _all_opened.keep(key, (made,))
        return made

    def _open(
        self, op: Op, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]
    ) -> Opened | None:
        if self.is_lowered(op, ins, outs):
            return None
        inner = expansion(op, ins)
        if not all(self.is_sized(t.spec) for n in inner.nodes for t in n.outputs):
            return None
        program = copy.copy(self)
        program.specs = [s for s in ins if s is not None]
        program.instrs, program.constants = [], {}
        numbers = {t: i for i, t in enumerate(inner.inputs)}
        for node in inner.nodes:
            if node.outputs[0] in numbers:
                continue
            if isinstance(node.op, Constant):
                array = node.graph.values.array(node.name)
                numbers[node.outputs[0]] = program.constant(array)
                continue
            made = program.emit(
                node.op.for_mode(self.training),
                [None if t is None else numbers[t] for t in node.inputs],
                [t.spec for t in node.outputs],
                node,
                f"::{node.name}",
            )
            numbers.update(zip(node.outputs, made, strict=True))
        results = tuple([numbers[t] for t in inner.outputs])
        return Opened(len(inner.inputs), program.specs, program.instrs, program.constants, results)


@dataclass(frozen=True, slots=True)
class Opened:
    """The program of a composite: values 0 to ``n_inputs - 1`` are its inputs."""

    n_inputs: int
    specs: list[TensorSpec]
    instrs: list[Instr]
    constants: dict[int, Array]
    results: tuple[int, ...]

    def put_into(
        self, program: Program, given: Sequence[int], origin: Node, path: str
    ) -> tuple[int, ...]:
        """Add the instructions to a program, for inputs that are values there."""
        n, first = self.n_inputs, len(program.specs)
        at = [*given, *range(first, first + len(self.specs) - n)]
        program.specs += self.specs[n:]
        for number, array in self.constants.items():
            program.constants[at[number]] = array
        for i in self.instrs:
            ins = tuple([None if x is None else at[x] for x in i.ins])
            outs = tuple([at[o] for o in i.outs])
            program.instrs.append(Instr(i.op, ins, outs, origin, path + i.path))
        return tuple([at[o] for o in self.results])


_all_opened = Bounded[tuple[Opened | None]](512)

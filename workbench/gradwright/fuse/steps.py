"""How instructions look to kernels: index spaces without axes of size 1, views looked through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..op import Op
from ..ops.updates.boundary import Boundary
from ..program.program import Instr, Program
from ..program.turns import TURNS
from ..spec import TensorSpec
from .builder import Axes
from .rules import Place, Specs, find_place, rule_of


@dataclass(slots=True)
class Step:
    """An instruction as kernels see it: sizes without ones, and inputs that views have not moved.

    ``reads`` has a value and its axes for each input that is read, None for the others.
    """

    index: int
    instr: Instr
    place: Place
    space: tuple[int, ...]
    n_columns: int | None
    reads: tuple[tuple[int, Axes] | None, ...]
    writes: tuple[tuple[int, Axes], ...]
    late: frozenset[int]
    """Values that are sums over the space."""

    @property
    def has_one_column(self) -> bool:
        """Whether its rows are single elements, which are their own reductions."""
        return self.place.n_columns > 0 and self.n_columns is None


@dataclass(slots=True)
class Flow:
    """Who makes and who reads which value; ``source`` looks through views."""

    program: Program
    producer: dict[int, int] = field(default_factory=dict)
    readers: dict[int, list[int]] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)
    """Values that are stored in any case, first of all those that leave the program."""
    shown: set[int] = field(default_factory=set)
    """Values that others are views of."""
    repeated: set[int] = field(default_factory=set)
    """Values that each reader computes for itself."""
    views: dict[int, tuple[int, Axes]] = field(default_factory=dict)
    """Values that are another one, broadcast or with other axes of size 1: where its axes lie."""

    def __post_init__(self) -> None:
        program = self.program
        for index, instr in enumerate(program.instrs):
            TURNS.pause()
            if isinstance(instr.op, Boundary):  # as if it left the program and came as a feed
                self.kept.update(self.source(i) for i in instr.ins if i is not None)
                continue
            for out in instr.outs:
                self.producer[out] = index
            found = _view(instr, program)
            if found is not None:
                self.views[instr.outs[0]] = found
                self.shown.add(found[0])
                continue
            for i in instr.ins:
                if i is not None:
                    self.readers.setdefault(self.source(i), []).append(index)
        self.kept.update(self.source(program.numbers[t]) for t in program.outputs)

    def source(self, value: int) -> int:
        """Return the value that a view shows."""
        while value in self.views:
            value = self.views[value][0]
        return value

    def read(self, value: int, axes: Axes) -> tuple[int, Axes]:
        """Return what is read along ``axes`` in the name of ``value``: its source, and where."""
        while value in self.views:
            value, onto = self.views[value]
            axes = tuple(axes[i] if i >= 0 else 0 for i in onto)
        return value, axes


def _view(instr: Instr, program: Program) -> tuple[int, Axes] | None:
    """Return the input that an op merely broadcasts, or adds and drops axes of size 1 of."""
    name, source = instr.op.name, instr.ins[0] if instr.ins else None
    if source is None or not type(instr.op).__module__.startswith("gradwright."):
        return None
    x, y = program.specs[source], program.specs[instr.outs[0]]
    if name in ("broadcast_to", "broadcast_like"):
        return source, tuple(range(y.rank - x.rank, y.rank))
    if name not in ("expand_dims", "squeeze", "reshape", "reshape_like", "flatten"):
        return None
    inner = [i for i, d in enumerate(y.shape) if d != 1]
    if [d for d in x.shape if d != 1] != [y.shape[i] for i in inner]:
        return None
    place = iter(inner)
    return source, tuple(-1 if d == 1 else next(place) for d in x.shape)


@dataclass(frozen=True, slots=True)
class _Fit:
    """How an op on certain specs fits into kernels; ``position`` numbers the axes that are kept."""

    place: Place
    space: tuple[int, ...]
    n_columns: int | None
    position: dict[int, int]
    ins: tuple[Axes | None, ...]
    outs: tuple[Axes, ...]
    late: tuple[int, ...]


_fits: dict[Any, tuple[_Fit | None]] = {}
MAX_FITS = 8192


def find_step(flow: Flow, index: int) -> Step | None:
    """Return how an instruction fits into kernels, None if it does not."""
    TURNS.pause()
    program, instr = flow.program, flow.program.instrs[index]
    if rule_of(instr.op) is None or instr.outs[0] in flow.views:
        return None
    specs = program.specs
    ins = [None if i is None else specs[i] for i in instr.ins]
    outs = [specs[o] for o in instr.outs]
    shapes = [None if s is None else (s.shape, s.dtype) for s in (*ins, *outs)]
    key = instr.op, *shapes
    held = _fits.get(key)
    if held is None:
        if len(_fits) >= MAX_FITS:
            _fits.clear()
        held = _fits[key] = (_find_fit(instr.op, ins, outs),)
    (fit,) = held
    if fit is None:
        return None
    reads: list[tuple[int, Axes] | None] = []
    for i, axes, whole in zip(instr.ins, fit.ins, fit.place.ins, strict=True):
        if i is None or axes is None or whole is None:
            reads.append(None)
        elif i not in flow.views:
            reads.append((i, axes))
        else:
            source, onto = flow.read(i, whole)
            found = _squeezed(fit.position, onto, specs[source])
            if _named(found) != _named(axes):  # the view repeats what indices name places of
                return None
            reads.append((source, found))
    writes = tuple(zip(instr.outs, fit.outs, strict=True))
    late = frozenset(instr.outs[i] for i in fit.late)
    return Step(index, instr, fit.place, fit.space, fit.n_columns, tuple(reads), writes, late)


def _find_fit(op: Op, ins: Specs, outs: Sequence[TensorSpec]) -> _Fit | None:
    place = find_place(op, ins, outs)
    if place is None or 0 in place.space:
        return None
    kept = [i for i, d in enumerate(place.space) if d != 1]
    columns = sum(i >= len(place.space) - place.n_columns for i in kept)
    position = {axis: i for i, axis in enumerate(kept)}
    ins_axes = tuple(
        None if s is None or axes is None else _squeezed(position, axes, s)
        for s, axes in zip(ins, place.ins, strict=True)
    )
    outs_axes = tuple(
        _squeezed(position, axes, s) for s, axes in zip(outs, place.outs, strict=True)
    )
    named = tuple(_named(axes) for axes in outs_axes)
    late = tuple(i for i in place.sums if named[i] or len(outs_axes[i]) < len(kept))
    space = tuple(int(place.space[i]) for i in kept)
    return _Fit(place, space, columns or None, position, ins_axes, outs_axes, late)


def _squeezed(position: dict[int, int], axes: Axes, spec: TensorSpec) -> Axes:
    """Return the axes of the space without ones along which a tensor moves."""
    moving = (a for a, d in zip(axes, spec.shape, strict=True) if d != 1)
    return tuple([position[a] if a >= 0 else a for a in moving])


def _named(axes: Axes) -> list[int]:
    """Return the axes along which indices name places."""
    return [a for a in axes if a < 0]

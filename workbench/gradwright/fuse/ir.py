"""Kernel IR: what a fused group computes, element by element, in rows; no layout, no sizes.

A kernel works over an index space of ``rank`` axes. Its last ``n_columns`` axes are its columns,
those before them its rows: a reduction runs over all columns of a row. An operand is an array that
broadcasts to the index space: it has one axis for each of the space's axes, of size 1 where it is
broadcast (``moves`` False). Backends collapse axes and choose loops when strides are known.

    softmax over the last axis:   x = load 0            element
                                  m = reduce max x      row
                                  e = exp(sub(x, m))    element
                                  s = reduce sum e      row
                                  store 1 ← div(e, s)   element
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .functions import FUNCTIONS

REDUCTIONS = ("sum", "max", "min", "prod")


class Level(enum.IntEnum):
    """How often a value is computed: once a launch, once a row, once an element."""

    SCALAR = 0
    ROW = 1
    ELEMENT = 2


@dataclass(frozen=True, slots=True)
class Operand:
    """An array that a kernel reads or writes; ``moves[i]`` tells if axis i has its full size.

    ``named`` are those of its own axes, counted without axes of size 1, along which indices name
    places; it moves along the others.
    """

    dtype: np.dtype[Any]
    moves: tuple[bool, ...]
    named: tuple[int, ...] = ()


class Beyond(enum.Enum):
    """What becomes of a place that is not there."""

    FIRST = "first"
    """An error; until it is raised, the first place is read."""
    NOWHERE = "nowhere"
    """An error; nothing is written."""
    LEFT_OUT = "left out"
    """A negative one is left out; it does not count from the end."""


@dataclass(frozen=True, slots=True)
class Named:
    """What a place is named in: an operand, and which of its ``named`` axes."""

    operand: int
    axis: int
    beyond: Beyond


@dataclass(frozen=True, slots=True)
class Value:
    """One step of the computation; ``args`` are numbers of earlier values.

    ``op`` is ``"load"`` (``extra``: operand), ``"const"`` (``extra``: number), ``"column"`` (the
    index along the columns, int64), ``"cast"``, ``"reduce"`` (``extra``: one of REDUCTIONS; level
    ROW), ``"place"`` of an index (``extra``: a `Named`; int64), or an element function of
    ``fuse.functions``. A load from where indices say has their places as arguments. A reduction may
    have a second argument, a bool of each row: where it does not hold nobody reads the result,
    which may be anything.
    """

    op: str
    args: tuple[int, ...]
    dtype: np.dtype[Any]
    level: Level
    extra: Any = None


@dataclass(frozen=True, slots=True)
class Store:
    """Write a value to an operand.

    With ``mode="set"`` the operand moves wherever the value does. ``mode="sum"`` adds up over all
    axes along which the operand stands still, even if the value stands still there, too;
    ``mode="sum_rows"`` adds a value of level ROW or SCALAR up once a row, over the row axes alone.
    A summed operand starts at zero in every launch.

    With ``places`` it goes to where these values say, in the order of the index space:
    ``mode="sum"``, ``"prod"``, ``"max"`` or ``"min"`` joins it to what is there, ``"set"`` writes
    over that, once a row if it is ``by_row``. Such an operand starts as the operand ``start``, else
    as the reduction of nothing.
    """

    operand: int
    value: int
    mode: str = "set"
    places: tuple[int, ...] = ()
    by_row: bool = False
    start: int | None = None


@dataclass(frozen=True)
class Kernel:
    """A fused computation: operands (inputs, then outputs), values in order, and stores.

    ``in_place`` maps an output operand to the input operand whose buffer it overwrites; both move
    along the same axes and have one dtype.
    """

    rank: int
    n_columns: int
    operands: tuple[Operand, ...]
    n_inputs: int
    values: tuple[Value, ...]
    stores: tuple[Store, ...]
    in_place: tuple[tuple[int, int], ...] = ()

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """Return the operands that the kernel writes."""
        return self.operands[self.n_inputs :]

    @functools.cached_property
    def cost(self) -> int:
        """What an element costs, in additions; the time to compile it goes with that."""
        return sum(FUNCTIONS[v.op].cost if v.op in FUNCTIONS else 1 for v in self.values)

    @functools.cached_property
    def _hash(self) -> int:
        shape = self.rank, self.n_columns, self.operands, self.n_inputs
        return hash((*shape, self.values, self.stores, self.in_place))

    def __hash__(self) -> int:
        """Return the hash of all fields, computed once: long kernels are looked up often."""
        return self._hash

    def shape_of(self, operand: int, space: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of an operand over an index space of these sizes."""
        return tuple(
            n if moves else 1 for n, moves in zip(space, self.operands[operand].moves, strict=True)
        )

    def lie(
        self, operand: int, array: np.ndarray[Any, Any], space: tuple[int, ...]
    ) -> tuple[np.ndarray[Any, Any], list[int]]:
        """Return an array as it lies in an index space, and size and stride of each named axis."""
        named, numbers = self.operands[operand].named, list[int]()
        if named:
            array = array.reshape([n for n in array.shape if n != 1])
            numbers = [n for axis in named for n in (array.shape[axis], array.strides[axis])]
            array = array[(*(0 if i in named else slice(None) for i in range(array.ndim)), ...)]
        return array.reshape(self.shape_of(operand, space)), numbers

    def __str__(self) -> str:
        """Return the kernel as text, one line a value."""
        names = {Level.SCALAR: "scalar", Level.ROW: "row", Level.ELEMENT: "element"}
        lines = [f"kernel over {self.rank} axes, the last {self.n_columns} are columns"]
        for number, value in enumerate(self.values):
            args = ", ".join(f"%{a}" for a in value.args)
            extra = "" if value.extra is None else f" {value.extra}"
            text = f"%{number} = {value.op}{extra}({args})"
            lines.append(f"  {text:<40} {value.dtype.name:<10} {names[value.level]}")
        for store in self.stores:
            arrow = {"set": "=", "sum": "+=", "sum_rows": "+= once a row"}
            at = ", ".join(f"%{p}" for p in store.places)
            to, how = f"{store.operand}[{at}]", arrow.get(store.mode, store.mode)
            to += "" if store.start is None else f", which starts as {store.start},"
            lines.append(f"  operand {to if at else store.operand} {how} %{store.value}")
        return "\n".join(lines)


@functools.lru_cache(maxsize=4096)
def overlaid(kernel: Kernel, in_place: tuple[tuple[int, int], ...]) -> Kernel:
    """Return a kernel that overwrites some of its inputs: one object for all layers alike."""
    return replace(kernel, in_place=in_place)

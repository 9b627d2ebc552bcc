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
    """An array that a kernel reads or writes; ``moves[i]`` tells if axis i has its full size."""

    dtype: np.dtype[Any]
    moves: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """One step of the computation; ``args`` are numbers of earlier values.

    ``op`` is ``"load"`` (``extra``: operand), ``"const"`` (``extra``: number), ``"column"`` (the
    index along the columns, int64), ``"cast"``, ``"reduce"`` (``extra``: one of REDUCTIONS; level
    ROW), or an element function of ``fuse.functions``. A reduction may have a second argument, a
    bool of each row: where it does not hold nobody reads the result, which may be anything.
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
    """

    operand: int
    value: int
    mode: str = "set"


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
            arrow = {"set": "=", "sum": "+=", "sum_rows": "+= once a row"}[store.mode]
            lines.append(f"  operand {store.operand} {arrow} %{store.value}")
        return "\n".join(lines)


@functools.lru_cache(maxsize=4096)
def overlaid(kernel: Kernel, in_place: tuple[tuple[int, int], ...]) -> Kernel:
    """Return a kernel that overwrites some of its inputs: one object for all layers alike."""
    return replace(kernel, in_place=in_place)

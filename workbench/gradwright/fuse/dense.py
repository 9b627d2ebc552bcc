"""Views that memory does not allow, such as a reshape of a transpose: they become copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..op import Op, run_forward
from ..program.program import Instr, Program
from ..program.turns import TURNS
from ..spec import TensorSpec
from .ir import Kernel, Level, Operand, Store, Value

Array = np.ndarray[Any, Any]


class Dense(Op, abstract=True):
    """An op that may return views, with its result in memory of its own."""

    def __init__(self, viewing: Op) -> None:
        self.__dict__["viewing"] = viewing

    def __new__(cls, viewing: Op) -> Dense:
        """Make the op; unlike others, it is not made of attributes."""
        made: Any = object.__new__(cls)
        return made  # type: ignore[no-any-return]

    viewing: Op

    def infer(self, *specs: Any) -> Any:
        """Return what the op itself returns."""
        return self.viewing.infer(*specs)

    def forward(self, *xs: Any) -> Any:
        """Compute the op itself."""
        return tuple(run_forward(self.viewing, xs, training=False))


def is_fixed(instr: Instr, constants: Mapping[int, Array]) -> bool:
    """Tell whether an op makes the same views of its first input in each run."""
    return (
        bool(instr.ins)
        and instr.op.views
        and instr.ins[0] is not None
        and all(i is None or i in constants for i in instr.ins[1:])
    )


def make_dense(program: Program) -> dict[int, Array]:
    """Replace ops that would copy, as their inputs lie, by ones that say so.

    Returns the views that are left, and what they are of, as arrays that lie so: of their memory,
    which is never touched, only addresses count.
    """
    shown: dict[int, Array] = {}
    instrs = []
    for instr in program.instrs:
        TURNS.pause()
        x = instr.ins[0] if instr.ins else None
        specs = [program.specs[o] for o in instr.outs]
        if x is not None and is_fixed(instr, program.constants) and is_plain(program.specs[x]):
            whole = shown.get(x)
            if whole is None:
                whole = shown[x] = stand_in(program.specs[x])
            rest = [None if i is None else program.constants[i] for i in instr.ins[1:]]
            ys = run_forward(instr.op, [whole, *rest], training=program.training)
            if all(map(is_plain, specs)) and not all(np.may_share_memory(y, whole) for y in ys):
                instr = instr.changed(op=Dense(instr.op))
            else:
                shown.update(zip(instr.outs, ys, strict=True))
        instrs.append(instr)
    program.instrs = instrs
    return shown


def in_order(op: Op, x: TensorSpec, rest: Sequence[Array | None]) -> bool:
    """Tell whether an op that moves nothing keeps the elements of its first input in order."""
    shape: Any = x.shape
    numbers = np.arange(x.size).reshape(shape)
    moved = run_forward(op, [numbers, *rest], training=False)[0]
    return moved.size == x.size and np.array_equal(moved.reshape(-1), numbers.reshape(-1))


def copying(dtype: np.dtype[Any], rank: int) -> Kernel:
    """Return the kernel that copies an array into another of its shape.

    >>> print(copying(np.dtype("f4"), 2))
    kernel over 2 axes, the last 2 are columns
      %0 = load 0()                            float32    element
      operand 1 = %0
    """
    operand = Operand(dtype, (True,) * rank)
    load = Value("load", (), dtype, Level.ELEMENT if rank else Level.SCALAR, 0)
    return Kernel(rank, rank, (operand, operand), 1, (load,), (Store(1, 0),))


def stand_in(spec: TensorSpec) -> Array:
    """Return an array of a spec's shape and strides; its memory is never touched."""
    shape: Any = spec.shape
    return np.empty(shape, spec.dtype)


def is_plain(spec: TensorSpec) -> bool:
    """Tell whether values of a spec are memory of a known size."""
    return spec.is_concrete and not spec.by_reference

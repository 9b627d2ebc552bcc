"""Views that memory does not allow, such as a reshape of a transpose: they become copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..op import Op, run_forward
from ..program.program import Instr, Program
from ..program.turns import TURNS
from ..spec import TensorSpec
from .call import Call, Native, numbered
from .llvm.bind import bind_copy

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


def make_dense(program: Program) -> None:
    """Replace ops that would copy, as their inputs lie, by ones that say so."""
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
                instr = Instr(
                    Dense(instr.op), instr.ins, instr.outs, instr.origin, instr.path,
                    origins=instr.origins, recompute=instr.recompute,
                )  # fmt: skip
            else:
                shown.update(zip(instr.outs, ys, strict=True))
        instrs.append(instr)
    program.instrs = instrs


def launch_of(program: Program, instr: Instr) -> Native | None:
    """Return how an op that keeps its elements in order copies them; None if it moves them."""
    op: Any = instr.op
    assert instr.ins[0] is not None
    x = program.specs[instr.ins[0]]
    if program.specs[instr.outs[0]].dtype != x.dtype:  # its parts, not its elements
        return None
    shape: Any = x.shape
    numbers = np.arange(x.size).reshape(shape)
    rest = [None if i is None else program.constants[i] for i in instr.ins[1:]]
    moved = run_forward(op.viewing, [numbers, *rest], training=program.training)[0]
    if moved.size != x.size or not np.array_equal(moved.reshape(-1), numbers.reshape(-1)):
        return None

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        ys[0].reshape(shape)[...] = xs[0]

    def bind(xs: Sequence[Any], ys: Sequence[Any]) -> Sequence[Call] | None:
        return numbered(bind_copy(xs[0], ys[0].reshape(shape)), (0, len(xs)))

    return Native(bind, launch)


def stand_in(spec: TensorSpec) -> Array:
    """Return an array of a spec's shape and strides; its memory is never touched."""
    shape: Any = spec.shape
    return np.empty(shape, spec.dtype)


def is_plain(spec: TensorSpec) -> bool:
    """Tell whether values of a spec are memory of a known size."""
    return spec.is_concrete and not spec.by_reference

"""Poolings of the largest element whose taps nobody reads, as where no gradient is taken.

They are told for nothing: half of the arithmetic, and a byte for every window.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..op import Op, run_forward
from ..ops.convolutions.pooling import MaxPooling
from ..program.program import Program
from ..program.stored import Parts, Reader, Writer
from ..spec import TensorSpec


class Untapped(Op, abstract=True):
    """A pooling of the largest element, without the taps."""

    namespace = "inner"
    many = True

    def __init__(self, pooling: Op) -> None:
        self.__dict__.update(pooling=pooling, names=(pooling.name,))

    def __new__(cls, pooling: Op) -> Untapped:
        """Make the op; unlike others, it is not made of attributes."""
        made: Any = object.__new__(cls)
        return made  # type: ignore[no-any-return]

    pooling: Any
    names: tuple[str, ...]

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        """Return the spec of the largest elements."""
        return self.pooling.infer(x)[:1]  # type: ignore[no-any-return]

    def forward(self, x: Any) -> Any:
        """Compute the pooling, in numpy."""
        return run_forward(self.pooling, [x])[:1]

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        """Return the pooling's comparisons."""
        return self.pooling.flops(ins, outs)


def untap(program: Program, replaced: Collection[str]) -> None:
    """Have poolings tell no taps where nobody reads them, but for ops that others have replaced."""
    read = {i for instr in program.instrs for i in instr.ins}
    read.update(program.numbers[t] for t in program.outputs)
    for step, instr in enumerate(program.instrs):
        if not isinstance(instr.op, MaxPooling) or instr.op.name in replaced:
            continue
        y, *told = instr.outs
        if read.isdisjoint(told):
            program.instrs[step] = instr.changed(op=Untapped(instr.op), outs=(y,))


def _write(op: Untapped, to: Writer) -> tuple[int, ...]:
    return (to.op(op.pooling),)


def _read(data: list[int], at: Reader) -> Untapped:
    return Untapped(at.op(*data))


Parts.add(Untapped, _write, _read)

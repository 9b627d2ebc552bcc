"""Convolutions with what follows them: kernels of elements that read their results from the cache.

A batch norm of known statistics, an activation, the addition of a residual become part of the step
that makes what they read: an image's channels go through them while they are in the cache of a
core, and are written once.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..fuse.fused import Fused
from ..op import Op, run_forward
from ..op.applying import infer_specs
from ..ops.convolutions.cnn import ConvInputGrad, Convolution, ConvWeightGrad
from ..ops.convolutions.formats import is_first
from ..program.declined import DeclinedError
from ..program.program import Instr, Program
from ..program.stored import Parts, Reader, Writer
from ..spec import TensorSpec
from .llvm.bind import bind_kernel
from .llvm.convolution.geometry import three
from .llvm.convolution.product import Giving
from .llvm.convolution.tails import following
from .llvm.repeat import Turn

Array = np.ndarray[Any, Any]


class Followed(Op, abstract=True):
    """A convolution of the first ``n`` inputs, whose result is input ``at`` of a kernel.

    The other inputs are those of the kernel, in order.
    """

    namespace = "inner"
    many = True

    def __init__(self, first: Op, n: int, fused: Fused, at: int) -> None:
        self.__dict__.update(first=first, n=n, fused=fused, at=at)
        self.__dict__["names"] = (first.name, *fused.names)

    def __new__(cls, *args: Any) -> Followed:
        """Make the op; unlike others, it is not made of attributes."""
        made: Any = object.__new__(cls)
        return made  # type: ignore[no-any-return]

    first: Any
    n: int
    fused: Fused
    at: int
    names: tuple[str, ...]

    def infer(self, *xs: TensorSpec) -> tuple[TensorSpec, ...]:
        """Return the specs that the kernel's outputs have."""
        return self.fused.outs

    def forward(self, *xs: Any) -> Any:
        """Compute one after the other, in numpy."""
        (y,) = run_forward(self.first, xs[: self.n])
        rest = xs[self.n :]
        return self.fused.forward(*rest[: self.at], y, *rest[self.at :])

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        """Return the convolution's arithmetic."""
        own = ins[: self.n]
        return self.first.flops(own, infer_specs(self.first, own))

    def giving(self, size: Sequence[int], xs: Sequence[Array], ys: Sequence[Array]) -> Giving:
        """Return what runs the kernel on parts of a result ``[N, O, *size]``."""
        kernel, space = self.fused.kernel, self.fused.shape
        arrays: list[Any] = [*xs[self.n :], *ys]
        arrays.insert(self.at, None)
        arrays = [
            None if a is None else a.reshape(kernel.shape_of(i, space))
            for i, a in enumerate(arrays)
        ]
        numbers = [*range(self.n, len(xs) + len(ys))]
        numbers.insert(self.at, -1)
        images, channels, _, rows, _ = _axes(size, space)

        def give(seen: Array, first: int, some: slice, along: slice) -> list[Turn]:
            shape, parts = [*space], []
            cuts = {images: slice(first, first + len(seen)), channels: some, rows: along}
            cut_sizes = {images: len(seen), channels: seen.shape[1], rows: seen.shape[3]}
            for axis, n in cut_sizes.items():
                if axis is not None:
                    shape[axis] = n
            for i, array in enumerate(arrays):
                if array is None:
                    parts.append(seen.reshape(shape))
                    continue
                moves = kernel.operands[i].moves
                at = [cuts[a] if a in cuts and moves[a] else slice(None) for a in range(len(space))]
                parts.append(array[tuple(at)])
            calls = bind_kernel(kernel, tuple(shape), parts)
            if calls is None:
                raise DeclinedError
            turns = []
            for call in calls:
                slots = [(slot, numbers[k]) for slot, k in call.slots if k != self.at]
                steps = {
                    numbers[k]: arrays[k].strides[images] * len(seen)
                    if images is not None and kernel.operands[k].moves[images]
                    else 0
                    for _, k in call.slots
                    if k != self.at
                }
                turns.append(Turn(replace(call, slots=slots, held=(seen, call.held)), steps))
            return turns

        axes = _axes(size, space)
        lying = (*size[:2], *three(size[2:]))
        return Giving(give, following(kernel, self.at, lying, axes, arrays, numbers))


def follow(program: Program, replaced: Collection[str]) -> None:
    """Let convolutions take up the kernels of elements that read them, where nobody else does.

    Ops that others have ``replaced`` stay as they are.
    """
    makers = {o: step for step, instr in enumerate(program.instrs) for o in instr.outs}
    readers: dict[int, int] = dict.fromkeys((program.numbers[t] for t in program.outputs), 1)
    for instr in program.instrs:
        for i in instr.ins:
            if i is not None:
                readers[i] = readers.get(i, 0) + 1
    n_body = len(program.instrs) if program.n_body is None else program.n_body
    gone: set[int] = set()
    for step, instr in enumerate(program.instrs):
        if not isinstance(instr.op, Fused):
            continue
        found = [
            (makers[i], at)
            for at, i in enumerate(instr.ins)
            if i in makers
            and readers[i] == 1
            and program.instrs[makers[i]].op.name not in replaced
            and (makers[i] < n_body) == (step < n_body)
            and _fits(program, program.instrs[makers[i]], instr.op, at)
        ]
        if not found:
            continue
        made, at = max(found)
        first = program.instrs[made]
        rest = instr.ins[:at] + instr.ins[at + 1 :]
        op = Followed(first.op, len(first.ins), instr.op, at)
        origins = tuple(dict.fromkeys((instr.origin, *first.origins, *instr.origins)))
        program.instrs[step] = Instr(
            op, (*first.ins, *rest), instr.outs, instr.origin, instr.path,
            origins=origins, recompute=instr.recompute,
        )  # fmt: skip
        gone.add(made)
    program.instrs = [instr for step, instr in enumerate(program.instrs) if step not in gone]
    if program.n_body is not None:
        program.n_body -= sum(step < n_body for step in gone)


def _fits(program: Program, first: Instr, fused: Fused, at: int) -> bool:
    """Tell whether a convolution can have a kernel run on parts of its result."""
    op, spec = first.op, program.specs[first.outs[0]]
    if not isinstance(op, Convolution) or isinstance(op, ConvWeightGrad) or not is_first(op):
        return False
    if isinstance(op, ConvInputGrad) and op.stride not in (1, (1,) * (spec.rank - 2)):
        return False
    kernel, space = fused.kernel, fused.shape
    if fused.sites:  # what indices name is anywhere
        return False
    if spec.dtype.char not in "fd" or math.prod(space) != spec.size or not spec.size:
        return False
    if [n for n in space if n != 1] != [n for n in spec.shape if n != 1]:
        return False
    return (
        all(m or n == 1 for m, n in zip(kernel.operands[at].moves, space, strict=True))
        and all(m or n == 1 for o in kernel.outputs for m, n in zip(o.moves, space, strict=True))
        and all(store.mode == "set" for store in kernel.stores)
        and not any(value.op in ("reduce", "column") for value in kernel.values)
    )


def _axes(size: Sequence[int], space: Sequence[int]) -> list[int | None]:
    """Return which axes of a kernel's space are images, channels, and the three of an image."""
    left = [axis for axis, n in enumerate(space) if n != 1]
    sizes = *size[:2], *three(size[2:])
    return [left.pop(0) if n != 1 else None for n in sizes]


def _write(op: Followed, to: Writer) -> tuple[int, ...]:
    return to.op(op.first), op.n, to.op(op.fused), op.at


def _read(data: list[int], at: Reader) -> Followed:
    first, n, fused, place = data
    made = at.op(fused)
    assert isinstance(made, Fused)
    return Followed(at.op(first), n, made, place)


Parts.add(Followed, _write, _read)

"""Axes, shapes and dtypes: what undoes or continues another movement becomes one, or none."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import Op
from ..ops.core.exponential import Exp
from ..ops.core.movement import Cast, ExpandDims, Flip, Squeeze, Swapaxes, Transpose
from ..ops.core.reduce import Max, Sum
from ..ops.core.reshape import Reshape
from ..ops.matrices.linalg import Matmul
from ..program.program import Instr
from ..spec import dtype, kind
from .editor import Editor
from .table import rule

# -- axes -----------------------------------------------------------------------------------------


def order(at: Editor, instr: Instr) -> tuple[int, ...]:
    """Return the permutation that a transpose or swapaxes is."""
    op: Any = instr.op
    rank = at.spec(instr.ins[0]).rank
    if instr.op.name == "transpose":
        return tuple(op.order(rank))
    axes = list(range(rank))
    axes[op.axis1], axes[op.axis2] = axes[op.axis2], axes[op.axis1]
    return tuple(axes)


PERMUTING = ("transpose", "swapaxes")


@rule(
    "transpose_nothing",
    "transpose swapaxes",
    "transpose(x), no axis moved",
    "x",
    example=lambda x: Transpose(axes=(0, 1))(x),
)
def _transpose_nothing(at: Editor, instr: Instr) -> int | None:
    """A permutation that moves no axis goes."""
    axes = order(at, instr)
    return instr.ins[0] if axes == tuple(range(len(axes))) else None


@rule(
    "transpose_twice",
    "transpose swapaxes",
    "transpose(transpose(x, p), q)",
    "transpose(x, p∘q)",
    needs=PERMUTING,
    example=lambda s: Transpose(axes=(1, 2, 0))(Swapaxes(axis1=0, axis2=1)(s)),
)
def _transpose_twice(at: Editor, instr: Instr) -> int | None:
    """Two permutations are one, or none."""
    inner = at.producer(instr.ins[0])
    if inner is None or inner.op.name not in PERMUTING:
        return None
    first, second = order(at, inner), order(at, instr)
    joint = tuple(first[a] for a in second)
    source = inner.ins[0]
    if joint == tuple(range(len(joint))):
        return source
    return at.make(Transpose(axes=joint), source)


def is_elementwise(op: Op) -> bool:
    """Tell whether an op works on each element of one tensor alone."""
    return (op.ufunc is not None and op.ufunc.nin == 1) or op.name in (
        "relu", "relu6", "sigmoid", "silu", "gelu", "softplus", "erf", "erfc", "rsqrt", "cast",
    )  # fmt: skip


@rule(
    "transpose_around",
    "transpose swapaxes",
    "transpose(f(transpose(x)))",
    "f(transpose(x))",
    example=lambda x: Transpose()(Exp()(Transpose()(x)) * 2.0),
)
def _transpose_around(at: Editor, instr: Instr) -> int | None:
    """Ops on elements, and with numbers, let a permutation pass that undoes the one before them."""
    steps: list[tuple[Instr, int]] = []
    value, total = instr.ins[0], order(at, instr)
    while len(steps) < 8 and value is not None and at.is_alone(value):
        made = at.producer(value)
        if made is None:
            return None
        if made.op.name in PERMUTING:
            before = order(at, made)
            joint = tuple(before[a] for a in total)
            if not steps or joint != tuple(range(len(joint))):
                return None
            found = made.ins[0]
            for step, place in reversed(steps):
                ins = [*step.ins]
                ins[place] = found
                found = at.make(step.op, *ins)
            return found
        others = [i for i in made.ins if at.number(i) is None or at.spec(i).rank]
        binary = made.op.ufunc is not None and made.op.ufunc.nin == 2
        if len(others) != 1 or len(made.outs) != 1 or not (binary or is_elementwise(made.op)):
            return None
        value = others[0]
        steps.append((made, made.ins.index(value)))
    return None


@rule(
    "flip_twice",
    "flip",
    "flip(flip(x))",
    "x",
    needs=("flip",),
    example=lambda x: Flip(axis=1)(Flip(axis=1)(x)),
)
def _flip_twice(at: Editor, instr: Instr) -> int | None:
    """Reversed twice along the same axes is as it was."""
    inner = at.producer(instr.ins[0], "flip")
    return inner.ins[0] if inner is not None and inner.op == instr.op else None


# -- shapes ---------------------------------------------------------------------------------------

RESHAPING = ("reshape", "reshape_like", "flatten", "expand_dims", "squeeze")


@rule(
    "reshape_nothing",
    " ".join(RESHAPING),
    "reshape(x, its shape)",
    "x",
    example=lambda x: Reshape(shape=(-1, 4))(x),
)
def _reshape_nothing(at: Editor, instr: Instr) -> int | None:
    """A shape that a tensor has already is none to give it."""
    source = instr.ins[0]
    return source if at.spec(source) == at.spec(instr.outs[0]) else None


@rule(
    "reshape_twice",
    " ".join(RESHAPING),
    "reshape(reshape(x))",
    "reshape(x)",
    needs=RESHAPING,
    example=lambda x: Reshape(shape=(-1, 2))(ExpandDims(axis=1)(x)),
)
def _reshape_twice(at: Editor, instr: Instr) -> int | None:
    """Of two shapes given one after the other, in row-major order, the last one counts."""
    inner = at.producer(instr.ins[0])
    if inner is None or inner.op.name not in RESHAPING:
        return None
    spec = at.spec(instr.outs[0])
    if not spec.is_concrete:
        return None
    if at.spec(inner.ins[0]) == spec:
        return inner.ins[0]
    return at.make(Reshape(shape=spec.shape), inner.ins[0])


@rule(
    "reduce_kept",
    "squeeze expand_dims reshape reshape_like",
    "squeeze(sum(x, keepdims))",
    "sum(x)",
    needs=("sum", "mean", "max", "min"),
    example=lambda x: Squeeze(axis=1)(Sum(axis=1, keepdims=True)(x)),
)
def _reduce_kept(at: Editor, instr: Instr) -> int | None:
    """A reduction keeps its axes, or does not, as what follows wants them."""
    inner = at.producer(instr.ins[0])
    if inner is None or inner.op.name not in ("sum", "mean", "max", "min"):
        return None
    if not at.is_alone(inner.outs[0]):
        return None
    op: Any = inner.op
    other = op.replace(keepdims=not op.keepdims)
    wanted = at.spec(instr.outs[0])
    if other.infer(at.spec(inner.ins[0])).shape != wanted.shape:
        return None
    return at.make(other, inner.ins[0])


@rule(
    "reduce_twice",
    "sum max min",
    "max(max(x, a), b)",
    "max(x, a and b)",
    needs=("sum", "max", "min"),
    example=lambda s: Max(axis=1)(Max(axis=1)(s)),
)
def _reduce_twice(at: Editor, instr: Instr) -> int | None:
    """Two reductions of one kind are one, over the axes of both; sums of floats may overflow."""
    inner = at.producer(instr.ins[0], instr.op.name)
    if inner is None or not at.is_alone(inner.outs[0]):
        return None
    if instr.op.name == "sum" and kind(at.spec(instr.ins[0]).dtype) not in "iu":
        return None
    first: Any = inner.op
    second: Any = instr.op
    if first.keepdims != second.keepdims:
        return None
    rank = at.spec(inner.ins[0]).rank
    gone = first.axes(rank)
    left = [a for a in range(rank) if a not in gone or first.keepdims]
    axes = {*gone, *(left[a] for a in second.axes(len(left)))}
    return at.make(second.replace(axis=tuple(sorted(axes))), inner.ins[0])


@rule(
    "reduce_nothing",
    "sum max min mean",
    "sum(x, axes of size 1)",
    "reshape(x)",
    example=lambda x: Sum(axis=1)(ExpandDims(axis=1)(Exp()(x))),
)
def _reduce_nothing(at: Editor, instr: Instr) -> int | None:
    """A reduction over axes of size 1 is a shape."""
    op: Any = instr.op
    spec, out = at.spec(instr.ins[0]), at.spec(instr.outs[0])
    if not spec.is_concrete or spec.dtype != out.dtype or kind(spec.dtype) == "b":
        return None
    if any(spec.shape[a] != 1 for a in op.axes(spec.rank)):
        return None
    return instr.ins[0] if spec == out else at.make(Reshape(shape=out.shape), instr.ins[0])


# -- dtypes ---------------------------------------------------------------------------------------


@rule(
    "matmul_of_halves",
    "matmul",
    "a @ b of 16 bits",
    "cast(cast(a, float32) @ cast(b, float32), 16 bits)",
    example=lambda x, y: Matmul()(Cast(dtype="bfloat16")(x), Cast(dtype="bfloat16")(y.mT)),
)
def _matmul_of_halves(at: Editor, instr: Instr) -> int | None:
    """Products of 16 bits sum in float32, so the conversions fuse with what is beside them."""
    a, b = instr.ins
    half = at.spec(a).dtype
    if half not in _HALVES or at.spec(b).dtype != half:
        return None
    if at.program.is_lowered(instr.op, [at.spec(a), at.spec(b)], [at.spec(instr.outs[0])]):
        return None
    wide = Cast(dtype="float32")
    return at.make(Cast(dtype=half), at.make(instr.op, at.make(wide, a), at.make(wide, b)))


_HALVES = frozenset(map(dtype, ("float16", "bfloat16")))


@rule("cast_nothing", "cast", "cast(x, its dtype)", "x", example=lambda x: Cast(dtype="float32")(x))
def _cast_nothing(at: Editor, instr: Instr) -> int | None:
    """A tensor is not converted to the dtype that it has."""
    return instr.ins[0] if at.spec(instr.ins[0]).dtype == at.spec(instr.outs[0]).dtype else None


@rule(
    "cast_twice",
    "cast",
    "cast(cast(x, wide), d)",
    "cast(x, d)",
    needs=("cast",),
    example=lambda x: Cast(dtype="int32")(Cast(dtype="float64")(x)),
)
def _cast_twice(at: Editor, instr: Instr) -> int | None:
    """A conversion that loses nothing is left out before another."""
    inner = at.producer(instr.ins[0], "cast")
    if inner is None:
        return None
    source, middle, last = (at.spec(i).dtype for i in (inner.ins[0], instr.ins[0], instr.outs[0]))
    names = {d.name for d in (source, middle, last)}
    if not names <= _PLAIN or not np.can_cast(source, middle, "safe") or source == np.dtype(bool):
        return None
    if kind(source) != kind(middle):
        return None
    return inner.ins[0] if source == last else at.make(instr.op, inner.ins[0])


_PLAIN = {
    "float16",
    "float32",
    "float64",
    *(f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)),
}

"""Axes, shapes and dtypes: what undoes or continues another movement becomes one, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..op import Op
from ..ops.elementwise import Exp, Mul
from ..ops.joining import Concat, Split
from ..ops.like import BroadcastLike, SumLike
from ..ops.movement import Cast, ExpandDims, Flip, Squeeze, Swapaxes, Transpose
from ..ops.reduce import Sum
from ..ops.reshape import BroadcastTo, Reshape
from ..ops.slicing import ALL, StridedSlice
from ..spec import kind
from .editor import Editor
from .program import Instr
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
    "sum(sum(x, a), b)",
    "sum(x, a and b)",
    needs=("sum", "max", "min"),
    exact=False,
    example=lambda s: Sum(axis=1)(Sum(axis=1)(s)),
)
def _reduce_twice(at: Editor, instr: Instr) -> int | None:
    """Two reductions of one kind are one, over the axes of both."""
    inner = at.producer(instr.ins[0], instr.op.name)
    if inner is None or not at.is_alone(inner.outs[0]):
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


# -- broadcasts -----------------------------------------------------------------------------------

BROADCASTING = ("broadcast_to", "broadcast_like")


@rule(
    "broadcast_twice",
    "broadcast_to broadcast_like",
    "broadcast(broadcast(x))",
    "broadcast(x)",
    needs=BROADCASTING,
    example=lambda w: BroadcastTo(shape=(3, 2, 4))(BroadcastTo(shape=(2, 4))(w)),
)
def _broadcast_twice(at: Editor, instr: Instr) -> int | None:
    """Of two broadcasts the last one counts."""
    inner = at.producer(instr.ins[0])
    spec = at.spec(instr.outs[0])
    if inner is None or inner.op.name not in BROADCASTING or not spec.is_concrete:
        return None
    return at.make(BroadcastTo(shape=spec.shape), inner.ins[0])


@rule(
    "broadcast_nothing",
    "broadcast_to",
    "broadcast(x, its shape)",
    "x",
    example=lambda x: BroadcastTo(shape=x.shape)(x),
)
def _broadcast_nothing(at: Editor, instr: Instr) -> int | None:
    """A tensor is not broadcast to the shape that it has."""
    return instr.ins[0] if at.spec(instr.ins[0]) == at.spec(instr.outs[0]) else None


ELEMENTWISE = (
    "add sub mul div maximum minimum where less less_equal greater greater_equal equal not_equal"
)


@rule(
    "broadcast_into",
    ELEMENTWISE,
    "f(broadcast(x), y)",
    "f(x, y)",
    needs=BROADCASTING,
    example=lambda w, x: BroadcastLike()(w, x) + x,
)
def _broadcast_into(at: Editor, instr: Instr) -> int | None:
    """Ops on elements broadcast by themselves, where another input has the full shape."""
    out = at.spec(instr.outs[0])
    if not out.is_concrete:
        return None
    for place, value in enumerate(instr.ins):
        made = at.producer(value)
        if made is None or made.op.name not in BROADCASTING:
            continue
        ins = [*instr.ins]
        ins[place] = made.ins[0]
        shapes: list[Any] = [at.spec(i).shape for i in ins]
        if np.broadcast_shapes(*shapes) == out.shape:
            return at.make(instr.op, *ins)
    return None


@rule(
    "sum_of_broadcast",
    "sum_like sum",
    "Σ broadcast(x) over n copies",
    "x·n",
    needs=BROADCASTING,
    exact=False,
    example=lambda w, x: SumLike()(BroadcastLike()(w, x), w),
)
def _sum_of_broadcast(at: Editor, instr: Instr) -> int | None:
    """The sum of n copies is a product with n, rounded once."""
    made = at.producer(instr.ins[0])
    if made is None or made.op.name not in BROADCASTING or made.ins[0] is None:
        return None
    source, full, out = (at.spec(i) for i in (made.ins[0], instr.ins[0], instr.outs[0]))
    if kind(out.dtype) not in "fiu" or source.dtype != out.dtype or not full.is_concrete:
        return None
    if not source.size or not full.size or source.size != out.size:
        return None
    lead = full.rank - source.rank
    copied = {i for i in range(full.rank) if i < lead or source.shape[i - lead] != full.shape[i]}
    if _summed_axes(at, instr) | {i for i in range(full.rank) if full.shape[i] == 1} != copied | {
        i for i in range(full.rank) if full.shape[i] == 1
    }:
        return None
    value = made.ins[0]
    if source != out:
        value = at.make(Reshape(shape=out.shape), value)
    n = np.asarray(full.size // source.size, out.dtype)
    return at.make(Mul(), value, at.constant(n)) if n < MANY else None


MANY = 2048
"""Counts that every dtype holds exactly; float16 ends there."""


def _summed_axes(at: Editor, instr: Instr) -> set[int]:
    op: Any = instr.op
    full = at.spec(instr.ins[0])
    if op.name == "sum":
        return set(op.axes(full.rank))
    like = at.spec(instr.ins[1])
    lead = full.rank - like.rank
    return {i for i in range(full.rank) if i < lead or like.shape[i - lead] != full.shape[i]}


# -- parts ----------------------------------------------------------------------------------------


@rule(
    "slice_nothing",
    "strided_slice",
    "x[:]",
    "x",
    example=lambda x: StridedSlice(index=(slice(0, None), slice(0, 4)))(x),
)
def _slice_nothing(at: Editor, instr: Instr) -> int | None:
    """A slice of everything is the tensor itself."""
    index = _slices(at, instr)
    shape = at.spec(instr.ins[0]).shape
    whole = index is not None and all(
        (start, step) == (0, 1) and n == d for (start, step, n), d in zip(index, shape, strict=True)
    )
    return instr.ins[0] if whole else None


@rule(
    "slice_twice",
    "strided_slice",
    "x[a:b][c:d]",
    "x[a + c : a + d]",
    needs=("strided_slice",),
    example=lambda x: StridedSlice(index=(ALL, slice(1, None)))(
        StridedSlice(index=(ALL, slice(1, 4)))(x)
    ),
)
def _slice_twice(at: Editor, instr: Instr) -> int | None:
    """A slice of a slice is a slice, where both step forwards."""
    inner = at.producer(instr.ins[0], "strided_slice")
    second, first = _slices(at, instr), None if inner is None else _slices(at, inner)
    if first is None or second is None or inner is None:
        return None
    index = tuple(
        slice(a + c * s, a + c * s + (n - 1) * s * t + 1 if n else a + c * s, s * t)
        for (a, s, _), (c, t, n) in zip(first, second, strict=True)
    )
    return at.make(StridedSlice(index=index), inner.ins[0])


def _slices(at: Editor, instr: Instr) -> list[tuple[int, int, int]] | None:
    """Return start, step and size of a slice of each axis, if it has only such, forwards."""
    op: Any = instr.op
    spec = at.spec(instr.ins[0])
    if not spec.is_concrete or any(not isinstance(i, tuple) for i in op.index):
        return None
    found = []
    for axis, d in enumerate(spec.shape):
        item = op.index[axis] if axis < len(op.index) else ALL
        if any(not isinstance(v, int | None) for v in item[1:]):
            return None
        taken = range(*slice(*item[1:]).indices(int(d)))
        if taken.step < 1:
            return None
        found.append((taken.start, taken.step, len(taken)))
    return found


@rule(
    "concat_of_split",
    "concat",
    "concat(split(x))",
    "x",
    needs=("split",),
    example=lambda x: Concat(axis=1)(*Split(parts=2, axis=1)(x)),
)
def _concat_of_split(at: Editor, instr: Instr) -> int | None:
    """What was taken apart and is put together again, in order, is the tensor itself."""
    made = at.producer(instr.ins[0], "split")
    if made is None or made.outs != instr.ins:
        return None
    a: Any = made.op
    b: Any = instr.op
    rank = at.spec(made.ins[0]).rank
    return made.ins[0] if a.axis % rank == b.axis % rank else None


@rule(
    "split_of_concat",
    "split",
    "split(concat(x, y))",
    "x, y",
    needs=("concat",),
    example=lambda x, y: Split(parts=2, axis=1)(Concat(axis=1)(x, y))[0],
)
def _split_of_concat(at: Editor, instr: Instr) -> Sequence[int] | None:
    """What was put together and is taken apart again, at the same places, are the parts."""
    made = at.producer(instr.ins[0], "concat")
    if made is None or len(made.ins) != len(instr.outs) or None in made.ins:
        return None
    a: Any = made.op
    b: Any = instr.op
    rank = at.spec(made.outs[0]).rank
    return made.ins if a.axis % rank == b.axis % rank else None  # type: ignore[return-value]


@rule("concat_of_one", "concat add_n", "concat(x)", "x", example=lambda x: Concat()(x))
def _concat_of_one(at: Editor, instr: Instr) -> int | None:
    """Of one tensor there is nothing to join or to add."""
    return instr.ins[0] if len(instr.ins) == 1 else None


# -- dtypes ---------------------------------------------------------------------------------------


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

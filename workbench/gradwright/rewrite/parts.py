"""Broadcasts, slices and pieces: what is repeated, cut out or joined for nothing."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ops.core.elementwise import Add, Mul
from ..ops.core.joining import Concat, Split
from ..ops.core.like import BroadcastLike, SizeOf, SumLike
from ..ops.core.movement import ExpandDims
from ..ops.core.reshape import BroadcastTo, Reshape
from ..ops.core.slicing import ALL, StridedSlice, StridedSliceGrad
from ..program.program import Instr
from ..spec import TensorSpec, kind
from .editor import Editor
from .table import rule

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
    if full.size // source.size > MANY:
        return None
    n = at.make(SizeOf(axis=tuple(sorted(copied)), dtype=out.dtype), instr.ins[0])
    return at.make(Mul(), value, n)


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
    """A slice of everything is the tensor itself, or has another shape of it."""
    spec, out = at.spec(instr.ins[0]), at.spec(instr.outs[0])
    if not _takes_all(instr, spec):
        return None
    return instr.ins[0] if spec == out else at.make(Reshape(shape=out.shape), instr.ins[0])


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
    if inner is None:
        return None
    second, first = (slices(i, at.spec(i.ins[0])) for i in (instr, inner))
    if first is None or second is None:
        return None
    index = tuple(
        slice(a + c * s, a + c * s + (n - 1) * s * t + 1 if n else a + c * s, s * t)
        for (a, s, _), (c, t, n) in zip(first, second, strict=True)
    )
    return at.make(StridedSlice(index=index), inner.ins[0])


def slices(instr: Instr, spec: TensorSpec) -> list[tuple[int, int, int]] | None:
    """Return start, step and size of a slice of each axis, if it has only such, forwards."""
    op: Any = instr.op
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


def _takes_all(instr: Instr, spec: TensorSpec) -> bool:
    """Tell whether a slice of a tensor, or its gradient, takes all elements in their order."""
    op: Any = instr.op
    if not spec.is_concrete:
        return False
    shape = iter(spec.shape)
    for item in op.index:
        if item is None:
            continue
        d = int(next(shape))
        if not isinstance(item, tuple):
            if d != 1:
                return False
        elif any(not isinstance(v, int | None) for v in item[1:]) or (
            range(*slice(*item[1:]).indices(d)) != range(d)
        ):
            return False
    return True


@rule(
    "slice_grad_of_all",
    "strided_slice_grad",
    "gradient of x[:]",
    "reshape(g)",
    example=lambda y, x: StridedSliceGrad(index=(slice(0, None),))(y, x),
)
def _slice_grad_of_all(at: Editor, instr: Instr) -> int | None:
    """Where a slice takes everything, its gradient is that of the slice, in another shape."""
    out = at.spec(instr.outs[0])
    if not _takes_all(instr, out):
        return None
    g = instr.ins[0]
    return g if at.spec(g) == out else at.make(Reshape(shape=out.shape), g)


@rule(
    "slice_grads_joined",
    "add add_n",
    "gradient of x[:a] + gradient of x[a:]",
    "concat(g, h)",
    needs=("strided_slice_grad",),
    exact=False,
    example=lambda s: functools.reduce(
        Add(),
        [
            StridedSliceGrad(index=(ALL, slice(a, a + 1)))(s[:, a : a + 1] * (a + 2.0), s)
            for a in range(3)
        ],
    ),
)
def _slice_grads_joined(at: Editor, instr: Instr) -> int | None:
    """Pieces that make up a tensor are joined, not put among zeros and added; 0 − 0.0 is −0.0."""
    pieces: dict[int, list[tuple[_Piece, int]]] = {}
    others: list[int] = []
    open_ = list(reversed(instr.ins))
    out = at.spec(instr.outs[0])
    while open_:
        value = open_.pop()
        inner = at.producer(value)
        if value is None or at.spec(value) != out:
            return None
        if inner is not None and at.is_alone(value):
            if inner.op.name in ("add", "add_n"):
                open_ += reversed(inner.ins)
                continue
            if inner.op.name == "strided_slice_grad":
                cut = _piece(inner, out)
                if cut is not None and inner.ins[0] is not None:
                    pieces.setdefault(cut.axis, []).append((cut, inner.ins[0]))
                    continue
        others.append(value)
    for axis, found in pieces.items():
        found.sort()
        ends = [0, *(piece.stop for piece, _ in found)]
        starts = [piece.start for piece, _ in found]
        whole = len(found) > 1 and [*starts, out.shape[axis]] == ends
        if not whole or len(pieces) > 1:
            return None
        parts = [at.make(ExpandDims(axis=axis), g) if piece.is_place else g for piece, g in found]
        joined = at.make(Concat(axis=axis), *parts)
        return functools.reduce(lambda a, b: at.make(Add(), a, b), others, joined)
    return None


class _Piece(NamedTuple):
    """What a slice cuts out along one axis, without steps; a place drops the axis."""

    axis: int
    start: int
    stop: int
    is_place: bool


def _piece(instr: Instr, spec: TensorSpec) -> _Piece | None:
    """Return what a slice cuts out along one axis, taking all of the others."""
    op: Any = instr.op
    found = []
    if not spec.is_concrete or None in op.index:
        return None
    for axis, (item, size) in enumerate(zip(op.index, spec.shape, strict=False)):
        d, is_place = int(size), not isinstance(item, tuple)
        bounds = (item, item + 1, None) if is_place else item[1:]
        if any(not isinstance(v, int | None) for v in bounds):
            return None
        if is_place and item < 0:
            bounds = (item + d, item + d + 1, None)
        taken = range(*slice(*bounds).indices(d))
        if taken.step != 1:
            return None
        if is_place or len(taken) != d:
            found.append(_Piece(axis, taken.start, taken.stop, is_place))
    return found[0] if len(found) == 1 else None


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

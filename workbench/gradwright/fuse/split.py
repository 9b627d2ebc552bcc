"""Ops that are several steps to kernels: what is known in the end only, and what is checked."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ..op import Op, attr
from ..ops.core.comparison import Equal, IsFinite, LogicalAnd, LogicalNot
from ..ops.core.elementwise import Add, Div, Mul
from ..ops.core.exponential import Sqrt
from ..ops.core.functions import Square
from ..ops.core.identity import AddN
from ..ops.core.movement import Cast, ExpandDims, Flip
from ..ops.core.quantifiers import CountNonzero
from ..ops.core.reduce import Sum
from ..ops.core.reshape import Reshape
from ..ops.draws.random import Bernoulli
from ..ops.losses.labels import class_numbers
from ..program.program import Instr, Program
from ..program.stored import Parts
from ..program.sums import added
from ..program.turns import TURNS
from ..spec import TensorSpec
from ..spec.rounding import rounded
from .builder import FLOAT32, FLOAT64, working
from .rules import HALVES, trailing


class CheckClasses(Op, abstract=True):
    """Labels as they are, refused where they are neither a class nor ignored.

    >>> CheckClasses().forward(np.array([0, 3]), np.zeros((2, 4))).tolist()
    [0, 3]
    """

    namespace = "inner"
    name = "check_classes"
    shape_only = (1,)
    ignore_index: int | None = attr(None, doc="Label of examples that do not count.")

    def infer(self, labels: TensorSpec, logits: TensorSpec) -> TensorSpec:
        """Return the spec of the labels."""
        return labels.with_shape(labels.shape)

    def forward(self, labels: Any, logits: Any) -> Any:
        """Return the labels, or raise GraphError that names the first that is no class."""
        n = logits.shape[-1]
        if labels.size and not (labels.min() >= 0 and labels.max() < n):
            class_numbers(labels, n, self.ignore_index)
        return labels


Parts.add(
    CheckClasses,
    lambda op, to: (op.ignore_index,),
    lambda data, at: CheckClasses(ignore_index=data[0]),
)


class _Splitter:
    """Writes the instructions of a program anew."""

    def __init__(self, program: Program) -> None:
        self.program, self.made = program, list[Instr]()
        self.checked: dict[Any, int] = {}
        self.origin = program.instrs[0] if program.instrs else None

    def emit(self, op: Op, ins: Sequence[int | None], out: TensorSpec | int) -> int:
        """Add an instruction in place of the current one; ``out`` is its spec or its value."""
        origin = self.origin
        assert origin is not None
        number = out if isinstance(out, int) else self.program.new_value(out)
        made = Instr(
            op, tuple(ins), (number,), origin.origin, origin.path,
            origins=origin.origins, recompute=origin.recompute,
        )  # fmt: skip
        self.made.append(made)
        return number

    def spec(self, value: int | None) -> TensorSpec:
        """Return the spec of a value."""
        assert value is not None
        return self.program.specs[value]


def split(program: Program, whole: Collection[str] = ()) -> Program:
    """Return a copy of a program with some ops in steps, but for those that stay ``whole``."""
    work = dataclasses.replace(
        program,
        specs=list(program.specs),
        constants=dict(program.constants),
        numbers=dict(program.numbers),
    )
    splitter = _Splitter(work)
    place: list[int] = []
    for instr in program.instrs:
        TURNS.pause()
        place.append(len(splitter.made))
        splitter.origin = instr
        part = None if instr.op.name in whole else PARTS.get(instr.op.name)
        if part is None or not part(splitter, instr):
            splitter.made.append(instr)
    place.append(len(splitter.made))
    work.n_body = None if program.n_body is None else place[program.n_body]
    work.cuts = [place[cut] for cut in program.cuts]
    work.instrs = splitter.made
    return work


# -- the ops --------------------------------------------------------------------------------------


def _mean(to: _Splitter, instr: Instr) -> bool:
    """Divide the sum, where it is known only when all rows have been added up."""
    op: Any = instr.op
    x, y = to.spec(instr.ins[0]), to.spec(instr.outs[0])
    axes = op.axes(x.rank)
    n = math.prod(int(x.shape[a]) for a in axes)
    if x.dtype not in {FLOAT32, FLOAT64, *HALVES} or trailing(axes, x.rank) or n <= 1:
        return False
    (source,), made = instr.ins, working(x.dtype)
    if made != x.dtype:
        source = to.emit(Cast(dtype=made), (source,), x.with_dtype(made))
    spec = y.with_dtype(made)
    total = to.emit(Sum(axis=op.axis, keepdims=op.keepdims), (source,), spec)
    count = to.program.constant(np.asarray(n, made))
    if made == x.dtype:
        to.emit(Div(), (total, count), instr.outs[0])
    else:
        to.emit(Cast(dtype=x.dtype), (to.emit(Div(), (total, count), spec),), instr.outs[0])
    return True


def _root_sum_squares(to: _Splitter, instr: Instr) -> bool:
    """Add up the squares of float32 in float64, where they are no rows."""
    op: Any = instr.op
    x, y = to.spec(instr.ins[0]), to.spec(instr.outs[0])
    axes = op.axes(x.rank)
    if x.dtype != FLOAT32 or axes == tuple(range(x.rank - len(axes), x.rank)):
        return False
    wide, out = x.with_dtype(FLOAT64), y.with_dtype(FLOAT64)
    square = to.emit(Square(), (to.emit(Cast(dtype=FLOAT64), instr.ins[:1], wide),), wide)
    total = to.emit(Sum(axis=op.axis, keepdims=op.keepdims), (square,), out)
    if op.mean:
        n = to.program.constant(np.asarray(math.prod(int(x.shape[a]) for a in axes), FLOAT64))
        total = to.emit(Div(), (total, n), out)
    if op.eps:
        total = to.emit(Add(), (total, to.program.constant(np.asarray(op.eps))), out)
    to.emit(Cast(dtype=FLOAT32), (to.emit(Sqrt(), (total,), out),), instr.outs[0])
    return True


def _half_sum(to: _Splitter, instr: Instr) -> bool:
    """Add halves up in float32, and round the sum."""
    x, y = to.spec(instr.ins[0]), to.spec(instr.outs[0])
    if x.dtype not in HALVES:
        return False
    wide = to.emit(Cast(dtype=FLOAT32), instr.ins[:1], x.with_dtype(FLOAT32))
    total = to.emit(instr.op, (wide, *instr.ins[1:]), y.with_dtype(FLOAT32))
    to.emit(Cast(dtype=y.dtype), (total,), instr.outs[0])
    return True


def _labels(at: int, logits: int) -> Callable[[_Splitter, Instr], bool]:
    """Check the labels first: a kernel raises no errors."""

    def part(to: _Splitter, instr: Instr) -> bool:
        op: Any = instr.op
        labels, x = instr.ins[at], instr.ins[logits]
        shape: Any = to.spec(x).shape
        key = labels, op.ignore_index, shape[-1]
        if key not in to.checked:
            spec = to.spec(labels)
            stand_in = to.program.shape_stand_in(to.spec(x))
            to.checked[key] = to.emit(
                CheckClasses(ignore_index=op.ignore_index), (labels, stand_in), spec
            )
        ins = list(instr.ins)
        ins[at] = to.checked[key]
        to.emit(op, ins, instr.outs[0])
        return True

    return part


def _global_norm(to: _Splitter, instr: Instr) -> bool:
    """Add up the squares of float32 in float64: none overflows, and none is too small."""
    if any(to.spec(i).dtype != FLOAT32 for i in instr.ins):
        return False
    squares = []
    for x in instr.ins:
        spec = to.spec(x).with_dtype(FLOAT64)
        wide = to.emit(Cast(dtype=FLOAT64), (x,), spec)
        square = to.emit(Square(), (wide,), spec)
        squares.append(to.emit(Sum(), (square,), TensorSpec((), FLOAT64)))
    scalar = TensorSpec((), FLOAT64)
    total = added(squares, lambda ins: to.emit(AddN(), ins, scalar))
    to.emit(Cast(dtype=FLOAT32), (to.emit(Sqrt(), (total,), scalar),), instr.outs[0])
    return True


def _all_finite(to: _Splitter, instr: Instr) -> bool:
    """Count what is not finite: a kernel adds up, it does not multiply."""
    if any(to.spec(i).dtype not in (FLOAT32, FLOAT64) for i in instr.ins):
        return False
    found = []
    scalar = TensorSpec((), "bool")
    for x in instr.ins:
        spec = to.spec(x).with_dtype("bool")
        test = to.emit(IsFinite(), (x,), spec)
        if spec.size != 1:
            test = to.emit(LogicalNot(), (test,), spec)
            count = to.emit(CountNonzero(), (test,), TensorSpec((), "int64"))
            none = to.program.constant(np.asarray(0, np.int64))
            test = to.emit(Equal(), (count, none), scalar)
        elif spec.rank:
            test = to.emit(Reshape(shape=()), (test,), scalar)
        found.append(test)
    *rest, last = found or [to.program.constant(np.asarray(True))]
    for test in rest[:-1]:
        last = to.emit(LogicalAnd(), (test, last), scalar)
    true = to.program.constant(np.asarray(True))
    to.emit(LogicalAnd(), (rest[-1] if rest else true, last), instr.outs[0])
    return True


def _dropout(to: _Splitter, instr: Instr) -> bool:
    """Draw what is kept outside of kernels."""
    op: Any = instr.op
    key, x = instr.ins
    spec = to.spec(x)
    if not op.training or spec.dtype not in (FLOAT32, FLOAT64):
        return False
    scale: float = 1 / (1 - op.p) if op.inverted and op.p < 1 else 1
    drawn = Bernoulli(shape=spec.shape, p=1 - op.p, dtype="bool", stream=op.stream)
    kept = to.emit(drawn, (key,), spec.with_dtype("bool"))
    factor = to.program.constant(rounded(scale, spec.dtype))
    number = to.emit(Cast(dtype=spec.dtype), (kept,), spec.with_shape(spec.shape))
    y, mask = instr.outs[0], instr.outs[1:]
    scaled = to.emit(Mul(), (number, factor), mask[0] if mask else spec.with_shape(spec.shape))
    to.emit(Mul(), (x, scaled), y)
    return True


def _rotate_pairs(to: _Splitter, instr: Instr) -> bool:
    """Turn halves by views: x·cos + (−1, 1)·(x with its halves exchanged)·sin."""
    op: Any = instr.op
    x, cos, sin = (to.spec(i) for i in instr.ins)
    if op.interleaved or x.dtype not in (FLOAT32, FLOAT64) or {cos.dtype, sin.dtype} != {x.dtype}:
        return False
    shape: Any = (*x.shape[:-1], 2, int(x.shape[-1]) // 2)
    split_spec = x.with_shape(shape)
    halves = to.emit(Reshape(shape=shape), instr.ins[:1], split_spec)
    swapped = to.emit(Flip(axis=-2), (halves,), split_spec)
    sign = to.program.constant(np.array([[-1.0], [1.0]], x.dtype))

    def angles(at: int, spec: TensorSpec) -> int:
        wide: Any = (*spec.shape[:-1], 1, spec.shape[-1])
        return to.emit(ExpandDims(axis=-2), (instr.ins[at],), spec.with_shape(wide))

    first = to.emit(Mul(), (halves, angles(1, cos)), split_spec)
    signed = to.emit(Mul(), (swapped, sign), split_spec)
    second = to.emit(Mul(), (signed, angles(2, sin)), split_spec)
    total = to.emit(Add(), (first, second), split_spec)
    to.emit(Reshape(shape=x.shape), (total,), instr.outs[0])
    return True


def _lone_sums(to: _Splitter, instr: Instr) -> bool:
    """Add single float32 numbers up in float64 where they go, as numpy does: they may be many."""
    x, y = to.spec(instr.ins[0]), to.spec(instr.outs[0])
    if x.dtype != FLOAT32 or x.size != to.spec(instr.ins[1]).size or not x.size:
        return False
    wide = to.emit(Cast(dtype=FLOAT64), instr.ins[:1], x.with_dtype(FLOAT64))
    total = to.emit(instr.op, (wide, *instr.ins[1:]), y.with_dtype(FLOAT64))
    to.emit(Cast(dtype=FLOAT32), (total,), instr.outs[0])
    return True


PARTS: dict[str, Callable[[_Splitter, Instr], bool]] = {
    "mean": _mean,
    "sum": _half_sum,
    "sum_like": _half_sum,
    "label_cross_entropy": _labels(0, 1),
    "softmax_minus_one_hot": _labels(0, 1),
    "label_cross_entropy_grad": _labels(1, 2),
    "global_norm": _global_norm,
    "root_sum_squares": _root_sum_squares,
    "all_finite": _all_finite,
    "dropout": _dropout,
    "rotate_pairs": _rotate_pairs,
    "unsorted_segment_sum": _lone_sums,
    "gather_grad": _lone_sums,
}
"""How ops are split, by name; False leaves an op whole."""

"""Running sums, products, extremes and linear recurrences along an axis, in one look.

What lies behind each other along the axis goes one by one, four rows at a time, as each has to wait
for the one before it; sums go eight at a time, each vector added up by halves. Where other axes lie
denser, whole rows of them are joined to the states so far. Cuts change no bit.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...call import Call, Cut
from ..kernels.mathlib import exp, log
from ..lanes import load, near, pick, spread, store
from ..text import Code, Num
from .items import TYPES, get, item, put

Array = np.ndarray[Any, Any]
BLOCK = ("a", "x", "y", "places", "scratch", "outer", "n", "inner", "whole", "step")
"""The block; ``whole`` elements lie from one outer index to the next, ``step``, which may be
negative, from one step to the next."""
TOGETHER = 4
"""Rows that go at a time."""
LANES = 8
"""Numbers that are added up at a time."""
WITHIN = 1024
"""Numbers whose sums are apart from the sum of those before them: it loses less."""
STATES = 1024
"""Columns whose states are held at a time."""
LEAST = 1 << 13
"""Elements of the smallest piece."""


@dataclass(frozen=True)
class Running:
    """What runs: ``how`` is "sum", "prod", "max", "min", "scan" or "log", of one dtype.

    The states of "max" and "min" are the extreme so far and its place, those of "log" the largest x
    so far and Σ exp(xⱼ − it), a double.
    """

    how: str
    char: str
    reverse: bool = False
    exclusive: bool = False

    @property
    def type(self) -> str:
        """The type of elements in memory."""
        return TYPES[self.char]

    @property
    def result(self) -> str:
        """The type of results in memory."""
        return "i64" if self.how in ("sum", "prod") and self.char not in "fd" else self.type

    @property
    def state(self) -> str:
        """The type in which they go on."""
        return "double" if self.how == "sum" and self.char == "f" else self.result

    def starts(self, code: Code) -> list[Num]:
        """Return the states before the first step."""
        if self.how == "log":
            return [code.const(self.type, -math.inf), code.const("double", 0)]
        if self.how in ("max", "min"):
            sign = -1 if self.how == "max" else 1
            limits = np.iinfo(self.char) if self.char not in "fd" else None
            least = sign * math.inf if limits is None else limits.min if sign < 0 else limits.max
            return [code.const(self.state, least), code.const("i64", 0)]
        return [code.const(self.state, 1 if self.how == "prod" else 0)]

    def join(self, states: list[Num], x: Num, a: Num | None, number: Num) -> list[Num]:
        """Write a step; return the states after it."""
        (so_far, *rest) = states
        if a is not None:  # a factor of 0 forgets infinities, too
            return [a.equals(0.0).where(x, a * so_far + x)]
        if not rest:
            x = _wide(x, self.state)
            return [so_far + x if self.how == "sum" else so_far * x]
        if self.how == "log":
            is_more = x > so_far
            apart = x.equals(so_far).where(x.of(0), (x - so_far).call("fabs"))
            less = _wide(exp(-apart), "double")
            (total,) = rest
            total = is_more.where(total * less + 1, total + less)
            return [is_more.where(x, so_far), total]
        is_float = x.is_float
        test = {"max": ("oge", "sge"), "min": ("ole", "sle")}[self.how][not is_float]
        reaches = x.compare(test, so_far)
        if is_float:
            reaches = reaches | x.is_nan()
        return [reaches.where(x, so_far), reaches.where(number, rest[0])]

    def shown(self, states: list[Num]) -> list[Num]:
        """Return what states are as results."""
        if self.how == "log":
            most, total = states
            return [most + log(_narrow(total, self.type))]
        return [_narrow(states[0], self.result), *states[1:]]


def bind_running(
    what: Running, a: Array | None, x: Array, ys: Sequence[Array | None], axis: int
) -> Sequence[Call] | None:
    """Return the call for arrays that lie densely; None: numpy has to.

    >>> x, y = np.array([[1.0, 2.0, 3.0]]), np.empty((1, 3))
    >>> from gradwright.cpu.llvm.compiler import available
    >>> what = Running("sum", "d")
    >>> calls = bind_running(what, None, x, [y, None], 1) if available() else None
    >>> calls is None or len(calls[0].block) == len(BLOCK)
    True
    """
    y, places = ys
    operands = [a, x, y, places]
    given = [b for b in operands if b is not None]
    if not x.size or not all(b.flags.c_contiguous and b.flags.aligned for b in given):
        return None
    if any(b.shape != x.shape for b in given):
        return None
    n, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    outer = x.size // (n * inner)
    if what.how == "sum" and what.char == "d" and inner > 1 and n > WITHIN:
        return None  # sums one after the other lose too much
    last = (n - 1) * inner if what.reverse else 0
    step = -inner if what.reverse else inner
    held = np.empty((2, STATES)) if inner > 1 else None
    addresses = [0 if b is None else b.ctypes.data + last * b.itemsize for b in operands]
    block = np.array(
        [*addresses, 0 if held is None else held.ctypes.data, outer, n, inner, n * inner, step],
        np.int64,
    )
    number = [k for k, b in enumerate(operands) if b is not None]
    slots = list(zip(number, range(len(number)), strict=True))
    along, length = ("outer", outer) if outer > 1 else ("inner", inner)
    size = n * inner if outer > 1 else 1
    steps = [(k, size * operands[k].itemsize) for k in number]  # type: ignore[union-attr]
    scratch = None if held is None else (BLOCK.index("scratch"), held.nbytes)
    least, grain = -(-LEAST * length // x.size), TOGETHER if outer > 1 else 64
    cut = Cut(BLOCK.index(along), length, steps, least, grain) if length > 1 else None
    return [
        Call(
            _compiled(what, inner > 1), block, slots, (held, given), cut=cut,
            cost=0.6 * x.size, label=(what, x.size.bit_length(), inner > 1), scratch=scratch,
        )
    ]  # fmt: skip


@functools.cache
def _compiled(what: Running, is_wide: bool) -> int:
    from ..compiler import compile_text  # llvmlite, which no import of ours may load

    code = Code()
    at = code.entries(BLOCK, 5)
    with code.flagged("contract" if what.how == "scan" else ""):
        if is_wide:
            _columns(code, what, at)
        elif what.how == "sum":
            _sums(code, what, at)
        else:
            _rows(code, what, at)
    return compile_text(code.module())


def _wide(x: Num, type_: str) -> Num:
    """Return a number, or some, in the type of a state."""
    if x.type == type_:
        return x
    return x.to("fpext" if x.is_float else "sext", type_)


def _narrow(x: Num, type_: str) -> Num:
    """Return a state as results are."""
    return x if x.type == type_ else x.to("fptrunc", type_)


def _step(
    what: Running,
    at: dict[str, Num],
    place: Num,
    number: Num,
    states: list[Num],
    *,
    group: bool = False,
) -> list[Num]:
    """Write what a step does with one element: read, join, write."""
    x = get(at["x"], what.type, place, group=group)
    a = get(at["a"], what.type, place, group=group) if what.how == "scan" else None
    found = what.join(states, x, a, number)
    for to, y in zip(
        ("y", "places"), what.shown(states if what.exclusive else found), strict=False
    ):
        put(at[to], place, y, group=group)
    return found


def _rows(code: Code, what: Running, at: dict[str, Num]) -> None:
    """Write steps of rows that lie along the axis, some rows at a time, then each of the rest."""
    zero = code.const("i64", 0)
    some = at["outer"] & -TOGETHER
    for first, last, count in ((zero, some, TOGETHER), (some, at["outer"], 1)):
        with code.loop(first, last, count) as outer:
            starts = [s for _ in range(count) for s in what.starts(code)]
            each = len(starts) // count
            with code.loop(zero, at["n"], carried=starts) as turn:
                for r in range(count):
                    place = (outer.index + r) * at["whole"] + turn.index * at["step"]
                    states = turn.carried[r * each : (r + 1) * each]
                    turn.turned += _step(what, at, place, turn.index, states)


def _columns(code: Code, what: Running, at: dict[str, Num]) -> None:
    """Write steps of whole rows of other axes, as many columns at a time as states are held."""
    zero, parallel = code.const("i64", 0), [code.parallel]
    held = [near(at["scratch"], 8 * STATES * k) for k in range(2)]
    with code.loop(zero, at["outer"]) as outer, code.loop(zero, at["inner"], STATES) as some:
        width = (at["inner"] - some.index).call("smin", STATES)
        starts = what.starts(code)
        with code.loop(zero, width, hints=parallel) as j:
            for p, start in zip(held, starts, strict=False):
                put(p, j.index, start, group=True)
        with code.loop(zero, at["n"]) as turn:
            first = outer.index * at["whole"] + turn.index * at["step"] + some.index
            with code.loop(zero, width, hints=parallel) as j:
                states = [
                    get(p, s.type, j.index, group=True) for p, s in zip(held, starts, strict=False)
                ]
                found = _step(what, at, first + j.index, turn.index, states, group=True)
                for p, state in zip(held, found, strict=False):
                    put(p, j.index, state, group=True)


def _sums(code: Code, what: Running, at: dict[str, Num]) -> None:
    """Write sums of rows that lie along the axis, ``LANES`` at a time, and then one by one."""
    zero, vector = code.const("i64", 0), f"<{LANES} x {what.state}>"
    whole, nothing = at["n"] & -LANES, code.const(what.state, 0)
    with code.loop(zero, at["outer"]) as outer:
        row = outer.index * at["whole"]
        with code.loop(zero, whole, WITHIN, carried=[nothing]) as block:
            (base,) = block.carried
            last = (block.index + WITHIN).call("smin", whole)
            before = spread(base, LANES)
            with code.loop(block.index, last, LANES, carried=[code.const(vector, 0)]) as turn:
                (so_far,) = turn.carried
                place = row + turn.index * at["step"] - (LANES - 1 if what.reverse else 0)
                x = load(f"<{LANES} x {what.type}>", item(at["x"], what.type, place))
                x = _wide(_turned(what, x), vector)
                for far in (1, 2, 4):
                    x = x + _moved(x, far)
                shown = (_moved(x, 1) if what.exclusive else x) + so_far + before
                shown = _turned(what, _narrow(shown, f"<{LANES} x {what.result}>"))
                store(shown, item(at["y"], what.result, place))
                turn.turned = [so_far + pick(x, [LANES - 1] * LANES)]
            total = code.let(
                what.state, f"extractelement {vector} {turn.carried[0].name}, i64 {LANES - 1}"
            )
            block.turned = [base + total]
        with code.loop(whole, at["n"], carried=block.carried) as rest:
            place = row + rest.index * at["step"]
            rest.turned = _step(what, at, place, rest.index, rest.carried)


def _turned(what: Running, x: Num) -> Num:
    """Return lanes in the order of steps, or as they lie in memory."""
    return pick(x, range(LANES - 1, -1, -1)) if what.reverse else x


def _moved(x: Num, far: int) -> Num:
    """Return each lane some places later, and zeros in front."""
    zeros = x.code.const(x.type, 0)
    return pick(x, [LANES if i < far else i - far for i in range(LANES)], zeros)

"""The first elements of rows in order, found in one look at each: k places, kept in order."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...call import Call, Cut
from .items import TYPES

Array = np.ndarray[Any, Any]
MOST = 32
"""The largest k: each element that is among the first so far moves those behind it, one by one."""
LEAST = 1 << 12
"""Elements of the smallest piece, about 5 µs."""
BEFORE = {True: ("ugt", "sgt"), False: ("ult", "slt")}
"""How machine code tells that one element comes before another, if neither is NaN."""
SOURCE = """
define void @k(ptr %block) {{
entry:
  %x.all = load ptr, ptr %block
  %at.y = getelementptr i64, ptr %block, i64 1
  %y.all = load ptr, ptr %at.y
  %at.p = getelementptr i64, ptr %block, i64 2
  %p.all = load ptr, ptr %at.p
  %at.rows = getelementptr i64, ptr %block, i64 3
  %rows = load i64, ptr %at.rows
  %at.n = getelementptr i64, ptr %block, i64 4
  %n = load i64, ptr %at.n
  %at.k = getelementptr i64, ptr %block, i64 5
  %k = load i64, ptr %at.k
  %last = sub i64 %k, 1
  br label %row
row:
  %r = phi i64 [ 0, %entry ], [ %r1, %rowed ]
  %some = icmp slt i64 %r, %rows
  br i1 %some, label %begin, label %end
begin:
  %x.from = mul i64 %r, %n
  %x = getelementptr {type}, ptr %x.all, i64 %x.from
  %y.from = mul i64 %r, %k
  %y = getelementptr {type}, ptr %y.all, i64 %y.from
  %p = getelementptr i64, ptr %p.all, i64 %y.from
  %y.last = getelementptr {type}, ptr %y, i64 %last
  br label %look
look:
  %j = phi i64 [ 0, %begin ], [ %j1, %looked ]
  %left = icmp slt i64 %j, %n
  br i1 %left, label %next, label %rowed
next:
  %x.at = getelementptr {type}, ptr %x, i64 %j
  %new = load {type}, ptr %x.at
  %room = icmp slt i64 %j, %k
  br i1 %room, label %place, label %compare
compare:
  %worst = load {type}, ptr %y.last
{compare_worst}
  br i1 %beats, label %place, label %looked
place:
  %free = call i64 @llvm.smin.i64(i64 %j, i64 %last)
  br label %shift
shift:
  %i = phi i64 [ %free, %place ], [ %i1, %move ]
  %inner = icmp sgt i64 %i, 0
  br i1 %inner, label %test, label %put
test:
  %i1 = sub i64 %i, 1
  %y.before = getelementptr {type}, ptr %y, i64 %i1
  %old = load {type}, ptr %y.before
{compare_old}
  br i1 %goes, label %move, label %put
move:
  %y.here = getelementptr {type}, ptr %y, i64 %i
  store {type} %old, ptr %y.here
  %p.before = getelementptr i64, ptr %p, i64 %i1
  %moved = load i64, ptr %p.before
  %p.here = getelementptr i64, ptr %p, i64 %i
  store i64 %moved, ptr %p.here
  br label %shift
put:
  %y.put = getelementptr {type}, ptr %y, i64 %i
  store {type} %new, ptr %y.put
  %p.put = getelementptr i64, ptr %p, i64 %i
  store i64 %j, ptr %p.put
  br label %looked
looked:
  %j1 = add i64 %j, 1
  br label %look
rowed:
  %r1 = add i64 %r, 1
  br label %row
end:
  ret void
}}
declare i64 @llvm.smin.i64(i64, i64)
"""


def bind_top(x: Array, values: Array, places: Array, *, largest: bool) -> Sequence[Call] | None:
    """Return the call that finds the first k of each row in order, equal ones as they come.

    NaN counts as the largest. None: numpy has to, for what does not lie densely, or a large k.

    >>> x, y, at = np.array([[1.0, 3.0, 2.0]]), np.empty((1, 2)), np.empty((1, 2), np.int64)
    >>> from gradwright.cpu.llvm.compiler import available
    >>> calls = bind_top(x, y, at, largest=True) if available() else None
    >>> calls is None or [operand for _, operand in calls[0].slots] == [0, 1, 2]
    True
    """
    n, k = x.shape[-1], values.shape[-1]
    dense = all(a.flags.c_contiguous and a.flags.aligned for a in (x, values, places))
    if x.dtype.char not in TYPES or not dense or not 0 < k <= min(n, MOST):
        return None
    rows = math.prod(x.shape[:-1])
    addresses = [a.ctypes.data for a in (x, values, places)]
    steps = [(i, a.shape[-1] * a.itemsize) for i, a in enumerate((x, values, places))]
    return [
        Call(
            _compiled(TYPES[x.dtype.char], largest),
            np.array([*addresses, rows, n, k], np.int64),
            [(0, 0), (1, 1), (2, 2)],
            cut=Cut(3, rows, steps, -(-LEAST // n)),
            cost=1.2 * x.size,
            label=f"top {k} {x.dtype.char} {x.shape}",
        )
    ]


@functools.cache
def _compiled(type_: str, largest: bool) -> int:
    from ..compiler import compile_text  # llvmlite, which no import of ours may load

    def before(result: str, a: str, b: str) -> str:
        """Write whether a comes before b; NaN is larger than all numbers, and no NaN than it."""
        of_floats, of_integers = BEFORE[largest]
        if type_.startswith("i"):
            return f"  %{result} = icmp {of_integers} {type_} {a}, {b}"
        number = b if largest else a
        return (
            f"  %{result}.is = fcmp {of_floats} {type_} {a}, {b}\n"
            f"  %{result}.ord = fcmp ord {type_} {number}, {number}\n"
            f"  %{result} = and i1 %{result}.is, %{result}.ord"
        )

    return compile_text(
        SOURCE.format(
            type=type_,
            compare_worst=before("beats", "%new", "%worst"),
            compare_old=before("goes", "%new", "%old"),
        )
    )

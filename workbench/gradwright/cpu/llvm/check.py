"""Checks in machine code: it raises an alarm, and Python says what is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...fuse.ir import Kernel, Level, Operand, Store, Value
from ..call import Call
from .bind import bind_kernel

Array = np.ndarray[Any, Any]
INTEGERS = frozenset(map(np.dtype, ("int32", "int64")))


def bind_class_check(
    labels: Array, y: Array, n_classes: int, ignored: int | None
) -> Sequence[Call] | None:
    """Return the call that copies labels and raises an alarm if one is no class, nor ``ignored``.

    >>> from gradwright.cpu.llvm.compiler import available
    >>> labels = np.array([0, 3])
    >>> calls = bind_class_check(labels, np.empty(2, int), 3, None) if available() else None
    >>> calls is None or calls[0].alarm.shape == (1,)
    True
    """
    if labels.dtype not in INTEGERS or not labels.size:
        return None
    alarm = np.zeros(1, np.int64)
    space = tuple(n for n in labels.shape if n != 1)
    rank, dtype = len(space), labels.dtype
    level = Level.ELEMENT if space else Level.SCALAR
    values = [Value("load", (), dtype, level, 0)]

    def add(op: str, *args: int, dtype: Any = bool, level: Level = level, extra: Any = None) -> int:
        values.append(Value(op, args, np.dtype(dtype), level, extra))
        return len(values) - 1

    def number(n: int) -> int:
        return add("const", dtype=dtype, level=Level.SCALAR, extra=n)

    wrong = add("or", add("lt", 0, number(0)), add("ge", 0, number(n_classes)))
    if ignored is not None:
        wrong = add("and", wrong, add("ne", 0, number(ignored)))
    count = add("cast", wrong, dtype=np.int64)
    moving, still = Operand(dtype, (True,) * rank), Operand(alarm.dtype, (False,) * rank)
    stores = (Store(1, 0), Store(2, count, "sum" if rank else "set"))
    kernel = Kernel(rank, rank, (moving, moving, still), 1, tuple(values), stores)
    calls = bind_kernel(kernel, space, [labels, y, alarm])
    return calls and [*calls[:-1], dataclasses.replace(calls[-1], alarm=alarm)]

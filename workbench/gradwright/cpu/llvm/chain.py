"""A chain: many calls of machine code in one, by a table of functions and their blocks.

The chain is itself a function of one block, ``[n, function, block, function, block, ...]``. One
call from Python, during which other threads run, costs 0.2 µs; each link costs a few cycles. Some
links are no functions but numbers, which look at where a block would be: IF_TRUE ends the chain if
the byte there is 0, IF_ZERO if the integer there is not, COUNT adds one to an integer whose address
is there.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SOURCE = """
define void @k(ptr %table) {
entry:
  %n = load i64, ptr %table
  %first = getelementptr i64, ptr %table, i64 1
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %end
loop:
  %at = phi ptr [ %first, %entry ], [ %next, %done ]
  %left = phi i64 [ %n, %entry ], [ %fewer, %done ]
  %function = load ptr, ptr %at
  %second = getelementptr i64, ptr %at, i64 1
  %block = load ptr, ptr %second
  %kind = ptrtoint ptr %function to i64
  switch i64 %kind, label %call [ i64 0, label %flag i64 1, label %alarm i64 2, label %count ]
flag:
  %byte = load i8, ptr %block
  %yes = icmp ne i8 %byte, 0
  br i1 %yes, label %done, label %end
alarm:
  %number = load i64, ptr %block
  %calm = icmp eq i64 %number, 0
  br i1 %calm, label %done, label %end
count:
  %counter = load ptr, ptr %block
  %before = load i64, ptr %counter
  %after = add i64 %before, 1
  store i64 %after, ptr %counter
  br label %done
call:
  call void %function(ptr %block)
  br label %done
done:
  %next = getelementptr i64, ptr %at, i64 2
  %fewer = sub i64 %left, 1
  %more = icmp sgt i64 %fewer, 0
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
IF_TRUE, IF_ZERO, COUNT = range(3)
_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def chain(calls: Sequence[tuple[int, int]]) -> Callable[[], None]:
    """Return what runs functions on their blocks, given as pairs of addresses.

    Raises RuntimeError where llvmlite cannot compile for this machine.

    >>> from gradwright.cpu.llvm.compiler import available
    >>> if available():
    ...     chain([])()
    """
    if len(calls) == 1 and calls[0][0] > COUNT:
        address, block = calls[0]
        return functools.partial(_FUNCTION(address), ctypes.c_void_p(block))
    table = np.array([len(calls), *(n for call in calls for n in call)], np.int64)
    return functools.partial(_FUNCTION(_driver()), table.ctypes.data_as(ctypes.c_void_p))


@functools.cache
def _driver() -> int:
    from .compiler import compile_text  # llvmlite, which no import of ours may load

    return compile_text(SOURCE)

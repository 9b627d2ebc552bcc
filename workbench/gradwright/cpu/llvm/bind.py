"""Kernels bound to arrays: loops are laid out, machine code is found, blocks are filled."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...fuse.dense import copying
from ...fuse.interpret import nothing
from ...fuse.ir import Kernel, Level, Operand, Store, Value
from ...fuse.layout import NARROW, CopyFirst, Loops, Slots, block, has_border, lay_out
from ...fuse.schedule import scratch_bytes
from ...shared import Bounded
from ..call import Call, Cut, layout_of, moved, numbered
from .target import is_wide

Array = np.ndarray[Any, Any]
WIDE_NARROW = 127
"""Likewise of 16 floats: what is left over after four or eight of them would go one by one."""
_LEAST = 8192
"""Elements of the smallest piece of a kernel: about 2 µs."""
LANES = 16
"""Columns of the narrowest piece of what is scattered: a cache line of float32."""
COPIED = frozenset(map(np.dtype, ("bool", "int32", "int64", "float32", "float64")))


def bind_kernel(
    kernel: Kernel, shape: tuple[int, ...], arrays: Sequence[Array]
) -> Sequence[Call] | None:
    """Return the calls that run a kernel on arrays, inputs then outputs; compiles what is new.

    An input that no loop nest fits is copied first. None: the kernel cannot be compiled.
    """
    from .compiler import KERNELS  # llvmlite, which no import of ours may load

    lying = [kernel.lie(i, a, shape) for i, a in enumerate(arrays)]
    named = [number for _, numbers in lying for number in numbers]
    key = id(kernel), shape, *map(layout_of, arrays)
    found = None if named else CALLS.find(key)
    if found is not None and found[0] is kernel:
        made = moved(found[1], arrays)
        return [replace(made, held=(made.held, arrays))]
    begun = _begun(kernel, arrays)
    if begun is None:
        return None
    arrays = [a for a, _ in lying]
    calls: list[Call] = [*begun]
    moves = [True] * len(arrays)
    loops = lay_out(kernel, arrays, shape, narrow())
    while isinstance(loops, CopyFirst):
        n, dense = loops.operand, np.empty(loops.shape, arrays[loops.operand].dtype)
        is_whole = moves[n] and not kernel.operands[n].named
        copied = bind_copy(np.broadcast_to(arrays[n], loops.shape), dense) if is_whole else None
        if copied is None:
            return None
        calls += [Call(c.address, c.block, [(0, n)], (c.held, dense)) for c in copied]
        arrays[n], moves[n] = dense, False
        loops = lay_out(kernel, arrays, shape, narrow())
    address = KERNELS.compile((kernel, loops.pattern))
    if address is None:
        return None
    scratch = np.empty(scratch_bytes(kernel, loops), np.uint8)
    alarm = np.zeros(4, np.int64) if named else None
    if alarm is not None:
        named.insert(0, alarm.ctypes.data)
    numbers = block(loops, [a.ctypes.data for a in arrays], scratch.ctypes.data, named)
    slots = [(n, n) for n, moved in enumerate(moves) if moved]
    held, elements = (scratch, arrays), math.prod(loops.outer) * loops.columns
    own = (Slots.of(kernel, loops.pattern).scratch, scratch.nbytes) if scratch.nbytes else None
    call = Call(address, numbers, slots, held, alarm, tells=alarm is not None, scratch=own)
    if elements >= 2 * _LEAST:
        label = (kernel, loops.pattern, (elements - 1).bit_length())
        ns = elements * (0.1 + 0.02 * kernel.cost)
        call = replace(call, cut=_cut(kernel, loops, elements), cost=ns, label=label)
    if not calls and alarm is None:
        CALLS.keep(key, (kernel, replace(call, held=None)))
    return [*calls, call]


def _begun(kernel: Kernel, arrays: Sequence[Array]) -> Sequence[Call] | None:
    """Return the calls that make of operands, which others are joined to, what they start as."""
    calls: list[Call] = []
    for store in (store for store in kernel.stores if store.places):
        number, start = store.operand, store.start
        y = arrays[number]
        if start is None:
            made = bind_kernel(_filling(store.mode, y.dtype, y.ndim), y.shape, [y])
            found = numbered(made, [number])
        elif (number, start) in kernel.in_place:
            continue
        else:
            found = numbered(bind_copy(arrays[start].reshape(y.shape), y), [start, number])
        if found is None:
            return None
        calls += found
    return calls


@functools.cache
def _filling(how: str, dtype: np.dtype[Any], rank: int) -> Kernel:
    """Return the kernel that writes the reduction of nothing everywhere."""
    number = Value("const", (), dtype, Level.SCALAR, nothing(how, dtype))
    return Kernel(rank, rank, (Operand(dtype, (True,) * rank),), 0, (number,), (Store(0, 0),))


CALLS = Bounded[tuple[Kernel, Call]](4096)
"""Calls of kernels by layouts: layers alike are laid out once."""


def narrow() -> int:
    """Return up to how many columns masked vectors are made."""
    return WIDE_NARROW if is_wide() else NARROW


def _cut(kernel: Kernel, loops: Loops, elements: int) -> Cut | None:
    """Return how a kernel is cut: over the outermost loop in which all of its outputs move.

    Where one stands still a sum runs. Columns are cut where a row has nothing of its own.
    """
    slots = Slots.of(kernel, loops.pattern)
    outputs = loops.pattern.accesses[kernel.n_inputs :]
    for loop, size in enumerate(loops.outer):
        if size > 1 and all(access.outer[loop] for access in outputs):
            steps = [(n, strides[loop]) for n, strides in enumerate(loops.strides)]
            least = -(-_LEAST * size // elements)
            return Cut(slots.outer(loop), size, steps, least)
    if has_border(kernel) or any(access.column == "zero" for access in outputs):
        return None
    steps = [(n, strides[-1]) for n, strides in enumerate(loops.strides)]
    least = -(-_LEAST * loops.columns // elements)
    grain = LANES if any(store.places for store in kernel.stores) else 64
    return Cut(slots.columns, loops.columns, steps, least, grain)


def bind_copy(x: Array, y: Array) -> Sequence[Call] | None:
    """Return the call that copies an array into another of its shape; None: numpy has to.

    >>> x, y = np.ones((3, 2)).T, np.empty((2, 3))
    >>> from gradwright.cpu.llvm.compiler import available
    >>> calls = bind_copy(x, y) if available() else None
    >>> calls is None or [operand for _, operand in calls[0].slots] == [0, 1]
    True
    """
    if x.dtype not in COPIED:
        return None
    space = tuple(n for n in y.shape if n != 1)
    source = x.reshape(space) if x.size == 1 else np.squeeze(x)
    kernel = copying(x.dtype, len(space))
    arrays = [source, y.reshape(space)]
    if isinstance(lay_out(kernel, arrays, space), CopyFirst):  # more loops than machine code has
        return None
    return bind_kernel(kernel, space, arrays)

"""Kernels bound to arrays: loops are laid out, machine code is found, blocks are filled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..fuse.ir import Kernel, Level, Operand, Store, Value
from ..lowering import Call
from .layout import CopyFirst, block, lay_out
from .schedule import scratch_bytes

Array = np.ndarray[Any, Any]
COPIED = frozenset(map(np.dtype, ("bool", "int32", "int64", "float32", "float64")))


def bind_kernel(
    kernel: Kernel, shape: tuple[int, ...], arrays: Sequence[Array]
) -> Sequence[Call] | None:
    """Return the calls that run a kernel on arrays, inputs then outputs; compiles what is new.

    An input that no loop nest fits is copied first. None: the kernel cannot be compiled.
    """
    from .compiler import KERNELS  # llvmlite, which no import of ours may load

    arrays = [a.reshape(kernel.shape_of(i, shape)) for i, a in enumerate(arrays)]
    calls: list[Call] = []
    moves = [True] * len(arrays)
    loops = lay_out(kernel, arrays, shape)
    while isinstance(loops, CopyFirst):
        n, dense = loops.operand, np.empty(loops.shape, arrays[loops.operand].dtype)
        copied = bind_copy(np.broadcast_to(arrays[n], loops.shape), dense) if moves[n] else None
        if copied is None:
            return None
        calls += [Call(c.address, c.block, [(0, n)], (c.held, dense)) for c in copied]
        arrays[n], moves[n] = dense, False
        loops = lay_out(kernel, arrays, shape)
    address = KERNELS.compile((kernel, loops.pattern))
    if address is None:
        return None
    scratch = np.empty(scratch_bytes(kernel, loops), np.uint8)
    numbers = block(loops, [a.ctypes.data for a in arrays], scratch.ctypes.data)
    slots = [(n, n) for n, moved in enumerate(moves) if moved]
    return [*calls, Call(address, numbers, slots, (scratch, arrays))]


def bind_copy(x: Array, y: Array) -> Sequence[Call] | None:
    """Return the call that copies an array into another of its shape; None: numpy has to.

    >>> x, y = np.ones((3, 2)).T, np.empty((2, 3))
    >>> from gradwright.native.compiler import available
    >>> calls = bind_copy(x, y) if available() else None
    >>> calls is None or [operand for _, operand in calls[0].slots] == [0, 1]
    True
    """
    if x.dtype not in COPIED:
        return None
    space = tuple(n for n in y.shape if n != 1)
    source = x.reshape(space) if x.size == 1 else np.squeeze(x)
    operand = Operand(x.dtype, (True,) * len(space))
    load = Value("load", (), x.dtype, Level.ELEMENT if space else Level.SCALAR, 0)
    kernel = Kernel(len(space), len(space), (operand, operand), 1, (load,), (Store(1, 0),))
    arrays = [source, y.reshape(space)]
    if isinstance(lay_out(kernel, arrays, space), CopyFirst):  # more loops than machine code has
        return None
    return bind_kernel(kernel, space, arrays)

"""Calls: machine code bound to arrays, how it may be cut into pieces, and what runs without it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..op import Op
from ..op.applying import run_forward_into, writes_outputs
from ..program.lowering import Found, Launch, Returning, find_launch, is_lowered
from ..program.turns import TURNS
from ..spec import TensorSpec


@dataclass(frozen=True)
class Cut:
    """A range of independent work within a call: pieces of it may run at the same time.

    Its ``length`` stands in ``block[slot]``. ``steps`` are pairs (place of an address in the block,
    bytes that it advances for one index); each piece but the last is a multiple of ``grain``, and
    none is shorter than ``least``. Where pieces may compute other bits than the whole, ``keeps``
    tells whether those between such indices do not, and ``instead`` how else the call is cut.
    """

    slot: int
    length: int
    steps: Sequence[tuple[int, int]]
    least: int
    grain: int = 1
    keeps: Callable[[Sequence[int]], bool] | None = None
    instead: Cut | None = None


@dataclass(frozen=True)
class Call:
    """Machine code bound to arrays: ``void f(int64_t *block)`` and the block to call it with.

    ``slots`` are pairs (place in the block, operand), inputs counted before outputs: there stands
    an address within that operand, which moves with it. ``held`` is memory that the block names,
    ``scratch`` the place of what no other call may use, and how many bytes: pieces have their own.
    Where the call leaves something in ``alarm``, the op's ``forward`` is run afterwards: it raises.
    If the alarm ``tells`` all, which place an index named, inputs may be gone by then; where it is
    ``about`` one operand, the others may, and ``forward`` is given zeros of their shapes.
    ``cut`` says how it may be run in pieces, or makes so many, ``cost`` how many ns it takes,
    about, and ``label`` tells it from calls that take another time.
    """

    address: int
    block: np.ndarray[Any, Any]
    slots: Sequence[tuple[int, int]]
    held: Any = None
    alarm: np.ndarray[Any, Any] | None = None
    cut: Cut | Callable[[int], Sequence[Call]] | None = None
    cost: float = 0.0
    label: Any = None
    tells: bool = False
    about: int | None = None
    scratch: tuple[int, int] | None = None


def layout_of(array: np.ndarray[Any, Any]) -> Any:
    """Return all that calls depend on of an array but where it lies."""
    return array.shape, array.strides, array.dtype, array.flags.aligned


def moved(call: Call, arrays: Sequence[np.ndarray[Any, Any]]) -> Call:
    """Return a call for other arrays of the same layouts, each of which it names by its start.

    Its scratch is its own: both may run at the same time.
    """
    call = apart(call)
    for slot, operand in call.slots:
        call.block[slot] = arrays[operand].ctypes.data
    return call


def apart(call: Call) -> Call:
    """Return a call with a block, and scratch, of its own."""
    block, held = call.block.copy(), call.held
    if call.scratch is not None:
        slot, size = call.scratch
        scratch = np.empty(size, np.uint8)
        block[slot], held = scratch.ctypes.data, (held, scratch)
    return replace(call, block=block, held=held)


def numbered(calls: Sequence[Call] | None, operands: Sequence[int | None]) -> Sequence[Call] | None:
    """Return the calls of a kernel for an op: for each operand of the kernel that of the op.

    None, and those beyond, are memory that the kernel has for itself, which does not move.
    """
    of = {k: operand for k, operand in enumerate(operands) if operand is not None}
    return calls and [
        replace(call, slots=[(slot, of[k]) for slot, k in call.slots if k in of]) for call in calls
    ]


@dataclass(frozen=True)
class Native:
    """A launcher that becomes machine code when a plan has its kernels.

    ``bind(inputs, outputs)`` returns the calls for these arrays, or None if it cannot take them as
    they lie; it may compile. Before that, and then, ``launch`` runs, or ``forward`` if it is None.
    ``in_place`` are outputs that the machine code may write over inputs, in pairs: it reads what it
    needs of an element before it writes there. Where it has some, it takes all that lies densely.
    What is ``slow`` without machine code is compiled before the first run: that is over sooner.
    """

    bind: Callable[[Sequence[Any], Sequence[Any]], Sequence[Call] | None]
    launch: Launch | None = None
    in_place: Sequence[tuple[int, int]] = ()
    slow: bool = False


@dataclass(frozen=True)
class NativeReturning(Returning):
    """A launcher that returns its outputs; ``compiled``, when a plan has its kernels, does, too."""

    compiled: Callable[[Sequence[Any]], Sequence[Any]]


def launcher(
    op: Op, device: str, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]
) -> Found:
    """Return how an op runs here: by its lowering, as the ufunc that it is, or as it writes."""
    TURNS.pause()
    found = find_launch(op, device, ins, outs)
    if found is not None:
        return found
    if writes_outputs(op) and not any(s.by_reference or not s.is_concrete for s in outs):
        return functools.partial(run_forward_into, op)
    return None if op.ufunc is None else _ufunc(op, ins, outs)


def numpy_launch(found: Found) -> Launch | Returning | None:
    """Return how a launcher runs without machine code."""
    return found.launch if isinstance(found, Native) else found


def overwritable(
    op: Op, device: str, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]
) -> list[tuple[int, int]]:
    """Return the outputs, by position, that the launcher of an op may write over an input.

    Those that the op declares, and of a plain ufunc, which reads each element before it writes
    there, all that have the output's shape and dtype. Of a lowering of its own nothing is known.
    """
    if is_lowered(op.name, device):
        return []
    if writes_outputs(op):
        return [(o, i) for o, i in op.overwrites if i < len(ins) and ins[i] == outs[o]]
    if op.ufunc is None or len(outs) != 1:
        return []
    return [(0, i) for i, s in enumerate(ins) if s == outs[0]]


def _ufunc(op: Op, ins: Sequence[TensorSpec | None], outs: Sequence[TensorSpec]) -> Launch | None:
    """Run a ufunc straight into its output, where all inputs have one dtype and no copy is made."""
    dtypes = {s.dtype for s in ins if s is not None}
    ufunc: Any = op.ufunc
    if len(dtypes) != 1 or len(ins) != ufunc.nin or outs[0].dtype not in (*dtypes, np.dtype(bool)):
        return None
    if ufunc.nin == 1:
        return lambda xs, ys: ufunc(xs[0], out=ys[0])
    return lambda xs, ys: ufunc(xs[0], xs[1], out=ys[0])

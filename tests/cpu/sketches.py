"""Sketches: kernels written down value by value, launched, and held against the interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwright.cpu.llvm import compiler
from gradwright.cpu.llvm.chain import chain
from gradwright.cpu.llvm.kernels.emit import emit
from gradwright.fuse.functions import FUNCTIONS
from gradwright.fuse.interpret import evaluate
from gradwright.fuse.ir import Kernel, Level, Operand, Store, Value
from gradwright.fuse.layout import Loops, block, lay_out
from gradwright.fuse.schedule import scratch_bytes

Array = np.ndarray[Any, Any]


class Sketch:
    """A kernel written down value by value; operands are given as ``f4:10``, dtype and moves."""

    def __init__(self, rank: int, n_columns: int | None = None) -> None:
        self.rank, self.n_columns = rank, rank if n_columns is None else n_columns
        self.inputs: list[Operand] = []
        self.outputs: list[Operand] = []
        self.values: list[Value] = []
        self.stores: list[tuple[int, int, str]] = []
        self.in_place: list[tuple[int, int]] = []

    def load(self, text: str) -> int:
        self.inputs.append(_operand(text))
        moves = self.inputs[-1].moves
        n_rows = self.rank - self.n_columns
        level = Level.ELEMENT if any(moves[n_rows:]) else Level(any(moves))
        return self._add(Value("load", (), self.inputs[-1].dtype, level, len(self.inputs) - 1))

    def const(self, number: Any, dtype: str = "f4") -> int:
        return self._add(Value("const", (), np.dtype(dtype), Level.SCALAR, number))

    def column(self) -> int:
        return self._add(Value("column", (), np.dtype("i8"), Level.ELEMENT))

    def cast(self, x: int, dtype: Any) -> int:
        return self._add(Value("cast", (x,), np.dtype(dtype), self.values[x].level))

    def reduce(self, kind: str, x: int, *needed: int) -> int:
        return self._add(Value("reduce", (x, *needed), self.values[x].dtype, Level.ROW, kind))

    def __getattr__(self, name: str) -> Callable[..., int]:
        function = FUNCTIONS[name.rstrip("_")]

        def call(*args: int) -> int:
            level = max(self.values[a].level for a in args)
            dtype = function.result(self.values[args[-1]].dtype)
            return self._add(Value(function.name, args, dtype, level))

        return call

    def store(self, value: int, text: str, mode: str = "set", over: int | None = None) -> None:
        self.outputs.append(_operand(text))
        self.stores.append((len(self.outputs) - 1, value, mode))
        if over is not None:
            self.in_place.append((len(self.outputs) - 1, over))

    def _add(self, value: Value) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def kernel(self) -> Kernel:
        n = len(self.inputs)
        return Kernel(
            self.rank,
            self.n_columns,
            (*self.inputs, *self.outputs),
            n,
            tuple(self.values),
            tuple(Store(n + o, v, mode) for o, v, mode in self.stores),
            tuple((n + o, i) for o, i in self.in_place),
        )


def _operand(text: str) -> Operand:
    dtype, _, moves = text.partition(":")
    return Operand(np.dtype(dtype), tuple(m == "1" for m in moves))


def launch(kernel: Kernel, arrays: Sequence[Array], space: tuple[int, ...] | None = None) -> Loops:
    """Compile a kernel and run it on inputs and outputs."""
    loops = lay_out(kernel, arrays, space or space_of(kernel, arrays))
    assert isinstance(loops, Loops)
    address = compiler.KERNELS.compile((kernel, loops.pattern))
    assert address is not None, emit(kernel, loops.pattern)
    scratch = np.empty(scratch_bytes(kernel, loops) + 1, np.uint8)
    numbers = block(loops, [a.ctypes.data for a in arrays], scratch.ctypes.data)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)(numbers.ctypes.data)
    return loops


def run_all(calls: Sequence[Any]) -> None:
    """Run what was bound, one after the other."""
    chain([(call.address, call.block.ctypes.data) for call in calls])()


def space_of(kernel: Kernel, arrays: Sequence[Array]) -> tuple[int, ...]:
    sizes = [1] * kernel.rank
    for operand, array in zip(kernel.operands, arrays, strict=False):
        for axis, moves in enumerate(operand.moves):
            sizes[axis] = array.shape[axis] if moves else sizes[axis]
    return tuple(sizes)


def check(kernel: Kernel, inputs: Sequence[Array], rtol: float = 2e-6, atol: float = 1e-6) -> Loops:
    """Run a kernel into outputs full of rubbish, and compare with the interpreter."""
    space = space_of(kernel, inputs)
    expected = evaluate(kernel, [a.copy() for a in inputs], space)
    over = dict(kernel.in_place)
    outputs = [
        inputs[over[kernel.n_inputs + i]] if kernel.n_inputs + i in over else np.full_like(y, 77)
        for i, y in enumerate(expected)
    ]
    loops = launch(kernel, [*inputs, *outputs])
    for output, y in zip(outputs, expected, strict=True):
        exact = output.dtype.kind in "bi"
        np.testing.assert_allclose(output, y, rtol=0 if exact else rtol, atol=0 if exact else atol)
    return loops


def ulps(y: Array, exact: Array) -> Array:
    """Return how far y is from a more exact result, in units of y's last place."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(y.dtype)
        unit = np.spacing(np.maximum(np.abs(rounded), np.finfo(y.dtype).tiny))
        away = np.abs(y.astype(exact.dtype) - exact) / unit.astype(exact.dtype)
    return np.where((y == rounded) | (np.isnan(y) & np.isnan(rounded)), 0, away)

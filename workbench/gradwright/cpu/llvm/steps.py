"""Machine code of many steps: kernels and products on parts of an op's arrays, and on scratch."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ...fuse.builder import Builder, Term
from ...fuse.ir import Kernel
from ...ops.numerics.products import pieces, split
from ...program.declined import DeclinedError
from ..call import Call
from ..places import address
from .bind import bind_copy, bind_kernel
from .gemm import bind_matmul
from .repeat import looped
from .unpacked import AT_ONCE, bind_product

Array = np.ndarray[Any, Any]
LINE = 64
"""Bytes of a cache line; scratch memory begins with one, as kernels read whole lines at a time."""


class Load(Protocol):
    """What reads operands by name."""

    def __call__(self, name: str, *axes: int) -> Term:
        """Return an operand's elements; it moves along both axes unless told otherwise."""


@dataclass(frozen=True, eq=False)
class Step:
    """A kernel over [rows, columns] whose operands have names; equal names are one array."""

    kernel: Kernel
    names: tuple[str, ...]


@functools.cache
def step(
    write: Callable[..., Mapping[str, Term]], dtype: np.dtype[Any], *options: Hashable
) -> Step:
    """Return the kernel that stores the terms which ``write(load, *options)`` names.

    >>> halved = step(lambda load: {"x": load("x") * 0.5}, np.dtype("f4"))
    >>> halved.names, halved.kernel.in_place
    (('x', 'x'), ((1, 0),))
    """
    b = Builder(2, 2)

    def load(name: str, *axes: int) -> Term:
        return b.load(name, axes or (0, 1), dtype)

    return made(b, {name: (term, (0, 1)) for name, term in write(load, *options).items()})


def made(b: Builder, results: Mapping[str, tuple[Term, tuple[int, ...]]]) -> Step:
    """Return the kernel that stores terms; results lie over inputs of their names."""
    kernel, reads = b.kernel([(term, axes, "set", term.dtype) for term, axes in results.values()])
    n, names = len(reads), (*reads, *results)
    pairs = tuple((n + k, reads.index(name)) for k, name in enumerate(results) if name in reads)
    return Step(replace(kernel, in_place=pairs), names)


class Steps:
    """Calls in order for arrays of an op, inputs then outputs, None where one is not given.

    What is done again on parts that lie alike is bound once: a step then costs 10 µs, not 100.

    Examples:
        >>> from gradwright.cpu.llvm.compiler import available
        >>> x, y = np.ones((3, 2, 2)), np.empty((3, 2, 2))
        >>> steps = Steps([x, y])
        >>> if available():
        ...     for t in range(3):
        ...         steps.product(x[t], x[t], y[t])
        >>> len(steps.calls) in (0, 3)  # none without llvmlite
        True
    """

    def __init__(self, operands: Sequence[Array | None]) -> None:
        self.calls: list[Call] = []
        self._bounds = [(*bounds(x), n) for n, x in enumerate(operands) if x is not None]
        self._known: dict[Hashable, Sequence[Call]] = {}
        self._held: list[Array] = []
        self._again: Iterator[Array] = iter(())

    # -- what is called --------------------------------------------------------------------------

    def run(self, step: Step, shape: tuple[int, int], arrays: Mapping[str, Array]) -> None:
        """Run a kernel on arrays given by name, each [rows, columns] or [columns]."""
        found = [arrays[name] for name in step.names]
        self.add(step, found, lambda: bind_kernel(step.kernel, shape, found))

    def product(self, a: Array, b: Array, c: Array, *, adds: bool = False) -> None:
        """Store ``a @ b`` in ``c``, or add it to what is there."""
        sizes = c.shape[-2], c.shape[-1], a.shape[-1]
        count = pieces(a.dtype.char, math.prod(c.shape[:-2]), *sizes)
        if count == 1:
            self.add(("product", adds), [a, b, c], lambda: bind_matmul([a, b], [c], adds=adds))
            return
        left, right, whole = split(a, b, count)
        is_rest = whole < a.shape[-1]
        parts = self.scratch((count + is_rest + adds, *c.shape), c.dtype)
        self.product(left, right, parts[:count])
        if is_rest:
            self.product(a[..., whole:], b[..., whole:, :], parts[count])
        if adds:
            self.copy(c, parts[-1])
        total = c if c.flags.c_contiguous else self.scratch(c.shape, c.dtype)
        self.sum(parts.reshape(len(parts), -1), total.reshape(1, -1))
        if total is not c:
            self.copy(total, c)

    def copy(self, x: Array, y: Array) -> None:
        """Store ``x`` in ``y``, which has its shape."""
        self.add("copy", [x, y], lambda: bind_copy(x, y))

    def sum(self, x: Array, y: Array) -> None:
        """Store the sums of [rows, columns] over the rows in [columns]."""
        kernel = column_sums(x.dtype)
        self.add("sum", [x, y], lambda: bind_kernel(kernel, x.shape, [x, y]))

    def unpacked(self, a: Array, b: Array, c: Array, *, adds: bool = False) -> None:
        """Store ``a @ b`` in ``c``, or add it: each row has the bits that it would have alone."""
        for start in range(0, len(b), AT_ONCE):
            some, more = slice(start, start + AT_ONCE), adds or start > 0
            parts = a[:, some], b[some], c
            self.add(("unpacked", more), parts, functools.partial(bind_product, *parts, adds=more))

    def apart(self, write: Callable[[], None]) -> list[Call]:
        """Return the calls that are written, instead of adding them."""
        before, self.calls = self.calls, []
        try:
            write()
            return self.calls
        finally:
            self.calls = before

    def repeat(self, turns: range, write: Callable[[int], None]) -> None:
        """Add what is written for each turn as a loop: from turn to turn all moves on evenly.

        Scratch does not: each turn has that of the first.
        """
        if len(turns) < 3:
            for turn in turns:
                write(turn)
            return
        begin = len(self._held)
        first = self.apart(functools.partial(write, turns[0]))
        self._again = iter(self._held[begin:])
        second = self.apart(functools.partial(write, turns[1]))
        self.calls.append(looped(len(turns), first, second))

    # -- memory ----------------------------------------------------------------------------------

    def scratch(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return memory that the calls hold, filled with zeros."""
        size = math.prod(shape) * dtype.itemsize
        raw = next(self._again, None)
        if raw is None:
            raw = np.zeros(size + LINE, np.uint8)
            self._held.append(raw)
        return np.ndarray(shape, dtype, raw, -raw.ctypes.data % LINE)

    def dense(self, x: Array) -> Array:
        """Return an array as rows one behind the other: itself, or a copy."""
        if x.flags.c_contiguous and x.flags.aligned:
            return x
        return self.copied(x)

    def copied(self, x: Array, pad: int = 0) -> Array:
        """Return a copy made in each run, as rows one behind the other, or so many bytes apart."""
        *lead, n = x.shape
        made = self.scratch((*lead, n + pad // x.itemsize), x.dtype)[..., :n]
        self.copy(x, made)
        return made

    # -- binding ---------------------------------------------------------------------------------

    def add(
        self,
        kind: Hashable,
        arrays: Sequence[Array],
        bind: Callable[[], Sequence[Call] | None],
    ) -> None:
        """Add calls; those of arrays that lie alike differ in their addresses alone.

        Raises DeclinedError where ``bind`` makes none.
        """
        key = kind, tuple((x.shape, x.strides, x.flags.aligned) for x in arrays)
        if key not in self._known:
            made = bind()
            if made is None:
                raise DeclinedError
            self._known[key] = made
        for call in self._known[key]:
            block, slots = call.block.copy(), []
            for slot, n in call.slots:
                block[slot] = at = address(arrays[n])
                slots += [(slot, k) for k in self._operand(at)]
            held = call.held, self._held
            self.calls.append(replace(call, block=block, slots=slots, held=held))

    def _operand(self, at: int) -> list[int]:
        """Return the operand that an address lies in, if it is none of our own memory."""
        for low, high, n in self._bounds:
            if low <= at < high:
                return [n]
        return []


def bounds(x: Array) -> tuple[int, int]:
    """Return the first address of an array's memory, and the one behind it."""
    low = high = address(x)
    for n, stride in zip(x.shape, x.strides, strict=True):
        low, high = low + min(0, (n - 1) * stride), high + max(0, (n - 1) * stride)
    return low, high + x.itemsize


@functools.cache
def column_sums(dtype: np.dtype[Any]) -> Kernel:
    """Return the kernel that adds up [rows, columns] over the rows."""
    b = Builder(2, 2)
    return b.kernel([(b.load("x", (0, 1), dtype), (1,), "sum", dtype)])[0]

"""How kernels find memory: the block, addresses of operands in loops, places that indices name."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....fuse.ir import Beyond, Kernel, Named, Store
from ....fuse.layout import Access, Pattern, Slots
from ....fuse.schedule import Schedule, schedule
from ....fuse.totals import BLOCK, totals
from ..text import Code, Loop, Num
from .elements import from_memory, memory_type, to_memory

FLOAT64, INT64 = np.dtype(np.float64), np.dtype(np.int64)


class Memory:
    """The memory of a kernel whose text is being written."""

    def __init__(self, kernel: Kernel, pattern: Pattern) -> None:
        self.kernel, self.pattern = kernel, pattern
        self.plan: Schedule = schedule(kernel, pattern)
        self.code = Code()
        self.slots = Slots.of(kernel, pattern)
        self.rows: list[Num] = []
        self.known: dict[int, Num] = {}
        self.totals = {total.store: total for total in totals(kernel, pattern)}

    # Block -----------------------------------------------------------------------------------

    def _read_block(self) -> None:
        code, slots, n_outer = self.code, self.slots, self.pattern.n_outer
        self.zero = code.const("i64", 0)
        self.columns = self.code.entry(slots.columns)
        self.outer = [self.code.entry(slots.outer(loop)) for loop in range(n_outer)]
        self.accesses = list(self.pattern.accesses)
        self.dtypes = [operand.dtype for operand in self.kernel.operands]
        self.bases: list[Num] = []
        self.strides: list[list[Num]] = []
        for number, access in enumerate(self.accesses):
            moves = [*access.outer, access.column == "strided"]
            self.bases.append(self.code.entry(number, "ptr"))
            self.strides.append(
                [
                    self.code.entry(slots.stride(number, loop)) if m else self.zero
                    for loop, m in enumerate(moves)
                ]
            )
        scratch = self.code.entry(slots.scratch, "ptr")
        self.scratch: dict[int, Num] = {}
        for place, value in enumerate(self.plan.in_scratch):
            self.scratch[value] = self._shift(scratch, self.columns * (8 * place))
        self._place_totals(self._shift(scratch, self.columns * (8 * len(self.scratch))))
        self.rows = list(self.bases)
        self.named: dict[tuple[int, int], tuple[Num, Num]] = {}
        for number, count in enumerate(slots.n_named):
            for axis in range(count):
                at = slots.named(number, axis)
                self.named[number, axis] = self.code.entry(at), self.code.entry(at + 1)
        self.worst: dict[Named, Num] = {}
        for named in dict.fromkeys(v.extra for v in self.kernel.values if v.op == "place"):
            pointer = self.worst[named] = code.let("ptr", "alloca i64")
            code.do(f"store i64 0, ptr {pointer.name}")

    def _place_totals(self, start: Num) -> None:
        """Lay totals out as further operands in scratch memory: how many columns each has, too."""
        self.at: dict[Store, int] = {}
        self.ends: dict[Store, Num] = {}
        for store, total in self.totals.items():
            size = self.columns * 8 if total.is_row else self.code.const("i64", 8)
            strides = [self.zero] * (self.pattern.n_outer + 1)
            for loop in reversed(total.moving):
                strides[loop], size = size, size * self.outer[loop]
            self.ends[store] = self.code.const("i64", 1)
            if total.is_row:
                turns = functools.reduce(Num.__mul__, (self.outer[loop] for loop in total.still))
                self.ends[store] = (turns > BLOCK).where(self.columns, 0)
                size = (turns > BLOCK).where(size, 0)
            self.at[store] = len(self.bases)
            self.bases.append(start)
            self.strides.append(strides)
            self.accesses.append(total.own_access)
            self.dtypes.append(FLOAT64)
            start = self._shift(start, size)

    def _shift(self, pointer: Num, offset: Num) -> Num:
        return self.code.let("ptr", f"getelementptr i8, ptr {pointer.name}, i64 {offset.name}")

    def _step(self, depth: int, loop: Loop) -> None:
        """Move every operand to the current turn of an outer loop."""
        self.rows = [
            self._shift(row, loop.index * strides[depth]) if access.outer[depth] else row
            for row, strides, access in zip(self.rows, self.strides, self.accesses, strict=True)
        ]

    @contextlib.contextmanager
    def _places(self, access: Access, end: Num, depth: int = 0) -> Iterator[Num]:
        """Write loops over the places of an operand from outer loop ``depth`` on; give columns."""
        rows = self.rows
        with contextlib.ExitStack() as nest:
            for loop in range(depth, self.pattern.n_outer):
                if access.outer[loop]:
                    turns = self.code.loop(self.zero, self.outer[loop])
                    self._step(loop, nest.enter_context(turns))
            columns = self.code.loop(self.zero, end, hints=[self.code.parallel])
            yield nest.enter_context(columns).index
        self.rows = rows

    # Memory ----------------------------------------------------------------------------------

    def _at(self, operand: int, column: Num | None) -> Num:
        """Return the address of an operand in this row, at a column."""
        walk, row = self.accesses[operand].column, self.rows[operand]
        if column is None or walk == "zero":
            return row
        if walk == "strided":
            return self._shift(row, column * self.strides[operand][-1])
        return self._item(row, self.dtypes[operand], column)

    def _item(self, row: Num, dtype: np.dtype[Any], column: Num) -> Num:
        type_ = memory_type(dtype)
        return self.code.let("ptr", f"getelementptr {type_}, ptr {row.name}, i64 {column.name}")

    def _load(self, pointer: Num, dtype: np.dtype[Any]) -> Num:
        type_ = memory_type(dtype)
        text = f"load {type_}, ptr {pointer.name}, align {dtype.itemsize}, {self.code.group}"
        return from_memory(self.code.let(type_, text), dtype)

    def _store(self, value: Num, pointer: Num, dtype: np.dtype[Any]) -> None:
        value = to_memory(value, dtype)
        self.code.do(
            f"store {value.type} {value.name}, ptr {pointer.name}, "
            f"align {dtype.itemsize}, {self.code.group}"
        )

    # Places ----------------------------------------------------------------------------------

    def _place(self, index: Num, named: Named) -> Num:
        """Write how far a place is from the first one, in bytes; -1: nothing is written there.

        The largest index, where negative ones count as more than 2⁶³, tells if one is wrong.
        """
        size, stride = self.named[named.operand, named.axis]
        index = index if index.type == "i64" else index.to("sext", "i64")
        if named.beyond is Beyond.LEFT_OUT:
            at, seen = index, index.call("smax", 0)
        else:
            at = seen = (index < 0).where(index + size, index)
        worst = self.worst[named]
        before = self.code.let("i64", f"load i64, ptr {worst.name}")
        self.code.do(f"store i64 {before.call('umax', seen).name}, ptr {worst.name}")
        is_there = at.compare("ult", size)
        if named.beyond is Beyond.FIRST:
            return is_there.where(at, 0) * stride
        return is_there.where(at * stride, -1)

    def _there(self, pointer: Num, places: Sequence[int]) -> Num:
        """Return the address of places."""
        return functools.reduce(self._shift, (self.known[p] for p in places), pointer)

    def _is_there(self, store: Store, columns: Num) -> Num:
        """Return how many columns are written: none if a place is nowhere."""
        far = functools.reduce(Num.__or__, (self.known[p] for p in store.places))
        return (far < 0).where(self.code.const("i64", 0), columns)

    def _join(self, store: Store, column: Num | None) -> None:
        """Join a value to what is at its places, if they are there."""
        operand, value = self.kernel.operands[store.operand], self.known[store.value]
        pointer = self._there(self._at(store.operand, column), store.places)
        if store.mode != "set":
            so_far = self._load(pointer, operand.dtype)
            match store.mode:
                case "sum":
                    value = so_far + value
                case "prod":
                    value = so_far * value
                case how:
                    value = so_far.extremum(f"{how}imum", value)
        self._store(value, pointer, operand.dtype)

    def _tell(self) -> None:
        """Tell of an index that names no place: itself as it was counted, the size, the operand."""
        if not self.worst:
            return
        alarm = self.code.entry(self.slots.alarm, "ptr")
        for named, pointer in reversed(self.worst.items()):  # of several the first is told
            size, _ = self.named[named.operand, named.axis]
            worst = self.code.let("i64", f"load i64, ptr {pointer.name}")
            wrong = worst.compare("uge", size).to("zext", "i64")
            with self.code.loop(self.zero, wrong):
                told = (wrong, worst, size, wrong.of(named.operand))
                for place, number in enumerate(told):
                    self._store(number, self._shift(alarm, wrong.of(8 * place)), INT64)

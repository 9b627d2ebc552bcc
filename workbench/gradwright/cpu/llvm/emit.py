"""From a kernel and a pattern to the LLVM text of ``void k(ptr block)``.

    scalars · outer loops ( the row's values · passes over its columns · the row's stores )

Column loops are declared parallel, so that they become vector code without checks at run time,
also where an output is the same memory as an input. No other overlap is allowed.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...fuse.ir import Beyond, Kernel, Level, Named, Store
from ...fuse.layout import Access, Pattern, Slots
from ...fuse.schedule import Schedule, roots, schedule
from ...fuse.totals import BLOCK, Total, totals
from ...spec import is_half
from .elements import (
    Fold,
    apply,
    beyond_zero,
    cast,
    divide_by_fixed,
    expm1_beside_exp,
    from_memory,
    is_clamp_at_zero,
    memory_type,
    register_type,
    to_memory,
)
from .target import is_wide
from .text import Code, Loop, Num

COLUMNS = 1024
"""Columns summed in float32, in several vectors, before the sum goes to float64."""
APART = 128
"""Likewise where some are not next to each other, so that there may be no vectors."""
FLOAT64, INT64 = np.dtype(np.float64), np.dtype(np.int64)


def emit(kernel: Kernel, pattern: Pattern) -> str:
    """Return the LLVM text of a kernel for arrays that are walked as the pattern says.

    >>> from gradwright.fuse.ir import Operand, Value
    >>> from gradwright.fuse.layout import Access
    >>> f32 = np.dtype("f4")
    >>> x = Operand(f32, (True,))
    >>> values = (Value("load", (), f32, Level.ELEMENT, 0), Value("neg", (0,), f32, Level.ELEMENT))
    >>> kernel = Kernel(1, 1, (x, x), 1, values, (Store(1, 1),))
    >>> "fneg contract" in emit(kernel, Pattern((Access("unit", ()),) * 2))
    True
    """
    return _Emitter(kernel, pattern).text()


class _Emitter:
    def __init__(self, kernel: Kernel, pattern: Pattern) -> None:
        self.kernel, self.pattern = kernel, pattern
        self.plan: Schedule = schedule(kernel, pattern)
        self.code = Code()
        self.slots = Slots.of(kernel, pattern)
        self.rows: list[Num] = []
        self.known: dict[int, Num] = {}
        self.sums: dict[Store, Num] = {}
        self.variables: dict[Store, Num] = {}
        self.totals = {total.store: total for total in totals(kernel, pattern)}
        casts = (v for v in kernel.values if v.op == "cast" and is_half(v.dtype))
        self.rounded = {v.args[0] for v in casts}
        """Values that become halves: numpy's to the bit, without contraction across a rounding."""

    def text(self) -> str:
        """Return the whole module."""
        self._read_block()
        self._fill_sums()
        self._compute(Level.SCALAR)
        self._nest(0)
        for store in self.kernel.stores:
            self._store_last(store)
        self._tell()
        return self._module()

    def _nest(self, depth: int) -> None:
        """Write the outer loops from ``depth`` on, and the row inside of them."""
        if depth == self.pattern.n_outer:
            return self._row()
        rows, size = self.rows, self.outer[depth]
        full = [t for t in self.totals.values() if t.is_row and t.still[-1] == depth]
        with contextlib.ExitStack() as nest:
            first, last = self.zero, size
            if full:
                first = nest.enter_context(self.code.loop(first, size, BLOCK)).index
                last = (first + BLOCK).call("smin", size)
            with self.code.loop(first, last) as loop:
                self._step(depth, loop)
                self._nest(depth + 1)
            self.rows = rows
            for total in full:
                self._add_block(total, depth + 1)

    # Block -----------------------------------------------------------------------------------

    def _read_block(self) -> None:
        code, slots, n_outer = self.code, self.slots, self.pattern.n_outer
        self.zero = code.const("i64", 0)
        self.columns = self._entry("i64", slots.columns)
        self.outer = [self._entry("i64", slots.outer(loop)) for loop in range(n_outer)]
        self.accesses = list(self.pattern.accesses)
        self.dtypes = [operand.dtype for operand in self.kernel.operands]
        self.bases: list[Num] = []
        self.strides: list[list[Num]] = []
        for number, access in enumerate(self.accesses):
            moves = [*access.outer, access.column == "strided"]
            self.bases.append(self._entry("ptr", number))
            self.strides.append(
                [
                    self._entry("i64", slots.stride(number, loop)) if m else self.zero
                    for loop, m in enumerate(moves)
                ]
            )
        scratch = self._entry("ptr", slots.scratch)
        self.scratch: dict[int, Num] = {}
        for place, value in enumerate(self.plan.in_scratch):
            self.scratch[value] = self._shift(scratch, self.columns * (8 * place))
        self._place_totals(self._shift(scratch, self.columns * (8 * len(self.scratch))))
        self.rows = list(self.bases)
        self.named: dict[tuple[int, int], tuple[Num, Num]] = {}
        for number, count in enumerate(slots.n_named):
            for axis in range(count):
                at = slots.named(number, axis)
                self.named[number, axis] = self._entry("i64", at), self._entry("i64", at + 1)
        self.worst: dict[Named, Num] = {}
        for value in self.kernel.values:
            if value.op == "place" and value.extra not in self.worst:
                pointer = self.worst[value.extra] = code.let("ptr", "alloca i64")
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

    def _entry(self, type_: str, slot: int) -> Num:
        pointer = self.code.let("ptr", f"getelementptr i64, ptr %block, i64 {slot}")
        return self.code.let(type_, f"load {type_}, ptr {pointer.name}, {self.code.constant}")

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

    def _put(self, store: Store, value: Num, column: Num | None) -> None:
        """Write a value to an operand, or add it to what is there."""
        dtype = self.kernel.operands[store.operand].dtype
        pointer = self._at(store.operand, column)
        if self._adds(store):
            value = self._load(pointer, dtype) + value
        self._store(value, pointer, dtype)

    # Values ----------------------------------------------------------------------------------

    def _compute(self, level: Level, ready: int = 0) -> None:
        """Write the values of a level that are there before pass ``ready``."""
        for number, value in enumerate(self.kernel.values):
            if (
                self.plan.levels[number] == level
                and self.plan.ready[number] == ready
                and value.op != "reduce"
            ):
                self.known[number] = self._value(number, None)

    def _value(self, number: int, column: Num | None) -> Num:
        """Write one value whose arguments are known."""
        value = self.kernel.values[number]
        if value.op == "load":
            dtype = self.kernel.operands[value.extra].dtype
            return self._load(self._there(self._at(value.extra, column), value.args), dtype)
        if value.op == "place":
            return self._place(self.known[value.args[0]], value.extra)
        if value.op == "const":
            return self.code.const(register_type(value.dtype), value.extra)
        if value.op == "column":
            assert column is not None
            return column
        args = [self.known[a] for a in value.args]
        given = [self.kernel.values[a] for a in value.args]
        if value.op == "cast":
            return cast(args[0], given[0].dtype, value.dtype)
        if is_clamp_at_zero(value, self.kernel.values):
            args[0] = beyond_zero(given[0].op, args[2])
        if number in self.rounded:
            with self.code.flagged(""):
                return apply(value.op, args, given)
        if value.op == "div" and self.plan.levels[value.args[1]] < self.plan.levels[number]:
            return divide_by_fixed(*args)
        if value.op == "expm1" and self._has("exp", value.args):
            return expm1_beside_exp(*args)
        return apply(value.op, args, given)

    def _has(self, op: str, args: tuple[int, ...]) -> bool:
        return any(v.op == op and v.args == args for v in self.kernel.values)

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
        so_far = self._load(pointer, operand.dtype)
        is_sum = store.mode == "sum"
        joined = so_far + value if is_sum else so_far.extremum(f"{store.mode}imum", value)
        self._store(joined, pointer, operand.dtype)

    def _clear(self, store: Store) -> None:
        """Let an operand be the reduction of nothing."""
        operand, number, rows = self.kernel.operands[store.operand], store.operand, self.rows
        nothing = Fold(store.mode, store.value, operand.dtype).start(self.code)
        if store.mode == "sum":
            nothing = self.code.const(register_type(operand.dtype), 0)
        access = self.pattern.accesses[number]
        end = self.code.const("i64", 1) if access.column == "zero" else self.columns
        with contextlib.ExitStack() as nest:
            for axis in range(len(operand.named)):
                size, stride = self.named[number, axis]
                turn = nest.enter_context(self.code.loop(self.zero, size)).index
                self.rows = list(self.rows)
                self.rows[number] = self._shift(self.rows[number], turn * stride)
            column = nest.enter_context(self._places(access, end))
            self._store(nothing, self._at(number, column), operand.dtype)
        self.rows = rows

    def _tell(self) -> None:
        """Tell of an index that names no place: itself as it was counted, the size, the operand."""
        if not self.worst:
            return
        alarm = self._entry("ptr", self.slots.alarm)
        for named, pointer in self.worst.items():
            size, _ = self.named[named.operand, named.axis]
            worst = self.code.let("i64", f"load i64, ptr {pointer.name}")
            wrong = worst.compare("uge", size).to("zext", "i64")
            with self.code.loop(self.zero, wrong):
                told = (wrong, worst, size, wrong.of(named.operand))
                for place, number in enumerate(told):
                    self._store(number, self._shift(alarm, wrong.of(8 * place)), INT64)

    # Rows ------------------------------------------------------------------------------------

    def _row(self) -> None:
        self._compute(Level.ROW)
        for p in range(len(self.plan.stores)):
            self._pass(p)
            if self.plan.seldom[p]:
                self._pass(p, is_seldom=True)
            self._compute(Level.ROW, p + 1)
        for store in self.kernel.stores:
            self._store_row(store)

    def _pass(self, p: int, *, is_seldom: bool = False) -> None:
        """Write one loop over the columns; sums of float32 get a loop of blocks around it.

        The loop for rows in need has no turns in others.
        """
        code, plan, values = self.code, self.plan, self.kernel.values
        reduces, sums, columns = plan.reduces[p], plan.sums[p], self.columns
        if is_seldom:
            reduces, sums = plan.seldom[p], ()
            needs = (self.known[values[r].args[1]] for r in reduces)
            columns = functools.reduce(Num.__or__, needs).where(columns, 0)
        elif not (reduces or sums or plan.stores[p]):
            return
        scattered = next((s for s in plan.stores[p] if s.places), None)
        apart = scattered is not None and any(
            plan.levels[n] == Level.ELEMENT for n in scattered.places
        )
        if scattered is not None and not apart:
            columns = self._is_there(scattered, columns)
        folds = [Fold(values[r].extra, values[r].args[0], values[r].dtype) for r in reduces]
        folds += [Fold("sum", s.value, values[s.value].dtype) for s in sums]
        starts = [fold.start(code) for fold in folds]
        # Sums take four vectors at a time to hide their latency; else two are a tenth faster.
        hints = [code.parallel] if folds else [code.parallel, code.in_pairs]
        if self.pattern.is_narrow:
            hints = [code.parallel, code.single, code.masked]
        if apart:  # two columns may have one place
            hints = []
        if any(fold.is_wide for fold in folds):
            is_apart = any(a.column == "strided" for a in self.pattern.accesses)
            at_once = APART if is_apart else COLUMNS
            with code.loop(self.zero, columns, at_once, starts) as blocks:
                stop = (blocks.index + at_once).call("smin", columns)
                inner = [
                    code.const("float", 0) if fold.is_wide else so_far
                    for fold, so_far in zip(folds, blocks.carried, strict=True)
                ]
                with code.loop(blocks.index, stop, 1, inner, hints) as loop:
                    self._column(p, folds, loop, is_seldom)
                blocks.turned = [
                    so_far + fold.widen(part) if fold.is_wide else part
                    for fold, so_far, part in zip(folds, blocks.carried, loop.carried, strict=True)
                ]
            ends = blocks.carried
        else:
            with code.loop(self.zero, columns, 1, starts, hints) as loop:
                self._column(p, folds, loop, is_seldom)
            ends = loop.carried
        results = [fold.result(end) for fold, end in zip(folds, ends, strict=True)]
        self.known.update(zip(reduces, results[: len(reduces)], strict=True))
        self.sums.update(zip(sums, results[len(reduces) :], strict=True))

    def _column(self, p: int, folds: Sequence[Fold], loop: Loop, is_seldom: bool) -> None:
        """Write what a pass does with one column."""
        outside, column = dict(self.known), loop.index
        for number in self._cone(p, is_seldom):
            if self._is_kept(number, p):
                self.known[number] = self._load(*self._kept(number, column))
            else:
                self.known[number] = self._value(number, column)
        loop.turned = [
            fold.join(so_far, self.known[fold.value])
            for fold, so_far in zip(folds, loop.carried, strict=True)
        ]
        if not is_seldom:
            for number in self.plan.in_scratch:
                if self.plan.first[number] == p:
                    self._store(self.known[number], *self._kept(number, column))
            for store in self.plan.stores[p]:
                if not store.places:
                    self._put(store, self.known[store.value], column)
                elif any(self.plan.levels[n] == Level.ELEMENT for n in store.places):
                    with self.code.loop(self.zero, self._is_there(store, column.of(1))):
                        self._join(store, column)
                else:
                    self._join(store, column)
        self.known = outside

    def _is_kept(self, number: int, p: int) -> bool:
        """Tell whether pass p finds a value where an earlier one has put it."""
        return number in self.plan.kept and self.plan.first[number] < p

    def _cone(self, p: int, is_seldom: bool) -> list[int]:
        """Return the elements that pass p computes or loads, in order."""
        seen: set[int] = set()
        todo = roots(self.kernel, self.plan, p, is_seldom=is_seldom)
        while todo:
            number = todo.pop()
            if number in seen or self.plan.levels[number] < Level.ELEMENT:
                continue
            seen.add(number)
            if not self._is_kept(number, p):
                todo.extend(self.kernel.values[number].args)
        return sorted(seen)

    def _kept(self, number: int, column: Num) -> tuple[Num, np.dtype[Any]]:
        """Return address and dtype of a value that was kept for later passes."""
        operand, dtype = self.plan.kept[number], self.kernel.values[number].dtype
        if operand is not None:
            return self._at(operand, column), dtype
        return self._item(self.scratch[number], dtype, column), dtype

    # Stores of rows and scalars --------------------------------------------------------------

    def _adds(self, store: Store) -> bool:
        """Tell whether several rows add to one place."""
        is_plain = store.mode != "set" and not store.places
        return is_plain and not all(self.pattern.accesses[store.operand].outer)

    def _fill_sums(self) -> None:
        """Zero what rows add to: a variable where nothing moves, else operands and totals."""
        for store in self.kernel.stores:
            if store.places:
                self._clear(store)
            if not self._adds(store):
                continue
            access = self.pattern.accesses[store.operand]
            one = self.code.const("i64", 1)
            if access.column == "zero" and not any(access.outer):
                nought = self._fold(store).start(self.code)
                pointer = self.code.let("ptr", f"alloca {nought.type}")
                self.code.do(f"store {nought.type} {nought.name}, ptr {pointer.name}")
                self.variables[store] = pointer
                continue
            self._fill(store.operand, one if access.column == "zero" else self.columns)
            if store in self.totals:
                self._fill(self.at[store], self.ends[store])

    def _fill(self, operand: int, end: Num) -> None:
        """Write zeros to all of an operand."""
        dtype = self.dtypes[operand]
        with self._places(self.accesses[operand], end) as column:
            zero = self.code.const(register_type(dtype), 0)
            self._store(zero, self._at(operand, column), dtype)

    def _add_block(self, total: Total, depth: int) -> None:
        """Move what rows of one block added up to from the operand to its total."""
        store = total.store
        dtype = self.dtypes[store.operand]
        with self._places(total.access, self.ends[store], depth) as column:
            part = self._at(store.operand, column)
            self._add(store, self._load(part, dtype), column)
            self._store(self.code.const(register_type(dtype), 0), part, dtype)

    def _add(self, store: Store, value: Num, column: Num | None) -> None:
        """Add a value to a total."""
        place = self._at(self.at[store], column)
        so_far = self._load(place, FLOAT64)
        self._store(so_far + self._fold(store).widen(value), place, FLOAT64)

    def _fold(self, store: Store) -> Fold:
        return Fold("sum", store.value, self.kernel.values[store.value].dtype)

    def _is_scalar(self, store: Store) -> bool:
        """Tell whether a store happens once, even if there are no rows."""
        return (
            store.mode == "set"
            and self.plan.levels[store.value] == Level.SCALAR
            and not any(self.pattern.accesses[store.operand].outer)
        )

    def _store_row(self, store: Store) -> None:
        """Write what a row has for an operand that stands still along the columns."""
        if store.by_row:
            with self.code.loop(self.zero, self._is_there(store, self.zero.of(1))):
                self._join(store, None)
        if store.places:
            return
        if self.pattern.accesses[store.operand].column != "zero" or self._is_scalar(store):
            return
        value = self.sums[store] if store in self.sums else self.known[store.value]
        if store in self.totals:
            return self._add(store, value, None)
        if store not in self.variables:
            return self._put(store, value, None)
        pointer, value = self.variables[store], self._fold(store).widen(value)
        total = self.code.let(value.type, f"load {value.type}, ptr {pointer.name}") + value
        self.code.do(f"store {total.type} {total.name}, ptr {pointer.name}")

    def _store_last(self, store: Store) -> None:
        """Write a scalar, or a total when all rows have added to it."""
        operand = self.kernel.operands[store.operand]
        fold = self._fold(store)
        if store.places:
            return
        if store in self.totals:
            with self._places(self.accesses[store.operand], self.ends[store]) as column:
                total = self._load(self._at(self.at[store], column), FLOAT64)
                self._store(fold.result(total), self._at(store.operand, column), operand.dtype)
            return
        if store in self.variables:
            type_ = fold.start(self.code).type
            total = self.code.let(type_, f"load {type_}, ptr {self.variables[store].name}")
            value = fold.result(total)
        elif self._is_scalar(store) and self.pattern.accesses[store.operand].column == "zero":
            value = self.known[store.value]
        else:
            return
        self._store(value, self.bases[store.operand], operand.dtype)

    # Module ----------------------------------------------------------------------------------

    def _module(self) -> str:
        wide = ' "prefer-vector-width"="512"' if is_wide() else ""
        return "\n".join(
            [
                f"define void @k(ptr noalias nocapture readonly %block) nounwind{wide} {{",
                "entry:",
                *self.code.lines,
                "  ret void",
                "}",
                *self.code.declarations.values(),
                *(f"!{number} = {node}" for number, node in enumerate(self.code.nodes)),
                "",
            ]
        )

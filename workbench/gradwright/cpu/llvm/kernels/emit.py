"""From a kernel and a pattern to the LLVM text of ``void k(ptr block)``.

    scalars · outer loops ( the row's values · passes over its columns · the row's stores )

Column loops are declared parallel, so that they become vector code without checks at run time,
also where an output is the same memory as an input. No other overlap is allowed.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....fuse.ir import Kernel, Level, Store
from ....fuse.layout import Pattern
from ....fuse.schedule import roots
from ....fuse.totals import BLOCK, Total
from ....spec import is_half
from ..target import is_wide
from ..text import Loop, Num
from .elements import (
    Fold,
    apply,
    beyond_zero,
    cast,
    divide_by_fixed,
    expm1_beside_exp,
    is_clamp_at_zero,
    register_type,
)
from .memory import FLOAT64, Memory

COLUMNS = 1024
"""Columns summed in float32, in several vectors, before the sum goes to float64."""
APART = 128
"""Likewise where some are not next to each other, so that there may be no vectors."""


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


class _Emitter(Memory):
    def __init__(self, kernel: Kernel, pattern: Pattern) -> None:
        super().__init__(kernel, pattern)
        self.sums: dict[Store, Num] = {}
        self.variables: dict[Store, Num] = {}
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
        return self.code.module('"prefer-vector-width"="512"' if is_wide() else "")

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
        apart = scattered is not None and self._is_apart(scattered)
        if scattered is not None and not apart:
            columns = self._is_there(scattered, columns)
        folds = [Fold(values[r].extra, values[r].args[0], values[r].dtype) for r in reduces]
        folds += [Fold("sum", s.value, values[s.value].dtype) for s in sums]
        starts = [fold.start(code) for fold in folds]
        # Sums take four vectors at a time to hide their latency; else two are a tenth faster.
        hints = [code.parallel] if folds else [code.parallel, code.in_pairs]
        if self.pattern.is_narrow:
            hints = [code.parallel, code.single, code.masked]
        elif scattered is not None:
            hints = [code.parallel, code.single, code.of_eight]
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
                elif self._is_apart(store):
                    with self.code.loop(self.zero, self._is_there(store, column.of(1))):
                        self._join(store, column)
                else:
                    self._join(store, column)
        self.known = outside

    def _is_apart(self, store: Store) -> bool:
        """Tell whether each column of a value has places of its own."""
        return any(self.plan.levels[n] == Level.ELEMENT for n in store.places)

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

    def _put(self, store: Store, value: Num, column: Num | None) -> None:
        """Write a value to an operand, or add it to what is there."""
        dtype = self.kernel.operands[store.operand].dtype
        pointer = self._at(store.operand, column)
        if self._adds(store):
            value = self._load(pointer, dtype) + value
        self._store(value, pointer, dtype)

    def _adds(self, store: Store) -> bool:
        """Tell whether several rows add to one place."""
        is_plain = store.mode != "set" and not store.places
        return is_plain and not all(self.pattern.accesses[store.operand].outer)

    def _fill_sums(self) -> None:
        """Zero what rows add to: a variable where nothing moves, else operands and totals."""
        for store in self.kernel.stores:
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

"""From a kernel, a pattern and a form to Triton text.

which program · its rows ( the values of a tile, or passes over a row in chunks · the stores )
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from gradwright.fuse.ir import Kernel, Level, Store, Value
from gradwright.fuse.layout import Pattern
from gradwright.fuse.schedule import schedule

from .elements import DTYPES, INLINE, ORDERED, PRODUCT, Text, apply, cast, easy_exponent
from .memory import KINDS, Memory, pointer
from .number import NAN, literal
from .tiles import Form, is_sum

HEAD = "import triton\nimport triton.language as tl\n\n"
SIZES = ("ROWS", "BLOCK", "EVEN", "INDEX")
"""What the code is made for: the tile, and what `memory` says."""


@functools.lru_cache(maxsize=2048)
def emit(kernel: Kernel, pattern: Pattern, form: Form) -> str:
    """Return the text of a module whose function ``fused`` is the kernel.

    >>> from gradwright.fuse.ir import Operand
    >>> from gradwright.fuse.layout import Access
    >>> f32 = np.dtype("f4")
    >>> x = Operand(f32, (True,))
    >>> values = (Value("load", (), f32, Level.ELEMENT, 0), Value("exp", (0,), f32, Level.ELEMENT))
    >>> kernel = Kernel(1, 1, (x, x), 1, values, (Store(1, 1),))
    >>> text = emit(kernel, Pattern((Access("unit", ()),) * 2), Form(is_split=True))
    >>> print(text[text.index("    x0 ="):], end="")
        x0 = tl.load(in0 + col, mask=in_col, other=0)
        exp1 = exp_float32(x0)
        tl.store(out1 + col, tl.broadcast_to(exp1, (1, BLOCK)), mask=in_col)
    """
    return _Emitter(kernel, pattern, form).text()


class _Emitter(Memory):
    def __init__(self, kernel: Kernel, pattern: Pattern, form: Form) -> None:
        super().__init__(kernel, pattern, form)
        self.plan = schedule(kernel, pattern)
        self.helpers: dict[str, None] = {}
        """The text of functions that the kernel calls."""
        self.needed = self._cone([s.value for s in kernel.stores])

    def text(self) -> str:
        """Return the module."""
        self._indices()
        if self.form.is_chunked:
            self._chunked()
        elif self.form.is_summed:
            self._summed()
        else:
            if self.form.rows:
                self._rows("part")
            self._tile()
        names = [pointer(self.kernel, i) for i in range(len(self.kernel.operands))]
        if self.form.is_several:
            names = ["of", "table"]
        names += [f"aside{n}" for n in self.form.aside]
        names += ["alarm"] * bool(self.sites) + sorted(self.numbers)
        head = f"def fused({', '.join([*names, *(f'{s}: tl.constexpr' for s in SIZES)])}):"
        helpers = "".join(f"\n{text}\n" for text in self.helpers)
        return "\n".join([HEAD + helpers, "@triton.jit", head, *self.lines, ""])

    # -- a tile in registers -------------------------------------------------------------------

    def _tile(self, summed: Collection[int] = ()) -> None:
        """Write all values of a tile, then all stores."""
        for number in self.needed:
            self._value(number)
        self._wait()
        for n, store in enumerate(self.kernel.stores):
            value = self._name(store.value)
            if n in summed:
                self._line(f"total{n} += {self._masked(value, self._summands(store))}")
            elif is_sum(store) and not self._walks(store.operand)[1]:
                total = self._masked(value, self._summands(store))
                self._store(n, f"tl.sum({total}, axis=1, keep_dims=True)")
            else:
                self._store(n, value)

    def _wait(self) -> None:
        """Let all threads read what is one number for them, before one of them overwrites it."""
        if any(not self._walks(y)[1] for y, _ in self.kernel.in_place):
            self._line("tl.debug_barrier()")

    def _summands(self, store: Store) -> list[str]:
        """Return the masks of what a sum has of a tile."""
        return self._masks(True, store.mode == "sum")

    def _masked(self, value: str, masks: Sequence[str], nothing: str = "0") -> str:
        return f"tl.where({masks[0]}, {value}, {nothing})" if masks else value

    # -- sums over rows ------------------------------------------------------------------------

    def _summed(self) -> None:
        """Write the turns of a program through its part of the rows, and what they add up to."""
        stores = self.kernel.stores
        summed = [n for n, s in enumerate(stores) if is_sum(s) and not all(self._outer(s))]
        rows = "ROWS" if self.form.rows else "1"
        for n in summed:
            columns = "BLOCK" if stores[n].mode == "sum" else "1"
            dtype = DTYPES[self.kernel.values[stores[n].value].dtype.name]
            self._line(f"total{n} = tl.full(({rows}, {columns}), 0, {dtype})")
        if self.form.rows:
            self._once()
            with self._block(
                f"for turn in range(part, {self._n('n_turns')}, {self._n('n_parts')}):"
            ):
                self._rows("turn")
                self._tile(summed)
        else:
            self._tile(summed)
        for n in summed:
            total = f"total{n}"
            if stores[n].mode == "sum" and not self._walks(stores[n].operand)[1]:
                total = f"tl.sum({total}, axis=1, keep_dims=True)"
            if self.form.rows:
                total = f"tl.sum({total}, axis=0, keep_dims=True)"
            self._store(n, total)

    def _outer(self, store: Store) -> tuple[bool, ...]:
        return self.pattern.accesses[store.operand].outer

    def _once(self) -> None:
        """Write before the turns what is the same in all of them."""
        for number in self.needed:
            value = self.kernel.values[number]
            ready = all(a in self.known or self.kernel.values[a].op == "const" for a in value.args)
            if ready and not self.spread[number][0] and value.op not in ("reduce", "place"):
                self._value(number)

    # -- rows in chunks ------------------------------------------------------------------------

    def _chunked(self) -> None:
        """Write the passes over a row that is too wide for registers, each a loop over chunks.

        What several passes need is computed in each: it would go to memory otherwise.
        """
        stores, plan = self.kernel.stores, self.plan
        self._of_row(0)
        for p, here in enumerate(plan.stores):
            numbers = [n for n, s in enumerate(stores) if s in here or s in plan.sums[p]]
            if plan.reduces[p] or numbers:
                self._pass(plan.reduces[p], numbers)
            if plan.seldom[p]:
                needs = " | ".join(
                    self._name(self.kernel.values[r].args[1]) for r in plan.seldom[p]
                )
                self._pass(plan.seldom[p], [], f"tl.max(tl.max(({needs}).to(tl.int32), 1), 0)")
            self._of_row(p + 1)
        self._wait()
        for n, store in enumerate(stores):
            if store.mode == "sum" and not self._walks(store.operand)[1]:
                self._store(n, f"tl.sum(total{n}, axis=1, keep_dims=True)")
            elif not self._walks(store.operand)[1]:
                self._store(n, self._name(store.value))

    def _of_row(self, ready: int) -> None:
        """Write the values of a row that are there before a pass."""
        for number in self.needed:
            is_row = self.plan.levels[number] < Level.ELEMENT
            if is_row and self.plan.ready[number] == ready and number not in self.known:
                self._value(number)

    def _pass(self, reduces: Sequence[int], stores: Sequence[int], needed: str = "1") -> None:
        """Write a loop over the chunks of a row, which reduces, adds up and stores."""
        values, before = self.kernel.values, dict(self.known)
        sums = [n for n in stores if not self._walks(self.kernel.stores[n].operand)[1]]
        for r in reduces:
            self._line(f"so_far{r} = tl.full((1, BLOCK), {_start(values[r])}, {_held(values[r])})")
        for n in sums:
            dtype = DTYPES[values[self.kernel.stores[n].value].dtype.name]
            self._line(f"total{n} = tl.full((1, BLOCK), 0, {dtype})")
        with self._block(f"for first in range(0, {self._n('n_cols')} * EVEN * {needed}, BLOCK):"):
            self._columns("first")
            roots = [values[r].args[0] for r in reduces]
            roots += [self.kernel.stores[n].value for n in stores]
            for number in self._cone(roots):
                self._value(number)
            for r in reduces:
                x = self._masked(self._name(values[r].args[0]), ["in_col"], _start(values[r]))
                self._line(f"so_far{r} = {_joined(values[r], f'so_far{r}', x)}")
            for n in stores:
                value = self._name(self.kernel.stores[n].value)
                if n in sums:
                    self._line(f"total{n} += {self._masked(value, ['in_col'])}")
                else:
                    self._store(n, value)
        self.known = before
        for r in reduces:
            self._reduced(r, f"so_far{r}")

    # -- values --------------------------------------------------------------------------------

    def _cone(self, roots: Sequence[int]) -> list[int]:
        """Return the values that others need, without what is known, in order."""
        seen: set[int] = set()
        todo = list(roots)
        while todo:
            number = todo.pop()
            if number not in seen and number not in self.known:
                seen.add(number)
                todo.extend(self.kernel.values[number].args)
        return sorted(seen)

    def _value(self, number: int) -> None:
        """Write one value whose arguments are known."""
        value, values = self.kernel.values[number], self.kernel.values
        if number in self.known or value.op == "const":
            return
        if value.op == "reduce":
            x = self._masked(self._name(value.args[0]), ["in_col"], _start(value))
            return self._reduced(number, x)
        if value.op == "place":
            return self._place(number, value.extra)
        if value.op == "load":
            found = self._load(value)
        elif value.op == "column":
            found = Text("col.to(tl.int64)")
        elif value.op == "cast":
            found = cast(self._name(value.args[0]), values[value.args[0]].dtype, value.dtype)
        else:
            found = apply(value.op, self._arguments(value), [values[a] for a in value.args])
        self.helpers.update(dict.fromkeys(found.needs))
        self.known[number] = f"{'x' if value.op == 'load' else value.op}{number}"
        self._line(f"{self.known[number]} = {found.text}")

    def _arguments(self, value: Value) -> list[str]:
        """Return the arguments of a function; a constant beside a tensor is written in place."""
        given = [self.kernel.values[a] for a in value.args]
        fixed = [v.op == "const" and v.dtype.kind != "b" for v in given]
        if easy_exponent(value.op, given) is not None:
            fixed = [False, True]
        elif value.op not in INLINE or all(fixed[value.op == "where" :]):
            fixed = [False] * len(given)
        return [
            _in_place(v) if is_fixed else self._name(a)
            for a, v, is_fixed in zip(value.args, given, fixed, strict=True)
        ]

    def _reduced(self, number: int, x: str) -> None:
        """Write the reduction of a tile over its columns."""
        value = self.kernel.values[number]
        how, kind = value.extra, value.dtype.kind
        text = f"tl.{how}({x}, axis=1, keep_dims=True)"
        if how == "prod":
            self.helpers[PRODUCT] = None
            text = f"product({x})"
        elif how != "sum" and kind == "f":
            self.helpers[ORDERED] = None
            text = f"{'greatest' if how == 'max' else 'least'}({x})"
        elif kind == "b":
            text = f"tl.{how}(({x}).to(tl.int32), axis=1, keep_dims=True) != 0"
        self.known[number] = f"{how}{number}"
        self._line(f"{how}{number} = {text}")


def _in_place(value: Value) -> str:
    text = literal(KINDS[value.dtype.kind], value.extra)
    return f"({text})" if text.startswith("-") else text


def _held(value: Value) -> str:
    """Return the dtype that a reduction is held in."""
    return "tl.int32" if value.dtype.kind == "b" else DTYPES[value.dtype.name]


def start_of(how: str, dtype: np.dtype[Any]) -> float:
    """Return what a reduction of nothing is.

    >>> start_of("sum", np.dtype("f4")), start_of("max", np.dtype("i4"))
    (0, -2147483648)
    """
    if how in ("sum", "prod"):
        return int(how == "prod")
    if dtype.kind == "f":
        return -np.inf if how == "max" else np.inf
    if dtype.kind == "b":
        return int(how == "min")
    info = np.iinfo(dtype)
    return int(info.min if how == "max" else info.max)


def _start(value: Value) -> str:
    dtype = value.dtype
    kind = "i64" if dtype.kind == "b" else KINDS[dtype.kind]
    return literal(kind, start_of(value.extra, dtype))


def _joined(value: Value, a: str, b: str) -> str:
    """Return two parts of a reduction as one."""
    how, kind = value.extra, value.dtype.kind
    if how in ("sum", "prod"):
        return f"{a} {'+' if how == 'sum' else '*'} {b}"
    nan = NAN if kind == "f" else ""
    b = f"({b}).to(tl.int32)" if kind == "b" else b
    return f"tl.{how}imum({a}, {b}{nan})"

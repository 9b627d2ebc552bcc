"""From a kernel, a pattern and a form to Triton text.

A value is a tile of [ROWS, BLOCK] elements, or of one row or one column of it where it stands still
along the others. Sizes and strides are numbers of the launch, so that another batch runs the same
code; strides of rows are given in units of EVEN, which tells the compiler what can be loaded at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np

from gradwright.errors import LoweringError
from gradwright.fuse.ir import Beyond, Kernel, Level, Named, Store, Value
from gradwright.fuse.layout import Pattern
from gradwright.fuse.schedule import Schedule, schedule

from .elements import DTYPES, INLINE, ORDERED, PRODUCT, Text, apply, cast
from .number import literal
from .tiles import Form, is_sum

HEAD = "import triton\nimport triton.language as tl\n"
_LLVM = {"f": "double", "i": "i64", "u": "i64", "b": "i1"}


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


def pointer(kernel: Kernel, operand: int) -> str:
    """Return what a kernel calls the pointer to an operand."""
    return f"in{operand}" if operand < kernel.n_inputs else f"out{operand}"


def dims_aside(kernel: Kernel, pattern: Pattern, form: Form, number: int) -> list[str]:
    """Return the indices of the memory that a store goes aside to, the last one being its columns."""
    store = kernel.stores[number]
    access = pattern.accesses[store.operand]
    groups = [k for k in range(pattern.n_outer) if k not in form.rows]
    moving = [k for k in range(pattern.n_outer) if access.outer[k]]
    dims = [
        f"i{k}" for k in range(pattern.n_outer) if k in moving or (is_sum(store) and k in groups)
    ]
    if is_sum(store) and any(k not in moving for k in form.rows):
        dims.append("part")
    if access.column != "zero":
        return [*dims, "col"]
    return [*dims, "block"] if is_sum(store) and form.is_split else dims


class _Emitter:
    def __init__(self, kernel: Kernel, pattern: Pattern, form: Form) -> None:
        self.kernel, self.pattern, self.form = kernel, pattern, form
        self.plan: Schedule = schedule(kernel, pattern)
        self.lines: list[str] = []
        self.depth = 1
        self.used: set[str] = set()
        """Numbers of the launch that the text names."""
        self.helpers: dict[str, None] = {}
        self.known: dict[int, str] = {}
        self.spread = self._spreads()
        self.sums: dict[int, str] = {}
        """What has been added up for each store."""
        self.sites = list(dict.fromkeys(v.extra for v in kernel.values if v.op == "place"))
        for store in kernel.stores:
            if store.places:
                raise LoweringError(
                    f"a kernel here does not join to where indices say ({store.mode})",
                    facts=[f"operand {store.operand}"],
                )

    def text(self) -> str:
        """Return the module."""
        self._indices()
        self._whole()
        body = self.lines
        names = [*map(self._pointer, range(len(self.kernel.operands)))]
        names += [f"aside{n}" for n in self.form.aside]
        names += ["alarm"] * bool(self.sites)
        numbers = sorted(self.used, key=_order)
        sizes = [f"{name}: tl.constexpr" for name in ("ROWS", "BLOCK", "EVEN", "INDEX")]
        head = f"def fused({', '.join([*names, *numbers, *sizes])}):"
        helpers = "\n\n".join(["", *self.helpers]) if self.helpers else ""
        return "\n".join([HEAD + helpers, "", "@triton.jit", head, *body, ""])

    # -- text ----------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextlib.contextmanager
    def _loop(self, text: str) -> Iterator[None]:
        self._line(text)
        self.depth += 1
        yield
        self.depth -= 1

    def _n(self, name: str) -> str:
        """Return the name of a number of the launch, which it then has."""
        self.used.add(name)
        return name

    def _pointer(self, operand: int) -> str:
        return pointer(self.kernel, operand)

    # -- where a program is --------------------------------------------------------------------

    def _indices(self) -> None:
        """Write which program this is: groups, outermost first, its part of the rows, its block."""
        form = self.form
        self._line("program = tl.program_id(0).to(INDEX)")
        if form.is_split:
            n = self._n("n_blocks")
            self._line(f"block = program % {n}")
            self._line(f"program = program // {n}")
        if form.rows:
            groups = [k for k in range(self.pattern.n_outer) if k not in form.rows]
            if groups:
                n = self._n("n_parts")
                self._line(f"part = program % {n}")
                self._line(f"program = program // {n}")
            else:
                self._line("part = program")
        groups = [k for k in range(self.pattern.n_outer) if k not in form.rows]
        self._split("program", groups)
        start = "block * BLOCK + " if form.is_split else ""
        if not form.is_chunked:
            self._line(f"col = {start}tl.arange(0, BLOCK)[None, :]")
            self._line(f"in_col = col < {self._n('n_cols')} * EVEN")

    def _split(self, number: str, loops: Sequence[int]) -> None:
        """Write the indices of outer loops, of the number of their turn."""
        for k in reversed(loops[1:]):
            n = self._n(f"o{k}")
            self._line(f"i{k} = {number} % {n}")
            self._line(f"{number} = {number} // {n}")
        if loops:
            self._line(f"i{loops[0]} = {number}")

    def _rows(self, turn: str) -> None:
        self._line(f"row = {turn} * ROWS + tl.arange(0, ROWS)[:, None]")
        self._line(f"in_row = row < {self._n('n_rows')}")
        self._line("inside = in_row & in_col")
        self._split("row", self.form.rows)

    def _whole(self) -> None:
        """Write what a program does: once, or in turns for blocks of rows."""
        form = self.form
        if form.is_chunked:
            return self._chunked()
        summed = [
            n for n, s in enumerate(self.kernel.stores) if form.is_summed and self._crosses(s)
        ]
        if not summed:
            if form.rows:
                self._rows("part")
            return self._tile()
        for n in summed:
            self._start_sum(n)
        if form.rows:
            for number, value in enumerate(self.kernel.values):
                if self._is_needed(number) and not self.spread[number][0] and value.op != "reduce":
                    self._value(number)
            with self._loop(
                f"for turn in range(part, {self._n('n_turns')}, {self._n('n_parts')}):"
            ):
                self._rows("turn")
                self._tile(frozenset(summed))
        else:
            self._tile(frozenset(summed))
        for n in summed:
            self._end_sum(n)

    def _crosses(self, store: Store) -> bool:
        return is_sum(store) and not all(self.pattern.accesses[store.operand].outer)

    # -- a tile in registers -------------------------------------------------------------------

    def _tile(self, summed: frozenset[int] = frozenset()) -> None:
        """Write all values of a tile, then all stores."""
        for number in range(len(self.kernel.values)):
            if self._is_needed(number):
                self._value(number)
        if any(self.pattern.accesses[y].column == "zero" for y, _ in self.kernel.in_place):
            self._line("tl.debug_barrier()  # all threads have read what one of them writes")
        for n, store in enumerate(self.kernel.stores):
            value = self.known[store.value]
            if n in summed:
                self._add(n, value)
            elif is_sum(store) and self.pattern.accesses[store.operand].column == "zero":
                total = self._masked(value, self._inside(store), "0")
                self._store(n, f"tl.sum({total}, axis=1, keep_dims=True)")
            else:
                self._store(n, value)

    def _is_needed(self, number: int) -> bool:
        return number in self._needed

    @property
    def _needed(self) -> set[int]:
        if not hasattr(self, "_cone"):
            self._cone = _cone(self.kernel, [s.value for s in self.kernel.stores])
        return self._cone

    def _inside(self, store: Store) -> str:
        """Return the mask of the elements that a sum has."""
        rows = "in_row" if self.form.rows else ""
        if store.mode == "sum_rows":
            return rows
        return "inside" if rows else "in_col"

    def _masked(self, value: str, mask: str, nothing: str) -> str:
        return f"tl.where({mask}, {value}, {nothing})" if mask else value

    # -- sums over rows ------------------------------------------------------------------------

    def _sum_shape(self, n: int) -> str:
        rows = "ROWS" if self.form.rows else "1"
        return f"({rows}, 1)" if self.kernel.stores[n].mode == "sum_rows" else f"({rows}, BLOCK)"

    def _start_sum(self, n: int) -> None:
        dtype = DTYPES[self.kernel.values[self.kernel.stores[n].value].dtype.name]
        self._line(f"sum{n} = tl.full({self._sum_shape(n)}, 0, {dtype})")

    def _add(self, n: int, value: str) -> None:
        masked = self._masked(value, self._inside(self.kernel.stores[n]), "0")
        self._line(f"sum{n} += {masked}")

    def _end_sum(self, n: int) -> None:
        total = f"sum{n}"
        store = self.kernel.stores[n]
        if store.mode == "sum" and self.pattern.accesses[store.operand].column == "zero":
            total = f"tl.sum({total}, axis=1, keep_dims=True)"
        if self.form.rows:
            total = f"tl.sum({total}, axis=0, keep_dims=True)"
        self._store(n, total, is_total=True)

    # -- rows in chunks ------------------------------------------------------------------------

    def _chunked(self) -> None:
        """Write the passes over a row that is too wide for registers, each a loop over chunks."""
        kernel, plan = self.kernel, self.plan
        self._row_values(0)
        for p in range(len(plan.stores)):
            plain, seldom = plan.reduces[p], plan.seldom[p]
            sums = [n for n, s in enumerate(kernel.stores) if s in plan.sums[p]]
            stores = [n for n, s in enumerate(kernel.stores) if s in plan.stores[p]]
            if plain or sums or stores:
                self._pass(plain, sums, stores)
            if seldom:
                needs = " | ".join(self.known[kernel.values[r].args[1]] for r in seldom)
                last = f"{self._n('n_cols')} * EVEN * tl.max(tl.max(({needs}).to(tl.int32), 1), 0)"
                self._pass(seldom, [], [], last)
            self._row_values(p + 1)
        if any(self.pattern.accesses[y].column == "zero" for y, _ in kernel.in_place):
            self._line("tl.debug_barrier()  # all threads have read what one of them writes")
        for n, store in enumerate(kernel.stores):
            if self.pattern.accesses[store.operand].column == "zero":
                is_plain = store.mode == "sum"
                self._store(n, self.sums[n] if is_plain else self.known[store.value])

    def _row_values(self, ready: int) -> None:
        for number, value in enumerate(self.kernel.values):
            is_row = self.plan.levels[number] < Level.ELEMENT and value.op != "reduce"
            if is_row and self.plan.ready[number] == ready and self._is_needed(number):
                self._value(number)

    def _pass(
        self, reduces: Sequence[int], sums: Sequence[int], stores: Sequence[int], last: str = ""
    ) -> None:
        """Write one loop over the chunks of a row."""
        kernel, before = self.kernel, dict(self.known)
        for r in reduces:
            value = kernel.values[r]
            start = f"tl.full((1, BLOCK), {_start(value)}, {DTYPES[_held(value.dtype)]})"
            self._line(f"so_far{r} = {start}")
        for n in sums:
            dtype = DTYPES[kernel.values[kernel.stores[n].value].dtype.name]
            self._line(f"sum{n} = tl.full((1, BLOCK), 0, {dtype})")
        last = last or f"{self._n('n_cols')} * EVEN"
        with self._loop(f"for first in range(0, {last}, BLOCK):"):
            self._line("col = first + tl.arange(0, BLOCK)[None, :]")
            self._line(f"in_col = col < {self._n('n_cols')} * EVEN")
            roots = [kernel.values[r].args[0] for r in reduces]
            roots += [kernel.stores[n].value for n in (*sums, *stores)]
            for number in sorted(_cone(kernel, roots, stop=self.known)):
                self._value(number)
            for r in reduces:
                value = kernel.values[r]
                x = self._masked(self.known[value.args[0]], "in_col", _start(value))
                self._line(f"so_far{r} = {_joined(value.extra, value.dtype, f'so_far{r}', x)}")
            for n in sums:
                self._line(f"sum{n} += tl.where(in_col, {self.known[kernel.stores[n].value]}, 0)")
            for n in stores:
                self._store(n, self.known[kernel.stores[n].value])
        self.known = before
        for r in reduces:
            self._reduced(r, f"so_far{r}")
        for n in sums:
            self.sums[n] = f"tl.sum(sum{n}, axis=1, keep_dims=True)"

    # -- values --------------------------------------------------------------------------------

    def _value(self, number: int) -> None:
        """Write one value whose arguments are known."""
        if number in self.known:
            return
        value = self.kernel.values[number]
        dtype = value.dtype
        name = "x" if value.op == "load" else value.op
        if value.op == "reduce":
            start = _start(value)
            x = f"tl.where(in_col, {self.known[value.args[0]]}, {start})"
            return self._reduced(number, x)
        if value.op == "load":
            found = self._load(value)
        elif value.op == "const":
            text = literal(_LLVM[dtype.kind], value.extra)
            found = Text(f"tl.full((1, 1), {text}, {DTYPES[dtype.name]})")
        elif value.op == "column":
            found = Text("col.to(tl.int64)")
        elif value.op == "place":
            return self._place(number, value.extra)
        elif value.op == "cast":
            found = cast(self.known[value.args[0]], self.kernel.values[value.args[0]].dtype, dtype)
        else:
            found = apply(value.op, *self._arguments(value))
        self.helpers.update(dict.fromkeys(found.needs))
        self.known[number] = f"{name}{number}"
        self._line(f"{name}{number} = {found.text}")

    def _arguments(self, value: Value) -> tuple[list[str], list[Value]]:
        """Return the arguments of a function; constants beside a tensor are part of the line."""
        given = [self.kernel.values[a] for a in value.args]
        names = [self.known[a] for a in value.args]
        fixed = [v.op == "const" and v.dtype.kind != "b" for v in given]
        if value.op in INLINE and not all(fixed[value.op == "where" :]):
            for i, v in enumerate(given):
                if fixed[i]:
                    text = literal(_LLVM[v.dtype.kind], v.extra)
                    names[i] = f"({text})" if text.startswith("-") else text
        return names, given

    def _reduced(self, number: int, x: str) -> None:
        """Write the reduction of a tile over its columns."""
        value = self.kernel.values[number]
        how, name = value.extra, f"{value.extra}{number}"
        if how == "prod":
            self.helpers[PRODUCT] = None
            text = f"product({x})"
        elif how == "sum":
            text = f"tl.sum({x}, axis=1, keep_dims=True)"
        elif value.dtype.kind == "f":
            self.helpers[ORDERED] = None
            text = f"{'greatest' if how == 'max' else 'least'}({x})"
        else:
            held = f"({x}).to(tl.int32)" if value.dtype.kind == "b" else x
            text = f"tl.{how}({held}, axis=1, keep_dims=True)"
            text += " != 0" if value.dtype.kind == "b" else ""
        self.known[number] = name
        self._line(f"{name} = {text}")

    def _place(self, number: int, named: Named) -> None:
        """Write how far a place is from the first one; an index that names none is told of."""
        value = self.kernel.values[number]
        index = self.known[value.args[0]]
        size = self._n(f"n{named.operand}_{named.axis}")
        stride = self._n(f"t{named.operand}_{named.axis}")
        at, code = f"place{number}", f"code{number}"
        self._line(f"{at} = {index}.to(tl.int64)")
        if named.beyond is not Beyond.LEFT_OUT:
            self._line(f"{at} = tl.where({at} < 0, {at} + {size}, {at})")
        rows, columns = self.spread[number]
        there = [m for m, s in (("in_row", rows and self.form.rows), ("in_col", columns)) if s]
        wrong = f"(({at} < 0) | ({at} >= {size}))"
        if there:
            wrong += f" & {' & '.join(there)}"
        told = f"tl.abs({index}.to(tl.int64)) * 2 + ({index} < 0).to(tl.int64) + 1"
        self._line(f"{code} = tl.max(tl.max(tl.where({wrong}, {told}, 0), 1), 0)")
        with self._loop(f"if {code} > 0:"):
            self._line(f"tl.atomic_max(alarm + {self.sites.index(named)}, {code})")
        inside = f"({at} >= 0) & ({at} < {size})"
        self._line(f"{at} = tl.where({inside}, {at}, 0) * {stride}")
        self.known[number] = at

    # -- memory --------------------------------------------------------------------------------

    def _spreads(self) -> list[tuple[bool, bool]]:
        """Return for each value whether it has rows and columns of its own in a tile."""
        found: list[tuple[bool, bool]] = []
        for value in self.kernel.values:
            rows, columns = False, value.op == "column"
            for a in value.args:
                rows, columns = rows or found[a][0], columns or found[a][1]
            if value.op == "load":
                access = self.pattern.accesses[value.extra]
                rows = rows or any(access.outer[k] for k in self.form.rows)
                columns = columns or access.column != "zero"
            found.append((rows, columns and value.op != "reduce"))
        return found

    def _address(self, operand: int) -> tuple[str, list[str]]:
        """Return where an operand is in this tile, and the masks of its rows and columns."""
        access = self.pattern.accesses[operand]
        terms, masks = [self._pointer(operand)], []
        if any(access.outer[k] for k in self.form.rows):
            masks.append("in_row")
        for k, moves in enumerate(access.outer):
            if moves:
                even = " * EVEN" if access.column == "unit" else ""
                terms.append(f"i{k} * {self._n(f's{operand}_{k}')}{even}")
        if access.column != "zero":
            masks.append("in_col")
            stride = f" * {self._n(f's{operand}_c')}" if access.column == "strided" else ""
            terms.append(f"col{stride}")
        return " + ".join(terms), ["inside"] if len(masks) == 2 else masks

    def _load(self, value: Value) -> Text:
        where, masks = self._address(value.extra)
        for a in value.args:
            where += f" + {self.known[a]}"
            rows, columns = self.spread[a]
            masks += [m for m, s in (("in_row", rows), ("in_col", columns)) if s]
        masks = list(dict.fromkeys(masks))
        if not masks:
            tile = "" if value.args else " + tl.zeros((1, 1), tl.int32)"
            return Text(f"tl.load({where}{tile})")
        return Text(f"tl.load({where}, mask={' & '.join(masks)}, other=0)")

    def _store(self, n: int, value: str, is_total: bool = False) -> None:
        """Write a value to its operand, or aside; of several that have it one program writes it."""
        store = self.kernel.stores[n]
        access = self.pattern.accesses[store.operand]
        rows = [k for k in self.form.rows if access.outer[k]] and not is_total
        columns = access.column != "zero"
        where, masks = self._address(store.operand)
        dtype = DTYPES[self.kernel.operands[store.operand].dtype.name]
        aside = n in self.form.aside
        dims = dims_aside(self.kernel, self.pattern, self.form, n) if aside else []
        if aside:
            terms = [f"{d} * {self._n(f'a{n}_{d}')}" for d in dims[:-1]]
            terms += [dims[-1]] if dims else []
            where = " + ".join([f"aside{n}", *terms])
            dtype = DTYPES[self.kernel.values[store.value].dtype.name]
        if is_total and not columns:
            masks = []
        elif is_total:
            masks = ["in_col"]
        masks += self._first(n, dims)
        if is_sum(store) and store.mode == "sum" and not columns and not masks:
            pass
        shape = f"({'ROWS' if rows else '1'}, {'BLOCK' if columns else '1'})"
        if not rows and not columns:
            where += " + tl.zeros((1, 1), tl.int32)"
        mask = f", mask={' & '.join(masks)}" if masks else ""
        value = (
            value
            if self.kernel.values[store.value].dtype == self._stored(n, aside)
            else f"({value}).to({dtype})"
        )
        self._line(f"tl.store({where}, tl.broadcast_to({value}, {shape}){mask})")

    def _stored(self, n: int, aside: bool) -> np.dtype:
        store = self.kernel.stores[n]
        return (
            self.kernel.values[store.value].dtype
            if aside
            else self.kernel.operands[store.operand].dtype
        )

    def _first(self, n: int, dims: Sequence[str]) -> list[str]:
        """Return masks that leave one program, and one row of it, of all that have the same."""
        store = self.kernel.stores[n]
        access = self.pattern.accesses[store.operand]
        found = []
        if not is_sum(store):
            still = [k for k, moves in enumerate(access.outer) if not moves]
            # rows of the tile that stand still are not spread: the first of each program writes
            for k in still:
                if k not in self.form.rows:
                    found.append(f"(i{k} == 0)")
            if any(k in self.form.rows for k in still):
                rows_still = [k for k in still if k in self.form.rows]
                if len(rows_still) == len(self.form.rows):
                    found.append("(part == 0)")
                    if self.form.is_summed:
                        found.append("(turn == 0)")
                else:
                    found += [f"(i{k} == 0)" for k in rows_still]
            if access.column == "zero" and self.form.is_split:
                found.append("(block == 0)")
        return found


def _cone(kernel: Kernel, roots: Sequence[int], stop: dict[int, str] | None = None) -> set[int]:
    """Return the values that others need, without what is known."""
    seen: set[int] = set()
    todo = list(roots)
    while todo:
        number = todo.pop()
        if number not in seen and number not in (stop or {}):
            seen.add(number)
            todo.extend(kernel.values[number].args)
    return seen


def _order(name: str) -> tuple[int, str]:
    kinds = ("n_", "o", "s", "n", "t", "a")
    return next((i for i, k in enumerate(kinds) if name.startswith(k)), 9), name


def _held(dtype: np.dtype) -> str:
    return "int32" if dtype.kind == "b" else dtype.name


def _start(value: Value) -> str:
    """Return the text of what a reduction of nothing is."""
    how, dtype = value.extra, value.dtype
    if how in ("sum", "prod"):
        return str(int(how == "prod"))
    if dtype.kind == "f":
        return 'float("-inf")' if how == "max" else 'float("inf")'
    if dtype.kind == "b":
        return str(int(how == "min"))
    info = np.iinfo(dtype)
    return str(int(info.min if how == "max" else info.max))


def _joined(how: str, dtype: np.dtype, a: str, b: str) -> str:
    if how in ("sum", "prod"):
        return f"{a} {'+' if how == 'sum' else '*'} {b}"
    name = "maximum" if how == "max" else "minimum"
    nan = ", propagate_nan=tl.PropagateNan.ALL" if dtype.kind == "f" else ""
    b = f"({b}).to(tl.int32)" if dtype.kind == "b" else b
    return f"tl.{name}({a}, {b}{nan})"

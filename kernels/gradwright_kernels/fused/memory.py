"""How the text of a kernel finds memory: indices of a program, addresses, masks, stores, places.

A value is a tile of [ROWS, BLOCK] elements, or of one row or one column of it where it stands still
along the others. Sizes and strides are numbers of the launch, so that another batch runs the same
code; strides of rows come in units of EVEN, which tells the compiler what can be loaded at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from gradwright.fuse.ir import Kernel, Named, Value
from gradwright.fuse.layout import Pattern

from .elements import DTYPES, Text
from .number import literal
from .tiles import Form, is_sum

ORIGIN = "tl.zeros((1, 1), tl.int32)"
"""Makes a tile of one pointer."""
FARTHEST = 1 << 61
"""The largest index that is told as it is: twice it, and a sign, are an int64."""
KINDS = {"f": "double", "i": "i64", "u": "u64", "b": "i1"}
"""The type, in LLVM's words, that a constant of each kind of dtype is written as."""


def pointer(kernel: Kernel, operand: int) -> str:
    """Return what a kernel calls the pointer to an operand."""
    return f"in{operand}" if operand < kernel.n_inputs else f"out{operand}"


def groups_of(pattern: Pattern, form: Form) -> list[int]:
    """Return the outer loops of which a program has one turn."""
    return [k for k in range(pattern.n_outer) if k not in form.rows]


def dims_aside(kernel: Kernel, pattern: Pattern, form: Form, number: int) -> list[str]:
    """Return the indices of the memory that a store goes aside to, its columns last.

    It has a place for everything that moves, and for each program that has a part of a sum.
    """
    store = kernel.stores[number]
    access = pattern.accesses[store.operand]
    moving = {k for k in range(pattern.n_outer) if access.outer[k]}
    apart = moving.union(groups_of(pattern, form) if is_sum(store) else ())
    dims = [f"i{k}" for k in sorted(apart)]
    if is_sum(store) and not moving.issuperset(form.rows):
        dims.append("part")
    if access.column != "zero":
        return [*dims, "col"]
    return [*dims, "block"] if is_sum(store) and form.is_split else dims


class Memory:
    """The memory of a kernel whose text is being written."""

    def __init__(self, kernel: Kernel, pattern: Pattern, form: Form) -> None:
        self.kernel, self.pattern, self.form = kernel, pattern, form
        self.lines: list[str] = []
        self.depth = 1
        self.numbers: set[str] = set()
        """Numbers of the launch that the text names."""
        self.known: dict[int, str] = {}
        """The names of values that have been written."""
        self.spread = self._spreads()
        self.sites = list(dict.fromkeys(v.extra for v in kernel.values if v.op == "place"))

    # -- text ----------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextlib.contextmanager
    def _block(self, text: str) -> Iterator[None]:
        self._line(text)
        self.depth += 1
        yield
        self.depth -= 1

    def _n(self, name: str) -> str:
        """Return the name of a number of the launch, which the kernel then has."""
        self.numbers.add(name)
        return name

    def _name(self, number: int) -> str:
        """Return the name of a value; constants are written where somebody needs their name."""
        if number not in self.known:
            value = self.kernel.values[number]
            text = literal(KINDS[value.dtype.kind], value.extra)
            self.known[number] = f"const{number}"
            self._line(f"const{number} = tl.full((1, 1), {text}, {DTYPES[value.dtype.name]})")
        return self.known[number]

    # -- where a program is --------------------------------------------------------------------

    def _indices(self) -> None:
        """Write which program this is: its groups, its part of their rows, its block of columns."""
        form, groups = self.form, groups_of(self.pattern, self.form)
        if form.is_several:
            return self._table()
        self._line("program = tl.program_id(0).to(INDEX)")
        inner = ["block"] * form.is_split + ["part"] * bool(form.rows)
        for at, name in enumerate(inner):
            if at == len(inner) - 1 and not groups:
                self._line(f"{name} = program")
                continue
            n = self._n(f"n_{name}s")
            self._line(f"{name} = program % {n}")
            self._line(f"program = program // {n}")
        self._divide("program", groups)
        if not form.is_chunked:
            self._columns("block * BLOCK" if form.is_split else "")

    def _table(self) -> None:
        """Write which arrays this program works on, and which part of them, by a table."""
        operands = self.kernel.operands
        self._line("program = tl.program_id(0)")
        self._line(f"entry = table + tl.load(of + program).to(tl.int64) * {2 + len(operands)}")
        self._line("block = (program - tl.load(entry)).to(INDEX)")
        self._line("n_cols = (tl.load(entry + 1) // EVEN).to(INDEX)")
        for i, operand in enumerate(operands):
            name, kind = pointer(self.kernel, i), DTYPES[operand.dtype.name]
            address = f"tl.load(entry + {2 + i}).to(tl.pointer_type({kind}))"
            self._line(f"{name} = tl.multiple_of({address}, 16)")
        self._columns("block * BLOCK")
        self.numbers.clear()

    def _divide(self, number: str, loops: Sequence[int]) -> None:
        """Write the indices of outer loops, of the number of their turn."""
        for k in reversed(loops[1:]):
            n = self._n(f"o{k}")
            self._line(f"i{k} = {number} % {n}")
            self._line(f"{number} = {number} // {n}")
        if loops:
            self._line(f"i{loops[0]} = {number}")

    def _columns(self, start: str) -> None:
        self._line(f"col = {start + ' + ' if start else ''}tl.arange(0, BLOCK)[None, :]")
        self._line(f"in_col = col < {self._n('n_cols')} * EVEN")

    def _rows(self, turn: str) -> None:
        self._line(f"row = {turn} * ROWS + tl.arange(0, ROWS)[:, None]")
        self._line(f"in_row = row < {self._n('n_rows')}")
        self._line("inside = in_row & in_col")
        self._divide("row", self.form.rows)

    def _masks(self, rows: bool, columns: bool) -> list[str]:
        """Return the masks of a tile that has rows, columns or both."""
        rows = rows and bool(self.form.rows)
        if rows and columns:
            return ["inside"]
        return ["in_row"] * rows + ["in_col"] * columns

    def _spreads(self) -> list[tuple[bool, bool]]:
        """Return for each value whether it has rows and columns of its own in a tile."""
        found: list[tuple[bool, bool]] = []
        for value in self.kernel.values:
            rows, columns = False, value.op == "column"
            for a in value.args:
                rows, columns = rows or found[a][0], columns or found[a][1]
            if value.op == "load":
                more = self._walks(value.extra)
                rows, columns = rows or more[0], columns or more[1]
            found.append((rows, columns and value.op != "reduce"))
        return found

    def _walks(self, operand: int) -> tuple[bool, bool]:
        """Return whether an operand moves along the rows of a tile, and along its columns."""
        access = self.pattern.accesses[operand]
        return any(access.outer[k] for k in self.form.rows), access.column != "zero"

    # -- loads and stores ----------------------------------------------------------------------

    def _address(self, operand: int) -> str:
        """Return where an operand is in this tile."""
        access = self.pattern.accesses[operand]
        even = " * EVEN" if access.column == "unit" else ""
        terms = [pointer(self.kernel, operand)]
        for k, moves in enumerate(access.outer):
            if moves:
                terms.append(f"i{k} * {self._n(f's{operand}_{k}')}{even}")
        if access.column == "unit":
            terms.append("col")
        elif access.column == "strided":
            terms.append(f"col * {self._n(f's{operand}_c')}")
        return " + ".join(terms)

    def _load(self, value: Value) -> Text:
        """Return what loads an operand, or what lies at places in it."""
        rows, columns = self._walks(value.extra)
        for place in value.args:
            rows, columns = rows or self.spread[place][0], columns or self.spread[place][1]
        where = " + ".join([self._address(value.extra), *map(self._name, value.args)])
        masks = self._masks(rows, columns)
        if masks:
            return Text(f"tl.load({where}, mask={masks[0]}, other=0)")
        return Text(f"tl.load({where} + {ORIGIN})")

    def _store(self, n: int, value: str) -> None:
        """Write a value to its operand, or aside; of programs that have the same one writes it."""
        store = self.kernel.stores[n]
        operand, dtype = self.kernel.operands[store.operand], self.kernel.values[store.value].dtype
        rows, columns = self._walks(store.operand)
        where = self._address(store.operand)
        if n in self.form.aside:
            *outer, last = dims_aside(self.kernel, self.pattern, self.form, n) or [ORIGIN]
            terms = [f"{d} * {self._n(f'a{n}_{d}')}" for d in outer]
            where = " + ".join([f"aside{n}", *terms, last])
        elif dtype != operand.dtype:
            value = f"({value}).to({DTYPES[operand.dtype.name]})"
        shape = f"({'ROWS' if rows else '1'}, {'BLOCK' if columns else '1'})"
        if not rows and not columns and ORIGIN not in where:
            where += f" + {ORIGIN}"
        programs, turns = ([], []) if is_sum(store) else self._first(store.operand)
        masks = self._masks(rows, columns) + turns
        mask = f", mask={' & '.join(masks)}" if masks else ""
        line = f"tl.store({where}, tl.broadcast_to({value}, {shape}){mask})"
        with self._block(f"if {' & '.join(programs)}:") if programs else contextlib.nullcontext():
            self._line(line)

    def _first(self, operand: int) -> tuple[list[str], list[str]]:
        """Return tests that leave one of all programs, and masks of rows, that have the same."""
        access, rows = self.pattern.accesses[operand], self.form.rows
        still = [k for k, moves in enumerate(access.outer) if not moves]
        programs = [f"(i{k} == 0)" for k in still if k not in rows]
        is_one = bool(rows) and set(rows) <= set(still)
        if is_one:
            programs += ["(part == 0)", *["(turn == 0)"] * self.form.is_summed]
        if access.column == "zero" and self.form.is_split:
            programs.append("(block == 0)")
        return programs, [f"(i{k} == 0)" for k in still if k in rows and not is_one]

    def _place(self, number: int, named: Named) -> None:
        """Write how far a place is from the first one; an index that names none is told of."""
        index = self._name(self.kernel.values[number].args[0])
        size = self._n(f"n{named.operand}_{named.axis}")
        stride = self._n(f"t{named.operand}_{named.axis}")
        at, code = f"place{number}", f"code{number}"
        self._line(f"{at} = {index}.to(tl.int64)")
        told = f"tl.minimum(tl.abs({at}), {FARTHEST}) * 2 + ({at} < 0).to(tl.int64) + 1"
        self._line(f"{code} = {told}")
        self._line(f"{at} = tl.where({at} < 0, {at} + {size}, {at})")
        self._line(f"there{number} = ({at} >= 0) & ({at} < {size})")
        masks = [f"(there{number} == 0)", *self._masks(*self.spread[number])]
        self._line(f"{code} = tl.max(tl.max(tl.where({' & '.join(masks)}, {code}, 0), 1), 0)")
        with self._block(f"if {code} > 0:"):
            self._line(f"tl.atomic_max(alarm + {self.sites.index(named)}, {code})")
        self._line(f"{at} = tl.where(there{number}, {at}, 0) * {stride}")
        self.known[number] = at

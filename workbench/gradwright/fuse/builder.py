"""How kernels are written: terms with Python's operators, equal ones computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..program.declined import DeclinedError
from ..spec import is_half
from .functions import FUNCTIONS, KEEPING
from .ir import Beyond, Kernel, Level, Named, Operand, Store, Value

BOOL, INT64, FLOAT32, FLOAT64 = map(np.dtype, ("bool", "int64", "float32", "float64"))

Axes = tuple[int, ...]
"""The axes of the index space along which a tensor moves; −1 and below are the first place, the
second… that indices name in it."""


def working(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which values of ``dtype`` are computed: float32 for halves."""
    return FLOAT32 if is_half(dtype) else dtype


class Term:
    """A value of the kernel being built; numbers beside it become constants of its dtype."""

    __slots__ = ("builder", "dtype", "level", "number")

    def __init__(self, builder: Builder, number: int, dtype: np.dtype[Any], level: Level) -> None:
        self.builder, self.number, self.dtype, self.level = builder, number, dtype, level

    def __add__(self, other: Any) -> Term:
        return self.builder.call("add", self, other)

    def __radd__(self, other: Any) -> Term:
        return self.builder.call("add", other, self)

    def __sub__(self, other: Any) -> Term:
        return self.builder.call("sub", self, other)

    def __rsub__(self, other: Any) -> Term:
        return self.builder.call("sub", other, self)

    def __mul__(self, other: Any) -> Term:
        return self.builder.call("mul", self, other)

    def __rmul__(self, other: Any) -> Term:
        return self.builder.call("mul", other, self)

    def __truediv__(self, other: Any) -> Term:
        return self.builder.call("div", self, other)

    def __rtruediv__(self, other: Any) -> Term:
        return self.builder.call("div", other, self)

    def __neg__(self) -> Term:
        return self.builder.call("neg", self)

    def __lt__(self, other: Any) -> Term:
        return self.builder.call("lt", self, other)

    def __le__(self, other: Any) -> Term:
        return self.builder.call("le", self, other)

    def __gt__(self, other: Any) -> Term:
        return self.builder.call("gt", self, other)

    def __ge__(self, other: Any) -> Term:
        return self.builder.call("ge", self, other)

    def __and__(self, other: Any) -> Term:
        return self.builder.call("and", self, other)

    def __or__(self, other: Any) -> Term:
        return self.builder.call("or", self, other)

    def __invert__(self) -> Term:
        return self.builder.call("not", self)

    @property
    def constant(self) -> Any:
        """The number that a constant is, None of other terms."""
        value = self.builder.values[self.number]
        return value.extra if value.op == "const" else None

    def to(self, dtype: np.dtype[Any]) -> Term:
        """Return the term in another dtype."""
        return self.builder.cast(self, dtype)

    def reduce(self, how: str, needed: Term | None = None) -> Term:
        """Return the sum, max, min or prod over the columns of each row, or of rows in need."""
        return self.builder.reduce(self, how, needed)


class Builder:
    """Collects operands and values of a kernel over ``rank`` axes, the last of them columns.

    >>> b = Builder(2, 1)
    >>> x = b.load(0, (0, 1), np.dtype("float32"))
    >>> e = b.call("exp", x - x.reduce("max"))
    >>> kernel, reads = b.kernel([(e / e.reduce("sum"), (0, 1), "set", x.dtype)])
    >>> len(kernel.values), reads
    (6, [0])
    """

    def __init__(self, rank: int, n_columns: int) -> None:
        self.rank, self.n_columns = rank, n_columns
        self.values: list[Value] = []
        self.loads: list[tuple[Any, Axes]] = []
        self._dtypes: list[np.dtype[Any]] = []
        self._known: dict[Any, Term] = {}
        self._held: dict[tuple[int, np.dtype[Any]], bool] = {}
        self.has_one_column = False
        """Whether rows of what is built now are single elements, whose axis no space has."""

    # -- terms ---------------------------------------------------------------------------------

    def load(
        self, source: Any, axes: Axes, dtype: np.dtype[Any], indices: Sequence[Term] = ()
    ) -> Term:
        """Return the elements of a source that moves along ``axes``; halves become float32.

        ``indices`` name the places of its negative axes.
        """
        key = "load", source, axes, tuple(i.number for i in indices)
        if key not in self._known:
            level, last = Level.SCALAR, max(axes, default=-1)
            if last >= 0:
                level = Level.ELEMENT if last >= self.rank - self.n_columns else Level.ROW
            self.loads.append((source, axes))
            self._dtypes.append(dtype)
            number = len(self.loads) - 1
            places = self._places(indices, number, Beyond.FIRST)
            level = max([level, *(place.level for place in places)])
            args = tuple(place.number for place in places)
            made = self._add("load", args, dtype, level, number)
            self._known[key] = self.cast(made, working(dtype))
        return self._known[key]

    def _places(self, indices: Sequence[Term], operand: int, beyond: Beyond) -> list[Term]:
        return [
            self._add("place", (i.number,), INT64, i.level, Named(operand, axis, beyond))
            for axis, i in enumerate(indices)
        ]

    def const(self, number: Any, dtype: np.dtype[Any]) -> Term:
        """Return a constant; −0.0 is the negative of 0.0, so that equal kernels are the same."""
        number = dtype.type(number).item()
        if number == 0 and dtype.kind == "f" and np.signbit(number):
            return -self.const(0.0, dtype)
        return self._add("const", (), dtype, Level.SCALAR, np.nan if number != number else number)

    def column(self) -> Term:
        """Return the index along the columns."""
        if self.has_one_column:
            return self.const(0, INT64)
        return self._add("column", (), INT64, Level.ELEMENT)

    def cast(self, x: Term, dtype: np.dtype[Any]) -> Term:
        """Return a term in another dtype."""
        if x.dtype == dtype:
            return x
        value = self.values[x.number]
        if value.op == "const" and dtype in (FLOAT32, FLOAT64):
            return self.const(value.extra, dtype)
        if value.op == "cast" and self.values[value.args[0]].dtype == dtype and is_half(dtype):
            return Term(self, value.args[0], dtype, x.level)  # widened, and now as it was
        return self._add("cast", (x.number,), dtype, x.level)

    def rounded(self, x: Term, dtype: np.dtype[Any]) -> Term:
        """Return the result of an op as a tensor of ``dtype`` holds it, in its working dtype."""
        if not is_half(dtype) or self._is_held(x.number, dtype):
            return x.to(working(dtype))
        return x.to(dtype).to(FLOAT32)

    def _is_held(self, number: int, dtype: np.dtype[Any]) -> bool:
        """Tell whether a half holds a value as it is: nothing but choices and signs made it."""
        found = self._held.get((number, dtype))
        if found is None:
            found = self._held[number, dtype] = self._find_held(self.values[number], dtype)
        return found

    def _find_held(self, value: Value, dtype: np.dtype[Any]) -> bool:
        if value.op == "const":
            return bool(value.extra != value.extra or dtype.type(value.extra) == value.extra)
        if value.op == "cast":
            return value.dtype == FLOAT32 and self.values[value.args[0]].dtype in (dtype, BOOL)
        chosen = value.args[1:] if value.op == "where" else value.args
        return value.op in KEEPING and all(self._is_held(a, dtype) for a in chosen)

    def call(self, name: str, *args: Any) -> Term:
        """Return an element function of terms of one dtype, and of numbers."""
        function = FUNCTIONS[name]
        alike = args[1:] if name == "where" else args
        dtype = next(a.dtype for a in alike if isinstance(a, Term))
        terms = [a if isinstance(a, Term) else self.const(a, dtype) for a in args]
        if any(t.dtype != dtype for t in terms[-len(alike) :]) or dtype.kind not in function.kinds:
            raise DeclinedError(f"{name} of {', '.join(t.dtype.name for t in terms)}")
        level = max(t.level for t in terms)
        return self._add(name, tuple(t.number for t in terms), function.result(dtype), level)

    def reduce(self, x: Term, how: str, needed: Term | None = None) -> Term:
        """Return a reduction over the columns of each row; all but ``needed`` may be skipped."""
        if self.has_one_column:
            return x
        args = (x.number,) if needed is None else (x.number, needed.number)
        return self._add("reduce", args, x.dtype, Level.ROW, how)

    def _add(
        self, op: str, args: tuple[int, ...], dtype: np.dtype[Any], level: Level, extra: Any = None
    ) -> Term:
        key = op, args, dtype, type(extra), extra
        if key not in self._known:
            self.values.append(Value(op, args, dtype, level, extra))
            self._known[key] = Term(self, len(self.values) - 1, dtype, level)
        return self._known[key]

    # -- the kernel ----------------------------------------------------------------------------

    def kernel(
        self, stores: Sequence[tuple[Term | Scatter, Axes, str, np.dtype[Any]]]
    ) -> tuple[Kernel, list[Any]]:
        """Return the kernel that stores (term, axes, mode, dtype), and the sources it loads.

        What is scattered says itself in which way; its mode is then "sum_rows" if it is by row.
        """
        stored: list[tuple[Term, Axes, np.dtype[Any], Store]] = []
        starts: list[int] = []
        for i, (t, axes, mode, d) in enumerate(stores):
            if isinstance(t, Scatter):
                places = tuple(p.number for p in self._places(t.indices, ~i, t.beyond))
                start = None if t.onto is None else self._start(t.onto)
                starts += [] if start is None else [start]
                store = Store(i, t.term.number, t.how, places, mode == "sum_rows", start)
                stored.append((t.term, axes, d, store))
                continue
            t = self.cast(t, d) if mode == "set" else t
            stored.append((t, axes, d, Store(i, t.number, mode)))
        needed = {n for *_, store in stored for n in (store.value, *store.places)}
        for number in range(len(self.values) - 1, -1, -1):
            if number in needed:
                needed.update(self.values[number].args)
        renumbered: dict[int, int] = {}
        values: list[Value] = []
        inputs: list[int] = []
        for number, value in enumerate(self.values):
            if number not in needed:
                continue
            extra = value.extra
            if value.op == "load":
                inputs.append(extra)
                extra = len(inputs) - 1
            args = tuple(renumbered[a] for a in value.args)
            renumbered[number] = len(values)
            values.append(Value(value.op, args, value.dtype, value.level, extra))
        inputs += starts
        place = {load: at for at, load in enumerate(inputs)}
        for number, value in enumerate(values):
            if value.op == "place":
                of = value.extra.operand
                named = replace(value.extra, operand=place[of] if of >= 0 else len(inputs) + ~of)
                values[number] = replace(value, extra=named)
        operands = [self._operand(self._dtypes[i], self.loads[i][1]) for i in inputs]
        operands += [self._operand(d, axes) for _, axes, d, _ in stored]
        kernel = Kernel(
            self.rank,
            self.n_columns,
            tuple(operands),
            len(inputs),
            tuple(values),
            tuple(
                replace(
                    store,
                    operand=len(inputs) + store.operand,
                    value=renumbered[store.value],
                    places=tuple(renumbered[p] for p in store.places),
                    start=None if store.start is None else place[store.start],
                )
                for *_, store in stored
            ),
        )
        return kernel, [self.loads[i][0] for i in inputs]

    def _start(self, table: Table) -> int:
        """Return the number of a table as an input that no value loads."""
        self.loads.append((table.source, table.axes))
        self._dtypes.append(table.dtype)
        return len(self.loads) - 1

    def _operand(self, dtype: np.dtype[Any], axes: Axes) -> Operand:
        named = tuple(axes.index(-1 - k) for k in range(sum(a < 0 for a in axes)))
        return Operand(dtype, tuple(i in axes for i in range(self.rank)), named)

    # -- sizes ---------------------------------------------------------------------------------

    def scalar(self, number: float, dtype: np.dtype[Any]) -> Term:
        """Return a number that is read, not compiled in: sizes, so that all share one kernel."""
        return self.load(Scalar(number, dtype), (), dtype)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A source that is a number."""

    number: float
    dtype: np.dtype[Any]


@dataclass(frozen=True, slots=True)
class Table:
    """A source of which indices name places, one for each negative axis."""

    builder: Builder
    source: Any
    axes: Axes
    dtype: np.dtype[Any]

    def at(self, *indices: Term) -> Term:
        """Return what lies at the places."""
        return self.builder.load(self.source, self.axes, self.dtype, indices)


@dataclass(frozen=True, slots=True)
class Scatter:
    """A term that goes to the places which indices name: ``how`` it is joined to what is there.

    That is at first what lies ``onto``, else the reduction of nothing.
    """

    term: Term
    indices: tuple[Term, ...]
    how: str
    beyond: Beyond = Beyond.NOWHERE
    onto: Table | None = None


def where(condition: Term, a: Any, b: Any) -> Term:
    """Return ``a`` where the condition holds, ``b`` elsewhere; one of them is a term."""
    return condition.builder.call("where", condition, a, b)


def call(name: str, x: Term, *rest: Any) -> Term:
    """Return an element function of a term, and of terms and numbers."""
    return x.builder.call(name, x, *rest)

"""Terms: formulas over values of a program, matched on one side of a rule and built on the other.

Patterns look for them in graphs, too (``recognition``).

A rule ``x*1 -> x`` is written ``formula("mul_one", x * 1, x, doc)``: the formula that is read,
printed and run is one and the same. ``x``, ``y`` stand for any value, ``c``, ``d`` for a constant
number, a Python number for itself; sums and products match in both orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..op import find_op
from ..program.declined import DeclinedError
from ..program.program import Recipe
from ..spec import TensorSpec, kind, normalize_axis
from ..spec.rounding import rounded

if TYPE_CHECKING:
    from .editor import Editor

Array = np.ndarray[Any, Any]
Binds = Mapping[Any, Any]
"""What names stand for: values, numbers, attributes; under ``INNER`` the instructions matched."""
INNER = "instructions"
_SYMMETRIC = frozenset(
    ("add", "mul", "maximum", "minimum", "equal", "not_equal", "logical_and", "logical_or")
)
_SIGNS = {"add": "+", "sub": "−", "mul": "·", "div": "/", "matmul": "@"}
_SIGNS |= {"less": "<", "greater": ">", "equal": "=", "not_equal": "≠"}


class Place(Protocol):
    """What terms are matched at: a program while rules change it, or a graph."""

    def producer(self, value: int | None, name: str = "") -> Any:
        """Return what makes a value, if it has that name: its ``op``, ``ins`` and ``outs``."""

    def number(self, value: int | None) -> Any:
        """Return the number that all elements of a constant are, or None."""

    def spec(self, value: int | None) -> TensorSpec:
        """Return the spec of a value."""


class Term:
    """A formula; operators make larger ones."""

    def __add__(self, other: Any) -> Term:
        return Call("add", self, other)

    def __radd__(self, other: Any) -> Term:
        return Call("add", other, self)

    def __sub__(self, other: Any) -> Term:
        return Call("sub", self, other)

    def __rsub__(self, other: Any) -> Term:
        return Call("sub", other, self)

    def __mul__(self, other: Any) -> Term:
        return Call("mul", self, other)

    def __rmul__(self, other: Any) -> Term:
        return Call("mul", other, self)

    def __truediv__(self, other: Any) -> Term:
        return Call("div", self, other)

    def __rtruediv__(self, other: Any) -> Term:
        return Call("div", other, self)

    def __pow__(self, other: Any) -> Term:
        return Call("pow", self, other)

    def __matmul__(self, other: Any) -> Term:
        return Call("matmul", self, other)

    def __neg__(self) -> Term:
        return Call("neg", self)

    def match(self, at: Place, value: int | None, binds: Binds) -> Iterator[Binds]:
        """Yield all ways in which a value has this form, given what names stand for already."""
        raise NotImplementedError

    def build(self, at: Editor, binds: Binds) -> int:
        """Make the instructions of the formula; returns its value."""
        raise NotImplementedError

    def tensor(self, given: Mapping[str, Any]) -> Any:
        """Build the formula in a graph."""
        raise NotImplementedError

    def kinds(self) -> frozenset[str]:
        """Return the makers that a value of this form may have; none: any."""
        return frozenset()

    def names(self) -> list[str]:
        """Return the names that stand for any value."""
        return []


class Any_(Term):  # noqa: N801
    """Any value; the same one wherever the name stands."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def match(self, at: Place, value: int | None, binds: Binds) -> Iterator[Binds]:
        held = binds.get(self.name)
        if held is None and value is not None:
            yield {**binds, self.name: value}
        elif held == value:
            yield binds

    def build(self, at: Editor, binds: Binds) -> int:
        return int(binds[self.name])

    def tensor(self, given: Mapping[str, Any]) -> Any:
        return given[self.name]

    def names(self) -> list[str]:
        return [self.name]


class Number(Term):
    """A constant number: any, or a certain one, up to the rounding of its dtype."""

    def __init__(self, name: str, value: Any = None, *, sample: float = 3.0) -> None:
        self.name, self.value, self.sample = name, value, sample

    def __str__(self) -> str:
        return self.name

    def match(self, at: Place, value: int | None, binds: Binds) -> Iterator[Binds]:
        found = at.number(value)
        if found is None:
            return
        if self.value is not None:
            if _is_number(found, self.value):
                yield binds
        elif self.name not in binds:
            yield {**binds, self.name: found, (self.name, "value"): value}
        elif binds[self.name] == found:
            yield binds

    def build(self, at: Editor, binds: Binds) -> int:
        if self.value is None:
            return int(binds[self.name, "value"])
        dtype = at.specs[at.root.outs[0]].dtype
        return at.constant(rounded(self.value, dtype))

    def tensor(self, given: Mapping[str, Any]) -> Any:
        if isinstance(self.value, bool):
            return next(iter(given.values())).graph.constant(self.value)
        return self.sample if self.value is None else self.value

    def kinds(self) -> frozenset[str]:
        return frozenset(("constant",))


class Computed(Term):
    """A number computed from those matched, in their dtype; declined where it is not ordinary."""

    def __init__(self, text: str, compute: Callable[[Binds], Any]) -> None:
        self.text, self.compute = text, compute

    def __str__(self) -> str:
        return self.text

    def build(self, at: Editor, binds: Binds) -> int:
        found = self._compute(binds)
        if found.dtype.kind in "fcV":
            wide = found.astype(np.complex128)
            tiny = float(np.finfo(found.dtype).tiny) if found.dtype.isbuiltin == 1 else 1e-30
            if not np.isfinite(wide) or abs(wide) < tiny:
                raise DeclinedError
        names = [k for k in binds if isinstance(k, str) and (k, "value") in binds]

        def again(*arrays: Array) -> Array:
            numbers = (array.flat[0] for array in arrays)
            return self._compute({**binds, **dict(zip(names, numbers, strict=True))})

        return at.constant(found, Recipe(again, tuple(binds[k, "value"] for k in names)))

    def _compute(self, binds: Binds) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(self.compute(binds))


class Call(Term):
    """An op on terms, with attributes: a value, or a :class:`Bind` that takes what is there."""

    def __init__(self, name: str, *args: Any, whole: bool = False, **attrs: Any) -> None:
        self.name, self.args, self.whole, self.attrs = name, tuple(map(term, args)), whole, attrs
        first = (self.args, self.args[::-1])
        self._orders = first if name in _SYMMETRIC and len(self.args) == 2 else first[:1]
        self._is_twice = len(self.args) == 2 and all(
            isinstance(a, Any_) and a.name == str(self.args[0]) for a in self.args
        )

    def __str__(self) -> str:
        texts = [
            f"({a})" if isinstance(a, Call) and a.name in _SIGNS else str(a) for a in self.args
        ]
        if self.name in _SIGNS:
            return (
                f" {_SIGNS[self.name]} ".join(texts)
                if self.name in ("add", "sub")
                else (_SIGNS[self.name].join(texts))
            )
        if self.name == "neg":
            return f"−{texts[0]}"
        if self.name == "pow":
            return f"{texts[0]}^{texts[1]}"
        return f"{self.name}({', '.join(map(str, self.args))})"

    def match(self, at: Place, value: int | None, binds: Binds) -> Iterator[Binds]:
        instr = at.producer(value, self.name)
        return iter(()) if instr is None else self.match_instr(at, instr, binds)

    def match_instr(self, at: Place, instr: Any, binds: Binds) -> Iterator[Binds]:
        """Yield all ways in which an instruction has this form."""
        if self._is_twice and instr.ins[0] != instr.ins[-1]:
            return
        for key, want in self.attrs.items():
            found = _attribute(at, instr, key)
            if isinstance(want, Bind):
                if binds.get(want.name, found) != found:
                    return
                binds = {**binds, want.name: found}
            elif found != want:
                return
        binds = {**binds, INNER: (*binds.get(INNER, ()), instr)}
        for order in self._orders:
            yield from _match_all(at, order, instr.ins, binds)

    def build(self, at: Editor, binds: Binds) -> int:
        ins = [a.build(at, binds) for a in self.args]
        attrs = {
            k: binds[v.name] if isinstance(v, Bind) else v(binds) if callable(v) else v
            for k, v in self.attrs.items()
        }
        return at.make(find_op(self.name)(**attrs), *ins, whole=self.whole)

    def tensor(self, given: Mapping[str, Any]) -> Any:
        attrs = {
            "axis" if k == "axes" else k: v.sample if isinstance(v, Bind) else v
            for k, v in self.attrs.items()
        }
        made = find_op(self.name)(**attrs)(*(a.tensor(given) for a in self.args))
        return made[0] if isinstance(made, tuple) else made

    def kinds(self) -> frozenset[str]:
        return frozenset((self.name,))

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for a in self.args for name in a.names()))


class Either(Term):
    """One of several forms."""

    def __init__(self, *terms: Term) -> None:
        self.terms = terms

    def __str__(self) -> str:
        return str(self.terms[0])

    def match(self, at: Place, value: int | None, binds: Binds) -> Iterator[Binds]:
        for form in self.terms:
            yield from form.match(at, value, binds)

    def tensor(self, given: Mapping[str, Any]) -> Any:
        return self.terms[0].tensor(given)

    def kinds(self) -> frozenset[str]:
        parts = [form.kinds() for form in self.terms]
        return frozenset().union(*parts) if all(parts) else frozenset()

    def names(self) -> list[str]:
        return self.terms[0].names()


class Bind:
    """Takes the value of an attribute; ``sample`` is what an example is built with."""

    def __init__(self, name: str, sample: Any) -> None:
        self.name, self.sample = name, sample


def term(value: Any) -> Term:
    """Return a Python number as a term."""
    return value if isinstance(value, Term) else Number(f"{value:g}", value)


def _match_all(
    at: Place, terms: tuple[Term, ...], values: tuple[int | None, ...], binds: Binds
) -> Iterator[Binds]:
    if len(values) != len(terms):
        return
    if len(terms) == 1:
        yield from terms[0].match(at, values[0], binds)
        return
    for found in terms[0].match(at, values[0], binds):
        yield from _match_all(at, terms[1:], values[1:], found)


def _attribute(at: Place, instr: Any, key: str) -> Any:
    """Return an attribute; axes are counted from the front."""
    op: Any = instr.op
    rank = at.spec(instr.ins[0]).rank
    if key == "axes":
        return op.axes(rank)
    found = getattr(op, key)
    return normalize_axis(found, rank) if key == "axis" and isinstance(found, int) else found


def _is_number(found: Any, wanted: Any) -> bool:
    """Tell whether a constant is a number: zero with its sign, others up to their rounding."""
    if kind(found.dtype) in "biu":
        return bool(found == wanted)
    if wanted == 0:
        same_sign = np.signbit(np.real(found)) == np.signbit(wanted)
        return bool(found == 0 and same_sign and np.imag(found) == 0)
    if float(wanted) * 1024 % 1 == 0:
        return bool(found == wanted)
    tolerance = 1e-6 if found.dtype.itemsize >= 4 else 1e-2
    return bool(abs(complex(found) - wanted) <= tolerance * abs(wanted))

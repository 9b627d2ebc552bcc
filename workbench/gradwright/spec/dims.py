"""Dimensions: ints, or symbols and integer arithmetic on them (``2*B + 1``, ``max(0, T - 1)``).

What cannot be decided while building is checked again when a plan knows the sizes.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..shared import module_lock

Monomial = tuple[tuple[Any, int], ...]
_fresh = itertools.count()
_numbering = module_lock()


class Dim:
    """A symbolic dimension: an integer polynomial over symbols and functions of dimensions.

    These are floor divisions, ``max(0, …)`` for what slices leave, and ``(p|q)``: what two sizes
    that broadcast give, which is ``q`` where ``p`` is 1.

    >>> from gradwright.spec import Dim
    >>> b = Dim.symbol("B")
    >>> (b + b) * 2 - 1
    4*B - 1
    >>> (b * 6) // 3 == b * 2
    True
    """

    __slots__ = ("_hash", "_text", "terms")
    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = tuple(sorted(((m, c) for m, c in terms.items() if c), key=repr))
        self._hash = hash(self.terms)
        self._text = ""  # kept once made: divisions nest, and each would be written out twice

    @staticmethod
    def symbol(name: str) -> Dim:
        """Return the dimension called ``name``."""
        return Dim({((name, 1),): 1})

    @staticmethod
    def fresh(hint: str) -> Dim:
        """Return a dimension that no other is equal to, for a size known only when run."""
        with _numbering:
            number = next(_fresh)
        return Dim.symbol(re.sub(r"\W", "_", f"{hint}__{number}"))

    @property
    def is_open(self) -> bool:
        """Whether a size made by :meth:`fresh` is part of it."""
        return any(re.search(r"__\d+$", symbol) for symbol in self.symbols)

    @staticmethod
    def parse(text: str) -> int | Dim:
        """Read what ``str(dim)`` wrote: symbols, ints, ``+ - * //`` and parentheses."""
        return _DimReader(text).read()

    @property
    def symbols(self) -> frozenset[str]:
        """Names of all symbols in this dimension."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom, _ in monomial:
                if isinstance(atom, str):
                    found.add(atom)
                else:
                    found.update(*(d.symbols for d in atom[1:] if isinstance(d, Dim)))
        return frozenset(found)

    def substitute(self, sizes: Mapping[str, int]) -> int | Dim:
        """Replace the symbols that ``sizes`` knows."""
        total: int | Dim = 0
        for monomial, coefficient in self.terms:
            term: int | Dim = coefficient
            for atom, power in monomial:
                if isinstance(atom, str):
                    value: int | Dim = sizes[atom] if atom in sizes else Dim.symbol(atom)
                else:
                    value = FUNCTIONS[atom[0]](*substitute(atom[1:], sizes))
                for _ in range(power):
                    term = term * value
            total = total + term
        return total

    def solve(self, size: int | Dim) -> dict[str, Any]:
        """Return what the symbol must be for ``2*B + 1`` to be ``size``; empty if that is open."""
        constant = sum(c for monomial, c in self.terms if not monomial)
        match [(monomial, c) for monomial, c in self.terms if monomial]:
            case [(((str() as name, 1),), 1)] if isinstance(size, Dim):
                return {name: size - constant}
            case [(((str() as name, 1),), factor)] if not isinstance(size, Dim):
                n, rest = divmod(size - constant, factor)
                return {name: n} if n >= 0 and not rest else {}
            case [((((("max", inner)), 1),), 1)] if isinstance(size, int) and size > constant:
                return inner.solve(size - constant)  # type: ignore[no-any-return]
        return {}

    def __add__(self, other: int | Dim) -> int | Dim:
        return _sum(self, other) if isinstance(other, _SIZES) else NotImplemented

    def __mul__(self, other: int | Dim) -> int | Dim:
        return _product(self, other) if isinstance(other, _SIZES) else NotImplemented

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> int | Dim:
        return self * -1

    def __sub__(self, other: int | Dim) -> int | Dim:
        return self + other * -1 if isinstance(other, _SIZES) else NotImplemented

    def __rsub__(self, other: int) -> int | Dim:
        return self * -1 + other if isinstance(other, _SIZES) else NotImplemented

    def __floordiv__(self, other: int | Dim) -> int | Dim:
        return _quotient(self, other) if isinstance(other, _SIZES) else NotImplemented

    def __mod__(self, other: int) -> int | Dim:
        return self - (self // other) * other if isinstance(other, _SIZES) else NotImplemented

    def __truediv__(self, other: object) -> Any:
        if isinstance(other, int | float | Dim):
            hint = "tensor / x.shape[0], gw.size_at(x, 0) / 2, or // for a whole size"
            raise ShapeError(f"a fraction of the dimension {self} is no size", hint=hint)
        return NotImplemented

    __rtruediv__ = __pow__ = __rpow__ = __truediv__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        return True

    def __int__(self) -> int:
        raise ShapeError(
            f"the dimension {self} has no value yet",
            need="a known size",
            hint="gw.shape_of(x), which is a tensor, or feed a fixed size",
        )

    __index__ = __float__ = __int__

    def __repr__(self) -> str:
        if not self._text:
            self._text = self._write()
        return self._text

    def _write(self) -> str:
        if pair := _smaller_of(self):
            return f"min({pair[0]}, {pair[1]})"
        parts = []
        for monomial, coefficient in sorted(self.terms, key=lambda t: (t[0] == (), repr(t))):
            atoms = [
                a if isinstance(a, str) else _write_function(*a)
                for a, power in monomial
                for _ in range(power)
            ]
            if len(monomial) and coefficient in (1, -1):
                body = "*".join(atoms)
            else:
                body = "*".join([str(abs(coefficient)), *atoms])
            parts.append(("- " if coefficient < 0 else "+ ") + body)
        text = " ".join(parts)
        return text[2:] if text[0] == "+" else "-" + text[2:]


def _write_function(name: str, *args: Any) -> str:
    """Write a function so that neither a factor nor a sign before it can be taken for a part."""
    if name == "max":
        return f"max(0, {args[0]})"
    parts = [f"({a})" if isinstance(a, Dim) and str(a) not in a.symbols else str(a) for a in args]
    return f"({name.join(parts)})"


class _DimReader:
    """Reads a dimension by precedence; the text may come from a file and be anything."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = re.findall(r"\w+|//|\S", text)[::-1]

    def read(self) -> int | Dim:
        try:
            found = self.sum(150)
            if not self.tokens:
                return found
        except (ValueError, ArithmeticError, TypeError):  # a ShapeError is a ValueError
            pass
        raise ShapeError(
            f"{self.text[:60]!r} is not a dimension", need="ints, names, + - * // max()"
        )

    def take(self, *signs: str) -> str:
        return self.tokens.pop() if self.tokens and self.tokens[-1] in signs else ""

    def sum(self, depth: int) -> int | Dim:
        sign = -1 if self.take("-") else 1
        total = self.product(depth) * sign
        while found := self.take("+", "-"):
            total = total + self.product(depth) * (1 if found == "+" else -1)
            if len(_terms(total)) > 100:
                raise ValueError("no dimension of a network has 100 terms")
        return total

    def product(self, depth: int) -> int | Dim:
        left = self.factor(depth)
        while found := self.take("*", "//"):
            right = self.factor(depth)
            if found == "//":
                left = left // right  # type: ignore[operator]
            elif len(_terms(left)) * len(_terms(right)) > 100:
                raise ValueError("(a + b)*(c + d)*... has 2**n terms")
            else:
                left = left * right
        return left

    def parts(self, separator: str, depth: int) -> list[int | Dim]:
        """Read what stands in parentheses that are open already."""
        found = [self.sum(depth)]
        while self.take(separator):
            found.append(self.sum(depth))
        if not self.take(")") or len(found) > 100:
            raise ValueError(separator)
        return found

    def factor(self, depth: int) -> int | Dim:
        token = self.tokens.pop() if self.tokens else ""
        if token == "(" and depth:
            parts = self.parts("|", depth - 1)
            return functools.reduce(joined, parts)
        elif token in ("max", "min") and depth and self.take("("):
            low, *rest = self.parts(",", depth - 1)
            pick = larger if token == "max" else smaller
            return functools.reduce(pick, rest, low)
        elif token.isascii() and token.isdecimal():
            return int(token)
        elif re.fullmatch(r"\w+", token):
            return Dim.symbol(token)
        raise ValueError(token)


def reserve_symbols(names: Iterable[str]) -> None:
    """Let ``Dim.fresh`` never give one of these names, which a file brings along."""
    global _fresh
    numbers = [int(m[1]) for n in names if (m := re.search(r"__([0-9]{1,15})$", n))]
    with _numbering:  # a number given meanwhile would be given again
        _fresh = itertools.count(max([next(_fresh), *(n + 1 for n in numbers)]))


# Building a graph does the same sums over and over: 0.2 us from the cache instead of 10.
_cached = functools.lru_cache(maxsize=8192)


@_cached
def _sum(a: Dim, b: int | Dim) -> int | Dim:
    terms = dict(a.terms)
    for monomial, coefficient in _terms(b):
        terms[monomial] = terms.get(monomial, 0) + coefficient
    return _simplest(terms)


@_cached
def _product(a: Dim, b: int | Dim) -> int | Dim:
    terms: dict[Monomial, int] = {}
    for m1, c1 in a.terms:
        for m2, c2 in _terms(b):
            powers = dict(m1)
            for atom, power in m2:
                powers[atom] = powers.get(atom, 0) + power
            monomial = tuple(sorted(powers.items(), key=repr))
            terms[monomial] = terms.get(monomial, 0) + c1 * c2
    return _simplest(terms)


@_cached
def _quotient(a: Dim, b: int | Dim) -> int | Dim:
    if isinstance(b, Dim):
        quotient = _exact_quotient(a, b)
        if quotient is None:
            raise ShapeError(f"cannot divide the dimension {a} by {b}")
        return quotient
    if b <= 0:
        raise ShapeError(f"cannot divide the dimension {a} by {b}")
    if all(c % b == 0 for m, c in a.terms if m):
        return _simplest({m: c // b for m, c in a.terms})
    return Dim({((("//", a, b), 1),): 1})


@_cached
def _positive_part(a: Dim) -> int | Dim:
    """Return max(0, a), with one spelling for max(0, a) - max(0, -a) = a and for multiples."""
    if _at_least(a, 0):
        return a
    if any(_at_least(part * -1, 0) for part in (_smaller_of(a) or (a,))):
        return 0
    for monomial, coefficient in a.terms:  # max(0, max(0, b) - c) is max(0, b - c) for c >= 0
        match monomial:
            case ((("max", inner), 1),) if coefficient == 1:
                rest = a - FUNCTIONS["max"](inner)
                if _at_least(rest * -1, 0):
                    return larger(0, inner + rest)
    scale = math.gcd(*(c for _, c in a.terms))
    a = Dim({m: c // scale for m, c in a.terms})
    if next(c for m, c in a.terms if m) < 0:
        return (_positive_part(a * -1) + a) * scale
    return Dim({((("max", a), 1),): scale})


def _smaller_of(d: Dim) -> tuple[int | Dim, int | Dim] | None:
    """Return a and b where ``d`` is b - max(0, b - a), which is the smaller of both."""
    for monomial, coefficient in d.terms:
        match monomial:
            case ((("max", inner), 1),) if coefficient == -1:
                rest = d + FUNCTIONS["max"](inner)
                return rest - inner, rest
    return None


def _at_least(a: int | Dim, least: int) -> bool:
    """Tell whether ``a`` can be seen to be no smaller than ``least``, for symbols of 0 and more."""
    if not isinstance(a, Dim):
        return a >= least
    if parts := _smaller_of(a):
        return all(_at_least(part, least) for part in parts)
    for monomial, coefficient in a.terms:
        if coefficient < 0:
            return not monomial and _at_least(a - coefficient, least - coefficient)
        if any(atom[0] == "//" and not _at_least(atom[1], 0) for atom, _ in monomial):
            return False
    return sum(c for m, c in a.terms if not m) >= least


def joined(a: AnyDim, b: AnyDim) -> AnyDim:
    """Return the size that two sizes broadcast to: the one that is not 1.

    >>> p, q = Dim.symbol("p"), Dim.symbol("q")
    >>> joined(p, 1), joined(p, 3), joined(p, q), joined(p, q).substitute({"p": 1})
    (p, 3, (p|q), q)
    """
    if a == b or b == 1:
        return a
    if a == 1 or not isinstance(b, Dim):
        return b if a == 1 or isinstance(a, Dim) else a
    if not isinstance(a, Dim):
        return a
    return _joined(a, b)


@_cached
def _joined(a: Dim, b: Dim) -> Dim:
    found = {p for d in (a, b) for p in _joined_parts(d)}
    parts = [p for p in found if not any(_is_smaller(p, q) for q in found)]
    if len(parts) == 1:
        return parts[0]
    return Dim({((("|", *sorted(parts, key=repr)), 1),): 1})


def _joined_parts(d: Dim) -> tuple[Dim, ...]:
    match d.terms:
        case (((((("|", *parts), 1),)), 1),):
            return tuple(parts)
    return (d,)


def _is_smaller(p: Dim, q: Dim) -> bool:
    """Tell whether p is min(n, q), n > 1: it broadcasts with q only where both are one size."""
    match q - p:
        case Dim(terms=(((((("max", inner)), 1),), 1),)):
            n = q - inner
            return isinstance(n, int) and n > 1
    return False


def larger(a: AnyDim, b: AnyDim) -> AnyDim:
    """Return the larger of two sizes.

    >>> larger(0, Dim.symbol("T") - 1)
    max(0, T - 1)
    """
    over = b - a
    return a + (_positive_part(over) if isinstance(over, Dim) else max(0, over))


def smaller(a: AnyDim, b: AnyDim) -> AnyDim:
    """Return the smaller of two sizes.

    >>> smaller(3, Dim.symbol("T"))
    min(3, T)
    """
    return a + b - larger(a, b)


_SIZES = (int, np.integer, Dim)  # what sizes are added to; a tensor takes them as numbers
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "//": operator.floordiv,
    "max": functools.partial(larger, 0),
    "|": lambda *sizes: functools.reduce(joined, sizes),
}
"""What an atom of a dimension that is no symbol computes of its parts, by its first entry."""


def _terms(x: int | Dim) -> tuple[tuple[Monomial, int], ...]:
    return x.terms if isinstance(x, Dim) else (((), x),)


def _simplest(terms: Mapping[Monomial, int]) -> int | Dim:
    if all(not m or not c for m, c in terms.items()):
        return terms.get((), 0)
    return Dim(terms)


def _exact_quotient(a: Dim, b: Dim) -> int | Dim | None:
    if a == b:
        return 1
    if len(b.terms) != 1:
        return None
    (divisor, scale), out = b.terms[0], {}
    for monomial, coefficient in a.terms:
        powers = dict(monomial)
        for atom, power in divisor:
            powers[atom] = powers.get(atom, 0) - power
        if coefficient % scale or any(p < 0 for p in powers.values()):
            return None
        out[tuple((a, p) for a, p in powers.items() if p)] = coefficient // scale
    return _simplest(out)


AnyDim = int | Dim
Shape = tuple[AnyDim, ...]


def substitute(shape: Shape, sizes: Mapping[str, int]) -> Shape:
    """Replace the symbols that ``sizes`` knows in every dimension."""
    return tuple(d.substitute(sizes) if isinstance(d, Dim) else d for d in shape)

"""Shapes, dtypes and promotion: what a graph knows about a tensor before any number exists.

A dimension is an int, or a :class:`Dim`: a named symbol or integer arithmetic on symbols
(``2*B + 1``, ``T//2``). What cannot be decided while building is checked again when a plan knows
the sizes.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

from .errors import DTypeError, ShapeError

Monomial = tuple[tuple[Any, int], ...]
_fresh = itertools.count()


class Dim:
    """A symbolic dimension: an integer polynomial over symbols and floor divisions.

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
        return Dim.symbol(re.sub(r"\W", "_", f"{hint}__{next(_fresh)}"))

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
                found |= {atom} if isinstance(atom, str) else atom[1].symbols
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
                    inner = atom[1].substitute(sizes)
                    value = inner // atom[2]
                for _ in range(power):
                    term = term * value
            total = total + term
        return total

    def __add__(self, other: int | Dim) -> int | Dim:
        return _sum(self, other)

    def __mul__(self, other: int | Dim) -> int | Dim:
        return _product(self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> int | Dim:
        return self * -1

    def __sub__(self, other: int | Dim) -> int | Dim:
        return self + other * -1

    def __rsub__(self, other: int) -> int | Dim:
        return self * -1 + other

    def __floordiv__(self, other: int | Dim) -> int | Dim:
        return _quotient(self, other)

    def __mod__(self, other: int) -> int | Dim:
        return self - (self // other) * other

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

    __index__ = __int__

    def __repr__(self) -> str:
        if not self._text:
            self._text = self._write()
        return self._text

    def _write(self) -> str:
        parts = []
        for monomial, coefficient in sorted(self.terms, key=lambda t: (t[0] == (), repr(t))):
            atoms = [
                a if isinstance(a, str) else _write_division(a[1], a[2])
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


def _write_division(a: Dim, b: int) -> str:
    """Write a division so that neither a factor nor a sign before it can be taken for a part."""
    return f"({a}//{b})" if str(a) in a.symbols else f"(({a})//{b})"


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
        raise ShapeError(f"{self.text[:60]!r} is not a dimension", need="ints, names, + - * //")

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

    def factor(self, depth: int) -> int | Dim:
        token = self.tokens.pop() if self.tokens else ""
        if token == "(" and depth:
            inner = self.sum(depth - 1)
            if self.take(")"):
                return inner
        elif token.isascii() and token.isdecimal():
            return int(token)
        elif re.fullmatch(r"\w+", token):
            return Dim.symbol(token)
        raise ValueError(token)


def reserve_symbols(names: Iterable[str]) -> None:
    """Let ``Dim.fresh`` never give one of these names, which a file brings along."""
    global _fresh
    numbers = [int(m[1]) for n in names if (m := re.search(r"__([0-9]{1,15})$", n))]
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
    if all(c % b == 0 for _, c in a.terms):
        return _simplest({m: c // b for m, c in a.terms})
    return Dim({((("//", a, b), 1),): 1})


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

FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
_DTYPES: dict[str, np.dtype[Any]] = {
    **{name: np.dtype(name) for name in ("float64", "float32", "float16")},
    **{name: np.dtype(getattr(ml_dtypes, name)) for name in FLOATS[3:]},
    **{
        f"{sign}int{bits}": np.dtype(f"{sign}int{bits}")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    **{name: np.dtype(name) for name in ("complex64", "complex128", "bool")},
}
_NAMES = {d: name for name, d in _DTYPES.items()}
_SHORT = {"float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "bfloat16": "bf16", "bool": "bool"}
_KINDS = {d: "f" if n in FLOATS else "b" if n == "bool" else d.kind for n, d in _DTYPES.items()}


def dtype(name: DTypeLike) -> np.dtype[Any]:
    """Return the numpy dtype called ``name``; bfloat16 and float8 come from ml_dtypes.

    >>> from gradwright.spec import dtype
    >>> dtype("bfloat16").itemsize
    2
    """
    if isinstance(name, str) and name in _DTYPES:
        return _DTYPES[name]
    try:
        found = np.dtype(name)
    except TypeError:
        found = None
    if found not in _NAMES:
        raise DTypeError(f"{name!r} is not a dtype of gradwright", need=", ".join(_DTYPES))
    return found


def dtype_name(d: np.dtype[Any]) -> str:
    """Return the name that :func:`dtype` reads back."""
    return _NAMES[d]


def kind(d: np.dtype[Any]) -> str:
    """Return ``f`` float, ``c`` complex, ``i`` signed, ``u`` unsigned, ``b`` bool."""
    return _KINDS[d]


def is_floating(d: np.dtype[Any]) -> bool:
    """Tell whether gradients flow through tensors of this dtype (float or complex)."""
    return _KINDS[d] in "fc"


@functools.cache
def promote(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of an operation on ``a`` and ``b``.

    The Array API's table, with float beating int (as in torch and JAX) so that an index never
    widens a float32 graph, and bfloat16 with float16 meeting in float32. float8 does not promote.

    >>> from gradwright.spec import dtype, promote
    >>> promote(dtype("int64"), dtype("float32")).name, promote(dtype("bool"), dtype("int8")).name
    ('float32', 'int8')
    """
    if a == b:
        return a
    ka, kb = kind(a), kind(b)
    order = "buifc"
    if ka == "b" or kb == "b":
        return b if ka == "b" else a
    if (ka in "ui") != (kb in "ui"):
        return a if order.index(ka) > order.index(kb) else b
    if {ka, kb} == {"f", "c"}:
        wide = (
            "complex128"
            if np.dtype("float64") in (a, b) or np.dtype("complex128") in (a, b)
            else "complex64"
        )
        return _DTYPES[wide]
    if any(dtype_name(d).startswith("float8") for d in (a, b)):
        raise DTypeError(
            f"{dtype_name(a)} and {dtype_name(b)} have no common dtype", hint="gw.cast one of them"
        )
    if ka == kb == "f" and a.itemsize == b.itemsize == 2:
        return _DTYPES["float32"]
    if ka == kb == "f":
        return a if a.itemsize > b.itemsize else b
    joint = np.result_type(a, b)
    if joint not in _NAMES or joint.kind not in "iuc":
        raise DTypeError(
            f"{dtype_name(a)} and {dtype_name(b)} have no common dtype", hint="gw.cast one of them"
        )
    return joint


def promote_all(*specs: TensorSpec) -> np.dtype[Any]:
    """Promote the dtypes of several specs."""
    return functools.reduce(promote, (s.dtype for s in specs))


class TensorSpec:
    """Shape and dtype of a tensor, and its values where they are small integers known early.

    ``value`` is an array of ints or dims (dtype object), so that shapes computed by ops
    (``concat([shape_of(x)[:1], [10]])``) are known without running anything.

    >>> from gradwright.spec import Dim, TensorSpec
    >>> print(TensorSpec((Dim.symbol("B"), 64)), TensorSpec((), "int64"))
    f32[B, 64] i64[]
    """

    __slots__ = ("dtype", "shape", "value")

    def __init__(
        self, shape: Sequence[AnyDim], dtype_: DTypeLike = "float32", value: Any = None
    ) -> None:
        self.shape: Shape = tuple(shape)
        known: Any = dtype_
        self.dtype: np.dtype[Any] = known if type(known) in _DTYPE_TYPES else dtype(known)
        self.value: Any = value

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_concrete(self) -> bool:
        """Whether every dimension is an int."""
        return not any(isinstance(d, Dim) for d in self.shape)

    @property
    def size(self) -> int:
        """Number of elements; needs a concrete shape."""
        n = 1
        for d in self.shape:
            n *= int(d)
        return n

    @property
    def nbytes(self) -> int:
        """Bytes of a dense array of this spec."""
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: Sequence[AnyDim]) -> TensorSpec:
        """Return the spec with another shape."""
        return TensorSpec(shape, self.dtype)

    def with_dtype(self, dtype_: DTypeLike) -> TensorSpec:
        """Return the spec with another dtype."""
        return TensorSpec(self.shape, dtype_)

    def substitute(self, sizes: Mapping[str, int]) -> TensorSpec:
        """Return the spec with known symbols replaced."""
        return TensorSpec(substitute(self.shape, sizes), self.dtype, self.value)

    def key(self) -> tuple[Any, ...]:
        """Return a hashable identity that includes the known value."""
        known = None if self.value is None else tuple(np.ravel(self.value).tolist())
        return self.shape, self.dtype, known

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorSpec)
            and self.shape == other.shape
            and self.dtype == other.dtype
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        name = dtype_name(self.dtype)
        short = _SHORT.get(name) or name[0] + name.lstrip("abcdefghijklmnopqrstuvwxyz")
        return f"{short}[{', '.join(map(str, self.shape))}]"


_DTYPE_TYPES = {type(d) for d in _DTYPES.values()}


def substitute(shape: Shape, sizes: Mapping[str, int]) -> Shape:
    """Replace the symbols that ``sizes`` knows in every dimension."""
    return tuple(d.substitute(sizes) if isinstance(d, Dim) else d for d in shape)


SMALL = 64
"""Integer arrays up to this many elements are known to shape inference."""


def spec_of(array: np.ndarray[Any, Any]) -> TensorSpec:
    """Return the spec of an array."""
    return TensorSpec(array.shape, array.dtype)


def known_spec(array: np.ndarray[Any, Any]) -> TensorSpec:
    """Return the spec of an array, with a copy of its value where that may decide shapes."""
    may_decide = array.dtype.kind in "iu" and array.size <= SMALL
    return TensorSpec(array.shape, array.dtype, array.copy() if may_decide else None)


def differ(a: AnyDim, b: AnyDim) -> bool:
    """Tell whether two dimensions can never be equal: their difference is a non-zero constant."""
    if a == b:
        return False
    rest = a - b
    return not isinstance(rest, Dim)


def same_dim(a: AnyDim, b: AnyDim, what: str) -> AnyDim:
    """Return the dimension that ``a`` and ``b`` both are; prefers the known one.

    Two symbols that might be equal are taken to be: the plan checks it when sizes are known.
    """
    if differ(a, b):
        raise ShapeError(f"{what} differ", need=f"equal sizes, got {a} and {b}")
    return b if isinstance(a, Dim) and not isinstance(b, Dim) else a


def broadcast(*shapes: Shape) -> Shape:
    """Return numpy's broadcast of the shapes, symbols included.

    >>> from gradwright.spec import Dim, broadcast
    >>> broadcast((Dim.symbol("B"), 1), (3,))
    (B, 3)
    """
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    out: list[AnyDim] = [1] * max(map(len, shapes))
    for shape in shapes:
        offset = len(out) - len(shape)
        for i, d in enumerate(shape):
            held = out[offset + i]
            if d == 1 or held == d:
                continue
            if held != 1 and differ(held, d):
                raise ShapeError(
                    "shapes do not broadcast",
                    need=f"equal or 1 on axis {offset + i - len(out)}, got {held} and {d}",
                )
            if held == 1 or isinstance(held, Dim):
                out[offset + i] = d if held == 1 or not isinstance(d, Dim) else held
    return tuple(out)


def normalize_axis(axis: int, rank: int, name: str = "axis") -> int:
    """Return ``axis`` counted from the front, or say which axes exist."""
    if not -rank <= axis < rank:
        raise ShapeError(
            f"{name} {axis} is out of range", need=f"-{rank} <= {name} < {rank} for rank {rank}"
        )
    return axis % rank

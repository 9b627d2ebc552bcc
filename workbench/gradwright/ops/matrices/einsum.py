"""Sums of products over named axes: ``einsum`` and what is made of it."""

from __future__ import annotations

import functools
import itertools
import math
import string
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError, ShapeError
from ...op import Autocast, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import AnyDim, Dim, TensorSpec, differ, normalize_axis, promote_all
from ..core.creation import Diag, DiagGrad
from ..core.elementwise import Mul, conj
from ..core.like import BroadcastLike
from ..core.movement import Cast, ExpandDims, Squeeze, Transpose
from ..core.reduce import Sum
from ..core.reshape import Flatten, Reshape
from .linalg import Matmul

Labels = tuple[str, ...]
"""Names of the axes of a tensor; those an ellipsis stands for are "0", "1", ... from the right."""


@functools.lru_cache(maxsize=1024)
def parse(equation: str, ranks: tuple[int, ...]) -> tuple[tuple[Labels, ...], Labels]:
    """Return the labels of all operands and of the result.

    >>> parse("...ij,...jk", (3, 2))
    ((('0', 'i', 'j'), ('j', 'k')), ('0', 'i', 'k'))
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise GraphError(f"einsum {equation!r} has {len(terms)} terms for {len(ranks)} operands")
    if not set(left + right) <= {*string.ascii_letters, ",", "."} or "," in right:
        raise GraphError(
            f"einsum {equation!r} is not an equation", need="letters, commas, ... and ->"
        )
    operands = tuple(_labels(t, r, equation) for t, r in zip(terms, ranks, strict=True))
    dots = max((sum(not c.isalpha() for c in labels) for labels in operands), default=0)
    if arrow:
        n = right.count(".") // 3
        out = _labels(right, len(right.replace("...", "")) + dots * n, equation)
        unknown = [c for c in out if not any(c in labels for labels in operands)]
        if unknown or len({*out}) < len(out):
            raise GraphError(
                f"einsum {equation!r} cannot give {right!r}", need="each label once, of an operand"
            )
        return operands, out
    once = sorted(c for c in {*left} - {",", "."} if left.count(c) == 1)
    return operands, (*(str(i) for i in reversed(range(dots))), *once)


def _labels(term: str, rank: int, equation: str) -> Labels:
    """Return one label per axis."""
    before, dots, after = term.partition("...")
    free = rank - len(before) - len(after)
    if "." in before + after or free < 0 or (free and not dots):
        raise ShapeError(f"einsum {equation!r}: {term!r} does not name {rank} axes")
    return (*before, *(str(i) for i in reversed(range(free))), *after)


class Einsum(Op):
    """Sum of products over axes named by letters, in numpy's notation.

    y[out] = Σ over all other labels of Π operands[labels]

    ``...`` stands for further axes, which broadcast; a label that an operand repeats takes its
    diagonal; without ``->`` the result has the labels that occur once, in alphabetical order.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, k = g.placeholder("q", ("B", "T", 4)), g.placeholder("k", ("B", "S", 4))
    >>> gw.einsum("btd,bsd->bts", q, k).shape
    (B, T, S)
    """

    namespace = "linalg"
    autocast = Autocast.PRODUCT
    equation: str = attr(doc='Labels of the operands and of the result, such as "ij,jk->ik".')
    onnx = OnnxRule("Einsum", since=12)

    def infer(self, *operands: TensorSpec) -> TensorSpec:
        terms, out = parse(self.equation, tuple(x.rank for x in operands))
        sizes: dict[str, AnyDim] = {}
        for labels, x in zip(terms, operands, strict=True):
            for c, d in zip(labels, x.shape, strict=True):
                held = sizes.setdefault(c, d)
                if held == 1 or (isinstance(held, Dim) and d != 1):
                    sizes[c] = d
                elif d != 1 and differ(held, d):
                    raise ShapeError(
                        f"einsum {self.equation!r}: sizes of {c!r} differ", need=f"{held}, got {d}"
                    )
        return TensorSpec([sizes[c] for c in out], promote_all(*operands))

    def expand(self, *operands: Any) -> Any:
        terms, out = parse(self.equation, tuple(x.rank for x in operands))
        joint = promote_all(*(x.spec for x in operands))
        parts = [
            _plain(x if x.dtype == joint else Cast(dtype=joint)(x), labels)
            for x, labels in zip(operands, terms, strict=True)
        ]
        while len(parts) > 1:
            i, j = _cheapest(parts)
            second, first = parts.pop(j), parts.pop(i)
            needed = {*out}.union(*(labels for _, labels in parts))
            parts.append(_contract(first, second, needed))
        y, labels = _sum_out(parts[0], {*out})
        y = _ordered(y, labels, [c for c in out if c in labels])
        dropped = tuple(i for i, c in enumerate(out) if c not in labels)  # of size 1 everywhere
        return ExpandDims(axis=dropped)(y) if dropped else y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        terms, out = parse(self.equation, tuple(x.rank for x in xs))
        every = dict.fromkeys(c for labels in terms for c in labels)
        letter = dict(zip(every, string.ascii_letters, strict=False))

        def spell(labels: Sequence[str]) -> str:
            return "".join(letter[c] for c in labels)

        def of(k: int) -> Any:
            others = [i for i in range(len(xs)) if i != k]
            differs = {*out}.union(
                *({c for c, d in zip(terms[i], xs[i].shape, strict=True) if d != 1} for i in others)
            )
            diagonals, labels = _diagonals(xs[k], terms[k])
            x = Diag()(diagonals[-1][0]) if diagonals else xs[k]
            found = [c for c, d in zip(labels, x.shape, strict=True) if c in differs and d != 1]
            left = ",".join(map(spell, (out, *(terms[i] for i in others))))
            g = Einsum(equation=f"{left}->{spell(found)}")(gs[0], *(conj(xs[i]) for i in others))
            if found != labels:  # of size 1, or summed over in this operand alone
                alike = tuple(i for i, c in enumerate(labels) if c not in found)
                g = BroadcastLike()(ExpandDims(axis=alike)(g), x)
            for turned, order in reversed(diagonals):
                g = Transpose(axes=np.argsort(order).tolist())(DiagGrad()(g, turned))
            return g

        return [functools.partial(of, k) for k in range(len(xs))]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for equation, *shapes in (
            ("ij,jk->ik", (2, 3), (3, 4)),
            ("bhqd,bhkd->bhqk", (2, 1, 3, 2), (2, 1, 2, 2)),
            ("...ij,...j", (2, 1, 3, 4), (3, 4)),
            ("ii", (3, 3)),
            ("iji,kj->ik", (2, 3, 2), (4, 3)),
            ("ij->", (2, 3)),
            ("i,i->", (3,), (1,)),
            ("i,j,jk,k->ik", (2,), (3,), (3, 2), (2,)),
            (",i->i", (), (3,)),
            ("ij,jk->ik", (2, 0), (0, 3)),
        ):
            yield Sample(tuple(map(rng.standard_normal, shapes)), {"equation": equation})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 3))
        yield ErrorSample((x,), {"equation": "ij,jk->ik"}, "2 terms for 1 operands")
        yield ErrorSample((x,), {"equation": "ijk"}, "does not name 2 axes")
        yield ErrorSample((x,), {"equation": "ij->k"}, "cannot give 'k'")
        yield ErrorSample((x,), {"equation": "ij->ii"}, "cannot give 'ii'")
        yield ErrorSample((x,), {"equation": "i1"}, "is not an equation")
        yield ErrorSample((x, x), {"equation": "ij,jk"}, "sizes of 'j' differ")


Part = tuple[Any, list[str]]
"""A tensor and the labels of its axes, each once."""


def _ordered(x: Any, labels: Sequence[str], wanted: Sequence[str]) -> Any:
    """Return ``x`` with its axes in the wanted order."""
    return (
        x if list(labels) == list(wanted) else Transpose(axes=[labels.index(c) for c in wanted])(x)
    )


def _diagonals(x: Any, labels: Sequence[str]) -> tuple[list[tuple[Any, list[int]]], list[str]]:
    """Return what :class:`Diag` is applied to, for each repeated label, and the labels after it.

    Each is ``x`` with the two axes of a label moved to the end, and how they were moved.
    """
    steps: list[tuple[Any, list[int]]] = []
    left = list(labels)
    while len({*left}) < len(left):
        c = next(c for c in left if left.count(c) > 1)
        i = left.index(c)
        j = left.index(c, i + 1)
        order = [a for a in range(len(left)) if a not in (i, j)] + [i, j]
        x = Transpose(axes=order)(Diag()(x) if steps else x)
        steps.append((x, order))
        left = [left[a] for a in order[:-1]]
    return steps, left


def _plain(x: Any, labels: Sequence[str]) -> Part:
    """Return an operand with each label once, and without axes of size 1, which broadcast."""
    ones = tuple(i for i, d in enumerate(x.shape) if d == 1)
    x = Squeeze(axis=ones)(x) if ones else x
    steps, kept = _diagonals(x, [c for i, c in enumerate(labels) if i not in ones])
    return (Diag()(steps[-1][0]) if steps else x), kept


def _sum_out(part: Part, needed: set[str]) -> Part:
    """Return a part summed over labels that nobody needs."""
    x, labels = part
    axes = tuple(i for i, c in enumerate(labels) if c not in needed)
    return (Sum(axis=axes)(x) if axes else x), [c for c in labels if c in needed]


def _cheapest(parts: Sequence[Part]) -> tuple[int, int]:
    """Return the pair whose contraction takes the fewest multiplications; open sizes count 256."""

    def cost(pair: tuple[int, int]) -> int:
        sizes = {c: d for i in pair for c, d in zip(parts[i][1], parts[i][0].shape, strict=True)}
        return math.prod(256 if isinstance(d, Dim) else d for d in sizes.values())

    return min(itertools.combinations(range(len(parts)), 2), key=cost)


def _contract(first: Part, second: Part, needed: set[str]) -> Part:
    """Return the product of two parts, summed over labels that nobody else needs, as a matmul."""
    (a, la), (b, lb) = (
        _sum_out(first, needed | {*second[1]}),
        _sum_out(second, needed | {*first[1]}),
    )
    sizes = {**dict(zip(lb, b.shape, strict=True)), **dict(zip(la, a.shape, strict=True))}
    batch = [c for c in la if c in lb and c in needed]
    inner = [c for c in la if c in lb and c not in needed]
    rows, columns = [c for c in la if c not in lb], [c for c in lb if c not in la]

    def shaped(x: Any, *groups: list[str]) -> Any:
        """Join the axes of each group into one."""
        shape = [sizes[c] for c in batch] + [math.prod(sizes[c] for c in g) for g in groups]
        return x if tuple(shape) == x.shape else Reshape(shape=shape)(x)

    if not inner:
        start, middle = len(batch), len(batch) + len(rows)
        a, b = _ordered(a, la, batch + rows), _ordered(b, lb, batch + columns)
        a = ExpandDims(axis=tuple(range(middle, middle + len(columns))))(a) if columns else a
        b = ExpandDims(axis=tuple(range(start, middle)))(b) if rows else b
        return a * b, batch + rows + columns
    left = shaped(_ordered(a, la, batch + rows + inner), rows, inner)
    right = shaped(_ordered(b, lb, batch + inner + columns), inner, columns)
    y = Matmul()(left, right)
    return shaped(y, *([c] for c in rows + columns)), batch + rows + columns


class Tensordot(Op):
    """Sum of products over the last axes of ``a`` and the first of ``b``, or over given axes.

    y[i…, j…] = Σₖ… a[i…, k…]·b[k…, j…]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = g.placeholder("a", ("B", 3, 4)), g.placeholder("b", (3, 4, 5))
    >>> gw.tensordot(a, b).shape
    (B, 5)
    """

    namespace = "linalg"
    autocast = Autocast.PRODUCT
    axes: int | tuple[Any, Any] = attr(2, doc="How many axes, or those of a and those of b.")

    def as_einsum(self, a: Any, b: Any) -> Einsum:
        """Return the same product as an einsum."""
        pairs: Any
        if isinstance(self.axes, int):
            pairs = range(a.rank - self.axes, a.rank), range(self.axes)
        else:
            pairs = tuple((p,) if isinstance(p, int) else p for p in self.axes)
        left, right = (
            [normalize_axis(i, x.rank) for i in p] for p, x in zip(pairs, (a, b), strict=True)
        )
        if len(left) != len(right):
            raise ShapeError(f"axes {self.axes} do not pair", need="as many of a as of b")
        letters = iter(string.ascii_letters)
        la = [next(letters) for _ in range(a.rank)]
        lb = [la[left[right.index(i)]] if i in right else next(letters) for i in range(b.rank)]
        free = [c for c in la if c not in lb] + [c for c in lb if c not in la]
        return Einsum(equation=f"{''.join(la)},{''.join(lb)}->{''.join(free)}")

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        return self.as_einsum(a, b).infer(a, b)

    def expand(self, a: Any, b: Any) -> Any:
        return self.as_einsum(a, b)(a, b)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 4)), rng.standard_normal((3, 4, 2))))
        yield Sample(
            (rng.standard_normal((2, 3)), rng.standard_normal((4, 2))), {"axes": ((0,), (-1,))}
        )
        yield Sample((rng.standard_normal((2,)), rng.standard_normal((3,))), {"axes": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 3))
        yield ErrorSample((x, x), {"axes": 1}, "differ")
        yield ErrorSample((x, x), {"axes": ((0, 1), (0,))}, "do not pair")
        yield ErrorSample((x, x), {"axes": 3}, "out of range")


class Dot(Op):
    """Product as by ``numpy.dot``: of vectors, of matrices, or over the last axis of ``a``.

    y[i…, j…, k] = Σₙ a[i…, n]·b[j…, n, k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.dot(g.constant([1.0, 2.0]), g.constant([3.0, 4.0]))
    >>> g.output({}, y)["dot"].tolist()
    11.0
    """

    namespace = "linalg"
    autocast = Autocast.PRODUCT

    def chosen(self, a: Any, b: Any) -> Op:
        """Return the op that does it for these ranks."""
        if not a.rank or not b.rank:
            return Mul()
        return Matmul() if b.rank <= 2 else Tensordot(axes=((a.rank - 1,), (b.rank - 2,)))

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        made: TensorSpec = self.chosen(a, b).infer(a, b)
        return made

    def expand(self, a: Any, b: Any) -> Any:
        return self.chosen(a, b)(a, b)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for a, b in (((3,), (3,)), ((2, 3), (3, 2)), ((2, 3), (2, 3, 2)), ((), (2,))):
            yield Sample((rng.standard_normal(a), rng.standard_normal(b)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2, 3))), {}, "inner dimensions differ")


class Outer(Op):
    """All products of an element of ``a`` and one of ``b``, both read in row-major order.

    y[i, j] = a[i]·b[j]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.outer(g.constant([1.0, 2.0]), g.constant([3.0, 4.0]))
    >>> g.output({}, y)["outer"].tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """

    namespace = "linalg"
    autocast = Autocast.PRODUCT

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        shape = [math.prod(x.shape) for x in (a, b)]
        return TensorSpec(shape, promote_all(a, b))

    def expand(self, a: Any, b: Any) -> Any:
        return ExpandDims(axis=1)(Flatten()(a)) * Flatten()(b)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for a, b in (((3,), (2,)), ((2, 2), ()), ((0,), (2,))):
            yield Sample((rng.standard_normal(a), rng.standard_normal(b)))

"""Matrices with a pattern, and products of several."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import AFFINE, LINEAR, Autocast, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import (
    AnyDim,
    TensorSpec,
    broadcast,
    differ,
    dtype,
    kind,
    normalize_axis,
    promote,
    promote_all,
)
from ..core.creation import Arange
from ..core.elementwise import conj
from ..core.special import widened
from .linalg import Matmul


class BandPart(Op):
    """Band around the main diagonal of matrices, the rest zero.

    y[…, i, j] = x[…, i, j] if i − j ≤ lower and j − i ≤ upper, else 0; −1 keeps the whole side

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.linalg.band_part(g.constant([[1, 2], [3, 4]]), 0, -1))["band_part"].tolist()
    [[1, 2], [0, 4]]
    """

    namespace = "linalg"
    autocast = Autocast.FREE
    dependence = AFFINE
    lower: int = attr(doc="How many diagonals below the main one stay; -1: all.")
    upper: int = attr(doc="How many diagonals above the main one stay; -1: all.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if x.rank < 2:
            raise ShapeError("band_part needs matrices", need=f"rank 2 or more, got {x}")
        return x.with_shape(x.shape)

    def forward(self, x: Any) -> Any:
        y = x.copy() if self.lower < 0 else np.triu(x, -self.lower)
        return y if self.upper < 0 else np.tril(y, self.upper)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (self(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 4)),), {"lower": 1, "upper": 0})
        yield Sample((rng.standard_normal((3, 3)),), {"lower": -1, "upper": 1})
        yield Sample((rng.standard_normal((0, 3)),), {"lower": 0, "upper": -1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {"lower": 0, "upper": 0}, "needs matrices")


class Tri(Op):
    """Matrix of ones at and below a diagonal, zeros above.

    y[i, j] = [j − i ≤ k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> with g:
    ...     y = gw.linalg.tri(2, 3)
    >>> g.output({}, y)["tri"].tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """

    namespace = "linalg"
    autocast = Autocast.FREE
    n: AnyDim = attr(doc="Number of rows.")
    m: AnyDim | None = attr(None, doc="Number of columns; None: as many as rows.")
    k: int = attr(0, doc="Diagonal: 0 the main one, above it positive.")
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")

    def infer(self) -> TensorSpec:
        shape = self.n, self.n if self.m is None else self.m
        if any(isinstance(d, int) and d < 0 for d in shape):
            raise ShapeError(f"{shape} is not a shape", need="sizes >= 0")
        return TensorSpec(shape, self.dtype)

    def forward(self) -> Any:
        n: Any = self.n
        m: Any = self.m
        return np.tri(n, m, self.k).astype(self.dtype)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((), {"n": 3})
        yield Sample((), {"n": 2, "m": 4, "k": -1, "dtype": "bool"})
        yield Sample((), {"n": 0, "m": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((), {"n": -1}, "is not a shape")


class Cross(Op):
    """Cross product of vectors of three components; other axes broadcast.

    y = (a₁b₂ − a₂b₁, a₂b₀ − a₀b₂, a₀b₁ − a₁b₀)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = g.constant([1, 0, 0]), g.constant([0, 1, 0])
    >>> g.output({}, gw.linalg.cross(a, b))["cross"].tolist()
    [0, 0, 1]
    """

    namespace = "linalg"
    autocast = Autocast.FREE
    dependence = LINEAR
    axis: int = attr(-1, doc="Axis of the components.")

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        joint = promote(a.dtype, b.dtype)
        if kind(joint) == "b":
            raise DTypeError("cross does not take bool")
        for name, x in (("a", a), ("b", b)):
            if differ(x.shape[normalize_axis(self.axis, x.rank)], 3):
                raise ShapeError("cross needs three components", need=f"size 3, got {name}: {x}")
        if self.axis >= 0 and a.rank != b.rank:
            raise ShapeError("the axis of tensors of two ranks is counted from the end")
        return TensorSpec(broadcast(a.shape, b.shape), joint)

    def forward(self, a: Any, b: Any) -> Any:
        y = np.empty(np.broadcast_shapes(a.shape, b.shape), promote(a.dtype, b.dtype))
        halves = y.dtype.itemsize < 4 and kind(y.dtype) == "f"
        a, b = (widened(x) if halves else x for x in (a, b))
        a, b, parts = (np.moveaxis(x, self.axis, 0) for x in (a, b, y))
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            parts[i] = a[j] * b[k] - a[k] * b[j]
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (a, b) = gs, (conj(x) for x in xs)
        return lambda: self(b, g), lambda: self(g, a)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)), rng.standard_normal(3)))
        yield Sample((rng.standard_normal((3, 1)), rng.standard_normal((3, 2))), {"axis": 0})
        yield Sample((np.zeros((0, 3)), np.zeros((0, 3))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2,))), {}, "three components")
        yield ErrorSample((TensorSpec((3, 3)), TensorSpec((3,))), {"axis": 0}, "from the end")


class Vander(Op):
    """Powers of the elements of vectors, one row each (a Vandermonde matrix).

    y[…, i, j] = x[…, i]ⁿ⁻¹⁻ʲ, or x[…, i]ʲ with ``increasing``

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.linalg.vander(g.constant([2.0, 3.0]), 3))["vander"].tolist()
    [[4.0, 2.0, 1.0], [9.0, 3.0, 1.0]]
    """

    namespace = "linalg"
    autocast = Autocast.FREE
    n: AnyDim | None = attr(None, doc="Number of powers; None: as many as elements.")
    increasing: bool = attr(False, doc="Whether powers grow to the right.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if not x.rank or kind(x.dtype) not in "fc":
            raise ShapeError("vander needs vectors of floats", need=f"rank 1 or more, got {x}")
        if isinstance(self.n, int) and self.n < 0:
            raise ShapeError(f"there are no {self.n} powers", need="n >= 0")
        return x.with_shape((*x.shape, x.shape[-1] if self.n is None else self.n))

    def expand(self, x: Any) -> Any:
        n = x.shape[-1] if self.n is None else self.n
        real = "float32" if x.dtype.itemsize <= 4 or x.dtype.name == "complex64" else "float64"
        powers = Arange(start=n, dtype=real if kind(x.dtype) == "c" else x.dtype)()
        return x[..., None] ** (powers if self.increasing else powers[::-1])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([-1.5, 0.0, 2.0]),))
        yield Sample((rng.standard_normal((2, 2)),), {"n": 4, "increasing": True})
        yield Sample((np.zeros(0),), {"n": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec(()),), {}, "needs vectors")
        yield ErrorSample((TensorSpec((2,)),), {"n": -1}, "no -1 powers")


class MultiDot(Op):
    """Product of several matrices in the order that multiplies the fewest numbers.

    y = x₀·x₁·…·xₙ₋₁; the first may be a row vector and the last a column vector

    The order is found by dynamic programming (Cormen et al., section 15.2) where all sizes are
    known, else it is from left to right.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = g.placeholder("a", (2, 99)), g.placeholder("b", (99, 3))
    >>> gw.linalg.multi_dot(a, b, g.placeholder("c", (3,))).shape
    (2,)
    """

    namespace = "linalg"
    autocast = Autocast.PRODUCT

    def infer(self, *xs: TensorSpec) -> TensorSpec:
        inner = xs[1:-1]
        if len(xs) < 2 or any(x.rank != 2 for x in inner) or any(x.rank not in (1, 2) for x in xs):
            ranks = ", ".join(str(x.rank) for x in xs)
            raise ShapeError(
                "multi_dot needs two matrices or more",
                need=f"rank 2; of the first and last 1 or 2, got {ranks}",
            )
        for x, y in itertools.pairwise(xs):
            Matmul().infer(x, y)
        shape = xs[0].shape[:-1] + (xs[-1].shape[1:])
        return TensorSpec(shape, promote_all(*xs))

    def expand(self, *xs: Any) -> Any:
        bounds = cheapest(
            [(1, *x.shape)[-2:] if not i else (*x.shape, 1)[:2] for i, x in enumerate(xs)]
        )

        def product(first: int, last: int) -> Any:
            if first == last:
                return xs[first]
            middle = bounds.get((first, last), last - 1)
            return product(first, middle) @ product(middle + 1, last)

        return product(0, len(xs) - 1)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        yield Sample((draw((3, 2)), draw((2, 4)), draw((4, 1))))
        yield Sample((draw(2), draw((2, 3)), draw((3, 3)), draw(3)))
        yield Sample((draw((2, 0)), draw((0, 2))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2, 3))), {}, "inner dimensions differ")
        yield ErrorSample((TensorSpec((2, 3)),), {}, "two matrices or more")


def cheapest(shapes: Sequence[tuple[AnyDim, AnyDim]]) -> dict[tuple[int, int], int]:
    """Return after which matrix to cut each range of a product; nothing where sizes are unknown.

    >>> cheapest([(10, 100), (100, 5), (5, 50)])[0, 2]
    1
    """
    sizes: list[Any] = [shapes[0][0], *(s[1] for s in shapes)]
    if not all(isinstance(d, int) for d in sizes):
        return {}
    n, cuts = len(shapes), {}
    cost = {(i, i): 0 for i in range(n)}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], cuts[i, j] = min(options)
    return cuts

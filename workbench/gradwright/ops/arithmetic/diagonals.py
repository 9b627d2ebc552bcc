"""Diagonals and traces, coordinate grids, and products of all pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import AFFINE, LINEAR, ZERO, Autocast, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, promote, shapes_differ
from ..core.creation import Diag
from ..core.elementwise import promoted
from ..core.like import ReshapeLike, ZerosLike
from ..core.movement import ExpandDims
from ..core.reduce import Sum
from ..core.reshape import Reshape


class DiagPart(Op):
    """A diagonal of matrices, which lie in the last two axes.

    y[…, i] = x[…, i, i + k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.diag_part(g.constant([[1, 2], [3, 4]]), name="y"))["y"].tolist()
    [1, 4]
    """

    namespace = "math"
    k: int = attr(0, doc="Diagonal: 0 the main one, above it positive.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if x.rank < 2:
            raise ShapeError(f"{self.name} needs matrices", need=f"rank 2 or more, got {x}")
        return Diag(k=self.k).infer(x)

    def expand(self, x: Any) -> Any:
        return Diag(k=self.k)(x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 3)),))
        yield Sample((rng.standard_normal((2, 4)),), {"k": 1})
        yield Sample((rng.standard_normal((0, 2)),), {"k": -1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {}, "needs matrices")


class Trace(DiagPart):
    """Sum of a diagonal of matrices, which lie in the last two axes.

    y[…] = Σᵢ x[…, i, i + k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> int(g.output({}, gw.trace(g.constant([[1, 2], [3, 4]]), name="y"))["y"])
    5
    """

    autocast = Autocast.SUM

    def infer(self, x: TensorSpec) -> TensorSpec:
        return Sum(axis=-1).infer(super().infer(x))

    def expand(self, x: Any) -> Any:
        return Sum(axis=-1)(Diag(k=self.k)(x))


class SetDiag(Op):
    """Matrices with another diagonal.

    y[…, i, i + k] = diagonal[…, i], x elsewhere

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.set_diag(g.constant([[1, 2], [3, 4]]), [0, 9], name="y")
    >>> g.output({}, y)["y"].tolist()
    [[0, 2], [3, 9]]
    """

    namespace = "math"
    dependence = AFFINE, LINEAR
    k: int = attr(0, doc="Diagonal: 0 the main one, above it positive.")

    def infer(self, x: TensorSpec, diagonal: TensorSpec) -> TensorSpec:
        part = DiagPart(k=self.k).infer(x)
        if shapes_differ(part.shape, diagonal.shape):
            raise ShapeError("the diagonal does not fit", need=f"{part.shape}, got {diagonal}")
        return x.with_dtype(promote(x.dtype, diagonal.dtype))

    def forward(self, x: Any, diagonal: Any) -> Any:
        y = x.astype(promoted(x, diagonal))
        i = np.arange(diagonal.shape[-1])
        y[..., i + max(-self.k, 0), i + max(self.k, 0)] = diagonal
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,) = gs
        return lambda: self(g, ZerosLike()(xs[1])), lambda: Diag(k=self.k)(g)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 3)), rng.standard_normal((2, 3))))
        yield Sample((rng.standard_normal((2, 4)), rng.standard_normal(1)), {"k": -1})
        yield Sample((rng.standard_normal((0, 2)), rng.standard_normal(0)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3, 3)), TensorSpec((2,))), {}, "does not fit")
        yield ErrorSample((TensorSpec((3,)), TensorSpec((3,))), {}, "needs matrices")


class Meshgrid(Op):
    """Coordinates of a grid, one tensor per vector.

    Default of torch: ``indexing="ij"``; here it is "xy", as in numpy.

    yₖ[i₀, i₁, …] = xₖ[iₖ];  "xy" exchanges the first two axes, so that x runs along columns

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = gw.meshgrid(g.constant([1, 2]), g.constant([3, 4, 5]))
    >>> [y.tolist() for y in g.output({}, a, b).values()]
    [[[1, 2], [1, 2], [1, 2]], [[3, 3], [4, 4], [5, 5]]]
    """

    namespace = "math"
    returns = ("*grids",)
    many = True
    dependence = LINEAR
    indexing: str = attr("xy", doc="Order of the first two axes.", choices=("xy", "ij"))

    def order(self, n: int) -> list[int]:
        """Return the axis along which each vector runs."""
        return [1, 0, *range(2, n)] if self.indexing == "xy" and n > 1 else [*range(n)]

    def infer(self, *xs: TensorSpec) -> tuple[TensorSpec, ...]:
        if not xs or any(x.rank > 1 for x in xs):
            raise ShapeError("meshgrid takes vectors", need="rank 0 or 1, at least one")
        axes = self.order(len(xs))
        sizes = [x.shape[0] if x.rank else 1 for x in xs]
        shape = [sizes[axes.index(a)] for a in range(len(xs))]
        return tuple(x.with_shape(shape) for x in xs)

    def forward(self, *xs: Any) -> Any:
        indexing: Any = self.indexing
        return tuple(np.meshgrid(*xs, indexing=indexing))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        out: list[Cotangent] = []
        for g, x, axis in zip(gs, xs, self.order(len(xs)), strict=True):
            others = tuple(a for a in range(len(xs)) if a != axis)
            out.append(ZERO if g is ZERO else ReshapeLike()(Sum(axis=others)(g), x))
        return out

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b, c = rng.standard_normal(2), rng.standard_normal(3), rng.standard_normal(())
        yield Sample((a, b, c))
        yield Sample((a, b), {"indexing": "ij"})
        yield Sample((a[:0], b))
        yield Sample((b,))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 2)),), {}, "takes vectors")


class Kron(Op):
    """Kronecker product: the products of all pairs of elements, in blocks.

    y[i·p + k, j·q + l] = a[i, j]·b[k, l] for b : f32[p, q]; likewise for other ranks

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.kron(g.constant([1, 2]), g.constant([1, 10]), name="y"))["y"].tolist()
    [1, 10, 2, 20]
    """

    namespace = "math"

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        rank = max(a.rank, b.rank)
        left, right = ((1,) * (rank - x.rank) + x.shape for x in (a, b))
        shape = [m * n for m, n in zip(left, right, strict=True)]
        return TensorSpec(shape, promote(a.dtype, b.dtype))

    def expand(self, a: Any, b: Any) -> Any:
        rank = max(a.rank, b.rank)

        def interleaved(x: Any, second: bool) -> Any:
            new = tuple(range(rank - x.rank))
            padded = ExpandDims(axis=new)(x) if new else x
            beside = tuple(range(0 if second else 1, 2 * rank, 2))
            return ExpandDims(axis=beside)(padded) if beside else padded

        product = interleaved(a, False) * interleaved(b, True)
        return Reshape(shape=self.infer(a.spec, b.spec).shape)(product)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)), rng.standard_normal((2, 1))))
        yield Sample((rng.standard_normal(2), rng.standard_normal((2, 2))))
        yield Sample((rng.standard_normal(()), rng.standard_normal((0, 2))))


class EyeLike(Op):
    """Matrix of the input's shape with ones on a diagonal and zeros elsewhere.

    y[i, j] = [j − i = k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.eye_like(g.constant([[5, 5, 5], [5, 5, 5]]), k=1, name="y"))["y"].tolist()
    [[0, 1, 0], [0, 0, 1]]
    """

    namespace = "math"
    shape_only = (0,)
    k: int = attr(0, doc="Diagonal: 0 the main one, above it positive.")
    dtype: np.dtype[Any] | None = attr(None, doc="Dtype of the result; None: that of x.")
    onnx = OnnxRule("EyeLike", since=9)

    def infer(self, x: TensorSpec) -> TensorSpec:
        if x.rank != 2:
            raise ShapeError("eye_like needs a matrix", need=f"rank 2, got {x}")
        return TensorSpec(x.shape, self.dtype or x.dtype)

    def forward(self, x: Any) -> Any:
        n, m = x.shape
        return np.eye(n, m, self.k).astype(self.dtype or x.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),), {"k": -1})
        yield Sample((rng.standard_normal((0, 3)),), {"dtype": "int32"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "needs a matrix")

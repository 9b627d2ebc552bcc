"""Inverses and solutions of linear systems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import LINEAR, OPAQUE, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, at_least_float32, broadcast, differ, promote
from ..core.creation import DiagGrad, Tril, Triu
from ..core.like import OnesLike
from ..core.movement import Cast
from .common import Array, MatrixOp, adjoint

BLOCK = 32
"""Rows that substitution solves at once."""


class Inv(MatrixOp):
    """Inverse of square matrices.

    y·x = x·y = 1

    Singular matrices raise an error when run.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[2.0, 0.0], [1.0, 1.0]])
    >>> g.output({}, gw.linalg.inv(x))["inv"].tolist()
    [[0.5, 0.0], [-0.5, 1.0]]
    """

    remedy = "gw.linalg.pinv(x)"

    def infer(self, x: TensorSpec) -> TensorSpec:
        self.check(x, square=True)
        return x.with_shape(x.shape)

    def compute(self, *xs: Array) -> Any:
        return np.linalg.inv(xs[0])

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        y = adjoint(ys[0])
        return (-(y @ gs[0] @ y),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 3)) + 3 * np.eye(3),))
        yield Sample((np.zeros((0, 0)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {}, "needs square matrices")
        yield ErrorSample((TensorSpec((3,)),), {}, "needs matrices")
        yield ErrorSample((TensorSpec((2, 2), "int64"),), {}, "does not take int64")


class _System(MatrixOp):
    """Systems of linear equations a·y = b, for columns or a single vector b."""

    dependence = OPAQUE, LINEAR
    remedy = "gw.linalg.lstsq(a, b)"

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        _, n = self.check(a, square=True, name="a")
        if not b.rank:
            raise ShapeError(f"{self.name} needs a right-hand side", need="b of rank 1 or more")
        if differ(n, b.shape[-2:][0]):
            raise ShapeError(
                "the right-hand side does not fit",
                need=f"b: [{n}] or [..., {n}, k], got {list(b.shape)}",
            )
        joint = promote(a.dtype, b.dtype)
        if b.rank == 1:
            return TensorSpec(a.shape[:-1], joint)
        return TensorSpec((*broadcast(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), joint)

    def columns(self, a: Array, b: Array) -> Array:
        """Return the solutions for a right-hand side of columns."""
        raise NotImplementedError

    def alone(self, x: Array) -> Any:
        return self.columns(x, np.zeros((len(x), 1), x.dtype))

    def compute(self, *xs: Array) -> Any:
        a, b = xs
        joint = promote(a.dtype, b.dtype)
        a, b = a.astype(joint, copy=False), b.astype(joint, copy=False)
        return self.columns(a, b[:, None])[..., 0].copy() if b.ndim == 1 else self.columns(a, b)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        a = TensorSpec((3, 3))
        yield ErrorSample((a, TensorSpec((2, 3))), {}, "does not fit")
        yield ErrorSample((a, TensorSpec(())), {}, "needs a right-hand side")
        yield ErrorSample((TensorSpec((3, 2)), a), {}, "needs square matrices")


class Solve(_System):
    """Solution of systems of linear equations, by LU with partial pivoting.

    a·y = b

    ``a: f32[..., N, N]``, ``b: f32[..., N, K]`` or one vector ``f32[N]`` for all systems. Singular
    matrices raise an error when run.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = g.constant([[2.0, 0.0], [1.0, 1.0]]), g.constant([2.0, 3.0])
    >>> g.output({}, gw.linalg.solve(a, b))["solve"].tolist()
    [1.0, 2.0]
    """

    def columns(self, a: Array, b: Array) -> Array:
        return np.linalg.solve(a, b)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (y,), (a, b) = gs, ys, xs
        if b.rank == 1:
            g, y = g[..., None], y[..., None]
        gb = Solve()(adjoint(a), g)
        return lambda: -(gb @ adjoint(y)), lambda: gb[..., 0] if b.rank == 1 else gb

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a = rng.standard_normal((2, 3, 3)) + 3 * np.eye(3)
        yield Sample((a, rng.standard_normal((3, 2))))
        yield Sample((a, rng.standard_normal(3)))
        yield Sample((a[0], rng.standard_normal((2, 3, 0))))


def substitute(a: Array, b: Array, lower: bool) -> Array:
    """Solve triangular systems block by block, by multiplication with inverse diagonal blocks."""
    n = a.shape[-1]
    if n <= BLOCK:
        return np.linalg.solve(a, b)
    y = np.empty((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype)
    for start in range(0, n, BLOCK) if lower else reversed(range(0, n, BLOCK)):
        rows = slice(start, start + BLOCK)
        known = slice(0, start) if lower else slice(start + BLOCK, n)
        rest = b[..., rows, :] - a[..., rows, known] @ y[..., known, :]
        np.matmul(np.linalg.inv(a[..., rows, rows]), rest, out=y[..., rows, :])
    return y


class TriangularSolve(_System):
    """Solution of systems with a triangular matrix; its other triangle is not read.

    tri(a)·y = b, or tri(a)ᴴ·y = b with ``adjoint``

    ``a: f32[..., N, N]``, ``b: f32[..., N, K]`` or one vector ``f32[N]`` for all systems.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = g.constant([[2.0, 9.0], [1.0, 1.0]]), g.constant([2.0, 3.0])
    >>> g.output({}, gw.linalg.triangular_solve(a, b))["triangular_solve"].tolist()
    [1.0, 2.0]
    """

    lower: bool = attr(True, doc="Whether the lower triangle is meant, or the upper one.")
    adjoint: bool = attr(False, doc="Whether to solve with the conjugate transpose.")
    unit_diagonal: bool = attr(False, doc="Whether the diagonal counts as ones.")

    def columns(self, a: Array, b: Array) -> Array:
        a = np.tril(a) if self.lower else np.triu(a)
        if self.unit_diagonal:
            i = np.arange(a.shape[-1])
            a[..., i, i] = 1
        lower = self.lower != self.adjoint
        return substitute(a.conj().swapaxes(-1, -2) if self.adjoint else a, b, lower)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (y,), (a, b) = gs, ys, xs
        if b.rank == 1:
            g, y = g[..., None], y[..., None]
        gb = self.replace(adjoint=not self.adjoint)(a, g)
        k = int(self.unit_diagonal)

        def matrix() -> Any:
            full = y @ adjoint(gb) if self.adjoint else gb @ adjoint(y)
            return -(Tril(k=-k)(full) if self.lower else Triu(k=k)(full))

        return matrix, lambda: gb[..., 0] if b.rank == 1 else gb

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a = rng.standard_normal((2, 3, 3)) + 3 * np.eye(3)
        b = rng.standard_normal((3, 2))
        yield Sample((a, b))
        yield Sample((a, rng.standard_normal(3)), {"lower": False, "adjoint": True})
        yield Sample((a[0], b), {"lower": False, "unit_diagonal": True})
        yield Sample((a[:, :0, :0], b[:0]), {"adjoint": True})


class Pinv(MatrixOp):
    """Moore-Penrose inverse, from the singular values above ``rtol`` times the largest.

    y = V·S⁺·Uᴴ for x = U·S·Vᴴ

    Its gradient (Golub and Pereyra 1973) holds as long as the rank stays.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.linalg.pinv(g.constant([[2.0], [0.0]])))["pinv"].tolist()
    [[0.5, 0.0]]
    """

    finite = True
    rtol: float | None = attr(
        None, doc="Relative size of singular values that count as 0; None: max(M, N)·eps."
    )

    def infer(self, x: TensorSpec) -> TensorSpec:
        m, n = self.check(x)
        return x.with_shape((*x.shape[:-2], n, m))

    def compute(self, *xs: Array) -> Any:
        (x,) = xs
        if not x.size:
            return np.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
        default = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
        return np.linalg.pinv(x, default if self.rtol is None else self.rtol)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), y, x = gs, adjoint(ys[0]), xs[0]
        gh = adjoint(g)  # M×N, as are x and y from here on
        left = gh - x @ (ys[0] @ gh)
        right = gh - (gh @ ys[0]) @ x
        back = left @ (ys[0] @ y) + (y @ ys[0]) @ right
        return (back - y @ g @ y,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 2)),))
        yield Sample((rng.standard_normal((2, 3)),))
        yield Sample((np.zeros((0, 2)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {}, "needs matrices")


class Lstsq(Op):
    """Least-squares solution, the smallest one where there are several.

    y = argmin ‖a·y − b‖² + ℓ·‖y‖², which is a⁺·b without regularisation

    ``a: f32[..., M, N]``, ``b: f32[..., M, K]`` or one vector ``f32[M]``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = g.constant([[1.0], [1.0]]), g.constant([1.0, 2.0])
    >>> g.output({}, gw.linalg.lstsq(a, b))["lstsq"].round(4).tolist()
    [1.5]
    """

    namespace = "linalg"
    rtol: float | None = attr(
        None, doc="Relative size of singular values that count as 0; None: max(M, N)·eps."
    )
    l2_regularizer: float = attr(0.0, doc="The weight ℓ of the solution's own size.")

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        m, n = Pinv().check(a, name="a")
        if not b.rank or differ(m, b.shape[-2:][0]):
            raise ShapeError(
                "the right-hand side does not fit",
                need=f"b: [{m}] or [..., {m}, k], got {list(b.shape)}",
            )
        joint = promote(a.dtype, b.dtype)
        if b.rank == 1:
            return TensorSpec((*a.shape[:-2], n), joint)
        return TensorSpec((*broadcast(a.shape[:-2], b.shape[:-2]), n, b.shape[-1]), joint)

    def expand(self, a: Any, b: Any) -> Any:
        joint = promote(a.dtype, b.dtype)
        wide = at_least_float32(joint)
        a, b = (x if x.dtype == wide else Cast(dtype=wide)(x) for x in (a, b))
        if self.l2_regularizer:
            gram = adjoint(a) @ a
            ridge = DiagGrad()(OnesLike()(gram[..., 0]) * float(self.l2_regularizer), gram)
            y = Solve()(gram + ridge, adjoint(a) @ (b[:, None] if b.rank == 1 else b))
            y = y[..., 0] if b.rank == 1 else y
        else:
            y = Pinv(rtol=self.rtol)(a) @ b
        return y if wide == joint else Cast(dtype=joint)(y)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a = rng.standard_normal((2, 3, 2))
        yield Sample((a, rng.standard_normal((3, 1))))
        yield Sample((a, rng.standard_normal(3)), {"l2_regularizer": 0.1})
        yield Sample((a[0].T, rng.standard_normal(2)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3, 2)), TensorSpec((2, 2))), {}, "does not fit")
        yield ErrorSample((TensorSpec((3,)), TensorSpec((3,))), {}, "needs matrices")

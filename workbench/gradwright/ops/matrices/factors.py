"""Factorisations into triangular and unitary matrices: Cholesky, QR, LU."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...op import ZERO, Cotangent, ErrorSample, Sample, attr
from ...spec import TensorSpec
from ..core.creation import Tril, Triu, diagonal_size
from ..core.joining import Concat
from ..core.like import ZerosLike
from .common import Array, MatrixOp, adjoint, excess, hermitian
from .solutions import TriangularSolve, substitute

PANEL = 16
"""Columns that LU eliminates one by one before it updates the rest by multiplication."""


def present(g: Any, y: Any) -> Any:
    """Return a cotangent as a tensor, zeros where there is none."""
    return ZerosLike()(y) if g is ZERO else g


def halved(side: type[Tril] | type[Triu], x: Any) -> Any:
    """Return a triangle of x with half its diagonal."""
    k = -1 if side is Tril else 1
    return (side()(x) + side(k=k)(x)) * 0.5


def right_solve(y: Any, a: Any, *, lower: bool, adjoint_too: bool = False) -> Any:
    """Return y·a⁻¹, or y·a⁻ᴴ, for a triangular a."""
    solver = TriangularSolve(lower=lower, adjoint=not adjoint_too)
    return adjoint(solver(a, adjoint(y)))


class Cholesky(MatrixOp):
    """Cholesky factor of Hermitian positive definite matrices.

    y·yᴴ = (x + xᴴ)/2, y lower triangular; or yᴴ·y with ``upper``

    Both triangles are read, so that the gradient is Hermitian (Murray 2016). Matrices that are not
    positive definite raise an error when run.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[4.0, 2.0], [2.0, 5.0]])
    >>> g.output({}, gw.linalg.cholesky(x))["cholesky"].tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """

    remedy = "x + eps·identity, with eps above minus the least of gw.linalg.eigvalsh(x)"
    upper: bool = attr(False, doc="Whether to return the upper factor yᴴ instead.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        self.check(x, square=True)
        return x.with_shape(x.shape)

    def compute(self, *xs: Array) -> Any:
        y = np.linalg.cholesky(hermitian(xs[0]))
        return y.conj().swapaxes(-1, -2).copy() if self.upper else y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (y,) = gs, ys
        if self.upper:
            g, y = adjoint(g), adjoint(y)
        inner = halved(Tril, adjoint(y) @ g)
        solver = TriangularSolve(adjoint=True)
        back = right_solve(solver(y, inner), y, lower=True)
        return ((back + adjoint(back)) * 0.5,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3, 3))
        x = x @ x.swapaxes(-1, -2) + np.eye(3)
        yield Sample((x,))
        yield Sample((x[0],), {"upper": True})
        yield Sample((np.zeros((2, 0, 0)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {}, "needs square matrices")


class Qr(MatrixOp):
    """Product of a matrix with orthonormal columns and an upper triangular one.

    x = q·r,  qᴴ·q = 1

    For ``x: f32[..., M, N]`` and K = min(M, N), "reduced" gives ``q: f32[..., M, K]`` and
    ``r: f32[..., K, N]``, "complete" ``q: f32[..., M, M]`` and ``r: f32[..., M, N]``. Signs are
    those of Householder reflections, as in LAPACK. The first K columns of x have to be
    independent for the gradient. The columns of q beyond the N-th may turn among themselves: the
    gradient is that of functions which do not see such turns. M and N have to be known.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, r = gw.linalg.qr(g.placeholder("x", ("B", 4, 3)))
    >>> q.shape, r.shape
    ((B, 4, 3), (B, 3, 3))
    """

    returns = "q", "r"
    mode: str = attr("reduced", doc="Shape of the results.", choices=("reduced", "complete"))

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        m, n = self.check(x)
        tall = excess(self, m, n) > 0
        k = n if tall and self.mode == "reduced" else m
        return x.with_shape((*x.shape[:-1], k)), x.with_shape((*x.shape[:-2], k, n))

    def compute(self, *xs: Array) -> Any:
        mode: Any = self.mode
        q, r = np.linalg.qr(xs[0], mode)
        return q, r

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (q, r), (x,) = ys, xs
        m, n = x.shape[-2:]
        rest = excess(self, m, n)
        gq, gr = present(gs[0], q), present(gs[1], r)
        if rest >= 0:
            if self.mode == "complete" and rest:
                gq, q = gauge_free(gq, q, n)
                gr, r = gr[..., :n, :], r[..., :n, :]
            return (_qr_back(gq, gr, q, r),)
        gr, behind, r = gr[..., :m], gr[..., m:], r[..., :m]
        first = _qr_back(gq + x[..., m:] @ adjoint(behind), gr, q, r)
        return (Concat(axis=-1)(first, q @ behind),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 2)),))
        yield Sample((rng.standard_normal((2, 4)),), {"mode": "complete"})
        yield Sample((rng.standard_normal((3, 2)),), {"mode": "complete"}, smooth=False)
        yield Sample((np.zeros((0, 2, 2)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {}, "needs matrices")
        yield ErrorSample((TensorSpec((2, 2)),), {"mode": "r"}, "is not known")


def _qr_back(gq: Any, gr: Any, q: Any, r: Any) -> Any:
    """Return the cotangent of a square or tall x = q·r (Walter et al. 2012)."""
    inner = halved(Triu, gr @ adjoint(r) - adjoint(q) @ gq)
    return right_solve(gq + q @ (inner + adjoint(inner)), r, lower=False, adjoint_too=True)


def gauge_free(g: Any, q: Any, k: Any) -> tuple[Any, Any]:
    """Return cotangent and columns of the first k columns of a unitary matrix.

    What flows to the others is passed on: they move as it takes to stay orthogonal to the first.
    """
    first, others = q[..., :k], q[..., k:]
    return g[..., :k] - others @ (adjoint(g[..., k:]) @ first), first


class Lu(MatrixOp):
    """Product of a permutation, a unit lower and an upper triangular matrix.

    x = p·l·u

    For ``x: f32[..., M, N]`` and K = min(M, N): ``p: f32[..., M, M]``, ``l: f32[..., M, K]`` with
    ones on its diagonal, ``u: f32[..., K, N]``. Pivots are the largest of their column. The first
    K rows and columns have to be regular for the gradient, and M and N to be known.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, l, u = gw.linalg.lu(g.constant([[1.0, 2.0], [2.0, 2.0]]))
    >>> [y.tolist() for y in g.output({}, l, u).values()]
    [[[1.0, 0.0], [0.5, 1.0]], [[2.0, 2.0], [0.0, 1.0]]]
    """

    returns = "p", "l", "u"

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
        m, n = self.check(x)
        excess(self, m, n)
        k, lead = diagonal_size(m, n, 0), x.shape[:-2]
        return tuple(x.with_shape((*lead, *s)) for s in ((m, m), (m, k), (k, n)))  # type: ignore[return-value]

    def compute(self, *xs: Array) -> Any:
        (x,) = xs
        m, n = x.shape[-2:]
        k = min(m, n)
        packed, order = eliminate(x)
        p = (np.arange(m)[:, None] == order[..., None, :]).astype(x.dtype)
        lower = np.tril(packed[..., :k], -1)
        i = np.arange(k)
        lower[..., i, i] = 1
        return p, lower, np.triu(packed[..., :k, :])

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (p, lower, upper), (x,) = ys, xs
        m, n = x.shape[-2:]
        rest = excess(self, m, n)
        gl, gu = present(gs[1], lower), present(gs[2], upper)
        if rest > 0:  # the rows below the square: l₂ = b₂·u⁻¹ for b = pᴴ·x
            l2, gl2, lower, gl = (
                lower[..., n:, :],
                gl[..., n:, :],
                lower[..., :n, :],
                gl[..., :n, :],
            )
            below = right_solve(gl2, upper, lower=False, adjoint_too=True)
            gu = gu - adjoint(l2) @ below
        elif rest < 0:  # the columns right of it: u₂ = l⁻¹·b₂
            u2, gu2, upper, gu = upper[..., m:], gu[..., m:], upper[..., :m], gu[..., :m]
            solve = TriangularSolve(adjoint=True, unit_diagonal=True)
            beside = solve(lower, gu2)
            gl = gl - beside @ adjoint(u2)
        inner = Tril(k=-1)(adjoint(lower) @ gl) + Triu()(gu @ adjoint(upper))
        inner = TriangularSolve(adjoint=True, unit_diagonal=True)(lower, inner)
        back = right_solve(inner, upper, lower=False, adjoint_too=True)
        if rest > 0:
            back = Concat(axis=-2)(back, below)
        elif rest < 0:
            back = Concat(axis=-1)(back, beside)
        return (p @ back,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 3)),))
        yield Sample((rng.standard_normal((2, 4)),))
        yield Sample((rng.standard_normal((4, 2)),))
        yield Sample((np.zeros((2, 0)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {}, "needs matrices")


def eliminate(x: Array) -> tuple[Array, Array]:
    """Return l and u in one matrix each, and the order of rows: x[order] = l·u.

    Columns are eliminated in panels (Golub and Van Loan, section 3.4), all matrices at once: one
    loop over columns inside a panel, multiplication for all to the right of it.
    """
    m, n = x.shape[-2:]
    a = x.reshape(math.prod(x.shape[:-2]), m, n).copy()
    which, order = np.arange(len(a))[:, None], np.tile(np.arange(m), (len(a), 1))
    for start in range(0, min(m, n), PANEL):
        end = min(start + PANEL, m, n)
        columns = a[:, start:, start:end].swapaxes(1, 2).copy()
        moved = _eliminate_columns(columns)
        order[:, start:] = np.take_along_axis(order[:, start:], moved, 1)
        for rest in (a[:, start:, :start], a[:, start:, end:]):
            rest[...] = rest[which, moved]
        panel = a[:, start:, start:end]
        panel[...] = columns.swapaxes(1, 2)
        if end < n:
            corner = np.tril(panel[:, : end - start], -1) + np.eye(end - start, dtype=a.dtype)
            a[:, start:end, end:] = substitute(corner, a[:, start:end, end:], lower=True)
            a[:, end:, end:] -= a[:, end:, start:end] @ a[:, start:end, end:]
    return a.reshape(x.shape), order.reshape(*x.shape[:-2], m)


def _eliminate_columns(x: Array) -> Array:
    """Eliminate the first columns of matrices, [B, columns, rows], in place; return their order.

    Rows lie along the last axis, so that all work is on long contiguous runs.
    """
    single = len(x) == 1  # then places are plain numbers, which is ten times faster
    which: Any = 0 if single else np.arange(len(x))
    moved = np.tile(np.arange(x.shape[2]), (len(x), 1))
    for j in range(x.shape[1]):
        column = x[:, j, j:]
        # |Re| + |Im| finds the pivots of LAPACK for complex numbers too
        size = np.abs(column) if column.dtype.kind == "f" else abs(column.real) + abs(column.imag)
        pivot: Any = j + (int(size.argmax()) if single else size.argmax(1))
        if not single or pivot != j:
            for rows in (x, moved):
                there, here = rows[which, ..., pivot].copy(), rows[which, ..., j].copy()
                rows[which, ..., j], rows[which, ..., pivot] = there, here
        head, below = column[:, :1], column[:, 1:]
        below /= np.where(head == 0, 1, head)
        x[:, j + 1 :, j + 1 :] -= x[:, j + 1 :, j, None] * below[:, None]
    return moved

"""Singular values and what is made of them: rank, condition."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import ShapeError
from ...op import ZERO, Autocast, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, kind
from ..core.creation import DiagGrad, diagonal_size
from ..core.elementwise import Abs, real_part
from ..core.exponential import Sqrt
from ..core.functions import Square
from ..core.like import ZerosLike
from ..core.movement import Cast
from ..core.reduce import Max, Sum
from .common import Array, MatrixOp, adjoint, excess
from .factors import gauge_free, present
from .solutions import Inv
from .spectra import phase, turned, unpinned
from .ties import SKIP, GapReciprocal, hollow, idle, turn_free


class Svd(MatrixOp):
    """Singular value decomposition.

    x = u·diag(s)·vh,  uᴴ·u = vh·vhᴴ = 1,  s₀ ≥ s₁ ≥ … ≥ 0

    For ``x: f32[..., M, N]`` and K = min(M, N): ``u: f32[..., M, K]``, ``s: f32[..., K]`` and
    ``vh: f32[..., K, N]``, or ``u: f32[..., M, M]`` and ``vh: f32[..., N, N]`` with
    ``full_matrices``, where M and N have to be known. The largest component of each column of u is
    real and positive (of those within 0.1 % the first), so that results are the same everywhere.

    Gradients by u and vh need singular values that differ and, unless x is square, are not 0
    (Townsend 2016). Where they do not (to 4 roundings of the largest), functions of u and vh alone
    have the gradient of functions of the spaces, as the nearest orthogonal matrix u @ vh is one;
    those of s, too, have NaN, unless nothing flows to the vectors there. The vectors beyond the
    K-th may turn among themselves: the gradient is that of functions which do not see such turns.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> u, s, vh = gw.linalg.svd(g.constant([[3.0, 0.0], [0.0, -4.0], [0.0, 0.0]]))
    >>> u.shape, vh.shape, g.output({}, s)[s.name].round(4).tolist()
    ((3, 3), (2, 2), [4.0, 3.0])
    """

    returns = "u", "s", "vh"
    finite = True
    spaces: ClassVar[bool] = True
    """Whether a function of u and vh alone is one of spaces; not where s comes from elsewhere."""
    full_matrices: bool = attr(True, doc="Whether u and vh are square.")

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
        m, n = self.check(x)
        if self.full_matrices:
            excess(self, m, n)
        k, lead = diagonal_size(m, n, 0), x.shape[:-2]
        s = x.with_shape((*lead, k))
        u, vh = ((m, m), (n, n)) if self.full_matrices else ((m, k), (k, n))
        return (
            x.with_shape((*lead, *u)),
            real_part(self, s) if kind(x.dtype) == "c" else s,
            x.with_shape((*lead, *vh)),
        )

    def compute(self, *xs: Array) -> Any:
        u, s, vh = np.linalg.svd(xs[0], full_matrices=self.full_matrices)
        k = s.shape[-1]
        turn = phase(u[..., :k])
        u[..., :k] *= turn.conj()
        vh[..., :k, :] *= turn.swapaxes(-1, -2)
        return u, s, vh

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (gu, g_s, gvh), (u, s, vh), (x,) = gs, ys, xs
        k, is_complex = s.shape[-1], kind(x.dtype) == "c"
        v, gv = adjoint(vh), gvh if gvh is ZERO else adjoint(gvh)
        if self.full_matrices:
            gu = gu if gu is ZERO else gauge_free(gu, u, k)[0]
            gv = gv if gv is ZERO else gauge_free(gv, v, k)[0]
            u, v = u[..., :k], v[..., :k]
        if is_complex and (gu is not ZERO or gv is not ZERO):
            gu = present(gu, u)
            turn = turned(gu, u) if gv is ZERO else turned(gu, u) + turned(gv, v)
            gu = unpinned(gu, u, turn)
        if gu is ZERO and gv is ZERO:
            return (u * _like(g_s, u)[..., None, :] @ adjoint(v),)
        back = u @ self._turns(gu, g_s, gv, u, s, v) @ adjoint(v)
        if gu is not ZERO and x.shape[-2] != k:
            back = back + _outside(gu, u, s) @ adjoint(v)
        if gv is not ZERO and x.shape[-1] != k:
            back = back + u @ adjoint(_outside(gv, v, s))
        return (back,)

    def _turns(self, gu: Any, g_s: Any, gv: Any, u: Any, s: Any, v: Any) -> Any:
        """Return the cotangent of uᴴ·x·v.

        A turn of two columns that u and v make together is divided by the difference of their
        singular values, one that they make against each other by the sum.
        """
        given = [(g, y) for g, y in ((gu, u), (gv, v)) if g is not ZERO]
        alongs = [adjoint(y) @ g for g, y in given]
        turns = [(along - adjoint(along)) * 0.5 for along in alongs]
        together, against = turns[0], -turns[0] if gu is ZERO else turns[0]
        if len(turns) == 2:
            together, against = turns[0] + turns[1], turns[0] - turns[1]
        together = hollow(together)
        row, column = s[..., None, :], s[..., :, None]
        if g_s is ZERO and self.spaces:
            columns = [g for g, _ in given]
            factors = [
                GapReciprocal(reach=SKIP)(gap, s, turn_free(n, *columns))
                for n, gap in ((together, row - column), (against, row + column))
            ]
        else:
            values, flows = ZerosLike()(s) if g_s is ZERO else g_s, list(map(hollow, alongs))
            factors = [
                GapReciprocal()(row - column, s, idle(values, *flows)),
                GapReciprocal()(row + column, s, idle(values, *flows, against)),
            ]
        inner = together * factors[0] + against * factors[1]
        return inner if g_s is ZERO else inner + DiagGrad()(_like(g_s, inner), inner)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 2)),), {"full_matrices": False})
        yield Sample((rng.standard_normal((2, 4)),), {"full_matrices": False})
        yield Sample((rng.standard_normal((3, 3)),))
        yield Sample((rng.standard_normal((2, 4)),), smooth=False)
        yield Sample((np.zeros((2, 0, 3)),), {"full_matrices": False})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {}, "needs matrices")


def _like(s: Any, u: Any) -> Any:
    return s if s.dtype == u.dtype else Cast(dtype=u.dtype)(s)


def _outside(g: Any, y: Any, s: Any) -> Any:
    """Return what flows out of the space of columns y of a singular value each, divided by it."""
    free = g - y @ (adjoint(y) @ g)
    gone = Sum(axis=-2, keepdims=True)(Abs()(g)) == 0.0
    return free * GapReciprocal()(s[..., None, :], s, gone)


class SvdBeside(Svd):
    """Vectors of ``svd`` beside singular values from elsewhere: for gradients of those.

    x = u·diag(s)·vh
    """

    namespace = "gradient"
    returns = "u", "s", "vh"
    drawing = "math"
    autocast = Autocast.FREE
    spaces = False


class Svdvals(MatrixOp):
    """Singular values, in descending order.

    s = √ of the eigenvalues of xᴴ·x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> s = gw.linalg.svdvals(g.constant([[3.0, 0.0], [0.0, -4.0]]), name="s")
    >>> g.output({}, s)["s"].round(4).tolist()
    [4.0, 3.0]
    """

    finite = True

    def infer(self, x: TensorSpec) -> TensorSpec:
        return Svd(full_matrices=False).infer(x)[1]

    def compute(self, *xs: Array) -> Any:
        return np.linalg.svd(xs[0], compute_uv=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        u, _, vh = SvdBeside(full_matrices=False)(xs[0])
        return ((u * gs[0][..., None, :]) @ vh,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 2)),))
        yield Sample((rng.standard_normal((2, 4)),))
        yield Sample((np.zeros((0, 3)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {}, "needs matrices")


class MatrixRank(MatrixOp):
    """Number of singular values above ``rtol`` times the largest.

    y = #{i : sᵢ > rtol·s₀}

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1.0, 2.0], [2.0, 4.0]])
    >>> int(g.output({}, gw.linalg.matrix_rank(x))["matrix_rank"])
    1
    """

    finite = True
    rtol: float | None = attr(None, doc="Relative size that counts as 0; None: max(M, N)·eps.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        self.check(x)
        return TensorSpec(x.shape[:-2], "int64")

    def compute(self, *xs: Array) -> Any:
        (x,) = xs
        s = np.linalg.svd(x, compute_uv=False)
        rtol = max(x.shape[-2:]) * float(np.finfo(s.dtype).eps) if self.rtol is None else self.rtol
        return np.count_nonzero(s > s.max(-1, keepdims=True, initial=0) * rtol, axis=-1)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.stack([np.diag([1.0, 2.0, 0.0]), np.eye(3)]),))
        yield Sample((rng.standard_normal((3, 2)),), {"rtol": 10.0})
        yield Sample((np.zeros((2, 0)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {}, "needs matrices")


class ConditionNumber(Op):
    """Condition of matrices: how much larger a relative error may become when solving.

    y = s₀ / sₖ₋₁ for ``p`` 2, its reciprocal for −2, else ‖x‖·‖x⁻¹‖

    A singular matrix has condition ∞ for ``p`` 2, and raises an error for norms that need x⁻¹.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[4.0, 0.0], [0.0, 2.0]])
    >>> float(g.output({}, gw.linalg.condition_number(x))["condition_number"])
    2.0
    """

    namespace = "linalg"
    p: float | str = attr(2, doc='Norm: 2, -2, 1, inf (largest sums of columns, rows) or "fro".')

    def infer(self, x: TensorSpec) -> TensorSpec:
        if self.p not in (2, -2, 1, math.inf, "fro"):
            raise ShapeError(f"p={self.p!r} is not known", need='2, -2, 1, inf or "fro"')
        if self.p not in (2, -2):
            Inv().infer(x)
        s = Svdvals().infer(x)
        if s.shape[-1] == 0:
            raise ShapeError("an empty matrix has no condition")
        return s.with_shape(s.shape[:-1])

    def expand(self, x: Any) -> Any:
        if self.p in (2, -2):
            s = Svdvals()(x)
            return s[..., 0] / s[..., -1] if self.p == 2 else s[..., -1] / s[..., 0]
        return self._norm(x) * self._norm(Inv()(x))

    def _norm(self, x: Any) -> Any:
        if self.p == "fro":
            return Sqrt()(Sum(axis=(-2, -1))(Square()(Abs()(x))))
        along, across = (-2, -1) if self.p == 1 else (-1, -1)
        return Max(axis=across)(Sum(axis=along)(Abs()(x)))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3, 3)) + 2 * np.eye(3)
        for p in (2, -2, 1, math.inf, "fro"):
            yield Sample((x if p == 2 else x[0],), {"p": p})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {}, "needs matrices")
        yield ErrorSample((TensorSpec((2, 3)),), {"p": 1}, "needs square matrices")
        yield ErrorSample((TensorSpec((2, 2)),), {"p": 3}, "is not known")

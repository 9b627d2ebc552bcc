"""Determinants, their logarithms, and the adjugate that is their gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import LINEAR, ZERO, Autocast, Cotangent, ErrorSample, OnnxRule, Op, Sample
from ...spec import TensorSpec, kind, shapes_differ
from ..core.choice import Where
from ..core.complex import Complex, Imag
from ..core.creation import Diag
from ..core.elementwise import conj, real_part
from ..core.exponential import Log
from ..core.like import ZerosLike
from ..core.movement import Cast
from ..core.reduce import Sum
from .common import Array, MatrixOp, adjoint, where_finite
from .solutions import Inv


class Det(MatrixOp):
    """Determinant of square matrices; its gradient is right for singular ones, too.

    y = det x,  ∂y/∂x = adj(x)ᵀ

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.linalg.det(g.constant([[1.0, 2.0], [3.0, 4.0]])))["det"].round(4))
    -2.0
    """

    onnx = OnnxRule("Det", since=11)

    def infer(self, x: TensorSpec) -> TensorSpec:
        self.check(x, square=True)
        return x.with_shape(x.shape[:-2])

    def compute(self, *xs: Array) -> Any:
        return np.asarray(np.linalg.det(xs[0]))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (adjoint(Adjugate()(xs[0])) * gs[0][..., None, None],)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 3)),))
        yield Sample((rng.standard_normal((1, 1)),))
        yield Sample((np.zeros((2, 0, 0)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {}, "needs square matrices")
        yield ErrorSample((TensorSpec((2, 2), "int64"),), {}, "does not take int64")


class Adjugate(MatrixOp):
    """Transposed cofactors of square matrices, from singular values where there is no inverse.

    y = det(x)·x⁻¹ = det(u)·det(vᴴ)·v·diag(Πⱼ≠ᵢ sⱼ)·uᴴ for x = u·diag(s)·vᴴ
    """

    namespace = "gradient"
    drawing = "math"
    autocast = Autocast.FREE

    def infer(self, x: TensorSpec) -> TensorSpec:
        return Inv().infer(x)

    def compute(self, *xs: Array) -> Any:
        return where_finite(_adjugate, xs[0])

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (adjoint(AdjugateSlope()(xs[0], adjoint(gs[0]))),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 3)),))
        yield Sample((np.diag([2.0, 3.0, 0.0]),), smooth=False, differentiate=())


class AdjugateSlope(MatrixOp):
    """Derivative of the adjugate along matrices e, of matrices of any rank.

    y = det(x)·(tr(x⁻¹·e)·x⁻¹ − x⁻¹·e·x⁻¹), from singular values as :class:`Adjugate`

    tr(h·y) is the same with e and h exchanged. Its own gradient by x needs regular matrices.
    """

    namespace = "gradient"
    drawing = "math"
    autocast = Autocast.FREE
    dependence = LINEAR

    def infer(self, x: TensorSpec, e: TensorSpec) -> TensorSpec:
        y = Inv().infer(x)
        if shapes_differ(e.shape, y.shape) or e.dtype != y.dtype:
            raise ShapeError("the direction is none of x", need=str(y), facts=[f"got {e}"])
        return y

    def compute(self, *xs: Array) -> Any:
        return where_finite(_adjugate_slope, *xs)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        x, e = xs
        h = adjoint(gs[0])

        def matrix() -> Any:
            y = Inv()(x)
            ye, yh = y @ e, y @ h
            by_e, by_h, both = (_trace(m) for m in (ye, yh, ye @ yh))
            inner = (by_e * by_h - both) * y - (by_h * ye + by_e * yh) @ y
            inner = inner + (ye @ yh + yh @ ye) @ y
            return adjoint(Det()(x)[..., None, None] * inner)

        return matrix, lambda: adjoint(AdjugateSlope()(x, h))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 3)), rng.standard_normal((2, 3, 3))))
        yield Sample((rng.standard_normal((1, 1)), rng.standard_normal((1, 1))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3, 3)), TensorSpec((3,))), {}, "none of x")


def _trace(x: Any) -> Any:
    return Sum(axis=-1)(Diag()(x))[..., None, None]


def _adjugate(x: Array) -> Array:
    """Return adjugates from inverses, where these keep half the digits."""
    try:
        inverse = np.linalg.inv(x)
    except np.linalg.LinAlgError:
        return _cofactors(x)
    y: Array = np.linalg.det(x)[..., None, None] * inverse
    size = np.abs(x).sum(-2).max(-1, initial=0) * np.abs(inverse).sum(-2).max(-1, initial=0)
    poor = ~(size**2 * np.finfo(x.dtype).eps < 1)
    if poor.any():
        y[poor] = _cofactors(x[poor])
    return y


def _cofactors(x: Array) -> Array:
    u, s, vh = np.linalg.svd(x)
    scale = (np.linalg.det(u) * np.linalg.det(vh))[..., None] * _products_but_one(s)
    v, uh = (m.conj().swapaxes(-1, -2) for m in (vh, u))
    y: Array = (v * scale[..., None, :]) @ uh
    return y


def _adjugate_slope(x: Array, e: Array) -> Array:
    u, s, vh = np.linalg.svd(x)
    v, uh = (m.conj().swapaxes(-1, -2) for m in (vh, u))
    n = s.shape[-1]
    others = np.zeros((*s.shape, n), s.dtype)  # products of all but the i-th and the j-th
    rows = np.arange(n)
    for i in rows:
        others[..., i, rows != i] = _products_but_one(s[..., rows != i])
    e = uh @ e @ v
    y = -others * e
    y[..., rows, rows] = (others @ e[..., rows, rows, None])[..., 0]
    found: Array = (np.linalg.det(u) * np.linalg.det(vh))[..., None, None] * (v @ y @ uh)
    return found


def _products_but_one(s: Array) -> Array:
    before, after = np.ones_like(s), np.ones_like(s)
    before[..., 1:] = np.cumprod(s[..., :-1], -1)
    after[..., :-1] = np.cumprod(s[..., :0:-1], -1)[..., ::-1]
    y: Array = before * after
    return y


class Slogdet(MatrixOp):
    """Sign and logarithm of the modulus of determinants, which themselves would overflow.

    (sign, l) with det x = sign·eˡ; 0 and −∞ for singular matrices

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> sign, l = gw.linalg.slogdet(g.constant([[0.0, 1e-30], [1e-30, 0.0]]))
    >>> [round(float(y), 2) for y in g.output({}, sign, l).values()]
    [-1.0, -138.16]
    """

    returns = "sign", "logdet"

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        self.check(x, square=True)
        sign = x.with_shape(x.shape[:-2])
        return sign, real_part(self, sign) if kind(x.dtype) == "c" else sign.with_shape(sign.shape)

    def compute(self, *xs: Array) -> Any:
        sign, logarithm = np.linalg.slogdet(xs[0])
        return np.asarray(sign), np.asarray(logarithm)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g_sign, g_log), (sign, logarithm), (x,) = gs, ys, xs
        if kind(x.dtype) != "c":
            if g_log is ZERO:
                return (ZERO,)
            along = g_log
        else:
            real = ZerosLike()(logarithm) if g_log is ZERO else g_log
            turn = ZerosLike()(logarithm) if g_sign is ZERO else -Imag()(conj(g_sign) * sign)
            along = Complex()(real, turn)
        return (adjoint(Inv()(x)) * along[..., None, None],)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 3)),))
        yield Sample((np.zeros((0, 0)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {}, "needs square matrices")


class Logdet(Op):
    """Logarithm of determinants; NaN where one is negative, −∞ for 0.

    y = ln det x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.linalg.logdet(g.constant([[2.0, 0.0], [0.0, 0.5]])))["logdet"])
    0.0
    """

    namespace = "linalg"
    autocast = Autocast.FREE

    def infer(self, x: TensorSpec) -> TensorSpec:
        return Slogdet().infer(x)[0]

    def expand(self, x: Any) -> Any:
        sign, logarithm = Slogdet()(x)
        if kind(x.dtype) == "c":
            return Cast(dtype=x.dtype)(logarithm) + Log()(sign)
        return Where()(sign < 0.0, float("nan"), logarithm)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3, 3))
        yield Sample((x @ x.swapaxes(-1, -2) + np.eye(3),))
        yield Sample((np.array([[0.0, 1.0], [1.0, 0.0]]),), smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {}, "needs square matrices")

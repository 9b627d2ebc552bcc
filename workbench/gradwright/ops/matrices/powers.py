"""Powers and exponentials of square matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...op import Autocast, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec
from ..core.choice import Maximum, Minimum, Where
from ..core.creation import DiagGrad
from ..core.elementwise import Abs
from ..core.identity import Identity, StopGradient
from ..core.joining import Concat, Split
from ..core.like import OnesLike, ZerosLike
from ..core.movement import Cast
from ..core.reduce import Sum
from .common import Array, MatrixOp, adjoint
from .solutions import Inv

_DEGREE = 13
_PADE = [
    math.factorial(2 * _DEGREE - k) // (math.factorial(_DEGREE - k) * math.factorial(k))
    for k in range(_DEGREE + 1)
]
"""Coefficients of the numerator of the diagonal approximant, up to a common factor."""
_THETA = 5.371920351148152
"""Norm up to which it is exact to a rounding of float64 (Higham 2005, table 2.3)."""
FURTHEST = 2.0**60
"""Bound on what cotangents are scaled by, and divided by."""
GIVEN = 3
"""Halvings too many that are given away, for three bits: to look for fewer takes longer."""


def identity_like(x: Any) -> Any:
    """Return unit matrices of the shape of square ones."""
    return DiagGrad()(OnesLike()(x[..., 0]), x)


class MatrixPower(Op):
    """Whole power of square matrices, by repeated squaring.

    y = xⁿ, of the inverse for n < 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1.0, 1.0], [0.0, 1.0]])
    >>> g.output({}, gw.linalg.matrix_power(x, 5))["matrix_power"].tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """

    namespace = "linalg"
    autocast = Autocast.FREE
    n: int = attr(doc="The exponent.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        return Inv().infer(x)

    def expand(self, x: Any) -> Any:
        if not self.n:
            return identity_like(x)
        base = Inv()(x) if self.n < 0 else x
        y = base
        for bit in f"{abs(self.n):b}"[1:]:
            y = y @ y
            y = y @ base if bit == "1" else y
        return Identity()(y) if y is x else y

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 2, 2)) + 2 * np.eye(2)
        for n in (5, -2, 0):
            yield Sample((x,), {"n": n})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"n": 2}, "needs square matrices")


class MatrixExp(MatrixOp):
    """Exponential of square matrices, by scaling, a Padé approximant and squaring.

    y = Σₖ xᵏ / k!

    The gradient is a block of the exponential of ``[[xᴴ, g], [0, xᴴ]]`` (Najfeld and Havel 1995).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[0.0, 1.0], [0.0, 0.0]])
    >>> g.output({}, gw.linalg.matrix_exp(x))["matrix_exp"].tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """

    def infer(self, x: TensorSpec) -> TensorSpec:
        self.check(x, square=True)
        return x.with_shape(x.shape)

    def compute(self, *xs: Array) -> Any:
        (x,) = xs
        norm = _norm(x)
        fits: Any = True
        if not np.isfinite(norm).all():
            fits = np.asarray(np.isfinite(x).all((-2, -1)))
            x = np.where(fits[..., None, None], x, x.dtype.type(0))
        # Each matrix for itself: what is squared more often than it needs loses digits.
        halvings = _halvings(x, norm)
        x = x * np.ldexp(np.ones((), x.real.dtype), -halvings)[..., None, None]
        one = np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)
        x2 = x @ x
        x4 = x2 @ x2
        x6 = x4 @ x2
        c = [x.dtype.type(v / _PADE[0]) for v in _PADE]
        odd = x @ (
            x6 @ (c[13] * x6 + c[11] * x4 + c[9] * x2)
            + (c[7] * x6 + c[5] * x4 + c[3] * x2 + c[1] * one)
        )
        even = x6 @ (c[12] * x6 + c[10] * x4 + c[8] * x2) + (
            c[6] * x6 + c[4] * x4 + c[2] * x2 + c[0] * one
        )
        y = np.linalg.solve(even - odd, even + odd)
        for i in range(halvings.max(initial=0)):
            more = halvings > i
            y[more] = y[more] @ y[more]
        return y if fits is True else np.where(fits[..., None, None], y, y.dtype.type(np.nan))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        x, g = adjoint(xs[0]), gs[0]
        # It is linear in g: one as large as x asks for no more halvings than x.
        a, b = (Sum(axis=(-2, -1), keepdims=True)(Abs()(m)) for m in (x, g))
        near = Minimum()(Maximum()(a / b, 1 / FURTHEST), FURTHEST)
        scale = StopGradient()(Where()((a > 0.0) & (b > 0.0), near, 1.0))
        scale = scale if scale.dtype == x.dtype else Cast(dtype=x.dtype)(scale)
        upper = Concat(axis=-1)(x, g * scale)
        lower = Concat(axis=-1)(ZerosLike()(x), x)
        y = MatrixExp()(Concat(axis=-2)(upper, lower))
        rows = Split(parts=2, axis=-2)(y)[0]
        return (Split(parts=2, axis=-1)(rows)[1] / scale,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 2, 2)),))
        yield Sample((np.array([[0.5, 9.0], [-8.0, 0.0]]),))
        yield Sample((np.zeros((0, 0)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {}, "needs square matrices")


def _halvings(x: Array, norm: Array) -> Array:
    """Return how often each matrix is halved, by its norm or, where that asks for many, by others.

    Some more than needed are given away, or norms of powers would take longer than the rest.
    """
    found = np.asarray(np.maximum(np.frexp(norm / norm.dtype.type(_THETA))[1], 0))
    many = ~(norm <= _THETA * 2**GIVEN)
    if many.any():
        x = x[many]
        wide, exponent = _scaled(x)
        square = wide @ wide
        fourth = square @ square
        with np.errstate(divide="ignore"):
            full, least = np.log2(_norm(wide)), np.log2(_norm(fourth)) / 4
        more = np.maximum(np.ceil(full - math.log2(_THETA)) + exponent, 0).astype(int)
        powerless = ~(least > full - GIVEN)
        if powerless.any():
            wide, square, fourth, exponent = (
                m[powerless] for m in (wide, square, fourth, exponent)
            )
            more[powerless] = _fewest_halvings(wide, square, fourth, exponent, x.dtype)
        found[many] = more
    return found


def _scaled(x: Array) -> tuple[Array, Array]:
    """Return matrices below 1, whose powers are finite, and the exponents taken out."""
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64, copy=False)
    exponent = np.frexp(np.abs(wide).max((-2, -1), initial=0))[1]
    return wide * np.ldexp(1.0, -exponent)[..., None, None], exponent


def _fewest_halvings(
    wide: Array, square: Array, fourth: Array, exponent: Array, dtype: Any
) -> Array:
    """Return how often matrices times 2^exponent are halved (Al-Mohy and Higham 2009, alg. 5.1).

    Norms of powers decide, as that of x may be large though its powers are small: [[0, 1e9], [0,
    0]] needs no halving. What that leaves out is the error of the approximant beyond the powers
    that were looked at, which the norm of |x|²⁷ bounds.
    """
    eighth = fourth @ fourth
    powers = (fourth @ square, eighth, eighth @ square)
    roots = [_norm(p) ** (1 / k) for k, p in zip((6, 8, 10), powers, strict=True)]
    bound = np.minimum(np.maximum(roots[0], roots[1]), np.maximum(roots[1], roots[2]))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.ceil(np.log2(bound / _THETA) + exponent)
        found = np.maximum(np.where(bound > 0, found, 0), 0).astype(int)
        beyond, sizes = np.zeros(exponent.shape), np.abs(wide)
        columns = np.ones((*exponent.shape, 1, wide.shape[-1]))
        for _ in range(2 * _DEGREE + 1):
            columns = columns @ sizes
            most = columns.max((-2, -1), initial=0)
            beyond = beyond + np.log2(most)
            columns = columns / np.where(most > 0, most, 1)[..., None, None]
        scale = exponent - found  # of what is halved: wide·2^scale
        error = beyond - np.log2(_norm(wide)) + 2 * _DEGREE * scale
        error = (
            error - math.log2(math.comb(2 * _DEGREE, _DEGREE)) + 1 - np.log2(np.finfo(dtype).eps)
        )
        error = error - math.log2(math.factorial(2 * _DEGREE + 1))
    more = np.where(np.isfinite(error), np.ceil(error / (2 * _DEGREE)), 0)
    return np.asarray(found + np.maximum(more, 0).astype(int))


def _norm(x: Array) -> Array:
    return np.asarray(np.abs(x).sum(-2).max(-1, initial=0.0))

"""Updates of matrices as a whole: Adafactor's factored moments, Muon's orthogonal steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, kind, shapes_differ
from ..core.choice import Maximum, Minimum
from ..core.exponential import Sqrt
from ..core.lengths import RootSumSquares
from ..core.movement import cast_to
from ..core.reduce import Mean
from ..core.special import finfo
from ..core.statistics import Norm
from .base import _Update, work_dtype
from .scaled import prepared, running, times


class AdafactorUpdate(_Update):
    """Adafactor of what is no matrix (Shazeer and Stern 2018, arXiv:1804.04235).

    β = 1 − t^−δ        v ← β·v + (1 − β)·(g² + ε₁)        u = g/√v
    p ← p·(1 − lr·λ) − α·u/max(1, rms(u)/d),  α = max(ε₂, rms(p))·ρ,  ρ = min(lr, 1/√t)

    Without ``relative_step`` ρ is lr, without ``scale_parameter`` α is ρ. ``step`` is t, counted
    from 1; the state begins as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.adafactor_update(
    ...     p, dp, zero, 1, 0.1, 0.8, 1e-30, 1e-3, 1.0, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

    n_state = 1
    accepts = "f"
    relative_step: bool = attr(True, doc="Bound the rate by 1/√t.")
    scale_parameter: bool = attr(True, doc="Multiply the rate by the parameter's size.")

    def expand(
        self,
        param: Any,
        grad: Any,
        v: Any,
        step: Any,
        learning_rate: Any,
        beta2_decay: Any,
        eps1: Any,
        eps2: Any,
        clip_threshold: Any,
        weight_decay: Any,
    ) -> Any:
        p, g, v1, *scalars = prepared(
            (param, grad, v),
            (step, learning_rate, beta2_decay, eps1, eps2, clip_threshold, weight_decay),
        )
        t, _, delta, small, *_ = scalars
        v1 = running(1 - t**-delta, v1, squares(g) + cast_to(p.dtype, small))
        return self.cast([self.moved(p, g / Sqrt()(v1), *scalars), v1], [param, v])

    def moved(self, p: Any, u: Any, *scalars: Any) -> Any:
        """Return the parameter after a step along u, no longer than the rules allow."""
        t, lr, _, _, least, limit, decay = scalars
        rate = Minimum()(lr, 1 / Sqrt()(t)) if self.relative_step else lr
        if self.scale_parameter:
            rate = times(rate, Maximum()(rms(p), cast_to(p.dtype, least)))
        u = u / Maximum()(times(1 / limit, rms(u)), 1.0)
        return times(1 - lr * decay, p) - times(rate, u)

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return np.int64(3), 0.1, 0.8, 1e-30, 1e-3, 1.0, 0.01

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, attrs in (
            ((5,), {}),
            ((), {"relative_step": False}),
            ((3,), {"scale_parameter": False}),
        ):
            tensors = rng.standard_normal(shape), rng.standard_normal(shape)
            states = cls.states(rng, shape)
            yield Sample((*tensors, *states, *map(np.asarray, cls.scalars())), attrs)

    @classmethod
    def states(cls, rng: np.random.Generator, shape: tuple[int, ...]) -> list[Any]:
        """Return states for a parameter of samples."""
        return [rng.uniform(0.5, 1.5, shape)]


class AdafactorMatrixUpdate(AdafactorUpdate):
    """Adafactor of a matrix, or of several: second moments by row and by column alone.

    r ← β·r + (1 − β)·meanⱼ (g² + ε₁)        c ← β·c + (1 − β)·meanᵢ (g² + ε₁)
    v = r·cᵀ/mean(r), and on as ``adafactor_update`` has it

    param: f32[…, n, m], r: f32[…, n], c: f32[…, m].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp = g.constant([[1.0, -1.0]]), g.constant([[0.5, 2.0]])
    >>> p, *states = gw.training.adafactor_matrix_update(
    ...     p, dp, g.constant([0.0]), g.constant([0.0, 0.0]),
    ...     1, 0.1, 0.8, 1e-30, 1e-3, 1.0, 0.0, name="p",
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([[ 0.9, -1.1]], dtype=float32)
    """

    n_state = 2

    def infer(  # type: ignore[override]
        self,
        param: TensorSpec,
        grad: TensorSpec,
        rows: TensorSpec,
        columns: TensorSpec,
        step: TensorSpec,
        learning_rate: TensorSpec,
        beta2_decay: TensorSpec,
        eps1: TensorSpec,
        eps2: TensorSpec,
        clip_threshold: TensorSpec,
        weight_decay: TensorSpec,
    ) -> Any:
        if param.rank < 2:
            raise ShapeError(
                f"{self.name} takes matrices, got {param}",
                need="f32[…, n, m]",
                hint="gw.training.adafactor_update",
            )
        r, c = param.shape[:-1], (*param.shape[:-2], param.shape[-1])
        for name, state, shape in (("rows", rows, r), ("columns", columns, c)):
            if kind(state.dtype) != "f":
                raise DTypeError(f"{name} cannot be {state.dtype}", need="a floating dtype")
            if shapes_differ(state.shape, shape):
                raise ShapeError(f"{name} has another shape", need=str(state.with_shape(shape)))
        like = rows.with_shape(param.shape), columns.with_shape(param.shape)
        numbers = (step, learning_rate, beta2_decay, eps1, eps2, clip_threshold, weight_decay)
        moved, *_ = super().infer(param, grad, *like, *numbers)
        return moved, rows.with_shape(r), columns.with_shape(c)

    def expand(  # type: ignore[override]
        self,
        param: Any,
        grad: Any,
        rows: Any,
        columns: Any,
        step: Any,
        learning_rate: Any,
        beta2_decay: Any,
        eps1: Any,
        eps2: Any,
        clip_threshold: Any,
        weight_decay: Any,
    ) -> Any:
        p, g, r, c, *scalars = prepared(
            (param, grad, rows, columns),
            (step, learning_rate, beta2_decay, eps1, eps2, clip_threshold, weight_decay),
        )
        t, _, delta, small, *_ = scalars
        square, keep = squares(g) + cast_to(p.dtype, small), 1 - t**-delta
        r = running(keep, r, Mean(axis=-1)(square))
        c = running(keep, c, Mean(axis=-2)(square))
        share = r / Mean(axis=-1, keepdims=True)(r)
        # Of a row beside one that is 2^63 times as large it would vanish, and 0·∞ come of it.
        by_row = 1 / Sqrt()(Maximum()(share, float(finfo(p.dtype).smallest_normal)))
        u = g * by_row[..., None] * (1 / Sqrt()(c))[..., None, :]
        return self.cast([self.moved(p, u, *scalars), r, c], [param, rows, columns])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((3, 4), (2, 1, 3)):
            tensors = rng.standard_normal(shape), rng.standard_normal(shape)
            states = (
                rng.uniform(0.5, 1.5, shape[:-1]),
                rng.uniform(0.5, 1.5, (*shape[:-2], shape[-1])),
            )
            yield Sample((*tensors, *states, *map(np.asarray, cls.scalars())))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        p, numbers = TensorSpec((2, 3)), [TensorSpec(())] * len(cls.scalars())
        r, c = TensorSpec((2,)), TensorSpec((3,))
        yield ErrorSample((r, r, r, r, *numbers), {}, "takes matrices")
        yield ErrorSample((p, p, c, c, *numbers), {}, "rows has another shape")
        yield ErrorSample((p, p, r, r.with_dtype("int32"), *numbers), {}, "columns cannot be int32")
        yield ErrorSample((p, p.with_shape((3, 2)), r, c, *numbers), {}, "grad has another shape")


def squares(g: Any) -> Any:
    """Return g², or the largest number of which 2²⁴ can be added up.

    In float32 gradients above 5e15 count as that: their squares would be infinite, so would be the
    moments from then on, and their shares by row and column ∞/∞.
    """
    return Minimum()(g * g, float(finfo(g.dtype).max) * 2.0**-24)


def rms(x: Any) -> Any:
    """Return the root of the mean square of all elements."""
    return RootSumSquares(mean=True)(x)


class NewtonSchulz(Op):
    """Nearly the nearest orthogonal matrix, by a quintic iteration (Jordan et al. 2024).

    x ← x/(‖x‖ + ε), then ``steps`` times  x ← a·x + (b·s + c·s²)·x,  s = x·xᵀ

    With the default coefficients singular values end between about 0.7 and 1.2 after 5 steps,
    however small they were.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.training.newton_schulz(g.constant([[3.0, 0.0], [0.0, 1.0]]), steps=10, name="y")
    >>> (abs(g.output({}, y)["y"].diagonal() - 1) < 0.35).tolist()
    [True, True]
    """

    namespace = "training"
    steps: int = attr(5, doc="Iterations.")
    a: float = attr(3.4445, doc="Coefficient of x.")
    b: float = attr(-4.775, doc="Coefficient of x·xᵀ·x.")
    c: float = attr(2.0315, doc="Coefficient of (x·xᵀ)²·x.")
    eps: float = attr(1e-7, doc="Added to the norm.", least=0.0)

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {x.dtype}", need="a floating dtype")
        if x.rank != 2 or self.steps < 0:
            raise ShapeError(f"{self.name} takes a matrix, got {x}", need="f32[n, m], steps >= 0")
        return x.with_shape(x.shape)

    def expand(self, x: Any) -> Any:
        work = work_dtype(x)
        n, m = x.shape
        tall = isinstance(n, int) and isinstance(m, int) and n > m  # x·xᵀ is the smaller one
        y = cast_to(work, x.mT if tall else x)
        y = y / (Norm()(y) + self.eps)
        for _ in range(self.steps):
            s = y @ y.mT
            y = y * self.a + (s * self.b + (s @ s) * self.c) @ y
        return cast_to(x.dtype, y.mT if tall else y)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((2, 3), (3, 2), (1, 1), (0, 2)):
            yield Sample((rng.standard_normal(shape),), {"steps": 2}, smooth=0 not in shape)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {}, "takes a matrix")
        yield ErrorSample((TensorSpec((2, 2), "int32"),), {}, "does not take int32")


class MuonUpdate(_Update):
    """Muon: the momentum of a matrix, made orthogonal (Jordan et al. 2024).

    m ← μ·m + (1 − μ)·g        n = μ·m + (1 − μ)·g with ``nesterov``, else m
    p ← p·(1 − lr·λ) − lr·scale·newton_schulz(n)

    The state begins as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp = g.constant([[1.0, 0.0], [0.0, 1.0]]), g.constant([[3.0, 0.0], [0.0, 3.0]])
    >>> p, m = gw.training.muon_update(p, dp, dp * 0.0, 0.1, 0.95, 0.0, name="p")
    >>> g.output({}, p)["p"].round(2)
    array([[0.89, 0.  ],
           [0.  , 0.89]], dtype=float32)
    """

    n_state = 1
    accepts = "f"
    nesterov: bool = attr(True, doc="Look ahead along the momentum.")
    steps: int = attr(5, doc="Iterations that make it orthogonal.")
    scale: float = attr(1.0, doc="Factor of the orthogonal step.")
    eps: float = attr(1e-7, doc="Added to the norm.", least=0.0)

    def infer(  # type: ignore[override]
        self,
        param: TensorSpec,
        grad: TensorSpec,
        m: TensorSpec,
        learning_rate: TensorSpec,
        momentum: TensorSpec,
        weight_decay: TensorSpec,
    ) -> Any:
        if param.rank != 2:
            raise ShapeError(
                f"{self.name} takes matrices, got {param}",
                need="f32[n, m]",
                hint="another optimizer for parameters of other ranks",
            )
        return super().infer(param, grad, m, learning_rate, momentum, weight_decay)

    def expand(
        self,
        param: Any,
        grad: Any,
        m: Any,
        learning_rate: Any,
        momentum: Any,
        weight_decay: Any,
    ) -> Any:
        p, g, m1, lr, mu, decay = prepared(
            (param, grad, m), (learning_rate, momentum, weight_decay)
        )
        m1 = running(mu, m1, g)
        ahead = running(mu, m1, g) if self.nesterov else m1
        way = NewtonSchulz(steps=self.steps, eps=self.eps)(ahead)
        return self.cast([times(1 - lr * decay, p) - times(lr * self.scale, way), m1], [param, m])

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return 0.1, 0.9, 0.01

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, nesterov in (((2, 3), True), ((3, 2), False)):
            tensors = (rng.standard_normal(shape) for _ in range(3))
            numbers = map(np.asarray, cls.scalars())
            yield Sample((*tensors, *numbers), {"nesterov": nesterov, "steps": 2, "scale": 0.5})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        row = TensorSpec((3,))
        yield ErrorSample((row, row, row, *[TensorSpec(())] * 3), {}, "takes matrices")

"""Optimizer updates: (parameter, gradient, state, scalars) -> (new parameter, new state).

Learning rates, betas, steps and norms are 0-d inputs, so that a schedule or a slider changes them
without a new plan. Scalars are best float64: 1 − β₂ = 0.001 has five correct digits in float32.
Parameters of 16 bits are updated in float32 and rounded once; their state may be float32.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ELEMENT, Cotangent, ErrorSample, NotDifferentiable, Op, Sample, attr
from ...spec import TensorSpec, at_least_float32, dtype, kind, promote_all, shapes_differ
from ...spec.rounding import rounded
from ..core.choice import Maximum
from ..core.exponential import Sqrt
from ..core.lengths import lengths
from ..core.movement import cast_to

FLOAT64 = dtype("float64")


def work_dtype(*xs: Any) -> np.dtype[Any]:
    """Return the dtype an update computes in: that of its tensors, at least float32."""
    joint = promote_all(*xs)
    return at_least_float32(joint)


class _Update(Op):
    """An update: the first input is the parameter, then its gradient, then ``n_state`` states."""

    namespace = "training"
    n_state: ClassVar[int] = 0
    accepts: ClassVar[str] = "fc"

    def infer(self, param: TensorSpec, grad: TensorSpec, *rest: TensorSpec) -> Any:
        specs = (param, grad, *rest)
        names = [p.name for p in self.inputs]
        if len(specs) != len(names):
            raise ShapeError(f"{self.name} takes {len(names)} inputs", need=", ".join(names))
        for i, (name, x) in enumerate(zip(names, specs, strict=True)):
            if i >= 2 + self.n_state:
                if x.rank:
                    raise ShapeError(f"{name} must be a scalar", need="a 0-d tensor")
                if kind(x.dtype) == "c":
                    raise DTypeError(f"{name} must be real", need="a floating dtype")
            elif kind(x.dtype) not in self.accepts:
                raise DTypeError(f"{name} cannot be {x.dtype}", need="a floating dtype")
            elif shapes_differ(x.shape, param.shape):
                raise ShapeError(f"{name} has another shape than the parameter", need=str(param))
        moved = (param, *rest[: self.n_state])
        out = tuple(x.with_shape(param.shape) for x in moved)
        return out if self.n_state else out[0]

    def cast(self, moved: Sequence[Any], inputs: Sequence[Any]) -> Any:
        """Round the new parameter and states to the dtypes of the old ones."""
        if isinstance(moved[0], np.ndarray):
            out = tuple(rounded(y, x.dtype) for y, x in zip(moved, inputs, strict=True))
        else:
            out = tuple(cast_to(x.dtype, y) for y, x in zip(moved, inputs, strict=True))
        return out if self.n_state else out[0]

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        """Return values for the 0-d inputs of samples."""
        raise NotImplementedError

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((2, 3), (), (0, 2)):
            tensors = [rng.standard_normal(shape) for _ in range(2)]
            states = [rng.uniform(0.5, 1.5, shape) for _ in range(cls.n_state)]
            yield Sample((*tensors, *states, *map(np.asarray, cls.scalars())))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        states = [TensorSpec((2, 3))] * cls.n_state
        numbers = [TensorSpec(())] * len(cls.scalars())
        p, wrong, many = TensorSpec((2, 3)), TensorSpec((3,)), TensorSpec((2,))
        yield ErrorSample((p, wrong, *states, *numbers), {}, "grad has another shape")
        yield ErrorSample((p, p, *states, *numbers[1:], many), {}, "must be a scalar")
        yield ErrorSample((p, p.with_dtype("int32"), *states, *numbers), {}, "cannot be int32")


class SgdUpdate(_Update):
    """Gradient descent with L2 decay.

    p ← p − lr·(g + λ·p)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp = g.constant([1.0, -1.0]), g.constant([0.5, 2.0])
    >>> p = gw.training.sgd_update(p, dp, 0.1, 0.0, name="p")
    >>> g.output({}, p)["p"].round(3)
    array([ 0.95, -1.2 ], dtype=float32)
    """

    dependence = ELEMENT

    def forward(self, param: Any, grad: Any, learning_rate: Any, weight_decay: Any) -> Any:
        work = work_dtype(param, grad)
        p, g = param.astype(work, copy=False), grad.astype(work, copy=False)
        g = _decayed(p, g, float(weight_decay))
        return self.cast([np.asarray(p - float(learning_rate) * g)], [param])

    def expand(self, param: Any, grad: Any, learning_rate: Any, weight_decay: Any) -> Any:
        work = work_dtype(param, grad)
        p, g = cast_to(work, param), cast_to(work, grad)
        g = g + cast_to(work, weight_decay) * p
        return self.cast([p - cast_to(work, learning_rate) * g], [param])

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return 0.1, 0.01


class MomentumUpdate(_Update):
    """Gradient descent with momentum (Polyak 1964), or Nesterov's (Sutskever et al. 2013).

    u ← μ·u + g + λ·p        p ← p − lr·u;        Nesterov: p ← p − lr·(g + λ·p + μ·u)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.momentum_update(p, dp, zero, 0.1, 0.9, 0.0, name="p")
    >>> g.output({}, p)["p"].round(3)
    array([ 0.95, -1.2 ], dtype=float32)
    """

    dependence = ELEMENT
    n_state = 1
    nesterov: bool = attr(False, doc="Look ahead along the velocity.")

    def forward(
        self,
        param: Any,
        grad: Any,
        velocity: Any,
        learning_rate: Any,
        momentum: Any,
        weight_decay: Any,
    ) -> Any:
        work = work_dtype(param, grad, velocity)
        p, g, u = (x.astype(work, copy=False) for x in (param, grad, velocity))
        mu = float(momentum)
        g = _decayed(p, g, float(weight_decay))
        u = mu * u + g
        d = g + mu * u if self.nesterov else u
        p = p - float(learning_rate) * d
        return self.cast([np.asarray(p), np.asarray(u)], [param, velocity])

    def expand(
        self,
        param: Any,
        grad: Any,
        velocity: Any,
        learning_rate: Any,
        momentum: Any,
        weight_decay: Any,
    ) -> Any:
        work = work_dtype(param, grad, velocity)
        p, g, u, lr, mu, decay = (
            cast_to(work, x) for x in (param, grad, velocity, learning_rate, momentum, weight_decay)
        )
        g = g + decay * p
        u = mu * u + g
        d = g + mu * u if self.nesterov else u
        return self.cast([p - lr * d, u], [param, velocity])

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return 0.1, 0.9, 0.01

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            yield sample
            yield Sample(sample.inputs, {"nesterov": True})


class AdamUpdate(_Update):
    """Adam (Kingma & Ba 2015, arXiv:1412.6980); with λ > 0 AdamW (Loshchilov & Hutter 2019).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    p ← p·(1 − lr·λ) − lr/(1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)

    ``step`` is t, the number of this update counted from 1. The decay λ is decoupled: it moves the
    parameter and not the moments (arXiv:1711.05101).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.adam_update(
    ...     p, dp, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

    dependence = ELEMENT
    n_state = 2
    accepts = "f"

    def forward(
        self,
        param: Any,
        grad: Any,
        m: Any,
        v: Any,
        step: Any,
        learning_rate: Any,
        beta1: Any,
        beta2: Any,
        eps: Any,
        weight_decay: Any,
    ) -> Any:
        work = work_dtype(param, grad, m, v)
        p, g, m1, v1 = (x.astype(work, copy=False) for x in (param, grad, m, v))
        lr, b1, b2, t = float(learning_rate), float(beta1), float(beta2), float(step)
        m1 = b1 * m1 + (1 - b1) * g
        v1 = b2 * v1 + (1 - b2) * (g * g)
        with np.errstate(divide="ignore", invalid="ignore"):
            rate, root = np.float64(lr) / (1 - b1**t), np.float64(1 - b2**t) ** 0.5
            scale = np.sqrt(v1) * float(1 / root) + float(eps)
            p = p * (1 - lr * float(weight_decay)) - float(rate) * (m1 / scale)
        return self.cast([np.asarray(y) for y in (p, m1, v1)], [param, m, v])

    def expand(
        self,
        param: Any,
        grad: Any,
        m: Any,
        v: Any,
        step: Any,
        learning_rate: Any,
        beta1: Any,
        beta2: Any,
        eps: Any,
        weight_decay: Any,
    ) -> Any:
        work = work_dtype(param, grad, m, v)
        to = functools.partial(cast_to, work)
        p, g, m1, v1 = map(to, (param, grad, m, v))
        lr, b1, b2, t, decay = (
            cast_to(FLOAT64, x) for x in (learning_rate, beta1, beta2, step, weight_decay)
        )
        m1 = to(b1) * m1 + to(1 - b1) * g
        v1 = to(b2) * v1 + to(1 - b2) * (g * g)
        scale = Sqrt()(v1) * to(1 / Sqrt()(1 - b2**t)) + to(eps)
        p = p * to(1 - lr * decay) - to(lr / (1 - b1**t)) * (m1 / scale)
        return self.cast([p, m1, v1], [param, m, v])

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return np.int64(3), 0.1, 0.9, 0.99, 1e-8, 0.01


def _decayed(param: Any, grad: Any, weight_decay: float) -> Any:
    return grad + weight_decay * param if weight_decay else grad


class GlobalNorm(Op):
    """Euclidean norm over all elements of all tensors; overflows only if the result does.

    y = √(Σₖ Σᵢ |xₖᵢ|²)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> n = gw.training.global_norm([g.constant([3.0]), g.constant(4.0)], name="n")
    >>> float(g.output({}, n)["n"])
    5.0
    """

    namespace = "training"

    def infer(self, *xs: TensorSpec) -> TensorSpec:
        if not xs or any(kind(x.dtype) not in "fc" for x in xs):
            raise DTypeError("global_norm needs floating tensors")
        work = work_dtype(*xs)
        return TensorSpec((), work if kind(work) == "f" else f"float{4 * work.itemsize}")

    def forward(self, *xs: Any) -> Any:
        work = work_dtype(*xs)
        real = self.infer(*xs).dtype
        with np.errstate(all="ignore"):
            flat = (np.ravel(np.abs(x) if kind(work) == "c" else x) for x in xs)
            parts = [lengths(x.astype(real, copy=False), (0,)) for x in flat]
            return lengths(np.concatenate(parts).astype(np.float64), (0,)).astype(real)[0]

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        tiny = float(np.finfo(ys[0].dtype).tiny)  # the gradient at zero is zero, not 0/0
        unit = gs[0] / Maximum()(ys[0], tiny)
        return [unit * x for x in xs]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)), rng.standard_normal(()), np.zeros((0, 2))))
        yield Sample((rng.standard_normal(4) * 1e200,), smooth=False)
        yield Sample((rng.standard_normal(4).astype(np.float16),), smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,), "int32"),), {}, "needs floating tensors")


class ClipByGlobalNorm(Op):
    """Scale all tensors by one factor so that their joint norm is at most ``clip_norm``.

    n = √(Σₖ Σᵢ xₖᵢ²)        yₖ = xₖ · c / max(n, c)

    Outputs n and then y₀, y₁, …: the direction of the step stays as it is (Pascanu et al. 2013,
    arXiv:1211.5063).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> norm, y = gw.training.clip_by_global_norm(1.0, g.constant([3.0, 4.0]), name="y")
    >>> g.output({}, y)["y:1"].round(2)
    array([0.6, 0.8], dtype=float32)
    """

    namespace = "training"

    def infer(self, clip_norm: TensorSpec, *xs: TensorSpec) -> Any:
        if clip_norm.rank:
            raise ShapeError("clip_norm must be a scalar", need="a 0-d tensor")
        return GlobalNorm().infer(*xs), *(x.with_shape(x.shape) for x in xs)

    def expand(self, clip_norm: Any, *xs: Any) -> Any:
        norm = GlobalNorm()(*xs)
        limit = cast_to(norm.dtype, clip_norm)
        factor = limit / Maximum()(norm, limit)
        return norm, *(cast_to(x.dtype, x * factor) for x in xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        xs = rng.standard_normal((2, 3)), rng.standard_normal(4)
        for limit in (1.0, 100.0):
            yield Sample((np.array(limit), *xs))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2,))
        yield ErrorSample((x, x), {}, "clip_norm must be a scalar")
        yield ErrorSample((TensorSpec(()), x.with_dtype("int32")), {}, "needs floating tensors")


class AllFinite(Op):
    """Whether no element of any tensor is NaN or infinite.

    y = ∧ₖ ∧ᵢ |xₖᵢ| < ∞ : bool[]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.training.all_finite([g.constant([1.0]), g.constant(float("nan"))], name="y")
    >>> bool(g.output({}, y)["y"])
    False
    """

    namespace = "training"

    def infer(self, *xs: TensorSpec) -> TensorSpec:
        return TensorSpec((), "bool")

    def forward(self, *xs: Any) -> Any:
        return np.bool_(all(np.isfinite(x).all() for x in xs))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [NotDifferentiable("all_finite is a decision")] * len(xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3))
        yield Sample((x, rng.standard_normal(())))
        yield Sample((x, np.where(x > 0, np.nan, x)))
        yield Sample((np.array([1.0, np.inf]),))

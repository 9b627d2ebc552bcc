"""Updates whose momentum follows a schedule of its own: Nadam by the paper, schedule-free AdamW."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, kind
from ..core.choice import Maximum, Where
from ..core.exponential import Sqrt
from ..core.movement import cast_to
from .base import FLOAT64, _Update
from .moments import _OfAdam
from .scaled import prepared, running, times


class _Numbers(Op):
    """An op of scalars alone, in float64."""

    namespace = "training"

    def infer(self, *scalars: TensorSpec) -> tuple[TensorSpec, ...]:
        for name, x in zip((p.name for p in self.inputs), scalars, strict=True):
            if x.rank:
                raise ShapeError(f"{self.name}: {name} must be a scalar", need="a 0-d tensor")
            if kind(x.dtype) not in "fiu":
                raise DTypeError(f"{self.name}: {name} cannot be {x.dtype}", need="a real number")
        return (TensorSpec((), "float64"),) * 3

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        n = len(cls.inputs)
        yield ErrorSample((TensorSpec((2,)), *[TensorSpec(())] * (n - 1)), {}, "must be a scalar")
        yield ErrorSample((TensorSpec((), "bool"), *[TensorSpec(())] * (n - 1)), {}, "cannot be")


class NadamMomentum(_Numbers):
    """Shares of momentum and gradient in a step of Nadam, whose momentum warms up (Dozat 2016).

    μₜ = β₁·(1 − ½·0.96^(t·ψ))        Π ← Π·μₜ, from 1
    share of m = μₜ₊₁/(1 − Π·μₜ₊₁)        share of g = (1 − μₜ)/(1 − Π)

    Outputs both shares and the new product Π.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> of_m, of_g, product = gw.training.nadam_momentum(g.constant(1.0), 1, 0.9, 0.004, name="y")
    >>> [float(v.round(3)) for v in g.output({}, of_m, of_g, product).values()]
    [0.565, 1.0, 0.45]
    """

    returns = "share_of_m", "share_of_g", "product"

    def expand(self, product: Any, step: Any, beta1: Any, momentum_decay: Any) -> Any:
        product, t, b1, slow = (cast_to(FLOAT64, x) for x in (product, step, beta1, momentum_decay))
        now = b1 * (1 - 0.5 * 0.96 ** (t * slow))
        later = b1 * (1 - 0.5 * 0.96 ** ((t + 1) * slow))
        product = product * now
        return later / (1 - product * later), (1 - now) / (1 - product), product

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for product, t in ((1.0, 1), (0.2, 3)):
            yield Sample(tuple(map(np.asarray, (product, t, 0.9, 0.004))))


class NadamShareUpdate(_Update):
    """Nadam whose shares of momentum and gradient are given, as ``nadam_momentum`` gives them.

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    p ← p·(1 − lr·λ) − lr·(sₘ·m + s_g·g)/(√(v/(1 − β₂ᵗ)) + ε)

    ``step`` is t, the number of this update counted from 1; states begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.nadam_share_update(
    ...     p, dp, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, 0.6, 1.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.894, -1.106], dtype=float32)
    """

    n_state = 2
    accepts = "f"

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
        share_of_m: Any,
        share_of_grad: Any,
    ) -> Any:
        p, g, m1, v1, t, lr, b1, b2, eps, decay, of_m, of_g = prepared(
            (param, grad, m, v),
            (step, learning_rate, beta1, beta2, eps, weight_decay, share_of_m, share_of_grad),
        )
        m1, v1 = running(b1, m1, g), running(b2, v1, g * g)
        scale = times(1 / Sqrt()(1 - b2**t), Sqrt()(v1)) + cast_to(p.dtype, eps)
        p = times(1 - lr * decay, p) - times(lr, (times(of_m, m1) + times(of_g, g)) / scale)
        return self.cast([p, m1, v1], [param, m, v])

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return np.int64(3), 0.1, 0.9, 0.99, 1e-8, 0.01, 0.8, 0.3


class ScheduleFreeShare(_Numbers):
    """Share of the newest point in a schedule-free average (Defazio et al. 2024, arXiv:2405.15682).

    h ← max(h, lr)        w = tʳ·hᵏ        s ← s + w        c = w/s, or 0 where s is 0

    Outputs c, the new sum s, and the new largest rate h; both begin as 0.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> c, total, largest = gw.training.schedule_free_share(g.constant(1.0), 0.5, 3, 1.0, name="y")
    >>> [v.tolist() for v in g.output({}, c, total, largest).values()]
    [0.5, 2.0, 1.0]
    """

    returns = "share", "weight_sum", "largest_rate"
    r: float = attr(0.0, doc="Power of the step in the weights.")
    power: float = attr(2.0, doc="Power k of the largest learning rate in the weights.")

    def expand(self, weight_sum: Any, largest_rate: Any, step: Any, learning_rate: Any) -> Any:
        total, high, t, lr = (
            cast_to(FLOAT64, x) for x in (weight_sum, largest_rate, step, learning_rate)
        )
        high = Maximum()(high, lr)
        weight = t**self.r * high**self.power
        total = total + weight
        known = total > 0
        share = Where()(known, weight / Where()(known, total, 1.0), 0.0)
        return share, total, high

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        inputs = tuple(map(np.asarray, (0.5, 0.1, 3, 0.2)))
        yield Sample(inputs, {"r": 1.0})
        yield Sample(inputs)
        yield Sample(tuple(map(np.asarray, (0.0, 0.0, 1, 0.0))), smooth=False)


class ScheduleFreeUpdate(_OfAdam):
    """AdamW without a schedule: gradients at y, steps of z, and x, their average, for evaluation.

    v ← β₂·v + (1 − β₂)·g²        d = g/(√(v/(1 − β₂ᵗ)) + ε) + λ·y
    z ← z − lr·d        x ← (1 − c)·x + c·z        y ← (1 − β₁)·z + β₁·x

    By Defazio et al. 2024 (arXiv:2405.15682). The parameter is y; z and x begin as the parameter, v
    as zeros. The share c is that of ``schedule_free_share``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> y, z, v, x = gw.training.schedule_free_update(
    ...     p, dp, p, zero, p, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, 0.5, name="p"
    ... )
    >>> for a in g.output({}, y, z, x).values():
    ...     print(a.round(3))
    [ 0.945 -1.055]
    [ 0.9 -1.1]
    [ 0.95 -1.05]
    """

    n_state = 3

    def expand(
        self,
        param: Any,
        grad: Any,
        z: Any,
        v: Any,
        average: Any,
        step: Any,
        learning_rate: Any,
        beta1: Any,
        beta2: Any,
        eps: Any,
        weight_decay: Any,
        share: Any,
    ) -> Any:
        y, g, z1, v1, x1, t, lr, b1, b2, eps, decay, c = prepared(
            (param, grad, z, v, average),
            (step, learning_rate, beta1, beta2, eps, weight_decay, share),
        )
        v1 = running(b2, v1, g * g)
        scale = times(1 / Sqrt()(1 - b2**t), Sqrt()(v1)) + cast_to(y.dtype, eps)
        z1 = z1 - times(lr, g / scale + times(decay, y))
        x1 = running(1 - c, x1, z1)
        return self.cast([running(b1, x1, z1), z1, v1, x1], [param, z, v, average])

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return *super().scalars(), 0.25

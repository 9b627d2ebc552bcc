"""Updates with two moments, as Adam has them: adamax, amsgrad, nadam, adabelief, radam, lamb.

``step`` is t, the number of this update counted from 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...op import Sample
from ..core.choice import Maximum, Where
from ..core.elementwise import Abs
from ..core.exponential import Sqrt
from ..core.movement import cast_to
from .base import GlobalNorm, _Update
from .scaled import prepared, running, times


class _OfAdam(_Update):
    """An update whose scalars are those of Adam: step, learning rate, betas, ε and decay."""

    accepts = "f"

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return np.int64(3), 0.1, 0.9, 0.99, 1e-8, 0.01

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((2,), (0, 2)):
            tensors = [rng.standard_normal(shape) for _ in range(2)]
            states = [rng.uniform(0.5, 1.5, shape) for _ in range(cls.n_state)]
            yield Sample((*tensors, *states, *map(np.asarray, cls.scalars())))


class _Moments(_OfAdam):
    """An update with two moments, written as ``move`` in the dtype of the work."""

    n_state = 2

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
        scalars = (step, learning_rate, beta1, beta2, eps, weight_decay)
        return self.cast(self.move(*prepared((param, grad, m, v), scalars)), [param, m, v])

    def move(self, p: Any, g: Any, m: Any, v: Any, *scalars: Any) -> tuple[Any, ...]:
        """Return the new parameter and its new states."""
        raise NotImplementedError


class AdamaxUpdate(_Moments):
    """Adam with the largest gradient in place of the mean square (Kingma and Ba 2015, §7.1).

    m ← β₁·m + (1 − β₁)·g        v ← max(β₂·v, |g| + ε)
    p ← p − lr/(1 − β₁ᵗ)·m/v, with λ·p added to g

    ``step`` is t, the number of this update counted from 1; states begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.adamax_update(
    ...     p, dp, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

    def move(self, p: Any, g: Any, m: Any, v: Any, *scalars: Any) -> tuple[Any, ...]:
        t, lr, b1, b2, eps, decay = scalars
        g = g + times(decay, p)
        m = running(b1, m, g)
        v = Maximum()(times(b2, v), Abs()(g) + cast_to(p.dtype, eps))
        return p - times(lr / (1 - b1**t), m / v), m, v


class AmsgradUpdate(_OfAdam):
    """Adam whose steps never grow again (Reddi, Kale and Kumar 2018).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²        h ← max(h, v)
    p ← p·(1 − lr·λ) − lr/(1 − β₁ᵗ)·m/(√h/√(1 − β₂ᵗ) + ε)

    ``step`` is t, the number of this update counted from 1; states begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.amsgrad_update(
    ...     p, dp, zero, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

    n_state = 3

    def expand(
        self,
        param: Any,
        grad: Any,
        m: Any,
        v: Any,
        h: Any,
        step: Any,
        learning_rate: Any,
        beta1: Any,
        beta2: Any,
        eps: Any,
        weight_decay: Any,
    ) -> Any:
        p, g, m1, v1, h1, t, lr, b1, b2, eps, decay = prepared(
            (param, grad, m, v, h), (step, learning_rate, beta1, beta2, eps, weight_decay)
        )
        m1 = running(b1, m1, g)
        v1 = running(b2, v1, g * g)
        h1 = Maximum()(h1, v1)
        scale = times(1 / Sqrt()(1 - b2**t), Sqrt()(h1)) + cast_to(p.dtype, eps)
        p = times(1 - lr * decay, p) - times(lr / (1 - b1**t), m1 / scale)
        return self.cast([p, m1, v1, h1], [param, m, v, h])


class NadamUpdate(_Moments):
    """Adam with Nesterov's momentum (Dozat 2016), β₁ constant.

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    n = β₁·m/(1 − β₁ᵗ⁺¹) + (1 − β₁)·g/(1 − β₁ᵗ)
    p ← p·(1 − lr·λ) − lr·n/(√(v/(1 − β₂ᵗ)) + ε)

    ``step`` is t, the number of this update counted from 1; states begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.nadam_update(
    ...     p, dp, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.853, -1.147], dtype=float32)
    """

    def move(self, p: Any, g: Any, m: Any, v: Any, *scalars: Any) -> tuple[Any, ...]:
        t, lr, b1, b2, eps, decay = scalars
        m = running(b1, m, g)
        v = running(b2, v, g * g)
        ahead = times(b1 / (1 - b1 ** (t + 1)), m) + times((1 - b1) / (1 - b1**t), g)
        scale = times(1 / Sqrt()(1 - b2**t), Sqrt()(v)) + cast_to(p.dtype, eps)
        p = times(1 - lr * decay, p) - times(lr, ahead / scale)
        return p, m, v


class AdabeliefUpdate(_Moments):
    """Adam with the variance of gradients in place of their square (Zhuang et al. 2020).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·(g − m)² + ε
    p ← p·(1 − lr·λ) − lr/(1 − β₁ᵗ)·m/(√(v/(1 − β₂ᵗ)) + ε)

    ``step`` is t, the number of this update counted from 1; states begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.adabelief_update(
    ...     p, dp, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.889, -1.111], dtype=float32)
    """

    def move(self, p: Any, g: Any, m: Any, v: Any, *scalars: Any) -> tuple[Any, ...]:
        t, lr, b1, b2, eps, decay = scalars
        small = cast_to(p.dtype, eps)
        m = running(b1, m, g)
        v = running(b2, v, (g - m) * (g - m)) + small
        scale = times(1 / Sqrt()(1 - b2**t), Sqrt()(v)) + small
        p = times(1 - lr * decay, p) - times(lr / (1 - b1**t), m / scale)
        return p, m, v


class RadamUpdate(_Moments):
    """Adam that waits for its variance to be known (Liu et al. 2020, arXiv:1908.03265).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    p ← p − lr·m/(1 − β₁ᵗ)·r·√(1 − β₂ᵗ)/(√v + ε) for ρ > 5, else p − lr·m/(1 − β₁ᵗ),
    ρ = c − 2t·β₂ᵗ/(1 − β₂ᵗ), c = 2/(1 − β₂) − 1, r² = (ρ−4)(ρ−2)c/((c−4)(c−2)ρ);
    λ·p is added to g

    ``step`` is t, the number of this update counted from 1; states begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.radam_update(
    ...     p, dp, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.95, -1.2 ], dtype=float32)
    """

    def move(self, p: Any, g: Any, m: Any, v: Any, *scalars: Any) -> tuple[Any, ...]:
        t, lr, b1, b2, eps, decay = scalars
        g = g + times(decay, p)
        m = running(b1, m, g)
        v = running(b2, v, g * g)
        c, faded = 2 / (1 - b2) - 1, 1 - b2**t
        rho = c - t * 2 * (b2**t) / faded
        known = rho > 5
        safe = Where()(known, rho, 6.0)
        square = (safe - 4) * (safe - 2) * c / ((c - 4) * (c - 2) * safe)
        rectified = times(Sqrt()(square) * Sqrt()(faded), 1 / (Sqrt()(v) + cast_to(p.dtype, eps)))
        move = times(lr / (1 - b1**t), m)
        return p - move * Where()(known, rectified, 1.0), m, v

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return np.int64(9), 0.1, 0.9, 0.99, 1e-8, 0.01


class LambUpdate(_Moments):
    """Adam whose step has the parameter's length, for large batches (You et al. 2020).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    r = m/(1 − β₁ᵗ)/(√(v/(1 − β₂ᵗ)) + ε) + λ·p
    p ← p − lr·‖p‖/‖r‖·r, or p − lr·r where either length is 0

    ``step`` is t, the number of this update counted from 1; states begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.lamb_update(
    ...     p, dp, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

    def move(self, p: Any, g: Any, m: Any, v: Any, *scalars: Any) -> tuple[Any, ...]:
        t, lr, b1, b2, eps, decay = scalars
        m = running(b1, m, g)
        v = running(b2, v, g * g)
        scale = times(1 / Sqrt()(1 - b2**t), Sqrt()(v)) + cast_to(p.dtype, eps)
        r = times(1 / (1 - b1**t), m / scale) + times(decay, p)
        of_p, of_r = (cast_to(p.dtype, GlobalNorm()(x)) for x in (p, r))
        known = (of_p > 0) & (of_r > 0)
        trust = Where()(known, of_p / Where()(known, of_r, 1.0), 1.0)
        return p - times(lr, r * trust), m, v

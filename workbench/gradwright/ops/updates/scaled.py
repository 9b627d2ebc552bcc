"""Updates that scale each element by the gradients it has had: adagrad, adadelta, rmsprop, lion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...op import ELEMENT, Sample, attr
from ..core.choice import Maximum
from ..core.comparison import Sign
from ..core.exponential import Sqrt
from ..core.movement import cast_to
from .base import FLOAT64, _Update, work_dtype


def prepared(tensors: tuple[Any, ...], scalars: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return tensors in the dtype that an update computes in, and scalars in float64."""
    work = work_dtype(*tensors)
    return (*(cast_to(work, x) for x in tensors), *(cast_to(FLOAT64, x) for x in scalars))


def times(scalar: Any, x: Any) -> Any:
    """Return a product in the tensor's dtype, whatever the scalar's."""
    return cast_to(x.dtype, scalar) * x


def running(beta: Any, mean: Any, x: Any) -> Any:
    """Return a running mean and what it moves to: β·mean + (1 − β)·x."""
    return times(beta, mean) + times(1 - beta, x)


def root(x: Any, eps: Any, inside: bool) -> Any:
    """Return √x + ε, or √(x + ε)."""
    small = cast_to(x.dtype, eps)
    return Sqrt()(x + small) if inside else Sqrt()(x) + small


class NesterovUpdate(_Update):
    """Gradient descent with Nesterov's momentum, its learning rate in the velocity.

    v ← μ·v − lr·(g + λ·p)        p ← p + μ·v − lr·(g + λ·p)

    As in Sutskever et al. 2013; ``momentum_update(nesterov=True)`` is torch's form, whose velocity
    has no learning rate in it. They agree while that does not change.

    The state begins as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.nesterov_update(p, dp, zero, 0.1, 0.9, 0.0, name="p")
    >>> g.output({}, p)["p"].round(3)
    array([ 0.905, -1.38 ], dtype=float32)
    """

    n_state = 1

    def expand(
        self,
        param: Any,
        grad: Any,
        velocity: Any,
        learning_rate: Any,
        momentum: Any,
        weight_decay: Any,
    ) -> Any:
        p, g, v, lr, mu, decay = prepared(
            (param, grad, velocity), (learning_rate, momentum, weight_decay)
        )
        move = times(lr, g + times(decay, p))
        v = times(mu, v) - move
        return self.cast([p + times(mu, v) - move, v], [param, velocity])

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return 0.1, 0.9, 0.01


class AdagradUpdate(_Update):
    """Adagrad (Duchi, Hazan and Singer 2011).

    h ← h + g²        p ← p − lr·g/(√h + ε), with λ·p added to g

    The state begins as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.adagrad_update(p, dp, zero, 0.1, 1e-8, 0.0, name="p")
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

    dependence = ELEMENT
    n_state = 1
    accepts = "f"

    def expand(
        self,
        param: Any,
        grad: Any,
        h: Any,
        learning_rate: Any,
        eps: Any,
        weight_decay: Any,
    ) -> Any:
        p, g, s, lr, eps, decay = prepared((param, grad, h), (learning_rate, eps, weight_decay))
        g = g + times(decay, p)
        s = s + g * g
        return self.cast([p - times(lr, g / (Sqrt()(s) + cast_to(p.dtype, eps))), s], [param, h])

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return 0.1, 1e-6, 0.01


class AdadeltaUpdate(_Update):
    """Adadelta, whose step has the parameter's unit (Zeiler 2012, arXiv:1212.5701).

    s ← ρ·s + (1 − ρ)·g²        u = √(d + ε)/√(s + ε)·g
    d ← ρ·d + (1 − ρ)·u²        p ← p − lr·u, with λ·p added to g

    States begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.adadelta_update(
    ...     p, dp, zero, zero, 1.0, 0.9, 1e-6, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.997, -1.003], dtype=float32)
    """

    n_state = 2
    accepts = "f"

    def expand(
        self,
        param: Any,
        grad: Any,
        s: Any,
        d: Any,
        learning_rate: Any,
        rho: Any,
        eps: Any,
        weight_decay: Any,
    ) -> Any:
        p, g, s1, d1, lr, keep, eps, decay = prepared(
            (param, grad, s, d), (learning_rate, rho, eps, weight_decay)
        )
        small = cast_to(p.dtype, eps)
        g = g + times(decay, p)
        s1 = running(keep, s1, g * g)
        u = Sqrt()(d1 + small) / Sqrt()(s1 + small) * g
        d1 = running(keep, d1, u * u)
        return self.cast([p - times(lr, u), s1, d1], [param, s, d])

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return 1.0, 0.95, 1e-6, 0.01


class RmspropUpdate(_Update):
    """Gradient over the root of its mean square (Tieleman and Hinton 2012).

    v ← ρ·v + (1 − ρ)·g²        p ← p − lr·g/(√v + ε), with λ·p added to g

    With ``eps_inside`` the root is √(v + ε), as TensorFlow 1 and optax have it. The state begins as
    zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.rmsprop_update(p, dp, zero, 0.1, 0.9, 1e-8, 0.0, name="p")
    >>> g.output({}, p)["p"].round(3)
    array([ 0.684, -1.316], dtype=float32)
    """

    n_state = 1
    accepts = "f"
    eps_inside: bool = attr(False, doc="Add ε below the root.")

    def expand(
        self,
        param: Any,
        grad: Any,
        v: Any,
        learning_rate: Any,
        rho: Any,
        eps: Any,
        weight_decay: Any,
    ) -> Any:
        p, g, v1, lr, keep, eps, decay = prepared(
            (param, grad, v), (learning_rate, rho, eps, weight_decay)
        )
        g = g + times(decay, p)
        v1 = running(keep, v1, g * g)
        p = p - times(lr, g / root(v1, eps, self.eps_inside))
        return self.cast([p, v1], [param, v])

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return 0.1, 0.95, 1e-8, 0.01

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            yield sample
            yield Sample(sample.inputs, {"eps_inside": True})


class CenteredRmspropUpdate(_Update):
    """Gradient over the root of its variance (Graves 2013, arXiv:1308.0850, eq. 38 to 41).

    v ← ρ·v + (1 − ρ)·g²        m ← ρ·m + (1 − ρ)·g
    p ← p − lr·g/(√(v − m²) + ε), with λ·p added to g

    With ``eps_inside`` the root is √(v − m² + ε), as in the paper. States begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.centered_rmsprop_update(
    ...     p, dp, zero, zero, 0.1, 0.9, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.667, -1.333], dtype=float32)
    """

    n_state = 2
    accepts = "f"
    eps_inside: bool = attr(False, doc="Add ε below the root.")

    def expand(
        self,
        param: Any,
        grad: Any,
        v: Any,
        m: Any,
        learning_rate: Any,
        rho: Any,
        eps: Any,
        weight_decay: Any,
    ) -> Any:
        p, g, v1, m1, lr, keep, eps, decay = prepared(
            (param, grad, v, m), (learning_rate, rho, eps, weight_decay)
        )
        g = g + times(decay, p)
        v1, m1 = running(keep, v1, g * g), running(keep, m1, g)
        spread = Maximum()(v1 - m1 * m1, 0.0)  # rounding may leave it below 0
        p = p - times(lr, g / root(spread, eps, self.eps_inside))
        return self.cast([p, v1, m1], [param, v, m])

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return 0.1, 0.95, 1e-8, 0.01

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((2, 3), (), (0, 2)):
            p, g, m = (rng.standard_normal(shape) for _ in range(3))
            inputs = (p, g, m * m + rng.uniform(0.5, 1.5, shape), m)
            for inside in (False, True):
                yield Sample((*inputs, *map(np.asarray, cls.scalars())), {"eps_inside": inside})


class LionUpdate(_Update):
    """Sign of a momentum, with decoupled decay (Chen et al. 2023, arXiv:2302.06675).

    p ← p·(1 − lr·λ) − lr·sign(β₁·m + (1 − β₁)·g)        m ← β₂·m + (1 − β₂)·g

    The state begins as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.lion_update(p, dp, zero, 0.1, 0.9, 0.999, 0.0, name="p")
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

    n_state = 1
    accepts = "f"

    def expand(
        self,
        param: Any,
        grad: Any,
        m: Any,
        learning_rate: Any,
        beta1: Any,
        beta2: Any,
        weight_decay: Any,
    ) -> Any:
        p, g, m1, lr, b1, b2, decay = prepared(
            (param, grad, m), (learning_rate, beta1, beta2, weight_decay)
        )
        way = Sign()(running(b1, m1, g))
        m1 = running(b2, m1, g)
        return self.cast([times(1 - lr * decay, p) - times(lr, way), m1], [param, m])

    @classmethod
    def scalars(cls) -> tuple[Any, ...]:
        return 0.1, 0.9, 0.99, 0.01

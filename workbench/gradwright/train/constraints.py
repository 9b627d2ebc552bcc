"""Constraints: what a step brings a parameter back to, after its update.

``gw.Trainer(..., constraints={"*/kernel": gw.constraints.MaxNorm(3.0)})`` holds them by name or
pattern of variables; those of Keras have the same names, axes and ε.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import TrainingError
from ..graph import Tensor
from ..ops.core.choice import Maximum, Minimum
from ..ops.core.movement import cast_to
from ..ops.core.statistics import Norm
from ..spec import at_least_float32
from ..words.jsonable import jsonable

EPSILON = 1e-7
"""Added to norms, as in Keras, so that weights of 0 stay 0."""
Axes = int | tuple[int, ...]


class Constraint:
    """Base of constraints: a frozen dataclass of numbers, and a call that builds graph.

    ``@jsonable`` above ``@dataclass(frozen=True)`` lets settings that hold one be saved.

    >>> import gradwright as gw
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Below(gw.constraints.Constraint):
    ...     bound: float
    ...     def __call__(self, w):
    ...         return gw.minimum(w, self.bound)
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[0.5, 3.0])
    >>> trainer = gw.Trainer(
    ...     g, -w.sum(), optimizer=gw.optim.SGD(1.0), constraints={"w": Below(2.0)}
    ... )
    >>> record = trainer.step({})
    >>> g.values["w"].tolist()
    [1.5, 2.0]
    """

    def __call__(self, w: Tensor) -> Tensor:
        """Return what a parameter becomes, of its shape and dtype."""
        raise NotImplementedError(f"{type(self).__name__} has no __call__")


@jsonable
@dataclass(frozen=True)
class MaxNorm(Constraint):
    """Norms of at most m (Srebro & Shraibman 2005; Srivastava et al. 2014, section 5.1).

    w ← w·min(n, m)/(n + ε),  n = √(Σ w²) over ``axis``, ε = 1e-7

    Args:
        max_value: m.
        axis: what a norm is summed over: 0 for the inputs of each unit of f32[in, out].

    Raises TrainingError for a bound that is not positive.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = gw.constraints.MaxNorm(1.0)(g.constant([[3.0, 0.3], [4.0, 0.4]]))
    >>> g.output({}, w)[w.name].round(4).tolist()
    [[0.6000000238418579, 0.30000001192092896], [0.800000011920929, 0.4000000059604645]]
    """

    max_value: float = 2.0
    axis: Axes = 0

    def __post_init__(self) -> None:
        if not 0 < self.max_value < math.inf:
            raise TrainingError(f"max_value={self.max_value!r} is no bound", need="> 0")
        _check_axes(self)

    def __call__(self, w: Tensor) -> Tensor:
        """Return weights whose norms are within the bound."""
        wide, norm = _norms(w, self.axis)
        return _as(w, wide * (Minimum()(norm, self.max_value) / (norm + EPSILON)))


@jsonable
@dataclass(frozen=True)
class UnitNorm(Constraint):
    """Norms of 1.

    w ← w/(n + ε),  n = √(Σ w²) over ``axis``, ε = 1e-7

    ``axis`` is what a norm is summed over, as in ``MaxNorm``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = gw.constraints.UnitNorm()(g.constant([3.0, 4.0]))
    >>> g.output({}, w)[w.name].round(4).tolist()
    [0.6000000238418579, 0.800000011920929]
    """

    axis: Axes = 0

    def __post_init__(self) -> None:
        _check_axes(self)

    def __call__(self, w: Tensor) -> Tensor:
        """Return weights whose norms are 1."""
        wide, norm = _norms(w, self.axis)
        return _as(w, wide / (norm + EPSILON))


@jsonable
@dataclass(frozen=True)
class NonNegative(Constraint):
    """No weight below 0, Keras's ``NonNeg``.

    w ← max(w, 0)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = gw.constraints.NonNegative()(g.constant([-1.0, 2.0]))
    >>> g.output({}, w)[w.name].tolist()
    [0.0, 2.0]
    """

    def __call__(self, w: Tensor) -> Tensor:
        """Return weights that are not negative."""
        kept: Tensor = Maximum()(w, 0)
        return kept


def _norms(w: Tensor, axis: Axes) -> tuple[Tensor, Tensor]:
    """Return weights in float32 at least, and their norms, which broadcast to them."""
    wide = cast_to(at_least_float32(w.dtype), w)
    return wide, Norm(axis=axis, keepdims=True)(wide)


def _as(w: Tensor, wide: Tensor) -> Tensor:
    found: Tensor = cast_to(w.dtype, wide)
    return found


def _check_axes(constraint: MaxNorm | UnitNorm) -> None:
    given = constraint.axis
    axes = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not axes or not all(type(axis) is int for axis in axes):
        raise TrainingError(f"axis={given!r} are no axes", need="an int, or several")
    object.__setattr__(constraint, "axis", axes[0] if len(axes) == 1 else axes)

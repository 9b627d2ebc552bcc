"""Updates of several tensors at once, by the letter of ONNX's ai.onnx.preview.training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, kind, shapes_differ
from ..core.choice import Where
from ..core.exponential import Sqrt
from ..core.movement import cast_to
from .base import FLOAT64
from .scaled import times

_DOMAIN = "ai.onnx.preview.training"


class _Joint(Op):
    """An update of n tensors: learning rate, number of updates, then n of each kind of tensor."""

    namespace = "training"
    many = True
    kinds: ClassVar[tuple[str, ...]] = ()
    """What the tensors are: the parameter, its gradient, its states."""

    def grouped(self, tensors: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Return one tuple of parameter, gradient and states per parameter."""
        n = len(tensors) // len(self.kinds)
        if not n or n * len(self.kinds) != len(tensors):
            raise ShapeError(
                f"{len(tensors)} tensors are no whole sets", need=f"n each of {self.kinds}"
            )
        return list(zip(*(tensors[i * n : i * n + n] for i in range(len(self.kinds))), strict=True))

    def infer(
        self, learning_rate: TensorSpec, step: TensorSpec, *tensors: TensorSpec
    ) -> tuple[TensorSpec, ...]:
        for name, x in (("learning_rate", learning_rate), ("step", step)):
            if x.rank:
                raise ShapeError(f"{name} must be a scalar", need="a 0-d tensor")
        sets = self.grouped(tensors)
        for param, *others in sets:
            for x in (param, *others):
                if kind(x.dtype) != "f":
                    raise DTypeError(f"{self.name} does not take {x.dtype}", need="floats")
                if shapes_differ(x.shape, param.shape):
                    raise ShapeError("gradient or state has another shape", need=str(param))
        moved = ((s[0], *s[2:]) for s in sets)
        return tuple(x.with_shape(x.shape) for group in zip(*moved, strict=True) for x in group)

    def expand(self, learning_rate: Any, step: Any, *tensors: Any) -> Any:
        r, t = cast_to(FLOAT64, learning_rate), cast_to(FLOAT64, step)
        moved = [self.move(r, t, *group) for group in self.grouped(tensors)]
        return tuple(x for group in zip(*moved, strict=True) for x in group)

    def move(self, learning_rate: Any, step: Any, *tensors: Any) -> Any:
        """Return the new parameter and its new states."""
        raise NotImplementedError

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        shapes, r = ((2, 3), ()), np.array(0.1)
        drawn = [rng.uniform(0.5, 1.5, s) for _ in cls.kinds for s in shapes]
        yield Sample((r, np.array(3), *drawn))
        yield Sample((r, np.array(0), *(np.ones((0, 2)) for _ in cls.kinds)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        r, t, x = TensorSpec(()), TensorSpec((), "int64"), TensorSpec((2,))
        n = len(cls.kinds)
        yield ErrorSample((r, t, x), {}, "are no whole sets")
        yield ErrorSample((r, t, *[x] * (n - 1), TensorSpec((3,))), {}, "another shape")
        yield ErrorSample((x, t, *[x] * n), {}, "learning_rate must be a scalar")


class AdagradStep(_Joint):
    """Adagrad on several tensors, as ONNX has it (Duchi, Hazan and Singer 2011).

    r = lr/(1 + step·decay_factor)        g ← norm_coefficient·x + g
    h ← h + g²        x ← x − r·g/(√h + ε), for all x, then all g, then all h

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, dx, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> x, *states = gw.training.adagrad_step(0.1, 1, x, dx, zero, name="x")
    >>> g.output({}, x)["x"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

    returns = ("*tensors",)
    kinds = ("x", "g", "h")
    eps: float = attr(1e-6, doc="Added to the root.", least=0.0)
    decay_factor: float = attr(0.0, doc="How the learning rate decays with the step.")
    norm_coefficient: float = attr(0.0, doc="Of the penalty ½·‖x‖².")
    onnx = OnnxRule("Adagrad", since=1, domain=_DOMAIN, rename={"eps": "epsilon"})

    def move(self, learning_rate: Any, step: Any, *tensors: Any) -> Any:
        x, g, h = tensors
        r = learning_rate / (step * self.decay_factor + 1)
        g = x * self.norm_coefficient + g
        h = h + g * g
        return x - times(r, g / (Sqrt()(h) + self.eps)), h


class AdamStep(_Joint):
    """Adam on several tensors, as ONNX has it: ε outside the bias correction.

    g ← norm_coefficient·x + g        v ← α·v + (1 − α)·g        h ← β·h + (1 − β)·g²
    r = lr·√(1 − βᵗ)/(1 − αᵗ) for t = step > 0, else lr
    x ← (1 − norm_coefficient_post)·(x − r·v/(√h + ε)), for all x, then all g, all v, all h

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, dx, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> x, *states = gw.training.adam_step(0.1, 1, x, dx, zero, zero, name="x")
    >>> g.output({}, x)["x"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

    returns = ("*tensors",)
    kinds = ("x", "g", "v", "h")
    alpha: float = attr(0.9, doc="Decay of the first moment.")
    beta: float = attr(0.999, doc="Decay of the second moment.")
    eps: float = attr(1e-6, doc="Added to the root.", least=0.0)
    norm_coefficient: float = attr(0.0, doc="Of the penalty ½·‖x‖².")
    norm_coefficient_post: float = attr(0.0, doc="Share of x that is taken away at the end.")
    onnx = OnnxRule("Adam", since=1, domain=_DOMAIN, rename={"eps": "epsilon"})

    def move(self, learning_rate: Any, step: Any, *tensors: Any) -> Any:
        x, g, v, h = tensors
        g = x * self.norm_coefficient + g
        v = v * self.alpha + g * (1 - self.alpha)
        h = h * self.beta + g * g * (1 - self.beta)
        t = Where()(step > 0, step, 1.0)
        adjusted = learning_rate * Sqrt()(1 - self.beta**t) / (1 - self.alpha**t)
        r = Where()(step > 0, adjusted, learning_rate)
        x = x - times(r, v / (Sqrt()(h) + self.eps))
        return x * (1 - self.norm_coefficient_post), v, h


class MomentumStep(_Joint):
    """Momentum on several tensors, as ONNX has it.

    g ← norm_coefficient·x + g        v ← α·v + b·g, b = β for step > 0, else 1
    x ← x − lr·v, or x − lr·(g + α·v) for mode "nesterov", for all x, then all g, all v

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, dx, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> x, *states = gw.training.momentum_step(0.1, 1, x, dx, zero, name="x")
    >>> g.output({}, x)["x"].round(3)
    array([ 0.95, -1.2 ], dtype=float32)
    """

    returns = ("*tensors",)
    kinds = ("x", "g", "v")
    alpha: float = attr(0.9, doc="Decay of the velocity.")
    beta: float = attr(1.0, doc="Share of the gradient, but for the first update.")
    mode: str = attr("standard", doc="Which momentum.", choices=("standard", "nesterov"))
    norm_coefficient: float = attr(0.0, doc="Of the penalty ½·‖x‖².")
    onnx = OnnxRule("Momentum", since=1, domain=_DOMAIN)

    def move(self, learning_rate: Any, step: Any, *tensors: Any) -> Any:
        x, g, v = tensors
        g = x * self.norm_coefficient + g
        v = v * self.alpha + times(Where()(step > 0, self.beta, 1.0), g)
        return x - times(learning_rate, g + v * self.alpha if self.mode == "nesterov" else v), v

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            yield sample
            yield Sample(sample.inputs, {"mode": "nesterov", "beta": 0.5})

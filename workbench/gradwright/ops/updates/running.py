"""What stands around an update: averages, sums over micro-batches, scales of losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import Cotangent, ErrorSample, NotDifferentiable, Op, Sample, attr
from ...spec import TensorSpec, kind, shapes_differ
from ..arithmetic.division import Mod
from ..core.choice import Clip, Where
from ..core.movement import cast_to
from .base import FLOAT64, AllFinite, work_dtype
from .scaled import times


def _check_scalars(op: Op, **scalars: TensorSpec) -> None:
    """Refuse what is not one real number."""
    for name, x in scalars.items():
        if x.rank:
            raise ShapeError(f"{op.name}: {name} must be a scalar", need="a 0-d tensor")
        if kind(x.dtype) not in "fiu":
            raise DTypeError(f"{op.name}: {name} cannot be {x.dtype}", need="a real number")


def _check_pair(op: Op, a: TensorSpec, b: TensorSpec) -> None:
    """Refuse tensors of other than floating dtype, or of different shapes."""
    for x in (a, b):
        if kind(x.dtype) not in "fc":
            raise DTypeError(f"{op.name} does not take {x.dtype}", need="floating tensors")
    if shapes_differ(a.shape, b.shape):
        raise ShapeError(f"{op.name}: shapes differ", need=f"equal shapes, got {a} and {b}")


class EmaUpdate(Op):
    """Exponential moving average, of parameters most often (Polyak and Juditsky 1992).

    y = decay·average + (1 − decay)·value

    The average keeps its dtype: a float32 average of bfloat16 parameters stays one.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.training.ema_update(g.constant([1.0]), g.constant([2.0]), 0.75, name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.25]
    """

    namespace = "training"

    def infer(self, average: TensorSpec, value: TensorSpec, decay: TensorSpec) -> TensorSpec:
        _check_pair(self, average, value)
        _check_scalars(self, decay=decay)
        return average.with_shape(average.shape)

    def expand(self, average: Any, value: Any, decay: Any) -> Any:
        work, keep = work_dtype(average, value), cast_to(FLOAT64, decay)
        y = times(keep, cast_to(work, average)) + times(1 - keep, cast_to(work, value))
        return cast_to(average.dtype, y)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((2, 3), (), (0, 2)):
            pair = rng.standard_normal(shape), rng.standard_normal(shape)
            yield Sample((*pair, np.array(0.9)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, d = TensorSpec((2,)), TensorSpec(())
        yield ErrorSample((x, TensorSpec((3,)), d), {}, "shapes differ")
        yield ErrorSample((x, x, x), {}, "must be a scalar")
        yield ErrorSample((x, x.with_dtype("int32"), d), {}, "does not take int32")


class AccumulateGradient(Op):
    """Mean gradient of several micro-batches, summed up in float32 at least.

    s = total + grad/every; ready = (step mod every = 0)
    total ← 0 where ready, else s;        grad ← s, the mean where ready

    ``step`` counts micro-batches from 1. Outputs the new total, s, and ready: bool[], which is the
    ``commit_if`` of the update that s is for.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> total, dw = g.constant([1.0]), g.constant([4.0])
    >>> total, mean, ready = gw.training.accumulate_gradient(total, dw, 2, 2, name="y")
    >>> [v.tolist() for v in g.output({}, total, mean, ready).values()]
    [[0.0], [3.0], True]
    """

    namespace = "training"
    returns = "total", "grad", "ready"

    def infer(
        self, total: TensorSpec, grad: TensorSpec, step: TensorSpec, every: TensorSpec
    ) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
        _check_pair(self, total, grad)
        _check_scalars(self, step=step, every=every)
        same = total.with_shape(total.shape)
        return same, same, TensorSpec((), "bool")

    def expand(self, total: Any, grad: Any, step: Any, every: Any) -> Any:
        work = work_dtype(total, grad)
        summed = cast_to(work, total) + times(1 / cast_to(FLOAT64, every), cast_to(work, grad))
        summed = cast_to(total.dtype, summed)
        ready = Mod()(step, every) == 0
        return Where()(ready, 0.0, summed), summed, ready

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, step in (((2, 3), 3), ((), 4), ((0, 2), 1)):
            pair = rng.standard_normal(shape), rng.standard_normal(shape)
            yield Sample((*pair, np.array(step), np.array(4)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, n = TensorSpec((2,)), TensorSpec((), "int64")
        yield ErrorSample((x, TensorSpec((3,)), n, n), {}, "shapes differ")
        yield ErrorSample((x, x, n, x), {}, "must be a scalar")


class ScaleLoss(Op):
    """Loss times a scale, so that small gradients of 16 bits do not vanish (Micikevicius 2018).

    y = scale·loss

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.training.scale_loss(g.constant(0.5), 1024.0, name="y"))["y"])
    512.0
    """

    namespace = "training"

    def infer(self, loss: TensorSpec, scale: TensorSpec) -> TensorSpec:
        _check_scalars(self, scale=scale)
        if kind(loss.dtype) != "f":
            raise DTypeError(f"a loss cannot be {loss.dtype}", need="a floating dtype")
        return loss.with_shape(loss.shape)

    def expand(self, loss: Any, scale: Any) -> Any:
        return times(scale, loss)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array(0.3), np.array(8.0)))
        yield Sample((rng.standard_normal(3), np.array(8.0)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, s = TensorSpec((2,)), TensorSpec(())
        yield ErrorSample((s, x), {}, "must be a scalar")
        yield ErrorSample((x.with_dtype("int32"), s), {}, "cannot be int32")


class UnscaleGradients(Op):
    """Gradients of a scaled loss, brought back, and whether all of them are finite.

    yₖ = gₖ/scale,  finite = ∧ₖ ∧ᵢ |yₖᵢ| < ∞

    Outputs finite: bool[], the ``commit_if`` of the update, and then y₀, y₁, …

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> finite, y = gw.training.unscale_gradients(8.0, g.constant([16.0]), name="y")
    >>> [v.tolist() for v in g.output({}, finite, y).values()]
    [True, [2.0]]
    """

    namespace = "training"
    returns = "finite", "*gradients"
    many = True

    def infer(self, scale: TensorSpec, *gradients: TensorSpec) -> tuple[TensorSpec, ...]:
        _check_scalars(self, scale=scale)
        if not gradients:
            raise ShapeError("there is no gradient", need="one or more")
        for g in gradients:
            if kind(g.dtype) not in "fc":
                raise DTypeError(f"a gradient cannot be {g.dtype}", need="a floating dtype")
        return TensorSpec((), "bool"), *(g.with_shape(g.shape) for g in gradients)

    def expand(self, scale: Any, *gradients: Any) -> Any:
        back = 1 / cast_to(FLOAT64, scale)
        found = [cast_to(g.dtype, times(back, cast_to(work_dtype(g), g))) for g in gradients]
        return AllFinite()(*found), *found

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array(8.0), rng.standard_normal((2, 3)), rng.standard_normal(())))
        yield Sample((np.array(8.0), np.array([1.0, np.inf])), smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, s = TensorSpec((2,)), TensorSpec(())
        yield ErrorSample((s,), {}, "no gradient")
        yield ErrorSample((s, x.with_dtype("int32")), {}, "cannot be int32")
        yield ErrorSample((x, x), {}, "must be a scalar")


class UpdateLossScale(Op):
    """Loss scale that grows while gradients are finite and shrinks when they are not.

    finite:      good ← good + 1, and at ``interval`` scale ← growth·scale, good ← 0
    not finite:  scale ← backoff·scale, good ← 0

    The scale stays between ``smallest`` and ``largest`` (Micikevicius et al. 2018).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> scale, good = gw.training.update_loss_scale(
    ...     g.constant(1024.0), g.constant(7), g.constant(False), name="y"
    ... )
    >>> [v.tolist() for v in g.output({}, scale, good).values()]
    [512.0, 0]
    """

    namespace = "training"
    returns = "scale", "good"
    growth: float = attr(2.0, doc="Factor after enough good steps.")
    backoff: float = attr(0.5, doc="Factor after a step that is not finite.")
    interval: int = attr(2000, doc="Good steps before the scale grows.")
    smallest: float = attr(1.0, doc="Smallest scale.")
    largest: float = attr(65536.0, doc="Largest scale.")

    def infer(
        self, scale: TensorSpec, good: TensorSpec, finite: TensorSpec
    ) -> tuple[TensorSpec, TensorSpec]:
        _check_scalars(self, scale=scale, good=good)
        if kind(scale.dtype) != "f" or kind(good.dtype) not in "iu":
            raise DTypeError("scale is floating, good is a number of steps", need="f32[], i64[]")
        if kind(finite.dtype) != "b" or finite.rank:
            raise DTypeError(f"finite is yes or no, got {finite}", need="bool[]")
        sound = 0 < self.backoff <= 1 <= self.growth and self.interval > 0
        if not sound or not 0 < self.smallest <= self.largest:
            raise GraphError(
                "the scale would grow on overflow, or have no range",
                need="0 < backoff <= 1 <= growth, interval > 0, 0 < smallest <= largest",
            )
        return scale.with_shape(()), good.with_shape(())

    def expand(self, scale: Any, good: Any, finite: Any) -> Any:
        count = Where()(finite, good + 1, 0)
        grows = count >= self.interval
        factor = Where()(finite, Where()(grows, self.growth, 1.0), self.backoff)
        moved = Clip()(scale * cast_to(scale.dtype, factor), self.smallest, self.largest)
        return moved, cast_to(good.dtype, Where()(grows, 0, count))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [NotDifferentiable("a loss scale is chosen, not learned")] * 3

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for good, finite in ((1, True), (4, True), (3, False)):
            inputs = np.array(1024.0), np.array(good), np.array(finite)
            yield Sample(inputs, {"interval": 5}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        s, n, b = TensorSpec(()), TensorSpec((), "int64"), TensorSpec((), "bool")
        yield ErrorSample((s, n, s), {}, "yes or no")
        yield ErrorSample((s, s, b), {}, "a number of steps")
        yield ErrorSample((s, n, b), {"backoff": 2.0}, "would grow on overflow")

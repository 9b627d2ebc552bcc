"""Linear recurrences: states that a factor carries on, with gradients that are such again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import LINEAR, OPAQUE, Autocast, Cotangent, Dependence, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, broadcast, differ, kind, normalize_axis, promote, shapes_differ
from ..core.elementwise import conj
from ..core.joining import Concat
from ..core.like import ZerosLike
from ..core.movement import Roll
from ..core.special import widened

_WIDE = 256
"""From this many elements on, a step outlasts numpy's call: 512 steps of 512 take 2 ms, not 8."""


class LinearScan(Op):
    """All states of a linear recurrence along an axis.

    h_t = a_t⊙h_{t-1} + b_t, or with ``matrix`` h_t = a_t @ h_{t-1} + b_t over the last two axes

    b: f32[…, T, …], a broadcasts against it, but for T (with ``matrix``: f32[…, T, …, N, N]);
    initial: b without the axis, else 0. ``reverse`` goes from the last step to the first. Wide
    steps follow each other one by one; of narrow ones spans of 1, 2, 4, … are joined, so that T of
    them take log₂ T passes over all (Hillis and Steele 1986). A factor of 0 forgets what was
    before, infinities and NaN, too. The gradient is the same recurrence,
    backwards. Raises ShapeError where sizes differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.linear_scan(g.constant([0.5, 0.5, 0.5]), g.constant([4.0, 0.0, 1.0]), name="h")
    >>> g.output({}, y)["h"].tolist()
    [4.0, 2.0, 2.0]
    """

    namespace = "nn"
    drawing = "activation"
    autocast = Autocast.STATE
    axis: int = attr(0, doc="Axis of the steps.")
    reverse: bool = attr(False, doc="Start at the last step.")
    matrix: bool = attr(False, doc="Let a be matrices, not factors of the elements.")

    def infer(self, a: TensorSpec, b: TensorSpec, initial: TensorSpec | None = None) -> TensorSpec:
        axis = normalize_axis(self.axis, b.rank)
        shape = list(b.shape)
        if self.matrix:
            if b.rank < 3 or axis >= b.rank - 2:
                raise ShapeError("a step is no matrix", need="b: f32[…, T, …, N, M]")
            shape[-1] = shape[-2]
        lead = broadcast(a.shape, tuple(shape)) if a.rank == b.rank else (None,) * b.rank
        if any(d is None or differ(d, s) for d, s in zip(lead, shape, strict=True)):
            raise ShapeError("a does not fit b", need=f"{tuple(shape)}, or 1", facts=[f"a: {a}"])
        if differ(a.shape[axis], b.shape[axis]):
            raise ShapeError(f"a has {a.shape[axis]} steps, b {b.shape[axis]}", need="as many")
        joint = promote(a.dtype, b.dtype)
        state = (*b.shape[:axis], *b.shape[axis + 1 :])
        if initial is not None:
            if shapes_differ(initial.shape, state):
                raise ShapeError("initial does not fit", need=f"{state}", facts=[f"got {initial}"])
            joint = promote(joint, initial.dtype)
        if kind(joint) not in "fc":
            raise DTypeError(f"linear_scan does not take {joint}", hint="gw.cast(x, 'float32')")
        return TensorSpec(b.shape, joint)

    def depends(self, i: int) -> Dependence:
        if i:
            return LINEAR
        return OPAQUE if self.matrix else Dependence("rows", self.axis)

    def forward(self, a: Any, b: Any, initial: Any = None) -> Any:
        joint = promote(a.dtype, b.dtype)
        joint = joint if initial is None else promote(joint, initial.dtype)
        axis = normalize_axis(self.axis, b.ndim)
        way = slice(None, None, -1 if self.reverse else 1)
        a, b = (np.moveaxis(widened(x.astype(joint, copy=False)), axis, 0)[way] for x in (a, b))
        y = b.copy()
        h: Any = 0
        if initial is not None and len(y):
            h = widened(initial.astype(joint, copy=False))
            y[0] += a[0] @ h if self.matrix else a[0] * h
        if self.matrix or y[:1].size >= _WIDE:
            for t in range(1, len(y)):
                y[t] += a[t] @ y[t - 1] if self.matrix else a[t] * y[t - 1]
        else:
            factor, span = np.broadcast_to(a, y.shape).copy(), 1
            while span < len(y):
                y[span:] += factor[span:] * y[:-span]
                factor[span:] = factor[span:] * factor[:-span]
                span *= 2
        if not (self.matrix or np.isfinite(y).all()):
            y = b.copy()
            for t in range(len(y)):  # no factor of a span overflows, and 0 forgets infinities
                before = y[t - 1] if t else h
                y[t] += np.where(a[t] == 0, 0, a[t] * before)
        return np.moveaxis(y[way], 0, axis).astype(joint, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), y, (a, b) = gs, ys[0], xs[:2]
        axis = normalize_axis(self.axis, b.rank)
        given = xs[2] if len(xs) > 2 else None
        before = shifted(y, given, axis, reverse=self.reverse)
        # What reaches a step: its own cotangent and what the next one's factor hands back.
        back = self.replace(reverse=not self.reverse)
        factor, before = conj(a.mT if self.matrix else a), conj(before)
        if given is None:  # the factor that Roll brings in from the other end meets a zero state
            total = back(Roll(shift=1 if self.reverse else -1, axis=axis)(factor), g)
            return total @ before.mT if self.matrix else total * before, total
        factors, cotangents = (factor, _nothing(factor, axis)), (_nothing(g, axis), g)
        if self.reverse:
            factors, cotangents = factors[::-1], cotangents[::-1]
        whole = back(Concat(axis=axis)(*factors), Concat(axis=axis)(*cotangents))
        inner = (slice(None),) * axis
        total = whole[(*inner, slice(None, -1) if self.reverse else slice(1, None))]
        of_a = total @ before.mT if self.matrix else total * before
        return of_a, total, whole[(*inner, -1 if self.reverse else 0)]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
        yield Sample((a, b))
        yield Sample((a[:, :1], b, b[0]), {"axis": -2, "reverse": True})
        b, initial = rng.standard_normal((2, 3, 2, 1)), rng.standard_normal((2, 2, 1))
        yield Sample((rng.standard_normal((2, 3, 2, 2)), b, initial), {"axis": 1, "matrix": True})
        yield Sample((np.ones((2, 0)), np.ones((2, 0)), np.ones(2)), {"axis": 1})
        wide = rng.standard_normal((2, 3, _WIDE))
        yield Sample((*wide, wide[0, 0]), {"reverse": True}, differentiate=())

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        a, b = TensorSpec((3, 2)), TensorSpec((3, 4))
        yield ErrorSample((a, b), {}, "do not broadcast")
        yield ErrorSample((TensorSpec((1, 2)), a), {}, "a has 1 steps, b 3")
        yield ErrorSample((a, a, a), {}, "initial does not fit")
        yield ErrorSample((a, a), {"matrix": True}, "no matrix")


def _nothing(x: Any, axis: int) -> Any:
    """Return one step of zeros, also where there are no steps."""
    return ZerosLike()(x.sum(axis, keepdims=True))


def shifted(states: Any, initial: Any, axis: int, *, reverse: bool = False) -> Any:
    """Return the state before each step, as graph; ``initial`` None is 0."""
    first = _nothing(states, axis) if initial is None else initial.expand_dims(axis)
    joined = Concat(axis=axis)(*((states, first) if reverse else (first, states)))
    return joined[(*(slice(None),) * axis, slice(1, None) if reverse else slice(None, -1))]


class Shift(Op):
    """Move all elements one place along an axis; 0 comes in.

    y₀ = 0,  yᵢ = xᵢ₋₁;  back: yᵢ = xᵢ₊₁,  0 at the end
    """

    namespace = "gradient"
    drawing = "math"
    dependence = LINEAR
    axis: int = attr(0, doc="Axis to move along.")
    back: bool = attr(False, doc="Move towards the front.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        normalize_axis(self.axis, x.rank)
        return x

    def forward(self, x: Any) -> Any:
        y = np.zeros_like(x)
        there, here = np.moveaxis(y, self.axis, 0), np.moveaxis(x, self.axis, 0)
        if self.back:
            there[:-1] = here[1:]
        else:
            there[1:] = here[:-1]
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (self.replace(back=not self.back)(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((3, 2)),))
        yield Sample((rng.standard_normal((2, 3)),), {"axis": -1, "back": True})
        yield Sample((rng.standard_normal((0, 2)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec(()),), {}, "out of range")

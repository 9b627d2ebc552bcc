"""The linear recurrence from which the gradients of running and segmented products are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import Cotangent, ErrorSample, Op, Sample, attr
from ...ops.elementwise import conj, promoted
from ...ops.special import widened
from ...spec import TensorSpec, differ, normalize_axis, promote

_WIDE = 256
"""From this many elements on, a row takes longer than numpy's call: 512 rows of 512 2 ms, not 8."""


class LinearRecurrence(Op):
    """Each element is a multiple of the one before it, and something added.

    y₀ = b₀,  yᵢ = aᵢ·yᵢ₋₁ + bᵢ;  reverse: from the end. Wide rows follow each other one by one; of
    narrow ones, spans of 1, 2, 4, … are joined, so that n of them take log₂ n passes over all
    (Hillis and Steele 1986).
    """

    namespace = "gradient"
    axis: int = attr(0, doc="Axis along which elements follow each other.")
    reverse: bool = attr(False, doc="Go from the end.")

    def infer(self, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        normalize_axis(self.axis, b.rank)
        if a.rank != b.rank or any(map(differ, a.shape, b.shape)):
            raise ShapeError("factors and summands differ in shape", need=f"a {b}, got {a}")
        return b.with_dtype(promote(a.dtype, b.dtype))

    def forward(self, a: Any, b: Any) -> Any:
        joint = promoted(a, b)
        way = slice(None, None, -1 if self.reverse else 1)
        factor, y = (
            np.moveaxis(widened(t.astype(joint, copy=False)), self.axis, 0)[way].copy()
            for t in (a, b)
        )
        if y[:1].size >= _WIDE:
            for i in range(1, len(y)):
                y[i] += factor[i] * y[i - 1]
        span = 1 if y[:1].size < _WIDE else len(y)
        while span < len(y):
            y[span:] += factor[span:] * y[:-span]
            factor[span:] = factor[span:] * factor[:-span]
            span *= 2
        return np.ascontiguousarray(np.moveaxis(y[way], 0, self.axis)).astype(joint, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (y,), a = gs, ys, xs[0]
        later = Shift(axis=self.axis, back=not self.reverse)(conj(a))
        earlier = Shift(axis=self.axis, back=self.reverse)(conj(y))
        summand = self.replace(reverse=not self.reverse)(later, g)
        return summand * earlier, summand

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = rng.standard_normal((2, 5, 2))
        yield Sample((a, b))
        yield Sample((a.T, b.T), {"axis": -1, "reverse": True})
        yield Sample((a[:0], b[:0]))
        wide = rng.standard_normal((2, 3, _WIDE))
        yield Sample((wide[0], wide[1]), {"reverse": True}, differentiate=())

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((3,))), {}, "differ in shape")


class Shift(Op):
    """Move all elements one place along an axis; 0 comes in.

    y₀ = 0,  yᵢ = xᵢ₋₁;  back: yᵢ = xᵢ₊₁,  0 at the end
    """

    namespace = "gradient"
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

"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..op import Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ..spec import TensorSpec, normalize_axis
from .like import BroadcastLike
from .movement import ExpandDims

Axis = int | tuple[int, ...] | None


class _Reduction(Op):
    """A reduction over some or all axes."""

    namespace = "base"
    is_method = True
    axis: Axis = attr(None, doc="Axis or axes to reduce; None reduces all.")
    keepdims: bool = attr(False, doc="Keep reduced axes with size 1.")

    def axes(self, rank: int) -> tuple[int, ...]:
        """Return the reduced axes, counted from the front."""
        if self.axis is None:
            return tuple(range(rank))
        given = (self.axis,) if isinstance(self.axis, int) else self.axis
        return tuple(sorted({normalize_axis(a, rank) for a in given}))

    def infer(self, x: TensorSpec) -> TensorSpec:
        axes = self.axes(x.rank)
        kept = [1 if i in axes else d for i, d in enumerate(x.shape) if self.keepdims or i not in axes]
        return x.with_shape(kept)

    def kept(self, t: Any, rank: int) -> Any:
        """Put the reduced axes of ``t`` back with size 1, so that it broadcasts against the input."""
        if self.keepdims:
            return t
        axes = self.axes(rank)
        return ExpandDims(axis=axes)(t) if axes else t

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((3, 4)),))
        yield Sample((rng.standard_normal((2, 3, 4)),), {"axis": (0, -1)})
        yield Sample((rng.standard_normal((2, 3)),), {"axis": 1, "keepdims": True})
        yield Sample((rng.standard_normal(()),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"axis": 2}, "out of range")


class Sum(_Reduction):
    """Sum over axes; halves accumulate in float32.

    y = Σ x
    """

    onnx = OnnxRule("ReduceSum", since=13)

    def forward(self, x: Any) -> Any:
        axes = self.axes(x.ndim)
        if x.dtype.itemsize < 4 and x.dtype.kind in "fV":
            return x.astype(np.float32).sum(axes, keepdims=self.keepdims).astype(x.dtype)
        return x.sum(axes, dtype=x.dtype, keepdims=self.keepdims)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (BroadcastLike()(self.kept(gs[0], xs[0].rank), xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((rng.standard_normal((0, 3)),), {"axis": 0})

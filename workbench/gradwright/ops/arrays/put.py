"""Writing into a slice as an op: what ``x[1:, 0] = v`` is where nothing is written in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import AFFINE, LINEAR, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, shapes_differ
from ..core.like import ZerosLike
from ..core.slicing import Item, StridedSlice


class PutSlice(Op):
    """``x`` with ``value`` at regular places along axes.

    y = x,  y[index] = value

    >>> import numpy as np
    >>> from gradwright.ops.arrays.put import PutSlice
    >>> PutSlice(index=(slice(1, None),)).forward(np.zeros(3), np.ones(2)).tolist()
    [0.0, 1.0, 1.0]
    """

    namespace = "inner"
    drawing = "math"
    dependence = AFFINE, LINEAR
    index: tuple[Item, ...] = attr(doc="Per axis a place or a slice; None for a new axis.")

    def infer(self, x: TensorSpec, value: TensorSpec) -> TensorSpec:
        """Return the spec of ``x``; the value must have that of the slice."""
        taken = StridedSlice(index=self.index).infer(x)
        if shapes_differ(taken.shape, value.shape) or x.dtype != value.dtype:
            raise ShapeError("the value does not fit the slice", need=str(taken))
        return x.with_shape(x.shape)

    def forward(self, x: Any, value: Any) -> Any:
        """Write into a copy."""
        y = x.copy()
        y[StridedSlice(index=self.index).subscript()] = value
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        """Zeros for what was overwritten, the slice for the value."""
        taken = StridedSlice(index=self.index)(gs[0])
        return lambda: PutSlice(index=self.index)(gs[0], ZerosLike()(taken)), taken

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        """Yield a place, steps and new axes, and an empty slice."""
        x = rng.standard_normal((4, 3))
        yield Sample((x, rng.standard_normal(3)), {"index": (-1,)})
        yield Sample(
            (x, rng.standard_normal((2, 1, 2))), {"index": (slice(3, None, -2), None, slice(1, 9))}
        )
        yield Sample((x, rng.standard_normal((0, 3))), {"index": (slice(2, 2),)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        """Yield a value of another shape."""
        specs = TensorSpec((2, 3)), TensorSpec((2,))
        yield ErrorSample(specs, {"index": (0,)}, "does not fit the slice")

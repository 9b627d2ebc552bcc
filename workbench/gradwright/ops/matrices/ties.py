"""Equal values of a spectrum, where gradients by its vectors have no limit, or one nobody can tell.

Vectors of two equal values are any basis of their plane. What flows back by them is n/gap, where
gap is the difference of the values and n what the cotangents say of a turn in that plane. A
function that has a gradient there does not see the turn, so n is 0 and what is asked for is the
limit of 0/0. It depends on the function: it holds f'(w) for v·f(w)·vᴴ, and is 0 for the projector
on the plane, though the cotangents of both may be the same numbers. So the answer is NaN, but for
two kinds of functions: those in which nothing flows to the vectors of the plane, and those of
vectors alone, which are functions of spaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ELEMENT, OPAQUE, ZERO, Autocast, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, broadcast, kind, shapes_differ
from ..core.creation import Diag, DiagGrad
from ..core.elementwise import Abs, conj
from ..core.reduce import Sum
from ..core.special import finfo

TIE = 4.0
"""Roundings of the largest value within which two values are equal. Values that are equal in exact
numbers come out of LAPACK within 4 of their neighbour, those of random matrices hundreds apart."""
SKIP = 1e-8
"""Gaps, relative to the largest value, that a turn of 0 does not see."""
STILL = 16.0
"""Roundings of cotangents within which their turn is 0."""


class GapReciprocal(Op):
    """1/gap; where the gap is lost in the rounding of the largest of values: 0 if still, else NaN.

    With ``reach``, gaps below reach times the largest of values have 0 if still, too: there the
    rounding of a numerator that is 0 would decide.
    """

    namespace = "gradient"
    drawing = "math"
    autocast = Autocast.FREE
    dependence = ELEMENT, OPAQUE
    reach: float = attr(0.0, doc="Relative size of gaps that are skipped where nothing turns.")

    def infer(self, gap: TensorSpec, values: TensorSpec, still: TensorSpec) -> TensorSpec:
        if {kind(gap.dtype), kind(values.dtype)} - {*"fc"} or kind(still.dtype) != "b":
            raise DTypeError(f"{self.name} does not take {gap}, {values} and {still}")
        shape = broadcast(gap.shape, still.shape)
        if shapes_differ(shape, gap.shape) or values.rank != gap.rank - 1:
            raise ShapeError(
                "gaps, values and still do not fit", need="[..., M, N], [..., K] and [..., M, N]"
            )
        return gap.with_shape(gap.shape)

    def forward(self, gap: Any, values: Any, still: Any) -> Any:
        size = np.abs(values).max(-1, initial=0)[..., None, None]
        apart = np.abs(gap)
        lost = ~(apart > size * size.dtype.type(TIE * finfo(size.dtype).eps))
        y = np.divide(1, gap, out=np.full_like(gap, np.nan), where=~lost)
        near = lost | (apart < size * size.dtype.type(self.reach))
        y[near & still] = 0
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (y,) = gs, ys
        return -g * conj(y * y), ZERO, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        values = np.array([[1.0, 2.0, 4.0]])
        still = np.eye(3, dtype=bool)
        gap = values[:, None, :] - values[:, :, None] + 8 * still
        yield Sample((gap, values, still), differentiate=(0,))
        yield Sample((np.zeros((0, 0)), np.zeros(0), np.zeros((0, 0), bool)), differentiate=())

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        gap, still = TensorSpec((3, 3)), TensorSpec((3, 3), "bool")
        yield ErrorSample((gap, TensorSpec(()), still), {}, "do not fit")


def hollow(x: Any) -> Any:
    """Return square matrices with zeros on the diagonal."""
    return x - DiagGrad()(Diag()(x), x)


def turn_free(n: Any, *gs: Any) -> Any:
    """Return where a turn n of two columns is 0 beside the columns of the cotangents gs."""
    size = sum(Sum(axis=-2)(Abs()(g)) for g in gs) * (STILL * float(finfo(n.dtype).eps))
    return Abs()(n) <= size[..., None, :] + size[..., :, None]


def idle(values: Any, *alongs: Any) -> Any:
    """Return where nothing flows to the vectors of a pair, and the same to both its values.

    ``alongs`` are hollow: what flows to each column along each other.
    """
    size = sum(Abs()(a) for a in alongs)
    equal = Abs()(values[..., None, :] - values[..., :, None])
    some = Sum(axis=-1)(Abs()(values))[..., None, None]
    return (size + size.mT == 0.0) & (equal <= some * float(finfo(values.dtype).eps) ** 0.5)

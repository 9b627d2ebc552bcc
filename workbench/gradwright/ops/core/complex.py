"""Complex tensors: made of two real ones, and taken apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError
from ...op import AFFINE, Cotangent, ErrorSample, Op, Sample
from ...spec import TensorSpec, broadcast, promote
from .elementwise import Real, real_part
from .movement import Cast


class Imag(Op):
    """Imaginary part of a complex tensor.

    y = Im x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.imag(gw.complex(g.constant([1.0]), g.constant([2.0])))
    >>> g.output({}, y)["imag"].tolist()
    [2.0]
    """

    namespace = "math"
    is_method = True

    def infer(self, x: TensorSpec) -> TensorSpec:
        return real_part(self, x)

    def forward(self, x: Any) -> Any:
        return x.imag.copy()

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (Cast(dtype=xs[0].dtype)(gs[0]) * 1j,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)) + 1j * rng.standard_normal((2, 3)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "needs a complex tensor")


class Complex(Op):
    """Complex tensor of its real and imaginary part.

    y = re + i·im

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> z = gw.complex(g.constant(3.0), g.constant(4.0))
    >>> float(g.output({}, gw.abs(z))["abs"])
    5.0
    """

    namespace = "math"
    dependence = AFFINE

    def infer(self, real: TensorSpec, imag: TensorSpec) -> TensorSpec:
        joint = promote(real.dtype, imag.dtype)
        if joint.name not in ("float32", "float64"):
            raise DTypeError(f"complex does not take {joint}", need="float32 or float64")
        wide = "complex64" if joint.itemsize == 4 else "complex128"
        return TensorSpec(broadcast(real.shape, imag.shape), wide)

    def forward(self, real: Any, imag: Any) -> Any:
        joint = promote(promote(real.dtype, imag.dtype), np.dtype("complex64"))
        y = np.empty(np.broadcast_shapes(real.shape, imag.shape), joint)
        y.real, y.imag = real, imag
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return lambda: Real()(gs[0]), lambda: Imag()(gs[0])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)), rng.standard_normal(3)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,), "int64"),) * 2, {}, "does not take int64")

"""Complex tensors as real ones whose last axis holds real and imaginary part, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import LINEAR, Cotangent, ErrorSample, Op, Sample
from ...spec import TensorSpec, differ
from ..core.elementwise import real_part
from .fourier import complex_of


class ViewAsReal(Op):
    """Real and imaginary parts of a complex tensor, on a new last axis.

    y[…, 0] = Re x, y[…, 1] = Im x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.signal.view_as_real(g.constant([1 + 2j]), name="y"))["y"].tolist()
    [[1.0, 2.0]]
    """

    namespace = "signal"
    views = True

    def infer(self, x: TensorSpec) -> TensorSpec:
        return real_part(self, x).with_shape((*x.shape, 2))

    def forward(self, x: Any) -> Any:
        return np.ascontiguousarray(x)[..., None].view(x.real.dtype).reshape(*x.shape, 2)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ViewAsComplex()(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((2, 3), (), (0, 2)):
            yield Sample((rng.standard_normal(shape) + 1j * rng.standard_normal(shape),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "needs a complex tensor")


class ViewAsComplex(Op):
    """Complex tensor of the real and imaginary parts on the last axis.

    y = x[…, 0] + i·x[…, 1]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.signal.view_as_complex(g.constant([[1.0, 2.0]]), name="y"))["y"].tolist()
    [(1+2j)]
    """

    namespace = "signal"
    views = True
    dependence = LINEAR

    def infer(self, x: TensorSpec) -> TensorSpec:
        if x.dtype.name not in ("float32", "float64"):
            raise DTypeError(
                f"view_as_complex does not take {x.dtype}", hint="gw.cast(x, 'float32')"
            )
        if not x.rank or differ(x.shape[-1], 2):
            raise ShapeError("view_as_complex needs pairs of numbers", need=f"f32[..., 2], got {x}")
        return TensorSpec(x.shape[:-1], complex_of(x.dtype))

    def forward(self, x: Any) -> Any:
        return np.ascontiguousarray(x).view(complex_of(x.dtype))[..., 0]

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ViewAsReal()(gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((2, 3, 2), (2,), (0, 2)):
            yield Sample((rng.standard_normal(shape),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {}, "needs pairs")
        yield ErrorSample((TensorSpec((2,), "float16"),), {}, "does not take float16")

"""Sums of many, and what passes a tensor on as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...op import AFFINE, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample
from ...spec import (
    TensorSpec,
    broadcast,
    promote_all,
)
from .elementwise import _Unary, promoted, rounded_once


class AddN(Op):
    """Sum of several tensors, in order.

    y = x₀ + x₁ + … + xₙ₋₁

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.add_n(g.constant([1.0]), g.constant([2.0]), g.constant([3.0]))
    >>> g.output({}, y)["add_n"].tolist()
    [6.0]
    """

    namespace = "math"
    dependence = AFFINE
    onnx = OnnxRule("Sum", since=13)

    def infer(self, *xs: TensorSpec) -> TensorSpec:
        return TensorSpec(broadcast(*(x.shape for x in xs)), promote_all(*xs))

    @rounded_once
    def forward(self, *xs: Any) -> Any:
        joint = promoted(*xs)
        total = xs[0].astype(joint)
        for x in xs[1:]:
            total = np.add(total, x, dtype=joint)
        return total

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [gs[0]] * len(xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for n in (1, 3):
            yield Sample(tuple(rng.standard_normal((2, 3)) for _ in range(n)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((3,))), {}, "do not broadcast")


class _Same(_Unary):
    """The tensor itself."""

    accepts = "buifcso"
    by_reference = "so"
    namespace = "base"
    drawing = "shape"
    views = True
    value_rule = True
    is_method = False
    dependence = AFFINE

    def alias_of(self, specs: Sequence[TensorSpec | None]) -> int | None:
        return 0

    def forward(self, x: Any) -> Any:
        return x

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        return iter(())


class Identity(_Same):
    """The tensor itself, as a node of its own.

    y = x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.identity(g.constant([1, 2]))
    >>> g.output({}, y)["identity"].tolist()
    [1, 2]
    """

    onnx = OnnxRule("Identity", since=1)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (gs[0],)


class StopGradient(_Same):
    """The tensor itself, taken as a constant by gradients.

    y = x,  ∂y/∂x := 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ())
    >>> dx, = gw.gradients(x * gw.stop_gradient(x), [x])
    >>> float(g.output({"x": 3.0}, dx)[dx.name])
    3.0
    """

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),), smooth=False)

"""Sums of many, and what passes a tensor on as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import AFFINE, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample
from ...spec import TensorSpec, broadcast, kind, promote_all, shapes_differ
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


class Surrogate(Op):
    """A value with the gradient of another: straight-through estimators, surrogate spikes.

    y = forward, to the bit;  ∂y/∂backward := 1, ∂y/∂forward := 0

    So y takes part in gradients as if it were ``backward``, a tensor of the same spec: rounding
    that counts as the identity is ``surrogate(round(x), x)`` (Bengio et al. 2013), a step with the
    slope of a sigmoid ``surrogate(step, sigmoid(x))`` (Neftci et al. 2019). Gradient checks hold it
    against that, and show it as such. Raises ShapeError or DTypeError where the two differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (2,))
    >>> y = gw.surrogate(gw.round(x), x)
    >>> dx, = gw.gradients(gw.square(y), [x])
    >>> [v.tolist() for v in g.output({"x": [0.6, -1.2]}, y, dx).values()]
    [[1.0, -1.0], [2.0, -2.0]]
    """

    namespace = "base"
    drawing = "shape"
    views = True
    dependence = AFFINE

    def infer(self, forward: TensorSpec, backward: TensorSpec) -> TensorSpec:
        if kind(forward.dtype) not in "fc" or forward.dtype != backward.dtype:
            raise DTypeError(
                f"{self.name} takes two floats alike, got {forward.dtype} and {backward.dtype}",
                hint="gw.cast(forward, backward.dtype)",
            )
        if shapes_differ(forward.shape, backward.shape):
            raise ShapeError("the two have different shapes", need=str(backward))
        return forward.with_shape(forward.shape)

    def forward(self, forward: Any, backward: Any) -> Any:
        return forward

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, gs[0]

    def surrogate(self, xs: Sequence[Any], at: Sequence[Any]) -> Any:
        return xs[1]

    def alias_of(self, specs: Sequence[TensorSpec | None]) -> int | None:
        return 0

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3))
        yield Sample((np.rint(x), x), smooth=False)
        yield Sample((np.zeros((0, 2)), np.zeros((0, 2))), smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2,))
        yield ErrorSample((x, TensorSpec((3,))), {}, "different shapes")
        yield ErrorSample((x, x.with_dtype("float64")), {}, "two floats alike")
        yield ErrorSample((x.with_dtype("int32"), x.with_dtype("int32")), {}, "two floats alike")

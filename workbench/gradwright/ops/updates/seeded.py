"""A value whose gradient is given, instead of being the derivative of how it was computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import AFFINE, ZERO, Cotangent, ErrorSample, Op, Sample
from ...spec import TensorSpec, kind, shapes_differ


class WithGradient(Op):
    """A scalar whose gradient with respect to ``root`` is said to be ``cotangent``.

    y = value,  ∂y/∂root := cotangent

    A loss can be measured in one way and trained in another: by what another program says of an
    output, or by a formula that is cheaper at the logits than the derivative of the loss. ``value``
    itself gets no gradient.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (2,))
    >>> y = x * 3.0
    >>> loss = gw.training.with_gradient(gw.sum(gw.abs(y)), y, g.constant([10.0, -1.0]))
    >>> dx, = gw.gradients(loss, [x])
    >>> [v.tolist() for v in gw.Session(g).run([loss, dx], {"x": [1.0, 2.0]})]
    [9.0, [30.0, -3.0]]
    """

    namespace = "training"
    shape_only = (1, 2)
    dependence = AFFINE

    def infer(self, value: TensorSpec, root: TensorSpec, cotangent: TensorSpec) -> TensorSpec:
        if value.rank:
            raise ShapeError("the value must be a scalar", need="f32[]", hint="gw.mean(value)")
        for name, x in (("value", value), ("root", root), ("cotangent", cotangent)):
            if kind(x.dtype) not in "fc":
                raise DTypeError(f"{name} cannot be {x.dtype}", need="a floating dtype")
        if shapes_differ(root.shape, cotangent.shape):
            raise ShapeError("the cotangent has another shape than the root", need=str(root))
        return value.with_shape(())

    def forward(self, value: Any, root: Any, cotangent: Any) -> Any:
        return np.array(value)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, gs[0] * xs[2], ZERO

    def surrogate(self, xs: Sequence[Any], at: Sequence[Any]) -> Any:
        return np.vdot(at[2], xs[1] - at[1]).real

    def alias_of(self, specs: Sequence[TensorSpec | None]) -> int | None:
        return 0

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        root, cotangent = rng.standard_normal((2, 2, 3))
        yield Sample((np.array(0.5), root, cotangent), smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        s, x = TensorSpec(()), TensorSpec((2,))
        yield ErrorSample((x, x, x), {}, "must be a scalar")
        yield ErrorSample((s, x, s), {}, "another shape than the root")
        yield ErrorSample((s, x.with_dtype("int32"), x), {}, "cannot be int32")

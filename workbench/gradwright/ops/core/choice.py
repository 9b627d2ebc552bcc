"""Choice between elements: larger, smaller, clipped, where a condition holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError
from ...op import AFFINE, ELEMENT, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample
from ...spec import TensorSpec, broadcast, kind, promote, promote_all
from ..numerics.standard import cast, library
from .elementwise import _Binary, promoted


class Maximum(_Binary):
    """Larger of two tensors, element by element; equal ones share the gradient.

    y = max(a, b)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.maximum(g.constant([-1.0, 2.0]), 0.0))["maximum"].tolist()
    [0.0, 2.0]
    """

    element = "maximum"
    ufunc = np.maximum
    value_rule = True
    accepts = "buif"
    onnx = OnnxRule("Max", since=13)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return _share(gs[0], *xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([1.0, 2.0]), np.array([1.0, 3.0])), smooth=False)


class Minimum(_Binary):
    """Smaller of two tensors, element by element; equal ones share the gradient.

    y = min(a, b)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.minimum(g.constant([1.0, 5.0]), 3.0)
    >>> g.output({}, y)["minimum"].tolist()
    [1.0, 3.0]
    """

    element = "minimum"
    ufunc = np.minimum
    value_rule = True
    accepts = "buif"
    onnx = OnnxRule("Min", since=13)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return _share(gs[0], *reversed(xs))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([1.0, 2.0]), np.array([1.0, 3.0])), smooth=False)


def _share(g: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Return the shares of a and b: all to the larger, halves to equal ones, and NaN to both.

    Chosen rather than multiplied by 0 and 1, since 0·∞ is not 0.
    """
    even = Where()(a == b, g * 0.5, g)
    return Where()(a < b, 0.0, even), Where()(b < a, 0.0, even)


class Where(Op):
    """Elements of ``a`` where the condition holds, of ``b`` elsewhere.

    y = condition ? a : b

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([-1.0, 2.0])
    >>> g.output({}, gw.where(x > 0.0, x, 0.5 * x))["where"].tolist()
    [-0.5, 2.0]
    """

    namespace = "math"
    by_reference = "s"
    array_api = True
    value_rule = True
    dependence = AFFINE
    onnx = OnnxRule("Where", since=9)

    def infer(self, condition: TensorSpec, a: TensorSpec, b: TensorSpec) -> TensorSpec:
        if kind(condition.dtype) != "b":
            raise DTypeError(
                "the condition is not bool", need=f"bool, got {condition}", hint="x != 0"
            )
        return TensorSpec(broadcast(condition.shape, a.shape, b.shape), promote(a.dtype, b.dtype))

    def forward(self, condition: Any, a: Any, b: Any) -> Any:
        if object in (a.dtype, b.dtype):  # dims
            return np.where(condition, a, b)
        joint = promoted(a, b)
        return library(a).where(condition, cast(a, joint), cast(b, joint))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), condition = gs, xs[0]
        return ZERO, lambda: Where()(condition, g, 0.0), lambda: Where()(condition, 0.0, g)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = rng.standard_normal((2, 3)), rng.standard_normal((3,))
        yield Sample((a > 0, a, b))
        yield Sample((np.array([[True], [False]]), b, np.array(1.0)))
        yield Sample((np.ones((0,), bool), np.ones((1,)), np.ones(())))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2,)), TensorSpec((2,))), {}, "not bool")
        shapes = TensorSpec((2,), "bool"), TensorSpec((3,)), TensorSpec((3,))
        yield ErrorSample(shapes, {}, "do not broadcast")


def _of_equals(x: Any, bound: Any, choose: Any) -> Any:
    """Return the maximum or minimum; of 0 and −0.0, x, as numpy's clip does."""
    if isinstance(x, np.ndarray) and kind(x.dtype) == "f" and x.dtype.itemsize < 4:
        return np.where(x == bound, x, choose(x, bound))  # of halves it takes the first
    return choose(bound, x)


class Clip(Op):
    """Elements brought into [min, max]; the gradient flows where nothing was changed.

    y = min(max(x, lower), upper)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (3,))
    >>> g.output({"x": [-2.0, 0.5, 2.0]}, gw.clip(x, 0.0, 1.0))["clip"].tolist()
    [0.0, 0.5, 1.0]
    """

    namespace = "math"
    is_method = True
    array_api = True
    dependence = ELEMENT
    onnx = OnnxRule("Clip", since=13)

    def infer(
        self, x: TensorSpec, min: TensorSpec | None = None, max: TensorSpec | None = None
    ) -> TensorSpec:
        given = [s for s in (x, min, max) if s is not None]
        joint = promote_all(*given)
        if kind(joint) not in "uif":
            raise DTypeError(f"clip does not take {joint}")
        return TensorSpec(broadcast(*(s.shape for s in given)), joint)

    def forward(self, x: Any, min: Any = None, max: Any = None) -> Any:
        joint = promoted(*(a for a in (x, min, max) if a is not None))
        xp = library(x)
        y = x.astype(joint) if isinstance(x, np.ndarray) else cast(x, joint)
        if min is not None:
            y = _of_equals(y, cast(min, joint), xp.maximum)
        return y if max is None else _of_equals(y, cast(max, joint), xp.minimum)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), x = gs, xs[0]
        low, high = (*xs[1:], None, None)[:2]
        out: list[Cotangent] = [g] + [ZERO] * (len(xs) - 1)
        if high is not None:
            above = (x if low is None else Maximum()(x, low)) > high
            out[2] = Where()(above, out[0], 0.0)
            out[0] = Where()(above, 0.0, out[0])
        if low is not None:
            below = x < low
            out[1] = Where()(below, out[0], 0.0)
            out[0] = Where()(below, 0.0, out[0])
        return out

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.uniform(-2.0, 2.0, (3, 4))
        yield Sample((x, np.array(-1.0), np.array(0.5)))
        yield Sample((x, None, rng.standard_normal(4)))
        yield Sample((x, np.array(1.0), np.array(-1.0)))  # as in numpy, max wins
        yield Sample((x,))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((3,))), {}, "do not broadcast")
        yield ErrorSample((TensorSpec((2,), "complex64"),), {}, "does not take complex64")

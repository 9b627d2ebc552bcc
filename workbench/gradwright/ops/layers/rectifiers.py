"""Activations in straight pieces; at a kink the gradient is that of the flat side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import AFFINE, ELEMENT, Autocast, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, broadcast, differ, kind, normalize_axis, promote
from ..core.activation import Relu, _Activation, _Composed
from ..core.choice import Where
from ..core.elementwise import promoted
from ..core.joining import Concat
from ..core.special import at_least, at_most, widened
from .nn import Linear

_KINKS = np.array([-3.0, -1.0, 0.0, 1.0, 3.0])


class HardTanh(_Activation):
    """Identity clipped to a range (Collobert 2004).

    y = min(max(x, min), max)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.hard_tanh(g.constant([-3.0, 0.5, 3.0])))["hard_tanh"].tolist()
    [-1.0, 0.5, 1.0]
    """

    saturates = -1.0, 1.0

    min: float = attr(-1.0, doc="Smallest value.")
    max: float = attr(1.0, doc="Largest value.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if not self.min < self.max:
            raise GraphError(f"nothing is between {self.min} and {self.max}", need="min < max")
        return super().infer(x)

    def forward(self, x: Any) -> Any:
        return at_most(at_least(x, self.min), self.max)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (x,) = xs
        return (Where()((x <= self.min) | (x >= self.max), 0, gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((_KINKS,), smooth=False)
        yield Sample((np.array([-0.6, 0.2, 0.7]),), {"min": -0.5, "max": 0.5})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((2,)),), {"min": 1.0}, "nothing is between")


class SquaredRelu(_Activation):
    """Square of the rectified input (So et al. 2021, "Primer").

    y = max(x, 0)²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.squared_relu(g.constant([-2.0, 3.0])))["squared_relu"].tolist()
    [0.0, 9.0]
    """

    def forward(self, x: Any) -> Any:
        y = at_least(x, 0)
        return y * y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (gs[0] * (Relu()(xs[0]) * 2),)


class ThresholdedRelu(_Activation):
    """Input where it exceeds a threshold, else 0 (Konda, Memisevic and Krueger 2014).

    y = x for x > α, else 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.thresholded_relu(g.constant([0.5, 1.0, 2.0]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.0, 0.0, 2.0]
    """

    alpha: float = attr(1.0, doc="Threshold.")
    onnx = OnnxRule("ThresholdedRelu", since=10)

    def forward(self, x: Any) -> Any:
        return np.where(x <= x.dtype.type(self.alpha), x.dtype.type(0), x)  # NaN goes through

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (Where()(xs[0] <= self.alpha, 0, gs[0]),)


class HardSwish(_Activation):
    """Swish with a piecewise linear sigmoid (Howard et al. 2019).

    y = x·min(max(x/6 + 1/2, 0), 1)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.hard_swish(g.constant([-3.0, 0.0, 3.0])))["hard_swish"].tolist()
    [-0.0, 0.0, 3.0]
    """

    domain = (-4.0, 4.0)
    onnx = OnnxRule("HardSwish", since=14)

    def forward(self, x: Any) -> Any:
        w = widened(x)
        gate = np.multiply(w, 1 / 6, out=np.empty_like(w))
        gate += 0.5
        np.clip(gate, 0, 1, out=gate)
        gate *= w
        return gate.astype(x.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x,) = gs, xs
        inside = Where()(x >= 3, g, g * (x / 3 + 0.5))
        return (Where()(x <= -3, 0, inside),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((_KINKS,), smooth=False)


class Shrink(_Activation):
    """Input moved towards 0, and 0 where it is small.

    y = x − bias for x > λ, x + bias for x < −λ, else 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.shrink(g.constant([-2.0, 0.2, 2.0]), lambd=0.5, bias=1.5, name="y")
    >>> g.output({}, y)["y"].tolist()
    [-0.5, 0.0, 0.5]
    """

    lambd: float = attr(0.5, doc="Half the width of what becomes 0.")
    bias: float = attr(0.0, doc="How far the rest moves.")
    onnx = OnnxRule("Shrink", since=9)
    accepts = "fiu"

    def infer(self, x: TensorSpec) -> TensorSpec:
        if not self.lambd >= 0:
            raise GraphError(f"{self.name}: lambd={self.lambd} is negative", need="lambd >= 0")
        return super().infer(x)

    def forward(self, x: Any) -> Any:
        bias = x.dtype.type(self.bias)
        with np.errstate(over="ignore"):  # of unsigned integers, in the branch not taken
            near = np.where(x <= self.lambd, 0, x - bias)  # NaN is not near 0
            outer = np.where(x < -self.lambd, x + bias, near)
        return outer.astype(x.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (x,) = xs
        return (Where()((x <= self.lambd) & (x >= -self.lambd), 0, gs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((np.array([-2.0, 0.1, 0.9]),), {"lambd": 0.3, "bias": 0.2})
        yield Sample((np.array([-2, 0, 2, 3]),), {"lambd": 1.5, "bias": 1.0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((2,)),), {"lambd": -1.0}, "is negative")


class _TorchShrink(_Composed):
    """A shrinkage given by its threshold alone."""

    lambd: float = attr(0.5, doc="Half the width of what becomes 0.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        return Shrink(lambd=self.lambd).infer(super().infer(x))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorSpec((2,)),), {"lambd": -1.0}, "is negative")


class HardShrink(_TorchShrink):
    """Input where it is large, else 0.

    y = x for |x| > λ, else 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.hard_shrink(g.constant([-2.0, 0.2])))["hard_shrink"].tolist()
    [-2.0, 0.0]
    """

    def expand(self, x: Any) -> Any:
        return Shrink(lambd=self.lambd)(x)


class SoftShrink(_TorchShrink):
    """Input moved towards 0 by λ, at most up to it: the proximal map of λ·|x| (Donoho 1995).

    y = sign(x)·max(|x| − λ, 0)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.soft_shrink(g.constant([-2.0, 0.2])))["soft_shrink"].tolist()
    [-1.5, 0.0]
    """

    def expand(self, x: Any) -> Any:
        return Shrink(lambd=self.lambd, bias=self.lambd)(x)


class Prelu(Op):
    """Relu with a learned slope for negative inputs (He et al. 2015).

    y = x for x ≥ 0, else slope·x; the slope broadcasts to x, as ``f32[C, 1, 1]`` does to
    ``f32[B, C, H, W]``

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, slope = g.constant([[-2.0, -2.0]]), g.variable("slope", (2,), init=[0.5, 2.0])
    >>> g.output({}, gw.nn.prelu(x, slope))["prelu"].tolist()
    [[-1.0, -4.0]]
    """

    namespace = "nn"
    dependence = ELEMENT, AFFINE
    onnx = OnnxRule("PRelu", since=16)

    def infer(self, x: TensorSpec, slope: TensorSpec) -> TensorSpec:
        joint = promote(x.dtype, slope.dtype)
        if kind(joint) not in "fiu":
            raise DTypeError(f"prelu does not take {joint}", hint="gw.cast(x, 'float32')")
        shape = broadcast(x.shape, slope.shape)
        if len(shape) != x.rank or any(map(differ, shape, x.shape)):
            raise ShapeError("the slope is larger than x", need="slope broadcastable to x")
        return TensorSpec(x.shape, joint)

    def forward(self, x: Any, slope: Any) -> Any:
        joint = promoted(x, slope)
        x = x.astype(joint, copy=False)
        return np.where(x < 0, x * slope.astype(joint, copy=False), x)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x, slope) = gs, xs
        return (
            lambda: Where()(x > 0, g, g * slope),
            lambda: Where()(x > 0, 0, g * x),
        )

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 2)), rng.standard_normal((3, 1))))
        yield Sample((rng.standard_normal(4), np.array(0.25)))
        yield Sample((rng.standard_normal((0, 2)), rng.standard_normal(2)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)), TensorSpec((2, 3))), {}, "larger than x")
        yield ErrorSample((TensorSpec((3,), "bool"), TensorSpec((), "bool")), {}, "does not take")


class Crelu(Op):
    """Relu of the input and of its negative side by side (Shang et al. 2016).

    y = (max(x, 0), max(−x, 0)) along ``axis``, which doubles

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.crelu(g.constant([-1.0, 2.0])))["crelu"].tolist()
    [0.0, 2.0, 1.0, 0.0]
    """

    namespace = "nn"
    axis: int = attr(-1, doc="Axis that doubles.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) != "f":
            raise DTypeError(f"crelu does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        axis = normalize_axis(self.axis, x.rank)
        return x.with_shape((*x.shape[:axis], x.shape[axis] + x.shape[axis], *x.shape[axis + 1 :]))

    def expand(self, x: Any) -> Any:
        return Concat(axis=self.axis)(Relu()(x), Relu()(-x))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),))
        yield Sample((rng.standard_normal((2, 3)),), {"axis": 0})
        yield Sample((np.zeros((0, 2)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"axis": 1}, "out of range")
        yield ErrorSample((TensorSpec((2,), "int32"),), {}, "does not take int32")


class ReluLayer(Linear):
    """Relu of an affine map over the last axis.

    y = max(x @ weight + bias, 0), with x: f32[…, in], weight: f32[in, out], bias: f32[out]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2, 2), init=[[1.0, -1.0], [1.0, -1.0]])
    >>> g.output({}, gw.nn.relu_layer(g.constant([1.0, 2.0]), w))["relu_layer"].tolist()
    [3.0, 0.0]
    """

    drawing = "activation"
    autocast = Autocast.FREE
    onnx = None  # type: ignore[assignment]  # no Gemm alone, as the affine map is

    def infer(
        self, x: TensorSpec, weight: TensorSpec, bias: TensorSpec | None = None
    ) -> TensorSpec:
        return Relu().infer(super().infer(x, weight, bias))

    def expand(self, x: Any, weight: Any, bias: Any = None) -> Any:
        return Relu()(super().expand(x, weight, bias))

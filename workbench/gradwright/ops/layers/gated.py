"""Gated units, chains of elementwise ops, and hardmax."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import ROWS, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr, find_op
from ...spec import TensorSpec, kind, normalize_axis, promote, shapes_differ
from ..core.activation import Gelu, Relu, Sigmoid
from ..core.elementwise import _Binary, _Unary
from ..core.joining import Split
from ..core.movement import alike
from .smooth import Swish


class Glu(Op):
    """Half of the input, gated by the other half (Dauphin et al. 2016).

    y = a·sigmoid(b), with a and b the halves of x along ``axis``

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.glu(g.constant([3.0, 0.0])))["glu"].tolist()
    [1.5]
    """

    namespace = "nn"
    axis: int = attr(-1, doc="Axis that is halved.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) != "f":
            raise DTypeError(f"glu does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        return Split(parts=2, axis=self.axis).infer(x)[0]

    def expand(self, x: Any) -> Any:
        a, b = Split(parts=2, axis=self.axis)(x)
        return a * Sigmoid()(b)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 4)),))
        yield Sample((rng.standard_normal((2, 3)),), {"axis": 0})
        yield Sample((np.zeros((2, 0)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {}, "no multiple of 2")
        yield ErrorSample((TensorSpec((2,), "int32"),), {}, "does not take int32")


class _Gated(Op):
    """One tensor, activated, times another of the same shape."""

    namespace = "nn"

    def infer(self, gate: TensorSpec, x: TensorSpec) -> TensorSpec:
        joint = promote(gate.dtype, x.dtype)
        if kind(joint) != "f":
            raise DTypeError(f"{self.name} does not take {joint}", hint="gw.cast(x, 'float32')")
        if shapes_differ(gate.shape, x.shape):
            raise ShapeError("gate and x have different shapes", need="equal shapes")
        return TensorSpec(x.shape, joint)

    def expand(self, gate: Any, x: Any) -> Any:
        gate, x = alike(gate, x)
        return self.activated(gate) * x

    def activated(self, gate: Any) -> Any:
        """Return the activated gate."""
        raise NotImplementedError

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape in ((2, 3), (), (0, 2)):
            yield Sample((rng.standard_normal(shape), rng.standard_normal(shape)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)), TensorSpec((1,))), {}, "different shapes")
        yield ErrorSample((TensorSpec((3,), "int32"),) * 2, {}, "does not take int32")


class Swiglu(_Gated):
    """Input gated by a swish (Shazeer 2020); SameDiff calls it swishMul.

    y = gate·sigmoid(α·gate)·x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gate, x = g.constant([0.0, 1000.0]), g.constant([2.0, 3.0])
    >>> g.output({}, gw.nn.swiglu(gate, x))["swiglu"].tolist()
    [0.0, 3000.0]
    """

    alpha: float = attr(1.0, doc="Steepness of the sigmoid.")
    onnx = OnnxRule("SwiGLU", since=28)

    def activated(self, gate: Any) -> Any:
        return Swish(alpha=self.alpha)(gate)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        yield Sample((rng.standard_normal(3), rng.standard_normal(3)), {"alpha": 0.5})


class Geglu(_Gated):
    """Input gated by a gelu (Shazeer 2020).

    y = gate·Φ(gate)·x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gate, x = g.constant([0.0, 1000.0]), g.constant([2.0, 3.0])
    >>> g.output({}, gw.nn.geglu(gate, x))["geglu"].tolist()
    [0.0, 3000.0]
    """

    approximate: str = attr("none", doc="Exact, or by tanh.", choices=("none", "tanh"))

    def activated(self, gate: Any) -> Any:
        return Gelu(approximate=self.approximate)(gate)


class Reglu(_Gated):
    """Input gated by a relu (Shazeer 2020).

    y = max(gate, 0)·x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gate, x = g.constant([-1.0, 2.0]), g.constant([2.0, 3.0])
    >>> g.output({}, gw.nn.reglu(gate, x))["reglu"].tolist()
    [0.0, 6.0]
    """

    def activated(self, gate: Any) -> Any:
        return Relu()(gate)


class FusedElementwiseChain(Op):
    """Elementwise ops one after the other, each applied to what the one before gave.

    y = fₙ(… f₂(f₁(x))); an op of two tensors takes the next of ``others`` as its second.

    Ops are named as they are registered, and stand with their defaults. Raises GraphError for a
    name that is no elementwise op of one or two tensors, and where ``others`` do not go around.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, b = g.constant([-1.0, 2.0]), g.constant(1.0)
    >>> y = gw.nn.fused_elementwise_chain(("relu", "add", "neg"), x, b, name="y")
    >>> g.output({}, y)["y"].tolist()
    [-1.0, -3.0]
    """

    namespace = "nn"
    chain: tuple[str, ...] = attr(doc="Names of elementwise ops of one or two tensors.")

    def ops(self) -> list[Op]:
        """Return the ops of the chain; refuse those that are not elementwise."""
        found: list[Op] = []
        for name in self.chain:
            cls = find_op(name)
            if not issubclass(cls, (_Unary, _Binary)):
                raise GraphError(
                    f"{name} is not an elementwise op of one or two tensors",
                    need="names such as relu, exp, add, mul",
                )
            found.append(cls())
        return found

    def expand(self, x: Any, *others: Any) -> Any:
        rest = list(others)
        for op in self.ops():
            if isinstance(op, _Binary) and not rest:
                raise GraphError(
                    f"nothing is left for {op.name} of the chain",
                    need=f"one tensor per op of two, got {len(others)}",
                )
            x = op(x, rest.pop(0)) if isinstance(op, _Binary) else op(x)
        if rest:
            raise GraphError(f"{len(rest)} of the chain's tensors are not used")
        return x

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, b = rng.uniform(0.5, 2, (2, 3)), rng.uniform(0.5, 2, 3)
        yield Sample((x, b, b), {"chain": ("mul", "tanh", "add")})
        yield Sample((x,), {"chain": ("sigmoid", "log")})
        yield Sample((np.zeros((0,)),), {"chain": ("exp",)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2,))
        yield ErrorSample((x,), {"chain": ("add",)}, "nothing is left for add")
        yield ErrorSample((x, x), {"chain": ("relu",)}, "are not used")
        yield ErrorSample((x,), {"chain": ("softmax",)}, "is not an elementwise op")


class Hardmax(Op):
    """One-hot of the largest element along an axis, the first of equal ones.

    yᵢ = 1 for i = argmax x, else 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.hardmax(g.constant([1.0, 3.0, 3.0])))["hardmax"].tolist()
    [0.0, 1.0, 0.0]
    """

    namespace = "nn"
    dependence = ROWS
    axis: int = attr(-1, doc="Axis along which one element is 1.")
    onnx = OnnxRule("Hardmax", since=13)

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) not in "fiu":
            raise DTypeError(f"hardmax does not take {x.dtype}")
        axis = normalize_axis(self.axis, x.rank)
        if x.shape[axis] == 0:
            raise ShapeError("nothing is largest along an empty axis", need=f"axis {axis} >= 1")
        return x.with_shape(x.shape)

    def forward(self, x: Any) -> Any:
        y = np.zeros_like(x)
        at = np.expand_dims(np.argmax(x, self.axis), self.axis)
        np.put_along_axis(y, at, 1, self.axis)
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)  # constant wherever it is differentiable

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),))
        yield Sample((rng.standard_normal((2, 3)),), {"axis": 0})
        yield Sample((np.array([1.0, 2.0, 2.0]),), smooth=False)
        yield Sample((np.zeros((0, 2)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 0)),), {}, "empty axis")
        yield ErrorSample((TensorSpec((2,)),), {"axis": 1}, "out of range")

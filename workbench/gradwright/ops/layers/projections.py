"""Affine maps with what stands around them: biases, gates, dropout, parts of a map."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import ErrorSample, Op, Sample, WeightSite, attr
from ...spec import TensorSpec, differ, kind, normalize_axis, promote, shapes_differ
from ..core.activation import Gelu, Silu
from ..core.joining import Split
from ..core.movement import ExpandDims, alike
from .nn import Dropout, Linear


class BiasAdd(Op):
    """Add a bias along one axis; ``axis=1`` is the channel axis of images, ``f32[B, C, H, W]``.

    y[…, c, …] = x[…, c, …] + bias[c]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, b = g.constant([[1.0, 2.0]]), g.constant([10.0, 20.0])
    >>> g.output({}, gw.nn.bias_add(x, b))["bias_add"].tolist()
    [[11.0, 22.0]]
    """

    namespace = "nn"
    axis: int = attr(-1, doc="Axis along which the bias lies.")

    def infer(self, x: TensorSpec, bias: TensorSpec) -> TensorSpec:
        axis = normalize_axis(self.axis, x.rank)
        if bias.rank != 1 or differ(bias.shape[0], x.shape[axis]):
            raise ShapeError("bias does not fit", need=f"one number per place: {x.shape[axis]}")
        joint = promote(x.dtype, bias.dtype)
        if kind(joint) == "b":
            raise DTypeError(f"{self.name} does not take bool")
        return TensorSpec(x.shape, joint)

    def expand(self, x: Any, bias: Any) -> Any:
        trailing = tuple(range(1, x.rank - normalize_axis(self.axis, x.rank)))
        return x + (ExpandDims(axis=trailing)(bias) if trailing else bias)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)), rng.standard_normal(3)))
        yield Sample((rng.standard_normal((2, 3, 2, 2)), rng.standard_normal(3)), {"axis": 1})
        yield Sample((rng.standard_normal((0, 2)), rng.standard_normal(2)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2,))), {}, "bias does not fit")
        yield ErrorSample((TensorSpec(()), TensorSpec((2,))), {}, "out of range")


class FusedGelu(Op):
    """Gelu by tanh of an input with a bias, as transformer blocks use it.

    y = u/2·(1 + tanh(√(2/π)·(u + 0.044715·u³))), u = x + bias, with bias: f32[D] for x: f32[…, D]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.fused_gelu(g.constant([0.0, 1.0])))["fused_gelu"].round(4)
    array([0.    , 0.8412], dtype=float32)
    """

    namespace = "nn"

    def infer(self, x: TensorSpec, bias: TensorSpec | None = None) -> TensorSpec:
        return Gelu().infer(x if bias is None else BiasAdd().infer(x, bias))

    def expand(self, x: Any, bias: Any = None) -> Any:
        return Gelu(approximate="tanh")(x if bias is None else x + bias)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)), rng.standard_normal(3)))
        yield Sample((rng.standard_normal(()),))
        yield Sample((rng.standard_normal((0, 2)), rng.standard_normal(2)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2,))), {}, "bias does not fit")
        yield ErrorSample((TensorSpec((2,), "int32"),), {}, "does not take int32")


class FusedGemmSwiglu(Op):
    """Gate and value of a swiglu block from one input (Shazeer 2020).

    y = silu(x @ gate_weight + gate_bias)·(x @ up_weight + up_bias), with x: f32[…, in],
    weights f32[in, hidden], biases f32[hidden]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[1.0, 1.0]]), g.variable("w", (2, 3), init=50.0)
    >>> g.output({}, gw.nn.fused_gemm_swiglu(x, w, w, name="y"))["y"].tolist()
    [[10000.0, 10000.0, 10000.0]]
    """

    namespace = "nn"

    def infer(
        self,
        x: TensorSpec,
        gate_weight: TensorSpec,
        up_weight: TensorSpec,
        gate_bias: TensorSpec | None = None,
        up_bias: TensorSpec | None = None,
    ) -> TensorSpec:
        gate = Linear().infer(x, gate_weight, gate_bias)
        up = Linear().infer(x, up_weight, up_bias)
        if differ(gate.shape[-1], up.shape[-1]):
            raise ShapeError("gate and value have different widths", need="equal weights' shapes")
        joint = promote(gate.dtype, up.dtype)
        if kind(joint) != "f":
            raise DTypeError(f"{self.name} does not take {joint}", hint="gw.cast(x, 'float32')")
        return TensorSpec(up.shape, joint)

    def expand(
        self, x: Any, gate_weight: Any, up_weight: Any, gate_bias: Any = None, up_bias: Any = None
    ) -> Any:
        x, gate_weight, up_weight = alike(x, gate_weight, up_weight, gate_bias, up_bias)[:3]
        gate = Linear()(x, gate_weight, *([] if gate_bias is None else [gate_bias]))
        up = Linear()(x, up_weight, *([] if up_bias is None else [up_bias]))
        return Silu()(gate) * up

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return WeightSite(1, "in,out", "linear"), WeightSite(2, "in,out", "linear")

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, (w, v), (b, c) = (
            *rng.standard_normal((1, 2, 3)),
            *(rng.standard_normal((2, 3, 2)), rng.standard_normal((2, 2))),
        )
        yield Sample((x, w, v, b, c))
        yield Sample((x, w, v, None, c))
        yield Sample((np.zeros((2, 0, 3)), w, v))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((4, 3)), TensorSpec((3, 2))
        yield ErrorSample((x, w, TensorSpec((3, 4))), {}, "different widths")
        yield ErrorSample((x, w, TensorSpec((2, 2))), {}, "weight does not fit x")


class FusedBiasDropoutResidual(Op):
    """End of a transformer's sub-layer: bias, dropout, residual connection.

    y = dropout(x + bias) + residual, with x, residual: f32[…, D], bias: f32[D]

    ``gw.nn.fused_bias_dropout_residual`` gives it a random stream.
    """

    namespace = "nn"
    follows_mode = True
    p: float = attr(0.5, doc="Probability of zeroing an element.")
    stream: int = attr(0, doc="Random stream, given by the graph.")
    training: bool | None = attr(None, doc="Drop or pass; None follows the run.")

    def infer(
        self, rng: TensorSpec, x: TensorSpec, bias: TensorSpec, residual: TensorSpec
    ) -> TensorSpec:
        y = Dropout(p=self.p).infer(rng, BiasAdd().infer(x, bias))[0]
        if shapes_differ(residual.shape, y.shape):
            raise ShapeError("residual has another shape than x", need=str(y))
        return TensorSpec(y.shape, promote(y.dtype, residual.dtype))

    def expand(self, rng: Any, x: Any, bias: Any, residual: Any) -> Any:
        dropout = Dropout(p=self.p, stream=self.stream, training=self.training)
        return dropout(rng, x + bias) + residual

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        key = np.array([1, 2], np.uint64)
        x, y, b = rng.standard_normal((2, 3)), rng.standard_normal((2, 3)), rng.standard_normal(3)
        yield Sample((key, x, b, y), {"training": True})
        yield Sample((key, x, b, y), {"p": 0.1, "training": False})
        yield Sample((key, np.zeros((0, 3)), b, np.zeros((0, 3))), {"training": True})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        key, x, b = TensorSpec((2,), "uint64"), TensorSpec((2, 3)), TensorSpec((3,))
        yield ErrorSample((key, x, b, b), {}, "another shape than x")
        yield ErrorSample((key, x, TensorSpec((2,)), x), {}, "bias does not fit")
        yield ErrorSample((key, x, b, x), {"p": 2.0}, "is no probability")


class _Parallel(Op):
    """A part of an affine map whose weight is shared out; all of it where no part is named."""

    namespace = "nn"
    parts: int = attr(1, doc="Number of parts that the weight is cut into.")
    part: int | None = attr(None, doc="Which of them is computed; None: all of them.")

    def check(self, n: Any) -> None:
        """Refuse parts that do not divide an axis of ``n``."""
        Split(parts=self.parts).sizes(n)
        if self.part is not None and not 0 <= self.part < self.parts:
            raise GraphError(f"there is no part {self.part}", need=f"0 <= part < {self.parts}")

    def pick(self, x: Any, axis: int) -> Any:
        """Return the part of a tensor along an axis."""
        if self.part is None:
            return x
        return Split(parts=self.parts, axis=axis)(x)[self.part]

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return (WeightSite(1, "in,out", "linear"),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, w, b = rng.standard_normal((2, 4)), rng.standard_normal((4, 6)), rng.standard_normal(6)
        yield Sample((x, w, b), {"parts": 2})
        yield Sample((x, w, b), {"parts": 2, "part": 0})
        yield Sample((x, w, b), {"parts": 2, "part": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((4, 3)), TensorSpec((3, 5))
        yield ErrorSample((x, w), {"parts": 2}, "no multiple of 2")
        yield ErrorSample((x, w), {"part": 1}, "there is no part 1")
        yield ErrorSample((x, TensorSpec((2, 5))), {}, "weight does not fit x")


class ColumnParallelLinear(_Parallel):
    """Affine map whose outputs are shared out among parts (Shoeybi et al. 2019, "Megatron-LM").

    yₖ = x @ weight[:, part k] + bias[part k]; all parts side by side are the whole map

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[1.0]]), g.constant([[1.0, 2.0, 3.0, 4.0]])
    >>> y = gw.nn.column_parallel_linear(x, w, parts=2, part=1, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[3.0, 4.0]]
    """

    def infer(
        self, x: TensorSpec, weight: TensorSpec, bias: TensorSpec | None = None
    ) -> TensorSpec:
        y = Linear().infer(x, weight, bias)
        n = y.shape[-1]
        self.check(n)
        return y if self.part is None else y.with_shape((*y.shape[:-1], n // self.parts))

    def expand(self, x: Any, weight: Any, bias: Any = None) -> Any:
        x, weight, bias = alike(x, weight, bias)
        y = x @ self.pick(weight, 1)
        return y if bias is None else y + self.pick(bias, 0)


class RowParallelLinear(_Parallel):
    """Affine map whose inputs are shared out among parts (Shoeybi et al. 2019, "Megatron-LM").

    yₖ = x[…, part k] @ weight[part k, :], and bias in part 0; the sum of all parts is the whole
    map. A part may also be given its own share of x, f32[…, in/parts].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[1.0, 1.0]]), g.constant([[1.0, 2.0], [3.0, 4.0]])
    >>> y = gw.nn.row_parallel_linear(x, w, parts=2, part=1, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[3.0, 4.0]]
    """

    def infer(
        self, x: TensorSpec, weight: TensorSpec, bias: TensorSpec | None = None
    ) -> TensorSpec:
        if x.rank and weight.rank == 2:
            self.check(weight.shape[0])
            if self.shared(x, weight):
                x = x.with_shape((*x.shape[:-1], weight.shape[0]))
        return Linear().infer(x, weight, bias)

    def shared(self, x: Any, weight: Any) -> bool:
        """Tell whether x is a part's share already."""
        share: bool = (
            self.part is not None
            and self.parts > 1
            and x.shape[-1] == weight.shape[0] // self.parts
        )
        return share

    def expand(self, x: Any, weight: Any, bias: Any = None) -> Any:
        x, weight, bias = alike(x, weight, bias)
        rows = x if self.shared(x, weight) else self.pick(x, x.rank - 1)
        y = rows @ self.pick(weight, 0)
        return y + bias if bias is not None and not self.part else y

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        x, w = rng.standard_normal((2, 2)), rng.standard_normal((4, 3))
        yield Sample((x, w), {"parts": 2, "part": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((4, 3)), TensorSpec((3, 5))
        yield ErrorSample((x, w), {"parts": 2}, "no multiple of 2")
        yield ErrorSample((x, w), {"part": 1}, "there is no part 1")
        yield ErrorSample((x, TensorSpec((2, 5))), {}, "weight does not fit x")

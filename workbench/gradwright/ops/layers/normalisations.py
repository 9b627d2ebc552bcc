"""Layer and root-mean-square norms together with what stands before and after them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import Autocast, ErrorSample, OnnxRule, Op, Sample, WeightSite, attr
from ...spec import TensorSpec, at_least_float32, differ, dtype, dtype_name, promote, shapes_differ
from ..core.activation import Silu
from ..core.choice import Maximum
from ..core.comparison import Round
from ..core.elementwise import Abs
from ..core.movement import Cast, cast_to, widen
from ..core.special import finfo
from .nn import Linear
from .norm import LayerNorm, RmsNorm, _Normalize, check_floating
from .standardised import StandardRows


class FusedLayerNorm(_Normalize):
    """Layer norm together with the statistics that it used (Ba, Kiros, Hinton 2016).

    y = (x − μ)·r·weight + bias, μ = mean x, r = 1/√(var x + ε); the outputs are y, μ and r, with
    the normalised axes of μ and r kept at size 1, and in float32 at least

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, mean, r = gw.nn.fused_layer_norm(g.constant([[1.0, 3.0]]), eps=0.0, name="y")
    >>> [v.tolist() for v in g.output({}, y, mean, r).values()]
    [[[-1.0, 1.0]], [[2.0]], [[1.0]]]
    """

    returns = "y", "mean", "inv_std"
    onnx = OnnxRule("LayerNormalization", since=17, rename={"eps": "epsilon"})

    def infer(
        self, x: TensorSpec, weight: TensorSpec | None = None, bias: TensorSpec | None = None
    ) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
        y = self._infer(x, weight, bias)
        axes = self.axes(x.rank)
        shape = [1 if i in axes else d for i, d in enumerate(x.shape)]
        kept = TensorSpec(shape, at_least_float32(x.dtype))
        return y, kept, kept

    def expand(self, x: Any, weight: Any = None, bias: Any = None) -> Any:
        y, mean, inverse = StandardRows(axis=self.axis, eps=self.eps)(widen(x))
        y = y if weight is None else y * weight
        y = y if bias is None else y + bias
        return cast_to(x.dtype, y), mean, inverse

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, w, b = rng.standard_normal((2, 3)), rng.standard_normal(3), rng.standard_normal(3)
        yield Sample((x, w, b))
        yield Sample((rng.standard_normal((2, 2, 2)),), {"axis": 1, "eps": 0.1})
        yield Sample((rng.standard_normal((0, 3)), w))


class SkipRmsNorm(_Normalize):
    """Residual connection and root mean square norm of the sum.

    s = x + skip + bias, y = s/√(mean s² + ε)·weight; the outputs are y and s, which the next
    residual connection takes

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([3.0, 4.0])
    >>> y, s = gw.nn.skip_rms_norm(x, x, name="y")
    >>> g.output({}, s)["y:1"].tolist()
    [6.0, 8.0]
    """

    returns = "y", "sum"

    def infer(
        self,
        x: TensorSpec,
        skip: TensorSpec,
        weight: TensorSpec | None = None,
        bias: TensorSpec | None = None,
    ) -> tuple[TensorSpec, TensorSpec]:
        if shapes_differ(skip.shape, x.shape):
            raise ShapeError("skip has another shape than x", need=str(x))
        check_floating(self, skip)
        total = TensorSpec(x.shape, promote(x.dtype, skip.dtype))
        if bias is not None:
            total = total.with_dtype(promote(total.dtype, bias.dtype))
        y = self._infer(total, weight, bias)
        return y.with_shape(y.shape), total

    def expand(self, x: Any, skip: Any, weight: Any = None, bias: Any = None) -> Any:
        total = x + skip if bias is None else x + skip + bias
        parameters = [] if weight is None else [weight]
        return RmsNorm(axis=self.axis, eps=self.eps)(total, *parameters), total

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, s, (w, b) = *rng.standard_normal((2, 2, 3)), rng.standard_normal((2, 3))
        yield Sample((x, s, w, b))
        yield Sample((x, s), {"axis": 0, "eps": 0.1})
        yield Sample((np.zeros((0, 3)), np.zeros((0, 3)), w))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 3))
        yield ErrorSample((x, TensorSpec((3,))), {}, "another shape than x")
        yield ErrorSample((x, x, TensorSpec((2,))), {}, "does not fit")
        yield ErrorSample((x, x.with_dtype("int32")), {}, "does not take int32")


class RmsNormLinear(Op):
    """Root mean square norm over the last axis, then an affine map.

    y = (x/√(mean x² + ε)·gain) @ weight + bias, with gain: f32[in], weight: f32[in, out]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, gain = g.constant([3.0, 3.0]), g.constant([1.0, 2.0])
    >>> y = gw.nn.rms_norm_linear(x, gain, g.constant([[1.0], [1.0]]), name="y")
    >>> g.output({}, y)["y"].round(3).tolist()
    [3.0]
    """

    namespace = "nn"
    eps: float = attr(
        1e-5, doc="Added to the mean square, so that zeros do not divide by 0.", least=0.0
    )

    def infer(
        self, x: TensorSpec, gain: TensorSpec, weight: TensorSpec, bias: TensorSpec | None = None
    ) -> TensorSpec:
        return Linear().infer(RmsNorm().infer(x, gain), weight, bias)

    def expand(self, x: Any, gain: Any, weight: Any, bias: Any = None) -> Any:
        y = RmsNorm(eps=self.eps)(x, gain) @ weight
        return y if bias is None else y + bias

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return (WeightSite(2, "in,out", "linear"),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        gain, w, b = rng.standard_normal(3), rng.standard_normal((3, 2)), rng.standard_normal(2)
        yield Sample((rng.standard_normal((2, 3)), gain, w, b))
        yield Sample((rng.standard_normal((0, 3)), gain, w))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((2, 3)), TensorSpec((3, 4))
        yield ErrorSample((x, TensorSpec((2,)), w), {}, "weight or bias does not fit")
        yield ErrorSample((x, TensorSpec((3,)), TensorSpec((2, 4))), {}, "does not fit x")


class FusedRmsNormSwiglu(Op):
    """First half of a Llama block's feed-forward layer: norm, gate, value.

    y = silu(n @ gate_weight)·(n @ up_weight), n = x/√(mean x² + ε)·gain, with x: f32[…, in],
    gain: f32[in], weights f32[in, hidden]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, gain = g.constant([3.0, 3.0]), g.constant([1.0, 1.0])
    >>> w = g.constant([[50.0], [50.0]])
    >>> g.output({}, gw.nn.fused_rms_norm_swiglu(x, gain, w, w, name="y"))["y"].round().tolist()
    [10000.0]
    """

    namespace = "nn"
    eps: float = attr(
        1e-5, doc="Added to the mean square, so that zeros do not divide by 0.", least=0.0
    )

    def infer(
        self, x: TensorSpec, gain: TensorSpec, gate_weight: TensorSpec, up_weight: TensorSpec
    ) -> TensorSpec:
        normed = RmsNorm().infer(x, gain)
        gate, up = Linear().infer(normed, gate_weight), Linear().infer(normed, up_weight)
        if differ(gate.shape[-1], up.shape[-1]):
            raise ShapeError("gate and value have different widths", need="equal weights' shapes")
        return TensorSpec(up.shape, promote(gate.dtype, up.dtype))

    def expand(self, x: Any, gain: Any, gate_weight: Any, up_weight: Any) -> Any:
        normed = RmsNorm(eps=self.eps)(x, gain)
        return Silu()(normed @ gate_weight) * (normed @ up_weight)

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return WeightSite(2, "in,out", "linear"), WeightSite(3, "in,out", "linear")

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        gain, w, v = rng.standard_normal(3), *rng.standard_normal((2, 3, 2))
        yield Sample((rng.standard_normal((2, 3)), gain, w, v))
        yield Sample((rng.standard_normal((1, 0, 3)), gain, w, v), {"eps": 1e-3})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, gain, w = TensorSpec((2, 3)), TensorSpec((3,)), TensorSpec((3, 4))
        yield ErrorSample((x, gain, w, TensorSpec((3, 2))), {}, "different widths")
        yield ErrorSample((x, TensorSpec((2,)), w, w), {}, "does not fit")


class FusedNormQuantize(_Normalize):
    """Norm, then codes of 8 bits with one scale per row.

    codes = round(n/scale), scale = max |n|/127 over the normalised axes, for n = rms_norm(x) or
    layer_norm(x); a float8 dtype takes its largest number for 127 and rounds to its own grid

    Outputs the codes and the scales, float32 at least, with the normalised axes kept at size 1:
    codes·scale is n again, up to rounding. Integer codes have no gradient; the scale has.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> codes, scale = gw.nn.fused_norm_quantize(g.constant([[1.0, -2.0]]), name="y")
    >>> g.output({}, codes)["y"].tolist()
    [[64, -127]]
    """

    returns = "codes", "scales"
    drawing = "activation"
    autocast = Autocast.FREE
    norm: str = attr("rms", doc="Which norm.", choices=("rms", "layer"))
    dtype: np.dtype[Any] = attr(dtype("int8"), doc="Dtype of the codes: int8 or a float8.")

    def infer(
        self, x: TensorSpec, weight: TensorSpec | None = None, bias: TensorSpec | None = None
    ) -> tuple[TensorSpec, TensorSpec]:
        y = self._infer(x, weight, bias)
        if self.dtype != np.int8 and not dtype_name(self.dtype).startswith("float8"):
            raise DTypeError(
                f"codes cannot be {dtype_name(self.dtype)}", need="int8 or a float8 dtype"
            )
        if bias is not None and self.norm == "rms":
            raise ShapeError("an rms norm has no bias", hint='norm="layer"')
        axes = self.axes(x.rank)
        shape = [1 if i in axes else d for i, d in enumerate(x.shape)]
        return y.with_dtype(self.dtype), TensorSpec(shape, at_least_float32(x.dtype))

    def expand(self, x: Any, weight: Any = None, bias: Any = None) -> Any:
        wide, whole = widen(x), self.dtype == np.int8
        if self.norm == "rms":
            n = RmsNorm(axis=self.axis, eps=self.eps)(wide, weight)
        else:
            n = LayerNorm(axis=self.axis, eps=self.eps)(wide, weight, bias)
        n = cast_to(wide.dtype, n)
        largest = 127.0 if whole else float(finfo(self.dtype).max)
        scale = Abs()(n).max(self.axes(x.rank), keepdims=True) / largest
        codes = n / Maximum()(scale, float(finfo(wide.dtype).tiny))
        return Cast(dtype=self.dtype)(Round()(codes) if whole else codes), scale

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, w, b = rng.standard_normal((2, 3)), rng.standard_normal(3), rng.standard_normal(3)
        yield Sample((x, w))
        yield Sample((x, w, b), {"norm": "layer", "eps": 0.1})
        yield Sample((x, None, b), {"norm": "layer"})
        yield Sample((np.zeros((2, 3)),), smooth=False)
        yield Sample((np.zeros((0, 3)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        x, p = TensorSpec((2, 3)), TensorSpec((3,))
        yield ErrorSample((x,), {"dtype": "int32"}, "codes cannot be int32")
        yield ErrorSample((x, p, p), {}, "has no bias")

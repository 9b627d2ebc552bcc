"""Scaled integers and narrow floats: quantise, dequantise, and both at once for training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import (
    ELEMENT,
    OPAQUE,
    ZERO,
    Cotangent,
    ErrorSample,
    NotDifferentiable,
    OnnxRule,
    Op,
    Sample,
    attr,
)
from ...spec import (
    NARROW,
    TensorSpec,
    at_least_float32,
    differ,
    dtype,
    kind,
    normalize_axis,
    shapes_differ,
)
from ..core.choice import Where
from ..core.comparison import Round
from ..core.like import BroadcastLike, ReshapeLike, SumLike
from ..core.movement import Cast

Array = np.ndarray[Any, Any]

ROUNDED = NotDifferentiable("rounding has no slope; gw.quant.fake_quantize has one for training")


def limits(target: np.dtype[Any]) -> tuple[float, float]:
    """Return the least and the largest number of an integer dtype."""
    info = ml_dtypes.iinfo(target)  # type: ignore[no-untyped-call]
    return int(info.min), int(info.max)


def check_scale(
    op: Op, x: TensorSpec, scale: TensorSpec, zero_point: TensorSpec | None, axis: int, block: int
) -> None:
    """Raise unless there is one scale, one per place along an axis, or one per block."""
    if kind(scale.dtype) != "f":
        raise DTypeError(f"{op.name}: the scale is {scale.dtype}", need="a float dtype")
    fits = scale.rank == 0 or (scale.rank == 1 and not differ(scale.shape[0], 1))
    if block:
        at = normalize_axis(axis, x.rank)
        n = x.shape[at]
        blocks = (*x.shape[:at], (n + (block - 1)) // block, *x.shape[at + 1 :])
        fits = scale.rank == x.rank and not any(map(differ, scale.shape, blocks))
    elif scale.rank == 1 and not fits and x.rank:
        fits = not differ(scale.shape[0], x.shape[normalize_axis(axis, x.rank)])
    if not fits:
        raise ShapeError(
            "the scale does not fit",
            need="one number, one per place along the axis, or one per block with block_size",
            facts=[f"x: {x}, scale: {scale}, axis {axis}, block_size {block}"],
        )
    if zero_point is not None and shapes_differ(zero_point.shape, scale.shape):
        raise ShapeError("zero_point does not fit the scale", facts=[f"{zero_point} and {scale}"])


def check_result(op: Op, target: np.dtype[Any]) -> None:
    """Refuse to give back numbers in a dtype that would round them again."""
    if kind(target) != "f":
        raise DTypeError(f"{op.name} does not give {target}", need="a float dtype")


def spread(scale: Array, shape: Sequence[int], axis: int, block: int) -> Array:
    """Return scales as they broadcast against what they scale."""
    if not shape:
        return scale.reshape(())
    if block:
        at = axis % len(shape)
        return np.repeat(scale, block, at).take(range(shape[at]), at)
    if scale.ndim == 1 and scale.size > 1 and len(shape) > 1:
        return scale.reshape(-1, *(1,) * (len(shape) - 1 - axis % len(shape)))
    return scale


class QuantizeLinear(Op):
    """Round to multiples of a scale, and keep their numbers as narrow integers or floats.

    y = saturate(round(x / scale) + zero_point), halves to even; floats are rounded to the dtype

    scale: one number, one per place along ``axis`` (f32[n]), or with ``block_size`` one per that
    many elements along ``axis``; zero_point: of the scale's shape and y's dtype. The result is of
    ``dtype``, else the zero point's, else uint8. Its gradient does not exist: ``fake_quantize``.
    Raises ShapeError where the scale does not fit (ONNX QuantizeLinear-28).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.quant.quantize_linear(g.constant([-1.0, 0.5, 99.0]), g.constant(0.2), dtype="int8")
    >>> g.output({}, y)[y.name].tolist()
    [-5, 2, 127]
    """

    namespace = "quant"
    axis: int = attr(1, doc="Axis along which scales differ.")
    block_size: int = attr(0, doc="Elements along the axis that share a scale; 0: no blocks.")
    dtype: np.dtype[Any] | None = attr(None, doc="Dtype of the result.")
    saturate: bool = attr(True, doc="Whether float8 takes its largest number for larger ones.")
    precision: np.dtype[Any] | None = attr(None, doc="Dtype of the division; None: the scale's.")
    onnx = OnnxRule("QuantizeLinear", since=19, rename={"dtype": "output_dtype"})

    def infer(
        self, x: TensorSpec, scale: TensorSpec, zero_point: TensorSpec | None = None
    ) -> TensorSpec:
        check_scale(self, x, scale, zero_point, self.axis, self.block_size)
        target = self.target(zero_point)
        if kind(target) not in "iu" and target not in NARROW:
            raise DTypeError(
                f"{target} is no dtype to quantise to", need="integers, float8, float4"
            )
        if zero_point is not None and zero_point.dtype != target:
            raise DTypeError(
                f"zero_point is {zero_point.dtype}, the result {target}", need="one dtype"
            )
        return x.with_dtype(target)

    def target(self, zero_point: Any) -> np.dtype[Any]:
        """Return the dtype of the result."""
        if self.dtype is not None:
            return self.dtype
        found: np.dtype[Any] = np.dtype("uint8") if zero_point is None else zero_point.dtype
        return found

    def forward(self, x: Any, scale: Any, zero_point: Any = None) -> Any:
        wide = scale.dtype if self.precision is None else dtype(self.precision)
        target = self.target(zero_point)
        s = spread(scale, x.shape, self.axis, self.block_size)
        y = x.astype(wide, copy=False) / s.astype(wide, copy=False)
        if wide.itemsize < 4:
            y = y.astype(np.float32)
        if kind(target) in "iu":
            y = np.rint(y)
            if zero_point is not None:
                y = y + spread(zero_point, x.shape, self.axis, self.block_size).astype(np.int32)
            return np.clip(y, *limits(target)).astype(np.int64).astype(target)
        if zero_point is not None:
            y = y + spread(zero_point, x.shape, self.axis, self.block_size).astype(np.float32)
        return Cast(dtype=target, saturate=self.saturate).forward(y)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [ROUNDED] * len(xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3))
        yield Sample((x, np.array(0.1), np.array(3, np.uint8)), smooth=False)
        yield Sample((x, np.array([0.1, 0.2, 0.3])), {"axis": -1, "dtype": "int4"}, smooth=False)
        attrs = {"axis": 1, "block_size": 2, "dtype": "float8_e4m3fn"}
        yield Sample((x, np.abs(x[:, :2]) + 0.1), attrs, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, one = TensorSpec((2, 3)), TensorSpec(())
        yield ErrorSample((x, TensorSpec((2,))), {}, "scale does not fit")
        yield ErrorSample((x, one), {"dtype": "float32"}, "no dtype to quantise to")
        yield ErrorSample((x, one, TensorSpec((2,), "uint8")), {}, "zero_point does not fit")
        yield ErrorSample((x, TensorSpec((), "int32")), {}, "the scale is int32")
        zero = TensorSpec((), "uint8")
        yield ErrorSample((x, one, zero), {"dtype": "int8"}, "zero_point is uint8")


class DequantizeLinear(Op):
    """Numbers that quantised ones stand for.

    y = (x − zero_point)·scale

    scale and zero_point as in ``quantize_linear``; the result is of ``dtype``, else the scale's.
    The gradient flows to the scale. Raises ShapeError where it does not fit (ONNX
    DequantizeLinear-28).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[-5, 2, 7]], dtype="int4")
    >>> g.output({}, gw.quant.dequantize_linear(x, g.constant(0.5), name="y"))["y"].tolist()
    [[-2.5, 1.0, 3.5]]
    """

    namespace = "quant"
    axis: int = attr(1, doc="Axis along which scales differ.")
    block_size: int = attr(0, doc="Elements along the axis that share a scale; 0: no blocks.")
    dtype: np.dtype[Any] | None = attr(None, doc="Dtype of the result.")
    onnx = OnnxRule("DequantizeLinear", since=19, rename={"dtype": "output_dtype"})

    def infer(
        self, x: TensorSpec, scale: TensorSpec, zero_point: TensorSpec | None = None
    ) -> TensorSpec:
        check_scale(self, x, scale, zero_point, self.axis, self.block_size)
        check_result(self, self.dtype or scale.dtype)
        return x.with_dtype(self.dtype or scale.dtype)

    def expand(self, x: Any, scale: Any, zero_point: Any = None) -> Any:
        target = self.dtype or scale.dtype
        wide = at_least_float32(target)
        y = Cast(dtype=wide)(x)
        if zero_point is not None:
            y = y - self.spread(Cast(dtype=wide)(zero_point), x)
        y = y * self.spread(Cast(dtype=wide)(scale), x)
        return y if target == wide else Cast(dtype=target)(y)

    def spread(self, scale: Any, x: Any) -> Any:
        """Return scales, as graph, as they broadcast against x."""
        if not x.rank:
            return scale.reshape(()) if scale.rank else scale
        if self.block_size:
            at = normalize_axis(self.axis, x.rank)
            wide = scale.expand_dims(at + 1)
            ones = x.graph.constant(np.ones((self.block_size, *(1,) * (x.rank - 1 - at))))
            whole = wide * Cast(dtype=scale.dtype)(ones)
            n = scale.shape[at] * self.block_size
            whole = whole.reshape((*scale.shape[:at], n, *scale.shape[at + 1 :]))
            return whole[(*(slice(None),) * at, slice(0, x.shape[at]))]
        if scale.rank == 1 and x.rank > 1 and scale.shape[0] != 1:
            after = x.rank - 1 - normalize_axis(self.axis, x.rank)
            return scale.expand_dims(tuple(range(1, after + 1))) if after else scale
        return scale

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.integers(-8, 8, (2, 3, 2))
        yield Sample((x.astype(np.int8), np.array(0.1), np.array(3, np.int8)))
        yield Sample((x.astype("int4"), np.array([0.1, 0.2, 0.3])), {"axis": -2})
        scale = rng.standard_normal((2, 2, 2))
        yield Sample((x.astype(np.int32), scale), {"axis": 1, "block_size": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 3), "uint8")
        yield ErrorSample((x, TensorSpec((2,))), {}, "scale does not fit")
        yield ErrorSample((x, TensorSpec((2, 3))), {"block_size": 2}, "scale does not fit")
        yield ErrorSample((x, TensorSpec(())), {"dtype": "int8"}, "does not give int8")


class DynamicQuantizeLinear(Op):
    """Quantise to uint8 with a scale and zero point that just hold all numbers and 0.

    scale = (max(x, 0) − min(x, 0))/255, zero_point = saturate(round(−min(x, 0)/scale)),
    y = saturate(round(x/scale) + zero_point) (ONNX DynamicQuantizeLinear-11); the scale of zeros
    is 1

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, scale, zero = gw.quant.dynamic_quantize_linear(g.constant([-1.0, 0.0, 1.55]), name="q")
    >>> g.output({}, y, zero)[y.name].tolist()
    [0, 100, 255]
    """

    namespace = "quant"
    returns = "y", "scale", "zero_point"
    onnx = OnnxRule("DynamicQuantizeLinear", since=11)

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
        if kind(x.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        return x.with_dtype("uint8"), TensorSpec((), x.dtype), TensorSpec((), "uint8")

    def forward(self, x: Any) -> Any:
        wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
        low, high = (wide.dtype.type(v) for v in (wide.min(initial=0), wide.max(initial=0)))
        scale = (high - low) / wide.dtype.type(255)
        scale = scale if scale else wide.dtype.type(1)
        zero = np.clip(np.rint(-low / scale), 0, 255).astype(np.uint8)
        y = np.clip(np.rint(wide / scale) + zero, 0, 255).astype(np.uint8)
        return y, np.asarray(scale, x.dtype), zero

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ROUNDED,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),), smooth=False)
        yield Sample((np.zeros((0,)),), smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,), "int8"),), {}, "does not take int8")


class FakeQuantize(Op):
    """Round as quantising and dequantising would, with a gradient: for training that knows of it.

    y = (clip(round(x/scale) + zero_point, low, high) − zero_point)·scale

    The gradient takes rounding as the identity (Bengio et al. 2013): ∂y/∂x is 1 where nothing is
    clipped, else 0; ∂y/∂scale is (y − x)/scale there, else (low or high − zero_point) (Esser et al.
    2020). scale: f32[] or f32[n] along ``axis``, zero_point: integers of that shape. Raises
    ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (3,))
    >>> y = gw.quant.fake_quantize(x, g.constant(0.5), low=-2, high=1)
    >>> dx, = gw.gradients(y, [x])
    >>> [v.tolist() for v in g.output({"x": [-0.7, 0.4, 3.0]}, y, dx).values()]
    [[-0.5, 0.5, 0.5], [1.0, 1.0, 0.0]]
    """

    namespace = "quant"
    dependence = ELEMENT, OPAQUE
    low: int = attr(-128, doc="Least integer.")
    high: int = attr(127, doc="Largest integer.")
    axis: int = attr(1, doc="Axis along which scales differ.")

    def infer(
        self, x: TensorSpec, scale: TensorSpec, zero_point: TensorSpec | None = None
    ) -> TensorSpec:
        if kind(x.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        check_scale(self, x, scale, zero_point, self.axis, 0)
        if self.low >= self.high:
            raise GraphError(f"integers from {self.low} to {self.high}", need="low < high")
        if zero_point is not None and kind(zero_point.dtype) not in "iu":
            raise DTypeError(f"zero_point is {zero_point.dtype}", need="integers")
        return x

    def forward(self, x: Any, scale: Any, zero_point: Any = None) -> Any:
        wide = np.result_type(x.dtype, np.float32)
        s = spread(scale, x.shape, self.axis, 0).astype(wide, copy=False)
        zero = 0 if zero_point is None else spread(zero_point, x.shape, self.axis, 0).astype(wide)
        q = np.clip(np.rint(x.astype(wide, copy=False) / s) + zero, self.low, self.high)
        return ((q - zero) * s).astype(x.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), y, (x, scale) = gs, ys[0], xs[:2]
        zero = xs[2] if len(xs) > 2 else None
        spread_ = DequantizeLinear(axis=self.axis).spread
        s = spread_(scale, x)
        full = BroadcastLike()(s, x)
        wide = Cast(dtype=at_least_float32(x.dtype))
        q = Round()(wide(x) / wide(s))  # as forwards, so that both agree on what is clipped
        q = q if zero is None else q + Cast(dtype=q.dtype)(spread_(zero, x))
        inside = (q >= float(self.low)) & (q <= float(self.high))
        dx = Where()(inside, g, 0.0)

        def of_scale() -> Any:
            each = g * Where()(inside, (y - x) / full, y / full)
            return ReshapeLike()(SumLike()(each, s), scale)

        rest = [ZERO] * (len(xs) - 2)
        return [dx, of_scale, *rest]

    def surrogate(self, xs: Sequence[Any], at: Sequence[Any]) -> Any:
        y, s, of = self.forward(*at), *(spread(t[1], at[0].shape, self.axis, 0) for t in (at, xs))
        zero = 0 if len(at) < 3 or at[2] is None else spread(at[2], y.shape, self.axis, 0)
        q = np.rint(at[0] / s) + zero
        inside = (q >= self.low) & (q <= self.high)
        return np.where(inside, xs[0] + (y - at[0]) / s * of, y / s * of)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3))
        yield Sample((x, np.array(0.1), np.array(2, np.int32)), {"low": 0, "high": 7}, smooth=False)
        yield Sample((x, np.array([0.1, 0.2])), {"axis": 0}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, one = TensorSpec((2, 3)), TensorSpec(())
        yield ErrorSample((x, TensorSpec((2,))), {}, "scale does not fit")
        yield ErrorSample((TensorSpec((2,), "int8"), one), {}, "does not take int8")
        yield ErrorSample((x, one), {"low": 3, "high": 3}, "integers from 3 to 3")
        yield ErrorSample((x, one, one), {}, "zero_point is float32")

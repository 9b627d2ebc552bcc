"""Products and convolutions of quantised numbers, exact in integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import Cotangent, ErrorSample, OnnxRule, Op, Sample, of_product
from ...spec import AnyDim, TensorSpec, differ, kind
from ..convolutions.cnn import Convolution, slid
from ..convolutions.correlation import correlate
from ..matrices.linalg import Matmul
from .scales import ROUNDED, limits

Array = np.ndarray[Any, Any]


def _check_integers(op: Op, *specs: TensorSpec) -> None:
    for spec in specs:
        if kind(spec.dtype) not in "iu":
            raise DTypeError(f"{op.name} does not take {spec.dtype}", need="quantised integers")


def _check_scales(op: Op, *specs: TensorSpec) -> None:
    for spec in specs:
        if kind(spec.dtype) != "f":
            raise DTypeError(f"{op.name}: a scale is {spec.dtype}", need="a float dtype")


def _check_places(name: str, spec: TensorSpec | None, shape: Sequence[AnyDim] = ()) -> None:
    """Raise unless there is one number, or one per place of the axes of ``shape`` that are not 1.

    A vector counts along the only such axis, or the last but one of a batch of rows.
    """
    if spec is None or not spec.rank or (spec.rank == 1 and not differ(spec.shape[0], 1)):
        return
    places = [d for d in shape[-2:] if d != 1] if spec.rank == 1 else shape
    fits = spec.rank <= len(places) and all(
        d == 1 or not differ(d, n) for d, n in zip(spec.shape[::-1], places[::-1], strict=False)
    )
    if not fits:
        more = f", or one per place of {list(shape)}" if shape else ""
        raise ShapeError(f"{name} does not fit", need=f"one number{more}", facts=[f"got {spec}"])


def _check_sides(a: TensorSpec, b: TensorSpec, *names: str, given: Sequence[Any]) -> None:
    """Raise unless what is given of a is by row, and of b by column."""
    rows, columns = (*a.shape[:-1], 1), (*b.shape[:-2], 1, b.shape[-1]) if b.rank > 1 else (1,)
    for name, spec in zip(names, given, strict=True):
        _check_places(name, spec, rows if name.startswith("a") else columns)


def _moved(x: Array, zero_point: Array | None, shape: Sequence[int] | None = None) -> Array:
    """Return x − zero_point as float64, in which products of bytes are exact up to 2⁵³."""
    y: Array = x.astype(np.float64)
    if zero_point is not None:
        z = zero_point.astype(np.float64)
        z = z.reshape(()) if z.size == 1 else z
        y -= z if shape is None or z.ndim != 1 else z.reshape(shape)
    return y


def _int32(x: Array) -> Array:
    """Return whole numbers as int32; what does not fit loses its higher bits."""
    found: Array = x.astype(np.int64).astype(np.int32)
    return found


def _requantized(y: Array, factor: Array, zero_point: Array) -> Array:
    """Return saturate(round(y·factor) + zero_point) in the dtype of the zero point."""
    target = zero_point.dtype
    scaled = np.rint(y * factor) + zero_point.astype(np.float64)
    found: Array = np.clip(scaled, *limits(target)).astype(np.int64).astype(target)
    return found


class MatmulInteger(Op):
    """Product of matrices of narrow integers, as int32.

    y = (a − a_zero_point) @ (b − b_zero_point)

    a: u8 or i8[…, M, K], b: u8 or i8[…, K, N]; zero points: one number, one per row of a (M), one
    per column of b (N) -> i32[…, M, N] (ONNX MatMulInteger-10). Raises ShapeError as ``matmul``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = (g.constant(v, dtype="uint8") for v in ([[11, 7]], [[1], [4]]))
    >>> y = gw.quant.matmul_integer(a, b, g.constant(12, dtype="uint8"), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[-21]]
    """

    namespace = "quant"
    flops = of_product
    onnx = OnnxRule("MatMulInteger", since=10)

    def infer(
        self,
        a: TensorSpec,
        b: TensorSpec,
        a_zero_point: TensorSpec | None = None,
        b_zero_point: TensorSpec | None = None,
    ) -> TensorSpec:
        _check_integers(self, a, b, *(z for z in (a_zero_point, b_zero_point) if z is not None))
        y = product(a, b).with_dtype("int32")
        given = a_zero_point, b_zero_point
        _check_sides(a, b, "a_zero_point", "b_zero_point", given=given)
        return y

    def forward(self, a: Any, b: Any, a_zero_point: Any = None, b_zero_point: Any = None) -> Any:
        return _int32(_moved(a, a_zero_point, (-1, 1)) @ _moved(b, b_zero_point))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = rng.integers(0, 256, (2, 3)).astype("u1"), rng.integers(-128, 128, (3, 4))
        yield Sample((a, b.astype("i1"), np.array(7, "u1"), np.arange(4).astype("i1")))
        yield Sample((np.stack([a, a]), b.astype("i1"), np.array([1, 2], "u1")))
        yield Sample((a[:0], b.astype("i1")))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        a = TensorSpec((2, 3), "uint8")
        yield ErrorSample((a, TensorSpec((4, 2), "int8")), {}, "differ")
        yield ErrorSample((a, TensorSpec((3, 2))), {}, "does not take float32")
        b, three = TensorSpec((3, 4), "int8"), TensorSpec((3,), "uint8")
        yield ErrorSample((a, b, three), {}, "a_zero_point does not fit")
        yield ErrorSample((a, b, None, three), {}, "b_zero_point does not fit")


def product(a: TensorSpec, b: TensorSpec) -> TensorSpec:
    """Return the spec of a product, whatever the dtypes."""
    found: TensorSpec = Matmul().infer(a.with_dtype("float32"), b.with_dtype("float32"))
    return found


class QlinearMatmul(Op):
    """Product of quantised matrices, quantised again.

    y = saturate(round((a − a_zero_point) @ (b − b_zero_point)·a_scale·b_scale/y_scale)
    + y_zero_point)

    a: u8 or i8[…, M, K], b: u8 or i8[…, K, N]; scales and zero points: one number, or one per row
    of a and column of b; the result has the dtype of y_zero_point (ONNX QLinearMatMul-21).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, zero = g.constant([[10, 20]], dtype="uint8"), g.constant(0, dtype="uint8")
    >>> s = g.constant(0.5)
    >>> y = gw.quant.qlinear_matmul(a, s, zero, a.T, s, zero, g.constant(10.0), zero, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[12]]
    """

    namespace = "quant"
    flops = of_product
    onnx = OnnxRule("QLinearMatMul", since=10)

    def infer(
        self,
        a: TensorSpec,
        a_scale: TensorSpec,
        a_zero_point: TensorSpec,
        b: TensorSpec,
        b_scale: TensorSpec,
        b_zero_point: TensorSpec,
        y_scale: TensorSpec,
        y_zero_point: TensorSpec,
    ) -> TensorSpec:
        _check_integers(self, a, b, a_zero_point, b_zero_point, y_zero_point)
        _check_scales(self, a_scale, b_scale, y_scale)
        y = product(a, b).with_dtype(y_zero_point.dtype)
        names = "a_scale", "a_zero_point", "b_scale", "b_zero_point"
        _check_sides(a, b, *names, given=(a_scale, a_zero_point, b_scale, b_zero_point))
        _check_places("y_scale", y_scale, y.shape)
        _check_places("y_zero_point", y_zero_point, y.shape)
        return y

    def forward(self, *xs: Any) -> Any:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = xs
        y = _moved(a, a_zero, (-1, 1)) @ _moved(b, b_zero)
        of_a = a_scale.reshape(-1, 1) if a_scale.ndim == 1 else a_scale
        factor = of_a.astype(np.float64) * b_scale.astype(np.float64) / y_scale.astype(np.float64)
        return _requantized(y, factor.reshape(()) if factor.size == 1 else factor, y_zero)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [ROUNDED] * len(xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        a, b = rng.integers(0, 256, (2, 3)).astype("u1"), rng.integers(-128, 128, (3, 4))
        scale, zero = np.array(0.1), np.array(5, "u1")
        tail = np.array(4.0), np.array(100, "u1")
        yield Sample((a, scale, zero, b.astype("i1"), scale, np.array(1, "i1"), *tail))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        a, s, z = TensorSpec((2, 3), "uint8"), TensorSpec(()), TensorSpec((), "uint8")
        yield ErrorSample((a, s, z, a, s, z, s, z), {}, "differ")
        b, three = TensorSpec((3, 4), "uint8"), TensorSpec((3,))
        yield ErrorSample((a, three, z, b, s, z, s, z), {}, "a_scale does not fit")


class ConvInteger(Convolution):
    """Convolution of narrow integers, as int32.

    y = conv(x − x_zero_point, weight − w_zero_point); padding is 0 after the difference

    x: u8 or i8[N, C, *size], weight: u8 or i8[O, C/groups, *kernel]; x_zero_point: one number,
    w_zero_point: one number or one per output channel -> i32[N, O, *size] (ONNX ConvInteger-10).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[2, 3, 4]]], dtype="uint8"), g.constant([[[1, 1]]], dtype="uint8")
    >>> g.output({}, gw.quant.conv_integer(x, w, g.constant(1, dtype="uint8"), name="y"))["y"]
    array([[[3, 5]]], dtype=int32)
    """

    namespace = "quant"
    onnx = OnnxRule(
        "ConvInteger",
        since=10,
        rename={
            "stride": "strides", "padding": "pads", "dilation": "dilations", "groups": "group"
        },
    )  # fmt: skip

    def infer(
        self,
        x: TensorSpec,
        weight: TensorSpec,
        x_zero_point: TensorSpec | None = None,
        w_zero_point: TensorSpec | None = None,
    ) -> TensorSpec:
        _check_integers(self, x, weight)
        found = self.convolved(x.with_dtype("float32"), weight.with_dtype("float32"))
        _check_places("x_zero_point", x_zero_point)
        _check_places("w_zero_point", w_zero_point, weight.shape[:1])
        return found.with_dtype("int32")

    def exact(self, x: Array, weight: Array, x_zero: Any, w_zero: Any) -> Array:
        """Return the convolution in float64, where it is exact."""
        kernels = _moved(weight, w_zero, (-1, *(1,) * (weight.ndim - 1)))
        return correlate(self.windows(weight), _moved(x, x_zero), kernels, self.groups)

    def forward(
        self, x: Any, weight: Any, x_zero_point: Any = None, w_zero_point: Any = None
    ) -> Any:
        return _int32(self.exact(x, weight, x_zero_point, w_zero_point))

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return slid(outs[0], ins[1])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for image, kernel, attrs in [*cls.cases()][:4]:
            x = rng.integers(0, 256, image).astype("u1")
            w = rng.integers(-128, 128, kernel).astype("i1")
            yield Sample((x, w, np.array(7, "u1"), np.full(kernel[0], 3, "i1")), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((1, 2, 4, 4), "uint8"), TensorSpec((1, 2, 3, 3), "int8")
        yield ErrorSample((x.with_dtype("float32"), w), {}, "does not take float32")
        yield ErrorSample((x, TensorSpec((1, 3, 3, 3), "int8")), {}, "channels differ")
        two = TensorSpec((2,), "uint8")
        yield ErrorSample((x, w, two), {}, "x_zero_point does not fit")
        yield ErrorSample((x, w, None, two), {}, "w_zero_point does not fit")


class QlinearConv(Convolution):
    """Convolution of quantised images, quantised again.

    y = saturate(round((conv(x − x_zero_point, weight − w_zero_point) + bias)·x_scale·w_scale/
    y_scale) + y_zero_point)

    Scales and zero points are one number; those of the weight may be one per output channel;
    bias: i32[O], in units of x_scale·w_scale (ONNX QLinearConv-10).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, one = g.constant([[[2, 3, 4]]], dtype="uint8"), g.constant([[[1]]], dtype="uint8")
    >>> s, z = g.constant(0.5), g.constant(0, dtype="uint8")
    >>> g.output({}, gw.quant.qlinear_conv(x, s, z, one, s, z, s, z, name="y"))["y"].tolist()
    [[[1, 2, 2]]]
    """

    namespace = "quant"
    onnx = OnnxRule("QLinearConv", since=10, rename=ConvInteger.onnx.rename)

    def infer(
        self,
        x: TensorSpec,
        x_scale: TensorSpec,
        x_zero_point: TensorSpec,
        weight: TensorSpec,
        w_scale: TensorSpec,
        w_zero_point: TensorSpec,
        y_scale: TensorSpec,
        y_zero_point: TensorSpec,
        bias: TensorSpec | None = None,
    ) -> TensorSpec:
        _check_integers(self, x, weight, y_zero_point)
        _check_scales(self, x_scale, w_scale, y_scale)
        if bias is not None and bias.dtype != np.dtype("int32"):
            raise DTypeError(f"bias is {bias.dtype}", need="int32, in units of x_scale·w_scale")
        found = self.convolved(x.with_dtype("float32"), weight.with_dtype("float32"))
        own = {"x_scale": x_scale, "x_zero_point": x_zero_point}
        own |= {"y_scale": y_scale, "y_zero_point": y_zero_point}
        for name, spec in own.items():
            _check_places(name, spec)
        by_channel = {"w_scale": w_scale, "w_zero_point": w_zero_point, "bias": bias}
        for name, given in by_channel.items():
            _check_places(name, given, weight.shape[:1])
        return found.with_dtype(y_zero_point.dtype)

    def forward(self, *xs: Any) -> Any:
        x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = xs
        y = ConvInteger(**self.attributes()).exact(x, w, x_zero, w_zero)
        channels = (-1, *(1,) * (w.ndim - 2))
        if bias and bias[0] is not None:
            y = y + bias[0].reshape(channels)
        scales = [s.astype(np.float64) for s in (x_scale, w_scale, y_scale)]
        factor = scales[0] * scales[1] / scales[2]
        return _requantized(y, factor.reshape(channels) if factor.size > 1 else factor.reshape(()),
                            y_zero.reshape(()))  # fmt: skip

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [ROUNDED] * len(xs)

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return slid(outs[0], ins[3])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        one, zero = np.array(0.1), np.array(7, "u1")
        for image, kernel, attrs in [*cls.cases()][:2]:
            x = rng.integers(0, 256, image).astype("u1")
            w = rng.integers(0, 256, kernel).astype("u1")
            scales = rng.uniform(0.1, 0.2, kernel[0])
            bias = np.arange(kernel[0], dtype="int32")
            yield Sample((x, one, zero, w, scales, zero, np.array(9.0), zero, bias), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((1, 2, 4, 4), "uint8"), TensorSpec((1, 2, 3, 3), "uint8")
        s, z = TensorSpec(()), TensorSpec((), "uint8")
        bad = TensorSpec((1,))
        yield ErrorSample((x, s, z, w, s, z, s, z, bad), {}, "bias is float32")
        yield ErrorSample((x, s, z, w, TensorSpec((2,)), z, s, z), {}, "w_scale does not fit")

"""Functions of the namespace quant; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike, DTypeLike

from gradwright.graph import Tensor
from gradwright.spec import AnyDim

def conv_integer(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    x_zero_point: Tensor | ArrayLike | None = None,
    w_zero_point: Tensor | ArrayLike | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    name: str | None = None,
) -> Tensor:
    """Convolution of narrow integers, as int32.

    y = conv(x − x_zero_point, weight − w_zero_point); padding is 0 after the difference

    x: u8 or i8[N, C, *size], weight: u8 or i8[O, C/groups, *kernel]; x_zero_point: one number,
    w_zero_point: one number or one per output channel -> i32[N, O, *size] (ONNX ConvInteger-10).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[2, 3, 4]]], dtype="uint8"), g.constant([[[1, 1]]], dtype="uint8")
    >>> g.output({}, gw.quant.conv_integer(x, w, g.constant(1, dtype="uint8"), name="y"))["y"]
    array([[[3, 5]]], dtype=int32)

    Attributes:
        stride: Step of the windows.
        padding: Zeros around the image, same or valid.
        dilation: Distance of a window's elements.
        groups: Parts of the channels that are convolved apart.
    """

def dequantize_blockwise(
    code: Tensor | ArrayLike,
    absmax: Tensor | ArrayLike,
    block_size: int = 256,
    *,
    name: str | None = None,
) -> Tensor:
    """Numbers that ``quantize_blockwise`` has stored.

    y = table[code]·absmax of the block

    code: u8[…] of n elements, absmax: f32[⌈n/block_size⌉] -> f32[…].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> code = g.constant([127, 255], dtype="uint8")
    >>> g.output({}, gw.quant.dequantize_blockwise(code, g.constant([2.0]), name="y"))["y"].tolist()
    [0.0, 2.0]

    Attributes:
        block_size: Elements that share a scale.
    """

def dequantize_ggml(
    packed: Tensor | ArrayLike,
    format: str = "q8_0",
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Numbers in blocks of a ggml format.

    u8[…, n/size·bytes] -> f32[…, n], with size and bytes of the format as in ``quantize_ggml``.
    Raises ShapeError unless the bytes are whole blocks.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> block = g.constant([0, 60, *range(32)], dtype="uint8")  # d = 1
    >>> g.output({}, gw.quant.dequantize_ggml(block, format="q8_0", name="y"))["y"][:3].tolist()
    [0.0, 1.0, 2.0]

    Attributes:
        format: Name of the format. One of 'q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q4_k'.
        dtype: Dtype of the result.
    """

def dequantize_linear(
    x: Tensor | ArrayLike,
    scale: Tensor | ArrayLike,
    zero_point: Tensor | ArrayLike | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    dtype: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
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

    Attributes:
        axis: Axis along which scales differ.
        block_size: Elements along the axis that share a scale; 0: no blocks.
        dtype: Dtype of the result.
    """

def dequantize_nf4(
    packed: Tensor | ArrayLike,
    absmax: Tensor | ArrayLike,
    shape: Sequence[AnyDim],
    block_size: int = 64,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Numbers that ``quantize_nf4`` has packed.

    y = table[code]·absmax of the block, in float32, then cast

    packed: u8[⌈n/2⌉, 1], absmax: f32[⌈n/block_size⌉] -> an array of ``shape``, which has n
    elements. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> packed, absmax = gw.quant.quantize_nf4(g.constant([0.0, 2.0, -2.0, 1.0]))
    >>> y = gw.quant.dequantize_nf4(packed, absmax, shape=(2, 2), name="y")
    >>> [round(v, 2) for v in g.output({}, y)["y"].ravel().tolist()]
    [0.0, 2.0, -2.0, 0.88]

    Attributes:
        shape: Shape of the result.
        block_size: Elements that share a scale.
        dtype: Dtype of the result.
    """

def dynamic_quantize_linear(
    x: Tensor | ArrayLike, *, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
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

def fake_cast(
    x: Tensor | ArrayLike, dtype: DTypeLike = "float8_e4m3fn", *, name: str | None = None
) -> Tensor:
    """Round to what a narrow float holds, in the dtype of x, with a gradient for training.

    y = x's dtype(cast(x, dtype)), too large numbers become the largest; ∂y/∂x := 1 (Bengio et al.
    2013)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.quant.fake_cast(g.constant([1.06, 1000.0]), dtype="float8_e4m3fn", name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.0, 448.0]

    Attributes:
        dtype: The narrow dtype.
    """

def fake_quantize(
    x: Tensor | ArrayLike,
    scale: Tensor | ArrayLike,
    zero_point: Tensor | ArrayLike | None = None,
    *,
    low: int = -128,
    high: int = 127,
    axis: int = 1,
    name: str | None = None,
) -> Tensor:
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

    Attributes:
        low: Least integer.
        high: Largest integer.
        axis: Axis along which scales differ.
    """

def matmul_integer(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    a_zero_point: Tensor | ArrayLike | None = None,
    b_zero_point: Tensor | ArrayLike | None = None,
    *,
    name: str | None = None,
) -> Tensor:
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

def qlinear_conv(
    x: Tensor | ArrayLike,
    x_scale: Tensor | ArrayLike,
    x_zero_point: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    w_scale: Tensor | ArrayLike,
    w_zero_point: Tensor | ArrayLike,
    y_scale: Tensor | ArrayLike,
    y_zero_point: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    name: str | None = None,
) -> Tensor:
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

    Attributes:
        stride: Step of the windows.
        padding: Zeros around the image, same or valid.
        dilation: Distance of a window's elements.
        groups: Parts of the channels that are convolved apart.
    """

def qlinear_matmul(
    a: Tensor | ArrayLike,
    a_scale: Tensor | ArrayLike,
    a_zero_point: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    b_scale: Tensor | ArrayLike,
    b_zero_point: Tensor | ArrayLike,
    y_scale: Tensor | ArrayLike,
    y_zero_point: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
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

def quantize_blockwise(
    x: Tensor | ArrayLike, block_size: int = 256, *, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Store numbers as 8 bits each and a scale per block, close ones near 0 (Dettmers et al. 2022).

    absmax_b = max |x| of the block; code = the nearest of 256 numbers of the signed dynamic type to
    x/absmax

    x: f32[…] of n elements -> u8[…], absmax: f32[⌈n/block_size⌉]. Raises ShapeError unless
    block_size is a power of two.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> code, absmax = gw.quant.quantize_blockwise(g.constant([0.0, 2.0, -0.01]), name="q")
    >>> [a.tolist() for a in g.output({}, code, absmax).values()]
    [[127, 255, 104], [2.0]]

    Attributes:
        block_size: Elements that share a scale.
    """

def quantize_fp8(
    x: Tensor | ArrayLike,
    scale: Tensor | ArrayLike | None = None,
    *,
    dtype: DTypeLike = "float8_e4m3fn",
    margin: int = 0,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Quantise to 8-bit floats with one scale; numbers that are too large become the largest.

    q = f8(clip(x·scale)),  inverse = 1/scale,  amax = max |x|

    x: f32[…], scale: f32[] -> q: f8[…], inverse: f32[], amax: f32[]. Without ``scale`` it is
    2^−margin·(largest f8)/amax. NaN and infinities of x become NaN, so that a training run sees
    them. Raises DTypeError for another dtype.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, inverse, amax = gw.quant.quantize_fp8(g.constant([2.0, -0.3]), 100.0, name="q")
    >>> [v.tolist() for v in g.output({}, gw.cast(q, "float32"), amax).values()]
    [[192.0, -30.0], 2.0]

    Attributes:
        dtype: float8_e4m3fn or float8_e5m2.
        margin: Powers of two that are left as room above amax.
    """

def quantize_ggml(
    x: Tensor | ArrayLike, format: str = "q8_0", *, name: str | None = None
) -> Tensor:
    """Store rows of numbers in blocks of a ggml format.

    x: f32[…, n] -> u8[…, n/size·bytes], with size and bytes of the format: q4_0 (32, 18), q4_1 (32,
    20), q5_0 (32, 22), q5_1 (32, 24), q8_0 (32, 34), q4_k (256, 144). Raises ShapeError unless the
    block size divides n (ggml-quants, 2023).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> packed = gw.quant.quantize_ggml(g.placeholder("x", ("B", 64)), format="q4_0")
    >>> packed.spec
    u8[B, 36]

    Attributes:
        format: Name of the format. One of 'q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q4_k'.
    """

def quantize_linear(
    x: Tensor | ArrayLike,
    scale: Tensor | ArrayLike,
    zero_point: Tensor | ArrayLike | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    dtype: DTypeLike | None = None,
    saturate: bool = True,
    precision: DTypeLike | None = None,
    name: str | None = None,
) -> Tensor:
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

    Attributes:
        axis: Axis along which scales differ.
        block_size: Elements along the axis that share a scale; 0: no blocks.
        dtype: Dtype of the result.
        saturate: Whether float8 takes its largest number for larger ones.
        precision: Dtype of the division; None: the scale's.
    """

def quantize_nf4(
    x: Tensor | ArrayLike, block_size: int = 64, *, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Store numbers as 4 bits each and a scale per block (Dettmers et al. 2023).

    absmax_b = max |x| of the block; code = the nearest of 16 normal quantiles to x/absmax, the
    lower one of two

    x: f32[…] of n elements, read in row-major order -> packed: u8[⌈n/2⌉, 1], two codes per byte,
    the first in the high half, and absmax: f32[⌈n/block_size⌉]. ``quantize_blockwise`` of
    absmax − mean in blocks of 256 is double quantisation. Raises ShapeError unless block_size is a
    power of two.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> packed, absmax = gw.quant.quantize_nf4(g.constant([0.0, 2.0, -2.0, 1.0]), name="q")
    >>> [a.tolist() for a in g.output({}, packed, absmax).values()]
    [[[127], [12]], [2.0]]

    Attributes:
        block_size: Elements that share a scale.
    """

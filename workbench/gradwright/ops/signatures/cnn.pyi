"""Functions of the namespace cnn; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from gradwright.graph import Tensor
from gradwright.spec import AnyDim

def adaptive_avg_pool1d(
    x: Tensor | ArrayLike, output_size: int | tuple[int | None, ...], *, name: str | None = None
) -> Tensor:
    """Means of as many windows as are asked for.

    y[n, c, p] = mean x[n, c, ⌊p·L/m⌋ … ⌈(p + 1)·L/m⌉ − 1], for m = output_size

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.adaptive_avg_pool1d(g.constant([[[1.0, 2.0, 6.0]]]), 2)
    >>> g.output({}, y)["adaptive_avg_pool1d"].tolist()
    [[[1.5, 4.0]]]

    Attributes:
        output_size: Size of the result; None keeps an axis.
    """

def adaptive_avg_pool2d(
    x: Tensor | ArrayLike, output_size: int | tuple[int | None, ...], *, name: str | None = None
) -> Tensor:
    """Means of as many windows as are asked for (He et al. 2014).

    y[n, c, p, q] = mean x[n, c, ⌊p·H/m⌋ … ⌈(p + 1)·H/m⌉ − 1, …], for m = output_size[0]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.adaptive_avg_pool2d(g.constant([[[[1.0, 2.0, 6.0]]]]), (1, 2))
    >>> g.output({}, y)["adaptive_avg_pool2d"].tolist()
    [[[[1.5, 4.0]]]]

    Attributes:
        output_size: Size of the result; None keeps an axis.
    """

def adaptive_avg_pool3d(
    x: Tensor | ArrayLike, output_size: int | tuple[int | None, ...], *, name: str | None = None
) -> Tensor:
    """Means of as many windows as are asked for.

    y[n, c, p, q, r] = mean x[n, c, ⌊p·D/m⌋ … ⌈(p + 1)·D/m⌉ − 1, …], for m = output_size[0]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.adaptive_avg_pool3d(g.constant([[[[[1.0, 2.0, 6.0]]]]]), (1, 1, 2))
    >>> g.output({}, y)["adaptive_avg_pool3d"].tolist()
    [[[[[1.5, 4.0]]]]]

    Attributes:
        output_size: Size of the result; None keeps an axis.
    """

def adaptive_max_pool1d(
    x: Tensor | ArrayLike, output_size: int | tuple[int | None, ...], *, name: str | None = None
) -> Tensor:
    """Largest elements of as many windows as are asked for; the first of equal ones counts.

    y[n, c, p] = max x[n, c, ⌊p·L/m⌋ … ⌈(p + 1)·L/m⌉ − 1], for m = output_size

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.adaptive_max_pool1d(g.constant([[[1.0, 2.0, 6.0]]]), 2)
    >>> g.output({}, y)["adaptive_max_pool1d"].tolist()
    [[[2.0, 6.0]]]

    Attributes:
        output_size: Size of the result; None keeps an axis.
    """

def adaptive_max_pool2d(
    x: Tensor | ArrayLike, output_size: int | tuple[int | None, ...], *, name: str | None = None
) -> Tensor:
    """Largest elements of as many windows as are asked for; the first of equal ones counts.

    y[n, c, p, q] = max x[n, c, ⌊p·H/m⌋ … ⌈(p + 1)·H/m⌉ − 1, …], for m = output_size[0]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.adaptive_max_pool2d(g.constant([[[[1.0, 2.0, 6.0]]]]), (1, 2))
    >>> g.output({}, y)["adaptive_max_pool2d"].tolist()
    [[[[2.0, 6.0]]]]

    Attributes:
        output_size: Size of the result; None keeps an axis.
    """

def adaptive_max_pool3d(
    x: Tensor | ArrayLike, output_size: int | tuple[int | None, ...], *, name: str | None = None
) -> Tensor:
    """Largest elements of as many windows as are asked for; the first of equal ones counts.

    y[n, c, p, q, r] = max x[n, c, ⌊p·D/m⌋ … ⌈(p + 1)·D/m⌉ − 1, …], for m = output_size[0]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.adaptive_max_pool3d(g.constant([[[[[1.0, 2.0, 6.0]]]]]), (1, 1, 2))
    >>> g.output({}, y)["adaptive_max_pool3d"].tolist()
    [[[[[2.0, 6.0]]]]]

    Attributes:
        output_size: Size of the result; None keeps an axis.
    """

def avg_pool1d(
    x: Tensor | ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    name: str | None = None,
) -> Tensor:
    """Mean of each window.

    y[n, c] = Σ x[n, c] over the window / number of its elements

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[1.0, 2.0, 3.0, 5.0]]])
    >>> g.output({}, gw.cnn.avg_pool1d(x, 2))["avg_pool1d"].tolist()
    [[[1.5, 4.0]]]

    Attributes:
        kernel_size: Size of the windows.
        stride: Step; None is the kernel size.
        padding: Padding around the image.
        dilation: Distance of a window's elements.
        ceil_mode: Whether a last window may reach beyond the padding.
        count_include_pad: Whether padding counts as elements that are 0.
    """

def avg_pool2d(
    x: Tensor | ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    name: str | None = None,
) -> Tensor:
    """Mean of each window.

    y[n, c] = Σ x[n, c] over the window / number of its elements

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.avg_pool2d(x, 2))["avg_pool2d"].tolist()
    [[[[2.5]]]]

    Attributes:
        kernel_size: Size of the windows.
        stride: Step; None is the kernel size.
        padding: Padding around the image.
        dilation: Distance of a window's elements.
        ceil_mode: Whether a last window may reach beyond the padding.
        count_include_pad: Whether padding counts as elements that are 0.
    """

def avg_pool3d(
    x: Tensor | ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    name: str | None = None,
) -> Tensor:
    """Mean of each window.

    y[n, c] = Σ x[n, c] over the window / number of its elements

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[[1.0, 2.0], [3.0, 4.0]]]]])
    >>> g.output({}, gw.cnn.avg_pool3d(x, (1, 2, 2)))["avg_pool3d"].tolist()
    [[[[[2.5]]]]]

    Attributes:
        kernel_size: Size of the windows.
        stride: Step; None is the kernel size.
        padding: Padding around the image.
        dilation: Distance of a window's elements.
        ceil_mode: Whether a last window may reach beyond the padding.
        count_include_pad: Whether padding counts as elements that are 0.
    """

def batch_to_space(
    x: Tensor | ArrayLike,
    block_size: int | Sequence[int],
    crops: Sequence[tuple[int, int]] | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Images of a batch become the elements of blocks: the inverse of :func:`space_to_batch`.

    y[n, c, p·b + i, q·b + j] = x[(i·b + j)·N + n, c, p, q], then ``crops`` are cut off

    x: f32[N·b², C, H, W], y: f32[N, C, H·b, W·b], or with any number of spatial axes.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0]]], [[[2.0]]], [[[3.0]]], [[[4.0]]]])
    >>> g.output({}, gw.cnn.batch_to_space(x, 2))["batch_to_space"].tolist()
    [[[[1.0, 2.0], [3.0, 4.0]]]]

    Attributes:
        block_size: Size of the blocks, for all axes or per axis.
        crops: (before, after) per axis.
    """

def col2im(
    x: Tensor | ArrayLike,
    image_size: Sequence[AnyDim],
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    *,
    name: str | None = None,
) -> Tensor:
    """Images in which columns are added up at the windows that they stand for.

    y[n, c, i] = Σ x[n, c·k + e, p] over the windows p whose element e is i

    x: f32[N, C·k, L], y: f32[N, C, *image_size]: the transpose of :func:`im2col`.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[1.0, 2.0], [20.0, 30.0]]])
    >>> g.output({}, gw.cnn.col2im(x, (3,), 2))["col2im"].tolist()
    [[[1.0, 22.0, 30.0]]]

    Attributes:
        stride: Step of the windows.
        padding: Padding around the image.
        dilation: Distance of a window's elements.
        image_size: Spatial size of the result.
        kernel_size: Size of the windows.
    """

def conv1d(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    name: str | None = None,
) -> Tensor:
    """Convolution (in fact cross-correlation) of signals (Waibel et al. 1989).

    y[n, o, p] = bias[o] + Σ_ci weight[o, c, i]·x[n, c, p·stride + i·dilation]

    x: f32[N, C, L], weight: f32[O, C/groups, k], bias: f32[O], as in :func:`conv2d`.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[1.0, 2.0, 3.0]]]), g.constant([[[1.0, 1.0]]])
    >>> g.output({}, gw.cnn.conv1d(x, w))["conv1d"].tolist()
    [[[3.0, 5.0]]]

    Attributes:
        stride: Step of the windows.
        padding: Zeros around the image, same or valid.
        dilation: Distance of a window's elements.
        groups: Parts of the channels that are convolved apart.
    """

def conv2d(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    name: str | None = None,
) -> Tensor:
    """Convolution (in fact cross-correlation) of images (LeCun et al. 1989).

    y[n, o, p, q] = bias[o] + Σ_cij weight[o, c, i, j]·x[n, c, p·stride + i·dilation, …]

    x: f32[N, C, H, W], weight: f32[O, C/groups, kh, kw], bias: f32[O]; with ``groups`` each of as
    many equal parts of the output channels sees its own part of the input channels.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", (None, 1, 3, 3)), g.variable("w", (1, 1, 2, 2), init=1.0)
    >>> y = gw.cnn.conv2d(x, w)
    >>> g.output({"x": np.ones((1, 1, 3, 3), np.float32)}, y)["conv2d"].tolist()
    [[[[4.0, 4.0], [4.0, 4.0]]]]

    Attributes:
        stride: Step of the windows.
        padding: Zeros around the image, same or valid.
        dilation: Distance of a window's elements.
        groups: Parts of the channels that are convolved apart.
    """

def conv3d(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    name: str | None = None,
) -> Tensor:
    """Convolution (in fact cross-correlation) of volumes (Ji et al. 2013).

    y[n, o, p, q, r] = bias[o] + Σ_chij weight[o, c, h, i, j]·x[n, c, p·stride + h·dilation, …]

    x: f32[N, C, D, H, W], weight: f32[O, C/groups, kd, kh, kw], bias: f32[O], as in :func:`conv2d`.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[[[1.0, 2.0]]]]]), g.constant([[[[[1.0, 1.0]]]]])
    >>> g.output({}, gw.cnn.conv3d(x, w))["conv3d"].tolist()
    [[[[[3.0]]]]]

    Attributes:
        stride: Step of the windows.
        padding: Zeros around the image, same or valid.
        dilation: Distance of a window's elements.
        groups: Parts of the channels that are convolved apart.
    """

def conv_transpose1d(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    output_padding: int | Sequence[int] = 0,
    output_shape: Sequence[AnyDim] | None = None,
    name: str | None = None,
) -> Tensor:
    """Transposed convolution of signals, as :func:`conv_transpose2d`.

    y[n, o, p·stride + i·dilation] += weight[c, o, i]·x[n, c, p]

    x: f32[N, C, L], weight: f32[C, O/groups, k], bias: f32[O].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[1.0, 2.0]]]), g.constant([[[1.0, 10.0]]])
    >>> y = gw.cnn.conv_transpose1d(x, w, stride=2)
    >>> g.output({}, y)["conv_transpose1d"].tolist()
    [[[1.0, 10.0, 2.0, 20.0]]]

    Attributes:
        stride: Step of the windows.
        padding: What is cut off at the edges; same: the result is stride times as large.
        dilation: Distance of a window's elements.
        groups: Parts of the channels that are convolved apart.
        output_padding: What is added at the end of each axis.
        output_shape: Size of the result, in place of padding.
    """

def conv_transpose2d(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    output_padding: int | Sequence[int] = 0,
    output_shape: Sequence[AnyDim] | None = None,
    name: str | None = None,
) -> Tensor:
    """Transposed convolution of images (Zeiler et al. 2010): each element sends out the kernel.

    y[n, o, p·stride + i·dilation, …] += weight[c, o, i, j]·x[n, c, p, q]

    x: f32[N, C, H, W], weight: f32[C, O/groups, kh, kw], bias: f32[O]. The result has along each
    axis (n − 1)·stride + dilation·(k − 1) + 1 + output_padding − padding elements; padding "same"
    makes it n·stride. ``output_shape`` states its size, and padding follows, as in ONNX.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[[1.0, 2.0]]]]), g.constant([[[[1.0], [10.0]]]])
    >>> g.output({}, gw.cnn.conv_transpose2d(x, w))["conv_transpose2d"].tolist()
    [[[[1.0, 2.0], [10.0, 20.0]]]]

    Attributes:
        stride: Step of the windows.
        padding: What is cut off at the edges; same: the result is stride times as large.
        dilation: Distance of a window's elements.
        groups: Parts of the channels that are convolved apart.
        output_padding: What is added at the end of each axis.
        output_shape: Size of the result, in place of padding.
    """

def conv_transpose3d(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    output_padding: int | Sequence[int] = 0,
    output_shape: Sequence[AnyDim] | None = None,
    name: str | None = None,
) -> Tensor:
    """Transposed convolution of volumes, as :func:`conv_transpose2d`.

    y[n, o, p·stride + h·dilation, …] += weight[c, o, h, i, j]·x[n, c, p, q, r]

    x: f32[N, C, D, H, W], weight: f32[C, O/groups, kd, kh, kw], bias: f32[O].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[[[1.0, 2.0]]]]]), g.constant([[[[[1.0], [10.0]]]]])
    >>> g.output({}, gw.cnn.conv_transpose3d(x, w))["conv_transpose3d"].tolist()
    [[[[[1.0, 2.0], [10.0, 20.0]]]]]

    Attributes:
        stride: Step of the windows.
        padding: What is cut off at the edges; same: the result is stride times as large.
        dilation: Distance of a window's elements.
        groups: Parts of the channels that are convolved apart.
        output_padding: What is added at the end of each axis.
        output_shape: Size of the result, in place of padding.
    """

def deform_conv2d(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    offset: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    mask: Tensor | ArrayLike | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    offset_groups: int = 1,
    name: str | None = None,
) -> Tensor:
    """Convolution whose windows reach for elements at learned offsets (Dai et al. 2017).

    y[n, o, p] = bias[o] + Σ_ci weight[o, c, i]·mask[n, i, p]·x[n, c, p·stride + i·dilation + Δ]

    with Δ = offset[n, (i, axis), p], interpolated linearly, zeros outside. x: f32[N, C, H, W],
    weight: f32[O, C/groups, kh, kw], offset: f32[N, offset_groups·kh·kw·2, H', W'] with the row's
    offset first, bias: f32[O], mask: f32[N, offset_groups·kh·kw, H', W'] (Zhu et al. 2019). Any
    number r of spatial axes may take the place of the two; offsets then are r for each element.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[[1.0, 3.0]]]]), g.constant([[[[1.0]]]])
    >>> offset = g.constant([[[[0.0, 0.0]], [[0.5, 0.0]]]])
    >>> g.output({}, gw.cnn.deform_conv2d(x, w, offset))["deform_conv2d"].tolist()
    [[[[2.0, 3.0]]]]

    Attributes:
        stride: Step of the windows.
        padding: Zeros around the image.
        dilation: Distance of a window's elements.
        groups: Parts of the channels that are convolved apart.
        offset_groups: Parts of the channels that have offsets of their own.
    """

def depth_to_space(
    x: Tensor | ArrayLike, block_size: int, mode: str = "dcr", *, name: str | None = None
) -> Tensor:
    """Channels become blocks of larger images (Shi et al. 2016).

    y[n, c, p·b + i, q·b + j] = x[n, (i·b + j)·C + c, p, q]

    x: f32[N, C·b², H, W], y: f32[N, C, H·b, W·b], or with any number of spatial axes. Mode "crd"
    reads the channel c·b² + i·b + j, as a pixel shuffle does.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]])
    >>> g.output({}, gw.cnn.depth_to_space(x, 2))["depth_to_space"].tolist()
    [[[[1.0, 2.0], [3.0, 4.0]]]]

    Attributes:
        block_size: Size of the blocks along each axis.
        mode: Which is first, place or channel. One of 'dcr', 'crd'.
    """

def depthwise_conv2d(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    name: str | None = None,
) -> Tensor:
    """Convolution of each channel of images on its own (Sifre 2014).

    y[n, c·m + o, p, q] = bias[c·m + o] + Σ_ij weight[c·m + o, 0, i, j]·x[n, c, p·stride + i, …]

    x: f32[N, C, H, W], weight: f32[C·m, 1, kh, kw], bias: f32[C·m]: m results for each channel.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[[1.0, 2.0]], [[3.0, 4.0]]]]), g.constant([[[[1.0]]], [[[10.0]]]])
    >>> g.output({}, gw.cnn.depthwise_conv2d(x, w))["depthwise_conv2d"].tolist()
    [[[[1.0, 2.0]], [[30.0, 40.0]]]]

    Attributes:
        stride: Step of the windows.
        padding: Zeros around the image, same or valid.
        dilation: Distance of a window's elements.
    """

def dilation2d(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    *,
    name: str | None = None,
) -> Tensor:
    """Grey-scale dilation of images: the largest sum of a window and a structuring element.

    y[n, c, p, q] = max_ij x[n, c, p·stride + i·dilation, …] + weight[c, i, j], padding is −∞

    x: f32[N, C, H, W], weight: f32[C, kh, kw]; equal sums share the gradient (Serra 1982).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[[1.0, 5.0, 2.0]]]]), g.constant([[[0.0, 1.0]]])
    >>> g.output({}, gw.cnn.dilation2d(x, w))["dilation2d"].tolist()
    [[[[6.0, 5.0]]]]

    Attributes:
        stride: Step of the windows.
        padding: Padding around the image.
        dilation: Distance of a window's elements.
    """

def global_avg_pool(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Mean of each channel (Lin, Chen and Yan 2013), over any number of spatial axes.

    y[n, c, 0, …] = mean x[n, c]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.global_avg_pool(x))["global_avg_pool"].tolist()
    [[[[2.5]]]]
    """

def global_lp_pool(x: Tensor | ArrayLike, p: int = 2, *, name: str | None = None) -> Tensor:
    """Norm of each channel, over any number of spatial axes.

    y[n, c, 0, …] = (Σ |x[n, c]|ᵖ)^(1/p)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cnn.global_lp_pool(g.constant([[[3.0, 4.0]]])))["global_lp_pool"].tolist()
    [[[5.0]]]

    Attributes:
        p: Exponent of the norm, 1 or more.
    """

def global_max_pool(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Largest element of each channel, over any number of spatial axes.

    y[n, c, 0, …] = max x[n, c]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.global_max_pool(x))["global_max_pool"].tolist()
    [[[[4.0]]]]
    """

def im2col(
    x: Tensor | ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    value: float = 0.0,
    *,
    name: str | None = None,
) -> Tensor:
    """Windows of images as columns.

    y[n, c·k + i, p] = x[n, c] at element i of window p, both counted row by row

    x: f32[N, C, *size], y: f32[N, C·k, L] with k elements in a window and L windows.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[1.0, 2.0, 3.0]]])
    >>> g.output({}, gw.cnn.im2col(x, 2))["im2col"].tolist()
    [[[1.0, 2.0], [2.0, 3.0]]]

    Attributes:
        stride: Step of the windows.
        padding: Padding around the image.
        dilation: Distance of a window's elements.
        kernel_size: Size of the windows.
        value: Value of the padding.
    """

def local_response_norm(
    x: Tensor | ArrayLike,
    size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 1.0,
    *,
    name: str | None = None,
) -> Tensor:
    """Elements divided by what neighbouring channels have at their place (Krizhevsky et al. 2012).

    y[n, c] = x[n, c] / (bias + alpha/size · Σ x[n, d]²)^beta, d in size channels around c

    The window reaches from c − ⌊(size − 1)/2⌋ to c + ⌈(size − 1)/2⌉, as in ONNX.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.local_response_norm(g.constant([[[3.0]]]), 1, alpha=1.0, beta=0.5)
    >>> round(g.output({}, y)["local_response_norm"].item(), 4)
    0.9487

    Attributes:
        size: How many channels are neighbours.
        alpha: Weight of the mean of squares.
        beta: Exponent.
        bias: What is added to the mean.
    """

def lp_pool1d(
    x: Tensor | ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    p: int = 2,
    *,
    name: str | None = None,
) -> Tensor:
    """Norm of each window (Gulcehre et al. 2014).

    y[n, c] = (Σ |x[n, c]|ᵖ over the window)^(1/p), padding counts as 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cnn.lp_pool1d(g.constant([[[3.0, 4.0]]]), 2))["lp_pool1d"].tolist()
    [[[5.0]]]

    Attributes:
        kernel_size: Size of the windows.
        stride: Step; None is the kernel size.
        padding: Padding around the image.
        dilation: Distance of a window's elements.
        ceil_mode: Whether a last window may reach beyond the padding.
        p: Exponent of the norm, 1 or more.
    """

def lp_pool2d(
    x: Tensor | ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    p: int = 2,
    *,
    name: str | None = None,
) -> Tensor:
    """Norm of each window (Gulcehre et al. 2014).

    y[n, c] = (Σ |x[n, c]|ᵖ over the window)^(1/p), padding counts as 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.lp_pool2d(g.constant([[[[3.0, 4.0]]]]), (1, 2))
    >>> g.output({}, y)["lp_pool2d"].tolist()
    [[[[5.0]]]]

    Attributes:
        kernel_size: Size of the windows.
        stride: Step; None is the kernel size.
        padding: Padding around the image.
        dilation: Distance of a window's elements.
        ceil_mode: Whether a last window may reach beyond the padding.
        p: Exponent of the norm, 1 or more.
    """

def lp_pool3d(
    x: Tensor | ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    p: int = 2,
    *,
    name: str | None = None,
) -> Tensor:
    """Norm of each window (Gulcehre et al. 2014).

    y[n, c] = (Σ |x[n, c]|ᵖ over the window)^(1/p), padding counts as 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.lp_pool3d(g.constant([[[[[3.0, 4.0]]]]]), (1, 1, 2))
    >>> g.output({}, y)["lp_pool3d"].tolist()
    [[[[[5.0]]]]]

    Attributes:
        kernel_size: Size of the windows.
        stride: Step; None is the kernel size.
        padding: Padding around the image.
        dilation: Distance of a window's elements.
        ceil_mode: Whether a last window may reach beyond the padding.
        p: Exponent of the norm, 1 or more.
    """

def max_pool1d(
    x: Tensor | ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Largest element of each window; of equal ones the first gets the gradient.

    y[n, c, p] = max x[n, c] over the window, padding counts as −∞

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[1.0, 2.0, 4.0, 3.0]]])
    >>> g.output({}, gw.cnn.max_pool1d(x, 2))["max_pool1d"].tolist()
    [[[2.0, 4.0]]]

    Attributes:
        kernel_size: Size of the windows.
        stride: Step; None is the kernel size.
        padding: Padding around the image.
        dilation: Distance of a window's elements.
        ceil_mode: Whether a last window may reach beyond the padding.
    """

def max_pool2d(
    x: Tensor | ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Largest element of each window; of equal ones the first gets the gradient.

    y[n, c] = max x[n, c] over the window, padding counts as −∞

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.max_pool2d(x, 2))["max_pool2d"].tolist()
    [[[[4.0]]]]

    Attributes:
        kernel_size: Size of the windows.
        stride: Step; None is the kernel size.
        padding: Padding around the image.
        dilation: Distance of a window's elements.
        ceil_mode: Whether a last window may reach beyond the padding.
    """

def max_pool3d(
    x: Tensor | ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Largest element of each window; of equal ones the first gets the gradient.

    y[n, c] = max x[n, c] over the window, padding counts as −∞

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[[1.0, 2.0], [3.0, 4.0]]]]])
    >>> g.output({}, gw.cnn.max_pool3d(x, (1, 2, 2)))["max_pool3d"].tolist()
    [[[[[4.0]]]]]

    Attributes:
        kernel_size: Size of the windows.
        stride: Step; None is the kernel size.
        padding: Padding around the image.
        dilation: Distance of a window's elements.
        ceil_mode: Whether a last window may reach beyond the padding.
    """

def max_pool_with_argmax(
    x: Tensor | ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    column_major: bool = False,
    *,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Largest element of each window, and where in the whole tensor it was.

    y[n, c, p] = max x[n, c] over the window, places = row-major numbers of the winners in x

    With ``column_major`` the places count spatial axes in column-major order, as ONNX's
    ``storage_order`` does. Any number of spatial axes.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, at = gw.cnn.max_pool_with_argmax(g.constant([[[1.0, 2.0, 4.0, 3.0]]]), 2)
    >>> [v.tolist() for v in g.output({}, y, at).values()]
    [[[[2.0, 4.0]]], [[[1, 2]]]]

    Attributes:
        kernel_size: Size of the windows.
        stride: Step; None is the kernel size.
        padding: Padding around the image.
        dilation: Distance of a window's elements.
        ceil_mode: Whether a last window may reach beyond the padding.
        column_major: Whether places count the last spatial axis slowest.
    """

def max_unpool(
    x: Tensor | ArrayLike,
    indices: Tensor | ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[Any] = 0,
    output_size: Sequence[AnyDim] | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Elements put back where a max pooling found them, zeros elsewhere (Zeiler et al. 2011).

    y[n, c].ravel()[indices[n, c, p] mod size] = x[n, c, p]

    x, indices: f32[N, C, *size], i64[N, C, *size]; indices number the whole result, as those of
    :func:`max_pool_with_argmax`, or each channel of it. Of several elements with one place the last
    stays. ``output_size`` is the spatial size of the result; without it, it is what windows of this
    kernel, stride and padding cover.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, at = g.constant([[[2.0, 4.0]]]), g.constant([[[1, 2]]])
    >>> g.output({}, gw.cnn.max_unpool(x, at, 2))["max_unpool"].tolist()
    [[[0.0, 2.0, 4.0, 0.0]]]

    Attributes:
        kernel_size: Size of the windows.
        stride: Step; None is the kernel size.
        padding: Padding around the image.
        output_size: Spatial size of the result.
    """

def separable_conv2d(
    x: Tensor | ArrayLike,
    depthwise: Tensor | ArrayLike,
    pointwise: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    name: str | None = None,
) -> Tensor:
    """Depthwise convolution, and then one of single elements across channels (Chollet 2017).

    y = conv2d(depthwise_conv2d(x, depthwise), pointwise, bias)

    x: f32[N, C, H, W], depthwise: f32[C·m, 1, kh, kw], pointwise: f32[O, C·m, 1, 1], bias: f32[O].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, d = g.constant([[[[1.0]], [[3.0]]]]), g.constant([[[[1.0]]], [[[10.0]]]])
    >>> y = gw.cnn.separable_conv2d(x, d, g.constant([[[[1.0]], [[2.0]]]]))
    >>> g.output({}, y)["separable_conv2d"].tolist()
    [[[[61.0]]]]

    Attributes:
        stride: Step of the windows.
        padding: Zeros around the image, same or valid.
        dilation: Distance of a window's elements.
    """

def space_to_batch(
    x: Tensor | ArrayLike,
    block_size: int | Sequence[int],
    padding: Sequence[tuple[int, int]] | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Blocks of images become images of the batch: of each block the i-th element goes to the i-th.

    y[(i·b + j)·N + n, c, p, q] = x[n, c, p·b + i, q·b + j], after padding with zeros

    x: f32[N, C, H·b, W·b], y: f32[N·b², C, H, W], or with any number of spatial axes.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.space_to_batch(x, 2))["space_to_batch"].tolist()
    [[[[1.0]]], [[[2.0]]], [[[3.0]]], [[[4.0]]]]

    Attributes:
        block_size: Size of the blocks, for all axes or per axis.
        padding: (before, after) per axis.
    """

def space_to_depth(
    x: Tensor | ArrayLike, block_size: int, mode: str = "dcr", *, name: str | None = None
) -> Tensor:
    """Blocks of images become channels.

    y[n, (i·b + j)·C + c, p, q] = x[n, c, p·b + i, q·b + j]

    x: f32[N, C, H·b, W·b], y: f32[N, C·b², H, W], or with any number of spatial axes. Mode "crd"
    puts the old channel first: c·b² + i·b + j.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.space_to_depth(x, 2))["space_to_depth"].tolist()
    [[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]]

    Attributes:
        block_size: Size of the blocks along each axis.
        mode: Which is first, place or channel. One of 'dcr', 'crd'.
    """

def upsampling1d(
    x: Tensor | ArrayLike, scale: int | Sequence[int] = 2, *, name: str | None = None
) -> Tensor:
    """Each element of a signal repeats.

    y[n, c, p] = x[n, c, ⌊p/scale⌋]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cnn.upsampling1d(g.constant([[[1.0, 2.0]]])))["upsampling1d"].tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]

    Attributes:
        scale: How often elements repeat, for all axes or each.
    """

def upsampling2d(
    x: Tensor | ArrayLike, scale: int | Sequence[int] = 2, *, name: str | None = None
) -> Tensor:
    """Each element of an image becomes a block.

    y[n, c, p, q] = x[n, c, ⌊p/scale⌋, ⌊q/scale⌋]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cnn.upsampling2d(g.constant([[[[1.0]]]])))["upsampling2d"].tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]

    Attributes:
        scale: How often elements repeat, for all axes or each.
    """

def upsampling3d(
    x: Tensor | ArrayLike, scale: int | Sequence[int] = 2, *, name: str | None = None
) -> Tensor:
    """Each element of a volume becomes a block.

    y[n, c, p, q, r] = x[n, c, ⌊p/scale⌋, ⌊q/scale⌋, ⌊r/scale⌋]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.upsampling3d(g.constant([[[[[1.0]]]]]), (1, 1, 2))
    >>> g.output({}, y)["upsampling3d"].tolist()
    [[[[[1.0, 1.0]]]]]

    Attributes:
        scale: How often elements repeat, for all axes or each.
    """

"""Functions of the namespace cnn; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from gradwright.graph import Tensor

def avg_pool2d(
    x: Tensor | ArrayLike,
    kernel_size: int | tuple[int, int],
    stride: int | tuple[int, int] | None = None,
    padding: str | int | Sequence[Any] = 0,
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
        count_include_pad: Whether padding counts as elements that are 0.
    """

def conv2d(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    stride: int | tuple[int, int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | tuple[int, int] = 1,
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

def global_avg_pool2d(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Mean of each channel (Lin, Chen and Yan 2013).

    y[n, c, 0, 0] = mean x[n, c]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.global_avg_pool2d(x))["global_avg_pool2d"].tolist()
    [[[[2.5]]]]
    """

def global_max_pool2d(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Largest element of each channel.

    y[n, c, 0, 0] = max x[n, c]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.global_max_pool2d(x))["global_max_pool2d"].tolist()
    [[[[4.0]]]]
    """

def max_pool2d(
    x: Tensor | ArrayLike,
    kernel_size: int | tuple[int, int],
    stride: int | tuple[int, int] | None = None,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | tuple[int, int] = 1,
    *,
    name: str | None = None,
) -> Tensor:
    """Largest element of each window; of equal ones the first gets the gradient.

    y[n, c] = max x[n, c] over the window, padding counts as −∞. The residual is the winner's place
    in its channel, ``row·W + column``.

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
    """

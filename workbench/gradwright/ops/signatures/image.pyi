"""Functions of the namespace image; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from gradwright.graph import Tensor
from gradwright.spec import AnyDim

def adjust_contrast(x: Tensor | ArrayLike, factor: float, *, name: str | None = None) -> Tensor:
    """Spread each channel of images about its mean, or draw it together.

    y = (x − m)·factor + m, m the mean of x over its last two axes

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.adjust_contrast(g.constant([[[1.0, 3.0]]]), 2.0)
    >>> g.output({}, y)["adjust_contrast"].tolist()
    [[[0.0, 4.0]]]

    Attributes:
        factor: What to multiply differences from the mean by.
    """

def adjust_hue(x: Tensor | ArrayLike, delta: float, *, name: str | None = None) -> Tensor:
    """Turn all colours on the colour circle.

    h' = (h + delta) mod 1, with saturation and value unchanged

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.adjust_hue(g.constant([[[1.0]], [[0.0]], [[0.0]]]), 0.5)
    >>> g.output({}, y)["adjust_hue"].round(4).ravel().tolist()
    [0.0, 1.0, 1.0]

    Attributes:
        delta: What part of the circle to turn.
    """

def adjust_saturation(x: Tensor | ArrayLike, factor: float, *, name: str | None = None) -> Tensor:
    """Make colours more or less vivid.

    s' = min(max(s·factor, 0), 1), with hue and value unchanged

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.adjust_saturation(g.constant([[[1.0]], [[0.5]], [[0.5]]]), 2.0)
    >>> g.output({}, y)["adjust_saturation"].round(4).ravel().tolist()
    [1.0, 0.0, 0.0]

    Attributes:
        factor: What to multiply saturation by.
    """

def affine_grid(
    theta: Tensor | ArrayLike,
    size: Sequence[AnyDim],
    align_corners: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Grid of an affine map, at which :func:`grid_sample` reads an image.

    y[n, p, q] = theta[n]·(u_q, v_p, 1) for the points (u, v) of an even grid from −1 to 1

    theta: f32[N, 2, 3] and size (N, C, H, W) give y: f32[N, H, W, 2]; theta: f32[N, 3, 4] and size
    (N, C, D, H, W) give y: f32[N, D, H, W, 3].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> theta = g.constant([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]]])
    >>> g.output({}, gw.image.affine_grid(theta, (1, 1, 1, 2)))["affine_grid"].tolist()
    [[[[-0.5, 0.5], [0.5, 0.5]]]]

    Attributes:
        size: Shape of the images to be read.
        align_corners: Whether ±1 are the middles of corner elements.
    """

def crop_and_resize(
    x: Tensor | ArrayLike,
    boxes: Tensor | ArrayLike,
    batch_indices: Tensor | ArrayLike,
    size: tuple[int, int],
    mode: str = "linear",
    extrapolation_value: float = 0.0,
    *,
    name: str | None = None,
) -> Tensor:
    """Boxes of images, each resized to one size (He et al. 2017 use it for regions).

    y[r, :, p, q] = x[n(r), :] at row y₁(H − 1) + p·(y₂ − y₁)(H − 1)/(crop − 1), columns alike

    x: f32[N, C, H, W], boxes: f32[R, 4] of (y₁, x₁, y₂, x₂) in fractions of the image,
    batch_indices: i64[R] of n(r), y: f32[R, C, *size]. Points outside get
    ``extrapolation_value``; boxes have gradients.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, box = g.constant([[[[1.0, 3.0]]]]), g.constant([[0.0, 0.0, 0.0, 1.0]])
    >>> y = gw.image.crop_and_resize(x, box, g.constant([0]), (1, 3))
    >>> g.output({}, y)["crop_and_resize"].tolist()
    [[[[1.0, 2.0, 3.0]]]]

    Attributes:
        size: Height and width of the result.
        mode: How to interpolate. One of 'linear', 'nearest'.
        extrapolation_value: What lies outside the image.
    """

def extract_image_patches(
    x: Tensor | ArrayLike,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    *,
    name: str | None = None,
) -> Tensor:
    """Patches of images, laid out along the channels.

    y[n, e·C + c, p, q] = x[n, c] at element e of window (p, q), counted row by row

    x: f32[N, C, H, W], y: f32[N, kh·kw·C, H', W'].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0, 3.0]]]])
    >>> y = gw.image.extract_image_patches(x, (1, 2))
    >>> g.output({}, y)["extract_image_patches"].tolist()
    [[[[1.0, 2.0]], [[2.0, 3.0]]]]

    Attributes:
        stride: Step of the windows.
        padding: Padding around the image.
        dilation: Distance of a window's elements.
        kernel_size: Size of the windows.
    """

def grid_sample(
    x: Tensor | ArrayLike,
    grid: Tensor | ArrayLike,
    mode: str = "linear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Images read at the points of a grid.

    y[n, :, p, q] = x[n, :] at the point grid[n, p, q], interpolated

    x: f32[N, C, H, W], grid: f32[N, P, Q, 2] of (column, row) from −1 to 1, y: f32[N, C, P, Q]; or
    with any number r of spatial axes and grid f32[N, *size, r]. The ends −1 and 1 are the outer
    edges of the image, with ``align_corners`` the middles of the elements at its corners.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, grid = g.constant([[[[1.0, 3.0]]]]), g.constant([[[[0.0, 0.0]]]])
    >>> g.output({}, gw.image.grid_sample(x, grid))["grid_sample"].tolist()
    [[[[2.0]]]]

    Attributes:
        mode: How to interpolate. One of 'linear', 'nearest', 'cubic'.
        padding_mode: What lies beyond the edge. One of 'zeros', 'border', 'reflection'.
        align_corners: Whether ±1 are the middles of corner elements.
    """

def hsv_to_rgb(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Red, green and blue of hue, saturation and value, all from 0 to 1 (Smith 1978).

    y = v − v·s·max(0, min(k, 4 − k, 1)), k = (n + 6h) mod 6, n = 5, 3, 1 for red, green, blue

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.hsv_to_rgb(g.constant([[[0.5]], [[1.0]], [[1.0]]]))
    >>> g.output({}, y)["hsv_to_rgb"].round(4).ravel().tolist()
    [0.0, 1.0, 1.0]
    """

def non_max_suppression(
    boxes: Tensor | ArrayLike,
    scores: Tensor | ArrayLike,
    max_output_boxes_per_class: int | None = None,
    iou_threshold: float = 0.0,
    score_threshold: float | None = None,
    center_point_box: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Boxes by falling score, without those that overlap one of a higher score.

    y = rows (image, class, box): taken if score > score_threshold and the overlap with every box
    taken before, intersection/union, is at most iou_threshold

    boxes: f32[N, B, 4] of two opposite corners (y₁, x₁, y₂, x₂), or of (x, y, width, height) around
    centres; scores: f32[N, C, B]; y: i64[K, 3]. Of equal scores the first box is taken.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> boxes = g.constant([[[0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.0], [0.0, 2.0, 1.0, 3.0]]])
    >>> y = gw.image.non_max_suppression(boxes, g.constant([[[0.9, 0.8, 0.7]]]), iou_threshold=0.5)
    >>> g.output({}, y)["non_max_suppression"].tolist()
    [[0, 0, 0], [0, 0, 2]]

    Attributes:
        max_output_boxes_per_class: How many boxes at most; None: all.
        iou_threshold: Largest overlap of two boxes that are taken.
        score_threshold: Scores that are not higher are left out.
        center_point_box: Whether boxes are (x, y, width, height).
    """

def resize(
    x: Tensor | ArrayLike,
    sizes: Sequence[AnyDim] | None = None,
    scales: Sequence[float] | None = None,
    mode: str = "linear",
    antialias: bool = False,
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    extrapolation_value: float = 0.0,
    roi: Sequence[float] | None = None,
    axes: Sequence[int] | None = None,
    keep_aspect_ratio_policy: str = "stretch",
    *,
    name: str | None = None,
) -> Tensor:
    """Images of another size, interpolated along each axis (ONNX Resize-19).

    y[…, i, …] = Σⱼ w(xᵢ − j)·x[…, j, …] along each axis, xᵢ the coordinate in x of element i

    x: f32[N, C, *size]. ``sizes`` or ``scales`` are one per spatial axis, or per axis of ``axes``,
    or per axis of x. The modes are nearest, linear, cubic (Keys 1981), mitchell (1988), gaussian
    (deviation 1/2), lanczos3 and lanczos5 (Duchon 1979) and area, the mean of what an element
    covers; ``antialias`` stretches filters where the image shrinks.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[1.0, 3.0]]])
    >>> g.output({}, gw.image.resize(x, sizes=(4,)))["resize"].tolist()
    [[[1.0, 1.5, 2.5, 3.0]]]

    Attributes:
        sizes: Size of the result along the axes.
        scales: How much larger it is, if not by sizes.
        mode: How to interpolate. One of 'nearest', 'linear', 'cubic', 'mitchell', 'gaussian', 'lanczos3', 'lanczos5', 'area'.
        antialias: Whether filters stretch where the image shrinks.
        coordinate_transformation_mode: How coordinates of the result map to the image. One of 'half_pixel', 'half_pixel_symmetric', 'pytorch_half_pixel', 'align_corners', 'asymmetric', 'tf_crop_and_resize'.
        nearest_mode: How nearest rounds. One of 'round_prefer_floor', 'round_prefer_ceil', 'floor', 'ceil'.
        cubic_coeff_a: Parameter of cubic.
        exclude_outside: Whether nothing counts beyond the edge.
        extrapolation_value: What tf_crop_and_resize takes beyond the edge.
        roi: Starts and ends that tf_crop_and_resize takes.
        axes: Axes that sizes, scales and roi are about.
        keep_aspect_ratio_policy: Whether sizes are bounds of one common scale. One of 'stretch', 'not_larger', 'not_smaller'.
    """

def resize_bicubic(
    x: Tensor | ArrayLike,
    size: tuple[AnyDim, AnyDim],
    align_corners: bool = False,
    half_pixel_centers: bool = True,
    antialias: bool = False,
    cubic_coeff_a: float = -0.75,
    *,
    name: str | None = None,
) -> Tensor:
    """Images of another size, by cubic convolution (Keys 1981).

    y[n, c, p, q] = Σᵢⱼ k(u − i)·k(v − j)·x[n, c, i, j], at u(p), v(q), k(2 > |t| > 1) negative

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.resize_bicubic(g.constant([[[[1.0, 1.0]]]]), (1, 3))
    >>> g.output({}, y)["resize_bicubic"].tolist()
    [[[[1.0, 1.0, 1.0]]]]

    Attributes:
        size: Height and width of the result.
        align_corners: Whether corners keep their places.
        half_pixel_centers: Whether elements lie at the middle of their cell.
        antialias: Whether filters stretch where the image shrinks.
        cubic_coeff_a: Slope of the filter at 1; Keys has -0.5.
    """

def resize_bilinear(
    x: Tensor | ArrayLike,
    size: tuple[AnyDim, AnyDim],
    align_corners: bool = False,
    half_pixel_centers: bool = True,
    antialias: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Images of another size, linear between elements.

    y[n, c, p, q] = Σᵢⱼ max(0, 1 − |u − i|)·max(0, 1 − |v − j|)·x[n, c, i, j], at u(p), v(q)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.resize_bilinear(g.constant([[[[1.0, 3.0]]]]), (1, 3))
    >>> g.output({}, y)["resize_bilinear"].tolist()
    [[[[1.0, 2.0, 3.0]]]]

    Attributes:
        size: Height and width of the result.
        align_corners: Whether corners keep their places.
        half_pixel_centers: Whether elements lie at the middle of their cell.
        antialias: Whether filters stretch where the image shrinks.
    """

def rgb_to_hsv(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Hue, saturation and value of red, green and blue, all from 0 to 1 (Smith 1978).

    v = max, s = (max − min)/max, h = place of the colour on the circle red, green, blue

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.rgb_to_hsv(g.constant([[[0.0]], [[1.0]], [[1.0]]]))
    >>> g.output({}, y)["rgb_to_hsv"].ravel().tolist()
    [0.5, 1.0, 1.0]
    """

def rgb_to_yiq(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Luminance and colour differences I, Q of red, green and blue (NTSC).

    y = M·(r, g, b) along the channels, M the NTSC's matrix

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.rgb_to_yiq(g.constant([[[1.0]], [[1.0]], [[1.0]]]))
    >>> abs(g.output({}, y)["rgb_to_yiq"]).round(3).ravel().tolist()
    [1.0, 0.0, 0.0]
    """

def rgb_to_yuv(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Luminance and colour differences U, V of red, green and blue (PAL, ITU-R BT.601).

    y = M·(r, g, b) along the channels, U = 0.492·(B − Y), V = 0.877·(R − Y)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.rgb_to_yuv(g.constant([[[1.0]], [[1.0]], [[1.0]]]))
    >>> abs(g.output({}, y)["rgb_to_yuv"]).round(3).ravel().tolist()
    [1.0, 0.0, 0.0]
    """

def roi_align(
    x: Tensor | ArrayLike,
    rois: Tensor | ArrayLike,
    batch_indices: Tensor | ArrayLike,
    size: tuple[int, int],
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    half_pixel_centers: bool = True,
    mode: str = "avg",
    *,
    name: str | None = None,
) -> Tensor:
    """Regions of images, each brought to one size by means of interpolated points (He et al. 2017).

    y[r, :, p, q] = mean of x[n(r), :] at points spread evenly over cell (p, q) of region r

    x: f32[N, C, H, W], rois: f32[R, 4] of (x₁, y₁, x₂, y₂) in units of 1/spatial_scale,
    batch_indices: i64[R] of n(r), y: f32[R, C, *size]. Mode "max" takes the largest weighted
    element, as in ONNX. Only the images have a gradient.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, roi = g.constant([[[[1.0, 3.0]]]]), g.constant([[0.0, 0.0, 2.0, 1.0]])
    >>> y = gw.image.roi_align(x, roi, g.constant([0]), (1, 1))
    >>> g.output({}, y)["roi_align"].tolist()
    [[[[2.0]]]]

    Attributes:
        size: Height and width of the result.
        spatial_scale: Size of the image per unit of the regions.
        sampling_ratio: Points per element and axis; 0 takes one per pixel.
        half_pixel_centers: Whether elements lie at the middle of their cell.
        mode: What becomes of the points. One of 'avg', 'max'.
    """

def yiq_to_rgb(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Red, green and blue of luminance and colour differences I, Q (NTSC).

    y = M⁻¹·(y, i, q) along the channels, M as in :func:`rgb_to_yiq`

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.yiq_to_rgb(g.constant([[[1.0]], [[0.0]], [[0.0]]]))
    >>> abs(g.output({}, y)["yiq_to_rgb"]).round(3).ravel().tolist()
    [1.0, 1.0, 1.0]
    """

def yuv_to_rgb(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Red, green and blue of luminance and colour differences U, V (PAL).

    y = M⁻¹·(y, u, v) along the channels, M as in :func:`rgb_to_yuv`

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.yuv_to_rgb(g.constant([[[1.0]], [[0.0]], [[0.0]]]))
    >>> abs(g.output({}, y)["yuv_to_rgb"]).round(3).ravel().tolist()
    [1.0, 1.0, 1.0]
    """

"""Colour spaces, contrast, hue and saturation of images ``f32[…, 3, H, W]``.

Linear spaces are one matrix along the channels. Y is the luminance of ITU-R BT.601, I and Q are
those of the NTSC (FCC 1953), U and V those of PAL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import LINEAR, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, differ, kind
from ..arithmetic.division import Mod
from ..convolutions.bands import AlongAxes, Bands
from ..core.choice import Clip, Maximum, Minimum, Where
from ..core.joining import Stack

Array = np.ndarray[Any, Any]

YIQ = np.array(
    [
        [0.299, 0.587, 0.114],
        [0.59590059, -0.27455667, -0.32134392],
        [0.21153661, -0.52273617, 0.31119955],
    ]
)
YUV = np.array(
    [
        [0.299, 0.587, 0.114],
        [-0.14714119, -0.28886916, 0.43601035],
        [0.61497538, -0.51496512, -0.10001026],
    ]
)


class _Colour(Op):
    """An op on images of three channels."""

    namespace = "image"

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        if x.rank < 3 or differ(x.shape[-3], 3):
            raise ShapeError(f"{self.name} takes colours", need=f"f32[…, 3, H, W], got {x}")
        return x.with_shape(x.shape)

    @classmethod
    def colours(cls) -> Iterator[tuple[Array, bool]]:
        """Yield images, and whether they are smooth there: grey has no hue."""
        rng = np.random.default_rng(4)
        yield rng.permutation(np.linspace(0.1, 0.9, 6)).reshape(1, 3, 1, 2), True
        yield np.array([0.0, 0.0, 0.0, 0.5, 0.5, 0.5]).reshape(2, 3, 1, 1), False
        yield np.zeros((3, 0, 2)), True

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for x, smooth in cls.colours():
            yield Sample((x,), smooth=smooth)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((1, 4, 2, 2)),), {}, "takes colours")
        yield ErrorSample((TensorSpec((3, 2, 2), "uint8"),), {}, "does not take uint8")


class _Linear(_Colour, AlongAxes):
    dependence = LINEAR
    matrix: ClassVar[Array] = YIQ

    def bands(self, shape: Sequence[int]) -> Mapping[int, Bands]:
        index = np.broadcast_to(np.arange(3), (3, 3))
        return {len(shape) - 3: Bands(index, self.matrix, 3)}


class RgbToYiq(_Linear):
    """Luminance and colour differences I, Q of red, green and blue (NTSC).

    y = M·(r, g, b) along the channels, M the NTSC's matrix

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.rgb_to_yiq(g.constant([[[1.0]], [[1.0]], [[1.0]]]))
    >>> abs(g.output({}, y)["rgb_to_yiq"]).round(3).ravel().tolist()
    [1.0, 0.0, 0.0]
    """

    matrix = YIQ


class YiqToRgb(_Linear):
    """Red, green and blue of luminance and colour differences I, Q (NTSC).

    y = M⁻¹·(y, i, q) along the channels, M as in :func:`rgb_to_yiq`

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.yiq_to_rgb(g.constant([[[1.0]], [[0.0]], [[0.0]]]))
    >>> abs(g.output({}, y)["yiq_to_rgb"]).round(3).ravel().tolist()
    [1.0, 1.0, 1.0]
    """

    matrix = np.linalg.inv(YIQ)


class RgbToYuv(_Linear):
    """Luminance and colour differences U, V of red, green and blue (PAL, ITU-R BT.601).

    y = M·(r, g, b) along the channels, U = 0.492·(B − Y), V = 0.877·(R − Y)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.rgb_to_yuv(g.constant([[[1.0]], [[1.0]], [[1.0]]]))
    >>> abs(g.output({}, y)["rgb_to_yuv"]).round(3).ravel().tolist()
    [1.0, 0.0, 0.0]
    """

    matrix = YUV


class YuvToRgb(_Linear):
    """Red, green and blue of luminance and colour differences U, V (PAL).

    y = M⁻¹·(y, u, v) along the channels, M as in :func:`rgb_to_yuv`

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.yuv_to_rgb(g.constant([[[1.0]], [[0.0]], [[0.0]]]))
    >>> abs(g.output({}, y)["yuv_to_rgb"]).round(3).ravel().tolist()
    [1.0, 1.0, 1.0]
    """

    matrix = np.linalg.inv(YUV)


class RgbToHsv(_Colour):
    """Hue, saturation and value of red, green and blue, all from 0 to 1 (Smith 1978).

    v = max, s = (max − min)/max, h = place of the colour on the circle red, green, blue

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.rgb_to_hsv(g.constant([[[0.0]], [[1.0]], [[1.0]]]))
    >>> g.output({}, y)["rgb_to_hsv"].ravel().tolist()
    [0.5, 1.0, 1.0]
    """

    def expand(self, x: Any) -> Any:
        r, g, b = (x[..., i, :, :] for i in range(3))
        value = Maximum()(Maximum()(r, g), b)
        span = value - Minimum()(Minimum()(r, g), b)
        grey = span == 0
        width = Where()(grey, 1.0, span)
        from_red = (g - b) / width
        from_green, from_blue = (b - r) / width + 2.0, (r - g) / width + 4.0
        sixths = Where()(r == value, from_red, Where()(g == value, from_green, from_blue))
        hue = Where()(grey, 0.0, Mod()(sixths / 6.0, 1.0))
        saturation = Where()(grey, 0.0, span / Where()(value == 0, 1.0, value))
        return Stack(axis=-3)(hue, saturation, value)


class HsvToRgb(_Colour):
    """Red, green and blue of hue, saturation and value, all from 0 to 1 (Smith 1978).

    y = v − v·s·max(0, min(k, 4 − k, 1)), k = (n + 6h) mod 6, n = 5, 3, 1 for red, green, blue

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.hsv_to_rgb(g.constant([[[0.5]], [[1.0]], [[1.0]]]))
    >>> g.output({}, y)["hsv_to_rgb"].round(4).ravel().tolist()
    [0.0, 1.0, 1.0]
    """

    def expand(self, x: Any) -> Any:
        hue, saturation, value = (x[..., i, :, :] for i in range(3))
        parts = []
        for n in (5.0, 3.0, 1.0):
            k = Mod()(n + 6.0 * hue, 6.0)
            share = Clip()(Minimum()(k, 4.0 - k), 0.0, 1.0)
            parts.append(value - value * saturation * share)
        return Stack(axis=-3)(*parts)


class AdjustHue(_Colour):
    """Turn all colours on the colour circle.

    h' = (h + delta) mod 1, with saturation and value unchanged

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.adjust_hue(g.constant([[[1.0]], [[0.0]], [[0.0]]]), 0.5)
    >>> g.output({}, y)["adjust_hue"].round(4).ravel().tolist()
    [0.0, 1.0, 1.0]
    """

    delta: float = attr(doc="What part of the circle to turn.")

    def expand(self, x: Any) -> Any:
        hsv = RgbToHsv()(x)
        hue = Mod()(hsv[..., :1, :, :] + self.delta, 1.0)
        rest = hsv[..., 1:, :, :]
        return HsvToRgb()(Stack(axis=-3)(hue[..., 0, :, :], rest[..., 0, :, :], rest[..., 1, :, :]))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, _ = next(cls.colours())
        yield Sample((x,), {"delta": -0.3})
        yield Sample((x[:0],), {"delta": -0.3})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((1, 4, 2, 2)),), {"delta": 0.1}, "takes colours")


class AdjustSaturation(_Colour):
    """Make colours more or less vivid.

    s' = min(max(s·factor, 0), 1), with hue and value unchanged

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.adjust_saturation(g.constant([[[1.0]], [[0.5]], [[0.5]]]), 2.0)
    >>> g.output({}, y)["adjust_saturation"].round(4).ravel().tolist()
    [1.0, 0.0, 0.0]
    """

    factor: float = attr(doc="What to multiply saturation by.")

    def expand(self, x: Any) -> Any:
        hsv = RgbToHsv()(x)
        hue, saturation, value = (hsv[..., i, :, :] for i in range(3))
        vivid = Clip()(saturation * self.factor, 0.0, 1.0)
        return HsvToRgb()(Stack(axis=-3)(hue, vivid, value))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, _ = next(cls.colours())
        yield Sample((x,), {"factor": 0.6})
        yield Sample((x[:0],), {"factor": 0.6})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((1, 4, 2, 2)),), {"factor": 0.1}, "takes colours")


class AdjustContrast(Op):
    """Spread each channel of images about its mean, or draw it together.

    y = (x − m)·factor + m, m the mean of x over its last two axes

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.image.adjust_contrast(g.constant([[[1.0, 3.0]]]), 2.0)
    >>> g.output({}, y)["adjust_contrast"].tolist()
    [[[0.0, 4.0]]]
    """

    namespace = "image"
    factor: float = attr(doc="What to multiply differences from the mean by.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")
        if x.rank < 2:
            raise ShapeError(f"{self.name} takes images", need=f"f32[…, H, W], got {x}")
        return x.with_shape(x.shape)

    def expand(self, x: Any) -> Any:
        mean = x.mean((-2, -1), keepdims=True)
        return (x - mean) * self.factor + mean

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 2)),), {"factor": 1.5})
        yield Sample((rng.standard_normal((0, 3, 2)),), {"factor": 0.0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((4,)),), {"factor": 2.0}, "takes images")
        yield ErrorSample((TensorSpec((4, 4), "uint8"),), {"factor": 2.0}, "does not take uint8")

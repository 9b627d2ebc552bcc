"""How resizing weighs the elements of one axis: coordinates, filters, banded matrices.

Element i of the result looks at the coordinate x(i) of the image, and takes from each element j
there a share filter(|x − j|). Where an image shrinks, antialiasing stretches the filter so that it
spans what falls into one element of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..convolutions.bands import Bands

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Axis:
    """All that decides how one axis is resized; the names are ONNX's (Resize-19)."""

    n_in: int
    n_out: int
    scale: float
    mode: str
    transform: str
    rounding: str
    cubic_a: float
    exclude_outside: bool
    antialias: bool
    roi: tuple[float, float]

    def coordinates(self) -> Array:
        """Return where in the image each element of the result lies.

        Where the scale is that of the sizes, whole coordinates come out whole: one division of
        integers is exact, while a rounded scale lets nearest fall to the neighbour.
        """
        i, n, s = np.arange(self.n_out, dtype=np.float64), self.n_in, self.scale
        exact = s * n == self.n_out or s == self.n_out / n
        length = self.n_out if exact else s * n
        match self.transform:
            case "asymmetric":
                return i * n / length if exact else i / s
            case "align_corners":
                return i * (n - 1) / (length - 1) if length != 1 else 0 * i
            case "tf_crop_and_resize":
                start, end = self.roi
                step = (end - start) * (n - 1)
                inside = i * step / (length - 1) if length != 1 else 0 * i + step / 2
                return start * (n - 1) + inside
            case "half_pixel_symmetric":
                return n / 2 * (1 - self.n_out / length) + (i + 0.5) / s - 0.5
            case "pytorch_half_pixel" if length == 1:
                return 0 * i - 0.5
        return ((2 * i + 1) * n - length) / (2 * length) if exact else (i + 0.5) / s - 0.5

    def outside(self) -> Array:
        """Return which elements of the result are extrapolated."""
        if self.transform != "tf_crop_and_resize":
            return np.zeros(self.n_out, bool)
        x = self.coordinates()
        return (x < 0) | (x > self.n_in - 1)

    def bands(self) -> Bands:
        """Return the matrix that resizes the axis."""
        if self.mode == "area":
            index, weight = self._overlaps()
        elif self.mode == "nearest":
            index = ROUNDINGS[self.rounding](self.coordinates()).astype(np.int64)[:, None]
            weight = np.ones(index.shape)
        else:
            index, weight = self._filtered()
        weight = np.where(self.outside()[:, None], 0.0, weight)
        return Bands(np.clip(index, 0, self.n_in - 1), weight, self.n_in)

    def _filtered(self) -> tuple[Array, Array]:
        support, function = FILTERS[self.mode]
        stretch = max(1.0, 1.0 / self.scale) if self.antialias else 1.0
        x = self.coordinates()
        half = math.ceil(support * stretch)
        index = np.floor(x)[:, None] + np.arange(1 - half, half + 1)
        weight = function(np.abs(index - x[:, None]) / stretch, self.cubic_a)
        if self.exclude_outside:
            weight = np.where((index < 0) | (index >= self.n_in), 0.0, weight)
        if self.exclude_outside or self.antialias or self.mode not in ("linear", "cubic"):
            total = weight.sum(1, keepdims=True)
            weight = np.divide(weight, total, out=np.zeros_like(weight), where=total != 0)
        return index.astype(np.int64), weight

    def _overlaps(self) -> tuple[Array, Array]:
        edges = np.arange(self.n_out + 1) * (self.n_in / self.n_out)
        start, stop = edges[:-1, None], edges[1:, None]
        index = np.floor(start) + np.arange(math.ceil(self.n_in / self.n_out) + 1)
        shared = np.minimum(index + 1, stop) - np.maximum(index, start)
        weight = np.maximum(shared, 0.0) / (stop - start)
        return index.astype(np.int64), np.where(index < self.n_in, weight, 0.0)


ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}
TRANSFORMS = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)


def _cubic(x: Array, b: float, c: float) -> Array:
    """Return the cubic filter with the parameters B and C (Mitchell and Netravali 1988)."""
    near = ((12 - 9 * b - 6 * c) * x + (-18 + 12 * b + 6 * c)) * x * x + (6 - 2 * b)
    far = (((-b - 6 * c) * x + (6 * b + 30 * c)) * x + (-12 * b - 48 * c)) * x + (8 * b + 24 * c)
    y: Array = np.where(x < 1, near, np.where(x < 2, far, 0.0)) / 6
    return y


def _lanczos(radius: int) -> Callable[[Array, float], Array]:
    return lambda x, _: np.where(x < radius, np.sinc(x) * np.sinc(x / radius), 0.0)


FILTERS: Mapping[str, tuple[float, Callable[[Array, float], Array]]] = {
    "linear": (1.0, lambda x, _: np.maximum(1 - x, 0.0)),
    "cubic": (2.0, lambda x, a: _cubic(x, 0.0, -a)),
    "mitchell": (2.0, lambda x, _: _cubic(x, 1 / 3, 1 / 3)),
    "gaussian": (1.5, lambda x, _: np.where(x < 1.5, np.exp(-2 * x * x), 0.0)),
    "lanczos3": (3.0, _lanczos(3)),
    "lanczos5": (5.0, _lanczos(5)),
}
"""Mode -> how far the filter reaches, and the filter; a gaussian has the deviation 1/2."""
MODES = ("nearest", *FILTERS, "area")

"""Pooling in one, two and three dimensions, and its maxima; how windows slide: ``windows.py``.

The largest element of a window is remembered as its number in the window, its tap, which one byte
holds: cotangents then go back tap by tap, in as few passes as the maximum took.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import LINEAR, ZERO, Cotangent, Dependence, ErrorSample, OnnxRule, Op, Sample, attr
from ...op.facts import elements
from ...spec import TensorSpec, kind
from ..core.special import widened
from .formats import IMAGES, Formatted, is_first, settings
from .windows import Windows, check_cotangent, check_images, chunks, per_axis

Array = np.ndarray[Any, Any]

RENAMED = {
    "kernel_size": "kernel_shape", "stride": "strides", "padding": "pads", "dilation": "dilations",
}  # fmt: skip
FEW = 16
"""Windows of more elements are searched axis by axis: 13 by 13 in 26 steps, not in 169."""
MANY = 32
"""For windows of more elements, places are computed: a pass for each element would take longer."""


class Pooling(Op, abstract=True):
    """Windows of each channel become one number: what all poolings declare."""

    namespace = "cnn"
    kinds: ClassVar[str] = "f"
    n_axes: ClassVar[int | None] = None
    """Number of spatial axes; None takes any."""
    kernel_size: int | tuple[int, ...] = attr(doc="Size of the windows.")
    stride: int | tuple[int, ...] | None = attr(None, doc="Step; None is the kernel size.")
    padding: str | int | tuple[Any, ...] = attr(0, doc="Padding around the image.")
    dilation: int | tuple[int, ...] = attr(1, doc="Distance of a window's elements.")
    ceil_mode: bool = attr(False, doc="Whether a last window may reach beyond the padding.")

    def windows(self, n: int) -> Windows:
        """Return how windows slide over ``n`` axes."""
        kernel = per_axis(self.kernel_size, n, "kernel_size", 1)
        stride = kernel if self.stride is None else self.stride
        return Windows.of(kernel, stride, self.padding, self.dilation, self.ceil_mode)

    def read(self, y: TensorSpec) -> Any:
        """Return how many elements the windows read that become ``y``."""
        return elements(y) * math.prod(per_axis(self.kernel_size, y.rank - 2, "kernel_size", 1))

    def pooled(self, x: TensorSpec) -> TensorSpec:
        """Return the spec of the result; every window must see something of the image."""
        check_images(self, x, self.n_axes, self.kinds)
        windows = self.windows(x.rank - 2)
        n_out = windows.n_out(x.shape[2:])
        if all(isinstance(n, int) for n in x.shape[2:]):
            for axis, is_blind in enumerate(windows.blind(x.shape[2:]), 2):  # type: ignore[arg-type]
                if is_blind:
                    raise ShapeError(
                        "a window would see padding only",
                        need=f"less padding on axis {axis}, where the image has {x.shape[axis]}",
                    )
        return x.with_shape((*x.shape[:2], *n_out))

    @classmethod
    def cases(cls) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
        """Yield shapes of images, and attributes, to test on."""
        n = cls.n_axes
        if n in (None, 2):
            yield (2, 2, 5, 4), {"kernel_size": 2}
            yield (1, 2, 5, 4), {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1}
            yield (1, 1, 5, 4), {"kernel_size": 3, "stride": 2, "padding": "same"}
            yield (0, 1, 4, 4), {"kernel_size": 2}
        if n in (None, 1):
            ceil = {"kernel_size": 2, "stride": 3, "padding": ((0, 1),), "ceil_mode": True}
            yield (2, 1, 6), ceil
            yield (1, 2, 7), {"kernel_size": 2, "stride": 1, "dilation": 3}
        if n in (None, 3):
            yield (1, 1, 3, 2, 4), {"kernel_size": (2, 1, 3), "stride": 1, "padding": (1, 0, 1)}

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, attrs in cls.cases():
            distinct = rng.permutation(np.arange(float(math.prod(shape))))
            yield Sample((distinct.reshape(shape),), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        n = cls.n_axes or 2
        x = TensorSpec((1, 1, *(4,) * n))
        yield ErrorSample((TensorSpec((4, 4)),), {"kernel_size": 2}, "takes images")
        yield ErrorSample((x,), {"kernel_size": 5}, "beyond the padded image")
        yield ErrorSample((x,), {"kernel_size": 2, "padding": 2}, "see padding only")
        yield ErrorSample((x,), {"kernel_size": (2,) * 4}, "is not understood")


class MaxPooling(Pooling, abstract=True):
    """Poolings that keep the largest element of each window."""

    kinds = "fiu"

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return self.read(outs[0])

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        y = self.pooled(x)
        return y, y.with_dtype(tap_dtype(self.windows(x.rank - 2)))

    def depends(self, i: int) -> Dependence:
        n = len(self.kernel_size) if isinstance(self.kernel_size, tuple) else self.n_axes
        return self.windows(n).dependence if n and is_first(self) else super().depends(i)

    def forward(self, x: Any) -> Any:
        return largest(self.windows(x.ndim - 2), x)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO if gs[0] is ZERO else Untap(**settings(self))(gs[0], ys[-1], xs[0]),)


class _MaxPool(MaxPooling, Formatted):
    n_public = 1
    onnx = OnnxRule("MaxPool", since=12, rename=RENAMED)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        ties = np.zeros((1, 1, *(4,) * (cls.n_axes or 2)))
        yield Sample((ties,), {"kernel_size": 2, "stride": 1}, smooth=False)


class MaxPool1d(_MaxPool):
    """Largest element of each window; of equal ones the first gets the gradient.

    y[n, c, p] = max x[n, c] over the window, padding counts as −∞

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[1.0, 2.0, 4.0, 3.0]]])
    >>> g.output({}, gw.cnn.max_pool1d(x, 2))["max_pool1d"].tolist()
    [[[2.0, 4.0]]]
    """

    n_axes = 1
    data_format: str = IMAGES[1]


class MaxPool2d(_MaxPool):
    """Largest element of each window; of equal ones the first gets the gradient.

    y[n, c] = max x[n, c] over the window, padding counts as −∞

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.max_pool2d(x, 2))["max_pool2d"].tolist()
    [[[[4.0]]]]
    """

    n_axes = 2
    data_format: str = IMAGES[2]


class MaxPool3d(_MaxPool):
    """Largest element of each window; of equal ones the first gets the gradient.

    y[n, c] = max x[n, c] over the window, padding counts as −∞

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[[1.0, 2.0], [3.0, 4.0]]]]])
    >>> g.output({}, gw.cnn.max_pool3d(x, (1, 2, 2)))["max_pool3d"].tolist()
    [[[[[4.0]]]]]
    """

    n_axes = 3
    data_format: str = IMAGES[3]


class _Taps(Pooling):
    """What goes along chosen elements of windows."""

    namespace = "gradient"
    drawing = "math"
    dependence = LINEAR

    def check_taps(self, y: TensorSpec, tap: TensorSpec) -> None:
        """Refuse taps that are not one per window."""
        if kind(tap.dtype) not in "iu":
            raise DTypeError(f"taps are numbers of elements, not {tap.dtype}", need="integers")
        check_cotangent(tap, y)

    @classmethod
    def tapped(
        cls, rng: np.random.Generator
    ) -> Iterator[tuple[tuple[int, ...], Array, dict[str, Any]]]:
        """Yield shapes of images, taps and attributes."""
        for shape, attrs in cls.cases():
            op = cls(**attrs)
            _, tap = largest(op.windows(len(shape) - 2), rng.standard_normal(shape))
            yield shape, tap, attrs


class Tap(_Taps):
    """Chosen element of each window.

    y[n, c, p] = x[n, c] at the element of window p with the number tap[n, c, p]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, tap = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]]), g.constant([[[[2]]]])
    >>> g.output({}, Tap(kernel_size=2)(x, tap))["tap"].tolist()
    [[[[3.0]]]]
    """

    def infer(self, x: TensorSpec, tap: TensorSpec) -> TensorSpec:
        y = self.pooled(x)
        self.check_taps(y, tap)
        return y

    def forward(self, x: Any, tap: Any) -> Any:
        windows = self.windows(x.ndim - 2)
        if windows.n_taps > MANY:
            at = _places(windows, tap.reshape(-1, *tap.shape[2:]), windows.padded_size(x.shape[2:]))
            return windows.padded(x).reshape(-1)[at].reshape(tap.shape)
        y = np.zeros(tap.shape, x.dtype)
        for number, view in enumerate(windows.slices(windows.padded(x), tap.shape[2:])):
            np.copyto(y, view, where=tap == number)
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return Untap(**self.attributes())(gs[0], xs[1], xs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, tap, attrs in cls.tapped(rng):
            yield Sample((rng.standard_normal(shape), tap), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((1, 1, 4, 4))
        yield ErrorSample((x, x), {"kernel_size": 2}, "taps are numbers of elements")
        yield ErrorSample((x, x.with_dtype("uint8")), {"kernel_size": 2}, "does not fit")


class Untap(_Taps):
    """Add up what goes to the chosen element of each window.

    dx[n, c, i] = Σ g[n, c, p] over the windows p whose element number tap[n, c, p] is i

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> dy, tap, x = (g.constant([[v]]) for v in ([5.0], [1], [0.0, 0.0]))
    >>> g.output({}, Untap(kernel_size=2)(dy, tap, x, name="dx"))["dx"].tolist()
    [[[0.0, 5.0]]]
    """

    shape_only = (2,)

    def infer(self, g: TensorSpec, tap: TensorSpec, x: TensorSpec) -> TensorSpec:
        y = self.pooled(x)
        self.check_taps(y, tap)
        check_cotangent(g, y)
        return g.with_shape(x.shape)

    def forward(self, g: Any, tap: Any, x: Any) -> Any:
        windows = self.windows(x.ndim - 2)
        n_out, size = g.shape[2:], x.shape[2:]
        part = widened(g).reshape(-1, *n_out)
        tap = tap.reshape(-1, *n_out)
        shape = (len(part), *windows.padded_size(size))
        if windows.n_taps > MANY:
            at = _places(windows, tap, shape[1:]).reshape(-1)
            total = np.bincount(at, part.reshape(-1), math.prod(shape))
            dx = windows.cropped(total.reshape(*x.shape[:2], *shape[1:]), size)
            return dx.astype(g.dtype, copy=False)
        padded = np.zeros(shape, part.dtype)
        finite = np.isfinite(part).all()  # else 0 times it is no 0
        apart = all(int(r) <= s for r, s in zip(windows.reach, windows.stride, strict=True))
        for some in chunks(len(part), padded[:1].nbytes):
            for number, view in enumerate(windows.slices(padded[some], n_out)):
                if not finite:
                    view += np.where(tap[some] == number, part[some], 0)
                elif apart:  # windows that share nothing write each place once
                    np.multiply(part[some], tap[some] == number, out=view)
                else:
                    view += part[some] * (tap[some] == number)
        dx = windows.cropped(padded.reshape(*x.shape[:2], *padded.shape[1:]), size)
        return dx.astype(g.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return Tap(**self.attributes())(gs[0], xs[1]), ZERO, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, tap, attrs in cls.tapped(rng):
            yield Sample((rng.standard_normal(tap.shape), tap, np.zeros(shape)), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, tap = TensorSpec((1, 1, 4, 4)), TensorSpec((1, 1, 2, 2), "uint8")
        yield ErrorSample((x, tap, x), {"kernel_size": 2}, "the cotangent does not fit")


def _places(windows: Windows, tap: Array, size: Sequence[int]) -> Array:
    """Return where in padded images of a size the chosen elements of windows are."""
    rest, inner = tap.astype(np.int64), 1
    place = np.zeros((), np.int64)
    for i in reversed(range(len(size))):
        rest, step = np.divmod(rest, int(windows.kernel[i]))
        start = np.arange(tap.shape[i + 1]) * windows.stride[i]
        at = step * windows.dilation[i] + start.reshape(-1, *(1,) * (len(size) - 1 - i))
        place = place + at * inner
        inner *= size[i]
    return np.asarray(place + np.arange(len(tap)).reshape(-1, *(1,) * len(size)) * inner)


def tap_dtype(windows: Windows) -> np.dtype[Any]:
    """Return the dtype that numbers a window's elements."""
    return np.dtype("uint8" if windows.n_taps <= 256 else "int32")


def largest(windows: Windows, x: Array) -> tuple[Array, Array]:
    """Return the largest element of each window, and its number; the first of equal ones."""
    low = -np.inf if kind(x.dtype) == "f" else np.iinfo(x.dtype).min
    n_out = windows.counts(x.shape[2:])
    padded = windows.padded(widened(x), low)
    padded = padded.reshape(-1, *padded.shape[2:])
    y = np.empty((len(padded), *n_out), padded.dtype)
    tap = np.empty(y.shape, tap_dtype(windows))
    first = first_inside(windows, x.shape[2:]).astype(tap.dtype)
    number_of = tap.dtype.type
    for some in chunks(len(padded), 2 * padded[:1].nbytes):
        best, winner = y[some], tap[some]
        if windows.n_taps > FEW:
            best[...], winner[...] = _largest_by_axis(windows, padded[some], x.shape[2:], tap.dtype)
            continue
        slices = windows.slices(padded[some], n_out)
        best[...] = next(slices)
        winner[...] = first  # padding would win where all is −∞
        seen, wins = np.empty_like(best), np.empty_like(winner)
        for number, view in enumerate(slices, 1):
            seen[...] = view  # once, for the steps are wide
            np.multiply(seen > best, number_of(number), out=wins)
            np.maximum(winner, wins, out=winner)  # numbers grow, so the latest is the largest
            np.maximum(best, seen, out=best)
        if best.dtype.kind == "f" and np.isnan(best).any():
            for number, view in enumerate(windows.slices(padded[some], n_out)):
                np.copyto(winner, number_of(number), where=np.isnan(view))
    shape = (*x.shape[:2], *n_out)
    return y.reshape(shape).astype(x.dtype, copy=False), tap.reshape(shape)


def _largest_by_axis(
    windows: Windows, part: Array, size: Sequence[int], number: np.dtype[Any]
) -> tuple[Array, Array]:
    """Return largest elements and their numbers: of rows first, then of what rows gave."""
    winner, inner = np.zeros((1,) * part.ndim, number), 1
    for axis in reversed(range(len(size))):
        first = firsts_along(windows, axis, size).reshape(-1, *(1,) * (len(size) - 1 - axis))
        m = len(first)
        values = windows.along(axis, part, m)
        numbers = itertools.repeat(winner) if inner == 1 else windows.along(axis, winner, m)
        best, found = next(values).copy(), np.where(first == 0, next(numbers), number.type(0))
        found = np.broadcast_to(found, best.shape).astype(number)
        for tap, (seen, own) in enumerate(zip(values, numbers, strict=False), 1):
            wins = (seen > best) | (first == tap)  # padding would win where all is −∞
            np.maximum(found, wins * (own + number.type(tap * inner)), out=found)
            np.maximum(best, seen, out=best)
        if best.dtype.kind == "f" and np.isnan(best).any():
            values = windows.along(axis, part, m)
            numbers = itertools.repeat(winner) if inner == 1 else windows.along(axis, winner, m)
            for tap, (seen, own) in enumerate(zip(values, numbers, strict=False)):
                np.copyto(found, own + number.type(tap * inner), where=np.isnan(seen))
        part, winner, inner = best, found, inner * int(windows.kernel[axis])
    return part, winner


def firsts_along(windows: Windows, axis: int, size: Sequence[int]) -> Array:
    """Return along one axis the number of each window's first element that is not padding."""
    m = int(windows.n_out(size)[axis])
    start = np.arange(m) * windows.stride[axis] - windows.pads(size)[axis][0]
    return np.maximum(-(start // windows.dilation[axis]), 0)


def first_inside(windows: Windows, size: Sequence[int]) -> Array:
    """Return the number of each window's first element that is not padding."""
    total = np.zeros((), np.int64)
    for axis, kernel in enumerate(windows.kernel):
        total = total[..., None] * int(kernel) + firsts_along(windows, axis, size)
    return total

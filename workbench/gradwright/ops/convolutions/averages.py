"""Means of windows and of whole images, in one, two and three dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...op import LINEAR, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec
from ..core.special import widened
from ..numerics.summing import SHORT
from .formats import IMAGES, Formatted
from .pooling import RENAMED, Pooling
from .windows import Windows, check_cotangent, check_images, chunks

Array = np.ndarray[Any, Any]


FEW = 9
"""Windows of more elements are summed axis by axis: 32 by 32 in 64 steps, not in 1024."""


class AvgPooling(Pooling, abstract=True):
    """Poolings that take the mean of each window."""

    dependence = LINEAR
    count_include_pad: bool = attr(True, doc="Whether padding counts as elements that are 0.")

    def counts(self, windows: Windows, size: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """Return how many elements the mean of each window divides by."""
        total = np.ones((), dtype)
        for seen in windows.seen(size, self.count_include_pad):
            total = total[..., None] * seen.astype(dtype)
        return total

    @classmethod
    def cases(cls) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
        for shape, attrs in super().cases():
            yield shape, attrs
            if "padding" in attrs:
                yield shape, {**attrs, "count_include_pad": False}


class _AvgPool(AvgPooling, Formatted):
    onnx: ClassVar[OnnxRule | None] = OnnxRule("AveragePool", since=19, rename=RENAMED)

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return self.read(outs[0])

    def infer(self, x: TensorSpec) -> TensorSpec:
        return self.pooled(x)

    def forward(self, x: Any) -> Any:
        windows = self.windows(x.ndim - 2)
        n_out = tuple(map(int, windows.n_out(x.shape[2:])))
        padded = windows.padded(widened(x))
        padded = padded.reshape(-1, *padded.shape[2:])
        y = np.empty((len(padded), *n_out), padded.dtype)
        counts = self.counts(windows, x.shape[2:], y.dtype)
        for some in chunks(len(padded), 2 * padded[:1].nbytes):
            total = y[some]
            if windows.n_taps > FEW:
                part = padded[some]
                for axis, m in enumerate(n_out):
                    part = _total(windows.along(axis, part, m))
                total[...] = part
            else:
                _total(windows.slices(padded[some], n_out), total)
            total /= counts
        return y.reshape(*x.shape[:2], *n_out).astype(x.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (AvgPoolGrad(**self.settings())(gs[0], xs[0]),)


def _total(views: Iterator[Array], out: Array | None = None) -> Array:
    """Return the sum of views; of many, part by part and these by pairs, which loses no digits."""
    parts: list[Array] = []
    for done in itertools.count(1):
        view = next(views, None)
        if view is None:
            break
        part = view.copy() if parts or out is None else out
        if part is out:
            part[...] = view
        for another in itertools.islice(views, SHORT - 1):
            part += another
        parts.append(part)
        while done % 2 == 0:  # as a binary counter carries
            last = parts.pop()
            parts[-1] += last
            done //= 2
    while len(parts) > 1:
        last = parts.pop()
        parts[-1] += last
    return parts[0]


class AvgPool1d(_AvgPool):
    """Mean of each window.

    y[n, c] = Σ x[n, c] over the window / number of its elements

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[1.0, 2.0, 3.0, 5.0]]])
    >>> g.output({}, gw.cnn.avg_pool1d(x, 2))["avg_pool1d"].tolist()
    [[[1.5, 4.0]]]
    """

    n_axes = 1
    data_format: str = IMAGES[1]


class AvgPool2d(_AvgPool):
    """Mean of each window.

    y[n, c] = Σ x[n, c] over the window / number of its elements

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.avg_pool2d(x, 2))["avg_pool2d"].tolist()
    [[[[2.5]]]]
    """

    n_axes = 2
    data_format: str = IMAGES[2]


class AvgPool3d(_AvgPool):
    """Mean of each window.

    y[n, c] = Σ x[n, c] over the window / number of its elements

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[[1.0, 2.0], [3.0, 4.0]]]]])
    >>> g.output({}, gw.cnn.avg_pool3d(x, (1, 2, 2)))["avg_pool3d"].tolist()
    [[[[[2.5]]]]]
    """

    n_axes = 3
    data_format: str = IMAGES[3]


class AvgPoolGrad(AvgPooling):
    """Cotangent of a mean over windows: spread evenly over each window's elements.

    dx = Σ over windows that contain an element, of g / number of the window's elements

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> dy, x = g.constant([[[[4.0]]]]), g.constant([[[[0.0] * 2] * 2]])
    >>> g.output({}, AvgPoolGrad(kernel_size=2)(dy, x, name="dx"))["dx"].tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]
    """

    namespace = "gradient"
    drawing = "math"
    shape_only = (1,)

    def infer(self, g: TensorSpec, x: TensorSpec) -> TensorSpec:
        check_cotangent(g, self.pooled(x))
        return g.with_shape(x.shape)

    def forward(self, g: Any, x: Any) -> Any:
        windows = self.windows(x.ndim - 2)
        n_out, size = g.shape[2:], x.shape[2:]
        part = widened(g)
        part = (part / self.counts(windows, size, part.dtype)).reshape(-1, *n_out)
        padded = np.zeros((len(part), *windows.padded_size(size)), part.dtype)
        for some in chunks(len(part), padded[:1].nbytes):
            if windows.n_taps > FEW:
                spread = part[some]
                for axis, n in enumerate(padded.shape[1:]):
                    shape = (*spread.shape[: axis + 1], n, *spread.shape[axis + 2 :])
                    wider = np.zeros(shape, spread.dtype)
                    for view in windows.along(axis, wider, n_out[axis]):
                        view += spread
                    spread = wider
                padded[some] = spread
            else:
                for view in windows.slices(padded[some], n_out):
                    view += part[some]
        dx = windows.cropped(padded.reshape(*x.shape[:2], *padded.shape[1:]), size)
        return dx.astype(g.dtype, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        pool = {3: AvgPool1d, 4: AvgPool2d, 5: AvgPool3d}[xs[1].rank]
        return pool(**self.attributes())(gs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, attrs in cls.cases():
            g = cls(**attrs).pooled(TensorSpec(shape)).shape
            yield Sample((rng.standard_normal(g), np.zeros(shape)), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((1, 1, 4, 4))
        yield ErrorSample((x, x), {"kernel_size": 2}, "the cotangent does not fit")


# -- whole images ------------------------------------------------------------------------------


class _GlobalPool(Op):
    """All elements of each channel become one number."""

    namespace = "cnn"

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_images(self, x)
        return x.with_shape((*x.shape[:2], *(1,) * (x.rank - 2)))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 2, 4)),))
        yield Sample((rng.standard_normal((0, 3, 2)),))
        yield Sample((rng.standard_normal((1, 2, 2, 1, 2)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {}, "takes images")


class GlobalAvgPool(_GlobalPool):
    """Mean of each channel (Lin, Chen and Yan 2013), over any number of spatial axes.

    y[n, c, 0, …] = mean x[n, c]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.global_avg_pool(x))["global_avg_pool"].tolist()
    [[[[2.5]]]]
    """

    onnx = OnnxRule("GlobalAveragePool", since=1)

    def expand(self, x: Any) -> Any:
        return x.mean(tuple(range(2, x.rank)), keepdims=True)


class GlobalMaxPool(_GlobalPool):
    """Largest element of each channel, over any number of spatial axes.

    y[n, c, 0, …] = max x[n, c]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.global_max_pool(x))["global_max_pool"].tolist()
    [[[[4.0]]]]
    """

    onnx = OnnxRule("GlobalMaxPool", since=1)

    def expand(self, x: Any) -> Any:
        return x.max(tuple(range(2, x.rank)), keepdims=True)

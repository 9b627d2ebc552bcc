"""Further poolings, their inverse, and normalisation over neighbouring channels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import LINEAR, ZERO, Autocast, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import AnyDim, TensorSpec, kind, shapes_differ
from ..core.choice import Where
from ..core.movement import Cast
from ..core.scatter import TakeAlongAxis
from ..core.statistics import Norm
from .averages import AvgPool1d, AvgPool2d, AvgPool3d
from .formats import IMAGES, Formatted
from .pooling import RENAMED, MaxPooling, Pooling, Untap, largest
from .windows import check_images, per_axis, read_padding


class MaxPoolWithArgmax(MaxPooling):
    """Largest element of each window, and where in the whole tensor it was.

    y[n, c, p] = max x[n, c] over the window, places = row-major numbers of the winners in x

    With ``column_major`` the places count spatial axes in column-major order, as ONNX's
    ``storage_order`` does. Any number of spatial axes.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, at = gw.cnn.max_pool_with_argmax(g.constant([[[1.0, 2.0, 4.0, 3.0]]]), 2)
    >>> [v.tolist() for v in g.output({}, y, at).values()]
    [[[[2.0, 4.0]]], [[[1, 2]]]]
    """

    returns = "y", "places"
    n_public = 2
    column_major: bool = attr(False, doc="Whether places count the last spatial axis slowest.")
    onnx = OnnxRule("MaxPool", since=12, rename={**RENAMED, "column_major": "storage_order"})

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        y, tap = super().infer(x)
        return y, y.with_dtype("int64"), tap

    def forward(self, x: Any) -> Any:
        windows, size = self.windows(x.ndim - 2), x.shape[2:]
        y, tap = largest(windows, x)
        rest, n = tap.astype(np.int64), len(size)
        coordinates = []
        for i in reversed(range(n)):
            rest, step = np.divmod(rest, int(windows.kernel[i]))
            start = np.arange(y.shape[i + 2]) * windows.stride[i] - windows.pads(size)[i][0]
            at = step * windows.dilation[i] + start.reshape(-1, *(1,) * (n - 1 - i))
            coordinates.append(at)
        if not self.column_major:
            coordinates.reverse()
            steps = size
        else:
            steps = size[::-1]
        place = np.arange(math.prod(x.shape[:2])).reshape(*x.shape[:2], *(1,) * n)
        for m, at in zip(steps, coordinates, strict=True):
            place = place * m + at
        return y, np.broadcast_to(place, y.shape), tap

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        settings = self.attributes()
        del settings["column_major"]
        return (ZERO if gs[0] is ZERO else Untap(**settings)(gs[0], ys[2], xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        x = rng.permutation(np.arange(24.0)).reshape(1, 2, 3, 4)
        yield Sample((x,), {"kernel_size": 2, "stride": 1, "padding": 1, "column_major": True})


class MaxUnpool(Op):
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
    """

    namespace = "cnn"
    n_public = 1
    dependence = LINEAR
    kernel_size: int | tuple[int, ...] = attr(doc="Size of the windows.")
    stride: int | tuple[int, ...] | None = attr(None, doc="Step; None is the kernel size.")
    padding: int | tuple[Any, ...] = attr(0, doc="Padding around the image.")
    output_size: tuple[AnyDim, ...] | None = attr(None, doc="Spatial size of the result.")
    onnx = OnnxRule(
        "MaxUnpool",
        since=9,
        rename={"kernel_size": "kernel_shape", "stride": "strides", "padding": "pads"},
        defaults={"stride": 1},
    )

    def size(self, given: Sequence[AnyDim]) -> tuple[AnyDim, ...]:
        """Return the spatial size of the result."""
        if self.output_size is not None:
            if len(self.output_size) != len(given):
                raise ShapeError(f"{self.output_size} is no size", need=f"{len(given)} sizes")
            return self.output_size
        n = len(given)
        kernel = per_axis(self.kernel_size, n, "kernel_size", 1)
        stride = kernel if self.stride is None else per_axis(self.stride, n, "stride", 1)
        pads: Any = read_padding(self.padding, n)
        return tuple(
            (m - 1) * s + k - sum(p) for m, k, s, p in zip(given, kernel, stride, pads, strict=True)
        )

    def infer(self, x: TensorSpec, indices: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        check_images(self, x, None, "fciu")
        if kind(indices.dtype) not in "iu":
            raise DTypeError(f"indices are integers, not {indices.dtype}", need="i64, as x's shape")
        if shapes_differ(x.shape, indices.shape):
            raise ShapeError("indices do not fit the elements", need=f"the shape {x.shape}")
        size = self.size(x.shape[2:])
        if any(isinstance(n, int) and n < 1 for n in size):
            raise ShapeError(f"nothing is left of a result of size {size}", need="sizes above 0")
        return x.with_shape((*x.shape[:2], *size)), x.with_dtype("int64")

    def forward(self, x: Any, indices: Any) -> Any:
        size = tuple(map(int, self.size(x.shape[2:])))
        images, n = math.prod(x.shape[:2]), math.prod(size)
        within = indices.reshape(images, math.prod(x.shape[2:])) % n
        at = within + np.arange(images)[:, None] * n
        y = np.zeros(images * n, x.dtype)
        y[at] = x.reshape(at.shape)
        last = np.zeros(images * n, np.int64)
        number = np.arange(at.size).reshape(at.shape)
        last[at] = number
        stays = np.where(last[at] == number, within, -1)  # only what stays has a gradient
        return y.reshape(*x.shape[:2], *size), stays.reshape(x.shape)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        found = TakeAlongAxis(axis=2)(gs[0].flatten(2), ys[1].flatten(2))
        return Where()(ys[1] >= 0, found.reshape(xs[0].shape), 0.0), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        x, at = draw((2, 1, 1, 2)), np.array([[[[0, 5]]], [[[10, 15]]]])
        yield Sample((x, at), {"kernel_size": 2})
        yield Sample((draw((1, 1, 3)), np.array([[[1, 1, 3]]])), {"kernel_size": 2, "stride": 1})
        yield Sample(
            (draw((1, 2, 1)), np.array([[[4], [0]]])), {"kernel_size": 2, "output_size": (5,)}
        )
        yield Sample((draw((0, 1, 2)), np.zeros((0, 1, 2), np.int64)), {"kernel_size": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((1, 1, 2, 2))
        yield ErrorSample((x, x), {"kernel_size": 2}, "indices are integers")
        at = TensorSpec((1, 1, 2, 3), "int64")
        yield ErrorSample((x, at), {"kernel_size": 2}, "indices do not fit")
        at = TensorSpec((1, 1, 2, 2), "int64")
        yield ErrorSample((x, at), {"kernel_size": 2, "output_size": (4,)}, "(4,) is no size")
        yield ErrorSample((x, at), {"kernel_size": 2, "padding": 2}, "nothing is left")


class _LpPool(Pooling, Formatted):
    """Norms of windows."""

    p: int = attr(2, doc="Exponent of the norm, 1 or more.")
    onnx: ClassVar[OnnxRule | None] = OnnxRule(
        "LpPool", since=18, rename=RENAMED, defaults={"stride": 1}
    )

    def infer(self, x: TensorSpec) -> TensorSpec:
        if self.p < 1:
            raise GraphError(f"p={self.p} makes no norm", need="p >= 1")
        return self.pooled(x)

    def expand(self, x: Any) -> Any:
        if x.dtype.itemsize < 4:
            return Cast(dtype=x.dtype)(self(Cast(dtype="float32")(x)))
        settings = self.settings()
        p = settings.pop("p")
        n = x.rank - 2
        pool = {1: AvgPool1d, 2: AvgPool2d, 3: AvgPool3d}[n]
        powers = x * x if p == 2 else abs(x) if p == 1 else abs(x) ** p
        taps = math.prod(per_axis(self.kernel_size, n, "kernel_size", 1))
        counted = pool(**settings, count_include_pad=True)
        total = counted(powers) * taps
        if p == 1:
            return total
        # The norm of nothing has no slope: 0, as norms have it, rather than infinity.
        empty = total == 0
        root = Where()(empty, 1.0, total) ** (1 / p)
        return Where()(empty, 0.0, root)

    @classmethod
    def cases(cls) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
        n = cls.n_axes or 2
        yield (2, 1, 5, 4, 2)[: n + 2], {"kernel_size": 2}
        yield (1, 2, 4, 3, 2)[: n + 2], {"kernel_size": 2, "stride": 1, "padding": 1, "p": 3}
        yield (0, 2, 4, 3, 2)[: n + 2], {"kernel_size": 2, "p": 1}

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for shape, attrs in cls.cases():
            yield Sample((rng.uniform(0.5, 2, shape) * rng.choice((-1, 1), shape),), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        x = TensorSpec((1, 1, *(4,) * (cls.n_axes or 2)))
        yield ErrorSample((x,), {"kernel_size": 2, "p": 0}, "makes no norm")


class LpPool1d(_LpPool):
    """Norm of each window (Gulcehre et al. 2014).

    y[n, c] = (Σ |x[n, c]|ᵖ over the window)^(1/p), padding counts as 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cnn.lp_pool1d(g.constant([[[3.0, 4.0]]]), 2))["lp_pool1d"].tolist()
    [[[5.0]]]
    """

    n_axes = 1
    data_format: str = IMAGES[1]


class LpPool2d(_LpPool):
    """Norm of each window (Gulcehre et al. 2014).

    y[n, c] = (Σ |x[n, c]|ᵖ over the window)^(1/p), padding counts as 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.lp_pool2d(g.constant([[[[3.0, 4.0]]]]), (1, 2))
    >>> g.output({}, y)["lp_pool2d"].tolist()
    [[[[5.0]]]]
    """

    n_axes = 2
    data_format: str = IMAGES[2]


class LpPool3d(_LpPool):
    """Norm of each window (Gulcehre et al. 2014).

    y[n, c] = (Σ |x[n, c]|ᵖ over the window)^(1/p), padding counts as 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.lp_pool3d(g.constant([[[[[3.0, 4.0]]]]]), (1, 1, 2))
    >>> g.output({}, y)["lp_pool3d"].tolist()
    [[[[[5.0]]]]]
    """

    n_axes = 3
    data_format: str = IMAGES[3]


class GlobalLpPool(Op):
    """Norm of each channel, over any number of spatial axes.

    y[n, c, 0, …] = (Σ |x[n, c]|ᵖ)^(1/p)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cnn.global_lp_pool(g.constant([[[3.0, 4.0]]])))["global_lp_pool"].tolist()
    [[[5.0]]]
    """

    namespace = "cnn"
    p: int = attr(2, doc="Exponent of the norm, 1 or more.")
    onnx = OnnxRule("GlobalLpPool", since=2)

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_images(self, x)
        if self.p < 1:
            raise GraphError(f"p={self.p} makes no norm", need="p >= 1")
        return x.with_shape((*x.shape[:2], *(1,) * (x.rank - 2)))

    def expand(self, x: Any) -> Any:
        axes = tuple(range(2, x.rank))
        return Norm(axis=axes, keepdims=True, ord=float(self.p))(x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 1, 2, 3)),))
        yield Sample((rng.standard_normal((0, 1, 2)),), {"p": 1})
        yield Sample((rng.standard_normal((1, 2, 2, 1, 2)),), {"p": 3})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {}, "takes images")
        yield ErrorSample((TensorSpec((2, 3, 4)),), {"p": 0}, "makes no norm")


class LocalResponseNorm(Formatted):
    """Elements divided by what neighbouring channels have at their place (Krizhevsky et al. 2012).

    y[n, c] = x[n, c] / (bias + alpha/size · Σ x[n, d]²)^beta, d in size channels around c

    The window reaches from c − ⌊(size − 1)/2⌋ to c + ⌈(size − 1)/2⌉, as in ONNX.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.local_response_norm(g.constant([[[3.0]]]), 1, alpha=1.0, beta=0.5)
    >>> round(g.output({}, y)["local_response_norm"].item(), 4)
    0.9487
    """

    namespace = "cnn"
    autocast = Autocast.STATISTIC
    size: int = attr(doc="How many channels are neighbours.")
    alpha: float = attr(1e-4, doc="Weight of the mean of squares.")
    beta: float = attr(0.75, doc="Exponent.")
    bias: float = attr(1.0, doc="What is added to the mean.")
    data_format: str = IMAGES[2]
    onnx = OnnxRule("LRN", since=1)

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_images(self, x)
        if self.size < 1:
            raise GraphError(f"size={self.size} is no number of channels", need="size >= 1")
        return x.with_shape(x.shape)

    def expand(self, x: Any) -> Any:
        if x.dtype.itemsize < 4:
            return Cast(dtype=x.dtype)(self(Cast(dtype="float32")(x)))
        rows = (x * x).flatten(2).reshape(x.shape[0], 1, x.shape[1], math.prod(x.shape[2:]))
        around = ((self.size - 1) // 2, self.size // 2)
        means = AvgPool2d(kernel_size=(self.size, 1), stride=1, padding=(around, (0, 0)))(rows)
        return x * (means.reshape(x.shape) * self.alpha + self.bias) ** -self.beta

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 5, 2)),), {"size": 4, "alpha": 0.5})
        yield Sample((rng.standard_normal((1, 3, 1, 2)),), {"size": 3, "beta": 1.0, "alpha": 0.3})
        yield Sample((rng.standard_normal((0, 3, 1, 2)),), {"size": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"size": 2}, "takes images")
        yield ErrorSample((TensorSpec((2, 3, 4)),), {"size": 0}, "no number of channels")

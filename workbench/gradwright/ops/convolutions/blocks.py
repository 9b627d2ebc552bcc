"""Blocks of neighbouring elements moved into the channels or the batch, and back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import ShapeError
from ...op import LINEAR, Cotangent, ErrorSample, OnnxRule, Sample, attr
from ...spec import AnyDim, TensorSpec
from ..core.padding import Pad
from .averages import AvgPool1d, AvgPool2d, AvgPool3d
from .formats import IMAGES, Formatted
from .windows import check_images, per_axis

KINDS = "fcbiu"


def _blocks(sizes: Sequence[AnyDim], block: Sequence[int]) -> list[AnyDim]:
    """Return n, b, … for sizes that are n·b, ….

    An int that is no multiple is refused; a dim is taken to be one, which the plan checks.
    """
    out: list[AnyDim] = []
    for axis, (n, b) in enumerate(zip(sizes, block, strict=True), 2):
        if isinstance(n, int) and n % b:
            raise ShapeError(f"axis {axis} does not split into blocks", need=f"{b}·n, got {n}")
        out += [n // b, b]
    return out


class SpaceToDepth(Formatted):
    """Blocks of images become channels.

    y[n, (i·b + j)·C + c, p, q] = x[n, c, p·b + i, q·b + j]

    x: f32[N, C, H·b, W·b], y: f32[N, C·b², H, W], or with any number of spatial axes. Mode "crd"
    puts the old channel first: c·b² + i·b + j.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.space_to_depth(x, 2))["space_to_depth"].tolist()
    [[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]]
    """

    namespace = "cnn"
    block_size: int = attr(doc="Size of the blocks along each axis.")
    mode: str = attr("dcr", doc="Which is first, place or channel.", choices=("dcr", "crd"))
    data_format: str = IMAGES[2]
    onnx = OnnxRule("SpaceToDepth", since=1, rename={"block_size": "blocksize"})

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_images(self, x, None, KINDS)
        n, b = x.rank - 2, per_axis(self.block_size, 1, "block_size", 1)[0]
        parts = _blocks(x.shape[2:], (b,) * n)
        return x.with_shape((x.shape[0], x.shape[1] * b**n, *parts[::2]))

    def expand(self, x: Any) -> Any:
        n, b = x.rank - 2, self.block_size
        parts = _blocks(x.shape[2:], (b,) * n)
        cut = x.reshape(*x.shape[:2], *parts)  # N, C, n₁, b, n₂, b, …
        inner, outer = range(3, 2 * n + 2, 2), range(2, 2 * n + 2, 2)
        first = (*inner, 1) if self.mode == "dcr" else (1, *inner)
        return cut.transpose(0, *first, *outer).reshape(x.shape[0], x.shape[1] * b**n, *parts[::2])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 4, 2)),), {"block_size": 2})
        yield Sample((rng.standard_normal((1, 2, 6)),), {"block_size": 3, "mode": "crd"})
        yield Sample((rng.standard_normal((0, 1, 2, 2, 2)),), {"block_size": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((1, 3)),), {"block_size": 2}, "takes images")
        yield ErrorSample((TensorSpec((1, 3, 4, 3)),), {"block_size": 2}, "does not split")
        yield ErrorSample((TensorSpec((1, 3, 4, 3)),), {"block_size": 0}, "is not understood")


class DepthToSpace(Formatted):
    """Channels become blocks of larger images (Shi et al. 2016).

    y[n, c, p·b + i, q·b + j] = x[n, (i·b + j)·C + c, p, q]

    x: f32[N, C·b², H, W], y: f32[N, C, H·b, W·b], or with any number of spatial axes. Mode "crd"
    reads the channel c·b² + i·b + j, as a pixel shuffle does.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]])
    >>> g.output({}, gw.cnn.depth_to_space(x, 2))["depth_to_space"].tolist()
    [[[[1.0, 2.0], [3.0, 4.0]]]]
    """

    namespace = "cnn"
    block_size: int = attr(doc="Size of the blocks along each axis.")
    mode: str = attr("dcr", doc="Which is first, place or channel.", choices=("dcr", "crd"))
    data_format: str = IMAGES[2]
    onnx = OnnxRule("DepthToSpace", since=11, rename={"block_size": "blocksize"})

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_images(self, x, None, KINDS)
        b = per_axis(self.block_size, 1, "block_size", 1)[0]
        places = b ** (x.rank - 2)
        if isinstance(x.shape[1], int) and x.shape[1] % places:
            raise ShapeError("channels do not make blocks", need=f"{places}·n, got {x.shape[1]}")
        return x.with_shape((x.shape[0], x.shape[1] // places, *(d * b for d in x.shape[2:])))

    def expand(self, x: Any) -> Any:
        n, b, size = x.rank - 2, self.block_size, x.shape[2:]
        channels = x.shape[1] // b**n
        dcr = self.mode == "dcr"
        split = (*(b,) * n, channels) if dcr else (channels, *(b,) * n)
        cut = x.reshape(x.shape[0], *split, *size)
        first = 1 if dcr else 2  # where the places in a block stand
        pairs = (axis for i in range(n) for axis in (n + 2 + i, first + i))
        moved = cut.transpose(0, n + 1 if dcr else 1, *pairs)
        return moved.reshape(x.shape[0], channels, *(d * b for d in size))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 8, 3, 1)),), {"block_size": 2})
        yield Sample((rng.standard_normal((1, 6, 2)),), {"block_size": 3, "mode": "crd"})
        yield Sample((rng.standard_normal((0, 8, 1, 2, 1)),), {"block_size": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((1, 3)),), {"block_size": 2}, "takes images")
        yield ErrorSample((TensorSpec((1, 3, 4, 3)),), {"block_size": 2}, "do not make blocks")


class _Batched(Formatted):
    """Blocks of images that become a batch's images of their own, or come from such."""

    namespace = "cnn"
    block_size: int | tuple[int, ...] = attr(doc="Size of the blocks, for all axes or per axis.")

    def block(self, x: TensorSpec) -> tuple[int, ...]:
        """Return the size of the blocks along each axis."""
        check_images(self, x, None, KINDS)
        return per_axis(self.block_size, x.rank - 2, "block_size", 1)


class SpaceToBatch(_Batched):
    """Blocks of images become images of the batch: of each block the i-th element goes to the i-th.

    y[(i·b + j)·N + n, c, p, q] = x[n, c, p·b + i, q·b + j], after padding with zeros

    x: f32[N, C, H·b, W·b], y: f32[N·b², C, H, W], or with any number of spatial axes.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> g.output({}, gw.cnn.space_to_batch(x, 2))["space_to_batch"].tolist()
    [[[[1.0]]], [[[2.0]]], [[[3.0]]], [[[4.0]]]]
    """

    padding: tuple[tuple[int, int], ...] | None = attr(None, doc="(before, after) per axis.")
    data_format: str = IMAGES[2]

    def pads(self, x: TensorSpec) -> Pad:
        """Return the padding of all axes."""
        return Pad(pad_width=((0, 0), (0, 0), *(self.padding or ((0, 0),) * (x.rank - 2))))

    def infer(self, x: TensorSpec) -> TensorSpec:
        block = self.block(x)
        parts = _blocks(self.pads(x).infer(x).shape[2:], block)
        return x.with_shape((x.shape[0] * math.prod(block), x.shape[1], *parts[::2]))

    def expand(self, x: Any) -> Any:
        block, n = self.block(x.spec), x.rank - 2
        if self.padding:
            x = self.pads(x.spec)(x)
        parts = _blocks(x.shape[2:], block)
        cut = x.reshape(*x.shape[:2], *parts)
        inner, outer = range(3, 2 * n + 2, 2), range(2, 2 * n + 2, 2)
        batch = x.shape[0] * math.prod(block)
        return cut.transpose(*inner, 0, 1, *outer).reshape(batch, x.shape[1], *parts[::2])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 4, 2)),), {"block_size": 2})
        padded = {"block_size": (2, 3), "padding": ((1, 0), (0, 2))}
        yield Sample((rng.standard_normal((1, 2, 3, 4)),), padded)
        yield Sample((rng.standard_normal((0, 1, 2)),), {"block_size": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((1, 3, 4, 3))
        yield ErrorSample((TensorSpec((1, 3)),), {"block_size": 2}, "takes images")
        yield ErrorSample((x,), {"block_size": 2}, "does not split")
        yield ErrorSample((x,), {"block_size": (2, 0)}, "is not understood")
        yield ErrorSample((x,), {"block_size": 2, "padding": ((0, 1),)}, "does not fit rank")


class BatchToSpace(_Batched):
    """Images of a batch become the elements of blocks: the inverse of :func:`space_to_batch`.

    y[n, c, p·b + i, q·b + j] = x[(i·b + j)·N + n, c, p, q], then ``crops`` are cut off

    x: f32[N·b², C, H, W], y: f32[N, C, H·b, W·b], or with any number of spatial axes.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0]]], [[[2.0]]], [[[3.0]]], [[[4.0]]]])
    >>> g.output({}, gw.cnn.batch_to_space(x, 2))["batch_to_space"].tolist()
    [[[[1.0, 2.0], [3.0, 4.0]]]]
    """

    crops: tuple[tuple[int, int], ...] | None = attr(None, doc="(before, after) per axis.")
    data_format: str = IMAGES[2]

    def infer(self, x: TensorSpec) -> TensorSpec:
        block = self.block(x)
        images, whole = math.prod(block), x.shape[0]
        if isinstance(whole, int) and whole % images:
            raise ShapeError("the batch does not make blocks", need=f"{images}·n, got {whole}")
        crops = self.crops or ((0, 0),) * len(block)
        if len(crops) != len(block) or any(len(c) != 2 or min(c) < 0 for c in crops):
            raise ShapeError(f"crops={crops} is not understood", need="(before, after) per axis")
        size = [d * b - sum(c) for d, b, c in zip(x.shape[2:], block, crops, strict=True)]
        if any(isinstance(d, int) and d < 1 for d in size):
            raise ShapeError(f"nothing is left after crops {crops}", need="smaller crops")
        return x.with_shape((whole // images, x.shape[1], *size))

    def expand(self, x: Any) -> Any:
        block, n, size = self.block(x.spec), x.rank - 2, x.shape[2:]
        batch = x.shape[0] // math.prod(block)
        cut = x.reshape(*block, batch, x.shape[1], *size)
        pairs = (axis for i in range(n) for axis in (n + 2 + i, i))
        whole = [d * b for d, b in zip(size, block, strict=True)]
        y = cut.transpose(n, n + 1, *pairs).reshape(batch, x.shape[1], *whole)
        if self.crops:
            kept = (slice(a, d - b) for d, (a, b) in zip(whole, self.crops, strict=True))
            y = y[(slice(None), slice(None), *kept)]
        return y

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((8, 3, 2, 1)),), {"block_size": 2})
        cropped = {"block_size": (2, 3), "crops": ((1, 0), (0, 2))}
        yield Sample((rng.standard_normal((6, 2, 2, 2)),), cropped)
        yield Sample((rng.standard_normal((0, 1, 2)),), {"block_size": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((6, 3, 4, 3))
        yield ErrorSample((TensorSpec((1, 3)),), {"block_size": 2}, "takes images")
        yield ErrorSample((x,), {"block_size": 2}, "the batch does not make blocks")
        crops = {"block_size": (2, 3), "crops": ((4, 4), (0, 0))}
        yield ErrorSample((x,), crops, "nothing is left")
        yield ErrorSample((x,), {"block_size": (2, 3), "crops": ((1, 1),)}, "crops=((1, 1),)")


class _Upsampling(Formatted):
    """Each element becomes a block of equal ones."""

    namespace = "cnn"
    dependence = LINEAR
    n_axes: ClassVar[int] = 2
    scale: int | tuple[int, ...] = attr(2, doc="How often elements repeat, for all axes or each.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_images(self, x, self.n_axes, "fbiu")
        scale = per_axis(self.scale, self.n_axes, "scale", 1)
        size = (d * s for d, s in zip(x.shape[2:], scale, strict=True))
        return x.with_shape((*x.shape[:2], *size))

    def forward(self, x: Any) -> Any:
        for axis, s in enumerate(per_axis(self.scale, self.n_axes, "scale", 1), 2):
            x = np.repeat(x, s, axis)
        return x

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        scale = per_axis(self.scale, self.n_axes, "scale", 1)
        pool = {1: AvgPool1d, 2: AvgPool2d, 3: AvgPool3d}[self.n_axes]
        return (pool(kernel_size=scale)(gs[0]) * float(math.prod(scale)),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        n = cls.n_axes
        yield Sample((rng.standard_normal((2, 1, 3, 2, 1)[: n + 2]),), {"scale": 2})
        yield Sample((rng.standard_normal((0, 1, 1, 2, 1)[: n + 2]),), {"scale": (3, 1, 2)[:n]})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((1, 3)),), {"scale": 2}, "takes images")
        x = TensorSpec((1, 3, *(2,) * cls.n_axes))
        yield ErrorSample((x,), {"scale": 0}, "scale=0 is not understood")


class Upsampling1d(_Upsampling):
    """Each element of a signal repeats.

    y[n, c, p] = x[n, c, ⌊p/scale⌋]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cnn.upsampling1d(g.constant([[[1.0, 2.0]]])))["upsampling1d"].tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """

    n_axes = 1
    data_format: str = IMAGES[1]


class Upsampling2d(_Upsampling):
    """Each element of an image becomes a block.

    y[n, c, p, q] = x[n, c, ⌊p/scale⌋, ⌊q/scale⌋]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.cnn.upsampling2d(g.constant([[[[1.0]]]])))["upsampling2d"].tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]
    """

    n_axes = 2
    data_format: str = IMAGES[2]


class Upsampling3d(_Upsampling):
    """Each element of a volume becomes a block.

    y[n, c, p, q, r] = x[n, c, ⌊p/scale⌋, ⌊q/scale⌋, ⌊r/scale⌋]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.cnn.upsampling3d(g.constant([[[[[1.0]]]]]), (1, 1, 2))
    >>> g.output({}, y)["upsampling3d"].tolist()
    [[[[[1.0, 1.0]]]]]
    """

    n_axes = 3
    data_format: str = IMAGES[3]

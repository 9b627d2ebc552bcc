"""Random crops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...op import LINEAR, ZERO, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import AnyDim, TensorSpec
from ..convolutions.windows import check_cotangent
from ..draws import philox
from ..draws.random import KEY
from . import drawn  # noqa: F401 - functions that are more than the ops here

Array = np.ndarray[Any, Any]


class RandomCrop(Op):
    """A part of a tensor at a random place; the last axes are cropped.

    y[…, p, q] = x[…, a + p, b + q], a and b uniform among all places where the part fits

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1.0, 1.0, 1.0]])
    >>> g.output({}, gw.image.random_crop(x, (1, 2)))["random_crop"].tolist()
    [[1.0, 1.0]]
    """

    namespace = "image"
    dependence = LINEAR
    size: tuple[AnyDim, ...] = attr(doc="Size of the part along the last axes.")
    stream: int = attr(0, doc="Random stream, given by the graph.")

    def infer(self, rng: TensorSpec, x: TensorSpec) -> TensorSpec:
        if rng.dtype != KEY.dtype or rng.rank != 1:
            raise ShapeError(f"{self.name} needs a random key, got {rng}", need="g.rng: u64[2]")
        n = len(self.size)
        if not n or n > x.rank:
            raise ShapeError(f"size={self.size} does not fit {x}", need="a size per last axis")
        for axis, (have, want) in enumerate(zip(x.shape[-n:], self.size, strict=True), -n):
            both = isinstance(have, int) and isinstance(want, int)
            if isinstance(want, int) and (want < 0 or (both and want > have)):  # type: ignore[operator]
                raise ShapeError(
                    f"a crop of {want} does not fit axis {axis}", need=f"0 <= size <= {have}"
                )
        return x.with_shape((*x.shape[: x.rank - n], *self.size))

    def part(self, rng: Array, shape: Sequence[int]) -> tuple[Any, ...]:
        """Return the index of the part."""
        n = len(self.size)
        u = philox.uniform(rng, self.stream, n, np.dtype(np.float64))
        slices = []
        for have, want, chance in zip(shape[-n:], map(int, self.size), u, strict=True):
            start = int(chance * (have - want + 1))
            slices.append(slice(start, start + want))
        return (..., *slices)

    def forward(self, rng: Any, x: Any) -> Any:
        return x[self.part(rng, x.shape)].copy()

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, RandomCropGrad(**self.attributes())(xs[0], gs[0], xs[1])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        key = np.array([7, 3], np.uint64)
        yield Sample((key, rng.standard_normal((2, 4, 5))), {"size": (2, 3)})
        yield Sample((key, rng.standard_normal((4,))), {"size": (4,), "stream": 2})
        yield Sample((key, rng.standard_normal((2, 3))), {"size": (0, 1)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 3))
        yield ErrorSample((x, x), {"size": (1, 1)}, "needs a random key")
        yield ErrorSample((KEY, x), {"size": (1, 1, 1)}, "does not fit")
        yield ErrorSample((KEY, x), {"size": (3, 1)}, "a crop of 3 does not fit axis -2")


class RandomCropGrad(RandomCrop):
    """Zeros in the shape of ``x``, with ``g`` at the place of a random crop.

    dx[…, a + p, b + q] = g[…, p, q], 0 elsewhere

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> dy, x = g.constant([1.0, 2.0]), g.constant([0.0, 0.0])
    >>> g.output({}, RandomCropGrad(size=(2,))(g.rng, dy, x, name="dx"))["dx"].tolist()
    [1.0, 2.0]
    """

    namespace = "gradient"
    shape_only = (2,)

    def infer(self, rng: TensorSpec, g: TensorSpec, x: TensorSpec) -> TensorSpec:  # type: ignore[override]
        check_cotangent(g, super().infer(rng, x))
        return g.with_shape(x.shape)

    def forward(self, rng: Any, g: Any, x: Any) -> Any:  # type: ignore[override]
        dx = np.zeros(x.shape, g.dtype)
        dx[self.part(rng, x.shape)] = g
        return dx

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, RandomCrop(**self.attributes())(xs[0], gs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in RandomCrop.samples(rng):
            key, x = sample.inputs
            shape = RandomCrop(**sample.attrs).infer(KEY, TensorSpec(x.shape)).shape
            yield Sample((key, rng.standard_normal(shape), x), sample.attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((2, 3))
        yield ErrorSample((KEY, x, x), {"size": (1, 1)}, "the cotangent does not fit")

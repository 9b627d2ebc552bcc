"""Banded matrices along the axes of images: resizing and adaptive means are linear and separable.

Each element of a result depends on a short range of the input. Sixty-four rows of such a matrix at
a time make a small dense one, which BLAS applies: 2·(range + 64·in/out) operations per element,
whatever the size, and the transpose, which is the gradient, costs as much.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ...op import LINEAR, ZERO, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec
from ..core.special import widened
from ..numerics.products import product
from .windows import check_cotangent

Array = np.ndarray[Any, Any]

ROWS = 64


class Bands:
    """A matrix whose row i has weights[i, k] in column index[i, k]; equal columns add up."""

    def __init__(self, index: Array, weight: Array, n_in: int) -> None:
        self.n_in, self.n_out = n_in, len(index)
        self._parts: dict[Any, list[tuple[slice, slice, Array]]] = {}
        self._index, self._weight = index, weight

    def parts(self, dtype: np.dtype[Any]) -> list[tuple[slice, slice, Array]]:
        """Return rows, columns and the dense matrix of each part, made once per dtype."""
        if dtype not in self._parts:
            ratio = self.n_out / max(self.n_in, 1)
            step = max(8, min(ROWS, int(ROWS * ratio)))
            self._parts[dtype] = [
                self._part(slice(i, min(i + step, self.n_out)), dtype)
                for i in range(0, self.n_out, step)
            ]
        return self._parts[dtype]

    def _part(self, rows: slice, dtype: np.dtype[Any]) -> tuple[slice, slice, Array]:
        index, weight = self._index[rows], self._weight[rows]
        used = index[weight != 0]
        start, stop = (int(used.min()), int(used.max()) + 1) if used.size else (0, 0)
        dense = np.zeros((len(index), stop - start))
        at = np.arange(len(index))[:, None] + np.zeros_like(index)
        inside = weight != 0
        np.add.at(dense, (at[inside], index[inside] - start), weight[inside])
        return rows, slice(start, stop), dense.astype(dtype)

    def apply(self, x: Array, axis: int, *, back: bool = False) -> Array:
        """Return the matrix (``back``: its transpose) times ``x`` along an axis."""
        lead, n, rest = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
        m = self.n_in if back else self.n_out
        last = math.prod(rest) == 1
        size = (math.prod(lead), n) if last else (math.prod(lead), n, math.prod(rest))
        flat: Array = x.reshape(size)
        if not x.size:
            return np.zeros((*lead, m, *rest), x.dtype)
        y = np.zeros((size[0], m, *size[2:]), x.dtype)
        for rows, columns, dense in self.parts(x.dtype):
            take, give = (rows, columns) if back else (columns, rows)
            matrix = dense.T if back else dense
            some = flat[:, take]
            part = product(some, matrix.T) if last else product(matrix, some)
            if back:
                y[:, give] += part
            else:
                y[:, give] = part
        return y.reshape(*lead, m, *rest)


@functools.lru_cache(maxsize=128)
def cached(make: Callable[..., Bands], *settings: Any) -> Bands:
    """Return the matrix that ``make`` makes of some settings; the latest are kept."""
    return make(*settings)


class AlongAxes(Op, abstract=True):
    """An op that applies a banded matrix along each of some axes."""

    def bands(self, shape: Sequence[int]) -> Mapping[int, Bands]:
        """Return the matrix of each axis that has one."""
        raise NotImplementedError

    def linear(self) -> Op:
        """Return the op without constants that it may add: what its gradient is made of."""
        return self

    def forward(self, x: Any) -> Any:
        bands = self.bands(x.shape)
        y = widened(x)
        for axis in sorted(bands, key=lambda a: bands[a].n_out / max(bands[a].n_in, 1)):
            y = bands[axis].apply(y, axis)
        return y.astype(x.dtype) if bands else x.copy()

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (AlongAxesGrad(of=self.linear())(gs[0], xs[0]),)


class AlongAxesGrad(Op):
    """Cotangent of an op that is linear along axes: its matrices transposed.

    dx = (… ⊗ W₂ᵀ ⊗ W₁ᵀ) g; x gives the shape

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> dy, x = g.constant([[[6.0]]]), g.constant([[[0.0, 0.0]]])
    >>> pool = gw.op.find_op("adaptive_avg_pool1d")(output_size=1)
    >>> g.output({}, AlongAxesGrad(of=pool)(dy, x, name="dx"))["dx"].tolist()
    [[[3.0, 3.0]]]
    """

    namespace = "gradient"
    drawing = "math"
    shape_only = (1,)
    dependence = LINEAR
    of: Op = attr(doc="The op whose cotangent this is.")
    example: ClassVar[type[AlongAxes]]

    def infer(self, g: TensorSpec, x: TensorSpec) -> TensorSpec:
        check_cotangent(g, self.of.infer(x))
        return g.with_shape(x.shape)

    def forward(self, g: Any, x: Any) -> Any:
        bands: Mapping[int, Bands] = self.of.bands(x.shape)  # type: ignore[attr-defined]
        y = widened(g)
        for axis in sorted(bands, key=lambda a: bands[a].n_in / max(bands[a].n_out, 1)):
            y = bands[axis].apply(y, axis, back=True)
        return y.astype(g.dtype) if bands else g.copy()

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return self.of(gs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in cls.example.samples(rng):
            op = cls.example(**sample.attrs)
            x = sample.inputs[0]
            g = rng.standard_normal(op.infer(TensorSpec(x.shape)).shape)
            yield Sample((g, x), {"of": op})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((1, 1, 4))
        of = cls.example(output_size=2)
        yield ErrorSample((x, x), {"of": of}, "the cotangent does not fit")

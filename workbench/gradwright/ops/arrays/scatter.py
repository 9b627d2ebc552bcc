"""Scatter that subtracts, multiplies, divides, and keeps the larger or smaller.

Places lie along an axis, or are whole coordinates. Several updates of one place all count, in any
order; the gradients of products are right at zeros, and equal extremes share theirs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError
from ...op import ELEMENT, OPAQUE, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample
from ...spec import TensorSpec, kind
from ..core.elementwise import promoted
from ..core.like import IotaLike, OnesLike, ReshapeLike
from ..core.movement import Cast, alike
from ..core.reshape import Flatten
from ..core.scatter import _Along, _Nd, _Scatter
from ..core.special import widened
from .unsorted import UnsortedSegmentProd


class _Counting(_Scatter):
    """Change numbers at the places, which bools are not."""

    def infer(self, x: TensorSpec, indices: TensorSpec, updates: TensorSpec) -> TensorSpec:
        spec = super().infer(x, indices, updates)
        if kind(spec.dtype) == "b":
            raise DTypeError(f"{self.name} does not take bool", hint="gw.cast(x, 'int32')")
        return spec


class _Sub(_Counting):
    """Subtract at the places."""

    def expand(self, x: Any, indices: Any, updates: Any) -> Any:
        x, updates = alike(x, updates)
        return x - self.sibling(1)(updates, indices, x)


class _Mul(_Counting):
    """Multiply at the places."""

    def expand(self, x: Any, indices: Any, updates: Any) -> Any:
        x, updates = alike(x, updates)
        number = self.sibling(0)(IotaLike()(x), indices)
        n = math.prod(x.shape)
        factor = UnsortedSegmentProd(num_segments=n)(Flatten()(updates), Flatten()(number))
        return x * ReshapeLike()(factor, x)


class _Div(_Scatter):
    """Divide at the places."""

    multiply: ClassVar[type[Op]]

    def infer(self, x: TensorSpec, indices: TensorSpec, updates: TensorSpec) -> TensorSpec:
        spec = super().infer(x, indices, updates)
        if kind(spec.dtype) not in "fc":
            raise DTypeError(f"{self.name} does not take {spec.dtype}", hint="gw.cast")
        return spec

    def expand(self, x: Any, indices: Any, updates: Any) -> Any:
        x, updates = alike(x, updates)
        return x / self.multiply(**self.attributes())(OnesLike()(x), indices, updates)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in super().samples(rng):
            x, indices, updates = sample.inputs
            yield Sample((x, indices, np.abs(updates) + 0.5), sample.attrs)


class _Choose(_Scatter):
    """Keep the larger or the smaller at the places."""

    dependence = ELEMENT, OPAQUE
    chosen: ClassVar[np.ufunc]

    def infer(self, x: TensorSpec, indices: TensorSpec, updates: TensorSpec) -> TensorSpec:
        spec = super().infer(x, indices, updates)
        if kind(spec.dtype) not in "uif":
            raise DTypeError(f"{self.name} does not take {spec.dtype}")
        return spec

    def forward(self, x: Any, indices: Any, updates: Any) -> Any:
        joint = promoted(x, updates)
        y = widened(x.astype(joint))
        self.chosen.at(y, self.coordinates(x, indices), widened(updates.astype(joint, copy=False)))
        return y.astype(joint, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (y,), (x, indices, updates) = gs, ys, xs
        take, add = self.sibling(0), self.sibling(1)
        kept = Cast(dtype=g.dtype)(x == y)
        new = Cast(dtype=g.dtype)(updates == take(y, indices))
        share = g / (kept + add(new, indices, x))
        return share * kept, ZERO, take(share, indices) * new

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        x, tied = np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 4.0])
        places = np.array([0, 0, 1])
        if issubclass(cls, _Nd):
            places = places[:, None]
        yield Sample((x, places, tied), smooth=False)


class _Max(_Choose):
    chosen = np.maximum


class _Min(_Choose):
    chosen = np.minimum


_FLOATS = TensorSpec((2,)), TensorSpec((2,)), TensorSpec((2,))


class _AlongAxis(_Along):
    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample(_FLOATS, {}, "not integers")
        specs = TensorSpec((2, 3)), TensorSpec((2,), "int64"), TensorSpec((2,))
        yield ErrorSample(specs, {}, "ranks differ")


class _AtCoordinates(_Nd):
    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample(_FLOATS, {}, "not integers")
        specs = TensorSpec((2, 3)), TensorSpec((2, 1), "int64"), TensorSpec((2,))
        yield ErrorSample(specs, {}, "do not fit")


class ScatterSub(_AlongAxis, _Sub):
    """Subtract elements along an axis, at the places that ``indices`` name; repeated ones add up.

    y = x,  y[indices[i, j], j] −= updates[i, j] along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_sub(g.constant([9, 9, 9]), [2, 0, 2], [1, 2, 3], name="y")
    >>> g.output({}, y)["y"].tolist()
    [7, 9, 5]
    """


class ScatterMul(_AlongAxis, _Mul):
    """Multiply elements along an axis, at the places that ``indices`` name.

    y = x,  y[indices[i, j], j] *= updates[i, j] along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_mul(g.constant([1, 2, 3]), [2, 0, 2], [2, 3, 4], name="y")
    >>> g.output({}, y)["y"].tolist()
    [3, 2, 24]
    """

    onnx = OnnxRule("ScatterElements", since=18)


class ScatterDiv(_AlongAxis, _Div):
    """Divide elements along an axis, at the places that ``indices`` name.

    y = x,  y[indices[i, j], j] /= updates[i, j] along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_div(g.constant([1.0, 8.0]), [1, 1], [2.0, 4.0], name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.0, 1.0]
    """

    multiply = ScatterMul


class ScatterMax(_AlongAxis, _Max):
    """Raise elements along an axis to at least the updates at the places that ``indices`` name.

    y = x,  y[indices[i, j], j] = max(y[indices[i, j], j], updates[i, j]) along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_max(g.constant([1, 5]), [0, 1, 0], [3, 4, 2], name="y")
    >>> g.output({}, y)["y"].tolist()
    [3, 5]
    """

    onnx = OnnxRule("ScatterElements", since=18)


class ScatterMin(_AlongAxis, _Min):
    """Lower elements along an axis to at most the updates at the places that ``indices`` name.

    y = x,  y[indices[i, j], j] = min(y[indices[i, j], j], updates[i, j]) along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_min(g.constant([4, 5]), [0, 1, 0], [3, 6, 2], name="y")
    >>> g.output({}, y)["y"].tolist()
    [2, 5]
    """

    onnx = OnnxRule("ScatterElements", since=18)


class ScatterNdSub(_AtCoordinates, _Sub):
    """Subtract slices at the coordinates that ``indices`` hold; repeated places add up.

    y = x,  y[indices[i, 0], …, indices[i, n − 1], …] −= updates[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_nd_sub(g.constant([[9, 9], [9, 9]]), [[1], [1]], [[1, 2], [3, 4]], name="y")
    >>> g.output({}, y)["y"].tolist()
    [[9, 9], [5, 3]]
    """


class ScatterNdMul(_AtCoordinates, _Mul):
    """Multiply slices at the coordinates that ``indices`` hold.

    y = x,  y[indices[i, 0], …, indices[i, n − 1], …] *= updates[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_nd_mul(g.constant([[1, 2], [3, 4]]), [[1, 0], [1, 0]], [2, 5], name="y")
    >>> g.output({}, y)["y"].tolist()
    [[1, 2], [30, 4]]
    """

    onnx = OnnxRule("ScatterND", since=18)


class ScatterNdMax(_AtCoordinates, _Max):
    """Raise slices to at least the updates at the coordinates that ``indices`` hold.

    y = x,  y[indices[i, 0], …] = max(y[indices[i, 0], …], updates[i, …])

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_nd_max(g.constant([1, 5]), [[0], [1]], [3, 4], name="y")
    >>> g.output({}, y)["y"].tolist()
    [3, 5]
    """

    onnx = OnnxRule("ScatterND", since=18)


class ScatterNdMin(_AtCoordinates, _Min):
    """Lower slices to at most the updates at the coordinates that ``indices`` hold.

    y = x,  y[indices[i, 0], …] = min(y[indices[i, 0], …], updates[i, …])

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_nd_min(g.constant([1, 5]), [[0], [1]], [3, 4], name="y")
    >>> g.output({}, y)["y"].tolist()
    [1, 4]
    """

    onnx = OnnxRule("ScatterND", since=18)

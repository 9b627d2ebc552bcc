"""Gather and scatter at single places: along one axis, or by whole coordinates.

Each way to name places has three ops: one that takes elements from there, its transpose, which adds
elements up there in zeros (and is the gradient), and one that writes there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import ShapeError
from ...op import AFFINE, LINEAR, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import Dim, TensorSpec, broadcast, normalize_axis, promote, shapes_differ
from .choice import Where
from .elementwise import promoted
from .index import Array, add_rows, check_indices, places
from .like import IotaLike, ZerosLike
from .movement import Cast, alike


class _Places(Op):
    """How indices name places of a tensor; the ops below take from there, add up, and write."""

    namespace = "base"
    drawing = "shape"
    siblings: ClassVar[tuple[type[Op], type[Op], type[Op]]]
    """The ops that take, add up and write at places named in this way."""

    def taken(self, x: TensorSpec, indices: TensorSpec) -> TensorSpec:
        """Return the spec of what lies at the places."""
        raise NotImplementedError

    def coordinates(self, x: Any, indices: Any) -> tuple[Array, ...]:
        """Return index arrays of the leading axes of ``x``, which broadcast to the places."""
        raise NotImplementedError

    def sibling(self, number: int) -> Op:
        """Return the op that takes (0), adds up (1) or writes (2) at places named in this way."""
        return self.siblings[number](**self.attributes())

    def check_fits(self, x: TensorSpec, indices: TensorSpec, updates: TensorSpec) -> None:
        """Refuse updates that are not one for each place."""
        taken = self.taken(x, indices)
        if shapes_differ(taken.shape, updates.shape):
            raise ShapeError("updates do not fit the indices", need=str(taken.shape))


class _Take(_Places):
    """Take what lies at the places."""

    dependence = LINEAR

    def infer(self, x: TensorSpec, indices: TensorSpec) -> TensorSpec:
        return self.taken(x, indices)

    def forward(self, x: Any, indices: Any) -> Any:
        return x[self.coordinates(x, indices)]

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return self.sibling(1)(gs[0], xs[1], xs[0]), ZERO


class _AddUp(_Places):
    """Add up at the places, in zeros."""

    drawing = "math"
    shape_only = (2,)
    dependence = LINEAR

    def infer(self, g: TensorSpec, indices: TensorSpec, x: TensorSpec) -> TensorSpec:
        self.check_fits(x, indices, g)
        return g.with_shape(x.shape)

    def forward(self, g: Any, indices: Any, x: Any) -> Any:
        found = self.coordinates(x, indices)
        lead, inner = x.shape[: len(found)], x.shape[len(found) :]
        at = np.broadcast_to(places(lead, found), g.shape[: g.ndim - len(inner)]).reshape(-1)
        rows = g.reshape(at.size, math.prod(inner))
        return add_rows(math.prod(lead), at, rows).reshape(x.shape)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return self.sibling(0)(gs[0], xs[1]), ZERO, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in cls.siblings[0].samples(rng):
            x, indices = sample.inputs
            g = cls.siblings[0](**sample.attrs).forward(x, indices)
            yield Sample((g, indices, x), sample.attrs)


class _Scatter(_Places):
    """Change ``x`` at the places."""

    def infer(self, x: TensorSpec, indices: TensorSpec, updates: TensorSpec) -> TensorSpec:
        self.check_fits(x, indices, updates)
        return x.with_dtype(promote(x.dtype, updates.dtype))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in cls.siblings[0].samples(rng):
            x, indices = sample.inputs
            updates = rng.standard_normal(cls.siblings[0](**sample.attrs).forward(x, indices).shape)
            yield Sample((x, indices, updates), sample.attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        specs = TensorSpec((2, 2)), TensorSpec((2, 2)), TensorSpec((2, 2))
        yield ErrorSample(specs, {}, "indices are not integers")


class _Add(_Scatter):
    """Add at the places."""

    def expand(self, x: Any, indices: Any, updates: Any) -> Any:
        x, updates = alike(x, updates)
        return x + self.sibling(1)(updates, indices, x)


class _Write(_Scatter):
    """Write at the places; of several writes to one place, the last one counts."""

    dependence = AFFINE, LINEAR

    def forward(self, x: Any, indices: Any, updates: Any) -> Any:
        y = x.astype(promoted(x, updates))
        y[self.coordinates(x, indices)] = updates
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x, indices, updates) = gs, xs
        take, write = self.sibling(0), self.sibling(2)

        def of_updates() -> Any:
            number = IotaLike()(updates)
            held = write(Cast(dtype="int64")(ZerosLike()(x)), indices, number)
            taken = take(g, indices)
            return Where()(take(held, indices) == number, taken, 0.0)

        return lambda: write(g, indices, ZerosLike()(updates)), ZERO, of_updates


class _Along(_Places):
    """Places along one axis: the indices have the rank of ``x``, and other axes broadcast.

    With ``corner`` they do not: indices that are shorter there stand for the first places.
    """

    axis: int = attr(-1, doc="Axis of x that indices count along.")
    corner: bool = attr(False, doc="Whether shorter indices mean the first places of other axes.")

    def taken(self, x: TensorSpec, indices: TensorSpec) -> TensorSpec:
        check_indices(indices)
        if indices.rank != x.rank:
            raise ShapeError("ranks differ", need=f"indices of rank {x.rank}, got {indices.rank}")
        axis = normalize_axis(self.axis, x.rank)
        if self.corner:
            for i, (d, n) in enumerate(zip(x.shape, indices.shape, strict=True)):
                if i != axis and isinstance(d, int) and isinstance(n, int) and n > d:
                    raise ShapeError(
                        f"indices have {n} places on axis {i}", need=f"{d} at most, as x has"
                    )
            return x.with_shape(indices.shape)
        rest = broadcast(
            (*x.shape[:axis], 1, *x.shape[axis + 1 :]),
            (*indices.shape[:axis], 1, *indices.shape[axis + 1 :]),
        )
        return x.with_shape((*rest[:axis], indices.shape[axis], *rest[axis + 1 :]))

    def coordinates(self, x: Any, indices: Any) -> tuple[Array, ...]:
        mesh = list(np.ogrid[tuple(slice(n) for n in (indices if self.corner else x).shape)])
        mesh[self.axis] = indices.astype(np.intp, copy=False)
        return tuple(mesh)


class _Nd(_Places):
    """Places given by the last axis of the indices: coordinates on the leading axes of ``x``.

    How many there are decides the rank: where that is a symbol, the rank of the updates tells it.
    """

    def check_fits(self, x: TensorSpec, indices: TensorSpec, updates: TensorSpec) -> None:
        if indices.rank and isinstance(indices.shape[-1], Dim):
            n = indices.rank - 1 + x.rank - updates.rank
            indices = indices.with_shape((*indices.shape[:-1], n))
        super().check_fits(x, indices, updates)

    def taken(self, x: TensorSpec, indices: TensorSpec) -> TensorSpec:
        check_indices(indices)
        n = indices.shape[-1] if indices.rank else 0
        if isinstance(n, Dim) and x.rank == 1:
            n = 1
        if isinstance(n, Dim) or not 1 <= n <= x.rank:
            raise ShapeError(
                f"{n} coordinates do not name a place",
                need=f"indices.shape[-1] in 1..{x.rank}",
                hint="gw.reshape(indices, (-1, n))" if isinstance(n, Dim) else "",
            )
        return x.with_shape(indices.shape[:-1] + x.shape[n:])

    def coordinates(self, x: Any, indices: Any) -> tuple[Array, ...]:
        return tuple(np.moveaxis(indices.astype(np.intp, copy=False), -1, 0))


class TakeAlongAxis(_Along, _Take):
    """Elements along an axis, at the places that ``indices`` name.

    y[i, j] = x[indices[i, j], j] along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1, 2, 3], [4, 5, 6]])
    >>> g.output({}, gw.take_along_axis(x, [[2], [0]]))["take_along_axis"].tolist()
    [[3], [4]]
    """

    onnx = OnnxRule("GatherElements", since=13)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((3, 4))
        yield Sample((x, np.array([[0, 0], [3, -1], [2, 2]])))
        yield Sample((x, np.array([[2, 0, -3, 2]])), {"axis": 0})
        yield Sample((x[:1], np.array([[1], [3]])), {"axis": 1})
        yield Sample((x, np.zeros((3, 0), np.int64)))
        yield Sample((x, np.array([[0, -1], [3, 3]])), {"corner": True})
        yield Sample((x, np.array([[2, 0, 0]])), {"axis": 0, "corner": True})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2,), "int64")), {}, "ranks differ")
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((3, 1), "int64")), {}, "do not broadcast")
        long = TensorSpec((2, 3)), TensorSpec((3, 1), "int64")
        yield ErrorSample(long, {"corner": True}, "3 places on axis 0")
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2,))), {}, "not integers")


class TakeAlongAxisGrad(_Along, _AddUp):
    """Sums of ``g`` at the places it was taken from, zeros elsewhere.

    y[k, j] = Σ₍ᵢ: indices[i, j] = k₎ g[i, j] along axis 0
    """

    namespace = "gradient"


class ScatterAdd(_Along, _Add):
    """Add elements along an axis, at the places that ``indices`` name; repeated places add up.

    y = x,  y[indices[i, j], j] += updates[i, j] along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_add(g.constant([0, 0, 0]), [2, 0, 2], [1, 2, 3], name="y")
    >>> g.output({}, y)["y"].tolist()
    [2, 0, 4]
    """

    onnx = OnnxRule("ScatterElements", since=18)


class ScatterUpdate(_Along, _Write):
    """Write elements along an axis, at the places that ``indices`` name; the last write counts.

    y = x,  y[indices[i, j], j] = updates[i, j] along axis 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_update(g.constant([1.0, 2.0]), g.constant([1]), g.constant([20.0]))
    >>> g.output({}, y)["scatter_update"].tolist()
    [1.0, 20.0]
    """

    onnx = OnnxRule("ScatterElements", since=18)


class GatherNd(_Nd, _Take):
    """Slices at the coordinates that the last axis of ``indices`` holds.

    y[i, …] = x[indices[i, 0], …, indices[i, n − 1], …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1, 2], [3, 4]])
    >>> g.output({}, gw.gather_nd(x, [[0, 1], [1, 0]]))["gather_nd"].tolist()
    [2, 3]
    """

    onnx = OnnxRule("GatherND", since=13)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((3, 4, 2))
        yield Sample((x, np.array([[0, 1], [2, -1], [0, 1]])))
        yield Sample((x, np.array([[[2]], [[-3]]])))
        yield Sample((x, np.array([1, 1, 1])))
        yield Sample((x, np.zeros((0, 2), np.int32)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample(
            (TensorSpec((2,)), TensorSpec((1, 2), "int64")), {}, "do not name a place"
        )
        yield ErrorSample((TensorSpec((2,)), TensorSpec((1,))), {}, "not integers")


class GatherNdGrad(_Nd, _AddUp):
    """Sums of the slices of ``g`` at the coordinates they were gathered from, zeros elsewhere.

    y[k, …] = Σ₍ᵢ: indices[i] = k₎ g[i, …]
    """

    namespace = "gradient"


class ScatterNdAdd(_Nd, _Add):
    """Add slices at the coordinates that ``indices`` hold; repeated places add up.

    y = x,  y[indices[i, 0], …, indices[i, n − 1], …] += updates[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, indices = g.constant([1.0, 2.0]), g.constant([[0], [0]])
    >>> y = gw.scatter_nd_add(x, indices, g.constant([10.0, 20.0]))
    >>> g.output({}, y)["scatter_nd_add"].tolist()
    [31.0, 2.0]
    """

    onnx = OnnxRule("ScatterND", since=18)


class ScatterNdUpdate(_Nd, _Write):
    """Write slices at the coordinates that ``indices`` hold; the last write counts.

    y = x,  y[indices[i, 0], …, indices[i, n − 1], …] = updates[i, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.scatter_nd_update(g.constant([[0, 0], [0, 0]]), [[1]], [[5, 6]], name="y")
    >>> g.output({}, y)["y"].tolist()
    [[0, 0], [5, 6]]
    """

    onnx = OnnxRule("ScatterND", since=18)


_Along.siblings = TakeAlongAxis, TakeAlongAxisGrad, ScatterUpdate
_Nd.siblings = GatherNd, GatherNdGrad, ScatterNdUpdate

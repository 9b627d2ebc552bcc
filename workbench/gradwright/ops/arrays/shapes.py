"""Sizes as tensors, slices by place and size, repeats, and tensors filled like others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import LINEAR, ZERO, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import AnyDim, Dim, TensorSpec, differ, normalize_axis
from ...spec.rounding import rounded
from ..core.creation import Arange, Full
from ..core.index import GatherGrad, check_indices
from ..core.like import BroadcastLike, ReshapeLike
from ..core.movement import Cast, ExpandDims
from ..core.reshape import Flatten, stated_shape
from ..core.scatter import ScatterNdUpdate
from ..core.slicing import StridedSlice


class Rank(Op):
    """Number of axes.

    y = r : i64[]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.rank(g.placeholder("x", ("B", 3))).spec.value.item()
    2
    """

    namespace = "base"
    shape_only = (0,)

    def infer(self, x: TensorSpec) -> TensorSpec:
        return TensorSpec((), "int64", np.array(x.rank))

    def forward(self, x: Any) -> Any:
        return np.array(x.ndim)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 0)),))
        yield Sample((rng.standard_normal(()),))


class SizeAt(Op):
    """Size of one axis.

    y = d[axis] : i64[]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.size_at(g.placeholder("x", ("B", 3)), 0).spec.value.item()
    B
    """

    namespace = "base"
    shape_only = (0,)
    axis: int = attr(doc="The axis.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        return TensorSpec((), "int64", np.array(x.shape[normalize_axis(self.axis, x.rank)]))

    def forward(self, x: Any) -> Any:
        return np.array(x.shape[self.axis])

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 0)),), {"axis": -1})
        yield Sample((rng.standard_normal((2, 0)),), {"axis": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec(()),), {"axis": 0}, "out of range")


class Slice(Op):
    """Part of a tensor of a given size, from a given place on.

    y[i₀, …] = x[begin₀ + i₀, …], sizeₖ elements along axis k; size −1 stands for all that is left

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.slice(g.constant([[1, 2, 3], [4, 5, 6]]), (0, 1), (-1, 2), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[2, 3], [5, 6]]
    """

    namespace = "base"
    views = True
    begin: tuple[AnyDim, ...] = attr(doc="First place, per axis.")
    size: tuple[AnyDim, ...] = attr(doc="Number of elements, per axis; -1: all that are left.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if len(self.begin) != x.rank or len(self.size) != x.rank:
            raise ShapeError("begin and size do not fit", need=f"{x.rank} numbers each")
        shape = []
        for axis, (d, b, n) in enumerate(zip(x.shape, self.begin, self.size, strict=True)):
            given: AnyDim = d - b if n == -1 else n
            rest = d - b - given
            if any(isinstance(v, int) and v < 0 for v in (b, given, rest)):
                raise ShapeError(
                    f"no {n} elements from {b} on along axis {axis}", need=f"{d} elements in all"
                )
            shape.append(given)
        return x.with_shape(shape)

    def expand(self, x: Any) -> Any:
        ends = [None if n == -1 else b + n for b, n in zip(self.begin, self.size, strict=True)]
        parts = [slice(b, e) for b, e in zip(self.begin, ends, strict=True)]
        return StridedSlice(index=tuple(parts))(x) if parts else x

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((3, 4))
        yield Sample((x,), {"begin": (1, 0), "size": (2, 3)})
        yield Sample((x,), {"begin": (3, 1), "size": (-1, -1)})
        yield Sample((rng.standard_normal(()),), {"begin": (), "size": ()})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)),), {"begin": (1,), "size": (3,)}, "3 elements in all")
        yield ErrorSample((TensorSpec((3,)),), {"begin": (4,), "size": (-1,)}, "3 elements in all")
        yield ErrorSample((TensorSpec((3,)),), {"begin": (-1,), "size": (1,)}, "from -1 on")
        yield ErrorSample((TensorSpec((3,)),), {"begin": (), "size": (1,)}, "do not fit")


class Repeat(Op):
    """Repeat each element along an axis: all equally often, or each as often as stated.

    y = (x₀, x₀, …, x₁, x₁, …) along the axis, xᵢ in repeats[i] copies

    The repeats are an attribute or an integer tensor; of the latter, the size is known when run.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.repeat(g.constant([1, 2]), (1, 3), name="y"))["y"].tolist()
    [1, 2, 2, 2]
    """

    namespace = "base"
    dependence = LINEAR
    repeats: int | tuple[int, ...] | None = attr(
        None, doc="Copies, of all or of each, unless they are given as a tensor."
    )
    axis: int | None = attr(None, doc="Axis to repeat along; None flattens.")

    def infer(self, x: TensorSpec, repeats: TensorSpec | None = None) -> TensorSpec:
        if self.axis is None:
            x = Flatten().infer(x)
        axis = normalize_axis(self.axis or 0, x.rank)
        n = x.shape[axis]
        if repeats is not None:
            check_indices(repeats)
            if repeats.rank > 1 or (repeats.rank and differ(repeats.shape[0], n)):
                raise ShapeError("repeats do not fit", need=f"one number, or {n}, got {repeats}")
            total: AnyDim = Dim.fresh("repeated")
        elif self.repeats is None:
            raise ShapeError("repeat needs repeats", hint="gw.repeat(x, 2, axis=0)")
        else:
            each = (self.repeats,) if isinstance(self.repeats, int) else self.repeats
            if any(r < 0 for r in each):
                raise ShapeError(f"cannot repeat {self.repeats} times", need="repeats >= 0")
            if not isinstance(self.repeats, int) and differ(len(each), n):
                raise ShapeError("repeats do not fit", need=f"one number, or {n}, got {len(each)}")
            total = n * self.repeats if isinstance(self.repeats, int) else sum(each)
        return x.with_shape((*x.shape[:axis], total, *x.shape[axis + 1 :]))

    def forward(self, x: Any, repeats: Any = None) -> Any:
        times: Any = self.repeats if repeats is None else repeats
        return np.repeat(x, times, self.axis)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x, *given) = gs, xs
        flat = Flatten()(x) if self.axis is None else x
        axis = self.axis or 0
        source = self.replace(axis=0)(Arange(start=flat.shape[axis])(), *given)
        found = GatherGrad(axis=axis)(g, source, flat)
        return [ReshapeLike()(found, x), ZERO][: len(xs)]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3))
        yield Sample((x,), {"repeats": 2})
        yield Sample((x,), {"repeats": (0, 2, 1), "axis": -1})
        yield Sample((x, np.array([1, 2])), {"axis": 0})
        yield Sample((rng.standard_normal(()),), {"repeats": 3})
        yield Sample((x[:0],), {"repeats": 3, "axis": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"repeats": -1}, "cannot repeat")
        yield ErrorSample((TensorSpec((2, 3)),), {"repeats": (1, 2), "axis": 1}, "do not fit")
        yield ErrorSample((TensorSpec((2, 3)),), {"repeats": 1, "axis": 2}, "out of range")
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2,))), {"axis": 0}, "not integers")
        yield ErrorSample((TensorSpec((2, 3)),), {}, "needs repeats")


class FullLike(Op):
    """A tensor of the input's shape, filled with one number.

    yᵢ = fill_value

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.full_like(g.constant([1.0, 2.0]), 7, name="y"))["y"].tolist()
    [7.0, 7.0]
    """

    namespace = "base"
    shape_only = (0,)
    fill_value: float = attr(doc="The number.")
    dtype: np.dtype[Any] | None = attr(None, doc="Dtype of the result; None: that of x.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        return TensorSpec(x.shape, self.dtype or x.dtype)

    def forward(self, x: Any) -> Any:
        return np.full(x.shape, rounded(self.fill_value, self.dtype or x.dtype))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),), {"fill_value": 1.5})
        yield Sample((rng.standard_normal(()),), {"fill_value": 2, "dtype": "int8"})
        yield Sample((np.array([True]),), {"fill_value": False})


class Assign(Op):
    """What ``x`` holds after ``value`` is assigned to it: ``value`` in the shape and dtype of x.

    y = value, broadcast to the shape of x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.assign(g.constant([1.0, 2.0]), 5, name="y"))["y"].tolist()
    [5.0, 5.0]
    """

    namespace = "base"
    shape_only = (0,)

    def infer(self, x: TensorSpec, value: TensorSpec) -> TensorSpec:
        return BroadcastLike().infer(value.with_dtype(x.dtype), x)

    def expand(self, x: Any, value: Any) -> Any:
        return BroadcastLike()(Cast(dtype=x.dtype)(value), x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)), rng.standard_normal(3)))
        yield Sample((rng.standard_normal((0, 3)), np.array(2.0)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2, 3))), {}, "cannot undo this broadcast")


class SparseToDense(Op):
    """A tensor of one number, with values at some coordinates; the last write counts.

    y[indices[i, 0], …] = values[i], default_value elsewhere

    The shape is an attribute or an integer tensor; ``indices`` is i64[n, rank], or i64[n] for a
    vector.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sparse_to_dense([[0, 1], [1, 0]], g.constant([5, 6]), shape=(2, 2), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[0, 5], [6, 0]]
    """

    namespace = "base"
    needs_values = (2,)
    shape: tuple[AnyDim, ...] | None = attr(None, doc="Shape, unless it is given as a tensor.")
    default_value: float = attr(0.0, doc="What stands at all other places.")

    def infer(
        self, indices: TensorSpec, values: TensorSpec, shape: TensorSpec | None = None
    ) -> TensorSpec:
        check_indices(indices)
        dims = stated_shape(self, shape)
        if indices.rank == 1:
            indices = indices.with_shape((*indices.shape, 1))
        if indices.rank != 2 or differ(indices.shape[-1], len(dims)):
            raise ShapeError("indices do not fit", need=f"i64[n, {len(dims)}], got {indices}")
        if values.rank > 1 or (values.rank and differ(values.shape[0], indices.shape[0])):
            raise ShapeError("values do not fit", need=f"one, or {indices.shape[0]}, got {values}")
        return values.with_shape(dims)

    def expand(self, indices: Any, values: Any, shape: Any = None) -> Any:
        places = ExpandDims(axis=1)(indices) if indices.rank == 1 else indices
        if not values.rank:
            values = BroadcastLike()(values, places[:, 0])
        base = {"fill_value": self.default_value, "dtype": values.dtype}
        dims = stated_shape(self, None if shape is None else shape.spec)
        return ScatterNdUpdate()(Full(shape=dims, **base)(), places, values)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        places = np.array([[0, 1], [1, 2], [0, 1]])
        yield Sample((places, rng.standard_normal(3)), {"shape": (2, 3), "default_value": -1.0})
        yield Sample((np.array([3, 0]), np.array(2.0), np.array([4])))
        yield Sample((np.zeros((0, 1), np.int32), rng.standard_normal(0)), {"shape": (2,)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        places, values = TensorSpec((2, 2), "int64"), TensorSpec((2,))
        yield ErrorSample((places, values), {}, "needs a shape")
        yield ErrorSample((places, values), {"shape": (4,)}, "indices do not fit")
        yield ErrorSample((places, TensorSpec((3,))), {"shape": (4, 4)}, "values do not fit")


class InvertPermutation(Op):
    """The permutation that undoes another.

    y[x[i]] = i

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.invert_permutation(g.constant([2, 0, 1]), name="y"))["y"].tolist()
    [1, 2, 0]
    """

    namespace = "base"

    def infer(self, x: TensorSpec) -> TensorSpec:
        check_indices(x)
        if x.rank != 1:
            raise DTypeError("a permutation is a vector", need=f"i64[n], got {x}")
        return x.with_shape(x.shape)

    def forward(self, x: Any) -> Any:
        y = np.full(x.shape, -1, np.int64)
        inside = (x >= 0) & (x < len(x))
        y[x[inside]] = np.arange(len(x))[inside]
        if y.size and y.min() < 0:
            raise IndexError(f"no permutation: {int(np.argmin(y))} is not among the elements")
        return y.astype(x.dtype)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([2, 0, 3, 1]),))
        yield Sample((np.zeros(0, np.int32),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "not integers")
        yield ErrorSample((TensorSpec((2, 2), "int64"),), {}, "is a vector")

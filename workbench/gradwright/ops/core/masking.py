"""Masks: elements that fulfil a condition, whose number is known only when run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import LINEAR, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import AnyDim, Dim, TensorSpec, differ, dtype, kind, normalize_axis
from .index import check_indices


class BooleanMask(Op):
    """Slices of ``x`` where the mask holds; their number is known only when run.

    y = x[…, mask, …], the axes of the mask joined into one

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None,))
    >>> g.output({"x": [1.0, -2.0, 3.0]}, gw.boolean_mask(x, x > 0.0))["boolean_mask"].tolist()
    [1.0, 3.0]
    """

    namespace = "base"
    drawing = "shape"
    dependence = LINEAR
    axis: int = attr(0, doc="First axis of x that the mask covers.")
    onnx = OnnxRule("Compress", since=11)

    def axes(self, x: TensorSpec, mask: TensorSpec) -> tuple[int, int]:
        """Return the first axis that the mask covers and the one after the last."""
        if kind(mask.dtype) != "b" or not mask.rank:
            raise DTypeError("the mask is not a bool tensor", need=f"bool[n], got {mask}")
        start = normalize_axis(self.axis, x.rank)
        covered = x.shape[start : start + mask.rank]
        if len(covered) < mask.rank or any(map(differ, covered, mask.shape)):
            raise ShapeError("the mask does not fit", need=f"bool{list(covered)}, got {mask}")
        return start, start + mask.rank

    def infer(self, x: TensorSpec, mask: TensorSpec) -> TensorSpec:
        start, end = self.axes(x, mask)
        return x.with_shape((*x.shape[:start], Dim.fresh(self.name), *x.shape[end:]))

    def forward(self, x: Any, mask: Any) -> Any:
        return x[(slice(None),) * normalize_axis(self.axis, x.ndim) + (mask,)]

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return BooleanMaskGrad(axis=self.axis)(gs[0], xs[1], xs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3, 2))
        yield Sample((x, np.array([True, False])))
        yield Sample((x, np.array([[True, False], [False, False], [True, True]])), {"axis": 1})
        yield Sample((x, np.zeros((2, 3), bool)))
        yield Sample((x, np.array([False, True])), {"axis": -1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((3,), "bool")), {}, "does not fit")
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2, 1), "bool")), {}, "does not fit")
        yield ErrorSample((TensorSpec((2, 3)), TensorSpec((2,))), {}, "not a bool tensor")


class BooleanMaskGrad(Op):
    """Zeros in the shape of ``x``, with the slices of ``g`` where the mask holds.

    y[…, mask, …] = g, 0 elsewhere
    """

    namespace = "gradient"
    shape_only = (2,)
    dependence = LINEAR
    axis: int = attr(0, doc="First axis of x that the mask covers.")

    def infer(self, g: TensorSpec, mask: TensorSpec, x: TensorSpec) -> TensorSpec:
        start, end = BooleanMask(axis=self.axis).axes(x, mask)
        rest = x.shape[:start] + g.shape[start : start + 1] + x.shape[end:]
        if g.rank != len(rest) or any(map(differ, g.shape, rest)):
            raise ShapeError("g is not of the masked shape", need=str(x.with_shape(rest)))
        return g.with_shape(x.shape)

    def forward(self, g: Any, mask: Any, x: Any) -> Any:
        y = np.zeros(x.shape, g.dtype)
        y[(slice(None),) * normalize_axis(self.axis, x.ndim) + (mask,)] = g
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return BooleanMask(axis=self.axis)(gs[0], xs[1]), ZERO, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for sample in BooleanMask.samples(rng):
            x, mask = sample.inputs
            yield Sample((BooleanMask(**sample.attrs).forward(x, mask), mask, x), sample.attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        specs = TensorSpec((2, 2)), TensorSpec((4,), "bool"), TensorSpec((4,))
        yield ErrorSample(specs, {}, "masked shape")


class Nonzero(Op):
    """Coordinates of the elements that are not 0, one tensor per axis, in row-major order.

    (i₀, i₁, …) with x[i₀ₖ, i₁ₖ, …] ≠ 0 for k = 0 … n − 1

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> rows, columns = gw.nonzero(g.constant([[0, 1], [2, 0]]))
    >>> [a.tolist() for a in g.output({}, rows, columns).values()]
    [[0, 1], [1, 0]]
    """

    namespace = "base"
    returns = ("*indices",)
    drawing = "shape"
    many = True
    onnx = OnnxRule("NonZero", since=9)

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, ...]:
        if not x.rank:
            raise ShapeError("a scalar has no coordinates", hint="x != 0")
        n = Dim.fresh(self.name)
        return tuple(TensorSpec((n,), "int64") for _ in range(x.rank))

    def forward(self, x: Any) -> Any:
        return np.nonzero(x)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[0, 1], [2, 0]]),))
        yield Sample((np.array([False, True]),))
        yield Sample((np.zeros((2, 0)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec(()),), {}, "no coordinates")


class OneHot(Op):
    """Rows that are 1 at one place and 0 elsewhere; all 0 for an index outside.

    torch gives ``dtype="int64"``, counts the places itself, and refuses an index outside.

    y[…, k] = [indices[…] = k]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.one_hot(g.constant([2, 0]), 3))["one_hot"].tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """

    namespace = "base"
    drawing = "shape"
    depth: AnyDim = attr(doc="Number of places.")
    axis: int = attr(-1, doc="Position of the new axis in the result.")
    dtype: np.dtype[Any] = attr(dtype("float32"), doc="Dtype of the result.")
    onnx = OnnxRule("OneHot", since=11)

    def infer(self, indices: TensorSpec) -> TensorSpec:
        check_indices(indices)
        if isinstance(self.depth, int) and self.depth < 0:
            raise ShapeError(f"depth {self.depth} is negative")
        shape = list(indices.shape)
        shape.insert(normalize_axis(self.axis, len(shape) + 1), self.depth)
        return TensorSpec(shape, self.dtype)

    def forward(self, indices: Any) -> Any:
        depth: Any = self.depth
        found = np.expand_dims(indices, -1) == np.arange(depth)
        return np.moveaxis(found, -1, self.axis).astype(self.dtype)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[2, 0], [1, -1]]),), {"depth": 3})
        yield Sample((np.array([0, 3], np.uint8),), {"depth": 3, "axis": 0, "dtype": "bool"})
        yield Sample((np.array(1),), {"depth": 2, "dtype": "int64"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"depth": 3}, "not integers")
        yield ErrorSample((TensorSpec((2,), "int64"),), {"depth": -1}, "is negative")

"""Ops that give elements another shape, stated by dims or by a tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import AFFINE, LINEAR, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import AnyDim, Dim, Shape, TensorSpec, differ, kind, normalize_axis
from .like import ReshapeLike


def stated_shape(op: Any, shape: TensorSpec | None) -> tuple[Any, ...]:
    """Return the dims that an op's attribute or input ``shape`` states; fresh ones if not known."""
    if shape is None:
        if op.shape is None:
            raise ShapeError(f"{op.name} needs a shape", hint=f"gw.{op.name}(x, (2, 3))")
        return (op.shape,) if isinstance(op.shape, (int, Dim)) else tuple(op.shape)
    if kind(shape.dtype) not in "iu":
        raise DTypeError("a shape is a vector of integers", need="i64[rank]")
    if shape.rank != 1 or not isinstance(shape.shape[0], int):
        raise ShapeError("a shape is a vector of known length", need="i64[rank]")
    if shape.shape[0] > 64:  # what numpy has
        raise ShapeError(f"a shape of {shape.shape[0]} axes", need="64 at most")
    if shape.value is None:
        return tuple(Dim.fresh(op.name) for _ in range(shape.shape[0]))
    return tuple(d if isinstance(d, Dim) else int(d) for d in shape.value)


def solve_shape(have: Shape, want: Sequence[AnyDim]) -> Shape:
    """Return ``want`` with its -1, if any, set so that it has as many elements as ``have``.

    >>> from gradwright.spec import Dim
    >>> solve_shape((Dim.symbol("B"), 6, 4), (-1, 3, 8))
    (B, 3, 8)
    """
    left, right, free = list(have), [], 0
    for d in want:
        if isinstance(d, int) and d < 0:
            free += 1
            if d < -1 or free > 1:
                raise ShapeError(f"{tuple(want)} is not a shape", need="sizes, and one -1 at most")
        elif d in left:  # equal factors cancel, so that (B, T, 6) -> (B, T, -1) needs no division
            left.remove(d)
        else:
            right.append(d)
    if not free and not differ(math.prod(have), math.prod(want)):
        return tuple(want)
    n: Any
    n, m = math.prod(left), math.prod(right)
    rest: AnyDim | None
    try:
        rest = None if not m or not free or differ((n // m) * m, n) else n // m
    except (ShapeError, TypeError):  # not a quotient that a Dim can state
        rest = Dim.fresh("reshape")
    if rest is None:
        raise ShapeError(
            "reshape changes the number of elements",
            need=f"a shape of {math.prod(have)} elements, got {tuple(want)}",
        )
    return tuple(rest if isinstance(d, int) and d < 0 else d for d in want)


class Reshape(Op):
    """Give the elements, read in row-major order, another shape.

    y.ravel() = x.ravel()

    The shape is an attribute or an integer tensor; one -1 stands for whatever is left.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 2, 3))
    >>> gw.reshape(x, (-1, 3)).shape, x.reshape(gw.shape_of(x)[:1] * 2, 3).shape
    ((2*B, 3), (2*B, 3))
    """

    namespace = "base"
    drawing = "shape"
    by_reference = "s"
    views = True
    value_rule = True
    needs_values = (1,)
    dependence = LINEAR
    shape: tuple[AnyDim, ...] | None = attr(None, doc="New shape, unless it is given as a tensor.")
    onnx = OnnxRule("Reshape", since=13)

    def infer(self, x: TensorSpec, shape: TensorSpec | None = None) -> TensorSpec:
        return x.with_shape(solve_shape(x.shape, stated_shape(self, shape)))

    def forward(self, x: Any, shape: Any = None) -> Any:
        given = None if shape is None else TensorSpec(shape.shape, "int64", shape)
        return x.reshape(solve_shape(x.shape, stated_shape(self, given)))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [ReshapeLike()(gs[0], xs[0]), ZERO][: len(xs)]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 6)),), {"shape": (3, -1)})
        yield Sample((rng.standard_normal((0, 3)),), {"shape": (-1, 3, 2)})
        yield Sample((rng.standard_normal(()),), {"shape": (1, 1)})
        yield Sample((rng.standard_normal((1,)),), {"shape": ()})
        yield Sample((rng.standard_normal((2, 6)), np.array([4, -1])))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"shape": (4,)}, "number of elements")
        yield ErrorSample((TensorSpec((2, 3)),), {"shape": (-1, 4)}, "number of elements")
        yield ErrorSample((TensorSpec((2, 3)),), {"shape": (-1, -1)}, "is not a shape")
        yield ErrorSample((TensorSpec((2, 3)),), {}, "needs a shape")
        yield ErrorSample((TensorSpec((6,)), TensorSpec((2,))), {}, "vector of integers")


class Flatten(Op):
    """Join neighbouring axes into one.

    y[…, i·n + j, …] = x[…, i, j, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.flatten(g.constant([[1, 2], [3, 4]]))
    >>> g.output({}, y)["flatten"].tolist()
    [1, 2, 3, 4]
    """

    namespace = "base"
    drawing = "shape"
    by_reference = "s"
    views = True
    is_method = True
    dependence = LINEAR
    start_axis: int = attr(0, doc="First axis to join.")
    end_axis: int = attr(-1, doc="Last axis to join.")
    onnx = OnnxRule("Flatten", since=1)

    def infer(self, x: TensorSpec) -> TensorSpec:
        if not x.rank:
            return x.with_shape((1,))
        start, end = (normalize_axis(a, x.rank) for a in (self.start_axis, self.end_axis))
        joined = math.prod(x.shape[start : end + 1])
        return x.with_shape((*x.shape[:start], joined, *x.shape[max(end + 1, start) :]))

    def forward(self, x: Any) -> Any:
        return x.reshape(self.infer(TensorSpec(x.shape, x.dtype)).shape)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ReshapeLike()(gs[0], xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3, 4)),))
        yield Sample((rng.standard_normal((2, 3, 0, 2)),), {"start_axis": 1, "end_axis": 2})
        yield Sample((rng.standard_normal(()),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"start_axis": 2}, "out of range")


class BroadcastTo(Op):
    """Repeat ``x`` along the axes in which it has size 1, or which it lacks.

    y = x, broadcast as by numpy

    The shape is an attribute or an integer tensor.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.broadcast_to(g.constant([1, 2]), (2, 2)))["broadcast_to"].tolist()
    [[1, 2], [1, 2]]
    """

    namespace = "base"
    drawing = "shape"
    by_reference = "s"
    views = True
    is_method = True
    needs_values = (1,)
    dependence = AFFINE
    shape: tuple[AnyDim, ...] | None = attr(None, doc="New shape, unless it is given as a tensor.")
    onnx = OnnxRule("Expand", since=13)

    def infer(self, x: TensorSpec, shape: TensorSpec | None = None) -> TensorSpec:
        want = stated_shape(self, shape)
        if any(isinstance(d, int) and d < 0 for d in want):
            raise ShapeError(f"{want} is not a shape", need="sizes of 0 and more")
        pairs = zip(reversed(x.shape), reversed(want), strict=False)
        if x.rank > len(want) or any(d != 1 and differ(d, e) for d, e in pairs):
            raise ShapeError(f"cannot broadcast to {want}", need="1 or equal sizes from the right")
        return x.with_shape(want)

    def forward(self, x: Any, shape: Any = None) -> Any:
        return np.broadcast_to(x, self.shape if shape is None else shape)  # type: ignore[arg-type]

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [gs[0], ZERO][: len(xs)]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 1)),), {"shape": (3, 2, 4)})
        yield Sample((rng.standard_normal(()),), {"shape": (0,)})
        yield Sample((rng.standard_normal((3,)), np.array([2, 3])))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"shape": (2, 4)}, "cannot broadcast")
        yield ErrorSample((TensorSpec((2, 3)),), {"shape": (3,)}, "cannot broadcast")
        yield ErrorSample((TensorSpec((1,)),), {"shape": (-1,)}, "is not a shape")

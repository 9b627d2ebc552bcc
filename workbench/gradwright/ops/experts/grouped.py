"""Products of rows with the matrix of their group, where rows of a group stand together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import (
    LINEAR,
    ZERO,
    Autocast,
    Cotangent,
    ErrorSample,
    Op,
    Sample,
    WeightSite,
    multiplied,
    of_product,
)
from ...spec import TensorSpec, differ, kind, promote
from ..core.special import widened
from ..numerics.products import product

Array = np.ndarray[Any, Any]


def check_sizes(op: Op, sizes: TensorSpec) -> None:
    """Raise unless sizes may be those of groups."""
    if sizes.rank != 1 or kind(sizes.dtype) not in "iu":
        raise DTypeError(f"{op.name}: sizes are {sizes}", need="i64[E], rows of each group")


def _joint(op: Op, a: TensorSpec, b: TensorSpec) -> np.dtype[Any]:
    joint = promote(a.dtype, b.dtype)
    if kind(joint) != "f":
        raise DTypeError(f"{op.name} does not take {joint}", hint="gw.cast(x, 'float32')")
    return joint


def groups(op: Op, sizes: Array, n_rows: int) -> Iterator[tuple[int, slice]]:
    """Yield the groups that have rows."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if ends.size else 0
    if total != n_rows or (sizes.size and sizes.min() < 0):
        raise ShapeError(f"{op.name}: the groups have {total} rows", need=f"{n_rows} rows in all")
    for group in np.flatnonzero(sizes):
        yield int(group), slice(int(ends[group] - sizes[group]), int(ends[group]))


class GroupedMatmul(Op):
    """Each row times the matrix of its group; the rows of group 0 stand first, then those of 1.

    y_m = x_m @ weight_{e(m)}

    x: f32[M, D], weight: f32[E, D, F], sizes: i64[E] with Σ sizes = M -> f32[M, F]

    One product per group. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[1.0], [2.0], [3.0]]), g.constant([[[10.0]], [[100.0]]])
    >>> y = gw.nn.grouped_matmul(x, w, g.constant([1, 2]), name="y")
    >>> g.output({}, y)["y"].ravel().tolist()
    [10.0, 200.0, 300.0]
    """

    namespace = "nn"
    drawing = "linear"
    autocast = Autocast.PRODUCT
    dependence = LINEAR
    flops = of_product

    def infer(self, x: TensorSpec, weight: TensorSpec, sizes: TensorSpec) -> TensorSpec:
        check_sizes(self, sizes)
        if x.rank != 2 or weight.rank != 3 or differ(x.shape[1], weight.shape[1]):
            raise ShapeError(
                "x does not fit weight",
                need="x: [M, D], weight: [E, D, F]",
                facts=[f"got {x} and {weight}"],
            )
        n = weight.shape[0]
        if differ(n, sizes.shape[0]):
            raise ShapeError(f"{n} matrices for {sizes.shape[0]} groups", need="as many")
        return TensorSpec((x.shape[0], weight.shape[2]), _joint(self, x, weight))

    def forward(self, x: Any, weight: Any, sizes: Any) -> Any:
        joint = promote(x.dtype, weight.dtype)
        a, b = (widened(t.astype(joint, copy=False)) for t in (x, weight))
        y = np.empty((len(x), weight.shape[2]), a.dtype)
        for group, rows in groups(self, sizes, len(x)):
            product(a[rows], b[group], out=y[rows])
        return y.astype(joint, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x, w, sizes) = gs, xs
        return (
            lambda: GroupedMatmul()(g, w.mT, sizes),
            lambda: GroupedMatmulGrad()(x, g, sizes),
            ZERO,
        )

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return (WeightSite(1, "expert,in,out", "experts", x=0),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, w = rng.standard_normal((4, 2)), rng.standard_normal((3, 2, 3))
        yield Sample((x, w, np.array([1, 0, 3])))
        yield Sample((x[:0], w, np.array([0, 0, 0])))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w, sizes = TensorSpec((4, 2)), TensorSpec((3, 2, 3)), TensorSpec((3,), "int64")
        yield ErrorSample((x, TensorSpec((3, 4, 3)), sizes), {}, "does not fit weight")
        yield ErrorSample((x, w, TensorSpec((2,), "int64")), {}, "3 matrices for 2 groups")
        yield ErrorSample((x, w, TensorSpec((3,))), {}, "sizes are")


class GroupedMatmulGrad(Op):
    """Cotangent of the matrices of a grouped product: what the rows of each group make together.

    dw_e = Σ x_mᵀ g_m over the rows of e, x: f32[M, D], g: f32[M, F], sizes: i64[E] -> f32[E, D, F]
    """

    namespace = "gradient"
    drawing = "math"
    dependence = LINEAR

    def infer(self, x: TensorSpec, g: TensorSpec, sizes: TensorSpec) -> TensorSpec:
        check_sizes(self, sizes)
        if x.rank != 2 or g.rank != 2 or differ(x.shape[0], g.shape[0]):
            raise ShapeError("x and g have different rows", facts=[f"got {x} and {g}"])
        return TensorSpec((sizes.shape[0], x.shape[1], g.shape[1]), _joint(self, x, g))

    def forward(self, x: Any, g: Any, sizes: Any) -> Any:
        joint = promote(x.dtype, g.dtype)
        a, b = (widened(t.astype(joint, copy=False)) for t in (x, g))
        y = np.zeros((len(sizes), x.shape[1], g.shape[1]), a.dtype)
        for group, rows in groups(self, sizes, len(x)):
            product(a[rows].T, b[rows], out=y[group])
        return y.astype(joint, copy=False)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (h,), (x, g, sizes) = gs, xs
        return (
            lambda: GroupedMatmul()(g, h.mT, sizes),
            lambda: GroupedMatmul()(x, h, sizes),
            ZERO,
        )

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return multiplied(ins[0], ins[1].shape[-1])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, g = rng.standard_normal((4, 2)), rng.standard_normal((4, 3))
        yield Sample((x, g, np.array([1, 0, 3])))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, sizes = TensorSpec((4, 2)), TensorSpec((3,), "int64")
        yield ErrorSample((x, TensorSpec((3, 2)), sizes), {}, "different rows")

"""Order: sorting, and the largest elements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ROWS, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, kind, normalize_axis
from .scatter import TakeAlongAxisGrad
from .special import widened


def order(x: Any, axis: int, descending: bool) -> Any:
    """Return the places of the elements in order; equal ones keep theirs, NaN counts as largest.

    float32 is sorted together with its places, as integers (256 rows of 1024 numbers: 4 ms), and so
    are integers that lie near each other (8192 below 16: 0.07 ms, not 0.5). Of others, rows where
    nothing is equal take numpy's unstable sort, which gives the same in a third of the time (5 ms,
    not 17).
    """
    x = np.moveaxis(widened(x), axis, -1)  # ml_dtypes does not sort NaN
    if x.dtype == np.float32 and x.shape[-1] < 1 << 32:
        return np.moveaxis(_order_of_float32(x, descending), -1, axis)
    if kind(x.dtype) in "iu" and x.size > 0 and x.shape[-1] < 1 << 32:
        low, high = int(x.min()), int(x.max())
        if high - low < 1 << 31:
            keys = (high - x if descending else x - low).astype(np.uint64)
            return np.moveaxis(_order_of_keys(keys), -1, axis)
    places = np.argsort(x, -1)
    y = np.take_along_axis(x, places, -1)
    tied = np.any(y[..., 1:] == y[..., :-1], -1) | np.any(y[..., -1:] != y[..., -1:], -1)
    if tied.any():
        rows = x[tied]
        again = np.argsort(rows[..., ::-1] if descending else rows, -1, kind="stable")
        places[tied] = x.shape[-1] - 1 - again if descending else again
    return np.moveaxis(places[..., ::-1] if descending else places, -1, axis)


def _order_of_float32(x: Any, descending: bool) -> Any:
    """Return the places of the elements of each row in order, equal ones in that they have.

    The bits of floats are ordered as integers are if those of negative ones are inverted, and of
    the others the sign: with the place in the lower half, no two keys are equal.
    """
    x = x + x.dtype.type(0)  # −0 is 0
    if np.isnan(x.max(initial=0)):
        x = np.where(np.isnan(x), x.dtype.type(np.nan), x)  # they have a sign, too
    bits = np.ascontiguousarray(x).view(np.uint32)
    bits ^= (bits.view(np.int32) >> 31).view(np.uint32) | np.uint32(1 << 31)
    return _order_of_keys((~bits if descending else bits).astype(np.uint64))


def _order_of_keys(keys: Any) -> Any:
    """Return the places of numbers below 2³² in order; ``keys``, whose own array it is, change."""
    keys <<= np.uint64(32)
    keys |= np.arange(keys.shape[-1], dtype=np.uint64)
    keys.sort(-1)
    keys &= np.uint64((1 << 32) - 1)
    return keys.view(np.int64)


def first_places(x: Any, k: int, axis: int, largest: bool) -> Any:
    """Return the first k of ``order(x, axis, largest)``.

    Of floats only those are sorted that are not below the k-th of the extremes of groups, which k
    elements reach (8 of 1024 in 256 rows: 0.4 ms, not 4); unless NaN or many ties are among them.
    """
    n = x.shape[axis]
    if 0 < 8 * k <= n and n % 2 == 0 and kind(x.dtype) == "f" and x.size:
        work = np.moveaxis(widened(x), axis, -1)
        rows = best = np.ascontiguousarray(work if largest else -work).reshape(-1, n)
        while (width := best.shape[1]) % 2 == 0 and width >= 8 * k:
            best = np.maximum(best[:, : width // 2], best[:, width // 2 :])
        bound = np.partition(best, width - k, -1)[:, width - k, None]
        row, column = np.divmod(np.flatnonzero(rows >= bound), n)
        if row.size <= 4 * k * rows.shape[0] and not np.isnan(best).any():
            counts = np.bincount(row, minlength=rows.shape[0])
            found = np.lexsort((-rows[row, column], row))  # equal ones keep their order
            first = found[(np.cumsum(counts) - counts)[:, None] + np.arange(k)]
            return np.moveaxis(column[first].reshape(*work.shape[:-1], k), -1, axis)
    return np.take(order(x, axis, largest), np.arange(k), axis)


class _Order(Op):
    """An op on the order of elements along an axis."""

    namespace = "base"
    drawing = "shape"
    is_method = True
    axis: int = attr(-1, doc="Axis to sort along.")
    descending: bool = attr(False, doc="Largest first.")

    def infer(self, x: TensorSpec) -> TensorSpec:
        if kind(x.dtype) == "c":
            raise DTypeError(f"complex numbers have no order, so {self.name} does not take {x}")
        normalize_axis(self.axis, x.rank)
        return x

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((3, 4))
        yield Sample((x,))
        yield Sample((x,), {"axis": 0, "descending": True})
        yield Sample((np.array([2, 1, 2, 0, 1], np.uint8),), {"descending": True})
        yield Sample((np.array([1.0, np.nan, 0.0]),), smooth=False)
        yield Sample((np.zeros((2, 0)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"axis": 1}, "out of range")
        yield ErrorSample((TensorSpec((2,), "complex64"),), {}, "have no order")


class Argsort(_Order):
    """Places of the elements in order; equal ones keep theirs.

    x[…, y₀], x[…, y₁], … is in order

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([2.0, 3.0, 1.0])
    >>> g.output({}, gw.argsort(x, descending=True))["argsort"].tolist()
    [1, 0, 2]
    """

    def infer(self, x: TensorSpec) -> TensorSpec:
        return super().infer(x).with_dtype("int64")

    def forward(self, x: Any) -> Any:
        return order(x, self.axis, self.descending)


class Sort(_Order):
    """Elements in order.

    y₀ ≤ y₁ ≤ …, or ≥ if descending. The places they come from are a residual, for gradients.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sort(g.constant([3, 9, 5]))
    >>> g.output({}, y)["sort"].tolist()
    [3, 5, 9]
    """

    n_public = 1
    dependence = ROWS

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:  # type: ignore[override]
        y = super().infer(x)
        return y.with_shape(y.shape), y.with_dtype("int64")

    def forward(self, x: Any) -> Any:
        places = order(x, self.axis, self.descending)
        return np.take_along_axis(x, places, self.axis), places

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (TakeAlongAxisGrad(axis=self.axis)(gs[0], ys[1], xs[0]),)


class TopK(Op):
    """The k largest (or smallest) elements along an axis, in order, and their places.

    values, indices = the first k of sort(x) and argsort(x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> values, places = gw.top_k(g.placeholder("x", (4,)), 2)
    >>> [a.tolist() for a in g.output({"x": [1.0, 4.0, 2.0, 4.0]}, values, places).values()]
    [[4.0, 4.0], [1, 3]]
    """

    namespace = "base"
    returns = "values", "indices"
    drawing = "reduce"
    is_method = True
    dependence = ROWS
    k: int = attr(doc="How many.")
    axis: int = attr(-1, doc="Axis to search along.")
    largest: bool = attr(True, doc="The largest; otherwise the smallest.")
    onnx = OnnxRule("TopK", since=11)

    def infer(self, x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        axis = normalize_axis(self.axis, x.rank)
        d = x.shape[axis]
        if self.k < 0 or (isinstance(d, int) and self.k > d):
            raise ShapeError(f"no {self.k} elements along axis {axis}", need=f"0 <= k <= {d}")
        spec = x.with_shape((*x.shape[:axis], self.k, *x.shape[axis + 1 :]))
        return spec, spec.with_dtype("int64")

    def forward(self, x: Any) -> Any:
        places = first_places(x, self.k, self.axis, self.largest)
        return np.take_along_axis(x, places, self.axis), places

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (TakeAlongAxisGrad(axis=self.axis)(gs[0], ys[1], xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((3, 4))
        yield Sample((x,), {"k": 2})
        yield Sample((x,), {"k": 3, "axis": 0, "largest": False})
        yield Sample((np.array([2, 1, 2, 0], np.uint8),), {"k": 0})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"k": 4}, "no 4 elements")
        yield ErrorSample((TensorSpec(()),), {"k": 1}, "out of range")

"""Basic and advanced indexing: what ``x[...]`` means, as in numpy."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...graph import Tensor
from ...graph.tensor import set_indexing
from ...op import LINEAR, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import AnyDim, Dim, TensorSpec, kind, larger, shapes_differ, smaller
from .index import Gather
from .joining import Stack
from .like import BroadcastLike
from .masking import BooleanMask
from .movement import Cast, Transpose
from .reshape import Reshape
from .scatter import GatherNd

Item = int | Dim | tuple[Any, ...] | None
"""One part of an index: a place, ``("slice", start, stop, step)``, or None for a new axis."""

ALL = ("slice", None, None, None)


def extent(item: tuple[Any, ...], d: AnyDim) -> AnyDim:
    """Return how many elements a slice takes of an axis of size ``d``, as Python counts them.

    The first or the last one of an axis is taken to be there; the plan lets it be none, where the
    axis is empty.

    >>> from gradwright.spec import Dim
    >>> [extent(("slice", *i), Dim.symbol("B")) for i in ((1, None, None), (None, 3, None))]
    [max(0, B - 1), min(3, B)]
    >>> extent(("slice", None, None, -2), Dim.symbol("B"))
    ((B + 1)//2)
    """
    start, stop, step = item[1:]
    step = 1 if step is None else step
    if not any(isinstance(v, Dim) for v in (start, stop, d)):
        return len(range(*slice(start, stop, step).indices(d)))
    forwards = step > 0

    def place(bound: AnyDim) -> AnyDim:
        """Return a bound counted from the front; a Dim counts from the end if all of it does."""
        negative = bound < 0 if isinstance(bound, int) else all(c < 0 for _, c in bound.terms)
        return d + bound if negative else bound

    if forwards:
        first = 0 if start is None else larger(0, place(start))
        last = d if stop is None else smaller(place(stop), d)
    else:
        last = d - 1 if start is None else smaller(place(start), d - 1)
        first = -1 if stop is None else larger(-1, place(stop))
    count = (larger(0, last - first) + (abs(step) - 1)) // abs(step)
    return 1 if count == smaller(1, d) else count


class StridedSlice(Op):
    """Elements at regular places along axes: ``x[1:, ::-2, 0, None]``.

    y[i, …] = x[start + i·step, …]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1, 2, 3], [4, 5, 6]])
    >>> g.output({}, gw.strided_slice(x, (0, slice(None, None, -1)), name="y"))["y"].tolist()
    [3, 2, 1]
    """

    namespace = "base"
    drawing = "shape"
    by_reference = "s"
    views = True
    value_rule = True
    dependence = LINEAR
    index: tuple[Item, ...] = attr(doc="Per axis a place or a slice; None for a new axis.")
    onnx = OnnxRule("Slice", since=13)

    def subscript(self) -> tuple[Any, ...]:
        """Return the index as numpy wants it."""
        return (*(slice(*i[1:]) if isinstance(i, tuple) else i for i in self.index), ...)

    def infer(self, x: TensorSpec) -> TensorSpec:
        shape: list[AnyDim] = []
        axis = 0
        for item in self.index:
            if item is None:
                shape.append(1)
                continue
            if axis == x.rank:
                raise ShapeError(f"too many indices for rank {x.rank}")
            d = x.shape[axis]
            if isinstance(item, tuple):
                if item[3] == 0:
                    raise ShapeError("a slice cannot have step 0")
                shape.append(d if item == ALL else extent(item, d))
            elif isinstance(d, int) and isinstance(item, int) and not -d <= item < d:
                raise ShapeError(f"index {item} is out of range", need=f"-{d} <= index < {d}")
            axis += 1
        return x.with_shape((*shape, *x.shape[axis:]))

    def forward(self, x: Any) -> Any:
        return x[self.subscript()]

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (StridedSliceGrad(index=self.index)(gs[0], xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((4, 3))
        yield Sample((x,), {"index": (-1,)})
        yield Sample((x,), {"index": (slice(3, None, -2), None, slice(1, 9))})
        yield Sample((x,), {"index": (slice(2, 2), slice(None, None, -1))})
        yield Sample((rng.standard_normal(()),), {"index": (None,)})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2, 3)),), {"index": (2,)}, "out of range")
        yield ErrorSample((TensorSpec((2,)),), {"index": (0, 0)}, "too many indices")
        yield ErrorSample((TensorSpec((2,)),), {"index": (slice(0, 2, 0),)}, "step 0")


class StridedSliceGrad(Op):
    """Zeros in the shape of ``x``, with ``g`` where the slice takes its elements.

    y[start + i·step, …] = g[i, …], 0 elsewhere
    """

    namespace = "gradient"
    shape_only = (1,)
    dependence = LINEAR
    index: tuple[Item, ...] = attr(doc="Per axis a place or a slice; None for a new axis.")

    def infer(self, g: TensorSpec, x: TensorSpec) -> TensorSpec:
        taken = StridedSlice(index=self.index).infer(x)
        if shapes_differ(taken.shape, g.shape):
            raise ShapeError("g is not of the slice's shape", need=str(taken), facts=[f"got {g}"])
        return g.with_shape(x.shape)

    def forward(self, g: Any, x: Any) -> Any:
        y = np.zeros(x.shape, g.dtype)
        y[StridedSlice(index=self.index).subscript()] = g
        return y

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return StridedSlice(index=self.index)(gs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        g = rng.standard_normal((2, 1, 2))
        yield Sample((g, np.ones((4, 3))), {"index": (slice(3, None, -2), None, slice(1, 9))})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((3,))), {"index": (0,)}, "slice's shape")


# -- x[...] ----------------------------------------------------------------------------------------


def _bound(value: Any) -> Any:
    """Return a slice's bound as an int or Dim; a tensor will do where its value is known."""
    if value is None or isinstance(value, Dim):
        return value
    if isinstance(value, Tensor):
        known = value.spec.value
        if known is None or value.rank:
            raise ShapeError(
                f"the bound {value.name!r} of a slice has no value yet",
                hint="a size such as x.shape[0], or gw.gather(x, gw.arange(n))",
            )
        return _bound(known.item())
    return operator.index(value)


def _parts(x: Tensor, index: Any) -> list[Any]:
    """Return the parts of an index: int, Dim, slice tuple, None, "..." or a tensor."""
    parts: list[Any] = []
    for item in index if isinstance(index, tuple) else (index,):
        if isinstance(item, slice):
            parts.append(("slice", _bound(item.start), _bound(item.stop), _bound(item.step)))
        elif item is None or isinstance(item, Dim):
            parts.append(item)
        elif item is Ellipsis:
            if any(p is Ellipsis for p in parts):
                raise ShapeError("an index has one Ellipsis at most")
            parts.append(Ellipsis)
        elif isinstance(item, Tensor):
            if kind(item.dtype) not in "iub" or (kind(item.dtype) == "b" and not item.rank):
                raise DTypeError(f"{item!r} cannot be an index", need="integers, or a bool mask")
            parts.append(item)
        elif isinstance(item, (list, np.ndarray)) and np.ndim(item):
            array = np.asarray(item, None if np.size(item) else np.int64)
            if array.dtype.kind not in "iub":
                raise DTypeError(f"{array.dtype} cannot be an index", need="integers, or a mask")
            parts.append(x.graph.constant(array))
        elif isinstance(item, (bool, np.bool_)):
            raise DTypeError(f"{item} cannot be an index", hint="gw.where(...)")
        else:
            parts.append(operator.index(item))
    return parts


def _width(part: Any) -> int:
    """Return how many axes of the indexed tensor a part takes."""
    if part is None or part is Ellipsis:
        return 0
    return part.rank if isinstance(part, Tensor) and kind(part.dtype) == "b" else 1


def subscript(x: Tensor, index: Any) -> Tensor:
    """Return ``x[index]``: slices, places and new axes first, then tensors of integers or a mask.

    The axes of index tensors broadcast against each other, and stand where the indexed axes stood,
    or first if a slice lies between these: numpy's rule.
    """
    parts = _parts(x, index)
    free = x.rank - sum(map(_width, parts))
    if free < 0:
        raise ShapeError(
            f"too many indices for {x.name!r}", facts=[f"{x!r}"], need=f"{x.rank} at most"
        )
    at = next((i for i, p in enumerate(parts) if p is Ellipsis), len(parts))
    advanced = [i for i, p in enumerate(parts) if isinstance(p, Tensor)]
    basic: list[Any] = []
    axes: list[int] = []  # axes that the tensors index, after basic indexing
    for part in (*parts[:at], *[ALL] * free, *parts[at + 1 :]):
        if isinstance(part, Tensor):
            axes.append(sum(not isinstance(b, (int, Dim)) for b in basic))
            basic += [ALL] * _width(part)
        else:
            basic.append(part)
    while basic and basic[-1] == ALL:
        basic.pop()
    y: Tensor = StridedSlice(index=basic)(x) if any(b != ALL for b in basic) else x
    if not advanced:
        return y
    fixed = [i for i, p in enumerate(parts) if isinstance(p, (int, Dim, Tensor))]
    together = fixed[-1] - fixed[0] + 1 == len(fixed)
    return _take(y, [parts[i] for i in advanced], axes, together)


def _take(x: Tensor, tensors: list[Tensor], axes: list[int], together: bool) -> Tensor:
    """Index ``x`` by tensors along axes."""
    masks = [t for t in tensors if kind(t.dtype) == "b"]
    if masks and len(tensors) > 1:
        raise DTypeError(
            "a mask beside other index tensors", hint="one after the other, or gw.nonzero(mask)"
        )
    y: Tensor
    if masks:
        y, rank, first = BooleanMask(axis=axes[0])(x, masks[0]), 1, axes[0]
    elif len(tensors) == 1:
        y, rank, first = Gather(axis=axes[0])(x, tensors[0]), tensors[0].rank, axes[0]
    else:
        others = [a for a in range(x.rank) if a not in axes]
        whole = [Cast(dtype="int64")(t) for t in tensors]
        total = whole[0]
        for t in whole[1:]:
            total = total + t
        places = Stack(axis=-1)(*(BroadcastLike()(t, total) for t in whole))
        y = GatherNd()(Transpose(axes=(*axes, *others))(x), places)
        rank, first = total.rank, 0
        if together:
            order = [*range(rank, rank + axes[0]), *range(rank), *range(rank + axes[0], y.rank)]
            return Transpose(axes=order)(y) if axes[0] and rank else y
    if together or not first or not rank:
        return y
    block = range(first, first + rank)
    order = [*block, *(a for a in range(y.rank) if a not in block)]
    return Transpose(axes=order)(y)  # type: ignore[no-any-return]


def _reshape(x: Tensor, shape: Any) -> Tensor:
    """Return ``x.reshape(shape)``: dims, or integer tensors, which may stand among them."""
    if isinstance(shape, Tensor):
        return Reshape()(x, shape)  # type: ignore[no-any-return]
    dims = [shape] if isinstance(shape, (int, Dim, np.integer)) else list(shape)
    if not any(isinstance(d, Tensor) for d in dims):
        return Reshape(shape=dims)(x)  # type: ignore[no-any-return]
    known = [
        d.spec.value.item() if isinstance(d, Tensor) and d.spec.value is not None else d
        for d in dims
    ]
    if not any(isinstance(d, Tensor) for d in known):
        return Reshape(shape=known)(x)  # type: ignore[no-any-return]
    parts = [Cast(dtype="int64")(d) if isinstance(d, Tensor) else d for d in dims]
    return Reshape()(x, Stack()(*parts))  # type: ignore[no-any-return]


set_indexing(subscript, _reshape)

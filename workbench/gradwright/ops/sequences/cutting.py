"""Tensors cut into sequences, and sequences joined into tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ZERO, Cotangent, ErrorSample, OnnxRule, Sample, attr
from ...spec import AnyDim, Dim, TensorSpec, kind, normalize_axis
from ...spec.containers import ANY, SequenceSpec, box_sequence, contents
from .lists import SequenceOp, sequence_spec


class SplitToSequence(SequenceOp):
    """A tensor cut along an axis into a sequence.

    x = concat(y₀, y₁, ...)

    Without ``split`` the pieces have one row each, and lose the axis unless ``keepdims``. A number
    is the size of all pieces, of which the last may be smaller; a vector gives their sizes. Raises
    ShapeError where the sizes do not add up. ONNX SplitToSequence.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sequence.split_to_sequence(g.constant([1.0, 2.0, 3.0]), 2)
    >>> [item.tolist() for item in g.output({}, y)["split_to_sequence"]]
    [[1.0, 2.0], [3.0]]
    """

    places = (1,)
    axis: int = attr(0, doc="Axis to cut along.")
    keepdims: bool = attr(True, doc="Whether pieces of one row keep the axis; without split only.")
    onnx = OnnxRule("SplitToSequence", since=11)

    def infer(self, x: TensorSpec, split: TensorSpec | None = None) -> TensorSpec:
        if x.dtype.kind == "O":
            raise DTypeError(f"split_to_sequence cuts a tensor, got {x}")
        at = normalize_axis(self.axis, x.rank)
        if split is None:
            middle: tuple[AnyDim, ...] = (1,) if self.keepdims else ()
        elif kind(split.dtype) not in "iu" or split.rank > 1:
            raise DTypeError(f"split is {split}", need="i64[] or i64[n]")
        else:
            middle = (_one_size(split, x.shape[at]),)
        return SequenceSpec((*x.shape[:at], *middle, *x.shape[at + 1 :]), x.dtype)

    def forward(self, x: Any, split: Any = None) -> Any:
        at, n = self.axis % x.ndim, x.shape[self.axis]
        if split is None:
            rows = np.moveaxis(x, at, 0)
            items = [(np.expand_dims(r, at) if self.keepdims else r).copy() for r in rows]
        else:
            if np.ndim(split):
                sizes = [int(k) for k in split]
            else:
                sizes = [int(split)] * (n // max(int(split), 1))
                sizes += [n - sum(sizes)] if sum(sizes) < n else []
            if sum(sizes) != n or min(sizes, default=0) < 0 or (not np.ndim(split) and split <= 0):
                raise ShapeError(
                    f"split_to_sequence cannot cut {n} rows into {np.asarray(split).tolist()}",
                    need="sizes that add up",
                )
            ends = np.cumsum(sizes, dtype=np.int64)[:-1]
            items = [p.copy() for p in np.split(x, ends, at)] if sizes else []
        shape = [*x.shape]
        shape[at : at + 1] = [] if split is None and not self.keepdims else [1]
        return box_sequence(items, SequenceSpec(shape, x.dtype))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Sequence[Any]) -> Sequence[Cotangent]:
        cut = len(xs) == 1 or xs[1] is None
        joined = ConcatFromSequence(axis=self.axis, new_axis=cut and not self.keepdims)(gs[0])
        return (joined,) if len(xs) == 1 else (joined, ZERO)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((5, 2))
        yield Sample((x,))
        yield Sample((x,), {"axis": -1, "keepdims": False})
        yield Sample((x, np.array(2)))
        yield Sample((x, np.array([1, 0, 4])))
        yield Sample((np.zeros((0, 2)),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {"axis": 1}, "out of range")
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2,))), {}, "split is f32[2]")


def _one_size(split: TensorSpec, rows: AnyDim) -> AnyDim:
    """Return the size that all pieces have, if they have one."""
    if split.value is None or not isinstance(rows, int):
        return ANY
    sizes = {d if isinstance(d, int) else ANY for d in np.ravel(split.value).tolist()}
    size = sizes.pop() if len(sizes) == 1 else ANY
    even = split.rank or (isinstance(size, int) and size > 0 and rows % size == 0)
    return size if even else ANY


class ConcatFromSequence(SequenceOp):
    """The items of a sequence, concatenated along an axis, or stacked on a new one.

    y = concat(x₀, x₁, ...)

    The size along the axis is known when it has run. Raises ShapeError for a sequence without
    items, or items that do not fit. ONNX ConcatFromSequence.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> items = gw.sequence.construct(g.constant([1.0, 2.0]), g.constant([3.0]))
    >>> y = gw.sequence.concat_from_sequence(items, axis=0)
    >>> g.output({}, y)["concat_from_sequence"].tolist()
    [1.0, 2.0, 3.0]
    """

    axis: int = attr(doc="Axis to join along; of the result, if it is new.")
    new_axis: bool = attr(False, doc="Whether items are stacked on a new axis.")
    onnx = OnnxRule("ConcatFromSequence", since=11)

    def infer(self, items: TensorSpec) -> TensorSpec:
        item = sequence_spec("concat_from_sequence", items).item
        at = normalize_axis(self.axis, item.rank + self.new_axis)
        rows = Dim.fresh("rows")
        return TensorSpec(
            (*item.shape[:at], rows, *item.shape[at + (not self.new_axis) :]), item.dtype
        )

    def forward(self, items: Any) -> Any:
        held = contents(items).items
        if not held:
            raise ShapeError("concat_from_sequence got no items", need="at least one")
        return np.stack(held, self.axis) if self.new_axis else np.concatenate(held, self.axis)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Sequence[Any]) -> Sequence[Cotangent]:
        return (SplitItems(axis=self.axis, new_axis=self.new_axis)(gs[0], xs[0]),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        items = box_sequence([rng.standard_normal((n, 2)) for n in (2, 0, 3)])
        yield Sample((items,), {"axis": 0})
        even = box_sequence([rng.standard_normal((2, 3)) for _ in range(2)])
        yield Sample((even,), {"axis": -1, "new_axis": True})
        yield Sample((even,), {"axis": -1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((SequenceSpec((2,)),), {"axis": 1}, "out of range")
        yield ErrorSample((TensorSpec((2,)),), {"axis": 0}, "takes a sequence")


class SplitItems(SequenceOp):
    """A tensor cut into pieces as large as the items of a sequence: the inverse of joining them.

    x = concat(y₀, y₁, ...), yᵢ like itemᵢ
    """

    namespace = "gradient"
    axis: int = attr(doc="Axis to cut along.")
    new_axis: bool = attr(False, doc="Whether pieces lose the axis.")

    def infer(self, x: TensorSpec, items: TensorSpec) -> TensorSpec:
        held = sequence_spec("split_items", items)
        normalize_axis(self.axis, x.rank)
        return SequenceSpec(held.item_shape, x.dtype)

    def forward(self, x: Any, items: Any) -> Any:
        held = contents(items)
        if self.new_axis:
            return box_sequence([r.copy() for r in np.moveaxis(x, self.axis, 0)], held.spec)
        sizes = [item.shape[self.axis] for item in held.items]
        ends = np.cumsum(sizes, dtype=np.int64)[:-1]
        return box_sequence([p.copy() for p in np.split(x, ends, self.axis)], held.spec)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ConcatFromSequence(axis=self.axis, new_axis=self.new_axis)(gs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        items = box_sequence([rng.standard_normal((n, 2)) for n in (2, 0, 3)])
        yield Sample((rng.standard_normal((5, 2)), items), {"axis": 0})
        even = box_sequence([rng.standard_normal(2) for _ in range(3)])
        yield Sample((rng.standard_normal((2, 3)), even), {"axis": 1, "new_axis": True})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), SequenceSpec((2,))), {"axis": 1}, "out of range")

"""Lists of tensors: made, read, lengthened, shortened; items may differ in size.

A list is never changed: each op returns another one, which shares the items that stay.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, kind
from ...spec.containers import SequenceSpec, box_sequence, contents, join
from ..core.choice import Where
from ..core.like import ZerosLike


class SequenceOp(Op, abstract=True):
    """An op on sequences."""

    namespace = "sequence"
    by_reference = "so"


def sequence_spec(name: str, x: TensorSpec) -> SequenceSpec:
    """Return the spec of an input that must be a sequence."""
    if not isinstance(x, SequenceSpec):
        raise DTypeError(
            f"{name} takes a sequence, got {x}", need="seq(...)", hint="gw.sequence.construct(a, b)"
        )
    return x


def check_index(name: str, index: TensorSpec | None) -> None:
    """Refuse an index that is no whole number."""
    if index is not None and (index.rank or kind(index.dtype) not in "iu"):
        raise DTypeError(f"{name} takes a place as i64[], got {index}", need="a whole number")


def place(index: Any, count: int) -> int:
    """Return a place counted from the front; ``count`` is how many there are."""
    at = int(index)
    if not -count <= at < count:
        raise ShapeError(f"there is no place {at}", need=f"-{count} <= place < {count}")
    return at % count


def joined(items: SequenceSpec, x: TensorSpec, name: str) -> TensorSpec:
    """Return the spec of the sequence with one more item."""
    if x.dtype != items.item_dtype:
        raise DTypeError(f"{name} puts {x} into {items}", need="one dtype", hint="gw.cast")
    return join(items, SequenceSpec(x.shape, x.dtype))


class Construct(SequenceOp):
    """A sequence of tensors, which may differ in size and rank but not in dtype.

    y = [x₀, x₁, ...]

    Raises DTypeError where the tensors cannot stand in one sequence. ONNX SequenceConstruct.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gw.sequence.construct(g.constant([1.0, 2.0]), g.constant([3.0]))
    <Tensor 'construct': seq(f32[?])>
    """

    onnx = OnnxRule("SequenceConstruct", since=11)

    def infer(self, *xs: TensorSpec) -> TensorSpec:
        if not xs:
            raise GraphError("construct takes at least one tensor", hint="gw.sequence.empty()")
        if wrong := [x for x in xs if x.dtype.kind == "O" or x.dtype != xs[0].dtype]:
            raise DTypeError(f"{xs[0]} and {wrong[0]} cannot be items of one sequence")
        specs: list[TensorSpec] = [SequenceSpec(x.shape, x.dtype) for x in xs]
        return functools.reduce(join, specs)

    def forward(self, *xs: Any) -> Any:
        return box_sequence([x.copy() for x in xs])

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Sequence[Any]) -> Sequence[Cotangent]:
        return [functools.partial(At(), gs[0], i) for i in range(len(xs))]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(tuple(rng.standard_normal((n, 2)) for n in (2, 0, 3)))
        yield Sample((np.arange(3),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((2,), "int64")), {}, "one sequence")
        yield ErrorSample((), {}, "at least one tensor")


class Empty(SequenceOp):
    """A sequence without items.

    y = []

    ``shape`` is that of the items it will hold, None for sizes that differ; left out, the first
    item put in says it. ONNX SequenceEmpty.

    >>> import gradwright as gw
    >>> with gw.Graph():
    ...     y = gw.sequence.empty(dtype="int64", shape=(None, 3))
    >>> y
    <Tensor 'empty': seq(i64[?, 3])>
    """

    dtype: np.dtype[Any] = attr("float32", doc="Dtype of the items.")
    shape: tuple[int | None, ...] | None = attr(None, doc="Shape of the items, as far as known.")
    onnx = OnnxRule("SequenceEmpty", since=11)

    def infer(self) -> TensorSpec:
        return SequenceSpec(self.shape, self.dtype)

    def forward(self) -> Any:
        return box_sequence([], SequenceSpec(self.shape, self.dtype))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ()

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample(())
        yield Sample((), {"dtype": "int64", "shape": (None, 3)})


class At(SequenceOp):
    """The item of a sequence at a place; negative places count from the end.

    y = xᵢ

    Where the items differ in size, the size of y is known when it has run. Raises ShapeError for a
    place that is not there. ONNX SequenceAt.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> items = gw.sequence.construct(g.constant([1.0, 2.0]), g.constant([3.0]))
    >>> g.output({}, gw.sequence.at(items, -1))["at"].tolist()
    [3.0]
    """

    places = (1,)
    onnx = OnnxRule("SequenceAt", since=11)

    def infer(self, items: TensorSpec, index: TensorSpec) -> TensorSpec:
        held = sequence_spec("at", items)
        check_index("at", index)
        return held.item

    def forward(self, items: Any, index: Any) -> Any:
        held = contents(items).items
        return held[place(index, len(held))].copy()

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Sequence[Any]) -> Sequence[Cotangent]:
        return lambda: PlaceItem()(xs[0], xs[1], gs[0]), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        items = box_sequence([rng.standard_normal((n, 2)) for n in (2, 0, 3)])
        for i in (0, -1, 1):
            yield Sample((items, np.array(i)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        items, index = SequenceSpec((2,)), TensorSpec((), "int64")
        yield ErrorSample((TensorSpec((2,)), index), {}, "takes a sequence")
        yield ErrorSample((items, TensorSpec((1,), "int64")), {}, "a place as i64[]")
        yield ErrorSample((SequenceSpec(None), index), {}, "nothing is known")


class PlaceItem(SequenceOp):
    """A sequence of zeros like another one, with one item given: the gradient of ``at``.

    yᵢ = x,  yⱼ = 0 elsewhere
    """

    namespace = "gradient"

    def infer(self, items: TensorSpec, index: TensorSpec, x: TensorSpec) -> TensorSpec:
        check_index("place_item", index)
        return joined(sequence_spec("place_item", items), x, "place_item")

    def forward(self, items: Any, index: Any, x: Any) -> Any:
        held = contents(items).items
        made = [np.zeros_like(item) for item in held]
        made[place(index, len(held))] = x.copy()
        return box_sequence(made)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Sequence[Any]) -> Sequence[Cotangent]:
        return ZERO, ZERO, lambda: At()(gs[0], xs[1])

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        items = box_sequence([rng.standard_normal((n, 2)) for n in (2, 3)])
        yield Sample((items, np.array(-1), rng.standard_normal((3, 2))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        index, x = TensorSpec((), "int64"), TensorSpec((2,), "int64")
        yield ErrorSample((SequenceSpec((2,)), index, x), {}, "one dtype")


class Insert(SequenceOp):
    """The sequence with one more item, by default at its end.

    y = [x₀, ..., xᵢ₋₁, item, xᵢ, ...]

    ``index`` is from −n to n, for n items. Raises ShapeError beyond that, DTypeError for an item of
    another dtype. ONNX SequenceInsert.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> items = gw.sequence.construct(g.constant([1.0]))
    >>> y = gw.sequence.insert(items, g.constant([2.0, 3.0]), 0)
    >>> [item.tolist() for item in g.output({}, y)["insert"]]
    [[2.0, 3.0], [1.0]]
    """

    places = (2,)
    onnx = OnnxRule("SequenceInsert", since=11)

    def infer(
        self, items: TensorSpec, item: TensorSpec, index: TensorSpec | None = None
    ) -> TensorSpec:
        check_index("insert", index)
        return joined(sequence_spec("insert", items), item, "insert")

    def forward(self, items: Any, item: Any, index: Any = None) -> Any:
        held = contents(items)
        n = len(held.items)
        at = n if index is None or int(index) == n else place(index, n)
        return box_sequence([*held.items[:at], item.copy(), *held.items[at:]])

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Sequence[Any]) -> Sequence[Cotangent]:
        g, index = gs[0], xs[2] if len(xs) > 2 else None
        if index is None:
            return lambda: Erase()(g), lambda: At()(g, -1)
        at = from_front(index, xs[0])
        return lambda: Erase()(g, at), lambda: At()(g, at), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        items = box_sequence([rng.standard_normal((n, 2)) for n in (2, 3)])
        x = rng.standard_normal((1, 2))
        for index in (None, np.array(0), np.array(-1), np.array(2)):
            yield Sample((items, x) if index is None else (items, x, index))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        items, x = SequenceSpec((2,)), TensorSpec((2,))
        yield ErrorSample((x, x), {}, "takes a sequence")
        yield ErrorSample((items, x.with_dtype("int64")), {}, "one dtype")


class Erase(SequenceOp):
    """The sequence without one item, by default without its last.

    y = [x₀, ..., xᵢ₋₁, xᵢ₊₁, ...]

    Raises ShapeError for a place that is not there. ONNX SequenceErase.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> items = gw.sequence.construct(g.constant([1.0]), g.constant([2.0]))
    >>> g.output({}, gw.sequence.erase(items, 0))["erase"]
    [array([2.], dtype=float32)]
    """

    places = (1,)
    onnx = OnnxRule("SequenceErase", since=11)

    def infer(self, items: TensorSpec, index: TensorSpec | None = None) -> TensorSpec:
        check_index("erase", index)
        return sequence_spec("erase", items)

    def forward(self, items: Any, index: Any = None) -> Any:
        held = contents(items)
        at = place(-1 if index is None else index, len(held.items))
        return box_sequence([*held.items[:at], *held.items[at + 1 :]], held.spec)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Sequence[Any]) -> Sequence[Cotangent]:
        g, items = gs[0], xs[0]
        index = xs[1] if len(xs) > 1 else None

        def gone() -> Any:
            return ZerosLike()(At()(items, -1 if index is None else index))

        if index is None:
            return (lambda: Insert()(g, gone()),)
        return lambda: Insert()(g, gone(), from_front(index, items)), ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        items = box_sequence([rng.standard_normal((n, 2)) for n in (2, 0, 3)])
        for index in (None, np.array(0), np.array(-2)):
            yield Sample((items,) if index is None else (items, index))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "takes a sequence")


class Length(SequenceOp):
    """How many items a sequence has.

    n: i64[]. ONNX SequenceLength.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> items = gw.sequence.construct(g.constant([1.0]), g.constant([2.0]))
    >>> int(g.output({}, gw.sequence.length(items))["length"])
    2
    """

    onnx = OnnxRule("SequenceLength", since=11)

    def infer(self, items: TensorSpec) -> TensorSpec:
        sequence_spec("length", items)
        return TensorSpec((), "int64")

    def forward(self, items: Any) -> Any:
        return np.array(len(contents(items).items))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((box_sequence([], SequenceSpec((2,))),))
        yield Sample((box_sequence([rng.standard_normal(2)]),))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)),), {}, "takes a sequence")


class Put(SequenceOp):
    """The sequence with another item at a place.

    yᵢ = item,  yⱼ = xⱼ elsewhere

    Raises ShapeError for a place that is not there, DTypeError for an item of another dtype.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> items = gw.sequence.construct(g.constant([1.0]), g.constant([2.0]))
    >>> g.output({}, gw.sequence.put(items, 0, g.constant([5.0])))["put"][0].tolist()
    [5.0]
    """

    places = (1,)

    def expand(self, items: Any, index: Any, item: Any) -> Any:
        at = from_front(index, items)
        return Insert()(Erase()(items, at), item, at)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        items = box_sequence([rng.standard_normal((n, 2)) for n in (2, 3)])
        for index in (0, -1):
            yield Sample((items, np.array(index), rng.standard_normal((1, 2))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        index, x = TensorSpec((), "int64"), TensorSpec((2,), "int64")
        yield ErrorSample((SequenceSpec((2,)), index, x), {}, "one dtype")


def from_front(index: Any, items: Any) -> Any:
    """Return a place counted from the front, as a tensor."""
    return Where()(operator.lt(index, 0), index + Length()(items).astype(index.dtype), index)

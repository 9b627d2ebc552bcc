"""Values that are no dense arrays: sequences of tensors, and optionals, which may hold nothing.

The engine moves arrays, so such a value is a 0-d array of dtype object around one
:class:`Contents`: it has a shape, can be named, fed, captured and fetched like any other, lives in
no arena, and its items are never written. A session takes and returns lists, arrays and None.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..errors import DTypeError, ShapeError
from .dims import Dim, Shape
from .dims import substitute as substitute_dims
from .tensor import BOXED, AnyDim, TensorSpec, dtype, spec_of

Array = np.ndarray[Any, Any]

ANY = Dim.symbol("?")
"""A size that differs between the items of a sequence; only their specs have it."""


class ContainerSpec(TensorSpec):
    """What is common to sequences and optionals: rank 0, and values that the plan refers to."""

    __slots__ = ()

    def __init__(self) -> None:
        self.shape, self.dtype, self.value = (), BOXED, None

    def with_shape(self, shape: Sequence[AnyDim]) -> TensorSpec:
        """Return the spec itself; a container has no other shape."""
        if tuple(shape):
            raise ShapeError(f"{self} has no axes", hint="gw.sequence.at(items, i)")
        return self

    def with_dtype(self, dtype_: DTypeLike) -> TensorSpec:
        """Refuse: the dtype is that of the items."""
        raise DTypeError(f"{self} cannot be made {dtype_}", hint="gw.sequence.map over the items")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContainerSpec) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())


class SequenceSpec(ContainerSpec):
    """A list of tensors of one dtype; sizes that differ between them are written ``?``.

    ``shape`` is None while nothing is known of the items, as in a sequence that starts empty, and
    where they differ in rank.

    >>> from gradwright.spec.containers import SequenceSpec
    >>> SequenceSpec((None, 3)), SequenceSpec(None, "int64")
    (seq(f32[?, 3]), seq(i64))
    """

    __slots__ = ("item_dtype", "item_shape")

    def __init__(
        self, shape: Sequence[AnyDim | str | None] | None, dtype_: DTypeLike = "float32"
    ) -> None:
        super().__init__()
        self.item_dtype = dtype(dtype_)
        self.item_shape: Shape | None = (
            None
            if shape is None
            else tuple(
                ANY if d is None else Dim.symbol(d) if isinstance(d, str) else d for d in shape
            )
        )

    @property
    def differentiable(self) -> bool:
        """Whether gradients flow through the items."""
        return TensorSpec((), self.item_dtype).differentiable

    @property
    def item(self) -> TensorSpec:
        """Spec of any item; fresh symbols stand for sizes that differ between items."""
        if self.item_shape is None:
            raise ShapeError(f"nothing is known of the items of {self}", need="an item put in")
        dims = [Dim.fresh("item") if d == ANY else d for d in self.item_shape]
        return TensorSpec(dims, self.item_dtype)

    def substitute(self, sizes: Mapping[str, int]) -> TensorSpec:
        """Return the spec with known symbols replaced."""
        if self.item_shape is None:
            return self
        return SequenceSpec(substitute_dims(self.item_shape, sizes), self.item_dtype)

    def key(self) -> tuple[Any, ...]:
        """Return a hashable identity."""
        return "seq", self.item_shape, self.item_dtype

    def __repr__(self) -> str:
        if self.item_shape is None:
            return f"seq({str(TensorSpec((), self.item_dtype))[:-2]})"
        return f"seq({TensorSpec(self.item_shape, self.item_dtype)})"


class OptionalSpec(ContainerSpec):
    """A tensor or a sequence, or nothing.

    >>> from gradwright.spec.containers import OptionalSpec, SequenceSpec
    >>> from gradwright import TensorSpec
    >>> OptionalSpec(TensorSpec((2,))), OptionalSpec(SequenceSpec((None,)))
    (opt(f32[2]), opt(seq(f32[?])))
    """

    __slots__ = ("element",)

    def __init__(self, element: TensorSpec) -> None:
        super().__init__()
        if isinstance(element, OptionalSpec):
            raise DTypeError(f"an optional cannot hold {element}", need="a tensor or a sequence")
        self.element = element

    @property
    def differentiable(self) -> bool:
        """Whether gradients flow through what it holds."""
        return self.element.differentiable

    def substitute(self, sizes: Mapping[str, int]) -> TensorSpec:
        """Return the spec with known symbols replaced."""
        return OptionalSpec(self.element.substitute(sizes))

    def key(self) -> tuple[Any, ...]:
        """Return a hashable identity."""
        return "opt", self.element.key()

    def __repr__(self) -> str:
        return f"opt({self.element})"


def join(a: TensorSpec, b: TensorSpec) -> TensorSpec:
    """Return the spec of items or containers that are either; sizes that differ become ``?``.

    >>> from gradwright.spec.containers import SequenceSpec, join
    >>> join(SequenceSpec((2, 3)), SequenceSpec((5, 3)))
    seq(f32[?, 3])
    """
    if isinstance(a, SequenceSpec) and isinstance(b, SequenceSpec) and a.item_dtype == b.item_dtype:
        if a.item_shape is None or b.item_shape is None:
            return a if b.item_shape is None else b
        if len(a.item_shape) == len(b.item_shape):
            return SequenceSpec(_either(a.item_shape, b.item_shape), a.item_dtype)
        return SequenceSpec(None, a.item_dtype)
    elif isinstance(a, OptionalSpec) and isinstance(b, OptionalSpec):
        return OptionalSpec(join(a.element, b.element))
    elif not isinstance(a, ContainerSpec) and a.dtype == b.dtype and a.rank == b.rank:
        return TensorSpec(_either(a.shape, b.shape), a.dtype)
    raise ShapeError(f"{a} and {b} cannot stand in one place", need="equal dtype and rank")


def _either(a: Shape, b: Shape) -> Shape:
    return tuple(p if p == q else ANY for p, q in zip(a, b, strict=True))


class Contents:
    """The items of a sequence, or the one or none of an optional; equal if these are."""

    __slots__ = ("items", "spec")

    def __init__(self, spec: ContainerSpec, items: tuple[Array, ...]) -> None:
        self.spec, self.items = spec, items

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Contents)
            and len(self.items) == len(other.items)
            and all(map(_same, self.items, other.items))
        )

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        shown = ", ".join(str(spec_of(item)) for item in self.items[:8])
        return f"[{shown}{', ...' if len(self.items) > 8 else ''}]"


def _same(a: Array, b: Array) -> bool:
    nan = a.dtype.kind in "fcV"
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=nan)


def box(spec: ContainerSpec, items: Iterable[Array]) -> Array:
    """Return the value of a container; the caller gives the items away."""
    boxed = np.empty((), BOXED)
    held = tuple(items)
    for item in held:
        item.flags.writeable = False
    boxed[()] = Contents(spec, held)
    return boxed


def box_sequence(items: Sequence[Array], known: TensorSpec | None = None) -> Array:
    """Return a sequence of ``items``; ``known`` is the spec of a sequence whose items may be there.

    >>> import numpy as np
    >>> from gradwright.spec.containers import box_sequence, contents
    >>> boxed = box_sequence([np.zeros((2, 3)), np.ones((4, 3))])
    >>> contents(boxed).spec, len(contents(boxed).items)
    (seq(f64[?, 3]), 2)
    """
    specs: list[TensorSpec] = [SequenceSpec(item.shape, item.dtype) for item in items]
    spec: Any = functools.reduce(join, specs) if specs else known
    return box(spec, items)


def contents(boxed: Array) -> Contents:
    """Return what a container's value holds."""
    held: Any = boxed[()]
    return held  # type: ignore[no-any-return]


def owned(boxed: Array) -> Array:
    """Return the value with items that nobody else has."""
    held = contents(boxed)
    return box(held.spec, [owned(i) if i.dtype == BOXED else i.copy() for i in held.items])


def to_python(boxed: Array) -> Any:
    """Return a list of arrays, an array or None: what a session gives for a container.

    >>> import numpy as np
    >>> from gradwright.spec.containers import box_sequence, to_python
    >>> to_python(box_sequence([np.arange(2)]))
    [array([0, 1])]
    """
    held = contents(boxed)
    if isinstance(held.spec, SequenceSpec):
        return [item.copy() for item in held.items]
    if not held.items:
        return None
    (item,) = held.items
    return to_python(item) if item.dtype == BOXED else item.copy()

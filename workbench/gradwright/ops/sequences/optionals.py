"""Optionals: a tensor or a sequence that may not be there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError, ShapeError
from ...op import AFFINE, ZERO, Cotangent, ErrorSample, OnnxRule, Sample, attr
from ...spec import BOXED, Dim, TensorSpec, spec_of
from ...spec.containers import ANY, OptionalSpec, SequenceSpec, box, contents, owned
from .lists import SequenceOp


class Optional(SequenceOp):
    """A tensor or a sequence as something that may not be there; without an input, nothing.

    y = x, or nothing

    What an empty one could hold is stated by ``dtype``, ``shape`` and ``is_sequence``. ONNX
    Optional.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sequence.optional(g.constant([1.0, 2.0]))
    >>> y, g.output({}, y)["optional"].tolist()
    (<Tensor 'optional': opt(f32[2])>, [1.0, 2.0])
    """

    dtype: np.dtype[Any] = attr("float32", doc="Dtype of what an empty one could hold.")
    shape: tuple[int | None, ...] | None = attr(None, doc="Shape of that; None where it is open.")
    is_sequence: bool = attr(False, doc="Whether that would be a sequence.")
    onnx = OnnxRule("Optional", since=15)

    def infer(self, x: TensorSpec | None = None) -> TensorSpec:
        if x is not None:
            return OptionalSpec(x.with_shape(x.shape))
        return self._empty()

    def _empty(self) -> OptionalSpec:
        if self.is_sequence:
            return OptionalSpec(SequenceSpec(self.shape, self.dtype))
        if self.shape is None:
            raise GraphError("an empty optional needs the shape of a tensor", hint="shape=(None,)")
        return OptionalSpec(TensorSpec([ANY if d is None else d for d in self.shape], self.dtype))

    def forward(self, x: Any = None) -> Any:
        if x is None:
            return box(self._empty(), ())
        return box(OptionalSpec(spec_of(x)), (owned(x) if x.dtype == BOXED else x.copy(),))

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Sequence[Any]) -> Sequence[Cotangent]:
        return (OptionalGetElement()(gs[0]),) if xs else ()

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.standard_normal((2, 3)),))
        yield Sample((), {"shape": (None, 2)})
        yield Sample((), {"is_sequence": True, "dtype": "int64"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((OptionalSpec(TensorSpec(())),), {}, "an optional cannot hold")


class OptionalGetElement(SequenceOp):
    """What an optional holds.

    y = x

    A tensor or a sequence is itself. Raises ShapeError, when run, where there is nothing. ONNX
    OptionalGetElement.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sequence.optional_get_element(gw.sequence.optional(g.constant([1.0, 2.0])))
    >>> g.output({}, y)["optional_get_element"].tolist()
    [1.0, 2.0]
    """

    dependence = AFFINE
    onnx = OnnxRule("OptionalGetElement", since=15)

    def infer(self, x: TensorSpec) -> TensorSpec:
        held = x.element if isinstance(x, OptionalSpec) else x
        if held.dtype == BOXED:
            return held
        return held.with_shape([Dim.fresh("held") if d == ANY else d for d in held.shape])

    def forward(self, x: Any) -> Any:
        if not (x.dtype == BOXED and isinstance(contents(x).spec, OptionalSpec)):
            return owned(x) if x.dtype == BOXED else x.copy()
        if not contents(x).items:
            raise ShapeError("the optional holds nothing", hint="gw.sequence.optional_has_element")
        (held,) = contents(x).items
        return owned(held) if held.dtype == BOXED else held.copy()

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Sequence[Any]) -> Sequence[Cotangent]:
        return (Optional()(gs[0]) if isinstance(xs[0].spec, OptionalSpec) else gs[0],)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x = rng.standard_normal((2, 3))
        yield Sample((box(OptionalSpec(spec_of(x)), (x,)),))
        yield Sample((x.copy(),))


class OptionalHasElement(SequenceOp):
    """Whether an optional holds anything.

    y: bool[]. False without an input, True for a tensor or a sequence. ONNX OptionalHasElement.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.sequence.optional_has_element(gw.sequence.optional(g.constant(1.0)))
    >>> bool(g.output({}, y)["optional_has_element"])
    True
    """

    onnx = OnnxRule("OptionalHasElement", since=15)

    def infer(self, x: TensorSpec | None = None) -> TensorSpec:
        return TensorSpec((), "bool")

    def forward(self, x: Any = None) -> Any:
        if x is not None and x.dtype == BOXED and isinstance(contents(x).spec, OptionalSpec):
            return np.array(bool(contents(x).items))
        return np.array(x is not None)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Sequence[Any]) -> Sequence[Cotangent]:
        return (ZERO,) * len(xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        spec = OptionalSpec(TensorSpec((2,), "float64"))
        yield Sample((box(spec, ()),))
        yield Sample((box(spec, (rng.standard_normal(2),)),))
        yield Sample((rng.standard_normal(2),))

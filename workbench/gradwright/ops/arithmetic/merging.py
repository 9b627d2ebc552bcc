"""One tensor of several, element by element: mean, largest, and which is largest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError
from ...op import ErrorSample, OnnxRule, Op, Sample
from ...spec import TensorSpec, broadcast, kind, promote_all
from ..core.identity import AddN
from ..core.joining import Stack
from ..core.movement import Cast
from ..core.quantifiers import Argmax
from ..core.reduce import Max


class _Merge(Op):
    """A function of several tensors, element by element."""

    namespace = "math"

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        for n in (1, 3):
            yield Sample(tuple(rng.standard_normal((2, 3)) for _ in range(n)))
        yield Sample((np.zeros((0, 2)), np.ones((0, 2))))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((2,)), TensorSpec((3,))), {}, "need:")


class MergeAvg(_Merge):
    """Mean of several tensors, which broadcast; of ints as float32.

    y = (x₀ + … + xₙ₋₁) / n

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.merge_avg(g.constant([1.0, 2.0]), 4.0, name="y"))["y"].tolist()
    [2.5, 3.0]
    """

    onnx = OnnxRule("Mean", since=13)

    def infer(self, *xs: TensorSpec) -> TensorSpec:
        joint = promote_all(*xs)
        target = joint if kind(joint) in "fc" else "float32"
        return TensorSpec(broadcast(*(x.shape for x in xs)), target)

    def expand(self, *xs: Any) -> Any:
        joint = promote_all(*xs)
        target: Any = joint if kind(joint) in "fc" else "float32"
        wide = "float32" if joint.itemsize < 4 else target
        total = AddN()(*(Cast(dtype=wide)(x) for x in xs))
        return Cast(dtype=target)(total / float(len(xs)))


class _OfEqualShape(_Merge):
    def infer(self, *xs: TensorSpec) -> TensorSpec:
        joint = promote_all(*xs)
        if kind(joint) not in "buif":
            raise DTypeError(f"{self.name} does not take {joint}")
        return TensorSpec(Stack().infer(*xs).shape[1:], joint)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield from super().samples(rng)
        tied = [[1.0, 2.0], [1.0, 3.0], [1.0, 0.0]]
        yield Sample(tuple(map(np.array, tied)), smooth=False)


class MergeMax(_OfEqualShape):
    """Largest element of several tensors of one shape; equal ones share the gradient.

    y = max(x₀, …, xₙ₋₁)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.merge_max(g.constant([1, 5]), g.constant([4, 2]), name="y"))["y"].tolist()
    [4, 5]
    """

    def expand(self, *xs: Any) -> Any:
        return Max(axis=0)(Stack()(*xs))


class MergeMaxIndex(_OfEqualShape):
    """Number of the tensor that holds the largest element; the first of equal ones.

    y = argmaxₖ xₖ : i64

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.merge_max_index(g.constant([1, 5]), g.constant([4, 2]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [1, 0]
    """

    def infer(self, *xs: TensorSpec) -> TensorSpec:
        return super().infer(*xs).with_dtype("int64")

    def expand(self, *xs: Any) -> Any:
        return Argmax(axis=0)(Stack()(*xs))

"""Labels that are class numbers, fit for indexing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError
from ...op import ZERO, Autocast, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, kind
from ..layers.nn import refuse_outside


class ClassNumbers(Op):
    """Class numbers fit for indexing: ignored ones are 0, others that are no class are refused.

    y = label, or 0 where label = ignore_index

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([1, -100]), g.constant([[0.0, 0.0], [0.0, 0.0]])
    >>> g.output({}, ClassNumbers(ignore_index=-100)(y, x, name="y"))["y"].tolist()
    [1, 0]
    """

    namespace = "inner"
    drawing = "math"
    autocast = Autocast.FREE
    shape_only = (1,)
    ignore_index: int | None = attr(None, doc="Label of examples that do not count.")

    def infer(self, labels: TensorSpec, predictions: TensorSpec) -> TensorSpec:
        if kind(labels.dtype) not in "iu":
            raise DTypeError(f"labels must be class numbers, got {labels.dtype}", need="int64")
        return labels.with_dtype("int64")

    def forward(self, labels: Any, predictions: Any) -> Any:
        return class_numbers(labels, predictions.shape[-1], self.ignore_index)[0]

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return ZERO, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.integers(0, 4, (2, 3)), rng.standard_normal((2, 3, 4))))
        yield Sample((np.array([-1, 3], np.int32), np.zeros((2, 4))), {"ignore_index": -1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield ErrorSample((TensorSpec((3,)), TensorSpec((3, 4))), {}, "must be class numbers")


def class_numbers(labels: Any, n_classes: int, ignored: int | None) -> tuple[Any, Any]:
    """Return labels fit for indexing, and which examples count; refuse unknown classes."""
    kept = np.ones(labels.shape, bool) if ignored is None else labels != ignored
    fits = ~kept | ((labels >= 0) & (labels < n_classes))
    refuse_outside(labels, fits, "class", n_classes, "ignore_index=... leaves examples out")
    return np.where(kept, labels, 0).astype(np.int64), kept

"""An evaluation as a metric of a trainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ShapeError
from ..graph import Tensor
from ..words.jsonable import from_json_array
from .metrics import Array, Metric

if TYPE_CHECKING:
    from .base import Evaluation


class EvaluationMetric(Metric):
    """One number of an evaluation as a metric: per step of the batch, per epoch of all batches.

    The total of an epoch is an evaluation, ``evaluation`` is an empty one. What is unusual in data,
    such as a batch of one class, gives NaN.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, p = g.placeholder("t", (None,), "int64"), g.placeholder("p", (None, 3))
    >>> f1 = gw.evaluation.Classification().metric(t, p, value="f1")
    >>> f1.result(f1.add(f1.start(), [[0, 1], [[2, 1, 0], [2, 1, 0]]], rows=2))
    0.3333333333333333
    """

    def __init__(
        self,
        evaluation: Evaluation,
        labels: Tensor,
        predictions: Tensor,
        mask: Tensor | None = None,
        value: str | None = None,
    ) -> None:
        self.evaluation = evaluation.fresh()
        self.value = evaluation.numbers[0] if value is None else value
        self.evaluation.number(self.value)  # raises, if there is none of the name
        if labels.rank not in (predictions.rank, predictions.rank - 1):
            raise ShapeError(
                "labels do not fit the predictions",
                facts=[f"labels : {labels.spec}", f"predictions : {predictions.spec}"],
            )
        self.fetches = (labels, predictions) if mask is None else (labels, predictions, mask)

    def start(self) -> Evaluation:
        """Return an evaluation that has seen nothing."""
        return self.evaluation.fresh()

    def add(self, total: Any, arrays: Sequence[Array], rows: int) -> Evaluation:
        """Return an evaluation that has seen one more batch."""
        return self._held(total).copy().add(*arrays)

    def result(self, total: Any) -> float:
        """Return the number."""
        return self._held(total).number(self.value)

    def _held(self, total: Any) -> Evaluation:
        """Return the total as an evaluation: what was saved of one is bytes of its JSON."""
        if isinstance(total, type(self.evaluation)):
            return total
        return self.evaluation.restored(from_json_array(total))

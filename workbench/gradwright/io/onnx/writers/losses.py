"""Losses of class numbers."""

from __future__ import annotations

import numpy as np

from ....spec import normalize_axis
from ..exporter import writes
from ..output import Call, CannotExport

_REDUCTIONS = {"none": "none", "sum": "sum", "mean_by_weight": "mean"}
_OPERATORS = {
    "nll": "NegativeLogLikelihoodLoss",
    "sparse_softmax_cross_entropy": "SoftmaxCrossEntropyLoss",
}


@writes(*_OPERATORS)
def of_labels(call: Call) -> str:
    """Write a loss whose classes stand on axis 1, and whose examples have no weights."""
    labels, x, weights, of_class = (*call.specs, None, None)[:4]
    assert labels is not None and x is not None
    if weights is not None or x.rank < 2 or normalize_axis(call.axis, x.rank) != 1:
        raise CannotExport
    if call.op.attributes().get("label_smoothing"):
        raise CannotExport
    if of_class is not None and of_class.dtype != x.dtype:
        raise CannotExport
    alike = of_class is None and call.ignore_index is None
    reduction = "mean" if call.reduction == "mean" and alike else _REDUCTIONS.get(call.reduction)
    if reduction is None:
        raise CannotExport
    numbers = call.cast(call.xs[0], labels.dtype, np.dtype("int64"))
    return call.add(
        _OPERATORS[call.op.name], call.xs[1], numbers, call.xs[3] if of_class is not None else "",
        reduction=reduction, ignore_index=call.ignore_index,
    )  # fmt: skip

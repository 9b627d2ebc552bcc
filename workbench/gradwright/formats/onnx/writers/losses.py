"""Losses of class numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....graph import Tensor
from ....op import seams
from ....spec import normalize_axis
from ..node import writes
from ..nodes import spelled
from ..output import Call
from ..versions import CannotExport

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
    counted = call.reduction == "mean_by_nonzero_weight_count" and alike
    reduction = "mean" if counted else _REDUCTIONS.get(call.reduction)
    if reduction is None:
        raise CannotExport
    numbers = call.cast(call.xs[0], labels.dtype, np.dtype("int64"))
    return call.add(
        _OPERATORS[call.op.name], call.xs[1], numbers, call.xs[3] if of_class is not None else "",
        reduction=reduction, ignore_index=call.ignore_index,
    )  # fmt: skip


@writes("label_cross_entropy")
def label_cross_entropy(call: Call) -> str:
    """Write the losses per example, with the classes moved to axis 1."""
    labels, x = call.specs
    assert labels is not None and x is not None
    numbers, logits = call.cast(call.xs[0], labels.dtype, np.dtype("int64")), call.xs[1]
    if x.rank == 1:
        numbers, logits = (call.add("Unsqueeze", t, call.out.ints([0])) for t in (numbers, logits))
    elif x.rank > 2:
        logits = call.add("Transpose", logits, perm=[0, x.rank - 1, *range(1, x.rank - 1)])
    attrs = {"reduction": "none", "ignore_index": call.ignore_index}
    y = call.add("SoftmaxCrossEntropyLoss", logits, numbers, **attrs)
    return call.add("Squeeze", y, call.out.ints([0])) if x.rank == 1 else y


@spelled("head_log_probs")
def head_log_probs(of: Any, hidden: Tensor, weight: Tensor, ids: Tensor, bias: Any = None) -> Any:
    """Hold the logits: files have no word for what never holds them."""
    return of.whole(hidden, weight, ids, bias)


@spelled("head_log_probs_grad")
def head_log_probs_grad(of: Any, *given: Any) -> Any:
    """Hold the logits, and derive what is made of them."""
    hidden, weight, ids, *bias = given[4:]
    xs = [hidden, weight, *(t for t in bias if t is not None)]
    ys = of.whole(hidden, weight, ids, *bias)[:4]
    return seams.gradients(ys, xs, given[:4], unreachable="zero")


@writes("class_numbers")
def class_numbers(call: Call) -> str:
    numbers = call.cast(call.xs[0], call.x.dtype, np.dtype("int64"))
    if call.ignore_index is None:
        return call.add("Identity", numbers)
    ignored = call.add("Equal", numbers, call.out.constant(np.int64(call.ignore_index)))
    return call.add("Where", ignored, call.out.constant(np.int64(0)), numbers)

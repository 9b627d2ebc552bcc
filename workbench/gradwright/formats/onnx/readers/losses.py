"""Losses on class labels, for batches of any spatial shape."""

from __future__ import annotations

from typing import Any

from ..node import OnnxNode, op, reads

_REDUCTIONS = {"none": "none", "sum": "sum", "mean": "mean_by_weight"}


def _loss(name: str, node: OnnxNode, x: Any, labels: Any, weights: Any) -> Any:
    """Return a loss of class numbers, in which the classes may have weights."""
    attrs = {"axis": 1, "ignore_index": node.get("ignore_index")}
    reduction = _REDUCTIONS[node.get("reduction", "mean")]
    return op(name, **attrs, reduction=reduction)(labels, x, None, weights)


@reads("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood(node: OnnxNode, x: Any, target: Any, weight: Any = None) -> Any:
    return _loss("nll", node, x, target, weight)


@reads("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(node: OnnxNode, scores: Any, labels: Any, weights: Any = None) -> Any:
    loss = _loss("sparse_softmax_cross_entropy", node, scores, labels, weights)
    return (loss, op("log_softmax", axis=1)(scores)) if len(node.wanted) > 1 else loss

"""Losses on class labels, for batches of any spatial shape."""

from __future__ import annotations

from typing import Any

from ..node import OnnxNode, cast, op, reads


def _negative_log_likelihood(node: OnnxNode, log_prob: Any, target: Any, weight: Any) -> Any:
    """Return −w·log p of each label, reduced; labels to ignore have weight 0."""
    ignored = node.get("ignore_index")
    labels = cast(target, "int64")
    skip = None
    if ignored is not None:
        skip = op("equal")(labels, ignored)
        labels = op("where")(skip, 0, labels)
    picked = op("take_along_axis", axis=1)(log_prob, op("expand_dims", axis=1)(labels))
    loss = -op("squeeze", axis=1)(picked)
    each = None if weight is None else op("gather", axis=0)(weight, labels)
    if skip is not None:
        kept = op("ones_like")(loss) if each is None else each
        each = op("where")(skip, 0.0, kept)
    loss = loss if each is None else loss * each
    reduction = node.get("reduction", "mean")
    if reduction == "none":
        return loss
    total = op("sum")(loss)
    if reduction == "sum":
        return total
    return op("mean")(loss) if each is None else total / op("sum")(each)


@reads("NegativeLogLikelihoodLoss", since=12)
def negative_log_likelihood(node: OnnxNode, x: Any, target: Any, weight: Any = None) -> Any:
    return _negative_log_likelihood(node, x, target, weight)


@reads("SoftmaxCrossEntropyLoss", since=12)
def softmax_cross_entropy(node: OnnxNode, scores: Any, labels: Any, weights: Any = None) -> Any:
    log_prob = op("log_softmax", axis=1)(scores)
    loss = _negative_log_likelihood(node, log_prob, labels, weights)
    return (loss, log_prob) if len(node.wanted) > 1 else loss

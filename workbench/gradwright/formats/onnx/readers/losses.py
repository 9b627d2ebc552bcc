"""Losses on class labels, for batches of any spatial shape."""

from __future__ import annotations

from typing import Any

from ...foreign import Chosen, Fixed, Rule, attribute
from ...foreign.attributes import described
from ..node import OnnxNode, maps, op, reads

_LOSS: dict[str, Any] = {"ignore_index": attribute(int, None), "reduction": "mean"}
_TAKES = {
    "axis": Fixed(1),
    "reduction": Chosen("reduction", {"none": "none", "sum": "sum", "mean": "mean_by_weight"}),
}
_INPUTS = (1, 0, None, 2)  # class numbers first, no weights of items, and those of classes

maps(
    "NegativeLogLikelihoodLoss", "nll", since=12, attributes=_LOSS, takes=_TAKES, inputs=_INPUTS,
)  # fmt: skip
_ENTROPY = Rule("sparse_softmax_cross_entropy", described(_LOSS), _TAKES, _INPUTS)


@reads("SoftmaxCrossEntropyLoss", since=12, attributes=_LOSS)
def softmax_cross_entropy(node: OnnxNode, scores: Any, *labels_and_weights: Any) -> Any:
    loss = _ENTROPY(node, scores, *labels_and_weights)
    return (loss, op("log_softmax", axis=1)(scores)) if len(node.wanted) > 1 else loss

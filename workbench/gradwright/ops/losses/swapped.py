"""Swapped: whether what a network computes stands where a loss takes labels, and data beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...errors import GraphError
from ...op import Op
from ..core.elementwise import Add
from ..core.identity import Identity, StopGradient
from ..core.masking import OneHot
from ..core.movement import Cast, ExpandDims, Squeeze, Transpose
from ..core.reshape import Flatten, Reshape
from ..layers.nn import Linear, Softmax
from ..layers.projections import BiasAdd
from ..matrices.linalg import Matmul

SAME_ELEMENTS = (Cast, ExpandDims, Flatten, Identity, Reshape, Squeeze, StopGradient, Transpose)
"""Ops that give the elements of their first input."""


def refuse_swapped(op: Op, labels: Any, predictions: Any) -> None:
    """Raise GraphError where labels and predictions of a loss are surely in each other's place.

    That is: labels are what a layer with trained weights gives, and predictions are fed, one-hot,
    or a softmax. Of tensors whose origin says less nothing is said, as of labels that are
    probabilities, which a teacher gives.
    """
    if not (hasattr(labels, "node") and hasattr(predictions, "node")):
        return
    given = source(predictions)
    if _is_settled(given) and _is_layer(source(labels)):
        raise GraphError(
            f"{op.name}: labels and predictions are in each other's place",
            facts=[
                f"labels : {labels.spec} from {labels.name!r}, the output of trained weights",
                f"predictions : {predictions.spec} from {given.name!r}, a {given.op.title}",
            ],
            need="labels first, then predictions",
            hint=_other_way_round(op),
        )


def source(tensor: Any) -> Any:
    """Return the tensor whose elements a tensor has, through casts, reshapes and the like."""
    while isinstance(tensor.node.op, SAME_ELEMENTS):
        tensor = tensor.node.inputs[0]
    return tensor


def _is_settled(tensor: Any) -> bool:
    return tensor.kind == "placeholder" or isinstance(tensor.node.op, OneHot | Softmax)


def _is_layer(tensor: Any) -> bool:
    if not isinstance(tensor.node.op, Add | BiasAdd | Linear | Matmul):
        return False
    return any(t is not None and source(t).trainable for t in tensor.node.inputs)


def _other_way_round(op: Op) -> str:
    from ...words.typed import typed

    call = typed(op.name)
    if call is None or call.args is None or len(call.args) < 2:
        return f"gw.loss.{op.name}(labels, predictions)"
    labels, predictions, *others = call.args
    return replace(call, args=(predictions, labels, *others)).text
